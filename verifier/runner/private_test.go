package runner

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestHoldRepository is the process that TestKilledOwner kills.
func TestHoldRepository(t *testing.T) {
	dir := os.Getenv("TRUEGREEN_TEST_HOLD")
	if dir == "" {
		t.Skip("runs only as a process of TestKilledOwner")
	}
	r, err := OpenRepository(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(r.private)
	select {}
}

// TestKilledOwner: what a killed process leaves goes with the next start, and
// not before it is killed.
func TestKilledOwner(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.commit("one")
	temp := t.TempDir()
	hold := exec.Command(os.Args[0], "-test.run=^TestHoldRepository$")
	hold.Env = append(os.Environ(), "TRUEGREEN_TEST_HOLD="+g.dir, "TMPDIR="+temp)
	out, err := hold.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	defer hold.Wait()
	defer hold.Process.Kill()
	lines := bufio.NewScanner(out)
	lines.Scan()
	held := lines.Text()
	if filepath.Dir(held) != temp {
		t.Fatalf("private directory %q, want one in %s", held, temp)
	}

	sweepPrivate(temp)
	if !isDir(held) {
		t.Fatal("removed under a process that is alive")
	}
	hold.Process.Kill()
	hold.Wait()
	dir, lock, err := makePrivate(temp)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if isDir(held) {
		t.Error("still there after its owner was killed")
	}
	if !isDir(dir) {
		t.Error("the new one is gone")
	}
}

// TestSweepKeeps: only what says whose it was, and is neither alive nor locked,
// is removed.
func TestSweepKeeps(t *testing.T) {
	t.Parallel()
	dead := exec.Command(os.Args[0], "-test.run=^$")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	place := func(format string, pid int, locked bool) string {
		dir := filepath.Join(temp, fmt.Sprintf(format, pid))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(dir, lockFile))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if !locked {
			f.Close()
		} else if err := tryLock(f); err != nil {
			t.Skip(err)
		}
		return dir
	}
	swept := place("truegreen-git-%d-1", dead.Process.Pid, false)
	kept := []string{
		place("truegreen-git-%d-2", dead.Process.Pid, true), // in another container
		place("truegreen-git-%d-3", os.Getpid(), false),
		place("truegreen-git-%d-4", 1, false), // another user's, mostly
		place("truegreen-git-%d", dead.Process.Pid, false),
		place("truegreen-git--%d-1", dead.Process.Pid, false),
		place("truegreen-git-x%d-1", dead.Process.Pid, false),
		place("other-%d-1", dead.Process.Pid, false),
	}
	sweepPrivate(temp)
	if isDir(swept) {
		t.Errorf("%s is still there", swept)
	}
	for _, dir := range kept {
		if !isDir(dir) {
			t.Errorf("%s is gone", dir)
		}
	}
}
