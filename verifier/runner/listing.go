package runner

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
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
	lfs, err := r.blobs(ctx, entries, false, r.hashBlob)
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

// blobs reads the blobs of the entries in order, hands each to do, fills in
// Sum and Size, and returns the paths of LFS pointers. Without all, a blob is
// read only if its sum is not known.
func (r *Repository) blobs(ctx context.Context, entries []verifier.TreeEntry, all bool, do blobFunc) (lfs []string, err error) {
	var names []string
	var index []int
	asked := make(map[string]bool)
	r.mu.Lock()
	for i, e := range entries {
		if _, known := r.sums[e.ID]; e.Gitlink() || !all && (known || asked[e.ID]) {
			continue
		}
		asked[e.ID] = true
		names = append(names, e.ID)
		index = append(index, i)
	}
	r.mu.Unlock()

	crew := startCrew(do)
	fileLimit, rest := cmp.Or(r.Limits.File, defaultFile), cmp.Or(r.Limits.Total, defaultTotal)
	err = r.objects(ctx, names, func(i int, o object) error {
		e := entries[index[i]]
		switch {
		case o.kind != "blob":
			return r.missing(e)
		case o.size > fileLimit || o.size > rest: // before a byte of it is written
			return r.refuse(fmt.Errorf("path %q: %w: %d bytes", e.Path, verifier.ErrTreeLimit, o.size))
		}
		rest -= o.size
		return crew.take(e, o)
	})
	done, crewErr := crew.wait()
	if crewErr != nil {
		return nil, crewErr
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.sums, done)
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

// hashBlob is the blobFunc of a listing without files.
func (r *Repository) hashBlob(e verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
	return r.copyBlob(io.Discard, e, size, body)
}

// copyBlob copies a blob to w and hashes it in both formats on the way. The
// error names the path if its id is not the expected one.
func (r *Repository) copyBlob(w io.Writer, e verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "blob %d\x00", size)
	id := sum
	if r.format == "sha1" {
		id = r.newHash("blob", size)
		w = io.MultiWriter(id, w)
	}
	head := &prefix{}
	n, err := io.Copy(io.MultiWriter(sum, head, w), body)
	if err != nil {
		return blobSum{}, err
	}
	if n != size {
		return blobSum{}, io.ErrUnexpectedEOF
	}
	if hex.EncodeToString(id.Sum(nil)) != e.ID {
		return blobSum{}, &RepositoryError{Code: verifier.CorruptObject, What: fmt.Sprintf("%q: the bytes of blob %s have another id", e.Path, e.ID), Fix: "run git fsck"}
	}
	return blobSum{receipts.Digest(sum.Sum(nil)), size, size < 1024 && string(head.b) == lfsPointer}, nil
}

// lfsPointer is how every Git LFS pointer file of this version begins.
const lfsPointer = "version https://git-lfs.github.com/spec/v1\n"

// prefix keeps the first bytes written to it.
type prefix struct{ b []byte }

func (p *prefix) Write(b []byte) (int, error) {
	p.b = append(p.b, b[:min(len(b), len(lfsPointer)-len(p.b))]...)
	return len(b), nil
}
