package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/verifier"
)

// code returns the code of a RepositoryError, or what else err is.
func code(err error) verifier.Code {
	if e := (*RepositoryError)(nil); errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return verifier.Code(err.Error())
	}
	return ""
}

func TestOpenKinds(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("sub/deep/file", "x\n")
	id := g.commit("one")
	base := filepath.Dir(g.dir)
	g.git("clone", "-q", "--bare", g.dir, base+"/bare.git")
	g.git("clone", "-q", "--separate-git-dir", base+"/elsewhere", g.dir, base+"/separate")
	g.git("worktree", "add", "-q", "--detach", base+"/linked")
	g.git("clone", "-q", "--shared", g.dir, base+"/shared")
	g.git("clone", "-q", "--shared", base+"/shared", base+"/shared twice")
	g.git("clone", "-q", g.dir, base+"/new\nline \"quoted\" \xff")
	g.git("submodule", "--quiet", "add", base+"/bare.git", "module")
	os.Symlink(filepath.Join(g.dir, "sub"), base+"/link")

	// Alternates may be relative to the object store that lists them.
	alternates := base + "/shared/.git/objects/info/alternates"
	if err := os.WriteFile(alternates, []byte("../../../repo/.git/objects\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{
		g.dir, g.dir + "/sub/deep", g.dir + "/.git", base + "/bare.git", base + "/separate", base + "/linked", base + "/linked/sub",
		base + "/shared", base + "/shared twice", base + "/new\nline \"quoted\" \xff", g.dir + "/module", base + "/link",
	} {
		r := openRepo(t, dir)
		head, err := r.Resolve(context.Background(), "HEAD")
		if err != nil || head.ID != id {
			t.Errorf("%q: HEAD is %q, %v", dir, head.ID, err)
		}
		private := r.private
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(private); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: the private folder stays: %v", dir, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(dir string) error{
		"nothing":         func(string) error { return nil },
		"empty .git":      func(dir string) error { return os.Mkdir(dir+"/.git", 0o755) },
		".git of text":    func(dir string) error { return os.WriteFile(dir+"/.git", []byte("hello"), 0o644) },
		".git to nowhere": func(dir string) error { return os.WriteFile(dir+"/.git", []byte("gitdir: ../nowhere\n"), 0o644) },
		".git to itself":  func(dir string) error { return os.WriteFile(dir+"/.git", []byte("gitdir: .git\n"), 0o644) },
		".git a pipe":     func(dir string) error { return mkfifo(dir + "/.git") },
		".git too long": func(dir string) error {
			return os.WriteFile(dir+"/.git", []byte("gitdir: "+strings.Repeat("x", 1<<20)), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := plant(dir); err != nil {
				t.Skip(err)
			}
			r, err := OpenRepository(context.Background(), dir)
			if code(err) != verifier.NotARepository || r != nil {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
	if _, err := OpenRepository(context.Background(), filepath.Join(t.TempDir(), "absent")); code(err) != verifier.NotARepository {
		t.Errorf("absent folder: %v", err)
	}
}

// damage is done to the Git directory of a good repository.
func TestOpenDamaged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(git string) error
		want   verifier.Code
	}{
		"config is no configuration": {func(git string) error { return os.WriteFile(git+"/config", []byte("[[["), 0o644) }, verifier.NotARepository},
		"config is a pipe":           {func(git string) error { os.Remove(git + "/config"); return mkfifo(git + "/config") }, verifier.NotARepository},
		"config is gone":             {func(git string) error { return os.Remove(git + "/config") }, ""},
		"HEAD is a pipe":             {func(git string) error { os.Remove(git + "/HEAD"); return mkfifo(git + "/HEAD") }, verifier.NotARepository},
		"HEAD leads out":             {func(git string) error { return os.WriteFile(git+"/HEAD", []byte("ref: ../../x\n"), 0o644) }, verifier.UnknownRevision},
		"HEAD is text":               {func(git string) error { return os.WriteFile(git+"/HEAD", []byte("hello\n"), 0o644) }, verifier.UnknownRevision},
		"HEAD is two lines":          {func(git string) error { return os.WriteFile(git+"/HEAD", []byte("ref: refs/heads/main\nx\n"), 0o644) }, verifier.UnknownRevision},
		"HEAD is unborn":             {func(git string) error { return os.WriteFile(git+"/HEAD", []byte("ref: refs/heads/no\n"), 0o644) }, verifier.UnknownRevision},
		"object format is unknown": {func(git string) error {
			return os.WriteFile(git+"/config", []byte("[extensions]\nobjectformat = sha512\n"), 0o644)
		}, verifier.NotARepository},
		"references are reftable": {func(git string) error {
			os.WriteFile(git+"/HEAD", []byte("ref: refs/heads/.invalid\n"), 0o644)
			return os.WriteFile(git+"/config", []byte("[extensions]\nrefstorage = reftable\n"), 0o644)
		}, verifier.UnknownRevision},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRepo(t)
			g.commit("one")
			if err := c.damage(g.dir + "/.git"); err != nil {
				t.Skip(err)
			}
			r, err := OpenRepository(context.Background(), g.dir)
			if err == nil {
				_, err = r.Resolve(context.Background(), "HEAD")
				r.Close()
			}
			if code(err) != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestOpenForeignOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root to give a repository to somebody else")
	}
	g := newRepo(t)
	id := g.commit("one")
	err := filepath.WalkDir(g.dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 12345, 12345))
	})
	if err != nil {
		t.Fatal(err)
	}
	if head, err := g.open().Resolve(context.Background(), "HEAD"); err != nil || head.ID != id {
		t.Errorf("%v, %v", head, err)
	}
}

