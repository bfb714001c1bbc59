package runner

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/truegreen-dev/truegreen/verifier"
)

// Commit is one commit, as its own bytes state it.
type Commit struct {
	ID      string
	Tree    string
	Parents []string
	Time    int64 // of the committer, Unix seconds; 0 if the line cannot be read
}

// Base is what a patch is compared with. Without an ID it is the empty tree.
type Base struct {
	Commit
	How string // in one line, why this base
	// Protected: the caller named it, or it is part of the default branch. Of any
	// other base, the author of the patch may be the author as well.
	Protected bool
}

// maxCommit bounds commit objects; messages of a megabyte exist.
const maxCommit = 16 << 20

// Resolve finds the commit that a revision names and reads it. It takes what
// git rev-parse takes, except forms with a colon, which name no commit, and
// forms with "@{", which need reflogs or configuration.
func (r *Repository) Resolve(ctx context.Context, rev string) (Commit, error) {
	commits, err := r.resolve(ctx, rev)
	if err != nil {
		return Commit{}, err
	}
	if commits[0].ID == "" {
		return Commit{}, r.unknown(rev)
	}
	return commits[0], nil
}

// resolve reads several commits at once; one that does not exist is zero.
func (r *Repository) resolve(ctx context.Context, revs ...string) ([]Commit, error) {
	names := make([]string, len(revs))
	for i, rev := range revs {
		name, err := r.revision(rev)
		if err != nil {
			return nil, &RepositoryError{Code: verifier.UnknownRevision, What: fmt.Sprintf("revision %q", rev), Err: err}
		}
		names[i] = name + "^{commit}"
	}
	commits := make([]Commit, len(revs))
	err := r.objects(ctx, names, func(i int, o object) error {
		if o.kind != "commit" {
			return nil
		}
		text, err := r.content(o, maxCommit)
		if err != nil {
			return err
		}
		commits[i], err = r.parseCommit(o.id, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	return commits, nil
}

// revision checks a name and replaces HEAD, which the private Git directory
// does not have.
func (r *Repository) revision(rev string) (string, error) {
	switch {
	case rev == "":
		return "", errors.New("empty")
	case len(rev) > 1024:
		return "", errors.New("longer than 1024 bytes")
	case strings.IndexFunc(rev, func(c rune) bool { return c < ' ' || c == 0x7f }) >= 0:
		return "", errors.New("holds a control character")
	case strings.Contains(rev, ":"):
		return "", errors.New("a name with a colon is no commit")
	case strings.Contains(rev, "@{"):
		return "", errors.New("reflog and upstream forms are not supported")
	}
	for _, head := range []string{"HEAD", "@"} {
		if rest, ok := strings.CutPrefix(rev, head); ok && (rest == "" || rest[0] == '~' || rest[0] == '^') {
			if !strings.HasPrefix(r.head, "refs/") && !r.isID(r.head) || strings.ContainsAny(r.head, ":^~\n") {
				return "", errors.New("HEAD names neither a reference nor a commit")
			}
			return r.head + rest, nil
		}
	}
	return rev, nil
}

func (r *Repository) unknown(rev string) error {
	err := &RepositoryError{Code: verifier.UnknownRevision, What: fmt.Sprintf("revision %q names no commit here", rev)}
	switch {
	case r.refs != "":
		err.Fix = fmt.Sprintf("references in the %s format are not read: give full commit ids", r.refs)
	case rev == "HEAD":
		err.What = fmt.Sprintf("HEAD (%s) names no commit that can be read", r.head)
		err.Fix = "commit something first"
	case r.shallow && r.isID(rev):
		return r.shallowError(fmt.Sprintf("commit %s is not in this shallow clone", rev), "git fetch --depth=1 origin "+rev)
	case r.shallow:
		err.Fix = "the clone is shallow: fetch what is missing, or git fetch --unshallow"
	}
	return err
}

func (r *Repository) shallowError(what, fetch string) error {
	return &RepositoryError{Code: verifier.ShallowClone, What: what, Fix: fetch}
}

// isID reports whether s is a full object id.
func (r *Repository) isID(s string) bool {
	digits := 40
	if r.format == "sha256" {
		digits = 64
	}
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

// parseCommit reads the header lines of a commit object.
func (r *Repository) parseCommit(id string, text []byte) (Commit, error) {
	header, _, _ := bytes.Cut(text, []byte("\n\n"))
	lines := strings.Split(string(header), "\n")
	c := Commit{ID: id}
	c.Tree, _ = strings.CutPrefix(lines[0], "tree ")
	for _, line := range lines[1:] {
		if parent, ok := strings.CutPrefix(line, "parent "); ok {
			c.Parents = append(c.Parents, parent)
			continue
		}
		if who, ok := strings.CutPrefix(line, "committer "); ok {
			fields := strings.Fields(who[strings.LastIndexByte(who, '>')+1:])
			if len(fields) == 2 {
				c.Time, _ = strconv.ParseInt(fields[0], 10, 64)
			}
			break
		}
	}
	if !r.isID(c.Tree) || slices.ContainsFunc(c.Parents, func(p string) bool { return !r.isID(p) }) {
		return Commit{}, &RepositoryError{Code: verifier.UnknownRevision, What: fmt.Sprintf("commit %s has no tree or a malformed parent", id)}
	}
	return c, nil
}

// defaultBranches are the references that can be the default branch, best first.
var defaultBranches = []string{
	"refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master",
	"refs/heads/main", "refs/heads/master",
}

// DefaultBranch returns the name of the branch that the remote "origin" called its
// default when the repository was cloned, "" if it is not known.
func (r *Repository) DefaultBranch() string {
	text, err := readSmall(filepath.Join(r.common, "refs", "remotes", "origin", "HEAD"), maxPointer)
	if err != nil {
		return ""
	}
	name, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "ref: refs/remotes/origin/")
	if !ok {
		return ""
	}
	return name
}

// Base finds what head is compared with: the revision explicit, exactly as
// given; else the merge base with the default branch; if that is head itself,
// or there is no default branch, the first parent; for a root commit the empty
// tree. If a shallow clone lacks it, the error has the code shallow-clone.
func (r *Repository) Base(ctx context.Context, head Commit, explicit string) (Base, error) {
	if explicit != "" {
		c, err := r.Resolve(ctx, explicit)
		if err != nil {
			return Base{}, err
		}
		return Base{c, "as given: " + strconv.Quote(explicit), true}, nil
	}
	found, err := r.resolve(ctx, defaultBranches...)
	if err != nil {
		return Base{}, err
	}
	i := slices.IndexFunc(found, func(c Commit) bool { return c.ID != "" })
	if i < 0 {
		return r.firstParent(ctx, head, "there is no default branch", false)
	}
	branch := strings.TrimPrefix(strings.TrimPrefix(defaultBranches[i], "refs/remotes/"), "refs/heads/")
	if found[i].ID == head.ID {
		return r.firstParent(ctx, head, "head is "+branch, true)
	}
	id, err := r.mergeBase(ctx, head.ID, found[i].ID)
	if err != nil {
		return Base{}, err
	}
	switch {
	case id == head.ID:
		return r.firstParent(ctx, head, "head is part of "+branch, true)
	case id != "":
		c, err := r.Resolve(ctx, id)
		return Base{c, "merge base with " + branch, true}, err
	case r.shallow:
		return Base{}, r.shallowError("the merge base with "+branch+" is not in this shallow clone", "git fetch --unshallow origin")
	}
	return Base{}, &RepositoryError{Code: verifier.UnknownRevision, What: "head and " + branch + " have no commit in common", Fix: "name the base with --base"}
}

// ontoBase finds where head leaves the revision that it is to land on.
func (r *Repository) ontoBase(ctx context.Context, head Commit, onto string) (Base, error) {
	c, err := r.Resolve(ctx, onto)
	if err != nil {
		return Base{}, err
	}
	id, err := r.mergeBase(ctx, head.ID, c.ID)
	switch {
	case err != nil:
		return Base{}, err
	case id != "":
		c, err = r.Resolve(ctx, id)
		return Base{c, "merge base with " + strconv.Quote(onto), true}, err
	case r.shallow:
		return Base{}, r.shallowError("the merge base with "+onto+" is not in this shallow clone", "git fetch --unshallow origin")
	}
	return Base{}, &RepositoryError{Code: verifier.UnknownRevision, What: "head and " + onto + " have no commit in common"}
}

func (r *Repository) firstParent(ctx context.Context, head Commit, why string, protected bool) (Base, error) {
	if len(head.Parents) == 0 {
		return r.EmptyBase("head is a root commit"), nil
	}
	parent, err := r.resolve(ctx, head.Parents[0])
	if err != nil {
		return Base{}, err
	}
	if parent[0].ID != "" {
		return Base{parent[0], "first parent: " + why, protected}, nil
	}
	what := fmt.Sprintf("the parent %s of %s is not in this repository", head.Parents[0], head.ID)
	if r.shallow {
		return Base{}, r.shallowError(what, "git fetch --deepen=1 origin "+head.ID)
	}
	return Base{}, &RepositoryError{Code: verifier.UnknownRevision, What: what, Fix: "run git fsck"}
}

// EmptyBase is the base that has no files.
func (r *Repository) EmptyBase(how string) Base {
	return Base{Commit: Commit{Tree: r.emptyTree()}, How: "empty tree: " + how}
}

func (r *Repository) emptyTree() string {
	h := r.newHash("tree", 0)
	return hex.EncodeToString(h.Sum(nil))
}

// mergeBase returns the best common ancestor of two commits, or "".
func (r *Repository) mergeBase(ctx context.Context, a, b string) (string, error) {
	var out bytes.Buffer
	err := r.run(ctx, nil, &out, "merge-base", a, b)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(out.String())
	if !r.isID(id) {
		return "", fmt.Errorf("git merge-base: unexpected answer %q", id)
	}
	return id, nil
}
