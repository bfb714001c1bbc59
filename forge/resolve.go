package forge

import (
	"context"
	"fmt"
	"strings"
)

// TargetOptions say what [Client.Target] may be told beside the event.
type TargetOptions struct {
	// Tree is which tree of a pull request is tested: "merge" (the default), what
	// there would be after the merge, or "head", the patch's own.
	Tree string
	// Tested is the merge that a trusted job of this run found earlier, so that all
	// of its jobs are about one. It is checked as the forge's own is.
	Tested string
	// Workflows are the paths of the workflows whose runs a workflow_run may be
	// about; none: any.
	Workflows []string
	// Hint is the number of a pull request that an artifact names. It is looked at
	// last, and counts only if the forge confirms it.
	Hint int
}

// The trees of a pull request.
const (
	TreeMerge = "merge"
	TreeHead  = "head"
)

// Target says what a bundle has to be about, from the event of the job and what
// the API says, and where its report goes.
//
//	event                  commit, head   tested                    base                     policy
//	pull_request           pull's head    merge that the run is of  its first parent         base
//	pull_request_target    pull's head    merge that the API names  its first parent         base
//	either, of the head    pull's head    head                      merge base with branch   event's base
//	merge_group            group's head   head                      group's base             base, or tip
//	push to branch         after          head                      before, or a merge base  before, or tip
//	workflow_run           run's head     head                      merge base with branch   pull's base
//	any other              its commit     head                      not known                tip
//
// A merge is what it says it is only if its second parent is the head and its first
// one is on the base branch. Policy never comes from a commit that is not on a
// protected branch: where the one of the table is not, it is the branch's tip, and a
// note says so. Protected is the base branch of a pull request, the pushed branch
// if the platform says that it has protection, and the default branch otherwise.
// Revocations are better read from Tip, which a run that is repeated late knows too.
func (c *Client) Target(ctx context.Context, payload []byte, o TargetOptions) (Target, error) {
	t, err := c.target(ctx, payload, o)
	if err != nil {
		return Target{}, fmt.Errorf("target: %w", err)
	}
	return t, nil
}

func (c *Client) target(ctx context.Context, payload []byte, o TargetOptions) (Target, error) {
	if o.Tree == "" {
		o.Tree = TreeMerge
	}
	switch {
	case o.Tree != TreeMerge && o.Tree != TreeHead:
		return Target{}, fmt.Errorf("tree: %s is neither merge nor head", quote(o.Tree))
	case o.Tested != "" && !isCommit(o.Tested):
		return Target{}, fmt.Errorf("tested: %s is not a commit id", quote(o.Tested))
	}
	e, err := parseEvent(c.job.Event, payload)
	if err != nil {
		return Target{}, err
	}
	ctx, done := c.bound(ctx)
	defer done()
	r := resolution{Client: c, ctx: ctx, o: o, event: e}
	if c.job.Gitea() {
		err = r.gitea()
	} else {
		err = r.github()
	}
	if err != nil {
		return Target{}, err
	}
	return r.Target, nil
}

// A resolution is a Target on its way.
type resolution struct {
	*Client
	Target
	ctx   context.Context
	o     TargetOptions
	event event
}

func (r *resolution) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *resolution) github() error {
	if err := r.resolve(); err != nil {
		return err
	}
	k, err := r.commit(r.ctx, r.Tested)
	if err != nil {
		return err
	}
	r.Tree = k.tree
	return nil
}

func (r *resolution) resolve() error {
	switch r.job.Event {
	case "pull_request":
		return r.pullRequest(r.job.SHA)
	case "pull_request_target":
		return r.pullRequest("")
	case "merge_group":
		return r.mergeGroup()
	case "push":
		return r.push()
	case "workflow_run":
		return r.workflowRun()
	case "release":
		return r.release()
	}
	return r.alone(r.job.SHA)
}

// pullRequest resolves an event of a pull request; merge is the merge that the run
// is of, "" if it is of another commit.
func (r *resolution) pullRequest(merge string) error {
	e := r.event.PullRequest
	if e.Base.Repo.ID != r.job.RepositoryID {
		return fmt.Errorf("pull request %d is into repository %d, and the job is of %d", e.Number, e.Base.Repo.ID, r.job.RepositoryID)
	}
	p := fromEvent(e)
	r.Commit, r.Head = p.Head, p.Head
	// The workflow of a fork's own run came from the fork. That of a
	// pull_request_target came from the base.
	r.Unattested = p.Fork && r.job.Event == "pull_request"
	var err error
	if r.o.Tree == TreeHead {
		err = r.headAlone(p)
	} else {
		err = r.mergeOf(p, merge)
	}
	if err != nil {
		return err
	}
	if now, err := r.pull(r.ctx, p.Number); err != nil {
		// The event is enough to go on; what posts asks again.
		r.note("whether the head has moved could not be asked: %v", err)
	} else if now.Head != p.Head {
		p.Stale = true
		r.note("pull request %d has another head by now: %s", p.Number, now.Head)
	}
	r.Pulls = []Pull{p}
	return nil
}

