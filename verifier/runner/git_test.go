package runner

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gitRepo is a repository made by the real git for one test.
type gitRepo struct {
	t   testing.TB
	dir string
}

// newRepo makes an empty repository with a work tree.
func newRepo(t testing.TB, initArgs ...string) *gitRepo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	g := &gitRepo{t, filepath.Join(t.TempDir(), "repo")}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	g.git(append([]string{"init", "-q", "--template="}, initArgs...)...)
	if err := os.WriteFile(filepath.Join(g.dir, ".git/HEAD"), []byte("ref: refs/heads/main\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return g
}

// gitEnv makes git's answers and ids independent of the user and the clock.
func gitEnv() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.org", "GIT_COMMITTER_DATE=1700000001 +0000",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always",
	}
}

func (g *gitRepo) git(args ...string) string { g.t.Helper(); return g.gitIn("", args...) }

func (g *gitRepo) gitIn(stdin string, args ...string) string {
	g.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = g.dir, gitEnv(), strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		g.t.Fatalf("git %q: %v\n%s", args, err, stderr.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// write writes a file of the work tree.
func (g *gitRepo) write(path, content string) {
	g.t.Helper()
	full := filepath.Join(g.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		g.t.Fatal(err)
	}
}

// commit commits the whole work tree and returns the commit's id.
func (g *gitRepo) commit(message string) string {
	g.t.Helper()
	g.git("add", "-A")
	g.git("commit", "-q", "--allow-empty", "-m", message)
	return g.git("rev-parse", "HEAD")
}

// open opens the repository as the code under test does.
func (g *gitRepo) open() *Repository { g.t.Helper(); return openRepo(g.t, g.dir) }

func openRepo(t testing.TB, dir string) *Repository {
	t.Helper()
	r, err := OpenRepository(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}
