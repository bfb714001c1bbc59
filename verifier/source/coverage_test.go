package source

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// inModule is the path of a name of the module m.
func inModule(name string) (string, bool) { return strings.CutPrefix(name, "m/") }

// everyLine is a change of all lines of a file.
func everyLine(path string) []Change {
	return []Change{{Path: path, Lines: []Range{{1, 1 << 20}}}}
}

// marked is a program whose lines say whether they run with the argument 1;
// those that do not say it hold nothing that could.
const marked = `package m

import "fmt"

// F is run.
func F(x int) (y int) { // hit
	// a comment
	y = 0 // hit

	if x > 0 { // hit
		y++ // hit

		/* a comment
		   of two lines */
		fmt.Sprint( // hit
			x, // hit
		) // hit
	} else if x < -5 { // miss
		y-- // miss
	} else { // miss
		y = 7 // miss
	}
	switch x { // hit
	case 1: // hit
		y = 1 // hit
	case 2:
	default: // miss
		y = 3 // miss
	}
	for i := range x { // hit
		_ = i // hit
	}
	f := func() int { // hit
		return 3 // hit
	}
	z := ` + "`raw // hit\n// hit\n// hit\n`" + ` // hit
	_ = z // hit
	if x == 99 { return 3 } // miss
	if x == 1 { y = 9 } // hit
	return y + f() // hit
}

type T struct {
	a int
}

const c = 1

func Empty() {}

func Never() { // miss
	panic("never") // miss
}

var V = func() int { // hit
	return 1 // hit
}()
`

// TestGoProfileReal: what the go command writes, line by line.
func TestGoProfileReal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs go")
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n", "a/a.go": marked,
		"a/a_test.go": "package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { F(1) }\n",
		"b/b_test.go": "package b\n\nimport (\n\t\"testing\"\n\t_ \"m/a\"\n)\n\nfunc TestB(t *testing.T) {}\n",
	} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []string{"set", "atomic"} {
		cmd := exec.Command("go", "test", "-vet=off", "-covermode="+mode, "-coverpkg=./...", "-coverprofile=profile", "./...")
		cmd.Dir = dir
		cmd.Env = append(cmd.Environ(), "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		profile, err := os.Open(filepath.Join(dir, "profile"))
		if err != nil {
			t.Fatal(err)
		}
		defer profile.Close()
		c, err := ReadGoProfile(profile, inModule)
		if err != nil {
			t.Fatal(err)
		}
		// Older versions put braces into blocks that newer ones leave out.
		checkMarks(t, c, "a/a.go")
		if c.Has("b/b_test.go") || !c.Has("a/a.go") {
			t.Error("the wrong files are named")
		}
	}
}

// checkMarks asks about each line of marked by itself. A line with nothing but
// brackets may be either.
func checkMarks(t *testing.T, c *Coverage, path string) {
	t.Helper()
	head := func(string) ([]byte, bool) { return []byte(marked), true }
	var hits, all int
	for i, text := range strings.Split(marked, "\n") {
		want, counts := strings.HasSuffix(text, "// hit"), strings.HasSuffix(text, "// hit") || strings.HasSuffix(text, "// miss")
		executed, instrumented, missed := c.Changed([]Change{{Path: path, Lines: []Range{{i + 1, i + 1}}}}, nil, head)
		hits, all = hits+executed, all+instrumented
		if strings.Trim(text, "\t{}()") == "" && strings.ContainsAny(text, "{}()") {
			continue
		}
		if (instrumented == 1) != counts || (executed == 1) != want || (len(missed) == 1) != (counts && !want) {
			t.Errorf("line %d: executed %d of %d: %s", i+1, executed, instrumented, text)
		}
	}
	executed, instrumented, missed := c.Changed(everyLine(path), nil, head)
	if executed != hits || instrumented != all || len(missed) != 1 {
		t.Errorf("all lines: %d of %d, %v; one by one %d of %d", executed, instrumented, missed, hits, all)
	}
}

