package guard

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/guard.md again")

const (
	tableBegin = "<!-- rules: written by go test ./guard -run RulesPage -update -->\n"
	tableEnd   = "<!-- end of rules -->\n"
)

// TestRulesPage: the tables of docs/guard.md are the code's.
func TestRulesPage(t *testing.T) {
	t.Parallel()
	const path = "../docs/guard.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := bytes.Cut(page, []byte(tableBegin))
	_, tail, ok2 := bytes.Cut(rest, []byte(tableEnd))
	if !ok1 || !ok2 {
		t.Fatal("docs/guard.md has no place for the rules")
	}
	want := bytes.Join([][]byte{head, []byte(tableBegin), rulesTable(), []byte(tableEnd), tail}, nil)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(page, want) {
		t.Error("docs/guard.md is not what the code says: go test ./guard -run RulesPage -update")
	}
}

func rulesTable() []byte {
	var b bytes.Buffer
	b.WriteString("\n| family | what to do |\n|---|---|\n")
	for _, m := range mitigations {
		fmt.Fprintf(&b, "| `%s` | %s |\n", m.family, m.advice)
	}
	detector := ""
	for _, r := range compiled().rules {
		if r.detector != detector {
			detector = r.detector
			fmt.Fprintf(&b, "\n### %s\n\n| rule | family | severity | confidence | what it finds |\n|---|---|---|---|---|\n", detector)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %v | %s |\n", r.name, r.family, r.severity, r.confidence, strings.ReplaceAll(r.says, "|", `\|`))
	}
	b.WriteString("\n")
	return b.Bytes()
}
