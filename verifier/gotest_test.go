package verifier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rogpeppe/go-internal/txtar"
)

// describe renders all of a reading but the details of tests and suites.
func describe(r Reading) string {
	var b strings.Builder
	state := "complete"
	if !r.Complete {
		state = "incomplete"
	}
	fmt.Fprintf(&b, "%s, %d unparsed\n", state, r.Unparsed)
	for _, s := range r.Suites {
		fmt.Fprintf(&b, "suite %s: %s", s.Name, s.Outcome)
		if s.Kind != "" {
			fmt.Fprintf(&b, " (%s)", s.Kind)
		}
		fmt.Fprintf(&b, ", %d tests", s.Tests)
		if s.Cached {
			b.WriteString(", cached")
		}
		b.WriteByte('\n')
	}
	for _, t := range r.Tests {
		fmt.Fprintf(&b, "test %s %s", t.Suite, t.Name)
		if t.Ordinal > 0 {
			fmt.Fprintf(&b, " again %d", t.Ordinal)
		}
		fmt.Fprintf(&b, ": %s", t.Outcome)
		if t.Kind != "" {
			fmt.Fprintf(&b, " (%s)", t.Kind)
		}
		b.WriteByte('\n')
	}
	for _, s := range r.Signals {
		line := strings.Join([]string{s.Code, s.Suite, s.Test, s.Detail}, " | ")
		fmt.Fprintf(&b, "signal %s\n", strings.TrimRight(line, " |"))
	}
	return b.String()
}

// TestGoTestStreams reads the streams in testdata/gotest. Each file holds what
// it shows, the exit code, a stream, and the reading.
func TestGoTestStreams(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/gotest/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no streams", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(archive.Comment)), "\n")
			exit, err := strconv.Atoi(strings.TrimPrefix(lines[len(lines)-1], "exit "))
			if err != nil || len(archive.Files) != 2 {
				t.Fatal("not a stream file", err)
			}
			stream, want := archive.Files[0].Data, string(archive.Files[1].Data)
			got, err := ReadGoTest(bytes.NewReader(stream), exit)
			if err != nil {
				t.Fatal(err)
			}
			if describe(got) != want {
				t.Errorf("got:\n%s\nwant:\n%s", describe(got), want)
			}
		})
	}
}

// runGoTest runs go test -json in dir and reads the stream.
func runGoTest(t *testing.T, dir string, args ...string) Reading {
	t.Helper()
	cmd := exec.Command("go", append([]string{"test", "-json", "-count=1"}, args...)...)
	cmd.Dir = dir
	// This test may itself run with settings that change a stream.
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local", "GO111MODULE=on")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatalf("go test: %v\n%s", err, stderr.Bytes())
	}
	r, err := ReadGoTest(bytes.NewReader(stdout), cmd.ProcessState.ExitCode())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Suites) == 0 {
		t.Fatalf("go test said nothing about a package: %s%s", stdout, stderr.Bytes())
	}
	return r
}

func needGo(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
}

// signalsOf lists the signals of a reading about one suite, or about none.
func signalsOf(r Reading, suite string) []string {
	var list []string
	for _, s := range r.Signals {
		if s.Suite == suite {
			list = append(list, strings.TrimSpace(s.Code+" "+s.Test))
		}
	}
	return list
}

