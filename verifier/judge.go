package verifier

import (
	"fmt"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier/source"
)

// judgeFindings returns the reasons that are no test's result: what the policy does
// not allow.
func (f *Findings) judgeFindings() []Reason {
	if f.config == nil {
		return nil
	}
	p := &f.config.Integrity
	var reasons []Reason
	because := func(policy string, code Code, list []string) {
		if policy == PolicyFail && len(list) > 0 {
			detail := list[0]
			if len(list) > 1 {
				detail = fmt.Sprintf("%d: %s, …", len(list), list[0])
			}
			reasons = append(reasons, Reason{Code: code, Detail: detail})
		}
	}
	of, named := map[string][]string{}, map[string][]string{}
	for i := range f.Findings {
		x := &f.Findings[i]
		of[x.Code] = append(of[x.Code], x.String())
		named[x.Code] = append(named[x.Code], strings.TrimPrefix(x.String(), x.Code+" "))
	}
	touched := func(class source.Class) []string { return of[string(class)+findTouchedSuffix] }
	// Their codes say what they are.
	because(PolicyFail, CanaryFailed, named[FindCanarySilent])
	because(p.Removed, TestsRemoved, named[FindRemoved])
	because(p.NewlySkipped, TestsSkipped, named[FindNewlySkipped])
	for _, l := range []struct {
		policy string
		list   []string
	}{
		{p.ZeroTests, f.emptied()},
		{p.Weakened, of[FindWeakened]},
		{p.Unstable, of[FindUnstable]},
		{p.Harness, append(touched(source.Harness), of[FindHarnessCode]...)},
		{p.CI, touched(source.CI)},
		{p.Build, touched(source.Build)},
		{p.Golden, touched(source.Golden)},
		{p.Tooling, touched(source.Tooling)},
		{p.TestAware, of[FindTestAware]},
		{p.BaseTests, of[FindBaseTests]},
		{p.NotExecuted, of[FindNotExecuted]},
		{p.Survived, of[FindSurvived]},
	} {
		because(l.policy, PolicyFinding, l.list)
	}
	if p.NoFailToPass == PolicyFail && f.Claim.Aimed >= LevelFailToPass && len(reasons) == 0 {
		if why := f.missesProof(nil); why != "" {
			because(PolicyFail, PolicyFinding, []string{why})
		}
	}
	return reasons
}

// Policy returns what the configuration of the run does about findings of a code:
// fail, warn or ignore.
func (f *Findings) Policy(code string) string {
	if f.config == nil {
		return PolicyWarn
	}
	return f.config.Integrity.of(code)
}

// String returns the finding in one line.
func (x *Finding) String() string {
	parts := []string{x.Code}
	if x.Test.Name != "" || x.Test.Suite != "" {
		parts = append(parts, strings.TrimSpace(x.Test.String()))
	} else if x.Test.Entry != "" {
		parts = append(parts, x.Test.Entry)
	}
	if x.Path != "" {
		at := x.Path
		if x.Line > 0 {
			at += fmt.Sprintf(":%d", x.Line)
		}
		parts = append(parts, at)
	}
	text := strings.Join(parts, " ")
	if x.Detail != "" {
		text += ": " + x.Detail
	}
	return text
}

// emptied returns the suites that have no test left on the head. They may be there,
// and green.
func (f *Findings) emptied() []string {
	left := map[suiteKey]bool{}
	for name, s := range f.outcomes {
		key := suiteKey{name.Entry, SideHead, name.Suite}
		if s.head.outcome != "" {
			left[key] = true
		} else if s.base.outcome != "" {
			left[key] = left[key] || f.stopped(name) || f.renamed(name) != ""
		}
	}
	var list []string
	for key, has := range left {
		if !has {
			list = append(list, "zero-tests "+key.suite)
		}
	}
	slices.Sort(list)
	return list
}

