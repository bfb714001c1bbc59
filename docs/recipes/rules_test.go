package recipes

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// The rules that workflows are held to here are those of zizmor that apply, and what GitHub's
// bug trackers teach. Each is a name and what it finds in a workflow.
var rules = map[string]func(*workflowFile) []string{
	"unpinned-uses":            unpinnedUses,
	"excessive-permissions":    excessivePermissions,
	"undocumented-permissions": undocumentedPermissions,
	"template-injection":       templateInjection,
	"artipacked":               artipacked,
	"cache-poisoning":          cachePoisoning,
	"concurrency-limits":       concurrencyLimits,
	"dangerous-triggers":       dangerousTriggers,
	"secrets":                  secrets,
	"timeout":                  timeouts,
	"attempt":                  attempts,
	"token-beside-code":        tokenBesideCode,
	"skipped-gate":             skippedGate,
}

// A workflowFile is a workflow, or an action.
type workflowFile struct {
	name string
	text string
	root *yaml.Node
}

func parseWorkflow(name, text string) (*workflowFile, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: no mapping", name)
	}
	return &workflowFile{name, text, doc.Content[0]}, nil
}

// at returns the value below keys, nil if there is none.
func at(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		next := (*yaml.Node)(nil)
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				next = n.Content[i+1]
			}
		}
		n = next
	}
	return n
}

func value(n *yaml.Node, keys ...string) string {
	if n = at(n, keys...); n == nil {
		return ""
	}
	return n.Value
}

// pairs returns the keys of a mapping with their values.
func pairs(n *yaml.Node) map[string]*yaml.Node {
	m := map[string]*yaml.Node{}
	if n != nil && n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = n.Content[i+1]
		}
	}
	return m
}

func (w *workflowFile) jobs() map[string]*yaml.Node { return pairs(at(w.root, "jobs")) }

// steps returns the steps of a job, or of an action.
func steps(job *yaml.Node) []*yaml.Node {
	if list := at(job, "steps"); list != nil {
		return list.Content
	}
	return nil
}

func (w *workflowFile) allSteps() []*yaml.Node {
	all := steps(at(w.root, "runs"))
	for _, job := range w.jobs() {
		all = append(all, steps(job)...)
	}
	return all
}

func (w *workflowFile) hasTrigger(name string) bool {
	on := at(w.root, "on")
	return on != nil && (on.Value == name || at(on, name) != nil || slices.ContainsFunc(on.Content, func(n *yaml.Node) bool { return n.Value == name }))
}

var (
	pinned  = regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
	version = regexp.MustCompile(`^# v\d+\.\d+\.\d+$`)
)

// unpinnedUses: actions are pinned by commit, with the version for people. The exceptions
// are this action, and the jobs of the default branch, which are what is trusted.
func unpinnedUses(w *workflowFile) (found []string) {
	all := w.allSteps()
	for _, job := range w.jobs() {
		all = append(all, job)
	}
	for _, n := range all {
		uses := at(n, "uses")
		if uses == nil || uses.Value == Action || uses.Value == "./.truegreen-action" {
			continue
		}
		owner, _, _ := strings.Cut(uses.Value, "/.github/")
		if called := owner + "/.github/workflows/truegreen-jobs.yml@main"; uses.Value == called && (owner == Repository || owner == "truegreen-dev/truegreen") {
			if !strings.HasPrefix(uses.LineComment, "# zizmor: ignore[unpinned-uses] ") {
				found = append(found, uses.Value+" without a reason")
			}
			continue
		}
		if !pinned.MatchString(uses.Value) || !version.MatchString(uses.LineComment) {
			found = append(found, uses.Value+" "+uses.LineComment)
		}
	}
	return found
}

// excessivePermissions: a job has what it says, and nothing by default.
func excessivePermissions(w *workflowFile) (found []string) {
	if at(w.root, "runs") != nil {
		return nil
	}
	if p := at(w.root, "permissions"); p == nil || p.Kind != yaml.MappingNode || len(p.Content) > 0 {
		found = append(found, "want permissions: {} at the top")
	}
	for name, job := range w.jobs() {
		if p := at(job, "permissions"); p == nil || p.Kind != yaml.MappingNode {
			found = append(found, "job "+name+" does not say its permissions")
		}
	}
	return found
}

