package runner

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/verifier"
)

// needProgram skips the test where the sandbox's own folders do not have what the
// tests of a language need, or fails where it is required.
func needProgram(t *testing.T, required bool, argv ...string) {
	t.Helper()
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		if exec.Command(filepath.Join(dir, argv[0]), argv[1:]...).Run() == nil {
			return
		}
	}
	if required && os.Getenv("TRUEGREEN_TOOLS") == "require" {
		t.Fatalf("%q does not work with what is in /usr", argv)
	}
	t.Skipf("%q does not work with what is in /usr", argv)
}

// documented returns the configuration that the documentation shows for a name.
func documented(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(page), "```yaml\n") {
		block, _, _ = strings.Cut(block, "```")
		if strings.HasPrefix(block, "test:\n  - name: "+name+"\n") {
			return block
		}
	}
	t.Fatalf("the documentation has no configuration with the name %s", name)
	return ""
}

// A languageCase is a patch of a small project, and what has to be said of it.
type languageCase struct {
	base, head map[string]string // beside the project's files; "" is none
	verdict    verifier.Verdict
	code       verifier.Code // one of the reasons
	level      int           // of the claim
	proofs     []string      // name and kind
	findings   []string      // beginnings of some that the report has
	without    []string      // beginnings of those that it has not
	signal     string        // of the first run on the head
}

