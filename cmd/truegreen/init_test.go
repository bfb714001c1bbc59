package main

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/truegreen-dev/truegreen/verifier"
)

// TestConfigText: what init writes means what was detected, whatever is in it.
func TestConfigText(t *testing.T) {
	t.Parallel()
	entry := func(e verifier.TestEntry) verifier.TestEntry {
		e.Timeout = verifier.DefaultTimeout
		return e
	}
	for name, entries := range map[string][]verifier.TestEntry{
		"go":   {entry(verifier.TestEntry{Name: "go", Run: []string{"go", "test", "./..."}, Dir: ".", Format: verifier.FormatGo})},
		"exit": {entry(verifier.TestEntry{Name: "make", Run: []string{"make", "test"}, Dir: ".", Format: verifier.FormatExit})},
		"all": {
			entry(verifier.TestEntry{
				Name: "unit", Run: []string{"sh", "-c", "a 'b' \"c\" \\ # : {} [] & * ! | > % @ `\n\tü\u202e\u00a0\x7f"}, Dir: `sub/"dir: #1`,
				Format: verifier.FormatJUnit, Report: "report.xml", Env: []string{"A=off", "B=1.5", "C=", "D=a=b\n"}, Paths: []string{"**/*.go", "x y?"},
			}),
			entry(verifier.TestEntry{Name: "go-sub", Run: []string{"go", "test", "./..."}, Dir: "sub", Format: verifier.FormatGo, Env: []string{"GOWORK=off"}}),
		},
	} {
		text := configText(entries, []string{"a note\nof: two lines"})
		got, err := verifier.ParseConfig([]byte(text))
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		want := verifier.DefaultConfig()
		want.Test = entries
		gotDoc, err1 := got.Document()
		wantDoc, err2 := want.Document()
		if err1 != nil || err2 != nil || !bytes.Equal(gotDoc, wantDoc) {
			t.Errorf("%s: reads as\n%s\nwant\n%s (%v, %v)", name, gotDoc, wantDoc, err1, err2)
		}
	}
	if _, err := verifier.ParseConfig([]byte(configText(nil, nil))); err != nil {
		t.Errorf("nothing detected: %v", err)
	}
	// What is in comments is right without them.
	examples := regexp.MustCompile(`(?m)^# `).ReplaceAllString(configExamples, "")
	c, err := verifier.ParseConfig([]byte(examples))
	if d := verifier.DefaultConfig(); err != nil || c.Evidence.Level == d.Evidence.Level || c.Integrity.Removed == d.Integrity.Removed || c.Integrity.Harness == d.Integrity.Harness {
		t.Errorf("examples: %+v, %v", c, err)
	}
}
