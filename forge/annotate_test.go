package forge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// nested is a patch of a Go module below the root of its repository, whose tests are
// run in its folder.
func nested(printed string) fixture.Run {
	r := calculator()
	for _, tree := range []fixture.Files{r.Base, r.Head} {
		for _, name := range []string{"go.mod", "add.go", "add_test.go", "new_test.go", "tax/tax.go", "tax/tax_test.go"} {
			if text, ok := tree[name]; ok {
				tree["services/calc/"+name] = text
				delete(tree, name)
			}
		}
		tree["tax/tax_test.go"] = "another one\n"
		tree["services/calc/tax/testdata/a.txt"] = "1\n"
	}
	r.Config.Test[0].Dir = "services/calc"
	r.Output = func(p verifier.PlannedRun) fixture.Output {
		of := outcomes{fixture.Package: {"TestZero"}, fixture.Package + "/tax": {"TestRate", "TestRound", "TestYear"}}
		if p.Side == verifier.SideHead {
			of[fixture.Package+"/tax"][0] = "TestRate fail"
			of[fixture.Package] = append(of[fixture.Package], "TestAdd")
		}
		return stream(&p, of, map[string]string{"TestRate": printed})
	}
	return r
}

// TestPlace: (golangci-lint-action#31, golangci-lint-action#1228, temporal#6594) a
// failed test is at its path from the root of the repository, wherever its module
// lies and its command runs, and only at a file that the tested tree has.
func TestPlace(t *testing.T) {
	t.Parallel()
	const declared = "services/calc/tax/tax_test.go:5"
	for _, c := range []struct{ printed, want string }{
		{"    tax_test.go:6: no\n", "services/calc/tax/tax_test.go:6"},
		{"    missing_test.go:6: no\n    tax_test.go:7: yes\n", "services/calc/tax/tax_test.go:7"},
		{"panic: no\n\t/usr/lib/go/src/testing/testing.go:1734 +0x3eb\n\t/src/services/calc/add.go:3 +0x1d\n", "services/calc/add.go:3"},
		{"    Error Trace:\t/src/services/calc/tax/tax_test.go:9\n", "services/calc/tax/tax_test.go:9"},
		{"    testdata/a.txt:1: no\n", "services/calc/tax/testdata/a.txt:1"},
		{"", declared},
		{"no line\n", declared},
		{"    ../../../../etc/passwd:6: no\n", declared},
		{"    /etc/passwd:6: no\n", declared},
		{"    /tax_test.go:6: no\n", declared},
		{"    /src/../etc/passwd:6: no\n", declared},
		{"    /src/services/../services/calc/add.go:6: no\n", declared},
		{"    C:\\tax_test.go:6: no\n", declared},
		{"    tax_test.go:0: no\n", declared},
		{"    tax_test.go:99999999: no\n", declared},
		{"    tax_test.go%0A::error::6:1: no\n", declared},
		{"    services/calc/tax/tax_test.go:6: no\n", declared}, // relative to its own package it is not there
	} {
		r := nested(c.printed)
		report := verified(t, r, nil)
		s := section(report)
		f := paged(s).factsOf(&s)
		tests := f.comparison.Regressed
		if len(tests) != 1 {
			t.Fatalf("%v", report.Reasons())
		}
		if at, _ := f.place(tests[0]); at.String() != c.want {
			t.Errorf("%q: at %s, want %s", c.printed, at, c.want)
		}
	}
}

