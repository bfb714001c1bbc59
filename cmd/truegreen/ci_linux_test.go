package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/internal/githubtest"
	"github.com/truegreen-dev/truegreen/verifier"
)

// A hub is a forge with a repository that has one pull request, and jobs that run the
// steps of the action there.
type hub struct {
	*githubtest.Server
	t                       *testing.T
	dir, temp               string // repository, RUNNER_TEMP
	base, head, merge       string
	event                   map[string]any
	env                     map[string]string
	claims                  map[string]any // that replace the token's own
	eventName, eventSHA     string
	workflow                string
	exit                    int
	out                     map[string]string
	stdout, stderr, summary string
}

// hubForks is the workflow whose jobs run forks' patches.
const hubForks = githubtest.Repository + "/.github/workflows/truegreen-forks.yml@refs/heads/main"

// newHub makes a pull request: its base fails no test, and its head is what patch
// changes of the files.
func newHub(t *testing.T, patch map[string]string) *hub {
	t.Helper()
	t.Parallel()
	if !isolates() {
		if required() {
			t.Fatal("this host cannot isolate, and TRUEGREEN_TOOLS=require")
		}
		t.Skip("this host cannot isolate")
	}
	description := ""
	if dir := os.Getenv("TRUEGREEN_VECTORS"); dir != "" {
		description = filepath.Join(dir, "github", "rest-subset.json")
	}
	h := &hub{
		Server: githubtest.New(t, description), t: t, dir: t.TempDir(), temp: t.TempDir(), env: map[string]string{},
		workflow: githubtest.Repository + "/.github/workflows/truegreen-jobs.yml@refs/heads/main",
	}
	for _, dir := range []string{h.dir, h.temp} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.git("init", "--quiet", "--initial-branch=main")
	base := map[string]string{
		verifier.ConfigFile: demoConfig, "calc.sh": "add() { echo $(($1 + $2)); }\n", "test.sh": fmt.Sprintf(demoTest, `check sum "$(add 1 2)" 3`),
		verifier.KeysFile: string(fixture.IssuerKeys(fixture.TokenKeyID, &fixture.IssuerKey().PublicKey)),
		verifier.TrustFile: fmt.Sprintf("oidc:\n  - repository-id: %d\n    workflows: [%s, %s]\n    events: [pull_request, pull_request_target, push, merge_group]\n",
			githubtest.RepositoryID, h.workflow, hubForks),
	}
	for name, text := range patch { // of the base: with a leading slash
		if name, ok := strings.CutPrefix(name, "/"); ok {
			base[name] = text
			if text == "" {
				delete(base, name)
			}
		}
	}
	h.base = h.commit(base)
	h.git("checkout", "--quiet", "-b", "feature")
	h.commit(map[string]string{"README": "a patch\n"})
	change := map[string]string{}
	for name, text := range patch {
		if !strings.HasPrefix(name, "/") {
			change[name] = text
		}
	}
	h.head = h.commit(change)
	h.git("checkout", "--quiet", "main")
	h.base = h.commit(map[string]string{"meanwhile": "landed\n"})
	h.git("checkout", "--quiet", "--detach")
	h.git("merge", "--quiet", "--no-ff", "--message=merge", "feature")
	h.merge = h.git("rev-parse", "HEAD")
	h.git("update-ref", "refs/truegreen/merge", h.merge)
	h.serve()
	h.pullRequest("pull_request", h.merge)
	return h
}

