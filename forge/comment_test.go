package forge

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
)

const (
	createRoute = "POST /repos/{owner}/{repo}/issues/{number}/comments"
	editRoute   = "PATCH /repos/{owner}/{repo}/issues/comments/{id}"
	deleteRoute = "DELETE /repos/{owner}/{repo}/issues/comments/{id}"
	pullRoute   = "GET /repos/{owner}/{repo}/pulls/{number}"
	graphRoute  = "POST /api/graphql"
)

func (f *forgeTest) mark(verdict string) Mark {
	return Mark{Key: "default", Head: h1, Run: f.job.RunID, Attempt: f.job.Attempt, Verdict: verdict, Passed: 3, Nonce: strings.Repeat("0", 32)}
}

func (f *forgeTest) pull() Pull {
	return fromEvent(&eventPull{Number: 7, Head: &eventSide{SHA: h1, Repo: &eventRepo{ID: f.Pulls[7].HeadRepoID}}, Base: &eventSide{Repo: &eventRepo{ID: githubtest.RepositoryID}}})
}

func say(text string) func(*Mark) string { return func(*Mark) string { return text } }

func (f *forgeTest) post(t *testing.T, c *Client, m Mark, how Commenting) Outcome {
	t.Helper()
	url, outcome, err := c.PostComment(t.Context(), f.pull(), m, say("by run "+fmt.Sprint(m.Run)), how)
	if err != nil {
		t.Fatal(err)
	}
	if (outcome == CommentCreated || outcome == CommentUpdated) && !strings.HasPrefix(url, "https://") {
		t.Errorf("%s at %q", outcome, url)
	}
	return outcome
}

// has tells each comment of ours by its run.
func (f *forgeTest) has() string {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	var s []string
	for _, k := range f.Comments {
		if m, err := ParseMark(k.Body); err == nil && k.Login == "github-actions[bot]" {
			at := fmt.Sprintf("%s:%d.%d", m.Verdict, m.Run, m.Attempt)
			if k.Minimized {
				at += " folded"
			}
			s = append(s, at)
		}
	}
	return strings.Join(s, ", ")
}

func (f *forgeTest) old(m Mark) *githubtest.Comment {
	k := &githubtest.Comment{ID: int64(len(f.Comments) + 1), Pull: 7, Login: "github-actions[bot]", Type: "Bot", Body: m.String() + "\nold"}
	f.Comments = append(f.Comments, k)
	return k
}

func TestComment(t *testing.T) {
	f := newForgeTest(t)
	c := f.client(t)
	m := f.mark("failed")
	if got := f.post(t, c, m, Commenting{}); got != CommentCreated {
		t.Errorf("first: %s", got)
	}
	m.Attempt, m.Verdict = 2, "verified"
	var previous *Mark
	_, got, err := c.PostComment(t.Context(), f.pull(), m, func(p *Mark) string { previous = p; return "text\r\nmore" }, Commenting{})
	if err != nil || got != CommentUpdated || previous == nil || previous.Verdict != "failed" || previous.Attempt != 1 {
		t.Errorf("second: %s, %v, previous %+v", got, err, previous)
	}
	if f.has() != "verified:500.2" || !strings.HasSuffix(f.Comments[0].Body, "-->\ntext\nmore") {
		t.Errorf("there is %s: %q", f.has(), f.Comments[0].Body)
	}
	if previous.Nonce == strings.Repeat("0", 32) {
		t.Error("the nonce is the caller's")
	}
}

