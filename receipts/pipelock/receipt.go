package pipelock

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"
	"unicode"
)

// A Receipt is an action receipt of version 1 that nobody has verified.
type Receipt struct {
	ActionID   string
	ActionType string
	Time       time.Time
	Principal  string
	Actor      string
	Target     string
	PolicyHash string
	Verdict    string
	Phase      string // decision_phase: an action has one receipt in each
	Override   bool   // task_override_applied
	Transport  string
	PrevHash   string
	Seq        int64
	RunNonce   string
	Transition *Transition // of the signer's key
	Control    *Control    // of a run's life; such a receipt is about no action

	SignerKey string // 64 hexadecimal digits, if it is a key
	Signature string
	Ext       bool // there is an ext, which no signature covers

	Hash [sha256.Size]byte // what the next receipt names

	digest [sha256.Size]byte // what is signed
	unsafe string            // the first name of something with a control character in it
}

// A Transition says which key signed the chain before.
type Transition struct {
	SignerKey string
	Seq       int64
	Hash      string
}

// A Control is a receipt's part in the life of a run.
type Control struct {
	Kind      string // session_open, heartbeat or session_close
	RunNonce  string
	OpenNonce string

	// Of a session_open.
	Session     string // recorder_session
	OpenSeq     int64
	PriorHead   string
	PriorSeq    int64
	GenesisHash string
	genesis     string // what GenesisHash has to be

	Head  string // chain_head of a heartbeat, root_hash of a close
	Seq   int64  // chain_seq_head, or final_seq
	Count int64  // receipt_count of a close
}

// The kinds of control.
const (
	Open      = "session_open"
	Heartbeat = "heartbeat"
	Close     = "session_close"
)

func isActionType(s string) bool {
	switch s {
	case "read", "derive", "write", "delegate", "authorize", "spend", "commit", "actuate", "unclassified":
		return true
	}
	return false
}

// Decode reads the text of one receipt.
func (d *Decoder) Decode(text []byte) (*Receipt, error) {
	text = bytes.Trim(text, " \t\r\n")
	err := d.read(text, envelope())
	if e := new(Error); errors.As(err, &e) && e.Code == codeUnknownField {
		if w := unwrap(text); w != nil {
			return nil, w
		}
	}
	// Faults of a later rule do not hide those of an earlier one.
	late := err != nil && d.fault != nil && d.rank > rankVersion
	if err == nil || late {
		switch {
		case d.has[sVersion] && d.number[sVersion] != 1:
			return nil, wrong(codeUnsupportedVersion, "version %d", d.number[sVersion])
		case d.has[sRecordVersion] && d.number[sRecordVersion] != 1:
			return nil, wrong(codeUnsupportedVersion, "action_record.version %d", d.number[sRecordVersion])
		}
	}
	if err != nil {
		return nil, err
	}
	for _, m := range [...]struct {
		name string
		keep slot
	}{
		{"action_id", sActionID}, {"target", sTarget}, {"verdict", sVerdict}, {"transport", sTransport},
		{"signature", sSignature}, {"signer_key", sSignerKey},
	} {
		if d.text[m.keep] == "" {
			return nil, wrong(codeMissingField, "%s is empty", m.name)
		}
	}
	if !isActionType(d.text[sActionType]) {
		return nil, wrong(codeInvalidActionType, "%q", d.text[sActionType])
	}
	r := d.receipt()
	if err := d.control(r); err != nil {
		return nil, err
	}
	if d.Exact && (!bytes.Equal(d.out, text) || strings.ToLower(r.Signature) != r.Signature) {
		return nil, wrong(codeNotCanonical, "its writer would write it otherwise")
	}
	return r, nil
}

// receipt returns what the decoder has read.
func (d *Decoder) receipt() *Receipt {
	r := &Receipt{
		ActionID: d.text[sActionID], ActionType: d.text[sActionType], Time: d.when,
		Principal: d.text[sPrincipal], Actor: d.text[sActor], Target: d.text[sTarget],
		PolicyHash: d.text[sPolicyHash], Verdict: d.text[sVerdict], Phase: d.optional(sPhase),
		Override:  d.has[sOverride] && d.number[sOverride] == 1,
		Transport: d.text[sTransport], PrevHash: d.text[sPrevHash], Seq: d.number[sSeq],
		RunNonce:  d.optional(sRunNonce),
		SignerKey: d.text[sSignerKey], Signature: d.text[sSignature], Ext: d.has[sExt],
		Hash: sha256.Sum256(d.out), digest: d.digest,
	}
	if d.has[sTransition] {
		r.Transition = &Transition{d.text[sPriorKey], d.number[sPriorSeq], d.text[sPriorHash]}
	}
	for _, m := range identifiers {
		if s := d.optional(m.keep); strings.IndexFunc(s, unicode.IsControl) >= 0 {
			r.unsafe = m.name
			break
		}
	}
	return r
}

