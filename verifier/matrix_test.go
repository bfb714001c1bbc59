package verifier

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

// treeOf returns the entries of a tree of small files, "path content".
func treeOf(files ...string) []TreeEntry {
	var list []TreeEntry
	for _, f := range files {
		name, content, _ := strings.Cut(f, " ")
		object := fmt.Appendf(nil, "blob %d\x00%s", len(content), content)
		sum := receipts.Sum(object)
		list = append(list, TreeEntry{Mode: "100644", ID: sum.String()[:40], Sum: sum, Size: int64(len(content)), Path: name})
	}
	slices.SortFunc(list, func(a, b TreeEntry) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// TestMatrix: which runs follow, of a command that no part can be run of.
func TestMatrix(t *testing.T) {
	t.Parallel()
	base := []string{"lib.py 1", "test_lib.py 1"}
	both := []string{"lib.py 2", "test_lib.py 2"}
	harness := []string{"lib.py 2", "test_lib.py 2", "conftest.py 2"}
	for _, test := range []struct {
		name   string
		head   []string
		sides  Sides
		level  int
		auto   bool
		budget int
		want   string
	}{
		{"L0", harness, Sides{}, 0, false, 100, "head base"},
		{"L1", both, Sides{}, 1, false, 100, "head base"},
		{"L1, harness", harness, Sides{}, 1, false, 100, "head base restored"},
		{"L2", both, Sides{}, 2, false, 100, "head base hybrid restored repeat/head repeat/hybrid"},
		{"L2, code alone", []string{"lib.py 2", "test_lib.py 1"}, Sides{}, 2, false, 100, "head base"},
		{"L2, code alone, a red base", []string{"lib.py 2", "test_lib.py 1"}, Sides{}, 2, false, 100, "head base repeat/head repeat/base"},
		// TestEventuallyTrue of stretchr/testify failed once on the base of fdc6894, where it was busy.
		{"L2, code alone, a base that is red once", []string{"lib.py 2", "test_lib.py 1"}, Sides{}, 2, false, 100, "head base repeat/head repeat/base"},
		{"L2, tests alone", []string{"lib.py 1", "test_lib.py 2"}, Sides{}, 2, false, 100, "head base"},
		{"L2, nothing to compare with", both, Sides{HeadOnly: true}, 2, false, 100, "head base"},
		{"automatic, short", both, Sides{}, 1, true, 20, "head base hybrid restored repeat/head repeat/hybrid"},
		{"automatic, long", both, Sides{}, 1, true, 19, "head base"},
		{"automatic, head only", both, Sides{HeadOnly: true}, 1, true, 100, "head base"},
		{"asked for by the caller", both, Sides{Level: 2}, 1, false, 19, "head base hybrid restored repeat/head repeat/hybrid"},
	} {
		c := DefaultConfig()
		c.Test = []TestEntry{{Name: "unit", Run: []string{"pytest"}, Dir: ".", Format: FormatExit, Timeout: 60}}
		c.Evidence.Level, c.Evidence.Auto, c.Evidence.Budget = test.level, test.auto, test.budget
		trees, err := ReadTrees(treeOf(base...), treeOf(test.head...), &c.Evidence, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		plan := NewPlan(testPatch, testPlan, &c, SourceBase, trees, test.sides, testPlan)
		j := NewJudgement(io.Discard, Judged{Patch: testPatch, Planned: testPlan, Plan: &plan, Config: &c, Trees: trees})
		var got []string
		call := uint64(0)
		for batch := j.Next(); len(batch) > 0; batch = j.Next() {
			for i := range batch {
				p := &batch[i]
				what := p.Side
				if p.Purpose != "" {
					what = p.Purpose + "/" + p.Side
				}
				got = append(got, what)
				call++
				// It fails where the head's tests meet the base's code.
				exit := 0
				if p.Side == SideHybrid || p.Side == SideBase && (strings.HasSuffix(test.name, "red base") || strings.HasSuffix(test.name, "red once") && p.Round == 1) {
					exit = 1
				}
				result := receipts.Result{State: receipts.StateExited, Exit: exit, End: 1000}
				if p.Skip != "" {
					result = receipts.Result{State: receipts.StateNotRun}
				}
				args := receipts.Args{Tool: receipts.ToolTest, Name: p.Name, Side: p.Side, Round: p.Round, Purpose: p.Purpose, Format: p.Format}
				if err := j.Add(p, &TestCall{Call: call, Args: args, Result: result}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %s, want %s", test.name, strings.Join(got, " "), test.want)
		}
		f, err := j.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if proves := strings.Contains(test.want, "hybrid") || strings.HasSuffix(test.name, "red base"); proves != (f.Claim.Level == LevelFailToPass) || proves != strings.Contains(f.Sentence("b", "h"), "1 test fails on base b and passes on head h (exit code alone, 2/2 each way)") {
			t.Errorf("%s: level %d, %s", test.name, f.Claim.Level, f.Sentence("b", "h"))
		}
	}
}

// TestApart: of tests that are run again, one that ends the process does not hide
// the others. Of gin-gonic/gin 472d086 both tests panic on the base's code, and ran
// twice and four times of five together.
func TestApart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ names, alone, want string }{
		{"A B", "", "[[A B]]"},
		{"A B C", "B", "[[B] [A C]]"},
		{"A B", "A B C", "[[A] [B]]"},
		{"", "A", "[]"},
	} {
		if got := fmt.Sprint(apart(strings.Fields(test.names), strings.Fields(test.alone))); got != test.want {
			t.Errorf("%q without %q: %s, want %s", test.names, test.alone, got, test.want)
		}
	}
}
