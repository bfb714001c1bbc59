//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestManyInARow: sandboxes leave nothing behind, however many there were. It
// counts in a process of its own, so that no other test is counted.
func TestManyInARow(t *testing.T) {
	if testing.Short() {
		t.Skip("500 sandboxes take a while")
	}
	t.Parallel()
	n := 500
	if os.Getenv("TRUEGREEN_FULL") != "" {
		n = 10_000
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestManyInner$", "-test.v", "-test.timeout=40m")
	cmd.Env = append(os.Environ(), fmt.Sprintf("TRUEGREEN_TEST_MANY=%d", n))
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestManyInner")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestManyInner(t *testing.T) {
	var n int
	if _, err := fmt.Sscan(os.Getenv("TRUEGREEN_TEST_MANY"), &n); err != nil {
		t.Skip("part of TestManyInARow")
	}
	modes := allModes(t)
	dir := reachableDir(t)
	one := func(mode Mode) {
		r, out := mustRun(t, mode, Spec{
			Argv: sh("echo x > file; sleep 60 & setsid sleep 60 & cat file"), Dir: "/src",
			Mounts: []Mount{{Source: dir, Target: "/src", Kind: Overlay}},
		})
		if r.State != StateExited || r.Exit != 0 && mode != ModeNone && os.Geteuid() != 0 || out.stdout.Len() > 2 {
			t.Fatalf("%s: %s %s %d %q %q", mode, r.State, r.Why, r.Exit, out.stdout.String(), out.stderr.String())
		}
	}
	for _, m := range modes { // what is opened once and stays
		one(m)
	}
	before := remains(t)
	for i := range n {
		one(modes[i%len(modes)])
	}
	if after := remains(t); !slices.Equal(before, after) {
		t.Errorf("before:\n%s\nafter %d:\n%s", strings.Join(before, "\n"), n, strings.Join(after, "\n"))
	}
}

// remains lists what this process may have left: descriptors, children,
// mounts, cgroups, and files that begin with one of our prefixes and its pid.
func remains(t *testing.T) []string {
	t.Helper()
	var list []string
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	list = append(list, fmt.Sprintf("%d descriptors", len(fds)))
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, "truegreen") {
			list = append(list, "mount "+line)
		}
	}
	for _, pid := range children(os.Getpid()) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		list = append(list, fmt.Sprintf("child %q", cmdline))
	}
	own := fmt.Sprint(os.Getpid())
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm", "/run"} {
		for _, prefix := range []string{canaryPrefix, boxPrefix} {
			found, _ := filepath.Glob(filepath.Join(parent, prefix+own+"-*"))
			list = append(list, found...)
		}
	}
	_, groups := cgroupPaths()
	for _, root := range groups {
		filepath.WalkDir(root, func(p string, _ os.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(filepath.Base(p), cgroupPrefix+own+"-") {
				list = append(list, p)
			}
			return nil
		})
	}
	slices.Sort(list)
	return slices.Compact(list)
}
