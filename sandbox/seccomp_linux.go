//go:build amd64 || arm64

package sandbox

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The filter refuses what a test suite has no use for and what has been a
// way into the kernel or around the other layers. It is a list of refusals
// rather than of permissions, so that tests of ordinary programs run
// unchanged; three rules keep such a list from being stepped around:
//
//   - the architecture comes first: a system call through another table
//     (32-bit, x32) gets ENOSYS, whatever its number means there;
//   - a number newer than this list gets ENOSYS;
//   - flags are compared, pointers never are.
//
// What is refused as not permitted gets EPERM. clone3, whose flags lie behind
// a pointer, gets ENOSYS, which makes C libraries use clone. A socket of any
// family but UNIX, INET, INET6 and NETLINK gets EAFNOSUPPORT; INET and INET6
// do too where the command must not have a network and shares the host's.
//
// What nested sandboxes begin with is refused by process 1, where it can listen
// (see nestedCalls).

// deniedCalls get EPERM on every architecture.
func deniedCalls() []uint32 {
	return append([]uint32{
		// keyrings are not namespaced
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		// large kernel surface
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		// files by handle, around every path
		unix.SYS_OPEN_BY_HANDLE_AT,
		// mounts and namespaces
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SETNS,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE_ATTR,
		// the machine
		unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	}, archDenied()...)
}

// newestCall is the last number that deniedCalls was written against.
const newestCall = unix.SYS_RSEQ_SLICE_YIELD

const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// Offsets in struct seccomp_data. Both architectures are little endian, so
// the low half of an argument comes first.
const (
	offNr   = 0
	offArch = 4
	offArg0 = 16
	offArg1 = 24
)

const ioctlLinux = 0x541C // TIOCLINUX

// rules are what differs from mode to mode.
type rules struct {
	inet   bool // internet sockets may be made
	shared bool // the caller has processes of the same uid beside the command's
}

// systemV are calls on objects that belong to a uid. Where that is shared, they
// get ENOSYS, as from a kernel without them.
var systemV = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
}

// otherProcess are calls that a process may make on any of its uid, whatever
// Landlock says, with the argument that names it: 0 is the process itself.
// Where the uid is shared, another gets EPERM, and so does the whole uid.
var otherProcess = []struct {
	nr   uint32
	pid  uint32 // offset of the argument
	user uint32 // value of the first argument that means a uid, 0 for none
}{
	{unix.SYS_SCHED_SETPARAM, offArg0, 0}, {unix.SYS_SCHED_SETSCHEDULER, offArg0, 0}, {unix.SYS_SCHED_SETAFFINITY, offArg0, 0},
	{unix.SYS_SCHED_SETATTR, offArg0, 0}, {unix.SYS_PRLIMIT64, offArg0, 0}, {unix.SYS_MIGRATE_PAGES, offArg0, 0},
	{unix.SYS_MOVE_PAGES, offArg0, 0}, {unix.SYS_SETPRIORITY, offArg1, unix.PRIO_USER}, {unix.SYS_IOPRIO_SET, offArg1, 3},
}

// filter returns the program. With listen, nested calls are referred to a
// listener instead of refused, and no second one can be made.
func filter(r rules, listen bool) []unix.SockFilter {
	errno := func(e uint32) uint32 { return unix.SECCOMP_RET_ERRNO | e }
	eperm, enosys, eafnosupport := errno(uint32(unix.EPERM)), errno(uint32(unix.ENOSYS)), errno(uint32(unix.EAFNOSUPPORT))

	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	jump := func(op uint16, k uint32, t, f uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: t, Jf: f, K: k}
	}
	ret := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}

	nested := eperm
	if listen {
		nested = unix.SECCOMP_RET_USER_NOTIF
	}

	p := []unix.SockFilter{
		load(offArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0),
		ret(enosys),
		load(offNr),
		jump(unix.BPF_JGT, newestCall, 0, 1), // x32 numbers are above it, too
		ret(enosys),
	}
	for _, nr := range deniedCalls() {
		action := eperm
		for _, c := range nestedCalls {
			if c.nr == nr {
				action = nested
			}
		}
		p = append(p, jump(unix.BPF_JEQ, nr, 0, 1), ret(action))
	}
	p = append(p, jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), ret(enosys))
	for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		p = append(p,
			jump(unix.BPF_JEQ, nr, 0, 4),
			load(offArg0),
			jump(unix.BPF_JSET, namespaceFlags, 0, 1),
			ret(nested),
			ret(unix.SECCOMP_RET_ALLOW),
		)
	}
	if listen {
		p = append(p,
			jump(unix.BPF_JEQ, unix.SYS_SECCOMP, 0, 4),
			load(offArg1),
			jump(unix.BPF_JSET, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 1),
			ret(errno(uint32(unix.EBUSY))),
			ret(unix.SECCOMP_RET_ALLOW),
		)
	}
	families := []uint32{unix.AF_UNIX, unix.AF_NETLINK}
	if r.shared {
		for _, nr := range systemV {
			p = append(p, jump(unix.BPF_JEQ, nr, 0, 1), ret(enosys))
		}
		for _, c := range otherProcess {
			check := []unix.SockFilter{load(c.pid), jump(unix.BPF_JEQ, 0, 1, 0), ret(eperm), ret(unix.SECCOMP_RET_ALLOW)}
			if c.user != 0 {
				check = append([]unix.SockFilter{load(offArg0), jump(unix.BPF_JEQ, c.user, 2, 0)}, check...)
			}
			p = append(append(p, jump(unix.BPF_JEQ, c.nr, 0, uint8(len(check)))), check...)
		}
	}
	if r.inet {
		families = append(families, unix.AF_INET, unix.AF_INET6)
	}
	for _, nr := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		n := uint8(len(families))
		p = append(p, jump(unix.BPF_JEQ, nr, 0, n+3), load(offArg0))
		for i, family := range families {
			p = append(p, jump(unix.BPF_JEQ, family, n-uint8(i), 0))
		}
		p = append(p, ret(eafnosupport), ret(unix.SECCOMP_RET_ALLOW))
	}
	// The kernel takes an ioctl number from the low 32 bits of the argument.
	p = append(p,
		jump(unix.BPF_JEQ, unix.SYS_IOCTL, 0, 4),
		load(offArg1),
		jump(unix.BPF_JEQ, unix.TIOCSTI, 1, 0),
		jump(unix.BPF_JEQ, ioctlLinux, 0, 1),
		ret(eperm),
	)
	return append(p, ret(unix.SECCOMP_RET_ALLOW))
}

// installFilter puts the filter on the calling thread and its children. It
// returns the listener that must answer for it, -1 where the kernel or an outer
// filter allows none: the filter then refuses by itself.
func installFilter(r rules) (listener int, err error) {
	if canListen() {
		const listen = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
		p := filter(r, true)
		// From Linux 5.19 on, a caller that was heard waits for its answer
		// whatever signals come, but for one that kills.
		for _, flags := range []uintptr{listen | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, listen} {
			if fd, errno := setFilter(p, flags); errno == 0 {
				return int(fd), nil // close-on-exec
			}
		}
	}
	_, errno := setFilter(filter(r, false), 0)
	if errno != 0 {
		return -1, step("install system call filter", errno)
	}
	return -1, nil
}

func setFilter(p []unix.SockFilter, flags uintptr) (uintptr, unix.Errno) {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	return r, errno
}
