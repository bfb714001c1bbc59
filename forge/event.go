package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
)

// maxEvent bounds an event. GitHub cuts its events off well below that.
const maxEvent = 8 << 20

// ReadEvent reads the event of a job, within its limit.
func ReadEvent(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxEvent+1))
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	if len(b) > maxEvent {
		return nil, fmt.Errorf("event: more than %d bytes", maxEvent)
	}
	return b, nil
}

// An event is the part of an event's payload that says what it is about. Pointers
// are nil where the payload says nothing or null. Payloads have many members more,
// and new ones each month, so unknown ones are passed over.
type event struct {
	Number      int64         `json:"number"`
	PullRequest *eventPull    `json:"pull_request"`
	Repository  *eventRepo    `json:"repository"`
	Ref         string        `json:"ref"`
	Before      string        `json:"before"`
	After       string        `json:"after"`
	MergeGroup  *eventGroup   `json:"merge_group"`
	WorkflowRun *eventRun     `json:"workflow_run"`
	Release     *eventRelease `json:"release"`
}

type eventRepo struct {
	ID            int64  `json:"id"`
	FullName      string `json:"full_name"`
	DefaultBranch string `json:"default_branch"`
	Private       bool   `json:"private"`
}

// name is FullName of a repository that may be gone.
func (r *eventRepo) name() string {
	if r == nil {
		return ""
	}
	return r.FullName
}

func (r *eventRepo) id() int64 {
	if r == nil {
		return 0
	}
	return r.ID
}

type eventSide struct {
	SHA  string     `json:"sha"`
	Ref  string     `json:"ref"`
	Repo *eventRepo `json:"repo"`
}

type eventPull struct {
	Number int64      `json:"number"`
	State  string     `json:"state"`
	Head   *eventSide `json:"head"`
	Base   *eventSide `json:"base"`
}

type eventGroup struct {
	HeadSHA string `json:"head_sha"`
	HeadRef string `json:"head_ref"`
	BaseSHA string `json:"base_sha"`
	BaseRef string `json:"base_ref"`
}

type eventRun struct {
	ID             int64       `json:"id"`
	Attempt        int         `json:"run_attempt"`
	Event          string      `json:"event"`
	Path           string      `json:"path"`
	HeadSHA        string      `json:"head_sha"`
	HeadBranch     string      `json:"head_branch"`
	HeadRepository *eventRepo  `json:"head_repository"`
	Repository     *eventRepo  `json:"repository"`
	PullRequests   []eventPull `json:"pull_requests"`
}

type eventRelease struct {
	TagName string `json:"tag_name"`
}

// parseEvent reads the payload of the event of that name, and refuses one that
// does not say what the event is about.
func parseEvent(name string, payload []byte) (event, error) {
	e, err := decodeEvent(payload)
	if err == nil {
		err = e.check(name)
	}
	if err != nil {
		return event{}, fmt.Errorf("event %s: %w", quote(name), err)
	}
	return e, nil
}

func decodeEvent(payload []byte) (event, error) {
	if len(payload) > maxEvent {
		return event{}, fmt.Errorf("more than %d bytes", maxEvent)
	}
	var e *event
	if err := json.Unmarshal(payload, &e); err != nil {
		return event{}, err
	}
	if e == nil {
		return event{}, errors.New("null")
	}
	return *e, nil
}

func (e event) check(name string) error {
	switch name {
	case "pull_request", "pull_request_target":
		return e.PullRequest.check("pull_request")
	case "push":
		return e.checkPush()
	case "merge_group":
		return e.MergeGroup.check()
	case "workflow_run":
		return e.WorkflowRun.check()
	case "release":
		if e.Release == nil || e.Release.TagName == "" {
			return missing("release.tag_name")
		}
		return checkRef("release.tag_name", e.Release.TagName)
	}
	// Any other event is about the commit that the environment names.
	return nil
}

