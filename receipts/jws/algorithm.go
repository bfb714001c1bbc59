package jws

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

// An Algorithm is a value of alg.
type Algorithm string

// The algorithms.
const (
	RS256 Algorithm = "RS256" // RSASSA-PKCS1-v1_5 with SHA-256
)

// An algorithm is all that this package knows about an [Algorithm]: the kind of its
// keys, which is its family, and how to check a signature.
type algorithm struct {
	keyType string // kty
	verify  func(key crypto.PublicKey, signed, signature []byte) error
}

// lookup is the one place that knows algorithms.
func lookup(a Algorithm) (algorithm, bool) {
	switch a {
	case RS256:
		return algorithm{"RSA", verifyRS256}, true
	}
	return algorithm{}, false
}

var errSignature = errors.New("jws: the signature is not the key's")

func verifyRS256(key crypto.PublicKey, signed, signature []byte) error {
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return errSignature
	}
	sum := sha256.Sum256(signed)
	if rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) != nil {
		return errSignature
	}
	return nil
}

// choose returns what checks a signature of the algorithm that a token names, if it is
// one of those that the caller allows. These are of one family.
func choose(named Algorithm, allowed []Algorithm) (algorithm, error) {
	family := ""
	for _, a := range allowed {
		known, ok := lookup(a)
		if !ok {
			return algorithm{}, fmt.Errorf("jws: algorithm %q: unknown", a)
		}
		if family != "" && family != known.keyType {
			return algorithm{}, fmt.Errorf("jws: algorithms %q are of more than one family", allowed)
		}
		family = known.keyType
	}
	if !slices.Contains(allowed, named) {
		return algorithm{}, fmt.Errorf("jws: alg %q: want one of %q", named, allowed)
	}
	chosen, _ := lookup(named)
	return chosen, nil
}
