package verifier

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier/source"
)

// A Finding is something that needs attention beside the results of the tests.
//
//	removed            a test of the base is gone
//	renamed            it has another name, or its package has
//	never-run          its package did not come to it
//	newly-skipped      it passed or failed on the base and is skipped now
//	unstable           it failed and passed on the same tree
//	order-dependent    it failed when all tests were run in another order
//	ci-dependent       it ends otherwise where nothing tells that it runs in continuous integration
//	suspect-flaky      it regressed and executes no changed line
//	fails-base-tests   a test of the base, as the base has it, fails on the head's code
//	new-not-failing    a new test, or one that was changed, passes without the change as well
//	weakened           a test checks less than on the base
//	harness-code       a change of how tests run, in a test file
//	test-aware         code that finds out whether it is tested
//	harness-touched, ci-touched, build-touched, golden-touched, tooling-touched
//	not-executed       changed lines that no test executed
//	survived           a mutant of a changed line that no test noticed
//	canary-not-failing a test that has to fail did not turn its run red
//	no-control         nothing outside of the tested process was compared with what it says
//	not-measured       what the budget, the kind of command, or a base that does not build left out
type Finding struct {
	Code   string   `json:"code"`
	Test   TestName `json:"test"` // what of it is known
	Path   string   `json:"path,omitempty"`
	Line   int      `json:"line,omitempty"`
	Detail string   `json:"detail,omitempty"`
}

// The codes of findings.
const (
	FindRemoved       = "removed"
	FindRenamed       = "renamed"
	FindNeverRun      = "never-run"
	FindNewlySkipped  = "newly-skipped"
	FindUnstable      = "unstable"
	FindMisplaced     = "order-dependent"
	FindCIDependent   = "ci-dependent"
	FindSuspect       = "suspect-flaky"
	FindBaseTests     = "fails-base-tests"
	FindNotFailing    = "new-not-failing"
	FindWeakened      = "weakened"
	FindHarnessCode   = "harness-code"
	FindTestAware     = "test-aware"
	FindNotExecuted   = "not-executed"
	FindSurvived      = "survived"
	FindCanarySilent  = "canary-not-failing"
	FindNoControl     = "no-control"
	FindNotMeasured   = "not-measured"
	findTouchedSuffix = "-touched"
)

const maxOfFinding = 200 // of one code; the rest is one finding with a count

// A Claim is what a run proves, and how far. Level is the highest rung of the
// ladder up to which nothing is missing, -1 for none.
type Claim struct {
	Level        int     `json:"level"`
	Aimed        int     `json:"aimed"`
	FailToPass   []Proof `json:"fail_to_pass"`
	PassBoth     int     `json:"pass_both"`
	Covered      bool    `json:"covered"` // lines were counted, by the tested process itself
	Executed     int     `json:"lines_executed"`
	Instrumented int     `json:"lines_instrumented"`
	Killed       int     `json:"mutants_killed"`
	Mutants      int     `json:"mutants"`
	Missing      string  `json:"missing,omitempty"` // why the next rung is not reached
}

// conclude draws the conclusions out of what was added.
func (f *Findings) conclude(write func(row any)) {
	n := map[string]int{}
	find := func(x Finding) {
		if n[x.Code]++; n[x.Code] <= maxOfFinding {
			write(&findingRow{
				Finding: x.Code, Entry: x.Test.Entry, Suite: receipts.Bytes(x.Test.Suite), Test: receipts.Bytes(x.Test.Name), Ordinal: x.Test.Ordinal,
				Path: receipts.Bytes(x.Path), Line: x.Line, Detail: receipts.Bytes(cut(x.Detail, maxDetail)),
			})
		}
	}
	c := f.Compare()
	proofs := f.FailToPass()
	f.findTests(&c, proofs, find)
	f.findControls(find)
	if f.trees != nil {
		f.findCode(find)
	}
	f.findLines(find)
	for _, code := range slices.Sorted(maps.Keys(n)) {
		if n[code] > maxOfFinding {
			write(&findingRow{Finding: code, Detail: receipts.Bytes(fmt.Sprintf("and %d more", n[code]-maxOfFinding))})
		}
	}
	f.claim(&c, proofs)
	l := &f.Claim
	write(&claimRow{l.Level, len(l.FailToPass), l.PassBoth, l.Covered, l.Executed, l.Instrumented, l.Killed, l.Mutants})
}

