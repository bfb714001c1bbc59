package source

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"
)

// A TextKind says what a [TextDelta] is about.
type TextKind string

// The kinds.
const (
	// TextWeaker: a test that is skipped, expected to fail or gone, or a file of
	// tests with fewer assertions.
	TextWeaker TextKind = "weaker"
	// TextAware: code that can tell a test run from another one, ends it early, or is
	// equal to everything.
	TextAware TextKind = "aware"
	// TextHarness: what decides how tests run or are reported, in a file of the tests.
	TextHarness TextKind = "harness"
)

// A TextDelta is a place in a changed Python, JavaScript or TypeScript file that
// looks as if a test checked less than before, or could tell that it is one. It is
// found by the text of lines: nothing is parsed, so it is a hint, and none is no
// proof of anything. What is one of
//
//	skip, xfail, todo, only       a marker, option or call that was added
//	fewer assertions              in the whole file, with their numbers
//	test removed: NAME            no changed file of tests has it any more
//	hook NAME                     a function of this name, which pytest calls
//	replaces an assertion         assert.NAME = …
//	exits, exits with 0           os._exit, process.exit, sys.exit()
//	asks for pytest, asks for the test runner, asks for CI, asks for its file, asks for its arguments
//	import pytest                 in code
//	equal to everything           __eq__ that returns True
//	not read                      a file beyond 4 MiB, or beyond what is looked at in one patch
type TextDelta struct {
	Kind       TextKind
	File       string
	Line       int // of the head; of the base where the test is gone
	What       string
	Base, Head int // numbers, where there are any
}

// A textRule finds one What by the text of a file.
type textRule struct {
	kind    TextKind
	in      Class // Code, or Test for all files of the tests
	what    string
	pair    bool // the pattern is of a line and the next one, with a space between
	pattern textPattern
}

// A textLanguage is what is known of a language.
type textLanguage struct {
	rules      []textRule
	assertions textPattern
	names      textPattern // the first group that matched is the name of a test
	blank      func([]byte) []byte
}

type textLanguages struct{ python, script textLanguage }

// languages are compiled once, when the first file needs them.
var languages = sync.OnceValue(func() *textLanguages {
	compile := func(table [][5]string) []textRule {
		rules := make([]textRule, len(table))
		for i, row := range table {
			rules[i] = textRule{TextKind(row[0]), Class(row[1]), row[2], row[2] == "equal to everything", newTextPattern(row[3], row[4])}
		}
		return rules
	}
	weaker, aware, harness, code, test := string(TextWeaker), string(TextAware), string(TextHarness), string(Code), string(Test)
	const ci = `['"](CI|GITHUB_\w+|TRUEGREEN\w*)['"]`
	return &textLanguages{
		python: textLanguage{
			rules: compile([][5]string{
				{weaker, test, "skip", "skip Skip collect_ignore __test__", `\bmark\.skip(if)?\b|\bpytest\.(skip|importorskip)\(|@(unittest\.)?skip(If|Unless)?\b|\bSkipTest\b|\.skipTest\(|\bcollect_ignore|^\s*__test__\s*=\s*False`},
				{weaker, test, "xfail", "xfail expectedFailure", `\bmark\.xfail\b|\bpytest\.xfail\(|@(unittest\.)?expectedFailure\b`},
				{harness, test, "exits", "os._exit os.abort", `\bos\._exit\b|\bos\.abort\(`},
				{aware, code, "exits", "os._exit os.abort", `\bos\._exit\b|\bos\.abort\(`},
				{aware, code, "exits with 0", "exit( SystemExit", `\b(sys\.)?exit\(\s*(0|None)?\s*\)|\braise\s+SystemExit(\(\s*(0|None)?\s*\))?\s*$`},
				{aware, code, "asks for pytest", "PYTEST_ modules", `\bPYTEST_\w+|['"]_?(pytest|unittest)['"]\s+(not\s+)?in\s+(sys\.)?modules\b|\bmodules(\.get\(|\[)\s*['"]_?(pytest|unittest)\b`},
				{aware, code, "asks for CI", "environ getenv", `\b(environ|getenv)\b[^\n]*` + ci},
				{aware, code, "asks for its file", "__file__", `\b__file__\b[^\n]*\btest|\btest[^\n]*\b__file__\b`},
				{aware, code, "asks for its arguments", "sys.argv", `\bsys\.argv\b[^\n]*test|test[^\n]*\bsys\.argv\b`},
				{aware, code, "import pytest", "pytest", `^\s*(import|from)\s+_?pytest\b`},
				{aware, code, "equal to everything", "__eq__", `\bdef\s+__eq__\([^)\n]*\)[^:\n]*:\s*return\s+True\b`},
			}),
			assertions: newTextPattern("assert fail( pytest.", `^\s*assert\b|\.(assert\w+|fail)\(|\bassert_\w+\(|\bpytest\.(raises|warns|fail|deprecated_call)\(`),
			names:      newTextPattern("test", `^[ \t]*(?:async\s+)?def\s+(test\w*)\s*\(`),
			blank:      blankPython,
		},
		script: textLanguage{
			rules: compile([][5]string{
				{weaker, test, "skip", "skip runIf fixme xit xtest xdescribe xcontext xspecify", `\b(it|test|describe|suite|context)\.(skip|skipIf|runIf|fixme)\b|\bx(it|test|describe|context|specify)\s*\(|\b(this|t|ctx|context)\.skip\(|[{,]\s*skip\s*:\s*(true\b|['"` + "`" + `])`},
				{weaker, test, "todo", "todo fail", `\b(it|test|describe|suite|context)\.(todo|failing|fails)\b|\b(t|ctx|context)\.todo\(|[{,]\s*todo\s*:\s*(true\b|['"` + "`" + `])`},
				{weaker, test, "only", "only fit fdescribe", `\b(it|test|describe|suite|context)\.only\b|\bf(it|describe)\s*\(|[{,]\s*only\s*:\s*true\b`},
				{harness, test, "exits", "process.", `\bprocess\.(exit|reallyExit)\(\s*0?\s*\)|\bprocess\.abort\(|\bprocess\.exitCode\s*=\s*0\b`},
				{harness, test, "replaces an assertion", "assert.", `\bassert\.\w+\s*=[^=>]`},
				{aware, code, "exits with 0", "process.", `\bprocess\.(exit|reallyExit)\(\s*0?\s*\)|\bprocess\.exitCode\s*=\s*0\b`},
				{aware, code, "exits", "process.", `\bprocess\.abort\(|\bprocess\.kill\(\s*process\.pid\b`},
				{aware, code, "asks for the test runner", "JEST_ VITEST NODE_ MOCHA_ typeof", `\b(JEST_WORKER_ID|VITEST\w*|NODE_TEST_CONTEXT|NODE_V8_COVERAGE|MOCHA_\w+)\b|\bNODE_ENV\b['"\]]*\s*[!=]==?\s*['"]test['"]|['"]test['"]\s*[!=]==?\s*process\.env\b[^\n]*NODE_ENV|\btypeof\s+(describe|it|jest)\b`},
				{aware, code, "asks for CI", "env", `\benv(\.|\[\s*['"])(CI|GITHUB_\w+|TRUEGREEN\w*)\b`},
				{aware, code, "asks for its file", "__filename import.meta require.main", `(\b__filename\b|\bimport\.meta\.(url|filename)\b)[^\n]*\btest|\brequire\.main\b[^\n]*\btest`},
				{aware, code, "asks for its arguments", "process.", `\bprocess\.(argv|execArgv)\b[^\n]*['"](test|jest|mocha)`},
			}),
			assertions: newTextPattern("expect assert should t.", `\b(expect|assert)(\.\w+)*\s*\(|\.should\b|\bt\.(assert|is|not|deepEqual|true|false|throws|equal|equals|ok|same|match)\b`),
			names:      newTextPattern("it( it. test", `\b(?:it|test)(?:\.\w+)*\s*\(\s*(?:'([^'\n]+)'|"([^"\n]+)"|`+"`([^`\n]+)`)"),
			blank:      blankScript,
		},
	}
})

