package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// TestNewFile: a file is written whole, in the place of none, and leaves nothing else.
func TestNewFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f := newFile{"a/b/file", "text"}
	if err := f.write(root); err != nil {
		t.Fatal(err)
	}
	if err := (newFile{f.path, "other"}).write(root); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that is there: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, f.path)); err != nil || string(text) != f.text {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "a/link")); err != nil {
		t.Skip(err)
	}
	if err := (newFile{"a/link", "other"}).write(root); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a link to nothing: %v", err)
	}
	if err := (newFile{"../file", "other"}).write(root); err == nil {
		t.Error("it has left its folder")
	}
	var names []string
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		names = append(names, strings.TrimPrefix(path, dir))
		return nil
	})
	if want := []string{"", "/a", "/a/b", "/a/b/file", "/a/link"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
