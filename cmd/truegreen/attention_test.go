package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

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
	printNotes(&out, report)
	var want []string
	for _, name := range gone[:10] {
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
