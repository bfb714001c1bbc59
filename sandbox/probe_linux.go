//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A canaryPlan says where the supervisor planted what must be out of reach.
type canaryPlan struct {
	File, Socket string // below a directory of the host
	PID          int    // of the supervisor
	Start        string // when it started, in ticks: tells it from a namesake
	TCP, UDP     int    // ports on 127.0.0.1
	Abstract     string
}

// probeInside makes each attempt as the command would: on the thread that
// will start it, with everything in force.
func probeInside(c stageConfig) []Probe {
	k := c.Canary
	proc := "/proc/" + strconv.Itoa(k.PID)
	status := ownStatus()
	hidden, tmp := error(unix.ENOENT), "/tmp"
	if !c.mounts() {
		tmp = c.Tmp
		if !c.Placed {
			hidden = unix.EACCES
		}
	}
	return []Probe{
		try("canary_file", openErr(k.File, unix.O_RDONLY), hidden),
		try("canary_environ", foreign(proc, k.Start, func() error { return openErr(proc+"/environ", unix.O_RDONLY) }), unix.ENOENT, unix.EACCES, unix.ESRCH),
		try("canary_process", foreign(proc, k.Start, func() error { return unix.Kill(k.PID, 0) }), unix.ESRCH, unix.EPERM),
		try("canary_tcp", connect(unix.SOCK_STREAM, inet4(k.TCP)), unix.ECONNREFUSED),
		try("canary_udp", sendUDP(k.UDP, answerWait), unix.ECONNREFUSED),
		try("canary_abstract", connect(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: k.Abstract}), unix.ECONNREFUSED, unix.EPERM),
		try("canary_socket", connect(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: k.Socket}), unix.ENOENT),
		try("route_out", connect(unix.SOCK_DGRAM, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 1}}), unix.ENETUNREACH),
		try("write_usr", create("/usr/.probe"), unix.EROFS, unix.EACCES, unix.ENOENT),
		try("write_root", create("/.probe"), unix.EROFS, unix.EACCES),
		try("write_tmp", create(tmp+"/.probe"), nil),
		try("mount", unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""), unix.EPERM),
		try("new_userns", unix.Unshare(unix.CLONE_NEWUSER), unix.EPERM),
		try("keyctl", keyctl(), unix.EPERM),
		try("vsock", socketErr(unix.AF_VSOCK), unix.EAFNOSUPPORT),
		try("loopback4", echo(unix.AF_INET, inet4(0)), nil),
		try("loopback6", echo(unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte{15: 1}}), nil, unix.EAFNOSUPPORT, unix.EADDRNOTAVAIL),
		fact("read_only", readOnly(), "read-only"),
		fact("open_fds", openFDs(), "close-on-exec"),
		fact("own_environ", ownEnviron(), "clean"),
		fact("no_new_privs", statusField(status, "NoNewPrivs"), "1"),
		fact("capabilities", capabilities(status), "none"),
	}
}

// try is a probe that must end in one of the errnos in want; nil is success.
func try(name string, got error, want ...error) Probe {
	ok := slices.ContainsFunc(want, func(w error) bool {
		return w == nil && got == nil || w != nil && errors.Is(got, w)
	})
	return Probe{Name: name, Got: errnoText(got), OK: ok}
}

func fact(name, got, want string) Probe { return Probe{Name: name, Got: got, OK: got == want} }

// foreign runs f unless the canary's number belongs to another process here,
// as can happen when the supervisor itself has a small one.
func foreign(proc, start string, f func() error) error {
	if s := startTime(proc); s != "" && s != start {
		return unix.ESRCH
	}
	return f()
}

// startTime reads field 22 of a stat file, "" if there is none.
func startTime(proc string) string {
	b, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return ""
	}
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 20 {
		return ""
	}
	return f[19]
}

func openErr(p string, flags int) error {
	fd, err := unix.Open(p, flags|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func create(p string) error {
	fd, err := unix.Open(p, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	unix.Close(fd)
	return unix.Unlink(p)
}

// readOnly reads the mounts' own account: where the permissions forbid to write,
// an attempt does not show whether the mount would.
func readOnly() string {
	for _, p := range []string{"/", "/usr"} {
		var fs unix.Statfs_t
		err := unix.Statfs(p, &fs)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return p + " " + errnoText(err)
		}
		if fs.Flags&unix.ST_RDONLY == 0 {
			return p + " is writable"
		}
	}
	return "read-only"
}

func keyctl() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_GET_KEYRING_ID, unix.KEY_SPEC_SESSION_KEYRING, 0, 0, 0)
	return err
}

func inet4(port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

func family(sa unix.Sockaddr) int {
	switch sa.(type) {
	case *unix.SockaddrUnix:
		return unix.AF_UNIX
	case *unix.SockaddrInet6:
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func socketErr(family int) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func connect(typ int, sa unix.Sockaddr) error {
	fd, err := unix.Socket(family(sa), typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, sa)
}

// answerWait is how long a probe waits for what a busy kernel may put off.
const answerWait = time.Second

// sendUDP sends to a port of the loopback address. With wait, it gives the
// refusal that comes where nobody listens the time to arrive.
func sendUDP(port int, wait time.Duration) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, inet4(port)); err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte{0}); err != nil {
		return err
	}
	readable(fd, wait)
	e, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if e != 0 {
		return unix.Errno(e)
	}
	return nil
}

// readable waits until fd has data, a connection or an error.
func readable(fd int, wait time.Duration) {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	end := time.Now().Add(wait)
	for {
		_, err := unix.Poll(p, int(max(0, time.Until(end)).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// echo listens on sa and connects to itself.
func echo(family int, sa unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, sa); err != nil {
		return err
	}
	if err := unix.Listen(fd, 1); err != nil {
		return err
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	return connect(unix.SOCK_STREAM, at)
}

// openFDs looks for descriptors that the command would inherit.
func openFDs() string {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return errnoText(err)
	}
	for _, e := range d {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			return fmt.Sprintf("descriptor %d", n)
		}
	}
	return "close-on-exec"
}

func ownEnviron() string {
	if !slices.Equal(os.Environ(), initEnv()) {
		return "foreign entries"
	}
	return "clean"
}

// threadStatus reads one field of the calling thread's status.
func threadStatus(field string) string { return statusField(ownStatus(), field) }

// ownStatus reads the calling thread's status, "" if that is impossible.
func ownStatus() string {
	b, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return ""
	}
	return string(b)
}

func statusField(status, field string) string {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func capabilities(status string) string {
	for _, set := range capSets() {
		if v := statusField(status, set); strings.Trim(v, "0") != "" || v == "" {
			return set + " " + v
		}
	}
	return "none"
}

func capSets() []string { return []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} }
