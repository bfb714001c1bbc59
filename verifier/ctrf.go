package verifier

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ReadCTRF reads the reports of one run in the Common Test Report Format, and
// the exit code of the process, negative if it did not exit by itself. An error
// is that of a Body. Of a report this is read:
//
//	{"reportFormat": "CTRF",                        optional
//	 "results": {
//	  "summary": {"tests": 1, "passed": 1, "failed": 0, "skipped": 0, "pending": 0, "other": 0},
//	  "tests": [{
//	    "name": "adds", "status": "passed",         required
//	    "suite": "math" or ["math", "sums"],        else "filePath", else none
//	    "rawStatus": "ok", "message": "", "trace": "",
//	    "flaky": false, "retries": 0, "retryAttempts": [{"status": "failed"}]
//	  }]}}
//
// A Suite is named by the report, if there are several, and by the suite,
// joined by slashes. The status passed is a pass; failed is a failure; skipped
// and pending are skips; and other is Unfinished, with test-unfinished, since
// nothing says that the test passed. A test that passed is flaky-test if it says
// so, was tried again, or failed in an attempt.
//
// The summary is a claim. If it has more tests than there are, that is
// fewer-tests-than-declared; other differences, in numbers that are there, are
// totals-mismatch. If it has failures and no test failed, the report is a suite
// that has failed.
//
// A report that is not JSON in UTF-8, or in which a member above has another
// type, occurs twice or is written in another case, or results, summary, its
// tests, tests, name or status is missing, is report-malformed: the reading is
// not complete, and the tests before the fault stay. So it is beyond a limit:
// 256 MiB, and 64 levels. Other members are skipped, and null is the same as
// absent for what is not required.
func ReadCTRF(reports []JUnitFile, exit int) (Reading, error) {
	c := ctrfReader{collector: newCollector(FormatCTRF), ordinals: make(map[testKey]int)}
	if len(reports) == 0 {
		c.Complete = false
		c.signal(sigReportMissing, "", "", "")
	}
	for _, f := range reports {
		c.report = ""
		if len(reports) > 1 {
			c.report = c.cutName(f.Name)
		}
		if err := c.read(f); err != nil {
			return Reading{}, fmt.Errorf("report %s: %w", f.Name, err)
		}
	}
	return c.finish(exit), nil
}

// ctrfReader reads one report after the other.
type ctrfReader struct {
	collector
	ordinals map[testKey]int

	// Of the current report:
	report   string         // its name, if there are several
	suites   map[string]int // their indexes by path
	seen     map[string]int // tests by status
	in       *jsonStream
	declared map[string]int // what the summary says; nil without one
	listed   bool           // it has a list of tests
}

// A ctrfTest is what one item of the list of tests says.
type ctrfTest struct {
	name, suite, file, status, raw string
	message, trace                 string
	named                          bool
	flaky, failed                  bool
	retries                        int
}

// read reads one report.
func (c *ctrfReader) read(f JUnitFile) error {
	c.suites, c.seen, c.declared, c.listed = make(map[string]int), make(map[string]int), nil, false
	in, err := newJSONStream(f.Body)
	if err == nil {
		c.in = in
		err = c.document()
	}
	var bad *malformedError
	var limit *limitError
	switch {
	case err == nil:
		c.end()
		return nil
	case errors.As(err, &limit):
		c.exceed(limit.why)
	case errors.As(err, &bad):
		c.Complete = false
		c.Unparsed++
		c.signal(sigReportMalformed, c.report, "", bad.why)
	default:
		return err
	}
	// There may have been more of each suite.
	for _, i := range c.suites {
		if c.Suites[i].Outcome != Fail {
			c.Suites[i].Outcome = Unfinished
		}
	}
	return nil
}

