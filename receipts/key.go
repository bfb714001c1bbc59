package receipts

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
)

// An Authenticator makes MACs. A [Key] is one; so is a process that holds the
// key where the code under test cannot reach it.
type Authenticator interface {
	MAC(message []byte) (Digest, error)
}

// A Key makes and checks HMAC-SHA-256 values. It does not print and does not
// marshal. The zero Key is no key: its MAC is an error. A Key is safe for
// concurrent use.
type Key struct{ state *keyState }

type keyState struct {
	mu  sync.Mutex
	mac hash.Hash
	sum Digest
}

var (
	errNoKey  = errors.New("receipt key: none")
	errSecret = errors.New("receipt key: a key does not marshal")
)

// NewKey returns the key with the given 32 bytes.
func NewKey(secret []byte) (Key, error) {
	if len(secret) != sha256.Size {
		return Key{}, fmt.Errorf("receipt key: %d bytes: want %d", len(secret), sha256.Size)
	}
	return Key{&keyState{mac: hmac.New(sha256.New, secret)}}, nil
}

// The purposes for which a run derives keys from one secret.
const (
	PurposeReceipt = "receipt"
	PurposeSeal    = "seal"
)

// KeyInfo returns the HKDF info string of a derived key:
// "truegreen/v1 " ‖ purpose ‖ 0 ‖ task ‖ job.
func KeyInfo(purpose string, task, job ID) []byte {
	info := append([]byte("truegreen/v1 "+purpose), 0)
	return append(append(info, task[:]...), job[:]...)
}

// DeriveKey returns HKDF-SHA-256(secret, salt, [KeyInfo](purpose, task, job)).
func DeriveKey(secret []byte, salt Digest, purpose string, task, job ID) (Key, error) {
	if len(secret) != sha256.Size {
		return Key{}, fmt.Errorf("receipt key: %d bytes: want %d", len(secret), sha256.Size)
	}
	derived, err := hkdf.Key(sha256.New, secret, salt[:], string(KeyInfo(purpose, task, job)), sha256.Size)
	if err != nil {
		return Key{}, fmt.Errorf("receipt key: %w", err)
	}
	return NewKey(derived)
}

// MAC returns HMAC-SHA-256(k, message).
func (k Key) MAC(message []byte) (Digest, error) {
	if k.state == nil {
		return Digest{}, errNoKey
	}
	k.state.mu.Lock()
	defer k.state.mu.Unlock()
	k.state.mac.Reset()
	k.state.mac.Write(message)
	k.state.mac.Sum(k.state.sum[:0])
	return k.state.sum, nil
}

// verify reports, in constant time, whether mac is the MAC of message.
func (k Key) verify(message []byte, mac *Digest) bool {
	if k.state == nil {
		return false
	}
	k.state.mu.Lock()
	defer k.state.mu.Unlock()
	k.state.mac.Reset()
	k.state.mac.Write(message)
	k.state.mac.Sum(k.state.sum[:0])
	return hmac.Equal(k.state.sum[:], mac[:])
}

// Verify reports, in constant time, whether mac is the MAC of message under k.
func (k Key) Verify(message []byte, mac Digest) bool { return k.verify(message, &mac) }

// Format implements [fmt.Formatter] for every verb.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, "[receipt key]") }

// MarshalText implements [encoding.TextMarshaler] by refusing.
func (k Key) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalBinary implements [encoding.BinaryMarshaler] by refusing.
func (k Key) MarshalBinary() ([]byte, error) { return nil, errSecret }
