//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A service is one of the host: it reads to the end and answers with length
// and digest of what it got.
type service struct {
	net.Listener
	at netip.AddrPort

	mu  sync.Mutex
	got []string
}

func newService(t *testing.T, address string) *service {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &service{Listener: l, at: l.Addr().(*net.TCPAddr).AddrPort()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.answer(c)
		}
	}()
	return s
}

func (s *service) answer(c net.Conn) {
	defer c.Close()
	b, err := io.ReadAll(c)
	said := digestLine(b)
	if err != nil {
		said = errnoText(err)
	}
	s.mu.Lock()
	s.got = append(s.got, said)
	s.mu.Unlock()
	io.WriteString(c, said)
}

func (s *service) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func digestLine(b []byte) string { return fmt.Sprintf("%d %x", len(b), sha256.Sum256(b)) }

// dialMain sends a number of bytes to each address and prints what comes back.
func dialMain(args []string) {
	n, _ := strconv.Atoi(args[0])
	for _, at := range args[1:] {
		fmt.Println(at, dialOne(at, bytes.Repeat([]byte("0123456789abcdef"), n/16)))
	}
}

func dialOne(at string, payload []byte) string {
	c, err := net.DialTimeout("tcp", at, time.Minute)
	if err != nil {
		return errnoText(err)
	}
	defer c.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(payload)
		sent <- errors.Join(err, c.(*net.TCPConn).CloseWrite())
	}()
	b, err := io.ReadAll(c)
	if err != nil {
		return errnoText(err)
	}
	if err := <-sent; err != nil {
		return errnoText(err)
	}
	return string(b)
}

// dialMany opens connections, all before it reads from the first.
func dialMany(at, count string) {
	n, _ := strconv.Atoi(count)
	var open []net.Conn
	for range n {
		c, err := net.DialTimeout("tcp", at, time.Minute)
		if err == nil {
			_, err = c.Write([]byte{1})
		}
		if err != nil {
			fmt.Println(errnoText(err))
			return
		}
		open = append(open, c)
	}
	for _, c := range open {
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			fmt.Println(errnoText(err))
			return
		}
		c.Close()
	}
	fmt.Println("ok")
}

// TestConnect: the named ports are reached, and no others; the host's service
// sees who comes; nothing of it changes what else was measured.
func TestConnect(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		named, other := newService(t, "127.0.0.1:0"), newService(t, "127.0.0.1:0")
		want := []netip.AddrPort{named.at}
		six := named.at // again, where there is no IPv6
		if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
			l.Close()
			s := newService(t, "[::1]:0")
			six, want = s.at, append(want, s.at)
		}
		payload := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
		r, out := mustRun(t, mode, Spec{
			Argv:   []string{attackPath, "attack:dial", strconv.Itoa(len(payload)), named.at.String(), six.String(), other.at.String()},
			Mounts: []Mount{attackMount(t)}, Connect: want, MinLevel: LevelNamespaces,
		})
		answer := digestLine(payload)
		text := fmt.Sprintf("%s %s\n%s %s\n%s ECONNREFUSED\n", named.at, answer, six, answer, other.at)
		if out.stdout.String() != text {
			t.Errorf("inside:\n%swant\n%s%s", out.stdout.String(), text, out.stderr.String())
		}
		if got := named.heard(); len(got) == 0 || got[0] != answer {
			t.Errorf("the service got %q, want %q", got, answer)
		}
		if got := other.heard(); len(got) > 0 {
			t.Errorf("another service got %q", got)
		}
		if !slices.Equal(r.Isolation.Connect, want) || r.Isolation.Network != NetworkNone || r.Isolation.Level != LevelNamespaces {
			t.Errorf("relayed %v, network %s, level %v", r.Isolation.Connect, r.Isolation.Network, r.Isolation.Level)
		}
		for _, p := range r.Isolation.Probes {
			if !p.OK {
				t.Errorf("probe %s got %s", p.Name, p.Got)
			}
		}
	})
}

// TestConnectLeavesNothing: inside there is no process and no descriptor of it,
// and without Connect no port.
func TestConnectLeavesNothing(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		s := newService(t, "127.0.0.1:0")
		look := Spec{Argv: sh("set -- /proc/[0-9]*; echo $# processes; ls /proc/self/fd")}
		_, without := mustRun(t, mode, look)
		look.Connect = []netip.AddrPort{s.at, netip.MustParseAddrPort("127.0.0.1:1")} // one that takes a capability
		_, with := mustRun(t, mode, look)
		const want = "2 processes\n0\n1\n2\n3\n" // 3 is the directory that ls reads
		if with.stdout.String() != want || without.stdout.String() != want {
			t.Errorf("processes and descriptors are %q, without a relay %q", with.stdout.String(), without.stdout.String())
		}
		_, out := mustRun(t, mode, Spec{Argv: []string{attackPath, "attack:dial", "0", s.at.String()}, Mounts: []Mount{attackMount(t)}})
		if want := s.at.String() + " ECONNREFUSED\n"; out.stdout.String() != want {
			t.Errorf("without Connect: %q, want %q", out.stdout.String(), want)
		}
	})
}

