package runner

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/verifier"
)

// Target is where and as whose a tree is written.
type Target struct {
	Dir      string    // made if it does not exist; must be empty
	Time     time.Time // modification time of everything: a commit's time
	Chown    bool      // give everything to UID and GID
	UID, GID int
}

// Materialise writes a tree to a folder, byte for byte as the blobs have it:
// no attributes, filters, line endings, keywords or export rules apply. Modes
// are exactly 0755 for folders and executables and 0644 for other files,
// whatever the umask; symbolic links have the target that Git recorded and
// are never followed; a gitlink is an empty folder; LFS pointers stay
// pointers. The order of checks is: names and root tree id before anything is
// written, each blob's id before its file counts. The listing goes to w.
//
// Nobody else may write to the folder meanwhile. After an error its content
// is undefined and the caller removes it.
func (r *Repository) Materialise(ctx context.Context, tree string, w io.Writer, to Target) (Listing, error) {
	entries, err := r.entries(ctx, tree)
	if err != nil {
		return Listing{}, err
	}
	out, err := newWriteOut(to, entries)
	if err != nil {
		return Listing{}, err
	}
	defer out.root.Close()
	lfs, err := r.blobs(ctx, entries, true, func(e verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
		return out.writeBlob(r, e, size, body)
	})
	if err != nil {
		return Listing{}, err
	}
	if err := out.finish(); err != nil {
		return Listing{}, err
	}
	return r.listing(entries, lfs, w)
}

// writeOut writes files into one folder through an [os.Root], so that no name
// and no symbolic link of the tree can lead out of it.
type writeOut struct {
	root *os.Root
	to   Target
	dirs []string // made, parents first
}

// newWriteOut opens the target and makes the folders that the entries need.
func newWriteOut(to Target, entries []verifier.TreeEntry) (*writeOut, error) {
	if err := os.MkdirAll(to.Dir, 0o755); err != nil {
		return nil, err
	}
	if found, err := os.ReadDir(to.Dir); err != nil || len(found) > 0 {
		if err == nil {
			err = fmt.Errorf("%s: not empty", to.Dir)
		}
		return nil, err
	}
	root, err := os.OpenRoot(to.Dir)
	if err != nil {
		return nil, err
	}
	out := &writeOut{root: root, to: to}
	for _, dir := range folders(entries) {
		if err := root.Mkdir(dir, 0o755); err != nil {
			root.Close()
			return nil, err
		}
		out.dirs = append(out.dirs, dir)
	}
	return out, nil
}

// folders returns the folders that the entries lie in, parents first.
func folders(entries []verifier.TreeEntry) []string {
	var dirs []string
	seen := map[string]bool{".": true}
	var add func(dir string)
	add = func(dir string) {
		if !seen[dir] {
			seen[dir] = true
			add(path.Dir(dir))
			dirs = append(dirs, dir)
		}
	}
	for _, e := range entries {
		if e.Gitlink() {
			add(e.Path)
		} else {
			add(path.Dir(e.Path))
		}
	}
	return dirs
}

// writeBlob makes one file or symbolic link and reports what its blob hashed
// to. The name must not exist yet.
func (o *writeOut) writeBlob(r *Repository, e verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
	if e.Mode == "120000" {
		return o.writeLink(r, e, size, body)
	}
	mode := os.FileMode(0o644)
	if e.Mode == "100755" {
		mode = 0o755
	}
	f, err := o.root.OpenFile(e.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return blobSum{}, err
	}
	sum, err := r.copyBlob(f, e, size, body)
	if err == nil {
		err = f.Chmod(mode) // whatever the umask took away
	}
	if err == nil && o.to.Chown {
		err = f.Chown(o.to.UID, o.to.GID)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = o.root.Chtimes(e.Path, o.to.Time, o.to.Time)
	}
	return sum, err
}

// writeLink makes a symbolic link. Its own modification time stays the
// present: there is no portable way to set it.
func (o *writeOut) writeLink(r *Repository, e verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
	const maxTarget = 4095 // what Linux takes
	if size == 0 || size > maxTarget {
		return blobSum{}, r.refuse(fmt.Errorf("path %q: symbolic link of %d bytes, want 1 to %d", e.Path, size, maxTarget))
	}
	var target strings.Builder
	sum, err := r.copyBlob(&target, e, size, body)
	if err != nil {
		return blobSum{}, err
	}
	if strings.IndexByte(target.String(), 0) >= 0 {
		return blobSum{}, r.refuse(fmt.Errorf("path %q: symbolic link to a name with a NUL byte", e.Path))
	}
	err = o.root.Symlink(target.String(), e.Path)
	if err == nil && o.to.Chown {
		err = o.root.Lchown(e.Path, o.to.UID, o.to.GID)
	}
	return sum, err
}

// finish sets what writing into a folder would change again, children first.
func (o *writeOut) finish() error {
	for _, dir := range slices.Backward(append([]string{"."}, o.dirs...)) {
		err := o.root.Chmod(dir, 0o755)
		if err == nil && o.to.Chown {
			err = o.root.Lchown(dir, o.to.UID, o.to.GID)
		}
		if err == nil {
			err = o.root.Chtimes(dir, o.to.Time, o.to.Time)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