// TestGoTestCheats runs the packages of tamper-go, one trick each.
func TestGoTestCheats(t *testing.T) {
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
	r := runGoTest(t, dir, "./...")
	want := map[string]struct {
		outcome Outcome
		signals []string
	}{
		"lab/buildfail":   {BuildFailed, nil},
		"lab/constrained": {Empty, []string{sigNoTestFiles}},
		"lab/exit0main":   {Empty, []string{sigPassNoSummary, sigNoTestRan}},
		"lab/exit0test":   {Fail, nil},
		"lab/flagset":     {Empty, []string{sigNoTestsToRun}},
		"lab/forgemain":   {Pass, nil}, // nothing in the stream shows it
		"lab/forgemarker": {Pass, []string{sigImpossibleOrder + " TestGhost", sigReportLine}},
		"lab/initexit":    {Empty, []string{sigPassNoSummary, sigNoTestRan}},
		"lab/notests":     {Empty, []string{sigNoTestFiles}},
		"lab/panicp":      {Fail, nil}, // below
		"lab/skipper":     {Pass, nil}, // a skipped test is an outcome, not a signal
		"lab/sysexit":     {Unfinished, []string{sigResultNoReport + " TestA", sigSuiteUnfinished}},
		"lab/vetfail":     {BuildFailed, []string{sigVetFailed}},
		"lab/weird":       {Pass, nil}, // odd, and honest
	}
	for _, s := range r.Suites {
		w, ok := want[s.Name]
		if !ok {
			t.Errorf("%s: not expected", s.Name)
			continue
		}
		delete(want, s.Name)
		if s.Outcome != w.outcome {
			t.Errorf("%s: %s, want %s", s.Name, s.Outcome, w.outcome)
		}
		got := signalsOf(r, s.Name)
		if s.Name == "lab/panicp" {
			// How far the siblings came is a matter of time.
			got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, sigTestUnfinished) })
		}
		if !slices.Equal(got, w.signals) {
			t.Errorf("%s: signals %q, want %q", s.Name, got, w.signals)
		}
	}
	for name := range want {
		t.Errorf("%s: missing", name)
	}
	if r.Complete {
		t.Error("complete, though lab/sysexit has no result")
	}
	if got := signalsOf(r, ""); len(got) > 0 {
		t.Errorf("signals about the whole: %q", got)
	}
	outcomes := map[string]Outcome{
		"lab/exit0test TestA": Fail, "lab/sysexit TestA": Unfinished, "lab/skipper TestAdd": Skip,
		"lab/panicp TestB": Fail, "lab/panicp TestC": Pass,
		"lab/weird TestNoNL": Pass, "lab/weird TestStderr": Pass, "lab/weird TestSlash/a/b_c#01": Pass,
		"lab/weird FuzzX/seedfile": Pass, "lab/weird ExampleAdd": Pass,
	}
	for _, test := range r.Tests {
		key := test.Suite + " " + test.Name
		if o, ok := outcomes[key]; ok && o != test.Outcome {
			t.Errorf("%s: %s, want %s", key, test.Outcome, o)
		}
		delete(outcomes, key)
		if test.Name == "TestGhostJSON" || test.Name == "TestPlain" || strings.HasPrefix(test.Name, "Benchmark") {
			t.Errorf("%s: there is no such test", key)
		}
		if test.Name == "TestB" && (test.Kind != kindPanic || !strings.Contains(test.Detail, "panic: boom")) {
			t.Errorf("%s: %s: %s", key, test.Kind, test.Detail)
		}
	}
	for key := range outcomes {
		t.Errorf("%s: missing", key)
	}
}

