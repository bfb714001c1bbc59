//go:build unix

package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSweepRuns: of a dead run its record stays, for Recover, and nothing else;
// of one that lives, everything.
func TestSweepRuns(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	var dirs [2]string
	var locks [2]*os.File
	for i := range dirs {
		var err error
		if dirs[i], locks[i], err = newRunDir(state); err != nil {
			t.Fatal(err)
		}
		defer locks[i].Close()
		j := &job{o: Options{State: state}, dir: dirs[i]}
		for _, parent := range []string{j.depsCache(), filepath.Join(state, cacheDir, "go-build", "go1")} {
			cache, err := j.newCache(parent)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(cache, "mod/sub"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(cache, "mod"), 0o555); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Join(dirs[i], "head/sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	kept := filepath.Join(state, cacheDir, "deps", "0123")
	if err := os.Mkdir(kept, 0o755); err != nil {
		t.Fatal(err)
	}
	locks[0].Close()
	here := func(paths ...string) (n int) {
		for _, p := range paths {
			found, err := filepath.Glob(p)
			if err != nil {
				t.Fatal(err)
			}
			n += len(found)
		}
		return n
	}
	caches := func(i int) []string {
		name := newPrefix + filepath.Base(dirs[i]) + "-*"
		return []string{filepath.Join(state, cacheDir, "deps", name), filepath.Join(state, cacheDir, "go-build/go1", name)}
	}
	// A program that another test starts at this moment has the lock until it is
	// executed: then this sweep leaves the run to the next one.
	left := func(paths ...string) (n int) {
		for range 100 {
			sweepRuns(state)
			if n = here(paths...); n == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		return n
	}
	if n := left(append(caches(0), dirs[0]+"/head")...); n != 0 {
		t.Errorf("%d things of the dead run are left", n)
	}
	if n := here(append(caches(1), dirs[1]+"/head", dirs[1]+"/record", dirs[0]+"/record", kept)...); n != 6 {
		t.Errorf("%d of 6 things that are to stay are left", n)
	}
	locks[1].Close()
	os.RemoveAll(dirs[1])
	if n := left(caches(1)...); n != 0 {
		t.Errorf("%d folders of a run that is gone are left", n)
	}
}

// TestRecoverLockless: a process can be killed before the folder of its run has a
// lock, or a record. What it left goes all the same.
func TestRecoverLockless(t *testing.T) {
	t.Parallel()
	o := Options{State: t.TempDir(), Now: time.Now, Key: func() (*os.File, error) { return os.Open(os.DevNull) }}
	runs := filepath.Join(o.State, runsDir)
	for _, dir := range []string{"0001", filepath.Join("0002", recordDir)} {
		if err := os.MkdirAll(filepath.Join(runs, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Recover(o)
	if err != nil || len(found) > 0 {
		t.Errorf("Recover: %v, %v", found, err)
	}
	if left, err := os.ReadDir(runs); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestSweepCaches: what was used within the last month stays.
func TestSweepCaches(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	j := &job{o: Options{State: t.TempDir(), Now: func() time.Time { return now.Add(-cacheAge + time.Hour) }}}
	var dirs []string
	for _, parent := range []string{j.depsCache(), filepath.Join(j.o.State, cacheDir, "go-build", "go1")} {
		for _, name := range []string{"unused", "used"} {
			dir := filepath.Join(parent, name)
			if err := os.MkdirAll(filepath.Join(dir, "mod"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(dir, "mod"), 0o555); err != nil {
				t.Fatal(err)
			}
			old := now.Add(-2 * cacheAge)
			if err := os.Chtimes(dir, old, old); err != nil {
				t.Fatal(err)
			}
			dirs = append(dirs, dir)
		}
	}
	for i, dir := range dirs {
		if i%2 == 1 && !j.cached(dir) {
			t.Errorf("%s: is not there", dir)
		}
	}
	sweepCaches(j.o.State, now)
	for i, dir := range dirs {
		if isDir(dir) != (i%2 == 1) {
			t.Errorf("%s: is there: %v", dir, isDir(dir))
		}
	}
}
