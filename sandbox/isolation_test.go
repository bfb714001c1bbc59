//go:build linux && (amd64 || arm64)

package sandbox

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// wantErrno is what each attempt must end in. Where the kernel may choose,
// both are listed.
var wantErrno = map[string]string{
	"environ-init": "EACCES", "mem-init": "EACCES", "fds-init": "EACCES", "exe-init": "EACCES", "root-init": "EACCES",
	"ptrace-init": "EPERM", "vm-read-init": "EPERM", "getfd-init": "EPERM", "term-init": "EPERM ok", "segv-init": "EPERM ok",
	"environ-victim": "ENOENT", "kill-victim": "ESRCH", "nice-victim": "ESRCH", "key-file": "ENOENT", "home-root": "ENOENT",
	"foreign-fds": "EBADF", "kcore": "EACCES EPERM ENOENT",

	"create-in-/": "EROFS", "create-in-/usr/": "EROFS", "create-in-/usr/bin/": "EROFS", "create-in-/etc/": "EROFS",
	"create-in-/run/": "EROFS", "create-in-/dev/": "EROFS", "create-in-/opt/": "EROFS",
	"through-symlink": "EROFS EACCES", "hard-link": "EXDEV", "mknod-block": "EPERM EACCES",
	"dev-vda": "ENOENT", "dev-kmsg": "ENOENT", "dev-tty": "ENOENT", "sys": "ENOENT", "core-pattern": "EACCES EROFS", "sysrq": "EACCES EROFS ENOENT",
	"setuid-0": "EPERM EINVAL", "chown-0": "EPERM EINVAL", "chroot": "EPERM", "mount": "EPERM", "umount": "EPERM", "remount": "EPERM",
	"open_tree": "EPERM", "fsopen": "EPERM", "setns": "EPERM",

	"keyctl": "EPERM", "add_key": "EPERM", "request_key": "EPERM", "bpf": "EPERM", "perf_event_open": "EPERM", "io_uring_setup": "EPERM",
	"userfaultfd": "EPERM", "fanotify_init": "EPERM", "open_by_handle_at": "EPERM", "kexec_load": "EPERM", "init_module": "EPERM",
	"swapon": "EPERM", "syslog": "EPERM", "clock_settime": "EPERM",
	"unshare-user": "EPERM", "unshare-mnt": "EPERM", "unshare-net": "EPERM", "unshare-pid": "EPERM", "unshare-time": "EPERM",
	"clone-user": "EPERM", "clone-mnt": "EPERM", "clone-net": "EPERM", "clone-pid": "EPERM", "clone-time": "EPERM ok", // 0x80 is a signal to clone
	"clone3": "ENOSYS", "newer-call": "ENOSYS", "x32-getpid": "ENOSYS",
	"tiocsti": "EPERM", "tiocsti-high": "EPERM", "tioclinux": "EPERM",
	"socket-vsock": "EAFNOSUPPORT", "socket-alg": "EAFNOSUPPORT", "socket-packet": "EAFNOSUPPORT", "socket-bluetooth": "EAFNOSUPPORT",
	"socket-tipc": "EAFNOSUPPORT", "socket-xdp": "EAFNOSUPPORT", "socket-raw": "EPERM",

	"tcp": "ECONNREFUSED", "udp": "ECONNREFUSED", "route4": "ENETUNREACH", "route6": "ENETUNREACH", "metadata": "ENETUNREACH",
	"abstract": "ECONNREFUSED EPERM", "path-socket": "ENOENT", "docker-socket": "ENOENT",
}

// TestAttempts makes every attempt from inside. The foreign process, file
// and sockets are reached from here first: a refusal means something only
// where the same attempt can succeed.
func TestAttempts(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		victim := exec.Command("sleep", "60")
		victim.Env = []string{"SECRET=hunter2"}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		defer victim.Wait()
		defer victim.Process.Kill()
		if !eventually(func() bool {
			b, err := os.ReadFile("/proc/" + strconv.Itoa(victim.Process.Pid) + "/environ")
			return err == nil && strings.Contains(string(b), "hunter2")
		}) {
			t.Fatal("control: the environment of the victim cannot be read from here")
		}
		c, err := plantCanary(ModeRootDrop)
		if err != nil {
			t.Fatal(err)
		}
		defer c.remove()
		// Inherited without close-on-exec, as from a careless parent.
		leak, err := unix.Open(c.plan.File, unix.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(leak)

		p := c.plan
		_, out := mustRun(t, mode, Spec{
			Argv: []string{attackPath, "attack:attempts", strconv.Itoa(victim.Process.Pid), p.File,
				strconv.Itoa(p.TCP), strconv.Itoa(p.UDP), p.Abstract, p.Socket},
			Mounts: []Mount{attackMount(t)},
		})
		want := maps.Clone(wantErrno)
		if landlockABI() >= 6 {
			want["term-init"], want["segv-init"] = "EPERM", "EPERM"
		}
		checkRows(t, out, want)
		if n := c.heard(); n != 0 {
			t.Errorf("%d canaries heard something", n)
		}
	})
}

