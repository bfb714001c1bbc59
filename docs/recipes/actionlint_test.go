package recipes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// actionlint returns the linter: of the module in .ci/tools, since it is made for another
// version of a module that the program uses, or an installed one.
func actionlint(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "actionlint.exe")
	out, err := exec.Command("go", "build", "-C", filepath.Join(moduleRoot, ".ci/tools"), "-o", path, "github.com/rhysd/actionlint/cmd/actionlint").CombinedOutput()
	if err == nil {
		return path
	}
	if path, err := exec.LookPath("actionlint"); err == nil {
		return path
	}
	if os.Getenv("TRUEGREEN_TOOLS") == "require" {
		t.Fatalf("no actionlint: %v\n%s", err, out)
	}
	t.Skipf("there is no actionlint, and go -C .ci/tools build cannot make one: %v", err)
	return ""
}

// lint runs actionlint over workflows in a folder in which the names that they use are
// files, so that it compares inputs and outputs with the action and the called jobs.
func lint(t *testing.T, tool string, workflows map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	action, err := os.ReadFile(filepath.Join(moduleRoot, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	local := strings.NewReplacer(
		"uses: "+Action, "uses: ./.truegreen-action",
		Repository+"/.github/workflows/truegreen-jobs.yml@main", "./.github/workflows/truegreen-jobs.yml",
		"truegreen-dev/truegreen/.github/workflows/truegreen-jobs.yml@main", "./.github/workflows/truegreen-jobs.yml",
	)
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(".git/HEAD", "ref: refs/heads/main\n")
	write(".truegreen-action/action.yml", string(action))
	cmd := exec.Command(tool, "-no-color", "-oneline", "-shellcheck=", "-pyflakes=") // those are not everywhere
	for name, text := range workflows {
		write(".github/workflows/"+name, local.Replace(text))
		cmd.Args = append(cmd.Args, ".github/workflows/"+name)
	}
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}

func TestActionlint(t *testing.T) {
	t.Parallel()
	tool := actionlint(t)
	recipes, own := map[string]string{}, map[string]string{}
	for _, w := range workflowFiles(t) {
		switch dir, name := filepath.Split(w.name); {
		case strings.HasSuffix(dir, "docs/recipes/"):
			recipes[name] = w.text
		case name != "action.yml":
			own[name] = w.text
		}
	}
	for what, workflows := range map[string]map[string]string{"recipes": recipes, "own workflows": own} {
		if out := lint(t, tool, workflows); out != "" {
			t.Errorf("%s:\n%s", what, out)
		}
	}

	// It does look at what the action takes and puts out.
	jobs := recipes["truegreen-jobs.yml"]
	for old, new := range map[string]string{"mode: seal": "mood: seal", "steps.run.outputs.seal": "steps.run.outputs.sael", "needs.run.outputs.sha256": "needs.run.outputs.sum"} {
		if out := lint(t, tool, map[string]string{"truegreen-jobs.yml": strings.Replace(jobs, old, new, 1)}); out == "" {
			t.Errorf("it does not see %s", new)
		}
	}
	release := strings.ReplaceAll(recipes["truegreen-release.yml"], "mode: gate\n", "mode: gate\n          tag: ${{ needs.release.outputs.sael }}\n")
	if out := lint(t, tool, map[string]string{"truegreen-jobs.yml": jobs, "truegreen-release.yml": release}); !strings.Contains(out, "sael") {
		t.Errorf("it does not see an output that the called workflow has not: %s", out)
	}
}
