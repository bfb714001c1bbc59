//go:build linux && (amd64 || arm64)

package conformance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

var image = flag.String("image", "", "with -update-docs, measure mode container, too, with this image (the test must be linked statically)")

var updateDocs = flag.Bool("update-docs", false, "measure, and write the matrix of docs/sandbox.md again")

const (
	page        = "../../docs/sandbox.md"
	matrixBegin = "<!-- matrix: written by go test ./sandbox/conformance -run Matrix -update-docs -->\n"
	matrixEnd   = "<!-- end of matrix -->\n"
)

// readMatrix returns the page before, in and after its matrix.
func readMatrix(t *testing.T) (before, matrix, after string) {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Skipf("the source is not here: %v", err)
	}
	before, rest, ok := strings.Cut(string(b), matrixBegin)
	matrix, after, ok2 := strings.Cut(rest, matrixEnd)
	if !ok || !ok2 {
		t.Fatalf("%s: no place for the matrix", page)
	}
	return before, matrix, after
}

// TestMatrix: the page has the rows of the table. What the columns say was true
// on the machine that it names, and is not compared.
func TestMatrix(t *testing.T) {
	before, matrix, after := readMatrix(t)
	if *updateDocs {
		matrix = measure(t)
		if err := os.WriteFile(filepath.Clean(page), []byte(before+matrixBegin+matrix+matrixEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for line := range strings.Lines(Markdown(Column{Outcomes: asOutcomes(Rows())})) {
		want = append(want, firstCells(line))
	}
	_, table, _ := strings.Cut(matrix, "\n\n")
	var got []string
	for line := range strings.Lines(table) {
		got = append(got, firstCells(line))
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("the page lacks: %s", want[i])
		case i >= len(want):
			t.Fatalf("the page has, and the table has not: %s", got[i])
		case got[i] != want[i]:
			t.Fatalf("the page has: %s\nthe table has: %s", got[i], want[i])
		}
	}
}

// firstCells are those that do not depend on a machine, or the whole line if it
// is none of the matrix.
func firstCells(line string) string {
	if !strings.HasPrefix(line, "| ") {
		return strings.TrimSuffix(line, "\n")[:min(len(line)-1, 12)]
	}
	cells := strings.SplitN(line, " | ", 5)
	return strings.Join(cells[:min(4, len(cells))], " | ")
}

func asOutcomes(rows []Row) []Outcome {
	list := make([]Outcome, len(rows))
	for i, r := range rows {
		list[i].Row = r
	}
	return list
}

func measure(t *testing.T) string {
	t.Helper()
	var columns []Column
	for _, p := range parties() {
		if able(p) {
			outcomes, err := p.run(t)
			if err != nil {
				t.Fatal(err)
			}
			columns = append(columns, Column{p.name, outcomes})
		}
	}
	if *image != "" {
		outcomes, err := run(t.Context(), order{Mode: sandbox.ModeContainer, Image: *image}, Rows(), nil)
		if err != nil {
			t.Fatal(err)
		}
		columns = append(columns, Column{"container (root)", outcomes})
	}
	peers := peerColumns(t)
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	release, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-")
	return fmt.Sprintf("Measured on %s, Linux %s, %s.\n\n", time.Now().UTC().Format(time.DateOnly), release, unix.ByteSliceToString(u.Machine[:])) +
		Markdown(append(columns, peers...)...)
}

// TestMarkdown: what is in a cell stays there, and what is open is bold.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	a := Row{ID: "1", Name: "a|b", Want: []string{"EPERM"}, Why: "because"}
	b := Row{ID: "2", Name: "c", Want: []string{"ok"}, Why: "because"}
	got := Markdown(
		Column{"x", []Outcome{{Row: a, Status: Held, Got: "EPERM"}, {Row: b, Status: Broken, Got: "<b>\n|"}}},
		Column{"y", []Outcome{{Row: a, Status: Open, Got: "ok"}}},
		Column{"z", []Outcome{{Row: a, Status: NotPromised, Got: "ok"}, {Row: b, Status: NotExercised}}},
	)
	want := `| # | attempt | from level | must end in | x | y | z |
|---|---|---|---|---|---|---|
| 1 | a\|b | none | EPERM | EPERM | **OPEN: ok** | (ok) |
| 2 | c | none | ok | **BROKEN: \<b> \|** | – | – |

- 1, 2: because.
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