func checkRows(t *testing.T, out *output, want map[string]string) {
	t.Helper()
	rows := 0
	for line := range strings.Lines(out.stdout.String()) {
		name, got, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !slices.Contains(strings.Fields(want[name]), got) {
			t.Errorf("%s: got %s, want %s", name, got, want[name])
		}
		rows++
	}
	if rows < 20 {
		t.Errorf("only %d rows; stderr: %s", rows, out.stderr.String())
	}
}

// TestControls makes the attempts that need nothing from this host outside,
// where those that an unprivileged process may make must not fail the way
// they do inside.
func TestControls(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func() error{
		"keyctl":         func() error { return raw(unix.SYS_KEYCTL, 0, 0) },
		"io_uring_setup": func() error { return raw(unix.SYS_IO_URING_SETUP, 1) },
		"userfaultfd":    func() error { return raw(unix.SYS_USERFAULTFD, 1) },
		"clone3":         func() error { return raw(unix.SYS_CLONE3) },
		"tiocsti":        func() error { return raw(unix.SYS_IOCTL, ^uintptr(0), unix.TIOCSTI) },
	} {
		if got := errnoText(f()); got == wantErrno[name] {
			t.Logf("%s: this host refuses it outside, too (%s)", name, got)
		}
	}
	if got := errnoText(raw(unix.SYS_CLONE3)); got == "ENOSYS" {
		t.Skip("an outer filter is in force; the rows for system calls prove nothing here")
	}
}

func TestMustWork(t *testing.T) {
	want := map[string]string{}
	for _, m := range musts() {
		want[m.name] = "ok"
	}
	eachMode(t, func(t *testing.T, mode Mode) {
		_, out := mustRun(t, mode, Spec{Argv: []string{attackPath, "attack:musts"}, Mounts: []Mount{attackMount(t)}})
		checkRows(t, out, want)
	})
}

func TestIsolationFacts(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		r, _ := mustRun(t, mode, Spec{Argv: []string{"true"}, MinLevel: LevelNamespaces})
		iso := r.Isolation
		if iso.Level != LevelNamespaces || iso.Mode != mode || iso.Network != NetworkNone || iso.Kill != "pidns" {
			t.Errorf("level %v, mode %v, network %v, kill %v", iso.Level, iso.Mode, iso.Network, iso.Kill)
		}
		want := []string{"cgroup", "ipc", "mnt", "net", "pid", "uts"}
		if mode == ModeUserNS {
			want = []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}
		}
		if !slices.Equal(iso.Namespaces, want) {
			t.Errorf("namespaces %v, want %v", iso.Namespaces, want)
		}
		if iso.UID == 0 || !iso.NoNewPrivs || !iso.CapsEmpty || !iso.Seccomp {
			t.Errorf("uid %d, nnp %v, caps empty %v, seccomp %v", iso.UID, iso.NoNewPrivs, iso.CapsEmpty, iso.Seccomp)
		}
		if iso.Landlock != landlockABI() {
			t.Errorf("landlock %d, want %d", iso.Landlock, landlockABI())
		}
		for _, p := range iso.Probes {
			if !p.OK {
				t.Errorf("probe %s got %s", p.Name, p.Got)
			}
		}
	})
}

// TestEnvironment: the command gets exactly what the Spec says.
func TestEnvironment(t *testing.T) {
	t.Setenv("TRUEGREEN_TEST_SECRET", "hunter2")
	for _, mode := range allModes(t) {
		env := []string{"A=1", "B=\xff\xfe", "C="}
		_, out := mustRun(t, mode, Spec{Argv: []string{"/usr/bin/env"}, Env: env})
		if got, want := out.stdout.String(), strings.Join(env, "\n")+"\n"; got != want {
			t.Errorf("%s: environment %q, want %q", mode, got, want)
		}
	}
}