func (h *hub) git(args ...string) string {
	h.t.Helper()
	c := exec.Command("git", append([]string{"-C", h.dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := c.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files, "" for none, and commits them.
func (h *hub) commit(files map[string]string) string {
	h.t.Helper()
	for name, text := range files {
		path := filepath.Join(h.dir, name)
		if text == "" {
			os.Remove(path)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			h.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			h.t.Fatal(err)
		}
	}
	h.git("add", "--all")
	h.git("commit", "--quiet", "--allow-empty", "--message=change")
	return h.git("rev-parse", "HEAD")
}

// serve gives the forge what the repository has.
func (h *hub) serve() {
	for _, line := range strings.Split(h.git("log", "--all", "--format=%H %T %P"), "\n") {
		ids := strings.Fields(line)
		h.Commits[ids[0]] = githubtest.Commit{Tree: ids[1], Parents: ids[2:]}
		for _, name := range []string{verifier.ConfigFile, verifier.TrustFile, verifier.KeysFile, "one/.truegreen.yaml", "two/.truegreen.yaml"} {
			c := exec.Command("git", "-C", h.dir, "show", ids[0]+":"+name)
			if text, err := c.Output(); err == nil {
				h.Files[ids[0]+":"+name] = text
			}
		}
	}
	h.Refs["heads/main"] = githubtest.Object{Type: "commit", SHA: h.base}
	yes := true
	h.Pulls[7] = &githubtest.Pull{
		Number: 7, Head: h.head, HeadBranch: "feature", HeadRepo: githubtest.Repository, HeadRepoID: githubtest.RepositoryID,
		Base: h.base, BaseBranch: "main", Merge: h.merge, Mergeable: &yes,
	}
	h.Token = func(audience string) string {
		issued := time.Now()
		claims := map[string]any{
			"iss": verifier.DefaultIssuer, "aud": audience, "iat": issued.Unix(), "nbf": issued.Unix() - 60, "exp": issued.Unix() + 2,
			"repository_id": fmt.Sprint(githubtest.RepositoryID), "repository": githubtest.Repository, "event_name": h.eventName,
			"sha": h.eventSHA, "run_id": "500", "run_attempt": "1", "job_workflow_ref": h.workflow, "runner_environment": "github-hosted",
		}
		maps.Copy(claims, h.claims)
		token, err := fixture.Token(claims)
		if err != nil {
			h.t.Error(err)
		}
		return string(token)
	}
}

var hubRepo = map[string]any{"id": githubtest.RepositoryID, "full_name": githubtest.Repository, "default_branch": "main", "private": true}

// pullRequest makes the jobs ones of the pull request.
func (h *hub) pullRequest(event, sha string) {
	p := h.Pulls[7]
	h.eventName, h.eventSHA = event, sha
	h.event = map[string]any{"action": "synchronize", "number": 7, "repository": hubRepo, "pull_request": map[string]any{
		"number": 7, "state": "open",
		"head": map[string]any{"sha": p.Head, "ref": p.HeadBranch, "repo": map[string]any{"id": p.HeadRepoID, "full_name": p.HeadRepo}},
		"base": map[string]any{"sha": p.Base, "ref": p.BaseBranch, "repo": hubRepo},
	}}
}

// step runs one step of the action, in a job of its own, with these inputs.
func (h *hub) step(mode string, inputs map[string]string) *hub {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	dir, err := os.MkdirTemp(h.temp, "job-")
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		h.t.Fatal(err)
	}
	payload, err := json.Marshal(h.event)
	if err != nil {
		h.t.Fatal(err)
	}
	eventPath, output, summary := filepath.Join(dir, "event.json"), filepath.Join(dir, "output"), filepath.Join(dir, "summary")
	if err := os.WriteFile(eventPath, payload, 0o644); err != nil {
		h.t.Fatal(err)
	}
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": dir, "RUNNER_TEMP": dir, "GITHUB_ACTIONS": "true", "CI": "true",
		"GITHUB_SERVER_URL": "https://github.com", "GITHUB_API_URL": h.URL(), "GITHUB_GRAPHQL_URL": h.GraphQLURL(),
		"GITHUB_REPOSITORY": githubtest.Repository, "GITHUB_REPOSITORY_ID": fmt.Sprint(githubtest.RepositoryID),
		"GITHUB_EVENT_NAME": h.eventName, "GITHUB_EVENT_PATH": eventPath, "GITHUB_SHA": h.eventSHA, "GITHUB_RUN_ID": "500",
		"GITHUB_RUN_ATTEMPT": "1", "GITHUB_WORKSPACE": h.dir, "GITHUB_OUTPUT": output, "GITHUB_STEP_SUMMARY": summary,
		"GITHUB_RETENTION_DAYS": "90", "GITHUB_ACTOR": "alice", "INPUT_MODE": mode, "INPUT_STATUS": "truegreen",
	}
	if mode != modeRun {
		env["INPUT_GITHUB_TOKEN"] = githubtest.JobToken
	}
	if mode == modeSeal {
		maps.Copy(env, h.OIDC())
	}
	maps.Copy(env, h.env)
	for name, value := range inputs {
		env["INPUT_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = value
	}
	c := exec.Command(self, "ci")
	c.Args[0], c.Dir = "truegreen", dir
	for name, value := range env {
		c.Env = append(c.Env, name+"="+value)
	}
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	h.exit, h.stdout, h.stderr = c.ProcessState.ExitCode(), stdout.String(), stderr.String()
	h.out, h.summary = readOutputs(h.t, output), ""
	if text, err := os.ReadFile(summary); err == nil {
		h.summary = string(text)
	}
	return h
}

// readOutputs reads the file of a step's outputs as the platform does.
func readOutputs(t *testing.T, path string) map[string]string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for lines := strings.Split(string(text), "\n"); len(lines) > 1; {
		name, delimiter, ok := strings.Cut(lines[0], "<<")
		end := 1
		for end < len(lines) && lines[end] != delimiter {
			end++
		}
		if !ok || end == len(lines) {
			t.Fatalf("outputs: %q", text)
		}
		out[name], lines = strings.Join(lines[1:end], "\n"), lines[end+1:]
	}
	return out
}

// exits fails the test unless the last step did as it had to.
func (h *hub) exits(code int, reasons string) *hub {
	h.t.Helper()
	if h.exit != code || h.out["reasons"] != reasons {
		h.t.Fatalf("exit code %d, want %d; reasons %q, want %q\n%s\n%s", h.exit, code, h.out["reasons"], reasons, h.stdout, h.stderr)
	}
	return h
}

// hand returns the inputs by which the next job takes over what the last has made.
func (h *hub) hand() map[string]string {
	return map[string]string{"bundle": filepath.Dir(h.out["bundle-path"]), "bundle-sha256": h.out["bundle-sha256"], "seal": h.out["seal"]}
}

// TestCIBranch: a pull request of a branch, from job to job.
func TestCIBranch(t *testing.T) {
	h := newHub(t, nil)
	h.step(modeRun, nil).exits(0, "")
	if h.out["verdict"] != "verified" || h.out["tests-passed"] != "2" || h.out["tested"] != h.merge || !strings.HasPrefix(h.stdout, "truegreen ") {
		t.Errorf("outputs %q\n%s", h.out, h.stdout)
	}
	next := h.hand()
	// Nothing but this job's own key vouches for the bundle.
	h.step(modeVerify, next).exits(3, "no-trusted-seal")
	h.step(modeSeal, next).exits(0, "")
	if want := "truegreen:sha256:" + h.out["seal"]; len(h.Audiences) != 1 || h.Audiences[0] != want {
		t.Errorf("audiences %q, want %q", h.Audiences, want)
	}
	h.step(modeVerify, next).exits(0, "")
	h.step(modeReport, next).exits(0, "")
	if h.out["reported"] != "true" || h.out["comment-url"] == "" || len(h.Comments) != 1 {
		t.Fatalf("outputs %q\n%s", h.out, h.stdout)
	}
	body := h.Comments[0].Body
	for _, want := range []string{"<!-- truegreen v1 key=default head=" + h.head + " run=500 attempt=1 verdict=verified passed=2", "verified", "2 tests pass on both", "chain: ", h.merge[:0]} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in the comment\n%s", want, body)
		}
	}
	if len(h.Statuses) != 1 || h.Statuses[0].Commit != h.head || h.Statuses[0].State != "success" {
		t.Errorf("statuses %+v", h.Statuses)
	}
	if !strings.Contains(h.summary, "2 tests pass on both") {
		t.Errorf("summary %q", h.summary)
	}
	// The report alone is run again: it updates the comment.
	h.env["GITHUB_RUN_ATTEMPT"] = "2"
	h.step(modeReport, next).exits(0, "")
	if len(h.Comments) != 1 || !strings.Contains(h.Comments[0].Body, "attempt=2") {
		t.Errorf("%d comments\n%s", len(h.Comments), h.Comments[0].Body)
	}
}

