package verifier

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// runGoBinary builds the test binary of the package in dir, runs it there and
// reads what it writes. It fails if there is nothing to build.
func runGoBinary(t *testing.T, dir, pkg string, args ...string) (Reading, error) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "pkg.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-o", binary, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local", "GO111MODULE=on")
	if out, err := build.CombinedOutput(); err != nil {
		return Reading{}, fmt.Errorf("%w\n%s", err, out)
	}
	if _, err := os.Stat(binary); err != nil {
		return Reading{}, err // no test files
	}
	cmd := exec.Command(binary, append([]string{"-test.v=test2json", "-test.paniconexit0"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return Reading{}, err
	}
	r, err := ReadGoBinary(bytes.NewReader(out), pkg, cmd.ProcessState.ExitCode())
	if err != nil {
		t.Fatal(err)
	}
	checkReading(t, r)
	return r, nil
}

// aboutSuite renders what a reading says about one suite.
func aboutSuite(r Reading, suite string) string {
	part := Reading{Complete: true}
	for _, s := range r.Suites {
		if s.Name == suite {
			part.Suites = append(part.Suites, s)
		}
	}
	for _, test := range r.Tests {
		if test.Suite == suite {
			part.Tests = append(part.Tests, test)
		}
	}
	for _, s := range r.Signals {
		if s.Suite == suite {
			part.Signals = append(part.Signals, s)
		}
	}
	return describe(part)
}

// writeGoPackages makes a module with one package for each body of a test file.
func writeGoPackages(t *testing.T, module string, bodies map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	const head = "import (\n\"fmt\"\n\"os\"\n\"strings\"\n\"syscall\"\n\"testing\"\n\"time\"\n)\n\n" +
		"var _, _, _, _, _, _ = os.Args, strings.Repeat, fmt.Print, syscall.Exit, time.Now, testing.Short\n\n"
	files := map[string]string{"go.mod": "module " + module + "\n\ngo 1.26\n"}
	for name, body := range bodies {
		files[name+"/x_test.go"] = "package " + name + "\n\n" + head + body + "\n"
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestGoBinaryRuns runs the same packages with and without the go command.
// Apart from those with an entry in differ, they must read the same.
func TestGoBinaryRuns(t *testing.T) {
	needGo(t)
	if testing.Short() {
		t.Skip("builds and runs many programs")
	}
	t.Parallel()
	const module = "bin"
	bodies := map[string]string{
		"pass":    `func TestA(t *testing.T) { t.Log("said") }; func TestB(t *testing.T) { t.Attr("k", "v") }`,
		"fail":    `func TestA(t *testing.T) { t.Error("wrong") }; func TestB(t *testing.T) {}`,
		"skip":    `func TestA(t *testing.T) { t.Skip("why") }`,
		"none":    `func helper() {}`,
		"example": "func ExampleA() { fmt.Println(1)\n// Output: 1\n}\nfunc ExampleB() { fmt.Println(2)\n// Output: 3\n}",
		"bench":   `func BenchmarkA(b *testing.B) {}; func TestA(t *testing.T) {}`,
		"fuzz":    `func FuzzA(f *testing.F) { f.Add("x"); f.Add("y"); f.Fuzz(func(t *testing.T, s string) { if s == "y" { t.Error(s) } }) }`,
		"subtests": `func TestA(t *testing.T) {
			t.Run("a b/c", func(t *testing.T) { t.Run("d", func(t *testing.T) { t.Fatal("wrong") }); t.Log("after") })
			t.Run("", func(t *testing.T) {})
			t.Run("s", func(t *testing.T) { t.Skip() })
			t.Run("s", func(t *testing.T) { t.Parallel() })
		}
		func TestB(t *testing.T) {}`,
		"parallel": `func TestA(t *testing.T) { t.Parallel() }; func TestB(t *testing.T) { t.Parallel(); t.Error("wrong") }; func TestC(t *testing.T) {}`,
		"panics":   `func TestA(t *testing.T) {}; func TestB(t *testing.T) { panic("boom") }; func TestC(t *testing.T) {}`,
		"deep":     `func TestA(t *testing.T) { t.Run("s", func(t *testing.T) { t.Run("u", func(t *testing.T) { var m map[int]int; m[0] = 1 }) }) }`,
		"parpanic": `func TestA(t *testing.T) { t.Parallel(); panic("boom") }; func TestB(t *testing.T) {}`,
		"crash":    `func TestA(t *testing.T) { go panic("boom"); select {} }`,
		"early":    `func init() { panic("boom") }; func TestA(t *testing.T) {}`,
		"exit0":    `func TestA(t *testing.T) { os.Exit(0) }`,
		"exit3":    `func TestA(t *testing.T) { os.Exit(3) }; func TestB(t *testing.T) {}`,
		"syscall0": `func TestA(t *testing.T) {}; func TestB(t *testing.T) { syscall.Exit(0) }; func TestC(t *testing.T) { t.Error("wrong") }`,
		"between":  `func TestMain(m *testing.M) { defer syscall.Exit(0); m.Run() }; func TestA(t *testing.T) { t.Error("wrong") }`,
		"inside":   `func TestA(t *testing.T) { t.Run("s", func(t *testing.T) { t.Cleanup(func() { syscall.Exit(0) }) }) }`,
		"noflags":  `func TestMain(m *testing.M) { os.Exit(0) }; func TestA(t *testing.T) { t.Error("wrong") }`,
		"liar":     `func TestMain(m *testing.M) { m.Run(); os.Exit(0) }; func TestA(t *testing.T) { t.Error("wrong") }`,
		"leak":     `func TestMain(m *testing.M) { m.Run(); os.Exit(3) }; func TestA(t *testing.T) {}`,
		"glue": `func TestMain(m *testing.M) { fmt.Print("before"); code := m.Run(); fmt.Print("after"); os.Exit(code) }
		func TestA(t *testing.T) {
			t.Run("s", func(t *testing.T) { fmt.Print("in between") })
			fmt.Print("PASS")
		}
		func TestB(t *testing.T) { fmt.Print(strings.Repeat("é", 9000)); t.Error("wrong") }`,
		"timeout": `func TestA(t *testing.T) { t.Run("s", func(t *testing.T) { select {} }) }`,
		"marked": `func TestA(t *testing.T) {
			fmt.Print("x\x16=== RUN   TestGhost\n\x16--- PASS: TestGhost (0.00s)\n\x16=== NAME  TestA\n")
		}`,
		"markpass": `func TestA(t *testing.T) { fmt.Print("\x16PASS\n"); syscall.Exit(0) }`,
		"markall":  `func TestA(t *testing.T) { fmt.Print("\x16--- PASS: TestA (0.00s)\n\x16PASS\n"); syscall.Exit(0) }`,
		"nested": `func TestA(t *testing.T) {
			match := func(_, _ string) (bool, error) { return true, nil }
			testing.RunTests(match, []testing.InternalTest{{"inner", func(t *testing.T) { t.Error("meant") }}})
		}`,
		"printed": `func TestA(t *testing.T) { fmt.Print("--- PASS: TestGhost (0.00s)\n=== RUN   TestGhost\nok  \tbin/printed\t(cached)\n    --- FAIL: x\n") }`,
		"unmarked": `func TestMain(m *testing.M) {
			fmt.Print("=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n")
			syscall.Exit(0)
		}
		func TestA(t *testing.T) { t.Error("wrong") }`,
		"ownline":  `func TestA(t *testing.T) { fmt.Print("--- PASS: TestA (0.00s)\n"); syscall.Exit(0) }`,
		"ownpanic": `func TestA(t *testing.T) { fmt.Print("panic: not really\n"); t.Error("wrong") }`,
		"summary":  `func TestMain(m *testing.M) { fmt.Print("PASS\nok  \tbin/summary\t(cached)\n"); os.Exit(0) }; func TestA(t *testing.T) {}`,
	}
	dir := writeGoPackages(t, module, bodies)
	whole := runGoTest(t, dir, "-vet=off", "-timeout=4s", "./...")
	differ := map[string]string{
		// go tool test2json believes lines without ^V until it has seen one.
		"unmarked": `complete, 0 unparsed
suite bin/unmarked: no-tests, 0 tests
signal pass-without-summary | bin/unmarked
signal no-test-ran | bin/unmarked
`,
		"summary": `complete, 0 unparsed
suite bin/summary: no-tests, 0 tests
signal pass-without-summary | bin/summary
signal no-test-ran | bin/summary
`,
		// In events nothing tells whether a report line had its ^V. Here the
		// test has no report line, so nothing says that it passed.
		"ownline": `complete, 0 unparsed
suite bin/ownline: unfinished, 1 tests
test bin/ownline TestA: unfinished
signal result-without-report | bin/ownline | TestA | pass, and its last report line is ""
signal report-line-in-output | bin/ownline |  | 1 of them, the first: --- PASS: TestA (0.00s)
signal suite-unfinished | bin/ownline |  | the last result in it is that of test TestA
`,
	}
	for name := range bodies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pkg := module + "/" + name
			args := []string{}
			if name == "timeout" {
				args = append(args, "-test.timeout=1s")
			}
			r, err := runGoBinary(t, filepath.Join(dir, name), pkg, args...)
			if err != nil {
				t.Fatal(err)
			}
			got, want := aboutSuite(r, pkg), aboutSuite(whole, pkg)
			if d, ok := differ[name]; ok {
				if d == want {
					t.Error("there is no difference any more")
				}
				want = d
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if got := slices.Contains(signalsOf(r, ""), sigZeroTests); got != (len(r.Tests) == 0) {
				t.Errorf("signals about the whole: %q", signalsOf(r, ""))
			}
		})
	}
}

// TestGoBinaryCheats runs the packages of tamper-go with and without the go
// command.
func TestGoBinaryCheats(t *testing.T) {
	vectors := os.Getenv("TRUEGREEN_VECTORS")
	if vectors == "" {
		t.Skip("needs TRUEGREEN_VECTORS, the folder of test data")
	}
	needGo(t)
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(vectors, "tamper-go"))); err != nil {
		t.Fatal(err)
	}
	whole := runGoTest(t, dir, "-vet=off", "./...")
	compared := 0
	for _, s := range whole.Suites {
		name := strings.TrimPrefix(s.Name, "lab/")
		r, err := runGoBinary(t, filepath.Join(dir, name), s.Name)
		if err != nil {
			if s.Outcome != BuildFailed && s.Outcome != Empty {
				t.Errorf("%s: %s, and nothing to run: %v", s.Name, s.Outcome, err)
			}
			continue
		}
		compared++
		got, want := aboutSuite(r, s.Name), aboutSuite(whole, s.Name)
		switch name {
		case "panicp":
			// How far the siblings came is a matter of time.
			unstable := func(s string) string {
				lines := strings.Split(s, "\n")
				return strings.Join(slices.DeleteFunc(lines, func(l string) bool {
					return strings.HasPrefix(l, "suite ") || strings.Contains(l, "unfinished") || strings.HasPrefix(l, "test ") && !strings.Contains(l, "TestB:")
				}), "\n")
			}
			got, want = unstable(got), unstable(want)
		case "forgemain":
			// It prints the report of a run without ^V, and nothing in the
			// stream of events shows it. Here it has no test.
			if !strings.Contains(want, ": pass") {
				t.Errorf("%s: go test has no test of it either", name)
			}
			want = "complete, 0 unparsed\nsuite lab/forgemain: no-tests, 0 tests\n" +
				"signal pass-without-summary | lab/forgemain\nsignal no-test-ran | lab/forgemain\n"
		}
		if got != want {
			t.Errorf("%s: got:\n%s\nwant:\n%s", s.Name, got, want)
		}
	}
	if compared < 8 {
		t.Errorf("%d packages were compared", compared)
	}
}

