package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
)

// TestHeaderOracle compares our headers with those of archive/tar.
func TestHeaderOracle(t *testing.T) {
	t.Parallel()
	for _, e := range []struct {
		name string
		size int64
	}{
		{"seal", 0}, {"seal.mac", 65}, {"log", 1 << 30}, {blobName(receipts.Sum(nil)), 511}, {"log", maxTarSize},
	} {
		ours, err := header(e.name, e.size)
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		if err := tar.NewWriter(&buf).WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Size: e.size, Mode: 0o444, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ours[:], buf.Bytes()) {
			t.Errorf("%s, %d: archive/tar writes another header", e.name, e.size)
		}
		name, size, err := parseHeader(&ours)
		if err != nil || name != e.name || size != e.size {
			t.Errorf("%s, %d: parsed as %s, %d, %v", e.name, e.size, name, size, err)
		}
	}
	for _, bad := range []struct {
		name string
		size int64
	}{{"", 0}, {string(make([]byte, 101)), 0}, {"log", -1}, {"log", maxTarSize + 1}} {
		if h, err := header(bad.name, bad.size); err == nil || h != [blockLen]byte{} {
			t.Errorf("%q, %d: has a header", bad.name, bad.size)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, edit := range map[string]func(*Members){
		"no seal":       func(m *Members) { m.Seal = nil },
		"large seal":    func(m *Members) { m.Seal = make([]byte, maxSeal+1) },
		"empty mac":     func(m *Members) { m.MAC = []byte{} },
		"blobs descend": func(m *Members) { slices.Reverse(m.Blobs) },
		"blob twice":    func(m *Members) { m.Blobs = append(m.Blobs, m.Blobs[len(m.Blobs)-1]) },
		"missing blob":  func(m *Members) { m.Blobs = []receipts.Digest{receipts.Sum([]byte("missing"))} },
		"long log": func(m *Members) {
			m.Log = func() (io.ReadCloser, int64, error) {
				return io.NopCloser(bytes.NewReader(make([]byte, 10))), 9, nil
			}
		},
		"short log": func(m *Members) {
			m.Log = func() (io.ReadCloser, int64, error) {
				return io.NopCloser(bytes.NewReader(make([]byte, 10))), 11, nil
			}
		},
		"broken log": func(m *Members) {
			m.Log = func() (io.ReadCloser, int64, error) {
				return io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, 10)), brokenReader{broken})), 20, nil
			}
		},
		"no log": func(m *Members) { m.Log = func() (io.ReadCloser, int64, error) { return nil, 0, broken } },
	} {
		m := small().members()
		edit(&m)
		if err := Write(io.Discard, m); err == nil {
			t.Errorf("%s: written", name)
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "new", "folder", "e.tar.zst")
		if err := WriteFile(path, m, nil); err == nil {
			t.Errorf("%s: written to a file", name)
		}
		if left := files(t, dir); len(left) != 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
}

type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

