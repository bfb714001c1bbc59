//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHosts runs every mode on hosts that lack something: each is this one in a
// mount namespace of its own, changed by a line of shell.
func TestHosts(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 || !able(ModeRootDrop) {
		t.Skip("runs only as root: it changes mounts")
	}
	dir := reachableDir(t)
	self := copySelf(t, dir)
	for name, change := range map[string]string{
		"as it is":          "true",
		"noexec /tmp":       "mount -t tmpfs -o noexec,mode=1777 none /tmp",
		"full /tmp":         "mount -t tmpfs -o size=4k,mode=1777 none /tmp && head -c 8192 /dev/zero > /tmp/full || true",
		"read-only /tmp":    "mount -t tmpfs -o ro none /tmp",
		"no /dev/shm":       "mount -t tmpfs -o ro,size=4k none /dev/shm",
		"no cgroups":        "mount -t tmpfs -o ro none /sys/fs/cgroup",
		"masked /proc/keys": "mount --bind /dev/null /proc/keys",
		"no /sys":           "mount -t tmpfs -o ro none /sys",
		"no /etc/passwd":    "mount --bind /dev/null /etc/passwd",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sh", "-c", change+" && exec "+self+" -test.run '^TestHostInner$' -test.v")
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
			cmd.Env = append(os.Environ(), "TRUEGREEN_TEST_HOST="+name, "TMPDIR=/tmp")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestHostInner") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestHostInner(t *testing.T) {
	host := os.Getenv("TRUEGREEN_TEST_HOST")
	if host == "" {
		t.Skip("part of TestHosts")
	}
	for _, mode := range []Mode{ModeRootDrop, ModeUserNS, ModeRestricted} {
		if !able(mode) {
			continue
		}
		r, out := mustRun(t, mode, Spec{
			Argv: sh("echo '#!/bin/sh' > x && echo 'echo runs' >> x && chmod +x x && ./x && echo tmp > $TMPDIR/t"), Dir: "/src",
			Env:    append(testEnv(), "TMPDIR=/tmp"),
			Mounts: []Mount{{Target: "/src", Kind: Scratch}}, MinLevel: mode.highest(),
		})
		if r.State != StateExited || r.Exit != 0 || out.stdout.String() != "runs\n" {
			t.Errorf("%s on a host with %s: %s %d %q %q", mode, host, r.State, r.Exit, out.stdout.String(), out.stderr.String())
		}
		pids := limit(t, r, "pids")
		if host == "no cgroups" && pids.By != "rlimit" || pids.Value == 0 {
			t.Errorf("%s on a host with %s: %+v", mode, host, pids)
		}
	}
}
