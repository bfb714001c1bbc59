package bundle

import (
	"archive/tar"
	"bytes"
	"testing"
)

// FuzzReader holds the reader to this: what it accepts is what Write makes of
// the members, up to compression. With framed, the input is the tar.
func FuzzReader(f *testing.F) {
	frame := rawFramer(f)
	for _, m := range []memory{small(), {seal: []byte("seal")}, {seal: []byte("s"), log: []byte("l"), blobs: [][]byte{[]byte("b")}}} {
		f.Add(m.write(f), false)
		f.Add(frame(tarOf(f, m.trimmed())), false)
		f.Add(tarOf(f, m.trimmed()), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, framed bool) {
		if framed {
			b = frame(b)
		}
		m, r, err := read(b, Limits{Decoded: 1 << 20})
		if err != nil {
			code(t, err) // is an *Error
			return
		}
		id, err := r.Identity()
		if err != nil {
			t.Fatal(err)
		}
		_, again, err := read(m.write(t), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.Identity(); err != nil || got != id {
			t.Errorf("written again: identity %v, was %v (%v)", got, id, err)
		}
	})
}

// FuzzTarHeader: what parses is the header of what it says, to us and to
// archive/tar.
func FuzzTarHeader(f *testing.F) {
	for _, r := range small().raw() {
		h, err := header(r.name, int64(len(r.content)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(h[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h [blockLen]byte
		copy(h[:], b)
		name, size, err := parseHeader(&h)
		if err != nil {
			if name != "" || size != 0 {
				t.Errorf("%q, %d beside an error", name, size)
			}
			return
		}
		if again, err := header(name, size); err != nil || again != h {
			t.Errorf("header of %q, %d is another (%v)", name, size, err)
		}
		if _, _, ok := kindOf(name); !ok {
			return // archive/tar has its own ideas of a name that ends in a slash
		}
		theirs, err := tar.NewReader(bytes.NewReader(h[:])).Next()
		if err != nil || theirs.Name != name || theirs.Size != size {
			t.Errorf("archive/tar reads %+v, %v", theirs, err)
		}
	})
}
