package source

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func describeDeltas(deltas []GoDelta, renamed []GoRename) string {
	var b strings.Builder
	for _, d := range deltas {
		fmt.Fprintf(&b, "%s %s %s %s:%d %d>%d\n", d.Package, d.Func, d.Kind, d.File, d.Line, d.Base, d.Head)
	}
	for _, r := range renamed {
		fmt.Fprintf(&b, "%s %s renamed %s\n", r.Package, r.From, strings.TrimSpace(r.In+" "+r.To))
	}
	return b.String()
}

// body makes a function with that body.
func body(name string, lines ...string) string {
	return "func " + name + "(t *testing.T) {\n\t" + strings.Join(lines, "\n\t") + "\n}"
}

func TestGoDeltas(t *testing.T) {
	t.Parallel()
	file := func(functions ...string) []File {
		return tree("go.mod", "module m\n", "a_test.go", tests("p", functions...))
	}
	long := []string{"got := make([]int, 0, 10)", "for i := range 10 {", "got = append(got, i)", "}", "if len(got) != 10 || got[9] != 9 {", `t.Fatalf("got %v", got)`, "}"}
	var grown, more []string
	for i := range 18 {
		grown, more = append(grown, fmt.Sprintf("g(%d)", i)), append(more, fmt.Sprintf("h(%d)", i), fmt.Sprintf("f(%d)", i))
	}
	for _, c := range []struct {
		name       string
		base, head []File
		want       string
	}{
		{"nothing", file(body("TestA", "t.Error()")), file(body("TestA", "t.Error()"), body("TestB", "t.Skip()")), ""},
		{"another module path", tree("go.mod", "module m\n", "a_test.go", tests("p", body("TestA", "t.Error()"), body("TestB", long...))),
			tree("go.mod", "module m/v2\n", "a_test.go", tests("p", body("TestA"), body("TestC", long...))),
			"m/v2 TestA assertions-fewer a_test.go:5 1>0\nm/v2 TestA body-emptied a_test.go:5 1>0\nm TestA renamed m/v2 TestA\nm TestB renamed m/v2 TestC\n"},
		{"another folder", tree("go.mod", "module m\n", "old/a_test.go", tests("old", body("TestA", "t.Error()"), body("TestB", "f()")), "other/b_test.go", tests("other", body("TestA"))),
			tree("go.mod", "module m\n", "fresh/x_test.go", tests("fresh", body("TestA"), body("TestB", "f()"), body("TestC")), "less/a_test.go", tests("less", body("TestA")), "other/b_test.go", tests("other", body("TestA"))),
			"m/fresh TestA assertions-fewer fresh/x_test.go:5 1>0\nm/fresh TestA body-emptied fresh/x_test.go:5 1>0\nm/old TestA renamed m/fresh TestA\nm/old TestB renamed m/fresh TestB\n"},
		{"folders that go by their names", tree("go.mod", "module m\n", "a/x/a_test.go", tests("x", body("TestA")), "a/y/a_test.go", tests("y", body("TestA"))),
			tree("go.mod", "module m\n", "b/y/a_test.go", tests("y", body("TestA")), "b/x/a_test.go", tests("x", body("TestA"))),
			"m/a/x TestA renamed m/b/x TestA\nm/a/y TestA renamed m/b/y TestA\n"},
		{"too few of the names", tree("go.mod", "module m\n", "old/a_test.go", tests("old", body("TestA"), body("TestB"), body("TestC"))),
			tree("go.mod", "module m\n", "fresh/a_test.go", tests("fresh", body("TestA"), body("TestB"), body("TestD"))), ""},
		{"a folder that is still there", tree("go.mod", "module m\n", "old/a_test.go", tests("old", body("TestA"), body("TestB"))),
			tree("go.mod", "module m\n", "old/b_test.go", tests("old", body("TestX", long...)), "fresh/a_test.go", tests("fresh", body("TestA"), body("TestB"))), ""},
		{"a folder that was there", tree("go.mod", "module m\n", "old/a_test.go", tests("old", body("TestA")), "fresh/b_test.go", tests("fresh", body("TestX", "f()"))),
			tree("go.mod", "module m\n", "fresh/a_test.go", tests("fresh", body("TestA")), "fresh/b_test.go", tests("fresh", body("TestX", "f()"))), ""},
		{"to where the go command does not look", tree("go.mod", "module m\n", "old/a_test.go", tests("old", body("TestA"))),
			tree("go.mod", "module m\n", "_old/a_test.go", tests("old", body("TestA"))), ""},
		{"gone without a trace", file(body("TestA", "t.Error()"), body("TestB", "t.Log(1, 2, 3)")), file(body("TestB", "t.Log(1, 2, 3)")), ""},
		{"assertions", file(body("TestA", "t.Error()", "t.Fatalf(\"\")", "require.NoError(t, nil)", "t.Log()", "f()")),
			file(body("TestA", "t.Error()", "t.Log()", "f()")), "m TestA assertions-fewer a_test.go:5 3>1\n"},
		{"assertions of a subtest", file(body("TestA", "t.Run(\"x\", func(tt *testing.T) { tt.Error(); tt.FailNow() })")),
			file(body("TestA", "t.Run(\"x\", func(tt *testing.T) { tt.Error() })")), "m TestA assertions-fewer a_test.go:5 2>1\n"},
		{"assertions in other ways", file(body("TestA", "c := qt.New(t)", "c.Assert(1, qt.Equals, 1)", "assert.New(t).Equal(1, 1)", "s.Require().Equal(1, 1)", "Expect(1).To(Equal(1))", "x.y.mustEqual(1)", "check[int](1)", "cmp.Diff(1, 1)", "is.True(true)")),
			file(body("TestA", "c := qt.New(t)")), "m TestA assertions-fewer a_test.go:5 8>0\n"},
		{"assertions of what was made of a test", file(body("TestA", "h := is.New(t)", "h.Equal(1, 1)", "g := other(t)", "g.Equal(1, 1)")),
			file(body("TestA", "h := is.New(t)", "g := other(t)")), "m TestA assertions-fewer a_test.go:5 1>0\n"},
		{"as many assertions in a helper", file(body("TestA", "t.Error()", "t.Error()")),
			file(body("TestA", "twice(t)"), "func twice(t testing.TB) {\n\tt.Error()\n\tt.Error()\n}"), ""},
		{"fewer assertions in a helper's helper", file(body("TestA", "one(t)"), "func one(t testing.TB) { two(t); two(t) }", "func two(t testing.TB) { t.Error(); t.Error() }"),
			file(body("TestA", "one(t)"), "func one(t testing.TB) { two(t); two(t) }", "func two(t testing.TB) { t.Error() }"), "m TestA assertions-fewer a_test.go:5 4>2\n"},
		{"helpers in a circle", file(body("TestA", "one(t)"), "func one(t testing.TB) { two(t) }", "func two(t testing.TB) { one(t); one(t); t.Error(); t.Error() }"),
			file(body("TestA", "one(t)"), "func one(t testing.TB) { two(t) }", "func two(t testing.TB) { one(t); one(t); t.Error(); t.Error() }", "var x = 1"), ""},
		{"a method that is no test's", file(body("TestA", "log.Fatal()", "err.Error()")), file(body("TestA", "f()", "f()")), ""},
		{"rows", file(body("TestA", "tests := []struct{ a int }{", "{1},", "{2},", "{3},", "}", "_ = tests")),
			file(body("TestA", "tests := []struct{ a int }{", "{1},", "}", "_ = tests")), "m TestA rows-fewer a_test.go:5 3>1\n"},
		{"rows of a map of lists", file(body("TestA", "_ = map[string][]row{\"a\": {{1}, {2}}, \"b\": {{3}}}")),
			file(body("TestA", "_ = map[string][]row{\"a\": {{1}}, \"b\": {{3}}}")), "m TestA rows-fewer a_test.go:5 5>4\n"},
		{"rows that are pointers", file(body("TestA", "_ = []any{&row{1}, &row{2}}")), file(body("TestA", "_ = []any{&row{1}}")), "m TestA rows-fewer a_test.go:5 2>1\n"},
		{"rows of a package's list", file("var words = []string{\"a\", \"b\"}", body("TestA", "for range words {", "}")),
			file("var words = []string{\"a\"}", body("TestA", "for range words {", "}")), "m TestA rows-fewer a_test.go:7 2>1\n"},
		{"rows that a loop goes over", file(body("TestA", "for range []int{1, 2, 3} {", "}", "more := []string{\"a\", \"b\"}", "for range more {", "}")),
			file(body("TestA", "for range []int{1, 2} {", "}", "more := []string{\"a\"}", "for range more {", "}")), "m TestA rows-fewer a_test.go:5 5>3\n"},
		{"a list that is no table", file(body("TestA", "want := []string{\"a\", \"b\"}", "_ = want")),
			file(body("TestA", "want := []string{\"a\"}", "_ = want")), ""},
		{"rows of a package's table", file("var cases = []*row{{1}, {2}}", body("TestA", "for range cases {", "}"), body("TestB", "f()")),
			file("var cases = []*row{{1}}", body("TestA", "for range cases {", "}"), body("TestB", "f()")), "m TestA rows-fewer a_test.go:7 2>1\n"},
		{"a table that moved", file("var cases = []*row{{1}, &row{2}}", body("TestA", "for range cases {", "}")),
			file(body("TestA", "cases := []*row{{1}, {2}}", "for range cases {", "}")), ""},
		{"seeds", file("func FuzzA(f *testing.F) {\n\tf.Add(1)\n\tf.Add(2)\n}"), file("func FuzzA(f *testing.F) {\n\tf.Add(1)\n}"), "m FuzzA rows-fewer a_test.go:5 2>1\n"},
		{"skips", file(body("TestA", "f()"), body("TestB", "f()"), body("TestC", "f()"), body("TestD", "f()"), body("TestE", "t.Skip()", "f()")),
			file(body("TestA", "f()", "t.Skip()"), body("TestB", "if testing.Short() {", "return", "}", "f()"), body("TestC", "skip.If(t, true)", "f()"), body("TestD", "needs(t)", "f()"), body("TestE", "t.Skip()", "f()"),
				"func needs(t *testing.T) { t.Skip() }"),
			"m TestA skip-added a_test.go:5 0>1\nm TestB skip-added a_test.go:10 0>1\nm TestC skip-added a_test.go:17 0>1\nm TestD skip-added a_test.go:22 0>1\n"},
		{"early returns", file(body("TestA", "f()", "return"), body("TestB", "f()"), body("TestC", "t.Run(\"\", func(t *testing.T) { f() })"), body("TestD", "f()"), body("TestE", "return", "f()")),
			file(body("TestA", "return", "f()"), body("TestB", "if true {", "panic(1)", "}", "f()"), body("TestC", "t.Run(\"\", func(t *testing.T) { return; f() })"), body("TestD", "if x {", "return", "}", "f()"), body("TestE", "return", "f()")),
			"m TestA early-return a_test.go:5 0>1\nm TestB early-return a_test.go:10 0>1\nm TestC early-return a_test.go:17 0>1\n"},
		{"emptied", file(body("TestA", "t.Error()", "f()"), body("TestB")), file(body("TestA", "// f()"), body("TestB", ";")),
			"m TestA assertions-fewer a_test.go:5 1>0\nm TestA body-emptied a_test.go:5 2>0\n"},
		{"commented out", file(body("TestA", "t.Error()"), body("TestB", "f()"), body("TestC", "f()")),
			file("// "+strings.ReplaceAll(body("TestA", "t.Error()"), "\n", "\n// "), "/*\n\n"+body("TestB", "f()")+"*/", "// TestC is gone"),
			"m TestA commented-out a_test.go:5 1>0\nm TestB commented-out a_test.go:11 1>0\n"},
		{"a whole file commented out", file(body("TestA", "f()")), tree("go.mod", "module m\n", "a_test.go", "/*\n"+tests("p", body("TestA", "f()"))+"*/"),
			"m TestA commented-out a_test.go:6 1>0\n"},
		{"an example without output", file("func ExampleA() {\n\tf()\n\t// Output: 1\n}"), file("func ExampleA() {\n\tf()\n\t// 1\n}"), "m ExampleA output-removed a_test.go:5 1>0\n"},
		{"a constraint", file(body("TestA", "f()")), tree("go.mod", "module m\n", "a_test.go", "//go:build never\n\n"+tests("p", body("TestA", "f()"))),
			"m TestA constraint-added a_test.go:7 1>0\n"},
		{"a constraint by name", file(body("TestA", "f()")), tree("go.mod", "module m\n", "a_windows_test.go", tests("p", body("TestA", "f()"))),
			"m TestA constraint-added a_windows_test.go:5 1>0\n"},
		{"an ignored folder", tree("go.mod", "module m\n", "x/a_test.go", tests("p", body("TestA", "f()"))), tree("go.mod", "module m\nignore x\n", "x/a_test.go", tests("p", body("TestA", "f()"))),
			"m/x TestA constraint-added x/a_test.go:5 1>0\n"},
		{"a variant that was never built", append(file(body("TestA", "f()")), tree("b_windows_test.go", tests("p", body("TestA", "f()")))...),
			tree("go.mod", "module m\n", "b_windows_test.go", tests("p", body("TestA", "f()"))), ""},
		{"a moved test", file(body("TestA", "f()")), tree("go.mod", "module m\n", "b_test.go", tests("p_test", body("TestA", "f()"))), ""},
		{"renamed", file(body("TestA", "f()", "TestA(t)"), body("TestB", "g()")), file(body("TestC", "g()"), body("TestD", "f()", "TestD(t)")),
			"m TestA renamed TestD\nm TestB renamed TestC\n"},
		{"renamed and weaker", file(body("TestA", append(long, "t.Error()")...)), file(body("TestB", long...)),
			"m TestB assertions-fewer a_test.go:5 2>1\nm TestA renamed TestB\n"},
		{"the most similar one", file(body("TestA", append(long, "f(1, 2, 3)")...)), file(body("TestB", append(long, "f(1, 2)")...), body("TestC", append(long, "f(1)")...)),
			"m TestA renamed TestB\n"},
		// tidwall/gjson 8d2c36f: TestBoolConvertQuery became TestTildeQueries, and four times as long.
		{"grown", file(body("TestA", append(grown, "g(18)")...)), file(body("TestB", slices.Concat(grown, more, []string{"g(1)"})...)), "m TestA renamed TestB\n"},
		{"grown, and another that is more alike", file(body("TestA", grown...)), file(body("TestB", slices.Concat(grown, more)...), body("TestC", append(grown, "h(1)")...)),
			"m TestA renamed TestC\n"},
		{"longer, and half of it gone", file(body("TestA", grown...)), file(body("TestB", append(grown[:9:9], more...)...)), ""},
		{"grown out of hardly anything", file(body("TestA", grown[:5]...)), file(body("TestB", slices.Concat(grown, more)...)), ""},
		{"shrunk", file(body("TestA", slices.Concat(grown, more)...)), file(body("TestB", grown...)), ""},
		{"one that was there is no new one", file(body("TestA", "f()"), body("TestB", "f()")), file(body("TestB", "f()")), ""},
		{"one that is taken", file(body("TestA", append(long, "f(1, 2, 3)")...), body("TestB", append(long, "f(1)")...)), file(body("TestC", append(long, "f(1)")...)),
			"m TestB renamed TestC\n"},
		{"half similar", file(body("TestA", "f(1, 2, 3, 4, 5, 6, 7)")), file(body("TestB", "f(11, 12, 13, 14, 15, 6, 7)")), ""},
		{"not similar", file(body("TestA", long...)), file(body("TestB", "t.Error(1)", "f()")), ""},
		{"a module that was renamed", file(body("TestA", "t.Error()")), tree("go.mod", "module m/v2\n", "a_test.go", tests("p", body("TestA", "f()"))),
			"m/v2 TestA assertions-fewer a_test.go:5 1>0\nm TestA renamed m/v2 TestA\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := describeDeltas(GoDeltas(c.base, c.head, linux)); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
			slices.Reverse(c.base)
			slices.Reverse(c.head)
			if got := describeDeltas(GoDeltas(c.base, c.head, linux)); got != c.want {
				t.Errorf("in another order of the files, got:\n%s", got)
			}
			if got := describeDeltas(GoDeltas(c.head, longer(c.head), linux)); got != "" {
				t.Errorf("head against itself, got:\n%s", got)
			}
		})
	}
}

