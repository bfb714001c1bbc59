package verifier

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A JUnitFile is one report file.
type JUnitFile struct {
	Name string
	Body io.Reader
}

// ReadJUnit reads the JUnit XML reports of one run, and the exit code of the
// process, negative if it did not exit by itself. An error is that of a Body.
//
// There is no standard; what tools write is read as follows. The root element
// is testsuites or testsuite, and suites nest. A test is a testcase element,
// anywhere below. It failed if it has a failure, error, rerunFailure or
// rerunError element, an attribute failure or error, or an attribute status or
// result that says so; else it was skipped if it has a skipped element or such
// an attribute, or was not run or disabled; else it passed. So of several
// results the worst counts. A flakyFailure or flakyError is a signal only.
//
// Totals are claims: they are compared with what was counted, and count for
// nothing but this: a suite without a failed test that declares failures has
// failed. So has one with a failure or error element of its own.
//
// A report that is not well-formed, has a document type declaration or goes
// beyond a limit makes the reading incomplete; what was counted before stays.
// It must be in UTF-8, US-ASCII or ISO 8859-1. The limits are 256 MiB, 64
// levels, and 8 MiB of text without an element.
func ReadJUnit(files []JUnitFile, exit int) (Reading, error) {
	j := junitReader{collector: newCollector(FormatJUnit), ordinals: make(map[testKey]int)}
	if len(files) == 0 {
		j.Complete = false
		j.signal(sigReportMissing, "", "", "")
	}
	for _, f := range files {
		name := ""
		if len(files) > 1 {
			name = f.Name
		}
		if err := j.read(f.Body, name); err != nil {
			return Reading{}, fmt.Errorf("report %s: %w", f.Name, err)
		}
	}
	return j.finish(exit), nil
}

type testKey struct{ suite, name string }

// junitReader reads one report after the other.
type junitReader struct {
	collector
	ordinals map[testKey]int // how often a test was seen
	open     []junitElement  // of the current report
}

// A junitElement is an open element. One that is neither a suite, nor a test,
// nor a result has none of the three.
type junitElement struct {
	suite  *junitSuite
	test   *junitTest
	result *junitTest // the test of which this element is a result
}

// junitSuite is an open testsuite or testsuites element.
type junitSuite struct {
	path          string
	index         int // of its Suite, -1 if it has none
	root          bool
	declared      junitTotals
	direct, total junitTotals // without and with the suites inside
	own           string      // why it failed, but for its tests
}

// junitTest is an open testcase element.
type junitTest struct {
	index   int
	outcome Outcome
	kind    string
	detail  strings.Builder
	flaky   bool
}

// junitTotals are numbers of tests and failures. A number that is not declared
// is -1.
type junitTotals struct {
	tests, failed int
	results       int // failure and error elements: some tools count these
}

func (t *junitTotals) add(u junitTotals) {
	t.tests += u.tests
	t.failed += u.failed
	t.results += u.results
}

// read reads one report. Its name begins the path of the suites.
func (j *junitReader) read(r io.Reader, name string) error {
	j.open = j.open[:0]
	err := j.tokens(r, name)
	var bad *malformedError
	var limit *limitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limit):
		j.exceed(limit.why)
	case errors.Is(err, errNotJUnit):
		j.Complete = false
		j.Unparsed++
		j.signal(sigReportNotJUnit, name, "", err.Error())
	case errors.As(err, &bad):
		j.Complete = false
		j.Unparsed++
		j.signal(sigReportMalformed, name, "", bad.why)
	default:
		return err
	}
	j.abandon()
	return nil
}

var errNotJUnit = errors.New("the root element is not testsuites or testsuite")

func (j *junitReader) tokens(r io.Reader, name string) error {
	in, err := newXMLTokens(r)
	if err != nil {
		return err
	}
	for {
		tok, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if len(j.open) == 0 && tok.Name.Local != "testsuites" && tok.Name.Local != "testsuite" {
				return errNotJUnit
			}
			if err := j.start(tok, name); err != nil {
				return err
			}
		case xml.EndElement:
			j.end()
		case xml.CharData:
			if len(j.open) > 0 {
				if test := j.open[len(j.open)-1].result; test != nil {
					// What is beyond the bound shows that something is left out.
					j.note(test, string(tok[:min(len(tok), maxExcerpt+utf8.UTFMax)]))
				}
			}
		}
	}
}