func (c *languageCase) run(t *testing.T, project map[string]string) {
	t.Helper()
	p := newPatchRun(t, nil)
	write := func(files map[string]string) {
		for name, text := range files {
			if text == "" {
				if err := os.Remove(filepath.Join(p.dir, name)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			p.write(name, text)
		}
	}
	write(project)
	write(c.base)
	p.commit("base")
	write(c.head)
	report, _, _ := p.run()
	if report.Verdict() != c.verdict || c.code != "" && !report.Has(c.code) {
		t.Errorf("%v: %v; want %v, %s", report.Verdict(), report.Reasons(), c.verdict, c.code)
	}
	f := report.Findings()
	var proofs, findings []string
	for _, proof := range f.Claim.FailToPass {
		proofs = append(proofs, proof.Test.Name+" "+proof.Kind)
		if !proof.Stable() {
			t.Errorf("not stable: %+v", proof)
		}
	}
	for i := range f.Findings {
		findings = append(findings, f.Findings[i].String())
	}
	if f.Claim.Level != c.level || !slices.Equal(proofs, c.proofs) {
		t.Errorf("L%d, %q (%s); want L%d, %q", f.Claim.Level, proofs, f.Claim.Missing, c.level, c.proofs)
	}
	for _, want := range c.findings {
		if !slices.ContainsFunc(findings, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("findings %q: want %q", findings, want)
		}
	}
	for _, not := range c.without {
		if slices.ContainsFunc(findings, func(s string) bool { return strings.HasPrefix(s, not) }) {
			t.Errorf("findings %q: want no %q", findings, not)
		}
	}
	if c.signal != "" {
		for _, r := range f.Runs {
			if r.Side == verifier.SideHead && r.Plain() && !slices.ContainsFunc(r.Signals, func(s verifier.Signal) bool { return s.Code == c.signal }) {
				t.Errorf("signals %+v: want %s", r.Signals, c.signal)
			}
		}
	}
}

const makereport = `import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        report.outcome = "passed"
        report.longrepr = None
`

func TestPytest(t *testing.T) {
	t.Parallel()
	needProgram(t, true, "python3", "-m", "pytest", "--version")
	const tests = "from calc import add, double\n\n\ndef test_double():\n    assert double(2) == 4\n    assert double(3) == 6\n"
	project := map[string]string{
		".truegreen.yaml": documented(t, "pytest"),
		"calc.py":         "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n",
		"tests/test_a.py": tests, "tests/conftest.py": "# nothing yet\n", "tests/test_z.py": "def test_nothing(): pass\n",
	}
	fixed := strings.Replace(project["calc.py"], "a - b", "a + b", 1)
	broken := strings.Replace(project["calc.py"], "2 * a", "3 * a", 1)
	for name, c := range map[string]languageCase{
		"fix with a test": {
			head:    map[string]string{"calc.py": fixed, "tests/test_a.py": tests + "\n\ndef test_add():\n    assert add(2, 3) == 5\n"},
			verdict: verifier.Verified, level: verifier.LevelFailToPass, proofs: []string{"tests.test_a.test_add assertion"},
			without: []string{verifier.FindNoControl, verifier.FindCanarySilent, verifier.FindWeakened, verifier.FindTestAware},
		},
		"test of something new": {
			head: map[string]string{
				"calc.py":         project["calc.py"] + "\n\ndef half(a):\n    return a / 2\n",
				"tests/test_a.py": strings.Replace(tests, "double\n", "double, half\n", 1) + "\n\ndef test_half():\n    assert half(4) == 2\n",
				"tests/test_b.py": "import calc\n\n\ndef test_attribute():\n    assert calc.half(2) == 1\n",
			},
			verdict: verifier.Verified, level: verifier.LevelFailToPass,
			proofs: []string{"tests.test_a.test_half did-not-compile", "tests.test_b.test_attribute assertion"},
		},
		"reports rewritten by conftest.py": {
			head:    map[string]string{"calc.py": broken, "conftest.py": makereport},
			verdict: verifier.Failed, code: verifier.CanaryFailed, level: -1,
			findings: []string{"harness-touched conftest.py", "harness-code conftest.py:5: heuristic: hook pytest_runtest_makereport"},
		},
		"reports rewritten for a folder": {
			head:    map[string]string{"calc.py": broken, "tests/conftest.py": makereport},
			verdict: verifier.Failed, code: verifier.CanaryFailed, level: -1,
		},
		"exit in the code": {
			head:    map[string]string{"calc.py": "import os\n\nos._exit(0)\n"},
			verdict: verifier.Failed, code: verifier.UntrustedReport, level: -1, signal: "report-missing",
			findings: []string{"test-aware calc.py:3: heuristic: exits"},
		},
		"tests chosen by conftest.py": {
			head:    map[string]string{"conftest.py": "def pytest_collection_finish(session):\n    session.items[:] = [i for i in session.items if 'test_a.py' in i.nodeid]\n"},
			verdict: verifier.Failed, code: verifier.UntrustedReport, level: -1, signal: "canary-missing",
		},
		"skipped": {
			head:    map[string]string{"tests/test_a.py": "import pytest\n" + strings.Replace(tests, "def test", "@pytest.mark.skip\ndef test", 1)},
			verdict: verifier.Failed, code: verifier.TestsSkipped, level: 0,
			findings: []string{"newly-skipped pytest tests.test_a.test_double", "weakened tests/test_a.py:5: heuristic: skip"},
		},
		"expected to fail": {
			head:    map[string]string{"calc.py": broken, "tests/test_a.py": "import pytest\n" + strings.Replace(tests, "def test", "@pytest.mark.xfail\ndef test", 1)},
			verdict: verifier.Failed, code: verifier.TestsSkipped, level: 0,
			findings: []string{"weakened tests/test_a.py:5: heuristic: xfail"},
		},
		"fewer assertions": {
			head:    map[string]string{"calc.py": fixed, "tests/test_a.py": strings.Replace(tests, "    assert double(3) == 6\n", "", 1)},
			verdict: verifier.Verified, level: verifier.LevelNoRegression,
			findings: []string{"weakened tests/test_a.py:1: heuristic: fewer assertions: 2, then 1"},
		},
		"settings of the tree, and a filter": {
			base: map[string]string{
				"pytest.ini":      "[pytest]\ntestpaths = tests\naddopts = -m slow -q --strict-markers -p no:cacheprovider -W error\nmarkers = slow\n",
				"tests/test_s.py": "import pytest\n\n\n@pytest.mark.slow\ndef test_slow(): pass\n",
			},
			head: map[string]string{"calc.py": fixed}, verdict: verifier.Verified, level: verifier.LevelNoRegression,
			without: []string{verifier.FindNoControl, verifier.FindCanarySilent},
		},
		"a module that cannot be imported, on the base as well": {
			base: map[string]string{
				".truegreen.yaml": project[".truegreen.yaml"] + "integrity: {still-failing: warn}\n",
				"tests/test_b.py": "import nothing_like_it\n",
			},
			head: map[string]string{"calc.py": fixed}, verdict: verifier.Unproven, code: verifier.NoTests, level: -1,
			without: []string{verifier.FindCanarySilent},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(t, project)
		})
	}
}

func TestNodeTest(t *testing.T) {
	t.Parallel()
	needProgram(t, false, "node", "-e", "process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)")
	const tests = "import test from 'node:test'\nimport assert from 'node:assert'\nimport { add, double } from '../calc.mjs'\n\ntest('doubles', () => {\n  assert.equal(double(2), 4)\n})\n"
	const added = "test('adds', () => {\n  assert.equal(add(2, 3), 5)\n})\n"
	project := map[string]string{
		".truegreen.yaml": "test: [{name: unit, run: [node, --import, ./setup.mjs, --test, --test-reporter=tap, test/a.test.mjs, test/b.test.mjs], format: tap}]\nevidence: {level: L2, reruns: 2}\n",
		"calc.mjs":        "export const add = (a, b) => a - b\nexport const double = a => 2 * a\n",
		"test/a.test.mjs": tests, "test/b.test.mjs": "import { test } from 'node:test'\ntest('nothing', () => {})\n", "setup.mjs": "// nothing yet\n",
	}
	fixed := strings.Replace(project["calc.mjs"], "a - b", "a + b", 1)
	byItself := strings.Replace(project[".truegreen.yaml"], ", test/a.test.mjs, test/b.test.mjs", "", 1)
	for name, c := range map[string]languageCase{
		"fix with a test": {
			head:    map[string]string{"calc.mjs": fixed, "test/a.test.mjs": tests + added},
			verdict: verifier.Verified, level: verifier.LevelFailToPass, proofs: []string{"adds assertion"},
			without: []string{verifier.FindNoControl, verifier.FindCanarySilent, verifier.FindWeakened, verifier.FindTestAware},
		},
		"fix with a test, and counted lines": {
			base:    map[string]string{".truegreen.yaml": documented(t, "node")},
			head:    map[string]string{"calc.mjs": fixed + "\nexport const never = () => {\n  return 1\n}\n", "test/a.test.mjs": tests + added},
			verdict: verifier.Verified, level: verifier.LevelExecuted, proofs: []string{"adds assertion"},
			findings: []string{"not-executed calc.mjs:"},
		},
		"files that node finds": {
			base:    map[string]string{".truegreen.yaml": byItself},
			head:    map[string]string{"calc.mjs": fixed, "test/a.test.mjs": tests + added},
			verdict: verifier.Verified, level: verifier.LevelFailToPass, proofs: []string{"adds assertion"},
			findings: []string{"no-control unit: no test of truegreen's own could be laid over this command"},
			without:  []string{verifier.FindCanarySilent},
		},
		"exit in a file of tests": {
			head:    map[string]string{"test/b.test.mjs": project["test/b.test.mjs"] + "process.exit(0)\n"},
			verdict: verifier.Failed, code: verifier.UntrustedReport, level: -1, signal: "silent-test",
			findings: []string{"harness-code test/b.test.mjs:3: heuristic: exits"},
		},
		"exit in the code": {
			head:    map[string]string{"calc.mjs": project["calc.mjs"] + "process.exit(0)\n"},
			verdict: verifier.Failed, code: verifier.TestsRemoved, level: 0,
			findings: []string{"test-aware calc.mjs:3: heuristic: exits with 0"},
		},
		"what is loaded before the tests": {
			head: map[string]string{
				"setup.mjs": "import { register } from 'node:module'\nregister('./hooks.mjs', import.meta.url)\n",
				"hooks.mjs": "export function resolve(name, context, next) {\n  if (name === 'node:test' && !context.parentURL.endsWith('/fake.mjs')) {\n" +
					"    return { url: new URL('./fake.mjs', import.meta.url).href, shortCircuit: true }\n  }\n  return next(name, context)\n}\n",
				"fake.mjs": "import real from 'node:test'\nexport const test = name => real(name, () => {})\nexport default test\n",
			},
			verdict: verifier.Failed, code: verifier.CanaryFailed, level: -1,
		},
		"skipped": {
			head:    map[string]string{"test/a.test.mjs": strings.Replace(tests, "test('doubles'", "test.skip('doubles'", 1)},
			verdict: verifier.Failed, code: verifier.TestsSkipped, level: 0,
			findings: []string{"newly-skipped doubles", "weakened test/a.test.mjs:5: heuristic: skip"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(t, project)
		})
	}
}

// TestShellRunner: of a runner that nobody knows, the report is read, and what it
// lacks is said.
func TestShellRunner(t *testing.T) {
	t.Parallel()
	project := map[string]string{
		".truegreen.yaml": "test: [{name: unit, run: [sh, run.sh], format: junit}]\nevidence: {level: L2, reruns: 2, tests: [\"cases/**\"]}\n",
		"run.sh": `{
echo '<testsuite name="sh">'
for f in cases/*; do
	echo "<testcase name=\"$f\">"
	sh "$f" || { echo '<failure/>'; bad=1; }
	echo '</testcase>'
done
echo '</testsuite>'
} > "$TRUEGREEN_OUT/report.xml"
exit ${bad:-0}
`,
		"one.sh": "echo 2\n", "cases/runs": "sh one.sh\n",
	}
	test := map[string]string{"cases/one": "test \"$(sh one.sh)\" = 1\n"}
	for name, c := range map[string]languageCase{
		"fix with a test": {
			head:    map[string]string{"one.sh": "echo 1\n", "cases/one": test["cases/one"]},
			verdict: verifier.Verified, level: verifier.LevelFailToPass, proofs: []string{"cases/one assertion"},
			findings: []string{"no-control unit: no test of truegreen's own could be laid over this command"},
		},
		"fix of what a test has said": {
			base: test, head: map[string]string{"one.sh": "echo 1\n"},
			verdict: verifier.Verified, level: verifier.LevelFailToPass, proofs: []string{"cases/one assertion"},
		},
		"test without a fix": {head: test, verdict: verifier.Failed, code: verifier.TestsFailed, level: -1},
		"test that says nothing": {
			head:    map[string]string{"one.sh": "echo 1\n", "cases/two": "true\n"},
			verdict: verifier.Verified, level: verifier.LevelNoRegression, findings: []string{"new-not-failing sh cases/two"},
		},
		"test gone": {
			base: map[string]string{"cases/two": "true\n"}, head: map[string]string{"cases/two": ""},
			verdict: verifier.Failed, code: verifier.TestsRemoved, level: 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(t, maps.Clone(project))
		})
	}
}
