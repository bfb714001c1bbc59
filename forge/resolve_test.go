package forge

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
)

func (f *forgeTest) target(t *testing.T, event object, o TargetOptions) (Target, error) {
	t.Helper()
	return f.client(t).Target(t.Context(), payload(t, event), o)
}

func (f *forgeTest) mustTarget(t *testing.T, event object, o TargetOptions) Target {
	t.Helper()
	got, err := f.target(t, event, o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Tree != tree(got.Tested) {
		t.Errorf("tree %s of %s", got.Tree, got.Tested)
	}
	return got
}

// about is what a target says, for a table.
func about(t Target) string {
	name := func(id string) string {
		for _, n := range []string{"m1", "m2", "m3", "h1", "h2", "g1"} {
			if id == sha(n) {
				return n
			}
		}
		return "?" + id
	}
	if t.Base == "" {
		t.Base = "none"
	} else {
		t.Base = name(t.Base)
	}
	s := fmt.Sprintf("commit %s head %s tested %s base %s policy %s on %s tip %s", name(t.Commit), name(t.Head), name(t.Tested), t.Base, name(t.Policy), t.Branch, name(t.Tip))
	if !t.BaseKnown {
		s += ", base open"
	}
	if t.Unattested {
		s += ", unattested"
	}
	for _, p := range t.Pulls {
		s += fmt.Sprintf(", #%d", p.Number)
		if p.Stale {
			s += " stale"
		}
	}
	return s
}

func TestPullRequest(t *testing.T) {
	t.Run("merge", func(t *testing.T) {
		f := newForgeTest(t)
		got := f.mustTarget(t, pullEvent(f.Pulls[7]), TargetOptions{})
		if want := "commit h1 head h1 tested g1 base m2 policy m2 on main tip m3, #7"; about(got) != want {
			t.Errorf("got  %s\nwant %s", about(got), want)
		}
	})
	t.Run("head", func(t *testing.T) {
		f := newForgeTest(t)
		got := f.mustTarget(t, pullEvent(f.Pulls[7]), TargetOptions{Tree: TreeHead})
		if want := "commit h1 head h1 tested h1 base m1 policy m2 on main tip m3, #7"; about(got) != want {
			t.Errorf("got  %s\nwant %s", about(got), want)
		}
	})
	t.Run("fork", func(t *testing.T) {
		f := newForgeTest(t)
		f.fork()
		got := f.mustTarget(t, pullEvent(f.Pulls[7]), TargetOptions{})
		if want := "commit h1 head h1 tested g1 base m2 policy m2 on main tip m3, unattested, #7"; about(got) != want || !got.Pulls[0].Fork {
			t.Errorf("got  %s\nwant %s", about(got), want)
		}
	})
	t.Run("deleted fork", func(t *testing.T) {
		f := newForgeTest(t)
		f.Pulls[7].HeadRepo, f.Pulls[7].HeadRepoID = "", 0
		got := f.mustTarget(t, pullEvent(f.Pulls[7]), TargetOptions{})
		if !got.Unattested || !got.Pulls[0].Fork || got.Pulls[0].HeadRepository != "" {
			t.Errorf("got %+v", got)
		}
	})
	// tfaction#1174: the head moved since.
	t.Run("stale", func(t *testing.T) {
		f := newForgeTest(t)
		event := pullEvent(f.Pulls[7])
		f.Pulls[7].Head = h2
		got := f.mustTarget(t, event, TargetOptions{})
		if want := "commit h1 head h1 tested g1 base m2 policy m2 on main tip m3, #7 stale"; about(got) != want || !strings.Contains(fmt.Sprint(got.Notes), h2) {
			t.Errorf("got  %s\nwant %s\n%q", about(got), want, got.Notes)
		}
	})
	t.Run("force-pushed base", func(t *testing.T) {
		f := newForgeTest(t)
		f.Refs["heads/main"] = githubtest.Object{Type: "commit", SHA: m1}
		if got, err := f.target(t, pullEvent(f.Pulls[7]), TargetOptions{}); err == nil || got.Tested != "" {
			t.Errorf("a merge onto what is not on the branch: %s, %v", about(got), err)
		}
	})
	t.Run("head, force-pushed base", func(t *testing.T) {
		f := newForgeTest(t)
		f.Refs["heads/main"] = githubtest.Object{Type: "commit", SHA: m1}
		got := f.mustTarget(t, pullEvent(f.Pulls[7]), TargetOptions{Tree: TreeHead})
		if want := "commit h1 head h1 tested h1 base m1 policy m1 on main tip m1, #7"; about(got) != want || len(got.Notes) != 1 {
			t.Errorf("got  %s\nwant %s\n%q", about(got), want, got.Notes)
		}
	})
}

// A merge is believed for its parents, not for who names it.
func TestMergeIsChecked(t *testing.T) {
	for name, parents := range map[string][]string{
		"no merge":       {m2},
		"of no parents":  {},
		"other head":     {m2, h2},
		"turned around":  {h1, m2},
		"octopus":        {m2, h1, m1},
		"base of a fork": {h2, h1},
	} {
		for _, event := range []string{"pull_request", "pull_request_target"} {
			t.Run(event+" "+name, func(t *testing.T) {
				f := newForgeTest(t)
				f.job.Event = event
				f.Commits[g1] = githubtest.Commit{Tree: tree(g1), Parents: parents}
				if got, err := f.target(t, pullEvent(f.Pulls[7]), TargetOptions{}); err == nil || got.Commit != "" {
					t.Errorf("got %s, %v", about(got), err)
				}
			})
		}
	}
	t.Run("given", func(t *testing.T) {
		f := newForgeTest(t)
		f.job.Event = "pull_request_target"
		f.job.SHA = m2
		other := sha("other merge")
		f.Commits[other] = githubtest.Commit{Tree: tree(other), Parents: []string{m3, h1}}
		got := f.mustTarget(t, pullEvent(f.Pulls[7]), TargetOptions{Tested: other})
		if got.Tested != other || got.Base != m3 || got.Policy != m3 || got.Unattested {
			t.Errorf("got %s", about(got))
		}
		if got, err := f.target(t, pullEvent(f.Pulls[7]), TargetOptions{Tested: h2}); err == nil {
			t.Errorf("a commit that is no merge: %s", about(got))
		}
	})
}

func TestPullRequestTarget(t *testing.T) {
	t.Run("waits for the merge", func(t *testing.T) {
		f := newForgeTest(t)
		f.job.Event, f.job.SHA = "pull_request_target", m2
		p := f.Pulls[7]
		merge, yes := p.Merge, true
		p.Merge, p.Mergeable = "", nil
		f.Fault("GET /repos/{owner}/{repo}/pulls/{number}", 3, githubtest.Fault{Before: func() {
			f.Mu.Lock()
			defer f.Mu.Unlock()
			p.Merge, p.Mergeable = merge, &yes
		}})
		got := f.mustTarget(t, pullEvent(p), TargetOptions{})
		if want := "commit h1 head h1 tested g1 base m2 policy m2 on main tip m3, #7"; about(got) != want {
			t.Errorf("got  %s\nwant %s", about(got), want)
		}
		if len(f.slept) != 2 {
			t.Errorf("slept %v", f.slept)
		}
	})
	t.Run("not forever", func(t *testing.T) {
		f := newForgeTest(t)
		f.job.Event = "pull_request_target"
		f.Pulls[7].Mergeable = nil
		if _, err := f.target(t, pullEvent(f.Pulls[7]), TargetOptions{}); err == nil || !strings.Contains(err.Error(), "not made its merge") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("conflict", func(t *testing.T) {
		f := newForgeTest(t)
		f.job.Event = "pull_request_target"
		no := false
		f.Pulls[7].Mergeable = &no // and Merge is the one from before
		if _, err := f.target(t, pullEvent(f.Pulls[7]), TargetOptions{}); err == nil || !strings.Contains(err.Error(), "conflicts") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("head moved", func(t *testing.T) {
		f := newForgeTest(t)
		f.job.Event = "pull_request_target"
		event := pullEvent(f.Pulls[7])
		f.Pulls[7].Head = h2
		if _, err := f.target(t, event, TargetOptions{}); err == nil || !strings.Contains(err.Error(), h2) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("fork", func(t *testing.T) {
		f := newForgeTest(t)
		f.job.Event = "pull_request_target"
		f.fork()
		if got := f.mustTarget(t, pullEvent(f.Pulls[7]), TargetOptions{}); got.Unattested {
			t.Error("the workflow is the base's, and its runs are unattested")
		}
	})
}

// CodSpeedHQ/action#126: no pull request in the event of a merge queue.
func TestMergeGroup(t *testing.T) {
	event := func(base string) object {
		return object{"repository": ours, "merge_group": object{
			"head_sha": g1, "head_ref": "refs/heads/gh-readonly-queue/release/v1/pr-7-" + m2, "base_sha": base, "base_ref": "refs/heads/release/v1",
		}}
	}
	for base, want := range map[string]string{
		m2: "commit g1 head g1 tested g1 base m2 policy m2 on release/v1 tip m3",
		h2: "commit g1 head g1 tested g1 base h2 policy m3 on release/v1 tip m3", // behind another group
	} {
		t.Run(want, func(t *testing.T) {
			f := newForgeTest(t)
			f.job.Event = "merge_group"
			f.Refs["heads/release/v1"] = githubtest.Object{Type: "commit", SHA: m3}
			got := f.mustTarget(t, event(base), TargetOptions{})
			if about(got) != want {
				t.Errorf("got  %s\nwant %s", about(got), want)
			}
			if !strings.Contains(fmt.Sprint(got.Notes), "pull request 7") {
				t.Errorf("notes %q", got.Notes)
			}
		})
	}
}

func TestPush(t *testing.T) {
	zero := strings.Repeat("0", 40)
	for _, c := range []struct {
		name, ref, before, after string
		protected                bool
		want                     string
		err                      error
	}{
		{"to main", "refs/heads/main", m1, m3, true, "commit m3 head m3 tested m3 base m1 policy m1 on main tip m3", nil},
		{"to main, unprotected", "refs/heads/main", m2, m3, false, "commit m3 head m3 tested m3 base m2 policy m2 on main tip m3", nil},
		{"to a branch", "refs/heads/feature", h1, h2, false, "commit h2 head h2 tested h2 base h1 policy m3 on main tip m3", nil},
		{"to a protected branch", "refs/heads/release", m1, m2, true, "commit m2 head m2 tested m2 base m1 policy m1 on release tip m2", nil},
		{"new branch", "refs/heads/feature", zero, h2, false, "commit h2 head h2 tested h2 base m1 policy m3 on main tip m3", nil},
		{"forced", "refs/heads/feature", m2, h2, false, "commit h2 head h2 tested h2 base m1 policy m3 on main tip m3", nil},
		{"forced on main", "refs/heads/main", h2, m3, true, "commit m3 head m3 tested m3 base m1 policy m1 on main tip m3", nil},
		{"from what is gone", "refs/heads/feature", sha("gone"), h2, false, "commit h2 head h2 tested h2 base m1 policy m3 on main tip m3", nil},
		{"deleted", "refs/heads/feature", h1, zero, false, "", ErrNoCommit},
		{"tag", "refs/tags/v1", zero, m2, false, "commit m2 head m2 tested m2 base none policy m3 on main tip m3, base open", nil},
		{"annotated tag", "refs/tags/v1", zero, sha("tag"), false, "commit m2 head m2 tested m2 base none policy m3 on main tip m3, base open", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForgeTest(t)
			delete(f.Pulls, 7)
			f.job.Event, f.job.SHA, f.job.Ref, f.job.Protected = "push", c.after, c.ref, c.protected
			f.Refs["heads/release"] = githubtest.Object{Type: "commit", SHA: m2}
			f.Tags[sha("tag")] = githubtest.Object{Type: "commit", SHA: m2}
			event := object{"ref": c.ref, "before": c.before, "after": c.after, "repository": ours}
			if c.err != nil {
				if _, err := f.target(t, event, TargetOptions{}); !errors.Is(err, c.err) {
					t.Errorf("got %v, want %v", err, c.err)
				}
				return
			}
			if got := f.mustTarget(t, event, TargetOptions{}); about(got) != c.want {
				t.Errorf("got  %s\nwant %s\n%q", about(got), c.want, got.Notes)
			}
		})
	}
	t.Run("several pull requests", func(t *testing.T) {
		f := newForgeTest(t)
		f.job.Event = "push"
		second, closed, forked, behind := *f.Pulls[7], *f.Pulls[7], *f.Pulls[7], *f.Pulls[7]
		second.Number, closed.Number, forked.Number, behind.Number = 8, 9, 10, 11
		closed.Closed = true
		forked.HeadRepo, forked.HeadRepoID = "mallory/widgets", githubtest.ForkID
		behind.Head = h2 // has the commit, and another head
		f.Pulls[8], f.Pulls[9], f.Pulls[10], f.Pulls[11] = &second, &closed, &forked, &behind
		got := f.mustTarget(t, object{"ref": "refs/heads/feature", "before": m1, "after": h1, "repository": ours}, TargetOptions{})
		if want := "commit h1 head h1 tested h1 base m1 policy m3 on main tip m3, #7, #8"; about(got) != want {
			t.Errorf("got  %s\nwant %s", about(got), want)
		}
	})
}

func runEvent(change func(run object)) object {
	run := object{
		"id": 900, "event": "pull_request", "path": ".github/workflows/test.yml", "head_sha": h1, "head_branch": "feature",
		"head_repository": ours, "repository": ours, "pull_requests": []object{},
	}
	if change != nil {
		change(run)
	}
	return object{"action": "completed", "repository": ours, "workflow_run": run}
}

var mallory = object{"id": githubtest.ForkID, "full_name": "mallory/widgets"}

func TestWorkflowRun(t *testing.T) {
	const found = "commit h1 head h1 tested h1 base m1 policy m2 on main tip m3, unattested, #7"
	const none = "commit h1 head h1 tested h1 base none policy m3 on main tip m3, base open, unattested"
	named := func(run object) {
		run["pull_requests"] = []object{{
			"number": 7, "head": object{"sha": h1, "ref": "feature", "repo": object{"id": githubtest.RepositoryID}},
			"base": object{"sha": m2, "ref": "main", "repo": object{"id": githubtest.RepositoryID}},
		}}
	}
	for _, c := range []struct {
		name   string
		setup  func(f *forgeTest)
		run    func(run object)
		o      TargetOptions
		want   string
		err    string
		asked  []string // routes that were, in order of their names
		noteOf string
	}{
		{name: "named by the event", run: named, want: found},
		// runner#3444: forks are not named.
		{name: "fork, by its branch", setup: (*forgeTest).fork, run: func(run object) { run["head_repository"] = mallory }, want: found},
		{name: "by its commit", run: func(run object) { run["head_branch"] = "renamed" }, want: found},
		{name: "deleted fork", setup: func(f *forgeTest) { f.Pulls[7].HeadRepo, f.Pulls[7].HeadRepoID = "", 0 },
			run: func(run object) { run["head_repository"] = nil }, want: found, noteOf: "gone"},
		// larksuite/cli#170: an artifact may name any pull request.
		{name: "hint that is right", setup: func(f *forgeTest) {
			f.Commits[h1] = githubtest.Commit{Tree: tree(h1), Parents: []string{m1}}
			f.hideLists()
		},
			o: TargetOptions{Hint: 7}, want: found},
		{name: "forged hint, other head", setup: func(f *forgeTest) { f.Pulls[7].Head = h2; f.hideLists() }, o: TargetOptions{Hint: 7}, err: "does not confirm"},
		{name: "forged hint, other repository", setup: func(f *forgeTest) { f.hideLists() },
			run: func(run object) { run["head_repository"] = mallory }, o: TargetOptions{Hint: 7}, err: "does not confirm"},
		{name: "forged hint, no such number", setup: func(f *forgeTest) { f.hideLists() }, o: TargetOptions{Hint: 99}, err: "does not confirm"},
		{name: "same branch and head, other repository", run: func(run object) { run["head_repository"] = mallory }, want: none},
		{name: "closed", setup: func(f *forgeTest) { f.Pulls[7].Closed = true }, run: named, want: none, noteOf: "closed"},
		{name: "stale", setup: func(f *forgeTest) { f.Pulls[7].Head = h2 }, run: named,
			want: found + " stale", noteOf: h2},
		{name: "two of one head", setup: func(f *forgeTest) { f.second("main") }, want: found + ", #8"},
		// The second one goes where the policy is weak.
		{name: "two of one head into two branches", setup: func(f *forgeTest) {
			f.second("weak")
			f.Pulls[5] = f.Pulls[8]
			f.Pulls[5].Number = 5
			delete(f.Pulls, 8)
			f.Refs["heads/weak"] = githubtest.Object{Type: "commit", SHA: h1}
		}, want: found, noteOf: "pull request 5"},
		{name: "other workflow", o: TargetOptions{Workflows: []string{".github/workflows/other.yml"}}, err: "not one of"},
		{name: "allowed workflow", run: func(run object) { run["path"] = ".github/workflows/test.yml@refs/heads/x" },
			o: TargetOptions{Workflows: []string{".github/workflows/test.yml"}}, want: found},
		{name: "other repository", run: func(run object) { run["repository"] = mallory }, err: "is of repository"},
		{name: "of pull_request_target", run: func(run object) { run["event"] = "pull_request_target" }, err: "does not say what it tested"},
		{name: "of a push", run: func(run object) { run["event"] = "push" }, want: none},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForgeTest(t)
			f.job.Event, f.job.SHA = "workflow_run", m3
			if c.setup != nil {
				c.setup(f)
			}
			event := runEvent(c.run)
			if c.err != "" {
				if got, err := f.target(t, event, c.o); err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %s, %v", about(got), err)
				}
				return
			}
			got := f.mustTarget(t, event, c.o)
			if about(got) != c.want {
				t.Errorf("got  %s\nwant %s\n%q", about(got), c.want, got.Notes)
			}
			if !strings.Contains(fmt.Sprint(got.Notes), c.noteOf) {
				t.Errorf("notes %q say nothing of %s", got.Notes, c.noteOf)
			}
			// mikepenz#522: never the commit that this job runs on.
			if got.Commit == f.job.SHA {
				t.Error("the status goes to the default branch")
			}
		})
	}
}

// hideLists makes the API know no pull request by branch or commit.
func (f *forgeTest) hideLists() {
	for _, route := range []string{"GET /repos/{owner}/{repo}/pulls", "GET /repos/{owner}/{repo}/commits/{sha}/pulls"} {
		f.Fault(route, 0, githubtest.Fault{Status: 200, Body: "[]"})
	}
}

// second adds pull request 8 of the same head into a branch.
func (f *forgeTest) second(branch string) {
	p := *f.Pulls[7]
	p.Number, p.BaseBranch = 8, branch
	f.Pulls[8] = &p
}

func TestOtherEvents(t *testing.T) {
	for _, c := range []struct {
		event string
		more  object
	}{
		{"workflow_dispatch", object{"inputs": object{"A": "b", "a": "c"}}}, {"schedule", nil}, {"issue_comment", nil}, {"release", object{"release": object{"tag_name": "v1"}}},
	} {
		t.Run(c.event, func(t *testing.T) {
			f := newForgeTest(t)
			f.job.Event, f.job.SHA = c.event, m2
			f.Refs["tags/v1"] = githubtest.Object{Type: "tag", SHA: sha("outer")}
			f.Tags[sha("outer")] = githubtest.Object{Type: "tag", SHA: sha("inner")}
			f.Tags[sha("inner")] = githubtest.Object{Type: "commit", SHA: m2}
			event := object{"repository": ours}
			for k, v := range c.more {
				event[k] = v
			}
			if got, want := about(f.mustTarget(t, event, TargetOptions{})), "commit m2 head m2 tested m2 base none policy m3 on main tip m3, base open"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	t.Run("tags of tags of tags", func(t *testing.T) {
		f := newForgeTest(t)
		f.job.Event = "release"
		f.Refs["tags/v1"] = githubtest.Object{Type: "tag", SHA: sha("loop")}
		f.Tags[sha("loop")] = githubtest.Object{Type: "tag", SHA: sha("loop")}
		if _, err := f.target(t, object{"repository": ours, "release": object{"tag_name": "v1"}}, TargetOptions{}); err == nil {
			t.Error("resolved")
		}
	})
	t.Run("no branch is the default", func(t *testing.T) {
		f := newForgeTest(t)
		f.job.Event = "schedule"
		if _, err := f.target(t, object{}, TargetOptions{}); !errors.Is(err, errMissing) {
			t.Errorf("got %v", err)
		}
	})
}

// gitea#36024: no GraphQL, no check runs, and no more of commits than events say.
func TestGitea(t *testing.T) {
	f := newForgeTest(t)
	f.job.API, f.job.GraphQL, f.job.SHA = f.GiteaURL(), "", h1
	f.o.CommentAuthor = "github-actions[bot]"
	got, err := f.target(t, pullEvent(f.Pulls[7]), TargetOptions{})
	if err != nil || got.Tested != h1 || got.Policy != m2 || got.BaseKnown || len(got.Pulls) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	event := pullEvent(f.Pulls[7])
	event["pull_request"].(object)["base"].(object)["repo"] = mallory
	if got, err := f.target(t, event, TargetOptions{}); err == nil {
		t.Errorf("of another repository: %+v", got)
	}
	for range 150 {
		f.Comments = append(f.Comments, &githubtest.Comment{ID: 1, Pull: 7, Login: "bob", Body: "x"})
	}
	c := f.client(t)
	for _, want := range []Outcome{CommentCreated, CommentUpdated} {
		m := f.mark("verified")
		if _, outcome, err := c.PostComment(t.Context(), f.pull(), m, say("hello"), Commenting{Mode: CommentMinimise}); err != nil || outcome != want {
			t.Errorf("comment: %s, %v", outcome, err)
		}
	}
	if err := c.PostStatus(t.Context(), h1, false, Status{State: StateSuccess}); err != nil {
		t.Error(err)
	}
	if _, err := c.PostCheck(t.Context(), false, Check{Commit: h1}); !errors.Is(err, ErrNoChecks) {
		t.Errorf("check: %v", err)
	}
	for _, r := range f.Requests() {
		if strings.Contains(r.Path, "graphql") || !strings.HasPrefix(r.Path, "/api/v1/") {
			t.Errorf("asked %s", r.Path)
		}
	}
}

func TestTargetOptions(t *testing.T) {
	f := newForgeTest(t)
	for _, o := range []TargetOptions{{Tree: "base"}, {Tested: "HEAD"}} {
		if _, err := f.target(t, pullEvent(f.Pulls[7]), o); err == nil {
			t.Errorf("%+v", o)
		}
	}
	event := pullEvent(f.Pulls[7])
	event["pull_request"].(object)["base"].(object)["repo"] = mallory
	if _, err := f.target(t, event, TargetOptions{}); err == nil {
		t.Error("a pull request of another repository")
	}
	if len(f.Requests()) != 0 {
		t.Errorf("asked %v", f.Requests())
	}
}

// An answer about something else is no answer.
func TestOtherAnswers(t *testing.T) {
	commit := `{"sha":"` + h2 + `","tree":{"sha":"` + tree(h2) + `"},"parents":[{"sha":"` + m2 + `"},{"sha":"` + h1 + `"}]}`
	for route, body := range map[string]string{
		"GET /repos/{owner}/{repo}/git/commits/{sha}":   commit,
		"GET /repos/{owner}/{repo}/git/ref/{ref...}":    `{"ref":"refs/heads/main2","object":{"type":"commit","sha":"` + m3 + `"}}`,
		"GET /repos/{owner}/{repo}/compare/{basehead}":  `{"status":"ahead"}`,
		"GET /repos/{owner}/{repo}/git/commits/{sha} 2": `{"sha":"` + g1 + `","tree":{"sha":"x"},"parents":[]}`,
	} {
		t.Run(route, func(t *testing.T) {
			f := newForgeTest(t)
			f.Fault(strings.TrimSuffix(route, " 2"), 0, githubtest.Fault{Status: 200, Body: body})
			if got, err := f.target(t, pullEvent(f.Pulls[7]), TargetOptions{}); err == nil || got.Tested != "" {
				t.Errorf("got %s, %v", about(got), err)
			}
		})
	}
	t.Run("pull request", func(t *testing.T) {
		f := newForgeTest(t)
		f.second("main")
		f.Fault(pullRoute, 0, githubtest.Fault{Status: 200, Body: string(payload(t, pullEvent(f.Pulls[8])["pull_request"]))})
		if p, err := f.client(t).pull(t.Context(), 7); err == nil || p.Number != 0 {
			t.Errorf("got %+v", p)
		}
	})
}
