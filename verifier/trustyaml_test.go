package verifier

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const fullTrust = `# Who may vouch for a run.
oidc:
  - issuer: https://github.example.com/_services/token
    repository-id: 9007199254740993
    workflows:
      - octo/ci/.github/workflows/truegreen.yml@refs/heads/release/1.x
      - octo/ci/.github/workflows/truegreen.yaml@refs/tags/v1.2.3
      - octo-org/a.b_c/.github/workflows/a_b-c.yml@0123456789abcdef0123456789abcdef01234567
    events: [pull_request, pull_request_target, merge_group, push]
    runner: any
    window: 90m
  - repository-id: 1
    workflows: ["o/r/.github/workflows/x.yml@refs/heads/main"]
    events: [push]
`

func TestParseTrust(t *testing.T) {
	t.Parallel()
	got, err := ParseTrust([]byte(fullTrust))
	if err != nil {
		t.Fatal(err)
	}
	want := TrustConfig{OIDC: []OIDCRule{
		{
			Issuer: "https://github.example.com/_services/token", RepositoryID: 9007199254740993,
			Workflows: []string{
				"octo/ci/.github/workflows/truegreen.yml@refs/heads/release/1.x",
				"octo/ci/.github/workflows/truegreen.yaml@refs/tags/v1.2.3",
				"octo-org/a.b_c/.github/workflows/a_b-c.yml@0123456789abcdef0123456789abcdef01234567",
			},
			Events: []string{"pull_request", "pull_request_target", "merge_group", "push"}, Runner: RunnerAny, Window: 90 * time.Minute,
		},
		{
			Issuer: DefaultIssuer, RepositoryID: 1, Workflows: []string{"o/r/.github/workflows/x.yml@refs/heads/main"},
			Events: []string{"push"}, Runner: "github-hosted", Window: 24 * time.Hour,
		},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestBadTrust(t *testing.T) {
	t.Parallel()
	rule := func(line string) string { // one more line, or another one in its place
		lines := map[string]string{
			"repository-id": "1", "workflows": "[o/r/.github/workflows/x.yml@refs/heads/main]", "events": "[push]",
		}
		key, value, _ := strings.Cut(line, ": ")
		lines[key] = value
		text := "oidc:\n  - issuer: https://issuer.example\n"
		for _, key := range []string{"repository-id", "workflows", "events", "runner", "window", "branch"} {
			if value := lines[key]; value != "" {
				text += "    " + key + ": " + value + "\n"
			}
		}
		return text
	}
	if _, err := ParseTrust([]byte(rule("runner: self-hosted"))); err != nil {
		t.Fatal(err)
	}
	workflow := func(w string) string { return rule(fmt.Sprintf("workflows: [%q]", w)) }
	for name, test := range map[string]struct{ file, want string }{
		"empty":                   {"", ":1: nothing is in it"},
		"comment":                 {"# nobody\n", ":1: nothing is in it"},
		"list":                    {"- oidc\n", ":1: not a mapping"},
		"no rule":                 {"oidc: []\n", ":1: oidc: not a list with at least one item"},
		"null":                    {"oidc:\n", ":1: oidc: not a list"},
		"unknown key":             {"oidcs: []\n", `:1: oidcs: unknown key; the nearest known one is "oidc"`},
		"unknown key of a rule":   {rule("branch: main"), ":6: oidc[0].branch: unknown key"},
		"key twice":               {"oidc: []\noidc: []\n", "oidc: there twice"},
		"anchor":                  {"oidc: &a []\n", "anchors and aliases"},
		"second document":         {"oidc: []\n---\noidc: []\n", "a second document"},
		"no repository":           {rule("repository-id: "), ":2: oidc[0]: repository-id is required"},
		"no workflows":            {rule("workflows: "), ":2: oidc[0]: workflows is required"},
		"no events":               {rule("events: "), ":2: oidc[0]: events is required"},
		"repository by name":      {rule("repository-id: o/r"), ":3: oidc[0].repository-id: not a positive integer"},
		"repository in quotes":    {rule(`repository-id: "1"`), "not a positive integer"},
		"repository zero":         {rule("repository-id: 0"), "not a positive integer"},
		"repository negative":     {rule("repository-id: -1"), "not a positive integer"},
		"repository in hex":       {rule("repository-id: 0x1"), "integers are plain decimal"},
		"repository too large":    {rule("repository-id: 9223372036854775808"), "integer"},
		"issuer without TLS":      {strings.Replace(rule("runner: any"), "https", "http", 1), "want https://"},
		"issuer is a name":        {strings.Replace(rule("runner: any"), "https://issuer.example", "github", 1), "not the URL of an issuer"},
		"issuer with a query":     {strings.Replace(rule("runner: any"), "issuer.example", "issuer.example/?a", 1), "not the URL of an issuer"},
		"issuer with a password":  {strings.Replace(rule("runner: any"), "issuer.example", "a:b@issuer.example", 1), "not the URL of an issuer"},
		"one workflow":            {rule("workflows: o/r/.github/workflows/x.yml@refs/heads/main"), "not a list"},
		"workflow twice":          {rule("workflows: [o/r/.github/workflows/x.yml@refs/heads/main, o/r/.github/workflows/x.yml@refs/heads/main]"), "there twice"},
		"workflow without a ref":  {workflow("o/r/.github/workflows/x.yml"), "is not OWNER/REPOSITORY"},
		"workflow by short ref":   {workflow("o/r/.github/workflows/x.yml@main"), "or at a full commit id"},
		"workflow at a pull":      {workflow("o/r/.github/workflows/x.yml@refs/pull/1/merge"), "or at a full commit id"},
		"workflow at a short id":  {workflow("o/r/.github/workflows/x.yml@0123456"), "or at a full commit id"},
		"workflow at a large id":  {workflow("o/r/.github/workflows/x.yml@0123456789ABCDEF0123456789ABCDEF01234567"), "or at a full commit id"},
		"pattern of branches":     {workflow("o/r/.github/workflows/x.yml@refs/heads/*"), "there are no patterns"},
		"pattern of workflows":    {workflow("o/r/.github/workflows/*.yml@refs/heads/main"), "is not OWNER/REPOSITORY"},
		"branch without a name":   {workflow("o/r/.github/workflows/x.yml@refs/heads/"), "not the name of a branch"},
		"branch with dots":        {workflow("o/r/.github/workflows/x.yml@refs/heads/a..b"), "not the name of a branch"},
		"branch with a space":     {workflow("o/r/.github/workflows/x.yml@refs/heads/a b"), "not the name of a branch"},
		"workflow elsewhere":      {workflow("o/r/ci/x.yml@refs/heads/main"), "is not OWNER/REPOSITORY"},
		"workflow at two":         {workflow("o/r/.github/workflows/x.yml@refs/heads/a@refs/heads/b"), "not the name of a branch"},
		"workflow behind a line":  {workflow("x\no/r/.github/workflows/x.yml@refs/heads/main"), "is not OWNER/REPOSITORY"},
		"empty workflow":          {workflow(""), "is not OWNER/REPOSITORY"},
		"event in capitals":       {rule("events: [Push]"), `"Push" is not the name of an event`},
		"event star":              {rule(`events: ["*"]`), "is not the name of an event"},
		"event twice":             {rule("events: [push, push]"), "there twice"},
		"too many events":         {rule("events: [" + strings.Repeat("push, ", 64) + "push]"), "more than 64"},
		"runner of another kind":  {rule("runner: large"), "is not github-hosted, self-hosted or any"},
		"window without a unit":   {rule("window: 24"), "not a duration from 1m to 168h"},
		"window too short":        {rule("window: 59s"), "not a duration"},
		"window too long":         {rule("window: 169h"), "not a duration"},
		"window negative":         {rule("window: -1h"), "not a duration"},
		"too many rules":          {"oidc:\n" + strings.Repeat("  - {repository-id: 1, workflows: [o/r/.github/workflows/x.yml@refs/heads/main], events: [push]}\n", 17), "more than 16 rules"},
		"larger than it may be":   {"# " + strings.Repeat("x", maxYAML), "the limit is"},
		"not UTF-8":               {"oidc: \xff\n", "not UTF-8"},
		"events are not a string": {rule("events: [1]"), "not a string; quote it"},
	} {
		got, err := ParseTrust([]byte(test.file))
		if err == nil || !strings.HasPrefix(err.Error(), TrustFile+":") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if got.OIDC != nil {
			t.Errorf("%s: %+v after an error", name, got)
		}
	}
}

func TestCheckIssuer(t *testing.T) {
	t.Parallel()
	for s, ok := range map[string]bool{
		DefaultIssuer:                           true,
		"https://a.example:8443/x":              true,
		"http://127.0.0.1:80":                   true,
		"http://[::1]:80":                       true,
		"http://127.0.0.1.example":              false,
		"http://localhost":                      false,
		"http://a.example":                      false,
		"https://":                              false,
		"//a.example":                           false,
		"ftp://a.example":                       false,
		"https://a.example/?":                   false,
		"https://a.example/#x":                  false,
		"https://u@a.example":                   false,
		"https://a.example/\n":                  false,
		"HTTPS://a.example":                     false,
		"https://" + strings.Repeat("a", 1<<10): false,
	} {
		if err := CheckIssuer(s); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzTrust(f *testing.F) {
	f.Add([]byte(fullTrust))
	f.Add([]byte("oidc: [{repository-id: 1, workflows: [o/r/.github/workflows/x.yml@refs/heads/main], events: [push]}]"))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := ParseTrust(file)
		if err != nil {
			if c.OIDC != nil || !strings.HasPrefix(err.Error(), TrustFile+":") {
				t.Errorf("%+v, %v", c, err)
			}
			return
		}
		for _, r := range c.OIDC {
			if r.RepositoryID < 1 || len(r.Workflows) == 0 || len(r.Events) == 0 || r.Window < time.Minute || CheckIssuer(r.Issuer) != nil {
				t.Errorf("rule %+v", r)
			}
			for _, w := range r.Workflows {
				if strings.Contains(w, "refs/pull/") && !strings.Contains(w, "@refs/heads/") && !strings.Contains(w, "@refs/tags/") {
					t.Errorf("workflow %q", w)
				}
			}
		}
	})
}
