package forge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// workflowRun resolves a run that another workflow made. This job has rights that
// the other one did not have, so everything that the other one says is doubted: what
// counts is which head the platform ran, and which pull requests the API says have
// that head from that repository.
func (r *resolution) workflowRun() error {
	run := r.event.WorkflowRun
	if run.Repository != nil && run.Repository.ID != r.job.RepositoryID {
		return fmt.Errorf("run %d is of repository %d, and the job is of %d", run.ID, run.Repository.ID, r.job.RepositoryID)
	}
	if !r.o.allowed(run.Path) {
		return fmt.Errorf("run %d is of the workflow %s, which is not one of %s", run.ID, quote(run.Path), strings.Join(r.o.Workflows, ", "))
	}
	// The file of the workflow that ran the tests came with the patch.
	r.Unattested = true
	r.Run, r.RunAttempt = run.ID, max(run.Attempt, 1)
	switch run.Event {
	case "pull_request":
	case "pull_request_target":
		// The run's head is the base then: there is no sign of what was tested.
		return fmt.Errorf("run %d was started by pull_request_target, which does not say what it tested", run.ID)
	default:
		r.note("run %d was started by %s: there is no pull request", run.ID, quote(run.Event))
		return r.alone(run.HeadSHA)
	}
	r.Commit, r.Head, r.Tested = run.HeadSHA, run.HeadSHA, run.HeadSHA
	pulls, err := r.pullsOfRun(run)
	if err != nil {
		return err
	}
	if len(pulls) == 0 {
		r.note("no open pull request has the head %s: there is no comment", run.HeadSHA)
		return r.alone(run.HeadSHA)
	}
	branch, err := r.baseBranch(pulls)
	if err != nil {
		return err
	}
	for _, p := range pulls {
		if p.BaseBranch != branch {
			r.note("pull request %d has this head too, but goes into %s: it needs a run of its own", p.Number, quote(p.BaseBranch))
			continue
		}
		r.Pulls = append(r.Pulls, p)
	}
	return r.headAlone(r.Pulls[0])
}

// baseBranch chooses one branch among those that pull requests go into, because a
// report is about one base and by one policy. Whoever opens a second pull request
// with the same head does not get to choose a branch with a weaker one.
func (r *resolution) baseBranch(pulls []Pull) (string, error) {
	for _, p := range pulls {
		if p.BaseBranch != pulls[0].BaseBranch {
			trunk, err := r.defaultBranch()
			if err != nil {
				return "", err
			}
			if slices.ContainsFunc(pulls, func(p Pull) bool { return p.BaseBranch == trunk }) {
				return trunk, nil
			}
			break
		}
	}
	return pulls[0].BaseBranch, nil
}

// pullsOfRun asks in the order in which the answers can be relied on: what the
// event names, what has the branch that the run names, what has the commit, and
// last what an artifact claims.
func (r *resolution) pullsOfRun(run *eventRun) ([]Pull, error) {
	all := pullSet{r: r, run: run}
	for i := range run.PullRequests {
		// Pull requests of other repositories in the network are listed as well.
		if p := &run.PullRequests[i]; p.Number > 0 && p.Base != nil && p.Base.Repo.id() == r.job.RepositoryID {
			if err := all.confirm(int(p.Number), "the event"); err != nil {
				return nil, err
			}
		}
	}
	if all.empty() && run.HeadRepository != nil && run.HeadBranch != "" {
		owner, _, _ := strings.Cut(run.HeadRepository.FullName, "/")
		list, err := r.pullsFrom(r.ctx, owner, run.HeadBranch)
		if err != nil {
			return nil, err
		}
		if err := all.confirmAll(list, "the branch"); err != nil {
			return nil, err
		}
	}
	if all.empty() {
		if run.HeadRepository == nil {
			r.note("the repository that the head came from is gone")
		}
		list, err := r.pullsOf(r.ctx, run.HeadSHA)
		if err != nil && !unknown(err) {
			return nil, err
		}
		if err := all.confirmAll(list, "the commit"); err != nil {
			return nil, err
		}
	}
	if all.empty() && r.o.Hint > 0 {
		if err := all.confirm(r.o.Hint, "an artifact"); err != nil {
			return nil, err
		}
		if all.empty() {
			return nil, fmt.Errorf("an artifact says pull request %d, which the forge does not confirm", r.o.Hint)
		}
	}
	return all.pulls(), nil
}

// A pullSet collects the pull requests that are confirmed.
type pullSet struct {
	r     *resolution
	run   *eventRun
	fresh []Pull
	stale []Pull // once had this head
	seen  []int
}

func (s *pullSet) empty() bool { return len(s.fresh) == 0 }

// pulls returns those that have the head now, and without any those that had it.
func (s *pullSet) pulls() []Pull {
	all := s.fresh
	if len(all) == 0 {
		all = s.stale
	}
	slices.SortFunc(all, func(a, b Pull) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

func (s *pullSet) confirmAll(list []found, source string) error {
	for _, f := range list {
		if err := s.confirm(f.Number, source); err != nil {
			return err
		}
	}
	return nil
}

func (s *pullSet) confirm(number int, source string) error {
	if slices.Contains(s.seen, number) || len(s.seen) >= 2*maxPulls {
		return nil
	}
	s.seen = append(s.seen, number)
	f, why, err := s.r.Client.confirm(s.r.ctx, number, s.run)
	switch {
	case err != nil:
		return err
	case why == "":
		f.Head = s.run.HeadSHA
		s.fresh = append(s.fresh, f.Pull)
	case f.Stale:
		s.r.note("pull request %d has another head by now: %s", number, f.Head)
		f.Head = s.run.HeadSHA
		s.stale = append(s.stale, f.Pull)
	default:
		s.r.note("%s names pull request %d, but %s", source, number, why)
	}
	return nil
}

// allowed reports whether a run of that workflow may be reported on.
func (o TargetOptions) allowed(path string) bool {
	// The path may carry the ref that it was read at.
	path, _, _ = strings.Cut(path, "@")
	return len(o.Workflows) == 0 || slices.Contains(o.Workflows, path)
}