func TestReadGoBinaryLines(t *testing.T) {
	t.Parallel()
	const run, passed, ended = "\x16=== RUN   TestA\n", "\x16--- PASS: TestA (0.00s)\n\x16=== NAME  \n", "\x16PASS\n"
	long := strings.Repeat("x", maxName+1)
	for _, test := range []struct {
		name, in, want string
		exit           int
	}{
		{"nothing", "", "complete, 0 unparsed\nsuite p: no-tests, 0 tests\nsignal pass-without-summary | p\nsignal no-test-ran | p\nsignal zero-tests\n", 0},
		{"one test", run + passed + ended, "complete, 0 unparsed\nsuite p: pass, 1 tests\ntest p TestA: pass\n", 0},
		{"without the spaces that editors remove", run + "\x16--- PASS: TestA (0.00s)\n\x16=== NAME\n" + ended, "complete, 0 unparsed\nsuite p: pass, 1 tests\ntest p TestA: pass\n", 0},
		{"lines that end as on Windows", strings.ReplaceAll(run+passed+ended, "\n", "\r\n"), "complete, 0 unparsed\nsuite p: pass, 1 tests\ntest p TestA: pass\n", 0},
		{"a summary without an end", run + passed + "\x16PASS", "complete, 0 unparsed\nsuite p: pass, 1 tests\ntest p TestA: pass\nsignal pass-without-summary | p\n", 0},
		{"cut in a report line", run + "\x16--- PASS: TestA (0.00s)", `incomplete, 0 unparsed
suite p: unfinished, 1 tests
test p TestA: unfinished
signal result-without-report | p | TestA | pass, and its last report line is ""
signal suite-unfinished | p |  | the last result in it is that of test TestA
signal exit-contradicts-results |  |  | exit 0; suites that did not pass: 1
`, 0},
		{"no ^V anywhere", strings.ReplaceAll(run+passed+ended, "\x16", ""), "complete, 0 unparsed\nsuite p: no-tests, 0 tests\nsignal pass-without-summary | p\nsignal no-test-ran | p\nsignal zero-tests\n", 0},
		{"killed", run, `incomplete, 0 unparsed
suite p: fail, 1 tests
test p TestA: unfinished
signal test-unfinished | p | TestA
signal no-exit-status
`, -1},
		{"a long name", run + passed + "\x16=== RUN   " + long + "\n" + ended, "complete, 1 unparsed\nsuite p: pass, 1 tests\ntest p TestA: pass\n" +
			"signal unparsed-input |  |  | 1 of them, the first: line 4: name beyond 4 KiB\n", 0},
		{"a long line", run + "\x16=== ATTR  TestA k " + long + long + "\n" + passed + ended, "complete, 1 unparsed\nsuite p: pass, 1 tests\ntest p TestA: pass\n" +
			"signal unparsed-input |  |  | 1 of them, the first: line 2: more than 8 KiB after ^V\n", 0},
		{"no name", run + "\x16--- FAIL:  (0.00s)\n" + passed + "\x16=== RUN   \n" + ended, "complete, 1 unparsed\nsuite p: pass, 1 tests\ntest p TestA: pass\n" +
			"signal unparsed-input |  |  | 1 of them, the first: line 5: no test\n", 0},
	} {
		r, err := ReadGoBinary(strings.NewReader(test.in), "p", test.exit)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(r); got != test.want {
			t.Errorf("%s: got:\n%s\nwant:\n%s", test.name, got, test.want)
		}
	}
	broken := errors.New("broken")
	if r, err := ReadGoBinary(io.MultiReader(strings.NewReader(run), iotest.ErrReader(broken)), "p", 0); !errors.Is(err, broken) || r.Format != "" || r.Suites != nil {
		t.Errorf("%v, %v", r, err)
	}
}

