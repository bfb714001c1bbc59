package verifier

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

// blobEntry returns the entry of a file with the given content.
func blobEntry(format, mode, path, content string) TreeEntry {
	object := fmt.Appendf(nil, "blob %d\x00%s", len(content), content)
	e := TreeEntry{Mode: mode, Sum: receipts.Sum(object), Size: int64(len(content)), Path: path}
	e.ID = e.Sum.String()
	if format == "sha1" {
		e.ID = fmt.Sprintf("%x", sha1.Sum(object))
	}
	return e
}

func gitlinkEntry(path, id string) TreeEntry {
	return TreeEntry{Mode: "160000", ID: id, Sum: GitlinkSum(id), Path: path}
}

// encodeTree writes a listing.
func encodeTree(format string, entries ...TreeEntry) ([]byte, Tree, error) {
	var b bytes.Buffer
	w, err := NewTreeWriter(&b, format, TreeLimits{})
	if err != nil {
		return nil, Tree{}, err
	}
	for _, e := range entries {
		if err := w.Add(e); err != nil {
			return nil, Tree{}, err
		}
	}
	tree, err := w.Close()
	return b.Bytes(), tree, err
}

// awkward is a tree whose order and names are easy to get wrong, sorted.
var awkward = []struct{ mode, path, content string }{
	{"100644", "a-b", "file before the folder a\n"},
	{"100644", "a.c", ""},
	{"100755", "a/b", "#!/bin/sh\n"},
	{"100644", "a/b.c", "x"},
	{"120000", "a/b0", "../a.c"},
	{"100644", "a/d/e/f", "deep\n"},
	{"100644", "a0", "file after the folder a\n"},
	{"100644", "gitmodules", "not special\n"},
	{"100644", "new\nline\ttab", "x\n"},
	{"100644", "x/.gitignore", "*\n"},
	{"100644", "\xff\xfe", "not UTF-8\n"},
}

// git makes a repository with the awkward tree and returns the root tree's id.
func gitTree(t *testing.T, format string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	git("", "init", "-q", "--bare", "--object-format="+format)
	var stream strings.Builder
	stream.WriteString("commit refs/heads/main\ncommitter C <c@example.org> 1 +0000\ndata 0\n")
	for _, f := range awkward {
		path := f.path
		if strings.Contains(path, "\n") {
			path = `"new\nline\ttab"`
		}
		fmt.Fprintf(&stream, "M %s inline %s\ndata %d\n%s\n", f.mode, path, len(f.content), f.content)
	}
	git(stream.String(), "fast-import", "--quiet")
	return git("", "rev-parse", "refs/heads/main^{tree}")
}

func TestTreeEqualsGit(t *testing.T) {
	t.Parallel()
	sha256 := gitTree(t, "sha256")
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			var entries []TreeEntry
			for _, f := range awkward {
				entries = append(entries, blobEntry(format, f.mode, f.path, f.content))
			}
			b, tree, err := encodeTree(format, entries...)
			if err != nil {
				t.Fatal(err)
			}
			if want := gitTree(t, format); tree.ID != want {
				t.Errorf("id %s, git says %s", tree.ID, want)
			}
			if tree.SHA256.String() != sha256 {
				t.Errorf("sha256 %s, git says %s", tree.SHA256, sha256)
			}
			var again []TreeEntry
			read, err := ReadTree(bytes.NewReader(b), TreeLimits{}, func(e TreeEntry) error {
				again = append(again, e)
				return nil
			})
			if err != nil || read != tree {
				t.Errorf("read back: %+v, %v; want %+v", read, err, tree)
			}
			for i := range entries {
				if again[i] != entries[i] {
					t.Errorf("entry %d: read back %+v, want %+v", i, again[i], entries[i])
				}
			}
		})
	}
}

func TestTreeListingGolden(t *testing.T) {
	t.Parallel()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	b, tree, err := encodeTree("sha1", blobEntry("sha1", "100644", "hello.txt", "hello\n"), gitlinkEntry("lib", commit))
	if err != nil {
		t.Fatal(err)
	}
	want := "truegreen/v1 tree sha1\x00" +
		"100644 ce013625030ba8dba906f756967f9e9ca394464a 2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4 6\thello.txt\x00" +
		"160000 " + commit + " " + receipts.Sum([]byte("gitlink\x00"+commit)).String() + " -\tlib\x00"
	if string(b) != want {
		t.Errorf("listing\n%q\nwant\n%q", b, want)
	}
	if tree.Entries != 2 || tree.Gitlinks != 1 || tree.Bytes != 6 {
		t.Errorf("totals %+v", tree)
	}
}

