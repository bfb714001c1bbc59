package runner

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Trees are written to memory where there is plenty: a disk takes some tenths
// of a millisecond for every file, and many times that where files were deleted
// a moment ago, as every run does at its end.

const (
	treeMemory = "/dev/shm"
	treeBudget = 512 << 20 // bytes of the trees of a run in memory
)

// extent is what trees take up.
type extent struct {
	bytes int64 // each file in whole pages
	files int64 // and folders and symbolic links
}

const pageSize = 4096

// extent adds up what trees will take, without writing them. It fails as
// [Repository.Materialise] would for what is missing or too large.
func (r *Repository) extent(ctx context.Context, trees ...string) (extent, error) {
	var sum extent
	for _, tree := range trees {
		entries, err := r.entries(ctx, tree)
		if err != nil {
			return extent{}, err
		}
		blobs, err := r.wanted(ctx, entries, true)
		if err != nil {
			return extent{}, err
		}
		for _, b := range blobs {
			sum.bytes += (b.size + pageSize - 1) / pageSize * pageSize
		}
		sum.files += int64(len(blobs) + len(folders(entries)) + 1)
	}
	return sum, nil
}

// treeParent returns the folder that trees of the given extent are written to.
// That is a new one in memory, a tmpfs such as /dev/shm, if it has the room, the
// trees take no more than budget bytes and an eighth of the memory that is
// available, and programs may be started from it; and else the run's own folder.
//
// A new folder is locked and for nobody but this user. Whoever asked removes
// it and then closes the lock, which is nil for the run's own folder; if that
// does not come to pass, [sweepTrees] does it.
func treeParent(memory, run string, need extent, budget int64) (parent string, lock *os.File) {
	if need.bytes > budget || need.bytes > memoryAvailable()/8 {
		return run, nil
	}
	if room := tmpfsRoom(memory); need.bytes > room.bytes || need.files > room.files {
		return run, nil
	}
	parent, lock, err := newTreeParent(memory)
	if err != nil {
		return run, nil
	}
	return parent, lock
}

// treesPrefix begins the names of the folders. The process id that follows is
// for people: the lock tells whether the owner is alive, in any namespace and
// when ids are used again.
const treesPrefix = "truegreen-trees-"

func newTreeParent(memory string) (dir string, lock *os.File, err error) {
	for range 3 {
		if dir, err = os.MkdirTemp(memory, fmt.Sprintf("%s%d-", treesPrefix, os.Getpid())); err != nil {
			return "", nil, err
		}
		if lock, err = lockFolder(dir); err == nil {
			return dir, lock, nil
		}
		os.Remove(dir) // if a sweep that came before the lock did not
	}
	return "", nil, err
}

// lockFolder locks a folder and makes sure that it is still the one with this
// name.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = tryLock(f)
	if err == nil {
		err = stillNamed(f, dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// stillNamed returns an error if f is not what has this name now.
func stillNamed(f *os.File, name string) error {
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(name)
	if err == nil && !os.SameFile(opened, named) {
		err = fs.ErrNotExist
	}
	return err
}

// sweepTrees removes the folders in memory that processes of this user left
// behind which are no more.
func sweepTrees(memory string) {
	entries, err := os.ReadDir(memory)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), treesPrefix) || !ownedByUs(info) {
			continue
		}
		dir := filepath.Join(memory, e.Name())
		if lock, err := lockFolder(dir); err == nil {
			os.RemoveAll(dir)
			lock.Close()
		}
	}
}