// TestGoProfileBlocks: the same with the blocks of a version that does not
// leave comments and braces out, and with blocks of two binaries.
func TestGoProfileBlocks(t *testing.T) {
	t.Parallel()
	blocks := []string{
		"6.23,10.11 2 1", "10.11,18.3 2 1", "18.8,18.19 1 0", "18.19,20.3 1 0", "20.8,22.3 1 0", "23.2,23.11 1 1", "24.9,25.8 1 1", "26.9,26.9 0 0",
		"27.10,28.8 1 0", "30.2,30.19 1 1", "30.19,32.3 1 1", "33.2,33.18 1 1", "33.18,35.3 1 1", "36.2,41.13 3 1", "41.13,41.25 1 0", "42.2,42.12 1 1",
		"42.12,42.21 1 1", "43.2,43.16 1 1", "52.15,52.16 0 0", "54.14,56.2 1 0", "58.20,60.2 1 1",
	}
	var b strings.Builder
	b.WriteString("mode: count\n")
	for _, block := range blocks {
		fmt.Fprintln(&b, "m/a.go:"+block[:len(block)-1]+"0") // where nothing ran
	}
	for _, block := range blocks {
		fmt.Fprintln(&b, "m/a.go:"+block)
	}
	for _, block := range blocks {
		fmt.Fprintln(&b, "m/a.go:"+block[:len(block)-1]+"0")
	}
	c, err := ReadGoProfile(strings.NewReader(b.String()), inModule)
	if err != nil {
		t.Fatal(err)
	}
	checkMarks(t, c, "a.go")
}

func TestChanged(t *testing.T) {
	t.Parallel()
	c, err := ReadGoProfile(strings.NewReader("mode: set\nm/b.go:1.1,3.2 2 0\nm/b.go:5.1,6.2 1 1\nm/a.go:2.1,2.9 1 0\nother/x.go:1.1,9.9 1 1\n"), inModule)
	if err != nil {
		t.Fatal(err)
	}
	changes := []Change{
		{Path: "b.go", Lines: []Range{{1, 2}, {4, 5}, {6, 90}}}, {Path: "a.go", Lines: []Range{{2, 2}}},
		{Path: "x.go", Lines: []Range{{1, 2}}}, {Path: "other/x.go", Lines: []Range{{1, 2}}}, {Path: "c.go", Binary: true},
	}
	content := map[string]string{"b.go": "x\n\n// c\n\nx\nx", "a.go": "x\nx"}
	head := func(path string) ([]byte, bool) { s, ok := content[path]; return []byte(s), ok }
	for _, test := range []struct {
		name                   string
		isCode                 func(string) bool
		head                   func(string) ([]byte, bool)
		executed, instrumented int
		missed                 []Lines
	}{
		{"with content", nil, head, 2, 4, []Lines{{"a.go", []Range{{2, 2}}}, {"b.go", []Range{{1, 1}}}}},
		{"without", nil, nil, 2, 5, []Lines{{"a.go", []Range{{2, 2}}}, {"b.go", []Range{{1, 2}}}}},
		{"of what is not known", nil, func(string) ([]byte, bool) { return nil, false }, 2, 5, []Lines{{"a.go", []Range{{2, 2}}}, {"b.go", []Range{{1, 2}}}}},
		{"code", func(path string) bool { return path == "a.go" }, head, 0, 1, []Lines{{"a.go", []Range{{2, 2}}}}},
		{"no code", func(string) bool { return false }, head, 0, 0, nil},
		{"empty files", nil, func(string) ([]byte, bool) { return nil, true }, 0, 0, nil},
	} {
		executed, instrumented, missed := c.Changed(changes, test.isCode, test.head)
		if executed != test.executed || instrumented != test.instrumented || !reflect.DeepEqual(missed, test.missed) {
			t.Errorf("%s: %d of %d, missed %v", test.name, executed, instrumented, missed)
		}
	}
	var zero Coverage
	if executed, instrumented, missed := zero.Changed(changes, nil, head); executed != 0 || instrumented != 0 || missed != nil || zero.Has("a.go") {
		t.Error("no report covers something")
	}
}