func (c *ctrfReader) document() error {
	in, found := c.in, false
	err := in.object("the report", []string{"reportFormat", "results"}, func(name string) error {
		if name == "reportFormat" {
			if format, err := c.optional(name, 64); err != nil || format == "CTRF" {
				return err
			}
			return malformed("reportFormat is not CTRF")
		}
		found = true
		return in.object("results", []string{"summary", "tests"}, func(name string) error {
			if name == "summary" {
				return c.summary()
			}
			c.listed = true
			return in.list("results.tests", c.item)
		})
	})
	switch {
	case err != nil:
		return err
	case !found:
		return malformed("no results")
	case !c.listed:
		return malformed("no results.tests")
	case c.declared == nil:
		return malformed("no results.summary")
	}
	if _, ok := c.declared["tests"]; !ok {
		return malformed("no results.summary.tests")
	}
	return in.end()
}

// null reads null if it comes next.
func (c *ctrfReader) null() (bool, error) {
	first, err := c.in.peek()
	if err != nil || first != 'n' {
		return false, err
	}
	_, err = c.in.word()
	return true, err
}

// optional reads a string called what, or null.
func (c *ctrfReader) optional(what string, keep int) (string, error) {
	if null, err := c.null(); null || err != nil {
		return "", err
	}
	text, _, err := c.in.str(what, keep)
	return text, err
}

// number reads a number of things, or null.
func (c *ctrfReader) number(what string) (n int, ok bool, err error) {
	if null, err := c.null(); null || err != nil {
		return 0, false, err
	}
	word, err := c.in.word()
	if err != nil {
		return 0, false, err
	}
	u, err := strconv.ParseUint(word, 10, 31)
	if err != nil {
		return 0, false, malformed("%s is not a whole number below 2^31", what)
	}
	return int(u), true, nil
}

var ctrfTotals = []string{"tests", "passed", "failed", "skipped", "pending", "other"}

func (c *ctrfReader) summary() error {
	c.declared = make(map[string]int)
	return c.in.object("results.summary", ctrfTotals, func(name string) error {
		n, ok, err := c.number("results.summary." + name)
		if ok {
			c.declared[name] = n
		}
		return err
	})
}

