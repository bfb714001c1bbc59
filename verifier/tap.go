package verifier

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

const maxTAPDepth = 64 // levels of subtests, the outermost included

// ReadTAP reads a TAP stream of version 13 or 14 from the standard output of a
// run, and the exit code of the process, negative if it did not exit by itself.
// An error is r's.
//
//	TAP version 14                    optional, first
//	1..2                              the plan, before or after all test points
//	ok 1 - name                       a test point; number and name are optional
//	# Subtest: group                  optional
//	    ok 1 - inner                  a subtest: four spaces a level
//	    not ok 2 # TODO reason
//	      ---
//	      error: what went wrong      YAML, two spaces more than its test point
//	      ...
//	    1..2
//	ok 2 - group                      the test point of the subtest
//
// Indented text opens a subtest if it is a line of TAP one level below the open
// ones; further below only if a comment announced each level between. A test
// point after a subtest is that of a Suite, every other one that of a Test. A Suite is named by its test point and those around it, joined by
// slashes; the outermost has no name. A test point without a name is "test N".
// In names \# and \\ are # and \. A directive is the first # that stands
// unescaped at the start or after a space, with SKIP or TODO behind it, in any
// case. With SKIP, ok is skipped. With TODO, not ok is skipped, and so is what
// failed in the subtest that it ends. Everything else counts as it stands.
//
// An incomplete reading and a signal that disqualifies come of: no line of TAP
// at all (report-missing); no plan, "Bail out!", or a subtest without a test
// point (suite-unfinished); fewer test points than planned
// (fewer-tests-than-declared); and report-malformed: more of them, a number
// that is not the test point's place, a second plan, one between test points, a
// version that is not the first line or not known, YAML that does not end or is
// not indented, and a last line without an end, which may have been cut. After
// "Bail out!", at any indentation, nothing is read. A passing test point of a
// subtest with failures is failed-test-in-passing-suite.
//
// One fault is no more than impossible-order: a number that is too low, outside
// of subtests. The runner of Node.js 20 writes it for a file without tests,
// whose test point has the number of the file. The plan still holds.
//
// Comments, pragmas and empty lines say nothing. The format allows other lines
// between its own; they, and lines of more than 1 MiB, are counted as unparsed.
// What a test prints may therefore pass for TAP: a runner that puts it into
// comments, as node --test does, is better evidence.
//
// Memory is proportional to the number of tests, not to what they print.
func ReadTAP(r io.Reader, exit int) (Reading, error) {
	t := tapReader{collector: newCollector(FormatTAP), noted: make(map[string]int)}
	in := lineReader{in: bufio.NewReaderSize(r, 64<<10)}
	for {
		line, err := in.next()
		if err != nil && err != io.EOF {
			return Reading{}, fmt.Errorf("TAP stream: line %d: %w", t.lines+1, err)
		}
		if len(line) > 0 || in.tooLong || err == nil {
			t.lines++
			t.line(line, in.tooLong, err == io.EOF)
		}
		if err == io.EOF {
			return t.finish(exit), nil
		}
	}
}

// tapReader is the state of a TAP stream. The name of a subtest comes after its
// tests, so names of suites, and signals with them, wait for the end.
type tapReader struct {
	collector
	lines    int64
	firstBad string // why the first unparsed line was not parsed

	open   []*tapBlock
	names  [maxTAPDepth + 1]string // what a comment announced at each level
	bailed bool
	reason string // why it bailed out

	indent  int  // of YAML behind the last test point
	mayYAML bool // that test point is the last line
	inYAML  bool
	excerpt excerpt
	detail  *string // where the excerpt goes, nil if it is not kept

	suites  []tapSuite  // beside Suites
	inSuite []int32     // beside Tests
	pending []tapSignal // at most maxSignals of a code
	noted   map[string]int
}

// A tapBlock is an open sequence of test points.
type tapBlock struct {
	suite  int
	tests  int // len(Tests) at its start
	points int
	plan   int  // -1 without one
	late   bool // the plan came after test points
	failed int  // test points that failed
	begun  bool // it had a line
}

// A tapSuite is what is known of the name of a suite.
type tapSuite struct {
	parent int // -1 for the outermost
	name   string
}

// A tapSignal is a signal whose suite or test has no name yet. An index of -1
// is that of none.
type tapSignal struct {
	code        string
	suite, test int
	detail      string
}

