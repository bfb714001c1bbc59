package verifier

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func readTAP(t *testing.T, exit int, stream string) Reading {
	t.Helper()
	r, err := ReadTAP(strings.NewReader(stream), exit)
	if err != nil {
		t.Fatal(err)
	}
	checkReading(t, r)
	return r
}

func TestReadTAP(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, stream, want string
		exit               int
	}{
		{"plan first", "TAP version 13\n1..3\nok 1 - a\nnot ok 2 - b\nok 3 c\n", `complete, 0 unparsed
suite : fail, 3 tests
test  a: pass
test  b: fail (assertion)
test  c: pass
`, 1},
		{"plan last, no numbers, no names", "ok\nok - b\nok\n1..3 # all of them\n", `complete, 0 unparsed
suite : pass, 3 tests
test  test 1: pass
test  b: pass
test  test 3: pass
`, 0},
		{"escapes", "TAP version 14\n1..4\nok 1 - a \\# b \\\\ c \\d\nok 2 - e \\# TODO f\nok 3 - g\\\\# SKIP h\nok 4 - #5\n", `complete, 0 unparsed
suite : pass, 4 tests
test  a # b \ c \d: pass
test  e # TODO f: pass
test  g\: skip
test  #5: pass
`, 0},
		{"directives", "1..10\nok 1 - a # SKIP why\nnot ok 2 - b # todo\nok 3 - c # Todo: it works\nok 4 # skipped\nnot ok 5 - e # SKIP no\n" +
			"not ok 6 - f # TODOS\nnot ok 7 - g#TODO\nok 8 - h # time=1.5ms\nok 9 - i # time=2ms # SKIP\nnot ok 10 - # TODO\n", `complete, 0 unparsed
suite : fail, 10 tests
test  a: skip
test  b: skip
test  c: pass
test  test 4: skip
test  e: fail (assertion)
test  f # TODOS: fail (assertion)
test  g#TODO: fail (assertion)
test  h: pass
test  i: skip
test  test 10: skip
`, 1},
		{"subtests", "TAP version 14\n# Subtest: x\n    # Subtest: y\n        ok 1 - deep\n        1..1\n    ok 1 - y\n    ok 2 - z\n    1..2\nok 1 - x\nok 2 - w\n" +
			"    TAP version 14\n    1..1\n    ok 1\nok 3\n1..3\n", `complete, 0 unparsed
suite : pass, 1 tests
suite x: pass, 1 tests
suite x/y: pass, 1 tests
suite test 3: pass, 1 tests
test x/y deep: pass
test x z: pass
test  w: pass
test test 3 test 1: pass
`, 0},
		{"comments of a subtest on its own level", "1..1\n    # Subtest: x\n        # Subtest: y\n        ok 1 - a\n        1..1\n    ok 1 - y\n    1..1\nok 1 - x\n", `complete, 0 unparsed
suite : pass, 0 tests
suite x: pass, 0 tests
suite x/y: pass, 1 tests
test x/y a: pass
`, 0},
		{"a failed subtest", "    not ok 1 - a\n    ok 2 - b\n    1..2\nnot ok 1 - x\n1..1\n", `complete, 0 unparsed
suite : fail, 0 tests
suite x: fail, 2 tests
test x a: fail (assertion)
test x b: pass
`, 1},
		{"a subtest that failed alone", "    ok 1 - a\n    1..1\nnot ok 1 - x\n1..1\n", `complete, 0 unparsed
suite : fail, 0 tests
suite x: fail (error), 1 tests
test x a: pass
signal suite-failed-without-test | x
`, 1},
		{"a failure in a subtest that passed", "    ok 1\n        not ok 1 - in\n        1..1\n    not ok 2 - y\n    not ok 3 - a\n    1..3\nok 1 - x\n1..1\n", `complete, 0 unparsed
suite : pass, 0 tests
suite x: pass, 2 tests
suite x/y: fail, 1 tests
test x test 1: pass
test x/y in: fail (assertion)
test x a: fail (assertion)
signal failed-test-in-passing-suite | x | a | the result of its parent is pass
signal failed-test-in-passing-suite | x/y |  | the result of its parent is pass
signal exit-contradicts-results |  |  | exit 0; suites that did not pass: 1
`, 0},
		{"two levels at once, not announced", "        not ok 1 - a\n        1..1\n    ok 1 - y\n    1..1\nok 1 - x\n1..1\n", `complete, 2 unparsed
suite : pass, 0 tests
suite x: pass, 1 tests
test x y: pass
signal unparsed-input |  |  | 2 of them, the first: line 1: not TAP
`, 0},
		{"a subtest that is to do", "    not ok 1 - a\n      ---\n      why: not\n      ...\n    ok 2 - b\n    # Subtest\n        not ok 1 - c\n        1..1\n    not ok 3 - y\n    1..3\nnot ok 1 - x # TODO later\n1..1\n", `complete, 0 unparsed
suite : pass, 0 tests
suite x: skip, 2 tests
suite x/y: skip, 1 tests
test x a: skip
test x b: pass
test x/y c: skip
`, 0},
		{"skipped as a whole", "    1..0 # SKIP no database\nok 1 - x # SKIP no database\n    1..0\nok 2 - y\n1..2\n", `complete, 0 unparsed
suite : pass, 1 tests
suite y: no-tests, 0 tests
test  x: skip
signal no-test-ran | y
`, 0},
		{"nothing", "1..0 # SKIP not on this system\n", `complete, 0 unparsed
suite : no-tests, 0 tests
signal no-test-ran
signal zero-tests
`, 0},
		{"other lines", "building\nok, then\n1..2\nokay\nok 1 - a\n\n  # note\n     ok 7 - b\npragma +strict\n        ok 1\nnot ok2\nok 2 - b\n1..x\n", `complete, 7 unparsed
suite : pass, 2 tests
test  a: pass
test  b: pass
signal unparsed-input |  |  | 7 of them, the first: line 1: not TAP
`, 0},
		{"twice", "1..3\nok 1 - a\nok 2 - a\nnot ok 3 - a\n", `complete, 0 unparsed
suite : fail, 3 tests
test  a: pass
test  a again 1: pass
test  a again 2: fail (assertion)
signal duplicate-test |  | a
signal duplicate-test |  | a
`, 1},
		{"a number twice", "1..3\nok 1 - a\nok 1 - b\nok 3 - c\n", `complete, 0 unparsed
suite : pass, 3 tests
test  a: pass
test  b: pass
test  c: pass
signal impossible-order |  |  | line 3: test point 1, where 2 was to come
`, 0},
		{"lines that end as on Windows", "1..1\r\nnot ok 1 - a\r\n  ---\r\n  x: y\r\n  ...\r\n", `complete, 0 unparsed
suite : fail, 1 tests
test  a: fail (assertion)
`, 1},
		{"not UTF-8", "1..1\nok 1 - \xff\n", "complete, 0 unparsed\nsuite : pass, 1 tests\ntest  \ufffd: pass\n", 0},
		{"exit 0 and a failure", "1..1\nnot ok 1\n", `complete, 0 unparsed
suite : fail, 1 tests
test  test 1: fail (assertion)
signal exit-contradicts-results |  |  | exit 0; suites that did not pass: 1
`, 0},
		{"exit 1 and none", "1..1\nok 1\n", `complete, 0 unparsed
suite : pass, 1 tests
test  test 1: pass
signal exit-contradicts-results |  |  | exit 1, and no suite failed
`, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := describe(readTAP(t, test.exit, test.stream)); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}

// TestReadTAPMalformed reads streams that must never look complete.
func TestReadTAPMalformed(t *testing.T) {
	t.Parallel()
	const good = "1..1\nok 1 - a\n"
	for _, test := range []struct{ name, stream, code, detail string }{
		{"empty", "", sigReportMissing, ""},
		{"no TAP", "all 12 tests passed\n# ok 1\n", sigReportMissing, ""},
		{"a point without a plan", "ok 1 - a\n", sigSuiteUnfinished, "no plan"},
		{"a version alone", "TAP version 14\n", sigSuiteUnfinished, "no plan"},
		{"fewer points", "1..2\nok 1 - a\n", sigFewerThanDeclared, "2 tests declared, 1 seen"},
		{"fewer points, plan last", "ok 1 - a\n1..2\n", sigFewerThanDeclared, "2 tests declared, 1 seen"},
		{"a plan of too many", "1..99999999999999999999\nok 1\n", sigFewerThanDeclared, "1073741824 tests"},
		{"more points", good + "ok 2 - b\n", sigReportMalformed, "line 3: more test points than the 1 of the plan"},
		{"more points, plan last", "ok 1\nok 2\n1..1\n", sigReportMalformed, "line 3: 2 test points before a plan of 1"},
		{"points beyond none", "1..0\nok 1\n", sigReportMalformed, "line 2: more test points than the 0"},
		{"a second plan", good + "1..1\n", sigReportMalformed, "line 3: a second plan"},
		{"a plan in the middle", "ok 1\n1..2\nok 2\n", sigReportMalformed, "line 3: a plan between test points"},
		{"a number twice in a subtest", "    1..2\n    ok 1\n    ok 1\nok 1\n1..1\n", sigReportMalformed, "line 3: test point 1, where 2 was to come"},
		{"a number too high", "1..2\nok 1\nok 3\n", sigReportMalformed, "test point 3, where 2"},
		{"a number of too many digits", "1..1\nok 99999999999999999999\n", sigReportMalformed, "test point 1073741824"},
		{"a number of none", "    1..1\n    ok 0\nok 1\n1..1\n", sigReportMalformed, "test point 0, where 1"},
		{"two streams", good + good, sigReportMalformed, "line 3: a second plan"},
		{"a late version", good + "TAP version 14\n", sigReportMalformed, "not the first line"},
		{"version 12", "TAP version 12\n" + good, sigReportMalformed, `version "12"`},
		{"version 14b", "TAP version 14b\n" + good, sigReportMalformed, `version "14b"`},
		{"bailed out", "1..2\nok 1\nBail out! No database.\nok 2\n", sigSuiteUnfinished, "Bail out! No database."},
		{"bailed out at once", "BAIL OUT!\n", sigSuiteUnfinished, "Bail out!"},
		{"bailed out inside", "1..1\n    ok 1\n    Bail out!\n    1..1\nok 1\n", sigSuiteUnfinished, "Bail out!"},
		{"bailed out anywhere", good + "   Bail out!\n", sigSuiteUnfinished, "Bail out!"},
		{"a subtest without its point", good + "    ok 1\n    1..1\n", sigSuiteUnfinished, "no test point follows"},
		{"a subtest without its point, before the plan", "    ok 1\n    1..1\n1..0\n", sigSuiteUnfinished, "no test point follows"},
		{"a subtest without a plan", "    ok 1\nok 1\n1..1\n", sigSuiteUnfinished, "no plan"},
		{"a subtest with fewer points", "    1..2\n    ok 1\nok 1\n1..1\n", sigFewerThanDeclared, "2 tests declared, 1 seen"},
		{"a skipped subtest without a plan", "    TAP version 14\nok 1 # SKIP\n1..1\n", sigSuiteUnfinished, "no plan"},
		{"a skipped subtest with two plans", "    1..0\n    1..0\nok 1 # SKIP\n1..1\n", sigReportMalformed, "line 2: a second plan"},
		{"YAML without an end", good + "  ---\n  a: b\n", sigReportMalformed, "YAML without an end"},
		{"YAML over test points", "1..2\nok 1\n  ---\nnot ok 2\n  ...\n", sigReportMalformed, "line 4: YAML that ends before its end"},
		{"cut", "1..1\nok 1 - a # SK", sigReportMalformed, "line 2: the last line has no end"},
		{"too deep", deepTAP(maxTAPDepth), sigLimitExceeded, "levels"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := readTAP(t, 0, test.stream)
			if r.Complete {
				t.Error("complete")
			}
			found := false
			for _, s := range r.Signals {
				found = found || s.Code == test.code && strings.Contains(s.Detail, test.detail) && s.Disqualifies()
			}
			if !found {
				t.Errorf("signals %v", r.Signals)
			}
			if strings.HasPrefix(test.stream, good) && r.Counts().Pass == 0 {
				t.Errorf("%+v: what was seen before is lost", r.Counts())
			}
		})
	}
	if r := readTAP(t, 0, deepTAP(maxTAPDepth-1)); !r.Complete || len(r.Suites) != maxTAPDepth || r.Counts().Pass != 1 {
		t.Errorf("%d levels: %s", maxTAPDepth, describe(r))
	}
	broken := errors.New("broken")
	if r, err := ReadTAP(io.MultiReader(strings.NewReader(good), iotest.ErrReader(broken)), 0); !errors.Is(err, broken) || r.Format != "" || r.Tests != nil {
		t.Errorf("%v, %v", r, err)
	}
}

