package jws

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	_ "crypto/sha256" // the hashes of [lookup]
	_ "crypto/sha512"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// An Algorithm is a value of alg.
type Algorithm string

// The algorithms. EdDSA and Ed25519 are two names of one; a caller allows the names.
const (
	EdDSA   Algorithm = "EdDSA"   // RFC 8037, with the curve Ed25519 alone
	Ed25519 Algorithm = "Ed25519" // RFC 9864
	ES256   Algorithm = "ES256"   // ECDSA on P-256 with SHA-256
	ES384   Algorithm = "ES384"   // on P-384 with SHA-384
	ES512   Algorithm = "ES512"   // on P-521 with SHA-512
	RS256   Algorithm = "RS256"   // RSASSA-PKCS1-v1_5 with SHA-256
	RS384   Algorithm = "RS384"
	RS512   Algorithm = "RS512"
	PS256   Algorithm = "PS256" // RSASSA-PSS with SHA-256, and a salt as long as that
	PS384   Algorithm = "PS384"
	PS512   Algorithm = "PS512"
	HS256   Algorithm = "HS256" // HMAC with SHA-256
	HS384   Algorithm = "HS384"
	HS512   Algorithm = "HS512"
)

// A Secret is the key of a MAC. It has a type of its own so that bytes that are
// something else, such as a public key, are never one by accident.
type Secret []byte

// Format implements [fmt.Formatter] for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, "[secret]") }

// An algorithm is all that this package knows about an [Algorithm]: the kind of its
// keys, which is its family, and how to check a signature.
type algorithm struct {
	keyType string // kty
	hash    crypto.Hash
	curve   elliptic.Curve // of ECDSA
	check   func(a algorithm, key crypto.PublicKey, signed, signature []byte) bool
}

// lookup is the one place that knows algorithms.
func lookup(a Algorithm) (algorithm, bool) {
	switch a {
	case EdDSA, Ed25519:
		return algorithm{"OKP", 0, nil, checkEd25519}, true
	case ES256:
		return algorithm{"EC", crypto.SHA256, elliptic.P256(), checkECDSA}, true
	case ES384:
		return algorithm{"EC", crypto.SHA384, elliptic.P384(), checkECDSA}, true
	case ES512:
		return algorithm{"EC", crypto.SHA512, elliptic.P521(), checkECDSA}, true
	case RS256:
		return algorithm{"RSA", crypto.SHA256, nil, checkPKCS1v15}, true
	case RS384:
		return algorithm{"RSA", crypto.SHA384, nil, checkPKCS1v15}, true
	case RS512:
		return algorithm{"RSA", crypto.SHA512, nil, checkPKCS1v15}, true
	case PS256:
		return algorithm{"RSA", crypto.SHA256, nil, checkPSS}, true
	case PS384:
		return algorithm{"RSA", crypto.SHA384, nil, checkPSS}, true
	case PS512:
		return algorithm{"RSA", crypto.SHA512, nil, checkPSS}, true
	case HS256:
		return algorithm{"oct", crypto.SHA256, nil, checkHMAC}, true
	case HS384:
		return algorithm{"oct", crypto.SHA384, nil, checkHMAC}, true
	case HS512:
		return algorithm{"oct", crypto.SHA512, nil, checkHMAC}, true
	}
	return algorithm{}, false
}

// Known reports whether a is one of the algorithms of this package.
func (a Algorithm) Known() bool {
	_, ok := lookup(a)
	return ok
}

var errSignature = errors.New("jws: the signature is not the key's")

// verify checks a signature. A key of another kind has made none.
func (a algorithm) verify(key crypto.PublicKey, signed, signature []byte) error {
	if !a.check(a, key, signed, signature) {
		return errSignature
	}
	return nil
}

func (a algorithm) sum(signed []byte) []byte {
	h := a.hash.New()
	h.Write(signed)
	return h.Sum(nil)
}

func checkEd25519(_ algorithm, key crypto.PublicKey, signed, signature []byte) bool {
	public, ok := key.(ed25519.PublicKey)
	return ok && len(public) == ed25519.PublicKeySize && ed25519.Verify(public, signed, signature)
}

// checkECDSA wants a signature of two numbers of the length that the curve has. With
// each, another that has N-s for s is as good: that is how ECDSA is, so nothing may
// take a signature for the name of a token.
func checkECDSA(a algorithm, key crypto.PublicKey, signed, signature []byte) bool {
	public, ok := key.(*ecdsa.PublicKey)
	size := (a.curve.Params().BitSize + 7) / 8
	if !ok || public == nil || public.Curve != a.curve || len(signature) != 2*size {
		return false
	}
	r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
	return ecdsa.Verify(public, a.sum(signed), r, s)
}

func checkPKCS1v15(a algorithm, key crypto.PublicKey, signed, signature []byte) bool {
	public, ok := key.(*rsa.PublicKey)
	return ok && public != nil && rsa.VerifyPKCS1v15(public, a.hash, a.sum(signed), signature) == nil
}

func checkPSS(a algorithm, key crypto.PublicKey, signed, signature []byte) bool {
	public, ok := key.(*rsa.PublicKey)
	return ok && public != nil && rsa.VerifyPSS(public, a.hash, a.sum(signed), signature,
		&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
}

func checkHMAC(a algorithm, key crypto.PublicKey, signed, signature []byte) bool {
	secret, ok := key.(Secret)
	if !ok || checkSecret(secret, a.hash.Size()) != nil {
		return false
	}
	mac := hmac.New(a.hash.New, secret)
	mac.Write(signed)
	return hmac.Equal(mac.Sum(nil), signature)
}

// family returns the kind of the keys that all of the algorithms are for.
func family(allowed []Algorithm) (string, error) {
	kind := ""
	for _, a := range allowed {
		known, ok := lookup(a)
		if !ok {
			return "", fmt.Errorf("jws: algorithm %q: unknown", a)
		}
		if kind != "" && kind != known.keyType {
			return "", fmt.Errorf("jws: algorithms %q are of more than one family", allowed)
		}
		kind = known.keyType
	}
	return kind, nil
}

// choose returns what checks a signature of the algorithm that a token names, if it is
// one of those that the caller allows. These are of one family.
func choose(named Algorithm, allowed []Algorithm) (algorithm, error) {
	if _, err := family(allowed); err != nil {
		return algorithm{}, err
	}
	if !slices.Contains(allowed, named) {
		return algorithm{}, fmt.Errorf("jws: alg %q: want one of %q", named, allowed)
	}
	chosen, _ := lookup(named)
	return chosen, nil
}