func (p *eventPull) check(at string) error {
	switch {
	case p == nil:
		return missing(at)
	case p.Number <= 0 || p.Number > maxInteger:
		return missing(at + ".number")
	}
	// The head's repository is null once a fork is deleted.
	if err := p.Head.check(at + ".head"); err != nil {
		return err
	}
	if err := p.Base.check(at + ".base"); err != nil {
		return err
	}
	return p.Base.Repo.check(at + ".base.repo")
}

func (s *eventSide) check(at string) error {
	if s == nil {
		return missing(at)
	}
	if err := checkCommit(at+".sha", s.SHA); err != nil {
		return err
	}
	if s.Repo != nil {
		if err := s.Repo.check(at + ".repo"); err != nil {
			return err
		}
	}
	return checkRef(at+".ref", s.Ref)
}

func (r *eventRepo) check(at string) error {
	switch {
	case r == nil:
		return missing(at)
	case r.ID <= 0:
		return missing(at + ".id")
	case r.FullName != "" && !isRepository(r.FullName):
		return fmt.Errorf("%s.full_name: %s is not owner/name", at, quote(r.FullName))
	}
	return nil
}

func (e event) checkPush() error {
	if err := checkRef("ref", e.Ref); err != nil {
		return err
	}
	for _, f := range []struct{ at, id string }{{"before", e.Before}, {"after", e.After}} {
		if f.id == "" {
			return missing(f.at)
		}
		if !commitID().MatchString(f.id) {
			return notCommit(f.at, f.id)
		}
	}
	return nil
}

func (g *eventGroup) check() error {
	if g == nil {
		return missing("merge_group")
	}
	if err := checkCommit("merge_group.head_sha", g.HeadSHA); err != nil {
		return err
	}
	if err := checkCommit("merge_group.base_sha", g.BaseSHA); err != nil {
		return err
	}
	return checkRef("merge_group.base_ref", g.BaseRef)
}

func (r *eventRun) check() error {
	if r == nil {
		return missing("workflow_run")
	}
	switch {
	case r.ID <= 0 || r.ID > maxInteger:
		return missing("workflow_run.id")
	case r.Attempt < 0 || r.Attempt > maxInteger:
		return missing("workflow_run.run_attempt")
	case r.Event == "":
		return missing("workflow_run.event")
	}
	if r.HeadRepository != nil {
		if err := r.HeadRepository.check("workflow_run.head_repository"); err != nil {
			return err
		}
	}
	return checkCommit("workflow_run.head_sha", r.HeadSHA)
}

func missing(at string) error { return fmt.Errorf("%s: %w", at, errMissing) }

func notCommit(at, id string) error {
	return fmt.Errorf("%s: %s is not a commit id", at, quote(id))
}

func checkCommit(at, id string) error {
	switch {
	case id == "":
		return missing(at)
	case !isCommit(id):
		return notCommit(at, id)
	}
	return nil
}

// checkRef refuses names that Git has no refs of. They become parts of paths and
// queries, so what matters is that there are no dots to climb with.
func checkRef(at, ref string) error {
	switch {
	case ref == "":
		return missing(at)
	case len(ref) > 1024 || !refName().MatchString(ref) || strings.Contains(ref, "..") || strings.Contains(ref, "//"),
		strings.HasPrefix(ref, "/"), strings.HasSuffix(ref, "/"), strings.HasPrefix(ref, "./"), strings.Contains(ref, "/./"):
		return fmt.Errorf("%s: %s is not the name of a ref", at, quote(ref))
	}
	return nil
}

var refName = lazy.Regexp(`^[^\x00-\x20\x7f~^:?*\[\\]+$`)

// queueRef is the branch of a merge queue's group. The name of the base branch may
// hold slashes.
var queueRef = lazy.Regexp(`^(?:refs/heads/)?gh-readonly-queue/(.+)/pr-([1-9][0-9]{0,9})-(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
