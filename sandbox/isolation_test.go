//go:build linux && (amd64 || arm64)

package sandbox

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wantErrno is what each attempt must end in. Where the kernel may choose,
// both are listed.
var wantErrno = map[string]string{
	"socket-vsock": "EAFNOSUPPORT", "socket-alg": "EAFNOSUPPORT", "socket-packet": "EAFNOSUPPORT", "socket-bluetooth": "EAFNOSUPPORT",
	"socket-tipc": "EAFNOSUPPORT", "socket-xdp": "EAFNOSUPPORT", "socket-raw": "EPERM",

	"tcp": "ECONNREFUSED", "udp": "ECONNREFUSED", "route4": "ENETUNREACH", "route6": "ENETUNREACH", "metadata": "ENETUNREACH",
	"abstract": "ECONNREFUSED EPERM", "path-socket": "ENOENT", "docker-socket": "ENOENT",
}

// TestAttempts makes every attempt from inside. The sockets are reached from
// here first: a refusal means something only where the same attempt can
// succeed.
func TestAttempts(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		c, err := plantCanary(mode)
		if err != nil {
			t.Fatal(err)
		}
		defer c.remove()
		p := c.plan
		_, out := mustRun(t, mode, Spec{
			Argv:   []string{attackPath, "attack:attempts", strconv.Itoa(p.TCP), strconv.Itoa(p.UDP), p.Abstract, p.Socket},
			Mounts: []Mount{attackMount(t)},
		})
		checkRows(t, out, wantErrno)
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
	if rows != len(want) {
		t.Errorf("%d rows, want %d; stderr: %s", rows, len(want), out.stderr.String())
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