func undocumentedPermissions(w *workflowFile) (found []string) {
	for name, job := range w.jobs() {
		for what, level := range pairs(at(job, "permissions")) {
			if level.LineComment == "" {
				found = append(found, fmt.Sprintf("job %s: %s: %s without a reason", name, what, level.Value))
			}
		}
	}
	return found
}

// templateInjection: an expression in a script is code that whoever sets its value writes.
func templateInjection(w *workflowFile) (found []string) {
	for _, s := range w.allSteps() {
		if run := value(s, "run"); strings.Contains(run, "${{") {
			found = append(found, run)
		}
	}
	return found
}

func isUse(step *yaml.Node, action string) bool {
	return strings.HasPrefix(value(step, "uses"), action+"@")
}

// artipacked: no token stays in a clone.
func artipacked(w *workflowFile) (found []string) {
	for _, s := range w.allSteps() {
		if isUse(s, "actions/checkout") && value(s, "with", "persist-credentials") != "false" {
			found = append(found, "a checkout keeps its credentials")
		}
	}
	return found
}

// cachePoisoning: what a patch leaves in a cache, a later run would take out of it.
func cachePoisoning(w *workflowFile) (found []string) {
	for _, s := range w.allSteps() {
		cache := at(s, "with", "cache")
		switch {
		case isUse(s, "actions/cache"):
			found = append(found, "actions/cache")
		case cache != nil && cache.Value != "false":
			found = append(found, "cache: "+cache.Value)
		case cache == nil && strings.HasPrefix(value(s, "uses"), "actions/setup-") && filepath.Base(w.name) != "ci.yml": // its runs vouch for nothing
			found = append(found, value(s, "uses")+" caches by default")
		}
	}
	return found
}

func concurrencyLimits(w *workflowFile) []string {
	if at(w.root, "runs") != nil || at(w.root, "concurrency") != nil {
		return nil
	}
	for _, job := range w.jobs() {
		if at(job, "concurrency") != nil {
			return nil
		}
	}
	return []string{"no concurrency"}
}

// dangerousTriggers: a trigger that gives rights to what a stranger started has a reason
// beside it, and its jobs check out nothing but what the default branch has.
func dangerousTriggers(w *workflowFile) (found []string) {
	for _, name := range []string{"pull_request_target", "workflow_run", "issue_comment"} {
		if !w.hasTrigger(name) {
			continue
		}
		if !regexp.MustCompile(`(?m)^  ` + name + `: # zizmor: ignore\[dangerous-triggers\] \w`).MatchString(w.text) {
			found = append(found, name+" without a reason")
		}
		for _, s := range w.allSteps() {
			if ref := value(s, "with", "ref"); isUse(s, "actions/checkout") && ref != "" && ref != "${{ github.event.repository.default_branch }}" {
				found = append(found, "checkout of "+ref)
			}
		}
	}
	return found
}

// secrets: the workflows need none but the job's own token.
func secrets(w *workflowFile) (found []string) {
	for _, bad := range []string{"secrets.", "secrets: inherit", "allow-unsafe-pr-checkout", "ACTIONS_ALLOW_UNSECURE_COMMANDS", "GITHUB_ENV", "GITHUB_PATH"} {
		if strings.Contains(w.text, bad) {
			found = append(found, bad)
		}
	}
	return found
}

func timeouts(w *workflowFile) (found []string) {
	for name, job := range w.jobs() {
		if at(job, "steps") != nil && value(job, "timeout-minutes") == "" {
			found = append(found, "job "+name+" may take hours")
		}
	}
	return found
}

// attempts: a name that an earlier attempt has taken cannot be uploaded to again.
func attempts(w *workflowFile) (found []string) {
	for _, s := range w.allSteps() {
		if name := value(s, "with", "name"); isUse(s, "actions/upload-artifact") && !strings.HasSuffix(name, "-a${{ github.run_attempt }}") {
			found = append(found, "artifact "+name)
		}
	}
	return found
}

// tokenBesideCode: every step of a job with id-token: write can ask for a token. So it has
// no scripts, and checks out nothing but the action.
func tokenBesideCode(w *workflowFile) (found []string) {
	for name, job := range w.jobs() {
		if value(job, "permissions", "id-token") != "write" {
			continue
		}
		for _, s := range steps(job) {
			if at(s, "run") != nil || isUse(s, "actions/checkout") && value(s, "with", "path") != ".truegreen-action" {
				found = append(found, "job "+name+": "+value(s, "run")+value(s, "uses"))
			}
		}
	}
	return found
}

