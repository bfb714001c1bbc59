package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/truegreen-dev/truegreen/verifier"
)

// twoTrees commits, as base and head, trees that differ in every way that a
// patch can express.
func twoTrees(t testing.TB, g *gitRepo) (base, head string) {
	attributes := "* -diff -text binary eol=crlf ident filter=evil diff=evil export-ignore\n"
	type file struct{ mode, content string }
	trees := []map[string]file{{
		"kept":                {"100644", "same\n"},
		"edited":              {"100644", "one\ntwo\nthree\n"},
		"deleted":             {"100644", "gone\n"},
		"deleted empty":       {"100644", ""},
		"mode":                {"100644", "#!/bin/sh\n"},
		"mode and content":    {"100755", "a\n"},
		"to link":             {"100644", "kept"},
		"from link":           {"120000", "kept"},
		"link":                {"120000", "kept"},
		"binary":              {"100644", "\x00\x01" + strings.Repeat("abc\xff", 3000)},
		"lost newline":        {"100644", "x\n"},
		"got newline":         {"100644", "x"},
		"crlf":                {"100644", "a\r\nb\r\n"},
		"moved from":          {"100644", strings.Repeat("the same text\n", 50)},
		"folder/file":         {"100644", "becomes a file\n"},
		"name\twith\n\"odd\"": {"100644", "1\n"},
		"\xe9\xff":            {"100644", "latin\n"},
		"module":              {"160000", "1"},
		"module gone":         {"160000", "1"},
		".gitattributes":      {"100644", attributes},
	}, {
		"kept":                {"100644", "same\n"},
		"edited":              {"100644", "one\n2\nthree\n"},
		"mode":                {"100755", "#!/bin/sh\n"},
		"mode and content":    {"100644", "b\n"},
		"to link":             {"120000", "kept"},
		"from link":           {"100644", "kept"},
		"link":                {"120000", "edited"},
		"binary":              {"100644", "\x00\x02" + strings.Repeat("abd\xff", 3000)},
		"new binary":          {"100755", "\x00\xff\xfe"},
		"lost newline":        {"100644", "x"},
		"got newline":         {"100644", "x\n"},
		"crlf":                {"100644", "a\r\nc\r\n"},
		"moved to":            {"100644", strings.Repeat("the same text\n", 50)},
		"folder":              {"100644", "becomes a file\n"},
		"new empty":           {"100644", ""},
		"new empty exec":      {"100755", ""},
		"name\twith\n\"odd\"": {"100644", "2\n"},
		"\xe9\xff":            {"100644", "Latin\n"},
		"-- dashes":           {"100644", "-- \n--- a/x\n+++ b/x\n"},
		"module":              {"160000", "2"},
		"module new":          {"160000", "2"},
		".gitattributes":      {"100644", attributes + "# changed\n"},
	}}
	for i, tree := range trees {
		var stream bytes.Buffer
		stream.WriteString("commit refs/heads/main\ncommitter C <c@example.org> 1700000000 +0000\ndata 1\nx\n")
		if i > 0 {
			stream.WriteString("from refs/heads/main^0\n")
		}
		stream.WriteString("deleteall\n")
		for path, f := range tree {
			if f.mode == "160000" {
				fmt.Fprintf(&stream, "M 160000 %s %s\n", strings.Repeat(f.content, g.digits()), quotePath(path))
				continue
			}
			fmt.Fprintf(&stream, "M %s inline %s\ndata %d\n%s\n", f.mode, quotePath(path), len(f.content), f.content)
		}
		g.gitIn(stream.String(), "fast-import", "--quiet", "--force")
	}
	return g.git("rev-parse", "main~1^{tree}"), g.git("rev-parse", "main^{tree}")
}

// TestDiffApplies: git itself turns base into head with the patch, and back.
func TestDiffApplies(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			g := newRepo(t, "--object-format="+format)
			base, head := twoTrees(t, g)
			r := g.open()
			for _, c := range [][2]string{{base, head}, {head, base}, {r.EmptyBase("").Tree, head}, {head, r.EmptyBase("").Tree}} {
				var patch bytes.Buffer
				if err := r.Diff(context.Background(), c[0], c[1], &patch); err != nil {
					t.Fatal(err)
				}
				// Into an index without a work tree, so that no attribute of the
				// tree has a say in what git apply does.
				g.git("read-tree", c[0])
				g.gitIn(patch.String(), "apply", "--binary", "--cached", "--whitespace=nowarn", "-")
				if got := g.git("write-tree"); got != c[1] {
					t.Errorf("%.8s..%.8s: applied, the tree is %s", c[0], c[1], got)
				}
			}
			var patch bytes.Buffer
			if err := r.Diff(context.Background(), head, head, &patch); err != nil || patch.Len() > 0 {
				t.Errorf("equal trees: %q, %v", patch.Bytes(), err)
			}
		})
	}
}

