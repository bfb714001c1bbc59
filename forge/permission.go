package forge

import (
	"errors"
	"fmt"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
)

// A PermissionError says that the token may not do what was tried. It is final: it
// is not tried again, and the verdict does not depend on it.
type PermissionError struct {
	Need     string // such as "pull-requests: write"
	Accepted string // what the forge says would do, as it says it; untrusted
	Cause    string // why the token cannot have it whatever its workflow says; "": it can
	Err      error
}

func (e *PermissionError) Error() string {
	s := "the token lacks " + e.Need
	if e.Accepted != "" {
		s += " (the forge accepts " + quote(e.Accepted) + ")"
	}
	return s + ": " + e.Err.Error()
}

func (e *PermissionError) Unwrap() error { return e.Err }

// Fix returns the part of a workflow that gives the token what it lacks, or, for a
// token that no workflow can give it, the start of one that has a token that can.
func (e *PermissionError) Fix() string {
	lines := "permissions:\n"
	for _, p := range strings.Split(e.Need, ", ") {
		lines += "  " + p + "\n"
	}
	if e.Cause == "" {
		return lines
	}
	return "on:\n  workflow_run:\n    workflows: [the workflow that ran this]\n    types: [completed]\n" + lines
}

// The permissions that requests need. Reading contents goes with each of them in a
// private repository.
const (
	needComment  = "pull-requests: write"
	needPulls    = "pull-requests: read"
	needStatus   = "statuses: write"
	needCheck    = "checks: write"
	needActions  = "actions: read"
	needContents = "contents: read"
)

const (
	causeFork       = "the pull request comes from a fork, whose runs get a token that only reads"
	causeDependabot = "runs that Dependabot sets off get a token that only reads"
)

// explain adds to a permission error why this job's token cannot have it.
func (c *Client) explain(err error, fork bool) error {
	var p *PermissionError
	if !errors.As(err, &p) || !writes().MatchString(p.Need) {
		return err
	}
	switch {
	case c.job.Event == "pull_request" && fork:
		p.Cause = causeFork
	case c.job.Actor == "dependabot[bot]" && c.job.Event != "workflow_run":
		p.Cause = causeDependabot
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, p.Cause)
}

var writes = lazy.Regexp(`: write\b`)
