package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const elsewhere = "docs/elsewhere.md"

// TestDocDocker holds the commands of the page to those that the script runs.
func TestDocDocker(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("testdata/script/verify_image.txt")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, b := range docBlocks(t, elsewhere) {
		for line := range strings.Lines(b.text) {
			if !strings.HasPrefix(line, "docker run ") {
				continue
			}
			shown++
			flags, _, ok := strings.Cut(line, " --volume ")
			if !ok || !strings.Contains(string(script), "exits 0 "+flags+" --volume ") {
				t.Errorf("%s:%d: no test runs %s", elsewhere, b.line, flags)
			}
		}
	}
	if shown != 2 {
		t.Errorf("%d commands shown", shown)
	}
}

// TestDocGitLab runs the scripts of the page's .gitlab-ci.yml.
func TestDocGitLab(t *testing.T) {
	t.Parallel()
	needIsolation(t)
	type job struct {
		Script      []string `yaml:"script"`
		AfterScript []string `yaml:"after_script"`
	}
	var jobs struct{ Run, Verify job }
	for _, b := range docBlocks(t, elsewhere) {
		if b.file == ".gitlab-ci.yml" {
			if err := yaml.Unmarshal([]byte(b.text), &jobs); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(jobs.Run.Script) == 0 || len(jobs.Run.AfterScript) == 0 || len(jobs.Verify.Script) == 0 {
		t.Fatalf("%s: %+v", elsewhere, jobs)
	}
	for name, c := range map[string]struct {
		base, key, script string
		exit              string
	}{
		"landed":                  {key: "$HOME/.ssh/id_ed25519", exit: "run 0, verify 0"},
		"landed, red":             {key: "$HOME/.ssh/id_ed25519", script: "exit 1", exit: "run 1, verify 1"},
		"merge request":           {base: "HEAD~1", exit: "run 0, verify 3"},
		"merge request, two deep": {base: "HEAD~2", exit: "run 0, verify 4"}, // job verify is for what landed
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDocSession(t)
			s.sh(`mkdir .truegreen
echo "ci namespaces=\"seal@truegreen.dev\" $(cat ~/.ssh/id_ed25519.pub)" > .truegreen/allowed_signers
git add . && git commit --quiet -m signers
echo more >> text && echo '` + c.script + `' >> test.sh && git commit --quiet -a -m third`)
			variables := `CI_COMMIT_SHA=$(git rev-parse HEAD) TRUEGREEN_SSH_KEY="` + c.key + `" CI_MERGE_REQUEST_DIFF_BASE_SHA=
[ -z "` + c.base + `" ] || CI_MERGE_REQUEST_DIFF_BASE_SHA=$(git rev-parse ` + c.base + `)
export CI_COMMIT_SHA TRUEGREEN_SSH_KEY CI_MERGE_REQUEST_DIFF_BASE_SHA
`
			step := func(name string, lines []string) string {
				if err := os.WriteFile(filepath.Join(s.dir, name), []byte(variables+strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				return s.sh("sh -e " + name + " > log 2>&1 && echo 0 || echo $?")
			}
			run := step("run.sh", jobs.Run.Script)
			step("after.sh", jobs.Run.AfterScript)
			s.sh("test -s report.xml && grep -q '<testcase ' report.xml")
			s.env = append(s.env, "TRUEGREEN_STATE="+filepath.Join(s.dir, "another")) // the machine of another job
			verify := step("verify.sh", jobs.Verify.Script)
			if got := "run " + strings.TrimSpace(run) + ", verify " + strings.TrimSpace(verify); got != c.exit {
				t.Errorf("%s, want %s\n%s", got, c.exit, s.sh("cat log"))
			}
		})
	}
}
