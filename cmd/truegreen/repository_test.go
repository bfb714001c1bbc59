package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// git runs git in a folder.
func git(ts *testscript.TestScript, dir string, args ...string) string {
	cmd := exec.Command("git", append([]string{"-C", ts.MkAbs(dir)}, args...)...)
	for _, k := range []string{"PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE",
		"GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE"} {
		cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		ts.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(bytes.TrimSpace(out))
}

// calc makes the repository of the demo with two commits: a base with a bug and
// a head that mends it and brings a test.
func calc(ts *testscript.TestScript, _ bool, args []string) {
	usageIf(ts, len(args) != 1, "calc DIR")
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	git(ts, dir, "init", "--quiet", "--initial-branch=main")
	write := func(name, text string) { ts.Check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)) }
	write(".truegreen.yaml", demoConfig)
	write("calc.sh", "add() { echo $(($1 - $2)); }\n")
	write("test.sh", fmt.Sprintf(demoTest, ":"))
	commitAll(ts, dir)
	write("calc.sh", "add() { echo $(($1 + $2)); }\n")
	write("test.sh", fmt.Sprintf(demoTest, `check sum "$(add 1 2)" 3`))
	commitAll(ts, dir)
}

// commitAll commits a work tree and sets BASE and HEAD.
func commitAll(ts *testscript.TestScript, dir string) {
	git(ts, dir, "add", "--all", "--force")
	git(ts, dir, "commit", "--quiet", "--allow-empty", "--message=change")
	ts.Setenv("BASE", ts.Getenv("HEAD"))
	ts.Setenv("HEAD", git(ts, dir, "rev-parse", "HEAD"))
	ts.Setenv("TREE", git(ts, dir, "rev-parse", "HEAD^{tree}"))
}

func commit(ts *testscript.TestScript, _ bool, args []string) {
	usageIf(ts, len(args) != 2, "commit DIR FOLDER")
	dir := ts.MkAbs(args[0])
	if _, err := os.Stat(dir); err != nil {
		ts.Check(os.MkdirAll(dir, 0o755))
		git(ts, dir, "init", "--quiet", "--initial-branch=main")
	}
	overlay(ts, dir, ts.MkAbs(args[1]))
	commitAll(ts, dir)
}

// commitBase makes a base with a folder's files, and a head that only adds one.
func commitBase(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, len(args) != 2, "base DIR FOLDER")
	commit(ts, neg, args)
	ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), "changed"), []byte("by the patch\n"), 0o644))
	commitAll(ts, ts.MkAbs(args[0]))
}

// overlay copies files over others, as os.CopyFS does not.
func overlay(ts *testscript.TestScript, to, from string) {
	ts.Check(filepath.Walk(from, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, info.Mode().Perm())
	}))
}

// madeRuns are runs that many scripts verify and none makes again.
type madeRuns struct {
	dir  string
	mu   sync.Mutex
	made map[string]*madeRun
}

type madeRun struct {
	dir string
	env map[string]string // BASE, HEAD and TREE
}

// warm gives the state folder of a script the compiled packages that tests in scripts
// import, so that each is compiled once.
func (m *madeRuns) warm(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 0, "warm")
	shared := filepath.Join(m.dir, "go", "cache", "go-build")
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := os.Stat(shared); err != nil {
		repo := filepath.Join(m.dir, "warm")
		ts.Check(os.MkdirAll(repo, 0o755))
		git(ts, repo, "init", "--quiet", "--initial-branch=main")
		const test = "package warm\n\nimport (\n\t_ \"errors\"\n\t_ \"fmt\"\n\t_ \"os\"\n\t_ \"strings\"\n\t\"testing\"\n\t_ \"time\"\n)\n\nfunc TestWarm(*testing.T) {}\n"
		for _, text := range []string{test, test + "\nfunc TestAgain(*testing.T) {}\n"} {
			ts.Check(os.WriteFile(filepath.Join(repo, "go.mod"), []byte("module warm\n\ngo 1.21\n"), 0o644))
			ts.Check(os.WriteFile(filepath.Join(repo, "warm_test.go"), []byte(text), 0o644))
			git(ts, repo, "add", "--all")
			git(ts, repo, "commit", "--quiet", "--message=change")
		}
		cmd := exec.Command("truegreen", "run", "--repo", repo, "--head-only", "--out", filepath.Join(m.dir, "warm.tar.zst"))
		cmd.Env = append(environ(ts), "TRUEGREEN_STATE="+filepath.Join(m.dir, "go"))
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("%v\n%s", err, out)
		}
	}
	if cache := filepath.Join(ts.Getenv("TRUEGREEN_STATE"), "cache"); cache != filepath.Dir(shared) {
		ts.Check(os.MkdirAll(cache, 0o755))
		ts.Check(os.Symlink(shared, filepath.Join(cache, "go-build")))
	}
}

// use copies a run, with all that belongs to it, into the script's folder.
func (m *madeRuns) use(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 1, "bundle green|red")
	run := m.get(ts, args[0])
	ts.Check(os.CopyFS(ts.MkAbs("."), os.DirFS(run.dir)))
	ts.Check(os.Chmod(ts.MkAbs("state/receipt.key"), 0o600))
	for k, v := range run.env {
		ts.Setenv(k, v)
	}
}

func (m *madeRuns) get(ts *testscript.TestScript, name string) *madeRun {
	m.mu.Lock()
	defer m.mu.Unlock()
	if run := m.made[name]; run != nil {
		return run
	}
	dir, err := os.MkdirTemp(m.dir, name)
	ts.Check(err)
	repo := filepath.Join(dir, "repo")
	calc(ts, false, []string{repo})
	want := "0"
	if name == "red" {
		want = "1"
		ts.Check(os.WriteFile(filepath.Join(repo, "calc.sh"), []byte("add() { echo 0; }\n"), 0o644))
		commitAll(ts, repo)
	}
	sshKey(ts, false, []string{filepath.Join(dir, "id")})
	cmd := exec.Command("truegreen", "run", "--repo", repo, "--sign", filepath.Join(dir, "id"), "--out", filepath.Join(dir, "evidence.tar.zst"))
	cmd.Env = append(environ(ts), "TRUEGREEN_STATE="+filepath.Join(dir, "state"))
	if out, _ := cmd.CombinedOutput(); fmt.Sprint(cmd.ProcessState.ExitCode()) != want {
		ts.Fatalf("bundle %s: %v:\n%s", name, cmd.ProcessState, out)
	}
	run := &madeRun{dir: dir, env: map[string]string{}}
	for _, k := range []string{"BASE", "HEAD", "TREE"} {
		run.env[k] = ts.Getenv(k)
	}
	m.made[name] = run
	return run
}

// hooked makes of a green run a repository whose next push the hook looks at.
func (m *madeRuns) hooked(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 1, "hooked MODE")
	m.use(ts, false, []string{"green"})
	bundles := ts.MkAbs("state/bundles")
	ts.Check(os.MkdirAll(bundles, 0o700))
	ts.Check(os.Rename(ts.MkAbs("evidence.tar.zst"), filepath.Join(bundles, "20240101T000000Z-green.tar.zst")))
	git(ts, ".", "init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
	git(ts, "repo", "remote", "add", "origin", "../remote.git")
	git(ts, "repo", "push", "--quiet", "origin", "main~1:refs/heads/main")
	ts.Check(ts.Exec("truegreen", "hook", "install", "--repo", "repo", "--mode", args[0]))
}
