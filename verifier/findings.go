package verifier

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
)

// Findings are what the test calls of a run come to. They are derived from the
// evidence; only a [Report] says whether the evidence holds.
type Findings struct {
	Runs []*RunFinding

	byCall   map[uint64]*RunFinding
	outcomes map[TestName]sides
	kinds    map[TestName]string // of failed tests on the head, where something tells
	detail   map[TestName]string // excerpts of failed tests on the head, and of suites
	limit    int                 // of outcomes
}

// A RunFinding is what one test call comes to.
type RunFinding struct {
	Call                         uint64
	Name, Side                   string
	Round                        int
	State                        string
	Exit                         int
	Pass, Fail, Skip, Unfinished int
	BadSuites, Unbuilt           int
	Complete                     bool
	Unparsed                     int64
	Signals                      []Signal
}

// Tests returns the number of tests that were seen.
func (r *RunFinding) Tests() int { return r.Pass + r.Fail + r.Skip + r.Unfinished }

// sides are the outcomes of one test on both sides, "" where it is absent.
type sides struct{ base, head Outcome }

const (
	maxFindings = 1 << 21 // tests of all runs
	maxShown    = 50      // excerpts kept
	maxKind     = 32      // bytes of a kind
)

func newFindings() *Findings {
	return &Findings{byCall: map[uint64]*RunFinding{}, outcomes: map[TestName]sides{}, kinds: map[TestName]string{}, detail: map[TestName]string{}, limit: maxFindings}
}

// add applies a row of the evidence.
func (f *Findings) add(row any) error {
	switch row := row.(type) {
	case *runRow:
		if f.byCall[row.Run] != nil {
			return errors.New("run: twice")
		}
		if row.Side != SideBase && row.Side != SideHead {
			return fmt.Errorf("side %q: unknown", row.Side)
		}
		r := &RunFinding{
			Call: row.Run, Name: row.Name, Side: row.Side, Round: row.Round, State: row.State, Exit: row.Exit,
			BadSuites: row.Suites, Unbuilt: row.Unbuilt, Complete: row.Complete, Unparsed: row.Unparsed,
		}
		f.byCall[row.Run] = r
		f.Runs = append(f.Runs, r)
	case *signalRow:
		r := f.byCall[row.Of]
		if r == nil {
			return errors.New("signal: of no run")
		}
		r.Signals = append(r.Signals, Signal{row.Signal, string(row.Suite), string(row.Test), string(row.Detail)})
	case *testRow:
		r := f.byCall[row.Of]
		if r == nil {
			return errors.New("test: of no run")
		}
		return f.test(r, row)
	}
	return nil
}

func (f *Findings) test(r *RunFinding, row *testRow) error {
	switch row.Outcome {
	case Pass:
		r.Pass++
	case Fail:
		r.Fail++
	case Skip:
		r.Skip++
	case Unfinished:
		r.Unfinished++
	default:
		return fmt.Errorf("outcome %q: unknown", row.Outcome)
	}
	name := TestName{r.Name, string(row.Suite), string(row.Test), row.Ordinal}
	s, known := f.outcomes[name]
	if !known && len(f.outcomes) >= f.limit {
		return fmt.Errorf("%w: more than %d tests", errEvidenceLimit, f.limit)
	}
	side := &s.head
	if r.Side == SideBase {
		side = &s.base
	} else if row.Kind != "" && f.kinds[name] == "" {
		f.kinds[name] = cut(row.Kind, maxKind)
	}
	if *side == "" {
		*side = row.Outcome
	} else {
		*side = worst(*side, row.Outcome) // of several rounds
	}
	f.outcomes[name] = s
	return nil
}

// excerpts keeps what failed tests of the last run printed.
func (f *Findings) excerpts(r *Reading) {
	run := f.Runs[len(f.Runs)-1]
	if run.Side != SideHead {
		return
	}
	keep := func(name TestName, text string) {
		if len(f.detail) < maxShown && text != "" {
			f.detail[name] = text
		}
	}
	for i := range r.Tests {
		t := &r.Tests[i]
		keep(TestName{run.Name, t.Suite, t.Name, t.Ordinal}, t.Detail)
	}
	for i := range r.Suites {
		s := &r.Suites[i]
		keep(TestName{Entry: run.Name, Suite: s.Name}, s.Detail)
	}
}