// TestCIRed: a failing patch is sealed and reported, and red everywhere; enforce: false
// changes nothing but the exit code.
func TestCIRed(t *testing.T) {
	h := newHub(t, map[string]string{"calc.sh": "add() { echo $(($1 - $2)); }\n"})
	h.step(modeRun, nil).exits(1, "tests-failed")
	next := h.hand()
	h.step(modeSeal, next).exits(1, "tests-failed")
	h.step(modeReport, next).exits(1, "tests-failed")
	if h.Statuses[0].State != "failure" || !strings.Contains(h.Comments[0].Body, "verdict=failed") || !strings.Contains(h.Comments[0].Body, "calc sum") {
		t.Errorf("statuses %+v\n%s", h.Statuses, h.Comments[0].Body)
	}
	next["check-run"] = "true"
	h.step(modeReport, next).exits(1, "tests-failed")
	if len(h.Checks) != 1 || h.Checks[0].Conclusion != "failure" || h.Checks[0].Commit != h.head {
		t.Errorf("checks %+v", h.Checks)
	}
	next["enforce"], next["check-run"] = "false", "false"
	h.step(modeReport, next).exits(0, "tests-failed")
	if h.out["verdict"] != "failed" || !strings.Contains(h.Comments[0].Body, "report only: would have FAILED") {
		t.Errorf("outputs %q\n%s", h.out, h.Comments[0].Body)
	}
}

