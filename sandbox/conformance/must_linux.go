//go:build amd64 || arm64

package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// mustRows: what ordinary test suites need. A sandbox in which they fail is of
// no use, whatever it keeps out.
func mustRows() []Row {
	rows := append(placeRows(), callRows()...)
	for _, r := range programRows() {
		r.Host = true
		rows = append(rows, r)
	}
	for i := range rows {
		r := &rows[i]
		r.ID, r.Group, r.Want = "must-"+r.ID, "must", []string{"ok"}
		if r.Level == sandbox.LevelNone {
			r.Level = sandbox.LevelRestricted
		}
		if r.Control == nil && r.Why == "" {
			r.Control = mayRefuse(here(r.Try))
		}
	}
	return rows
}

// place returns a directory by the name of its variable.
func place(name string) string {
	if name == "TMPDIR" {
		return os.TempDir()
	}
	return os.Getenv(name)
}

// placeRows: files and sockets in the places where tests put them.
func placeRows() []Row {
	var rows []Row
	for _, c := range []struct {
		id, name, dir string
		level         sandbox.Level
	}{
		{"tmpdir", "write to $TMPDIR", "$TMPDIR", sandbox.LevelRestricted},
		{"tmp", "write to /tmp by its name", "/tmp", sandbox.LevelContainer},
		{"var-tmp", "write to /var/tmp by its name", "/var/tmp", sandbox.LevelContainer},
		{"shm", "write to /dev/shm", "/dev/shm", sandbox.LevelContainer},
		{"home", "write to the home directory", "$HOME", sandbox.LevelRestricted},
	} {
		r := Row{ID: c.id, Name: c.name, Level: c.level, Try: func(in *Inside) string { return writeIn(os.Expand(c.dir, place), in.Secret) }}
		if c.id == "home" {
			r.Why = "no control: the directory is there only inside"
		}
		rows = append(rows, r)
	}
	in := func(f func(dir string) error) func(*Inside) string {
		return func(in *Inside) string {
			dir, err := os.MkdirTemp(tempDir(in), "must-")
			if err != nil {
				return ended(err)
			}
			defer os.RemoveAll(dir)
			return ended(f(dir))
		}
	}
	rows = append(rows,
		Row{ID: "exec", Name: "execute a program in $TMPDIR", Try: in(execCopy)},
		Row{ID: "chmod", Name: "chmod +s, and chown to oneself", Try: in(ownMode)},
		Row{ID: "fifo", Name: "talk through a fifo", Try: in(fifo)},
		Row{ID: "rename", Name: "rename between directories", Try: in(rename)},
		Row{ID: "lock", Name: "lock a file", Try: in(lock)},
		Row{ID: "0500", Name: "be refused in a directory with mode 0500", Try: in(refused),
			Why: "no control: root is not refused, which is why no test runs as root"},
		Row{ID: "socket", Name: "unix socket in $TMPDIR", Try: func(in *Inside) string {
			return exchange(&unix.SockaddrUnix{Name: filepath.Join(tempDir(in), "must-socket")})
		}},
		Row{ID: "tcp4", Name: "TCP on 127.0.0.1", Level: walls, Try: func(*Inside) string { return exchange(&unix.SockaddrInet4{Addr: loopback4}) }},
		Row{ID: "tcp6", Name: "TCP on ::1", Level: sandbox.LevelNamespaces, Try: func(*Inside) string { return exchange(&unix.SockaddrInet6{Addr: loopback6}) }},
		Row{ID: "devices", Name: "null, zero, full and urandom", Try: func(*Inside) string { return ended(devicesWork()) }},
		Row{ID: "pty", Name: "open a pty and talk through it", Try: func(*Inside) string { return ended(pty()) }},
		Row{ID: "fd", Name: "/dev/fd, /dev/stdin and /proc/thread-self", Try: func(*Inside) string { return ended(links()) }},
	)
	return rows
}