// A TestName names a test in a report.
type TestName struct {
	Entry   string `json:"entry"`
	Suite   string `json:"suite,omitempty"`
	Name    string `json:"name"`
	Ordinal int    `json:"ordinal,omitempty"` // occurrences of the same name before it
}

func (n TestName) compare(m TestName) int {
	return cmp.Or(cmp.Compare(n.Entry, m.Entry), cmp.Compare(n.Suite, m.Suite), cmp.Compare(n.Name, m.Name), cmp.Compare(n.Ordinal, m.Ordinal))
}

func (n TestName) String() string {
	s := n.Name
	if n.Suite != "" {
		s = n.Suite + " " + s
	}
	if n.Ordinal > 0 {
		s += fmt.Sprintf(" (occurrence %d)", n.Ordinal+1)
	}
	return s
}

// A Comparison lists the tests by what happened to them between base and head.
type Comparison struct {
	Regressed    []TestName `json:"regressed,omitempty"`     // passed on the base, fail on the head
	Fixed        []TestName `json:"fixed,omitempty"`         // failed on the base, pass on the head
	StillFailing []TestName `json:"still_failing,omitempty"` // fail on both
	NewFailing   []TestName `json:"new_failing,omitempty"`   // not on the base, fail on the head
	NewlySkipped []TestName `json:"newly_skipped,omitempty"` // passed on the base, skipped on the head
	Removed      []TestName `json:"removed,omitempty"`       // on the base, not on the head
	Added        int        `json:"added"`                   // not on the base, pass on the head
	PassBoth     int        `json:"pass_both"`
}

// Compare compares the sides of every test, in the order of their names.
func (f *Findings) Compare() Comparison {
	var c Comparison
	bad := func(o Outcome) bool { return o == Fail || o == Unfinished }
	for _, name := range slices.SortedFunc(maps.Keys(f.outcomes), TestName.compare) {
		s := f.outcomes[name]
		var list *[]TestName
		switch {
		case bad(s.head) && s.base == Pass:
			list = &c.Regressed
		case bad(s.head) && bad(s.base):
			list = &c.StillFailing
		case bad(s.head):
			list = &c.NewFailing
		case s.head == Pass && bad(s.base):
			list = &c.Fixed
		case s.head == Skip && s.base == Pass:
			list = &c.NewlySkipped
		case s.head == "" && s.base != "":
			list = &c.Removed
		case s.head == Pass && s.base == "":
			c.Added++
		case s.head == Pass && s.base == Pass:
			c.PassBoth++
		}
		if list != nil {
			*list = append(*list, name)
		}
	}
	return c
}