// TestCITampered: a bundle that was changed or exchanged between two jobs is broken in
// each of the later ones, and is not signed. (irsl 2025)
func TestCITampered(t *testing.T) {
	h := newHub(t, nil)
	h.step(modeRun, nil).exits(0, "")
	next, path := h.hand(), h.out["bundle-path"]
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h.step(modeRun, nil).exits(0, "")
	other, err := os.ReadFile(h.out["bundle-path"])
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, b := range map[string][]byte{"flipped": flipped, "another run's": other, "cut": good[:len(good)/2], "empty": nil} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []string{modeSeal, modeVerify, modeReport, modeGate} {
			h.step(mode, next)
			if h.exit != 4 || h.out["verdict"] != "broken" || h.out["sidecar-path"] != "" {
				t.Errorf("%s, %s: exit code %d, outputs %q", name, mode, h.exit, h.out)
			}
		}
		// Without the digest of the file that of the seal, or the bundle itself, tells.
		h.step(modeSeal, map[string]string{"bundle": next["bundle"], "seal": next["seal"]})
		if h.exit != 4 {
			t.Errorf("%s, by seal: exit code %d, outputs %q", name, h.exit, h.out)
		}
	}
	if len(h.Audiences) != 0 {
		t.Errorf("asked for tokens: %q", h.Audiences)
	}
}

// TestCIMissing: no bundle is unproven, and reported (testcontainers-go#1288, ecamp3#4429).
func TestCIMissing(t *testing.T) {
	h := newHub(t, nil)
	none := map[string]string{"bundle": filepath.Join(h.temp, "nothing")}
	for _, mode := range []string{modeSeal, modeVerify, modeReport, modeGate} {
		h.step(mode, none).exits(3, "no-evidence")
	}
	if len(h.Comments) != 1 || !strings.Contains(h.Comments[0].Body, "no-evidence") || h.Statuses[0].State != "error" {
		t.Errorf("comments %v, statuses %+v", h.Comments, h.Statuses)
	}
}

// fork makes the pull request one of a fork.
func (h *hub) fork() {
	h.workflow = hubForks
	h.Pulls[7].HeadRepo, h.Pulls[7].HeadRepoID = "mallory/widgets", githubtest.ForkID
}

// TestCIForkRerun: a fork's patch, run by the default branch's jobs.
func TestCIForkRerun(t *testing.T) {
	h := newHub(t, nil)
	h.fork()
	h.pullRequest("pull_request_target", h.base)
	h.step(modeRun, nil)
	if h.exit != 2 || !strings.Contains(h.stderr, "does not name the merge") {
		t.Errorf("exit code %d\n%s", h.exit, h.stderr)
	}
	h.step(modeRun, map[string]string{"tested": "refs/truegreen/merge", "isolation": "3"}).exits(0, "")
	next := h.hand()
	next["tested"] = h.out["tested"]
	h.step(modeSeal, next).exits(0, "")
	h.step(modeReport, next).exits(0, "")
	if h.Statuses[0].Commit != h.head || h.Statuses[0].State != "success" || len(h.Comments) != 1 {
		t.Errorf("statuses %+v, %d comments", h.Statuses, len(h.Comments))
	}
}