// deepTAP is a stream with a test point below so many subtests.
func deepTAP(depth int) string {
	var b strings.Builder
	for i := range depth {
		fmt.Fprintf(&b, "%s# Subtest: x\n", strings.Repeat("    ", i))
	}
	for i := depth; i >= 0; i-- {
		indent := strings.Repeat("    ", i)
		fmt.Fprintf(&b, "%sok 1 - x\n%s1..1\n", indent, indent)
	}
	return b.String()
}

func TestReadTAPDetail(t *testing.T) {
	t.Parallel()
	r := readTAP(t, 1, "1..4\nok 1 - a\n  ---\n  not: kept\n  ...\nnot ok 2 - b\n  ---\n  message: |\n    first\n\n    not ok 3\n    ...\n  ...\n    ok 1\n    1..1\nnot ok 3 - c\n  ---\n  why: alone\n  ...\n  ---\nnot ok 4 - d\n\n  ---\n")
	if d := r.Tests[1].Detail; d != "message: |\n  first\n\n  not ok 3\n  ...\n" {
		t.Errorf("detail %q", d)
	}
	if d := r.Suites[1].Detail; r.Suites[1].Name != "c" || d != "why: alone\n" {
		t.Errorf("detail %q", d)
	}
	if r.Unparsed != 2 || !r.Complete || r.Tests[3].Detail != "" {
		t.Errorf("YAML that does not follow a test point: %s", describe(r))
	}

	var b strings.Builder
	const tests = maxExcerpts/maxExcerpt + 16
	for range tests {
		b.WriteString("not ok\n  ---\n" + strings.Repeat("  "+strings.Repeat("x", 1000)+"\n", 20) + "  ...\n")
	}
	fmt.Fprintf(&b, "1..%d\n", tests)
	kept := 0
	for _, test := range readTAP(t, 1, b.String()).Tests {
		kept += len(test.Detail)
	}
	if kept > maxExcerpts+tests*len("…\n") || kept < maxExcerpts/2 {
		t.Errorf("%d bytes of excerpts", kept)
	}

	long := strings.Repeat("é", maxName)
	r = readTAP(t, 0, "    ok 1 - "+long+"\n    1..1\nok 1 - "+long+"\n1..1\n")
	if n := len(r.Tests[0].Name); n > maxName || n < maxName-8 || len(r.Suites[1].Name) > maxName || r.Signals[0].Code != sigNameCut {
		t.Errorf("%d bytes of name, %v", n, r.Signals)
	}
	r = readTAP(t, 0, "1..1\nok 1 - a\nok 2 - "+strings.Repeat("x", maxLine)+"\n")
	if !r.Complete || r.Unparsed != 1 {
		t.Errorf("a long line: %s", describe(r))
	}
}

