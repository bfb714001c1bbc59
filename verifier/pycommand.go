package verifier

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/truegreen-dev/truegreen/receipts"
)

// A pytest is a command that runs pytest. Its control is a plugin that lies beside
// the tree, and that adds a test to those that were collected: one for each folder
// with a conftest.py that decides about some of them, as if it lay there, since the
// hooks of a conftest.py are about the tests at and below its folder only. So which
// tests are selected, where the root is, and which settings are read stays what it
// is without the plugin.
type pytest struct {
	e    *TestEntry
	head int // arguments up to the first that is pytest's own
}

// pytestPlugin is the name of the plugin's module, and pytestFile its file.
const (
	pytestPlugin = "truegreen_control"
	pytestFile   = OverlayDir + "/" + pytestPlugin + ".py"
)

// pytestGoOn has pytest run what could be imported where something could not be.
const pytestGoOn = "--continue-on-collection-errors"

// pytestRunsNone are the options with which pytest runs no test, waits for someone,
// or runs them in processes that are set up by another plugin.
var pytestRunsNone = strings.Fields("--co --collect-only --fixtures --funcargs --fixtures-per-test --markers --setup-only --setuponly " +
	"--setup-plan --setupplan -h --help -V --version --cache-show --pdb --trace -n --numprocesses --dist --tx -d -f --looponfail --forked")

var pythonProgram = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^python(3(\.[0-9]+)?)?$`) })

// parsePytest recognises pytest, as pytest, py.test or python3 -m pytest. It returns
// nil for other commands, and for one that runs no test.
func parsePytest(e *TestEntry) *pytest {
	c := &pytest{e: e}
	program := path.Base(e.Run[0])
	switch {
	case program == "pytest" || program == "py.test":
		c.head = 1
	case pythonProgram().MatchString(program):
		i := 1
		for i < len(e.Run) && (e.Run[i] == "-B" || e.Run[i] == "-u") {
			i++
		}
		if i+1 >= len(e.Run) || e.Run[i] != "-m" || e.Run[i+1] != "pytest" {
			return nil
		}
		c.head = i + 2
	default:
		return nil
	}
	for _, arg := range e.Run[c.head:] {
		name, _, _ := strings.Cut(arg, "=")
		if arg == "--" || slices.Contains(pytestRunsNone, name) || strings.HasPrefix(name, "-n") && !strings.HasPrefix(name, "--") {
			return nil
		}
	}
	return c
}

// command adds the plugin, which is found by PYTHONPATH.
func (c *pytest) command() (argv, env []string) {
	return slices.Insert(slices.Clone(c.e.Run), c.head, "-p", pytestPlugin), withPath(c.e.Env, "PYTHONPATH", OverlayDir)
}

// withPath puts a folder before those of a variable. The variables stay sorted.
func withPath(env []string, name, folder string) []string {
	out := []string{name + "=" + folder}
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, name+"="); !ok {
			out = append(out, kv)
		} else if value != "" {
			out[0] += ":" + value
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		a, _, _ = strings.Cut(a, "=")
		b, _, _ = strings.Cut(b, "=")
		return strings.Compare(a, b)
	})
	return out
}

func (c *pytest) carries(p *PlannedRun) bool {
	return slices.ContainsFunc(p.Argv, func(a receipts.Bytes) bool { return string(a) == pytestPlugin })
}

func (c *pytest) name(secret receipts.Digest, kind string) string {
	return controlName(secret, kind, c.e)
}

func (c *pytest) inputs(secret receipts.Digest) []Input {
	return []Input{newInput(pytestFile, fmt.Appendf(nil, pytestText, c.name(secret, canaryPass), "False"))}
}

// alone runs the same command, of which the plugin leaves nothing but its own tests:
// all of the tree's files that are imported before a test runs are imported.
func (c *pytest) alone(secret receipts.Digest) (argv, env []string, inputs []Input) {
	argv, env = c.command()
	// A file that cannot be imported is no reason to stop before they ran.
	argv = append(argv, "--maxfail=0", pytestGoOn)
	return argv, env, []Input{newInput(pytestFile, fmt.Appendf(nil, pytestText, c.name(secret, canaryFail), "True"))}
}

// pytestText is the plugin. It comes last, after what selects tests, and does
// nothing where pytest is too old for it.
const pytestText = `import os
import pathlib
import types

import pytest

NAME = "%s"
FAILS = %s


def control():
    if FAILS:
        raise AssertionError("this test has to fail")


def folders(items):
    found = set()
    for item in items:
        folder = os.path.dirname(str(getattr(item, "path", None) or item.fspath))
        while folder not in found:
            if os.path.isfile(os.path.join(folder, "conftest.py")):
                found.add(folder)
            above = os.path.dirname(folder)
            if above == folder:
                break
            folder = above
    return sorted(found)[:64] or [os.getcwd()]


def own(session, folder):
    path = pathlib.Path(folder, NAME + ".py")
    try:
        module = pytest.Module.from_parent(session, path=path)
    except TypeError:
        import py

        module = pytest.Module.from_parent(session, fspath=py.path.local(str(path)))
    module.obj = types.ModuleType(NAME)
    return pytest.Function.from_parent(module, name=NAME, callobj=control)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session, items):
    if not items and not FAILS:
        return
    try:
        added = [own(session, folder) for folder in folders(items)]
    except Exception:
        return
    if FAILS:
        del items[:]
    items.extend(added)
`
