//go:build amd64 || arm64

package sandbox

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setIDs changes all user and group ids of the calling thread.
func setIDs(uid, gid int) error {
	if err := rawSetres(unix.SYS_SETRESGID, gid); err != nil {
		return step("setresgid", err)
	}
	return step("setresuid", rawSetres(unix.SYS_SETRESUID, uid))
}

// rawSetres avoids the standard library's version, which under cgo changes
// every thread through the C library.
func rawSetres(trap uintptr, id int) error {
	if _, _, errno := unix.RawSyscall(trap, uintptr(id), uintptr(id), uintptr(id)); errno != 0 {
		return errno
	}
	return nil
}

// drop gives up every privilege of the calling thread, the bounding set
// first since that needs a capability itself. Capabilities belong to
// threads: what it leaves behind on others goes with the execve that
// follows.
func drop(c stageConfig) error {
	if !c.lacks(layerCaps) {
		if err := dropBounding(c); err != nil {
			return err
		}
	}
	if !c.lacks(layerUID) {
		if c.Mode == ModeRootDrop || c.Mode == ModeRestricted && !c.Same {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
				return step("setgroups", errno)
			}
		}
		if err := setIDs(c.UID, c.GID); err != nil {
			return err
		}
	}
	if !c.lacks(layerCaps) {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&hdr, &none[0]); err != nil {
			return step("capset", err)
		}
	}
	if c.lacks(layerNoPrivs) {
		return nil
	}
	return step("no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// dropBounding empties the sets that an execve takes capabilities from.
func dropBounding(c stageConfig) error {
	for n := uintptr(0); ; n++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, n, 0, 0, 0); err != nil {
			break
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0)
		if err != nil && c.Mode == ModeRestricted && c.Same {
			break // an ordinary user cannot; no_new_privs makes the set void
		}
		if err != nil {
			return step("drop bounding set", err)
		}
	}
	return step("clear ambient set", unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
}

// setRlimits applies the per-process limits. RLIMIT_AS is not among them:
// Go, Java and the sanitizers reserve more address space than there is.
func setRlimits(pids int64) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return step("limit core files", err)
	}
	if pids > 0 {
		return step("limit processes", unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: uint64(pids), Max: uint64(pids)}))
	}
	return nil
}

func execveat(fd int, path *byte, argv, envp []*byte) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envp[0])), unix.AT_EMPTY_PATH, 0)
	runtime.KeepAlive(argv)
	runtime.KeepAlive(envp)
	return errno
}
