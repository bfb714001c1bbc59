package verifier

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/truegreen-dev/truegreen/receipts"
)

// A Reproduction is what two runs of one patch come to, test by test.
type Reproduction struct {
	Tests       int              `json:"tests"`    // that were compared, once for each side
	Unstable    int              `json:"unstable"` // that came out both ways in one of the runs, and say nothing
	Differences []TestDifference `json:"differences"`
}

// A TestDifference is a test that came out otherwise, or a command, which has no name of
// a test.
type TestDifference struct {
	Test   TestName `json:"test"`
	Side   string   `json:"side"`
	First  string   `json:"first"` // "" where it was not seen
	Second string   `json:"second"`
}

func (d TestDifference) String() string {
	said := func(s string) string {
		if s == "" {
			return "not seen"
		}
		return s
	}
	name := d.Test.Entry
	for _, part := range []string{d.Test.Suite, d.Test.Name} {
		if part != "" {
			name += " " + part
		}
	}
	return fmt.Sprintf("%s on %s: %s, and again %s", name, d.Side, said(d.First), said(d.Second))
}

var errNotComparable = errors.New("reproduction: the runs are not of one patch, or one of them is not whole")

// CompareRuns compares two runs of one patch by one configuration: the tests of base and
// head, and how a command ended that showed none. Whoever made them may have tried for
// other levels of evidence; what that adds is not compared.
func CompareRuns(first, second Report) (Reproduction, error) {
	a, b := first.get(), second.get()
	if !first.Sound() || !second.Sound() || !samePatch(a.patch, b.patch) || a.seal.Config != b.seal.Config || a.seal.Config.IsZero() {
		return Reproduction{}, errNotComparable
	}
	r := Reproduction{Differences: []TestDifference{}}
	names := maps.Clone(a.findings.outcomes)
	maps.Copy(names, b.findings.outcomes)
	absent := new(sides)
	tested := map[[2]string]bool{} // entries, and sides
	for name := range names {
		x, y := a.findings.outcomes[name], b.findings.outcomes[name]
		if x == nil {
			x = absent
		}
		if y == nil {
			y = absent
		}
		for _, side := range [...]string{SideBase, SideHead} {
			s, t := x.on(side), y.on(side)
			if s.outcome == "" && t.outcome == "" {
				continue
			}
			tested[[2]string{name.Entry, side}] = true
			if s.unstable() || s.misplaced || t.unstable() || t.misplaced {
				r.Unstable++
				continue
			}
			r.Tests++
			if s.outcome != t.outcome {
				r.Differences = append(r.Differences, TestDifference{name, side, string(s.outcome), string(t.outcome)})
			}
		}
	}
	for _, side := range [...]string{SideBase, SideHead} {
		x, y := a.findings.ends(side), b.findings.ends(side)
		entries := maps.Clone(x)
		maps.Copy(entries, y)
		for entry := range entries {
			if !tested[[2]string{entry, side}] && x[entry] != y[entry] {
				r.Differences = append(r.Differences, TestDifference{TestName{Entry: entry}, side, x[entry], y[entry]})
			}
		}
	}
	slices.SortFunc(r.Differences, func(d, e TestDifference) int {
		if c := d.Test.compare(e.Test); c != 0 {
			return c
		}
		return slices.Index([]string{SideBase, SideHead}, d.Side) - slices.Index([]string{SideBase, SideHead}, e.Side)
	})
	return r, nil
}

// samePatch reports whether two patches are of the same trees. The text of the diff
// between them is that of whatever Git made it.
func samePatch(p, q Patch) bool {
	p.Diff, q.Diff = receipts.Digest{}, receipts.Digest{}
	return p == q
}

// ends says how the first plain run of each entry ended on a side.
func (f *Findings) ends(side string) map[string]string {
	ends := map[string]string{}
	for _, r := range f.plainOn(side) {
		if _, ok := ends[r.Name]; !ok {
			ends[r.Name] = fmt.Sprintf("%s with %d", r.State, r.Exit)
		}
	}
	return ends
}

// A counting bundle is one that meets every rule of a gate, with those who count.
type counting struct {
	b  *GateBundle
	by []signer
}

// reproduced reports whether one of the runs was made again, by a signer who is another
// for sure, with the same outcomes.
func reproduced(list []counting) bool {
	for _, again := range list {
		seal, _ := again.b.Report.Seal()
		if seal.Reproduces.IsZero() {
			continue
		}
		for _, first := range list {
			if _, digest := first.b.Report.Seal(); digest != seal.Reproduces || len(distinctSigners(append(slices.Clone(first.by), again.by...))) < 2 {
				continue
			}
			if r, err := CompareRuns(first.b.Report, again.b.Report); err == nil && len(r.Differences) == 0 && r.Tests > 0 {
				return true
			}
		}
	}
	return false
}
