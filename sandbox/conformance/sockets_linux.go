//go:build amd64 || arm64

package conformance

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// answerWait is how long an attempt waits for what a busy kernel may put off.
const answerWait = time.Second

func familyOf(sa unix.Sockaddr) int {
	switch sa.(type) {
	case *unix.SockaddrUnix:
		return unix.AF_UNIX
	case *unix.SockaddrInet6:
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// dial connects. A connection that is under way has found a route.
func dial(typ int, sa unix.Sockaddr) string {
	fd, err := unix.Socket(familyOf(sa), typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ended(err)
	}
	defer unix.Close(fd)
	if err = unix.Connect(fd, sa); errors.Is(err, unix.EINPROGRESS) {
		err = nil
	}
	return ended(err)
}

// sendUDP sends a byte to a port of the loopback address. With wait, it gives
// the refusal that comes where nobody listens the time to arrive.
func sendUDP(port int, wait time.Duration) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ended(err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: loopback4}); err != nil {
		return ended(err)
	}
	if _, err := unix.Write(fd, []byte{0}); err != nil {
		return ended(err)
	}
	await(fd, wait)
	e, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && e != 0 {
		err = unix.Errno(e)
	}
	return ended(err)
}

// dialAny connects to the first of the sockets that exists.
func dialAny(patterns []string) string {
	for _, p := range patterns {
		if strings.HasPrefix(p, "@") {
			if listed(p) != "none" {
				return dial(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: p})
			}
			continue
		}
		found, err := filepath.Glob(p)
		if err != nil {
			return err.Error()
		}
		if len(found) > 0 {
			return dial(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: found[0]})
		}
	}
	return "ENOENT"
}

// await waits until fd has data, a connection or an error.
func await(fd int, wait time.Duration) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for end := time.Now().Add(wait); ; {
		n, err := unix.Poll(p, int(max(0, time.Until(end)).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// ping connects an ICMP socket of the kind that needs no privilege, or else a
// raw one. No packet leaves.
func ping(family, proto int, sa unix.Sockaddr) string {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		raw, rawErr := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, proto)
		if rawErr != nil {
			return ended(err)
		}
		fd = raw
	}
	defer unix.Close(fd)
	return ended(unix.Connect(fd, sa))
}

// loaded is the condition of rows about a kind of socket that a kernel need not
// have. Opening one would load it, which a test should not do to a host.
func loaded(protocol string) func() string {
	return func() string {
		b, err := os.ReadFile("/proc/net/protocols")
		if err != nil {
			return ended(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, protocol+" ") || protocol == "" {
				return ""
			}
		}
		return "this kernel has none loaded"
	}
}

// foreignLink names an interface that is up and is not the loopback.
func foreignLink() string {
	b, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return ended(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ended(err)
	}
	defer unix.Close(fd)
	for line := range strings.Lines(string(b)) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || name == "lo" {
			continue
		}
		ifr, err := unix.NewIfreq(name)
		if err != nil {
			return ended(err)
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
			return ended(err)
		}
		if ifr.Uint16()&unix.IFF_UP != 0 {
			return name
		}
	}
	return "none"
}

func nameServer() string {
	b, err := os.ReadFile("/etc/resolv.conf")
	if errors.Is(err, os.ErrNotExist) {
		return "none"
	}
	if err != nil {
		return ended(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			return f[1]
		}
	}
	return "none"
}

// listed looks for an abstract name among the sockets of the own network
// namespace.
func listed(abstract string) string {
	b, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return ended(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 7 && f[7] == abstract {
			return "listed"
		}
	}
	return "none"
}

// listening looks for a TCP port that is listened on.
func listening(port int) string {
	b, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ended(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "0A" {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if n, err := strconv.ParseUint(hex, 16, 16); err == nil && int(n) == port {
			return "listed"
		}
	}
	return "none"
}

// request sends one message over rtnetlink and returns the first answer.
func request(typ, flags uint16, body []byte) ([]byte, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	head := unix.NlMsghdr{Len: uint32(unix.SizeofNlMsghdr + len(body)), Type: typ, Flags: flags | unix.NLM_F_REQUEST, Seq: 1}
	msg := append(bytes.Clone((*[unix.SizeofNlMsghdr]byte)(unsafe.Pointer(&head))[:]), body...)
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	if !await(fd, answerWait) {
		return nil, unix.ETIMEDOUT
	}
	b := make([]byte, 64<<10)
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return nil, err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return nil, unix.EBADMSG
	}
	return b[:n], nil
}