func TestCommentModes(t *testing.T) {
	for _, c := range []struct {
		name    string
		old     string // verdict of the comment that is there
		oldHead string
		now     string
		how     Commenting
		outcome Outcome
		want    string
	}{
		{"off", "", "", "failed", Commenting{Mode: CommentOff}, CommentSkipped, ""},
		{"failure, green", "", "", "verified", Commenting{On: OnFailure}, CommentSkipped, ""},
		{"failure, red", "", "", "unproven", Commenting{On: OnFailure}, CommentCreated, "unproven:500.1"},
		{"failure, green after red", "failed", h1, "verified", Commenting{On: OnFailure}, CommentUpdated, "verified:500.1"},
		{"change, none", "failed", h1, "failed", Commenting{On: OnChange}, CommentSkipped, "failed:400.1"},
		{"change, other head", "failed", h2, "failed", Commenting{On: OnChange}, CommentUpdated, "failed:500.1"},
		{"change, other verdict", "failed", h1, "verified", Commenting{On: OnChange}, CommentUpdated, "verified:500.1"},
		{"recreate", "failed", h1, "verified", Commenting{Mode: CommentRecreate}, CommentCreated, "verified:500.1"},
		{"recreate what is the same", "failed", h2, "failed", Commenting{Mode: CommentRecreate}, CommentUpdated, "failed:500.1"},
		{"minimise, green", "failed", h1, "verified", Commenting{Mode: CommentMinimise}, CommentUpdated, "verified:500.1 folded"},
		{"minimise, new", "", "", "verified", Commenting{Mode: CommentMinimise}, CommentCreated, "verified:500.1 folded"},
		{"minimise, red", "failed", h1, "broken", Commenting{Mode: CommentMinimise}, CommentUpdated, "broken:500.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForgeTest(t)
			if c.old != "" {
				m := f.mark(c.old)
				m.Run, m.Head = 400, c.oldHead
				f.old(m)
			}
			if got := f.post(t, f.client(t), f.mark(c.now), c.how); got != c.outcome || f.has() != c.want {
				t.Errorf("%s: there is %q; want %s: %q", got, f.has(), c.outcome, c.want)
			}
		})
	}
	// sticky#1082, #990: a hidden comment is found, and shown again when it is red.
	t.Run("hidden", func(t *testing.T) {
		f := newForgeTest(t)
		f.old(f.mark("verified")).Minimized = true
		if got := f.post(t, f.client(t), f.mark("failed"), Commenting{}); got != CommentUpdated || f.has() != "failed:500.1" {
			t.Errorf("%s: %s", got, f.has())
		}
	})
	t.Run("unknown", func(t *testing.T) {
		f := newForgeTest(t)
		for _, how := range []Commenting{{Mode: "append"}, {On: "sometimes"}} {
			if _, _, err := f.client(t).PostComment(t.Context(), f.pull(), f.mark("failed"), say(""), how); err == nil {
				t.Errorf("%+v", how)
			}
		}
		if len(f.Requests()) != 0 {
			t.Error("asked")
		}
	})
}

// sticky#269, claude-code-action#1781: the comment is beyond the first page.
func TestManyComments(t *testing.T) {
	for _, graphql := range []bool{true, false} {
		t.Run(fmt.Sprint("graphql ", graphql), func(t *testing.T) {
			f := newForgeTest(t)
			f.ForbidGraphQL = !graphql
			for i := range 2400 {
				if i == 1234 {
					m := f.mark("failed")
					m.Run = 400
					f.old(m)
					continue
				}
				f.Comments = append(f.Comments, &githubtest.Comment{ID: int64(i + 1), Pull: 7, Login: "bob", Type: "User", Body: "me too"})
			}
			if got := f.post(t, f.client(t), f.mark("verified"), Commenting{}); got != CommentUpdated || f.has() != "verified:500.1" {
				t.Errorf("%s: %s", got, f.has())
			}
			if n := f.Calls("GET /repos/{owner}/{repo}/issues/{number}/comments"); graphql != (n == 0) {
				t.Errorf("listed %d pages", n)
			}
		})
	}
}