func TestEmptyTree(t *testing.T) {
	t.Parallel()
	for format, id := range map[string]string{
		"sha1":   "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
		"sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
	} {
		b, tree, err := encodeTree(format)
		if err != nil || tree.ID != id || tree.SHA256.String() != "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321" {
			t.Errorf("%s: %+v, %v", format, tree, err)
		}
		if again, err := ReadTree(bytes.NewReader(b), TreeLimits{}, nil); err != nil || again != tree {
			t.Errorf("%s: read back %+v, %v", format, again, err)
		}
	}
}

func TestTreeRefusesPaths(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("d/", 2047) + "abc"
	for _, path := range []string{
		"", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/..", "../a", "a/../b", "a\x00b", long,
		".git", ".git/config", "a/.git/b", ".GIT", ".giT", "git~1", "GIT~1/x", ".git.", ".git ", ".git . .", ".git::$INDEX_ALLOCATION",
		".git:x", "git~1:y", `a\.git`, `a\git~1\b`, ".g\u200cit", ".git\ufeff", "\u206a.Git", ".\u202egit",
	} {
		if _, _, err := encodeTree("sha1", blobEntry("sha1", "100644", path, "x")); err == nil {
			t.Errorf("path %q: accepted", path)
		}
	}
	for _, path := range []string{".gitx", ".github", "git", "git~2", "x.git", ".gi", ".gitattributes", "...", ".. ", "a:b", `a\b`, "\u200cgit", long[2:]} {
		if _, _, err := encodeTree("sha1", blobEntry("sha1", "100644", path, "x")); err != nil {
			t.Errorf("path %q: %v", path, err)
		}
	}
}

func TestTreeRefusesOrder(t *testing.T) {
	t.Parallel()
	file := func(path string) TreeEntry { return blobEntry("sha1", "100644", path, "x") }
	for _, paths := range [][]string{
		{"b", "a"}, {"a", "a"}, {"a/b", "a"}, {"a/b", "a/b"}, {"a", "a/b"}, {"a", "a.c", "a/b"}, {"a", "a-", "a.", "a.c/d", "a/b"},
		{"d/a", "d/a-b/c", "d/a.c", "d/a/b"}, {"a/b", "a/c", "a/b/d"},
	} {
		var entries []TreeEntry
		for _, p := range paths {
			entries = append(entries, file(p))
		}
		if _, _, err := encodeTree("sha1", entries...); err == nil {
			t.Errorf("%q: accepted", paths)
		}
	}
	if _, _, err := encodeTree("sha1", gitlinkEntry("a", strings.Repeat("1", 40)), file("a/b")); err == nil {
		t.Error("file below a gitlink: accepted")
	}
}