// TestGoTestRuns runs packages of this test's own, one for each behaviour of go
// test that is not in tamper-go.
func TestGoTestRuns(t *testing.T) {
	needGo(t)
	if testing.Short() {
		t.Skip("builds and runs many programs")
	}
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module runs\n\ngo 1.26\n")
	const head = "import (\n\"os\"\n\"strings\"\n\"testing\"\n)\n\nvar _, _ = os.Args, strings.Repeat\n\n"
	for name, body := range map[string]string{
		"exit1":   `func TestA(t *testing.T) { os.Exit(1) }; func TestB(t *testing.T) {}`,
		"crash":   `func TestA(t *testing.T) { go panic("boom"); select {} }`,
		"subtest": `func TestA(t *testing.T) { t.Run("s", func(t *testing.T) { panic("boom") }) }`,
		"timeout": `func TestA(t *testing.T) { t.Run("s", func(t *testing.T) { select {} }) }`,
		"early":   `func init() { panic("boom") }; func TestA(t *testing.T) {}`,
		"leak":    `func TestMain(m *testing.M) { m.Run(); os.Exit(3) }; func TestA(t *testing.T) {}`,
		"liar":    `func TestMain(m *testing.M) { m.Run(); os.Exit(0) }; func TestA(t *testing.T) { t.Error("wrong") }`,
		"nested": `func TestA(t *testing.T) {
			match := func(_, _ string) (bool, error) { return true, nil }
			testing.RunTests(match, []testing.InternalTest{{"inner", func(t *testing.T) { t.Error("meant") }}})
		}`,
		"glue": `func TestMain(m *testing.M) {
			os.Stdout.WriteString("before")
			code := m.Run()
			os.Stdout.WriteString("after")
			os.Exit(code)
		}
		func TestA(t *testing.T) {
			t.Run(strings.Repeat("n", 2000), func(t *testing.T) { os.Stdout.WriteString("in between") })
			t.Run(strings.Repeat("p", 1500), func(t *testing.T) { t.Parallel(); t.Log(strings.Repeat("y", 3000)) })
		}`,
	} {
		write(name+"/x_test.go", "package "+name+"\n\n"+head+body+"\n")
	}
	write("loader/x_test.go", "package loader\n\nimport _ \"runs/absent\"\n")
	write("empty/x.go", "package empty\n\nfunc F() {}\n")
	r := runGoTest(t, dir, "-vet=off", "-timeout=5s", "-cover", "./...")
	want := map[string]string{
		"runs/exit1":   "fail | test-unfinished TestA",
		"runs/crash":   "fail | test-unfinished TestA",
		"runs/subtest": "fail |",
		"runs/timeout": "fail | test-unfinished TestA, test-unfinished TestA/s, timeout TestA/s",
		"runs/early":   "fail panic | suite-failed-without-test",
		"runs/leak":    "fail exit | suite-failed-without-test",
		"runs/liar":    "pass | pass-without-summary, failed-test-in-passing-suite TestA",
		"runs/nested":  "pass | impossible-order inner, failed-test-in-passing-suite inner",
		"runs/glue":    "pass |",
		"runs/loader":  "build-failed setup |",
		"runs/empty":   "no-tests | no-test-files",
	}
	for _, s := range r.Suites {
		got := strings.TrimSpace(string(s.Outcome)+" "+s.Kind) + " | " + strings.Join(signalsOf(r, s.Name), ", ")
		if got = strings.TrimSpace(got); got != want[s.Name] {
			t.Errorf("%s: %s\nwant %s\n%s", s.Name, got, want[s.Name], s.Detail)
		}
		delete(want, s.Name)
	}
	for name := range want {
		t.Errorf("%s: missing", name)
	}
	for _, test := range r.Tests {
		kind := map[string]string{
			"runs/crash TestA": kindPanic, "runs/subtest TestA": kindPanic, "runs/subtest TestA/s": kindPanic,
			"runs/timeout TestA/s": kindTimeout, "runs/liar TestA": kindAssertion,
		}[test.Suite+" "+test.Name]
		if kind != "" && kind != test.Kind {
			t.Errorf("%s %s: %q, want %q: %s", test.Suite, test.Name, test.Kind, kind, test.Detail)
		}
	}
}

func TestReadGoTestLines(t *testing.T) {
	t.Parallel()
	line := func(n int) string {
		const start, end = `{"Action":"output","Output":"`, "\"}\n"
		return start + strings.Repeat("x", n-len(start)-len(end)) + end
	}
	for _, test := range []struct {
		name, in string
		unparsed int64
	}{
		{"none", "", 0},
		{"one", line(100), 0},
		{"without an end", strings.TrimSpace(line(100)), 0},
		{"the longest", line(maxLine), 0},
		{"too long", line(maxLine + 1), 1},
		{"too long and the next", line(3*maxLine) + line(50), 1},
		{"too long without an end", strings.TrimSpace(line(2*maxLine + 7)), 1},
		{"not UTF-8", "{\"Action\":\"output\",\"Output\":\"\xff\"}\n", 1},
		{"a long name", `{"Action":"run","Test":"` + strings.Repeat("x", maxName+1) + "\"}\n", 1},
	} {
		r, err := ReadGoTest(strings.NewReader(test.in), 0)
		if err != nil || r.Unparsed != test.unparsed {
			t.Errorf("%s: %d unparsed, %v", test.name, r.Unparsed, err)
		}
	}
	broken := errors.New("broken")
	r, err := ReadGoTest(io.MultiReader(strings.NewReader(line(100)), iotest.ErrReader(broken)), 0)
	if !errors.Is(err, broken) || r.Format != "" || r.Suites != nil {
		t.Errorf("%v, %v", r, err)
	}
}

