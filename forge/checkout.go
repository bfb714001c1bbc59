package forge

import (
	"errors"
	"fmt"
	"strings"
)

// A Checkout says what the run of an event's patch is of, as far as the event alone
// tells: enough for a job that has the commits and no right to ask the API. What
// is "" is not known. A later job holds the bundle to a [Target].
type Checkout struct {
	Head  string // commit
	Base  string // commit
	Onto  string // instead: a commit, and the base is where the head leaves its history
	Merge string // revision of the merge of head and base whose tree is tested; "": the head's own is
}

// Checkout reads what a run is of out of the job's event. Tree is [TreeMerge], the
// default, or [TreeHead]; tested names the merge where the event does not.
func (j Job) Checkout(payload []byte, tree, tested string) (Checkout, error) {
	if tree == "" {
		tree = TreeMerge
	}
	if tree != TreeMerge && tree != TreeHead {
		return Checkout{}, fmt.Errorf("tree: %s is neither merge nor head", quote(tree))
	}
	e, err := parseEvent(j.Event, payload)
	if err != nil {
		return Checkout{}, err
	}
	switch j.Event {
	case "pull_request", "pull_request_target":
		c := Checkout{Head: e.PullRequest.Head.SHA}
		switch {
		case tree == TreeHead:
			c.Onto = e.PullRequest.Base.SHA
		case tested != "":
			c.Merge = tested
		case j.Event == "pull_request":
			c.Merge = j.SHA
		default:
			return Checkout{}, errors.New("tested: a pull_request_target event does not name the merge: fetch it and say which revision it is")
		}
		return c, nil
	case "merge_group":
		return Checkout{Head: e.MergeGroup.HeadSHA, Base: e.MergeGroup.BaseSHA}, nil
	case "push":
		if zeroID().MatchString(e.After) {
			return Checkout{}, ErrNoCommit
		}
		if !strings.HasPrefix(e.Ref, "refs/heads/") {
			return Checkout{Head: j.SHA}, nil
		}
		c := Checkout{Head: e.After}
		if !zeroID().MatchString(e.Before) {
			c.Onto = e.Before
		}
		return c, nil
	case "workflow_run":
		return Checkout{}, errors.New("a workflow_run event has no patch to run: it is for reports")
	}
	return Checkout{Head: j.SHA}, nil
}

// Complete fills in what the environment of some platforms leaves out and the event
// says: the id of the repository.
func (j *Job) Complete(payload []byte) error {
	e, err := decodeEvent(payload)
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	if j.RepositoryID == 0 && e.Repository != nil && e.Repository.FullName == j.Repository {
		j.RepositoryID = e.Repository.ID
	}
	if j.RepositoryID <= 0 {
		return fmt.Errorf("environment: GITHUB_REPOSITORY_ID: %w", errMissing)
	}
	return nil
}

// Private reports whether the event says that the repository is not public.
func (j Job) Private(payload []byte) bool {
	e, err := decodeEvent(payload)
	return err == nil && e.Repository != nil && e.Repository.Private
}

// DefaultBranch returns the name of the repository's default branch, as the event says
// it, "" where that says none.
func (j Job) DefaultBranch(payload []byte) string {
	e, err := decodeEvent(payload)
	if err != nil || e.Repository == nil || e.Repository.FullName != j.Repository || checkRef("default_branch", e.Repository.DefaultBranch) != nil {
		return ""
	}
	return e.Repository.DefaultBranch
}
