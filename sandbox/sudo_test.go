//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSudo runs TestSudoInner as an ordinary user whom sudo lets become root:
// in a mount namespace of its own, where the sudoers file says so.
func TestSudo(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 || !able(ModeRootDrop) {
		t.Skip("runs only as root: it makes a mount namespace with another sudoers file")
	}
	if _, err := os.Stat(sudoPaths[0]); err != nil {
		t.Skip("no sudo here")
	}
	for _, c := range []struct{ name, sudoers string }{
		{"allowed", "Defaults !requiretty\n#65533 ALL=(ALL) NOPASSWD: ALL\nroot ALL=(ALL) ALL\n"},
		{"forbidden", "root ALL=(ALL) ALL\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := reachableDir(t)
			if err := os.WriteFile(filepath.Join(dir, "sudoers"), []byte(c.sudoers), 0o440); err != nil {
				t.Fatal(err)
			}
			passwd, err := os.ReadFile("/etc/passwd")
			if err != nil {
				t.Fatal(err)
			}
			passwd = append(passwd, "tg-test:x:65533:65533::/nonexistent:/bin/sh\n"...)
			if err := os.WriteFile(filepath.Join(dir, "passwd"), passwd, 0o644); err != nil {
				t.Fatal(err)
			}
			pam := "auth required pam_deny.so\naccount required pam_permit.so\nsession required pam_permit.so\n"
			if err := os.WriteFile(filepath.Join(dir, "pam"), []byte(pam), 0o644); err != nil {
				t.Fatal(err)
			}
			self := copySelf(t, dir)
			cmd := exec.Command("sh", "-c", "mount --bind "+dir+"/sudoers /etc/sudoers && mount --bind "+dir+"/passwd /etc/passwd && mount --bind "+dir+"/pam /etc/pam.d/sudo && "+
				"exec setpriv --reuid 65533 --regid 65533 --clear-groups "+self+" -test.run '^TestSudoInner$' -test.v")
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
			cmd.Env = append(os.Environ(), "TRUEGREEN_TEST_SUDO="+c.name, "TMPDIR=/tmp")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestSudoInner") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// copySelf puts the test binary where every user can execute it.
func copySelf(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(dir, "sandbox.test")
	if err := os.WriteFile(p, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSudoInner(t *testing.T) {
	switch os.Getenv("TRUEGREEN_TEST_SUDO") {
	case "":
		t.Skip("part of TestSudo")
	case "forbidden":
		_, err := Run(t.Context(), Spec{Argv: []string{"true"}, Modes: []Mode{ModeRootDrop}})
		wantRefused(t, err, ModeRootDrop)
		if err != nil && !strings.Contains(err.Error(), "password") {
			t.Errorf("%v: not what sudo said", err)
		}
		return
	}
	remoteBehaviour(t, "sudo")
}

// remoteBehaviour is what a Run through a remote supervisor has to do.
func remoteBehaviour(t *testing.T, via string) {
	dir := t.TempDir() // nobody else may enter it
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"tree", "out"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "tree/a"), []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("0123456789abcdef", 1<<14) // 256 KiB: several events
	var got []string
	spec := Spec{
		Argv: sh("id -u; cat a; echo changed > a; cat a; echo x > /out/new; printf '" + big[:1000] + "' > /tmp/r; : > /tmp/empty; cat $BIG | wc -c; head -c 300000 /dev/zero >&2; exit 3"),
		Dir:  "/src", Env: append(testEnv(), "BIG=/usr/bin/env"),
		Mounts: []Mount{
			{Source: filepath.Join(dir, "tree"), Target: "/src", Kind: Overlay},
			{Source: filepath.Join(dir, "out"), Target: "/out", Kind: Writable},
		},
		Collect: []string{"/tmp/none", "/tmp/r", "/tmp/empty"},
		Sink: func(p string, _ int64, r io.Reader) error {
			b, err := io.ReadAll(r)
			got = append(got, p+" "+string(b))
			if p == "/tmp/empty" {
				return errors.New("not wanted")
			}
			return err
		},
		Limits:   Limits{Output: 200_000},
		MinLevel: LevelNamespaces,
	}
	r, out := mustRun(t, ModeRootDrop, spec)
	if r.State != StateExited || r.Exit != 3 || !strings.HasPrefix(out.stdout.String(), "61") || !strings.Contains(out.stdout.String(), "a\nchanged\n") {
		t.Errorf("%+v, %q", r.State, out.stdout.String())
	}
	if r.Isolation.Via != via || r.Isolation.Mode != ModeRootDrop || r.Isolation.Level != LevelNamespaces {
		t.Errorf("isolation %+v", r.Isolation)
	}
	if r.Stderr.Total != 300_000 || r.Stderr.Kept != 200_000 || out.stderr.Len() != 200_000 {
		t.Errorf("stderr %+v, %d bytes", r.Stderr, out.stderr.Len())
	}
	if len(got) != 2 || got[0] != "/tmp/r "+big[:1000] || got[1] != "/tmp/empty " {
		t.Errorf("collected %.80q", got)
	}
	if f := r.Files; len(f) != 3 || f[0].Err != "ENOENT" || f[1].Err != "" || f[1].Size != 1000 || f[2].Err != "not wanted" {
		t.Errorf("files %+v", f)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "tree/a")); string(b) != "a\n" {
		t.Errorf("the source is now %q, %v", b, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "out/new")); err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		t.Errorf("written file: %v, %+v", err, info)
	}

	remoteConnect(t)

	ctx, cancel := context.WithCancel(t.Context())
	w := &notifyWriter{want: []byte("ready\n"), then: cancel}
	r, err := Run(ctx, Spec{Argv: sh("echo ready; sleep 60"), Env: testEnv(), Modes: []Mode{ModeRootDrop}, Stdout: w})
	if err != nil || r.State != StateCanceled || r.Why != "context canceled" {
		t.Errorf("canceled: %v, %s %q", err, r.State, r.Why)
	}
	r, _ = mustRun(t, ModeRootDrop, Spec{Argv: sh("sleep 60"), Limits: Limits{Wall: 100 * time.Millisecond}})
	if r.State != StateTimeout {
		t.Errorf("wall: %s", r.State)
	}
	_, err = Run(t.Context(), Spec{Argv: []string{"true"}, Modes: []Mode{ModeRootDrop}, Network: NetworkHost, MinLevel: LevelNamespaces})
	wantRefused(t, err, ModeRootDrop)
	r, _ = mustRun(t, ModeRootDrop, Spec{Argv: []string{"no-such-command"}})
	if r.State != StateCouldNotStart || r.Why == "" {
		t.Errorf("no such command: %s %q", r.State, r.Why)
	}
}
