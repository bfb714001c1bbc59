package forge

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
)

// Where the cases are that actions like this one were seen to fail in. The names in
// brackets are the public reports; each test names its own again.
//
//	 1 sticky#227, danger-js#918              TestPermission
//	 2 EnricoMi#95, #641                      TestPermission
//	 3 EnricoMi#188                           TestFinal
//	 4 EnricoMi#619, #419                     TestLimits
//	 5 429                                    TestLimits
//	 6 reviewdog#355                          TestUncertain
//	 7 sticky#269, claude-code-action#1781    TestManyComments
//	 8 sticky#332                             TestForeignMark
//	 9 danger-js#1031, #1347                  TestOwnComments
//	10 mergify#654, uploads#554               TestCreateRace
//	11 oss-pr-reviewer#21, storyland-ai#270   TestOlderRun
//	12 tfaction#1174                          TestOlderRun
//	13 ctrf#149, robotframework-reporter#18   TestKeys
//	14 reviewdog#1065, peter-evans#205        TestTooLong, TestDegrade
//	15 dorny#57, #60                          TestCheckBytes, TestStatusCut
//	16 mikepenz#1063, big-code-analysis#440   TestAnnotationQuota
//	17 dorny#143                              TestCheckChunks
//	18 maester#905                            TestSummary
//	19 peter-evans#96, sticky#1408            docs/recipes: TestActionInputs; no input is a text
//	20 golangci-lint-action#31, temporal#6594 TestPlace
//	21 runner#3444                            TestWorkflowRun
//	22 mikepenz#522, CoursIA#10492            TestStatusOnHead
//	23 larksuite/cli#170                      TestWorkflowRun
//	24 CodSpeedHQ/action#126                  TestMergeGroup
//	25 push, no pull request or several       TestPush
//	26 dorny#116, #343                        TestArtifacts
//	27 gh-gei#1347                            TestUnpackRefuses, FuzzUnpack
//	28 irsl 2025                              TestDownloadDigest
//	29 CVE-2022-35954                         TestOutputInjection
//	30 ::add-mask:: in output                 TestStopCommands
//	31 runner#665, act#2874                   docs/recipes: TestActionInputs
//	32 runner#2566, ecamp3#4429               docs/recipes: TestRules; cmd: TestActTampered
//	33 sticky#953, gitea#36024                TestAddresses, TestGitea
//	34 testcontainers-go#1288                 TestArtifacts, verifier: no-tests
//	35 zuke-build/zuke#514                    cmd: TestCIReadOnly
//	36 omi#13850 and others                   cmd: the scripts hook_*.txt
//	37 snyk/actions#87                        docs/recipes: TestFind

// commits of the repository that tests have:
//
//	m1 ── m2 ── m3        main
//	 └─── h1 ── h2        feature
//	g1 = m2 + h1          merge of the pull request
func sha(name string) string {
	var sum uint32
	for _, c := range name {
		sum = sum*131 + uint32(c)
	}
	return fmt.Sprintf("%040x", 0xabc<<40|uint64(sum))
}

var (
	m1, m2, m3 = sha("m1"), sha("m2"), sha("m3")
	h1, h2     = sha("h1"), sha("h2")
	g1         = sha("g1")
)

func tree(commit string) string { return sha("tree of " + commit) }

// A forgeTest is a server, a job on it, and a clock that only waiting moves.
type forgeTest struct {
	*githubtest.Server
	job   Job
	o     Options
	mu    sync.Mutex
	now   time.Time
	slept []time.Duration
}

func newForgeTest(t *testing.T) *forgeTest {
	t.Helper()
	t.Parallel()
	description := ""
	if dir := os.Getenv("TRUEGREEN_VECTORS"); dir != "" {
		description = filepath.Join(dir, "github", "rest-subset.json")
	}
	s := githubtest.New(t, description)
	for id, parents := range map[string][]string{m1: nil, m2: {m1}, m3: {m2}, h1: {m1}, h2: {h1}, g1: {m2, h1}} {
		s.Commits[id] = githubtest.Commit{Tree: tree(id), Parents: parents}
	}
	s.Refs["heads/main"] = githubtest.Object{Type: "commit", SHA: m3}
	yes := true
	s.Pulls[7] = &githubtest.Pull{
		Number: 7, Head: h1, HeadBranch: "feature", HeadRepo: githubtest.Repository, HeadRepoID: githubtest.RepositoryID,
		Base: m2, BaseBranch: "main", Merge: g1, Mergeable: &yes,
	}
	f := &forgeTest{Server: s, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	f.job = Job{
		Server: "https://github.com", API: s.URL(), GraphQL: s.GraphQLURL(),
		Repository: githubtest.Repository, RepositoryID: githubtest.RepositoryID,
		Event: "pull_request", RunID: 500, Attempt: 1, SHA: g1, Ref: "refs/pull/7/merge", Actor: "alice",
	}
	f.o = Options{Token: githubtest.JobToken, Now: f.clock, Sleep: f.sleep}
	return f
}

func (f *forgeTest) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *forgeTest) sleep(ctx context.Context, d time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	f.slept = append(f.slept, d)
	return ctx.Err()
}

// waited is the longest that was slept at once.
func (f *forgeTest) waited() (longest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.slept {
		longest = max(longest, d)
	}
	return longest
}

func (f *forgeTest) client(t *testing.T) *Client {
	t.Helper()
	c, err := NewClient(f.job, f.o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fork makes pull request 7 one of mallory's.
func (f *forgeTest) fork() {
	f.Pulls[7].HeadRepo, f.Pulls[7].HeadRepoID = "mallory/widgets", githubtest.ForkID
}

type object = map[string]any

func payload(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var ours = object{"id": githubtest.RepositoryID, "full_name": githubtest.Repository, "default_branch": "main"}

// pullEvent is the event of a pull request as the server has it.
func pullEvent(p *githubtest.Pull) object {
	var head any
	if p.HeadRepo != "" {
		head = object{"id": p.HeadRepoID, "full_name": p.HeadRepo}
	}
	return object{"action": "synchronize", "number": p.Number, "repository": ours, "pull_request": object{
		"number": p.Number, "state": "open",
		"head": object{"sha": p.Head, "ref": p.HeadBranch, "repo": head},
		"base": object{"sha": p.Base, "ref": p.BaseBranch, "repo": ours},
	}}
}