func TestReadTAPLimits(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for range maxSignals + 40 {
		b.WriteString("ok 9999\n")
	}
	fmt.Fprintf(&b, "1..%d\n", maxSignals+40)
	r := readTAP(t, 0, b.String())
	last := r.Signals[len(r.Signals)-1]
	malformed := slices.DeleteFunc(slices.Clone(r.Signals), func(s Signal) bool { return s.Code != sigReportMalformed })
	if len(malformed) != maxSignals+1 || last.Detail != "and 40 more" {
		t.Errorf("%d signals, the last %v", len(malformed), last)
	}
	for _, test := range []struct {
		limit string
		near  func(*tapReader)
	}{
		{"bytes of names", func(r *tapReader) { r.names = [maxTAPDepth + 1]string{}; r.collector.names = maxNames - 3 }},
		{"tests", func(r *tapReader) { r.Tests = make([]Test, maxTests-1); r.inSuite = make([]int32, maxTests-1) }},
		{"suites", func(r *tapReader) { r.Suites = make([]Suite, maxSuites-1); r.suites = make([]tapSuite, maxSuites-1) }},
	} {
		r := tapReader{collector: newCollector(FormatTAP), noted: make(map[string]int)}
		test.near(&r)
		for _, line := range []string{"ok 1 - ab\n", "ok 2 - cd\n", "    ok 1\n", "    1..1\n", "ok 3 - ef\n", "1..3\n"} {
			r.line([]byte(line), false, false)
		}
		got := r.finish(0)
		if got.Complete || !slices.ContainsFunc(got.Signals, func(s Signal) bool { return s.Code == sigLimitExceeded && strings.Contains(s.Detail, test.limit) }) {
			t.Errorf("%s: complete %v, signals %v", test.limit, got.Complete, got.Signals)
		}
	}
}

