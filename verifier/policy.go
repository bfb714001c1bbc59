package verifier

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// The levels of evidence, the claim ladder. A level includes those below it.
//
//	L0  it ran: stream, exit code and canaries agree, and no signal of a forgery was seen
//	L1  no regression: what passes on the base passes on the head, nothing was removed or skipped
//	L2  fail-to-pass: these tests fail on the base's code and pass on the head's
//	L3  changed lines were executed, x of y
//	L4  mutants of changed lines were killed, k of n
const (
	LevelRan          = 0
	LevelNoRegression = 1
	LevelFailToPass   = 2
	LevelExecuted     = 3
	LevelMutants      = 4
)

// EvidenceConfig says how far a run goes to prove something, and at what cost.
type EvidenceConfig struct {
	Level    int      `json:"level"`              // that the run tries to reach, 0 to 4
	Auto     bool     `json:"auto,omitempty"`     // try level 2 as well where the plain runs were short; see [Judgement.Next]
	Reruns   int      `json:"reruns"`             // how often a fail-to-pass test is run on each side, and a failed one again; 1 to 50
	Mutants  int      `json:"mutants"`            // at most so many, 1 to 500
	Budget   int      `json:"budget_s"`           // of all test runs together; the first run on the head is never cut
	Tests    []string `json:"tests,omitempty"`    // globs of files that belong to the tests, beside those that are known as such
	Unstable []string `json:"unstable,omitempty"` // globs of names of tests that may fail and pass
}

const (
	maxReruns  = 50
	maxMutants = 500
	minBudget  = 1
)

var defaultEvidence = EvidenceConfig{Level: LevelNoRegression, Auto: true, Reruns: 5, Mutants: 40, Budget: 20 * 60}

func (e *EvidenceConfig) check() error {
	switch {
	case e.Level < LevelRan || e.Level > LevelMutants:
		return fieldErrorf("evidence.level", "not one of L0 to L4")
	case e.Auto && e.Level != LevelNoRegression:
		return fieldErrorf("evidence.level", "chosen, and automatic")
	case e.Reruns < 1 || e.Reruns > maxReruns:
		return fieldErrorf("evidence.reruns", "%d is not one of 1 to %d", e.Reruns, maxReruns)
	case e.Mutants < 1 || e.Mutants > maxMutants:
		return fieldErrorf("evidence.mutants", "%d is not one of 1 to %d", e.Mutants, maxMutants)
	case e.Budget < minBudget || e.Budget > maxTimeout:
		return fieldErrorf("evidence.budget", "not between 1s and 6h")
	}
	for _, l := range []struct {
		field string
		globs []string
	}{{"tests", e.Tests}, {"unstable", e.Unstable}} {
		if len(l.globs) > maxList {
			return fieldErrorf("evidence."+l.field, "more than %d globs", maxList)
		}
		for i, glob := range l.globs {
			if err := checkGlob(glob); err != nil {
				return fieldErrorf(fmt.Sprintf("evidence.%s[%d]", l.field, i), "%q: %v", glob, err)
			}
		}
	}
	return nil
}

// budget returns the time that all test runs may take together.
func (e *EvidenceConfig) budget() time.Duration { return time.Duration(e.Budget) * time.Second }

// What a finding does to the verdict.
const (
	PolicyFail   = "fail"   // the patch does not meet the policy
	PolicyWarn   = "warn"   // the report shows it
	PolicyIgnore = "ignore" // the report counts it, no more
)

// IntegrityConfig says what each kind of finding does to the verdict: fail, warn
// or ignore.
type IntegrityConfig struct {
	Removed      string `json:"removed"`         // tests of the base that are gone
	NewlySkipped string `json:"newly_skipped"`   // tests that passed or failed on the base and are skipped now
	StillFailing string `json:"still_failing"`   // tests that fail on the base as well
	ZeroTests    string `json:"zero_tests"`      // packages, or suites, that have no test left
	Weakened     string `json:"weakened"`        // fewer assertions or rows, guards and early ends in tests
	Unstable     string `json:"unstable"`        // tests that fail and pass
	Harness      string `json:"harness_touched"` // TestMain, conftest.py, configuration of a test runner
	CI           string `json:"ci_touched"`
	Build        string `json:"build_touched"`
	Golden       string `json:"golden_touched"`
	Tooling      string `json:"tooling_touched"`
	TestAware    string `json:"test_aware"`       // code that finds out whether it is tested
	BaseTests    string `json:"fails_base_tests"` // tests of the base, as they were, fail on the head's code
	NoFailToPass string `json:"no_fail_to_pass"`  // at level L2 and above: no test proves the change
	NotExecuted  string `json:"not_executed"`     // at level L3 and above: changed lines that no test executed
	Survived     string `json:"survived"`         // at level L4: mutants that no test noticed
}

var defaultIntegrity = IntegrityConfig{
	Removed: PolicyFail, NewlySkipped: PolicyFail, StillFailing: PolicyFail, ZeroTests: PolicyFail,
	Weakened: PolicyWarn, Unstable: PolicyWarn, Harness: PolicyWarn, CI: PolicyWarn, Build: PolicyWarn,
	Golden: PolicyWarn, Tooling: PolicyWarn, TestAware: PolicyWarn, BaseTests: PolicyWarn, NoFailToPass: PolicyWarn,
	NotExecuted: PolicyWarn, Survived: PolicyWarn,
}

// fields returns the fields by the names that they have in a file.
func (c *IntegrityConfig) fields() map[string]*string {
	return map[string]*string{
		"removed": &c.Removed, "newly-skipped": &c.NewlySkipped, "still-failing": &c.StillFailing, "zero-tests": &c.ZeroTests,
		"weakened": &c.Weakened, "unstable": &c.Unstable, "harness-touched": &c.Harness, "ci-touched": &c.CI,
		"build-touched": &c.Build, "golden-touched": &c.Golden, "tooling-touched": &c.Tooling, "test-aware": &c.TestAware, "fails-base-tests": &c.BaseTests,
		"no-fail-to-pass": &c.NoFailToPass, "not-executed": &c.NotExecuted, "survived": &c.Survived,
	}
}

// of returns what the policy does about findings of a code. Those that have no key
// are shown; a canary that stays silent fails.
func (c *IntegrityConfig) of(code string) string {
	switch code {
	case FindCanarySilent:
		return PolicyFail
	case FindHarnessCode:
		return c.Harness
	}
	if field, ok := c.fields()[code]; ok {
		return *field
	}
	return PolicyWarn
}

func (c *IntegrityConfig) check() error {
	fields := c.fields()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch *value {
		case PolicyFail, PolicyWarn, PolicyIgnore:
		default:
			return fieldErrorf("integrity."+name, "%q is not fail, warn or ignore", *value)
		}
	}
	return nil
}