func (t *tapReader) note(code string, suite, test int, detail string) {
	if t.noted[code]++; t.noted[code] > maxSignals {
		return
	}
	t.pending = append(t.pending, tapSignal{code, suite, test, cut(detail, maxDetail)})
}

// malformed notes a fault of the format in the block at depth.
func (t *tapReader) malformed(depth int, format string, args ...any) {
	t.Complete = false
	suite := -1
	if depth < len(t.open) {
		suite = t.open[depth].suite
	}
	t.note(sigReportMalformed, suite, -1, fmt.Sprintf("line %d: ", t.lines)+fmt.Sprintf(format, args...))
}

func (t *tapReader) unparsed(why string) {
	if t.Unparsed++; t.Unparsed == 1 {
		t.firstBad = fmt.Sprintf("line %d: %s", t.lines, why)
	}
}

// line handles one line. The last one may have been cut.
func (t *tapReader) line(line []byte, tooLong, last bool) {
	if t.bailed {
		return
	}
	if tooLong {
		t.mayYAML = false
		t.unparsed("more than 1 MiB")
		return
	}
	whole := bytes.HasSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	line = validUTF8(line)
	if t.yaml(line) {
		return
	}
	text := bytes.TrimLeft(line, " ")
	indent := len(line) - len(text)
	l, ok := parseTAP(text)
	switch {
	case len(text) == 0:
	case l.kind == tapComment:
		if indent%4 == 0 && indent/4 < maxTAPDepth && l.name != "" {
			t.names[indent/4+1] = t.cutName(l.name)
		}
	case l.kind == tapBail:
		t.bail(l.name)
	case !ok || indent%4 != 0 || !t.enter(indent/4):
		t.unparsed("not TAP")
	default:
		if last && !whole {
			t.malformed(indent/4, "the last line has no end")
		}
		t.in(indent/4, l)
	}
}

// enter makes depth the level of the innermost block, or the one around it. A
// level below it is opened; more of them at once only where comments announced
// each, since indented text is more often output than TAP.
func (t *tapReader) enter(depth int) bool {
	for at := len(t.open); at < depth; at++ {
		if at > 0 && (at >= maxTAPDepth || t.names[at] == "" && t.names[at+1] == "") {
			return false
		}
	}
	if depth >= maxTAPDepth {
		t.exceed(fmt.Sprintf("more than %d levels of subtests", maxTAPDepth))
		return false
	}
	for at := len(t.open); at <= depth; at++ {
		if !t.begin() {
			return false
		}
	}
	return true
}

// begin opens a block inside of the innermost one.
func (t *tapReader) begin() bool {
	depth := len(t.open)
	parent := -1
	if depth > 0 {
		parent = t.open[depth-1].suite
	}
	suite := t.addSuite(Suite{Outcome: Unfinished})
	if suite < 0 || !t.name(len(t.names[depth])) {
		return false
	}
	t.suites = append(t.suites, tapSuite{parent, t.names[depth]})
	t.open = append(t.open, &tapBlock{suite: suite, tests: len(t.Tests), plan: -1})
	return true
}

// in handles a line of TAP at a level.
func (t *tapReader) in(depth int, l tapLine) {
	b := t.open[depth]
	first := !b.begun
	b.begun = true
	if l.kind == tapTest {
		t.abandon(depth + 2)
		t.test(depth, l.point)
		return
	}
	t.abandon(depth + 1)
	switch l.kind {
	case tapPlan:
		switch {
		case b.plan >= 0:
			t.malformed(depth, "a second plan")
		case b.points > l.n:
			t.malformed(depth, "%d test points before a plan of %d", b.points, l.n)
		}
		if b.plan < 0 {
			b.plan, b.late = l.n, b.points > 0
		}
	case tapVersion:
		if !first {
			t.malformed(depth, "a version that is not the first line")
		} else if l.n != 13 && l.n != 14 {
			t.malformed(depth, "version %.16q", l.name)
		}
	}
}

