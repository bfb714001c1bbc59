package foreign

import (
	"crypto/sha256"
	"encoding/binary"
)

// A window remembers the last things that it was told: at least its size of them, and
// at most twice as many, so that it is as small for a long chain as for a short one.
type window struct {
	size      int
	now, past map[[16]byte]struct{}
}

// DefaultWindow is how many receipts of a chain an adapter remembers at least, where it
// compares each with those before.
const DefaultWindow = 1 << 16

func newWindow(size int) *window {
	return &window{size, make(map[[16]byte]struct{}), make(map[[16]byte]struct{})}
}

// windowKey returns a key for parts, of which none can be taken for others.
func windowKey(buf []byte, parts ...string) (key [16]byte, again []byte) {
	buf = buf[:0]
	for _, p := range parts {
		buf = append(binary.AppendUvarint(buf, uint64(len(p))), p...)
	}
	sum := sha256.Sum256(buf)
	copy(key[:], sum[:])
	return key, buf
}

func (w *window) has(key [16]byte) bool {
	_, now := w.now[key]
	_, past := w.past[key]
	return now || past
}

func (w *window) add(key [16]byte) {
	if len(w.now) >= w.size {
		w.now, w.past = w.past, w.now
		clear(w.now)
	}
	w.now[key] = struct{}{}
}
