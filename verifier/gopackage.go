package verifier

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
)

// goPackage is the state of one package of a go test stream.
type goPackage struct {
	stream *goStream
	name   string
	suite  int
	tests  map[string]int  // index of the latest occurrence of a name
	live   map[int]*goTest // tests that have not ended
	last   *goTest         // that of the previous event, if it is live
	ended  bool

	running int     // top-level tests that run and are not paused
	current *goTest // the last of them to start or go on, if it still runs
	bad     []int   // tests that did not pass
	result  string  // the test that the last result was about

	goOutput            // what was printed outside of tests
	binaryPassed bool   // the test binary said PASS
	binaryRan    bool   // go test said ok
	noTests      bool   // go test said that there was nothing to run
	noFiles      bool   // go test said that there are no test files
	unbuilt      string // the kind, if go test said that it could not build

	reportLines int // in the output of tests
	reportLine  string
}

// output handles what was printed outside of tests: by the test binary, or by
// the go command about it, which may follow what the binary printed without a
// line's end.
func (p *goPackage) output(text []byte) {
	line := string(text)
	if _, took, ok := strings.Cut(line, "ok  \t"+p.name+"\t"); ok {
		p.binaryRan = true
		p.noTests = strings.HasSuffix(took, " [no tests to run]\n")
		if strings.HasPrefix(took, "(cached)") {
			p.stream.Suites[p.suite].Cached = true
		}
	}
	switch {
	case line == "PASS\n":
		p.binaryPassed = true
	case strings.HasPrefix(line, "\t"+p.name+"\t\t"):
		p.noFiles = true // with -cover, a package without test files passes
	case strings.HasSuffix(line, "FAIL\t"+p.name+" [build failed]\n"):
		p.unbuilt = kindBuild
	case strings.HasSuffix(line, "FAIL\t"+p.name+" [setup failed]\n"):
		p.unbuilt = kindSetup
	}
	p.print(p.stream, text)
}

// end handles the result of the package.
func (p *goPackage) end(result Outcome, failedBuild []byte) {
	g, s := p.stream, &p.stream.Suites[p.suite]
	p.ended = true
	p.close()
	s.Outcome = result
	switch result {
	case Pass:
		p.pass(s)
	case Fail:
		p.fail(s, failedBuild)
	case Skip:
		s.Outcome = Empty
		if s.Tests > 0 || p.binaryRan {
			g.signal(sigImpossibleOrder, p.name, "", "a package without test files, and a test binary that ran")
		}
		g.signal(sigNoTestFiles, p.name, "", "")
	}
	for _, i := range p.bad {
		p.contradiction(i, result)
	}
	p.bad = nil
	g.drop(&p.excerpt)
}

// contradiction looks at a test that did not pass in the light of what it is a
// part of. A failed subtest of a failed test is none.
func (p *goPackage) contradiction(i int, result Outcome) {
	g := p.stream
	if g.Tests[i].Outcome != Fail {
		return // unfinished, and signalled as that
	}
	name := g.Tests[i].Name
	if root, ok := p.tests[rootName(name)]; ok && root != i {
		if o := g.Tests[root].Outcome; o == Pass || o == Skip {
			g.signal(sigFailedInPassing, p.name, name, fmt.Sprintf("the result of its parent is %s", o))
		}
		return
	}
	if result != Fail {
		g.signal(sigFailedInPassing, p.name, name, fmt.Sprintf("the result of its package is %s", result))
	}
}

func (p *goPackage) pass(s *Suite) {
	g := p.stream
	if p.noFiles && !p.binaryRan && s.Tests == 0 {
		s.Outcome = Empty
		g.signal(sigNoTestFiles, p.name, "", "")
		return
	}
	if !p.binaryPassed {
		g.signal(sigPassNoSummary, p.name, "", "")
	}
	if s.Cached {
		g.signal(sigCached, p.name, "", "")
	}
	if s.Tests > 0 {
		return
	}
	s.Outcome = Empty
	if p.noTests {
		g.signal(sigNoTestsToRun, p.name, "", "")
	} else {
		g.signal(sigNoTestRan, p.name, "", "")
	}
}

