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

// A Token is one that nobody has verified. Only [KeySet.Verify] and [Verifier.Verify]
// give its claims away.
type Token struct {
	algorithm Algorithm
	keyID     string
	header    []byte
	payload   []byte
	signature []byte
	claims    Claims
}

// KeyID returns the name of the key that t says it is signed with, "" if it has none.
func (t Token) KeyID() string { return t.keyID }

// Algorithm returns the algorithm that t says it is signed with, known or not.
func (t Token) Algorithm() Algorithm { return t.algorithm }

// A Profile is what one use of tokens asks of their headers, beside what no header may
// have. The zero Profile is that of tokens of OpenID Connect, and that of [Parse].
type Profile struct {
	// Types are the values that typ may have, byte for byte; with "" among them, it may
	// be absent. nil: JWT, or absent.
	Types []string
	// Unnamed lets a header do without kid: the caller has few keys, and tries them.
	Unnamed bool
}

func (p *Profile) allows(typ string) bool {
	if p.Types == nil {
		return typ == "" || typ == "JWT"
	}
	return slices.Contains(p.Types, typ)
}

var base64URL = base64.RawURLEncoding.Strict()

var errToken = errors.New("jws: malformed token")

// What a text is that a caller may want to tell from other malformed ones.
var (
	ErrTooLarge = errors.New("too large")
	ErrParts    = errors.New("not three parts with dots between them")
	ErrUnsigned = errors.New("no signature") // the third part is empty, and the others are sound
)

// Parse reads a token of OpenID Connect.
func Parse(text []byte) (Token, error) {
	t, err := Profile{}.Parse(text)
	if err != nil {
		return Token{}, fmt.Errorf("%w: %w", errToken, err)
	}
	return t, nil
}

// Parse reads a token. What its errors are about is the caller's to say.
func (p Profile) Parse(text []byte) (Token, error) {
	t, err := p.parse(text)
	if err != nil {
		return Token{}, err
	}
	return t, nil
}

func (p *Profile) parse(text []byte) (t Token, err error) {
	if len(text) > MaxToken {
		return t, fmt.Errorf("%w: %d bytes: the limit is %d", ErrTooLarge, len(text), MaxToken)
	}
	if n := bytes.Count(text, []byte(".")) + 1; n != 3 {
		return t, fmt.Errorf("%w: %d parts", ErrParts, n)
	}
	unsigned := bytes.HasSuffix(text, []byte("."))
	for i, part := range bytes.Split(text, []byte(".")) {
		if i == 2 && unsigned {
			break
		}
		name := [...]string{"header", "payload", "signature"}[i]
		to := [...]*[]byte{&t.header, &t.payload, &t.signature}[i]
		if *to, err = decode(string(part)); err != nil {
			return t, fmt.Errorf("%s: %w", name, err)
		}
	}
	header, err := object(t.header)
	if err == nil {
		err = p.readHeader(&t, header)
	}
	if err != nil {
		return t, fmt.Errorf("header: %w", err)
	}
	if t.claims, err = object(t.payload); err != nil {
		return t, fmt.Errorf("payload: %w", err)
	}
	if unsigned {
		return t, ErrUnsigned
	}
	return t, nil
}

// Members of a header that a token must not have.
var (
	keyMembers     = []string{"jwk", "jku", "x5c", "x5u"}
	readingMembers = []string{"crit", "b64", "zip", "enc", "cty"}
)

func (p *Profile) readHeader(t *Token, h Claims) error {
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
	if t.keyID, err = h.Text("kid"); err != nil && !(p.Unnamed && errors.Is(err, errAbsent)) {
		return err
	}
	if err == nil && t.keyID == "" || len(t.keyID) > maxKeyID {
		return fmt.Errorf("kid of %d bytes: want 1 to %d", len(t.keyID), maxKeyID)
	}
	typ, err := h.Text("typ")
	switch {
	case errors.Is(err, errAbsent):
		if !p.allows("") {
			return fmt.Errorf("no typ: want one of %q", p.Types)
		}
	case err != nil || typ == "" || !p.allows(typ):
		if p.Types == nil {
			return errors.New("typ: want JWT")
		}
		return fmt.Errorf("typ %.64q: want one of %q", typ, p.Types)
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