// sticky#332: anybody can post the mark; a report can quote it.
func TestForeignMark(t *testing.T) {
	for _, graphql := range []bool{true, false} {
		t.Run(fmt.Sprint("graphql ", graphql), func(t *testing.T) {
			f := newForgeTest(t)
			f.ForbidGraphQL = !graphql
			m := f.mark("verified")
			m.Run = 1 << 40 // would be newer than any
			f.Comments = []*githubtest.Comment{
				{ID: 1, Pull: 7, Login: "mallory", Type: "User", Body: m.String() + "\nforged"},
				{ID: 2, Pull: 7, Login: "github-actions", Type: "User", Body: m.String() + "\nforged"},
				{ID: 6, Pull: 7, Login: "someone", Type: "Bot", Body: m.String() + "\nforged"},
				{ID: 3, Pull: 7, Login: "other[bot]", Type: "Bot", Body: m.String() + "\nforged"},
				{ID: 4, Pull: 7, Login: "github-actions[bot]", Type: "Bot", Body: "quoted:\n" + m.String()},
				{ID: 5, Pull: 7, Login: "github-actions[bot]", Type: "Bot", Body: " " + m.String()},
			}
			before := len(f.Comments)
			if got := f.post(t, f.client(t), f.mark("failed"), Commenting{}); got != CommentCreated || len(f.Comments) != before+1 {
				t.Errorf("%s: %d comments", got, len(f.Comments))
			}
			for _, k := range f.Comments[:before] {
				if strings.Contains(k.Body, "by run") {
					t.Errorf("%s's comment was changed", k.Login)
				}
			}
		})
	}
	t.Run("a person with a bot's login", func(t *testing.T) {
		f := newForgeTest(t)
		f.ForbidGraphQL = true
		f.old(f.mark("failed")).Type = "User"
		if got := f.post(t, f.client(t), f.mark("failed"), Commenting{}); got != CommentCreated {
			t.Errorf("%s: %s", got, f.has())
		}
	})
	t.Run("unreadable mark of ours", func(t *testing.T) {
		f := newForgeTest(t)
		f.old(f.mark("failed")).Body = markPrefix + "default something else -->"
		if got := f.post(t, f.client(t), f.mark("failed"), Commenting{}); got != CommentUpdated || f.has() != "failed:500.1" {
			t.Errorf("%s: %s", got, f.has())
		}
	})
}

// danger-js#1031, #1347: the token is a job's, an app's or a person's; nobody asks
// it who it is.
func TestOwnComments(t *testing.T) {
	for _, c := range []struct {
		name, token, author string
		graphql             bool
	}{
		{"job", githubtest.JobToken, "", true},
		{"job without graphql", githubtest.JobToken, "", false},
		{"person", githubtest.OtherToken, "", true},
		{"person without graphql", githubtest.OtherToken, "alice", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForgeTest(t)
			f.ForbidGraphQL, f.o.Token, f.o.CommentAuthor = !c.graphql, c.token, c.author
			client := f.client(t)
			for _, want := range []Outcome{CommentCreated, CommentUpdated} {
				if got := f.post(t, client, f.mark("failed"), Commenting{}); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
			if len(f.Comments) != 1 {
				t.Errorf("%d comments", len(f.Comments))
			}
			for _, r := range f.Requests() {
				if strings.HasSuffix(r.Path, "/user") {
					t.Error("asked who it is")
				}
			}
		})
	}
}

