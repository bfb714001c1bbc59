//go:build amd64 || arm64

package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// targets are what a supervisor has planted. It lives for one run, so nothing
// that it holds open is ever closed by hand but the victim.
type targets struct {
	Outside
	victim *exec.Cmd
	input  *os.File // the victim ends when it is closed
	leak   int      // a descriptor that every child inherits
}

func plant(dir string) (*targets, error) {
	t := &targets{}
	for _, f := range []func(string) error{t.files, t.environment, t.processes, t.sockets, t.privileged} {
		if err := f(dir); err != nil {
			t.remove()
			return nil, err
		}
	}
	t.Key = plantKey(filepath.Base(dir))
	t.Devices, t.Disk = devices()
	t.Goroot = goroot()
	return t, nil
}

func (t *targets) files(dir string) error {
	t.Dir = filepath.Join(dir, "targets")
	t.Program = filepath.Join(dir, programDir, nameInside)
	t.Work = filepath.Join(t.Dir, "work")
	t.File = filepath.Join(t.Dir, "file")
	t.Secret = filepath.Base(dir)
	for _, d := range []string{t.Dir, t.Work} {
		if err := mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if uid, gid, chown := sandbox.Owner(); chown {
		if err := os.Chown(t.Work, uid, gid); err != nil {
			return err
		}
	}
	if err := os.WriteFile(t.File, []byte(t.Secret), 0o600); err != nil {
		return err
	}
	if err := os.Chmod(t.File, 0o666); err != nil {
		return err
	}
	// As from a careless parent: no close-on-exec.
	var err error
	t.leak, err = unix.Open(t.File, unix.O_RDONLY, 0)
	return err
}

// environment reads which names the supervisor was started with.
func (t *targets) environment(dir string) error {
	b, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return err
	}
	for kv := range strings.SplitSeq(string(b), "\x00") {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			continue
		}
		t.HostEnvNames = append(t.HostEnvNames, name)
		switch name {
		case envName:
			t.Env = kv
		case "HOME":
			t.Home = value
		}
	}
	if t.Env == "" {
		return errors.New("the supervisor was started without its secret")
	}
	if _, err := os.ReadDir(t.Home); err != nil || !filepath.IsAbs(t.Home) {
		t.Home = filepath.Join(t.Dir, "home")
		return mkdir(t.Home, 0o755)
	}
	return nil
}

func (t *targets) processes(dir string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	t.input = w
	t.victim = exec.Command("/proc/self/exe", t.Secret)
	t.victim.Args[0] = nameVictim
	t.victim.Stdin = r
	out, err := t.victim.StdoutPipe()
	if err != nil {
		return err
	}
	if err := t.victim.Start(); err != nil {
		return err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("victim: %q, %w", line, err)
	}
	t.UID, t.Supervisor, t.Victim = os.Geteuid(), os.Getpid(), t.victim.Process.Pid
	t.VictimStart = startTime(t.Victim)
	return nil
}

// victimLives also says that nobody took its place.
func (t *targets) victimLives() bool {
	return unix.Kill(t.Victim, 0) == nil && startTime(t.Victim) == t.VictimStart
}

// startTime reads field 22 of a process's stat file, "" if there is none.
func startTime(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return ""
	}
	return f[19]
}

// sockets listens. The backlogs are all that answers.
func (t *targets) sockets(string) error {
	t.Abstract = "@" + t.Secret
	t.Socket = filepath.Join(t.Dir, "socket")
	loopback := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	tcp, err := listen(unix.AF_INET, unix.SOCK_STREAM, loopback)
	if err != nil {
		return err
	}
	udp, err := listen(unix.AF_INET, unix.SOCK_DGRAM, loopback)
	if err != nil {
		return err
	}
	if t.TCP, err = port(tcp); err != nil {
		return err
	}
	if t.UDP, err = port(udp); err != nil {
		return err
	}
	if _, err = listen(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: t.Abstract}); err != nil {
		return err
	}
	if _, err = listen(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: t.Socket}); err != nil {
		return err
	}
	return os.Chmod(t.Socket, 0o777)
}

func listen(family, typ int, sa unix.Sockaddr) (int, error) {
	fd, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, sa); err != nil {
		return -1, err
	}
	if typ == unix.SOCK_STREAM {
		return fd, unix.Listen(fd, 128)
	}
	return fd, nil
}

func port(fd int) (int, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	in, ok := sa.(*unix.SockaddrInet4)
	if !ok {
		return 0, errors.New("not an IPv4 socket")
	}
	return in.Port, nil
}

// privileged plants what only root can.
func (t *targets) privileged(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	p := belowRun(t.Secret)
	if err := os.WriteFile(p, []byte(t.Secret), 0o600); err == nil {
		t.Run = p
		if err := os.Chmod(p, 0o644); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		from, to string
		where    *string
		mark     func(string) error
	}{
		{"id", "id", &t.Setuid, func(p string) error { return os.Chmod(p, 0o755|fs.ModeSetuid) }},
		{"cat", "cat", &t.FileCap, func(p string) error { return unix.Setxattr(p, "security.capability", netRaw(), 0) }},
	} {
		from, err := exec.LookPath("/usr/bin/" + f.from)
		if err != nil {
			continue
		}
		p := filepath.Join(dir, programDir, f.to)
		if err := copyFile(p, from, 0o755); err != nil {
			return err
		}
		if f.mark(p) == nil {
			*f.where = p
		}
	}
	return nil
}

// netRaw is a file capability: CAP_NET_RAW, permitted and effective.
func netRaw() []byte {
	b := make([]byte, 20)
	b[3], b[0] = 2, 1 // revision 2, effective
	b[5] = 1 << (unix.CAP_NET_RAW - 8)
	return b
}

// plantKey puts a key into the user's keyring, for as long as a run may take.
func plantKey(name string) string {
	id, err := unix.AddKey("user", name, []byte("x"), unix.KEY_SPEC_USER_KEYRING)
	if err != nil {
		return ""
	}
	unix.KeyctlInt(unix.KEYCTL_SET_TIMEOUT, id, 3600, 0, 0)
	return name
}

func (t *targets) removeKey() {
	if id, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", t.Key, 0); err == nil {
		unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0)
	}
}

// devices lists the device nodes of the host, pseudo terminals aside, and its
// first block device.
func devices() (list []string, disk string) {
	filepath.WalkDir("/dev", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case d.IsDir() && (p == "/dev/pts" || p == "/dev/shm"):
			return fs.SkipDir
		case d.Type()&fs.ModeDevice != 0 && len(list) < 512:
			list = append(list, p)
			if disk == "" && d.Type()&fs.ModeCharDevice == 0 {
				disk = p
			}
		}
		return nil
	})
	return list, disk
}

func (t *targets) remove() {
	if t.input != nil {
		t.input.Close()
	}
	if t.victim != nil && t.victim.Process != nil {
		t.victim.Process.Kill()
		t.victim.Wait()
	}
	if t.Run != "" {
		os.Remove(t.Run)
	}
	if t.Key != "" {
		t.removeKey()
	}
}
