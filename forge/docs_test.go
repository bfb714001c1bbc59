package forge

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocReport compares the examples of docs/report.md with what the code makes.
func TestDocReport(t *testing.T) {
	t.Parallel()
	const page = "../docs/report.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	made := pages(t)
	seen := 0
	got := regexp.MustCompile(`(?s)<!-- example: ([a-z]+) -->\n~~~markdown\n.*?~~~\n`).ReplaceAllStringFunc(string(text), func(block string) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(block, "<!-- example: "), " ")
		seen++
		return "<!-- example: " + name + " -->\n~~~markdown\n" + strings.TrimPrefix(made[name].Comment(marker), marker+"\n") + "~~~\n"
	})
	if seen != 3 {
		t.Errorf("%d examples", seen)
	}
	if got == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s: an example is not what the code makes", page)
	}
	if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
		t.Fatal(err)
	}
}
