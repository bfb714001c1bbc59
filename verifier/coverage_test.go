package verifier

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestMergeLines: whatever ranges several runs name, a line that one of them executed
// is executed, one that was only missed is missed, and the ranges are in order.
func TestMergeLines(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var have coverRow
		executed, missed := map[int]bool{}, map[int]bool{}
		for range 1 + r.IntN(4) {
			var row coverRow
			for range r.IntN(5) {
				at := lineRange{From: 1 + r.IntN(20)}
				at.To = at.From + r.IntN(5)
				to, of := &row.Executed, executed
				if r.IntN(2) == 0 {
					to, of = &row.Missed, missed
				}
				*to = append(*to, at)
				for line := at.From; line <= at.To; line++ {
					of[line] = true
				}
			}
			mergeLines(&have, &row)
		}
		for line := range 30 {
			in := func(list []lineRange) int {
				n := 0
				for _, r := range list {
					if r.From <= line && line <= r.To {
						n++
					}
				}
				return n
			}
			if got := in(have.Executed) == 1; got != executed[line] {
				t.Fatalf("line %d: executed %t in %+v", line, got, have)
			}
			if got := in(have.Missed) == 1; got != (missed[line] && !executed[line]) {
				t.Fatalf("line %d: missed %t in %+v", line, got, have)
			}
		}
		for _, list := range [][]lineRange{have.Executed, have.Missed} {
			if !slices.IsSortedFunc(list, func(a, b lineRange) int { return a.From - b.From }) {
				t.Fatalf("%+v", have)
			}
		}
	}
}

// TestReadLines: the two kinds of reports, and the names that they give to files.
func TestReadLines(t *testing.T) {
	t.Parallel()
	trees := &Trees{entries: map[string][]TreeEntry{SideHead: {{Path: "a.py"}, {Path: "lib/b.py"}, {Path: "lib/src/b.py"}}}}
	for _, c := range []struct{ dir, name, want string }{
		{".", "a.py", "a.py"},
		{".", "./a.py", "a.py"},
		{".", "/src/a.py", "a.py"},
		{".", "/tmp/box/src/a.py", "a.py"},
		{".", `lib\b.py`, "lib/b.py"},
		{"lib", "b.py", "lib/b.py"},
		{"lib", "a.py", "a.py"},
		{".", "/src/lib/src/b.py", "lib/src/b.py"},
		{".", "../a.py", ""},
		{".", "c.py", ""},
		{".", "/src/c.py", ""},
		{".", "/", ""},
		{".", "", ""},
		{".", strings.Repeat("/x", maxReported+1) + "/a.py", ""},
	} {
		e := &TestEntry{Dir: c.dir}
		got, ok := trees.reported(e, c.name)
		if !ok {
			got = ""
		}
		if got != c.want {
			t.Errorf("%q in %s: %q, want %q", c.name, c.dir, got, c.want)
		}
		if c.want == "" {
			continue
		}
		for kind, text := range map[string]string{
			"LCOV":      "SF:" + c.name + "\nDA:1,1\nend_of_record\n",
			"Cobertura": `<?xml version="1.0"?><coverage><packages><package><classes><class filename="` + c.name + `"><lines><line number="1" hits="1"/></lines></class></classes></package></packages></coverage>`,
		} {
			cover, err := trees.readLines(e, strings.NewReader(text))
			if err != nil || !cover.Has(c.want) {
				t.Errorf("%s: %q: %v", kind, c.name, err)
			}
		}
	}
	for _, text := range []string{"", "<", "x", "TN:\n", "{}"} {
		if cover, err := trees.readLines(&TestEntry{Dir: "."}, strings.NewReader(text)); err == nil || cover != nil {
			t.Errorf("%q: no error", text)
		}
	}
}
