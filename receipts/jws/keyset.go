package jws

import (
	"cmp"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

// The limits of a key set.
const (
	MaxKeySet = 64 << 10
	MaxKeys   = 64

	minModulus   = 2048 // bits
	maxModulus   = 8192
	maxExponent  = 1<<31 - 1
	maxIssuer    = 1 << 10
	notAfterForm = "2006-01-02T15:04:05Z"
)

// A Key is a public key of an issuer.
type Key struct {
	ID        string    // kid
	Issuer    string    // whose tokens it signs
	Algorithm Algorithm // the only one that it is for; "": any of its family
	NotAfter  time.Time // when it was retired; zero: it was not

	public *rsa.PublicKey
}

// Bits returns the size of the key's modulus.
func (k *Key) Bits() int { return k.public.N.BitLen() }

// A KeySet holds the keys that a caller has pinned, by issuer and kid.
type KeySet struct {
	keys []Key
}

// Keys returns the keys of s.
func (s KeySet) Keys() []Key { return slices.Clone(s.keys) }

func (s KeySet) find(id string) (Key, bool) {
	i := slices.IndexFunc(s.keys, func(k Key) bool { return k.ID == id })
	if i < 0 {
		return Key{}, false
	}
	return s.keys[i], true
}

// wireKey is the JSON form of a key.
type wireKey struct {
	Type      string    `json:"kty"`
	ID        string    `json:"kid"`
	Algorithm Algorithm `json:"alg,omitempty"`
	Modulus   string    `json:"n"`
	Exponent  string    `json:"e"`
	Issuer    string    `json:"issuer,omitempty"`
	NotAfter  string    `json:"not_after,omitempty"`
}

var errKeySet = errors.New("jws: malformed key set")

// ParseKeySet reads a key set. Its keys are those of issuer where they do not name
// another.
func ParseKeySet(text []byte, issuer string) (KeySet, error) {
	s, err := parseKeySet(text, issuer)
	if err != nil {
		return KeySet{}, fmt.Errorf("%w: %w", errKeySet, err)
	}
	return s, nil
}

func parseKeySet(text []byte, issuer string) (s KeySet, err error) {
	if len(text) > MaxKeySet {
		return s, fmt.Errorf("%d bytes: the limit is %d", len(text), MaxKeySet)
	}
	set, err := object(text)
	if err != nil {
		return s, err
	}
	var list []json.RawMessage
	if json.Unmarshal(set.members["keys"], &list) != nil || list == nil {
		return s, errors.New("no list of keys")
	}
	if len(list) > MaxKeys {
		return s, fmt.Errorf("%d keys: the limit is %d", len(list), MaxKeys)
	}
	for i, raw := range list {
		members, err := object(raw)
		if err != nil {
			return s, fmt.Errorf("key %d: %w", i, err)
		}
		key, used, err := parseKey(members)
		switch {
		case err != nil:
			return s, fmt.Errorf("key %d: %w", i, err)
		case !used:
			continue
		}
		if _, twice := s.find(key.ID); twice {
			return s, fmt.Errorf("key %d: kid %q: there twice", i, key.ID)
		}
		key.Issuer = cmp.Or(key.Issuer, issuer)
		s.keys = append(s.keys, key)
	}
	if len(s.keys) == 0 {
		return s, errors.New("no key that is of use")
	}
	s.sort()
	return s, nil
}

func (s KeySet) sort() {
	slices.SortFunc(s.keys, func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Issuer, b.Issuer), strings.Compare(a.ID, b.ID))
	})
}

// parseKey reads a key, and reports whether it is one that this package can use.
func parseKey(m Claims) (k Key, used bool, err error) {
	text := func(name string, required bool) string {
		s, e := m.Text(name)
		if e != nil && (required || !errors.Is(e, errAbsent)) && err == nil {
			err = e
		}
		return s
	}
	kty, use := text("kty", true), text("use", false)
	k.Algorithm = Algorithm(text("alg", false))
	verifies := true
	if m.Has("key_ops") && err == nil {
		var operations []string
		if err = json.Unmarshal(m.members["key_ops"], &operations); err != nil {
			err = errors.New("key_ops: not a list of strings")
		}
		verifies = slices.Contains(operations, "verify")
	}
	if err != nil || kty != "RSA" || use != "" && use != "sig" || !verifies {
		return Key{}, false, err
	}
	if k.Algorithm != "" && k.Algorithm != RS256 {
		return Key{}, false, nil
	}
	k.ID, k.Issuer = text("kid", true), text("issuer", false)
	n, e, retired := text("n", true), text("e", true), text("not_after", false)
	switch {
	case err != nil:
		return Key{}, false, err
	case k.ID == "" || len(k.ID) > maxKeyID:
		return Key{}, false, fmt.Errorf("kid of %d bytes: want 1 to %d", len(k.ID), maxKeyID)
	case len(k.Issuer) > maxIssuer:
		return Key{}, false, fmt.Errorf("issuer of %d bytes: the limit is %d", len(k.Issuer), maxIssuer)
	}
	if m.Has("not_after") {
		if k.NotAfter, err = time.Parse(notAfterForm, retired); err != nil || k.NotAfter.Format(notAfterForm) != retired {
			return Key{}, false, fmt.Errorf("not_after: want the form %s", notAfterForm)
		}
	}
	if k.public, err = parseRSA(n, e); err != nil {
		return Key{}, false, err
	}
	return k, true, nil
}

// parseRSA reads a public key out of two numbers, each big-endian without zero bytes
// before it.
func parseRSA(modulus, exponent string) (*rsa.PublicKey, error) {
	n, errN := parseNumber(modulus)
	e, errE := parseNumber(exponent)
	switch {
	case errN != nil || errE != nil:
		return nil, fmt.Errorf("n and e: %w", errors.Join(errN, errE))
	case n.BitLen() < minModulus || n.BitLen() > maxModulus || n.Bit(0) == 0:
		return nil, fmt.Errorf("n of %d bits: want an odd number of %d to %d", n.BitLen(), minModulus, maxModulus)
	case !e.IsInt64() || e.Int64() < 3 || e.Int64() > maxExponent || e.Bit(0) == 0:
		return nil, fmt.Errorf("e: want an odd number from 3 to %d", maxExponent)
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
}

func parseNumber(s string) (*big.Int, error) {
	if len(s) > (maxModulus/8*4+2)/3 {
		return nil, fmt.Errorf("%d characters are too many", len(s))
	}
	b, err := decode(s)
	if err != nil {
		return nil, err
	}
	if b[0] == 0 {
		return nil, errors.New("a zero byte before a number")
	}
	return new(big.Int).SetBytes(b), nil
}

// Append appends the text of s to dst: one key a line, so that a change of a file
// shows which keys it is about.
func (s KeySet) Append(dst []byte) ([]byte, error) {
	dst = append(dst, `{"keys":[`...)
	for i := range s.keys {
		k := &s.keys[i]
		w := wireKey{
			Type: "RSA", ID: k.ID, Algorithm: k.Algorithm, Issuer: k.Issuer,
			Modulus:  base64URL.EncodeToString(k.public.N.Bytes()),
			Exponent: base64URL.EncodeToString(big.NewInt(int64(k.public.E)).Bytes()),
		}
		if !k.NotAfter.IsZero() {
			w.NotAfter = k.NotAfter.UTC().Format(notAfterForm)
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = strictjson.Append(append(dst, '\n'), &w); err != nil {
			return nil, err
		}
	}
	return append(dst, "\n]}\n"...), nil
}
