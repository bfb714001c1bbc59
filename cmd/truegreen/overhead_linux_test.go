package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// TestOverhead holds what a run adds to a trivial command to a multiple of the
// processes that it is made of: the command in its sandbox, the program twice (the
// second time as the signer), and three times git. It is coarse: a millisecond more
// does not break it, a step that waits for a disk or for a timer does.
func TestOverhead(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("measures: not with -short or -race")
	}
	dir := fastDir(t)
	truegreen := build(t, t.TempDir(), "truegreen", ".")
	repo := demoRepository{ctx: t.Context(), path: os.Getenv("PATH"), dir: filepath.Join(dir, "repository")}
	repo.git("init", "--quiet", "--initial-branch=main", repo.dir)
	repo.commit("one", map[string]string{"a": "1\n", "b": "1\n"})
	repo.commit("two", map[string]string{"a": "2\n"})
	if repo.err != nil {
		t.Skip(repo.err)
	}
	took := func(command ...string) time.Duration {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = []string{"TRUEGREEN_STATE=" + filepath.Join(dir, "state"), "TMPDIR=" + dir, "PATH=" + repo.path}
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
		return time.Since(start)
	}
	boxed := func() time.Duration {
		start := time.Now()
		r, err := sandbox.Run(context.Background(), sandbox.Spec{
			Argv: []string{"true"}, Env: []string{"PATH=/usr/bin:/bin"}, MinLevel: sandbox.LevelNamespaces,
		})
		var refused *sandbox.RefusedError
		if errors.As(err, &refused) {
			t.Skip(err)
		}
		if err != nil || r.Exit != 0 {
			t.Fatalf("true: exit code %d, %v", r.Exit, err)
		}
		return time.Since(start)
	}
	run := []string{truegreen, "run", "--repo", repo.dir, "--head-only", "--out", filepath.Join(dir, "evidence.tar.zst"), "--", "true"}
	took(run...) // makes the key

	// As in TestStartup: it is too slow if it never is fast enough.
	const limit = 2.0
	ratio := 0.0
	for try := 0; try < 3 && (try == 0 || ratio > limit); try++ {
		const rounds = 15
		var parts, whole [rounds]time.Duration
		for i := range rounds {
			parts[i] = boxed() + took(truegreen, "version") + took(truegreen, "version") +
				took("git", "version") + took("git", "version") + took("git", "version")
			whole[i] = took(run...)
		}
		slices.Sort(parts[:])
		slices.Sort(whole[:])
		ratio = float64(whole[rounds/2]) / float64(parts[rounds/2])
		t.Logf("run %s, its processes %s: %.2f times as long", whole[rounds/2], parts[rounds/2], ratio)
	}
	if ratio > limit {
		t.Errorf("a run takes %.2f times as long as its processes, want at most %.1f", ratio, limit)
	}
}

// fastDir returns a folder in memory where there is one: a file system on a disk
// can take longer to make a file the more were removed a moment ago, and these
// tests remove many.
func fastDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "truegreen-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
