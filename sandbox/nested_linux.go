//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Nested sandboxes (bwrap, unshare, the browsers' own, container engines) fail
// in here, and seldom say why. So the filter does not refuse the calls that
// they begin with by itself: it asks process 1, which counts and refuses them.
//
// The kernel lets one process of a chain of filters listen, and where two
// filters ask, the newer one's listener decides. The filter therefore refuses
// listeners to the command (EBUSY, as the kernel does while ours exists): one of
// its own could let the calls pass if process 1 were gone. Without a listener,
// what asks gets ENOSYS.

// nestedCalls are those that process 1 is asked about. Clone and unshare are
// such calls with namespace flags only.
var nestedCalls = [...]struct {
	name string
	nr   uint32
}{
	{"clone", unix.SYS_CLONE}, {"unshare", unix.SYS_UNSHARE}, {"setns", unix.SYS_SETNS},
	{"mount", unix.SYS_MOUNT}, {"pivot_root", unix.SYS_PIVOT_ROOT}, {"chroot", unix.SYS_CHROOT},
}

// A denier refuses nested calls for the filter, and counts them.
type denier struct {
	counts [len(nestedCalls)]atomic.Int64
	before [len(nestedCalls)]int64 // made by the probes
}

// notification is struct seccomp_notif.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// answer is struct seccomp_notif_resp. Its flags stay 0: no call is let through.
type answer struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// serve answers until the listener fails, which it does not while the thread
// that installed the filter lives.
func (d *denier) serve(fd int) {
	// A closed listener turns what still waits, and what will ask, into ENOSYS.
	defer unix.Close(fd)
	for {
		var n notification // the kernel wants zeroes
		switch err := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); {
		case errors.Is(err, unix.ENOENT): // the caller was killed
			continue
		case err != nil:
			return
		}
		count := d.count(uint32(n.nr))
		count.Add(1) // before the caller goes on: a thread finds its own calls counted
		a := answer{id: n.id, errno: -int32(unix.EPERM)}
		if ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) != nil {
			count.Add(-1) // killed, or interrupted and about to ask again
		}
	}
}

func (d *denier) count(nr uint32) *atomic.Int64 {
	for i := range nestedCalls {
		if nestedCalls[i].nr == nr {
			return &d.counts[i]
		}
	}
	return new(atomic.Int64)
}

// begin leaves what was counted so far out of the report. It reports whether
// the probes' own calls arrived: where they did not, another filter answers
// first, and nothing is known of the command's.
func (d *denier) begin() bool {
	seen := map[string]bool{}
	for i := range nestedCalls {
		d.before[i] = d.counts[i].Load()
		seen[nestedCalls[i].name] = d.before[i] > 0
	}
	return seen["unshare"] && seen["mount"]
}

// report returns what was refused since begin.
func (d *denier) report() []Denied {
	var list []Denied
	for i, c := range nestedCalls {
		if n := d.counts[i].Load() - d.before[i]; n > 0 {
			list = append(list, Denied{Name: c.name, Count: n})
		}
	}
	return list
}

// ioctl repeats what a signal interrupts.
func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		runtime.KeepAlive(arg)
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

// canListen reports whether the kernel's notifications are those known here.
func canListen() bool {
	var sizes struct{ notif, resp, data uint16 }
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	return errno == 0 && uintptr(sizes.notif) == unsafe.Sizeof(notification{}) && uintptr(sizes.resp) == unsafe.Sizeof(answer{})
}
