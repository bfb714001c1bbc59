package verifier

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

// judged returns the findings of calls, and what makes reasons of them.
func judged(t testing.TB, o output, calls ...TestCall) (*Findings, func() []Reason) {
	t.Helper()
	f, err := judgeCalls(io.Discard, calls, o)
	if err != nil {
		t.Fatal(err)
	}
	args, results := map[uint64]*receipts.Args{}, map[uint64]*receipts.Result{}
	for i := range calls {
		args[calls[i].Call], results[calls[i].Call] = &calls[i].Args, &calls[i].Result
	}
	return f, func() []Reason { return f.judge(args, results) }
}

// TestCompare: what happened to tests between base and head. One that failed and is
// skipped now, as in gotestyourself/gotestsum b9afca8, counts as skipped.
func TestCompare(t *testing.T) {
	t.Parallel()
	o := output{}
	f, _ := judged(t, o,
		o.call(4, "unit", SideBase, FormatGo, 1, goLines("p", "Both pass", "Broke pass", "Mended fail", "Red fail", "Lazy pass", "Gone fail", "Idle skip", "Hushed fail"), ""),
		o.call(5, "unit", SideHead, FormatGo, 1, goLines("p", "Both pass", "Broke fail", "Mended pass", "Red fail", "Lazy skip", "Idle skip", "Hushed skip", "New pass", "NewRed fail"), ""),
		// Other entries and suites do not meet.
		o.call(6, "race", SideHead, FormatGo, 0, goLines("p", "Broke pass"), ""),
		o.call(7, "unit2", SideBase, FormatGo, 0, goLines("q", "Both pass"), ""),
	)
	got := f.Compare()
	name := func(entry, suite string, names ...string) []TestName {
		var list []TestName
		for _, n := range names {
			list = append(list, TestName{Entry: entry, Suite: suite, Name: n})
		}
		return list
	}
	want := Comparison{
		Regressed: name("unit", "p", "Broke"), Fixed: name("unit", "p", "Mended"), StillFailing: name("unit", "p", "Red"),
		NewFailing: name("unit", "p", "NewRed"), NewlySkipped: name("unit", "p", "Hushed", "Lazy"),
		Removed: append(name("unit", "p", "Gone"), name("unit2", "q", "Both")...), Added: 2, PassBoth: 1,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	passed := append(name("race", "p", "Broke"), name("unit", "p", "Both", "Mended", "New")...)
	if got := f.Passed(); !slices.Equal(got, passed) {
		t.Errorf("passed %v, want %v", got, passed)
	}
	if got := fmt.Sprint(TestName{"unit", "p", "A", 2}, TestName{Name: "command"}); got != "p A (occurrence 3) command" {
		t.Errorf("names %q", got)
	}
}

// TestNamesDoNotMeet: no choice of names makes two tests one.
func TestNamesDoNotMeet(t *testing.T) {
	t.Parallel()
	o := output{}
	f, _ := judged(t, o,
		o.call(4, "unit", SideBase, FormatGo, 0, goLines("p\x00a", "b pass")+goLines("p", "a\x00b pass")+goLines("p\x00", "a\x00b pass"), ""),
		o.call(5, "unit", SideHead, FormatGo, 1, goLines("p\x00a", "b fail")+goLines("p", "a\x00b pass")+goLines("p\x00", "a\x00b fail"), ""),
	)
	c := f.Compare()
	if len(c.Regressed) != 2 || c.PassBoth != 1 || c.Regressed[0].Suite != "p\x00" || c.Regressed[1].Suite != "p\x00a" {
		t.Errorf("%+v", c)
	}
}

// TestRounds: of several runs of one entry on one side, the worst counts.
func TestRounds(t *testing.T) {
	t.Parallel()
	o := output{}
	for _, order := range [][2]string{{"Flaky pass", "Flaky fail"}, {"Flaky fail", "Flaky pass"}} {
		first := o.call(4, "unit", SideHead, FormatGo, 0, goLines("p", order[0]), "")
		second := o.call(5, "unit", SideHead, FormatGo, 0, goLines("p", order[1]), "")
		second.Args.Round = 2
		f, _ := judged(t, o, first, second)
		if c := f.Compare(); len(c.NewFailing) != 1 || len(f.Passed()) != 0 {
			t.Errorf("%v: %+v", order, c)
		}
	}
}

// TestContradictions: a signal that the same entry has on the base, in the same
// place, does not disqualify the head.
func TestContradictions(t *testing.T) {
	t.Parallel()
	green := goLines("p", "A pass")
	mute := strings.Replace(green, `"PASS\n"`, `"done\n"`, 1) // no summary of the package
	elsewhere := strings.ReplaceAll(mute, `"p"`, `"q"`)
	o := output{}
	for _, test := range []struct {
		name       string
		base, head string
		exit       int
		want       []Code
	}{
		{"green", green, green, 0, nil},
		{"new signal", green, mute, 0, []Code{UntrustedReport}},
		{"old signal", mute, mute, 0, nil},
		{"signal elsewhere", elsewhere, mute, 0, []Code{UntrustedReport}},
		{"old signal, and one elsewhere", mute, mute + elsewhere, 0, []Code{UntrustedReport}},
		{"exit code of nothing", green, green, 1, []Code{UntrustedReport}},
		{"no output", green, "", 0, []Code{NoTests}},
	} {
		_, judge := judged(t, o, o.call(4, "unit", SideBase, FormatGo, 0, test.base, ""), o.call(5, "unit", SideHead, FormatGo, test.exit, test.head, ""))
		var got []Code
		for _, r := range judge() {
			got = append(got, r.Code)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, judge(), test.want)
		}
	}
	// The base of another entry is no excuse.
	_, judge := judged(t, o, o.call(4, "lint", SideBase, FormatGo, 0, mute, ""), o.call(5, "unit", SideHead, FormatGo, 0, mute, ""))
	if got := judge(); len(got) != 1 || got[0].Code != UntrustedReport {
		t.Errorf("%v", got)
	}
}