// TestConnectNobody: where nobody listens on the host, the connection is reset.
func TestConnectNobody(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		s := newService(t, "127.0.0.1:0")
		s.Close()
		_, out := mustRun(t, mode, Spec{
			Argv: []string{attackPath, "attack:dial", "0", s.at.String()}, Mounts: []Mount{attackMount(t)}, Connect: []netip.AddrPort{s.at},
		})
		got := strings.TrimSpace(strings.TrimPrefix(out.stdout.String(), s.at.String()))
		if !slices.Contains([]string{"ECONNRESET", "EPIPE", "ENOTCONN"}, got) {
			t.Errorf("got %q, want a reset", got)
		}
	})
}

// TestConnectEnd: what the command wrote before it ended arrives, and
// connections that are left end with it.
func TestConnectEnd(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		at := l.Addr().(*net.TCPAddr).AddrPort()
		got := make(chan string, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				got <- err.Error()
				return
			}
			defer c.Close()
			b, _ := io.ReadAll(c) // the answer never comes
			got <- digestLine(b)
		}()
		if _, err := os.Stat("/bin/bash"); err != nil {
			t.Skip("there is no bash, which can connect")
		}
		r, out := mustRun(t, mode, Spec{
			Argv:    []string{"bash", "-c", fmt.Sprintf("exec 5<>/dev/tcp/127.0.0.1/%d; echo last words >&5; (sleep 60) & kill -9 $$", at.Port())},
			Connect: []netip.AddrPort{at},
		})
		if r.State != StateSignaled {
			t.Errorf("state %s %d: %s", r.State, r.Exit, out.stderr.String())
		}
		select {
		case s := <-got:
			if s != digestLine([]byte("last words\n")) {
				t.Errorf("the service got %s", s)
			}
		case <-time.After(time.Minute):
			t.Error("the connection outlives the command")
		}
	})
}

// TestRelayDrain: a peer that is gone has left bytes in the buffers between, and
// they arrive.
func TestRelayDrain(t *testing.T) {
	t.Parallel()
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	r, at := relayTo(t, host.Addr().(*net.TCPAddr).AddrPort())
	r.start()

	// Write until everything on the way is full, since nobody reads.
	client, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	wrote, chunk := 0, make([]byte, 64<<10)
	for {
		client.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := client.Write(chunk)
		if wrote += n; err != nil {
			break
		}
	}
	client.Close()
	service, err := host.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	closed := make(chan struct{})
	go func() {
		r.close()
		close(closed)
	}()
	r.serving.Wait() // the relay is closing
	if n, err := io.Copy(io.Discard, service); int(n) != wrote || err != nil {
		t.Errorf("%d of %d bytes arrived, %v", n, wrote, err)
	}
	<-closed
}

// TestRelayQueue: a connection that nobody has accepted yet when the relay
// closes is carried, too.
func TestRelayQueue(t *testing.T) {
	t.Parallel()
	host := newService(t, "127.0.0.1:0")
	r, at := relayTo(t, host.at)
	client, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(client, "last words")
	client.Close()
	for _, l := range r.listeners { // before the relay looks at it
		l.SetReadDeadline(time.Now())
	}
	r.start()
	r.close()
	want := digestLine([]byte("last words"))
	if !eventually(func() bool { return slices.Equal(host.heard(), []string{want}) }) {
		t.Errorf("the service got %q, want %q", host.heard(), want)
	}
	r.close() // nothing happens
}

// relayTo returns a relay to an address that has not started, and where it
// listens.
func relayTo(t *testing.T, to netip.AddrPort) (*relay, string) {
	t.Helper()
	inside := netip.MustParseAddrPort("127.0.0.1:0")
	fd, err := streamSocket(inside)
	if err == nil {
		err = errors.Join(unix.Bind(fd, sockaddr(inside)), unix.Listen(fd, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	at, err := port(fd)
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay([]netip.AddrPort{to})
	r.listeners = []*os.File{os.NewFile(uintptr(fd), "listener")}
	return r, fmt.Sprintf("127.0.0.1:%d", at)
}

// TestConnectMany: no more connections at once than are relayed reach the host,
// and the others wait for their turn.
func TestConnectMany(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var mu sync.Mutex
		active, most, enough := 0, 0, make(chan struct{})
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			if active += n; active > most {
				if most = active; most == maxRelayed {
					close(enough)
				}
			}
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				count(1)
				go func() {
					defer c.Close()
					<-enough
					io.Copy(c, c)
					count(-1)
				}()
			}
		}()
		_, out := mustRun(t, mode, Spec{
			Argv:   []string{attackPath, "attack:dial-many", l.Addr().String(), strconv.Itoa(maxRelayed + 40)},
			Mounts: []Mount{attackMount(t)}, Connect: []netip.AddrPort{l.Addr().(*net.TCPAddr).AddrPort()},
			Limits: Limits{Wall: time.Minute},
		})
		mu.Lock()
		defer mu.Unlock()
		if out.stdout.String() != "ok\n" || most != maxRelayed {
			t.Errorf("inside: %q; %d at once, want %d", out.stdout.String(), most, maxRelayed)
		}
	})
}