// TestReadTAPNode reads what the test runner of node writes.
func TestReadTAPNode(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node")
	}
	run := func(scripts ...string) (Reading, string) {
		t.Helper()
		cmd := exec.Command(node, "--test", "--test-reporter=tap")
		cmd.Dir = t.TempDir()
		for i, script := range scripts {
			name := fmt.Sprintf("x%d.test.js", i+1)
			if err := os.WriteFile(filepath.Join(cmd.Dir, name), []byte("const { test, describe, it } = require('node:test');\n"+script), 0o666); err != nil {
				t.Fatal(err)
			}
			cmd.Args = append(cmd.Args, name)
		}
		// Inside of a test runner, node's own writes no report.
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "NODE_") })
		out, err := cmd.Output()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		if !bytes.Contains(out, []byte("# tests ")) {
			t.Skipf("this node has no reporter for TAP: %s", out)
		}
		return readTAP(t, cmd.ProcessState.ExitCode(), string(out)), string(out)
	}
	r, out := run(`
		test('a # b \\ c', () => {});
		test('skipped', { skip: 'why # not' }, () => {});
		test('to do', { todo: 'later' }, () => { throw new Error('x') });
		test('parent', async t => { await t.test('child', () => { console.log('ok 9 - printed\nBail out!\n1..7') }); });
		describe('group', () => { it('one', () => {}); describe('inner', () => { it('deep', () => {}) }) });
	`)
	want := `complete, 0 unparsed
suite : pass, 3 tests
suite parent: pass, 1 tests
suite group: pass, 1 tests
suite group/inner: pass, 1 tests
test  a # b \ c: pass
test  skipped: skip
test  to do: skip
test parent child: pass
test group one: pass
test group/inner deep: pass
`
	if got := describe(r); got != want {
		t.Errorf("got:\n%s\nwant:\n%s\nstream:\n%s", got, want, out)
	}
	r, out = run(`
		const assert = require('node:assert');
		test('compares', () => { assert.strictEqual('one\n...\nnot ok', 'two\n---\nok') });
		test('parent', async t => { await t.test('child', () => { throw new Error('y\n\nz') }); });
		test('good', () => {});
	`)
	want = `complete, 0 unparsed
suite : fail, 2 tests
suite parent: fail, 1 tests
test  compares: fail (assertion)
test parent child: fail (assertion)
test  good: pass
`
	if got := describe(r); got != want {
		t.Errorf("got:\n%s\nwant:\n%s\nstream:\n%s", got, want, out)
	}
	if d := r.Tests[0].Detail; !strings.Contains(d, "ERR_ASSERTION") {
		t.Errorf("detail %q", d)
	}
	// Files without tests are test points of their own, with numbers that some
	// versions get wrong.
	r, out = run(`test('a', () => {}); test('b', () => {});`, `console.log('ok 1 - plain')`, `test('c', () => {});`, `test('d', () => { process.exit(0) });`)
	if n := r.Counts(); !r.Complete || n.Pass != 5 || n.BadSuites > 0 || slices.ContainsFunc(r.Signals, Signal.Disqualifies) {
		t.Errorf("several files: %s\nstream:\n%s", describe(r), out)
	}
	r, out = run(`test('a', () => {}); test('b', () => {});`, `console.log('plain'); throw new Error('x')`, `test('c', () => {});`)
	if n := r.Counts(); !r.Complete || n.Pass != 3 || n.Fail != 1 || n.BadSuites != 1 || slices.ContainsFunc(r.Signals, Signal.Disqualifies) {
		t.Errorf("several files: %s\nstream:\n%s", describe(r), out)
	}
}