// TestProcSelf: what /proc shows of the command and of process 1.
func TestProcSelf(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		_, out := mustRun(t, mode, Spec{Argv: sh(`id -u; hostname; umask; grep -E "^(Cap|NoNew|Seccomp:)" /proc/self/status; ls /proc | grep -c "^[0-9]"; tr "\0" " " </proc/1/cmdline`)})
		s := out.stdout.String()
		for _, want := range []string{"\nsandbox\n0022\n", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", nameInit} {
			if !strings.Contains(s, want) {
				t.Errorf("no %q in %s%s", want, s, out.stderr.String())
			}
		}
		if strings.HasPrefix(s, "0\n") {
			t.Error("uid 0 inside")
		}
	})
}

// TestLevel takes layers away one by one.
func TestLevel(t *testing.T) {
	t.Parallel()
	full := func() Isolation {
		iso := Isolation{UID: 61000, NoNewPrivs: true, CapsEmpty: true, Seccomp: true, Namespaces: []string{"ipc", "mnt", "net", "pid", "uts"}}
		for _, name := range []string{
			"canary_file", "canary_environ", "canary_process", "write_usr", "mount", "new_userns", "keyctl", "open_fds", "own_environ",
			"canary_tcp", "canary_udp", "canary_abstract", "canary_socket", "canaries_silent", "route_out", "read_only", "write_root", "vsock", "capabilities",
		} {
			iso.Probes = append(iso.Probes, Probe{Name: name, OK: true})
		}
		return iso
	}
	fail := func(name string) func(*Isolation) {
		return func(iso *Isolation) {
			i := slices.IndexFunc(iso.Probes, func(p Probe) bool { return p.Name == name })
			iso.Probes[i].OK = false
		}
	}
	for _, c := range []struct {
		name string
		want Level
		take func(*Isolation)
	}{
		{"nothing", LevelNamespaces, func(*Isolation) {}},
		{"uid", LevelNone, func(iso *Isolation) { iso.UID = 0 }},
		{"capabilities", LevelNone, func(iso *Isolation) { iso.CapsEmpty = false }},
		{"no_new_privs", LevelNone, func(iso *Isolation) { iso.NoNewPrivs = false }},
		{"seccomp", LevelNone, func(iso *Isolation) { iso.Seccomp = false }},
		{"probes", LevelNone, func(iso *Isolation) { iso.Probes = nil }},
		{"keyctl", LevelNone, fail("keyctl")},
		{"canary_file", LevelNone, fail("canary_file")},
		{"bounding set", LevelRestricted, fail("capabilities")},
		{"vsock", LevelNone, fail("vsock")},
		{"canary_tcp", LevelRestricted, fail("canary_tcp")},
		{"silence", LevelRestricted, fail("canaries_silent")},
		{"net", LevelRestricted, func(iso *Isolation) { iso.Namespaces = []string{"ipc", "mnt", "pid", "uts"} }},
		{"mnt, no landlock", LevelNone, func(iso *Isolation) { iso.Namespaces = nil }},
		{"mnt, landlock", LevelRestricted, func(iso *Isolation) { iso.Namespaces, iso.Landlock = nil, 5 }},
	} {
		iso := full()
		c.take(&iso)
		got, lacks := level(iso)
		if got != c.want || (lacks == "") != (got == LevelNamespaces) {
			t.Errorf("without %s: level %v (%s), want %v", c.name, got, lacks, c.want)
		}
	}
}

// TestNetworkHost: with the host's network the level is measured lower, and
// asking for more is refused before anything runs.
func TestNetworkHost(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		r, _ := mustRun(t, mode, Spec{Argv: []string{"true"}, Network: NetworkHost, MinLevel: LevelRestricted})
		if r.State != StateExited || r.Isolation.Level != LevelRestricted || slices.Contains(r.Isolation.Namespaces, "net") {
			t.Errorf("state %v, level %v, namespaces %v", r.State, r.Isolation.Level, r.Isolation.Namespaces)
		}
		ran := filepath.Join(t.TempDir(), "ran")
		_, err := Run(t.Context(), Spec{Argv: []string{"touch", ran}, Network: NetworkHost, MinLevel: LevelNamespaces, Modes: []Mode{mode}})
		wantRefused(t, err, mode)
	})
}
