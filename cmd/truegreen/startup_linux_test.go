package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	b, err := run.Bundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, bundle, b)
	writeFile(t, key, run.Secret)
	writeFile(t, filepath.Join(dir, "hello.go"), []byte(helloSource))
	writeFile(t, filepath.Join(dir, "peak.go"), []byte(peakSource))
	hello, peak := build(t, dir, "hello", filepath.Join(dir, "hello.go")), build(t, dir, "peak", filepath.Join(dir, "peak.go"))
	truegreen := build(t, dir, "truegreen", ".")
	command := []string{truegreen, "verify", "--key", key, bundle}

	// The medians of runs that alternate, and more tries where others use the machine: it
	// is too slow if it never is fast enough.
	var hi, us, limit time.Duration
	for try := 0; try < 6 && (try == 0 || us > limit); try++ {
		const rounds = 25
		var base, verify [rounds]time.Duration
		for i := range rounds {
			base[i], verify[i] = timed(t, hello), timed(t, command...)
		}
		slices.Sort(base[:])
		slices.Sort(verify[:])
		hi, us = base[rounds/2], verify[rounds/2]
		limit = max(3*hi, hi+15*time.Millisecond)
		t.Logf("hello %s, verify %s", hi, us)
	}
	if us > limit {
		t.Errorf("verify takes %s, and a program that says hello %s: want at most %s", us, hi, limit)
	}
	out, err := exec.Command(peak, command...).Output()
	if err != nil {
		t.Fatal(err)
	}
	rss, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("verify: %d KiB", rss)
	// Most of it are pages of the program's own file, which all its processes share, and
	// which the kernel maps 16 at a time.
	if rss > 17<<10 {
		t.Errorf("verify takes %d KiB of memory, want at most 17 MiB", rss)
	}
	started(t, truegreen)
}

// started holds what packages allocate before main begins, which is the same each time:
// it is all that a process has of its own by then.
func started(t *testing.T, truegreen string) {
	t.Helper()
	cmd := exec.Command(truegreen, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	total, packages := 0, 0
	for _, m := range regexp.MustCompile(`(?m)^init \S+ @.* (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(trace.String(), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		total, packages = total+n, packages+1
	}
	t.Logf("%d packages allocate %d bytes before main", packages, total)
	if packages < 20 || total > 224<<10 {
		t.Errorf("%d packages allocate %d bytes before main, want at most 224 KiB:\n%s", packages, total, trace.String())
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
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", source, err, out)
	}
	return path
}

// timed runs a program and returns how long it took.
func timed(t *testing.T, command ...string) time.Duration {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = []string{"TRUEGREEN_STATE=" + filepath.Dir(command[0])}
	start := time.Now()
	if out, err := cmd.Output(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return time.Since(start)
}

const helloSource = `package main

import "fmt"

func main() { fmt.Println("hello, world") }
`

// peakSource prints the peak memory of a program in KiB. A process starts as a
// copy of the one that starts it, and the kernel counts that too: so it is not
// this test that measures, but something small.
const peakSource = `package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

func main() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
}
`
