package bundle

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

// goldenTar is the SHA-256 of the tar of small(). A change of it is a change
// of the format. The bytes of the zstd file may change with the compressor.
const goldenTar = "cd998e405f2077a91e9829adf7c7e8d4cc957a7748eccd5b0022efdc735c3959"

func TestGolden(t *testing.T) {
	t.Parallel()
	file := small().write(t)
	r, err := Open(bytes.NewReader(file), int64(len(file)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := r.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if id.String() != goldenTar {
		t.Errorf("identity %v, want %s", id, goldenTar)
	}
	if got := receipts.Sum(unpack(t, file)); got != id {
		t.Errorf("identity %v, but the tar has SHA-256 %v", id, got)
	}
	if !bytes.Equal(file, small().write(t)) {
		t.Error("two writes of the same members differ")
	}
}

// TestSealIsEarly pins that the seal lies in the first 4 KiB of the tar.
func TestSealIsEarly(t *testing.T) {
	t.Parallel()
	if blockLen+maxSeal > 4096 {
		t.Errorf("the largest seal ends at byte %d", blockLen+maxSeal)
	}
}

// TestStockTools reads a bundle with what every system has.
func TestStockTools(t *testing.T) {
	t.Parallel()
	tar, zstd, sha := tool(t, "tar"), tool(t, "zstd"), tool(t, "sha256sum")
	m := large()
	dir := t.TempDir()
	path := filepath.Join(dir, "e.tar.zst")
	if err := WriteFile(path, m.members(), nil); err != nil {
		t.Fatal(err)
	}
	list, err := run(t, dir, "", tar, "--zstd", "-tf", "e.tar.zst")
	if err != nil {
		t.Fatalf("tar: %v: %s", err, list)
	}
	var want strings.Builder
	for _, r := range m.raw() {
		want.WriteString(r.name + "\n")
	}
	if list != want.String() {
		t.Errorf("tar lists\n%s", list)
	}
	if out, err := run(t, dir, "", tar, "--zstd", "-xf", "e.tar.zst"); err != nil || out != "" {
		t.Errorf("tar: %v: %s", err, out)
	}
	for _, r := range m.raw() {
		b, err := os.ReadFile(filepath.Join(dir, r.name))
		if err != nil || !bytes.Equal(b, r.content) {
			t.Errorf("tar extracts another %s: %v", r.name, err)
		}
		if strings.HasPrefix(r.name, blobPrefix) {
			if out, err := run(t, dir, "", sha, r.name); err != nil || !strings.HasPrefix(out, r.name[len(blobPrefix):]+" ") {
				t.Errorf("sha256sum: %v: %s", err, out)
			}
		}
	}
	if out, err := run(t, dir, "", zstd, "-q", "-t", "e.tar.zst"); err != nil {
		t.Errorf("zstd -t: %s", out)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(f, info.Size(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := r.Identity()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := exec.Command(zstd, "-q", "-dc", path).Output()
	if err != nil || receipts.Sum(decoded) != id {
		t.Errorf("zstd -dc gives another tar (%v)", err)
	}
}

// TestForeignCompressor reads what the zstd tool compressed as the format
// asks: another encoder makes other bytes of the same bundle.
func TestForeignCompressor(t *testing.T) {
	t.Parallel()
	zstd := tool(t, "zstd")
	m := small()
	cmd := exec.Command(zstd, "-q", "-c", "--check", "--no-content-size", "--zstd=wlog=20")
	// A pipe, so that the tool does not choose a window by the size.
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer in.Close()
		_, _ = in.Write(tarOf(t, m.raw()))
	}()
	file, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	ours := m.write(t)
	if bytes.Equal(file, ours) {
		t.Log("the zstd tool makes the same bytes")
	}
	got, r, err := read(file, Limits{})
	if err != nil {
		t.Fatalf("% x…: %v", file[:8], err)
	}
	id, err := r.Identity()
	if err != nil || id.String() != goldenTar || !got.equal(m) {
		t.Errorf("identity %v, want %s (%v)", id, goldenTar, err)
	}
}

// TestOrdinaryTarZst has a file that looks much like a bundle.
func TestOrdinaryTarZst(t *testing.T) {
	t.Parallel()
	tar := tool(t, "tar")
	tool(t, "zstd")
	dir := t.TempDir()
	writeFile(t, dir, "seal", "seal\n")
	writeFile(t, dir, "log", "log\n")
	if out, err := run(t, dir, "", tar, "--zstd", "-cf", "x.tar.zst", "seal", "log"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "x.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(bytes.NewReader(b), int64(len(b)), Limits{})
	if c, _ := code(t, err); c != NotABundle {
		t.Errorf("%v", err)
	}
	_, err = Open(bytes.NewReader(frame(t, unpack(t, b))), 1<<20, Limits{})
	if c, _ := code(t, err); c != NotABundle {
		t.Errorf("in our frame: %v", err)
	}
}

// TestReaderErrors has a medium that fails: that is nobody's forgery.
func TestReaderErrors(t *testing.T) {
	t.Parallel()
	file := large().write(t)
	for _, at := range []int64{0, 3, 1000, int64(len(file)) / 2} {
		f := failingFile{bytes.NewReader(file), at}
		r, err := Open(f, int64(len(file)), Limits{})
		if err == nil {
			err = r.Walk(func(Entry, io.Reader) error { return nil })
		}
		if !isFailing(err) {
			t.Errorf("at %d: %v", at, err)
		}
	}
}
