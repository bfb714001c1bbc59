//go:build amd64 || arm64

package conformance

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// kernelRows are about system calls that a test suite does not need: nearly all
// work for everyone outside.
func kernelRows() []Row {
	namespace := func(flags uintptr) func(*Inside) string {
		return func(*Inside) string { return ended(raw(unix.SYS_UNSHARE, flags)) }
	}
	type plainRow struct {
		id, name string
		try      func(*Inside) string
	}
	rows := []Row{
		{ID: "45", Name: "new user namespace (clone)", Try: cloneUser, Control: mayRefuse(here(cloneUser))},
		{ID: "45b", Name: "new user namespace (clone3)", Want: []string{"ENOSYS"}, Try: clone3User, Control: mayRefuse(here(clone3User))},
		{ID: "46", Name: "new mount namespace (unshare)", Try: namespace(unix.CLONE_NEWNS), Control: mayRefuse(asRoot("46"))},
		{ID: "46b", Name: "new network namespace (unshare)", Try: namespace(unix.CLONE_NEWNET), Control: mayRefuse(asRoot("46b"))},
		{ID: "46c", Name: "new pid namespace (unshare)", Try: namespace(unix.CLONE_NEWPID), Control: mayRefuse(asRoot("46c"))},
		{ID: "46d", Name: "new ipc namespace (unshare)", Try: namespace(unix.CLONE_NEWIPC), Control: mayRefuse(asRoot("46d"))},
		{ID: "46e", Name: "new uts namespace (unshare)", Try: namespace(unix.CLONE_NEWUTS), Control: mayRefuse(asRoot("46e"))},
		{ID: "46f", Name: "new cgroup namespace (unshare)", Try: namespace(unix.CLONE_NEWCGROUP), Control: mayRefuse(asRoot("46f"))},
		{ID: "46g", Name: "new time namespace (unshare)", Try: namespace(unix.CLONE_NEWTIME), Control: mayRefuse(asRoot("46g"))},
		{ID: "46h", Name: "new mount namespace (clone)", Try: cloneMount, Control: mayRefuse(asRoot("46h"))},
		{ID: "47", Name: "open /proc/PPID/ns/mnt", Want: []string{"EACCES"},
			Try: onParent(openNS), Control: onVictim(openNS)},
		{ID: "47b", Name: "join a namespace (setns)", Try: setNS, Control: mayRefuse(asRoot("47b"))},
		{ID: "50", Name: "bpf", Try: bpfMap, Control: mayRefuse(here(bpfMap))},
		{ID: "54", Name: "open a file by handle", Try: openHandle, Control: mayRefuse(here(openHandle))},
		{ID: "59", Name: "type into a terminal (TIOCSTI)", Try: terminal(unix.TIOCSTI), Control: mayRefuse(plain("59"))},
		{ID: "59b", Name: "type into a terminal (TIOCSTI with high bits set)", Try: terminal(unix.TIOCSTI | 1<<32), Control: mayRefuse(plain("59b"))},
		{ID: "59c", Name: "paste into a console (TIOCLINUX)", Try: terminal(unix.TIOCLINUX), Why: "a virtual console is nothing that a host has to have"},
		{ID: "61", Name: "loosen the filter by a nested one", Try: nestedAllow, Control: mayRefuse(here(nestedAllow))},
		{ID: "61b", Name: "loosen the filter by a nested one that asks a supervisor", Want: []string{"EPERM", "seccomp: EBUSY"}, Why: "EBUSY where process 1 counts such calls: there can be one supervisor",
			Try: nestedNotify, Control: mayRefuse(here(nestedNotify))},
	}
	for _, r := range []plainRow{
		{"48", "add_key", addKey},
		{"49", "keyctl", keyctl},
		{"49b", "request_key", requestKey},
		{"51", "perf_event_open", perfEvent},
		{"52", "io_uring_setup", ioURing},
		{"53", "userfaultfd", userfault},
		{"55", "fanotify_init", fanotify},
	} {
		rows = append(rows, Row{ID: r.id, Name: r.name, Try: r.try, Control: mayRefuse(here(r.try))})
	}
	for i := range rows {
		r := &rows[i]
		r.Group, r.Level = "kernel", sandbox.LevelRestricted
		if r.Want == nil {
			r.Want = []string{"EPERM"}
		}
	}
	return rows
}

