package forge

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type entry struct {
	name string
	text string
	mode fs.FileMode
	raw  func(*zip.FileHeader) // changes the header after the sizes are in
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.mode == 0 {
			e.mode = 0o644
		}
		h.SetMode(e.mode)
		if e.raw != nil {
			h.Method = zip.Store
			h.CompressedSize64, h.UncompressedSize64 = uint64(len(e.text)), uint64(len(e.text))
			e.raw(h)
			out, err := w.CreateRaw(h)
			if err != nil {
				t.Fatal(err)
			}
			out.Write([]byte(e.text))
			continue
		}
		out, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		out.Write([]byte(e.text))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpack(t testing.TB, b []byte, l ArchiveLimits) (Files, string, error) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, err := Unpack(bytes.NewReader(b), int64(len(b)), root, l)
	return f, dir, err
}

func list(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	b := archive(t, entry{name: "evidence.oidc", text: "token"}, entry{name: "evidence.tar.zst", text: "bundle"}, entry{name: "evidence.sig", text: "sig"})
	f, dir, err := unpack(t, b, ArchiveLimits{})
	if err != nil || f.Bundle != "evidence.tar.zst" || !slices.Equal(f.Sidecars, []string{"evidence.oidc", "evidence.sig"}) {
		t.Fatalf("%+v, %v", f, err)
	}
	for name, want := range map[string]string{"evidence.tar.zst": "bundle", "evidence.oidc": "token", "evidence.sig": "sig"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if s, err := os.Stat(filepath.Join(dir, name)); err != nil || s.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, s.Mode(), err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := Unpack(bytes.NewReader(b), int64(len(b)), root, ArchiveLimits{}); err == nil || errors.Is(err, ErrArchive) || len(list(t, dir)) != 3 {
		t.Errorf("over what is there: %v, and there is %v", err, list(t, dir))
	}
}

// gh-gei#1347 and the rest of what archives are made to do.
func TestUnpackRefuses(t *testing.T) {
	t.Parallel()
	ok := entry{name: "e.tar.zst", text: "bundle"}
	size := func(n uint64) func(*zip.FileHeader) {
		return func(h *zip.FileHeader) { h.UncompressedSize64, h.Method = n, zip.Deflate }
	}
	cases := map[string][]byte{
		"not a zip":       []byte("PK\x03\x04 and then nothing"),
		"empty file":      nil,
		"two bundles":     archive(t, ok, entry{name: "f.tar.zst"}),
		"twice":           archive(t, ok, ok),
		"case":            archive(t, ok, entry{name: "E.tar.zst"}),
		"case of sidecar": archive(t, ok, entry{name: "e.sig"}, entry{name: "e.SIG"}),
		"sidecar twice":   archive(t, ok, entry{name: "e.sig"}, entry{name: "e.sig"}),
		"second is bad":   archive(t, ok, entry{name: "e.sig", text: "sig", raw: func(h *zip.FileHeader) { h.CRC32 = 1 }}),
		"other file":      archive(t, ok, entry{name: "README.md"}),
		"other sidecar":   archive(t, ok, entry{name: "f.oidc"}),
		"sidecar's name":  archive(t, ok, entry{name: "e.tar.zst.oidc"}),
		"absolute":        archive(t, ok, entry{name: "/e.sig"}),
		"up":              archive(t, ok, entry{name: "../e.sig"}),
		"up and down":     archive(t, ok, entry{name: "a/../e.sig"}),
		"folder":          archive(t, ok, entry{name: "a/", mode: fs.ModeDir | 0o755}),
		"in a folder":     archive(t, entry{name: "a/e.tar.zst"}),
		"backslash":       archive(t, ok, entry{name: `..\e.sig`}),
		"drive":           archive(t, ok, entry{name: "C:e.sig"}),
		"stream":          archive(t, ok, entry{name: "e.sig:x"}),
		"nul":             archive(t, ok, entry{name: "e.sig\x00.txt"}),
		"hidden":          archive(t, ok, entry{name: ".sig"}),
		"no name":         archive(t, entry{name: ".tar.zst"}),
		"empty name":      archive(t, ok, entry{name: ""}),
		"right to left":   archive(t, ok, entry{name: "e\u202e.sig"}),
		"long":            archive(t, entry{name: strings.Repeat("a", 200) + ".tar.zst"}),
		"symlink":         archive(t, entry{name: "e.tar.zst", text: "/etc/passwd", mode: fs.ModeSymlink | 0o777}),
		"device":          archive(t, entry{name: "e.tar.zst", mode: fs.ModeDevice | 0o666}),
		"pipe":            archive(t, entry{name: "e.tar.zst", mode: fs.ModeNamedPipe | 0o666}),
		"set uid":         archive(t, entry{name: "e.tar.zst", mode: fs.ModeSetuid | 0o755}),
		"encrypted":       archive(t, entry{name: "e.tar.zst", text: "x", raw: func(h *zip.FileHeader) { h.Flags |= 1 }}),
		"other method":    archive(t, entry{name: "e.tar.zst", text: "x", raw: func(h *zip.FileHeader) { h.Method = 12 }}),
		"checksum":        archive(t, entry{name: "e.tar.zst", text: "bundle", raw: func(h *zip.FileHeader) { h.CRC32 = 1 }}),
		"stored sizes":    archive(t, entry{name: "e.tar.zst", text: "bundle", raw: func(h *zip.FileHeader) { h.UncompressedSize64 = 7 }}),
		"no deflate":      archive(t, entry{name: "e.tar.zst", text: "\xff\xff\xff", raw: size(3)}),
		"too large":       archive(t, entry{name: "e.tar.zst", text: "x", raw: size(3 << 30)}),
		"ratio":           archive(t, entry{name: "e.tar.zst", text: strings.Repeat("\x00", 1<<20)}),
		"large sidecar":   archive(t, ok, entry{name: "e.sig", text: strings.Repeat("abcdefgh", 10_000)}),
		"past the end":    archive(t, entry{name: "e.tar.zst", text: "x", raw: func(h *zip.FileHeader) { h.CompressedSize64, h.UncompressedSize64 = 1<<20, 1<<20 }}),
	}
	many := []entry{ok}
	for i := range 20 {
		many = append(many, entry{name: fmt.Sprintf("%d.sig", i)})
	}
	cases["many"] = archive(t, many...)
	for i := range 100_000 {
		many = append(many, entry{name: fmt.Sprintf("n%d", i), raw: func(*zip.FileHeader) {}})
	}
	cases["100,000"] = archive(t, many...)
	cases["cut off"] = cases["case"][:len(cases["case"])-10]
	cases["overlap"] = overlapping(t)
	for name, b := range cases {
		f, dir, err := unpack(t, b, ArchiveLimits{})
		if !errors.Is(err, ErrArchive) || f.Bundle != "" || f.Sidecars != nil {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		if got := list(t, dir); len(got) != 0 {
			t.Errorf("%s: wrote %v", name, got)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x00\u202e") {
			t.Errorf("%s: %q", name, err)
		}
	}
}

// A counter counts what is read.
type counter struct {
	*bytes.Reader
	n int
}

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	c.n += len(p)
	return c.Reader.ReadAt(p, off)
}

// A directory is not read to its end to find that it is too long.
func TestUnpackReadsLittle(t *testing.T) {
	t.Parallel()
	var many []entry
	for i := range 50_000 {
		many = append(many, entry{name: fmt.Sprintf("n%d", i), raw: func(*zip.FileHeader) {}})
	}
	b := archive(t, many...)
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	c := &counter{Reader: bytes.NewReader(b)}
	if _, err := Unpack(c, int64(len(b)), root, ArchiveLimits{}); !errors.Is(err, ErrArchive) || c.n > maxDirectory+4096 {
		t.Errorf("read %d of %d bytes: %v", c.n, len(b), err)
	}
}

// overlapping returns an archive whose second entry starts inside of the first.
func overlapping(t *testing.T) []byte {
	inner := archive(t, entry{name: "e.sig", text: "sig", raw: func(*zip.FileHeader) {}})
	inner = inner[:bytes.Index(inner, []byte("PK\x01\x02"))]
	b := archive(t, entry{name: "e.tar.zst", text: string(inner), raw: func(*zip.FileHeader) {}}, entry{name: "e.sig", text: "sig", raw: func(*zip.FileHeader) {}})
	// Point the directory's second entry at the copy of its header in the first.
	inside := bytes.Index(b, inner)
	second := bytes.LastIndex(b, []byte("PK\x01\x02"))
	b[second+42], b[second+43] = byte(inside), byte(inside>>8)
	return b
}

func TestUnpackNoBundle(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"no entries":  archive(t),
		"other files": archive(t, entry{name: "report.xml", text: "<x/>"}),
	} {
		if _, dir, err := unpack(t, b, ArchiveLimits{}); !errors.Is(err, ErrNoBundle) || errors.Is(err, ErrArchive) || len(list(t, dir)) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	ok := entry{name: "e.tar.zst", text: "bundle"}
	f.Add(archive(f, ok))
	f.Add(archive(f, ok, entry{name: "e.sig", text: "x"}))
	f.Add(archive(f, entry{name: "e.tar.zst", text: "bundle", raw: func(h *zip.FileHeader) { h.CRC32 = 1 }}))
	f.Add(archive(f, ok, entry{name: "../e.sig"}))
	f.Add(archive(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		files, dir, err := unpack(t, b, ArchiveLimits{Bundle: 1 << 20, Sidecar: 1 << 10})
		got := list(t, dir)
		if err != nil {
			if len(got) != 0 || files.Bundle != "" {
				t.Errorf("%v, and %v is there", err, got)
			}
			return
		}
		want := append([]string{files.Bundle}, files.Sidecars...)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("said %v, wrote %v", want, got)
		}
		for _, name := range got {
			if s, err := os.Lstat(filepath.Join(dir, name)); err != nil || !s.Mode().IsRegular() || s.Size() > 1<<20 || !fileName().MatchString(name) {
				t.Errorf("%s: %v, %v", name, s, err)
			}
		}
	})
}