// pytestHook finds the functions that decide what pytest runs and reports.
var pytestHook = sync.OnceValue(func() textPattern {
	return newTextPattern("pytest_", `^[ \t]*(?:async\s+)?def\s+(pytest_(?:runtest|collection|collect|pycollect|pyfunc|itemcollected|deselected|ignore|report|sessionfinish|cmdline|exception)\w*)\s*\(`)
})

const (
	maxTextFile  = 4 << 20 // bytes of a file that is looked at
	maxTextLine  = 1 << 10 // bytes of a line that are looked at together
	maxTextNames = 1 << 16 // names of tests of all files, on a side
	maxTextTries = 1 << 17 // lines, times patterns, that are looked at closely, on a side
)

// TextLanguage reports whether [TextDeltas] looks at a file of this name.
func TextLanguage(name string) bool { return isPython(name) || isScript(name) }

func isPython(name string) bool { return path.Ext(name) == ".py" }

func isScript(name string) bool {
	switch path.Ext(name) {
	case ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts":
		return true
	}
	return false
}

// TextDeltas compares the changed files of two sides. testSide tells the files that
// belong to the tests. Files of other languages are left out. The result is sorted.
func TextDeltas(base, head []File, testSide func(path string) bool) []TextDelta {
	was := map[string]*textFile{}
	before, after := readTexts(base, testSide), readTexts(head, testSide)
	for _, t := range before {
		was[t.Path] = t
	}
	var list []TextDelta
	for _, t := range after {
		old := was[t.Path]
		var oldMarks []goMark
		if old != nil {
			oldMarks = old.marks
		}
		seen := map[string]int{}
		for _, m := range newMarks(oldMarks, t.marks) {
			if seen[m.What]++; seen[m.What] <= maxGoMarks {
				kind, what, _ := strings.Cut(m.What, " ")
				list = append(list, TextDelta{Kind: TextKind(kind), File: t.Path, Line: m.Line, What: what})
			}
		}
		if old != nil && t.test && old.test && t.assertions < old.assertions {
			list = append(list, TextDelta{Kind: TextWeaker, File: t.Path, Line: 1, What: "fewer assertions", Base: old.assertions, Head: t.assertions})
		}
	}
	list = append(list, removedNames(before, after)...)
	slices.SortFunc(list, func(a, b TextDelta) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.What, b.What))
	})
	return list
}

// removedNames returns the tests of before that after has fewer of, whatever file
// they are in.
func removedNames(before, after []*textFile) []TextDelta {
	here, anywhere := map[[2]string]int{}, map[string]int{}
	for _, t := range after {
		for _, n := range t.names {
			here[[2]string{t.Path, n.text}]++
			anywhere[n.text]++
		}
	}
	var gone []TextDelta
	var names []string
	for _, t := range before {
		for _, n := range t.names {
			if key := [2]string{t.Path, n.text}; here[key] > 0 {
				here[key]--
				anywhere[n.text]--
				continue
			}
			gone = append(gone, TextDelta{Kind: TextWeaker, File: t.Path, Line: n.Line, What: "test removed: " + n.text[:min(len(n.text), maxGoLine)]})
			names = append(names, n.text)
		}
	}
	list := gone[:0]
	for i := range gone {
		if anywhere[names[i]]--; anywhere[names[i]] < 0 {
			list = append(list, gone[i])
		}
	}
	return list
}
