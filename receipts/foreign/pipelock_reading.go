package foreign

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/truegreen-dev/truegreen/receipts/pipelock"
)

// A pipelockReading is one verification.
type pipelockReading struct {
	a     *pipelockAdapter
	o     *PipelockOptions
	ctx   context.Context
	v     Verification
	codes map[string]bool // of the violations so far: each is told once
	d     pipelock.Decoder

	actions   pipelock.Chain
	evidences pipelock.EvidenceChain
	recorder  pipelock.Recorder
	stopped   bool

	now           time.Time
	ids, blocked  *window
	buf           []byte
	ext           bool
	endorsed      string // the segment's key, where an endorsement made it count
	used          []bool // of the endorsements
	rooted        bool   // there was a transcript_root of the chain
	anchored      bool   // and a signed checkpoint after it
	headSeen      bool
	last          pipelockSubject
	hasLastAction bool
}

// A pipelockSubject is the receipt that a verification speaks about.
type pipelockSubject struct {
	issuer, id, target, verdict string
	time                        time.Time
}

// say sets an answer, if it is worse than what it was, and tells why.
func (p *pipelockReading) say(answer *Answer, a Answer, seq int64, code, format string, args ...any) {
	*answer = max(*answer, a)
	if p.codes[code] {
		return
	}
	p.codes[code] = true
	v := Violation{Code: code, Detail: fmt.Sprintf(format, args...), Answer: a}
	if seq >= 0 {
		v.Seq = &seq
	}
	p.v.Violations = append(p.v.Violations, v)
}

// no is say with an error of the format.
func (p *pipelockReading) no(answer *Answer, seq int64, err error) {
	var e *pipelock.Error
	if errors.As(err, &e) {
		p.say(answer, No, seq, e.Code, "%v", e.Err)
	}
}

// signed checks r's signature, and whose it is. A signature that nobody made says
// nothing of whom to trust.
func (p *pipelockReading) signed(r *pipelock.Receipt) {
	key, ok := p.a.keys[r.SignerKey]
	if !ok {
		named, err := pipelock.ParseKey(r.SignerKey)
		if err == nil {
			key = named
		}
		switch {
		case len(p.a.keys) == 0:
			p.say(&p.v.Trust, Unproven, -1, "no-key", "the receipt names its own key, and the caller none")
		case p.endorsed == "" || p.endorsed != r.SignerKey:
			p.say(&p.v.Trust, No, r.Seq, "signer-key-untrusted", "%.80q is none of the keys that count", r.SignerKey)
		}
	}
	p.verdict(r.Verify(key), r.Seq)
}

func (p *pipelockReading) verdict(good bool, seq int64) {
	if !good {
		p.say(&p.v.Signature, No, seq, "signature-invalid", "not what the key signed")
		p.v.Trust = max(p.v.Trust, Unproven)
		p.stopped = true
		return
	}
	p.v.Signature, p.v.Trust = max(p.v.Signature, Yes), max(p.v.Trust, Yes)
}

// action takes what r is about.
func (p *pipelockReading) action(r *pipelock.Receipt) {
	p.ext = p.ext || r.Ext
	p.unsafe(r.Unsafe(), r.Seq)
	p.subject(r.Control == nil, r.Seq, r.SignerKey, r.Time, r.ActionID, r.Phase, r.Target, r.Verdict)
	if p.ids == nil || r.Control != nil {
		return
	}
	p.replay("1", r.SignerKey, r.ActionID, r.Phase, r.Seq)
	p.reversal("1", r.Target, r.PolicyHash, r.Verdict, r.Override, r.Seq)
}

func (p *pipelockReading) subject(isAction bool, seq int64, issuer string, t time.Time, id, phase, target, verdict string) {
	if p.now.IsZero() {
		p.now = p.o.now()
	}
	if t.After(p.now.Add(p.o.skew())) {
		p.say(&p.v.Freshness, No, seq, "from-the-future", "it says %s", t.Format(time.RFC3339))
	}
	if p.hasLastAction && !isAction {
		return
	}
	p.hasLastAction = isAction
	if phase != "" {
		id += "/" + phase
	}
	p.last = pipelockSubject{issuer, id, target, verdict, t}
}