// longer returns files with another test file, which has nothing in it, in each
// folder: equal folders are not compared at all.
func longer(files []File) []File {
	more := slices.Clone(files)
	for _, f := range files {
		if strings.HasSuffix(f.Path, "_test.go") {
			more = append(more, File{path.Join(path.Dir(f.Path), "zz_test.go"), []byte("package p\n")})
		}
	}
	return more
}

// TestRenamesBound shows that more tests than can be compared are still found
// if they are equal.
func TestRenamesBound(t *testing.T) {
	t.Parallel()
	var base, head []string
	for i := range 300 {
		base = append(base, body(fmt.Sprintf("TestA%d", i), fmt.Sprintf("f(%d)", i/3), "g(1, 2, 3, 4)"))
		head = append(head, body(fmt.Sprintf("TestB%d", i), fmt.Sprintf("f(%d)", i/3+50), "g(1, 2, 3, 4)"))
	}
	_, renamed := GoDeltas(tree("go.mod", "module m", "a_test.go", tests("p", base...)), tree("go.mod", "module m", "a_test.go", tests("p", head...)), linux)
	if len(renamed) != 300 {
		t.Errorf("%d of 300 tests were matched", len(renamed)) // 150 equal, the others alike: 150*300 pairs
	}
	for i := range 300 {
		base[i] = body(fmt.Sprintf("TestA%d", i), fmt.Sprintf("f(%d)", i), "g(1, 2, 3, 4)")
		head[i] = body(fmt.Sprintf("TestB%d", i), fmt.Sprintf("f(%d)", i+290), "g(1, 2, 3, 4)")
	}
	_, renamed = GoDeltas(tree("go.mod", "module m", "a_test.go", tests("p", base...)), tree("go.mod", "module m", "a_test.go", tests("p", head...)), linux)
	if want := (GoRename{Package: "m", From: "TestA290", To: "TestB0"}); len(renamed) != 10 || renamed[0] != want {
		t.Errorf("beyond the bound, got %v", renamed)
	}
}