// reviewdog#355: no answer that says whether the comment was made.
func TestUncertain(t *testing.T) {
	for name, c := range map[string]struct {
		fault githubtest.Fault
		calls int
	}{
		"502, made":     {githubtest.Fault{Status: 502, After: true}, 1},
		"502, not made": {githubtest.Fault{Status: 502}, 2},
		"dropped, made": {githubtest.Fault{Drop: true, After: true}, 1},
		"dropped":       {githubtest.Fault{Drop: true}, 2},
		"half, made":    {githubtest.Fault{Status: 201, After: true, Body: `{"id":`}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForgeTest(t)
			f.Fault(createRoute, 1, c.fault)
			if got := f.post(t, f.client(t), f.mark("failed"), Commenting{}); got != CommentCreated || f.has() != "failed:500.1" || f.Calls(createRoute) != c.calls {
				t.Errorf("%s: %s after %d calls", got, f.has(), f.Calls(createRoute))
			}
		})
	}
	t.Run("502, and another job's is there", func(t *testing.T) {
		f := newForgeTest(t)
		other := f.mark("verified")
		other.Run = 400
		f.Fault(createRoute, 1, githubtest.Fault{Status: 502, Before: func() {
			f.Mu.Lock()
			defer f.Mu.Unlock()
			f.old(other)
		}})
		if got := f.post(t, f.client(t), f.mark("failed"), Commenting{}); got != CommentUpdated || f.has() != "failed:500.1" {
			t.Errorf("%s: %s", got, f.has())
		}
	})
	t.Run("always 502", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault(createRoute, 0, githubtest.Fault{Status: 502})
		if _, _, err := f.client(t).PostComment(t.Context(), f.pull(), f.mark("failed"), say(""), Commenting{}); err == nil || f.Calls(createRoute) != attempts {
			t.Errorf("%d calls: %v", f.Calls(createRoute), err)
		}
	})
}

// mergify#654, uploads#554: two jobs find no comment, and both make one.
func TestCreateRace(t *testing.T) {
	for name, c := range map[string]struct {
		other     int64 // run of the other job
		otherLast bool
		outcome   Outcome
		want      string
	}{
		"older other first": {400, false, CommentUpdated, "failed:500.1"},
		"newer other first": {600, false, CommentSuperseded, "verified:600.1"},
		"older other last":  {400, true, CommentCreated, "failed:500.1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForgeTest(t)
			m := f.mark("verified")
			m.Run = c.other
			other := func() {
				f.Mu.Lock()
				defer f.Mu.Unlock()
				k := f.old(m)
				if c.otherLast {
					k.ID = 9999
				}
			}
			fault := githubtest.Fault{Before: other}
			f.Fault(createRoute, 1, fault)
			if got := f.post(t, f.client(t), f.mark("failed"), Commenting{}); got != c.outcome || f.has() != c.want {
				t.Errorf("%s: %s; want %s: %s", got, f.has(), c.outcome, c.want)
			}
		})
	}
	t.Run("two clients", func(t *testing.T) {
		f := newForgeTest(t)
		second := f.mark("verified")
		second.Run = 501
		var got Outcome
		f.Fault(createRoute, 1, githubtest.Fault{Before: func() { got = f.post(t, f.client(t), second, Commenting{}) }})
		first := f.post(t, f.client(t), f.mark("failed"), Commenting{})
		if f.has() != "verified:501.1" || got != CommentCreated || first != CommentSuperseded {
			t.Errorf("%s and %s: %s", first, got, f.has())
		}
	})
	t.Run("recreate", func(t *testing.T) {
		f := newForgeTest(t)
		old := f.mark("broken")
		old.Run = 400
		f.old(old)
		second := f.mark("verified")
		second.Run = 501
		f.Fault(createRoute, 1, githubtest.Fault{Before: func() { f.post(t, f.client(t), second, Commenting{Mode: CommentRecreate}) }})
		if got := f.post(t, f.client(t), f.mark("failed"), Commenting{Mode: CommentRecreate}); f.has() != "verified:501.1" || got != CommentSuperseded {
			t.Errorf("%s: %s", got, f.has())
		}
	})
	t.Run("deleted under it", func(t *testing.T) {
		f := newForgeTest(t)
		f.old(f.mark("failed"))
		f.Fault(editRoute, 1, githubtest.Fault{Before: func() {
			f.Mu.Lock()
			defer f.Mu.Unlock()
			f.Comments = nil
		}})
		if got := f.post(t, f.client(t), f.mark("verified"), Commenting{}); got != CommentCreated || f.has() != "verified:500.1" {
			t.Errorf("%s: %s", got, f.has())
		}
	})
	t.Run("duplicates from before", func(t *testing.T) {
		f := newForgeTest(t)
		for range 3 {
			f.old(f.mark("failed"))
		}
		if got := f.post(t, f.client(t), f.mark("verified"), Commenting{}); got != CommentUpdated || f.has() != "verified:500.1" || f.Comments[0].ID != 1 {
			t.Errorf("%s: %s", got, f.has())
		}
	})
}

