package source

import (
	"cmp"
	"path"
	"regexp"
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
	pattern *regexp.Regexp
}

// A textLanguage is what is known of a language.
type textLanguage struct {
	rules      []textRule
	assertions *regexp.Regexp
	names      *regexp.Regexp // the first group that matched is the name of a test
	blank      func([]byte) []byte
}

type textLanguages struct{ python, script textLanguage }

// languages are compiled once, when the first file needs them.
var languages = sync.OnceValue(func() *textLanguages {
	compile := func(table [][4]string) []textRule {
		rules := make([]textRule, len(table))
		for i, row := range table {
			rules[i] = textRule{TextKind(row[0]), Class(row[1]), row[2], regexp.MustCompile(`(?m)` + row[3])}
		}
		return rules
	}
	weaker, aware, harness, code, test := string(TextWeaker), string(TextAware), string(TextHarness), string(Code), string(Test)
	const ci = `['"](CI|GITHUB_\w+|TRUEGREEN\w*)['"]`
	return &textLanguages{
		python: textLanguage{
			rules: compile([][4]string{
				{weaker, test, "skip", `\bmark\.skip(if)?\b|\bpytest\.(skip|importorskip)\(|@(unittest\.)?skip(If|Unless)?\b|\bSkipTest\b|\.skipTest\(|\bcollect_ignore|^\s*__test__\s*=\s*False`},
				{weaker, test, "xfail", `\bmark\.xfail\b|\bpytest\.xfail\(|@(unittest\.)?expectedFailure\b`},
				{harness, test, "exits", `\bos\._exit\b|\bos\.abort\(`},
				{aware, code, "exits", `\bos\._exit\b|\bos\.abort\(`},
				{aware, code, "exits with 0", `\b(sys\.)?exit\(\s*(0|None)?\s*\)|\braise\s+SystemExit(\(\s*(0|None)?\s*\))?\s*$`},
				{aware, code, "asks for pytest", `\bPYTEST_\w+|['"]_?(pytest|unittest)['"]\s+(not\s+)?in\s+(sys\.)?modules\b|\bmodules(\.get\(|\[)\s*['"]_?(pytest|unittest)\b`},
				{aware, code, "asks for CI", `\b(environ|getenv)\b[^\n]*` + ci},
				{aware, code, "asks for its file", `\b__file__\b[^\n]*\btest|\btest[^\n]*\b__file__\b`},
				{aware, code, "asks for its arguments", `\bsys\.argv\b[^\n]*test|test[^\n]*\bsys\.argv\b`},
				{aware, code, "import pytest", `^\s*(import|from)\s+_?pytest\b`},
				{aware, code, "equal to everything", `\bdef\s+__eq__\([^)\n]*\)[^:\n]*:\s*return\s+True\b`},
			}),
			assertions: regexp.MustCompile(`(?m)^\s*assert\b|\.(assert\w+|fail)\(|\bassert_\w+\(|\bpytest\.(raises|warns|fail|deprecated_call)\(`),
			names:      regexp.MustCompile(`(?m)^[ \t]*(?:async\s+)?def\s+(test\w*)\s*\(`),
			blank:      blankPython,
		},
		script: textLanguage{
			rules: compile([][4]string{
				{weaker, test, "skip", `\b(it|test|describe|suite|context)\.(skip|skipIf|runIf|fixme)\b|\bx(it|test|describe|context|specify)\s*\(|\b(this|t|ctx|context)\.skip\(|[{,]\s*skip\s*:\s*(true\b|['"` + "`" + `])`},
				{weaker, test, "todo", `\b(it|test|describe|suite|context)\.(todo|failing|fails)\b|\b(t|ctx|context)\.todo\(|[{,]\s*todo\s*:\s*(true\b|['"` + "`" + `])`},
				{weaker, test, "only", `\b(it|test|describe|suite|context)\.only\b|\bf(it|describe)\s*\(|[{,]\s*only\s*:\s*true\b`},
				{harness, test, "exits", `\bprocess\.(exit|reallyExit)\(\s*0?\s*\)|\bprocess\.abort\(|\bprocess\.exitCode\s*=\s*0\b`},
				{harness, test, "replaces an assertion", `\bassert\.\w+\s*=[^=>]`},
				{aware, code, "exits with 0", `\bprocess\.(exit|reallyExit)\(\s*0?\s*\)|\bprocess\.exitCode\s*=\s*0\b`},
				{aware, code, "exits", `\bprocess\.abort\(|\bprocess\.kill\(\s*process\.pid\b`},
				{aware, code, "asks for the test runner", `\b(JEST_WORKER_ID|VITEST\w*|NODE_TEST_CONTEXT|NODE_V8_COVERAGE|MOCHA_\w+)\b|\bNODE_ENV\b['"\]]*\s*[!=]==?\s*['"]test['"]|['"]test['"]\s*[!=]==?\s*process\.env\b[^\n]*NODE_ENV|\btypeof\s+(describe|it|jest)\b`},
				{aware, code, "asks for CI", `\benv(\.|\[\s*['"])(CI|GITHUB_\w+|TRUEGREEN\w*)\b`},
				{aware, code, "asks for its file", `(\b__filename\b|\bimport\.meta\.(url|filename)\b)[^\n]*\btest|\brequire\.main\b[^\n]*\btest`},
				{aware, code, "asks for its arguments", `\bprocess\.(argv|execArgv)\b[^\n]*['"](test|jest|mocha)`},
			}),
			assertions: regexp.MustCompile(`\b(expect|assert)(\.\w+)*\s*\(|\.should\b|\bt\.(assert|is|not|deepEqual|true|false|throws|equal|equals|ok|same|match)\b`),
			names:      regexp.MustCompile(`\b(?:it|test)(?:\.\w+)*\s*\(\s*(?:'([^'\n]+)'|"([^"\n]+)"|` + "`([^`\n]+)`)"),
			blank:      blankScript,
		},
	}
})

