package verifier

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier/source"
)

// Findings are what the test calls of a run come to. They are derived from the
// evidence; only a [Report] says whether the evidence holds.
type Findings struct {
	Runs     []*RunFinding
	Findings []Finding
	Claim    Claim

	byCall   map[uint64]*RunFinding
	planned  *PlannedRun // whose rows are being added
	trees    *Trees      // nil where they are not known
	config   *Config
	aimed    int // level of evidence
	imports  map[string]*Import
	outcomes map[TestName]*sides
	detail   map[TestName]string // excerpts of failed tests on the head, and of suites
	limit    int                 // of outcomes

	bad     map[suiteKey]suiteRow // suites that did not pass in a plain run
	unbuilt map[builtKey][]string // files that did not build
	crashed map[builtKey]string   // the function that ended the process last
	lines   map[string]coverRow   // by path
	readsCI map[builtKey]bool     // packages that ask for variables of a CI
	gone    map[TestName]bool     // functions of the base that the head's text does not have, as far as it was asked
	reached map[string]int        // changed lines that the regressed tests of an entry execute; absent: nobody counted
	mutants []source.Mutant
	clipped bool              // the budget left the run less time than its own
	ended   map[suiteKey]bool // suites in which a test ended the process, or its time was up
	words   map[string]string // of rows, but for the names of tests

	// Drawn from the rows when they are asked for, and dropped with the next row.
	names    []TestName
	compared *Comparison
	proofs   *[]Proof
}

type suiteKey struct{ entry, side, suite string }

// A RunFinding is what one test call comes to.
type RunFinding struct {
	Call                         uint64
	Name, Side                   string
	Round                        int
	Purpose, Package             string
	State                        string
	Exit                         int
	Pass, Fail, Skip, Unfinished int
	BadSuites, Unbuilt           int
	Complete                     bool
	Unparsed                     int64
	Canaries, CanariesSeen       int
	Cut                          bool // left out because the budget was used up
	Clipped                      bool // the budget ended it before its own time was up
	Signals                      []Signal
	Imported                     *Import // the earlier run that it is taken from; nil: none

	mutant int
}

// Tests returns the number of tests that were seen.
func (r *RunFinding) Tests() int { return r.Pass + r.Fail + r.Skip + r.Unfinished }

// Plain reports whether the run is one of the plan's command as it is.
func (r *RunFinding) Plain() bool { return r.Purpose == "" }

// A tally is what became of one test on one side.
type tally struct {
	outcome       Outcome // in the first run that had it; "" where it is absent
	kind          string
	fails, passes int32 // in all runs but those of all tests in another order
	misplaced     bool  // failed in another order
	withoutCI     Outcome
}

// add counts what a run says of the test. Where the process was ended from outside,
// a test that had begun tells nothing of itself: it may be any of those that ran side
// by side.
func (t *tally) add(o Outcome, kind, purpose string, exited bool) {
	open := o == Unfinished && !exited
	if open && purpose != "" {
		return
	}
	switch purpose {
	case PurposeShuffle:
		t.misplaced = t.misplaced || o == Fail || o == Unfinished
		return
	case PurposeNoCI:
		t.withoutCI = o
		return
	}
	switch {
	case purpose == PurposeIsolate && t.outcome == Unfinished: // it was another test that ended the process
		t.outcome, t.kind = o, kind
		t.fails = max(0, t.fails-1)
	case t.outcome == "":
		t.outcome, t.kind = o, kind
	case purpose == PurposeRepeat, purpose == PurposeCover, purpose == PurposeIsolate:
	case worst(t.outcome, o) != t.outcome: // twice in one run
		t.outcome, t.kind = o, kind
	}
	switch {
	case o == Pass:
		t.passes++
	case o == Fail, o == Unfinished && !open:
		t.fails++
	}
}

// bad reports whether the test failed in its first run.
func (t *tally) bad() bool { return t.outcome == Fail || t.outcome == Unfinished }

// unstable reports whether the test failed and passed.
func (t *tally) unstable() bool { return t.fails > 0 && t.passes > 0 }

// sides are what became of one test on each tree.
type sides struct{ base, head, hybrid, restored tally }

func (s *sides) on(side string) *tally {
	switch side {
	case SideBase:
		return &s.base
	case SideHybrid:
		return &s.hybrid
	case SideRestored:
		return &s.restored
	}
	return &s.head
}

const (
	maxFindings = 1 << 21 // tests of all runs
	maxShown    = 50      // excerpts kept
)

