package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/truegreen-dev/truegreen/verifier"
)

// Diff writes the complete Git patch that turns the tree base into the tree
// head: binary files included, full object ids, no renames, no limit.
// `git apply --binary --index` on base gives head. Nothing in the
// repository, its attributes included, has a say in it. An empty patch means
// that the trees are equal.
//
// Git does not hash the objects that it reads for this, so both trees should
// have been listed or materialised before. The patch shows what changed, the
// trees name it: two versions of Git may choose different hunks, or
// compress a binary file differently, for the same trees.
func (r *Repository) Diff(ctx context.Context, base, head string, w io.Writer) error {
	if !r.isID(base) || !r.isID(head) {
		return &RepositoryError{Code: verifier.UnknownRevision, What: fmt.Sprintf("%q or %q is no tree id", base, head)}
	}
	err := r.run(ctx, nil, w, "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-color",
		"--no-ext-diff", "--no-textconv", "--no-indent-heuristic", "--diff-algorithm=myers", "--unified=3",
		"--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none",
		base, head)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return &RepositoryError{Code: verifier.UnknownRevision, What: "the patch cannot be made", Err: err}
	}
	return err
}
