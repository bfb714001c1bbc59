package foreign

import (
	"crypto/ed25519"

	"github.com/truegreen-dev/truegreen/receipts/pipelock"
)

// What proves the end of a chain.
const (
	endHead  = "expected-head"
	endSeq   = "expected-seq"
	endClose = "session-close"
	endRoot  = "transcript-root"
)

// entry takes the next entry of a recorder.
func (p *pipelockReading) entry(text []byte) error {
	e, err := p.d.Entry(text)
	if err != nil {
		return err
	}
	if p.o.WholeRecorder {
		if err := p.recorder.Add(e); err != nil {
			p.no(&p.v.Chain, e.Seq, err)
			p.stopped = true
			return nil
		}
	}
	if p.rooted && e.Type != pipelock.Checkpoint {
		p.say(&p.v.End, No, e.Seq, pipelock.AfterSeal, "an entry of type %s after the transcript_root", e.Type)
	}
	switch e.Type {
	case pipelock.ActionReceipt:
		r, err := p.d.Decode(e.ReceiptText())
		if err != nil {
			return err
		}
		p.nextAction(r)
	case pipelock.EvidenceReceipt:
		r, err := p.d.Evidence(e.ReceiptText())
		if err != nil {
			return err
		}
		p.nextEvidence(r)
	case pipelock.TranscriptRoot:
		s, err := p.d.Seal(e)
		if err != nil {
			return err
		}
		if err := s.Check(&p.actions, e); err != nil {
			p.no(&p.v.End, e.Seq, err)
			return nil
		}
		p.rooted = true
	case pipelock.Checkpoint:
		return p.checkpoint(e)
	}
	return nil
}

// checkpoint takes a checkpoint, whose signature covers all entries before it if they
// were checked.
func (p *pipelockReading) checkpoint(e *pipelock.Entry) error {
	if !p.o.WholeRecorder {
		return nil
	}
	s, err := p.d.Seal(e)
	if err != nil {
		return err
	}
	if s.Signature == "" {
		return nil
	}
	for _, key := range p.counting() {
		if s.Verify(key) {
			p.anchored = p.anchored || p.rooted
			return nil
		}
	}
	p.say(&p.v.Signature, No, e.Seq, "checkpoint-signature-invalid", "not what a key that counts signed")
	p.stopped = true
	return nil
}

// counting returns the keys that may sign a checkpoint: those that count, or the
// chain's own where there are none.
func (p *pipelockReading) counting() (keys []ed25519.PublicKey) {
	for _, key := range p.a.keys {
		keys = append(keys, key)
	}
	own := p.endorsed
	if len(p.a.keys) == 0 {
		own = p.last.issuer
	}
	if key, err := pipelock.ParseKey(own); err == nil {
		keys = append(keys, key)
	}
	return keys
}

// end says what proves that nothing was cut off. Any beginning of a chain is a chain.
func (p *pipelockReading) end() {
	v := &p.v
	if p.stopped {
		v.Chain, v.End = max(v.Chain, Unproven), max(v.End, Unproven)
		if v.Signature == NotAsked {
			v.Signature, v.Trust = Unproven, Unproven // no receipt came to be asked
		}
		return
	}
	mixed := p.actions.Len() > 0 && p.evidences.Len() > 0
	seq := p.actions.Seq()
	if p.actions.Len() == 0 {
		seq = p.evidences.Len() - 1
	}
	if p.o.Head != "" && p.o.Head != v.Head {
		if p.headSeen {
			p.say(&v.End, No, -1, "head-mismatch", "receipts come after the one that was to be the last")
		} else {
			p.say(&v.End, No, -1, "head-mismatch", "the chain ends with %s, and the expected receipt is not in it: receipts are missing, or it is another chain", v.Head)
		}
	}
	switch {
	case p.o.Seq != nil && seq < *p.o.Seq:
		p.say(&v.End, No, -1, pipelock.Truncated, "it ends with chain_seq %d, before %d", seq, *p.o.Seq)
	case p.o.Seq != nil && seq > *p.o.Seq:
		p.say(&v.End, No, -1, "seq-mismatch", "it ends with chain_seq %d, after %d", seq, *p.o.Seq)
	}
	if v.End == No {
		return
	}
	switch root := p.o.WholeRecorder && p.anchored; {
	case mixed && root:
		v.EndProof = endRoot
	case mixed:
		p.say(&v.End, Unproven, -1, "end-unproven", "nothing marks the end of the evidence receipts in it but a transcript_root under a signed checkpoint, with the whole recorder checked")
	case p.o.Head != "":
		v.EndProof = endHead
	case p.o.Seq != nil:
		v.EndProof = endSeq
	case p.actions.Closed():
		v.EndProof = endClose
	case root:
		v.EndProof = endRoot
	case p.rooted:
		p.say(&v.End, Unproven, -1, "end-unproven", "no signed checkpoint after the transcript_root was checked")
	default:
		p.say(&v.End, Unproven, -1, "end-unproven", "a beginning of a chain, in order; nothing shows that it is all of it")
	}
}
