package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/internal/fixture"
)

// A gate runs verify once per bundle, so what a process costs before it looks at
// one counts. What breaks this test is a dependency that works at start-up:
// GODEBUG=inittrace=1 names it.
func TestStartup(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("measures: not with -short or -race")
	}
	dir := t.TempDir()
	bundle, key := filepath.Join(dir, "evidence.tar.zst"), filepath.Join(dir, "key")
	run := fixture.New()
	b, err := run.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, bundle, b)
	writeFile(t, key, run.Secret)
	source := filepath.Join(dir, "hello.go")
	writeFile(t, source, []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello, world\") }\n"))
	hello, truegreen := build(t, dir, "hello", source), build(t, dir, "truegreen", ".")

	const rounds = 25
	var base, verify []time.Duration
	peak := make([]int64, 0, rounds)
	for range rounds {
		took, _ := timed(t, hello)
		base = append(base, took)
		took, rss := timed(t, truegreen, "verify", "--key", key, bundle)
		verify, peak = append(verify, took), append(peak, rss)
	}
	slices.Sort(base)
	slices.Sort(verify)
	slices.Sort(peak)
	hi, us, rss := base[rounds/2], verify[rounds/2], peak[rounds/2]
	t.Logf("hello %s, verify %s, %d KiB", hi, us, rss)
	if limit := max(3*hi, hi+15*time.Millisecond); us > limit {
		t.Errorf("verify takes %s, and a program that says hello %s: want at most %s", us, hi, limit)
	}
	if rss > 15<<10 {
		t.Errorf("verify takes %d KiB of memory, want at most 15 MiB", rss)
	}
}

func writeFile(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// build makes a static program.
func build(t *testing.T, dir, name, source string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", source, err, out)
	}
	return path
}

// timed runs a program and returns how long it took and its peak memory in KiB.
func timed(t *testing.T, path string, args ...string) (time.Duration, int64) {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"TRUEGREEN_STATE=" + filepath.Dir(path)}
	start := time.Now()
	if out, err := cmd.Output(); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
	return time.Since(start), cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
}
