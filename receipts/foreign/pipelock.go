package foreign

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts/pipelock"
)

const pipelockName = "pipelock"

// PipelockOptions are the anchors and rules of [NewPipelock].
type PipelockOptions struct {
	Rules

	// Keys are the Ed25519 keys that count. One with a name counts for evidence receipts
	// (version 2) of that signer_key_id, and one without for those of any that is not a
	// key itself. Without keys, no receipt is trusted: each names its own.
	Keys []Key

	// Exact refuses what the format's own writer would write otherwise: another order of
	// members, white space, escapes, upper-case digits.
	Exact bool

	// Endorsements let a chain change its key to one that is not in Keys: the old key's
	// word for the new one. Each has to be used.
	Endorsements []pipelock.Endorsement

	// Session is the recorder's session that the chain has to have opened. "" asks for none.
	Session string

	// WholeRecorder checks the entries of a flight recorder, and not the receipts in them
	// alone, so that its transcript_root can prove the end.
	WholeRecorder bool

	// Seq is the chain_seq of the last receipt, as the caller learned it from elsewhere:
	// it proves the end. Nil where the caller does not know.
	Seq *int64

	// Window is how many receipts of a chain are remembered, to find an action that is
	// there twice or a target that was blocked before. 0: [DefaultWindow].
	Window int

	// AllowReversals lets a chain allow what it blocked before under the same policy.
	AllowReversals bool
}

type pipelockAdapter struct {
	o     PipelockOptions
	keys  map[string]ed25519.PublicKey   // by their digits
	named map[string][]ed25519.PublicKey // by their names
}

// NewPipelock returns an adapter for receipts of Pipelock: action receipts (version 1),
// evidence receipts (version 2), chains of either, and flight recorders, told apart by
// what they are. See package pipelock for what they look like, and for the codes.
//
// Where a chain is asked for, Signature, Trust and Chain are about each of its receipts,
// and so is [Rules.Skew]: a receipt from the future is refused even where no age is asked
// for. Binding, Decision and the rest of Freshness are about its last receipt of an
// action, as those of a session's life are about none.
//
// The format has no member for a tool or for the hash of arguments. A [Binding] that
// asks for them is answered No.
func NewPipelock(o PipelockOptions) (Adapter, error) {
	a := &pipelockAdapter{o, map[string]ed25519.PublicKey{}, map[string][]ed25519.PublicKey{}}
	for i, k := range o.Keys {
		public, ok := k.Public.(ed25519.PublicKey)
		if !ok || len(public) != ed25519.PublicKeySize || k.Secret != nil {
			return nil, fmt.Errorf("pipelock: key %d: want an Ed25519 public key", i)
		}
		a.keys[hex.EncodeToString(public)] = public
		a.named[k.Name] = append(a.named[k.Name], public)
	}
	_, headErr := pipelock.ParseKey(o.Head) // of the same form
	switch {
	case o.Head != "" && headErr != nil:
		return nil, errors.New("pipelock: head: want 64 lower-case hexadecimal digits")
	case !o.Chain && (o.Head != "" || o.Session != "" || o.WholeRecorder || o.Seq != nil || len(o.Endorsements) > 0):
		return nil, errors.New("pipelock: a head, sequence, session, recorder or endorsement is a chain's")
	case len(o.Endorsements) > 0 && len(o.Keys) == 0:
		return nil, errors.New("pipelock: endorsements begin at a key that counts: want one")
	case o.Window < 0:
		return nil, errors.New("pipelock: window: want none or more")
	case o.Window == 0:
		a.o.Window = DefaultWindow
	}
	return a, nil
}

func (a *pipelockAdapter) Name() string { return pipelockName }

func (a *pipelockAdapter) Verify(ctx context.Context, r io.Reader, b Binding) (Verification, error) {
	p := &pipelockReading{a: a, o: &a.o, ctx: ctx, codes: map[string]bool{}}
	p.v.Adapter = pipelockName
	p.d.Exact = a.o.Exact
	var err error
	if a.o.Chain {
		err = p.chain(r)
	} else {
		err = p.one(r)
	}
	if err == nil {
		err = p.about(b)
	}
	if err != nil {
		return Verification{}, err
	}
	return p.v, nil
}

