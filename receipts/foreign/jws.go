package foreign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/truegreen-dev/truegreen/receipts/jws"
)

// JWSOptions are what [NewJWS] asks of receipts that are signed tokens: a JSON Web
// Signature in its compact form, which [jws] reads, with these claims.
//
//	iss        who vouches; one string
//	aud        whom it is for; a string or a list of strings
//	exp, nbf   until when, and from when it counts
//	iat        when it was made
//	jti        its name, by which it is not taken twice
//	tool_name  the tool that was called
//	arg_hash   hash of the arguments, as [Binding] has it
//
// Times are as [jws.Claims.Time] reads them. Other claims mean nothing here. The format
// has no claims for a target, for a decision, or for an order of receipts.
type JWSOptions struct {
	Rules

	// Keys are those that count. Keys that none of the algorithms is for are passed
	// over; one that is of their kind and bad is an error. With none at all, nothing is
	// ever trusted.
	Keys []Key
	// Algorithms are those that count: of one family, and one at least. There is no
	// default, as the one that is good for all keys is one that is bad for some.
	Algorithms []jws.Algorithm
	// Types are the values that typ may have; with "" among them, it may be absent.
	// nil: JWT, or absent.
	Types []string

	Issuer   string // the iss that is wanted; "": any, as any of the keys may claim
	Audience string // the one that aud has to name; "": tokens with an aud are for others

	AllowNoExpiry bool          // a receipt may do without exp
	MaxLifetime   time.Duration // from iat to exp; 0: not asked
}

// jwsName is the adapter's name.
const jwsName = "jws"

// A jwsKey is a key, and what checks tokens under it.
type jwsKey struct {
	Key
	verifier *jws.Verifier
}

type jwsAdapter struct {
	o       JWSOptions
	profile jws.Profile
	keys    []jwsKey
}

// NewJWS returns the adapter for receipts that are signed tokens.
//
// A token that names its key by kid is checked under the keys of that name. If no key
// has it, or it names none, it is checked under all of them.
//
// A receipt that claims a tool is the receipt of a call of that tool whether the caller
// asks or not: [Verification.Tool] says which one, and Binding stays not-asked.
func NewJWS(o JWSOptions) (Adapter, error) {
	a := &jwsAdapter{o: o, profile: jws.Profile{Types: slices.Clone(o.Types), Unnamed: true}}
	a.o.Algorithms = slices.Clone(o.Algorithms)
	switch {
	case o.Types != nil && len(o.Types) == 0:
		return nil, errors.New("jws: an empty list of types: no token has one of them")
	case len(o.Keys) > MaxKeys:
		return nil, fmt.Errorf("jws: %d keys: the limit is %d", len(o.Keys), MaxKeys)
	}
	if err := jws.CheckAlgorithms(o.Algorithms...); err != nil {
		return nil, err
	}
	secrets := 0
	for i := range o.Keys {
		k := &o.Keys[i]
		if k.Public == nil {
			secrets++
		}
		v, err := k.verifier(o.Algorithms)
		if errors.Is(err, jws.ErrOtherKey) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i, err)
		}
		a.keys = append(a.keys, jwsKey{*k, v})
	}
	switch {
	case secrets > 0 && secrets < len(o.Keys):
		return nil, errors.New("jws: secrets among public keys: use two adapters")
	case len(a.keys) == 0 && len(o.Keys) > 0:
		return nil, fmt.Errorf("jws: none of the %d keys is for one of %q", len(o.Keys), o.Algorithms)
	}
	return a, nil
}

// verifier returns what checks tokens under k, by those of the algorithms that k is for.
func (k *Key) verifier(allowed []jws.Algorithm) (*jws.Verifier, error) {
	if only := jws.Algorithm(k.Algorithm); only != "" {
		if !slices.Contains(allowed, only) {
			return nil, fmt.Errorf("%w: it is for %.64q alone", jws.ErrOtherKey, only)
		}
		allowed = []jws.Algorithm{only}
	}
	switch {
	case k.Public == nil:
		return jws.NewVerifier(jws.Secret(bytes.Clone(k.Secret)), allowed...)
	case k.Secret != nil:
		return nil, errors.New("both a public key and a secret")
	}
	return jws.NewVerifier(k.Public, allowed...)
}

// Name implements [Adapter].
func (a *jwsAdapter) Name() string { return jwsName }

// Verify implements [Adapter]. One line end may follow the token: it is the file's.
func (a *jwsAdapter) Verify(ctx context.Context, r io.Reader, b Binding) (Verification, error) {
	text, err := readAll(ctx, r, jws.MaxToken+2)
	if err != nil {
		return Verification{}, fmt.Errorf("jws: %w", err)
	}
	if n := len(text) - 1; n >= 0 && text[n] == '\n' {
		text = bytes.TrimSuffix(text[:n], []byte("\r"))
	}
	c := jwsCheck{a: a, b: b, now: a.o.now()}
	c.v = Verification{Adapter: jwsName, Form: "compact", Signature: Unproven, Trust: Unproven}
	token, err := a.profile.Parse(text)
	switch {
	case errors.Is(err, jws.ErrUnsigned):
		c.set(&c.v.Signature, No, "unsigned", "the third part is empty")
	case err != nil:
		return Verification{}, malformedJWS(text, err)
	default:
		c.signature(token)
	}
	if c.v.Signature != Yes {
		c.unread()
		return c.v, nil
	}
	c.trust()
	c.binding()
	c.freshness()
	c.chain()
	if err := c.seen(ctx); err != nil {
		return Verification{}, fmt.Errorf("jws: seen: %w", err)
	}
	return c.v, nil
}

// readAll reads r to its end, and at most one byte more than limit.
func readAll(ctx context.Context, r io.Reader, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	return text, ctx.Err()
}

// malformedJWS says what is wrong with a text that is no token.
func malformedJWS(text []byte, err error) error {
	e := &MalformedError{Adapter: jwsName, Code: "malformed-token", Err: err}
	switch {
	case errors.Is(err, jws.ErrTooLarge):
		e.Code = "too-large"
	case !utf8.Valid(text):
		e.Code, e.Err = "not-utf-8", errors.New("a token is text, and that is in UTF-8")
	case bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")):
		e.Code, e.Err = "not-compact", errors.New("that is JSON: want the compact form, three parts with dots between them")
	case errors.Is(err, jws.ErrParts):
		e.Code = "not-compact"
	}
	return e
}