// callRows: system calls that look suspicious and are not.
func callRows() []Row {
	call := func(id, name string, f func() error) Row {
		return Row{ID: id, Name: name, Try: func(*Inside) string { return ended(f()) }}
	}
	return []Row{
		call("kill", "signal a child of one's own", killChild),
		atLevel(sandbox.LevelNamespaces, call("unshare", "unshare(CLONE_FILES)", func() error { return raw(unix.SYS_UNSHARE, unix.CLONE_FILES) })),
		call("memfd", "memfd_create", func() error {
			fd, err := unix.MemfdCreate("must", unix.MFD_CLOEXEC)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}),
		call("landlock", "ask for Landlock, for nested sandboxes", func() error {
			return raw(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
		}),
		call("blocking", "standard output that blocks", func() error {
			flags, err := unix.FcntlInt(1, unix.F_GETFL, 0)
			if err == nil && flags&unix.O_NONBLOCK != 0 {
				return unix.EAGAIN
			}
			return err
		}),
	}
}

func writeIn(dir, name string) string {
	p := filepath.Join(dir, name+"-must")
	err := os.WriteFile(p, []byte("x"), 0o600)
	return ended(errors.Join(err, os.Remove(p)))
}

func execCopy(dir string) error {
	b, err := os.ReadFile("/bin/true")
	if err != nil {
		return err
	}
	p := filepath.Join(dir, "true")
	if err := os.WriteFile(p, b, 0o755); err != nil {
		return err
	}
	return exec.Command(p).Run()
}

func ownMode(dir string) error {
	p := filepath.Join(dir, "file")
	if err := os.WriteFile(p, nil, 0o755); err != nil {
		return err
	}
	return errors.Join(os.Chown(p, os.Geteuid(), os.Getegid()), unix.Chmod(p, 0o4755))
}

func fifo(dir string) error {
	p := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(p, 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(p, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return echoed(f, f)
}

// echoed writes a line to w that is to arrive at r.
func echoed(w, r *os.File) error {
	if _, err := w.WriteString("line\n"); err != nil {
		return err
	}
	b := make([]byte, 16)
	n, err := r.Read(b)
	if err == nil && strings.TrimSpace(string(b[:n])) != "line" {
		err = errors.New("something else arrived")
	}
	return err
}

func rename(dir string) error {
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	return errors.Join(os.Mkdir(from, 0o755), os.Mkdir(to, 0o755), os.WriteFile(filepath.Join(from, "f"), nil, 0o644),
		os.Rename(filepath.Join(from, "f"), filepath.Join(to, "f")), os.Rename(to, filepath.Join(from, "to")))
}

func lock(dir string) error {
	f, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB),
		unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
}

func refused(dir string) error {
	d := filepath.Join(dir, "closed")
	if err := os.Mkdir(d, 0o500); err != nil {
		return err
	}
	err := os.WriteFile(filepath.Join(d, "x"), nil, 0o644)
	if errors.Is(err, unix.EACCES) {
		return nil
	}
	return errors.Join(errors.New("was written to"), err)
}

func devicesWork() error {
	b := make([]byte, 16)
	for _, d := range []struct {
		name  string
		flags int
		want  error
	}{{"null", unix.O_RDWR, nil}, {"zero", unix.O_RDWR, nil}, {"full", unix.O_WRONLY, unix.ENOSPC}, {"urandom", unix.O_RDONLY, nil}, {"random", unix.O_RDONLY, nil}} {
		fd, err := unix.Open("/dev/"+d.name, d.flags|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if d.flags == unix.O_RDONLY {
			_, err = unix.Read(fd, b)
		} else {
			_, err = unix.Write(fd, b)
		}
		unix.Close(fd)
		if !errors.Is(err, d.want) {
			return errors.Join(errors.New(d.name), err)
		}
	}
	return nil
}

func pty() error {
	main, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer main.Close()
	n, err := unix.IoctlGetInt(int(main.Fd()), unix.TIOCGPTN)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(int(main.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	side, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer side.Close()
	return echoed(side, main)
}

func links() error {
	for _, p := range []string{"/dev/fd/1", "/dev/stdin", "/proc/thread-self/status", "/proc/self/maps"} {
		if _, err := os.Stat(p); err != nil {
			return err
		}
	}
	return nil
}

func killChild() error {
	c := exec.Command("/bin/sleep", "60")
	if err := c.Start(); err != nil {
		return err
	}
	if err := c.Process.Signal(unix.SIGTERM); err != nil {
		return err
	}
	c.Wait()
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != unix.SIGTERM {
		return errors.New("the child ended otherwise")
	}
	return nil
}