func TestReadGoTestLimits(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range maxSignals + 40 {
		fmt.Fprintf(&b, "{\"Action\":\"run\",\"Test\":\"T%d\"}\n", i)
	}
	r, err := ReadGoTest(strings.NewReader(b.String()), 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Counts(); n.Unfinished != maxSignals+40 {
		t.Errorf("%d unfinished", n.Unfinished)
	}
	byCode := make(map[string]int)
	for _, s := range r.Signals {
		byCode[s.Code]++
	}
	// The signal of the suite comes after those of its tests, and is there.
	if byCode[sigTestUnfinished] != maxSignals+1 || byCode[sigSuiteUnfinished] != 1 {
		t.Errorf("signals %v", byCode)
	}
	if last := r.Signals[len(r.Signals)-1]; last.Detail != "and 40 more" {
		t.Errorf("last signal %v", last)
	}

	for _, test := range []struct {
		limit string
		near  func(*goStream)
	}{
		{"bytes of names", func(g *goStream) { g.names = maxNames - len("p") - 2*len("T1") }},
		{"tests", func(g *goStream) { g.Tests = make([]Test, maxTests-2) }},
		{"suites", func(g *goStream) { g.Suites = make([]Suite, maxSuites) }},
	} {
		g := newGoStream()
		test.near(g)
		for _, line := range []string{"run T1", "run T2", "run T3", "pass T3", "run T1"} {
			action, name, _ := strings.Cut(line, " ")
			g.line(fmt.Appendf(nil, "{\"Action\":%q,\"Package\":\"p\",\"Test\":%q}\n", action, name))
		}
		r := g.finish(0)
		if last := r.Signals[len(r.Signals)-1]; r.Complete || last.Code != sigLimitExceeded || !strings.Contains(last.Detail, test.limit) {
			t.Errorf("%s: complete %v, last signal %v", test.limit, r.Complete, last)
		}
		if r.Tests = slices.DeleteFunc(r.Tests, func(t Test) bool { return t.Suite == "" }); len(r.Tests) > 3 {
			t.Errorf("%s: tests %v", test.limit, r.Tests)
		}
	}
}

// TestGoTestExcerpt looks at what is kept of a failed test's output.
func TestGoTestExcerpt(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	event := func(action, output string) {
		fmt.Fprintf(&b, "{\"Action\":%q,\"Test\":\"TestA\",\"Output\":%s}\n", action, quoteJSON(t, output))
	}
	event("run", "")
	event("output", "=== RUN   TestA\n")
	for i := range 5000 {
		event("output", fmt.Sprintf("line %d é\n", i))
	}
	event("output", "--- FAIL: TestA (0.00s)\n")
	event("output", "panic: the reason\n")
	for range 1000 {
		event("output", "\tframe of a goroutine\n")
	}
	event("output", "panic: during that panic\n")
	event("output", "\tthe last frame\n")
	event("fail", "")
	r, err := ReadGoTest(&b, 1)
	if err != nil {
		t.Fatal(err)
	}
	detail := r.Tests[0].Detail
	if !strings.HasPrefix(detail, "panic: the reason\n…\n") || !strings.HasSuffix(detail, "\tthe last frame\n") {
		t.Errorf("detail: %.60q…", detail)
	}
	if len(detail) > maxExcerpt+100 || len(detail) < maxExcerpt {
		t.Errorf("%d bytes of detail", len(detail))
	}
}

// TestGoTestExcerpts looks at the bound of all excerpts.
func TestGoTestExcerpts(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	text := strings.Repeat("x", 1000)
	const tests = maxExcerpts/maxExcerpt + 200
	for i := range tests {
		fmt.Fprintf(&b, "{\"Action\":\"run\",\"Test\":\"T%d\"}\n", i)
		for range maxExcerpt / 1000 {
			fmt.Fprintf(&b, "{\"Action\":\"output\",\"Test\":\"T%d\",\"Output\":%q}\n", i, text)
		}
		fmt.Fprintf(&b, "{\"Action\":\"fail\",\"Test\":\"T%d\"}\n", i)
	}
	r, err := ReadGoTest(&b, 1)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, test := range r.Tests {
		kept += len(test.Detail)
	}
	if len(r.Tests) != tests || kept > maxExcerpts+tests*len("…\n") || kept < maxExcerpts/2 {
		t.Errorf("%d tests, %d bytes of excerpts", len(r.Tests), kept)
	}
}

func quoteJSON(t *testing.T, s string) []byte {
	t.Helper()
	quoted, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return quoted
}

func FuzzReadGoTest(f *testing.F) {
	files, err := filepath.Glob("testdata/gotest/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data, 0)
		f.Add(archive.Files[0].Data, 1)
	}
	f.Fuzz(func(t *testing.T, stream []byte, exit int) {
		r, err := ReadGoTest(bytes.NewReader(stream), exit)
		if err != nil {
			t.Fatal(err)
		}
		checkReading(t, r)
		// Reading in small pieces changes nothing.
		again, err := ReadGoTest(iotest.OneByteReader(bytes.NewReader(stream)), exit)
		if err != nil || describe(again) != describe(r) {
			t.Errorf("read again: %s\nfirst: %s", describe(again), describe(r))
		}
		if max := int64(bytes.Count(stream, []byte("\n")) + 1); r.Unparsed > max {
			t.Errorf("%d lines unparsed of %d", r.Unparsed, max)
		}
	})
}

// checkReading checks what is true for every reading.
func checkReading(t *testing.T, r Reading) {
	t.Helper()
	type key struct {
		suite, name string
		ordinal     int
	}
	seen := make(map[key]bool)
	for _, test := range r.Tests {
		k := key{test.Suite, test.Name, test.Ordinal}
		if seen[k] || test.Ordinal > 0 && !seen[key{test.Suite, test.Name, test.Ordinal - 1}] {
			t.Errorf("ordinal of %v", k)
		}
		seen[k] = true
		switch test.Outcome {
		case Pass, Skip:
			if test.Kind != "" || test.Detail != "" {
				t.Errorf("%v: %s with a reason to fail", k, test.Outcome)
			}
		case Fail, Unfinished:
		default:
			t.Errorf("%v: outcome %q", k, test.Outcome)
		}
		if len(test.Name) > maxName || len(test.Detail) > 2*maxExcerpt {
			t.Errorf("%v: too long", k)
		}
	}
	tests := 0
	for _, s := range r.Suites {
		tests += s.Tests
	}
	if tests != len(r.Tests) {
		t.Errorf("%d tests, and %d in suites", len(r.Tests), tests)
	}
	for _, s := range r.Signals {
		if s.Code == "" || len(s.Detail) > maxDetail {
			t.Errorf("signal %v", s)
		}
	}
}

// FuzzGoEvent compares the event parser with encoding/json.
// TestNumberSize: what is taken for a number is one for encoding/json.
func TestNumberSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"0": 1, "-0": 2, "12.50}": 5, "1e9,": 3, "1E+05 ": 5, "0.1e-1": 6, "01": 1,
		"": 0, "-": 0, "+1": 0, ".5": 0, "1.": 0, "1e": 0, "1e+": 0, "x": 0, "-x": 0, "NaN": 0,
	} {
		if got := numberSize([]byte(text)); got != want || got > 0 && !json.Valid([]byte(text)[:got]) {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func FuzzGoEvent(f *testing.F) {
	for _, line := range []string{
		`{"Action":"output","Package":"p","Test":"T/ä","Output":"a\"\\\/\b\f\n\r\té😀\ud83dx"}`,
		`{"ImportPath":"p [p.test]","Action":"build-fail","FailedBuild":"q","Elapsed":-1.5e3,"New":[{"a":null},true]}`,
		` { "Action" : "run" } `, `{"Action":"run",}`, `{"Action":"run"}x`, `{}`, `{"Action":"run","Test":null}`, "{\"Action\":\"r\x01\"}",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parseGoEvent(bytes.Clone(line)) // it decodes in place
		if err != nil {
			return
		}
		var want struct{ Action, Package, Test, Output, ImportPath, FailedBuild string }
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatalf("not JSON: %v", err)
		}
		for _, field := range []struct {
			got  []byte
			want string
		}{
			{e.action, want.Action}, {e.pkg, want.Package}, {e.test, want.Test},
			{e.output, want.Output}, {e.importPath, want.ImportPath}, {e.failedBuild, want.FailedBuild},
		} {
			if string(field.got) != field.want {
				t.Errorf("%q, want %q", field.got, field.want)
			}
		}
	})
}
