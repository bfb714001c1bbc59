package verifier

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
)

// An export holds the tests of the head, each once, in the order of their names:
// entry, suite, name, ordinal. Of several runs of one entry the worst outcome
// counts, as in the verdict. What is on the base alone is no test of an export:
// it is listed as removed. All formats say the same, and none of it is read from
// anywhere but the report.
//
// Names and excerpts are what the tested code has printed. Nothing of it can end
// a line of an export, and what a terminal or the log of a CI job would act on,
// or show as something else, is there as an escape of the format.
const (
	exportJUnit = "junit" // JUnit XML
	exportCTRF  = "ctrf"  // Common Test Report Format, JSON
	exportJSON  = "json"  // the report's own JSON, with its tests
)

// ExportFormats returns the formats of [Report.Export].
func ExportFormats() []string { return []string{exportJUnit, exportCTRF, exportJSON} }

var (
	errExportFormat = errors.New("export: unknown format")
	errExportReport = errors.New("export: the report is not sound: there is no evidence to export")
)

// Export writes the tests of a sound report, with the verdict, its reasons and
// what they are about, in one of [ExportFormats]. docs/format.md says what is in
// each. A verdict other than verified is a failed test of its own in the formats
// junit and ctrf, so that who reads the tests alone cannot miss it.
//
// Of a report that is not sound, and in a format that is not known, nothing is
// written. The same report gives the same bytes. They are written as they are
// made: an error of w leaves a part of them there.
func (r Report) Export(w io.Writer, format string) error {
	e := export{Report: r, w: bufio.NewWriterSize(w, 64<<10)}
	var write func() error
	switch format {
	case exportJUnit:
		write = e.junit
	case exportCTRF:
		write = e.ctrf
	case exportJSON:
		write = e.json
	default:
		return fmt.Errorf("%w %.40q", errExportFormat, format)
	}
	if !r.Sound() {
		return errExportReport
	}
	e.collect()
	if err := write(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := e.w.Flush(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// export writes one report. Its writer keeps the first error.
type export struct {
	Report
	w      *bufio.Writer
	buf    []byte
	names  []TestName // of the tests on the head
	counts Counts     // of these
	suites int
	// change has the word for each test that Compare lists.
	change  map[TestName]string
	removed []TestName
	red     map[TestName]bool // suites with a failed test
	levels  map[string]int    // least isolation that was measured on the head, by entry
}

// The words for what happened to a test between base and head.
const (
	changeRegressed    = "regressed"
	changeFixed        = "fixed"
	changeStillFailing = "still_failing"
	changeNewFailing   = "new_failing"
	changeNewlySkipped = "newly_skipped"
	changeAdded        = "added"
)

// changeText says it to people.
var changeText = map[string]string{
	changeRegressed:    "passed on the base, fails on the head",
	changeStillFailing: "fails on the base too",
	changeNewFailing:   "fails on the head, neither passed nor failed on the base",
	changeNewlySkipped: "passed or failed on the base, is skipped on the head",
}

// An exportedTest is one test of the head.
type exportedTest struct {
	TestName
	Outcome Outcome `json:"outcome"`
	Base    Outcome `json:"base,omitempty"` // absent: it is not on the base
	Kind    string  `json:"kind,omitempty"`
	Change  string  `json:"change,omitempty"`
	Excerpt string  `json:"excerpt,omitempty"`
}

// failed reports whether the test counts as failed.
func (t *exportedTest) failed() bool { return t.Outcome == Fail || t.Outcome == Unfinished }

// suite is the key of a test's suite.
func (n TestName) suite() TestName { return TestName{Entry: n.Entry, Suite: n.Suite} }

// path is the name of a test's suite in formats that know one level of names.
// Entries have no slash in their name, so no two suites have one path.
func (n TestName) path() string {
	if n.Suite == "" {
		return n.Entry
	}
	return n.Entry + "/" + n.Suite
}

// collect prepares what all formats need.
func (e *export) collect() {
	f := e.Findings()
	e.red, e.change, e.levels = map[TestName]bool{}, map[TestName]string{}, map[string]int{}
	for _, name := range slices.SortedFunc(maps.Keys(f.outcomes), TestName.compare) {
		s := f.outcomes[name]
		switch s.head.outcome {
		case "":
			continue
		case Pass:
			e.counts.Pass++
		case Skip:
			e.counts.Skip++
		case Unfinished:
			e.counts.Unfinished++
		default:
			e.counts.Fail++
		}
		if s.head.outcome == Fail || s.head.outcome == Unfinished {
			e.red[name.suite()] = true
		}
		if n := len(e.names); n == 0 || e.names[n-1].suite() != name.suite() {
			e.suites++
		}
		e.names = append(e.names, name)
		if s.head.outcome == Pass && s.base.outcome == "" { // Compare only counts these
			e.change[name] = changeAdded
		}
	}
	c := f.Compare()
	e.removed = c.Removed
	for _, list := range []struct {
		word  string
		tests []TestName
	}{
		{changeRegressed, c.Regressed}, {changeFixed, c.Fixed}, {changeStillFailing, c.StillFailing},
		{changeNewFailing, c.NewFailing}, {changeNewlySkipped, c.NewlySkipped},
	} {
		for _, name := range list.tests {
			e.change[name] = list.word
		}
	}
	for _, run := range f.Runs {
		result := e.r.results[run.Call]
		if run.Side != SideHead || result == nil || result.Isolation == nil {
			continue
		}
		level, known := e.levels[run.Name]
		if !known || result.Isolation.Level < level {
			e.levels[run.Name] = result.Isolation.Level
		}
	}
}

// bySuite yields the tests of each suite.
func (e *export) bySuite() iter.Seq[[]TestName] {
	return func(yield func([]TestName) bool) {
		for from := 0; from < len(e.names); {
			to := from + 1
			for to < len(e.names) && e.names[to].suite() == e.names[from].suite() {
				to++
			}
			if !yield(e.names[from:to]) {
				return
			}
			from = to
		}
	}
}

// tests yields the tests of one suite. What the suite itself printed is with its
// first failed test, if that has no excerpt of its own: once, since there may be
// very many tests.
func (e *export) tests(suite []TestName) iter.Seq[*exportedTest] {
	return func(yield func(*exportedTest) bool) {
		f, first := e.Findings(), true
		for _, name := range suite {
			s := f.outcomes[name]
			t := exportedTest{TestName: name, Outcome: s.head.outcome, Base: s.base.outcome, Change: e.change[name]}
			if t.failed() {
				t.Kind, t.Excerpt = s.head.kind, f.detail[name]
				if first {
					t.Excerpt = e.Excerpt(name)
				}
				first = false
			}
			if !yield(&t) {
				return
			}
		}
	}
}

// headline names the verdict and the codes of its reasons.
func (e *export) headline() string {
	var codes []string
	for _, r := range e.Reasons() {
		if code := string(r.Code); !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	return strings.TrimSuffix(string(e.Verdict())+": "+strings.Join(codes, ", "), ": ")
}

// why says why the report is not verified: the reasons with their remedies, and
// what suites printed that no test of theirs explains, such as the compiler's
// errors.
func (e *export) why() string {
	var b strings.Builder
	for _, r := range e.Reasons() {
		c, _ := CauseOf(r.Code)
		fmt.Fprintf(&b, "%s\n  %s\n", r, c.Remedy)
	}
	detail := e.Findings().detail
	for _, name := range slices.SortedFunc(maps.Keys(detail), TestName.compare) {
		if name == name.suite() && !e.red[name] {
			fmt.Fprintf(&b, "%s:\n%s\n", name.path(), strings.TrimRight(detail[name], "\n"))
		}
	}
	return b.String()
}
