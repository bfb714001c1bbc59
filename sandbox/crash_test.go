//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// superviseMain is a caller of Run that the tests kill. args: mode, mark.
func superviseMain(args []string) {
	s, err := StartSigner(context.Background(), strings.NewReader(strings.Repeat("k", 32)), [32]byte{}, [][]byte{nil})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer s.Close()
	fmt.Println("pid", s.proc.Pid)
	_, err = Run(context.Background(), Spec{
		Argv:   sh("echo ready; sleep 60 & sleep 60; : " + args[1]),
		Env:    testEnv(),
		Modes:  []Mode{Mode(args[0])},
		Stdout: os.Stdout,
	})
	fmt.Println("end", err)
	os.Exit(0)
}

func supervisor(t *testing.T, mode Mode, mark string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "attack:supervise", string(mode), mark)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(out)
}

// TestSupervisorKilled: SIGKILL of the supervisor takes the sandbox, and the
// signer, along.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes(t) {
		mark := fmt.Sprintf("crash-%s-%d-", mode, os.Getpid()) // TestUnprivileged runs this test beside itself
		c, out := supervisor(t, mode, mark)
		var signer string
		for {
			line, err := out.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: supervisor said %q, %v", mode, line, err)
			}
			if pid, ok := strings.CutPrefix(line, "pid "); ok {
				signer = strings.TrimSpace(pid)
			}
			if line == "ready\n" {
				break
			}
		}
		c.Process.Kill()
		c.Wait()
		if !eventually(func() bool { return len(processesWith(mark)) == 0 }) {
			t.Errorf("%s: processes %v outlived the supervisor", mode, processesWith(mark))
		}
		if !eventually(func() bool { return dead(signer) }) {
			t.Errorf("%s: the signer outlived its parent", mode)
		}
	}
}

// TestSupervisorKilledEarly kills at moments of the setup, and looks for stages
// without a parent.
func TestSupervisorKilledEarly(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes(t) {
		for ms := range 12 {
			c, out := supervisor(t, mode, "early")
			out.ReadString('\n') // the signer is up, Run begins
			time.Sleep(time.Duration(ms) * 4 * time.Millisecond)
			c.Process.Kill()
			c.Wait()
		}
	}
	if !eventually(func() bool { return len(orphans()) == 0 }) {
		t.Errorf("stages %v outlived their supervisor", orphans())
	}
}

// orphans lists stages whose parent is gone.
func orphans() []string {
	var list []string
	for _, p := range processesWith("truegreen-") {
		dir := filepath.Dir(p)
		b, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue
		}
		name, _ := os.ReadFile(p)
		parent, _ := strconv.Atoi(statusField(string(b), "PPid"))
		if n := strings.TrimRight(string(name), "\x00"); parent == 1 && (n == nameSetup || n == nameInit || n == nameSigner) {
			list = append(list, dir)
		}
	}
	return list
}

// dead reports whether a process is gone, or waits for a parent to notice.
func dead(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	return err != nil || strings.HasPrefix(statusField(string(b), "State"), "Z")
}

func eventually(f func() bool) bool {
	for range 500 {
		if f() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return f()
}

// TestUnprivileged runs the tests of this package again as an ordinary user,
// who has the userns mode and neither cgroups nor other privileges.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("runs only as root: it changes to another uid")
	}
	if testing.Short() {
		t.Skip("long")
	}
	dir, err := os.MkdirTemp("/tmp", "truegreen-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "sandbox.test")
	if err := os.WriteFile(bin, self, 0o755); err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dir, tmp} {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(tmp, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(bin, "-test.short", "-test.v")
	c.Dir = "/"
	c.Env = []string{"TMPDIR=" + tmp, "PATH=/usr/bin:/bin"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if able(ModeUserNS) && !strings.Contains(string(out), "--- PASS: TestAttempts/userns") {
		t.Logf("no attempt was made as an ordinary user:\n%s", out)
	}
}