// TestReadTAPPerl reads what Test::More writes.
func TestReadTAPPerl(t *testing.T) {
	t.Parallel()
	perl, err := exec.LookPath("perl")
	if err != nil || exec.Command(perl, "-MTest::More", "-e", "1").Run() != nil {
		t.Skip("needs perl and Test::More")
	}
	run := func(script string) (Reading, string) {
		t.Helper()
		cmd := exec.Command(perl, "-MTest::More", "-e", script)
		out, err := cmd.Output()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		return readTAP(t, cmd.ProcessState.ExitCode(), string(out)), string(out)
	}
	r, out := run(`
		ok(1, 'a # b');
		ok(1);
		subtest 'group' => sub { plan tests => 2; ok(1, 'one'); subtest 'inner' => sub { ok(1, 'deep'); done_testing } };
		subtest 'absent' => sub { plan skip_all => 'no database' };
		SKIP: { skip 'why', 1 }
		TODO: { local $TODO = 'later'; ok(0, 'to do'); subtest 'late' => sub { ok(0, 'bad'); done_testing } }
		diag('said'); note('noted'); print "printed\n";
		done_testing;
	`)
	want := `complete, 1 unparsed
suite : pass, 5 tests
suite group: pass, 1 tests
suite group/inner: pass, 1 tests
suite late: skip, 1 tests
test  a # b: pass
test  test 2: pass
test group one: pass
test group/inner deep: pass
test  absent: skip
test  test 5: skip
test  to do: skip
test late bad: skip
signal unparsed-input |  |  | 1 of them, the first: line N: not TAP
`
	got := describe(r)
	if i := strings.Index(got, "line "); i > 0 {
		_, rest, _ := strings.Cut(got[i:], ":")
		got = got[:i] + "line N:" + rest
	}
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s\nstream:\n%s", got, want, out)
	}
	for script, code := range map[string]string{
		`plan tests => 2; ok(1)`:                                             sigFewerThanDeclared,
		`ok(1)`:                                                              sigSuiteUnfinished,
		`plan tests => 1; ok(1); ok(1, 'more')`:                              sigReportMalformed,
		`plan tests => 2; ok(1); BAIL_OUT('no more')`:                        sigSuiteUnfinished,
		`plan tests => 1; subtest x => sub { ok(1); die 'here' }`:            sigExitContradicts,
		`plan tests => 2; ok(1); exit 0`:                                     sigFewerThanDeclared,
		`plan tests => 1; $SIG{__DIE__} = 0; print "ok 1 - forged\n"; ok(1)`: sigReportMalformed,
	} {
		if r, out := run(script); !slices.ContainsFunc(r.Signals, func(s Signal) bool { return s.Code == code && s.Disqualifies() }) {
			t.Errorf("%s: want %s, got:\n%s\nstream:\n%s", script, code, describe(r), out)
		}
	}
}

