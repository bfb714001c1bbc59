//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nestedMain makes each nested call a known number of times. Calls that pass
// would be made by a thread or process that ends.
func nestedMain() {
	runtime.LockOSThread()
	tries := func(n int, name string, f func() error) {
		var last error
		for range n {
			last = f()
		}
		fmt.Println(name, errnoText(last))
	}
	tries(3, "unshare", func() error { return raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER) })
	tries(2, "clone", func() error { return raw(unix.SYS_CLONE, unix.CLONE_NEWNET|uintptr(unix.SIGCHLD)) })
	tries(1, "setns", func() error { return raw(unix.SYS_SETNS, 0, 0) })
	tries(4, "mount", func() error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") })
	tries(1, "pivot_root", func() error { return unix.PivotRoot(".", ".") })
	tries(5, "chroot", func() error { return unix.Chroot("/tmp") })
	// Neither of these is asked about.
	tries(1, "unshare-files", func() error { return raw(unix.SYS_UNSHARE, unix.CLONE_FILES) })
	tries(1, "fork", func() error { return raw(unix.SYS_CLONE, uintptr(unix.SIGCHLD)) })
	tries(1, "listen", listenToAll)
}

// listenToAll tries to become the listener of a filter that asks it about
// every unshare.
func listenToAll() error {
	p := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offNr},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_UNSHARE, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if _, errno := setFilter(p, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER); errno != 0 {
		return errno
	}
	return nil
}

// filteredModes are those whose command runs under the filter.
func filteredModes(t *testing.T) []Mode {
	modes := slices.DeleteFunc(allModes(t), func(m Mode) bool { return m == ModeNone })
	if len(modes) == 0 {
		t.Skip("this host allows no mode with a filter to this user")
	}
	return modes
}

// TestDenied: what a nested sandbox begins with is refused as ever, and
// counted, without what the probes did.
func TestDenied(t *testing.T) {
	t.Parallel()
	want := []Denied{{"clone", 2}, {"unshare", 3}, {"setns", 1}, {"mount", 4}, {"pivot_root", 1}, {"chroot", 5}}
	for _, mode := range filteredModes(t) {
		r, out := mustRun(t, mode, Spec{Argv: []string{attackPath, "attack:nested"}, Mounts: []Mount{attackMount(t)}})
		const errnos = "unshare EPERM\nclone EPERM\nsetns EPERM\nmount EPERM\npivot_root EPERM\nchroot EPERM\nunshare-files ok\nfork ok\nlisten EBUSY\n"
		if r.State != StateExited || out.stdout.String() != errnos {
			t.Errorf("%s: %s, %q %q", mode, r.State, out.stdout.String(), out.stderr.String())
		}
		if !r.Isolation.Counted || !slices.Equal(r.Denied, want) {
			t.Errorf("%s: counted %t, %v, want %v", mode, r.Isolation.Counted, r.Denied, want)
		}
		if r, _ := mustRun(t, mode, Spec{Argv: []string{"true"}}); !r.Isolation.Counted || len(r.Denied) != 0 {
			t.Errorf("%s: true was denied %v", mode, r.Denied)
		}
	}
	if r, _ := mustRun(t, ModeNone, Spec{Argv: []string{"true"}}); r.Isolation.Counted || r.Denied != nil {
		t.Errorf("none: counted %t, %v", r.Isolation.Counted, r.Denied)
	}
}

// TestDeniedTools: the count names what real tools wanted.
func TestDeniedTools(t *testing.T) {
	t.Parallel()
	for _, tool := range []struct {
		argv []string
		want string
	}{
		{[]string{"unshare", "--user", "--map-root-user", "true"}, "unshare"},
		{[]string{"bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"}, "clone"},
	} {
		if _, err := exec.LookPath(tool.argv[0]); err != nil {
			t.Logf("%s is not installed", tool.argv[0])
			continue
		}
		for _, mode := range filteredModes(t) {
			r, out := mustRun(t, mode, Spec{Argv: tool.argv})
			named := slices.ContainsFunc(r.Denied, func(d Denied) bool { return d.Name == tool.want && d.Count > 0 })
			if r.State != StateExited || r.Exit == 0 || !named {
				t.Errorf("%s in %s: %s %d, denied %v, %q", tool.argv[0], mode, r.State, r.Exit, r.Denied, out.stderr.String())
			}
		}
	}
}

// deniedFlood leaves processes that ask without end, and ends itself. One of
// them was ended by a signal before.
func deniedFlood() {
	ask := func() int {
		pid, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
		if errno != 0 {
			fmt.Println(errnoText(errno))
			os.Exit(1)
		}
		for pid == 0 {
			unix.RawSyscall(unix.SYS_UNSHARE, unix.CLONE_NEWNET, 0, 0)
		}
		return int(pid)
	}
	victim := ask()
	for range 30 {
		ask()
	}
	time.Sleep(100 * time.Millisecond)
	unix.Kill(victim, unix.SIGTERM)
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(victim, &ws, 0, nil); err != nil || ws.Signal() != syscall.SIGTERM {
		fmt.Println(err, ws)
		os.Exit(1)
	}
	fmt.Println("ended")
}

