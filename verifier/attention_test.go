package verifier

import (
	"testing"
)

func TestDescribed(t *testing.T) {
	t.Parallel()
	test := TestName{Entry: "go", Suite: "p", Name: "TestA"}
	for _, c := range []struct {
		x    Finding
		want string
	}{
		{Finding{Code: "removed", Test: test}, "p TestA: text"},
		{Finding{Code: "unstable", Test: test, Detail: "1 of 6"}, "p TestA: text: 1 of 6"},
		{Finding{Code: "canary-not-failing", Test: TestName{Entry: "go", Suite: "p"}}, "p: text"},
		{Finding{Code: "no-control", Test: TestName{Entry: "go"}}, "go: text"},
		{Finding{Code: "weakened", Test: test, Path: "a_test.go", Line: 7, Detail: "assertions-fewer: 3, then 1"}, "a_test.go:7 TestA: text: fewer assertions: 3, then 1"},
		{Finding{Code: "survived", Path: "a.go", Line: 7, Detail: "a < b → a <= b"}, "a.go:7: text: a < b → a <= b"},
		{Finding{Code: "removed", Detail: "and 3 more"}, "and 3 more"},
	} {
		if got := described(&c.x, "text"); got != c.want {
			t.Errorf("%+v: %q, want %q", c.x, got, c.want)
		}
	}
}

func TestGathered(t *testing.T) {
	t.Parallel()
	path := func(p string) Finding { return Finding{Code: "ci-touched", Path: p} }
	cut := Finding{Code: FindNotMeasured, Test: TestName{Entry: "go", Suite: "p"}, Detail: "head mutant: the budget was used up"}
	for _, c := range []struct {
		list []Finding
		want string
	}{
		{[]Finding{path("a"), path("b")}, "a, b"},
		{[]Finding{path("a"), path("b"), path("c"), path("d"), path("e"), path("f")}, "a, b, c, d, e, f"},
		{[]Finding{path("a"), path("b"), path("c"), path("d"), path("e"), path("f"), path("g")}, "a, b, c, d, e, and 2 more"},
		{[]Finding{path("a"), {Code: "ci-touched", Detail: "and 3 more"}}, "a, and 3 more"},
		{[]Finding{cut, cut, cut}, "go head mutant (the budget was used up), 3 times"},
		{[]Finding{{Code: FindNotMeasured, Test: TestName{Entry: "go"}, Detail: "1 package does not build"}}, "go 1 package does not build"},
		{[]Finding{{Code: FindRenamed, Test: TestName{Suite: "p", Name: "TestA"}, Detail: "TestB"}}, "p TestA → TestB"},
	} {
		if got := gathered(c.list); got != c.want {
			t.Errorf("%v: %q, want %q", c.list, got, c.want)
		}
	}
}