// suite returns the innermost open suite.
func (j *junitReader) suite() *junitSuite {
	for i := len(j.open) - 1; i >= 0; i-- {
		if s := j.open[i].suite; s != nil {
			return s
		}
	}
	return nil
}

// start handles the start of an element.
func (j *junitReader) start(e xml.StartElement, report string) error {
	var parent, this junitElement
	if len(j.open) > 0 {
		parent = j.open[len(j.open)-1]
	}
	switch name := e.Name.Local; name {
	case "testsuites", "testsuite":
		s := &junitSuite{index: -1, root: name == "testsuites", declared: declared(e)}
		if outer := j.suite(); outer != nil {
			s.path = outer.path
		} else {
			s.path = report
		}
		if own := attribute(e, "name"); own != "" && !s.root {
			s.path = j.cutName(strings.TrimPrefix(s.path+"/"+own, "/"))
		}
		if !s.root {
			if err := j.enlist(s); err != nil {
				return err
			}
		}
		this.suite = s
	case "testcase":
		test, err := j.testcase(e)
		if err != nil {
			return err
		}
		this.test = test
	case "failure", "error", "rerunFailure", "rerunError", "flakyFailure", "flakyError", "skipped":
		if parent.test != nil {
			this.result = j.result(parent.test, e)
		} else if parent.suite != nil && (name == "failure" || name == "error") {
			parent.suite.own = fmt.Sprintf("%s of the suite itself: %s", name, attribute(e, "message"))
		}
	}
	j.open = append(j.open, this)
	return nil
}

// enlist gives s a Suite.
func (j *junitReader) enlist(s *junitSuite) error {
	if !j.name(len(s.path)) {
		return &limitError{j.limit}
	}
	if s.index = j.addSuite(Suite{Name: s.path, Outcome: Unfinished}); s.index < 0 {
		return &limitError{j.limit}
	}
	return nil
}

// testcase handles the start of a testcase element.
func (j *junitReader) testcase(e xml.StartElement) (*junitTest, error) {
	s := j.suite()
	if s.index < 0 { // directly below testsuites
		if err := j.enlist(s); err != nil {
			return nil, err
		}
	}
	name := attribute(e, "name")
	if class := attribute(e, "classname"); class != "" {
		name = class + "." + name
	}
	name = j.cutName(name)
	if !j.name(len(name)) {
		return nil, &limitError{j.limit}
	}
	key := testKey{s.path, name}
	test := &junitTest{outcome: Pass}
	test.index = j.addTest(Test{Suite: s.path, Name: name, Ordinal: j.ordinals[key], Outcome: Unfinished})
	if test.index < 0 {
		return nil, &limitError{j.limit}
	}
	if j.ordinals[key]++; j.ordinals[key] > 1 {
		j.signal(sigDuplicateTest, s.path, name, "")
	}
	j.Suites[s.index].Tests++
	s.direct.tests++
	for _, a := range e.Attr {
		switch a.Name.Local {
		case "failure", "error":
			j.failed(test, a.Name.Local, a.Value)
		case "status", "result":
			switch strings.ToLower(a.Value) {
			case "notrun", "disabled", "skipped", "suppressed", "ignored", "pending", "inconclusive":
				test.outcome = worst(test.outcome, Skip)
			case "fail", "failed", "failure", "error", "errored", "timeout":
				j.failed(test, "failure", "")
			}
		}
	}
	return test, nil
}

// result handles the start of a result element of test, and returns test if the
// element's text says why it failed.
func (j *junitReader) result(test *junitTest, e xml.StartElement) *junitTest {
	switch e.Name.Local {
	case "skipped":
		test.outcome = worst(test.outcome, Skip)
		return nil
	case "flakyFailure", "flakyError":
		test.flaky = true
		return nil
	}
	kind := "failure"
	if strings.HasSuffix(strings.ToLower(e.Name.Local), "error") {
		kind = "error"
	}
	why := attribute(e, "type")
	if message := attribute(e, "message"); message != "" {
		why = strings.TrimPrefix(why+": "+message, ": ")
	}
	j.failed(test, kind, why)
	if why != "" {
		j.note(test, "\n")
	}
	j.suite().direct.results++
	return test
}

