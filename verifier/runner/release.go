package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/verifier"
)

// A Tag is a tag of the repository, peeled to its commit.
type Tag struct {
	Ref    string // refs/tags/NAME
	Object []byte // the tag object of an annotated tag, nil for a lightweight one
	Commit Commit
}

const (
	maxTagObject = 1 << 20
	maxHistory   = 1 << 20 // commits of a branch that are looked at
	maxTags      = 1 << 16
)

// Tag reads a tag. An annotated one has to be of a commit, and not of another tag:
// whoever signs a tag of a tag has not said what is to be released.
func (r *Repository) Tag(ctx context.Context, name string) (Tag, error) {
	name = strings.TrimPrefix(name, "refs/tags/")
	t := Tag{Ref: "refs/tags/" + name}
	no := func(why string) error {
		return &RepositoryError{Code: verifier.UnknownRevision, What: fmt.Sprintf("tag %q", name), Err: errors.New(why)}
	}
	if strings.ContainsAny(name, "^~:?*[\\ ") || strings.Contains(name, "..") || strings.Contains(name, "@{") || name == "" {
		return Tag{}, no("not the name of a tag")
	}
	if _, err := r.revision(t.Ref); err != nil {
		return Tag{}, no(err.Error())
	}
	commit := ""
	err := r.objects(ctx, []string{t.Ref}, func(_ int, o object) (err error) {
		switch o.kind {
		case "commit":
			commit = o.id
			return nil
		case "tag":
		case "":
			return no("there is none; a clone may have to fetch it: git fetch --tags")
		default:
			return no("it is the tag of a " + o.kind + ", and a release is a commit")
		}
		if t.Object, err = r.content(o, maxTagObject); err != nil {
			return err
		}
		parsed, err := verifier.ParseGitTag(t.Object)
		switch {
		case err != nil:
			return no(err.Error())
		case parsed.Type != "commit":
			return no("it is the tag of a " + parsed.Type + ", and a release is a commit")
		}
		commit = parsed.Object
		return nil
	})
	if err != nil {
		return Tag{}, err
	}
	t.Commit, err = r.Resolve(ctx, commit)
	if err != nil {
		return Tag{}, err
	}
	return t, nil
}

