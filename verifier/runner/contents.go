package runner

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"github.com/truegreen-dev/truegreen/verifier"
)

// Contents reads the blobs of the entries, in their order, and calls visit with
// each entry and the content of its file, or the target of its symbolic link.
// The content is visit's to keep. Skipped, and not looked at, are gitlinks and
// entries of more than max bytes.
//
// The entries are those of a listing, or some of them, with sums and sizes. A
// blob that is not there, or has another size, id or sum than its entry, is a
// [RepositoryError], and visit does not see it. An error of visit ends the
// reading and is returned as it is. One process reads all blobs, and visit may
// use the Repository.
func (r *Repository) Contents(ctx context.Context, entries []verifier.TreeEntry, max int64, visit func(e verifier.TreeEntry, content []byte) error) error {
	max = min(max, cmp.Or(r.Limits.File, defaultFile))
	var wanted []verifier.TreeEntry
	var names []string
	for _, e := range entries {
		if e.Gitlink() || e.Size > max {
			continue
		}
		// A name is a line of git's input.
		if !r.isID(e.ID) {
			return r.refuse(fmt.Errorf("path %q: %q is no %s id", e.Path, e.ID, r.format))
		}
		wanted = append(wanted, e)
		names = append(names, e.ID)
	}
	if len(wanted) == 0 {
		return ctx.Err()
	}
	h := r.newBlobHasher(nil)
	return r.moreObjects(ctx, names, func(i int, o object) error {
		if err := ctx.Err(); err != nil {
			return err // what git has put out already is not visited any more
		}
		e := wanted[i]
		if o.kind != "blob" {
			return r.missing(e)
		}
		if o.size != e.Size {
			return otherBlob(&e, "size")
		}
		content := bytes.NewBuffer(make([]byte, 0, o.size))
		h.w = content
		sum, err := h.blob(&e, o.size, o.body)
		if err == nil {
			err = asListed(&e, sum)
		}
		if err != nil {
			return err
		}
		return visit(e, content.Bytes())
	})
}
