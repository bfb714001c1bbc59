package runner

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

func (j *job) depsCache() string { return filepath.Join(j.o.State, cacheDir, "deps") }

// fill makes a folder of a cache: fetch fills it under another name first.
func (j *job) fill(dir string, fetch func(tmp string) error) error {
	tmp, err := j.newCache(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := fetch(tmp); err != nil {
		return err
	}
	return j.keepCache(tmp, dir, false)
}

// newCache makes an empty folder in parent that commands in a sandbox may write
// to.
func (j *job) newCache(parent string) (string, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(parent, newPrefix+filepath.Base(j.dir)+"-")
	if err != nil {
		return "", err
	}
	if j.owner.Chown {
		err = os.Chown(dir, j.owner.UID, j.owner.GID)
	}
	return dir, err
}

// giveAway makes a folder and what is in it the property of the id that commands
// in a sandbox have.
func (j *job) giveAway(dir string) error {
	if !j.owner.Chown {
		return nil
	}
	return filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, j.owner.UID, j.owner.GID)
	})
}

// keepCache gives a filled folder its name and takes it out of the hands of the
// id that filled it. Where shared, any id may add files in an overlay of it. What
// lies in a shared one stays that id's: in a user namespace of root's, which has
// this id and not root's, an overlay could not copy root's folders up.
func (j *job) keepCache(tmp, dir string, shared bool) error {
	err := filepath.WalkDir(tmp, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if j.owner.Chown && (!shared || p == tmp) {
			if err := os.Lchown(p, 0, 0); err != nil {
				return err
			}
		}
		if d.IsDir() {
			mode := fs.FileMode(0o755)
			if shared {
				mode = 0o777
			}
			return os.Chmod(p, mode)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Another run may have been faster; what it made is the same.
	if err := os.Rename(tmp, dir); err != nil && !isDir(dir) {
		return err
	}
	return nil
}

// cacheAge is for how long a cache is kept that no run uses.
const cacheAge = 30 * 24 * time.Hour

// cached reports whether a folder of a cache is there, and notes that it is used.
func (j *job) cached(dir string) bool {
	if !isDir(dir) {
		return false
	}
	now := j.o.Now()
	os.Chtimes(dir, now, now) // at worst it is filled again too early
	return true
}

// sweepCaches removes what no run has used for long.
func sweepCaches(state string, now time.Time) {
	for _, pattern := range [...]string{"deps/*", "go-build/*/*"} {
		dirs, _ := filepath.Glob(filepath.Join(state, cacheDir, pattern))
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err == nil && info.IsDir() && now.Sub(info.ModTime()) > cacheAge {
				removeWritable(dir)
			}
		}
	}
}
