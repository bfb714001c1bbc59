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

// A nodeTest is a command that runs node's own test runner. Its control is one more
// file of tests, beside the tree. It is a process of its own, as every file is: what
// is loaded before each of them, and what makes the report, is what it is a control
// of. Without a named file node looks for files by itself, and one that is named
// would be the only one: then the command has a failing control, and none that
// passes.
type nodeTest struct {
	e     *TestEntry
	files int // arguments up to the first file
}

const nodeFile = OverlayDir + "/control.test.mjs"

// Options of node with which its test runner runs all tests of all files.
var (
	nodeBool  = strings.Fields("--test --enable-source-maps --no-warnings --test-force-exit --experimental-test-coverage --experimental-test-module-mocks --experimental-strip-types --experimental-vm-modules --trace-warnings --expose-gc --preserve-symlinks")
	nodeValue = strings.Fields("--test-reporter --test-reporter-destination --test-concurrency --test-timeout --test-isolation --experimental-test-isolation --import --require -r --loader --experimental-loader --conditions -C --max-old-space-size --unhandled-rejections --test-coverage-include --test-coverage-exclude")
)

// parseNodeTest recognises node --test. It returns nil for other commands, and where
// it does not know an option, or one chooses tests.
func parseNodeTest(e *TestEntry) *nodeTest {
	if path.Base(e.Run[0]) != "node" {
		return nil
	}
	test, i := false, 1
	for ; i < len(e.Run) && strings.HasPrefix(e.Run[i], "-"); i++ {
		name, _, given := strings.Cut(e.Run[i], "=")
		switch {
		case slices.Contains(nodeBool, name) && !given:
			test = test || name == "--test"
		case slices.Contains(nodeValue, name):
			if !given {
				i++
			}
		default:
			return nil
		}
	}
	if !test || i > len(e.Run) || slices.ContainsFunc(e.Run[i:], func(arg string) bool { return arg == "" || arg[0] == '-' }) {
		return nil
	}
	return &nodeTest{e, i}
}

func (c *nodeTest) command() (argv, env []string) {
	if len(c.e.Run) == c.files {
		return c.e.Run, c.e.Env
	}
	return append(slices.Clone(c.e.Run), nodeFile), c.e.Env
}

func (c *nodeTest) carries(p *PlannedRun) bool {
	return slices.ContainsFunc(p.Argv, func(a receipts.Bytes) bool { return string(a) == nodeFile })
}

func (c *nodeTest) name(secret receipts.Digest, kind string) string {
	return controlName(secret, kind, c.e)
}

func (c *nodeTest) inputs(secret receipts.Digest) []Input {
	return []Input{newInput(nodeFile, fmt.Appendf(nil, "import test from 'node:test'\n\ntest('%s', () => {})\n", c.name(secret, canaryPass)))}
}

func (c *nodeTest) alone(secret receipts.Digest) (argv, env []string, inputs []Input) {
	text := fmt.Appendf(nil, "import test from 'node:test'\n\ntest('%s', () => { throw new Error('this test has to fail') })\n", c.name(secret, canaryFail))
	return append(slices.Clone(c.e.Run[:c.files]), nodeFile), c.e.Env, []Input{newInput(nodeFile, text)}
}

// nodeDeclares finds a call of node:test, of those that most files have.
var nodeDeclares = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?m)^[ \t]*(await[ \t]+)?(test|it|describe|suite)[ \t]*\\([ \t]*['\"`]")
})

// silent returns a signal for each file with tests none of which was reported: node
// then reports the file itself as one test, which passes where its process exited
// with 0, at whatever point. What is not known is the text of files that the patch
// does not change; tests that are gone from them are compared with the base.
func (c *nodeTest) silent(t *Trees, side string, r *Reading) []Signal {
	var list []Signal
	for i := range r.Tests {
		test := &r.Tests[i]
		if test.Outcome != Pass || !strings.Contains(path.Base(test.Name), ".") {
			continue
		}
		for _, name := range t.changed {
			if test.Name != name && !strings.HasSuffix(test.Name, "/"+name) && path.Join(c.e.Dir, test.Name) != name {
				continue
			}
			if text, ok := t.text(side, name); ok && nodeDeclares().Match(text) {
				list = append(list, Signal{Code: sigSilentTest, Test: test.Name, Detail: "the file has tests, and none of them was reported"})
			}
			break
		}
	}
	return list
}
