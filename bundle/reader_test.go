package bundle

import (
	"bytes"
	"io"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

func large() memory {
	m := small()
	m.log = content("long log", 3<<20)
	for i, n := range []int{1 << 20, 1<<20 - 512, 1<<20 - 513, 2<<20 + 1, 300 << 10, 300 << 10, 300 << 10, 128 << 10, 1, 2, 3} {
		m.blobs = append(m.blobs, content(string(rune('A'+i)), n))
	}
	return m
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	bare := memory{seal: []byte("s")}
	for name, m := range map[string]memory{"small": small(), "large": large(), "bare": bare} {
		file := m.write(t)
		got, r, err := read(file, Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !got.equal(m) {
			t.Errorf("%s: members differ", name)
		}
		if !bytes.Equal(r.Seal(), m.seal) || !bytes.Equal(r.MAC(), m.mac) || !bytes.Equal(r.Sig(), m.sig) {
			t.Errorf("%s: Seal, MAC or Sig differs", name)
		}
		if (r.MAC() == nil) != (m.mac == nil) {
			t.Errorf("%s: MAC is nil: %v", name, r.MAC() == nil)
		}
		log, err := r.Log()
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(log); err != nil || !bytes.Equal(b, m.log) {
			t.Errorf("%s: Log differs, error %v", name, err)
		}
		log.Close()
		for _, want := range m.blobs {
			rc, n, err := r.Blob(receipts.Sum(want))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(rc)
			if err != nil || !bytes.Equal(b, want) || n != int64(len(want)) {
				t.Errorf("%s: blob of %d bytes differs, error %v", name, len(want), err)
			}
			rc.Close()
			if _, err := rc.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s: read after Close", name)
			}
		}
		if _, _, err := r.Blob(receipts.Sum([]byte("none"))); err == nil {
			t.Errorf("%s: a blob that is not there", name)
		}
	}
}
