package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// shm is where a tmpfs is on most hosts.
func shm(t *testing.T) string {
	t.Helper()
	const dir = "/dev/shm"
	if tmpfsRoom(dir).bytes < 1<<20 || memoryAvailable()/8 < 1<<20 {
		t.Skipf("%s is no tmpfs with room, or there is no memory", dir)
	}
	f, err := os.MkdirTemp(dir, "truegreen-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(f) })
	return f
}

func TestTreeParent(t *testing.T) {
	t.Parallel()
	memory, run := shm(t), t.TempDir()
	small := extent{bytes: 1 << 20, files: 10}
	for name, c := range map[string]struct {
		memory string
		need   extent
		budget int64
	}{
		"past the budget":     {memory, small, 1<<20 - 1},
		"past the memory":     {memory, extent{bytes: memoryAvailable(), files: 1}, math.MaxInt64},
		"past the inodes":     {memory, extent{bytes: 1, files: math.MaxInt64}, math.MaxInt64},
		"not a tmpfs":         {"/proc", small, math.MaxInt64},
		"not there":           {filepath.Join(memory, "none"), small, math.MaxInt64},
		"not there, no place": {"", small, math.MaxInt64},
	} {
		if name == "past the inodes" && tmpfsRoom(memory).files == math.MaxInt64 {
			continue
		}
		if dir, lock := treeParent(c.memory, run, c.need, c.budget); dir != run || lock != nil {
			t.Errorf("%s: %s, %v", name, dir, lock)
		}
	}
	dir, lock := treeParent(memory, run, small, small.bytes)
	if filepath.Dir(dir) != memory || lock == nil {
		t.Fatalf("%s, %v", dir, lock)
	}
	defer lock.Close()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := lockFolder(dir); err == nil {
		t.Error("it is not locked")
	}
}

// TestExtent: what is foretold is at least what a tmpfs uses, and not much
// more.
func TestExtent(t *testing.T) {
	t.Parallel()
	memory := shm(t)
	g := newRepo(t)
	awkward(t, g)
	r := g.open()
	head, err := r.Resolve(context.Background(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	need, err := r.extent(context.Background(), head.Tree)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := r.extent(context.Background(), head.Tree, head.Tree)
	if err != nil || twice.bytes != 2*need.bytes || twice.files != 2*need.files {
		t.Errorf("%+v twice is %+v, %v", need, twice, err)
	}
	if _, err := r.extent(context.Background(), strings.Repeat("1", 40)); err == nil {
		t.Error("the extent of a tree that is not there")
	}
	dir := filepath.Join(memory, "tree")
	if _, err := r.Materialise(context.Background(), head.Tree, io.Discard, Target{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	var used extent
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		used.files++
		used.bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	// A link takes a page in what is foretold, and none on a tmpfs if it is short.
	if err != nil || used.files != need.files || used.bytes > need.bytes || used.bytes < need.bytes/2 {
		t.Errorf("used %+v, foretold %+v, %v", used, need, err)
	}
}

func TestSweepTrees(t *testing.T) {
	t.Parallel()
	memory := t.TempDir()
	live, lock, err := newTreeParent(memory)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	dead, deadLock, err := newTreeParent(memory)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dead, "head/d"), 0o755); err != nil {
		t.Fatal(err)
	}
	deadLock.Close() // as the end of its process does

	others := []string{"other-1", treesPrefix + "1-file", treesPrefix + "1-link"}
	target := t.TempDir()
	if err := os.Mkdir(filepath.Join(memory, others[0]), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(memory, others[1]), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(memory, others[2])); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(memory, treesPrefix+"1-foreign")
	if os.Geteuid() == 0 {
		if err := os.Mkdir(foreign, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 61234, 61234); err != nil {
			t.Fatal(err)
		}
		others = append(others, filepath.Base(foreign))
	}
	sweepTrees(memory)
	for _, path := range append(others, filepath.Base(live)) {
		if _, err := os.Lstat(filepath.Join(memory, path)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(target); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dead); !os.IsNotExist(err) {
		t.Errorf("%s stays: %v", dead, err)
	}
}

// TestSweepMeetsStart: a folder that its maker got is not swept away, even if
// a sweep passes between its making and its locking.
func TestSweepMeetsStart(t *testing.T) {
	t.Parallel()
	memory := t.TempDir()
	done := make(chan bool)
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				sweepTrees(memory)
			}
		}
	})
	made := 0
	for range 200 {
		dir, lock, err := newTreeParent(memory)
		if err != nil {
			continue // three times in a row a sweep came before
		}
		made++
		if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o644); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
		lock.Close()
	}
	close(done)
	sweeper.Wait()
	if made == 0 {
		t.Error("no folder could be made")
	}
}

