package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHookTime holds a push whose tree has evidence, among hundreds of other bundles, to a
// multiple of the same push without the hook. It is coarse: it is there for a hook that
// opens every bundle, or hashes what it need not.
func TestHookTime(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("measures: not with -short or -race")
	}
	needIsolation(t)
	dir := fastDir(t)
	truegreen := build(t, t.TempDir(), "truegreen", ".")
	state := filepath.Join(dir, "state")
	repo := demoRepository{ctx: t.Context(), path: os.Getenv("PATH"), dir: filepath.Join(dir, "repository")}
	files := map[string]string{"test.sh": "echo \"<testsuite name='s'><testcase name='t'/></testsuite>\" > \"$TRUEGREEN_OUT/report.xml\"\n"}
	files[".truegreen.yaml"] = "test:\n  - name: unit\n    run: [sh, test.sh]\n    format: junit\n"
	for i := range 500 {
		files[fmt.Sprintf("file-%d.txt", i)] = fmt.Sprintf("file %d\n", i)
	}
	repo.git("init", "--quiet", "--initial-branch=main", repo.dir)
	repo.commit("one", files)
	if repo.err != nil {
		t.Skip(repo.err)
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir = repo.dir
		cmd.Env = []string{"TRUEGREEN_STATE=" + state, "TMPDIR=" + dir, "PATH=" + repo.path, "HOME=" + dir}
		return cmd
	}
	must := func(name string, args ...string) {
		t.Helper()
		if out, err := command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	must("git", "init", "--quiet", "--bare", "../remote.git")
	must("git", "remote", "add", "origin", "../remote.git")
	must("git", "push", "--quiet", "origin", "main")
	repo.commit("other", map[string]string{"a": "1\n"})
	must(truegreen, "run")
	bundles := filepath.Join(state, "bundles")
	made, err := filepath.Glob(filepath.Join(bundles, "*.tar.zst"))
	if err != nil || len(made) != 1 {
		t.Fatal(made, err)
	}
	for i := range 300 {
		if err := os.Link(made[0], filepath.Join(bundles, fmt.Sprintf("99990101T000000Z-%d.tar.zst", i))); err != nil {
			t.Fatal(err)
		}
	}
	repo.commit("head", map[string]string{"a": "2\n"})
	must(truegreen, "run")
	must(truegreen, "hook", "install")
	if out, err := command("git", "push", "--dry-run", "../remote.git", "main:refs/heads/b0").CombinedOutput(); err != nil || !strings.Contains(string(out), ": verified: ") {
		t.Fatalf("no evidence was found: %v\n%s", err, out)
	}

	// Each push makes a branch, by URL, so that nothing is known of what the remote has.
	pushed := 0
	push := func(flags ...string) time.Duration {
		pushed++
		start := time.Now()
		must("git", append(flags, "../remote.git", fmt.Sprintf("main:refs/heads/b%d", pushed))...)
		return time.Since(start)
	}
	// As in TestStartup: it is too slow if it never is fast enough.
	const limit = 12.0
	ratio := 0.0
	for try := 0; try < 3 && (try == 0 || ratio > limit); try++ {
		const rounds = 15
		var plain, hooked [rounds]time.Duration
		for i := range rounds {
			plain[i], hooked[i] = push("push", "--quiet", "--no-verify"), push("push", "--quiet")
		}
		slices.Sort(plain[:])
		slices.Sort(hooked[:])
		ratio = float64(hooked[rounds/2]) / float64(plain[rounds/2])
		t.Logf("push %s, with the hook %s: %.2f times as long", plain[rounds/2], hooked[rounds/2], ratio)
	}
	if ratio > limit {
		t.Errorf("a push with the hook takes %.2f times as long as without, want at most %.1f", ratio, limit)
	}
}
