package forge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
)

const statusRoute = "POST /repos/{owner}/{repo}/statuses/{sha}"

func (f *forgeTest) status(t *testing.T) error {
	return f.client(t).PostStatus(t.Context(), h1, f.Pulls[7].HeadRepoID != githubtest.RepositoryID, Status{State: StateSuccess})
}

// sticky#227, danger-js#918: a fork's token. EnricoMi#95, #641: Dependabot's.
func TestPermission(t *testing.T) {
	for name, c := range map[string]struct {
		setup func(*forgeTest)
		cause string
	}{
		"plain":      {func(*forgeTest) {}, ""},
		"fork":       {(*forgeTest).fork, causeFork},
		"dependabot": {func(f *forgeTest) { f.job.Actor = "dependabot[bot]" }, causeDependabot},
		"fork, reported by workflow_run": {func(f *forgeTest) {
			f.fork()
			f.job.Event, f.job.Actor = "workflow_run", "dependabot[bot]"
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForgeTest(t)
			f.o.Token = githubtest.ReadOnlyToken
			c.setup(f)
			client := f.client(t)
			post := map[string]func() error{
				needComment: func() error {
					_, _, err := client.PostComment(t.Context(), f.pull(), f.mark("failed"), say(""), Commenting{})
					return err
				},
				needStatus: func() error { return f.status(t) },
				needCheck: func() error {
					_, err := client.PostCheck(t.Context(), f.pull().Fork, Check{Commit: h1})
					return err
				},
			}
			for need, post := range post {
				err := post()
				var p *PermissionError
				if !errors.As(err, &p) || p.Need != need || p.Cause != c.cause || p.Accepted != "pull_requests=write; issues=write" {
					t.Fatalf("%s: %v", need, err)
				}
				for _, part := range []string{need, p.Accepted, c.cause} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%v does not say %s", err, part)
					}
				}
				want := "permissions:\n  " + need + "\n"
				if got := p.Fix(); !strings.HasSuffix(got, want) || strings.Contains(got, "workflow_run") != (c.cause != "") {
					t.Errorf("%s: fix %q", need, got)
				}
			}
			if n := f.Calls(createRoute) + f.Calls(statusRoute) + f.Calls("POST /repos/{owner}/{repo}/check-runs"); n != 3 {
				t.Errorf("%d calls, want one each", n)
			}
			if len(f.slept) != 0 && f.waited() > writeSpacing {
				t.Errorf("waited %v", f.slept)
			}
		})
	}
}

// EnricoMi#188: what will not change is not tried again.
func TestFinal(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{401, `{"message":"Bad credentials"}`, "token was refused"},
		{403, `{"message":"Resource not accessible by integration"}`, "lacks statuses: write"},
		{403, `{"message":"Resource not accessible by personal access token"}`, "lacks statuses: write"},
		{403, `{"message":"Unable to create comment because issue is locked."}`, "locked"},
		{403, `<html>`, "lacks"},
		{404, `{"message":"Not Found"}`, "status 404"},
		{422, `{"message":"Validation Failed"}`, "status 422"},
		{410, ``, "status 410"},
		{501, ``, "status 501"},
	} {
		t.Run(fmt.Sprint(c.status, c.want), func(t *testing.T) {
			f := newForgeTest(t)
			f.Fault(statusRoute, 0, githubtest.Fault{Status: c.status, Body: c.body})
			err := f.status(t)
			if err == nil || !strings.Contains(err.Error(), c.want) || f.Calls(statusRoute) != 1 || len(f.slept) != 0 {
				t.Errorf("%d calls, slept %v: %v", f.Calls(statusRoute), f.slept, err)
			}
		})
	}
	t.Run("hostile message", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault(statusRoute, 0, githubtest.Fault{Status: 422, Body: `{"message":"::error::\n\u202e` + strings.Repeat("x", 1000) + `"}`})
		err := f.status(t)
		if err == nil || strings.ContainsAny(err.Error(), "\n\u202e") || len(err.Error()) > 300 {
			t.Errorf("%q", err)
		}
	})
}

