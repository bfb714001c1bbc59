package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/verifier"
)

// namesIn returns the strings of the constants in a source file whose names begin
// with a prefix.
func namesIn(t *testing.T, file, prefix string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot, file))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\s`+prefix+`\w+\s+= "([a-z-]+)"`).FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	if len(names) < 8 {
		t.Fatalf("%s: only %d names", file, len(names))
	}
	return names
}

// TestDocEvidence: the page has every finding, signal and kind of run, and no other;
// and the report has words for every finding.
func TestDocEvidence(t *testing.T) {
	t.Parallel()
	const page = "docs/evidence.md"
	_, rest, _ := strings.Cut(prose(t, page), "\n## The runs")
	runs, rest, _ := strings.Cut(rest, "\n## Findings")
	findings, signals, ok := strings.Cut(rest, "\n## Signals")
	if !ok {
		t.Fatalf("%s: sections are missing", page)
	}
	codes := slices.DeleteFunc(namesIn(t, "verifier/conclude.go", "Find"), func(s string) bool { return strings.HasPrefix(s, "-") })
	for _, class := range []string{"harness", "ci", "build", "golden", "tooling"} {
		codes = append(codes, class+"-touched")
	}
	for _, part := range []struct {
		text, cell string
		want       []string
	}{
		{runs, `^\| ((?:\x60[a-z-]+\x60(?:, )?)+) \|`, namesIn(t, "verifier/plan.go", "Purpose")},
		{findings, `^\| ((?:\x60[a-z-]+\x60(?:, )?)+) \|`, codes},
		{signals, `^\| ((?:\x60[a-z-]+\x60(?:, )?)+) \|`, namesIn(t, "verifier/signal.go", "sig")},
	} {
		var got []string
		for _, row := range regexp.MustCompile(`(?m)`+part.cell).FindAllStringSubmatch(part.text, -1) {
			for _, name := range strings.Split(row[1], ", ") {
				got = append(got, strings.Trim(name, "`"))
			}
		}
		for _, name := range part.want {
			if !slices.Contains(got, name) {
				t.Errorf("%s: %s is not there", page, name)
			}
		}
		for _, name := range got {
			if !slices.Contains(part.want, name) {
				t.Errorf("%s: %s is not known", page, name)
			}
		}
	}
	for _, row := range tableRows(t, page, "`[a-z-]+`(, `[a-z-]+`)*") {
		if row[1] != "yes" && row[1] != "no" {
			continue // not a signal
		}
		for _, name := range strings.Split(row[0], ", ") {
			if s := (verifier.Signal{Code: strings.Trim(name, "`")}); s.Disqualifies() != (row[1] == "yes") {
				t.Errorf("%s: does %s disqualify? %t", page, name, s.Disqualifies())
			}
		}
	}
	for _, code := range codes {
		f := verifier.Findings{Findings: []verifier.Finding{{Code: code, Path: "p"}}}
		if notes := f.Notes(); len(notes) != 1 || !strings.Contains(notes[0].Text, ": ") {
			t.Errorf("%s: the report has no words for it: %v", code, notes)
		}
	}
}

// TestDocIntegrity: the table has every key with its default.
func TestDocIntegrity(t *testing.T) {
	t.Parallel()
	const page = "docs/configuration.md"
	_, rest, _ := strings.Cut(readPage(t, page), "\n## integrity")
	section, _, _ := strings.Cut(rest, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (fail|warn|ignore) \\|").FindAllStringSubmatch(section, -1)
	if want := reflect.TypeFor[verifier.IntegrityConfig]().NumField(); len(rows) != want {
		t.Errorf("%s: %d keys, want %d", page, len(rows), want)
	}
	document := func(text string) []byte {
		c, err := verifier.ParseConfig([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		doc, err := c.Document()
		if err != nil {
			t.Error(err)
		}
		return doc
	}
	standard := document("shallow: refuse\n")
	for _, row := range rows {
		for _, policy := range []string{verifier.PolicyFail, verifier.PolicyWarn, verifier.PolicyIgnore} {
			same := bytes.Equal(document(fmt.Sprintf("integrity: {%s: %s}\n", row[1], policy)), standard)
			if same != (policy == row[2]) {
				t.Errorf("%s: the default of %s is not %s", page, row[1], row[2])
			}
		}
	}
	for key, values := range map[string][3]string{ // default, least and greatest
		"reruns": {"5", "1", "50"}, "mutants": {"40", "1", "500"}, "budget": {"20m", "1s", "6h"},
	} {
		if row := tableRows(t, page, "`"+key+"`"); len(row) != 1 || row[0][1] != values[0] || row[0][2] != values[1]+" to "+values[2] {
			t.Errorf("%s: %s: %v", page, key, row)
		}
		for i, value := range values {
			if same := bytes.Equal(document(fmt.Sprintf("evidence: {%s: %s}\n", key, value)), standard); same != (i == 0) {
				t.Errorf("%s: %s: %s is the default: %t", page, key, value, same)
			}
		}
	}
	for _, text := range []string{"reruns: 0", "reruns: 51", "mutants: 0", "mutants: 501", "budget: 0s", "budget: 21601s", "level: L5", "level: 2"} {
		if _, err := verifier.ParseConfig([]byte("evidence: {" + text + "}\n")); err == nil {
			t.Errorf("%s: %s is accepted", page, text)
		}
	}
}