func (f *Findings) findTests(c *Comparison, proofs []Proof, find func(Finding)) {
	for _, list := range []struct {
		code  string
		tests []TestName
	}{
		{FindRemoved, c.Removed}, {FindNeverRun, c.NeverRun}, {FindNewlySkipped, c.NewlySkipped}, {FindUnstable, c.Unstable}, {FindMisplaced, c.Misplaced},
	} {
		for _, name := range list.tests {
			x := Finding{Code: list.code, Test: name}
			if s := f.outcomes[name]; list.code == FindUnstable {
				x.Detail = fmt.Sprintf("failed in %d of %d runs on the head", s.head.fails, s.head.fails+s.head.passes)
			}
			find(x)
		}
	}
	for _, name := range c.Regressed {
		if lines, counted := f.reached[name.Entry]; counted && lines == 0 && !f.testsTouched(name) {
			find(Finding{Code: FindSuspect, Test: name, Detail: "no changed line is executed by the tests that regressed"})
		}
	}
	for _, r := range c.Renamed {
		find(Finding{Code: FindRenamed, Test: r.From, Detail: r.To})
	}
	proves := map[TestName]bool{}
	for i := range proofs {
		proves[proofs[i].Test] = true
	}
	for _, name := range f.sorted() {
		s := f.outcomes[name]
		if s.restored.bad() && s.base.outcome == Pass {
			find(Finding{Code: FindBaseTests, Test: name, Detail: s.restored.kind})
		}
		if o := s.head.withoutCI; o != "" && o != s.head.outcome {
			find(Finding{Code: FindCIDependent, Test: name, Detail: fmt.Sprintf("%s, and %s without CI", s.head.outcome, o)})
		}
		if s.head.outcome == Pass && s.hybrid.outcome == Pass && !proves[name] {
			switch {
			case s.base.outcome == "":
				find(Finding{Code: FindNotFailing, Test: name})
			case s.base.bad():
				find(Finding{Code: FindNotFailing, Test: name, Detail: "it fails on the base, and passes there as the head has it"})
			}
		}
	}
}

// testsTouched reports whether the patch changes the tests of a test's package: they
// can regress by themselves.
func (f *Findings) testsTouched(n TestName) bool {
	if f.trees == nil || f.config == nil {
		return false
	}
	for i := range f.config.Test {
		e := &f.config.Test[i]
		if e.Name != n.Entry {
			continue
		}
		for _, p := range f.trees.covered(e, parseGoTest(e), SideHead) {
			if p.ImportPath == n.Suite {
				return slices.ContainsFunc(f.trees.changed, func(changed string) bool { return f.trees.isTestSide(changed) && belongsTo(changed, &p) })
			}
		}
	}
	return false
}