// EnricoMi#619, #419: limits, with and without a word on when they end. 429 counts
// as they do, which go-github does not know.
func TestLimits(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	reset := fmt.Sprint(start.Add(40 * time.Second).Unix())
	for _, c := range []struct {
		name        string
		status      int
		header      http.Header
		body        string
		least, most time.Duration
	}{
		{"secondary", 403, nil, `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`, time.Minute, 75 * time.Second},
		{"secondary, by its page", 403, nil, `{"message":"No","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`, time.Minute, 75 * time.Second},
		{"secondary, said", 403, http.Header{"Retry-After": {"30"}}, `{"message":"secondary rate limit"}`, 30 * time.Second, 35 * time.Second},
		{"primary", 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {reset}}, `{"message":"API rate limit exceeded"}`, 40 * time.Second, 47 * time.Second},
		{"primary, over", 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1"}}, `{}`, time.Second, 7 * time.Second},
		{"429", 429, nil, ``, time.Minute, 75 * time.Second},
		{"429, said", 429, http.Header{"Retry-After": {"7"}}, ``, 7 * time.Second, 12 * time.Second},
		{"abuse", 403, nil, `{"message":"You have triggered an abuse detection mechanism."}`, time.Minute, 75 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForgeTest(t)
			f.Fault(statusRoute, 1, githubtest.Fault{Status: c.status, Header: c.header, Body: c.body})
			if err := f.status(t); err != nil || f.Calls(statusRoute) != 2 {
				t.Fatalf("%d calls: %v", f.Calls(statusRoute), err)
			}
			if got := f.waited(); got < c.least || got > c.most {
				t.Errorf("waited %s, want %s to %s", got, c.least, c.most)
			}
		})
	}
	t.Run("a create is sent again", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault(createRoute, 1, githubtest.Fault{Status: 403, Body: `{"message":"secondary rate limit"}`})
		if got := f.post(t, f.client(t), f.mark("failed"), Commenting{}); got != CommentCreated || f.Calls(createRoute) != 2 {
			t.Errorf("%s after %d calls", got, f.Calls(createRoute))
		}
	})
	t.Run("more than the timeout", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault(statusRoute, 0, githubtest.Fault{Status: 403, Header: http.Header{"Retry-After": {"3600"}}})
		if err := f.status(t); err == nil || !strings.Contains(err.Error(), "would wait") || len(f.slept) != 0 {
			t.Errorf("slept %v: %v", f.slept, err)
		}
	})
	t.Run("of one call", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault(statusRoute, 1, githubtest.Fault{Status: 429, Header: http.Header{"Retry-After": {"50"}}, Before: func() { f.sleep(t.Context(), 80*time.Second) }})
		if err := f.status(t); err == nil || !strings.Contains(err.Error(), "would wait") || f.Calls(statusRoute) != 1 {
			t.Errorf("%d calls: %v", f.Calls(statusRoute), err)
		}
	})
	t.Run("in all", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault(statusRoute, 0, githubtest.Fault{Status: 429})
		c := f.client(t)
		for range 3 {
			if err := c.PostStatus(t.Context(), h1, false, Status{State: StateError}); err == nil {
				t.Error("posted")
			}
		}
		if got := f.clock().Sub(start); got > 2*time.Minute+3*writeSpacing {
			t.Errorf("waited %s", got)
		}
	})
	// A success that uses up the limit does not stop what follows on this side.
	t.Run("nothing left", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault(statusRoute, 1, githubtest.Fault{Status: 201, Body: `{}`, Header: http.Header{
			"X-Ratelimit-Limit": {"1000"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"4000000000"}}})
		c := f.client(t)
		for range 2 {
			if err := c.PostStatus(t.Context(), h1, false, Status{State: StateError}); err != nil {
				t.Error(err)
			}
		}
		if f.Calls(statusRoute) != 2 {
			t.Errorf("%d calls", f.Calls(statusRoute))
		}
	})
}

