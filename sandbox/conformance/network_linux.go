//go:build amd64 || arm64

package conformance

import (
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// Addresses out. They are documentation's where they can be. Outside, datagram
// sockets connect to them, which looks for a route and sends nothing.
var (
	outside4  = [4]byte{198, 51, 100, 53}
	outside6  = [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 0x53}
	metadata4 = [4]byte{169, 254, 169, 254}
	metadata6 = [16]byte{0xfd, 0x00, 0x0e, 0xc2, 14: 0x02, 15: 0x54}
	loopback4 = [4]byte{127, 0, 0, 1}
	loopback6 = [16]byte{15: 1}
)

// walls is the least level with a network of its own.
const walls = sandbox.LevelContainer

func networkRows() []Row {
	rows := loopbackRows()
	rows = append(rows, routeRows()...)
	rows = append(rows, familyRows()...)
	rows = append(rows, pathRows()...)
	for i := range rows {
		rows[i].Group = "network"
	}
	return rows
}

// loopbackRows: what of the host answers on its own addresses, and what of the
// sandbox must.
func loopbackRows() []Row {
	tcp := func(in *Inside) string {
		return dial(unix.SOCK_STREAM, &unix.SockaddrInet4{Port: in.TCP, Addr: loopback4})
	}
	udp := func(wait time.Duration) func(*Inside) string {
		return func(in *Inside) string { return sendUDP(in.UDP, wait) }
	}
	ports := func(in *Inside) string { return listening(in.TCP) }
	rows := []Row{
		{ID: "64", Name: "TCP to the host's 127.0.0.1", Level: walls, Want: []string{"ECONNREFUSED"}, Try: tcp, Control: here(tcp)},
		{ID: "65", Name: "UDP to the host's 127.0.0.1", Level: walls, Want: []string{"ECONNREFUSED"}, Try: udp(answerWait), Control: here(udp(0))},
		{ID: "78", Name: "see who listens on the host in /proc/net/tcp", Level: walls, Want: []string{"none"}, Try: ports, Control: finds(ports),
			Why: "a CI runner's own services listen on the loopback address; attempts 64 and 65 try to reach it"},
	}
	for _, c := range []struct {
		id, name string
		sa       func(in *Inside) unix.Sockaddr
	}{
		{"79a", "own IPv4 loopback", func(*Inside) unix.Sockaddr { return &unix.SockaddrInet4{Addr: loopback4} }},
		{"79b", "own IPv6 loopback", func(*Inside) unix.Sockaddr { return &unix.SockaddrInet6{Addr: loopback6} }},
		{"79c", "own path socket", func(in *Inside) unix.Sockaddr {
			return &unix.SockaddrUnix{Name: filepath.Join(tempDir(in), "own-"+strconv.Itoa(unix.Getpid()))}
		}},
		{"79d", "own abstract socket", func(in *Inside) unix.Sockaddr { return &unix.SockaddrUnix{Name: in.Abstract + "-own"} }},
	} {
		r := Row{ID: c.id, Name: c.name, Level: walls, Want: []string{"ok"}, Why: "must work"}
		r.Try = func(in *Inside) string {
			sa := c.sa(in)
			if un, ok := sa.(*unix.SockaddrUnix); ok && len(un.Name) > 100 { // a folder with a longer name than sockets can have
				return "host: the folder's name is too long for a socket"
			}
			return exchange(sa)
		}
		r.Control = here(r.Try)
		if c.id == "79b" { // not every host has IPv6, nor has an engine's network
			r.Level = sandbox.LevelNamespaces
			r.Control = mayRefuse(r.Control)
		}
		rows = append(rows, r)
	}
	return rows
}

// routeRows: ways out.
func routeRows() []Row {
	var rows []Row
	for _, c := range []struct {
		id, name string
		typ      int
		sa       unix.Sockaddr
	}{
		{"66a", "route out over IPv4", unix.SOCK_DGRAM, &unix.SockaddrInet4{Port: 9, Addr: outside4}},
		{"67", "route out over IPv6", unix.SOCK_DGRAM, &unix.SockaddrInet6{Port: 9, Addr: outside6}},
		{"68a", "DNS over UDP", unix.SOCK_DGRAM, &unix.SockaddrInet4{Port: 53, Addr: outside4}},
		{"68b", "DNS over TCP", unix.SOCK_STREAM, &unix.SockaddrInet4{Port: 53, Addr: outside4}},
		{"68c", "DNS over HTTPS", unix.SOCK_STREAM, &unix.SockaddrInet4{Port: 443, Addr: outside4}},
		{"77a", "cloud metadata at 169.254.169.254", unix.SOCK_STREAM, &unix.SockaddrInet4{Port: 80, Addr: metadata4}},
		{"77b", "cloud metadata at fd00:ec2::254", unix.SOCK_STREAM, &unix.SockaddrInet6{Port: 80, Addr: metadata6}},
	} {
		r := Row{ID: c.id, Name: c.name, Level: walls, Want: []string{"ENETUNREACH", "EADDRNOTAVAIL"}, Why: "EADDRNOTAVAIL where an engine's network has no IPv6; the control asks for a route and sends nothing"}
		r.Try = func(*Inside) string { return dial(c.typ|unix.SOCK_NONBLOCK, c.sa) }
		r.Control = mayRefuse(func(*Outside) string { return dial(unix.SOCK_DGRAM, c.sa) })
		rows = append(rows, r)
	}
	for _, c := range []struct {
		id, name string
		look     func(*Inside) string
	}{
		{"66b", "see an interface that is up, but for lo", func(*Inside) string { return foreignLink() }},
		{"68d", "see a name server in /etc/resolv.conf", func(*Inside) string { return nameServer() }},
	} {
		r := Row{ID: c.id, Name: c.name, Level: walls, Want: []string{"none"}, Try: c.look, Control: mayRefuse(finds(c.look))}
		if c.id == "68d" {
			r.Want, r.Why = append(r.Want, "127.0.0.1"), "127.0.0.1 in a container: engines leave no file empty"
		}
		rows = append(rows, r)
	}
	for _, c := range []struct {
		id, name      string
		family, proto int
		sa            unix.Sockaddr
	}{
		{"69a", "ICMP echo over IPv4", unix.AF_INET, unix.IPPROTO_ICMP, &unix.SockaddrInet4{Addr: outside4}},
		{"69b", "ICMP echo over IPv6", unix.AF_INET6, unix.IPPROTO_ICMPV6, &unix.SockaddrInet6{Addr: outside6}},
	} {
		r := Row{ID: c.id, Name: c.name, Level: walls, Want: []string{"EACCES", "ENETUNREACH", "EADDRNOTAVAIL"},
			Why: "EACCES if net.ipv4.ping_group_range names nobody, as in a new network namespace; ENETUNREACH if an engine widened it; the control sends nothing"}
		r.Try = func(*Inside) string { return ping(c.family, c.proto, c.sa) }
		r.Control = mayRefuse(here(r.Try))
		rows = append(rows, r)
	}
	return rows
}

// familyRows: kinds of sockets that reach around the network namespace, or far
// into the kernel.
func familyRows() []Row {
	var rows []Row
	for _, c := range []struct {
		id, name           string
		family, typ, proto int
		protocol           string // in /proc/net/protocols
		want               string
	}{
		{"70a", "raw IPv4 socket", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, "", "EPERM"},
		{"70b", "raw IPv6 socket", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6, "", "EPERM"},
		{"70c", "packet socket", unix.AF_PACKET, unix.SOCK_RAW, 0, "PACKET", "EAFNOSUPPORT"},
		{"70d", "packet socket by its old name", unix.AF_INET, unix.SOCK_PACKET, 0, "PACKET", "EPERM"},
		{"71", "socket to the hypervisor (AF_VSOCK)", unix.AF_VSOCK, unix.SOCK_STREAM, 0, "AF_VSOCK", "EAFNOSUPPORT"},
		{"73a", "kernel crypto socket (AF_ALG)", unix.AF_ALG, unix.SOCK_SEQPACKET, 0, "ALG", "EAFNOSUPPORT"},
		{"73b", "TIPC socket", unix.AF_TIPC, unix.SOCK_SEQPACKET, 0, "TIPC", "EAFNOSUPPORT"},
		{"73c", "Bluetooth socket", unix.AF_BLUETOOTH, unix.SOCK_RAW, unix.BTPROTO_HCI, "HCI", "EAFNOSUPPORT"},
		{"73d", "XDP socket", unix.AF_XDP, unix.SOCK_RAW, 0, "XDP", "EAFNOSUPPORT"},
	} {
		r := Row{ID: c.id, Name: c.name, Level: sandbox.LevelRestricted, Want: slices.Compact([]string{c.want, "EAFNOSUPPORT"})}
		r.Try = func(*Inside) string { return closing(unix.Socket(c.family, c.typ|unix.SOCK_CLOEXEC, c.proto)) }
		r.Control = mayRefuse(here(r.Try))
		r.Needs = loaded(c.protocol)
		rows = append(rows, r)
	}
	change := func(*Inside) string { return addRoute() }
	changed := func(o *Outside) string {
		if got := addRoute(); got != "EINVAL" {
			return got
		}
		return "ok"
	}
	dump := func(*Inside) string { return dumpLinks() }
	return append(rows,
		Row{ID: "72a", Name: "change routes over netlink", Level: walls, Want: []string{"EPERM"}, Try: change, Control: mayRefuse(changed),
			Why: "the route cannot exist: to whom may change routes the kernel says EINVAL, which is what the control wants, and nothing changes"},
		Row{ID: "72b", Name: "list interfaces over netlink", Level: walls, Want: []string{"ok"}, Try: dump, Control: here(dump),
			Why: "must work: so Go and the C library find out which addresses they have"})
}

// pathRows: sockets of the host that have names.
func pathRows() []Row {
	abstract := func(in *Inside) string { return dial(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: in.Abstract}) }
	names := func(in *Inside) string { return listed(in.Abstract) }
	socket := func(in *Inside) string { return dial(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: in.Socket}) }
	rows := []Row{
		{ID: "74a", Name: "abstract socket of the host", Level: walls, Want: []string{"ECONNREFUSED", "EPERM"}, Try: abstract, Control: here(abstract),
			Why: "ECONNREFUSED in a network namespace, which has names of its own; EPERM where Landlock keeps them apart"},
		{ID: "74b", Name: "see abstract sockets of the host in /proc/net/unix", Level: walls, Want: []string{"none"}, Try: names, Control: finds(names)},
		{ID: "75a", Name: "path socket of the host", Level: walls, Want: []string{"ENOENT"}, Try: socket, Control: here(socket)},
	}
	for _, s := range []struct {
		id, name string
		patterns []string
	}{
		{"75b", "socket of docker or podman", []string{"/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/user/*/docker.sock", "/run/user/*/podman/podman.sock"}},
		{"75c", "socket of containerd", []string{"/run/containerd/containerd.sock", "/run/docker/containerd/containerd.sock", "/var/run/docker/containerd/containerd.sock"}},
		{"75d", "socket of an ssh agent", []string{"/tmp/ssh-*/agent.*", "/run/user/*/keyring/ssh", "/run/user/*/ssh-agent.socket"}},
		{"75e", "socket of D-Bus", []string{"/run/dbus/system_bus_socket", "/run/user/*/bus"}},
		{"75f", "private socket of systemd", []string{"/run/systemd/private", "/run/user/*/systemd/private"}},
		{"75g", "socket of an X server", []string{"/tmp/.X11-unix/X*", "@/tmp/.X11-unix/X0"}},
		{"75h", "socket of gpg-agent", []string{"/run/user/*/gnupg/S.gpg-agent", "/root/.gnupg/S.gpg-agent", "/home/*/.gnupg/S.gpg-agent"}},
	} {
		r := Row{ID: s.id, Name: s.name, Level: walls, Want: []string{"ENOENT"}, Why: "each place where such a socket usually is"}
		r.Try = func(*Inside) string { return dialAny(s.patterns) }
		r.Control = mayRefuse(here(r.Try))
		rows = append(rows, r)
	}
	return append(rows, Row{ID: "76", Name: "receive a descriptor from outside", Level: sandbox.LevelRestricted, Want: []string{"ENOTSOCK"},
		Try: func(*Inside) string { return receiveAny() }, Control: func(*Outside) string { return passDescriptor() },
		Why: "no descriptor that the command is given is a socket; the control passes one from a socket to its other end"})
}

// finds is the control of an attempt that looks for something.
func finds(look func(*Inside) string) func(*Outside) string {
	return func(o *Outside) string {
		if got := look(&Inside{Outside: *o}); got == "none" {
			return got
		}
		return "ok"
	}
}