// oss-pr-reviewer#21, storyland-ai#270: an old run finishes last. tfaction#1174: an
// old run is repeated.
func TestOlderRun(t *testing.T) {
	for name, c := range map[string]struct {
		head         string
		run          int64
		attempt      int
		pullHead     string
		outcome      Outcome
		overwritten  bool
		noteComments string
	}{
		"later run":           {h1, 501, 1, h1, CommentSuperseded, false, ""},
		"later attempt":       {h1, 500, 2, h1, CommentSuperseded, false, ""},
		"earlier run, re-run": {h1, 499, 9, h1, CommentUpdated, true, ""},
		"same run":            {h1, 500, 1, h1, CommentUpdated, true, ""},
		"head moved":          {h2, 501, 1, h2, CommentStale, false, ""},
		"later run, old head": {h2, 501, 1, h1, CommentUpdated, true, ""}, // force-pushed back
	} {
		t.Run(name, func(t *testing.T) {
			f := newForgeTest(t)
			f.Pulls[7].Head = c.pullHead
			m := f.mark("verified")
			m.Head, m.Run, m.Attempt = c.head, c.run, c.attempt
			old := f.old(m).Body
			_, got, err := f.client(t).PostComment(t.Context(), f.pull(), f.mark("failed"), say("new"), Commenting{})
			if err != nil || got != c.outcome || (f.Comments[0].Body != old) != c.overwritten || len(f.Comments) != 1 {
				t.Errorf("%s, %v: %q", got, err, f.Comments[0].Body)
			}
		})
	}
	// occt-wasm#344: the head moves while the comment is posted.
	t.Run("head moves", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault(createRoute, 1, githubtest.Fault{Then: func() {
			f.Mu.Lock()
			defer f.Mu.Unlock()
			f.Pulls[7].Head = h2
		}})
		url, got, err := f.client(t).PostComment(t.Context(), f.pull(), f.mark("failed"), say(""), Commenting{})
		if err != nil || got != CommentStale || url == "" {
			t.Errorf("%s at %q, %v", got, url, err)
		}
	})
}

// ctrf#149, robotframework-reporter#18: the jobs of a matrix have a comment each.
func TestKeys(t *testing.T) {
	f := newForgeTest(t)
	c := f.client(t)
	for _, key := range []string{"go", "go.1", "node", "go"} {
		m := f.mark("verified")
		m.Key = key
		f.post(t, c, m, Commenting{})
	}
	if len(f.Comments) != 3 {
		t.Errorf("there is %s", f.has())
	}
}

// reviewdog#1065, peter-evans#205: too long, when it is made and when it is updated.
func TestTooLong(t *testing.T) {
	f := newForgeTest(t)
	c := f.client(t)
	long := say(strings.Repeat("é", 65536))
	for range 2 {
		if _, _, err := c.PostComment(t.Context(), f.pull(), f.mark("failed"), long, Commenting{}); !errors.Is(err, ErrTooLong) {
			t.Errorf("got %v", err)
		}
		f.old(f.mark("failed"))
	}
	if f.Calls(createRoute) != 1 || f.Calls(editRoute) != 1 {
		t.Errorf("tried again: %d, %d", f.Calls(createRoute), f.Calls(editRoute))
	}
}

// ChatGPT-CodeReview#206: writes are a second apart.
func TestSpacing(t *testing.T) {
	f := newForgeTest(t)
	c := f.client(t)
	for range 5 {
		if err := c.PostStatus(t.Context(), h1, false, Status{State: StatePending}); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.clock().Sub(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)); got != 4*time.Second {
		t.Errorf("five writes in %s", got)
	}
}