type brokenWriter struct{ left int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestWriteToBrokenWriter(t *testing.T) {
	t.Parallel()
	m := large()
	n := len(m.write(t))
	for _, left := range []int{0, 1, 1000, n / 2, n - 1} {
		if err := Write(&brokenWriter{left}, m.members()); err == nil {
			t.Errorf("room for %d of %d bytes: no error", left, n)
		}
	}
	if err := Write(&brokenWriter{n}, m.members()); err != nil {
		t.Error(err)
	}
}

// files returns the files below dir.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "folder", "e.tar.zst")
	m := small()
	checked := false
	err := WriteFile(path, m.members(), func(r *Reader) error {
		checked = bytes.Equal(r.Seal(), m.seal)
		if _, err := os.Stat(path); err == nil {
			t.Error("the file is there before it was checked")
		}
		_, _, err := r.Blob(receipts.Sum(m.blobs[0])) // was walked
		return err
	})
	if err != nil || !checked {
		t.Fatalf("checked: %v, %v", checked, err)
	}
	old, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(old, m.write(t)) {
		t.Errorf("the file is not what Write writes (%v)", err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600 (%v)", info.Mode(), err)
	}

	refused := errors.New("refused")
	if err := WriteFile(path, large().members(), func(*Reader) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("check refused, and WriteFile returned %v", err)
	}
	// A blob of which Open says nothing, and that is wrong.
	wrong := large().members()
	open := wrong.Open
	wrong.Open = func(d receipts.Digest) (io.ReadCloser, int64, error) {
		r, n, err := open(d)
		if err != nil || n == 0 {
			return r, n, err
		}
		return io.NopCloser(io.MultiReader(bytes.NewReader([]byte{0}), io.LimitReader(r, n-1))), n, nil
	}
	err = WriteFile(path, wrong, nil)
	if c, _ := code(t, err); c != BlobMismatch {
		t.Errorf("wrong blob: %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, old) {
		t.Error("the old file is gone")
	}
	if left := files(t, dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if err := WriteFile(path, large().members(), nil); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile(path); err != nil || bytes.Equal(now, old) {
		t.Error("the file was not replaced")
	}
	if err := WriteFile(dir, m.members(), nil); err == nil {
		t.Error("a directory was replaced")
	}
	if err := WriteFile(filepath.Join(path, "below", "a", "file"), m.members(), nil); err == nil {
		t.Error("written below a file")
	}
}

// TestSplitPoints has members end just before, at and after 1 MiB.
func TestSplitPoints(t *testing.T) {
	t.Parallel()
	for _, n := range []int{maxBlockLen, splitLen} {
		for d := -2 * blockLen; d <= 2*blockLen; d += blockLen / 2 {
			for _, e := range []int{-1, 0, 1} {
				m := memory{seal: []byte("seal"), log: content("log", n-3*blockLen+d+e), blobs: [][]byte{content("b", 1)}}
				got, _, err := read(m.write(t), Limits{})
				if err != nil || !got.equal(m) {
					t.Fatalf("%d%+d%+d: %v", n, d, e, err)
				}
			}
		}
	}
}

// TestWriteChunks has readers that return what they like.
func TestWriteChunks(t *testing.T) {
	t.Parallel()
	m := large()
	want := m.write(t)
	for _, n := range []int{1 << 10, 100_000, 1 << 20} {
		members := m.members()
		open := members.Open
		members.Open = func(d receipts.Digest) (io.ReadCloser, int64, error) {
			r, size, err := open(d)
			return io.NopCloser(chunkReader{r, n}), size, err
		}
		var got bytes.Buffer
		if err := Write(&got, members); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("reads of %d bytes give another file", n)
		}
	}
}

type chunkReader struct {
	r io.Reader
	n int
}

func (r chunkReader) Read(p []byte) (int, error) { return r.r.Read(p[:min(len(p), r.n)]) }

// TestWalkHeap holds the heap of a walk to 8 MiB and 48 bytes per blob.
func TestWalkHeap(t *testing.T) {
	// Not parallel: it measures the heap.
	const blobs = 20_000
	m := memory{seal: []byte("seal"), log: content("log", 8<<20)}
	for i := range blobs {
		m.blobs = append(m.blobs, fmt.Appendf(nil, "blob %d", i))
	}
	m.blobs = append(m.blobs, content("large", 30<<20))
	file := m.write(t)
	m = memory{}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := Open(bytes.NewReader(file), int64(len(file)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var most uint64
	n := 0
	err = r.Walk(func(Entry, io.Reader) error {
		if n++; n%500 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&now)
	most = max(most, now.HeapAlloc)
	limit := uint64(8<<20 + 48*blobs)
	if used := most - before.HeapAlloc; most > before.HeapAlloc && used > limit {
		t.Errorf("%d bytes of heap, want at most %d", used, limit)
	} else {
		t.Logf("%d bytes of heap, %d allowed", used, limit)
	}
	runtime.KeepAlive(r)
}