// mergeOf takes the merge that was given, that the run is of, or that the forge
// names, in this order.
func (r *resolution) mergeOf(p Pull, merge string) error {
	if r.o.Tested != "" {
		merge = r.o.Tested
	}
	if merge == "" {
		var err error
		if merge, err = r.merged(r.ctx, p); err != nil {
			return err
		}
	}
	k, err := r.commit(r.ctx, merge)
	if err != nil {
		return err
	}
	if len(k.parents) != 2 || k.parents[1] != p.Head {
		return fmt.Errorf("commit %s is not a merge of the head %s: its parents are %s", merge, p.Head, strings.Join(k.parents, ", "))
	}
	r.Tested, r.Base, r.BaseKnown = merge, k.parents[0], true
	on, err := r.protected(p.BaseBranch, r.Base)
	if err == nil && !on {
		err = fmt.Errorf("the base %s of the merge is not on the branch %s", r.Base, quote(p.BaseBranch))
	}
	return err
}

// headAlone resolves the head of a pull request without its merge.
func (r *resolution) headAlone(p Pull) error {
	r.Tested = p.Head
	on, err := r.protected(p.BaseBranch, p.Base)
	if err != nil {
		return err
	}
	if !on {
		r.note("the base %s that the forge names is not on the branch any more: the policy is that of its tip", p.Base)
	}
	if r.Base, err = r.mergeBase(r.ctx, r.Tip, p.Head); err != nil {
		return err
	}
	r.BaseKnown = true
	return nil
}

// protected sets the branch whose word counts, its tip, and the policy: from the
// commit if that is on the branch, and from the tip otherwise.
func (r *resolution) protected(branch, commit string) (on bool, err error) {
	r.Branch = branch
	if r.Tip, err = r.tip(r.ctx, branch); err != nil {
		return false, err
	}
	r.Policy = r.Tip
	if commit == "" {
		return false, nil
	}
	base, err := r.mergeBase(r.ctx, commit, r.Tip)
	if err != nil && !unknown(err) {
		return false, err
	}
	if base != commit {
		return false, nil
	}
	r.Policy = commit
	return true, nil
}

// unknown reports whether the forge has no such commit, or nothing that connects
// two of them.
func unknown(err error) bool { return hasStatus(err, 404) || hasStatus(err, 422) }

func (r *resolution) mergeGroup() error {
	g := r.event.MergeGroup
	r.Commit, r.Head, r.Tested = g.HeadSHA, g.HeadSHA, g.HeadSHA
	r.Base, r.BaseKnown = g.BaseSHA, true
	branch := strings.TrimPrefix(g.BaseRef, "refs/heads/")
	on, err := r.protected(branch, g.BaseSHA)
	if err != nil {
		return err
	}
	if !on {
		// The group is behind another one, which has not landed.
		r.note("the base %s of the group is not on %s yet: the policy is that of its tip", g.BaseSHA, quote(branch))
	}
	// A group may hold several pull requests, and each had its own report.
	if m := queueRef().FindStringSubmatch(g.HeadRef); m != nil && m[1] == branch {
		r.note("the merge queue's group up to pull request %s", m[2])
	}
	return nil
}

func (r *resolution) release() error {
	id, err := r.tagged(r.ctx, r.event.Release.TagName)
	if err != nil {
		return err
	}
	return r.alone(id)
}

// alone resolves what is about one commit, without a patch that it would be of.
func (r *resolution) alone(id string) error {
	r.Commit, r.Head, r.Tested = id, id, id
	branch, err := r.defaultBranch()
	if err != nil {
		return err
	}
	_, err = r.protected(branch, "")
	return err
}

func (r *resolution) defaultBranch() (string, error) {
	if repo := r.event.Repository; repo != nil && repo.DefaultBranch != "" {
		return repo.DefaultBranch, checkRef("repository.default_branch", repo.DefaultBranch)
	}
	return "", missing("repository.default_branch")
}