func TestMemoryAvailable(t *testing.T) {
	t.Parallel()
	if got := memoryAvailable(); got <= 0 {
		t.Errorf("%d bytes", got)
	}
	for text, want := range map[string]int64{
		"MemTotal: 8 kB\nMemAvailable:    1234 kB\nBuffers: 1 kB\n": 1234 << 10,
		"MemTotal: 8 kB\n": 0, "": 0, "x\nMemAvailable:": 0, "x\nMemAvailable: 1": 0, "x\nMemAvailable: -1 kB": 0,
		fmt.Sprintf("x\nMemAvailable: %d kB", math.MaxInt64): 0,
	} {
		if got := meminfo([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for _, c := range []struct {
		limit, used string
		want        int64
	}{{"1000\n", "400\n", 600}, {"1000\n", "2000\n", 0}, {"max\n", "5\n", math.MaxInt64}, {"", "", math.MaxInt64}, {"1000\n", "", 0}} {
		dir := t.TempDir()
		for name, text := range map[string]string{"memory.max": c.limit, "memory.current": c.used} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := groupRoom(dir); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestTreesInMemory: every mode gives a command its own copy of a tree that lies
// in a folder for nobody but this user.
func TestTreesInMemory(t *testing.T) {
	t.Parallel()
	parent, lock := treeParent(shm(t), t.TempDir(), extent{bytes: 1, files: 1}, 1)
	if lock == nil {
		t.Fatal("not in memory")
	}
	defer lock.Close()
	defer os.RemoveAll(parent)
	tree := filepath.Join(parent, "head")
	if err := os.MkdirAll(filepath.Join(tree, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "sub/test.sh"), []byte("#!/bin/sh\necho ran\necho changed > sub/test.sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if uid, gid, chown := sandbox.Owner(); chown {
		for _, p := range []string{tree, tree + "/sub", tree + "/sub/test.sh"} {
			if err := os.Lchown(p, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, mode := range []sandbox.Mode{sandbox.ModeRootDrop, sandbox.ModeUserNS, sandbox.ModeRestricted} {
		t.Run(string(mode), func(t *testing.T) {
			var out strings.Builder
			r, err := sandbox.Run(t.Context(), sandbox.Spec{
				Argv: []string{"sub/test.sh"}, Dir: "/src", Env: []string{"PATH=/usr/bin:/bin"}, Modes: []sandbox.Mode{mode},
				Mounts: []sandbox.Mount{{Source: tree, Target: "/src", Kind: sandbox.Overlay}}, Stdout: &out, Stderr: &out,
			})
			if refused := (*sandbox.RefusedError)(nil); errors.As(err, &refused) {
				t.Skip(err)
			}
			if err != nil || r.State != sandbox.StateExited || r.Exit != 0 || out.String() != "ran\n" {
				t.Errorf("%v, %s %d %s, printed %q", err, r.State, r.Exit, r.Why, out.String())
			}
			if text, err := os.ReadFile(filepath.Join(tree, "sub/test.sh")); err != nil || strings.HasPrefix(string(text), "changed") {
				t.Errorf("the tree is now %q, %v", text, err)
			}
		})
	}
}