// unsafe refuses what would mean something else where it is shown or sent on.
func (p *pipelockReading) unsafe(name string, seq int64) {
	if name != "" {
		p.say(&p.v.Binding, No, seq, "header-injection", "%s has a control character in it", name)
	}
}

// replay refuses an action that was there before. An action has one receipt in each
// phase of its decision, so that intent and outcome have one id.
func (p *pipelockReading) replay(version, issuer, id, phase string, seq int64) {
	var key [16]byte
	key, p.buf = windowKey(p.buf, version, issuer, id, phase)
	if p.ids.has(key) {
		p.say(&p.v.Freshness, No, seq, pipelock.Replay, "the action %.80q is there twice", id)
		return
	}
	p.ids.add(key)
}

// reversal refuses to allow what was blocked before under the same policy.
func (p *pipelockReading) reversal(version, target, policy, verdict string, override bool, seq int64) {
	if p.o.AllowReversals || verdict != "block" && verdict != "allow" {
		return
	}
	var key [16]byte
	key, p.buf = windowKey(p.buf, version, target, policy)
	was := p.blocked.has(key)
	switch {
	case verdict == "block" && !was:
		p.blocked.add(key)
	case verdict == "allow" && was && !override:
		p.say(&p.v.Decision, No, seq, "verdict-chain-mismatch", "%.200q was blocked before under the same policy", target)
	}
}

// nextAction takes the next receipt of a chain.
func (p *pipelockReading) nextAction(r *pipelock.Receipt) {
	if r.Transition != nil {
		p.endorse(r)
	}
	p.signed(r)
	if err := p.actions.Add(r); err != nil {
		p.no(&p.v.Chain, r.Seq, err)
		p.stopped = true
	}
	if p.stopped {
		return
	}
	p.action(r)
	p.headSeen = p.headSeen || p.o.Head != "" && p.o.Head == r.HashText()
}

// endorse looks for the old key's word for the new one at a rotation.
func (p *pipelockReading) endorse(r *pipelock.Receipt) {
	old := r.Transition.SignerKey
	_, counts := p.a.keys[old]
	counts = counts || p.endorsed != "" && p.endorsed == old
	p.endorsed = ""
	found := -1
	for i := range p.o.Endorsements {
		if !p.o.Endorsements[i].Names(p.actions.Session(), r) {
			continue
		}
		if found >= 0 {
			p.say(&p.v.Trust, No, r.Seq, "endorsement-ambiguous", "two are of one rotation")
			return
		}
		found = i
	}
	if found < 0 {
		return
	}
	if p.used == nil {
		p.used = make([]bool, len(p.o.Endorsements))
	}
	p.used[found] = true
	if !counts || !p.o.Endorsements[found].Verify() {
		p.say(&p.v.Trust, No, r.Seq, "endorsement-invalid", "not what a key that counts signed")
		return
	}
	p.endorsed = r.SignerKey
}

func (p *pipelockReading) endorsementsUsed() {
	for i := range p.o.Endorsements {
		if p.used == nil || !p.used[i] {
			p.say(&p.v.Trust, No, -1, "endorsement-unused", "number %d is of no rotation of this chain", i)
		}
	}
}

