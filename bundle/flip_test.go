package bundle

import (
	"bytes"
	"testing"
)

// TestEveryTruncation cuts a bundle at every length.
func TestEveryTruncation(t *testing.T) {
	t.Parallel()
	file := small().write(t)
	for n := range file {
		_, _, err := read(file[:n], Limits{})
		c, _ := code(t, err)
		if want := n >= 4; c == "" || (c == Truncated) != want {
			t.Errorf("%d of %d bytes: %v", n, len(file), err)
		}
	}
}

// blockSpans returns where the content of the blocks of a one-frame file is.
func blockSpans(t testing.TB, file []byte) (spans [][2]int) {
	t.Helper()
	at := len(frameHeader)
	for {
		last, n, err := parseBlockHeader([3]byte(file[at:]))
		if err != nil {
			t.Fatal(err)
		}
		at += 3
		spans = append(spans, [2]int{at, at + n})
		if at += n; last {
			return spans
		}
	}
}

// TestEveryBitFlip flips every bit of a bundle. Either it is refused, or the
// tar is the same to the byte. Bits of that kind are inside of compressed
// blocks only, where an encoder has choices that a decoder cannot see: table
// entries of symbols that do not occur, or which of two equal passages a match
// copies.
func TestEveryBitFlip(t *testing.T) {
	t.Parallel()
	m := memory{seal: content("seal", 200), mac: []byte("mac\n"), log: content("log", 300), blobs: [][]byte{content("a", 200), nil}}
	file := m.write(t)
	_, r, err := read(file, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := r.Identity()
	if err != nil {
		t.Fatal(err)
	}
	spans := blockSpans(t, file)
	var free []int
	for i := range 8 * len(file) {
		b := bytes.Clone(file)
		b[i/8] ^= 1 << (i % 8)
		_, r, err := read(b, Limits{})
		if err != nil {
			code(t, err) // is an *Error
			continue
		}
		got, err := r.Identity()
		if err != nil || got != want {
			t.Errorf("bit %d: a sound bundle with another tar (%v)", i, err)
		}
		inside := false
		for _, s := range spans {
			inside = inside || i/8 >= s[0] && i/8 < s[1]
		}
		if !inside {
			t.Errorf("bit %d is free, and not inside of a block", i)
		}
		free = append(free, i)
	}
	t.Logf("%d of %d bits are free: %v", len(free), 8*len(file), free)
	if len(free) > 64 {
		t.Errorf("%d free bits", len(free))
	}
}

// TestEveryTarBitFlip flips the bits of the tar and compresses it again, so
// that no checksum of the compressed layer helps: every bit of the bytes that
// are not zero, and one of each that is. What is not refused changes the
// content of seal, seal.mac, seal.sig or log, and nothing else.
func TestEveryTarBitFlip(t *testing.T) {
	t.Parallel()
	m := memory{seal: []byte("seal\n"), mac: []byte("mac"), sig: []byte("sig"), log: content("log", 40), blobs: [][]byte{[]byte("a"), content("b", 30)}}
	tar := tarOf(t, m.raw())
	frame := rawFramer(t)
	for i := range 8 * len(tar) {
		if tar[i/8] == 0 && i%8 != i/8%8 {
			continue
		}
		b := bytes.Clone(tar)
		b[i/8] ^= 1 << (i % 8)
		got, _, err := read(frame(b), Limits{})
		if err != nil {
			code(t, err)
			continue
		}
		if got.equal(m) {
			t.Errorf("bit %d of the tar means nothing", i)
		}
		got.seal, got.mac, got.sig, got.log = m.seal, m.mac, m.sig, m.log
		if !got.equal(m) {
			t.Errorf("bit %d of the tar changes a blob", i)
		}
	}
}
