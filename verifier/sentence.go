package verifier

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sentence says in one sentence what the run proves, with its numbers, and nothing
// that was not observed. Base and head are how the commits are called in it.
func (f *Findings) Sentence(base, head string) string {
	l := &f.Claim
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	baseRan := len(f.plainOn(SideBase)) > 0
	stable := slices.DeleteFunc(slices.Clone(l.FailToPass), func(p Proof) bool { return !p.Stable() })
	if len(stable) > 0 {
		say("%s on base %s and %s on head %s (%s)", plural(len(stable), "test fails", "tests fail"), base, verb(len(stable), "passes", "pass"), head, strings.Join(proofText(stable), ", "))
	}
	if n := len(l.FailToPass) - len(stable); n > 0 {
		say("%s without the change, but not every time", plural(n, "test fails", "tests fail"))
	}
	if len(l.FailToPass) == 0 && baseRan && l.Aimed >= LevelFailToPass && l.Level >= LevelNoRegression {
		say("no test is seen to fail without the change")
	}
	if baseRan {
		say("%s on both", plural(l.PassBoth, "test passes", "tests pass"))
	} else {
		say("%s on head %s; the base was not run", plural(len(f.Passed()), "test passes", "tests pass"), head)
	}
	c := f.Compare()
	for _, n := range []struct {
		count     int
		one, many string
	}{
		{len(c.Regressed), "test fails that passed", "tests fail that passed"},
		{len(c.NewFailing), "new test fails", "new tests fail"},
		{len(c.StillFailing), "test fails on both", "tests fail on both"},
		{len(c.Removed), "test is gone", "tests are gone"},
		{len(c.NewlySkipped), "test is skipped that was not", "tests are skipped that were not"},
		{len(c.NeverRun), "test was not run", "tests were not run"},
	} {
		if n.count > 0 {
			say("%s", plural(n.count, n.one, n.many))
		}
	}
	if l.Covered {
		say("%d of %s executed", l.Executed, plural(l.Instrumented, "changed line", "changed lines"))
	}
	if l.Mutants > 0 {
		say("%d of %s of changed lines killed", l.Killed, plural(l.Mutants, "mutant", "mutants"))
	}
	return strings.Join(parts, "; ")
}

// proofText says how the tests failed, and how often.
func proofText(list []Proof) []string {
	n := map[string]int{}
	failed, passed := list[0].FailedRuns, list[0].PassedRuns
	for i := range list {
		n[list[i].Kind]++
		failed, passed = min(failed, list[i].FailedRuns), min(passed, list[i].PassedRuns)
	}
	var text []string
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		word := kind
		if kind == kindExit {
			word = "exit code alone"
		}
		if len(n) > 1 {
			word = fmt.Sprintf("%d %s", n[kind], word)
		}
		text = append(text, word)
	}
	each := min(failed, passed)
	return append(text, fmt.Sprintf("%d/%d each way", each, each))
}

func plural(n int, one, many string) string { return fmt.Sprintf("%d %s", n, verb(n, one, many)) }

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
