package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
// pointers. The order of checks is: names and root tree id, then that every blob
// is there and within the limits, before anything is written; each blob's id
// before its file counts. Where several blobs are bad the error is that of the
// first in the tree. The listing goes to w.
//
// Nobody else may write to the folder meanwhile. After an error its content
// is undefined and the caller removes it.
func (r *Repository) Materialise(ctx context.Context, tree string, w io.Writer, to Target) (Listing, error) {
	entries, err := r.entries(ctx, tree)
	if err != nil {
		return Listing{}, err
	}
	blobs, err := r.wanted(ctx, entries, true)
	if err != nil {
		return Listing{}, err
	}
	lfs, err := r.write(ctx, entries, blobs, to, func(h hand) hand { return h })
	if err != nil {
		return Listing{}, err
	}
	return r.listing(entries, lfs, w)
}

// MaterialiseEntries writes a tree that is given by its entries, with their
// sums and sizes, as Materialise writes one that the repository names. The
// entries' blobs have to be in the repository; a tree of them need not be.
//
// The checks are those of Materialise, in the same order, but for the root tree
// id: the entries have to be a listing of the repository's object format, and
// each blob has to have the size, the id and the sum of its entry.
func (r *Repository) MaterialiseEntries(ctx context.Context, entries []verifier.TreeEntry, to Target) error {
	entries = slices.Clone(entries) // they are filled in
	if err := r.legal(entries); err != nil {
		return err
	}
	blobs, err := r.wanted(ctx, entries, true)
	if err != nil {
		return err
	}
	for _, b := range blobs {
		if b.size != b.entry.Size { // and the blob is read as one of b.size bytes
			return otherBlob(b.entry, "size")
		}
	}
	_, err = r.write(ctx, entries, blobs, to, func(h hand) hand { return listedHand{h} })
	return err
}

// legal checks that the entries are a listing, within the limits.
func (r *Repository) legal(entries []verifier.TreeEntry) error {
	check, err := verifier.NewTreeWriter(io.Discard, r.format, r.Limits)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := check.Add(e); err != nil {
			return r.refuse(err)
		}
	}
	_, err = check.Close()
	return err
}

// write writes a tree whose wanted blobs are all of its blobs. What a scribe
// does with each of them may be wrapped.
func (r *Repository) write(ctx context.Context, entries []verifier.TreeEntry, blobs []blob, to Target, wrap func(hand) hand) (lfs []string, err error) {
	out, err := newWriteOut(to, entries)
	if err != nil {
		return nil, err
	}
	defer out.root.Close()
	lfs, err = r.blobs(ctx, entries, blobs, func() hand { return wrap(newScribe(r, out)) })
	if err != nil {
		return nil, err
	}
	return lfs, out.finish()
}

// listedHand is a [hand] for entries that say already what their blobs hash to.
type listedHand struct{ hand }

func (h listedHand) blob(e *verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
	sum, err := h.hand.blob(e, size, body)
	if err == nil {
		err = asListed(e, sum)
	}
	return sum, err
}

// asListed checks what a blob, whose size and id were found to be those of its
// entry, has for a sum.
func asListed(e *verifier.TreeEntry, sum blobSum) error {
	if sum.sum != e.Sum {
		return otherBlob(e, "sum")
	}
	return nil
}

func otherBlob(e *verifier.TreeEntry, what string) error {
	return &RepositoryError{Code: verifier.CorruptObject, What: fmt.Sprintf("%q: blob %s has another %s than is listed", e.Path, e.ID, what)}
}

// writeOut is a folder that is being filled, through an [os.Root], so that no
// name and no symbolic link of the tree can lead out of it.
type writeOut struct {
	root *os.Root
	to   Target
	dirs []string // made; those in one folder beside each other, parents first
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
	out := &writeOut{root: root, to: to, dirs: folders(entries)}
	err = out.eachDir(func(parent *os.Root, name string) error { return parent.Mkdir(name, 0o755) })
	if err != nil {
		root.Close()
		return nil, err
	}
	return out, nil
}

// folders returns the folders that the entries lie in, by depth and then by
// path.
func folders(entries []verifier.TreeEntry) []string {
	var dirs []string
	seen := map[string]bool{".": true}
	add := func(dir string) {
		for ; !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
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
	slices.SortFunc(dirs, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), strings.Compare(a, b))
	})
	return dirs
}