// test handles a test point: that of the block inside, if one is open, or else
// one of a test.
func (t *tapReader) test(depth int, p tapPoint) {
	b := t.open[depth]
	b.points++
	switch {
	case b.plan >= 0 && b.points > b.plan:
		t.malformed(depth, "more test points than the %d of the plan", b.plan)
	case b.late:
		t.malformed(depth, "a plan between test points")
	}
	switch {
	case p.number < 0:
		p.number = b.points
	case p.number == b.points:
	case p.number < b.points && depth == 0:
		t.note(sigImpossibleOrder, b.suite, -1, fmt.Sprintf("line %d: test point %d, where %d was to come", t.lines, p.number, b.points))
	default:
		t.malformed(depth, "test point %d, where %d was to come", p.number, b.points)
	}
	if p.name == "" && len(t.open) > depth+1 {
		p.name = t.suites[t.open[depth+1].suite].name
	}
	if p.name == "" {
		p.name = fmt.Sprintf("test %d", p.number)
	}
	p.name = t.cutName(p.name)
	if p.outcome() == Fail {
		b.failed++
	}
	t.indent, t.mayYAML, t.detail = 4*depth+2, true, nil
	if len(t.open) > depth+1 {
		t.end(depth+1, p)
	} else {
		t.leaf(b, p)
	}
	clear(t.names[depth+1:])
}

// leaf adds the test of a test point.
func (t *tapReader) leaf(b *tapBlock, p tapPoint) {
	if !t.name(len(p.name)) {
		return
	}
	test := Test{Name: p.name, Outcome: p.outcome()}
	if test.Outcome == Fail {
		test.Kind = kindAssertion
	}
	i := t.addTest(test)
	if i < 0 {
		return
	}
	t.inSuite = append(t.inSuite, int32(b.suite))
	t.Suites[b.suite].Tests++
	if test.Outcome == Fail {
		t.detail = &t.Tests[i].Detail
	}
}

// end closes the block at depth with its test point. Blocks inside of it are
// closed.
func (t *tapReader) end(depth int, p tapPoint) {
	b, outer := t.open[depth], t.open[depth-1]
	t.open = t.open[:depth]
	if b.plan == 0 && b.points == 0 && p.directive != "" && b.suite == len(t.Suites)-1 {
		// A subtest that was skipped as a whole is a skipped test.
		t.Suites, t.suites = t.Suites[:b.suite], t.suites[:b.suite]
		for i := range t.pending {
			if t.pending[i].suite == b.suite {
				t.pending[i].suite = outer.suite
			}
		}
		t.leaf(outer, p)
		return
	}
	if !t.name(len(p.name)) {
		return
	}
	s := &t.Suites[b.suite]
	t.suites[b.suite].name = p.name
	done := t.planned(b)
	switch o := p.outcome(); {
	case o == Fail:
		s.Outcome, t.detail = Fail, &s.Detail
		if b.failed == 0 {
			s.Kind = kindError
			t.note(sigSuiteFailedAlone, b.suite, -1, "")
		}
	case !done:
	case o == Skip && !p.ok:
		s.Outcome = Skip
		t.excuse(b)
	case len(t.Tests) == b.tests:
		s.Outcome = Empty
		t.note(sigNoTestRan, b.suite, -1, "")
	default:
		s.Outcome = o
	}
	if p.ok && b.failed > 0 {
		t.contradict(b, p.outcome())
	}
}

// planned compares b with its plan.
func (t *tapReader) planned(b *tapBlock) bool {
	switch {
	case b.plan < 0:
		t.note(sigSuiteUnfinished, b.suite, -1, "no plan")
	case b.points < b.plan:
		t.note(sigFewerThanDeclared, b.suite, -1, fmt.Sprintf("%d tests declared, %d seen", b.plan, b.points))
	default:
		return true
	}
	t.Complete = false
	return false
}

// excuse makes skipped ones of the failures in b, whose test point is a TODO.
func (t *tapReader) excuse(b *tapBlock) {
	for i := b.tests; i < len(t.Tests); i++ {
		if test := &t.Tests[i]; test.Outcome == Fail {
			t.excerpts -= len(test.Detail)
			test.Outcome, test.Kind, test.Detail = Skip, "", ""
		}
	}
	for i := b.suite + 1; i < len(t.Suites); i++ {
		if s := &t.Suites[i]; s.Outcome == Fail {
			t.excerpts -= len(s.Detail)
			s.Outcome, s.Kind, s.Detail = Skip, "", ""
		}
	}
}

