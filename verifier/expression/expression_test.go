package expression

import (
	"fmt"
	"strings"
	"testing"
)

const report = `{"verdict":"verified","claim":{"level":2,"aimed":2},"runs":[{"name":"unit","network":"none","pass":3},{"name":"web","network":"none","pass":0}],
"compared":{"removed":null},"ratio":1.5,"large":9223372036854775808}`

func TestCheck(t *testing.T) {
	t.Parallel()
	for source, why := range map[string]string{
		`report.claim.level >= 2`:                       "",
		`report.claim.level == 2 && report.ratio > 1.0`: "",
		`report.runs.all(r, r.network == "none")`:       "",
		`report.compared.removed == null`:               "",
		`!has(report.findings)`:                         "",
		`report.verdict.matches("^verified$")`:          "",
		`report.claim.level >= 3`:                       "is not true",
		`report.runs.all(r, r.pass > 0)`:                "is not true",
		`report.runs.exists(r, r.name == "e2e")`:        "is not true",
		`report.nothing`:                                "no such key",
		`report.nothing == null`:                        "no such key",
		`report.claim`:                                  "not true or false",
		`report.verdict`:                                "not true or false",
		`report.verdict > 1`:                            "no such overload",
		`report.claim.level / 0 == 1`:                   "division by zero",
		`report.runs[7].pass > 0`:                       "index out of bounds",
		// Nothing may run long, whatever it is.
		`[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, report.claim.level == 2))))))`: "cost",
	} {
		e, err := Compile([]string{"true", source})
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if err := e.Check([]byte(report)); (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", source, err, why)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"", "(", "1", `"true"`, "now", "report.claim.level >=", "env.HOME == ''", "report == 1", "report.f()", "true; false",
		strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100), "true" + strings.Repeat(" ", 1024),
	} {
		if e, err := Compile([]string{source}); err == nil || e != nil {
			t.Errorf("%q compiles", source)
		}
	}
	if e, err := Compile(nil); err == nil || e != nil {
		t.Error("nothing compiles")
	}
}

func TestNoReport(t *testing.T) {
	t.Parallel()
	e, err := Compile([]string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "[]", "1", "{"} {
		if err := e.Check([]byte(text)); err == nil {
			t.Errorf("%q: true of it", text)
		}
	}
}

// Whatever is compiled ends, and does not panic.
func FuzzExpression(f *testing.F) {
	for _, source := range []string{"report.claim.level >= 2", "report.runs.all(r, r.pass > 0)", `report.verdict.matches("(a+)+$")`, "{1: 2}[1] == 2"} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		e, err := Compile([]string{source})
		if err != nil {
			return
		}
		_ = fmt.Sprint(e.Check([]byte(report)))
	})
}