// failures returns the tests of an entry that failed on the head, those that make
// it red and those that do not: they fail on the base as well, in a package that
// passes, or where the policy allows it; or they are unstable, and known to be.
func (f *Findings) failures(entry string) (red, excused []TestName) {
	for name, s := range f.outcomes {
		if name.Entry != entry || !s.head.bad() {
			continue
		}
		_, badSuite := f.bad[suiteKey{entry, SideHead, name.Suite}]
		switch {
		case s.base.bad() && !badSuite && s.head.outcome == Fail,
			s.base.bad() && f.config != nil && f.config.Integrity.StillFailing != PolicyFail,
			s.base.unstable(),
			f.config != nil && MatchPath(f.config.Evidence.Unstable, []string{name.Name}):
			excused = append(excused, name)
		default:
			red = append(red, name)
		}
	}
	slices.SortFunc(red, TestName.compare)
	return red, excused
}

// explained reports whether the exit code of a run, and the suites that did not
// pass, come from tests that are excused.
func (f *Findings) explained(r *RunFinding, excused []TestName) bool {
	if r.Unbuilt > 0 || r.State != receipts.StateExited {
		return false
	}
	suites := map[string]bool{}
	for _, name := range excused {
		suites[name.Suite] = true
	}
	if len(suites) == 0 {
		return false
	}
	for key, row := range f.bad {
		if key.entry == r.Name && key.side == r.Side && row.Outcome != Empty && row.Outcome != Skip && !suites[key.suite] {
			return false
		}
	}
	return true
}

// judge returns the reasons why the patch does not meet the policy. It looks up
// the documents of a run by the number of its call.
func (f *Findings) judge(args map[uint64]*receipts.Args, results map[uint64]*receipts.Result) []Reason {
	var reasons []Reason
	passed, ran := 0, 0
	for _, r := range f.Runs {
		if r.Side != SideHead || !r.Plain() || r.State == receipts.StateNotRun {
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
	return append(reasons, f.judgeFindings()...)
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
	if list := f.redacted(r.Name, results); len(list) > 0 {
		because(RedactedEvidence, "%d tests, such as %s", len(list), list[0])
	}
	if r.Unbuilt > 0 {
		because(BuildBroken, "%d packages", r.Unbuilt)
	}
	red, excused := f.failures(r.Name)
	if len(red) > 0 {
		because(TestsFailed, "%d of %d", len(red), r.Tests())
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
	case (r.Exit != 0 || r.BadSuites > 0) && !f.explained(r, excused):
		because(CommandFailed, "exit code %d, %d suites not green", r.Exit, r.BadSuites)
	case !r.Complete:
		because(UntrustedReport, "the report is not complete")
	case r.Pass == 0:
		because(NoTests, "no test passed")
	}
	return reasons
}

// redactedName is what a secret leaves of a name. No rule knows one as short as that.
const redactedName = "********"

// redacted returns the tests of an entry whose names have a part of a secret, covered
// before anything was kept, in one of its runs: nobody knows any more which they are.
func (f *Findings) redacted(entry string, results map[uint64]*receipts.Result) []string {
	covered := slices.ContainsFunc(f.Runs, func(r *RunFinding) bool {
		if r.Name != entry {
			return false
		}
		result := results[r.Call]
		if r.Imported != nil {
			result = &r.Imported.Call.Result
		}
		return result != nil && (result.Stdout.Covered != nil || slices.ContainsFunc(result.Files, func(x receipts.File) bool { return x.Covered != nil }))
	})
	if !covered {
		return nil
	}
	var list []string
	for name := range f.outcomes {
		if name.Entry == entry && strings.Contains(name.Suite+"\n"+name.Name, redactedName) {
			list = append(list, name.String())
		}
	}
	slices.Sort(list)
	return list
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
		result := results[r.Call]
		if r.Imported != nil {
			result = &r.Imported.Call.Result
		}
		if result != nil {
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