func TestTreeRefusesEntries(t *testing.T) {
	t.Parallel()
	good := blobEntry("sha1", "100644", "a", "x")
	link := gitlinkEntry("a", strings.Repeat("1", 40))
	for name, bad := range map[string]TreeEntry{
		"directory":         {Mode: "040000", ID: good.ID, Path: "a"},
		"short mode":        {Mode: "40000", ID: good.ID, Path: "a"},
		"old mode":          {Mode: "100664", ID: good.ID, Path: "a"},
		"unknown mode":      {Mode: "100600", ID: good.ID, Path: "a"},
		"no id":             {Mode: "100644", Path: "a"},
		"long id":           {Mode: "100644", ID: strings.Repeat("1", 64), Path: "a"},
		"upper case id":     {Mode: "100644", ID: strings.ToUpper(good.ID), Path: "a"},
		"negative size":     {Mode: "100644", ID: good.ID, Size: -1, Path: "a"},
		"gitlink with size": {Mode: "160000", ID: link.ID, Sum: link.Sum, Size: 1, Path: "a"},
		"gitlink sum":       {Mode: "160000", ID: link.ID, Sum: good.Sum, Path: "a"},
	} {
		if _, _, err := encodeTree("sha1", bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	bad := blobEntry("sha256", "100644", "a", "x")
	bad.Sum[0]++
	if _, _, err := encodeTree("sha256", bad); err == nil {
		t.Error("id and sum differ in a sha256 repository: accepted")
	}
	if _, err := NewTreeWriter(io.Discard, "md5", TreeLimits{}); err == nil {
		t.Error("object format md5: accepted")
	}
}

func TestTreeRefusesListings(t *testing.T) {
	t.Parallel()
	good, _, err := encodeTree("sha1", blobEntry("sha1", "100644", "a", "x"), gitlinkEntry("b", strings.Repeat("1", 40)))
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	for name, bad := range map[string]string{
		"nothing":               "",
		"no version":            strings.TrimPrefix(text, "truegreen/v1 "),
		"another version":       strings.Replace(text, "/v1", "/v2", 1),
		"another format":        strings.Replace(text, "sha1", "sha512", 1),
		"header without end":    "truegreen/v1 tree sha1",
		"no end":                text[:len(text)-1],
		"padded size":           strings.Replace(text, " 1\ta", " 01\ta", 1),
		"signed size":           strings.Replace(text, " 1\ta", " +1\ta", 1),
		"no size":               strings.Replace(text, " 1\ta", " -\ta", 1),
		"size of a gitlink":     strings.Replace(text, " -\tb", " 0\tb", 1),
		"two spaces":            strings.Replace(text, "100644 ", "100644  ", 1),
		"no tab":                strings.Replace(text, "\ta", " a", 1),
		"empty record":          text + "\x00",
		"carriage return":       strings.Replace(text, "sha1\x00", "sha1\r\x00", 1),
		"huge size":             strings.Replace(text, " 1\ta", " 99999999999999999999\ta", 1),
		"record without an end": text + strings.Repeat("x", 1<<20),
	} {
		if tree, err := ReadTree(strings.NewReader(bad), TreeLimits{}, nil); err == nil || tree != (Tree{}) {
			t.Errorf("%s: %+v, %v", name, tree, err)
		}
	}
	for n := range len(good) - 1 {
		tree, err := ReadTree(bytes.NewReader(good[:n]), TreeLimits{}, nil)
		if err == nil && good[n-1] != 0 {
			t.Errorf("cut after %d bytes: accepted as %+v", n, tree)
		}
	}
}

func TestTreeLimits(t *testing.T) {
	t.Parallel()
	b, _, err := encodeTree("sha1", blobEntry("sha1", "100644", "a", "xx"), blobEntry("sha1", "100644", "b", "yyy"))
	if err != nil {
		t.Fatal(err)
	}
	records := int64(len(b) - len("truegreen/v1 tree sha1\x00"))
	for limits, ok := range map[TreeLimits]bool{
		{Entries: 2, Listing: records, File: 3, Total: 5}: true,
		{Entries: 1}:           false,
		{Listing: records - 1}: false,
		{File: 2}:              false,
		{Total: 4}:             false,
	} {
		_, err := ReadTree(bytes.NewReader(b), limits, nil)
		if ok != (err == nil) || !ok && !errors.Is(err, ErrTreeLimit) {
			t.Errorf("%+v: %v", limits, err)
		}
	}
}

func TestReadTreeStopsWithVisit(t *testing.T) {
	t.Parallel()
	b, _, err := encodeTree("sha1", blobEntry("sha1", "100644", "a", "x"), blobEntry("sha1", "100644", "b", "y"))
	if err != nil {
		t.Fatal(err)
	}
	stop, visits := errors.New("stop"), 0
	_, err = ReadTree(bytes.NewReader(b), TreeLimits{}, func(TreeEntry) error { visits++; return stop })
	if err != stop || visits != 1 {
		t.Errorf("%d visits, %v", visits, err)
	}
}

// FuzzTreeListing: what parses has one encoding.
func FuzzTreeListing(f *testing.F) {
	for _, format := range []string{"sha1", "sha256"} {
		var entries []TreeEntry
		for _, file := range awkward {
			entries = append(entries, blobEntry(format, file.mode, file.path, file.content))
		}
		b, _, err := encodeTree(format, entries...)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	b, _, err := encodeTree("sha1", gitlinkEntry("a", strings.Repeat("1", 40)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, in []byte) {
		var entries []TreeEntry
		tree, err := ReadTree(bytes.NewReader(in), TreeLimits{}, func(e TreeEntry) error {
			entries = append(entries, e)
			return nil
		})
		if err != nil {
			if tree != (Tree{}) {
				t.Fatal("a value beside an error")
			}
			return
		}
		out, again, err := encodeTree(tree.Format, entries...)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(in, out) || again != tree {
			t.Fatalf("%q parses and encodes as %q", in, out)
		}
	})
}

func BenchmarkReadTree(b *testing.B) {
	var entries []TreeEntry
	for i := range 5000 {
		entries = append(entries, blobEntry("sha1", "100644", fmt.Sprintf("pkg/d%03d/file%d.go", i/10, i%10), fmt.Sprint(i)))
	}
	listing, _, err := encodeTree("sha1", entries...)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(listing)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadTree(bytes.NewReader(listing), TreeLimits{}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
