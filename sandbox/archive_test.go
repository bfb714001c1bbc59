//go:build linux && (amd64 || arm64)

package sandbox

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHostileArchives: nothing that an archive says gets outside of where it is
// unpacked, and its sibling least of all.
func TestHostileArchives(t *testing.T) {
	t.Parallel()
	dir := tar.Header{Name: ".", Typeflag: tar.TypeDir, Mode: 0o755}
	file := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: 1}
	}
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	for name, c := range map[string]struct {
		entries []tar.Header
		ok      bool
	}{
		"empty":                     {nil, false},
		"sound":                     {[]tar.Header{dir, file("a"), {Name: "b", Typeflag: tar.TypeDir, Mode: 0o755}, file("b/c"), link("b/d", "../a")}, true},
		"one file":                  {[]tar.Header{file(".")}, true},
		"one file and more":         {[]tar.Header{file("."), file("a")}, false},
		"no top":                    {[]tar.Header{file("a")}, false},
		"a link as the top":         {[]tar.Header{link(".", "../sibling")}, false},
		"through a link":            {[]tar.Header{dir, link("x", "../sibling"), file("x/evil")}, false},
		"through an absolute link":  {[]tar.Header{dir, link("x", "/tmp"), file("x/evil")}, false},
		"over a link":               {[]tar.Header{dir, link("x", "../sibling/evil"), file("x")}, false},
		"a directory over a link":   {[]tar.Header{dir, link("x", "../sibling"), {Name: "x", Typeflag: tar.TypeDir, Mode: 0o777}}, false},
		"up":                        {[]tar.Header{dir, file("../sibling/evil")}, false},
		"up in the middle":          {[]tar.Header{dir, file("a/../../sibling/evil")}, false},
		"absolute":                  {[]tar.Header{dir, file("/tmp/evil")}, false},
		"twice":                     {[]tar.Header{dir, file("a"), file("a")}, false},
		"the top again":             {[]tar.Header{dir, {Name: "./", Typeflag: tar.TypeDir, Mode: 0o777}}, false},
		"a hard link":               {[]tar.Header{dir, {Name: "h", Typeflag: tar.TypeLink, Linkname: "../sibling/there"}}, false},
		"a device":                  {[]tar.Header{dir, {Name: "d", Typeflag: tar.TypeBlock, Devmajor: 254}}, false},
		"a fifo":                    {[]tar.Header{dir, {Name: "f", Typeflag: tar.TypeFifo}}, false},
		"too many":                  {append([]tar.Header{dir}, file("1"), file("2"), file("3"), file("4"), file("5"), file("6")), false},
		"too large":                 {[]tar.Header{dir, {Name: "a", Typeflag: tar.TypeReg, Size: 1 << 20}}, false},
		"one that is too large":     {[]tar.Header{{Name: ".", Typeflag: tar.TypeReg, Size: 1 << 20}}, false},
		"mode bits beyond the nine": {[]tar.Header{dir, {Name: "s", Typeflag: tar.TypeReg, Mode: 0o6755, Size: 1}}, true},
	} {
		parent := t.TempDir()
		sibling := filepath.Join(parent, "sibling")
		if err := os.Mkdir(sibling, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sibling, "there"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		for _, h := range c.entries {
			if err := tw.WriteHeader(&h); err != nil {
				t.Fatal(name, err)
			}
			tw.Write(bytes.Repeat([]byte("x"), int(h.Size)))
		}
		if err := tw.Close(); err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(parent, "target")
		if err := readTree(&b, target, 1000, 5, ids{}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if list, err := os.ReadDir(sibling); err != nil || len(list) != 1 {
			t.Errorf("%s: beside the target is now %v, %v", name, list, err)
		}
		if info, err := os.Stat(filepath.Join(target, "s")); err == nil && info.Mode() != 0o755 {
			t.Errorf("%s: mode %v", name, info.Mode())
		}
	}
}

// TestArchives: what is sent is what arrives.
func TestArchives(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	for name, mode := range map[string]os.FileMode{"a": 0o644, "sub/b\n\xff": 0o755, "sub/deep/c": 0o400} {
		p := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../a", filepath.Join(from, "sub/link")); err != nil {
		t.Fatal(err)
	}
	var b, again bytes.Buffer
	if err := writeTree(&b, from); err != nil {
		t.Fatal(err)
	}
	first := b.String()
	if err := readTree(&b, to, 1<<20, 100, ids{}); err != nil {
		t.Fatal(err)
	}
	if err := writeTree(&again, to); err != nil {
		t.Fatal(err)
	}
	if names(t, first) != names(t, again.String()) {
		t.Errorf("sent %q, arrived %q", names(t, first), names(t, again.String()))
	}
}

// names lists what is in an archive, sorted by the file system's order.
func names(t *testing.T, archive string) string {
	t.Helper()
	seen := map[string]string{}
	tr := tar.NewReader(strings.NewReader(archive))
	for {
		h, err := tr.Next()
		if err != nil {
			break
		}
		var content bytes.Buffer
		content.ReadFrom(tr)
		seen[h.Name] = h.Linkname + " " + os.FileMode(h.Mode).String() + " " + content.String()
	}
	var list []string
	for _, name := range []string{".", "a", "sub", "sub/b\n\xff", "sub/deep", "sub/deep/c", "sub/link"} {
		list = append(list, name+" "+seen[name])
		delete(seen, name)
	}
	if len(seen) > 0 {
		t.Errorf("unexpected %v", seen)
	}
	return strings.Join(list, "\n")
}

// TestHostileTreeMoved: where nothing is mounted, a link in a tree does not lead
// what belongs into the tree elsewhere.
func TestHostileTreeMoved(t *testing.T) {
	needRestricted(t)
	t.Parallel()
	dir := reachableDir(t)
	for _, d := range []string{"tree", "outside", "deps"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "outside"), filepath.Join(dir, "tree/vendor")); err != nil {
		t.Fatal(err)
	}
	for _, m := range []Mount{
		{Source: filepath.Join(dir, "deps"), Target: "/src/vendor/x", Kind: ReadOnly},
		{Source: filepath.Join(dir, "deps"), Target: "/src/vendor", Kind: ReadOnly},
		{Source: filepath.Join(dir, "deps"), Target: "/src/vendor/x", Kind: Overlay},
		{Source: filepath.Join(dir, "deps"), Target: "/src/vendor", Kind: Overlay},
		{Source: filepath.Join(dir, "deps"), Target: "/src/vendor/x/y", Kind: Writable},
		{Target: "/src/vendor/x", Kind: Scratch},
		{Target: "/src/vendor", Kind: Scratch},
	} {
		_, err := Run(t.Context(), Spec{
			Argv: []string{"true"}, Env: testEnv(), Modes: []Mode{ModeRestricted},
			Mounts: []Mount{{Source: filepath.Join(dir, "tree"), Target: "/src", Kind: Overlay}, m},
		})
		var no *RefusedError
		if err == nil || errors.As(err, &no) { // it is the Spec that is wrong
			t.Errorf("%+v: %v", m, err)
		}
		if list, err := os.ReadDir(filepath.Join(dir, "outside")); err != nil || len(list) > 0 {
			t.Fatalf("%+v: outside is now %v, %v", m, list, err)
		}
	}
}