func cloneUser(*Inside) string {
	return ended(raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0))
}

func cloneMount(*Inside) string {
	return ended(raw(unix.SYS_CLONE, unix.CLONE_NEWNS|uintptr(unix.SIGCHLD), 0))
}

func clone3User(*Inside) string {
	args := struct{ flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64 }{
		flags: unix.CLONE_NEWUSER, exitSignal: uint64(unix.SIGCHLD),
	}
	return ended(raw(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args)))
}

func openNS(dir string, _ int) string { return open(dir+"/ns/mnt", unix.O_RDONLY) }

// setNS joins the namespace that it is in.
func setNS(*Inside) string {
	fd, err := unix.Open("/proc/self/ns/uts", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "open: " + ended(err)
	}
	defer unix.Close(fd)
	return ended(unix.Setns(fd, unix.CLONE_NEWUTS))
}

func addKey(in *Inside) string {
	_, err := unix.AddKey("user", in.Secret, []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	return ended(err)
}

func keyctl(*Inside) string {
	_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_PROCESS_KEYRING, true)
	return ended(err)
}

// requestKey asks for a key that, where keys can be had, it has.
func requestKey(in *Inside) string {
	unix.AddKey("user", in.Secret, []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	_, err := unix.RequestKey("user", in.Secret, "", unix.KEY_SPEC_PROCESS_KEYRING)
	return ended(err)
}

// bpfMap makes an array of one element.
func bpfMap(*Inside) string {
	attr := [16]uint32{unix.BPF_MAP_TYPE_ARRAY, 4, 4, 1}
	return closing(rawFD(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr)))
}

// perfEvent counts page faults of its own.
func perfEvent(*Inside) string {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_PAGE_FAULTS, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	attr.Size = uint32(unsafe.Sizeof(attr))
	return closing(unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC))
}

func ioURing(*Inside) string {
	var params [120]byte
	return closing(rawFD(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params))))
}

func userfault(*Inside) string {
	const userModeOnly = 1
	return closing(rawFD(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly))
}

// fanotify asks for the group that anybody may have.
func fanotify(*Inside) string {
	return closing(unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_FID|unix.FAN_CLOEXEC, unix.O_RDONLY))
}

func openHandle(*Inside) string {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, os.TempDir(), 0)
	if err != nil {
		return ended(err) // an engine's filter refuses even that
	}
	mount, err := unix.Open(os.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "open: " + ended(err)
	}
	defer unix.Close(mount)
	return closing(unix.OpenByHandleAt(mount, h, unix.O_PATH|unix.O_CLOEXEC))
}

// terminal makes a request of a new terminal, which becomes the controlling one
// of a process that leads a session and has none. Both ends stay open for the
// life of the process, so that none is hung up.
func terminal(request uintptr) func(*Inside) string {
	return func(*Inside) string {
		master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "ptmx: " + ended(err)
		}
		if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
			return "unlock: " + ended(err)
		}
		slave, err := rawFD(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_CLOEXEC)
		if err != nil {
			return "slave: " + ended(err)
		}
		raw(unix.SYS_IOCTL, uintptr(slave), unix.TIOCSCTTY, 0)
		b := [8]byte{'x'}
		return ended(raw(unix.SYS_IOCTL, uintptr(slave), request, uintptr(unsafe.Pointer(&b))))
	}
}

// nested installs a filter on this thread that has an action for keyctl and
// allows the rest, and returns its listener if it is to have one.
func nested(action uint32, flags uintptr) (int, error) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_KEYCTL, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: action},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	fd, err := rawFD(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	return fd, err
}

func nestedAllow(in *Inside) string {
	if _, err := nested(unix.SECCOMP_RET_ALLOW, 0); err != nil {
		return "seccomp: " + ended(err)
	}
	return keyctl(in)
}

// nestedNotify has another thread say that the call may go on.
func nestedNotify(in *Inside) string {
	fd, err := nested(unix.SECCOMP_RET_USER_NOTIF, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	if err != nil {
		return "seccomp: " + ended(err)
	}
	go func() {
		var request [80]byte // seccomp_notif
		if raw(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&request))) != nil {
			return
		}
		response := struct {
			id    uint64
			val   int64
			err   int32
			flags uint32
		}{id: *(*uint64)(unsafe.Pointer(&request)), flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		raw(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&response)))
	}()
	return keyctl(in)
}