func TestRepositoryName(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"https://example.org/team/project.git":                   "example.org/team/project",
		"https://user:secret@Example.ORG:8443/team/project.git/": "example.org/team/project",
		"ssh://git@example.org:22/team/project":                  "example.org/team/project",
		"ssh://git@[2001:db8::1]:22/a":                           "[2001:db8::1]/a",
		"git+ssh://example.org/a.git":                            "example.org/a",
		"git@example.org:team/project.git":                       "example.org/team/project",
		"git@example.org:/abs/project.git":                       "example.org/abs/project",
		"example.org:project":                                    "example.org/project",
		"https://example.org/a/b?token=secret#x":                 "example.org/a/b",
		"https://a@b@example.org/c":                              "example.org/c",
		"":                                                       "local/folder",
		"/srv/git/project.git":                                   "local/folder",
		"../project":                                             "local/folder",
		"./a:b":                                                  "local/folder",
		"file:///srv/project":                                    "local/folder",
		`C:\project`:                                             "local/folder",
		"ext::sh -c x":                                           "local/folder",
		"https://example.org":                                    "local/folder",
		"https://example.org/":                                   "local/folder",
		"https://exa mple.org/a":                                 "local/folder",
		"https://example.org/a b":                                "local/folder",
		"https://example.org/a\nb":                               "local/folder",
		"https://example.org/\u202ea":                            "local/folder",
		"https://-oProxyCommand=x/a":                             "local/folder",
		"https://example.org/user@host":                          "local/folder",
		"https://example.org/" + strings.Repeat("a", 300):        "local/folder",
	} {
		if got := repositoryName(remote, "folder"); got != want {
			t.Errorf("%q: %q, want %q", remote, got, want)
		}
	}
	if got := repositoryName("", "bad name\n"); got != "local/repository" {
		t.Errorf("a folder that cannot be printed: %q", got)
	}
}

func TestNameFromConfiguration(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.commit("one")
	base := filepath.Dir(g.dir)
	g.git("clone", "-q", "--bare", g.dir, base+"/naked.git")
	g.git("worktree", "add", "-q", "--detach", base+"/linked")
	g.git("clone", "-q", "--separate-git-dir", base+"/elsewhere", g.dir, base+"/separate")
	for dir, want := range map[string]string{g.dir: "local/repo", base + "/naked.git": "local/naked", base + "/linked": "local/repo", base + "/separate": "local/separate"} {
		if got := openRepo(t, dir).Name(); got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
	// An included file is not read, and the first of two URLs is where Git fetches from.
	os.WriteFile(base+"/included", []byte("[remote \"origin\"]\nurl = https://included.example/a\n"), 0o644)
	g.git("config", "include.path", base+"/included")
	g.git("config", "--add", "remote.origin.url", "https://x:y@first.example/a.git")
	g.git("config", "--add", "remote.origin.url", "https://second.example/a.git")
	if got := g.open().Name(); got != "first.example/a" {
		t.Errorf("%q", got)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			g := newRepo(t, "--object-format="+format)
			one := g.commit("one")
			g.git("tag", "-a", "-m", "tag", "v1")
			g.write("file", "x\n")
			two := g.commit("two\n\nparent 0000\ntree 0000")
			g.git("branch", "topic")
			g.git("pack-refs", "--all")
			g.git("branch", "--", "loose", one)
			g.git("update-ref", "refs/remotes/origin/main", one)
			g.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
			g.git("update-ref", "refs/heads/-option", one)
			r := g.open()
			for rev, want := range map[string]string{
				"HEAD": two, "@": two, "HEAD~1": one, "HEAD^": one, "@~1": one, "HEAD^0": two, "main": two, "refs/heads/main": two, "topic~": one,
				"v1": one, "v1^{}": one, "v1^{commit}": one, "loose": one, "origin": one, "origin/main": one, two: two, two[:12]: two, "-option": one,
			} {
				c, err := r.Resolve(context.Background(), rev)
				if err != nil || c.ID != want {
					t.Errorf("%q: %q, %v; want %q", rev, c.ID, err, want)
				}
			}
			c, err := r.Resolve(context.Background(), "HEAD")
			if err != nil || c.Tree != g.git("rev-parse", "HEAD^{tree}") || !slices.Equal(c.Parents, []string{one}) || c.Time != 1700000001 {
				t.Errorf("%+v, %v", c, err)
			}
			for _, rev := range []string{
				"", "nope", "-h", "--version", "--help", "--", "HEAD:file", ":file", ":/two", "HEAD^{tree}", "HEAD^{/two}x", "HEAD~9", "HEAD@{1}", "@{u}", "main\x00",
				"main\n" + two, "main\r", strings.Repeat("a", 1<<20), "main..topic", "main...topic", "^main", c.Tree, strings.Repeat("0", len(two)),
				"HEAD ", " HEAD", "refs/heads", "../HEAD", "refs/heads/../../HEAD", "*", "--all", "HEAD missing",
			} {
				if c, err := r.Resolve(context.Background(), rev); code(err) != verifier.UnknownRevision || c.ID != "" {
					t.Errorf("%.40q: %+v, %v", rev, c, err)
				}
			}
			// The process that answers survives bad names.
			if c, err := r.Resolve(context.Background(), "main"); err != nil || c.ID != two {
				t.Errorf("afterwards: %+v, %v", c, err)
			}
		})
	}
}

func TestResolveCanceled(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	id := g.commit("one")
	r := g.open()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Resolve(ctx, "HEAD"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	// A reference that never answers: only the context ends it.
	if err := mkfifo(g.dir + "/.git/refs/heads/pipe"); err != nil {
		t.Skip(err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Resolve(ctx, "pipe"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if c, err := r.Resolve(context.Background(), "HEAD"); err != nil || c.ID != id {
		t.Errorf("afterwards: %+v, %v", c, err)
	}
}
