package jws

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
)

// The limits of a token.
const (
	MaxToken = 16 << 10
	maxKeyID = 256
	maxDepth = 8
)

// A Token is one that nobody has verified. Only [KeySet.Verify] gives its claims away.
type Token struct {
	algorithm Algorithm
	keyID     string
	header    []byte
	payload   []byte
	signature []byte
	claims    Claims
}

// KeyID returns the name of the key that t says it is signed with.
func (t Token) KeyID() string { return t.keyID }

var base64URL = base64.RawURLEncoding.Strict()

var errToken = errors.New("jws: malformed token")

// Parse reads a token.
func Parse(text []byte) (Token, error) {
	t, err := parse(text)
	if err != nil {
		return Token{}, fmt.Errorf("%w: %w", errToken, err)
	}
	return t, nil
}

func parse(text []byte) (t Token, err error) {
	if len(text) > MaxToken {
		return t, fmt.Errorf("%d bytes: the limit is %d", len(text), MaxToken)
	}
	if n := bytes.Count(text, []byte(".")) + 1; n != 3 {
		return t, fmt.Errorf("%d parts: want 3", n)
	}
	for i, part := range bytes.Split(text, []byte(".")) {
		name := [...]string{"header", "payload", "signature"}[i]
		to := [...]*[]byte{&t.header, &t.payload, &t.signature}[i]
		if *to, err = decode(string(part)); err != nil {
			return t, fmt.Errorf("%s: %w", name, err)
		}
	}
	header, err := object(t.header)
	if err == nil {
		err = t.readHeader(header)
	}
	if err != nil {
		return t, fmt.Errorf("header: %w", err)
	}
	if t.claims, err = object(t.payload); err != nil {
		return t, fmt.Errorf("payload: %w", err)
	}
	return t, nil
}

// Members of a header that a token must not have.
var (
	keyMembers     = []string{"jwk", "jku", "x5c", "x5u"}
	readingMembers = []string{"crit", "b64", "zip", "enc", "cty"}
)

func (t *Token) readHeader(h Claims) error {
	for name := range h.members {
		switch {
		case slices.Contains(keyMembers, name):
			return fmt.Errorf("%s: a token does not bring its own key", name)
		case slices.Contains(readingMembers, name):
			return fmt.Errorf("%s: not supported", name)
		}
	}
	alg, err := h.Text("alg")
	if err != nil {
		return err
	}
	t.algorithm = Algorithm(alg)
	if t.keyID, err = h.Text("kid"); err != nil {
		return err
	}
	if t.keyID == "" || len(t.keyID) > maxKeyID {
		return fmt.Errorf("kid of %d bytes: want 1 to %d", len(t.keyID), maxKeyID)
	}
	if typ, err := h.Text("typ"); !errors.Is(err, errAbsent) && (err != nil || typ != "JWT") {
		return errors.New("typ: want JWT")
	}
	return nil
}

// Append appends the text of t to dst.
func (t Token) Append(dst []byte) []byte {
	return append(append(t.signed(dst), '.'), base64URL.EncodeToString(t.signature)...)
}

// signed appends to dst what the signature covers.
func (t Token) signed(dst []byte) []byte {
	dst = append(base64URL.AppendEncode(dst, t.header), '.')
	return base64URL.AppendEncode(dst, t.payload)
}

var errBase64 = errors.New("not base64url, without padding, in its only form")

// decode reads base64url. That the result encodes to the same text catches what the
// decoder skips: line ends.
func decode(s string) ([]byte, error) {
	b, err := base64URL.DecodeString(s)
	if err != nil || len(b) == 0 || base64URL.EncodeToString(b) != s {
		return nil, errBase64
	}
	return b, nil
}
