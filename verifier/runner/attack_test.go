package runner

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/verifier"
)

// everything runs all that this package does with a repository.
func everything(t *testing.T, dir string) (head Commit, base Base, tree string) {
	t.Helper()
	ctx := context.Background()
	r := openRepo(t, dir)
	head, err := r.Resolve(ctx, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if base, err = r.Base(ctx, head, ""); err != nil {
		t.Fatal(err)
	}
	tree = filepath.Join(t.TempDir(), "tree")
	l, err := r.Materialise(ctx, head.Tree, io.Discard, Target{Dir: tree})
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.List(ctx, base.Tree, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Dirty(l); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Detect(ctx, b, l); err != nil {
		t.Fatal(err)
	}
	if err := r.Diff(ctx, base.Tree, head.Tree, io.Discard); err != nil {
		t.Fatal(err)
	}
	return head, base, tree
}

// plant puts a program into every place of a repository's configuration that
// can name one. The program leaves a marker.
func plant(t *testing.T, g *gitRepo) (marker string) {
	marker = filepath.Join(t.TempDir(), "marker")
	program := filepath.Join(t.TempDir(), "program")
	script := "#!/bin/sh\necho \"$0 $*\" >>'" + marker + "'\ncat\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"core.fsmonitor", "core.sshCommand", "core.gitProxy", "core.pager", "core.editor", "core.askPass", "core.alternateRefsCommand",
		"diff.external", "diff.evil.command", "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process",
		"filter.lfs.process", "filter.lfs.smudge", "filter.lfs.clean", "gpg.program", "credential.helper", "remote.origin.uploadpack",
		"uploadpack.packObjectsHook", "alias.cat-file", "alias.ls-tree", "alias.diff-tree", "alias.merge-base", "pager.diff-tree", "pager.config",
		"merge.evil.driver", "trailer.x.command", "sequence.editor", "man.viewer", "interactive.diffFilter",
	} {
		g.git("config", key, program)
	}
	g.git("config", "remote.origin.url", "ext::"+program)
	g.git("config", "remote.origin.promisor", "true")
	g.git("config", "extensions.partialClone", "origin")
	g.git("config", "protocol.allow", "always")
	g.git("config", "core.repositoryFormatVersion", "1")
	g.git("config", "core.hooksPath", filepath.Dir(program))
	for _, hook := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman", "post-command"} {
		for _, dir := range []string{filepath.Join(g.dir, ".git/hooks"), filepath.Dir(program)} {
			os.MkdirAll(dir, 0o755)
			if err := os.WriteFile(filepath.Join(dir, hook), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return marker
}

// Attempt 109 of the conformance list.
func TestNothingOfTheRepositoryRuns(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write(".gitattributes", "* filter=evil diff=evil merge=evil\n*.bin filter=lfs diff=lfs\n")
	g.write("go.mod", "module x\n")
	g.write("a.bin", "1\n")
	g.commit("one")
	g.write("a.bin", "2\n")
	g.commit("two")
	marker := plant(t, g)

	// The plants work: git status runs one of them.
	g.write("a.bin", "3\n")
	cmd := exec.Command("git", "status")
	cmd.Dir, cmd.Env = g.dir, gitEnv()
	out, _ := cmd.CombinedOutput()
	if _, err := os.Stat(marker); err != nil {
		t.Fatalf("the planted programs do not even run under git status: %s", out)
	}
	// And a file that git would include, and that never ends.
	if err := mkfifo(filepath.Join(g.dir, ".git/pipe")); err != nil {
		t.Fatal(err)
	}
	g.git("config", "--file", ".git/config", "include.path", "pipe")
	os.Remove(marker)

	everything(t, g.dir)
	if text, err := os.ReadFile(marker); err == nil {
		t.Errorf("programs of the repository ran:\n%s", text)
	}
}

// TestEnvironmentIsIgnored is not parallel: it sets variables.
func TestEnvironmentIsIgnored(t *testing.T) {
	g := newRepo(t)
	one := g.commit("one")
	g.write("a", "x\n")
	two := g.commit("two")
	marker := filepath.Join(t.TempDir(), "marker")
	for key, value := range map[string]string{
		"GIT_DIR": "/nonexistent", "GIT_WORK_TREE": "/", "GIT_COMMON_DIR": "/nonexistent", "GIT_OBJECT_DIRECTORY": "/nonexistent", "GIT_INDEX_FILE": "/nonexistent",
		"GIT_NAMESPACE": "x", "GIT_CEILING_DIRECTORIES": "/", "GIT_TRACE": marker, "GIT_TRACE2_EVENT": marker, "GIT_EXTERNAL_DIFF": "touch " + marker, "GIT_DIFF_OPTS": "-u0",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "touch " + marker, "GIT_CONFIG_PARAMETERS": "'core.abbrev'='4'",
		"GIT_EXEC_PATH": "/nonexistent", "GIT_REPLACE_REF_BASE": "refs/heads/", "GIT_GRAFT_FILE": "/dev/zero", "GIT_SHALLOW_FILE": "/dev/zero", "GIT_LITERAL_PATHSPECS": "x",
		"GIT_ATTR_SOURCE": "HEAD", "GIT_DEFAULT_HASH": "sha256", "GIT_PAGER": "touch " + marker, "GIT_CONFIG_GLOBAL": "/dev/zero", "GIT_CONFIG_SYSTEM": "/dev/zero",
		"HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent", "LC_ALL": "de_DE.UTF-8",
	} {
		t.Setenv(key, value)
	}
	head, base, _ := everything(t, g.dir)
	if head.ID != two || base.ID != one {
		t.Errorf("head %s, base %s", head.ID, base.ID)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a variable of the environment reached git")
	}
}

// TestReplacements: refs/replace, grafts and a lying commit graph change
// nothing. Attempt 112 of the conformance list.
func TestReplacements(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("a", "evil\n")
	evil := g.commit("evil")
	evilTree, evilBlob := g.git("rev-parse", "HEAD^{tree}"), g.git("rev-parse", "HEAD:a")
	g.git("checkout", "-q", "--orphan", "next")
	g.write("a", "base\n")
	one := g.commit("one")
	g.write("a", "good\n")
	two := g.commit("two")
	tree, blob := g.git("rev-parse", "HEAD^{tree}"), g.git("rev-parse", "HEAD:a")
	g.git("branch", "-M", "main")
	g.git("commit-graph", "write", "--reachable")

	g.git("replace", two, evil)
	g.git("replace", tree, evilTree)
	g.git("replace", blob, evilBlob)
	if got := g.git("cat-file", "blob", blob); got != "evil" {
		t.Fatalf("the replacement does not even work for git: %q", got)
	}
	os.Mkdir(g.dir+"/.git/info", 0o755)
	if err := os.WriteFile(g.dir+"/.git/info/grafts", []byte(two+" "+evil+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	graph := g.dir + "/.git/objects/info/commit-graph"
	if b, err := os.ReadFile(graph); err != nil {
		t.Fatal(err)
	} else {
		from, _ := hex.DecodeString(tree)
		to, _ := hex.DecodeString(evilTree)
		if !bytes.Contains(b, from) {
			t.Fatal("the commit graph does not hold the tree's id")
		}
		os.Chmod(graph, 0o644)
		if err := os.WriteFile(graph, bytes.ReplaceAll(b, from, to), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	head, base, dir := everything(t, g.dir)
	if head.ID != two || head.Tree != tree || base.ID != one {
		t.Errorf("head %+v, base %+v", head, base)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(b) != "good\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestForgedObjects: a loose object whose bytes are not those of its id.
func TestForgedObjects(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"commit", "tree", "blob", "garbage", "empty", "directory"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := newRepo(t)
			g.write("d/a", "good\n")
			g.commit("one")
			object := map[string]string{"commit": "HEAD", "tree": "HEAD:d"}[kind]
			if object == "" {
				object = "HEAD:d/a"
			}
			id := g.git("rev-parse", object)
			g.write("d/a", "evil\n")
			g.commit("two")
			content := g.gitIn("", "cat-file", g.git("cat-file", "-t", id), g.git("rev-parse", object))
			if kind != "tree" {
				content += "\n"
			}
			g.git("reset", "-q", "--hard", "HEAD~1")

			path := filepath.Join(g.dir, ".git/objects", id[:2], id[2:])
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			var forged bytes.Buffer
			switch kind {
			case "garbage":
				forged.WriteString("not zlib")
			case "empty":
			case "directory":
				if err := os.Mkdir(path, 0o755); err != nil {
					t.Fatal(err)
				}
			default:
				z := zlib.NewWriter(&forged)
				fmt.Fprintf(z, "%s %d\x00%s", kind, len(content), content)
				z.Close()
			}
			if kind != "directory" {
				if err := os.WriteFile(path, forged.Bytes(), 0o444); err != nil {
					t.Fatal(err)
				}
			}
			r := g.open()
			head, err := r.Resolve(context.Background(), "HEAD")
			if err == nil {
				_, err = r.Materialise(context.Background(), head.Tree, io.Discard, Target{Dir: t.TempDir()})
			}
			want := verifier.UnknownRevision // git itself cannot read it
			if kind == "tree" || kind == "blob" {
				want = verifier.CorruptObject
			}
			if code(err) != want {
				t.Errorf("code %q of %v", code(err), err)
			}
			t.Log(err)
		})
	}
}

// TestPartialClone: a missing blob is an error with the command that gets it,
// and is not fetched behind the user's back. Attempt 114 of the conformance
// list.
func TestPartialClone(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("a", "x\n")
	g.commit("one")
	g.git("config", "uploadpack.allowFilter", "true")
	clone := &gitRepo{t, filepath.Join(filepath.Dir(g.dir), "clone")}
	g.git("clone", "-q", "--no-checkout", "--filter=blob:none", "file://"+g.dir, clone.dir)
	packs := func() int {
		found, _ := filepath.Glob(clone.dir + "/.git/objects/pack/*.pack")
		return len(found)
	}
	before := packs()
	materialise := func() error {
		r := clone.open()
		defer r.Close()
		head, err := r.Resolve(context.Background(), "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Materialise(context.Background(), head.Tree, io.Discard, Target{Dir: t.TempDir()})
		return err
	}
	err := materialise()
	var e *RepositoryError
	if !errors.As(err, &e) || e.Code != verifier.UnknownRevision || !strings.Contains(e.What, "partial clone") || !strings.HasPrefix(e.Fix, "git fetch ") {
		t.Fatalf("%v", err)
	}
	if packs() != before {
		t.Error("objects were fetched")
	}
	clone.git(strings.Fields(e.Fix)[1:]...)
	if err := materialise(); err != nil {
		t.Errorf("after %s: %v", e.Fix, err)
	}
}

// TestGitMissing is not parallel: it sets PATH.
func TestGitMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := OpenRepository(context.Background(), ".")
	if code(err) != verifier.GitMissing || !strings.Contains(err.Error(), "git") {
		t.Errorf("%v", err)
	}
}
