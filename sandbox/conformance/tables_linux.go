//go:build amd64 || arm64

package conformance

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// Tables of the kernel: what is left in them must not be found outside, and
// who fills them must not fill the host's.

// A named is a kind of kernel object with a key that others can find it by.
type named struct {
	id, name string
	leave    func(key int) error
	find     func(key int) error
	remove   func(key int) error
}

func tableRows(row makeRow) []Row {
	var rows []Row
	for _, n := range []named{
		{"88a", "message queue left behind", sysvMake(unix.SYS_MSGGET), sysvFind(unix.SYS_MSGGET), sysvRemove(unix.SYS_MSGGET, unix.SYS_MSGCTL)},
		{"88b", "semaphores left behind", sysvMake(unix.SYS_SEMGET), sysvFind(unix.SYS_SEMGET), sysvRemove(unix.SYS_SEMGET, unix.SYS_SEMCTL)},
		{"88c", "shared memory left behind", sysvMake(unix.SYS_SHMGET), sysvFind(unix.SYS_SHMGET), sysvRemove(unix.SYS_SHMGET, unix.SYS_SHMCTL)},
		{"88d", "POSIX message queue left behind", posixMake, posixFind, posixRemove},
	} {
		r := row(n.id, n.name, "ok", sandbox.Limits{})
		r.Level = walls // below, the ipc namespace is the host's
		r.Try = func(in *Inside) string { return ended(n.leave(keyOf(&in.Outside))) }
		r.Control = func(o *Outside) string {
			key := keyOf(o)
			if err := n.leave(key); err != nil {
				return ended(err)
			}
			return ended(errors.Join(n.find(key), n.remove(key)))
		}
		r.After = func(o *Outside) string {
			key := keyOf(o)
			switch err := n.find(key); {
			case errors.Is(err, unix.ENOENT):
				return "ok"
			case err == nil:
				n.remove(key)
				return "is found outside"
			default:
				return ended(err)
			}
		}
		r.Why = "it may be made, and must not be there outside, where the control finds its own"
		if n.id == "88d" {
			r.Want = append(r.Want, "EACCES")
			r.Why += "; EACCES where Landlock is in force: it knows no path to the file system of these queues"
		}
		rows = append(rows, r)
	}
	for _, x := range []struct {
		id, name string
		want     []string
		more     func() (int, error)
		once     func() error // makes one and takes it away
		level    sandbox.Level
		why      string
	}{
		{"88e", "make message queues without end", []string{"ENOSPC"}, private(unix.SYS_MSGGET), removed(unix.SYS_MSGGET, unix.SYS_MSGCTL), walls, "the ipc namespace has its own count"},
		{"88f", "make semaphores without end", []string{"ENOSPC"}, private(unix.SYS_SEMGET), removed(unix.SYS_SEMGET, unix.SYS_SEMCTL), walls, "the ipc namespace has its own count"},
		{"88g", "make inotify instances without end", []string{"EMFILE"}, inotify, closed(inotify), sandbox.LevelRestricted, "counted for the uid: a sandbox of root has one of its own, a user's sandbox shares the user's while it runs"},
		{"88h", "make epoll instances without end", []string{"EMFILE"}, epoll, closed(epoll), sandbox.LevelRestricted, "counted as descriptors"},
		{"88i", "open ptys without end", []string{"ENOSPC", "EMFILE"}, terminals, closed(terminals), walls, "ENOSPC where ptys run out, of which the kernel reserves some for the host; EMFILE where descriptors do"},
	} {
		r := row(x.id, x.name, "", sandbox.Limits{})
		r.Level, r.Want, r.Why = x.level, x.want, x.why
		r.Try = func(*Inside) string { return exhaust(x.more) }
		r.Control = func(*Outside) string { return ended(x.once()) }
		rows = append(rows, r)
	}
	return rows
}

// exhaust makes more until there is no more.
func exhaust(more func() (int, error)) string {
	for range 1 << 21 {
		if _, err := more(); err != nil {
			return ended(err)
		}
	}
	return "ok"
}

func inotify() (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC) }
func epoll() (int, error)   { return unix.EpollCreate1(unix.EPOLL_CLOEXEC) }

func terminals() (int, error) {
	return unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}

func closed(open func() (int, error)) func() error {
	return func() error {
		fd, err := open()
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
}

func private(get uintptr) func() (int, error) {
	return func() (int, error) { return sysvID(get, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600) }
}

// removed leaves nothing: what has no key is found by nobody, and stays.
func removed(get, ctl uintptr) func() error {
	return func() error {
		id, err := private(get)()
		if err != nil {
			return err
		}
		return sysvRemoveID(ctl, id)
	}
}

func keyOf(o *Outside) int { return 'g'<<24 | o.TCP }

func sysv(get uintptr, key, flags int) error {
	_, err := sysvID(get, key, flags)
	return err
}

// sysvID calls msgget, semget or shmget. The first takes no size and ignores
// its third argument, the others want one of each.
func sysvID(get uintptr, key, flags int) (int, error) {
	args := [3]uintptr{uintptr(key), 1, uintptr(flags)}
	if get == unix.SYS_MSGGET {
		args = [3]uintptr{uintptr(key), uintptr(flags)}
	}
	id, _, errno := unix.Syscall(get, args[0], args[1], args[2])
	if errno != 0 {
		return 0, errno
	}
	return int(id), nil
}

func sysvMake(get uintptr) func(int) error {
	return func(key int) error { return sysv(get, key, unix.IPC_CREAT|unix.IPC_EXCL|0o666) }
}

func sysvFind(get uintptr) func(int) error {
	return func(key int) error { return sysv(get, key, 0) }
}

func sysvRemove(get, ctl uintptr) func(int) error {
	return func(key int) error {
		id, err := sysvID(get, key, 0)
		if err != nil {
			return err
		}
		return sysvRemoveID(ctl, id)
	}
}

func sysvRemoveID(ctl uintptr, id int) error {
	args := [3]uintptr{uintptr(id), unix.IPC_RMID}
	if ctl == unix.SYS_SEMCTL {
		args = [3]uintptr{uintptr(id), 0, unix.IPC_RMID}
	}
	if _, _, errno := unix.Syscall(ctl, args[0], args[1], args[2]); errno != 0 {
		return errno
	}
	return nil
}

func posixName(key int) *byte {
	b := []byte("truegreen-00000000\x00")
	for i := range 8 {
		b[10+i] = "0123456789abcdef"[key>>(28-4*i)&15]
	}
	return &b[0]
}

func posixOpen(key, flags int) error {
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(posixName(key))), uintptr(flags|unix.O_RDWR|unix.O_CLOEXEC), 0o666, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func posixMake(key int) error { return posixOpen(key, unix.O_CREAT|unix.O_EXCL) }
func posixFind(key int) error { return posixOpen(key, 0) }

func posixRemove(key int) error {
	if _, _, errno := unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(posixName(key))), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
