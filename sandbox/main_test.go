//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary plays three parts: the tests, the stages of the sandbox,
// and, executed inside with the name of an attack, the tested code.
func TestMain(m *testing.M) {
	Child()
	if len(os.Args) > 1 {
		if name, ok := strings.CutPrefix(os.Args[1], "attack:"); ok {
			attackMain(name, os.Args[2:])
		}
	}
	code := m.Run()
	for _, remove := range madeForTests {
		if err := remove(); err != nil {
			fmt.Fprintln(os.Stderr, "after the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// madeForTests is what tests share and nobody needs after the last of them:
// each removes one thing.
var madeForTests []func() error

// attackPath is where the test binary is inside.
const attackPath = "/opt/attack"

func attackMount(t testing.TB) Mount {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Mount{Source: self, Target: attackPath, Kind: ReadOnly}
}

// strongModes returns the modes that this host and user can have, and skips
// the test if there are none. What can be had is found out without the code
// under test.
func strongModes(t testing.TB) []Mode {
	t.Helper()
	var modes []Mode
	for _, m := range []Mode{ModeRootDrop, ModeUserNS} {
		if able(m) {
			modes = append(modes, m)
		}
	}
	if len(modes) == 0 {
		t.Skip("this host allows neither rootdrop nor userns to this user")
	}
	return modes
}

// allModes returns every mode that this host and user can have.
func allModes(t testing.TB) []Mode {
	t.Helper()
	var modes []Mode
	for _, m := range []Mode{ModeRootDrop, ModeUserNS, ModeRestricted, ModeNone} {
		if able(m) {
			modes = append(modes, m)
		}
	}
	return modes
}

// able makes the namespaces of a mode and mounts in them, or looks for the
// Landlock ABI that does without.
func able(m Mode) bool {
	switch m {
	case ModeNone:
		return true
	case ModeRestricted:
		want := uintptr(2)
		if os.Geteuid() != 0 {
			want = 6 // signals stay inside
		}
		abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
		return errno == 0 && abi >= want
	}
	c := exec.Command("sh", "-c", "mount -t tmpfs none /tmp && mount -t proc none /proc")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
	}
	switch {
	case m == ModeUserNS:
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	case os.Geteuid() != 0:
		return false
	default:
		c.SysProcAttr.Unshareflags = unix.CLONE_NEWNS // makes the mounts private
	}
	return c.Run() == nil
}

func testEnv() []string { return []string{"PATH=/usr/bin:/bin", "HOME=/home/sandbox"} }

// eachMode runs f as a parallel subtest per strong mode.
func eachMode(t *testing.T, f func(t *testing.T, mode Mode)) {
	t.Parallel()
	for _, m := range strongModes(t) {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			f(t, m)
		})
	}
}

// output is what a run wrote.
type output struct{ stdout, stderr bytes.Buffer }

// mustRun runs spec in one mode and fails the test if that is impossible.
func mustRun(t testing.TB, mode Mode, spec Spec) (Result, *output) {
	t.Helper()
	var out output
	if spec.Stdout == nil {
		spec.Stdout = &out.stdout
	}
	if spec.Stderr == nil {
		spec.Stderr = &out.stderr
	}
	if spec.Env == nil {
		spec.Env = testEnv()
	}
	spec.Modes = []Mode{mode}
	r, err := Run(t.Context(), spec)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return r, &out
}

func sh(script string) []string { return []string{"sh", "-c", script} }
