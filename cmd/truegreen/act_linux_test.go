package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
)

// The recipes as they are shipped, run by act on this machine. These are the only
// changes that are made to them, and to action.yml:
//
//   - truegreen-dev/truegreen@v1 is this repository's action.yml, with a binary that
//     was built before, and with the variables for OIDC tokens in mode seal alone: act
//     knows no permissions;
//   - upload-artifact and download-artifact are a folder, on which faults can be
//     scripted; setup-go is nothing;
//   - OWNER/REPOSITORY/…@main is the file of the checkout, and the branch main.
//
// What is named by uses: and is none of these, nor checkout, fails the test.

// actTool is act v0.2.89 or newer: TRUEGREEN_ACT, or act of the PATH.
func actTool(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("TRUEGREEN_ACT"); path != "" {
		return path
	}
	path, err := exec.LookPath("act")
	switch {
	case err != nil && required():
		t.Fatal("there is no act, and TRUEGREEN_TOOLS=require")
	case err != nil:
		t.Skip("there is no act: go -C .ci/tools build -o DIR github.com/nektos/act, and put DIR on the PATH")
	}
	return path
}

const uploadStub = `name: upload
inputs: {name: {}, path: {}, compression-level: {}, if-no-files-found: {}}
outputs: {artifact-id: {value: "${{ steps.up.outputs.artifact-id }}"}}
runs:
  using: composite
  steps:
    - id: up
      shell: bash
      env: {NAME: "${{ inputs.name }}", FILES: "${{ inputs.path }}"}
      run: |
        set -eu
        mkdir -p "$STORE"
        id=$(find "$STORE" -type d | wc -l)
        mkdir "$STORE/$id"
        echo "$FILES" | while read -r file; do [ -z "$file" ] || cp "$file" "$STORE/$id/"; done
        echo "$NAME" > "$STORE/name-$id"
        if [ -f "$STORE/fault-$NAME" ]; then bash "$STORE/fault-$NAME" "$STORE/$id"; fi
        echo "artifact-id=$id" >> "$GITHUB_OUTPUT"
`

const downloadStub = `name: download
inputs: {artifact-ids: {}, path: {}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {ID: "${{ inputs.artifact-ids }}", TO: "${{ inputs.path }}"}
      run: |
        set -eu
        rm -rf "$TO" # act's jobs share a folder
        mkdir -p "$TO"
        cp "$STORE/$ID"/* "$TO"/
`

const nothingStub = "name: nothing\nruns: {using: composite, steps: [{shell: bash, run: \"true\"}]}\n"