// TagsOf returns the names of the tags of each commit.
func (r *Repository) TagsOf(ctx context.Context) (map[string][]string, error) {
	var out bytes.Buffer
	if err := r.run(ctx, nil, &out, "for-each-ref", fmt.Sprintf("--count=%d", maxTags+1), "--format=%(objectname) %(*objectname) %(refname)", "refs/tags"); err != nil {
		return nil, err
	}
	tags := make(map[string][]string)
	n := 0
	for line := range strings.Lines(out.String()) {
		if n++; n > maxTags {
			return nil, &RepositoryError{Code: verifier.TreeTooLarge, What: fmt.Sprintf("more than %d tags", maxTags), Fix: "name the last release with --since"}
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(fields) != 3 {
			return nil, fmt.Errorf("git for-each-ref: unexpected answer %q", line)
		}
		id := fields[0]
		if fields[1] != "" {
			id = fields[1]
		}
		tags[id] = append(tags[id], strings.TrimPrefix(fields[2], "refs/tags/"))
	}
	return tags, nil
}

// FirstParents returns a commit and its first parents, newest first, up to a commit
// without one. Each is read and hashed. It refuses a history that the clone does not
// have to its end.
func (r *Repository) FirstParents(ctx context.Context, from Commit) ([]Commit, error) {
	commits, err := r.revList(ctx, "--first-parent", from.ID)
	if err != nil {
		return nil, err
	}
	for i, c := range commits {
		switch {
		case i == 0 && c.ID == from.ID:
		case i > 0 && len(commits[i-1].Parents) > 0 && commits[i-1].Parents[0] == c.ID:
		default:
			return nil, &RepositoryError{Code: verifier.CorruptObject, What: fmt.Sprintf("commit %s: git says that it comes next, and its child says another", c.ID)}
		}
	}
	if last := commits[len(commits)-1]; len(last.Parents) > 0 {
		return nil, r.cut(last)
	}
	return commits, nil
}

// Since returns the commits of a history that are not of another, newest first.
func (r *Repository) Since(ctx context.Context, from Commit, not string) ([]Commit, error) {
	args := []string{"--topo-order", from.ID}
	if not != "" {
		args = append(args, "^"+not)
	}
	return r.revList(ctx, args...)
}

// Contains reports whether a commit is part of the history of another.
func (r *Repository) Contains(ctx context.Context, of Commit, commit string) (bool, error) {
	id, err := r.mergeBase(ctx, of.ID, commit)
	return id == commit, err
}

func (r *Repository) cut(last Commit) error {
	what := fmt.Sprintf("the parent %s of %s is not in this repository", last.Parents[0], last.ID)
	if r.shallow {
		return r.shallowError(what, "git fetch --unshallow origin")
	}
	return &RepositoryError{Code: verifier.UnknownRevision, What: what, Fix: "run git fsck"}
}

// revList reads the commits that git rev-list names.
func (r *Repository) revList(ctx context.Context, args ...string) ([]Commit, error) {
	var out bytes.Buffer
	if err := r.run(ctx, nil, &out, append([]string{"rev-list", fmt.Sprintf("--max-count=%d", maxHistory+1)}, args...)...); err != nil {
		return nil, err
	}
	ids := strings.Fields(out.String())
	if len(ids) > maxHistory {
		return nil, &RepositoryError{Code: verifier.TreeTooLarge, What: fmt.Sprintf("more than %d commits", maxHistory)}
	}
	for _, id := range ids {
		if !r.isID(id) {
			return nil, fmt.Errorf("git rev-list: unexpected answer %q", id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	commits, err := r.resolve(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for i, c := range commits {
		if c.ID != ids[i] {
			return nil, r.unknown(ids[i])
		}
	}
	return commits, nil
}

// Branch returns the commit of the branch that a release is made from, and its name: the
// revision explicit, or the default branch.
func (r *Repository) Branch(ctx context.Context, explicit string) (Commit, string, error) {
	if explicit != "" {
		c, err := r.Resolve(ctx, explicit)
		return c, explicit, err
	}
	found, err := r.resolve(ctx, defaultBranches...)
	if err != nil {
		return Commit{}, "", err
	}
	i := slices.IndexFunc(found, func(c Commit) bool { return c.ID != "" })
	if i < 0 {
		return Commit{}, "", &RepositoryError{Code: verifier.UnknownRevision, What: "there is no default branch", Fix: "name the protected branch with --branch"}
	}
	return found[i], strings.TrimPrefix(strings.TrimPrefix(defaultBranches[i], "refs/remotes/"), "refs/heads/"), nil
}

// File returns the content of a file in a tree, and [fs.ErrNotExist] where there is none.
func (r *Repository) File(ctx context.Context, tree, path string, limit int64) ([]byte, error) {
	l, err := r.Names(ctx, tree)
	if err != nil {
		return nil, err
	}
	e, ok := l.Find(path)
	if !ok || e.Gitlink() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	return r.ReadFile(ctx, l, path, limit)
}

// Changed returns the paths in which two trees differ, in order.
func (r *Repository) Changed(ctx context.Context, a, b string) ([]string, error) {
	from, err := r.Names(ctx, a)
	if err != nil {
		return nil, err
	}
	to, err := r.Names(ctx, b)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, x := range from.Entries {
		if y, ok := to.Find(x.Path); !ok || y.ID != x.ID || y.Mode != x.Mode {
			paths = append(paths, x.Path)
		}
	}
	for _, y := range to.Entries {
		if _, ok := from.Find(y.Path); !ok {
			paths = append(paths, y.Path)
		}
	}
	slices.Sort(paths)
	return paths, nil
}
