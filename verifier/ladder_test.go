package verifier_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

const sumLines = 21

// ladder returns a patch of a Go module whose run can reach the top of the ladder:
// 21 lines of a function are changed, one new test notices it, old ones pass on
// both sides, and the tests do not kill seven of the mutants.
func ladder(old, mutants int) fixture.Run {
	r := fixture.New()
	r.Texts = true
	r.Config.Evidence.Level, r.Config.Evidence.Auto, r.Config.Evidence.Mutants = verifier.LevelMutants, false, mutants
	var base, head, tests strings.Builder
	for _, b := range []*strings.Builder{&base, &head} {
		b.WriteString("package sum\n\nfunc Sum(a, b int) int {\n\tn := 0\n")
	}
	for i := range sumLines {
		fmt.Fprintf(&base, "\tn += a - b - %d\n", i)
		fmt.Fprintf(&head, "\tn += a + b + %d\n", i)
	}
	tests.WriteString("package sum\n\nimport \"testing\"\n")
	for i := range old {
		fmt.Fprintf(&tests, "\nfunc TestOld%03d(t *testing.T) {\n\tif Sum(0, 0) < -1000 {\n\t\tt.Error(\"low\")\n\t}\n}\n", i)
	}
	for _, b := range []*strings.Builder{&base, &head} {
		b.WriteString("\treturn n\n}\n")
	}
	r.Base = fixture.Files{"go.mod": "module example.com/project\n\ngo 1.26\n", "sum.go": base.String(), "sum_test.go": tests.String()}
	r.Head = fixture.Files{
		"go.mod": r.Base["go.mod"], "sum.go": head.String(), "sum_test.go": tests.String(),
		"new_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestNew(t *testing.T) {\n\tif Sum(1, 1) < 2 {\n\t\tt.Error(\"low\")\n\t}\n}\n",
	}
	c := climber{old: old}
	r.Output = c.climb
	return r
}

// harnessed is the ladder with a change of how the tests run, so that the base's
// own tests have to pass on the head's code.
func harnessed(old, mutants int) fixture.Run {
	r := ladder(old, mutants)
	r.Base["conftest.py"], r.Head["conftest.py"] = "a = 1\nb = 1\n", "a = 2\nb = 2\n"
	return r
}

// amended is the ladder with a change of an old test that fails on the base: it
// passes on the head because of its own change, and proves nothing.
func amended(old, mutants int) fixture.Run {
	r := ladder(old, mutants)
	r.Head["sum_test.go"] = strings.Replace(r.Base["sum_test.go"], "-1000", "-2000", 1)
	return instead(r, func(p *verifier.PlannedRun, o *fixture.Output) {
		if p.Side == verifier.SideBase {
			o.Stdout, o.Exit = fixture.GoTest(fixture.Package, append(olds(old, " fail"), canaries(p)...)...), 1
		}
	})
}

// unbuilt is the ladder with a new test whose file does not build on the base's code.
func unbuilt(old, mutants int) fixture.Run {
	return instead(ladder(old, mutants), func(p *verifier.PlannedRun, o *fixture.Output) {
		switch {
		case p.Side == verifier.SideHybrid && p.Purpose == verifier.PurposeBuild && p.Round == 1:
			*o = fixture.Output{Exit: 1, Stderr: "# example.com/project\n./new_test.go:6:5: undefined: Sum\n"}
		case p.Side == verifier.SideHybrid && p.Purpose == verifier.PurposePackage:
			*o = binary(olds(old, "")...)
		case p.Side == verifier.SideHybrid && p.Purpose == verifier.PurposeRepeat:
			*o = fixture.Output{Stdout: "testing: warning: no tests to run\n\x16PASS\n"}
		}
	})
}

// byHand is the ladder with a command that nothing can be laid over, on whose hybrid
// tree the package does not build.
func byHand(old, mutants int) fixture.Run {
	r := ladder(old, mutants)
	r.Config.Test[0].Run = []string{"go", "test", "-unknown", "./..."}
	return instead(r, func(p *verifier.PlannedRun, o *fixture.Output) {
		if p.Side == verifier.SideHybrid {
			*o = fixture.Output{Exit: 1, Stdout: fixture.GoBuildFailed(fixture.Package)}
		}
	})
}

