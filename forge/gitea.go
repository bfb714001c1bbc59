package forge

import (
	"fmt"
	"strings"
)

// gitea resolves what Gitea's events say by themselves: its API has no comparison
// that names a common ancestor, and its runs of a pull request are of the head.
func (r *resolution) gitea() error {
	switch r.job.Event {
	case "pull_request", "pull_request_target":
		e := r.event.PullRequest
		if e.Base.Repo.FullName != r.job.Repository {
			return fmt.Errorf("pull request %d is into %s, and the job is of %s", e.Number, quote(e.Base.Repo.FullName), r.job.Repository)
		}
		p := fromEvent(e)
		r.Pulls = []Pull{p}
		r.Commit, r.Policy, r.Branch = p.Head, p.Base, p.BaseBranch
		r.Unattested = p.Fork && r.job.Event == "pull_request"
	case "push":
		if zeroID().MatchString(r.event.After) {
			return ErrNoCommit
		}
		r.Commit, r.Branch = r.event.After, strings.TrimPrefix(r.event.Ref, "refs/heads/")
		if !zeroID().MatchString(r.event.Before) {
			r.Policy = r.event.Before
		}
	default:
		r.Commit = r.job.SHA
	}
	r.Head, r.Tested = r.Commit, r.Commit
	r.note("this forge does not say where branches part: the base is not checked")
	return nil
}