// claimsRun makes the jobs ones that report on a fork's own run, which left this artifact.
func (h *hub) claimsRun(files map[string][]byte) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.Artifact = []githubtest.Artifact{{ID: 9, Run: 499, Name: "truegreen-run-a1", Zip: b.Bytes()}}
	h.eventName, h.eventSHA = "workflow_run", h.base
	h.event = map[string]any{"action": "completed", "repository": hubRepo, "workflow_run": map[string]any{
		"id": 499, "run_attempt": 1, "event": "pull_request", "path": ".github/workflows/truegreen-claims.yml", "head_sha": h.head, "head_branch": "feature",
		"head_repository": map[string]any{"id": githubtest.ForkID, "full_name": "mallory/widgets"}, "repository": hubRepo, "pull_requests": []any{},
	}}
}

var claims = map[string]string{"artifact": "truegreen-run", "workflows": ".github/workflows/truegreen-claims.yml", "tree": "head"}

// TestCIForkClaims: what a fork's own run says is a claim.
func TestCIForkClaims(t *testing.T) {
	h := newHub(t, nil)
	h.fork()
	h.pullRequest("pull_request", h.merge)
	h.step(modeRun, map[string]string{"tree": "head"}).exits(0, "")
	bundle, err := os.ReadFile(h.out["bundle-path"])
	if err != nil {
		t.Fatal(err)
	}
	h.step(modeSeal, h.hand())
	if h.exit != 2 || len(h.Audiences) != 0 {
		t.Errorf("sealed a fork's run: exit code %d", h.exit)
	}
	h.claimsRun(map[string][]byte{"evidence.tar.zst": bundle})
	h.step(modeReport, claims).exits(3, "unattested-fork-run")
	if body := h.Comments[0].Body; !strings.Contains(body, "claimed") || !strings.Contains(body, "verdict=unproven") || h.Statuses[0].State == "success" {
		t.Errorf("status %+v\n%s", h.Statuses[0], body)
	}
	// What is in the artifact is whatever the fork likes.
	for name, c := range map[string]struct {
		files  map[string][]byte
		exit   int
		reason string
	}{
		"two bundles": {map[string][]byte{"a.tar.zst": bundle, "b.tar.zst": bundle}, 4, "unsafe-archive"},
		"zip slip":    {map[string][]byte{"../evidence.tar.zst": bundle}, 4, "unsafe-archive"},
		"nothing":     {nil, 3, "no-evidence"},
		"no bundle":   {map[string][]byte{"evidence.tar.zst": []byte("x")}, 4, "not-a-bundle"},
	} {
		h.claimsRun(c.files)
		h.step(modeReport, claims)
		if h.exit != c.exit || h.out["reasons"] != c.reason {
			t.Errorf("%s: exit code %d, reasons %s", name, h.exit, h.out["reasons"])
		}
	}
	h.claimsRun(map[string][]byte{"evidence.tar.zst": bundle})
	h.Artifact[0].Expired = true
	h.step(modeReport, claims).exits(3, "evidence-expired")
	h.Artifact = nil
	h.step(modeReport, claims).exits(3, "no-evidence")
}

// TestCIReadOnly: a token without rights changes no verdict (sticky#227, EnricoMi#95), and
// what could not be shown is visible (zuke#514).
func TestCIReadOnly(t *testing.T) {
	h := newHub(t, nil)
	h.step(modeRun, nil).exits(0, "")
	next := h.hand()
	h.step(modeSeal, next).exits(0, "")
	next["github-token"] = githubtest.ReadOnlyToken
	h.step(modeReport, next).exits(0, "")
	if h.out["reported"] != "false" || len(h.Comments) != 0 || !strings.Contains(h.stdout, "pull-requests: write") || !strings.Contains(h.summary, "verified") {
		t.Errorf("outputs %q\n%s", h.out, h.stdout)
	}
	next["strict-report"] = "true"
	if h.step(modeReport, next); h.exit != 2 || h.out["verdict"] != "verified" {
		t.Errorf("exit code %d, outputs %q", h.exit, h.out)
	}
}

