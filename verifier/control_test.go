package verifier

import (
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

// TestControls: which commands can have tests of truegreen's own, and how they are
// then run.
func TestControls(t *testing.T) {
	t.Parallel()
	plugin := "-p truegreen_control"
	for _, c := range []struct{ run, want, alone string }{
		{"pytest", "pytest " + plugin, "pytest " + plugin + " --maxfail=0 --continue-on-collection-errors"},
		{"/usr/bin/py.test -q tests", "/usr/bin/py.test " + plugin + " -q tests", "/usr/bin/py.test " + plugin + " -q tests --maxfail=0 --continue-on-collection-errors"},
		{"python3 -m pytest -k fast -x", "python3 -m pytest " + plugin + " -k fast -x", "python3 -m pytest " + plugin + " -k fast -x --maxfail=0 --continue-on-collection-errors"},
		{"python3.11 -B -u -m pytest", "python3.11 -B -u -m pytest " + plugin, "python3.11 -B -u -m pytest " + plugin + " --maxfail=0 --continue-on-collection-errors"},
		{"pytest tests/test_a.py::test_b", "pytest " + plugin + " tests/test_a.py::test_b", "pytest " + plugin + " tests/test_a.py::test_b --maxfail=0 --continue-on-collection-errors"},
		{"pytest --co", "", ""},
		{"pytest --collect-only -q", "", ""},
		{"pytest -n4", "", ""},
		{"pytest -n auto", "", ""},
		{"pytest --numprocesses=2", "", ""},
		{"pytest --pdb", "", ""},
		{"pytest -- tests", "", ""},
		{"python3 -O -m pytest", "", ""}, // without assertions
		{"python3 -E -m pytest", "", ""}, // without PYTHONPATH
		{"python3 -m unittest", "", ""},
		{"python3 -m", "", ""},
		{"python3", "", ""},
		{"pythonx -m pytest", "", ""},
		{"sh -c pytest", "", ""},
		{"tox", "", ""},

		{"node --test --test-reporter=tap a.test.js", "node --test --test-reporter=tap a.test.js /overlay/control.test.mjs", "node --test --test-reporter=tap /overlay/control.test.mjs"},
		{"/usr/bin/node --test --test-reporter junit a b", "/usr/bin/node --test --test-reporter junit a b /overlay/control.test.mjs", "/usr/bin/node --test --test-reporter junit /overlay/control.test.mjs"},
		{"node --import ./setup.mjs --test", "node --import ./setup.mjs --test", "node --import ./setup.mjs --test /overlay/control.test.mjs"},
		{"node --test --test-name-pattern=a a.test.js", "", ""},
		{"node --test --test-only a.test.js", "", ""},
		{"node --test --watch a.test.js", "", ""},
		{"node --test=x a.test.js", "", ""},
		{"node --test --import", "", ""},
		{"node --test a.test.js --import ./setup.mjs", "", ""},
		{"node a.test.js --test", "", ""},
		{"node", "", ""},
		{"npm test", "", ""},
		{"npx jest", "", ""},
	} {
		for _, format := range []string{FormatJUnit, FormatTAP, FormatCTRF, FormatExit, FormatGo} {
			e := &TestEntry{Name: "unit", Run: strings.Fields(c.run), Dir: ".", Format: format, Env: []string{"A=1", "Z=2"}}
			want := c.want
			if format == FormatExit || format == FormatGo {
				want = ""
			}
			trees := &Trees{}
			control := trees.control(e, SideHead)
			if want == "" {
				if control != nil {
					t.Errorf("%s, %s: has a control", c.run, format)
				}
				continue
			}
			if control == nil {
				t.Errorf("%s, %s: has no control", c.run, format)
				continue
			}
			run := planned(e, SideHead, trees)
			if got := strings.Join(texts(run.Argv), " "); got != want {
				t.Errorf("%s: %q, want %q", c.run, got, want)
			}
			if control.carries(&run) != (want != c.run) {
				t.Errorf("%s: carries: %t", c.run, control.carries(&run))
			}
			argv, env, inputs := failingControl(e).alone(receipts.Digest{1})
			if got := strings.Join(argv, " "); got != c.alone || len(inputs) != 1 {
				t.Errorf("%s: alone %q, want %q; %d inputs", c.run, got, c.alone, len(inputs))
			}
			if !slices.IsSorted(env) || !slices.Contains(env, "A=1") {
				t.Errorf("%s: environment %q", c.run, env)
			}
			// Nobody who has not seen the plan knows what the tests are called.
			pass, fail := failingControl(e).name(receipts.Digest{1}, canaryPass), failingControl(e).name(receipts.Digest{1}, canaryFail)
			if pass == fail || pass == failingControl(e).name(receipts.Digest{2}, canaryPass) ||
				!strings.Contains(string(control.inputs(receipts.Digest{1})[0].Content), pass) || !strings.Contains(string(inputs[0].Content), fail) {
				t.Errorf("%s: names %s and %s", c.run, pass, fail)
			}
		}
	}
}

func texts(list []receipts.Bytes) (out []string) {
	for _, b := range list {
		out = append(out, string(b))
	}
	return out
}

func TestWithPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ env, want string }{
		{"", "P=/x"},
		{"A=1 Q=2", "A=1 P=/x Q=2"},
		{"A=1 P=/y:/z Q=2", "A=1 P=/x:/y:/z Q=2"},
		{"P=", "P=/x"},
		{"PA=1", "P=/x PA=1"},
		{"P-=1", "P=/x P-=1"},
	} {
		if got := strings.Join(withPath(strings.Fields(c.env), "P", "/x"), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.env, got, c.want)
		}
	}
}
