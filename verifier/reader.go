package verifier

import (
	"fmt"
	"sort"
	"unicode/utf8"
)

// Limits of every reader. What lies beyond one of them is never dropped in
// silence: the reading says limit-exceeded and is not complete.
const (
	maxTests    = 1 << 20 // occurrences of tests
	maxSuites   = 1 << 16
	maxName     = 4 << 10  // bytes of one name
	maxNames    = 32 << 20 // bytes of all names
	maxExcerpt  = 8 << 10  // bytes of one excerpt
	maxExcerpts = 8 << 20  // bytes of all excerpts; later ones are left out
	maxDetail   = 512      // bytes of a signal's detail
	maxSignals  = 256      // signals of one code; the rest is one signal with a count
)

// Outcome is what a report says of one test or suite.
type Outcome string

// The outcomes. Unfinished and BuildFailed are failures: nothing says that the
// test would have passed.
const (
	Pass        Outcome = "pass"
	Fail        Outcome = "fail"
	Skip        Outcome = "skip"
	Unfinished  Outcome = "unfinished"   // it started and nothing says how it ended
	BuildFailed Outcome = "build-failed" // of a suite: there was nothing to run
	Empty       Outcome = "no-tests"     // of a suite: it ran and had no test
)

// worst returns the worse of two outcomes of one test.
func worst(a, b Outcome) Outcome {
	for _, o := range []Outcome{Fail, Unfinished, Skip} {
		if a == o || b == o {
			return o
		}
	}
	return Pass
}

// What made a test or suite fail.
const (
	kindAssertion = "assertion" // the test said so
	kindError     = "error"     // JUnit: something other than an assertion
	kindPanic     = "panic"     // a Go panic or a fatal error of the runtime
	kindTimeout   = "timeout"   // go test's own -timeout
	kindRace      = "race"      // the race detector
	kindBuild     = "build"     // the compiler or the linker
	kindVet       = "vet"       // go vet, as go test runs it
	kindSetup     = "setup"     // the package could not be loaded
	kindExit      = "exit"      // the process failed after its tests
)

// A Test is one occurrence of one test in a report.
type Test struct {
	// Suite is the import path of a Go test. In JUnit, CTRF and TAP it is the
	// report's name, if there are several, and the names of the enclosing suites
	// or subtests, joined by slashes. Two suites may join to the same name;
	// ordinals keep their tests apart.
	Suite string
	// Name is the Go test's full name, JUnit's classname and name joined by a
	// dot, or the name that CTRF or TAP gives.
	Name string
	// Ordinal counts the earlier occurrences of the same suite and name.
	Ordinal int
	Outcome Outcome
	// Kind says what made the test fail: assertion, error, panic, timeout,
	// race; "" if nothing tells, and for tests that did not fail.
	Kind string
	// Detail is an excerpt of a failed test's output: the line that gave Kind
	// and the last 8 KiB.
	Detail string
}

// A Suite is a Go package, a JUnit testsuite element, a subtest in TAP or its
// outermost level, or what tests in CTRF name as their suite. Only a subtest can
// be a Skip: one that failed and is to do.
type Suite struct {
	Name    string
	Outcome Outcome
	Kind    string // of a failed suite: panic, timeout, race, build, vet, setup, exit, error, or "" if its tests explain it
	Detail  string // of a failed suite: an excerpt of what no test printed
	Tests   int    // occurrences of tests directly inside
	Cached  bool   // go test replayed an earlier run
}

// A Reading is what the raw bytes of one run say. It is a function of these
// bytes and the exit code alone, so a verifier that has them gets the same
// reading again.
//
// Everything in it was printed by a process that the patch may control. Of a
// forgery it shows what contradicts itself, as signals; a stream that is forged
// without a contradiction reads like an honest one, and only controls outside
// of the stream can tell them apart. Times and durations in reports are claims
// and are not read.
type Reading struct {
	Format   string // go, junit, tap, ctrf, exit
	Tests    []Test // in the order of their start
	Suites   []Suite
	Signals  []Signal
	Unparsed int64 // lines, or reports, that are not what the format allows
	// Complete is false if there was more, or should have been, than what was
	// read: a package without an end, a malformed or missing report, a process
	// that did not exit by itself, a limit.
	Complete bool
}

// Counts are the numbers of a reading. A run is green only if it is complete,
// Pass is not 0, and Fail, Unfinished and BadSuites are.
type Counts struct {
	Pass, Fail, Skip, Unfinished int // tests
	BuildFailed                  int // suites that could not be built
	BadSuites                    int // suites that failed, did not end or could not be built
}

// Counts counts the tests and suites of r.
func (r Reading) Counts() Counts {
	var n Counts
	for i := range r.Tests {
		switch r.Tests[i].Outcome {
		case Pass:
			n.Pass++
		case Skip:
			n.Skip++
		case Unfinished:
			n.Unfinished++
		default:
			n.Fail++
		}
	}
	for i := range r.Suites {
		switch r.Suites[i].Outcome {
		case BuildFailed:
			n.BuildFailed++
			n.BadSuites++
		case Fail, Unfinished:
			n.BadSuites++
		}
	}
	return n
}