// contradict notes what failed directly in b, which did not fail.
func (t *tapReader) contradict(b *tapBlock, result Outcome) {
	detail := fmt.Sprintf("the result of its parent is %s", result)
	for i := b.tests; i < len(t.Tests); i++ {
		if int(t.inSuite[i]) == b.suite && t.Tests[i].Outcome == Fail {
			t.note(sigFailedInPassing, b.suite, i, detail)
		}
	}
	for i := b.suite + 1; i < len(t.Suites); i++ {
		if t.suites[i].parent == b.suite && t.Suites[i].Outcome == Fail {
			t.note(sigFailedInPassing, i, -1, detail)
		}
	}
}

// abandon closes the blocks at depth and below, which have no test point.
func (t *tapReader) abandon(depth int) {
	for len(t.open) > depth {
		b := t.open[len(t.open)-1]
		t.open = t.open[:len(t.open)-1]
		t.Complete = false
		t.note(sigSuiteUnfinished, b.suite, -1, "no test point follows the subtest")
	}
}

func (t *tapReader) bail(reason string) {
	t.bailed, t.reason = true, cut("Bail out! "+reason, maxDetail)
	t.enter(0)
}

func (t *tapReader) finish(exit int) Reading {
	if t.inYAML {
		t.endYAML()
		t.malformed(t.indent/4, "YAML without an end")
	}
	t.abandon(1)
	if len(t.open) == 0 {
		t.Complete = false
		t.signal(sigReportMissing, "", "", "no line of TAP")
	} else {
		t.endRoot(t.open[0])
	}
	t.label()
	if t.Unparsed > 0 {
		t.signal(sigUnparsed, "", "", fmt.Sprintf("%d of them, the first: %s", t.Unparsed, t.firstBad))
	}
	return t.collector.finish(exit)
}

// endRoot closes the outermost block.
func (t *tapReader) endRoot(b *tapBlock) {
	s := &t.Suites[b.suite]
	switch {
	case t.bailed:
		t.Complete = false
		s.Kind, s.Detail = kindError, t.reason
		t.note(sigSuiteUnfinished, b.suite, -1, t.reason)
	case !t.planned(b):
	case b.failed > 0:
		s.Outcome = Fail
	case len(t.Tests) == 0:
		s.Outcome = Empty
		t.note(sigNoTestRan, b.suite, -1, "")
	default:
		s.Outcome = Pass
	}
}

// label gives suites, tests and signals their names.
func (t *tapReader) label() {
	for i, s := range t.suites {
		path := s.name
		if s.parent > 0 {
			path = t.cutName(t.Suites[s.parent].Name + "/" + path)
		}
		if t.name(len(path)) {
			t.Suites[i].Name = path
		}
	}
	for _, s := range t.pending {
		var suite, test string
		if s.suite >= 0 {
			suite = t.Suites[s.suite].Name
		}
		if s.test >= 0 {
			test = t.Tests[s.test].Name
		}
		t.signal(s.code, suite, test, s.detail)
	}
	for code, n := range t.noted {
		t.signals[code] += max(n-maxSignals, 0)
	}
	ordinals := make(map[testKey]int)
	for i := range t.Tests {
		test := &t.Tests[i]
		test.Suite = t.Suites[t.inSuite[i]].Name
		key := testKey{test.Suite, test.Name}
		test.Ordinal = ordinals[key]
		if ordinals[key]++; test.Ordinal > 0 {
			t.signal(sigDuplicateTest, test.Suite, test.Name, "")
		}
	}
}

// yaml handles a line that belongs to a block of YAML.
func (t *tapReader) yaml(line []byte) bool {
	may := t.mayYAML
	t.mayYAML = false
	text := bytes.TrimLeft(line, " ")
	spaces := len(line) - len(text)
	if !t.inYAML {
		if may && spaces == t.indent && bytes.Equal(bytes.TrimRight(text, " \t"), []byte("---")) {
			t.inYAML = true
		}
		return t.inYAML
	}
	switch {
	case len(text) == 0:
	case spaces < t.indent:
		t.endYAML()
		t.malformed(t.indent/4, "YAML that ends before its end")
		return false
	case spaces == t.indent && bytes.Equal(bytes.TrimRight(text, " \t"), []byte("...")):
		t.endYAML()
		return true
	}
	if t.detail != nil {
		t.keep(&t.excerpt, line[min(t.indent, len(line)):])
		t.keep(&t.excerpt, []byte("\n"))
	}
	return true
}

func (t *tapReader) endYAML() {
	t.inYAML = false
	if t.detail != nil {
		*t.detail = t.take(&t.excerpt, "")
		t.detail = nil
	}
}
