package receipts

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Digest is a SHA-256 value. Its text form is 64 lower-case hexadecimal
// digits; no other spelling parses. The zero Digest stands for "nothing
// before" where a chain starts, never for the digest of some bytes.
type Digest [sha256.Size]byte

var errDigest = errors.New("digest: want 64 lower-case hexadecimal digits")

// Sum returns the SHA-256 digest of b.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// ParseDigest reads the text form of a Digest.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if !lowerHex(s, 2*len(d)) {
		return Digest{}, errDigest
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return Digest{}, errDigest
	}
	return d, nil
}

// IsZero reports whether every byte of d is zero.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns the text form.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]; it is as strict as [ParseDigest].
func (d *Digest) UnmarshalText(b []byte) error {
	v, err := ParseDigest(string(b))
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// ID is a 128-bit label: of a task, a job or a call. On the wire it is a
// little-endian integer; its text form is the 32 lower-case hexadecimal digits
// of the 16 bytes in wire order. IDs name things; no check relies on them alone.
type ID [16]byte

var errID = errors.New("id: want 32 lower-case hexadecimal digits")

// ParseID reads the text form of an ID.
func ParseID(s string) (ID, error) {
	var id ID
	if !lowerHex(s, 2*len(id)) {
		return ID{}, errID
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, errID
	}
	return id, nil
}

// CallID returns the ID of the n-th call of a run: n as a little-endian integer.
func CallID(n uint64) ID {
	var id ID
	for i := range 8 {
		id[i] = byte(n >> (8 * i))
	}
	return id
}

// Uint64 returns the id as an integer, and whether it fits 64 bits.
func (id ID) Uint64() (n uint64, ok bool) {
	for i := range 8 {
		n |= uint64(id[i]) << (8 * i)
	}
	return n, [8]byte(id[8:]) == [8]byte{}
}

// String returns the text form.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (id ID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]; it is as strict as [ParseID].
func (id *ID) UnmarshalText(b []byte) error {
	v, err := ParseID(string(b))
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// TaskID returns the id of the task that tests the patch whose document is
// doc: the first 16 bytes of SHA-256("truegreen/v1 task" ‖ 0 ‖ doc).
func TaskID(doc []byte) ID {
	h := sha256.New()
	h.Write([]byte("truegreen/v1 task\x00"))
	h.Write(doc)
	return ID(h.Sum(nil)[:16])
}

func lowerHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