// TestPlaceJUnit: the paths in other reports are relative to the folder of the command.
func TestPlaceJUnit(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]string{
		`File "tests/test_a.py", line 7, in test_a`: "py/tests/test_a.py:7",
		"tests/test_a.py:7: AssertionError":         "py/tests/test_a.py:7",
		"at f (/src/py/tests/test_a.py:7:3)":        "py/tests/test_a.py:7",
		"at f (tests/test_b.py:7:3)":                "",
		"py/tests/test_a.py:7: no":                  "",
	} {
		r := fixture.New()
		r.Texts = true
		r.Base = fixture.Files{"py/tests/test_a.py": "def test_a(): pass\n", "py/a.py": "a = 1\n"}
		r.Head = fixture.Files{"py/tests/test_a.py": "def test_a(): pass\n", "py/a.py": "a = 2\n"}
		r.Config.Test = []verifier.TestEntry{{Name: "py", Run: []string{"t"}, Dir: "py", Format: verifier.FormatJUnit, Report: "r.xml", Timeout: 9}}
		r.Output = func(p verifier.PlannedRun) fixture.Output {
			failure, exit := "", 0
			if p.Side == verifier.SideHead {
				failure, exit = "<failure>"+strings.ReplaceAll(printed, `"`, "&quot;")+"</failure>", 1
			}
			report := `<testsuite name="s"><testcase name="test_a" file="../../evil.py" line="3">` + failure + `</testcase></testsuite>`
			return fixture.Output{Exit: exit, Reports: map[string]string{"r.xml": report}}
		}
		s := section(verified(t, r, nil))
		f := paged(s).factsOf(&s)
		if len(f.comparison.Regressed) != 1 {
			t.Fatalf("%v", s.Report.Reasons())
		}
		at, ok := f.place(f.comparison.Regressed[0])
		if ok != (want != "") || ok && at.String() != want {
			t.Errorf("%q: at %s, want %s", printed, at, want)
		}
	}
}

// TestAnnotationQuota: (mikepenz#1063, big-code-analysis#440) a forge takes ten of a
// level; the tenth says how many more there are, those without a place included.
func TestAnnotationQuota(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 8, 9, 30} {
		r := calculator()
		var on, off []string
		text := "package project\n\nimport \"testing\"\n"
		for i := range n {
			name := fmt.Sprintf("TestN%02d", i)
			on, off = append(on, name), append(off, name+" fail")
			text += "\nfunc " + name + "(t *testing.T) {}\n"
		}
		r.Base["n_test.go"], r.Head["n_test.go"] = text, text
		delete(r.Head, "new_test.go")
		r.Output = func(p verifier.PlannedRun) fixture.Output {
			tests := on
			if p.Side == verifier.SideHead {
				tests = append([]string{"TestGhost fail"}, off...) // no file declares it
			}
			return stream(&p, outcomes{fixture.Package: append(tests, "TestZero"), fixture.Package + "/tax": {"TestRate", "TestRound", "TestYear"}}, nil)
		}
		p := paged(section(verified(t, r, nil)))
		var placed, reasons int
		more := ""
		list := p.Annotations()
		for _, a := range list {
			switch {
			case a.Level != "error":
			case a.Path != "":
				placed++
				if a.Path != "n_test.go" || a.Line < 5 {
					t.Errorf("%+v", a)
				}
			case strings.Contains(a.Message, "more"):
				more = a.Message
			default:
				reasons++
			}
		}
		want := min(n, 9-reasons)
		left := n - want + 1
		if placed != want || more != plural(left, "more is", "more are")+" not shown here: see the summary of the job." {
			t.Errorf("%d tests: %d placed, %d reasons, %q", n, placed, reasons, more)
		}
	}
}

func TestAnnotationText(t *testing.T) {
	t.Parallel()
	a := Annotation{Level: "error", Path: "a,b:c%.go", Line: 3, Title: "x: y, z", Message: "100%\r\n::warning::no"}
	if got, want := a.String(), "::error file=a%2Cb%3Ac%25.go,line=3,title=x%3A y%2C z::100%25%0D%0A::warning::no"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := message(strings.Repeat("🙂", 300), []string{strings.Repeat("🙂", 600)}); len(got) > maxMessage || !strings.HasSuffix(got, "🙂…") {
		t.Errorf("%d bytes, ends with %q", len(got), got[len(got)-8:])
	}
}