// eachDir calls do with the parent of every folder and its name in it.
func (o *writeOut) eachDir(do func(parent *os.Root, name string) error) error {
	at := inFolder{root: o.root}
	defer at.leave()
	for _, dir := range o.dirs {
		parent, name, err := at.enter(dir)
		if err != nil {
			return err
		}
		if err := do(parent, name); err != nil {
			return fmt.Errorf("folder %q: %w", dir, err)
		}
	}
	return nil
}

// finish sets what writing into a folder would change again.
func (o *writeOut) finish() error {
	set := func(parent *os.Root, name string) error {
		err := parent.Chmod(name, 0o755)
		if err == nil && o.to.Chown {
			err = parent.Lchown(name, o.to.UID, o.to.GID)
		}
		if err == nil {
			err = parent.Chtimes(name, o.to.Time, o.to.Time)
		}
		return err
	}
	if err := o.eachDir(set); err != nil {
		return err
	}
	return set(o.root, ".")
}

// inFolder keeps the folder open that was entered last, so that what lies beside
// each other is found without walking its path again.
type inFolder struct {
	root *os.Root
	path string
	dir  *os.Root // nil: none
}

// enter opens the folder that path lies in and returns the last name of path.
// The folder stays open until the next call.
func (p *inFolder) enter(name string) (dir *os.Root, base string, err error) {
	slash := strings.LastIndexByte(name, '/')
	if slash < 0 {
		return p.root, name, nil
	}
	parent, base := name[:slash], name[slash+1:]
	if p.dir == nil || p.path != parent {
		p.leave()
		if p.dir, err = p.root.OpenRoot(parent); err != nil {
			return nil, "", err
		}
		p.path = parent
	}
	return p.dir, base, nil
}

func (p *inFolder) leave() {
	if p.dir != nil {
		p.dir.Close()
		p.dir = nil
	}
}

// scribe is the [hand] that writes files and symbolic links.
type scribe struct {
	*blobHasher
	repo *Repository
	to   *Target
	at   inFolder
}

func newScribe(r *Repository, out *writeOut) *scribe {
	return &scribe{blobHasher: r.newBlobHasher(nil), repo: r, to: &out.to, at: inFolder{root: out.root}}
}

func (s *scribe) close() { s.at.leave() }

// blob makes one file or symbolic link and reports what its blob hashed to.
// The name must not exist yet.
func (s *scribe) blob(e *verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
	dir, name, err := s.at.enter(e.Path)
	if err != nil {
		return blobSum{}, err
	}
	write := s.file
	if e.Mode == "120000" {
		write = s.link
	}
	sum, err := write(dir, name, e, size, body)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("path %q: %w", e.Path, err)
	}
	return sum, err
}

func (s *scribe) file(dir *os.Root, name string, e *verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
	mode := os.FileMode(0o644)
	if e.Mode == "100755" {
		mode = 0o755
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return blobSum{}, err
	}
	s.w = f
	sum, err := s.blobHasher.blob(e, size, body)
	if err == nil {
		err = f.Chmod(mode) // whatever the umask took away
	}
	if err == nil && s.to.Chown {
		err = f.Chown(s.to.UID, s.to.GID)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = dir.Chtimes(name, s.to.Time, s.to.Time)
	}
	return sum, err
}

// link makes a symbolic link. Its own modification time stays the present:
// there is no portable way to set it.
func (s *scribe) link(dir *os.Root, name string, e *verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
	const maxTarget = 4095 // what Linux takes
	if size == 0 || size > maxTarget {
		return blobSum{}, s.repo.refuse(fmt.Errorf("path %q: symbolic link of %d bytes, want 1 to %d", e.Path, size, maxTarget))
	}
	var target strings.Builder
	s.w = &target
	sum, err := s.blobHasher.blob(e, size, body)
	if err != nil {
		return blobSum{}, err
	}
	if strings.IndexByte(target.String(), 0) >= 0 {
		return blobSum{}, s.repo.refuse(fmt.Errorf("path %q: symbolic link to a name with a NUL byte", e.Path))
	}
	err = dir.Symlink(target.String(), name)
	if err == nil && s.to.Chown {
		err = dir.Lchown(name, s.to.UID, s.to.GID)
	}
	return sum, err
}