func newFindings() *Findings {
	return &Findings{
		byCall: map[uint64]*RunFinding{}, outcomes: map[TestName]*sides{}, detail: map[TestName]string{}, limit: maxFindings,
		bad: map[suiteKey]suiteRow{}, unbuilt: map[builtKey][]string{}, crashed: map[builtKey]string{}, lines: map[string]coverRow{},
		readsCI: map[builtKey]bool{}, reached: map[string]int{}, gone: map[TestName]bool{}, ended: map[suiteKey]bool{}, words: map[string]string{},
	}
}

// add applies a row of the evidence.
func (f *Findings) add(row any) error {
	switch row.(type) {
	case *findingRow, *claimRow:
	default:
		f.compared, f.proofs = nil, nil
	}
	of := func(call uint64, what string) (*RunFinding, error) {
		if r := f.byCall[call]; r != nil {
			return r, nil
		}
		return nil, fmt.Errorf("%s: of no run", what)
	}
	switch row := row.(type) {
	case *runRow:
		return f.run(row)
	case *signalRow:
		r, err := of(row.Of, "signal")
		if err != nil {
			return err
		}
		r.Signals = append(r.Signals, Signal{row.Signal, string(row.Suite), string(row.Test), string(row.Detail)})
		switch key := (builtKey{r.Name, r.Side, r.Package}); row.Signal {
		case sigNotBuilt:
			f.unbuilt[key] = append(f.unbuilt[key], string(row.Detail))
		case sigReadsCI:
			f.readsCI[key] = true
		}
	case *suiteRow:
		r, err := of(row.Of, "suite")
		if err != nil {
			return err
		}
		if r.Plain() && len(f.bad) < maxSuites {
			f.bad[suiteKey{r.Name, r.Side, string(row.Suite)}] = *row
		}
	case *testRow:
		r, err := of(row.Of, "test")
		if err != nil {
			return err
		}
		return f.test(r, row)
	case *coverRow:
		r, err := of(row.Of, "cover")
		if err != nil {
			return err
		}
		if r.Purpose == PurposeReach {
			f.reached[r.Name] += countLines(row.Executed)
			return nil
		}
		have := f.lines[string(row.Cover)]
		mergeLines(&have, row)
		f.lines[string(row.Cover)] = have
	case *findingRow:
		f.Findings = append(f.Findings, Finding{
			Code: row.Finding, Test: TestName{row.Entry, string(row.Suite), string(row.Test), row.Ordinal},
			Path: string(row.Path), Line: row.Line, Detail: string(row.Detail),
		})
	case *claimRow:
		f.Claim.Level = row.Claim
	}
	return nil
}

func (f *Findings) run(row *runRow) error {
	if f.byCall[row.Run] != nil {
		return errors.New("run: twice")
	}
	switch row.Side {
	case SideBase, SideHead, SideHybrid, SideRestored:
	default:
		return fmt.Errorf("side %q: unknown", row.Side)
	}
	r := &RunFinding{
		Call: row.Run, Name: row.Name, Side: row.Side, Round: row.Round, Purpose: row.Purpose, Package: string(row.Package),
		State: row.State, Exit: row.Exit, BadSuites: row.Suites, Unbuilt: row.Unbuilt, Complete: row.Complete, Unparsed: row.Unparsed,
		Canaries: row.Canaries, CanariesSeen: row.Sung,
	}
	if row.Imported != 0 {
		if r.Imported = f.imports[r.Name]; r.Imported == nil {
			return errors.New("run: taken from an earlier run, and none is there")
		}
	}
	r.Cut = r.State == receipts.StateNotRun && f.planned != nil && f.planned.Skip == ""
	r.Clipped = r.State == receipts.StateTimeout && f.clipped
	if row.Purpose == PurposeMutant && f.planned != nil {
		r.mutant = f.planned.mutant
	}
	f.byCall[row.Run] = r
	f.Runs = append(f.Runs, r)
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
	if r.Purpose == PurposePackage || r.Purpose == PurposeIsolate {
		key := builtKey{r.Name, r.Side, r.Package}
		if row.Outcome == Fail && row.Kind == kindPanic && !strings.Contains(string(row.Test), "/") {
			f.crashed[key] = string(row.Test)
		}
	}
	switch r.Purpose {
	case PurposeBuild, PurposeCanary, PurposeMutant, PurposeReach:
		return nil // of something else than the patch, or of nothing new
	case PurposeRepeat:
		if f.planned != nil && f.planned.only != nil && !slices.Contains(f.planned.only, rootName(string(row.Test))) {
			return nil
		}
	}
	name := TestName{r.Name, string(row.Suite), string(row.Test), row.Ordinal}
	s := f.outcomes[name]
	if s == nil {
		// A row that was read has words of its own, many times over.
		name.Entry, name.Suite = f.word(name.Entry), f.word(name.Suite)
		if len(f.outcomes) >= f.limit {
			return fmt.Errorf("%w: more than %d tests", errEvidenceLimit, f.limit)
		}
		s = new(sides)
		f.outcomes[name], f.names = s, nil
	}
	if (row.Kind == kindPanic || row.Kind == kindTimeout) && r.Purpose != PurposeIsolate {
		f.ended[suiteKey{r.Name, r.Side, string(row.Suite)}] = true
	}
	s.on(r.Side).add(Outcome(f.word(string(row.Outcome))), f.word(row.Kind), r.Purpose, r.State == receipts.StateExited)
	return nil
}