// longTAP is a stream with much YAML and other output, which is not kept.
type longTAP struct {
	left, n int
	buf     bytes.Buffer
}

func (l *longTAP) Read(p []byte) (int, error) {
	if l.buf.Len() == 0 {
		if l.left < 0 {
			return 0, io.EOF
		}
		l.n++
		text := strings.Repeat("  all is well\n", 40<<10)
		fmt.Fprintf(&l.buf, "not ok %d\n  ---\n%s  ...\n%s", l.n, text, text)
		if l.left -= l.buf.Len(); l.left < 0 {
			fmt.Fprintf(&l.buf, "1..%d\n", l.n)
		}
	}
	return l.buf.Read(p)
}

// TestReadTAPMemory does not run in parallel: it measures the whole heap.
func TestReadTAPMemory(t *testing.T) {
	const size = 12 << 20
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	probe := &heapProbe{r: &longTAP{left: size}}
	r, err := ReadTAP(probe, 1)
	if err != nil {
		t.Fatal(err)
	}
	used := int64(probe.peak) - int64(before.HeapAlloc)
	t.Logf("%d tests in %d MiB of TAP: %d MiB of heap", len(r.Tests), size>>20, used>>20)
	if !r.Complete || used > size {
		t.Errorf("complete %v, %d MiB of heap", r.Complete, used>>20)
	}
}

