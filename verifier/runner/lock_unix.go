//go:build unix

package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks f, or fails at once where another process has it. The lock ends
// with the process.
func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
