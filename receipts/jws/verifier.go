package jws

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// A Verifier checks tokens under one key that its caller trusts.
type Verifier struct {
	key     crypto.PublicKey
	allowed []Algorithm
}

// ErrOtherKey means that none of the algorithms is for keys of that kind or curve.
var ErrOtherKey = errors.New("jws: a key for other algorithms")

// NewVerifier returns a verifier with an [ed25519.PublicKey], an [*ecdsa.PublicKey], an
// [*rsa.PublicKey] or a [Secret], and the algorithms that count with it. They are of one
// family. The key is one that is fit for at least one of them; the others do not count
// with it.
func NewVerifier(key crypto.PublicKey, allowed ...Algorithm) (*Verifier, error) {
	if err := CheckAlgorithms(allowed...); err != nil {
		return nil, err
	}
	v := &Verifier{key: key}
	var first error
	for _, name := range allowed {
		a, _ := lookup(name)
		switch err := a.fits(key); {
		case err == nil:
			v.allowed = append(v.allowed, name)
		case first == nil:
			first = fmt.Errorf("%s: %w", name, err)
		}
	}
	if v.allowed == nil {
		return nil, first
	}
	return v, nil
}

// CheckAlgorithms reports why algorithms are not ones that can count together: there is
// none, one is unknown, or they are of more than one family.
func CheckAlgorithms(allowed ...Algorithm) error {
	if len(allowed) == 0 {
		return errors.New("jws: no algorithm: say which ones count")
	}
	_, err := family(allowed)
	return err
}

// Verify returns the claims of t, if its algorithm counts and the signature is the key's.
func (v *Verifier) Verify(t Token) (Claims, error) {
	if err := v.check(t); err != nil {
		return Claims{}, err
	}
	return t.claims, nil
}

func (v *Verifier) check(t Token) error {
	chosen, err := choose(t.algorithm, v.allowed)
	if err != nil {
		return err
	}
	return chosen.verify(v.key, t.signed(nil), t.signature)
}

// fits reports why a key is none for the algorithm: [ErrOtherKey] if it may be one for
// another, and anything else if it is a bad one.
func (a algorithm) fits(key crypto.PublicKey) error {
	switch key := key.(type) {
	case ed25519.PublicKey:
		if len(key) != ed25519.PublicKeySize {
			return fmt.Errorf("jws: Ed25519 key of %d bytes: want %d", len(key), ed25519.PublicKeySize)
		}
		return a.isFor("OKP")
	case *ecdsa.PublicKey:
		if key == nil || key.Curve == nil {
			return errors.New("jws: EC key without a curve")
		}
		if err := a.isFor("EC"); err != nil {
			return err
		}
		if key.Curve != a.curve {
			return fmt.Errorf("%w: one on the curve %s", ErrOtherKey, key.Params().Name)
		}
		if _, err := key.Bytes(); err != nil { // is it a point of the curve?
			return fmt.Errorf("jws: EC key: %w", err)
		}
		return nil
	case *rsa.PublicKey:
		if err := checkRSA(key); err != nil {
			return err
		}
		return a.isFor("RSA")
	case Secret:
		if err := a.isFor("oct"); err != nil {
			return err
		}
		return checkSecret(key, a.hash.Size())
	}
	return fmt.Errorf("jws: a key of type %T", key)
}

func (a algorithm) isFor(keyType string) error {
	if a.keyType != keyType {
		return fmt.Errorf("%w: kty is %s, not %s", ErrOtherKey, keyType, a.keyType)
	}
	return nil
}

// checkRSA holds a key to what [parseRSA] holds one of a key set to, and finds those
// that a flaw of a widespread library made easy to factor.
func checkRSA(key *rsa.PublicKey) error {
	switch {
	case key == nil || key.N == nil:
		return errors.New("jws: RSA key without a modulus")
	case key.N.Sign() < 0 || key.N.BitLen() < minModulus || key.N.BitLen() > maxModulus || key.N.Bit(0) == 0:
		return fmt.Errorf("jws: RSA key of %d bits: want an odd number of %d to %d", key.N.BitLen(), minModulus, maxModulus)
	case key.E < 3 || key.E > maxExponent || key.E&1 == 0:
		return fmt.Errorf("jws: RSA key with exponent %d: want an odd number from 3 to %d", key.E, maxExponent)
	case isROCA(key.N):
		return errors.New("jws: RSA key that is easy to factor (CVE-2017-15361)")
	}
	return nil
}

// isROCA reports whether n is a product of primes as Infineon's library made them: each
// is a power of 65537 modulo all small primes, and so is n. Of other numbers, one in
// 1.1e9 is.
func isROCA(n *big.Int) bool {
	for p := int64(3); p <= 167; p += 2 {
		if !big.NewInt(p).ProbablyPrime(0) {
			continue
		}
		rest := new(big.Int).Mod(n, big.NewInt(p)).Int64()
		power := int64(1)
		for power != rest {
			if power = power * 65537 % p; power == 1 {
				return false
			}
		}
	}
	return true
}

// checkSecret reports why bytes are no secret for a MAC of size bytes.
func checkSecret(secret Secret, size int) error {
	if what := publicForm(secret); what != "" {
		return fmt.Errorf("jws: the secret is %s: everybody can make MACs with what is public", what)
	}
	if len(secret) < size {
		return fmt.Errorf("jws: secret of %d bytes: want %d or more, as many as the hash has", len(secret), size)
	}
	return nil
}

// publicForm says as what public key, or key with a public half, a text looks.
func publicForm(text []byte) string {
	text = bytes.TrimSpace(text)
	if bytes.Contains(text, []byte("-----BEGIN ")) {
		return "PEM"
	}
	for _, kind := range []string{"ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"} {
		word, _, cut := strings.Cut(string(text), " ")
		if cut && strings.HasPrefix(word, kind) {
			return "an SSH key"
		}
	}
	if bytes.HasPrefix(text, []byte("{")) && (bytes.Contains(text, []byte(`"kty"`)) || bytes.Contains(text, []byte(`"keys"`))) {
		return "a JSON Web Key"
	}
	return ""
}
