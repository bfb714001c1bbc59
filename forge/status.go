package forge

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/google/go-github/v60/github"
)

// StatusContext is the name of the status where no other is given.
const StatusContext = "truegreen"

// maxStatusText is what a forge keeps of a description, in characters.
const maxStatusText = 140

// The states of a [Status]. A forge has none that is neither good nor bad, so
// neutral is shown as pending: it is not red, and branch protection that asks for
// the status does not take it for success.
const (
	StatePending = "pending"
	StateSuccess = "success"
	StateFailure = "failure"
	StateError   = "error"
	StateNeutral = "neutral"
)

// A Status is a line below a commit.
type Status struct {
	State       string
	Context     string // "": StatusContext
	Description string // cut at 140 characters
	URL         string // page that it points to
}

// PostStatus sets a status of a commit of the job's repository. The commit is the
// head of the pull request, not what the platform runs the job on: a status on a
// merge, or on the default branch, is seen by nobody. A second one of the same
// context replaces the first, so it is safe to repeat.
func (c *Client) PostStatus(ctx context.Context, commit string, fork bool, s Status) error {
	if s.Context == "" {
		s.Context = StatusContext
	}
	switch s.State {
	case StatePending, StateSuccess, StateFailure, StateError:
	case StateNeutral:
		s.State = StatePending
	default:
		return fmt.Errorf("status: state %s", quote(s.State))
	}
	if !isCommit(commit) {
		return fmt.Errorf("status: %s is not a commit id", quote(commit))
	}
	ctx, done := c.bound(ctx)
	defer done()
	description := clipRunes(s.Description, maxStatusText)
	post := &github.RepoStatus{State: &s.State, Context: &s.Context, Description: &description}
	if s.URL != "" {
		post.TargetURL = &s.URL
	}
	err := c.do(ctx, writing, "set status", needStatus, func(ctx context.Context) error {
		_, _, err := c.gh.Repositories.CreateStatus(ctx, c.owner, c.name, commit, post)
		return err
	})
	return c.explain(err, fork)
}

// clipRunes cuts s so that at most n characters remain, the ellipsis included.
func clipRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n--; n == 0 {
			return s[:i] + "…"
		}
	}
	return s
}
