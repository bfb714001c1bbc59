package source

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func describeMarks(marks []GoAware) string {
	var lines []string
	for _, m := range marks {
		lines = append(lines, fmt.Sprintf("%s:%d %s", m.File, m.Line, m.What))
	}
	return strings.Join(lines, "\n")
}

func TestGoAwareness(t *testing.T) {
	t.Parallel()
	imports := func(paths string, lines ...string) []File {
		text := "package p\n"
		for _, p := range strings.Fields(paths) {
			if name, renamed, ok := strings.Cut(p, "="); ok {
				text += "import " + name + " \"" + renamed + "\"; "
			} else {
				text += "import \"" + p + "\"; "
			}
		}
		return tree("a.go", text+"\n"+strings.Join(lines, "\n")+"\n")
	}
	in := func(line string) string { return "func f() { " + line + " }" }
	for _, c := range []struct {
		name string
		head []File
		want string // What of line 3, and of others with a line
	}{
		{"nothing", imports("os strings", in(`os.Exit(1)`), in(`strings.HasSuffix(os.Args[0], ".go")`)), ""},
		{"testing", imports("testing", in(`if testing.Testing() {}`)), "2 import testing\n3 testing.Testing()"},
		{"testing by another name", imports("x=testing", in(`ask := x.Testing; ask()`)), "2 import testing\n3 testing.Testing()"},
		{"testing by no name", imports(".=testing", in(`if Testing() {}`)), "2 import testing\n3 testing.Testing()"},
		{"another testing", imports("testing=example.org/testing", in(`if testing.Testing() {}`)), ""},
		{"below testing", imports("testing/fstest"), "2 import testing"},
		{"flag", imports("flag", in(`flag.Lookup("test.v")`)), `3 flag.Lookup("test.v")`},
		{"flag in pieces", imports("flag", `const x = "te"`, in(`flag.CommandLine.Lookup(x + ("st." + "run"))`)), `4 flag.Lookup("test.v")`},
		{"flag by no name", imports(".=flag", in(`Set("test.run", "x")`)), `3 flag.Set("test.v")`},
		{"another flag", imports("flag", in(`flag.Lookup("verbose"); flag.Set("tests", "")`)), ""},
		{"arguments", imports("os strings", in(`strings.HasSuffix(os.Args[0], ".test")`), in(`x == "-test.v=true"`)), "3 os.Args[0] .test\n4 os.Args[0] .test"},
		{"no arguments", imports("strings", in(`strings.HasSuffix(name, ".test")`)), ""},
		{"exit in init", imports("os", `func init() { os.Exit(0) }`), "3 os.Exit in init"},
		{"exit in what init calls", imports("os sync", `func init() { g() }`, `func g() { var o sync.Once; o.Do(func() { os.Exit(0) }) }`), "4 os.Exit in init"},
		{"exit in a variable", imports("os", `var x = func() int { os.Exit(0); return 0 }()`), "3 os.Exit in init"},
		{"exit in a command", imports("os", `func init() { cmd = &Command{Run: func() { os.Exit(1) }}; other.Run = run }`, `func run() { os.Exit(1) }`, `func (x T) init() { os.Exit(1) }`), ""},
		{"other exits", imports("syscall runtime golang.org/x/sys/unix", in(`syscall.Exit(0)`), in(`runtime.Goexit()`), in(`unix.Exit(0)`), in(`syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)`)),
			"3 syscall.Exit\n4 runtime.Goexit\n5 syscall.Exit\n6 syscall.Exit"},
		{"linkname", imports("unsafe", "//go:linkname x y", "// go:linkname x y", in("//go:linkname z\n")), "2 import unsafe\n3 go:linkname\n5 go:linkname"},
		{"c", imports("C"), "2 import C"},
		{"plugin", imports("plugin", in(`plugin.Open("x")`)), "3 plugin.Open"},
		{"environment", imports("os", in(`os.Getenv("CI")`), in(`os.LookupEnv("GITHUB_" + "ACTIONS")`), in(`os.Getenv("TRUEGREEN")`), in(`os.Getenv("GO_TEST_X")`), in(`os.Getenv("CITY"); os.Getenv("HOME"); os.Setenv("CI", "")`)),
			"3 getenv CI\n4 getenv CI\n5 getenv CI\n6 getenv CI"},
		{"test files", imports("strings", in(`strings.HasSuffix(frame.File, "_test.go")`), in(`strings.HasSuffix(x, "test.go")`)), "3 runtime.Caller on _test.go"},
		{"proc", imports("os", in("os.ReadFile(`/proc/self/cmdline`)"), in(`open("/process")`), "// /proc/self"), "3 reads /proc"},
		{"equal to everything", imports("", `func (T) Equal(any) bool { return true }`, `func Equal(any) bool { return true }`, `func (T) Equal2(any) bool { return true }`, `func (T) Equal(any) bool { return x }`), "3 equal to everything"},
		{"report", imports("fmt os", in(`fmt.Println("--- PASS: TestA")`), in(`os.Stdout.Write([]byte("\x16x"))`), in(`fmt.Print("x\nPASS\n")`), in(`fmt.Print("PASSED", x); fmt.Fprint(&b, "--- PASS"); println("--- PA" < "SS")`)), "3 prints a test report\n4 prints a test report\n5 prints a test report"},
		{"report for another writer", imports("fmt", in(`fmt.Fprint(w, "--- PASS")`)), ""},
		{"report for a writer", imports("fmt os", `var w = os.Stdout`, in(`fmt.Fprint(w, "--- PASS")`)), "4 prints a test report"},
		{"line directive", imports("syscall", "//line other.go:100", in(`syscall.Exit(0)`)), "4 syscall.Exit"},
		{"not read", imports("syscall", in(`syscall.Exit(0)`), "func {"), "1 not read\n3 syscall.Exit"},
		{"too large", tree("a.go", strings.Repeat("/", maxGoFile+1)), "1 not read"},
		{"files that are never built", tree("_a.go", "package p\nimport \"unsafe\"", ".a.go", "package p\nimport \"unsafe\"", "a.txt", "package p\nimport \"unsafe\"", "a_test.go", "package p\nimport \"unsafe\""), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := GoAwareness(nil, c.head)
			if got := strings.ReplaceAll(describeMarks(got), "a.go:", ""); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
			if got := GoAwareness(c.head, c.head); len(got) > 0 {
				t.Errorf("head against itself:\n%s", describeMarks(got))
			}
		})
	}
}