// TestConnectRefused: a mode that cannot relay says so, and the next is tried.
func TestConnectRefused(t *testing.T) {
	t.Parallel()
	at := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:5432")}
	for _, mode := range []Mode{ModeContainer, ModeRestricted, ModeNone} {
		_, err := Run(t.Context(), Spec{Argv: []string{"true"}, Modes: []Mode{mode}, Connect: at})
		var no *RefusedError
		if !errors.As(err, &no) || len(no.Attempts) != 1 || no.Attempts[0].Mode != mode || !strings.HasPrefix(no.Attempts[0].Why, stepRelay+": ") {
			t.Errorf("%s: %v", mode, err)
		}
	}
	strong := strongModes(t)
	r, err := Run(t.Context(), Spec{Argv: []string{"true"}, Env: testEnv(), Modes: append([]Mode{ModeRestricted}, strong...), Connect: at})
	if err != nil || r.Isolation.Mode != strong[0] || len(r.Isolation.Fallbacks) != 1 || !slices.Equal(r.Isolation.Connect, at) {
		t.Errorf("%v, isolation %+v", err, r.Isolation)
	}
}

func TestConnectSpec(t *testing.T) {
	t.Parallel()
	many := func(n int) []string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("127.0.0.1:%d", 1+i))
		}
		return list
	}
	for _, test := range []struct {
		list    []string
		network Network
		want    string // "": fine
	}{
		{many(maxConnect), NetworkNone, ""},
		{[]string{"127.0.0.1:1", "127.0.0.2:1", "[::1]:1", "127.0.0.1:65535"}, "", ""},
		{many(maxConnect + 1), NetworkNone, "more than 16"},
		{many(1), NetworkHost, `network "host"`},
		{[]string{"127.0.0.1:0"}, "", "not a port of a loopback"},
		{[]string{"192.0.2.1:80"}, "", "not a port of a loopback"},
		{[]string{"0.0.0.0:80"}, "", "not a port of a loopback"},
		{[]string{"[::]:80"}, "", "not a port of a loopback"},
		{[]string{"[::ffff:127.0.0.1]:80"}, "", "not a port of a loopback"},
		{[]string{"[::1%lo]:80"}, "", "not a port of a loopback"},
		{[]string{"127.0.0.1:80", "[::1]:80", "127.0.0.1:80"}, "", "there twice"},
	} {
		s := Spec{Argv: []string{"true"}, Network: test.network}
		for _, at := range test.list {
			s.Connect = append(s.Connect, netip.MustParseAddrPort(at))
		}
		_, err := s.withDefaults()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v with network %q: %v, want %q", test.list, test.network, err, test.want)
		}
	}
	if _, err := (Spec{Argv: []string{"true"}, Connect: make([]netip.AddrPort, 1)}).withDefaults(); err == nil {
		t.Error("the zero address is accepted")
	}
}

// TestCanaryBesideRelay: a canary never has a port that is relayed, which would
// be in reach rightly.
func TestCanaryBesideRelay(t *testing.T) {
	t.Parallel()
	var relayed []netip.AddrPort // half of the ports, even and odd ones
	for port := 1; port < 1<<16; port++ {
		if port%4 < 2 {
			relayed = append(relayed, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)))
		}
	}
	for range 8 {
		c, err := plantCanary(ModeRootDrop, relayed...)
		if err != nil {
			t.Fatal(err)
		}
		if c.plan.TCP%4 < 2 {
			t.Errorf("port %d is relayed", c.plan.TCP)
		}
		c.remove()
	}
}

// TestTakeListeners: what does not arrive whole is refused.
func TestTakeListeners(t *testing.T) {
	t.Parallel()
	want := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")}
	for _, send := range []int{-1, 0, 1, 3} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pair[0])
		defer unix.Close(pair[1])
		var rights []byte
		if send > 0 {
			rights = unix.UnixRights(slices.Repeat([]int{pair[1]}, send)...)
		}
		if send >= 0 {
			if err := unix.Sendmsg(pair[1], []byte{0}, rights, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := takeListeners(pair[0], want); err == nil {
			t.Errorf("%d sockets of 2: no error", send)
		}
	}
}

// remoteConnect relays through a remote supervisor.
func remoteConnect(t *testing.T) {
	s := newService(t, "127.0.0.1:0")
	r, out := mustRun(t, ModeRootDrop, Spec{
		Argv: []string{attackPath, "attack:dial", "160000", s.at.String()}, Mounts: []Mount{attackMount(t)}, Connect: []netip.AddrPort{s.at},
	})
	answer := digestLine(bytes.Repeat([]byte("0123456789abcdef"), 10000))
	if out.stdout.String() != s.at.String()+" "+answer+"\n" || !slices.Contains(s.heard(), answer) {
		t.Errorf("relay through %s: %q, the service got %q", r.Isolation.Via, out.stdout.String(), s.heard())
	}
	if !slices.Equal(r.Isolation.Connect, []netip.AddrPort{s.at}) || r.Isolation.Level != LevelNamespaces {
		t.Errorf("relayed %v, level %v", r.Isolation.Connect, r.Isolation.Level)
	}
}
