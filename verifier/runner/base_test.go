package runner

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/verifier"
)

// history makes main with two commits and topic with two more on the first.
func history(t *testing.T) (g *gitRepo, main, topic []string) {
	g = newRepo(t)
	main = append(main, g.commit("m0"))
	g.git("checkout", "-q", "-b", "topic")
	g.write("t", "0\n")
	topic = append(topic, g.commit("t0"))
	g.write("t", "1\n")
	topic = append(topic, g.commit("t1"))
	g.git("checkout", "-q", "main")
	g.write("m", "1\n")
	main = append(main, g.commit("m1"))
	return g, main, topic
}

func TestBase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setup    func(g *gitRepo, main, topic []string)
		head     string
		explicit string
		want     func(main, topic []string) string
		how      string
	}{
		"merge base with main":    {head: "topic", want: func(m, _ []string) string { return m[0] }, how: "merge base with main"},
		"head is main":            {head: "main", want: func(m, _ []string) string { return m[0] }, how: "first parent: head is main"},
		"explicit, exactly":       {head: "topic", explicit: "main", want: func(m, _ []string) string { return m[1] }, how: `as given: "main"`},
		"explicit equals head":    {head: "main", explicit: "main", want: func(m, _ []string) string { return m[1] }, how: `as given: "main"`},
		"root":                    {head: "main~1", want: func(_, _ []string) string { return "" }, how: "empty tree: head is a root commit"},
		"part of main":            {setup: func(g *gitRepo, _, _ []string) { g.git("commit", "-q", "--allow-empty", "-m", "m2") }, head: "main~1", want: func(m, _ []string) string { return m[0] }, how: "first parent: head is part of main"},
		"no default branch":       {setup: func(g *gitRepo, _, _ []string) { g.git("branch", "-m", "main", "trunk") }, head: "topic", want: func(_, t []string) string { return t[0] }, how: "first parent: there is no default branch"},
		"master":                  {setup: func(g *gitRepo, _, _ []string) { g.git("branch", "-m", "main", "master") }, head: "topic", want: func(m, _ []string) string { return m[0] }, how: "merge base with master"},
		"origin/main before main": {setup: func(g *gitRepo, m, t []string) { g.git("update-ref", "refs/remotes/origin/main", t[0]) }, head: "topic", want: func(_, t []string) string { return t[0] }, how: "merge base with origin/main"},
		"origin/HEAD before all": {setup: func(g *gitRepo, m, t []string) {
			g.git("update-ref", "refs/remotes/origin/main", m[0])
			g.git("update-ref", "refs/remotes/origin/dev", t[0])
			g.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/dev")
		}, head: "topic", want: func(_, t []string) string { return t[0] }, how: "merge base with origin/HEAD"},
		"merge commit": {setup: func(g *gitRepo, _, _ []string) { g.git("merge", "-q", "--no-ff", "-m", "merge", "topic") }, head: "main", want: func(m, _ []string) string { return m[1] }, how: "first parent: head is main"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, main, topic := history(t)
			if c.setup != nil {
				c.setup(g, main, topic)
			}
			r := g.open()
			head, err := r.Resolve(context.Background(), c.head)
			if err != nil {
				t.Fatal(err)
			}
			base, err := r.Base(context.Background(), head, c.explicit)
			if err != nil || base.ID != c.want(main, topic) || base.How != c.how {
				t.Errorf("%+v, %v", base, err)
			}
			if base.ID == "" && base.Tree != "4b825dc642cb6eb9a060e54bf8d69288fbee4904" {
				t.Errorf("empty tree is %q", base.Tree)
			}
		})
	}
}

func TestBaseRefuses(t *testing.T) {
	t.Parallel()
	g, _, _ := history(t)
	g.git("checkout", "-q", "--orphan", "alone")
	g.commit("a0")
	g.commit("a1")
	r := g.open()
	head, err := r.Resolve(context.Background(), "alone")
	if err != nil {
		t.Fatal(err)
	}
	if base, err := r.Base(context.Background(), head, ""); code(err) != verifier.UnknownRevision || !strings.Contains(err.Error(), "no commit in common") {
		t.Errorf("unrelated history: %+v, %v", base, err)
	}
	if base, err := r.Base(context.Background(), head, "nope"); code(err) != verifier.UnknownRevision {
		t.Errorf("unknown: %+v, %v", base, err)
	}
}

