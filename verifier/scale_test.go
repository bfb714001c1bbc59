package verifier_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// large returns a run of a repository with so many tests in so many packages, which
// fails some of them on the head, has lost some and gained some. With texts, the
// bundle has the text of the tests, and there is a canary in every package.
func large(tests, packages int, texts bool) fixture.Run {
	r := fixture.New()
	r.Texts = texts
	each := tests / packages
	name := func(n int) string { return fmt.Sprintf("TestThatDoesSomethingOfInterest%05d", n) }
	r.Base = fixture.Files{"go.mod": "module example.com/project\n\ngo 1.26\n", "a.go": "package project\n\nconst A = 1\n"}
	r.Head = fixture.Files{"go.mod": r.Base["go.mod"], "a.go": "package project\n\nconst A = 2\n"}
	for i := range packages {
		var b strings.Builder
		fmt.Fprintf(&b, "package p%d\n\nimport \"testing\"\n", i)
		for n := range each {
			fmt.Fprintf(&b, "\nfunc %s(t *testing.T) {}\n", name(n))
		}
		path := fmt.Sprintf("folder/p%d/p_test.go", i)
		r.Base[path], r.Head[path] = b.String(), b.String()
	}
	r.Output = func(p verifier.PlannedRun) fixture.Output {
		var b strings.Builder
		exit := 0
		named := canariesOf(&p)
		for i := range packages {
			var list []string
			if c := named[fmt.Sprintf("p%d", i)]; c != "" {
				list = append(list, c)
			}
			for n := range each {
				switch {
				case p.Side == verifier.SideHead && n == 7 && i%4 == 0:
					list, exit = append(list, name(n)+" fail"), 1
				case p.Side == verifier.SideHead && n == 8 && i%4 == 1: // gone
				default:
					list = append(list, name(n))
				}
			}
			b.WriteString(fixture.GoTest(fmt.Sprintf("%s/folder/p%d", fixture.Package, i), list...))
		}
		return fixture.Output{Exit: exit, Stdout: b.String()}
	}
	return r
}

// canariesOf returns the tests that are laid over a run, by the package's name.
func canariesOf(p *verifier.PlannedRun) map[string]string {
	names := map[string]string{}
	for _, in := range p.Inputs() {
		if m := overlaid.FindSubmatch(in.Content); m != nil {
			pkg, _, _ := strings.Cut(strings.TrimPrefix(string(in.Content), "package "), "\n")
			names[pkg] = string(m[1])
		}
	}
	return names
}

// TestScale holds the judgement of a repository with 66,742 tests to 200 MB. Who
// makes the run and who verifies it judge with the same code.
func TestScale(t *testing.T) {
	if testing.Short() || verifier.RaceEnabled {
		t.Skip("makes bundles of 66,742 tests, and measures memory")
	}
	const tests, packages = 66_742, 500
	for _, texts := range []bool{false, true} {
		r := large(tests, packages, texts)
		file := bundleOf(t, &r)
		var report verifier.Report
		for _, quick := range []bool{false, true} {
			o := r.Options()
			o.Quick = quick
			start := time.Now()
			peak := heapPeak(100, func() { report = verify(t, file, o) })
			took := time.Since(start)
			start = time.Now()
			live := heapPeak(100, func() {
				if _, err := report.MarshalJSON(); err != nil || report.Sentence() == "" {
					t.Error("nothing to say")
				}
			})
			c := report.Findings().Compare()
			t.Logf("texts %t, quick %t: %.1f MB of heap to verify in %v, %.1f MB more to print in %v; %d regressed, %d gone, L%d",
				texts, quick, float64(peak)/1e6, took.Round(time.Millisecond), float64(live)/1e6, time.Since(start).Round(time.Millisecond), len(c.Regressed), len(c.Removed), report.Findings().Claim.Level)
			if peak+live > 200e6 {
				t.Errorf("%d MB of heap, want at most 200", (peak+live)/1e6)
			}
			if len(c.Regressed) != packages/4 || len(c.Removed) != packages/4 || c.PassBoth != tests/packages*packages-packages/2 {
				t.Errorf("%d regressed, %d gone, %d pass on both", len(c.Regressed), len(c.Removed), c.PassBoth)
			}
		}
	}
}