// pytestHook finds the functions that decide what pytest runs and reports.
var pytestHook = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*(?:async\s+)?def\s+(pytest_(?:runtest|collection|collect|pycollect|pyfunc|itemcollected|deselected|ignore|report|sessionfinish|cmdline|exception)\w*)\s*\(`)
})

const (
	maxTextFile  = 4 << 20 // bytes of a file that is looked at
	maxTextNames = 1 << 16 // names of tests of all files, on a side
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
// belong to the tests. Files of other languages are left out, and those of more than
// 4 MiB. The result is sorted.
func TextDeltas(base, head []File, testSide func(path string) bool) []TextDelta {
	was := map[string]*textFile{}
	var before, after []*textFile
	for _, f := range sortedFiles(base) {
		if t := readText(f, testSide); t != nil {
			was[f.Path] = t
			before = append(before, t)
		}
	}
	var list []TextDelta
	for _, f := range sortedFiles(head) {
		t := readText(f, testSide)
		if t == nil {
			continue
		}
		after = append(after, t)
		old := was[f.Path]
		var oldMarks []goMark
		if old != nil {
			oldMarks = old.marks()
		}
		seen := map[string]int{}
		for _, m := range newMarks(oldMarks, t.marks()) {
			if seen[m.What]++; seen[m.What] <= maxGoMarks {
				kind, what, _ := strings.Cut(m.What, " ")
				list = append(list, TextDelta{Kind: TextKind(kind), File: f.Path, Line: m.Line, What: what})
			}
		}
		if old != nil && t.test && old.test {
			if n, m := old.assertions(), t.assertions(); m < n {
				list = append(list, TextDelta{Kind: TextWeaker, File: f.Path, Line: 1, What: "fewer assertions", Base: n, Head: m})
			}
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
	count := 0
	for _, t := range after {
		for _, n := range t.names(&count) {
			here[[2]string{t.Path, n.text}]++
			anywhere[n.text]++
		}
	}
	var gone []TextDelta
	var names []string
	count = 0
	for _, t := range before {
		for _, n := range t.names(&count) {
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

// A textFile is a file whose comments are blank.
type textFile struct {
	File
	lang  *textLanguage
	test  bool
	lines []int // offsets of the lines' first bytes
}

// readText returns nil for a file that nothing is known of.
func readText(f File, testSide func(string) bool) *textFile {
	t := &textFile{File: f, test: testSide(f.Path)}
	switch {
	case len(f.Content) > maxTextFile:
		return nil
	case isPython(f.Path):
		t.lang = &languages().python
	case isScript(f.Path):
		t.lang = &languages().script
	default:
		return nil
	}
	t.Content = t.lang.blank(f.Content)
	t.lines = []int{0}
	for i, b := range t.Content {
		if b == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	return t
}

// at returns the number of the line with an offset, and its text.
func (t *textFile) at(offset int) (int, string) {
	i, found := slices.BinarySearch(t.lines, offset)
	if !found {
		i--
	}
	rest := t.Content[t.lines[i]:]
	line, _, _ := strings.Cut(string(rest[:min(len(rest), maxGoLine)]), "\n")
	return i + 1, strings.TrimSpace(line)
}