// TestGoDeltasStd compares the standard library's tests with a copy in which
// each file got longer: nothing became weaker, nothing was renamed.
func TestGoDeltasStd(t *testing.T) {
	t.Parallel()
	base := append(readGoFiles(t, goroot(t), func(p string) bool {
		return strings.HasSuffix(p, "_test.go") && (strings.HasPrefix(p, "net/url/") || strings.HasPrefix(p, "encoding/json/") || strings.HasPrefix(p, "strings/"))
	}), File{"go.mod", []byte("module std")})
	head := slices.Clone(base)
	for i := range head {
		head[i].Content = slices.Concat([]byte("// A comment.\n"), head[i].Content, []byte("\n\nvar _ = 1\n"))
	}
	head[len(head)-1].Content = base[len(base)-1].Content
	if got := describeDeltas(GoDeltas(base, head, hostEnv())); got != "" {
		t.Errorf("got:\n%.2000s", got)
	}
	// And the other way: every test of a package without its assertions.
	head = slices.Clone(base)
	for i := range head {
		head[i].Content = []byte(strings.NewReplacer("t.Error", "t.Log", "t.Fatal", "t.Log").Replace(string(head[i].Content)))
	}
	deltas, renamed := GoDeltas(base, head, hostEnv())
	if len(deltas) < 100 || len(renamed) > 0 {
		t.Errorf("%d deltas, %d renamed", len(deltas), len(renamed))
	}
	for _, d := range deltas {
		if d.Kind != DeltaAssertions {
			t.Errorf("%v", d)
		}
	}
}