// TestCIWrongToken: a token that does not fit the run, or trust.yaml, seals nothing.
func TestCIWrongToken(t *testing.T) {
	h := newHub(t, nil)
	h.step(modeRun, nil).exits(0, "")
	next := h.hand()
	for name, claims := range map[string]map[string]any{
		"other run":        {"run_id": "501"},
		"other repository": {"repository_id": "4002"},
		"patch's workflow": {"job_workflow_ref": githubtest.Repository + "/.github/workflows/truegreen-jobs.yml@refs/pull/7/merge"},
		"other event":      {"event_name": "workflow_dispatch"},
		"other commit":     {"sha": h.head},
		"self-hosted":      {"runner_environment": "self-hosted"},
	} {
		h.claims = claims
		h.step(modeSeal, next)
		if h.exit != 3 || h.out["reasons"] != "no-trusted-seal" {
			t.Errorf("%s: exit code %d, reasons %s\n%s", name, h.exit, h.out["reasons"], h.stdout)
		}
		os.Remove(h.out["sidecar-path"])
	}
	h.claims = map[string]any{"aud": "truegreen:sha256:" + strings.Repeat("0", 64)}
	h.step(modeSeal, next).exits(4, "signature-invalid,no-trusted-seal")
}

// TestCINoConfig: a base without a configuration is no reason by itself.
func TestCINoConfig(t *testing.T) {
	h := newHub(t, map[string]string{"/" + verifier.ConfigFile: "", "/Makefile": "test:\n\t@true\n"})
	h.step(modeRun, nil).exits(0, "")
	next := h.hand()
	h.step(modeSeal, next).exits(0, "")
	h.step(modeReport, next).exits(0, "")
	if !strings.Contains(h.Comments[0].Body, "config-absent-on-base") {
		t.Error(h.Comments[0].Body)
	}
}

// TestCIConfigFromPatch: a patch that changes how it is tested changes nothing.
func TestCIConfigFromPatch(t *testing.T) {
	h := newHub(t, map[string]string{verifier.ConfigFile: "test: [{name: unit, run: [\"true\"], format: exit}]\n", "calc.sh": "add() { echo $(($1 - $2)); }\n"})
	h.step(modeRun, nil).exits(1, "tests-failed")
	// A run that took the patch's configuration all the same is found out.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "run", "--repo", h.dir, "--head", h.head, "--merge", h.merge, "--out", filepath.Join(h.temp, "mine.tar.zst"), "--", "true")
	c.Args[0], c.Env = "truegreen", append(os.Environ(), "TRUEGREEN_STATE="+filepath.Join(h.temp, "state"), "RUNNER_TEMP="+h.temp)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h.step(modeSeal, map[string]string{"bundle": filepath.Join(h.temp, "mine.tar.zst")})
	if h.exit != 4 || !strings.Contains(h.out["reasons"], "wrong-config") || len(h.Audiences) != 0 {
		t.Errorf("exit code %d, outputs %q\n%s", h.exit, h.out, h.stdout)
	}
}