// TestChangedLines: lines of one file, by hand. The marks are those of the
// blocks' lines in order: x executed, - missed, a space for neither.
func TestChangedLines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, blocks, content, want string }{
		{"a condition and what depends on it", "1.1,1.5 1 1\n1.5,1.9 1 0", "if a{ b }", "-"},
		{"both run", "1.1,1.5 1 1\n1.5,1.9 1 2", "if a{ b }", "x"},
		{"a condition alone", "1.1,1.5 1 1\n1.5,3.2 1 0", "if a{\n b\n}", "x--"},
		{"brackets of what was missed", "1.1,3.2 1 1\n3.2,4.9 1 0", "f(\na,\n)(\n)", "xxx-"},
		{"brackets alone, in one that ran", "1.1,2.2 1 0\n2.2,3.2 1 1", "{ a\n}{\n}", "-xx"},
		{"a name before the block", "1.9,3.2 1 1", "func f(){\na\n}", "xxx"},
		{"a case before the block", "1.8,2.2 1 0", "case 1:\na", "--"},
		{"no statements", "1.9,1.11 0 1", "func f(){}", " "},
		{"nothing there", "2.1,2.2 1 1", "a\nb\nc", " x "},
		{"nested, both ran", "1.1,3.2 1 1\n2.1,2.2 1 1", "a\nb\nc", "xxx"},
		{"nested, one was missed", "1.1,3.2 1 1\n2.1,2.2 1 0", "a\nb\nc", "x-x"},
		{"a comment that moves lines", "2.1,4.2 3 1", "a\nb\n//line x.go:900\nc", " x x"},
		{"a raw string", "1.1,4.2 1 0", "`\r\n\r\n//`\n/*\n*/", "---  "},
		{"a file that ends early", "1.1,9.1 1 1", "a", "x"},
		{"no Go", "1.1,2.9 1 1", "\x00\xff\n'", "xx"},
	} {
		c, err := ReadGoProfile(strings.NewReader("mode: count\nm/a.go:"+strings.ReplaceAll(test.blocks, "\n", "\nm/a.go:")+"\n"), inModule)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for i := range strings.Count(test.content, "\n") + 1 {
			executed, instrumented, _ := c.Changed([]Change{{Path: "a.go", Lines: []Range{{i + 1, i + 1}}}}, nil, func(string) ([]byte, bool) { return []byte(test.content), true })
			got = append(got, " -x"[instrumented+executed])
		}
		if string(got) != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestGoProfileRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, profile string
		empty         bool
	}{
		{"nothing", "", true},
		{"only the mode", "mode: set\n", true},
		{"no mode", "m/a.go:1.1,2.2 1 1\n", false},
		{"an unknown mode", "mode: all\nm/a.go:1.1,2.2 1 1\n", false},
		{"two modes", "mode: set\nm/a.go:1.1,2.2 1 1\nmode: set\n", false},
		{"not ended", "mode: set\nm/a.go:1.1,2.2 1 1", false},
		{"an empty line", "mode: set\n\nm/a.go:1.1,2.2 1 1\n", false},
		{"no name", "mode: set\n:1.1,2.2 1 1\n", false},
		{"no count", "mode: set\nm/a.go:1.1,2.2 1\n", false},
		{"too much", "mode: set\nm/a.go:1.1,2.2 1 1 1\n", false},
		{"line 0", "mode: set\nm/a.go:0.1,2.2 1 1\n", false},
		{"column 0", "mode: set\nm/a.go:1.0,2.2 1 1\n", false},
		{"a leading zero", "mode: set\nm/a.go:01.1,2.2 1 1\n", false},
		{"a sign", "mode: set\nm/a.go:1.1,2.2 1 -1\n", false},
		{"a plus", "mode: set\nm/a.go:1.1,+2.2 1 1\n", false},
		{"a large line", "mode: set\nm/a.go:1.1,2147483648.2 1 1\n", false},
		{"a large count", "mode: set\nm/a.go:1.1,2.2 1 18446744073709551616\n", false},
		{"backwards", "mode: set\nm/a.go:2.1,1.2 1 1\n", false},
		{"no place for a statement", "mode: set\nm/a.go:1.1,1.1 1 1\n", false},
		{"two numbers of statements", "mode: set\nm/a.go:1.1,2.2 1 1\nm/a.go:1.1,2.2 2 1\n", false},
		{"a long line", "mode: set\nm/" + strings.Repeat("a", maxProfileLine) + ".go:1.1,2.2 1 1\n", false},
	} {
		c, err := ReadGoProfile(strings.NewReader(test.profile), inModule)
		if c != nil || err == nil || errors.Is(err, ErrNoCoverage) != test.empty {
			t.Errorf("%s: %v, %v", test.name, c, err)
		}
	}
	// What is of another module, or has no statements, is code nevertheless.
	for _, profile := range []string{"mode: set\nx/a.go:1.1,2.2 1 1\n", "mode: atomic\nm/a.go:1.1,1.1 0 0\n", "mode: count\nm/a:b.go:1.1,1.3 1 18446744073709551615\n"} {
		if _, err := ReadGoProfile(strings.NewReader(profile), inModule); err != nil {
			t.Errorf("%q: %v", profile, err)
		}
	}
}

