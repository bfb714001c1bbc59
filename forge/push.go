package forge

import (
	"errors"
	"strings"
)

// ErrNoCommit says that an event leaves no commit to speak of, such as the
// deletion of a branch.
var ErrNoCommit = errors.New("nothing was pushed: the ref was deleted")

func (r *resolution) push() error {
	if zeroID().MatchString(r.event.After) {
		return ErrNoCommit
	}
	branch, isBranch := strings.CutPrefix(r.event.Ref, "refs/heads/")
	if !isBranch {
		kind := "commit"
		if strings.HasPrefix(r.event.Ref, "refs/tags/") {
			kind = "tag"
		}
		id, err := r.pushedTag(kind)
		if err != nil {
			return err
		}
		return r.alone(id)
	}
	r.Commit, r.Head, r.Tested = r.event.After, r.event.After, r.event.After
	if err := r.pushBase(branch); err != nil {
		return err
	}
	all, err := r.pullsOf(r.ctx, r.Head)
	if err != nil {
		// The status and the summary need no pull request.
		r.note("which pull requests have this head could not be asked: %v", err)
		return nil
	}
	for _, f := range all {
		if f.Head == r.Head && f.HeadRepositoryID == r.job.RepositoryID && len(r.Pulls) < maxPulls {
			r.Pulls = append(r.Pulls, f.Pull)
		}
	}
	return nil
}

// pushedTag returns the commit of what was pushed: of a tag, after may be the id of
// the tag's own object.
func (r *resolution) pushedTag(kind string) (string, error) {
	if kind == "commit" {
		return r.event.After, nil
	}
	if _, err := r.commit(r.ctx, r.event.After); err == nil {
		return r.event.After, nil
	} else if !unknown(err) {
		return "", err
	}
	return r.peel(r.ctx, r.event.After, kind)
}

// pushBase finds what a push starts from. That is what the branch was before, if
// the push goes on from there; after a force-push it is where the two part; and for
// a new branch, or one whose past is gone, where it leaves the default branch.
func (r *resolution) pushBase(branch string) error {
	trunk, err := r.defaultBranch()
	if err != nil {
		return err
	}
	before := r.event.Before
	if !zeroID().MatchString(before) {
		base, err := r.mergeBase(r.ctx, before, r.Head)
		switch {
		case err != nil && !unknown(err):
			return err
		case err != nil:
			r.note("the forge does not know what the branch was before, %s", before)
			before = ""
		default:
			if base != before {
				r.note("the push replaced commits: %s was not an ancestor", before)
			}
			r.Base, r.BaseKnown = base, true
		}
	} else {
		before = ""
	}
	// What was on a branch before the push is its own policy only if the branch is
	// one that takes rights to change.
	if before != "" && (branch == trunk || r.job.Protected) {
		if _, err := r.protected(branch, before); err != nil {
			return err
		}
		if r.Policy != before {
			// The tip is what was pushed, or follows it: that would judge itself.
			r.Policy = r.Base
		}
		return nil
	}
	if _, err := r.protected(trunk, ""); err != nil {
		return err
	}
	if r.Base == "" {
		base, err := r.mergeBase(r.ctx, r.Tip, r.Head)
		if err != nil && !unknown(err) {
			return err
		}
		r.Base, r.BaseKnown = base, base != "" && base != r.Head
	}
	return nil
}