// TestAddedMarks holds that only what head has more of is named, and where it
// is new.
func TestAddedMarks(t *testing.T) {
	t.Parallel()
	base := "package p\nimport (\"os\"; \"syscall\")\nfunc f() { os.Getenv(\"CI\") }\nfunc g() { syscall.Exit(1) }\n"
	for _, c := range []struct{ name, head, want string }{
		{"moved", "package p\nimport (\"os\"; \"syscall\")\nfunc g() { syscall.Exit(1) }\nfunc f() { os.Getenv(\"CI\") }\n", ""},
		{"another one before", "package p\nimport (\"os\"; \"syscall\")\nfunc h() { syscall.Exit(0) }\nfunc f() { os.Getenv(\"CI\") }\nfunc g() { syscall.Exit(1) }\n", "a.go:3 syscall.Exit"},
		{"the same again", base + "func g() { syscall.Exit(1) }\n", "a.go:5 syscall.Exit"},
		{"one for another", "package p\nimport (\"os\"; \"syscall\")\nfunc f() { os.Getenv(\"CI\") }\nfunc g() { syscall.Exit(2) }\n", ""},
		{"another kind", "package p\nimport (\"os\"; \"syscall\"; \"unsafe\")\n", "a.go:2 import unsafe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := describeMarks(GoAwareness(tree("a.go", base), tree("a.go", c.head))); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
	if got := describeMarks(GoAwareness(tree("b.go", base), tree("a.go", base))); got != "a.go:3 getenv CI\na.go:4 syscall.Exit" {
		t.Errorf("a new file: %s", got)
	}
	many := base + strings.Repeat("func g() { syscall.Exit(1) }\n", 100) + "func f() { os.Getenv(\"CI\") }\n"
	got := GoAwareness(tree("a.go", base), tree("a.go", many))
	if len(got) != maxGoMarks+1 || got[len(got)-1] != (GoAware{"a.go", 105, "getenv CI"}) {
		t.Errorf("of many: %d, the last %v", len(got), got[len(got)-1])
	}
}

func TestGoHarness(t *testing.T) {
	t.Parallel()
	head := func(imports string, functions ...string) []File {
		return tree("a_test.go", "package p\nimport (\"testing\"; \""+strings.ReplaceAll(imports, " ", "\"; \"")+"\")\n"+strings.Join(functions, "\n"))
	}
	for _, c := range []struct {
		name string
		head []File
		want string
	}{
		{"nothing", head("os unsafe", `func TestA(t *testing.T) { os.Getenv("CI"); os.Exit(1); testing.Testing() }`), ""},
		{"main", head("os", `func TestMain(m *testing.M) { os.Exit(m.Run()) }`), "3 TestMain"},
		{"main by another", head("goleak", `func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }`), "3 TestMain"},
		{"main without run", head("os", `func TestMain(m *testing.M) { x.Run(); os.Exit(0) }`), "3 TestMain\n3 TestMain without m.Run\n3 os.Exit(0)"},
		{"main without a name", head("os", `func TestMain(*testing.M) { os.Exit(1) }`), "3 TestMain\n3 TestMain without m.Run"},
		{"exit in a test", head("os", `func TestA(t *testing.T) { os.Exit(0x0) }`), "3 os.Exit(0)"},
		{"exit in init", head("os", `func init() { os.Exit(0) }`), "3 os.Exit in init\n3 os.Exit(0)"},
		{"other exits", head("syscall", `func TestA(t *testing.T) { syscall.Exit(0) }`, "//go:linkname a b"), "3 syscall.Exit\n4 go:linkname"},
		{"flags", head("flag", `func TestMain(m *testing.M) { flag.Set("test.run", "^$"); m.Run() }`), "3 TestMain\n3 flag.Set(\"test.v\")"},
		{"report", head("fmt io os", `func TestA(t *testing.T) { fmt.Print("\x16--- PASS: x\n") }`, `func TestB(t *testing.T) { io.WriteString(os.Stdout, "=== RUN") }`, `func TestC(t *testing.T) { os.Stdout.WriteString("ok  \tp\t0s") }`, `func TestD(t *testing.T) { t.Log("--- PASS"); fmt.Sprint("--- PASS") }`),
			"3 prints a test report\n4 prints a test report\n5 prints a test report"},
		{"recover", head("fmt", `func TestA(t *testing.T) { defer func() { recover() }(); f() }`, `func TestB(t *testing.T) { defer func() { _ = recover() }() }`,
			`func TestC(t *testing.T) { t.Run("", func(t *testing.T) { defer func() { if r := recover(); r != nil { t.Log(r) } }() }) }`),
			"3 recover without a failure\n4 recover without a failure\n5 recover without a failure"},
		{"recover and fail", head("fmt", `func TestA(t *testing.T) { defer func() { if recover() == nil { t.Error() } }() }`,
			`func TestB(t *testing.T) { defer func() { if r := recover(); r != 1 { panic(r) } }() }`,
			`func TestC(t *testing.T) { var r any; defer func() { r = recover() }() }`,
			`func TestH(t *testing.T) { ok := true; defer func() { if r := recover(); r != nil { ok = false } }() }`,
			`func TestD(t *testing.T) { defer func() { require.NotNil(t, recover()) }() }`,
			`func TestE(t *testing.T) { defer func() { expectPanic(recover()) }() }`,
			`func TestI(t *testing.T) { defer func() { r := recover(); expectPanic(r) }() }`,
			`func TestF(t *testing.T) { defer func() { r := recover(); assert.Equal(t, 1, r) }() }`,
			`func TestG(t *testing.T) { t.Run("", func(t *testing.T) { defer func() { recover() }(); f(); t.Error("no panic") }) }`,
			`func helper() { defer func() { recover() }() }`), ""},
		{"recover after a failure", head("fmt", `func TestA(t *testing.T) { if x { t.Error() }; defer func() { recover() }(); f() }`), "3 recover without a failure"},
		{"not read", head("os", "func {"), "1 not read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := strings.ReplaceAll(describeMarks(GoHarness(nil, c.head)), "a_test.go:", ""); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
			if got := GoHarness(c.head, c.head); len(got) > 0 {
				t.Errorf("head against itself:\n%s", describeMarks(got))
			}
		})
	}
}

// TestTamperedPackages names the trick of each of the packages that cheat. The
// base is the same package without the line that does it.
func TestTamperedPackages(t *testing.T) {
	t.Parallel()
	vectors := os.Getenv("TRUEGREEN_VECTORS")
	if vectors == "" {
		t.Skip("needs TRUEGREEN_VECTORS, the folder of test data")
	}
	want := map[string]string{
		"constrained": "lab/constrained TestAdd constraint-added constrained/a_windows_test.go:3 1>0",
		"exit0main":   "exit0main/a_test.go:4 TestMain\nexit0main/a_test.go:4 TestMain without m.Run\nexit0main/a_test.go:4 os.Exit(0)",
		"exit0test":   "exit0test/a_test.go:3 os.Exit(0)",
		"flagset":     "flagset/a_test.go:3 TestMain\nflagset/a_test.go:3 flag.Set(\"test.v\")",
		"forgemain":   "forgemain/a_test.go:4 TestMain\nforgemain/a_test.go:4 TestMain without m.Run\nforgemain/a_test.go:5 prints a test report\nforgemain/a_test.go:6 os.Exit(0)",
		"forgemarker": "forgemarker/a_test.go:4 prints a test report\nforgemarker/a_test.go:5 prints a test report",
		"initexit":    "initexit/init.go:3 os.Args[0] .test\ninitexit/init.go:3 os.Exit in init",
		"skipper":     "lab/skipper TestAdd early-return skipper/a_test.go:3 0>1\nlab/skipper TestAdd skip-added skipper/a_test.go:3 0>1",
		"sysexit":     "sysexit/a_test.go:3 syscall.Exit",
		// What only a run shows: it does not build, it panics, it has no test.
		"buildfail": "", "vetfail": "", "panicp": "", "notests": "",
		// It does nothing wrong, in odd ways.
		"weird": "",
	}
	root := filepath.Join(vectors, "tamper-go")
	files := readGoFiles(t, root, func(p string) bool { return strings.HasSuffix(p, ".go") || p == "go.mod" })
	folders := make(map[string][]File)
	for _, f := range files {
		if folder, _, ok := strings.Cut(f.Path, "/"); ok {
			folders[folder] = append(folders[folder], f)
		}
	}
	if len(folders) != len(want) {
		t.Errorf("%d packages, want %d", len(folders), len(want))
	}
	mod := tree("go.mod", "module lab\n")
	for folder, head := range folders {
		var base []File
		for _, f := range head {
			f.Path = strings.Replace(f.Path, "_windows_test", "_test", 1)
			f.Content = []byte(strings.Replace(string(f.Content), `t.Skip("flaky") ;`, "", 1))
			base = append(base, f)
		}
		got := describeMarks(append(GoAwareness(nil, head), GoHarness(nil, head)...))
		deltas, renamed := GoDeltas(slices.Concat(mod, base), slices.Concat(mod, head), linux)
		got = strings.TrimSpace(got + "\n" + describeDeltas(deltas, renamed))
		if got != want[folder] {
			t.Errorf("%s: got:\n%s\nwant:\n%s", folder, got, want[folder])
		}
	}
	pkgs, unparsed := GoPackages(files, linux)
	var names []string
	for _, p := range pkgs {
		names = append(names, p.Dir)
		if slices.ContainsFunc(p.Tests, func(f GoTest) bool { return strings.Contains(f.Name, "Ghost") }) {
			t.Errorf("%s has a test that does not exist", p.Dir)
		}
	}
	if slices.Contains(names, "notests") || slices.Contains(names, "constrained") || len(names) != len(want)-2 || len(unparsed) > 0 {
		t.Errorf("packages %v, unparsed %v", names, unparsed)
	}
}

func FuzzGoAware(f *testing.F) {
	f.Add("package p\nimport . \"os\"\nfunc init() { Exit(0) }", "package p\nimport (\"os\"; \"flag\")\nvar _ = flag.Lookup(\"test\" + \".v\")", uint32(1))
	f.Add("package p\nfunc TestMain(m *testing.M) {}\nfunc TestX(t *testing.T) { defer func() { recover() }() }", "package p\nfunc (", uint32(2))
	f.Fuzz(func(t *testing.T, a, b string, seed uint32) {
		base := tree("a.go", a, "b.go", b, "a_test.go", b)
		head := tree("a.go", b, "b.go", a, "a_test.go", a, "b_test.go", b)
		for _, find := range []func(base, head []File) []GoAware{GoAwareness, GoHarness} {
			got := find(base, head)
			if again := find(shuffled(base, seed), shuffled(head, seed)); !reflect.DeepEqual(got, again) {
				t.Fatalf("the order of the files matters:\n%s\n%s", describeMarks(got), describeMarks(again))
			}
			for _, m := range got {
				if m.Line < 1 || m.What == "" {
					t.Fatalf("%+v", m)
				}
			}
			if same := find(head, head); len(same) > 0 {
				t.Fatalf("head against itself: %s", describeMarks(same))
			}
		}
	})
}