// identifiers are the members that name things: what shows them, or sends them on in a
// header, must be able to rely on their having no control characters.
var identifiers = []struct {
	name string
	keep slot
}{
	{"action_id", sActionID}, {"parent_action_id", sParentID}, {"principal", sPrincipal}, {"actor", sActor},
	{"target", sTarget}, {"policy_hash", sPolicyHash}, {"verdict", sVerdict}, {"decision_phase", sPhase},
	{"defer_id", sDeferID}, {"session_id", sSession}, {"transport", sTransport}, {"method", sMethod},
	{"request_id", sRequestID}, {"chain_prev_hash", sPrevHash}, {"run_nonce", sRunNonce},
}

func (d *Decoder) optional(at slot) string {
	if !d.has[at] {
		return ""
	}
	return d.text[at]
}

func (d *Decoder) optionalNumber(at slot) int64 {
	if !d.has[at] {
		return 0
	}
	return d.number[at]
}

// control fills in r.Control.
func (d *Decoder) control(r *Receipt) error {
	if !d.has[sControl] {
		return nil
	}
	payloads := 0
	for _, at := range [...]slot{sOpen, sBeat, sClose} {
		if d.has[at] {
			payloads++
		}
	}
	c := &Control{Kind: d.text[sControlKind], RunNonce: d.optional(sControlRun), OpenNonce: d.optional(sControlNonce)}
	at, known := map[string]slot{Open: sOpen, Heartbeat: sBeat, Close: sClose}[c.Kind]
	switch {
	case !known:
		return wrong(codeInvalidControl, "kind %q", c.Kind)
	case payloads != 1 || !d.has[at]:
		return wrong(codeInvalidControl, "want exactly one payload, that of its kind")
	}
	switch c.Kind {
	case Open:
		c.Session, c.OpenSeq = d.text[sOpenSession], d.number[sOpenSeq]
		c.PriorHead, c.PriorSeq = d.optional(sOpenHead), d.optionalNumber(sOpenPriorSeq)
		c.GenesisHash, c.genesis = d.optional(sOpenGenesis), d.genesis()
	case Heartbeat:
		c.Head, c.Seq = d.text[sBeatHead], d.number[sBeatSeq]
	case Close:
		c.Head, c.Seq, c.Count = d.text[sCloseRoot], d.number[sCloseSeq], d.number[sCloseCount]
	}
	r.Control = c
	return nil
}

// Unsafe returns the name of an identifier with a control character in it, or "".
func (r *Receipt) Unsafe() string { return r.unsafe }

// Verify reports whether r's signature is one that key made. The caller says whose
// key: the one that r names is as good as r is.
func (r *Receipt) Verify(key ed25519.PublicKey) bool {
	sig, ok := parseSignature(r.Signature)
	return ok && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, r.digest[:], sig[:])
}

// HashText returns r.Hash as the next receipt and an expected head have it.
func (r *Receipt) HashText() string { return hex.EncodeToString(r.Hash[:]) }

const signaturePrefix = "ed25519:"

func parseSignature(s string) (sig [ed25519.SignatureSize]byte, ok bool) {
	s, ok = strings.CutPrefix(s, signaturePrefix)
	if !ok || len(s) != hex.EncodedLen(len(sig)) {
		return sig, false
	}
	_, err := hex.Decode(sig[:], []byte(s))
	return sig, err == nil
}

// ParseKey reads a key as receipts name it: 64 lower-case hexadecimal digits.
func ParseKey(s string) (ed25519.PublicKey, error) {
	key, err := hex.DecodeString(s)
	if err != nil || len(key) != ed25519.PublicKeySize || strings.ToLower(s) != s {
		return nil, errors.New("key: want 64 lower-case hexadecimal digits")
	}
	return key, nil
}
