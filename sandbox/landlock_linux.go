//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlockMin is the first ABI that is of use: the one before cannot allow
// renaming from one directory to another, which compilers do. landlockMax is
// the last whose rights are known here.
const (
	landlockMin = 2
	landlockMax = 7
)

// landlockABI returns the ABI to use, 0 for none.
func landlockABI() int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || n < landlockMin {
		return 0
	}
	return min(int(n), landlockMax)
}

// landlock confines the calling thread and its children: reading and
// executing only below the readable paths, changing only below the writable
// ones, no signals and no abstract sockets to anything outside. Where there
// are mounts they say the same about files; this layer does not depend on
// them.
//
// It is for the one thread that starts the command. Process 1 stays outside,
// and so beyond the command's signals and ptrace.
func landlock(abi int, readable, writable []string) error {
	const read = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	all := uint64(unix.LANDLOCK_ACCESS_FS_REFER)<<1 - 1
	if abi >= 3 {
		all |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		all |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: all}
	size := unsafe.Offsetof(attr.Handled_access_net)
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attr.Quiet_access_fs)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return step("landlock_create_ruleset", errno)
	}
	defer unix.Close(int(fd))
	for _, p := range readable {
		if err := landlockAllow(int(fd), p, read); err != nil {
			return err
		}
	}
	for _, p := range writable {
		if err := landlockAllow(int(fd), p, all); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return step("landlock_restrict_self", errno)
	}
	return nil
}

func landlockAllow(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return nil // not there, or out of reach anyway: there is nothing to allow
	}
	if err != nil {
		return step("landlock rule for "+path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return step("landlock rule for "+path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
			unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return step("landlock rule for "+path, errno)
	}
	return nil
}