// evidence checks a receipt of version 2, whose signer is a name.
func (p *pipelockReading) evidence(e *pipelock.Evidence) {
	issuer := e.KeyID
	own, err := pipelock.ParseKey(e.KeyID)
	candidates := p.a.named[e.KeyID]
	if key, ok := p.a.keys[e.KeyID]; ok {
		candidates = []ed25519.PublicKey{key}
	} else if len(candidates) == 0 && err != nil {
		candidates = p.a.named[""]
	}
	switch {
	case len(candidates) > 0:
		good := false
		for _, key := range candidates {
			if e.Verify(key) {
				good, issuer = true, hex.EncodeToString(key)
				break
			}
		}
		p.verdict(good, e.Seq)
	case len(p.a.keys) > 0:
		p.say(&p.v.Trust, No, e.Seq, "signer-key-untrusted", "%.80q is none of the keys that count", e.KeyID)
	default:
		p.say(&p.v.Trust, Unproven, -1, "no-key", "the receipt names its own key, and the caller none")
	}
	if len(candidates) == 0 {
		if err == nil {
			p.verdict(e.Verify(own), e.Seq)
		} else {
			p.say(&p.v.Signature, Unproven, e.Seq, "signature-unchecked", "the receipt has no key in it")
		}
	}
	p.unsafe(e.Unsafe(), e.Seq)
	p.subject(e.Verdict != "", e.Seq, issuer, e.Time, e.EventID, "", e.Target, e.Verdict)
	if p.ids == nil {
		return
	}
	p.replay("2", e.KeyID, e.EventID, "", e.Seq)
	p.reversal("2", e.Target, e.PolicyHash, e.Verdict, false, e.Seq)
}

func (p *pipelockReading) nextEvidence(e *pipelock.Evidence) {
	if err := p.evidences.Add(e); err != nil {
		p.no(&p.v.Chain, e.Seq, err)
		p.stopped = true
		return
	}
	p.evidence(e)
	p.headSeen = p.headSeen || p.o.Head != "" && p.o.Head == e.HashText()
}

// about answers the questions that are about one receipt: the only one, or a chain's
// last one of an action.
func (p *pipelockReading) about(b Binding) error {
	v, s := &p.v, &p.last
	best := Yes
	if p.stopped {
		best = Unproven // the receipt was not reached, or is nobody's
	}
	v.Issuer, v.Target, v.Said, v.Issued = s.issuer, s.target, s.verdict, s.time
	if p.o.MaxAge > 0 {
		v.Freshness = max(v.Freshness, best)
		v.Expires = s.time.Add(p.o.MaxAge)
		if age := p.now.Sub(s.time); age > p.o.MaxAge+p.o.skew() {
			p.say(&v.Freshness, No, -1, "expired", "it is of %s; the limit is %s", s.time.Format(time.RFC3339), p.o.MaxAge)
		}
	}
	if b.asked() || p.o.Session != "" {
		v.Binding = max(v.Binding, best)
	}
	if p.o.Session != "" && p.actions.Session() != p.o.Session {
		p.say(&v.Binding, No, -1, "session-mismatch", "the chain opens %.80q", p.actions.Session())
	}
	if b.Tool != "" {
		p.say(&v.Binding, No, -1, "tool-not-carried", "a pipelock receipt names no tool; the format jws does")
	}
	if b.ArgHash != "" {
		p.say(&v.Binding, No, -1, "arg-hash-not-carried", "a pipelock receipt has no arg_hash; the format jws does")
	}
	if b.Target != "" && (s.target != b.Target || !p.hasLastAction) {
		p.say(&v.Binding, No, -1, "target-mismatch", "it is about %.200q", s.target)
	}
	if b.Allowed {
		v.Decision = max(v.Decision, best)
		switch {
		case !p.hasLastAction:
			p.say(&v.Decision, No, -1, "no-action", "there is no receipt of an action")
		case s.verdict != "allow":
			p.say(&v.Decision, No, -1, "not-allowed", "the verdict is %.80q", s.verdict)
		}
	}
	if p.o.Seen == nil {
		return nil
	}
	v.Freshness = max(v.Freshness, best)
	if !v.Trusted() {
		// What does not count in any case must not use up one that does.
		return nil
	}
	var until time.Time
	if p.o.MaxAge > 0 {
		until = s.time.Add(p.o.MaxAge + p.o.skew())
	}
	fresh, err := p.o.Seen.Add(p.ctx, s.issuer, s.id, until)
	if err != nil {
		return fmt.Errorf("pipelock: seen: %w", err)
	}
	if !fresh {
		p.say(&v.Freshness, No, -1, pipelock.Replay, "it was seen before")
	}
	return nil
}