// TestDiffAppliesToFiles applies the patch where nothing but the base is, as a
// user would.
func TestDiffAppliesToFiles(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("a/text", "one\ntwo\n")
	g.write("bin", "\x00\x01\x02")
	g.write("gone", "x")
	base := g.commit("base")
	g.write("a/text", "one\n2\n")
	g.write("bin", "\x00\x01\x03")
	os.Remove(filepath.Join(g.dir, "gone"))
	os.Symlink("a/text", filepath.Join(g.dir, "link"))
	os.Chmod(filepath.Join(g.dir, "a/text"), 0o755)
	g.commit("head")
	baseTree, headTree := g.git("rev-parse", base+"^{tree}"), g.git("rev-parse", "HEAD^{tree}")
	r := g.open()
	var patch bytes.Buffer
	if err := r.Diff(context.Background(), baseTree, headTree, &patch); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(patch.String()) {
		if ids, ok := strings.CutPrefix(line, "index "); ok && len(strings.Fields(ids)[0]) != 2*40+2 {
			t.Errorf("shortened ids: %q", line)
		}
	}
	fresh := newRepo(t)
	if _, err := r.Materialise(context.Background(), baseTree, io.Discard, Target{Dir: filepath.Join(fresh.dir, "x")}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(fresh.dir, ".git"), filepath.Join(fresh.dir, "x/.git")); err != nil {
		t.Fatal(err)
	}
	fresh.dir = filepath.Join(fresh.dir, "x")
	fresh.commit("base")
	fresh.gitIn(patch.String(), "apply", "--binary", "--index", "-")
	if got := fresh.git("write-tree"); got != headTree {
		t.Errorf("the tree is %s, want %s", got, headTree)
	}
}

// TestDiffIsIndependent: the repository's configuration and attributes do not
// change a byte of the patch.
func TestDiffIsIndependent(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	base, head := twoTrees(t, g)
	diff := func() string {
		r := g.open()
		defer r.Close()
		var patch bytes.Buffer
		if err := r.Diff(context.Background(), base, head, &patch); err != nil {
			t.Fatal(err)
		}
		return patch.String()
	}
	before := diff()
	if !strings.Contains(before, "-two\n+2\n") {
		t.Errorf("attributes of the tree made a text file binary:\n%.300s", before)
	}
	for key, value := range map[string]string{
		"diff.noprefix": "true", "diff.mnemonicPrefix": "true", "diff.algorithm": "patience", "diff.context": "0", "diff.renames": "copies",
		"diff.submodule": "log", "diff.ignoreSubmodules": "all", "diff.orderFile": "/dev/zero", "diff.interHunkContext": "9", "diff.external": "false",
		"diff.evil.command": "false", "diff.evil.textconv": "false", "diff.suppressBlankEmpty": "true", "diff.wsErrorHighlight": "all", "color.ui": "always",
		"core.abbrev": "4", "core.quotePath": "false", "core.attributesFile": g.dir + "/.git/attributes", "core.bigFileThreshold": "1", "diff.relative": "true",
		"core.whitespace": "cr-at-eol", "core.autocrlf": "true", "diff.indentHeuristic": "true", "attr.tree": "HEAD", "core.compression": "0", "core.precomposeUnicode": "true",
	} {
		g.git("config", key, value)
	}
	for _, name := range []string{"attributes", "info/attributes"} {
		path := filepath.Join(g.dir, ".git", name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte("* -diff diff=evil\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if after := diff(); after != before {
		t.Errorf("the patch changed:\n%.300s", after)
	}
}

func TestDiffRefuses(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.commit("one")
	r := g.open()
	tree := r.EmptyBase("").Tree
	for _, bad := range []string{"", "HEAD", "--output=" + filepath.Join(g.dir, "planted"), strings.Repeat("1", 40), strings.Repeat("1", 64)} {
		var patch bytes.Buffer
		if err := r.Diff(context.Background(), tree, bad, &patch); err == nil {
			t.Errorf("%q: %q", bad, patch.Bytes())
		}
	}
}

// fullDisk is a writer that takes only so much.
type fullDisk int

func (d *fullDisk) Write(p []byte) (int, error) {
	if *d -= fullDisk(len(p)); *d < 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}

// TestFullDisk: what cannot be written is not blamed on the repository.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	base, head := twoTrees(t, g)
	r := g.open()
	disk := fullDisk(100)
	if err := r.Diff(context.Background(), base, head, &disk); !errors.Is(err, syscall.ENOSPC) || code(err) == verifier.UnknownRevision {
		t.Errorf("diff: %v", err)
	}
	if l, err := r.List(context.Background(), head, &disk); !errors.Is(err, syscall.ENOSPC) || code(err) == verifier.HostileTree || l.ID != "" {
		t.Errorf("listing: %v", err)
	}
}
