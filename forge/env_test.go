package forge

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func environmentOf(t *testing.T, change map[string]string) func(string) string {
	t.Helper()
	env := map[string]string{
		"GITHUB_SERVER_URL": "https://github.com", "GITHUB_API_URL": "https://api.github.com", "GITHUB_GRAPHQL_URL": "https://api.github.com/graphql",
		"GITHUB_REPOSITORY": "acme/widgets", "GITHUB_REPOSITORY_ID": "4001", "GITHUB_EVENT_NAME": "pull_request",
		"GITHUB_RUN_ID": "500", "GITHUB_RUN_ATTEMPT": "2", "GITHUB_SHA": g1, "GITHUB_REF": "refs/pull/7/merge", "GITHUB_ACTOR": "alice", "GITHUB_WORKFLOW": "test",
		"GITHUB_REF_PROTECTED": "false",
	}
	maps.Copy(env, change)
	return func(name string) string { return env[name] }
}

func TestReadJob(t *testing.T) {
	t.Parallel()
	got, err := ReadJob(environmentOf(t, nil))
	want := Job{
		Server: "https://github.com", API: "https://api.github.com", GraphQL: "https://api.github.com/graphql", Repository: "acme/widgets", RepositoryID: 4001,
		Event: "pull_request", RunID: 500, Attempt: 2, Workflow: "test", SHA: g1, Ref: "refs/pull/7/merge", Actor: "alice",
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestReadJobRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value string }{
		{"GITHUB_API_URL", ""},
		{"GITHUB_API_URL", "http://github.example/api/v3"}, // would show the token to the network
		{"GITHUB_API_URL", "https://user:secret@github.example"},
		{"GITHUB_API_URL", "github.example"},
		{"GITHUB_API_URL", "https://[::1"},
		{"GITHUB_GRAPHQL_URL", "ftp://github.example"},
		{"GITHUB_REPOSITORY", ""},
		{"GITHUB_REPOSITORY", "acme"},
		{"GITHUB_REPOSITORY", "acme/.."},
		{"GITHUB_REPOSITORY", "acme/widgets/../../other"},
		{"GITHUB_REPOSITORY_ID", "0"},
		{"GITHUB_REPOSITORY_ID", "+1"},
		{"GITHUB_REPOSITORY_ID", "99999999999999999999"},
		{"GITHUB_RUN_ID", ""},
		{"GITHUB_RUN_ID", "007"},
		{"GITHUB_RUN_ATTEMPT", "-1"},
		{"GITHUB_SHA", "abc"},
		{"GITHUB_SHA", strings.ToUpper(g1)},
		{"GITHUB_EVENT_NAME", ""},
		{"GITHUB_EVENT_NAME", "Push\n"},
	} {
		got, err := ReadJob(environmentOf(t, map[string]string{c.name: c.value}))
		if err == nil || !strings.Contains(err.Error(), c.name) || got != (Job{}) {
			t.Errorf("%s=%q: got %+v, %v", c.name, c.value, got, err)
		}
		if c.value == "" && !errors.Is(err, errMissing) {
			t.Errorf("%s: %v is not that it is missing", c.name, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows credentials: %v", c.name, err)
		}
	}
}

// sticky#953, gitea#36024: addresses come from the environment and keep their path.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		api, graphql string
		gitea        bool
		want         string // of a request
	}{
		{"https://api.github.com", "https://api.github.com/graphql", false, "https://api.github.com/repos"},
		{"https://ghe.example/api/v3", "https://ghe.example/api/graphql", false, "https://ghe.example/api/v3/repos"},
		{"https://ghe.example/sub/path/api/v3/", "", false, "https://ghe.example/sub/path/api/v3/repos"},
		{"https://gitea.example/sub/api/v1", "https://gitea.example/graphql", true, "https://gitea.example/sub/api/v1/repos"},
		{"http://127.0.0.1:3000/api/v1", "", true, "http://127.0.0.1:3000/api/v1/repos"},
	} {
		change := map[string]string{"GITHUB_API_URL": c.api, "GITHUB_GRAPHQL_URL": c.graphql}
		if c.gitea {
			change["GITHUB_REPOSITORY_ID"], change["GITHUB_RUN_ATTEMPT"] = "", ""
		}
		j, err := ReadJob(environmentOf(t, change))
		if err != nil {
			t.Fatal(err)
		}
		if j.Gitea() != c.gitea || (j.GraphQL == "") != (c.gitea || c.graphql == "") {
			t.Errorf("%s: gitea %v, graphql %q", c.api, j.Gitea(), j.GraphQL)
		}
		client, err := NewClient(j, Options{})
		if err != nil {
			t.Fatal(err)
		}
		req, err := client.gh.NewRequest("GET", "repos", nil)
		if err != nil || req.URL.String() != c.want {
			t.Errorf("%s: a request goes to %v, %v; want %s", c.api, req.URL, err, c.want)
		}
	}
}
