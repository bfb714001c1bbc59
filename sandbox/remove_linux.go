//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// removeTree removes a directory that hostile code wrote to. A tree of any
// depth is taken apart from the top if need be: what is inside a directory is
// moved up, so no path grows long and no chain of descriptors is held.
// Directories that forbid it are opened up first. What cannot be removed
// stays, and the next sweep tries again.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	flatten(dir)
	return os.RemoveAll(dir)
}

func flatten(dir string) {
	unix.Chmod(dir, 0o700)
	n := 0
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return
		}
		moved := 0
		for _, e := range entries {
			p := filepath.Join(dir, e.Name())
			if !e.IsDir() || unix.Rmdir(p) == nil {
				unix.Unlink(p)
				continue
			}
			unix.Chmod(p, 0o700)
			children, err := os.ReadDir(p)
			if err != nil {
				continue
			}
			for _, c := range children {
				old := filepath.Join(p, c.Name())
				if !c.IsDir() {
					unix.Unlink(old)
					continue
				}
				unix.Chmod(old, 0o700) // moving a directory writes to it
				n++
				if unix.Rename(old, filepath.Join(dir, ".gone-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(n))) == nil {
					moved++
				}
			}
			unix.Rmdir(p)
		}
		if moved == 0 {
			return
		}
	}
}
