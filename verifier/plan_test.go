package verifier

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

func planConfig() *Config {
	c := DefaultConfig()
	c.Test = []TestEntry{
		{Name: "unit", Run: []string{"go", "test", "./..."}, Dir: "sub", Format: FormatGo, Timeout: 60, Env: []string{"A=1"}},
		{Name: "docs", Run: []string{"make", "docs"}, Dir: ".", Format: FormatJUnit, Report: "r.xml", Timeout: 5, Paths: []string{"docs/**"}},
	}
	return &c
}

func TestNewPlan(t *testing.T) {
	t.Parallel()
	describe := func(p Plan) string {
		var b strings.Builder
		for _, r := range p.Runs {
			fmt.Fprintf(&b, "%s %s %d %s %q", r.Name, r.Side, r.Round, r.Format, r.Argv)
			if r.Skip != "" {
				fmt.Fprintf(&b, " not run: %s", r.Skip)
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
	const unit = `go ["go" "test" "-json" "-count=1" "./..."]`
	for _, test := range []struct {
		name    string
		changed []string
		sides   Sides
		want    string
	}{
		{"all", []string{"docs/a.md"}, Sides{}, "unit head 1 " + unit + "\nunit base 1 " + unit + "\n" +
			`docs head 1 junit ["make" "docs"]` + "\n" + `docs base 1 junit ["make" "docs"]` + "\n"},
		{"paths", []string{"a.go"}, Sides{}, "unit head 1 " + unit + "\nunit base 1 " + unit + "\n" +
			`docs head 1 junit ["make" "docs"] not run: no changed path matches` + "\n" + `docs base 1 junit ["make" "docs"] not run: no changed path matches` + "\n"},
		{"no base", []string{"docs/a.md"}, Sides{EmptyBase: true}, "unit head 1 " + unit + "\nunit base 1 " + unit + " not run: the base is the empty tree\n" +
			`docs head 1 junit ["make" "docs"]` + "\n" + `docs base 1 junit ["make" "docs"] not run: the base is the empty tree` + "\n"},
		{"head only", []string{"a.go"}, Sides{HeadOnly: true}, "unit head 1 " + unit + "\nunit base 1 " + unit + " not run: the base is not run\n" +
			`docs head 1 junit ["make" "docs"] not run: no changed path matches` + "\n" + `docs base 1 junit ["make" "docs"] not run: no changed path matches` + "\n"},
	} {
		plan := NewPlan(testPatch, testPlan, planConfig(), SourceBase, &Trees{changed: test.changed}, test.sides, testPatch)
		if got := describe(plan); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.want)
		}
		doc, err := receipts.Encode(&plan)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParsePlan(doc)
		if err != nil || !reflect.DeepEqual(got, plan) {
			t.Errorf("%s: read %+v, %v", test.name, got, err)
		}
		test.sides.Level = LevelNoRegression
		if again := got.sides(); again != test.sides {
			t.Errorf("%s: sides %+v, want %+v", test.name, again, test.sides)
		}
	}
}

// TestPlannedNetwork: a run has the ports and the network of its entry, and a
// plan without any is as it was before there were such.
func TestPlannedNetwork(t *testing.T) {
	t.Parallel()
	c := planConfig()
	c.Isolation.Level = 1
	c.Test[0].Connect, c.Test[1].Network = []string{"127.0.0.1:5432"}, NetworkHost
	plan := NewPlan(testPatch, testPlan, c, SourceBase, &Trees{changed: []string{"docs/a"}}, Sides{}, testPatch)
	doc, err := receipts.Encode(&plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"timeout_s":60,"connect":["127.0.0.1:5432"]}`, `"timeout_s":5,"network":"host"}`} {
		if bytes.Count(doc, []byte(want)) != 2 {
			t.Errorf("not twice %s in %s", want, doc)
		}
	}
	for i, want := range []string{"head none", "base none", "head host", "base host"} {
		if got := plan.Runs[i].Side + " " + plan.Runs[i].NetworkName(); got != want {
			t.Errorf("run %d: %s, want %s", i, got, want)
		}
	}
	plain := NewPlan(testPatch, testPlan, planConfig(), SourceBase, &Trees{changed: nil}, Sides{}, testPatch)
	if doc, err := receipts.Encode(&plain); err != nil || bytes.Contains(doc, []byte("network")) || bytes.Contains(doc, []byte("connect")) {
		t.Errorf("%s, %v", doc, err)
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ format, run, want string }{
		{FormatGo, "go test ./...", "go test -json -count=1 ./..."},
		{FormatGo, "go test -json ./...", "go test -count=1 -json ./..."},
		{FormatGo, "go test -count=1 -json", "go test -count=1 -json"},
		{FormatGo, "go test", "go test -json -count=1"},
		{FormatGo, "/usr/local/go/bin/go test ./...", "/usr/local/go/bin/go test -json -count=1 ./..."},
		{FormatGo, "make test", "make test"},
		{FormatGo, "go", "go"},
		{FormatJUnit, "go test ./...", "go test ./..."},
	} {
		got := commandLine(&TestEntry{Format: test.format, Run: strings.Fields(test.run)}, false)
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s as %s: %q, want %q", test.run, test.format, got, test.want)
		}
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	entries := func(list ...string) []TreeEntry {
		var out []TreeEntry
		for _, s := range list {
			f := strings.Fields(s)
			out = append(out, TreeEntry{Path: f[0], Mode: f[1], ID: f[2]})
		}
		return out
	}
	for _, test := range []struct{ base, head, want []string }{
		{nil, nil, nil},
		{[]string{"a 1 x"}, []string{"a 1 x"}, nil},
		{[]string{"a 1 x"}, []string{"a 1 y"}, []string{"a"}},
		{[]string{"a 1 x"}, []string{"a 2 x"}, []string{"a"}},
		{nil, []string{"a 1 x", "b 1 x"}, []string{"a", "b"}},
		{[]string{"a 1 x", "b 1 x"}, nil, []string{"a", "b"}},
		{[]string{"a 1 x", "c 1 x", "e 1 x"}, []string{"b 1 x", "c 1 x", "d 1 x"}, []string{"a", "b", "d", "e"}},
	} {
		if got := Changed(entries(test.base...), entries(test.head...)); !slices.Equal(got, test.want) {
			t.Errorf("%v to %v: %v, want %v", test.base, test.head, got, test.want)
		}
	}
}

// FuzzPlan: a document that can be read is written with the same bytes.
func FuzzPlan(f *testing.F) {
	plan := NewPlan(testPatch, testPlan, planConfig(), SourceDetected, &Trees{changed: []string{"a"}}, Sides{EmptyBase: true}, testPatch)
	plan.NotCovered = []receipts.Bytes{"other/go.mod", "\xff"}
	doc, err := receipts.Encode(&plan)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(doc)
	f.Fuzz(func(t *testing.T, doc []byte) {
		p, err := ParsePlan(doc)
		if err != nil {
			if !reflect.DeepEqual(p, Plan{}) {
				t.Errorf("%+v beside %v", p, err)
			}
			return
		}
		if again, err := receipts.Encode(&p); err != nil || !bytes.Equal(again, doc) {
			t.Errorf("%q becomes %q (%v)", doc, again, err)
		}
	})
}

// TestPlanProgram: the plan says which version made the run, within a bound, and
// the same plan follows from it again.
func TestPlanProgram(t *testing.T) {
	t.Parallel()
	trees, err := ReadTrees(nil, nil, &EvidenceConfig{}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, ok := range map[int]bool{0: true, 1: true, maxProgram: true, maxProgram + 1: false} {
		plan := NewPlan(receipts.Digest{1}, receipts.Digest{2}, planConfig(), SourceBase, trees, Sides{Program: strings.Repeat("v", n)}, receipts.Digest{3})
		doc, err := receipts.Encode(&plan)
		if err != nil {
			t.Fatal(err)
		}
		read, err := ParsePlan(doc)
		if (err == nil) != ok {
			t.Errorf("%d bytes: %v", n, err)
		}
		if !ok {
			continue
		}
		again := NewPlan(receipts.Digest{1}, receipts.Digest{2}, planConfig(), SourceBase, trees, read.sides(), receipts.Digest{3})
		if doc2, err := receipts.Encode(&again); err != nil || !bytes.Equal(doc, doc2) {
			t.Errorf("%d bytes: another plan follows (%v)", n, err)
		}
	}
}