// skippedGate: a job is skipped if one that it needs fails, and a skipped job meets a
// required check (runner#2566, ecamp3#4429). So the gate always runs, and asks each.
func skippedGate(w *workflowFile) (found []string) {
	jobs := w.jobs()
	gate, ok := jobs["gate"]
	if !ok {
		return nil
	}
	if cond := value(gate, "if"); !strings.HasPrefix(cond, "${{ always()") {
		found = append(found, "if: "+cond)
	}
	needs := at(gate, "needs")
	for name := range jobs {
		if name != "gate" && (needs == nil || needs.Value != name && !slices.ContainsFunc(needs.Content, func(n *yaml.Node) bool { return n.Value == name })) {
			found = append(found, "it does not need "+name)
		}
	}
	return found
}

// workflowFiles returns the recipes, this repository's workflows, and the action.
func workflowFiles(t testing.TB) []*workflowFile {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"docs/recipes/*.yml", ".github/workflows/*.yml", "action.yml"} {
		found, err := filepath.Glob(filepath.Join(moduleRoot, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: nothing there: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	var all []*workflowFile
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := parseWorkflow(path, string(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

func TestWorkflows(t *testing.T) {
	t.Parallel()
	for _, w := range workflowFiles(t) {
		for _, name := range slices.Sorted(maps.Keys(rules)) {
			for _, what := range rules[name](w) {
				t.Errorf("%s: %s: %s", w.name, name, what)
			}
		}
	}
}

// TestRules: each rule finds what it is for, and none of the others does.
func TestRules(t *testing.T) {
	t.Parallel()
	const jobs, forks = "truegreen-jobs.yml", "truegreen-forks.yml"
	for i, c := range []struct{ rule, recipe, old, new string }{
		{"unpinned-uses", jobs, "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1", "actions/checkout@v7"},
		{"unpinned-uses", jobs, "90b1 # v7.0.1", "90b1"},
		{"unpinned-uses", jobs, "uses: " + Action, "uses: octo/truegreen@v1"},
		{"unpinned-uses", "truegreen.yml", "truegreen-jobs.yml@main", "truegreen-jobs.yml@next"},
		{"unpinned-uses", "truegreen.yml", "# zizmor: ignore[unpinned-uses] the default branch is what is trusted", ""},
		{"excessive-permissions", jobs, "\npermissions: {}\n", "\npermissions: read-all\n"},
		{"excessive-permissions", jobs, "\npermissions: {}\n", "\n"},
		{"excessive-permissions", jobs, "    permissions: {}\n", ""},
		{"undocumented-permissions", jobs, "statuses: write # the status", "statuses: write"},
		{"template-injection", jobs, `$RESULTS"`, `${{ github.head_ref }}"`},
		{"artipacked", jobs, "          persist-credentials: false\n", ""},
		{"cache-poisoning", jobs, "      # What your tests need goes here", "      - uses: actions/setup-go@924ae3a1cded613372ab5595356fb5720e22ba16 # v6.5.0\n      # "},
		{"cache-poisoning", jobs, "compression-level: 0", "cache: true"},
		{"concurrency-limits", forks, "concurrency:", "defaults:"},
		{"dangerous-triggers", forks, " # zizmor: ignore[dangerous-triggers] no job checks out or executes the fork's code outside the sandbox", ""},
		{"dangerous-triggers", forks, "fetch-depth: 0", "ref: refs/pull/1/merge"},
		{"secrets", jobs, "mode: run", "github-token: ${{ secrets.TOKEN }}"},
		{"timeout", jobs, "    timeout-minutes: 60\n", ""},
		{"attempt", jobs, "truegreen-run-a${{ github.run_attempt }}", "truegreen-run"},
		{"token-beside-code", jobs, "- id: seal\n", "- run: make\n      - id: seal\n"},
		{"token-beside-code", jobs, "contents: read # the commits", "id-token: write # why not"},
		{"skipped-gate", jobs, "if: ${{ always() && ", "if: ${{ success() && "},
		{"skipped-gate", jobs, "needs: [run, seal, report]", "needs: [run, seal]"},
	} {
		text := workflow(t, Place{}, c.recipe)
		changed := strings.ReplaceAll(text, c.old, c.new)
		w, err := parseWorkflow(c.recipe, changed)
		if err != nil || changed == text {
			t.Errorf("%d, %s: not a change that parses: %v", i, c.rule, err)
			continue
		}
		for name, rule := range rules {
			if found := rule(w); (len(found) > 0) != (name == c.rule) {
				t.Errorf("%d, %s: %s finds %q", i, c.rule, name, found)
			}
		}
	}
}

// TestActionInputs: a composite action has no INPUT_ variables unless it makes them, and
// tools that imitate GitHub make them all the same (runner#665, act#2874).
func TestActionInputs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(moduleRoot, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := parseWorkflow("action.yml", string(text))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	list := steps(at(w.root, "runs"))
	for name, v := range pairs(at(list[len(list)-1], "env")) {
		env[name] = v.Value
	}
	inputs := pairs(at(w.root, "inputs"))
	for name, input := range inputs {
		variable := "INPUT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		want := "${{ inputs." + name + " }}"
		switch name {
		case "binary": // is for an earlier step
			continue
		case "github-token": // the job that runs the patch's tests has no use for it
			want = "${{ inputs.mode != 'run' && inputs.github-token || '' }}"
		}
		if env[variable] != want {
			t.Errorf("%s: %q, want %s", variable, env[variable], want)
		}
		delete(env, variable)
		if value(input, "description") == "" {
			t.Errorf("input %s: what is it?", name)
		}
	}
	for name := range env {
		if strings.HasPrefix(name, "INPUT_") {
			t.Errorf("%s: there is no such input", name)
		}
	}
	for _, s := range list {
		if at(s, "run") != nil && value(s, "shell") == "" {
			t.Errorf("a script without a shell: %s", value(s, "run"))
		}
	}
}

// TestCheckNames: a check that is skipped hides a red one of the same name, so no two
// workflows make checks of one name (ai-agents#4499).
func TestCheckNames(t *testing.T) {
	t.Parallel()
	parse := func(name string) *workflowFile {
		w, err := parseWorkflow(name, workflow(t, Place{}, name))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	checkName := func(id string, job *yaml.Node) string { return cmp.Or(value(job, "name"), id) }
	by := map[string]string{}
	add := func(check, recipe string) {
		if by[check] != "" {
			t.Errorf("%s and %s both make the check %q", by[check], recipe, check)
		}
		by[check] = recipe
	}
	for _, recipe := range recipeNames(t) {
		w := parse(recipe)
		if w.hasTrigger("workflow_call") {
			continue // its checks are its caller's
		}
		for id, job := range w.jobs() {
			uses := value(job, "uses")
			if uses == "" {
				// Whoever looks at a pull request sees the workflow's name too, but a rule
				// for required checks knows the job's alone.
				if name := checkName(id, job); strings.Contains(name, "gate") {
					add(name, recipe)
				}
				continue
			}
			for called, inner := range parse("truegreen-jobs.yml").jobs() {
				add(checkName(id, job)+" / "+checkName(called, inner), recipe)
			}
		}
	}
	for _, want := range []string{"truegreen / gate", "truegreen-forks / gate"} {
		if by[want] == "" {
			t.Errorf("nothing makes the check %q", want)
		}
	}
}

// TestForks: a pull request from a fork is tested by one workflow alone, and no required
// check is left without an answer: not in the merge queue, and not for a fork.
func TestForks(t *testing.T) {
	t.Parallel()
	const own = "github.event_name != 'pull_request' || github.event.pull_request.head.repo.full_name == github.repository"
	const fork = "github.event_name == 'pull_request_target' && github.event.pull_request.head.repo.full_name != github.repository"
	for recipe, only := range map[string]string{"truegreen-jobs.yml": own, "truegreen-forks.yml": fork} {
		w, err := parseWorkflow(recipe, workflow(t, Place{}, recipe))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"run", "report", "gate"} { // seal needs what run makes
			if cond := value(w.jobs()[name], "if"); !strings.Contains(cond, only) {
				t.Errorf("%s: job %s: if: %s", recipe, name, cond)
			}
		}
	}
	for _, recipe := range []string{"truegreen.yml", "truegreen-forks.yml"} {
		w, err := parseWorkflow(recipe, workflow(t, Place{}, recipe))
		if err != nil {
			t.Fatal(err)
		}
		if !w.hasTrigger("merge_group") {
			t.Errorf("%s: the merge queue would wait for its gate for ever", recipe)
		}
		for id, job := range w.jobs() {
			if at(job, "uses") != nil && at(job, "if") != nil {
				t.Errorf("%s: a call that is skipped has no checks of its jobs: %s", recipe, id)
			}
		}
	}
}