// findControls tells what stood beside the stream of the tests.
func (f *Findings) findControls(find func(Finding)) {
	expected := map[string]bool{}
	for _, r := range f.Runs {
		at := TestName{Entry: r.Name, Suite: r.Package}
		switch {
		case r.Cut:
			find(Finding{Code: FindNotMeasured, Test: at, Detail: strings.TrimSpace(r.Side+" "+r.Purpose) + ": the budget was used up"})
		case r.Purpose == PurposeCanary && r.State != receipts.StateNotRun:
			for _, s := range r.Signals {
				if s.Code == sigCanarySilent {
					find(Finding{Code: FindCanarySilent, Test: TestName{Entry: r.Name, Suite: s.Suite}, Detail: s.Detail})
				}
			}
			if r.State == receipts.StateExited && !r.has(sigCanarySilent) && (r.Exit == 0 || r.CanariesSeen < r.Canaries) {
				find(Finding{Code: FindCanarySilent, Test: at, Detail: fmt.Sprintf("exit code %d, %d tests failed", r.Exit, r.Fail)})
			}
		case r.Purpose == PurposeCover && r.has(sigNoProfile):
			find(Finding{Code: FindNotMeasured, Test: at, Detail: "executed lines: the test process left no profile"})
		case r.Plain() && r.Side == SideBase && r.Unbuilt > 0:
			find(Finding{Code: FindNotMeasured, Test: at, Detail: fmt.Sprintf("%s not build on the base, and nothing in them can be compared", plural(r.Unbuilt, "package does", "packages do"))})
		case r.Plain() && r.Side == SideHead && r.State != receipts.StateNotRun:
			expected[r.Name] = expected[r.Name] || r.CanariesSeen > 0 || r.Canaries > 0 && !f.seenOrNot(r.Name)
			if n := r.Canaries - r.CanariesSeen; n > 0 && r.Complete && !f.seenOrNot(r.Name) && !slices.ContainsFunc(f.contradictions(r), func(s string) bool { return strings.HasPrefix(s, sigCanaryMissing) }) {
				find(Finding{Code: FindNoControl, Test: at, Detail: fmt.Sprintf("%d of %d packages do not show the tests that were laid over them, on the base as well", n, r.Canaries)})
			}
		}
	}
	for _, r := range f.Runs {
		why := map[string]string{receipts.StateTimeout: "its time was up", receipts.StateSignaled: "it was killed", receipts.StateFailed: "it could not be made", receipts.StateNotFound: "its command was not found"}[r.State]
		if r.Clipped {
			why = "the budget was used up"
		}
		// The plain run on the head is judged by itself, and time that is up kills a mutant.
		if why != "" && (!r.Plain() || r.Side != SideHead) && (r.Purpose != PurposeMutant || r.fate() != mutantKilled) {
			find(Finding{Code: FindNotMeasured, Test: TestName{Entry: r.Name, Suite: r.Package}, Detail: strings.TrimSpace(r.Side+" "+r.Purpose) + ": " + why})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		if !expected[name] {
			find(Finding{Code: FindNoControl, Test: TestName{Entry: name}, Detail: f.uncontrolled(name)})
		}
	}
}

// uncontrolled says why no canary of an entry was to be seen on the head.
func (f *Findings) uncontrolled(entry string) string {
	if f.trees != nil && f.config != nil {
		for i := range f.config.Test {
			if e := &f.config.Test[i]; e.Name == entry && f.trees.controls(e, SideHead) {
				return "no package came to the tests that were laid over it"
			}
		}
	}
	return "no test of truegreen's own could be laid over this command"
}

// hintCodes are the codes of what was found by the text of lines.
var hintCodes = map[source.TextKind]string{source.TextWeaker: FindWeakened, source.TextAware: FindTestAware, source.TextHarness: FindHarnessCode}

// seenOrNot reports whether an entry's control is there only where it was seen: the
// plugins of a tree may be in its way, on the base as well.
func (f *Findings) seenOrNot(entry string) bool {
	return f.config != nil && slices.ContainsFunc(f.config.Test, func(e TestEntry) bool { return e.Name == entry && failingControl(&e) != nil })
}

func (f *Findings) findCode(find func(Finding)) {
	t := f.trees
	for _, class := range []source.Class{source.Harness, source.CI, source.Build, source.Golden, source.Tooling} {
		for _, p := range t.touched[class] {
			find(Finding{Code: string(class) + findTouchedSuffix, Path: p})
		}
	}
	for _, d := range t.weaker {
		detail := string(d.Kind)
		if d.Base != 0 || d.Head != 0 {
			detail += fmt.Sprintf(": %d, then %d", d.Base, d.Head)
		}
		find(Finding{Code: FindWeakened, Test: TestName{Suite: d.Package, Name: d.Func}, Path: d.File, Line: d.Line, Detail: detail})
	}
	for _, a := range t.harness {
		find(Finding{Code: FindHarnessCode, Path: a.File, Line: a.Line, Detail: a.What})
	}
	for _, a := range t.aware {
		find(Finding{Code: FindTestAware, Path: a.File, Line: a.Line, Detail: a.What})
	}
	for _, d := range t.hints {
		detail := "heuristic: " + d.What
		if d.Base != 0 || d.Head != 0 {
			detail += fmt.Sprintf(": %d, then %d", d.Base, d.Head)
		}
		find(Finding{Code: hintCodes[d.Kind], Path: d.File, Line: d.Line, Detail: detail})
	}
}

func (f *Findings) findLines(find func(Finding)) {
	for _, p := range slices.Sorted(maps.Keys(f.lines)) {
		if missed := f.lines[p].Missed; len(missed) > 0 {
			find(Finding{Code: FindNotExecuted, Path: p, Line: missed[0].From, Detail: rangesText(missed)})
		}
	}
	for _, r := range f.Runs {
		if r.Purpose == PurposeMutant && r.fate() == mutantSurvived && r.mutant < len(f.mutants) {
			m := &f.mutants[r.mutant]
			find(Finding{Code: FindSurvived, Path: m.Path, Line: m.Line, Detail: m.Change})
		}
	}
}

func rangesText(list []lineRange) string {
	var b strings.Builder
	for _, r := range list {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		if fmt.Fprintf(&b, "%d", r.From); r.To > r.From {
			fmt.Fprintf(&b, "-%d", r.To)
		}
	}
	return b.String()
}

// What became of a mutant.
const (
	mutantKilled   = "killed"
	mutantSurvived = "survived"
	mutantUnbuilt  = "did not compile"
	mutantUnknown  = "not run"
)

func (r *RunFinding) fate() string {
	switch {
	case r.State == receipts.StateTimeout && !r.Clipped:
		return mutantKilled
	case r.State != receipts.StateExited:
		return mutantUnknown
	case r.Unbuilt > 0:
		return mutantUnbuilt
	case r.Exit == 0 && r.Fail+r.Unfinished == 0 && r.Pass > 0:
		return mutantSurvived
	case r.Exit != 0 && r.Fail+r.Unfinished+r.BadSuites > 0:
		return mutantKilled
	}
	return mutantUnknown
}

// executedLine reports whether a changed line was executed.
func (f *Findings) executedLine(path string, line int) bool {
	return slices.ContainsFunc(f.lines[path].Executed, func(r lineRange) bool { return r.From <= line && line <= r.To })
}

func countLines(list []lineRange) (n int) {
	for _, r := range list {
		n += r.To - r.From + 1
	}
	return n
}

// claim fills in the claim.
func (f *Findings) claim(c *Comparison, proofs []Proof) {
	l := &f.Claim
	*l = Claim{Level: -1, PassBoth: c.PassBoth, FailToPass: []Proof{}}
	l.Aimed = f.aimed
	l.FailToPass = append(l.FailToPass, proofs...)
	for _, row := range f.lines {
		l.Executed += countLines(row.Executed)
		l.Instrumented += countLines(row.Executed) + countLines(row.Missed)
	}
	for _, r := range f.Runs {
		switch {
		case (r.Purpose == PurposeCover || f.countsLines(r)) && r.State == receipts.StateExited && !r.has(sigNoProfile):
			l.Covered = true
		case r.Purpose == PurposeMutant && r.fate() == mutantKilled:
			l.Killed++
			l.Mutants++
		case r.Purpose == PurposeMutant && r.fate() == mutantSurvived:
			l.Mutants++
		}
	}
	for _, rung := range []func(*Comparison) string{f.missesRan, f.missesRegression, f.missesProof, f.missesLines, f.missesMutants} {
		if l.Level+1 > l.Aimed {
			return
		}
		if l.Missing = rung(c); l.Missing != "" {
			return
		}
		l.Level++
	}
}

// countsLines reports whether the configuration names a report of the executed lines
// of a plain run.
func (f *Findings) countsLines(r *RunFinding) bool {
	return r.Plain() && r.Side == SideHead && f.config != nil &&
		slices.ContainsFunc(f.config.Test, func(e TestEntry) bool { return e.Name == r.Name && e.Coverage != "" })
}

func (r *RunFinding) has(code string) bool {
	return slices.ContainsFunc(r.Signals, func(s Signal) bool { return s.Code == code })
}

// missesRan says why it cannot be said that the tests ran and passed.
func (f *Findings) missesRan(*Comparison) string {
	ran := false
	for _, r := range f.Runs {
		if !r.Plain() || r.Side != SideHead || r.State == receipts.StateNotRun {
			continue
		}
		ran = true
		if why := f.redness(r); why != "" {
			return r.Name + ": " + why
		}
	}
	if !ran {
		return "no test command was run on the head"
	}
	for _, x := range f.Findings {
		if x.Code == FindCanarySilent {
			return "a test that has to fail did not turn its run red in " + cmp.Or(x.Test.Suite, x.Test.Entry)
		}
	}
	return ""
}

// redness says why a run is not green, "" if it is.
func (f *Findings) redness(r *RunFinding) string {
	red, excused := f.failures(r.Name)
	switch {
	case r.State != receipts.StateExited:
		return "it did not exit by itself"
	case len(red) > 0:
		return plural(len(red), "test failed", "tests failed")
	case !r.Complete:
		return "the report is not complete"
	case len(f.contradictions(r)) > 0:
		return "the report contradicts itself"
	case (r.Exit != 0 || r.BadSuites > 0) && !f.explained(r, excused):
		return fmt.Sprintf("exit code %d, %d suites not green", r.Exit, r.BadSuites)
	case r.Pass == 0:
		return "no test passed"
	}
	return ""
}

// missesRegression says why it cannot be said that nothing regressed.
func (f *Findings) missesRegression(c *Comparison) string {
	for _, r := range f.Runs {
		if !r.Plain() || r.Side != SideBase {
			continue
		}
		head := f.side(r.Name, SideHead)
		if len(head) == 0 || head[0].State == receipts.StateNotRun {
			continue
		}
		switch {
		case r.State == receipts.StateNotRun:
			return "the base was not run"
		case r.State != receipts.StateExited || !r.Complete:
			return "the run on the base has no end"
		case r.Tests() == 0 && f.controlled(r):
			return "the run on the base shows no test, and the base has some"
		}
	}
	switch {
	case len(f.plainOn(SideBase)) == 0:
		return "there is no base"
	case len(c.Regressed) > 0:
		return plural(len(c.Regressed), "test regressed", "tests regressed")
	case len(c.Removed) > 0:
		return plural(len(c.Removed), "test is gone", "tests are gone")
	case len(c.NewlySkipped) > 0:
		return plural(len(c.NewlySkipped), "test is skipped that was not", "tests are skipped that were not")
	case len(c.NeverRun) > 0:
		return plural(len(c.NeverRun), "test was not run", "tests were not run")
	}
	if f.trees == nil || !f.trees.harnessTouched() {
		return ""
	}
	// What decides how tests run was touched: the base's own have to pass as well.
	if _, ok := f.trees.ids[SideRestored]; !ok {
		return "the patch touches how tests run, and the base's tests cannot be laid beside its code"
	}
	if !f.trees.own(SideRestored) {
		return "" // the head is its own code with the base's tests
	}
	for _, s := range f.outcomes {
		if s.restored.bad() && s.base.outcome == Pass {
			return "the patch touches how tests run, and tests of the base fail on its code"
		}
	}
	for _, base := range f.plainOn(SideBase) {
		restored := f.side(base.Name, SideRestored)
		if !slices.ContainsFunc(restored, func(r *RunFinding) bool {
			return r.Plain() && r.State == receipts.StateExited && r.Complete && (r.Pass > 0 || base.Pass == 0)
		}) && f.ran(base.Name, SideHead) {
			return "the patch touches how tests run, and the base's tests were not run on its code"
		}
	}
	return ""
}

// controlled reports whether a plain run must have shown truegreen's own tests.
func (f *Findings) controlled(r *RunFinding) bool {
	for i := range f.config.Test {
		if e := &f.config.Test[i]; e.Name == r.Name && f.trees != nil {
			return f.trees.controls(e, r.Side)
		}
	}
	return false
}

// plainOn returns the plain runs on a side, of all entries.
func (f *Findings) plainOn(side string) []*RunFinding {
	var list []*RunFinding
	for _, r := range f.Runs {
		if r.Side == side && r.Plain() && r.State != receipts.StateNotRun {
			list = append(list, r)
		}
	}
	return list
}

// missesProof says why it cannot be said that tests prove the change.
func (f *Findings) missesProof(*Comparison) string {
	stable := 0
	for i := range f.Claim.FailToPass {
		if f.Claim.FailToPass[i].Stable() {
			stable++
		}
	}
	switch {
	case stable > 0:
		return ""
	case len(f.Claim.FailToPass) > 0:
		return "the tests that fail without the change do not do so every time"
	}
	return "no test is seen to fail without the change"
}

func (f *Findings) missesLines(*Comparison) string {
	switch {
	case !f.Claim.Covered:
		return "executed lines were not counted"
	case f.Claim.Instrumented == 0:
		return "no changed line can be counted"
	case f.Claim.Executed == 0:
		return "no changed line was executed"
	}
	return ""
}

func (f *Findings) missesMutants(*Comparison) string {
	switch {
	case f.Claim.Mutants == 0:
		return "no mutant was tested"
	case f.Claim.Killed == 0:
		return "no mutant was noticed"
	}
	return ""
}
