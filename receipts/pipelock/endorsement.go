package pipelock

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// MaxEndorsement is how many bytes an endorsement may have.
const MaxEndorsement = 64 << 10

const endorsementLabel = "pipelock-rotation-endorsement-v1\x00"

// An Endorsement is the old key's word for the new one at one rotation of one chain.
type Endorsement struct {
	Session  string
	PriorKey string
	FinalSeq int64
	TailHash string
	NewKey   string

	digest    [sha256.Size]byte
	signature [ed25519.SignatureSize]byte
}

// Its members reuse slots of a receipt's: a decoder reads one or the other.
var endorsement = sync.OnceValue(func() schema {
	return schema{
		always("version", kInt, sVersion),
		always("session_id", kString, sSession),
		always("prior_signer_key", kString, sPriorKey),
		always("prior_final_seq", kUint, sPriorSeq),
		always("prior_tail_hash", kString, sPriorHash),
		always("new_signer_key", kString, sSignerKey),
		always("rotated_at", kString, sRequestID),
		always("endorsement", kString, sSignature),
	}
})

// ParseEndorsement reads an endorsement. Its signature is checked where a chain has
// the rotation.
func ParseEndorsement(text []byte) (Endorsement, error) {
	e, err := parseEndorsement(text)
	if err != nil {
		return Endorsement{}, fmt.Errorf("endorsement: %w", err)
	}
	return e, nil
}

func parseEndorsement(text []byte) (e Endorsement, err error) {
	if len(text) > MaxEndorsement {
		return e, fmt.Errorf("%d bytes: the limit is %d", len(text), MaxEndorsement)
	}
	var d Decoder
	if err := d.read(text, endorsement()); err != nil {
		return e, err
	}
	e.Session, e.PriorKey, e.FinalSeq = d.text[sSession], d.text[sPriorKey], d.number[sPriorSeq]
	e.TailHash, e.NewKey = d.text[sPriorHash], d.text[sSignerKey]
	at := d.text[sRequestID]
	t, timeErr := parseTime([]byte(at))
	_, priorErr := ParseKey(e.PriorKey)
	_, newErr := ParseKey(e.NewKey)
	_, tailErr := ParseKey(e.TailHash) // of the same form
	var ok bool
	e.signature, ok = parseSignature(d.text[sSignature])
	switch {
	case d.number[sVersion] != 1:
		return e, wrong(codeUnsupportedVersion, "version %d", d.number[sVersion])
	case e.Session == "":
		return e, errors.New("session_id is empty")
	case priorErr != nil || newErr != nil || tailErr != nil:
		return e, errors.New("keys and hashes: want 64 lower-case hexadecimal digits")
	case e.PriorKey == e.NewKey:
		return e, errors.New("it does not change the key")
	case timeErr != nil || t.UTC().Format(time.RFC3339Nano) != at:
		return e, errors.New("rotated_at: not a time in UTC as it is printed")
	case !ok || strings.ToLower(d.text[sSignature]) != d.text[sSignature]:
		return e, errors.New("endorsement: not a signature")
	}
	signed, _, _ := strings.Cut(string(d.out), `,"endorsement":"`) // the last member
	e.digest = sha256.Sum256([]byte(endorsementLabel + signed + "}"))
	return e, nil
}

// Names reports whether e is about the rotation that r begins, in a chain of a session.
func (e *Endorsement) Names(session string, r *Receipt) bool {
	t := r.Transition
	return t != nil && session != "" && e.Session == session && e.PriorKey == t.SignerKey && e.FinalSeq == t.Seq &&
		e.TailHash == t.Hash && e.NewKey == r.SignerKey
}

// Verify reports whether the old key made e.
func (e *Endorsement) Verify() bool {
	key, err := ParseKey(e.PriorKey)
	return err == nil && ed25519.Verify(key, e.digest[:], e.signature[:])
}
