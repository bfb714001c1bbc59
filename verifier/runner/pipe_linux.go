package runner

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// widen gives a pipe room for a megabyte, so that who writes and who reads it
// take turns less often. Where that is more than the system allows, the pipe
// stays as it is.
func widen(pipe syscall.Conn) {
	if raw, err := pipe.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) })
	}
}