// crashing is the ladder with a new test that panics without the change, beside an old
// one that was running.
func crashing(old, mutants int) fixture.Run {
	return instead(ladder(old, mutants), func(p *verifier.PlannedRun, o *fixture.Output) {
		if p.Side != verifier.SideHybrid {
			return
		}
		crash := "\x16=== RUN   TestNew\n\x16--- FAIL: TestNew (0.00s)\npanic: low\n\ngoroutine 7 [running]:\n"
		switch p.Purpose {
		case verifier.PurposePackage:
			o.Stdout, o.Exit = "\x16=== RUN   TestOld000\n\x16=== PAUSE TestOld000\n"+crash, 2
		case verifier.PurposeIsolate:
			*o = binary(olds(old, "")...)
		case verifier.PurposeRepeat:
			o.Stdout, o.Exit = crash, 2
		}
	})
}

// instead changes what runs put out.
func instead(r fixture.Run, change func(p *verifier.PlannedRun, o *fixture.Output)) fixture.Run {
	output := r.Output
	r.Output = func(p verifier.PlannedRun) fixture.Output {
		o := output(p)
		change(&p, &o)
		return o
	}
	return r
}

// olds are the old tests, the first with an outcome.
func olds(n int, first string) (tests []string) {
	for i := range n {
		tests = append(tests, fmt.Sprintf("TestOld%03d", i))
	}
	tests[0] += first
	return tests
}

var ladders = map[string]struct {
	run   func(old, mutants int) fixture.Run
	level int
	text  string // with 9 tests and 10 mutants
}{
	"ladder":    {ladder, 4, "1 test fails on base B and passes on head H (assertion, 5/5 each way); 9 tests pass on both; 21 of 21 changed lines executed; 3 of 10 mutants of changed lines killed"},
	"harnessed": {harnessed, 4, "1 test fails on base B and passes on head H (assertion, 5/5 each way); 9 tests pass on both; 21 of 21 changed lines executed; 3 of 10 mutants of changed lines killed"},
	"amended":   {amended, 4, "1 test fails on base B and passes on head H (assertion, 5/5 each way); 8 tests pass on both; 21 of 21 changed lines executed; 3 of 10 mutants of changed lines killed"},
	"unbuilt":   {unbuilt, 4, "1 test fails on base B and passes on head H (did-not-compile, 1/1 each way); 9 tests pass on both; 21 of 21 changed lines executed; 3 of 10 mutants of changed lines killed"},
	"by hand":   {byHand, 2, "1 test fails on base B and passes on head H (did-not-compile, 1/1 each way); 9 tests pass on both"},
	"crashing":  {crashing, 4, "1 test fails on base B and passes on head H (panic, 5/5 each way); 9 tests pass on both; 21 of 21 changed lines executed; 3 of 10 mutants of changed lines killed"},
}

var overlaid = regexp.MustCompile(`func (Test\w+)\(`)