// TestDeniedFlood: who waits for an answer can be killed, and a flood of
// questions neither stops the command from ending nor process 1 from seeing it.
func TestDeniedFlood(t *testing.T) {
	t.Parallel()
	for _, mode := range filteredModes(t) {
		r, out := mustRun(t, mode, Spec{
			Argv: []string{attackPath, "attack:denied-flood"}, Mounts: []Mount{attackMount(t)}, Limits: Limits{Wall: time.Minute},
		})
		if r.State != StateExited || r.Exit != 0 || out.stdout.String() != "ended\n" {
			t.Errorf("%s: %s %d %q, %q %q", mode, r.State, r.Exit, r.Why, out.stdout.String(), out.stderr.String())
		}
		if len(r.Denied) != 1 || r.Denied[0].Name != "unshare" || r.Denied[0].Count < 31 {
			t.Errorf("%s: denied %v", mode, r.Denied)
		}
	}
}

// orphanMain is a command whose process 1 is gone: nobody listens any more.
func orphanMain() {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fmt.Println("no_new_privs", err)
		return
	}
	fd, err := installFilter(rules{inet: true})
	if err != nil || fd < 0 {
		fmt.Println("listener", fd, err)
		return
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	fmt.Println("close-on-exec", err == nil && flags&unix.FD_CLOEXEC != 0)
	unix.Close(fd)
	fmt.Println("listen", errnoText(listenToAll()))
	nestedMain()
}

// TestDeniedOrphan: without process 1 the calls fail too, and whoever is left
// cannot take its place.
func TestDeniedOrphan(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(self, "attack:orphan").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if strings.HasPrefix(string(out), "listener") {
		t.Skipf("this host allows no listener: %s", out)
	}
	const want = "close-on-exec true\nlisten EBUSY\nunshare ENOSYS\nclone ENOSYS\nsetns ENOSYS\nmount ENOSYS\npivot_root ENOSYS\nchroot ENOSYS\n" +
		"unshare-files ok\nfork ok\nlisten EBUSY\n"
	if string(out) != want {
		t.Errorf("got %s, want %s", out, want)
	}
}

// listenedMain runs the nested calls in a sandbox below a filter that has a
// listener already.
func listenedMain(mode string) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fmt.Println(err)
		return
	}
	allow := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	const all = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	if _, errno := setFilter(allow, all); errno != 0 {
		fmt.Println("listener", errno)
		return
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := Run(context.Background(), Spec{
		Argv: []string{attackPath, "attack:nested"}, Mounts: []Mount{{Source: self, Target: attackPath, Kind: ReadOnly}},
		Env: testEnv(), Modes: []Mode{Mode(mode)}, Stdout: os.Stdout, Stderr: os.Stdout,
	})
	doc, _ := json.Marshal(map[string]any{"counted": r.Isolation.Counted, "denied": r.Denied, "level": r.Isolation.Level, "err": err})
	fmt.Printf("%s\n", doc)
}

// TestDeniedElsewhere: where the chain of filters has a listener already, the
// calls are refused with the same errnos, and nobody claims to have counted.
func TestDeniedElsewhere(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range filteredModes(t) {
		out, err := exec.Command(self, "attack:listened", string(mode)).CombinedOutput()
		if strings.HasPrefix(string(out), "listener") {
			t.Skipf("this host allows no listener: %s", out)
		}
		want := "unshare EPERM\nclone EPERM\nsetns EPERM\nmount EPERM\npivot_root EPERM\nchroot EPERM\nunshare-files ok\nfork ok\nlisten EBUSY\n" +
			fmt.Sprintf("{\"counted\":false,\"denied\":null,\"err\":null,\"level\":%d}\n", mode.highest())
		if err != nil || string(out) != want {
			t.Errorf("%s: %v, %s", mode, err, out)
		}
	}
}

// TestOwnThreads: process 1 has all of its threads before the command starts,
// and no more at its end than [Limits] leaves room for.
func TestOwnThreads(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		const script = `threads() { grep Threads: /proc/1/status; }
threads; ` + attackPath + ` attack:denied-flood; (sleep 0.1 & sleep 0.2 &) ; ` + attackPath + ` attack:denied-flood; threads`
		_, out := mustRun(t, mode, Spec{Argv: sh(script), Mounts: []Mount{attackMount(t)}})
		var first, last int
		if _, err := fmt.Sscanf(out.stdout.String(), "Threads: %d\nended\nended\nThreads: %d\n", &first, &last); err != nil {
			t.Fatalf("%v: %q %q", err, out.stdout.String(), out.stderr.String())
		}
		if first != last || first < ownThreads || last > minPids {
			t.Errorf("%d threads first, %d last, want from %d to %d", first, last, ownThreads, minPids)
		}
	})
}
