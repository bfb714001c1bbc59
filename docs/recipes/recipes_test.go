package recipes

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write this repository's own workflows again")

const moduleRoot = "../.."

func workflow(t testing.TB, p Place, name string) string {
	t.Helper()
	text, err := p.Workflow(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func recipeNames(t testing.TB) []string {
	t.Helper()
	entries, err := files.ReadDir(".")
	if err != nil || len(entries) == 0 {
		t.Fatalf("no recipes: %v", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestPlace: every name in every recipe is replaced, and nothing else.
func TestPlace(t *testing.T) {
	t.Parallel()
	p := Place{"octo/calc", "trunk", "octo/truegreen@v2"}
	left := regexp.MustCompile(`OWNER|REPOSITORY\b|truegreen-dev|@main\b|\[main\]`)
	for _, name := range recipeNames(t) {
		before, after := workflow(t, Place{}, name), workflow(t, p, name)
		if found := left.FindString(after); found != "" {
			t.Errorf("%s: %s is still there", name, found)
		}
		back := strings.NewReplacer("octo/truegreen@v2", Action, "octo/calc", Repository, "@trunk", "@"+Branch, "[trunk]", "["+Branch+"]").Replace(after)
		if back != before {
			t.Errorf("%s: more than names has changed:\n%s", name, after)
		}
		if text, err := os.ReadFile(name); err != nil || string(text) != before {
			t.Errorf("%s: without a place it is not the file: %v", name, err)
		}
	}
	if text, err := p.Workflow("none.yml"); err == nil || text != "" {
		t.Errorf("none.yml: %q, %v", text, err)
	}
}

// Steps of this repository's own workflows. The action is not a release, but what the
// default branch has: no patch runs as the program that judges it.
const (
	ownAction = `      # The action, as it is on the default branch.
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          ref: ${{ github.event.repository.default_branch }}
          path: .truegreen-action
          persist-credentials: false
`
	ownToolchain = `      - uses: actions/setup-go@924ae3a1cded613372ab5595356fb5720e22ba16 # v6.5.0
        with:
          go-version-file: .truegreen-action/go.mod
          cache: false
`
)

// ownWorkflow returns a recipe as this repository uses it. The names are filled in; each
// job that uses the action checks it out first, from the default branch; and job run has a
// Go toolchain in the place of the line that asks for what the tests need.
func ownWorkflow(t testing.TB, name string) string {
	text := workflow(t, Place{"truegreen-dev/truegreen", "main", "./.truegreen-action"}, name)
	needs := regexp.MustCompile(`(?m)^      # What your tests need goes here.*\n`)
	jobs := strings.SplitAfter(text, "\n    steps:\n")
	for i, job := range jobs[1:] {
		switch {
		case needs.MatchString(job): // after the checkout of the tree, which empties the folder
			job = needs.ReplaceAllLiteralString(job, ownAction+ownToolchain)
		case strings.Contains(job, "./.truegreen-action"):
			job = ownAction + job
		}
		jobs[i+1] = job
	}
	return "# Made of docs/recipes/" + name + ", by go test ./docs/recipes -update.\n" +
		strings.NewReplacer("code of the project runs", "code of the patch runs", "nothing is checked out", "nothing of the patch is checked out").
			Replace(strings.Join(jobs, ""))
}

// TestOwnWorkflows: this repository uses what it recommends.
func TestOwnWorkflows(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"truegreen.yml", "truegreen-jobs.yml", "truegreen-forks.yml"} {
		path, want := filepath.Join(moduleRoot, ".github/workflows", name), ownWorkflow(t, name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not what is made of the recipe: write it with -update (%v)", path, err)
		}
	}
}