// addRoute asks for a route that cannot be.
func addRoute() string {
	route := unix.RtMsg{Family: unix.AF_INET, Dst_len: 255, Table: unix.RT_TABLE_MAIN, Type: unix.RTN_UNICAST}
	b, err := request(unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE, (*[unix.SizeofRtMsg]byte)(unsafe.Pointer(&route))[:])
	if err != nil {
		return ended(err)
	}
	head := (*unix.NlMsghdr)(unsafe.Pointer(&b[0]))
	if head.Type != unix.NLMSG_ERROR {
		return "answer of type " + strconv.Itoa(int(head.Type))
	}
	if code := *(*int32)(unsafe.Pointer(&b[unix.SizeofNlMsghdr])); code != 0 {
		return ended(unix.Errno(-code))
	}
	return "ok"
}

func dumpLinks() string {
	info := unix.IfInfomsg{Family: unix.AF_UNSPEC}
	b, err := request(unix.RTM_GETLINK, unix.NLM_F_DUMP, (*[unix.SizeofIfInfomsg]byte)(unsafe.Pointer(&info))[:])
	if err != nil {
		return ended(err)
	}
	if head := (*unix.NlMsghdr)(unsafe.Pointer(&b[0])); head.Type != unix.RTM_NEWLINK {
		return "answer of type " + strconv.Itoa(int(head.Type))
	}
	return "ok"
}

// receive takes a descriptor that is waiting at fd.
func receive(fd int) error {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 1), oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return unix.ENOMSG
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	for _, got := range fds {
		unix.Close(got)
	}
	return err
}

// receiveAny tries to receive at every descriptor that there is.
func receiveAny() string {
	got := "EBADF"
	for fd := range 256 {
		switch err := receive(fd); {
		case errors.Is(err, unix.EBADF):
		case errors.Is(err, unix.ENOTSOCK):
			got = "ENOTSOCK"
		default:
			return "descriptor " + strconv.Itoa(fd) + ": " + ended(err)
		}
	}
	return got
}

func passDescriptor() string {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ended(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(pair[0]), nil, 0); err != nil {
		return ended(err)
	}
	return ended(receive(pair[1]))
}

// tempDir is a place for what an attempt makes, inside and outside.
func tempDir(in *Inside) string {
	if in.Mode == "" { // a control
		return in.Dir
	}
	return os.TempDir()
}

// exchange listens on sa, connects to itself and passes a byte.
func exchange(sa unix.Sockaddr) string {
	listen, err := unix.Socket(familyOf(sa), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ended(err)
	}
	defer unix.Close(listen)
	if err := unix.Bind(listen, sa); err != nil {
		return ended(err)
	}
	if un, ok := sa.(*unix.SockaddrUnix); ok && !strings.HasPrefix(un.Name, "@") {
		defer os.Remove(un.Name)
	}
	if err := unix.Listen(listen, 1); err != nil {
		return ended(err)
	}
	at, err := unix.Getsockname(listen)
	if err != nil {
		return ended(err)
	}
	client, err := unix.Socket(familyOf(sa), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ended(err)
	}
	defer unix.Close(client)
	if err := unix.Connect(client, at); err != nil {
		return ended(err)
	}
	server, _, err := unix.Accept4(listen, unix.SOCK_CLOEXEC)
	if err != nil {
		return ended(err)
	}
	defer unix.Close(server)
	if _, err := unix.Write(client, []byte("x")); err != nil {
		return ended(err)
	}
	var b [1]byte
	if _, err := unix.Read(server, b[:]); err != nil {
		return ended(err)
	}
	if b[0] != 'x' {
		return "another byte arrived"
	}
	return "ok"
}
