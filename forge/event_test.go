package forge

import (
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
)

func somePull() *githubtest.Pull {
	return &githubtest.Pull{Number: 7, Head: h1, HeadBranch: "feature", HeadRepo: githubtest.Repository, HeadRepoID: githubtest.RepositoryID, Base: m2, BaseBranch: "main"}
}

// set changes one member of a payload; nil removes it.
func set(v object, path string, to any) object {
	at, rest, deeper := strings.Cut(path, ".")
	out := object{}
	for k, x := range v {
		out[k] = x
	}
	switch {
	case deeper:
		inner, _ := v[at].(object)
		out[at] = set(inner, rest, to)
	case to == nil:
		delete(out, at)
	default:
		out[at] = to
	}
	return out
}

func TestEventNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	pull := pullEvent(somePull())
	group := object{"merge_group": object{"head_sha": h1, "base_sha": m2, "base_ref": "refs/heads/main", "head_ref": "x"}}
	run := object{"workflow_run": object{"id": 9, "event": "pull_request", "head_sha": h1, "head_branch": "feature"}}
	push := object{"ref": "refs/heads/main", "before": m1, "after": m2}
	for _, c := range []struct {
		event string
		from  object
		path  string
		to    any
	}{
		{"pull_request", pull, "pull_request", nil},
		{"pull_request", pull, "pull_request.number", nil},
		{"pull_request_target", pull, "pull_request.head", nil},
		{"pull_request", pull, "pull_request.head.sha", nil},
		{"pull_request", pull, "pull_request.head.sha", "HEAD"},
		{"pull_request", pull, "pull_request.head.sha", strings.Repeat("0", 40)},
		{"pull_request", pull, "pull_request.head.ref", "../../etc"},
		{"pull_request", pull, "pull_request.head.ref", "a\nb"},
		{"pull_request", pull, "pull_request.base.ref", nil},
		{"pull_request", pull, "pull_request.base.repo", nil},
		{"pull_request", pull, "pull_request.base.repo.id", nil},
		{"merge_group", group, "merge_group", nil},
		{"merge_group", group, "merge_group.head_sha", nil},
		{"merge_group", group, "merge_group.base_sha", "x"},
		{"merge_group", group, "merge_group.base_ref", nil},
		{"workflow_run", run, "workflow_run", nil},
		{"workflow_run", run, "workflow_run.id", nil},
		{"workflow_run", run, "workflow_run.event", nil},
		{"workflow_run", run, "workflow_run.head_sha", nil},
		{"push", push, "ref", nil},
		{"push", push, "before", nil},
		{"push", push, "after", "main"},
		{"release", object{}, "release.tag_name", nil},
	} {
		if _, err := parseEvent(c.event, payload(t, c.from)); err != nil && c.event != "release" {
			t.Fatalf("%s: as it should be: %v", c.event, err)
		}
		e, err := parseEvent(c.event, payload(t, set(c.from, c.path, c.to)))
		if err == nil || !strings.Contains(err.Error(), c.path) || e.PullRequest != nil {
			t.Errorf("%s with %s=%v: %v", c.event, c.path, c.to, err)
		}
	}
}

func TestEventLimit(t *testing.T) {
	t.Parallel()
	big := append(payload(t, pullEvent(somePull())), make([]byte, maxEvent)...)
	if _, err := parseEvent("pull_request", big); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("parse: %v", err)
	}
	if b, err := ReadEvent(strings.NewReader(string(big))); err == nil || b != nil {
		t.Errorf("read: %d bytes, %v", len(b), err)
	}
	if b, err := ReadEvent(strings.NewReader("{}")); err != nil || string(b) != "{}" {
		t.Errorf("read: %q, %v", b, err)
	}
}

func FuzzEvent(f *testing.F) {
	for _, v := range []any{pullEvent(somePull()), object{"ref": "refs/tags/v1", "before": m1, "after": m2}, object{"workflow_run": object{"id": 1}}, nil, []any{}, "x"} {
		f.Add("pull_request", payload(f, v))
		f.Add("push", payload(f, v))
		f.Add("workflow_run", payload(f, v))
	}
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		e, err := parseEvent(name, b)
		if err != nil {
			return
		}
		// What parses is safe to resolve by.
		switch name {
		case "pull_request", "pull_request_target":
			p := fromEvent(e.PullRequest)
			if !isCommit(p.Head) || !isCommit(p.Base) || p.Number <= 0 || strings.Contains(p.BaseBranch, "..") {
				t.Errorf("%+v", p)
			}
		case "push":
			if !commitID().MatchString(e.After) || strings.Contains(e.Ref, "..") {
				t.Errorf("%+v", e)
			}
		case "workflow_run":
			if !isCommit(e.WorkflowRun.HeadSHA) {
				t.Errorf("%+v", e.WorkflowRun)
			}
		}
	})
}
