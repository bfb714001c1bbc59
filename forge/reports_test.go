package forge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// verified verifies the bundle of a run that ask has changed the options of.
func verified(t testing.TB, r fixture.Run, ask func(*verifier.Options)) verifier.Report {
	t.Helper()
	file, err := r.Bundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return readReport(t, r, file, ask)
}

func readReport(t testing.TB, r fixture.Run, file []byte, ask func(*verifier.Options)) verifier.Report {
	t.Helper()
	o := r.Options()
	if ask != nil {
		ask(&o)
	}
	report, err := verifier.Verify(bytes.NewReader(file), int64(len(file)), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// calculator is a Go module with two packages and a patch of it: the tests are the
// same on both sides, but for one that is new.
func calculator() fixture.Run {
	r := fixture.New()
	r.Texts = true
	test := func(pkg string, names ...string) string {
		text := "package " + pkg + "\n\nimport \"testing\"\n"
		for _, n := range names {
			text += "\nfunc " + n + "(t *testing.T) {\n\tt.Log(1)\n}\n"
		}
		return text
	}
	r.Base = fixture.Files{
		"go.mod": "module " + fixture.Package + "\n\ngo 1.26\n", "add.go": "package project\n\nfunc Add(a, b int) int { return a - b }\n",
		"add_test.go": test("project", "TestZero"), "tax/tax.go": "package tax\n", "tax/tax_test.go": test("tax", "TestRate", "TestRound", "TestYear"),
	}
	r.Head = fixture.Files{"new_test.go": test("project", "TestAdd")}
	for name, text := range r.Base {
		r.Head[name] = text
	}
	r.Head["add.go"] = "package project\n\nfunc Add(a, b int) int { return a + b }\n"
	return r
}

// Outcomes of a package's tests, as fixture.GoTest takes them.
type outcomes map[string][]string

// stream returns what go test says of the packages, with the canaries of the run.
func stream(p *verifier.PlannedRun, of outcomes, printed map[string]string) fixture.Output {
	var o fixture.Output
	for _, pkg := range []string{fixture.Package, fixture.Package + "/tax"} {
		tests := append([]string{}, of[pkg]...)
		for _, in := range p.Inputs() {
			name, rest, _ := strings.Cut(strings.TrimPrefix(string(in.Content), "package "), "\n")
			if strings.HasPrefix(pkg, fixture.Package+"/") == (name == "tax") {
				if _, rest, ok := strings.Cut(rest, "func Test"); ok {
					name, _, _ := strings.Cut(rest, "(")
					tests = append(tests, "Test"+name)
				}
			}
		}
		var said []string
		for test, out := range printed {
			event := func(output string) string {
				line, _ := json.Marshal(struct{ Action, Package, Test, Output string }{"output", pkg, test, output}) // strings always have an encoding
				return string(line)
			}
			end := strings.TrimSuffix(event("--- FAIL"), `"}`)
			var b strings.Builder
			for line := range strings.Lines(out) {
				b.WriteString(event(line) + "\n")
			}
			said = append(said, end, b.String()+end)
		}
		o.Stdout += strings.NewReplacer(said...).Replace(fixture.GoTest(pkg, tests...))
	}
	if strings.Contains(o.Stdout, `"Action":"fail"`) {
		o.Exit = 1
	}
	return o
}

// green returns a report on a patch with one test that fails on the base's code and
// passes on the head's.
func green(t testing.TB) verifier.Report {
	r := calculator()
	r.Config.Evidence.Level, r.Config.Evidence.Reruns = verifier.LevelFailToPass, 5
	r.Output = func(p verifier.PlannedRun) fixture.Output {
		of := outcomes{fixture.Package: {"TestZero"}, fixture.Package + "/tax": {"TestRate", "TestRound", "TestYear skip"}}
		switch p.Purpose {
		case verifier.PurposeBuild:
			return fixture.Output{Built: p.Side + " binary"}
		case verifier.PurposeCanary:
			for _, a := range p.Argv {
				if name, ok := strings.CutPrefix(string(a), "-test.run="); ok {
					return binary(strings.Trim(name, "^$") + " fail")
				}
			}
		case verifier.PurposePackage:
			return binary(append(fixture.Canaries(p), "TestZero", "TestAdd fail")...)
		case verifier.PurposeRepeat:
			if p.Side == verifier.SideHybrid {
				return binary("TestAdd fail")
			}
			return binary("TestAdd")
		}
		if p.Side == verifier.SideHead {
			of[fixture.Package] = append(of[fixture.Package], "TestAdd")
		}
		return stream(&p, of, nil)
	}
	return verified(t, r, nil)
}

// binary is what a test binary prints that is run by itself.
func binary(tests ...string) fixture.Output {
	var b strings.Builder
	exit, end := 0, "PASS"
	for _, t := range tests {
		name, failed := strings.CutSuffix(t, " fail")
		outcome := "PASS"
		if failed {
			outcome, exit, end = "FAIL", 1, "FAIL"
		}
		fmt.Fprintf(&b, "\x16=== RUN   %s\n\x16--- %s: %[1]s (0.00s)\n\x16=== NAME  \n", name, outcome)
	}
	b.WriteString("\x16" + end + "\n")
	return fixture.Output{Exit: exit, Stdout: b.String()}
}

// red returns a report on a patch that breaks two tests, brings one that fails,
// removes one and skips one.
func red(t testing.TB, ask func(*verifier.Options)) verifier.Report {
	r := calculator()
	r.Head[".github/workflows/test.yml"] = "on: push\n"
	r.Output = func(p verifier.PlannedRun) fixture.Output {
		tax := fixture.Package + "/tax"
		if p.Side == verifier.SideBase {
			return stream(&p, outcomes{fixture.Package: {"TestZero"}, tax: {"TestRate", "TestRound", "TestYear", "TestLeap"}}, nil)
		}
		return stream(&p, outcomes{fixture.Package: {"TestZero fail", "TestAdd fail"}, tax: {"TestRate fail", "TestRound", "TestYear skip"}}, map[string]string{
			"TestZero": "    add_test.go:6: Add(0, 1) = -1, want 1\n",
			"TestRate": "    tax_test.go:6: rate of 2026:\n        got  0.19\n        want 0.16\n",
			"TestAdd":  "panic: runtime error: index out of range [3] with length 3\n\ngoroutine 19 [running]:\ntesting.tRunner.func1.2({0x52e2a0, 0xc0000181b0})\n\t/usr/lib/go/src/testing/testing.go:1734 +0x3eb\nexample.com/project.TestAdd(0xc000003a40)\n\t/src/new_test.go:6 +0x1d\n",
		})
	}
	return verified(t, r, ask)
}

// broken returns a report on a bundle of which one byte was changed.
func broken(t testing.TB) verifier.Report {
	r := fixture.New()
	file, err := r.Bundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, err := fixture.Unpack(file)
	if err != nil {
		t.Fatal(err)
	}
	last := a[len(a)-1]
	content := bytes.Clone(last.Content)
	content[len(content)/2] ^= 1
	if file, err = a.With(last.Name, content).Pack(); err != nil {
		t.Fatal(err)
	}
	return readReport(t, r, file, nil)
}
