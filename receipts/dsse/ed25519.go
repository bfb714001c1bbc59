package dsse

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
)

// An Ed25519Signer signs with an Ed25519 key. It does not print the key.
type Ed25519Signer struct {
	keyID string
	key   ed25519.PrivateKey
}

// An Ed25519Verifier checks signatures of an Ed25519 key.
type Ed25519Verifier struct {
	keyID string
	key   ed25519.PublicKey
}

var (
	_ Signer   = (*Ed25519Signer)(nil)
	_ Verifier = (*Ed25519Verifier)(nil)

	errSignature = errors.New("dsse: bad ed25519 signature")
)

// NewEd25519Signer returns the signer with this key; keyID may be empty.
func NewEd25519Signer(keyID string, key ed25519.PrivateKey) (*Ed25519Signer, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("dsse: ed25519 private key of %d bytes: want %d", len(key), ed25519.PrivateKeySize)
	}
	return &Ed25519Signer{keyID, key}, nil
}

// NewEd25519Verifier returns the verifier with this key; keyID may be empty.
func NewEd25519Verifier(keyID string, key ed25519.PublicKey) (*Ed25519Verifier, error) {
	if len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("dsse: ed25519 public key of %d bytes: want %d", len(key), ed25519.PublicKeySize)
	}
	return &Ed25519Verifier{keyID, key}, nil
}

// KeyID implements [Signer].
func (s *Ed25519Signer) KeyID() string { return s.keyID }

// Sign implements [Signer].
func (s *Ed25519Signer) Sign(pae []byte) ([]byte, error) { return ed25519.Sign(s.key, pae), nil }

// Format implements [fmt.Formatter] for every verb.
func (s *Ed25519Signer) Format(f fmt.State, _ rune) { io.WriteString(f, "[ed25519 signer]") }

// KeyID implements [Verifier].
func (v *Ed25519Verifier) KeyID() string { return v.keyID }

// Verify implements [Verifier].
func (v *Ed25519Verifier) Verify(pae, sig []byte) error {
	if !ed25519.Verify(v.key, pae, sig) {
		return errSignature
	}
	return nil
}
