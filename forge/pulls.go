package forge

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/go-github/v60/github"
)

// maxPulls is how many pull requests one commit is shown on.
const maxPulls = 10

// A found pull request is one that the API told of, with what decides whether it
// is the one that a run is about.
type found struct {
	Pull
	open   bool
	baseID int64  // of the base's repository
	merge  string // commit of the merge; "": none
	can    *bool  // whether there can be a merge; nil: the forge does not know yet
}

func fromAPI(p *github.PullRequest) (found, error) {
	f := found{
		Pull: Pull{
			Number:           p.GetNumber(),
			Head:             p.GetHead().GetSHA(),
			HeadBranch:       p.GetHead().GetRef(),
			HeadRepository:   p.GetHead().GetRepo().GetFullName(),
			HeadRepositoryID: p.GetHead().GetRepo().GetID(),
			Base:             p.GetBase().GetSHA(),
			BaseBranch:       p.GetBase().GetRef(),
		},
		open:   p.GetState() == "open",
		baseID: p.GetBase().GetRepo().GetID(),
		merge:  p.GetMergeCommitSHA(),
		can:    p.Mergeable,
	}
	f.Fork = f.HeadRepositoryID != f.baseID
	switch {
	case f.Number <= 0:
		return found{}, missing("number")
	case !isCommit(f.Head):
		return found{}, notCommit("head.sha", f.Head)
	case !isCommit(f.Base):
		return found{}, notCommit("base.sha", f.Base)
	}
	if err := checkRef("base.ref", f.BaseBranch); err != nil {
		return found{}, err
	}
	if f.merge != "" && !isCommit(f.merge) {
		return found{}, notCommit("merge_commit_sha", f.merge)
	}
	return f, nil
}

func fromEvent(p *eventPull) Pull {
	pull := Pull{
		Number:           int(p.Number),
		Head:             p.Head.SHA,
		HeadBranch:       p.Head.Ref,
		HeadRepository:   p.Head.Repo.name(),
		HeadRepositoryID: p.Head.Repo.id(),
		Base:             p.Base.SHA,
		BaseBranch:       p.Base.Ref,
	}
	// A fork that is gone has no id, and is a fork.
	pull.Fork = pull.HeadRepositoryID != p.Base.Repo.ID
	return pull
}

func (c *Client) pull(ctx context.Context, number int) (found, error) {
	doing := fmt.Sprintf("read pull request %d", number)
	var got *github.PullRequest
	err := c.do(ctx, reading, doing, needPulls, func(ctx context.Context) (err error) {
		got, _, err = c.gh.PullRequests.Get(ctx, c.owner, c.name, number)
		return err
	})
	if err != nil {
		return found{}, err
	}
	f, err := fromAPI(got)
	if err == nil && f.Number != number {
		err = fmt.Errorf("the answer is about %d", f.Number)
	}
	if err != nil {
		return found{}, fmt.Errorf("%s: %w", doing, err)
	}
	return f, nil
}

// pullsOf returns the open pull requests into this repository that have, as far as
// the forge knows, the commit in them.
func (c *Client) pullsOf(ctx context.Context, commit string) ([]found, error) {
	var got []*github.PullRequest
	err := c.do(ctx, reading, "list the pull requests of "+commit, needPulls, func(ctx context.Context) (err error) {
		got, _, err = c.gh.PullRequests.ListPullRequestsWithCommit(ctx, c.owner, c.name, commit, &github.ListOptions{PerPage: 100})
		return err
	})
	return c.ours(got, err)
}

// pullsFrom returns the open pull requests into this repository from a branch.
func (c *Client) pullsFrom(ctx context.Context, owner, branch string) ([]found, error) {
	o := &github.PullRequestListOptions{State: "open", Head: owner + ":" + branch, ListOptions: github.ListOptions{PerPage: 100}}
	var got []*github.PullRequest
	err := c.do(ctx, reading, "list the pull requests from "+quote(o.Head), needPulls, func(ctx context.Context) (err error) {
		got, _, err = c.gh.PullRequests.List(ctx, c.owner, c.name, o)
		return err
	})
	return c.ours(got, err)
}

func (c *Client) ours(got []*github.PullRequest, err error) ([]found, error) {
	if err != nil {
		return nil, err
	}
	var all []found
	for _, p := range got {
		f, err := fromAPI(p)
		if err != nil {
			return nil, fmt.Errorf("pull request: %w", err)
		}
		if f.open && f.baseID == c.job.RepositoryID {
			all = append(all, f)
		}
	}
	return all, nil
}

const (
	mergeTries = 5
	mergeWait  = 2 * time.Second // doubled each time
)

// merged returns the merge commit that the forge has made of a pull request whose
// head is still the one of the event. It makes one in the background, and says so
// by not saying yet whether there can be one.
func (c *Client) merged(ctx context.Context, p Pull) (string, error) {
	wait := mergeWait
	for n := 1; ; n++ {
		f, err := c.pull(ctx, p.Number)
		switch {
		case err != nil:
			return "", err
		case f.Head != p.Head:
			return "", fmt.Errorf("pull request %d: its head was %s, and is %s by now: the run for that one reports", p.Number, p.Head, f.Head)
		case f.can == nil && n < mergeTries:
			if err := c.await(ctx, wait); err != nil {
				return "", fmt.Errorf("pull request %d: the forge has not made its merge yet: %w", p.Number, err)
			}
			wait *= 2
		case f.can == nil:
			return "", fmt.Errorf("pull request %d: the forge has not made its merge yet", p.Number)
		case !*f.can:
			// The merge that may be named is one from before the conflict.
			return "", fmt.Errorf("pull request %d: it conflicts with %s, so there is no merge to test", p.Number, quote(p.BaseBranch))
		case f.merge == "":
			return "", fmt.Errorf("pull request %d: the forge has made no merge of it", p.Number)
		default:
			return f.merge, nil
		}
	}
}

// confirm reads the pull request that something claims a run is about, and says
// whether it is: same head, from the same repository, into this one.
func (c *Client) confirm(ctx context.Context, number int, run *eventRun) (f found, why string, err error) {
	f, err = c.pull(ctx, number)
	if hasStatus(err, http.StatusNotFound) {
		return found{}, "there is none of that number", nil
	}
	if err != nil {
		return found{}, "", err
	}
	switch {
	case f.baseID != c.job.RepositoryID:
		why = "it is into another repository"
	case f.HeadRepositoryID != run.HeadRepository.id():
		why = "it comes from another repository"
	case !f.open:
		why = "it is closed"
	case f.Head != run.HeadSHA:
		f.Stale = true
		why = "its head is " + f.Head
	}
	return f, why, nil
}