// word returns the string that stands for all that are equal to s.
func (f *Findings) word(s string) string {
	w, ok := f.words[s]
	if !ok {
		w = s
		f.words[s] = s
	}
	return w
}

// excerpts keeps what failed tests of the last run printed.
func (f *Findings) excerpts(r *Reading) {
	run := f.Runs[len(f.Runs)-1]
	if run.Side != SideHead || run.Purpose != "" && run.Purpose != PurposeRepeat {
		return
	}
	keep := func(name TestName, text string) {
		if len(f.detail) < maxShown && text != "" && f.detail[name] == "" {
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
	NewlySkipped []TestName `json:"newly_skipped,omitempty"` // passed or failed on the base, skipped on the head
	Removed      []TestName `json:"removed,omitempty"`       // on the base, not on the head
	Renamed      []Renamed  `json:"renamed,omitempty"`       // under another name on the head
	NeverRun     []TestName `json:"never_run,omitempty"`     // on the base; on the head their package did not come to them
	Unstable     []TestName `json:"unstable,omitempty"`      // failed and passed on the head
	Misplaced    []TestName `json:"misplaced,omitempty"`     // passed on the head, and failed in another order
	Added        int        `json:"added"`                   // not on the base, pass on the head
	PassBoth     int        `json:"pass_both"`
	UnstableName int        `json:"unstable_names"` // names that come and go between two runs of the same tree
}

// Renamed is a test that has another name on the head.
type Renamed struct {
	From TestName `json:"from"`
	To   string   `json:"to"`
}

// sorted returns the names of all tests, in order.
func (f *Findings) sorted() []TestName {
	if f.names == nil {
		f.names = slices.AppendSeq(make([]TestName, 0, len(f.outcomes)), maps.Keys(f.outcomes))
		slices.SortFunc(f.names, TestName.compare)
	}
	return f.names
}

// Compare compares base and head for every test, in the order of their names. The
// lists are not to be changed.
func (f *Findings) Compare() Comparison {
	if f.compared == nil {
		c := f.compare()
		f.compared = &c
	}
	return *f.compared
}

func (f *Findings) compare() Comparison {
	var c Comparison
	names := f.sorted()
	twice := f.twiceOnBase()
	addresses := f.addresses(names)
	for _, name := range names {
		s := f.outcomes[name]
		base, head := &s.base, &s.head
		if head.unstable() {
			c.Unstable = append(c.Unstable, name)
		}
		if head.misplaced && head.outcome == Pass {
			c.Misplaced = append(c.Misplaced, name)
		}
		var list *[]TestName
		switch {
		case head.bad() && base.outcome == Pass:
			list = &c.Regressed
		case head.bad() && base.bad():
			list = &c.StillFailing
		case head.bad():
			list = &c.NewFailing
		case head.outcome == Pass && base.bad():
			list = &c.Fixed
		case head.outcome == Skip && (base.outcome == Pass || base.bad()): // a failure that is skipped is not mended
			list = &c.NewlySkipped
		case head.outcome == "" && base.outcome != "":
			switch {
			case twice[name.Entry] && base.fails+base.passes < 2 && base.outcome != Skip, addresses[name]:
				c.UnstableName++
			case f.stopped(name) && !f.unwritten(name):
				list = &c.NeverRun
			case f.renamed(name) != "":
				c.Renamed = append(c.Renamed, Renamed{name, f.renamed(name)})
			default:
				list = &c.Removed
			}
		case head.outcome == Pass && base.outcome == "":
			c.Added++
		case head.outcome == Pass && base.outcome == Pass:
			c.PassBoth++
		}
		if list != nil {
			*list = append(*list, name)
		}
	}
	return c
}

// twiceOnBase returns the entries whose plain command ran twice on the base.
func (f *Findings) twiceOnBase() map[string]bool {
	n := map[string]int{}
	for _, r := range f.Runs {
		if r.Side == SideBase && r.State == receipts.StateExited && (r.Plain() || r.Purpose == PurposeRepeat) {
			n[r.Name]++
		}
	}
	twice := map[string]bool{}
	for name := range n {
		twice[name] = n[name] > 1
	}
	return twice
}

var address = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`0x[0-9a-fA-F]{6,16}`) })