// canaries returns the names of the tests that are laid over a run's package.
func canaries(p *verifier.PlannedRun) (names []string) {
	for _, in := range p.Inputs() {
		for _, m := range overlaid.FindAllSubmatch(in.Content, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}

// A climber says what the runs of a ladder come to when all goes well.
type climber struct{ old, mutants int }

func (c *climber) climb(p verifier.PlannedRun) fixture.Output {
	tests := append(olds(c.old, ""), canaries(&p)...)
	whole := func(tests []string) fixture.Output {
		o := fixture.Output{Stdout: fixture.GoTest(fixture.Package, tests...)}
		if strings.Contains(o.Stdout, `"Action":"fail"`) {
			o.Exit = 1
		}
		return o
	}
	switch p.Purpose {
	case verifier.PurposeBuild:
		return fixture.Output{Built: p.Side + " binary"}
	case verifier.PurposeCanary:
		return binary(strings.Trim(flagOf(&p, "-test.run="), "^$") + " fail")
	case verifier.PurposePackage:
		return binary(append(tests, "TestNew fail")...)
	case verifier.PurposeRepeat:
		if p.Side == verifier.SideHybrid {
			return binary("TestNew fail")
		}
		if flagOf(&p, "-test.run=") == "" {
			return binary(append(tests, "TestNew")...)
		}
		return binary("TestNew")
	case verifier.PurposeMutant:
		if c.mutants++; c.mutants <= 7 {
			return whole(append(tests, "TestNew"))
		}
		return whole(append(tests, "TestNew fail"))
	}
	if p.Side == verifier.SideHead {
		tests = append(tests, "TestNew")
	}
	o := whole(tests)
	if p.Purpose == verifier.PurposeCover {
		o.Reports = map[string]string{"cover.out": fmt.Sprintf("mode: set\n%s/sum.go:5.2,%d.20 %d 1\n", fixture.Package, sumLines+4, sumLines)}
	}
	return o
}

func flagOf(p *verifier.PlannedRun, name string) string {
	for _, a := range p.Argv {
		if v, ok := strings.CutPrefix(string(a), name); ok {
			return v
		}
	}
	return ""
}

// binary is what a test binary prints that is run by itself.
func binary(tests ...string) fixture.Output {
	var b strings.Builder
	exit, end := 0, "PASS"
	for _, t := range tests {
		name, outcome, _ := strings.Cut(t, " ")
		outcome = strings.ToUpper(cmp.Or(outcome, "pass"))
		if outcome == "FAIL" {
			exit, end = 1, "FAIL"
		}
		fmt.Fprintf(&b, "\x16=== RUN   %s\n\x16--- %s: %[1]s (0.00s)\n\x16=== NAME  \n", name, outcome)
	}
	b.WriteString("\x16" + end + "\n")
	return fixture.Output{Exit: exit, Stdout: b.String()}
}

// kind names the runs that are removed together.
func kind(p *verifier.PlannedRun) string { return strings.TrimSpace(p.Side + " " + p.Purpose) }

// try judges a run whose output is another one for the kinds that are named.
func try(t *testing.T, r fixture.Run, fault func(fixture.Output) fixture.Output, kinds map[string]bool) fixture.Trial {
	t.Helper()
	output := r.Output
	r.Output = func(p verifier.PlannedRun) fixture.Output {
		o := output(p)
		if kinds[kind(&p)] {
			o = fault(o)
		}
		return o
	}
	trial, err := r.Try()
	if err != nil {
		t.Fatal(err)
	}
	return trial
}

const ladderText = "1 test fails on base c58770e and passes on head a2b2b32 (assertion, 5/5 each way); 199 tests pass on both; " +
	"21 of 21 changed lines executed; 20 of 27 mutants of changed lines killed"

func TestSentenceFull(t *testing.T) {
	t.Parallel()
	r := ladder(199, 27)
	if got := try(t, r, nil, nil).Findings.Sentence("c58770e", "a2b2b32"); got != ladderText {
		t.Errorf("%q", got)
	}
	for name, l := range ladders {
		f := try(t, l.run(9, 10), nil, nil).Findings
		if got := f.Sentence("B", "H"); got != l.text || f.Claim.Level != l.level {
			t.Errorf("%s: L%d, missing %q, %s", name, f.Claim.Level, f.Claim.Missing, got)
		}
	}
}

// faults are what can become of a run beside its result.
var faults = map[string]func(fixture.Output) fixture.Output{
	"budget": func(fixture.Output) fixture.Output {
		return fixture.Output{State: receipts.StateNotRun, Why: verifier.SkipBudget, Level: -1}
	},
	"failed": func(fixture.Output) fixture.Output {
		return fixture.Output{State: receipts.StateFailed, Why: "no memory for it", Level: -1}
	},
	"silent": func(fixture.Output) fixture.Output { return fixture.Output{} },
	"killed": func(o fixture.Output) fixture.Output {
		o.State, o.Signal, o.Exit, o.Built, o.Reports = receipts.StateSignaled, "SIGKILL", 0, "", nil
		return o
	},
	"killed half-way": func(o fixture.Output) fixture.Output {
		return fixture.Output{State: receipts.StateSignaled, Signal: "SIGKILL", Stdout: half(o.Stdout)}
	},
	"timed out": func(o fixture.Output) fixture.Output {
		return fixture.Output{State: receipts.StateTimeout, Stdout: half(o.Stdout)}
	},
	"clipped": func(o fixture.Output) fixture.Output {
		return fixture.Output{State: receipts.StateTimeout, Stdout: half(o.Stdout), Wall: 1}
	},
}

// half returns the first half of a stream, in whole lines, with a test begun.
func half(s string) string {
	s = s[:len(s)/2]
	for _, mark := range []string{`{"Action":"output"`, "\x16--- "} {
		if i := strings.LastIndex(s, mark); i >= 0 {
			return s[:i]
		}
	}
	return s
}

// A claimed is what a sentence says, by its numbers.
type claimed struct {
	level              int
	proofs, each, both int
	executed, lines    int
	killed, mutants    int
	sentence           string
	stable             []string
}

var clauses = []struct {
	text *regexp.Regexp
	to   func(c *claimed) []*int
}{
	{regexp.MustCompile(`^(\d+) tests? fails? on base B and pass(?:es)? on head H \([a-z0-9, -]+, (\d+)/\d+ each way\)$`), func(c *claimed) []*int { return []*int{&c.proofs, &c.each} }},
	{regexp.MustCompile(`^(\d+) tests? pass(?:es)? on both$`), func(c *claimed) []*int { return []*int{&c.both} }},
	{regexp.MustCompile(`^(\d+) of (\d+) changed lines? executed$`), func(c *claimed) []*int { return []*int{&c.executed, &c.lines} }},
	{regexp.MustCompile(`^(\d+) of (\d+) mutants? of changed lines killed$`), func(c *claimed) []*int { return []*int{&c.killed, &c.mutants} }},
}

var weaknesses = regexp.MustCompile(`^(\d+ tests? fails? without the change, but not every time` +
	`|no test is seen to fail without the change|\d+ tests? pass(es)? on head H; the base was not run|the base was not run|\d+ tests? pass(es)? on head H` +
	`|\d+ tests? (is gone|are gone|was not run|were not run|fails? on both|fails? that passed|is skipped that was not|are skipped that were not)|\d+ new tests? fails?)$`)

// claimOf reads the sentence of a judgement, clause by clause.
func claimOf(t *testing.T, f *verifier.Findings) claimed {
	t.Helper()
	c := claimed{level: f.Claim.Level, sentence: f.Sentence("B", "H")}
clause:
	for _, text := range strings.Split(c.sentence, "; ") {
		for _, known := range clauses {
			if m := known.text.FindStringSubmatch(text); m != nil {
				for i, to := range known.to(&c) {
					*to, _ = strconv.Atoi(m[i+1])
				}
				continue clause
			}
		}
		if !weaknesses.MatchString(text) {
			t.Errorf("a clause that no one knows: %q", text)
		}
	}
	if strings.Contains(c.sentence, "0 of 0 ") {
		t.Errorf("it counts what was not measured: %q", c.sentence)
	}
	for i := range f.Claim.FailToPass {
		if p := &f.Claim.FailToPass[i]; p.Stable() {
			c.stable = append(c.stable, p.Test.Name)
		}
	}
	return c
}

// stronger says in what c claims more than d, "" if in nothing.
func (c *claimed) stronger(d *claimed) string {
	for _, n := range []struct {
		what string
		c, d int
	}{
		{"level", c.level, d.level}, {"tests that fail without the change", c.proofs, d.proofs}, {"times", c.each, d.each}, {"tests on both", c.both, d.both},
		{"lines executed", c.executed, d.executed}, {"lines", c.lines, d.lines}, {"mutants killed", c.killed, d.killed}, {"mutants", c.mutants, d.mutants},
	} {
		if n.c > n.d {
			return fmt.Sprintf("%s: %d, and %d before", n.what, n.c, n.d)
		}
	}
	for _, name := range c.stable {
		if !slices.Contains(d.stable, name) {
			return name + " fails without the change"
		}
	}
	return ""
}

// needs are the kinds of runs without which a sentence cannot have a number.
func (c *claimed) needs() map[string]int {
	return map[string]int{
		"head": c.level + 1 + c.proofs + c.both, "base": c.both + max(0, c.level), "hybrid package": c.proofs + max(0, c.level-1), "hybrid build": c.proofs + max(0, c.level-1),
		"head cover": c.executed + c.lines + c.mutants + max(0, c.level-2), "head mutant": c.killed + c.mutants + max(0, c.level-3),
	}
}

// TestSentenceWeakens removes the runs of a ladder, and sees the claim weaken: each
// run alone, each kind and pair of kinds, and all kinds one after another. Whatever is added to what is gone,
// nothing is claimed that was not claimed before, and nothing whose run is gone.
func TestSentenceWeakens(t *testing.T) {
	t.Parallel()
	if verifier.RaceEnabled {
		t.Skip("takes long with the race detector, and has no goroutines")
	}
	for name, l := range ladders {
		make := l.run
		full := try(t, make(9, 10), nil, nil)
		top := claimOf(t, full.Findings)
		var kinds []string
		for i := range full.Made {
			if k := kind(&full.Made[i]); !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
		for fault, change := range faults {
			t.Run(name+"/"+fault, func(t *testing.T) {
				t.Parallel()
				for i := range full.Made {
					if fault == "budget" && !full.Made[i].Cuttable() || fault == "timed out" && full.Made[i].Purpose == verifier.PurposeMutant {
						continue
					}
					if k := kind(&full.Made[i]); fault == "silent" && (k == "head canary" || k == "base" && name == "by hand") {
						continue
					}
					r := make(9, 10)
					output, n := r.Output, 0
					r.Output = func(p verifier.PlannedRun) fixture.Output {
						o := output(p)
						if n++; n == i+1 {
							o = change(o)
						}
						return o
					}
					trial, err := r.Try()
					if err != nil {
						t.Fatal(err)
					}
					c := claimOf(t, trial.Findings)
					if why := c.stronger(&top); why != "" {
						t.Errorf("without run %d, %s: %s: L%d %s", i, kind(&full.Made[i]), why, c.level, c.sentence)
					}
				}
				sets := map[int]claimed{}
				var chosen []int // all pairs, and orders in which all kinds go one after another
				for i := range kinds {
					for k := range i + 1 {
						if k < i && name != "ladder" && fault != "budget" {
							continue
						}
						chosen = append(chosen, 1<<i|1<<k)
					}
				}
				if chains := 4; fault == "budget" && !testing.Short() {
					rnd := rand.New(rand.NewPCG(1, 2))
					for range chains {
						set := 0
						for _, i := range rnd.Perm(len(kinds)) {
							set |= 1 << i
							chosen = append(chosen, set)
						}
					}
				}
				slices.Sort(chosen) // a part of a set comes before it
				for _, set := range slices.Compact(append([]int{0}, chosen...)) {
					gone := map[string]bool{}
					for i, k := range kinds {
						gone[k] = set&(1<<i) != 0
					}
					switch { // what is no loss of evidence, but evidence
					case fault == "budget" && gone["head"], // never happens
						fault == "silent" && gone["head canary"],                           // it ran, and was not red
						fault == "silent" && gone["base"] && name == "by hand",             // it ran, and had no tests
						(fault == "timed out" || fault == "silent") && gone["head mutant"]: // the mutants that survive are gone
						continue
					}
					c := claimOf(t, try(t, make(9, 10), change, gone).Findings)
					sets[set] = c
					for i := range kinds {
						if before, ok := sets[set&^(1<<i)]; ok && set&(1<<i) != 0 {
							if why := c.stronger(&before); why != "" {
								t.Errorf("%v and then %s: %s:\nL%d %s\nL%d %s", gone, kinds[i], why, before.level, before.sentence, c.level, c.sentence)
							}
						}
					}
					for k, n := range c.needs() {
						if name == "unbuilt" && k == "hybrid package" {
							continue // the build is what fails
						}
						if gone[k] && n > 0 && (fault == "budget" || fault == "failed") {
							t.Errorf("without %s: L%d %s", k, c.level, c.sentence)
						}
					}
				}
			})
		}
	}
}

// TestEachEntryRestored: where the patch touches how tests run, the base's own tests
// have to pass on the head's code in every entry.
func TestEachEntryRestored(t *testing.T) {
	t.Parallel()
	for _, cut := range []string{"", "unit", "more"} {
		r := harnessed(3, 3)
		r.Config.Evidence.Level = verifier.LevelNoRegression
		more := r.Config.Test[0]
		more.Name = "more"
		r.Config.Test = append(r.Config.Test, more)
		r = instead(r, func(p *verifier.PlannedRun, o *fixture.Output) {
			if p.Side == verifier.SideRestored && p.Name == cut {
				*o = faults["budget"](*o)
			}
		})
		f := try(t, r, nil, nil).Findings
		if want := map[bool]int{true: verifier.LevelNoRegression, false: verifier.LevelRan}[cut == ""]; f.Claim.Level != want {
			t.Errorf("without %q: L%d, missing %q", cut, f.Claim.Level, f.Claim.Missing)
		}
	}
}
