package runner

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/prepush"
	"github.com/truegreen-dev/truegreen/verifier"
)

// A Push is what git push would bring to a remote. All its commits are read by one
// [Repository], so that what they have in common is read once.
type Push struct {
	Tips []Tip // each commit once, in the order in which Git named them

	repo   *Repository
	remote string
	has    []string // commits of which the remote said that it has them

	selected map[[3]string]*selected // by tree and base
}

// A Tip is what references of the remote are to become.
type Tip struct {
	Commit
	Refs []string // of the remote
	Kind string   // "commit", or what there is in its place: "tree", "blob", or "" for nothing
	// There: the remote has the commit, by what it said itself and by the references that
	// were fetched from it.
	There bool
}

// OpenPush opens the repository that dir is in, which may be a Git directory, and looks at
// what is pushed. Notes are left out: nobody builds them. Close it after use.
func OpenPush(ctx context.Context, dir, remote string, updates []prepush.Update) (*Push, error) {
	repo, err := OpenRepository(ctx, dir)
	if err != nil {
		return nil, err
	}
	p := &Push{repo: repo, remote: remote}
	if err = p.peel(ctx, updates); err == nil {
		err = p.compare(ctx)
	}
	if err != nil {
		repo.Close()
		return nil, err
	}
	return p, nil
}

// Close releases the repository.
func (p *Push) Close() error { return p.repo.Close() }

// Repository returns the name of the repository in patch documents.
func (p *Push) Repository() string { return p.repo.Name() }

// peel finds the commits of what is pushed, and those that the remote said it has.
func (p *Push) peel(ctx context.Context, updates []prepush.Update) error {
	var ids, refs, old []string
	for _, u := range updates {
		if !u.Deletes() && !strings.HasPrefix(u.Remote, "refs/notes/") {
			ids, refs = append(ids, u.LocalID), append(refs, u.Remote)
		}
		if !u.Creates() {
			old = append(old, u.RemoteID+"^{commit}")
		}
	}
	for _, id := range ids {
		if !p.repo.isID(id) {
			return &RepositoryError{Code: verifier.UnknownRevision, What: fmt.Sprintf("%q is no id of the object format %s", id, p.repo.format)}
		}
	}
	commits, err := p.repo.resolve(ctx, ids...)
	if err != nil {
		return err
	}
	at := map[string]int{}
	for i, c := range commits {
		key := cmp.Or(c.ID, ids[i])
		n, ok := at[key]
		if !ok {
			n = len(p.Tips)
			at[key] = n
			p.Tips = append(p.Tips, Tip{Commit: c, Kind: "commit"})
			if c.ID == "" {
				p.Tips[n] = Tip{Commit: Commit{ID: ids[i]}}
			}
		}
		p.Tips[n].Refs = append(p.Tips[n].Refs, refs[i])
	}
	if err := p.kinds(ctx); err != nil {
		return err
	}
	// What the remote has and this repository has not, says nothing here.
	return p.repo.kinds(ctx, old, func(_ int, o object) error {
		if o.kind == "commit" {
			p.has = append(p.has, o.id)
		}
		return nil
	})
}

// kinds says of the tips that are no commits what they are.
func (p *Push) kinds(ctx context.Context) error {
	var names []string
	var tips []*Tip
	for i := range p.Tips {
		if t := &p.Tips[i]; t.Kind == "" {
			names, tips = append(names, t.ID+"^{}"), append(tips, t)
		}
	}
	return p.repo.kinds(ctx, names, func(i int, o object) error {
		tips[i].Kind = o.kind
		return nil
	})
}

// compare finds out which tips the remote has.
func (p *Push) compare(ctx context.Context) error {
	var ids []string
	for _, t := range p.Tips {
		if t.Kind == "commit" {
			ids = append(ids, t.ID)
		}
	}
	lacks, err := p.lacks(ctx, ids)
	for i := range p.Tips {
		p.Tips[i].There = err == nil && p.Tips[i].Kind == "commit" && !lacks[p.Tips[i].ID]
	}
	return err
}

// lacks returns those of the commits that the remote does not have.
func (p *Push) lacks(ctx context.Context, ids []string) (map[string]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var in bytes.Buffer
	asked := map[string]bool{}
	for _, id := range ids {
		asked[id] = true
		fmt.Fprintln(&in, id)
	}
	for _, id := range p.has {
		fmt.Fprintln(&in, "^"+id)
	}
	args := []string{"rev-list", "--stdin"}
	// A push by URL has no references that were fetched. What Git would take for a
	// pattern is the name of no remote.
	if p.remote != "" && !strings.ContainsAny(p.remote, "*?[\\\n\x00") {
		args = append(args, "--not", "--remotes="+p.remote)
	}
	// All the history can be new: what was not asked about is forgotten.
	lacks := map[string]bool{}
	var rest []byte
	err := p.repo.run(ctx, &in, writerFunc(func(b []byte) (int, error) {
		rest = append(rest, b...)
		for {
			line, more, ok := bytes.Cut(rest, []byte("\n"))
			if !ok {
				break
			}
			if asked[string(line)] {
				lacks[string(line)] = true
			}
			rest = more
		}
		rest = bytes.Clone(rest)
		return len(b), nil
	}), args...)
	return lacks, err
}

// A selected is what tips with one tree and one base have in common.
type selected struct {
	*Selection
	unchanged bool
	err       error
}

// Select resolves base and configuration of a tip as [Select] does. Unlike there, the
// base may have the same tree: unchanged says that it does, and that the remote has it, so
// that there is nothing to test. Tips with one tree and one base, as hundreds of branches
// can be, get the same selection, whose head is one of them. It needs no closing.
func (p *Push) Select(ctx context.Context, t *Tip) (s *Selection, unchanged bool, err error) {
	n := &selected{Selection: &Selection{Head: t.Commit, repo: p.repo, configFile: verifier.ConfigFile}}
	if n.Base, err = p.repo.Base(ctx, t.Commit, ""); err != nil {
		head, err := p.repo.Names(ctx, t.Tree)
		if err == nil {
			n.Base, err = n.base(ctx, Options{}, head)
		}
		if err != nil {
			return nil, false, err
		}
	}
	key := [...]string{t.Tree, n.Base.ID, fmt.Sprint(n.Base.Protected)}
	if known := p.selected[key]; known != nil {
		return known.Selection, known.unchanged, known.err
	}
	if p.selected == nil {
		p.selected = map[[3]string]*selected{}
	}
	p.selected[key] = n
	n.unchanged, n.err = p.unchanged(ctx, n.Selection)
	if n.err == nil && !n.unchanged {
		var head Listing
		if head, n.err = p.repo.Names(ctx, t.Tree); n.err == nil {
			n.err = n.configure(ctx, Options{}, head)
		}
	}
	return n.Selection, n.unchanged, n.err
}

// unchanged reports whether the base has the tree of the head, and the remote the base.
func (p *Push) unchanged(ctx context.Context, s *Selection) (bool, error) {
	if s.Base.ID == "" || s.Base.Tree != s.Head.Tree {
		return false, nil
	}
	lacks, err := p.lacks(ctx, []string{s.Base.ID})
	return err == nil && !lacks[s.Base.ID], err
}