// addresses returns the names that are gone from the base and differ from a new
// name of the head in nothing but the addresses in them.
func (f *Findings) addresses(names []TestName) map[TestName]bool {
	spare := map[TestName]int{}
	var gone []TestName
	for _, name := range names {
		if !strings.Contains(name.Name, "0x") || !address().MatchString(name.Name) {
			continue
		}
		s := f.outcomes[name]
		switch {
		case s.base.outcome == "" && s.head.outcome != "":
			spare[plainName(name)]++
		case s.base.outcome != "" && s.head.outcome == "":
			gone = append(gone, name)
		}
	}
	same := map[TestName]bool{}
	for _, name := range gone {
		if key := plainName(name); spare[key] > 0 {
			spare[key]--
			same[name] = true
		}
	}
	return same
}

func plainName(n TestName) TestName {
	return TestName{n.Entry, n.Suite, address().ReplaceAllString(n.Name, "0x"), 0}
}

// stopped reports whether the package of a test did not come to its end on the
// head, so that nothing is known of a test that was not seen there.
func (f *Findings) stopped(n TestName) bool {
	s, ok := f.bad[suiteKey{n.Entry, SideHead, n.Suite}]
	if ok && (s.Outcome == BuildFailed || s.Outcome == Unfinished || s.Kind == kindPanic || s.Kind == kindTimeout) {
		return true
	}
	for _, r := range f.side(n.Entry, SideHead) {
		if r.Plain() && (r.State != receipts.StateExited && r.State != receipts.StateNotRun || r.Tests() == 0) {
			return true
		}
	}
	return ok && f.ended[suiteKey{n.Entry, SideHead, n.Suite}]
}

// unwritten reports whether the head's text has no such Go test where the base's has:
// it is gone, whatever became of its package.
func (f *Findings) unwritten(n TestName) bool {
	if f.trees == nil || f.config == nil {
		return false
	}
	root := TestName{Entry: n.Entry, Suite: n.Suite, Name: rootName(n.Name)}
	if gone, known := f.gone[root]; known {
		return gone
	}
	has := func(side string) bool {
		for i := range f.config.Test {
			e := &f.config.Test[i]
			if e.Name != n.Entry {
				continue
			}
			for _, p := range f.trees.covered(e, parseGoTest(e), side) {
				if p.ImportPath == n.Suite && slices.ContainsFunc(p.Tests, func(t source.GoTest) bool { return t.Name == root.Name }) {
					return true
				}
			}
		}
		return false
	}
	f.gone[root] = has(SideBase) && !has(SideHead)
	return f.gone[root]
}

// renamed returns the name on the head of a Go test that is gone, "" if it has none.
func (f *Findings) renamed(n TestName) string {
	if f.trees == nil {
		return ""
	}
	root := rootName(n.Name)
	r, ok := f.trees.renames[[2]string{n.Suite, root}]
	if !ok {
		return ""
	}
	to := r.To + strings.TrimPrefix(n.Name, root)
	if s := f.outcomes[TestName{n.Entry, cmp.Or(r.In, n.Suite), to, n.Ordinal}]; s != nil && s.head.outcome != "" {
		return strings.TrimSpace(r.In + " " + to)
	}
	return ""
}

