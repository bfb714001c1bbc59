package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

func TestDescribed(t *testing.T) {
	t.Parallel()
	test := verifier.TestName{Entry: "go", Suite: "p", Name: "TestA"}
	for _, c := range []struct {
		x    verifier.Finding
		want string
	}{
		{verifier.Finding{Code: "removed", Test: test}, "p TestA: text"},
		{verifier.Finding{Code: "unstable", Test: test, Detail: "1 of 6"}, "p TestA: text: 1 of 6"},
		{verifier.Finding{Code: "canary-not-failing", Test: verifier.TestName{Entry: "go", Suite: "p"}}, "p: text"},
		{verifier.Finding{Code: "no-control", Test: verifier.TestName{Entry: "go"}}, "go: text"},
		{verifier.Finding{Code: "weakened", Test: test, Path: "a_test.go", Line: 7, Detail: "assertions-fewer: 3, then 1"}, "a_test.go:7 TestA: text: fewer assertions: 3, then 1"},
		{verifier.Finding{Code: "survived", Path: "a.go", Line: 7, Detail: "a < b → a <= b"}, "a.go:7: text: a < b → a <= b"},
		{verifier.Finding{Code: "removed", Detail: "and 3 more"}, "and 3 more"},
	} {
		if got := described(&c.x, "text"); got != c.want {
			t.Errorf("%+v: %q, want %q", c.x, got, c.want)
		}
	}
}

func TestGathered(t *testing.T) {
	t.Parallel()
	path := func(p string) verifier.Finding { return verifier.Finding{Code: "ci-touched", Path: p} }
	cut := verifier.Finding{Code: verifier.FindNotMeasured, Test: verifier.TestName{Entry: "go", Suite: "p"}, Detail: "head mutant: the budget was used up"}
	for _, c := range []struct {
		list []verifier.Finding
		want string
	}{
		{[]verifier.Finding{path("a"), path("b")}, "a, b"},
		{[]verifier.Finding{path("a"), path("b"), path("c"), path("d"), path("e"), path("f")}, "a, b, c, d, e, f"},
		{[]verifier.Finding{path("a"), path("b"), path("c"), path("d"), path("e"), path("f"), path("g")}, "a, b, c, d, e, and 2 more"},
		{[]verifier.Finding{path("a"), {Code: "ci-touched", Detail: "and 3 more"}}, "a, and 3 more"},
		{[]verifier.Finding{cut, cut, cut}, "go head mutant (the budget was used up), 3 times"},
		{[]verifier.Finding{{Code: verifier.FindNotMeasured, Test: verifier.TestName{Entry: "go"}, Detail: "1 package does not build"}}, "go 1 package does not build"},
		{[]verifier.Finding{{Code: verifier.FindRenamed, Test: verifier.TestName{Suite: "p", Name: "TestA"}, Detail: "TestB"}}, "p TestA → TestB"},
	} {
		if got := gathered(c.list); got != c.want {
			t.Errorf("%v: %q, want %q", c.list, got, c.want)
		}
	}
}

// TestFindingsText: the gravest first, each at most so often, and what the policy
// ignores in one line.
func TestFindingsText(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	r.Config.Integrity.CI, r.Config.Integrity.Build = verifier.PolicyIgnore, verifier.PolicyFail
	r.Head[".github/workflows/a.yml"], r.Head["go.sum"], r.Head["Makefile"] = "on: push\n", "\n", "all:\n"
	gone := make([]string, 12)
	for i := range gone {
		gone[i] = "TestGone" + string(rune('A'+i))
	}
	r.Output = func(p verifier.PlannedRun) fixture.Output {
		if p.Side == verifier.SideBase {
			return fixture.Output{Stdout: fixture.GoTest(fixture.Package, append(slices.Clone(gone), "TestAdd")...)}
		}
		return fixture.Green(p)
	}
	file, err := r.Bundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	report, err := verifier.Verify(bytes.NewReader(file), int64(len(file)), r.Options())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := &app{out: &out, err: &out, getenv: func(string) string { return "" }}
	a.printFindings(&out, report)
	var want []string
	for _, name := range gone[:maxListed] {
		want = append(want, "removed: "+fixture.Package+" "+name+": it was there on the base")
	}
	want = append(want, "removed: and 2 more", "build-touched: Makefile, go.sum: decides what is built",
		"no-control: unit: what the tests say of themselves is not compared with anything else", "the policy ignores 1 ci-touched")
	got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], "  note      ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("printed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