// TestCIReceipts: a receipt that the base asks for comes as an input, and is in the bundle
// that later jobs verify.
func TestCIReceipts(t *testing.T) {
	text, key, err := fixture.Receipt("allow")
	if err != nil {
		t.Fatal(err)
	}
	h := newHub(t, map[string]string{"/" + verifier.ConfigFile: demoConfig + "receipts: [{name: agent, adapter: acta, keys: [\"" + key + "\"], tool: read}]\n"})
	h.step(modeRun, nil).exits(3, "receipt-missing")
	path := filepath.Join(h.temp, "receipt.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	h.step(modeRun, map[string]string{"receipts": "\n  agent=" + path + "\n\n"}).exits(0, "")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	next := h.hand()
	h.step(modeSeal, next).exits(0, "")
	h.step(modeReport, next).exits(0, "")
	if !strings.Contains(h.Comments[0].Body, "upstream receipts, which say what other tools saw:\n  - `agent: trusted, ") {
		t.Error(h.Comments[0].Body)
	}
}

// TestCIMergeQueue and pushes: there is a status and no comment (CodSpeedHQ/action#126).
func TestCIMergeQueue(t *testing.T) {
	h := newHub(t, nil)
	h.eventName, h.eventSHA = "merge_group", h.head
	h.event = map[string]any{"action": "checks_requested", "repository": hubRepo, "merge_group": map[string]any{
		"head_sha": h.merge, "head_ref": "refs/heads/gh-readonly-queue/main/pr-7-" + h.base, "base_sha": h.base, "base_ref": "refs/heads/main",
	}}
	h.eventSHA = h.merge
	h.step(modeRun, nil).exits(0, "")
	next := h.hand()
	h.step(modeSeal, next).exits(0, "")
	h.step(modeReport, next).exits(0, "")
	if len(h.Comments) != 0 || len(h.Statuses) != 1 || h.Statuses[0].Commit != h.merge {
		t.Errorf("%d comments, statuses %+v", len(h.Comments), h.Statuses)
	}
}

// TestCITokenBeside: a job that can ask for tokens tests nothing below level 3.
func TestCITokenBeside(t *testing.T) {
	h := newHub(t, map[string]string{"/" + verifier.ConfigFile: demoConfig + "isolation: {level: 1}\n"})
	maps.Copy(h.env, h.OIDC())
	h.step(modeRun, nil)
	if h.exit != 2 || !strings.Contains(h.stderr, "[oidc-beside-tests]") || h.out["bundle-path"] != "" {
		t.Errorf("exit code %d\n%s", h.exit, h.stderr)
	}
	h.step(modeRun, map[string]string{"isolation": "3"}).exits(0, "")
	if !strings.Contains(h.stdout, "::warning title=truegreen: oidc-beside-tests::") {
		t.Error(h.stdout)
	}
}

// TestCIInputs: what makes no sense is said before anything is asked or run.
func TestCIInputs(t *testing.T) {
	h := newHub(t, nil)
	for _, c := range []struct {
		mode   string
		inputs map[string]string
		want   string
	}{
		{"", nil, "input mode"},
		{"everything", nil, "input mode"},
		{modeVerify, nil, "want one of the inputs bundle and artifact"},
		{modeRun, map[string]string{"bundle": "x"}, "mode run makes one"},
		{modeVerify, map[string]string{"bundle": "x", "enforce": "no"}, "input enforce"},
		{modeVerify, map[string]string{"bundle": "x", "bundle-sha256": "abc"}, "input bundle-sha256"},
		{modeVerify, map[string]string{"bundle": "x", "tree": "all"}, "input tree"},
		{modeReport, map[string]string{"artifact": "x"}, "event workflow_run"},
		{modeVerify, map[string]string{"bundle": "x", "receipts": "agent=x"}, "input receipts"},
		{modeRun, map[string]string{"config": ".truegreen.yaml a/.truegreen.yaml", "receipts": "agent=x"}, "input receipts"},
		{modeRun, map[string]string{"receipts": "agent"}, "want NAME=FILE"},
	} {
		h.step(c.mode, c.inputs)
		if h.exit != 2 || !strings.Contains(h.stderr, c.want) || !strings.Contains(h.stderr, "[usage]") {
			t.Errorf("%s %v: exit code %d\n%s", c.mode, c.inputs, h.exit, h.stderr)
		}
	}
	if n := len(h.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestCIProjects: several projects are sections of one comment, each by a configuration of its
// own (ctrf#149), and one that fails, or is not there, makes all of it red.
func TestCIProjects(t *testing.T) {
	config := func(dir string) string {
		return "test:\n  - name: unit\n    run: [sh, test.sh]\n    dir: " + dir + "\n    format: junit\n"
	}
	project := func(test string) string {
		return strings.ReplaceAll(fmt.Sprintf(demoTest, test), "./calc.sh", "../calc.sh")
	}
	h := newHub(t, map[string]string{
		"/one/.truegreen.yaml": config("one"), "/one/test.sh": project(":"), "/two/.truegreen.yaml": config("two"), "/two/test.sh": project(":"),
		"two/test.sh": project(`check sum "$(add 1 2)" 4`),
	})
	configs := map[string]string{"config": "one/.truegreen.yaml\ntwo/.truegreen.yaml\n"}
	h.step(modeRun, configs).exits(1, "tests-failed")
	paths := strings.Split(h.out["bundle-path"], "\n")
	if len(paths) != 2 || !strings.Contains(paths[0], "truegreen-one-") || h.out["tests-passed"] != "2" || h.out["tests-failed"] != "1" {
		t.Fatalf("outputs %q", h.out)
	}
	next := map[string]string{"config": configs["config"], "bundle": filepath.Dir(paths[0]), "bundle-sha256": h.out["bundle-sha256"], "seal": h.out["seal"]}
	h.step(modeSeal, next).exits(1, "tests-failed")
	if len(h.Audiences) != 2 || len(strings.Split(h.out["sidecar-path"], "\n")) != 2 {
		t.Errorf("audiences %q, outputs %q", h.Audiences, h.out)
	}
	h.step(modeReport, next).exits(1, "tests-failed")
	if body := h.Comments[0].Body; len(h.Comments) != 1 || !strings.Contains(body, "one") || !strings.Contains(body, "two") {
		t.Errorf("%d comments\n%s", len(h.Comments), body)
	}
	// One for the other is another bundle, and one that is gone is no evidence.
	swapped := strings.Split(next["bundle-sha256"], "\n")
	next["bundle-sha256"] = swapped[1] + "\n" + swapped[0]
	h.step(modeReport, next)
	if h.exit != 4 || !strings.Contains(h.out["reasons"], "wrong-bundle") {
		t.Errorf("exit code %d, outputs %q", h.exit, h.out)
	}
	if err := os.Remove(paths[1]); err != nil {
		t.Fatal(err)
	}
	delete(next, "bundle-sha256")
	delete(next, "seal")
	h.step(modeReport, next)
	if h.exit != 3 || !strings.Contains(h.out["reasons"], "no-evidence") {
		t.Errorf("exit code %d, outputs %q", h.exit, h.out)
	}
	h.step(modeRun, map[string]string{"config": "three/.truegreen.yaml"})
	if h.exit != 2 || !strings.Contains(h.stderr, "has no three/.truegreen.yaml") {
		t.Errorf("exit code %d\n%s", h.exit, h.stderr)
	}
	for _, bad := range []string{"../x.yaml", "/etc/x.yaml", "a/b/x.yaml\na-b/x.yaml"} {
		if h.step(modeRun, map[string]string{"config": bad}); h.exit != 2 || !strings.Contains(h.stderr, "input config") {
			t.Errorf("%q: exit code %d\n%s", bad, h.exit, h.stderr)
		}
	}
}

// TestCIRevoked: whom the protected branch does not name any more is not trusted, although
// the patch is older than that.
func TestCIRevoked(t *testing.T) {
	h := newHub(t, nil)
	h.step(modeRun, nil).exits(0, "")
	next := h.hand()
	h.step(modeSeal, next).exits(0, "")
	h.git("checkout", "--quiet", "main")
	trust, err := os.ReadFile(filepath.Join(h.dir, verifier.TrustFile))
	if err != nil {
		t.Fatal(err)
	}
	tip := h.commit(map[string]string{verifier.TrustFile: strings.Replace(string(trust), "truegreen-jobs.yml", "other.yml", 1)})
	pull := h.Pulls[7]
	h.serve()
	h.Pulls[7] = pull
	h.Refs["heads/main"] = githubtest.Object{Type: "commit", SHA: tip}
	h.step(modeReport, next).exits(3, "no-trusted-seal")
}

// TestCIPublic: where everybody can download the sidecar, the job that made it ends when
// the token has expired, unless that is not wanted.
func TestCIPublic(t *testing.T) {
	h := newHub(t, nil)
	h.event["repository"] = map[string]any{"id": githubtest.RepositoryID, "full_name": githubtest.Repository, "default_branch": "main", "private": false}
	h.step(modeRun, nil).exits(0, "")
	next := h.hand()
	h.step(modeSeal, next).exits(0, "")
	if !strings.Contains(h.stdout, "until the token has expired") {
		t.Error(h.stdout)
	}
	end := time.Now()
	token, err := os.ReadFile(h.out["sidecar-path"])
	if err != nil {
		t.Fatal(err)
	}
	if expires, err := forge.TokenExpiry(string(token)); err != nil || end.Before(expires) {
		t.Errorf("ended at %s, the token at %s (%v)", end, expires, err)
	}
	h.claims = map[string]any{"exp": time.Now().Add(time.Hour).Unix()}
	if h.step(modeSeal, next); h.exit != 2 || !strings.Contains(h.stderr, "oidc-disclose") {
		t.Errorf("exit code %d\n%s", h.exit, h.stderr)
	}
	next["oidc-disclose"] = "now"
	h.step(modeSeal, next).exits(0, "")
}