func (p *goPackage) fail(s *Suite, failedBuild []byte) {
	g := p.stream
	if len(failedBuild) > 0 {
		if p.unbuilt == "" {
			p.unbuilt = kindBuild
		}
		if b := g.builds[string(failedBuild)]; b != nil {
			if !b.claimed {
				b.claimed, b.detail = true, g.take(&b.excerpt, "")
			}
			s.Detail = b.detail
			if p.unbuilt == kindBuild {
				p.unbuilt = b.kind // go test calls a vet failure a failed build
			}
		}
	}
	if p.unbuilt != "" {
		s.Outcome, s.Kind = BuildFailed, p.unbuilt
		if s.Kind == kindVet {
			g.signal(sigVetFailed, p.name, "", "")
		}
		return
	}
	s.Kind = p.kind()
	if s.Kind == "" && len(p.bad) == 0 {
		s.Kind = kindExit
	}
	if len(p.bad) == 0 {
		g.signal(sigSuiteFailedAlone, p.name, "", s.Kind)
	}
	if s.Kind != "" {
		g.signalKind(s.Kind, p.name, "")
		s.Detail = g.take(&p.excerpt, p.headline)
	}
}

// abandon ends a package to which the stream gave no result.
func (p *goPackage) abandon() {
	g, s := p.stream, &p.stream.Suites[p.suite]
	g.Complete = false
	p.close()
	s.Outcome, s.Kind = Unfinished, p.kind()
	s.Detail = g.take(&p.excerpt, p.headline)
	detail := ""
	if p.result != "" {
		detail = "the last result in it is that of test " + p.result
	}
	g.signal(sigSuiteUnfinished, p.name, "", detail)
}

// close ends the tests to which the stream gave no result, in the order of
// their start.
func (p *goPackage) close() {
	g := p.stream
	var open []int
	for i := range p.live {
		open = append(open, i)
	}
	sort.Ints(open)
	for _, i := range open {
		p.unfinished(p.live[i])
	}
	if p.reportLines > 0 {
		g.signal(sigReportLine, p.name, "", fmt.Sprintf("%d of them, the first: %s", p.reportLines, p.reportLine))
	}
}

// run handles the start of a test. Package testing starts one top-level test
// after the other: none while another one runs that is not paused.
func (p *goPackage) run(name []byte, running *goTest) {
	if isBenchmark(name) {
		return
	}
	g := p.stream
	if running != nil {
		g.signal(sigImpossibleOrder, p.name, running.name, "it starts again before its end")
		p.unfinished(running)
	}
	t := p.start(name)
	if t == nil {
		return
	}
	if top, _, sub := strings.Cut(t.name, "/"); sub {
		if i, known := p.tests[top]; known {
			if t.root = p.live[i]; t.root == nil {
				g.signal(sigImpossibleOrder, p.name, t.name, "its parent is not running")
				t.paused = true // it does not count as a running top-level test
			} else {
				t.root.silent = nil
			}
			return
		}
	}
	if p.running > 0 {
		detail := "it starts while another top-level test is running"
		if p.current != nil {
			detail = fmt.Sprintf("it starts while %s is running", p.current.name)
		}
		g.signal(sigImpossibleOrder, p.name, t.name, detail)
	}
	p.running++
	p.current = t
}

// start makes a test of the next occurrence of name.
func (p *goPackage) start(name []byte) *goTest {
	g := p.stream
	test := Test{Suite: p.name, Outcome: Unfinished}
	if earlier, ok := p.tests[string(name)]; ok {
		test.Name, test.Ordinal = g.Tests[earlier].Name, g.Tests[earlier].Ordinal+1
		g.signal(sigDuplicateTest, p.name, test.Name, "")
	} else if g.name(len(name)) {
		test.Name = string(name)
	} else {
		return nil
	}
	i := g.addTest(test)
	if i < 0 {
		return nil
	}
	g.Suites[p.suite].Tests++
	t := &goTest{index: i, name: test.Name}
	p.tests[t.name] = i
	p.live[i], p.last = t, t
	return t
}

func (p *goPackage) pause(t *goTest) {
	if t != nil && t.root == nil && !t.paused {
		t.paused = true
		p.running--
		if p.current == t {
			p.current = nil
		}
	}
}