// Passed returns the tests that pass on the head, in the order of their names.
func (f *Findings) Passed() []TestName {
	var list []TestName
	for name, s := range f.outcomes {
		if s.head == Pass {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, TestName.compare)
	return list
}

// side returns the findings of one entry on one side, in order.
func (f *Findings) side(entry, side string) []*RunFinding {
	var list []*RunFinding
	for _, r := range f.Runs {
		if r.Name == entry && r.Side == side {
			list = append(list, r)
		}
	}
	return list
}

// judge returns the reasons why the patch does not meet the policy. It looks up
// the documents of a run by the number of its call.
func (f *Findings) judge(args map[uint64]*receipts.Args, results map[uint64]*receipts.Result) []Reason {
	var reasons []Reason
	passed, ran := 0, 0
	for _, r := range f.Runs {
		if r.Side != SideHead || r.State == receipts.StateNotRun {
			continue
		}
		ran++
		passed += r.Pass
		reasons = append(reasons, f.judgeRun(r, args[r.Call], results)...)
	}
	if passed == 0 && len(reasons) == 0 {
		detail := "no test passed"
		if ran == 0 {
			detail = "no test command was run on the head"
		}
		reasons = append(reasons, Reason{Code: NoTests, Detail: detail})
	}
	return reasons
}

// judgeRun returns why one run on the head is not green.
func (f *Findings) judgeRun(r *RunFinding, args *receipts.Args, results map[uint64]*receipts.Result) []Reason {
	var reasons []Reason
	result := results[r.Call]
	because := func(code Code, format string, args ...any) {
		reasons = append(reasons, Reason{Code: code, Detail: r.Name + ": " + fmt.Sprintf(format, args...)})
	}
	why := ""
	if result != nil {
		why = string(result.Why)
	}
	switch r.State {
	case receipts.StateNotFound:
		because(CommandNotFound, "%s", why)
		return reasons
	case receipts.StateCanceled:
		because(Interrupted, "the run was interrupted during the tests")
	case receipts.StateTimeout:
		because(TimedOut, "%d tests had ended", r.Pass+r.Fail+r.Skip)
	case receipts.StateSignaled:
		signal := "a signal"
		if result != nil {
			signal = result.Signal
		}
		because(CommandFailed, "ended by %s", signal)
	case receipts.StateFailed:
		because(RunFailed, "%s", why)
		return reasons
	}
	for _, s := range r.Signals {
		if s.Code == sigToolchain {
			because(ToolchainTooOld, "%s", s.Detail)
			return reasons
		}
		if s.Code == sigSaid {
			because(CommandFailed, "exit code %d before the first test: %s", r.Exit, s.Detail)
			return reasons
		}
	}
	// Of the other formats nobody reads standard output.
	if args != nil && args.Format == FormatGo && result != nil && result.Stdout.Kept < result.Stdout.Bytes {
		because(OutputIncomplete, "%d of %d bytes kept", result.Stdout.Kept, result.Stdout.Bytes)
	}
	if r.Unbuilt > 0 {
		because(BuildBroken, "%d packages", r.Unbuilt)
	}
	if n := r.Fail + r.Unfinished; n > 0 {
		because(TestsFailed, "%d of %d", n, r.Tests())
	}
	denied := f.denied(r, results)
	if len(reasons) > 0 {
		if denied != "" {
			because(NeedsNested, "%s", denied)
		}
		return reasons
	}
	if list := f.contradictions(r); len(list) > 0 {
		because(UntrustedReport, "%s", strings.Join(list, ", "))
	}
	switch {
	case len(reasons) > 0:
	case denied != "": // says more than that it failed
		because(NeedsNested, "exit code %d: %s", r.Exit, denied)
	case r.Exit != 0 || r.BadSuites > 0:
		because(CommandFailed, "exit code %d, %d suites not green", r.Exit, r.BadSuites)
	case !r.Complete:
		because(UntrustedReport, "the report is not complete")
	case r.Pass == 0:
		because(NoTests, "no test passed")
	}
	return reasons
}

// NoteDenied is the name of the note in a result document that counts the system
// calls of nested sandboxes that the command was refused.
const NoteDenied = "denied"

// denied returns which calls of nested sandboxes were refused to a run that
// failed, "" where there are none or where they explain nothing: a run of the
// same entry on the base is green in spite of them. It is asked about runs that
// are red by their exit code only, so that it cannot make one green.
func (f *Findings) denied(r *RunFinding, results map[uint64]*receipts.Result) string {
	note := func(r *RunFinding) string {
		if result := results[r.Call]; result != nil {
			for _, n := range result.Notes {
				if n.Name == NoteDenied {
					return cut(string(n.Value), maxDetail)
				}
			}
		}
		return ""
	}
	if r.State != receipts.StateExited || r.Exit == 0 {
		return ""
	}
	for _, b := range f.side(r.Name, SideBase) {
		if b.State == receipts.StateExited && b.Exit == 0 && note(b) != "" {
			return ""
		}
	}
	return note(r)
}

// contradictions returns the codes of r's signals that disqualify it and that
// the same entry does not have on the base.
func (f *Findings) contradictions(r *RunFinding) []string {
	var list []string
	onBase := func(s Signal) bool {
		for _, b := range f.side(r.Name, SideBase) {
			for _, o := range b.Signals {
				if o.Code == s.Code && o.Suite == s.Suite && o.Test == s.Test {
					return true
				}
			}
		}
		return false
	}
	for _, s := range r.Signals {
		if s.Disqualifies() && s.Code != sigZeroTests && !onBase(s) {
			text := s.Code
			if s.Suite != "" {
				text += " (" + s.Suite + ")"
			}
			if !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
	}
	return list
}