// A blockReader is a profile of ever new blocks, or files.
type blockReader struct {
	n, max int
	form   string
	rest   []byte
}

func (r *blockReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.n == r.max {
			return 0, io.EOF
		}
		if r.n == 0 {
			r.rest = []byte("mode: set\n")
		}
		for range 1000 {
			r.n++
			r.rest = fmt.Appendf(r.rest, r.form, r.n)
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func TestCoverageLimits(t *testing.T) {
	t.Parallel()
	for _, add := range []string{"m/a1.go:1.1,1.3 1 0\n", "m/a.go:1.1,1.2 1 0\n"} {
		c := &Coverage{columns: true, blocks: maxCoverage - 1}
		lines := newLineReader(strings.NewReader("mode: set\nm/a.go:1.1,1.2 1 0\n"+add+"m/a.go:1.1,1.2 1 1\n"), maxProfileLine)
		if err := c.readGoProfile(&lines, inModule); (err != nil) != strings.Contains(add, ".3") {
			t.Errorf("blocks at the limit, then %q: %v", add, err)
		}
		c = &Coverage{columns: true, files: make(map[string]*fileCoverage)}
		for i := range maxCoverageFile - 1 {
			c.files[fmt.Sprint(i)] = nil
		}
		lines = newLineReader(strings.NewReader("mode: set\nm/a.go:1.1,1.2 1 0\n"+add), maxProfileLine)
		if err := c.readGoProfile(&lines, inModule); (err != nil) != strings.Contains(add, "a1") {
			t.Errorf("files at the limit, then %q: %v", add, err)
		}
	}
}

// TestCoverageHostile: what a report may say at most is asked about in a time
// that the size of the patch and of the report bound.
func TestCoverageHostile(t *testing.T) {
	t.Parallel()
	c, err := ReadGoProfile(&blockReader{max: 40_000, form: "m/a.go:%d.1,2147483647.1 1 0\n"}, inModule)
	if err != nil {
		t.Fatal(err)
	}
	content := []byte(strings.Repeat("x\n", 40_000))
	executed, instrumented, missed := c.Changed(everyLine("a.go"), nil, func(string) ([]byte, bool) { return content, true })
	if executed != 0 || instrumented != 40_000 || len(missed) != 1 || !reflect.DeepEqual(missed[0].Ranges, []Range{{1, 40_000}}) {
		t.Errorf("%d of %d, %d", executed, instrumented, len(missed))
	}
}

// FuzzGoProfile: whatever is read gives counts that agree.
func FuzzGoProfile(f *testing.F) {
	f.Add([]byte("mode: set\nm/a.go:1.1,3.2 2 0\nm/a.go:2.1,2.9 1 1\n"), []byte("package a\nfunc f() {\n}\n"))
	f.Add([]byte("mode: count\nm/a.go:1.1,3.2 2 7\n"), []byte("`\n\n`"))
	f.Fuzz(func(t *testing.T, profile, content []byte) {
		c, err := ReadGoProfile(strings.NewReader(string(profile)), inModule)
		checkCoverage(t, c, err, content)
	})
}

func checkCoverage(t *testing.T, c *Coverage, err error, content []byte) {
	t.Helper()
	if err != nil {
		if c != nil {
			t.Errorf("%v beside %v", c, err)
		}
		return
	}
	changes := []Change{{Path: "a.go", Lines: []Range{{1, 3}, {5, 5000}}}, {Path: "b", Lines: []Range{{2, 2}}}}
	executed, instrumented, missed := c.Changed(changes, nil, func(string) ([]byte, bool) { return content, true })
	n := 0
	for _, m := range missed {
		for _, r := range m.Ranges {
			n += r.To - r.From + 1
		}
	}
	if executed < 0 || executed+n != instrumented || instrumented > 5000 {
		t.Errorf("%d of %d, missed %v", executed, instrumented, missed)
	}
	all, instrumentedAll, _ := c.Changed(changes, nil, nil)
	if instrumented > instrumentedAll || !c.columns && all != executed {
		t.Errorf("%d of %d with the content, %d of %d without", executed, instrumented, all, instrumentedAll)
	}
}
