package bundle

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

func TestSpool(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := NewSpool(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[receipts.Digest][]byte{}
	for _, n := range []int{0, 1, 100, 64 << 10, 200 << 10} {
		b := content("spool", n)
		d, err := s.Put(b)
		if err != nil || d != receipts.Sum(b) {
			t.Fatalf("Put: %v, %v", d, err)
		}
		if d, err = s.Put(b); err != nil || d != receipts.Sum(b) {
			t.Fatalf("Put again: %v, %v", d, err)
		}
		want[d] = b

		b = content("streamed", n+1)
		w, err := s.Create()
		if err != nil {
			t.Fatal(err)
		}
		for part := range slices.Chunk(b, 1000) {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		d, size, err := w.Commit()
		if err != nil || d != receipts.Sum(b) || size != int64(len(b)) {
			t.Fatalf("Commit: %v, %d, %v", d, size, err)
		}
		w.Discard() // does nothing now
		if _, _, err := w.Commit(); err == nil {
			t.Error("commits twice")
		}
		if _, err := w.Write(b); err == nil {
			t.Error("writes after Commit")
		}
		want[d] = b
	}
	w, err := s.Create()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("discarded")); err != nil {
		t.Fatal(err)
	}
	w.Discard()
	w.Discard()
	if err := s.Sync(); err != nil {
		t.Error(err)
	}
	again, err := NewSpool(dir)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := again.Blobs()
	if err != nil || len(blobs) != len(want) {
		t.Fatalf("%d blobs, want %d (%v)", len(blobs), len(want), err)
	}
	for i, d := range blobs {
		if i > 0 && bytes.Compare(blobs[i-1][:], d[:]) >= 0 {
			t.Error("blobs do not ascend")
		}
		r, size, err := again.Open(d)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, want[d]) || size != int64(len(b)) {
			t.Errorf("blob %v: %d bytes, %v", d, size, err)
		}
		r.Close()
	}
	if _, _, err := s.Open(receipts.Sum([]byte("discarded"))); err == nil {
		t.Error("opens a blob that was discarded")
	}
	left, err := filepath.Glob(filepath.Join(dir, "blobs", "*.tmp"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSpoolFindsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := NewSpool(dir)
	if err != nil {
		t.Fatal(err)
	}
	blob := content("damage", 5000)
	d, err := s.Put(blob)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "blobs", "sha256", d.String())
	flipped := bytes.Clone(blob)
	flipped[4000] ^= 1
	for name, damaged := range map[string][]byte{
		"flipped": flipped, "cut": blob[:4999], "empty": nil, "longer": append(bytes.Clone(blob), 0),
	} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		r, _, err := s.Open(d)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(r)
		if c, member := code(t, err); c != BlobMismatch || member != blobName(d) {
			t.Errorf("%s: %v", name, err)
		}
		if n, again := r.Read(make([]byte, 1)); n != 0 || again != err {
			t.Errorf("%s: then %d, %v", name, n, again)
		}
		r.Close()
	}
	// A spool that did not write the file itself does not trust it.
	again, err := NewSpool(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Put(blob); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, blob) {
		t.Error("Put kept a damaged file")
	}
	// A file that shrinks between Open and Read.
	r, _, err := again.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(r)
	if c, _ := code(t, err); c != BlobMismatch {
		t.Errorf("shrunk: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "blobs", "sha256", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Blobs(); err == nil {
		t.Error("a file without a digest for a name goes unnoticed")
	}
}

func TestSpoolConcurrent(t *testing.T) {
	t.Parallel()
	s, err := NewSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				if _, err := s.Put(content("same", 100*j)); err != nil {
					t.Error(err)
				}
				if _, err := s.Put(content(string(rune('a'+i)), 100+j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if blobs, err := s.Blobs(); err != nil || len(blobs) != 20+8*20 {
		t.Errorf("%d blobs (%v)", len(blobs), err)
	}
}