func FuzzReadTAP(f *testing.F) {
	for _, stream := range []string{
		"TAP version 14\n1..2\nok 1 - a \\# b # SKIP c\nnot ok 2 - d # TODO e\n  ---\n  x: y\n  ...\n",
		"# Subtest: x\n    # Subtest: y\n        ok 1 - deep\n        1..1\n    not ok 1 - y\n    1..1\nok 1 - x\n1..1\n",
		"    1..0 # SKIP no\nok 1 - x # SKIP no\n    1..0\nnot ok 2 - y # TODO\n1..2\n",
		"1..1\nok 1\nBail out! why\n", "pragma +strict\nok\nnot ok\n1..2\nnoise\n", "    ok 1\n1..1\n", "1..1\r\nok 1 - x # time=5ms\r\n", deepTAP(5),
	} {
		f.Add([]byte(stream), 0)
		f.Add([]byte(stream), 1)
	}
	f.Fuzz(func(t *testing.T, stream []byte, exit int) {
		read := func(stream []byte) Reading {
			r, err := ReadTAP(bytes.NewReader(stream), exit)
			if err != nil {
				t.Fatal(err)
			}
			checkReading(t, r)
			return r
		}
		r := read(stream)
		again, err := ReadTAP(iotest.OneByteReader(bytes.NewReader(stream)), exit)
		if err != nil || describe(again) != describe(r) {
			t.Errorf("read again: %s\nfirst: %s", describe(again), describe(r))
		}
		if max := int64(bytes.Count(stream, []byte("\n")) + 1); r.Unparsed > max {
			t.Errorf("%d lines unparsed of %d", r.Unparsed, max)
		}
		if !r.Complete && exit >= 0 && !slices.ContainsFunc(r.Signals, Signal.Disqualifies) {
			t.Errorf("incomplete without a signal that says so: %s", describe(r))
		}
		if !r.Complete || len(stream) > 1<<10 {
			return
		}
		// What is left of a complete stream when it is cut is not complete, or
		// has the same tests.
		for n := range stream {
			if cut := read(stream[:n]); cut.Complete && !slices.EqualFunc(cut.Tests, r.Tests, func(a, b Test) bool {
				a.Detail, b.Detail = "", ""
				return a == b
			}) {
				t.Errorf("complete when cut: %q\n%s\nthe whole: %s", stream[:n], describe(cut), describe(r))
			}
		}
	})
}