// TestDenied: refused calls of nested sandboxes explain a run that failed, unless
// the base does without them, and never make anything of a green one.
func TestDenied(t *testing.T) {
	t.Parallel()
	green, red := goLines("p", "A pass"), goLines("p", "A fail")
	died := strings.Replace(green, `"PASS\n"`, `"done\n"`, 1)
	o := output{}
	call := func(n uint64, side string, exit int, stdout, denied string) TestCall {
		c := o.call(n, "unit", side, FormatGo, exit, stdout, "")
		if denied != "" {
			c.Result.Notes = []receipts.Note{{Name: "gitlinks", Value: "9"}, {Name: NoteDenied, Value: receipts.Bytes(denied)}}
		}
		return c
	}
	for _, test := range []struct {
		name       string
		base, head TestCall
		want       []Code
	}{
		{"red", call(4, SideBase, 0, green, ""), call(5, SideHead, 1, red, "unshare 3"), []Code{TestsFailed, NeedsNested}},
		{"red on both", call(4, SideBase, 1, red, "unshare 3"), call(5, SideHead, 1, red, "unshare 3"), []Code{TestsFailed, NeedsNested}},
		{"red, and the base gets along", call(4, SideBase, 0, green, "unshare 1"), call(5, SideHead, 1, red, "unshare 3"), []Code{TestsFailed}},
		{"red, nothing denied", call(4, SideBase, 0, green, ""), call(5, SideHead, 1, red, ""), []Code{TestsFailed}},
		{"green", call(4, SideBase, 0, green, ""), call(5, SideHead, 0, green, "unshare 3"), nil},
		{"forged", call(4, SideBase, 0, green, ""), call(5, SideHead, 0, died, "unshare 3"), []Code{UntrustedReport}},
		{"failed by exit code", call(4, SideBase, 0, green, ""), call(5, SideHead, 1, green, "unshare 3"), []Code{UntrustedReport}},
	} {
		_, judge := judged(t, o, test.base, test.head)
		var got []Code
		for _, r := range judge() {
			got = append(got, r.Code)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, judge(), test.want)
		}
		test.head.Result.Notes = nil
		if _, without := judged(t, o, test.base, test.head); (len(without()) == 0) != (len(got) == 0) {
			t.Errorf("%s: %v with the note, %v without", test.name, got, without())
		}
	}
	_, judge := judged(t, o, call(5, SideHead, 1, red, "clone 2, unshare 3"))
	if r := judge()[1]; r.Detail != "unit: clone 2, unshare 3" {
		t.Errorf("detail %q", r.Detail)
	}
}

// TestTooManyTests: findings are bounded, and what is beyond the bound is said.
func TestTooManyTests(t *testing.T) {
	t.Parallel()
	f := newFindings()
	if err := f.add(&runRow{Run: 1, Side: SideHead}); err != nil {
		t.Fatal(err)
	}
	f.limit = 2
	for i, want := range []error{nil, nil, errEvidenceLimit, errEvidenceLimit} {
		if err := f.add(&testRow{Of: 1, Ordinal: i, Outcome: Pass}); !errors.Is(err, want) {
			t.Errorf("test %d: %v", i, err)
		}
	}
	if err := f.add(&testRow{Of: 1, Ordinal: 1, Outcome: Pass}); err != nil {
		t.Errorf("a test that is known: %v", err)
	}
}