// item reads one test.
func (c *ctrfReader) item() error {
	var t ctrfTest
	members := []string{"name", "status", "suite", "filePath", "rawStatus", "message", "trace", "flaky", "retries", "retryAttempts"}
	err := c.in.object("a test", members, func(name string) (err error) {
		switch name {
		case "name":
			t.name, _, err = c.in.str("name", maxName+1)
			t.named = true
		case "status":
			t.status, err = c.status()
		case "suite":
			t.suite, err = c.suitePath()
		case "filePath":
			t.file, err = c.optional(name, maxName+1)
		case "rawStatus":
			t.raw, err = c.optional(name, maxDetail)
		case "message":
			t.message, err = c.optional(name, maxExcerpt+1)
		case "trace":
			t.trace, err = c.optional(name, maxExcerpt+1)
		case "flaky":
			t.flaky, err = c.flag(name)
		case "retries":
			t.retries, _, err = c.number(name)
		case "retryAttempts":
			t.failed, err = c.attempts()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !t.named:
		return malformed("a test without a name")
	case t.status == "":
		return malformed("a test without a status")
	}
	return c.add(&t)
}

func (c *ctrfReader) status() (string, error) {
	status, _, err := c.in.str("status", 64)
	if err != nil {
		return "", err
	}
	switch status {
	case "passed", "failed", "skipped", "pending", "other":
		return status, nil
	}
	return "", malformed("status %.40q", status)
}

func (c *ctrfReader) flag(what string) (bool, error) {
	if null, err := c.null(); null || err != nil {
		return false, err
	}
	word, err := c.in.word()
	if err == nil && word != "true" && word != "false" {
		err = malformed("%s is not true or false", what)
	}
	return word == "true", err
}

// suitePath reads the suite of a test: a name, or a list of them.
func (c *ctrfReader) suitePath() (string, error) {
	if first, err := c.in.peek(); err != nil || first != '[' {
		if err != nil {
			return "", err
		}
		return c.optional("suite", maxName+1)
	}
	var path strings.Builder
	err := c.in.list("suite", func() error {
		name, _, err := c.in.str("suite", maxName+1)
		if path.Len() <= maxName {
			if path.Len() > 0 {
				path.WriteByte('/')
			}
			path.WriteString(name)
		}
		return err
	})
	return path.String(), err
}

// attempts reads the attempts at a test and reports whether one of them failed.
func (c *ctrfReader) attempts() (failed bool, err error) {
	if null, err := c.null(); null || err != nil {
		return false, err
	}
	err = c.in.list("retryAttempts", func() error {
		return c.in.object("an attempt", []string{"status"}, func(string) error {
			status, err := c.status()
			failed = failed || status == "failed"
			return err
		})
	})
	return failed, err
}

// suite returns the index of the suite of a path.
func (c *ctrfReader) suite(path string) (int, error) {
	if i, ok := c.suites[path]; ok {
		return i, nil
	}
	if !c.name(len(path)) {
		return 0, &limitError{c.limit}
	}
	i := c.addSuite(Suite{Name: path, Outcome: Empty})
	if i < 0 {
		return 0, &limitError{c.limit}
	}
	c.suites[path] = i
	return i, nil
}

// add adds a test.
func (c *ctrfReader) add(t *ctrfTest) error {
	path := t.suite
	if path == "" {
		path = t.file
	}
	if c.report != "" {
		path = strings.TrimSuffix(c.report+"/"+path, "/")
	}
	i, err := c.suite(c.cutName(path))
	if err != nil {
		return err
	}
	s := &c.Suites[i]
	name := c.cutName(t.name)
	if !c.name(len(name)) {
		return &limitError{c.limit}
	}
	key := testKey{s.Name, name}
	test := Test{Suite: s.Name, Name: name, Ordinal: c.ordinals[key]}
	switch t.status {
	case "passed":
		test.Outcome = Pass
	case "failed":
		test.Outcome, test.Kind = Fail, kindAssertion
	case "other":
		test.Outcome = Unfinished
	default:
		test.Outcome = Skip
	}
	if test.Outcome == Fail || test.Outcome == Unfinished {
		test.Detail = cut(strings.TrimSpace(t.message+"\n"+t.trace), maxExcerpt)
		if c.excerpts+len(test.Detail) > maxExcerpts {
			test.Detail = ""
		}
		c.excerpts += len(test.Detail)
	}
	if c.addTest(test) < 0 {
		return &limitError{c.limit}
	}
	s.Tests++
	c.seen["tests"]++
	c.seen[t.status]++
	if c.ordinals[key]++; test.Ordinal > 0 {
		c.signal(sigDuplicateTest, s.Name, name, "")
	}
	switch test.Outcome {
	case Fail:
		s.Outcome = Fail
	case Unfinished:
		c.signal(sigTestUnfinished, s.Name, name, t.raw)
		if s.Outcome != Fail {
			s.Outcome = Unfinished
		}
	default:
		if s.Outcome == Empty {
			s.Outcome = Pass
		}
		if test.Outcome == Pass && (t.flaky || t.failed || t.retries > 0) {
			c.signal(sigFlaky, s.Name, name, "")
		}
	}
	return nil
}

// end compares a report that was read to its end with its summary.
func (c *ctrfReader) end() {
	for _, name := range ctrfTotals {
		n, ok := c.declared[name]
		if !ok || n == c.seen[name] {
			continue
		}
		code := sigTotals
		if name == "tests" && n > c.seen[name] {
			code = sigFewerThanDeclared
		}
		c.signal(code, c.report, "", fmt.Sprintf("%d %s declared, %d seen", n, name, c.seen[name]))
	}
	n := c.declared["failed"]
	failed := n > 0 && c.seen["failed"] == 0
	if c.seen["tests"] > 0 && !failed {
		return
	}
	i, err := c.suite(c.report)
	if err != nil {
		return // the limit is noted
	}
	if !failed {
		c.signal(sigNoTestRan, c.report, "", "")
		return
	}
	why := fmt.Sprintf("it declares %d failures, and has no failed test", n)
	s := &c.Suites[i]
	s.Outcome, s.Kind, s.Detail = Fail, kindError, why
	c.signal(sigSuiteFailedAlone, c.report, "", why)
}