func (j *junitReader) failed(test *junitTest, kind, why string) {
	test.outcome = Fail
	switch {
	case kind == "error":
		test.kind = kindError
	case test.kind == "":
		test.kind = kindAssertion
	}
	j.note(test, why)
}

// note adds to the detail of a failed test, within the bounds.
func (j *junitReader) note(test *junitTest, text string) {
	text = cut(text, maxExcerpt-test.detail.Len())
	if j.excerpts+len(text) > maxExcerpts {
		return
	}
	j.excerpts += len(text)
	test.detail.WriteString(text)
}

// end handles the end of an element.
func (j *junitReader) end() {
	e := j.open[len(j.open)-1]
	j.open = j.open[:len(j.open)-1]
	switch {
	case e.test != nil:
		j.endTest(e.test)
	case e.suite != nil:
		j.endSuite(e.suite)
	}
}

func (j *junitReader) endTest(t *junitTest) {
	test := &j.Tests[t.index]
	test.Outcome = t.outcome
	if t.outcome == Fail {
		test.Kind, test.Detail = t.kind, strings.TrimSpace(t.detail.String())
		j.suite().direct.failed++
	}
	if t.flaky {
		j.signal(sigFlaky, test.Suite, test.Name, "")
	}
}

func (j *junitReader) endSuite(s *junitSuite) {
	s.total.add(s.direct)
	if outer := j.suite(); outer != nil {
		outer.total.add(s.total)
	}
	if s.own == "" && s.declared.failed > 0 && s.total.failed == 0 {
		s.own = fmt.Sprintf("it declares %d failures, and has no failed test", s.declared.failed)
	}
	j.compare(s)
	if s.index < 0 && s.own != "" {
		if j.enlist(s) != nil {
			return // the limit is noted
		}
	}
	if s.index < 0 {
		return
	}
	suite := &j.Suites[s.index]
	switch {
	case s.own != "":
		suite.Outcome, suite.Kind, suite.Detail = Fail, kindError, cut(s.own, maxDetail)
		j.signal(sigSuiteFailedAlone, s.path, "", s.own)
	case s.direct.failed > 0:
		suite.Outcome = Fail
	case s.total.tests == 0:
		suite.Outcome = Empty
		j.signal(sigNoTestRan, s.path, "", "")
	default:
		suite.Outcome = Pass
	}
}

// compare compares the declared totals with the counted ones. Some tools count
// the tests of inner suites, some do not; some count results, some tests. The
// totals of a testsuites element mean too many things to disqualify a report.
func (j *junitReader) compare(s *junitSuite) {
	if n := s.declared.tests; n >= 0 && n != s.direct.tests && n != s.total.tests {
		code := sigTotals
		if n > s.total.tests && !s.root {
			code = sigFewerThanDeclared
		}
		j.signal(code, s.path, "", fmt.Sprintf("%d tests declared, %d seen", n, s.total.tests))
	}
	n := s.declared.failed
	if n >= 0 && n != s.direct.failed && n != s.total.failed && n != s.direct.results && n != s.total.results {
		j.signal(sigTotals, s.path, "", fmt.Sprintf("%d failures declared, %d seen", n, s.total.failed))
	}
}

// abandon ends what a report that ended early left open.
func (j *junitReader) abandon() {
	for len(j.open) > 0 {
		e := j.open[len(j.open)-1]
		j.open = j.open[:len(j.open)-1]
		if e.test != nil {
			test := &j.Tests[e.test.index]
			j.signal(sigTestUnfinished, test.Suite, test.Name, "")
		}
		if e.suite != nil && e.suite.index >= 0 {
			j.signal(sigSuiteUnfinished, e.suite.path, "", "")
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

// declared returns the totals that a suite declares.
func declared(e xml.StartElement) junitTotals {
	t := junitTotals{tests: -1, failed: -1}
	if n, ok := count(e, "tests"); ok {
		t.tests = n
	}
	failures, hasFailures := count(e, "failures")
	errors, hasErrors := count(e, "errors")
	if hasFailures || hasErrors {
		t.failed = failures + errors
	}
	return t
}

func count(e xml.StartElement, name string) (int, bool) {
	n, err := strconv.ParseUint(attribute(e, name), 10, 31)
	return int(n), err == nil
}
