//go:build amd64 || arm64

package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// canaryPrefix begins the name of the directories that hold canaries.
const canaryPrefix = "truegreen-canary-"

// A canary is a set of things that are in reach of the supervisor, and must
// not be in reach of the sandbox. It exists only while the probes run.
type canary struct {
	plan canaryPlan
	dir  string
	fds  []int // listening sockets: tcp, udp, abstract, path
}

// plantCanary plants and reaches for each thing: a probe that fails inside
// says something only if the same attempt succeeds here. Ports that are relayed
// are none for canaries.
func plantCanary(m Mode, relayed ...netip.AddrPort) (*canary, error) {
	c := &canary{}
	for {
		if err := c.plant(canaryParents(m)); err != nil {
			c.remove()
			return nil, fmt.Errorf("sandbox: plant canaries: %w", err)
		}
		if !slices.Contains(relayed, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(c.plan.TCP))) {
			break
		}
		c.remove()
	}
	if err := c.reach(); err != nil {
		c.remove()
		return nil, fmt.Errorf("sandbox: positive control: %w", err)
	}
	return c, nil
}

func (c *canary) plant(parents []string) error {
	var id [16]byte
	rand.Read(id[:])
	name := fmt.Sprintf("%s%d-%s", canaryPrefix, os.Getpid(), hex.EncodeToString(id[:8]))
	if err := c.makeDir(name, id[8:], parents); err != nil {
		return err
	}
	c.plan = canaryPlan{
		File:     filepath.Join(c.dir, canaryFile),
		Socket:   filepath.Join(c.dir, "socket"),
		PID:      os.Getpid(),
		Start:    startTime("/proc/self"),
		Abstract: "@" + name,
	}
	for _, l := range []struct {
		typ int
		sa  unix.Sockaddr
	}{
		{unix.SOCK_STREAM, inet4(0)},
		{unix.SOCK_DGRAM, inet4(0)},
		{unix.SOCK_STREAM, &unix.SockaddrUnix{Name: c.plan.Abstract}},
		{unix.SOCK_STREAM, &unix.SockaddrUnix{Name: c.plan.Socket}},
	} {
		fd, err := unix.Socket(family(l.sa), l.typ|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		c.fds = append(c.fds, fd)
		if err := unix.Bind(fd, l.sa); err != nil {
			return err
		}
		if l.typ == unix.SOCK_STREAM {
			if err := unix.Listen(fd, 4); err != nil {
				return err
			}
		}
	}
	var err error
	if c.plan.TCP, err = port(c.fds[0]); err != nil {
		return err
	}
	c.plan.UDP, err = port(c.fds[1])
	return err
}

// canaryParents begins with a directory that is in memory and seldom crowded,
// so that looking for the canaries of dead owners costs nothing. A command in
// mode restricted may use that one itself.
func canaryParents(m Mode) []string {
	if m == ModeRestricted {
		return []string{os.TempDir(), base, "/var/tmp"}
	}
	return []string{"/dev/shm", base, os.TempDir(), "/var/tmp"}
}

// makeDir makes the directory, with the file, in the first of the parents that
// has room for it.
func (c *canary) makeDir(name string, content []byte, parents []string) (err error) {
	for _, parent := range parents {
		sweep(parent, canaryPrefix)
		dir := filepath.Join(parent, name)
		if err = os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		if err = os.WriteFile(filepath.Join(dir, canaryFile), content, 0o644); err == nil {
			c.dir = dir
			return nil
		}
		os.RemoveAll(dir)
	}
	return err
}

const canaryFile = "file"

// sweep removes the directories in dir whose name is prefix and the pid of a
// process that is gone, as far as they are this user's: anybody can use the
// name.
func sweep(dir, prefix string) {
	old, _ := filepath.Glob(filepath.Join(dir, prefix+"*"))
	for _, p := range old {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(p), prefix), "-")
		if n, err := strconv.Atoi(pid); err != nil || !errors.Is(unix.Kill(n, 0), unix.ESRCH) {
			continue
		}
		var st unix.Stat_t
		if unix.Lstat(p, &st) != nil || int(st.Uid) != os.Geteuid() || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		// A cgroup goes by rmdir alone; its files cannot be removed.
		if unix.Rmdir(p) != nil {
			removeTree(p)
		}
	}
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

// reach makes the attempts of probeInside from here and takes what arrives.
func (c *canary) reach() error {
	p := c.plan
	for _, t := range []struct {
		name string
		err  error
	}{
		{"file", openErr(p.File, unix.O_RDONLY)},
		{"environ", openErr("/proc/self/environ", unix.O_RDONLY)},
		{"process", unix.Kill(p.PID, 0)},
		{"tcp", connect(unix.SOCK_STREAM, inet4(p.TCP))},
		{"udp", sendUDP(p.UDP, 0)},
		{"abstract socket", connect(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: p.Abstract})},
		{"path socket", connect(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: p.Socket})},
	} {
		if t.err != nil {
			return fmt.Errorf("%s: %w", t.name, t.err)
		}
	}
	for _, fd := range c.fds {
		readable(fd, answerWait)
	}
	if n := c.heard(); n != len(c.fds) {
		return fmt.Errorf("only %d of %d canaries heard it", n, len(c.fds))
	}
	return nil
}

// heard counts the sockets that somebody reached since the last call.
func (c *canary) heard() int {
	n := 0
	for i, fd := range c.fds {
		if i == 1 {
			var b [16]byte
			if _, _, err := unix.Recvfrom(fd, b[:], 0); err == nil {
				n++
			}
			continue
		}
		if peer, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC); err == nil {
			unix.Close(peer)
			n++
		}
	}
	return n
}

// silent is the outside's half of the network probes.
func (c *canary) silent() Probe {
	if n := c.heard(); n > 0 {
		return Probe{Name: "canaries_silent", Got: fmt.Sprintf("%d reached", n)}
	}
	return Probe{Name: "canaries_silent", Got: "none reached", OK: true}
}

func (c *canary) remove() {
	for _, fd := range c.fds {
		unix.Close(fd)
	}
	c.fds = nil
	if c.dir != "" {
		os.RemoveAll(c.dir)
		c.dir = ""
	}
}
