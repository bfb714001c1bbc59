package runner

import (
	"bytes"
	"context"
	"crypto/sha1"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// written materialises HEAD and returns the folder.
func (g *gitRepo) written() (dir string, l Listing, err error) {
	g.t.Helper()
	r := g.open()
	head, err := r.Resolve(context.Background(), "HEAD")
	if err != nil {
		g.t.Fatal(err)
	}
	dir = filepath.Join(g.t.TempDir(), "tree")
	l, err = r.Materialise(context.Background(), head.Tree, io.Discard, Target{Dir: dir})
	return dir, l, err
}

// TestAttributes: no attribute, of the tree or of the repository, changes,
// adds or hides a file. Attempt 110 of the conformance list.
func TestAttributes(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	// With attributes git would change what it commits: they come later.
	files := map[string]string{
		"eol.txt": "a\nb\n", "ident.txt": "$Id$\n", "encoding.txt": "caf\u00e9\n", "subst.txt": "$Format:%H$\n", "ignored_test.go": "package x\n", "filter.txt": "x\n",
	}
	for name, content := range files {
		g.write(name, content)
	}
	g.commit("one")
	attributes := "eol.txt text eol=crlf\nident.txt ident\nencoding.txt text working-tree-encoding=UTF-16LE\n" +
		"subst.txt export-subst\nignored_test.go export-ignore\nfilter.txt filter=evil\n"
	g.write(".gitattributes", attributes)
	g.git("add", ".gitattributes")
	g.git("commit", "-q", "-m", "two")
	g.write(".git/info/attributes", attributes)
	g.git("config", "core.autocrlf", "true")
	g.git("config", "core.eol", "crlf")
	g.git("config", "core.attributesFile", filepath.Join(g.dir, ".gitattributes"))
	g.git("config", "filter.evil.smudge", "sed s/x/evil/")

	// Each of them works for git.
	checkout := filepath.Join(t.TempDir(), "checkout") + "/"
	g.git("checkout-index", "-a", "--prefix="+checkout)
	for _, name := range []string{"eol.txt", "ident.txt", "encoding.txt", "filter.txt"} {
		if b, err := os.ReadFile(checkout + name); err != nil || string(b) == files[name] {
			t.Errorf("%s: git checks out %q, %v", name, b, err)
		}
	}
	archive := g.git("archive", "HEAD")
	if strings.Contains(archive, "ignored_test.go\x00") || strings.Contains(archive, files["subst.txt"]) {
		t.Error("git archive heeds no attributes")
	}

	dir, _, err := g.written()
	if err != nil {
		t.Fatal(err)
	}
	files[".gitattributes"] = attributes
	for name, want := range files {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// TestSubmodules: a submodule is an empty folder, whatever is configured or
// lies around for it. Attempt 111 of the conformance list.
func TestSubmodules(t *testing.T) {
	t.Parallel()
	other := newRepo(t)
	other.write("evil_test.go", "package evil\n")
	other.commit("one")
	g := newRepo(t)
	g.git("submodule", "--quiet", "add", other.dir, "sub")
	g.write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = "+other.dir+"\n[submodule \"../../x\"]\n\tpath = .git\n\turl = --upload-pack=evil\n")
	g.commit("two")
	marker := filepath.Join(t.TempDir(), "marker")
	g.git("config", "submodule.sub.update", "!echo >>'"+marker+"'")
	g.git("config", "submodule.recurse", "true")

	// The command works for git, where the submodule is not at its commit.
	module := &gitRepo{t, filepath.Join(g.dir, "sub")}
	module.commit("three")
	g.git("config", "--file", ".gitmodules", "--remove-section", "submodule.../../x")
	g.git("submodule", "--quiet", "update")
	if err := os.Remove(marker); err != nil {
		t.Fatalf("the planted command does not even run under git submodule update: %v", err)
	}

	dir, l, err := g.written()
	if err != nil {
		t.Fatal(err)
	}
	if found, err := os.ReadDir(filepath.Join(dir, "sub")); err != nil || len(found) > 0 {
		t.Errorf("the submodule's folder holds %v, %v", found, err)
	}
	if got := l.Gitlinks(); len(got) != 1 || got[0] != "sub" {
		t.Errorf("gitlinks %q", got)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the submodule's command ran")
	}
}

// TestSymbolicLinks: what a link points to is never touched, and a file whose
// path goes through a link cannot be named at all: see TestHostileTrees for
// those. Attempt 111 of the conformance list.
func TestSymbolicLinks(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	outside := t.TempDir()
	blob := g.gitIn("evil", "hash-object", "-w", "--stdin")
	link := func(to string) string { return g.gitIn(to, "hash-object", "-w", "--stdin") }
	var index strings.Builder
	for path, id := range map[string]string{"a": link(".."), "b": link(outside), "c": link("a/x"), "d/e": link("../a"), "loop": link("loop")} {
		fmt.Fprintf(&index, "120000 %s\t%s\n", id, path)
	}
	fmt.Fprintf(&index, "100644 %s\tx\n100755 %s\ta.x\n", blob, blob)
	g.gitIn(index.String(), "update-index", "--index-info")
	g.git("commit", "-q", "-m", "one")
	dir, _, err := g.written()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"a": "..", "b": outside, "c": "a/x", "d/e": "../a", "loop": "loop"} {
		if got, err := os.Readlink(filepath.Join(dir, path)); err != nil || got != want {
			t.Errorf("%s: link to %q, %v", path, got, err)
		}
	}
	for d, want := range map[string]int{outside: 0, filepath.Dir(dir): 1} {
		if found, err := os.ReadDir(d); err != nil || len(found) != want {
			t.Errorf("%s holds %v, %v", d, found, err)
		}
	}
}

// TestAlternates: another object store may be named, and what it holds is
// believed no more than the repository's own. Attempt 112 of the conformance
// list.
func TestAlternates(t *testing.T) {
	t.Parallel()
	store := newRepo(t)
	store.write("a", "good")
	store.commit("one")
	id := store.git("rev-parse", "HEAD:a")
	clone := func() *gitRepo {
		g := &gitRepo{t, filepath.Join(t.TempDir(), "clone")}
		store.git("clone", "-q", "--shared", store.dir, g.dir)
		return g
	}
	fine, forged, cut := clone(), clone(), clone()

	// Stores that name each other, and names that are no store.
	cycle := filepath.Join(fine.dir, ".git/objects") + "\n/nonexistent\n/dev/zero\n# comment\n--option\n"
	if err := os.WriteFile(filepath.Join(store.dir, ".git/objects/info/alternates"), []byte(cycle), 0o644); err != nil {
		t.Fatal(err)
	}
	if dir, _, err := fine.written(); err != nil {
		t.Error(err)
	} else if b, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(b) != "good" {
		t.Errorf("%q, %v", b, err)
	}

	evil := newRepo(t)
	evil.loose(id, "blob 4", "evil", 0)
	alternates := filepath.Join(store.dir, ".git/objects") + "\n"
	if err := os.WriteFile(filepath.Join(forged.dir, ".git/objects/info/alternates"), []byte(filepath.Join(evil.dir, ".git/objects")+"\n"+alternates), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(store.dir, ".git/objects", id[:2], id[2:])); err != nil {
		t.Fatal(err)
	}
	if got := forged.git("cat-file", "blob", id); got != "evil" {
		t.Fatalf("the forged object does not even work for git: %q", got)
	}
	if _, _, err := forged.written(); code(err) != verifier.CorruptObject {
		t.Errorf("a forged object: %v", err)
	}
	if _, _, err := cut.written(); code(err) != verifier.UnknownRevision {
		t.Errorf("a store that lost an object: %v", err)
	}
}

// TestCollision: two files with one SHA-1 id are told apart by their SHA-256
// sums, which the tree's own sum covers; and a repository that gives one id
// two contents is refused. Attempt 113 of the conformance list.
func TestCollision(t *testing.T) {
	t.Parallel()
	tree := func(content string) verifier.Tree {
		w, err := verifier.NewTreeWriter(io.Discard, "sha1", verifier.TreeLimits{})
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("%x", sha1.Sum([]byte("as if both had it")))
		if err := w.Add(verifier.TreeEntry{Mode: "100644", ID: id, Sum: receipts.Sum(fmt.Appendf(nil, "blob 4\x00%s", content)), Size: 4, Path: "a"}); err != nil {
			t.Fatal(err)
		}
		sum, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	if good, evil := tree("good"), tree("evil"); good.ID != evil.ID || good.SHA256 == evil.SHA256 {
		t.Errorf("%+v\n%+v", good, evil)
	}

	g := newRepo(t)
	g.write("a", "good")
	g.commit("one")
	r := g.open()
	head, err := r.Resolve(context.Background(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	r.sums[g.git("rev-parse", "HEAD:a")] = blobSum{sum: receipts.Sum([]byte("blob 4\x00evil")), size: 4} // what it was the last time
	if _, err := r.Materialise(context.Background(), head.Tree, io.Discard, Target{Dir: t.TempDir()}); code(err) != verifier.CorruptObject {
		t.Errorf("%v", err)
	}
}

// TestNothingIsFetched: trees and blobs that a partial clone lacks are errors,
// and the program that would fetch them does not run; a sparse checkout
// changes nothing. Attempt 114 of the conformance list.
func TestNothingIsFetched(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("in/a", "in\n")
	g.write("out/b_test.go", "package b\n")
	g.commit("one")
	g.git("config", "uploadpack.allowFilter", "true")
	for _, filter := range []string{"tree:0", "blob:none"} {
		clone := &gitRepo{t, filepath.Join(t.TempDir(), "clone")}
		g.git("clone", "-q", "--no-checkout", "--filter="+filter, "file://"+g.dir, clone.dir)
		marker := filepath.Join(t.TempDir(), "marker")
		program := filepath.Join(t.TempDir(), "upload-pack")
		if err := os.WriteFile(program, []byte("#!/bin/sh\necho >>'"+marker+"'\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		clone.git("config", "remote.origin.uploadpack", program)

		// It works for git: it fetches.
		cmd := exec.Command("git", "ls-tree", "-r", "--long", "HEAD")
		cmd.Dir, cmd.Env = clone.dir, gitEnv()
		out, _ := cmd.CombinedOutput()
		if err := os.Remove(marker); err != nil {
			t.Fatalf("%s: git does not even fetch: %s", filter, out)
		}
		if _, _, err := clone.written(); code(err) != verifier.UnknownRevision {
			t.Errorf("%s: %v", filter, err)
		} else {
			t.Log(err)
		}
		if _, err := os.Stat(marker); err == nil {
			t.Errorf("%s: objects were asked for", filter)
		}
	}

	g.git("sparse-checkout", "set", "in")
	if _, err := os.Stat(filepath.Join(g.dir, "out")); err == nil {
		t.Fatal("the checkout is not even sparse")
	}
	dir, _, err := g.written()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "out/b_test.go")); err != nil || !bytes.Equal(b, []byte("package b\n")) {
		t.Errorf("%q, %v", b, err)
	}
}
