package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// maxTreeObject bounds one folder; a million files in one are 64 MiB.
const maxTreeObject = 128 << 20

// entries reads all folders of a tree and proves, before a blob is read, that
// the names are legal and hash to the tree. Sums of blobs and sizes are left
// out. It reads a level of folders at a time, and no more folders than files
// are allowed: a few small tree objects that name each other can amount to
// more folders than anybody could visit.
func (r *Repository) entries(ctx context.Context, tree string) ([]verifier.TreeEntry, error) {
	if !r.isID(tree) {
		return nil, &RepositoryError{Code: verifier.UnknownRevision, What: fmt.Sprintf("%q is no tree id", tree)}
	}
	r.mu.Lock()
	entries, ok := r.trees[tree]
	r.mu.Unlock()
	if ok {
		return slices.Clone(entries), nil
	}
	w := walk{limit: cmp.Or(r.Limits.Entries, defaultEntries), next: []folder{{tree, ""}}}
	for len(w.next) > 0 {
		level := w.next
		w.next = nil
		ids := make([]string, len(level))
		for i, f := range level {
			ids[i] = f.id
		}
		err := r.objects(ctx, ids, func(i int, o object) error {
			if o.kind != "tree" {
				return &RepositoryError{Code: verifier.UnknownRevision, Fix: "run git fsck",
					What: fmt.Sprintf("folder %q: tree %s is not in the repository", level[i].path, level[i].id)}
			}
			text, err := r.content(o, maxTreeObject)
			if err != nil {
				return err
			}
			if err := w.folder(level[i].path, text, len(tree)/2); err != nil {
				return r.refuse(err)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if err := r.prove(tree, w.entries); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trees[tree] = w.entries
	return slices.Clone(w.entries), nil
}

// prove sorts the entries, fills in the sums that follow from ids, and checks
// that they hash to the tree.
func (r *Repository) prove(tree string, entries []verifier.TreeEntry) error {
	slices.SortFunc(entries, func(a, b verifier.TreeEntry) int { return strings.Compare(a.Path, b.Path) })
	check, err := verifier.NewTreeWriter(io.Discard, r.format, r.Limits)
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		if e.Gitlink() {
			e.Sum = verifier.GitlinkSum(e.ID)
		} else if r.format == "sha256" {
			if e.Sum, err = receipts.ParseDigest(e.ID); err != nil {
				return err
			}
		}
		if err := check.Add(*e); err != nil {
			return r.refuse(err)
		}
	}
	got, err := check.Close()
	if err != nil {
		return err
	}
	if got.ID != tree {
		return r.refuse(fmt.Errorf("not as Git writes trees: the files of %s hash to %s", tree, got.ID))
	}
	return nil
}

func (r *Repository) refuse(err error) error {
	code := verifier.HostileTree
	if errors.Is(err, verifier.ErrTreeLimit) {
		code = verifier.TreeTooLarge
	}
	return &RepositoryError{Code: code, What: "the tree is refused", Err: err}
}

// walk collects what the folders of a tree hold.
type walk struct {
	limit   int // of entries, and of folders
	folders int
	entries []verifier.TreeEntry
	next    []folder
}

// folder is one that is still to be read. Its path is empty or ends in a slash.
type folder struct{ id, path string }

// folder takes in a tree object: for each name the mode, a space, the name, a
// NUL byte and the id in binary.
func (w *walk) folder(path string, text []byte, hashLen int) error {
	if len(text) == 0 && path != "" {
		return fmt.Errorf("path %q: an empty folder", path)
	}
	for len(text) > 0 {
		head, rest, ok := bytes.Cut(text, []byte{0})
		mode, name, ok2 := strings.Cut(string(head), " ")
		if !ok || !ok2 || len(rest) < hashLen {
			return fmt.Errorf("folder %q: malformed tree object", path)
		}
		id := hex.EncodeToString(rest[:hashLen])
		text = rest[hashLen:]
		if name == "" || strings.Contains(name, "/") || len(path)+len(name) > 4096 {
			return fmt.Errorf("folder %q: illegal name %.300q", path, name)
		}
		if mode == "40000" {
			w.folders++
			w.next = append(w.next, folder{id, path + name + "/"})
		} else {
			w.entries = append(w.entries, verifier.TreeEntry{Mode: mode, ID: id, Path: path + name})
		}
		if w.folders > w.limit || len(w.entries) > w.limit {
			return fmt.Errorf("%w: more than %d files or folders", verifier.ErrTreeLimit, w.limit)
		}
	}
	return nil
}
