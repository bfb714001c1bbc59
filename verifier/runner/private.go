package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// privatePrefix begins the name of a private Git directory; the pid of its owner
// and a random number follow.
const privatePrefix = "truegreen-git-"

// makePrivate makes a private Git directory in parent, after removing those that
// killed processes left there. It is locked until lock is closed, or this process
// ends.
func makePrivate(parent string) (dir string, lock *os.File, err error) {
	sweepPrivate(parent)
	if dir, err = os.MkdirTemp(parent, fmt.Sprintf("%s%d-", privatePrefix, os.Getpid())); err != nil {
		return "", nil, err
	}
	if lock, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
		if err = tryLock(lock); errors.Is(err, errors.ErrUnsupported) {
			err = nil
		}
	}
	if err != nil {
		lock.Close()
		os.RemoveAll(dir)
		return "", nil, fmt.Errorf("private Git directory: %w", err)
	}
	return dir, lock, nil
}

// sweepPrivate removes the private Git directories in parent whose owners are
// gone, as far as it may. A pid says nothing of a process in another container
// that shares parent, so where there are locks, that has to be free too.
func sweepPrivate(parent string) {
	f, err := os.Open(parent)
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1) // what can be read
	for _, name := range names {
		if rest, ours := strings.CutPrefix(name, privatePrefix); ours {
			owner, _, ok := strings.Cut(rest, "-")
			info, infoErr := os.Lstat(filepath.Join(parent, name))
			if infoErr != nil || !info.IsDir() || !ownedByUs(info) {
				continue // anybody can use the name
			}
			if pid, err := strconv.Atoi(owner); ok && err == nil && pid > 0 && gone(pid) {
				removeUnlocked(filepath.Join(parent, name))
			}
		}
	}
}

func removeUnlocked(dir string) {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if err != nil { // killed before there was a lock, or not to be known
		return
	}
	err = tryLock(lock)
	lock.Close() // an open file cannot be removed everywhere
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		os.RemoveAll(dir)
	}
}

// gone reports whether there is no process with this pid.
func gone(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil { // on Windows alone; one that may not be opened is there
		return !errors.Is(err, fs.ErrPermission)
	}
	defer p.Release()
	err = p.Signal(syscall.Signal(0))
	return errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH)
}