// malformed gives an error of the format the adapter's name. Others are of the reader.
func malformed(err error, line int64) error {
	var e *pipelock.Error
	if errors.As(err, &e) {
		return &MalformedError{pipelockName, e.Code, line, e.Err}
	}
	return fmt.Errorf("pipelock: %w", err)
}

// one reads a single receipt.
func (p *pipelockReading) one(r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, pipelock.MaxReceipt+1))
	if err != nil {
		return fmt.Errorf("pipelock: %w", err)
	}
	if len(text) > pipelock.MaxReceipt {
		return &MalformedError{pipelockName, pipelock.TooLong, 0, fmt.Errorf("more than %d bytes", pipelock.MaxReceipt)}
	}
	if len(bytes.Trim(text, " \t\r\n")) == 0 {
		return &MalformedError{pipelockName, pipelock.Empty, 0, errors.New("no receipt")}
	}
	switch p.d.Recognize(text) {
	case pipelock.FormEntry:
		return &MalformedError{pipelockName, pipelock.UnknownWrapper, 0, errors.New("a recorder's entry: ask for a chain")}
	case pipelock.FormEvidence:
		p.v.Form = "v2 receipt"
		e, err := p.d.Evidence(text)
		if err != nil {
			return malformed(err, 0)
		}
		p.evidence(e)
	default:
		p.v.Form = "v1 receipt"
		r, err := p.d.Decode(text)
		if err != nil {
			return malformed(err, 0)
		}
		p.signed(r)
		p.action(r)
	}
	p.v.Receipts = 1
	return nil
}

// chain reads a chain, or the chains of a recorder, up to the first receipt that is not
// the next.
func (p *pipelockReading) chain(r io.Reader) error {
	p.ids, p.blocked = newWindow(p.o.Window), newWindow(p.o.Window)
	lines, form := pipelock.NewLineReader(r), pipelock.FormUnknown
	p.v.Chain, p.v.End = Yes, Yes
	for !p.stopped {
		if lines.Line()%64 == 0 && p.ctx.Err() != nil {
			return fmt.Errorf("pipelock: %w", p.ctx.Err())
		}
		text, err := lines.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return malformed(err, lines.Line())
		}
		if err := p.line(text, &form); err != nil {
			return malformed(err, lines.Line())
		}
	}
	if form == pipelock.FormUnknown || p.v.Signature == NotAsked && !p.stopped {
		return &MalformedError{pipelockName, pipelock.Empty, 0, errors.New("no receipt")}
	}
	p.v.Form = map[pipelock.Form]string{pipelock.FormReceipt: "v1 chain", pipelock.FormEvidence: "v2 chain", pipelock.FormEntry: "recorder"}[form]
	p.v.Receipts = p.actions.Len() + p.evidences.Len()
	if p.v.Head = p.actions.Head(); p.actions.Len() == 0 {
		p.v.Head = p.evidences.Head()
	}
	p.uncovered(form)
	p.endorsementsUsed()
	p.end()
	return nil
}

// line reads a line of a chain. The first one says of which form they all have to be.
func (p *pipelockReading) line(text []byte, form *pipelock.Form) error {
	found := p.d.Recognize(text)
	if found == pipelock.FormUnknown {
		found = max(*form, pipelock.FormReceipt) // whose reader says what is wrong
	}
	if *form == pipelock.FormUnknown {
		*form = found
	}
	if found != *form {
		return &pipelock.Error{Code: pipelock.MixedFormats, Err: errors.New("a line of another form than the first")}
	}
	switch found {
	case pipelock.FormEntry:
		return p.entry(text)
	case pipelock.FormEvidence:
		e, err := p.d.Evidence(text)
		if err == nil {
			p.nextEvidence(e)
		}
		return err
	}
	r, err := p.d.Decode(text)
	if err == nil {
		p.nextAction(r)
	}
	return err
}

// uncovered names what the verified text has, and no signature covers.
func (p *pipelockReading) uncovered(form pipelock.Form) {
	if form == pipelock.FormEntry && !(p.o.WholeRecorder && p.anchored) {
		p.v.Uncovered = append(p.v.Uncovered, strings.Fields("v seq ts session_id chain_kind writer_instance_id trace_id type event_kind transport summary raw_ref prev_hash hash")...)
	}
	if p.ext {
		p.v.Uncovered = append(p.v.Uncovered, "ext")
	}
}
