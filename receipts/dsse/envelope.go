package dsse

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

// The limits of an envelope.
const (
	MaxPayload    = 16 << 20
	MaxSignatures = 16
	MaxSignature  = 16 << 10
	MaxName       = 1 << 10
)

const (
	// maxText bounds an envelope's text: the payload in base64, and room for the
	// rest with white space and ignored members.
	maxText = MaxPayload/3*4 + 4 + 1<<20
	// maxCommas bounds its members and elements, before anything is allocated for them.
	maxCommas = 1 << 12
)

// An Envelope is a payload with signatures that nobody has verified. Only
// [Envelope.Verify] gives the payload away.
type Envelope struct {
	payloadType string
	payload     []byte
	signatures  []signature
}

type signature struct {
	keyID string
	sig   []byte
}

// wire is the JSON form.
type wire struct {
	Payload     string     `json:"payload"`
	PayloadType string     `json:"payloadType"`
	Signatures  []wireSign `json:"signatures"`
}

type wireSign struct {
	KeyID string `json:"keyid,omitempty"`
	Sig   string `json:"sig"`
}

// PayloadType returns what e says that its payload is.
func (e *Envelope) PayloadType() string { return e.payloadType }

// KeyIDs returns the key ids that e names, empty where a signature names none,
// in the order of the signatures.
func (e *Envelope) KeyIDs() []string {
	ids := make([]string, len(e.signatures))
	for i := range e.signatures {
		ids[i] = e.signatures[i].keyID
	}
	return ids
}

// Append appends the text of e to dst.
func (e *Envelope) Append(dst []byte) ([]byte, error) {
	if err := e.valid(); err != nil {
		return nil, err
	}
	w := wire{
		Payload:     base64.StdEncoding.EncodeToString(e.payload),
		PayloadType: e.payloadType,
		Signatures:  make([]wireSign, len(e.signatures)),
	}
	for i, s := range e.signatures {
		w.Signatures[i] = wireSign{s.keyID, base64.StdEncoding.EncodeToString(s.sig)}
	}
	return strictjson.Append(dst, w)
}

// valid reports which limit e exceeds.
func (e *Envelope) valid() error {
	switch {
	case e.payloadType == "" || len(e.payloadType) > MaxName || !utf8.ValidString(e.payloadType):
		return fmt.Errorf("dsse: payload type of %d bytes: want 1 to %d of UTF-8", len(e.payloadType), MaxName)
	case len(e.payload) > MaxPayload:
		return fmt.Errorf("dsse: payload of %d bytes: the limit is %d", len(e.payload), MaxPayload)
	case len(e.signatures) == 0 || len(e.signatures) > MaxSignatures:
		return fmt.Errorf("dsse: %d signatures: want 1 to %d", len(e.signatures), MaxSignatures)
	}
	for i, s := range e.signatures {
		if len(s.keyID) > MaxName || !utf8.ValidString(s.keyID) {
			return fmt.Errorf("dsse: signature %d: key id of %d bytes: want at most %d of UTF-8", i, len(s.keyID), MaxName)
		}
		if len(s.sig) == 0 || len(s.sig) > MaxSignature {
			return fmt.Errorf("dsse: signature %d: %d bytes: want 1 to %d", i, len(s.sig), MaxSignature)
		}
	}
	return nil
}

// Parse reads the text of an envelope in the form that [Envelope.Append] writes.
func Parse(text []byte) (*Envelope, error) {
	if err := sparse(text); err != nil {
		return nil, err
	}
	var w wire
	if err := strictjson.Unmarshal(text, &w, strictjson.Limits{Size: maxText}); err != nil {
		return nil, fmt.Errorf("dsse: %w", err)
	}
	return w.envelope(decodeCanonical)
}

// ParseForeign reads the text of an envelope in any form that the DSSE
// specification allows.
func ParseForeign(text []byte) (*Envelope, error) {
	if err := sparse(text); err != nil {
		return nil, err
	}
	if err := strictjson.Check(text, strictjson.Limits{Size: maxText}); err != nil {
		return nil, fmt.Errorf("dsse: %w", err)
	}
	// The standard library matches names without regard to case, which the
	// specification does not, so the members are taken by their exact names.
	members, err := object(text, "payload", "payloadType", "signatures")
	if err != nil {
		return nil, err
	}
	var w wire
	var list []json.RawMessage // sparse bounds it
	if err := errors.Join(str(members[0], &w.Payload), str(members[1], &w.PayloadType), json.Unmarshal(members[2], &list)); err != nil || list == nil {
		return nil, errMember
	}
	if len(list) > MaxSignatures {
		return nil, fmt.Errorf("dsse: %d signatures: want 1 to %d", len(list), MaxSignatures)
	}
	for _, raw := range list {
		members, err := object(raw, "sig", "keyid")
		if err != nil {
			return nil, err
		}
		var s wireSign
		if err := str(members[0], &s.Sig); err != nil {
			return nil, err
		}
		if members[1] != nil {
			if err := str(members[1], &s.KeyID); err != nil {
				return nil, err
			}
		}
		w.Signatures = append(w.Signatures, s)
	}
	return w.envelope(decodeForeign)
}

// sparse reports whether text has more members and elements than an envelope.
func sparse(text []byte) error {
	if len(text) <= maxText && bytes.Count(text, []byte(",")) > maxCommas {
		return fmt.Errorf("dsse: more than %d commas", maxCommas)
	}
	return nil
}

var errMember = errors.New("dsse: a member is missing or of the wrong type")

// object returns the members of a JSON object with these names, nil where the
// last of several is absent.
func object(text []byte, names ...string) ([]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil || all == nil {
		return nil, errMember
	}
	members := make([]json.RawMessage, len(names))
	for i, name := range names {
		members[i] = all[name]
		if members[i] == nil && name != "keyid" {
			return nil, errMember
		}
	}
	return members, nil
}

// str reads a JSON string.
func str(text []byte, s *string) error {
	if len(text) == 0 || text[0] != '"' || json.Unmarshal(text, s) != nil {
		return errMember
	}
	return nil
}

func (w *wire) envelope(decode func(string) ([]byte, error)) (*Envelope, error) {
	e := &Envelope{payloadType: w.PayloadType}
	var err error
	if e.payload, err = decode(w.Payload); err != nil {
		return nil, fmt.Errorf("dsse: payload: %w", err)
	}
	for i, s := range w.Signatures {
		sig, err := decode(s.Sig)
		if err != nil {
			return nil, fmt.Errorf("dsse: signature %d: %w", i, err)
		}
		e.signatures = append(e.signatures, signature{s.KeyID, sig})
	}
	if err := e.valid(); err != nil {
		return nil, err
	}
	return e, nil
}

var errBase64 = errors.New("malformed base64")

func decodeCanonical(s string) ([]byte, error) {
	// The decoder skips line ends.
	if strings.ContainsAny(s, "\r\n") {
		return nil, errBase64
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, errBase64
	}
	return b, nil
}

func decodeForeign(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errBase64
	}
	encoding := base64.StdEncoding
	if strings.ContainsAny(s, "-_") {
		encoding = base64.URLEncoding
	}
	if len(s)%4 != 0 {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	b, err := encoding.Strict().DecodeString(s)
	if err != nil {
		return nil, errBase64
	}
	return b, nil
}