func FuzzGoDeltas(f *testing.F) {
	f.Add(tests("p", body("TestA", "t.Error()", "for range []int{1} {", "}")), tests("p", body("TestB", "t.Skip()", "return", "f()")), uint32(1))
	f.Add(tests("p", "// func TestA(t *testing.T) {}", "var x = []T{{1}, {2}}"), "//go:build x\n\npackage p\nfunc TestA(t *T) { _ = x; TestA(t) }", uint32(7))
	f.Add("package p\nfunc FuzzX(f *testing.F) { f.Add(1) }", "/* func FuzzX(", uint32(3))
	f.Add("package p\nfunc TestX(t *testing.T) { for range {} ; x, = []int{1} }", "package p\nfunc TestX", uint32(3))
	f.Fuzz(func(t *testing.T, a, b string, seed uint32) {
		mod := "module m"
		base := tree("go.mod", mod, "a_test.go", a, "b_test.go", b, "c/a_test.go", a)
		head := tree("go.mod", mod, "a_test.go", b, "c_test.go", a, "c/a_test.go", b)
		deltas, renamed := GoDeltas(base, head, linux)
		again, also := GoDeltas(shuffled(base, seed), shuffled(head, seed+1), linux)
		if !reflect.DeepEqual(deltas, again) || !reflect.DeepEqual(renamed, also) {
			t.Fatalf("the order of the files matters:\n%s\n%s", describeDeltas(deltas, renamed), describeDeltas(again, also))
		}
		for _, d := range deltas {
			more := d.Kind == DeltaSkip || d.Kind == DeltaReturn
			if d.Func == "" || d.Line < 1 || d.Head == d.Base || (d.Head > d.Base) != more {
				t.Fatalf("%+v", d)
			}
		}
		if same, none := GoDeltas(head, longer(head), linux); len(same)+len(none) > 0 {
			t.Fatalf("head against itself: %s", describeDeltas(same, none))
		}
	})
}