// cont handles the end of a pause. Go before 1.20 also used it to say whose
// output follows.
func (p *goPackage) cont(t *goTest) {
	if t != nil && t.root == nil && t.paused {
		t.paused = false
		p.running++
		p.current = t
	}
}

// finish handles the result of a running test.
func (p *goPackage) finish(t *goTest, result Outcome) {
	g, test := p.stream, &p.stream.Tests[t.index]
	p.stop(t)
	test.Outcome = result
	if t.report != result {
		g.signal(sigResultNoReport, p.name, t.name, fmt.Sprintf("%s, and its last report line is %q", result, t.report))
		if result != Fail {
			test.Outcome = Unfinished
		}
	}
	if test.Outcome != Fail && test.Outcome != Unfinished {
		g.drop(&t.excerpt)
		return
	}
	silent := len(t.excerpt.text) == 0 && !t.excerpt.cut
	test.Kind = t.kind()
	if test.Kind == "" && test.Outcome == Fail {
		test.Kind = kindAssertion
	}
	test.Detail = g.take(&t.excerpt, t.headline)
	g.signalKind(test.Kind, p.name, t.name)
	p.bad = append(p.bad, t.index)
	// A panic in a subtest is reported by its ancestors, outermost last, and
	// printed after that. Failures without a word just before belong to it.
	switch {
	case t.root == nil && test.Kind == kindPanic:
		for _, i := range t.silent {
			g.Tests[i].Kind = kindPanic
		}
	case t.root != nil && silent:
		t.root.silent = append(t.root.silent, t.index)
	case t.root != nil:
		t.root.silent = nil
	}
}

// unfinished ends a running test without a result.
func (p *goPackage) unfinished(t *goTest) {
	g, test := p.stream, &p.stream.Tests[t.index]
	p.stop(t)
	test.Outcome, test.Kind = Unfinished, t.kind()
	test.Detail = g.take(&t.excerpt, t.headline)
	g.signal(sigTestUnfinished, p.name, t.name, test.Kind)
	g.signalKind(test.Kind, p.name, t.name)
	p.bad = append(p.bad, t.index)
}

func (p *goPackage) stop(t *goTest) {
	delete(p.live, t.index)
	if t.root == nil && !t.paused {
		p.running--
	}
	if p.last == t {
		p.last = nil
	}
	if p.current == t {
		p.current = nil
	}
}

// stray handles a result of a test that is not running.
func (p *goPackage) stray(name []byte, result Outcome) {
	g := p.stream
	if isBenchmark(name) {
		if result == Fail {
			if t := p.start(name); t != nil {
				t.report, t.paused = result, true
				p.finish(t, result)
			}
		}
		return
	}
	if i, ok := p.tests[string(name)]; ok {
		g.signal(sigImpossibleOrder, p.name, g.Tests[i].Name, fmt.Sprintf("a second result, %s", result))
		if g.Tests[i].Outcome = worst(g.Tests[i].Outcome, result); g.Tests[i].Outcome != Pass {
			p.bad = append(p.bad, i)
		}
		return
	}
	if t := p.start(name); t != nil {
		g.signal(sigImpossibleOrder, p.name, t.name, fmt.Sprintf("a result, %s, without a start", result))
		t.report, t.paused = result, true
		p.finish(t, result)
	}
}

// event handles an event of a test.
func (p *goPackage) event(e goEvent) {
	t := p.last
	if t == nil || t.name != string(e.test) {
		t = nil
		if i, ok := p.tests[string(e.test)]; ok {
			t = p.live[i]
		}
	}
	switch string(e.action) {
	case "run":
		p.run(e.test, t)
	case "pause":
		p.pause(t)
	case "cont":
		p.cont(t)
	case "output":
		// Benchmarks have no state, and a test that has ended may have left a
		// goroutine behind that prints.
		if t != nil {
			p.last = t
			p.testOutput(t, e.output)
		}
	case "pass", "fail", "skip":
		p.result = string(e.test)
		if t != nil {
			p.finish(t, Outcome(e.action))
		} else {
			p.stray(e.test, Outcome(e.action))
		}
	}
}

// rootName returns the part of a test's name that is the name of its function.
func rootName(name string) string {
	root, _, _ := strings.Cut(name, "/")
	return root
}

func isBenchmark(name []byte) bool { return bytes.HasPrefix(name, []byte("Benchmark")) }