// actStubs are folders with actions, by what names them in uses:.
func actStubs(t *testing.T, binary string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	action, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(action)
	for from, to := range map[string]string{
		"one that is built from the action's source.\n    default: ''": "one that is built from the action's source.\n    default: " + binary,
		"        INPUT_MODE:": "        ACTIONS_ID_TOKEN_REQUEST_URL: ${{ inputs.mode == 'seal' && env.TEST_OIDC_URL || '' }}\n" +
			"        ACTIONS_ID_TOKEN_REQUEST_TOKEN: ${{ inputs.mode == 'seal' && env.TEST_OIDC_TOKEN || '' }}\n        INPUT_MODE:",
	} {
		if !strings.Contains(text, from) {
			t.Fatalf("action.yml has no %q", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	stubs := map[string]string{}
	for name, files := range map[string]map[string]string{
		"truegreen-dev/truegreen":   {"action.yml": text},
		"actions/upload-artifact":   {"action.yml": uploadStub},
		"actions/download-artifact": {"action.yml": downloadStub},
		"actions/setup-go":          {"action.yml": nothingStub},
	} {
		at := filepath.Join(dir, filepath.Base(name))
		if name == "truegreen-dev/truegreen" {
			if err := os.CopyFS(filepath.Join(at, ".github"), os.DirFS("../../.github")); err != nil {
				t.Fatal(err)
			}
		}
		for file, content := range files {
			path := filepath.Join(at, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		stubs[name] = at
	}
	return stubs
}

// actBinary builds the program once.
var actBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "truegreen-act-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "truegreen")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, errors.Join(err, os.Chmod(dir, 0o755))
})

var usesLine = regexp.MustCompile(`(?m)^\s*(?:- )?uses: ([^@\s]+)@(\S+)`)

var checkoutRef = regexp.MustCompile(`(?m)^ +ref: \$\{\{ github\.event\.repository\.default_branch \}\}.*\n`)

// An actRun runs recipes in a hub's repository.
type actRun struct {
	*hub
	act, store string
	args       []string
}

// newActRun commits the recipes to the hub's default branch.
func newActRun(t *testing.T, patch map[string]string) *actRun {
	act := actTool(t)
	if patch == nil {
		patch = map[string]string{}
	}
	recipes, err := filepath.Glob("../../docs/recipes/*.yml")
	if err != nil || len(recipes) == 0 {
		t.Fatal("no recipes", err)
	}
	var uses []string
	for _, path := range recipes {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		local := strings.ReplaceAll(string(text), "uses: OWNER/REPOSITORY/.github/workflows/truegreen-jobs.yml@main", "uses: ./.github/workflows/truegreen-jobs.yml")
		local = checkoutRef.ReplaceAllString(local, "") // act has what is there stand for a checkout, if that names no other ref
		patch["/.github/workflows/"+filepath.Base(path)] = local
		for _, m := range usesLine.FindAllStringSubmatch(local, -1) {
			uses = append(uses, m[1]+"@"+m[2])
		}
	}
	r := &actRun{hub: newHub(t, patch), act: act}
	binary, err := actBinary()
	if err != nil {
		t.Fatal(err)
	}
	stubs := actStubs(t, binary)
	action, err := os.ReadFile(filepath.Join(stubs["truegreen-dev/truegreen"], "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range usesLine.FindAllStringSubmatch(string(action), -1) {
		uses = append(uses, m[1]+"@"+m[2])
	}
	for _, u := range uses {
		name, _, _ := strings.Cut(u, "@")
		if name == "actions/checkout" {
			continue
		}
		at := stubs[name]
		if at == "" {
			t.Fatalf("uses: %s has no stub", u)
		}
		r.args = append(r.args, "--local-repository", u+"="+at)
	}
	r.store = filepath.Join(r.temp, "store")
	if err := os.MkdirAll(r.store, 0o755); err != nil {
		t.Fatal(err)
	}
	origin := filepath.Join(r.temp, "origin.git")
	r.git("clone", "--quiet", "--bare", r.dir, origin)
	for ref, id := range map[string]string{"refs/pull/7/head": r.head, "refs/pull/7/merge": r.merge, "refs/heads/main": r.base} {
		if out, err := exec.Command("git", "-C", origin, "update-ref", ref, id).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	r.git("remote", "add", "origin", origin)
	r.git("fetch", "--quiet", "origin")
	return r
}

// run runs a recipe, and returns what its jobs came to, by their names.
func (r *actRun) run(recipe string) (jobs map[string]string, log string) {
	r.t.Helper()
	r.git("checkout", "--quiet", "--detach", r.eventSHA)
	payload, err := json.Marshal(r.event)
	if err != nil {
		r.t.Fatal(err)
	}
	event := filepath.Join(r.temp, "event.json")
	if err := os.WriteFile(event, payload, 0o644); err != nil {
		r.t.Fatal(err)
	}
	home, err := os.MkdirTemp(r.temp, "home-")
	if err != nil {
		r.t.Fatal(err)
	}
	args := append([]string{
		r.eventName, "-W", ".github/workflows/" + recipe, "-P", "ubuntu-latest=-self-hosted", "-e", event, "-s", "GITHUB_TOKEN=" + githubtest.JobToken,
		"--no-cache-server", "--json", "--action-offline-mode",
	}, r.args...)
	for name, value := range map[string]string{
		"GITHUB_API_URL": r.URL(), "GITHUB_GRAPHQL_URL": r.GraphQLURL(), "GITHUB_SERVER_URL": "https://github.com",
		"GITHUB_REPOSITORY": githubtest.Repository, "GITHUB_REPOSITORY_ID": fmt.Sprint(githubtest.RepositoryID), "GITHUB_RUN_ID": "500",
		"STORE": r.store, "TEST_OIDC_URL": r.OIDC()["ACTIONS_ID_TOKEN_REQUEST_URL"], "TEST_OIDC_TOKEN": r.OIDC()["ACTIONS_ID_TOKEN_REQUEST_TOKEN"],
	} {
		args = append(args, "--env", name+"="+value)
	}
	c := exec.Command(r.act, args...)
	c.Dir = r.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CACHE_HOME=" + home, "TMPDIR=" + r.temp}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	jobs = map[string]string{}
	var text strings.Builder
	for line := range strings.Lines(out.String()) {
		var entry struct {
			Job    string `json:"jobID"`
			Msg    string `json:"msg"`
			Result string `json:"jobResult"`
		}
		if json.Unmarshal([]byte(line), &entry) != nil {
			text.WriteString(line)
			continue
		}
		if entry.Result != "" {
			jobs[entry.Job] = entry.Result
		}
		fmt.Fprintf(&text, "[%s] %s\n", entry.Job, strings.TrimRight(entry.Msg, "\n"))
	}
	return jobs, text.String()
}

// comes fails the test unless each job came to what it had to.
func (r *actRun) comes(recipe string, want map[string]string) string {
	r.t.Helper()
	jobs, log := r.run(recipe)
	if !maps.Equal(jobs, want) {
		r.t.Fatalf("%s: jobs %v, want %v\n%s", recipe, jobs, want, log)
	}
	return log
}

// fault has a script change what is uploaded under a name; $1 is the folder.
func (r *actRun) fault(artifact, script string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.store, "fault-"+artifact), []byte(script), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

const (
	good, bad = "success", "failure"

	flipByte = "for f in \"$1\"/*.tar.zst; do printf '\\377' | dd of=\"$f\" bs=1 seek=2000 conv=notrunc status=none; done\n"
	dropAll  = "rm -f \"$1\"/*\n"
)

var (
	allGood = map[string]string{"run": good, "seal": good, "report": good, "gate": good}
	allBad  = map[string]string{"run": bad, "seal": bad, "report": bad, "gate": bad}
)

// TestActBranch: the recipe for branches, from the pull request to the gate.
func TestActBranch(t *testing.T) {
	r := newActRun(t, nil)
	r.comes("truegreen.yml", allGood)
	if len(r.Comments) != 1 || !strings.Contains(r.Comments[0].Body, "verdict=verified") || len(r.Statuses) != 1 || r.Statuses[0].State != "success" {
		t.Errorf("%d comments, statuses %+v", len(r.Comments), r.Statuses)
	}
	// What has landed gets evidence of its own.
	r.push("refs/heads/main", r.git("rev-parse", r.base+"~1"), r.base)
	r.comes("truegreen.yml", allGood)
	if n := len(r.Statuses); n != 2 || r.Statuses[1].Commit != r.base {
		t.Errorf("statuses %+v", r.Statuses)
	}
}

// push makes the jobs ones of a push.
func (h *hub) push(ref, before, after string) {
	h.eventName, h.eventSHA = "push", after
	h.event = map[string]any{"ref": ref, "before": before, "after": after, "repository": hubRepo}
}

func TestActRed(t *testing.T) {
	r := newActRun(t, map[string]string{"calc.sh": "add() { echo $(($1 - $2)); }\n"})
	r.comes("truegreen.yml", allBad)
	if len(r.Comments) != 1 || !strings.Contains(r.Comments[0].Body, "verdict=failed") || r.Statuses[0].State != "failure" {
		t.Errorf("comments %+v, statuses %+v", r.Comments, r.Statuses)
	}
}

// TestActTampered: a bundle that is changed on its way turns the gate red in every
// recipe, whichever way it is; so does one that gets lost.
func TestActTampered(t *testing.T) {
	for _, c := range []struct {
		name, artifact, script string
		want                   map[string]string
		verdict                string
	}{
		{"before the seal", "truegreen-run-a1", flipByte, map[string]string{"run": good, "seal": bad, "report": bad, "gate": bad}, "broken"},
		{"after the seal", "truegreen-a1", flipByte, map[string]string{"run": good, "seal": good, "report": bad, "gate": bad}, "broken"},
		{"lost", "truegreen-run-a1", dropAll, map[string]string{"run": good, "seal": bad, "report": bad, "gate": bad}, "unproven"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newActRun(t, nil)
			r.fault(c.artifact, c.script)
			r.comes("truegreen.yml", c.want)
			if len(r.Comments) != 1 || !strings.Contains(r.Comments[0].Body, "verdict="+c.verdict) || r.Statuses[0].State != "error" {
				t.Errorf("comments %+v, statuses %+v", r.Comments, r.Statuses)
			}
			r.fork()
			r.pullRequest("pull_request_target", r.base)
			r.comes("truegreen-forks.yml", c.want)
			r.git("tag", "v1.0.0", r.base)
			r.push("refs/tags/v1.0.0", strings.Repeat("0", 40), r.base)
			r.workflow = strings.Replace(hubForks, "-forks", "-jobs", 1)
			r.comes("truegreen-release.yml", c.want)
		})
	}
}

// TestActForks: a fork's patch, tested by the default branch's jobs; the recipe for
// branches leaves it alone.
func TestActForks(t *testing.T) {
	r := newActRun(t, nil)
	r.fork()
	r.pullRequest("pull_request", r.merge)
	r.comes("truegreen.yml", map[string]string{})
	r.pullRequest("pull_request_target", r.base)
	r.comes("truegreen-forks.yml", allGood)
	if len(r.Comments) != 1 || r.Statuses[0].Commit != r.head || r.Statuses[0].State != "success" {
		t.Errorf("%d comments, statuses %+v", len(r.Comments), r.Statuses)
	}
}

// TestActClaims: a fork's own run is reported, and is green nowhere.
func TestActClaims(t *testing.T) {
	r := newActRun(t, nil)
	r.fork()
	r.pullRequest("pull_request", r.merge)
	r.comes("truegreen-claims.yml", map[string]string{"run": good})
	bundles, err := filepath.Glob(filepath.Join(r.store, "*", "*.tar.zst"))
	if err != nil || len(bundles) != 1 {
		t.Fatal(bundles, err)
	}
	bundle, err := os.ReadFile(bundles[0])
	if err != nil {
		t.Fatal(err)
	}
	r.claimsRun(map[string][]byte{"evidence.tar.zst": bundle})
	r.comes("truegreen-claims-report.yml", map[string]string{"report": bad})
	if len(r.Comments) != 1 || !strings.Contains(r.Comments[0].Body, "unattested-fork-run") || r.Statuses[0].State == "success" {
		t.Errorf("comments %+v, statuses %+v", r.Comments, r.Statuses)
	}
	bundle[len(bundle)/2] ^= 1
	r.claimsRun(map[string][]byte{"evidence.tar.zst": bundle})
	r.comes("truegreen-claims-report.yml", map[string]string{"report": bad})
	if !strings.Contains(r.Comments[0].Body, "verdict=broken") {
		t.Error(r.Comments[0].Body)
	}
}

func TestActRelease(t *testing.T) {
	r := newActRun(t, nil)
	r.git("tag", "v1.0.0", r.base)
	r.push("refs/tags/v1.0.0", strings.Repeat("0", 40), r.base)
	r.comes("truegreen-release.yml", allGood)
	if len(r.Comments) != 0 {
		t.Errorf("comments %+v", r.Comments)
	}
}
