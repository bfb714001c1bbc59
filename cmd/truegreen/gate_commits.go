package main

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"

	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// commits finds the commits that need evidence: the tag's, and those since the last
// release. history begins with the tag's.
func (r *release) commits(ctx context.Context, f *gateFlags, history []runner.Commit) error {
	g := &r.gate
	since, err := r.last(ctx, f, history)
	if err != nil {
		return err
	}
	until := 1 // a first release: its tree alone
	if since != "" {
		g.Tag.Since = since
		if until, err = r.until(ctx, history, since); err != nil {
			return err
		}
	}
	base := baseTrees(history, r.repo.EmptyBase("").Tree)
	for _, c := range history[:max(until, 1)] {
		row := verifier.GateCommit{ID: c.ID, Tree: c.Tree, Base: base[c.ID], Root: len(c.Parents) == 0}
		if len(g.Policy.SecondSigner) > 0 && !row.Root {
			parent, err := r.repo.Resolve(ctx, c.Parents[0])
			if err != nil {
				return err
			}
			if row.Changed, err = r.repo.Changed(ctx, parent.Tree, c.Tree); err != nil {
				return err
			}
		}
		g.Commits = append(g.Commits, row)
	}
	if f.all && !g.Tag.Rewritten && since != "" {
		if err := r.others(ctx, history[0], since); err != nil {
			return err
		}
	}
	for _, c := range g.Commits {
		r.needed[c.Tree] = true
	}
	return nil
}

// until returns how many commits of a history are not part of the last release's. That
// may have been made from a branch which was merged since.
func (r *release) until(ctx context.Context, history []runner.Commit, since string) (int, error) {
	contains, err := r.repo.Contains(ctx, history[0], since)
	if err != nil {
		return 0, err
	}
	if r.gate.Tag.Rewritten = !contains; !contains {
		return 1, nil
	}
	later, err := r.repo.Since(ctx, history[0], since)
	if err != nil {
		return 0, err
	}
	is := make(map[string]bool, len(later))
	for _, c := range later {
		is[c.ID] = true
	}
	n := slices.IndexFunc(history, func(c runner.Commit) bool { return !is[c.ID] })
	if n < 0 {
		n = len(history)
	}
	return n, nil
}

// others adds the commits that came in with merges.
func (r *release) others(ctx context.Context, tag runner.Commit, since string) error {
	all, err := r.repo.Since(ctx, tag, since)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, c := range r.gate.Commits {
		have[c.ID] = true
	}
	for _, c := range all {
		if have[c.ID] {
			continue
		}
		row := verifier.GateCommit{ID: c.ID, Tree: c.Tree, Base: r.repo.EmptyBase("").Tree, Root: len(c.Parents) == 0}
		if !row.Root {
			parent, err := r.repo.Resolve(ctx, c.Parents[0])
			if err != nil {
				return err
			}
			row.Base = parent.Tree
			if len(r.gate.Policy.SecondSigner) > 0 {
				if row.Changed, err = r.repo.Changed(ctx, parent.Tree, c.Tree); err != nil {
					return err
				}
			}
		}
		r.gate.Commits = append(r.gate.Commits, row)
	}
	return nil
}

// baseTrees says which tree the evidence for a commit has to be relative to: that of the
// nearest first parent with another one.
func baseTrees(history []runner.Commit, empty string) map[string]string {
	base := make(map[string]string, len(history))
	for i := len(history) - 1; i >= 0; i-- {
		c := history[i]
		switch {
		case i == len(history)-1:
			base[c.ID] = empty
		case history[i+1].Tree != c.Tree:
			base[c.ID] = history[i+1].Tree
		default:
			base[c.ID] = base[history[i+1].ID]
		}
	}
	return base
}

// last finds the last release: the given one, or the nearest commit before with a tag.
// Where tags have to be signed, others are none.
func (r *release) last(ctx context.Context, f *gateFlags, history []runner.Commit) (string, error) {
	if f.since != "" {
		tag, err := r.repo.Tag(ctx, f.since)
		if err == nil {
			return tag.Commit.ID, nil
		}
		c, err := r.repo.Resolve(ctx, f.since)
		return c.ID, err
	}
	tags, err := r.repo.TagsOf(ctx)
	if err != nil {
		return "", err
	}
	g := &r.gate
	for _, c := range history[1:] {
		for _, name := range tags[c.ID] {
			if len(g.Policy.TagSigners) == 0 {
				return c.ID, nil
			}
			tag, err := r.repo.Tag(ctx, name)
			if err != nil || tag.Object == nil || tag.Commit.ID != c.ID {
				continue
			}
			object, err := verifier.ParseGitTag(tag.Object)
			if err != nil || "refs/tags/"+object.Name != tag.Ref {
				continue
			}
			if _, err := object.By(g.Policy.TagSigners, g.Signers, g.Revoked, g.Now); err == nil {
				return c.ID, nil
			}
		}
	}
	return "", nil
}

// configs are the configurations at the commits of the protected branch, each read once.
type configs struct {
	repo    *runner.Repository
	commits []runner.Commit

	mu    sync.Mutex
	trees map[string]string // of commits
	known map[string]config // of trees
}

type config struct {
	doc      []byte
	detected bool
	bad      error
}

// at returns the configuration at a commit, and whether that is on the branch.
func (s *configs) at(ctx context.Context, commit string) (config, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trees == nil {
		s.trees, s.known = make(map[string]string, len(s.commits)), map[string]config{}
		for _, c := range s.commits {
			s.trees[c.ID] = c.Tree
		}
	}
	tree, ok := s.trees[commit]
	if !ok {
		return config{}, false, nil
	}
	if c, ok := s.known[tree]; ok {
		return c, true, nil
	}
	parsed := verifier.DefaultConfig()
	text, err := s.repo.File(ctx, tree, verifier.ConfigFile, 64<<10)
	var c config
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return config{}, false, err
	default:
		parsed, c.bad = verifier.ParseConfig(text)
	}
	if c.bad == nil {
		c.detected = len(parsed.Test) == 0
		c.doc, c.bad = parsed.Document()
	}
	s.known[tree] = c
	return c, true, nil
}