// TestBaseShallow: the error of a shallow clone holds a command, and that
// command gets what was missing.
func TestBaseShallow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		clone    []string
		explicit func(main []string) string
	}{
		"parent":     {clone: []string{"--depth=1", "--branch=main"}},
		"merge base": {clone: []string{"--depth=1", "--branch=topic", "--no-single-branch"}},
		"explicit":   {clone: []string{"--depth=1", "--branch=main"}, explicit: func(m []string) string { return m[0] }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, main, _ := history(t)
			clone := &gitRepo{t, filepath.Join(filepath.Dir(g.dir), "clone")}
			g.git(append(append([]string{"clone", "-q"}, c.clone...), "file://"+g.dir, clone.dir)...)
			explicit := ""
			if c.explicit != nil {
				explicit = c.explicit(main)
			}
			base := func() (Base, error) {
				r := clone.open()
				defer r.Close()
				if !r.Shallow() {
					t.Log("no longer shallow")
				}
				head, err := r.Resolve(context.Background(), "HEAD")
				if err != nil {
					t.Fatal(err)
				}
				return r.Base(context.Background(), head, explicit)
			}
			b, err := base()
			if code(err) != verifier.ShallowClone || b.ID != "" {
				t.Fatalf("%+v, %v", b, err)
			}
			fix := strings.Fields(err.(*RepositoryError).Fix)
			if len(fix) < 3 || fix[0] != "git" || fix[1] != "fetch" || !strings.Contains(err.Error(), strings.Join(fix, " ")) {
				t.Fatalf("fix %q in %q", fix, err)
			}
			clone.git(fix[1:]...)
			if b, err := base(); err != nil || b.ID != main[0] {
				t.Errorf("after the fetch: %+v, %v; want %s", b, err, main[0])
			}
		})
	}
}

// TestParseCommit feeds commit objects that git commit would not write.
func TestParseCommit(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	tree := g.git("write-tree")
	for name, c := range map[string]struct {
		text string
		want verifier.Code
		time int64
	}{
		"no committer":     {"tree " + tree + "\nauthor A <a> 1 +0000\n\nx\n", "", 0},
		"committer's time": {"tree " + tree + "\nauthor A <a> 1 +0000\ncommitter C <c> 77 +0100\n\nx\n", "", 77},
		"odd committer":    {"tree " + tree + "\nauthor A <a> 1 +0000\ncommitter <<>> x y\n\nx\n", "", 0},
		"no time":          {"tree " + tree + "\nauthor A <a> 1 +0000\ncommitter C\n\nx\n", "", 0},
		"short tree":       {"tree 123\nauthor A <a> 1 +0000\ncommitter C <c> 1 +0000\n\nx\n", verifier.UnknownRevision, 0},
		"no tree":          {"author A <a> 1 +0000\ncommitter C <c> 1 +0000\n\nx\n", verifier.UnknownRevision, 0},
		"odd parent":       {"tree " + tree + "\nparent --all\ncommitter C <c> 1 +0000\n\nx\n", verifier.UnknownRevision, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("git", "hash-object", "-t", "commit", "-w", "--literally", "--stdin")
			cmd.Dir, cmd.Env, cmd.Stdin = g.dir, gitEnv(), strings.NewReader(c.text)
			id, err := cmd.Output()
			if err != nil {
				t.Skip("this git does not write such an object")
			}
			r := g.open()
			// Git may refuse the object itself; then there is no such revision.
			got, err := r.Resolve(context.Background(), strings.TrimSpace(string(id)))
			if c.want == "" && (err != nil || got.Time != c.time || got.Tree != tree) || c.want != "" && err == nil {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := r.parseCommit("id", []byte(c.text)); code(err) != c.want {
				t.Errorf("parsed: %v, want %q", err, c.want)
			}
		})
	}
}

// TestOneCommit: what `run` needs of a clone of one commit.
func TestOneCommit(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("file", "x\n")
	g.commit("only")
	r := g.open()
	head, err := r.Resolve(context.Background(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	base, err := r.Base(context.Background(), head, "")
	if err != nil || base.ID != "" {
		t.Fatalf("%+v, %v", base, err)
	}
	var patch strings.Builder
	if err := r.Diff(context.Background(), base.Tree, head.Tree, &patch); err != nil || !strings.Contains(patch.String(), "+x\n") {
		t.Errorf("%q, %v", patch.String(), err)
	}
	if l, err := r.List(context.Background(), base.Tree, io.Discard); err != nil || len(l.Entries) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestDefaultBranch: what names the default branch is a file that anybody may have
// written.
func TestDefaultBranch(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"ref: refs/remotes/origin/main\n":            "main",
		"ref: refs/remotes/origin/release/2.x\n":     "release/2.x",
		"ref: refs/heads/main\n":                     "",
		"0123456789abcdef0123456789abcdef01234567\n": "",
		"":     "",
		"none": "", // there is no file
	} {
		dir := t.TempDir()
		if out, err := exec.Command("git", "init", "--quiet", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if content != "none" {
			path := filepath.Join(dir, ".git/refs/remotes/origin/HEAD")
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		repo, err := OpenRepository(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := repo.DefaultBranch(); got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
		repo.Close()
	}
}
