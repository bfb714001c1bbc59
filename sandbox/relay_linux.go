//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The setup stage makes a listening socket in the sandbox's network namespace
// for each of Spec.Connect, sends them to the supervisor and keeps nothing. The
// supervisor accepts there and dials the host's address of the same name: a
// socket stays in the namespace that it was made in, whoever holds it.

const (
	maxRelayed   = 256              // connections at once; more wait
	relayBacklog = 128              // of each listening socket
	dialTimeout  = 10 * time.Second // for the host's service to answer
	drainTimeout = 2 * time.Second  // for what dead processes have written
	acceptPause  = 10 * time.Millisecond
)

// offerListeners is the setup stage's half.
func offerListeners(list []netip.AddrPort) error {
	defer unix.Close(fdListeners)
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for _, at := range list {
		fd, err := streamSocket(at)
		if err == nil {
			fds = append(fds, fd)
			err = unix.Bind(fd, sockaddr(at))
		}
		if err == nil {
			err = unix.Listen(fd, relayBacklog)
		}
		if err != nil {
			return step("listen on "+at.String()+" inside", err)
		}
	}
	return step("send listening sockets", unix.Sendmsg(fdListeners, []byte{0}, unix.UnixRights(fds...), nil, 0))
}

func streamSocket(at netip.AddrPort) (int, error) {
	return unix.Socket(family(sockaddr(at)), unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

func sockaddr(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}

// A relay carries connections from inside to the host. A nil relay carries none.
type relay struct {
	to        []netip.AddrPort
	listeners []*os.File // inside, one for each of to
	slots     chan struct{}
	done      chan struct{}
	serving   sync.WaitGroup // accept, and add to up
	up        sync.WaitGroup // connections whose inside has not ended
	all       sync.WaitGroup

	mu     sync.Mutex
	open   map[*os.File]bool // ends of connections
	closed bool
}

func newRelay(to []netip.AddrPort) *relay {
	return &relay{to: to, slots: make(chan struct{}, maxRelayed), done: make(chan struct{}), open: map[*os.File]bool{}}
}

// takeListeners receives what offerListeners has sent.
func takeListeners(from int, to []netip.AddrPort) (*relay, error) {
	oob := make([]byte, unix.CmsgSpace(4*maxConnect))
	_, n, flags, _, err := unix.Recvmsg(from, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return nil, fmt.Errorf("receive listening sockets: %w", err)
	}
	r := newRelay(to)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return nil, fmt.Errorf("receive listening sockets: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			r.close()
			return nil, fmt.Errorf("receive listening sockets: %w", err)
		}
		for _, fd := range fds {
			r.listeners = append(r.listeners, os.NewFile(uintptr(fd), "listener"))
		}
	}
	if flags&unix.MSG_CTRUNC != 0 || len(r.listeners) != len(to) {
		r.close()
		return nil, fmt.Errorf("received %d listening sockets, want %d", len(r.listeners), len(to))
	}
	for _, l := range r.listeners {
		if err := l.SetReadDeadline(time.Time{}); err != nil { // without deadlines it could not be ended
			r.close()
			return nil, fmt.Errorf("listening socket: %w", err)
		}
	}
	return r, nil
}

// start lets connections through.
func (r *relay) start() {
	if r == nil {
		return
	}
	for i, l := range r.listeners {
		r.serving.Go(func() { r.serve(l, r.to[i]) })
	}
}

// serve accepts until the listening socket has a deadline, and then what is
// still in its queue.
func (r *relay) serve(l *os.File, to netip.AddrPort) {
	raw, err := l.SyscallConn()
	if err != nil {
		return
	}
	for {
		var fd int
		var failed error
		accept := func(s uintptr) bool {
			fd, _, failed = unix.Accept4(int(s), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return !errors.Is(failed, unix.EAGAIN)
		}
		if raw.Read(accept) != nil {
			if raw.Control(func(s uintptr) { accept(s) }) != nil || errors.Is(failed, unix.EAGAIN) {
				return
			}
		}
		if failed != nil { // the peer is gone, or descriptors are short
			select {
			case <-time.After(acceptPause):
				continue
			case <-r.done:
				return
			}
		}
		inside := os.NewFile(uintptr(fd), "inside")
		select {
		case r.slots <- struct{}{}:
		case <-r.done:
			inside.Close()
			return
		}
		if !r.add(inside) {
			return
		}
		r.up.Add(1)
		r.all.Go(func() {
			r.carry(inside, to)
			<-r.slots
		})
	}
}

// carry dials the host and copies both ways until both have ended.
func (r *relay) carry(inside *os.File, to netip.AddrPort) {
	defer r.drop(inside)
	host, err := r.dial(to)
	if err != nil {
		r.up.Done()
		reset(inside) // as near to a refusal as is left
		return
	}
	defer r.drop(host)
	abort := func() {
		reset(inside)
		reset(host)
	}
	var down sync.WaitGroup
	down.Go(func() {
		if copyHalf(inside, host) != nil {
			abort()
		}
	})
	if copyHalf(host, inside) != nil {
		abort()
	}
	r.up.Done()
	down.Wait()
}

// dial connects to the host's address. A connection that takes its time ends
// with the relay.
func (r *relay) dial(to netip.AddrPort) (*os.File, error) {
	fd, err := streamSocket(to)
	if err != nil {
		return nil, err
	}
	err = unix.Connect(fd, sockaddr(to))
	if err != nil && !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.EINTR) {
		unix.Close(fd)
		return nil, err
	}
	// Not before: a socket that was never connected polls as ready.
	f := os.NewFile(uintptr(fd), "host")
	if !r.add(f) {
		return nil, os.ErrClosed
	}
	if err := connected(f); err != nil {
		r.drop(f)
		return nil, err
	}
	return f, nil
}

// connected waits until a connection is there or has failed.
func connected(f *os.File) error {
	if err := f.SetWriteDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(s uintptr) bool {
		e, err := unix.GetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case err != nil:
			failed = err
		case e != 0:
			failed = syscall.Errno(e)
		default:
			_, err := unix.Getpeername(int(s))
			return err == nil
		}
		return true
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	return f.SetWriteDeadline(time.Time{})
}

// copyHalf copies until from ends, and passes the end on.
func copyHalf(to, from *os.File) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			control(to, func(s int) { unix.Shutdown(s, unix.SHUT_WR) })
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// reset closes a connection in the way that its peer sees as an error.
func reset(f *os.File) {
	control(f, func(s int) { unix.SetsockoptLinger(s, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) })
	f.Close()
}

// control runs what to do to a socket unless it is closed.
func control(f *os.File, do func(s int)) {
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(s uintptr) { do(int(s)) })
	}
}

// add keeps f, to be closed with the relay. It closes f if that has happened.
func (r *relay) add(f *os.File) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		f.Close()
		return false
	}
	r.open[f] = true
	return true
}

func (r *relay) drop(f *os.File) {
	r.mu.Lock()
	delete(r.open, f)
	r.mu.Unlock()
	f.Close()
}

// close ends every connection. When the processes inside are dead, what they
// have written is passed on first, as far as the host takes it in time.
func (r *relay) close() {
	if r == nil {
		return
	}
	if r.closed { // by this goroutine: no other closes
		return
	}
	for _, l := range r.listeners {
		l.SetReadDeadline(time.Now())
	}
	drained := make(chan struct{})
	go func() {
		r.serving.Wait()
		r.up.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(drainTimeout):
	}
	r.mu.Lock()
	r.closed = true
	for f := range r.open {
		f.Close()
	}
	r.mu.Unlock()
	close(r.done)
	r.serving.Wait()
	r.all.Wait()
	for _, l := range r.listeners {
		l.Close()
	}
}
