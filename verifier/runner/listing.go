package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/truegreen-dev/truegreen/verifier"
)

// Listing is a tree whose objects were all read and whose ids were all
// computed again.
type Listing struct {
	verifier.Tree
	Entries []verifier.TreeEntry // in the order of their paths
	LFS     []string             // paths of Git LFS pointers: the content itself is not in the repository
}

// Find returns the entry with the given path.
func (l Listing) Find(path string) (verifier.TreeEntry, bool) {
	i, ok := slices.BinarySearchFunc(l.Entries, path, func(e verifier.TreeEntry, path string) int {
		return strings.Compare(e.Path, path)
	})
	if !ok {
		return verifier.TreeEntry{}, false
	}
	return l.Entries[i], true
}

// Gitlinks returns the paths of the submodules, which are never followed.
func (l Listing) Gitlinks() []string {
	var paths []string
	for _, e := range l.Entries {
		if e.Gitlink() {
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// Names lists a tree without reading its blobs, so without their sums and
// sizes and without the tree's own sum. Names and ids are proved to be those
// of the tree.
func (r *Repository) Names(ctx context.Context, tree string) (Listing, error) {
	entries, err := r.entries(ctx, tree)
	if err != nil {
		return Listing{}, err
	}
	return Listing{Tree: verifier.Tree{Format: r.format, ID: tree, Entries: len(entries)}, Entries: entries}, nil
}

// List reads a whole tree without writing it anywhere and writes its listing
// to w. Blobs that this Repository has hashed before are not read again.
func (r *Repository) List(ctx context.Context, tree string, w io.Writer) (Listing, error) {
	entries, err := r.entries(ctx, tree)
	if err != nil {
		return Listing{}, err
	}
	blobs, err := r.wanted(ctx, entries, false)
	if err != nil {
		return Listing{}, err
	}
	lfs, err := r.blobs(ctx, entries, blobs, func() hand { return r.newBlobHasher(io.Discard) })
	if err != nil {
		return Listing{}, err
	}
	return r.listing(entries, lfs, w)
}

// As in [verifier.TreeLimits].
const (
	defaultEntries = 1 << 20
	defaultFile    = 2 << 30
	defaultTotal   = 16 << 30
)

// wanted returns the blobs of the entries that are to be read, in order and
// with their sizes: with all, every one, else those whose sums are not known.
// They exist and are within the limits; no byte of them was read.
func (r *Repository) wanted(ctx context.Context, entries []verifier.TreeEntry, all bool) ([]blob, error) {
	var blobs []blob
	var names []string
	asked := make(map[string]bool)
	r.mu.Lock()
	for i := range entries {
		e := &entries[i]
		if _, known := r.sums[e.ID]; e.Gitlink() || !all && (known || asked[e.ID]) {
			continue
		}
		asked[e.ID] = true
		blobs = append(blobs, blob{entry: e})
		names = append(names, e.ID)
	}
	r.mu.Unlock()

	fileLimit, rest := cmp.Or(r.Limits.File, defaultFile), cmp.Or(r.Limits.Total, defaultTotal)
	err := r.kinds(ctx, names, func(i int, o object) error {
		switch {
		case o.kind != "blob":
			return r.missing(*blobs[i].entry)
		case o.size > fileLimit || o.size > rest:
			return r.refuse(fmt.Errorf("path %q: %w: %d bytes", blobs[i].entry.Path, verifier.ErrTreeLimit, o.size))
		}
		rest -= o.size
		blobs[i].size = o.size
		return nil
	})
	return blobs, err
}

// blobs has hands work on the wanted blobs, fills in Sum and Size of all
// entries, and returns the paths of LFS pointers. The error is that of the
// first blob that has one.
func (r *Repository) blobs(ctx context.Context, entries []verifier.TreeEntry, blobs []blob, newHand func() hand) (lfs []string, err error) {
	if err := r.readBlobs(ctx, blobs, newHand); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range blobs {
		if known, ok := r.sums[b.entry.ID]; ok && known != b.sum {
			return nil, &RepositoryError{Code: verifier.CorruptObject, What: fmt.Sprintf("%q: blob %s was read with two contents", b.entry.Path, b.entry.ID)}
		}
		r.sums[b.entry.ID] = b.sum
	}
	for i := range entries {
		e := &entries[i]
		if e.Gitlink() {
			continue
		}
		known := r.sums[e.ID]
		e.Sum, e.Size = known.sum, known.size
		if known.lfs {
			lfs = append(lfs, e.Path)
		}
	}
	return lfs, nil
}

// manyBlobs is from how many on a second process is worth its start.
const manyBlobs = 512

// readBlobs has a crew work on the blobs. Many are read by two processes, each
// of which gets half of the bytes and stays in its part of the tree: the
// blobs of a folder tend to be stored as differences from each other.
func (r *Repository) readBlobs(ctx context.Context, blobs []blob, newHand func() hand) error {
	if len(blobs) == 0 {
		return nil
	}
	c := startCrew(blobs, newHand)
	half := len(blobs)
	if half >= manyBlobs {
		half = middle(blobs)
	}
	var wg sync.WaitGroup
	if half < len(blobs) {
		wg.Go(func() { c.read(ctx, half, len(blobs), r.moreObjects) })
	}
	c.read(ctx, 0, half, r.objects)
	wg.Wait()
	if err := c.wait(); ctx.Err() != nil {
		return ctx.Err()
	} else {
		return err
	}
}

// middle returns how many of the blobs make up half of the bytes.
func middle(blobs []blob) int {
	var total, n int64
	for _, b := range blobs {
		total += b.size
	}
	for i, b := range blobs {
		if n += b.size; n > total/2 {
			return i + 1
		}
	}
	return len(blobs)
}

// listing writes the listing of entries whose blobs were all hashed.
func (r *Repository) listing(entries []verifier.TreeEntry, lfs []string, w io.Writer) (Listing, error) {
	tw, err := verifier.NewTreeWriter(w, r.format, r.Limits)
	if err != nil {
		return Listing{}, err
	}
	for _, e := range entries {
		if err := tw.Add(e); errors.Is(err, verifier.ErrTreeLimit) {
			return Listing{}, r.refuse(err)
		} else if err != nil {
			return Listing{}, err
		}
	}
	tree, err := tw.Close()
	if err != nil {
		return Listing{}, err
	}
	return Listing{tree, entries, lfs}, nil
}