// Passed returns the tests that pass on the head, in the order of their names.
func (f *Findings) Passed() []TestName {
	var list []TestName
	for name, s := range f.outcomes {
		if s.head.outcome == Pass {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, TestName.compare)
	return list
}

// Proof is a test that fails on the base's code and passes on the head's.
type Proof struct {
	Test       TestName `json:"test"`
	Kind       string   `json:"kind"` // assertion, panic, did-not-compile, not-finished, error
	Failed     int      `json:"failed"`
	FailedRuns int      `json:"failed_runs"`
	Passed     int      `json:"passed"`
	PassedRuns int      `json:"passed_runs"`
	New        bool     `json:"new"` // the base does not have a test of this name
}

// Stable reports whether every run of the test said the same.
func (p *Proof) Stable() bool { return p.Failed == p.FailedRuns && p.Passed == p.PassedRuns }

// FailToPass returns the tests that prove the change, in the order of their names:
// they fail on the base's code with the head's tests, and pass on the head. Where
// the patch does not change the tests, the base itself is what they fail on. A test
// that a failed parent's subtest explains is listed as well. The list is not to be
// changed.
func (f *Findings) FailToPass() []Proof {
	if f.proofs == nil {
		list := f.failToPass()
		f.proofs = &list
	}
	return *f.proofs
}

func (f *Findings) failToPass() []Proof {
	var list []Proof
	tried := f.triedHybrid()
	dropped := map[suiteKey]func(root string) bool{}
	for _, name := range f.sorted() {
		s := f.outcomes[name]
		if s.head.passes == 0 || s.head.outcome == Skip {
			continue
		}
		side, t := SideBase, &s.base
		if tried[suiteKey{name.Entry, SideHybrid, ""}] || tried[suiteKey{name.Entry, SideHybrid, name.Suite}] {
			side, t = SideHybrid, &s.hybrid
		}
		p := Proof{
			Test: name, Failed: int(t.fails), FailedRuns: int(t.fails + t.passes), Passed: int(s.head.passes), PassedRuns: int(s.head.passes + s.head.fails),
			New: s.base.outcome == "" && f.ran(name.Entry, SideBase),
		}
		key := suiteKey{name.Entry, side, name.Suite}
		if t.outcome == "" && side == SideHybrid && dropped[key] == nil {
			dropped[key] = f.dropped(name.Entry, name.Suite)
		}
		switch {
		case t.outcome == Unfinished && t.passes == 0 && f.ended[key]:
			continue // another test took it along
		case t.fails > 0:
			p.Kind = cmp.Or(t.kind, kindAssertion)
			if t.outcome == Unfinished {
				p.Kind = kindUnfinished
			}
		case t.outcome == "" && side == SideHybrid && s.base.outcome != Pass && !f.trees.renamed[[2]string{name.Suite, rootName(name.Name)}] && f.ran(name.Entry, SideBase) && (dropped[key](rootName(name.Name)) || f.notImported(name)):
			p.Kind, p.Failed, p.FailedRuns = kindNotCompiled, 1, 1
		default:
			continue
		}
		list = append(list, p)
	}
	return list
}

const (
	kindNotCompiled = "did-not-compile"
	kindUnfinished  = "not-finished"
)

// ran reports whether the plain command of an entry came to its end on a side.
func (f *Findings) ran(entry, side string) bool {
	return slices.ContainsFunc(f.Runs, func(r *RunFinding) bool {
		return r.Name == entry && r.Side == side && r.Plain() && r.State == receipts.StateExited && r.Complete
	})
}

// triedHybrid returns the suites whose tests were to be run on the hybrid tree, be it
// that they were or not: of these the base itself proves nothing, since the patch
// changes their tests. Where all are, the suite is "".
func (f *Findings) triedHybrid() map[suiteKey]bool {
	tried := map[suiteKey]bool{}
	if f.trees == nil || !f.trees.own(SideHybrid) {
		return tried
	}
	for _, r := range f.Runs {
		if r.Side == SideHybrid {
			tried[suiteKey{r.Name, SideHybrid, r.Package}] = true
		}
	}
	return tried
}

// dropped returns what tells of the functions of a suite whether their files could
// not be built on the base's code.
func (f *Findings) dropped(entry, suite string) func(root string) bool {
	if s, ok := f.bad[suiteKey{entry, SideHybrid, suite}]; ok && s.Outcome == BuildFailed {
		return func(string) bool { return true }
	}
	functions := map[string]bool{}
	files := f.unbuilt[builtKey{entry, SideHybrid, suite}]
	for i := range f.config.Test {
		e := &f.config.Test[i]
		if e.Name != entry || len(files) == 0 {
			continue
		}
		for _, p := range f.trees.covered(e, parseGoTest(e), SideHead) {
			for _, t := range p.Tests {
				if p.ImportPath == suite && slices.Contains(files, path.Base(t.File)) {
					functions[t.Name] = true
				}
			}
		}
	}
	return func(root string) bool { return functions[root] }
}

// notImported reports whether the module of a test that pytest runs could not be
// imported on the base's code: pytest then reports the module in its place.
func (f *Findings) notImported(n TestName) bool {
	if !slices.ContainsFunc(f.config.Test, func(e TestEntry) bool { return e.Name == n.Entry && e.Format == FormatJUnit && parsePytest(&e) != nil }) {
		return false
	}
	for i, c := range n.Name {
		if c != '.' {
			continue
		}
		if s := f.outcomes[TestName{n.Entry, n.Suite, n.Name[:i], 0}]; s != nil && s.hybrid.bad() && s.head.outcome == "" {
			return true
		}
	}
	return false
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