func TestServerTrouble(t *testing.T) {
	for _, fault := range []githubtest.Fault{{Status: 500}, {Status: 502, Body: "<html>"}, {Status: 503}, {Status: 504}, {Drop: true}} {
		t.Run(fmt.Sprint(fault.Status), func(t *testing.T) {
			f := newForgeTest(t)
			f.Fault(statusRoute, 1, fault)
			f.Fault(statusRoute, 2, fault)
			if err := f.status(t); err != nil || f.Calls(statusRoute) != 3 || len(f.Statuses) != 1 {
				t.Errorf("%d calls: %v", f.Calls(statusRoute), err)
			}
		})
	}
	t.Run("always", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault(statusRoute, 0, githubtest.Fault{Status: 503})
		if err := f.status(t); err == nil || f.Calls(statusRoute) != attempts {
			t.Errorf("%d calls: %v", f.Calls(statusRoute), err)
		}
	})
	t.Run("hangs", func(t *testing.T) {
		f := newForgeTest(t)
		f.o.Timeout = 50 * time.Millisecond
		f.Fault(statusRoute, 0, githubtest.Fault{Latency: time.Minute})
		if err := f.status(t); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("endless answer", func(t *testing.T) {
		f := newForgeTest(t)
		f.Fault(pullRoute, 0, githubtest.Fault{Status: 200, Body: `{"title":"` + strings.Repeat("x", maxAnswer) + `"}`})
		if _, err := f.client(t).pull(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("got %v", err)
		}
	})
}

// The token goes to the API and nowhere else, whatever an answer says.
func TestTokenStays(t *testing.T) {
	f := newForgeTest(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("asked elsewhere, with %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	for _, route := range []string{pullRoute, "GET /repos/{owner}/{repo}/actions/artifacts/{artifact}/{kind}"} {
		f.Fault(route, 0, githubtest.Fault{Status: 301, Header: http.Header{"Location": {elsewhere.URL + "/x"}}})
	}
	c := f.client(t)
	if _, err := c.pull(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "not the host") {
		t.Errorf("pull: %v", err)
	}
	if err := c.Download(t.Context(), Artifact{ID: 1}, "", 100, &bytes.Buffer{}); err == nil {
		t.Error("download: followed")
	}
	for _, r := range f.Requests() {
		if r.Authorization != "Bearer "+githubtest.JobToken {
			t.Errorf("%s with %q", r.Path, r.Authorization)
		}
	}
}

// A repository that was renamed is found on the same host.
func TestRenamed(t *testing.T) {
	f := newForgeTest(t)
	f.Fault(pullRoute, 1, githubtest.Fault{Status: 301, Header: http.Header{"Location": {f.URL() + "/repos/acme/widgets/pulls/7"}}})
	if p, err := f.client(t).pull(t.Context(), 7); err != nil || p.Number != 7 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestFile(t *testing.T) {
	f := newForgeTest(t)
	f.Files[m1+":.truegreen/trust.yaml"] = []byte("oidc: []\n")
	f.Files[m1+":a b/ü#?.txt"] = []byte("x")
	c := f.client(t)
	read := func(name, commit string, limit int64) ([]byte, error) {
		return c.File(t.Context(), githubtest.Repository, name, commit, limit)
	}
	for _, name := range []string{".truegreen/trust.yaml", "a b/ü#?.txt"} {
		if b, err := read(name, m1, 9); err != nil || !bytes.Equal(b, f.Files[m1+":"+name]) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, err := read(".truegreen/trust.yaml", m1, 8); err == nil || b != nil {
		t.Errorf("over the limit: %q", b)
	}
	if _, err := read("nothing", m1, 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("not there: %v", err)
	}
	if _, err := read(".truegreen", m1, 9); !errors.Is(err, errNotFile) {
		t.Errorf("folder: %v", err)
	}
	// What a token may not see is answered as what is not there.
	var p *PermissionError
	if _, err := read(".truegreen.yaml", sha("unseen"), 9); !errors.As(err, &p) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of an unseen commit: %v", err)
	}
	n := len(f.Requests())
	for _, c := range []struct{ name, commit string }{{"../x", m1}, {"/x", m1}, {"", m1}, {".", m1}, {"a//b", m1}, {"x", "main"}, {"a\\b", m1}, {"x", ""}} {
		if _, err := read(c.name, c.commit, 9); err == nil {
			t.Errorf("%q at %q", c.name, c.commit)
		}
	}
	if _, err := c.File(t.Context(), "acme/widgets/../x", "x", m1, 9); err == nil || len(f.Requests()) != n {
		t.Error("asked for what is no path")
	}
}
