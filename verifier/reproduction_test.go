package verifier_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

func reportOf(t *testing.T, run fixture.Run) verifier.Report {
	t.Helper()
	file, err := run.Bundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := verifier.Verify(bytes.NewReader(file), int64(len(file)), run.Options())
	if err != nil || !r.Sound() {
		t.Fatal(r.Reasons(), err)
	}
	return r
}

func TestCompareRuns(t *testing.T) {
	t.Parallel()
	onHead := func(tests ...string) func(*fixture.Run) {
		return func(r *fixture.Run) {
			r.Output = fixture.OnHead(fixture.Output{Stdout: fixture.GoTest(fixture.Package, tests...)})
		}
	}
	for name, c := range map[string]struct {
		edit func(*fixture.Run)
		want []string
	}{
		"the same":     {func(*fixture.Run) {}, nil},
		"another time": {func(r *fixture.Run) { r.Job[0] ^= 1; r.Salt[0] ^= 1 }, nil},
		"one fails": {func(r *fixture.Run) {
			r.Output = fixture.OnHead(fixture.Output{Exit: 1, Stdout: fixture.GoTest(fixture.Package, "TestAdd fail", "TestSum")})
		}, []string{"unit " + fixture.Package + " TestAdd on head: pass, and again fail"}},
		"one is gone": {onHead("TestAdd"), []string{"unit " + fixture.Package + " TestSum on head: pass, and again not seen"}},
		"one is new":  {onHead("TestAdd", "TestSum", "TestX"), []string{"unit " + fixture.Package + " TestX on head: not seen, and again pass"}},
		"both sides": {func(r *fixture.Run) {
			r.Output = func(verifier.PlannedRun) fixture.Output {
				return fixture.Output{Stdout: fixture.GoTest(fixture.Package, "TestAdd skip")}
			}
		},
			[]string{"unit " + fixture.Package + " TestAdd on base: pass, and again skip", "unit " + fixture.Package + " TestAdd on head: pass, and again skip",
				"unit " + fixture.Package + " TestSum on head: pass, and again not seen"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			second := fixture.New()
			c.edit(&second)
			r, err := verifier.CompareRuns(reportOf(t, fixture.New()), reportOf(t, second))
			var got []string
			for _, d := range r.Differences {
				got = append(got, d.String())
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %q, %v", got, err)
			}
			if r.Tests < 3 {
				t.Errorf("%d tests", r.Tests)
			}
		})
	}
	// Commands that show no tests are compared by how they end.
	small := fixture.Small()
	red := fixture.Small()
	red.Output = func(verifier.PlannedRun) fixture.Output { return fixture.Output{Exit: 3} }
	if r, err := verifier.CompareRuns(reportOf(t, small), reportOf(t, red)); err != nil || len(r.Differences) == 0 {
		t.Errorf("a command that fails: %+v, %v", r, err)
	}
	// What is not of one patch and configuration is not compared.
	first := reportOf(t, fixture.New())
	other := fixture.New()
	other.Head = fixture.Files{"add.go": "package project\n"}
	configured := fixture.New()
	configured.Config.Test[0].Timeout++
	for name, second := range map[string]verifier.Report{"another patch": reportOf(t, other), "another configuration": reportOf(t, configured), "nothing": {}} {
		if r, err := verifier.CompareRuns(first, second); err == nil || r.Differences != nil {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestGateReproduced: a run that was made again counts if it names the first, came out the
// same, and is somebody else's.
func TestGateReproduced(t *testing.T) {
	t.Parallel()
	_, digest := newGate(t).bundleOf("first", fixture.New(), nil, "alice").Report.Seal()
	for name, c := range map[string]struct {
		edit func(*fixture.Run)
		by   string
		want []verifier.Code
	}{
		"made again":  {func(r *fixture.Run) { r.Statement.Reproduces = digest }, "bob", nil},
		"by the same": {func(r *fixture.Run) { r.Statement.Reproduces = digest }, "alice", []verifier.Code{verifier.NoReproduction}},
		"of another":  {func(r *fixture.Run) { r.Statement.Reproduces = receipts.Sum(nil) }, "bob", []verifier.Code{verifier.NoReproduction}},
		"of none":     {func(*fixture.Run) {}, "bob", []verifier.Code{verifier.NoReproduction}},
		"with more tests": {func(r *fixture.Run) {
			r.Statement.Reproduces = digest
			r.Output = fixture.OnHead(fixture.Output{Stdout: fixture.GoTest(fixture.Package, "TestAdd", "TestSum", "TestX")})
		}, "bob", []verifier.Code{verifier.NoReproduction}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again := fixture.New()
			c.edit(&again)
			g := newGate(t)
			g.Policy.Reproduced = true
			g.Bundles = []verifier.GateBundle{g.bundleOf("first", fixture.New(), nil, "alice"), g.bundleOf("again", again, nil, c.by)}
			var got []verifier.Code
			for _, r := range g.Decide().Reasons() {
				got = append(got, r.Code)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