// collector builds a Reading within the limits.
type collector struct {
	Reading
	names    int // bytes of names
	excerpts int // bytes of excerpts, those of running tests included
	signals  map[string]int
	limit    string // the first limit that was hit
}

func newCollector(format string) collector {
	return collector{Reading: Reading{Format: format, Complete: true}, signals: make(map[string]int)}
}

// name accounts for a name of n bytes that is about to be kept.
func (c *collector) name(n int) bool {
	if c.names+n > maxNames {
		c.exceed(fmt.Sprintf("more than %d bytes of names", maxNames))
		return false
	}
	c.names += n
	return true
}

// cutName bounds a name.
func (c *collector) cutName(name string) string {
	if len(name) > maxName {
		c.signal(sigNameCut, "", "", cut(name, 64))
	}
	return cut(name, maxName)
}

func (c *collector) exceed(limit string) {
	if c.limit == "" {
		c.limit = limit
	}
	c.Complete = false
}

// addTest appends t and returns its index, or -1 beyond the limit.
func (c *collector) addTest(t Test) int {
	if len(c.Tests) >= maxTests {
		c.exceed(fmt.Sprintf("more than %d tests", maxTests))
		return -1
	}
	c.Tests = append(c.Tests, t)
	return len(c.Tests) - 1
}

// addSuite appends a suite and returns its index, or -1 beyond the limit.
func (c *collector) addSuite(s Suite) int {
	if len(c.Suites) >= maxSuites {
		c.exceed(fmt.Sprintf("more than %d suites", maxSuites))
		return -1
	}
	c.Suites = append(c.Suites, s)
	return len(c.Suites) - 1
}

// signal adds a signal. The bound is per code, so that nobody can hide one
// signal behind many others.
func (c *collector) signal(code, suite, test, detail string) {
	if c.signals[code]++; c.signals[code] <= maxSignals {
		c.Signals = append(c.Signals, Signal{Code: code, Suite: suite, Test: test, Detail: cut(detail, maxDetail)})
	}
}

// finish adds the signals about the whole reading.
func (c *collector) finish(exit int) Reading {
	n := c.Counts()
	switch {
	case exit < 0:
		c.Complete = false
		c.signal(sigNoExitStatus, "", "", "")
	case exit == 0 && n.BadSuites > 0:
		c.signal(sigExitContradicts, "", "", fmt.Sprintf("exit 0; suites that did not pass: %d", n.BadSuites))
	case exit > 0 && n.BadSuites == 0:
		c.signal(sigExitContradicts, "", "", fmt.Sprintf("exit %d, and no suite failed", exit))
	}
	if n.Pass+n.Fail+n.Unfinished+n.Skip == 0 {
		c.signal(sigZeroTests, "", "", "")
	}
	if c.limit != "" {
		c.signal(sigLimitExceeded, "", "", c.limit)
	}
	var flooded []string
	for code, n := range c.signals {
		if n > maxSignals {
			flooded = append(flooded, code)
		}
	}
	sort.Strings(flooded)
	for _, code := range flooded {
		c.Signals = append(c.Signals, Signal{Code: code, Detail: fmt.Sprintf("and %d more", c.signals[code]-maxSignals)})
	}
	return c.Reading
}

// An excerpt keeps the end of what a test printed.
type excerpt struct {
	text []byte
	cut  bool // something was left out at the start
}

// keep appends text to e, within the bounds of one and of all excerpts.
func (c *collector) keep(e *excerpt, text []byte) {
	before := len(e.text)
	if len(text) > maxExcerpt {
		text, e.cut = text[len(text)-maxExcerpt:], true
	}
	// Moving the kept bytes only when the buffer is twice the bound makes the
	// cost linear in what was printed.
	if len(e.text)+len(text) > 2*maxExcerpt {
		kept := copy(e.text, e.text[len(e.text)-maxExcerpt:])
		e.text, e.cut = e.text[:kept], true
	}
	if c.excerpts+len(e.text)-before+len(text) > maxExcerpts {
		e.cut = true
	} else {
		e.text = append(e.text, text...)
	}
	c.excerpts += len(e.text) - before
}

// drop forgets e.
func (c *collector) drop(e *excerpt) {
	c.excerpts -= len(e.text)
	*e = excerpt{}
}

// take returns e as a string that stays accounted for, and forgets e. The
// headline is the line that says what happened; the end of the output may not
// reach back to it.
func (c *collector) take(e *excerpt, headline string) string {
	text, left := e.text, e.cut
	if len(text) > maxExcerpt {
		text, left = text[len(text)-maxExcerpt:], true
	}
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	s := string(text)
	if left {
		s = headline + "…\n" + s
	}
	c.drop(e)
	c.excerpts += len(s)
	return s
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if n -= len("…"); n < 0 {
		return ""
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