// TestReadGoBinaryPieces looks at a line that is longer than one piece.
func TestReadGoBinaryPieces(t *testing.T) {
	t.Parallel()
	for _, shift := range []string{"", "x", "xx", "xxx"} {
		text := shift + strings.Repeat("€", 3*maxPiece)
		in := "\x16=== RUN   TestA\n" + text + "\x16--- FAIL: TestA (0.00s)\n\x16=== NAME  \n\x16FAIL\n"
		r, err := ReadGoBinary(strings.NewReader(in), "p", 1)
		if err != nil || len(r.Tests) != 1 {
			t.Fatal(r, err)
		}
		detail, _ := strings.CutPrefix(r.Tests[0].Detail, "…\n")
		if detail == "" || strings.Trim(detail, "€") != "" || !strings.HasSuffix(text, detail) {
			t.Errorf("%d bytes of detail, %.20q", len(detail), detail)
		}
	}
}

func FuzzReadGoBinary(f *testing.F) {
	for _, stream := range []string{
		"\x16=== RUN   TestA\n\x16=== RUN   TestA/s\nout\x16--- FAIL: TestA/s (0.00s)\n\x16=== NAME  TestA\n\x16--- FAIL: TestA (0.00s)\n\x16=== NAME  \n\x16FAIL\n",
		"\x16=== RUN   TestA\n\x16=== PAUSE TestA\n\x16=== NAME  \n\x16=== CONT  TestA\n\x16--- SKIP: TestA (0.00s)\n\x16=== NAME  \n\x16PASS\nafter",
		"testing: warning: no tests to run\n\x16PASS\n", "PASS\n--- PASS: TestA (0.00s)\n",
		"\x16--- PASS: TestA (0.00s)\n    \x16    --- PASS: TestA/b (0.00s)\n\x16\x16\n\x16=== ATTR  TestA k v\n",
	} {
		f.Add([]byte(stream), 0)
		f.Add([]byte(stream), 1)
	}
	f.Fuzz(func(t *testing.T, stream []byte, exit int) {
		r, err := ReadGoBinary(bytes.NewReader(stream), "p", exit)
		if err != nil {
			t.Fatal(err)
		}
		checkReading(t, r)
		again, err := ReadGoBinary(iotest.OneByteReader(bytes.NewReader(stream)), "p", exit)
		if err != nil || describe(again) != describe(r) {
			t.Errorf("read again: %s\nfirst: %s", describe(again), describe(r))
		}
		if len(r.Suites) != 1 || r.Suites[0].Name != "p" {
			t.Errorf("suites %v", r.Suites)
		}
		green := func(r Reading) bool {
			n := r.Counts()
			return r.Complete && n.Pass > 0 && n.Fail+n.Unfinished+n.BadSuites == 0 && !slices.ContainsFunc(r.Signals, Signal.Disqualifies)
		}
		if green(r) {
			if marks := bytes.Count(stream, []byte{frameMark}); marks < 3 {
				t.Errorf("green with %d lines of package testing", marks)
			}
			// Without its last summary it is not green.
			end := bytes.LastIndex(stream, []byte("\x16PASS"))
			head := stream[:max(end, 0)]
			if cut, err := ReadGoBinary(bytes.NewReader(head), "p", exit); err != nil || green(cut) && !bytes.Contains(head, []byte("\x16PASS")) {
				t.Errorf("green without its end: %q", head)
			}
		}
	})
}
