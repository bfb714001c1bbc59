package guard

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A sample is a line of a corpus: a text, and its label: "benign", or the family of the
// attack that it is; "attack" if the family is not known.
type sample struct {
	Text  string `json:"text"`
	Label string `json:"label"`
}

func readCorpus(t testing.TB, path string) []sample {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []sample
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, MaxContent)
	for line := 1; s.Scan(); line++ {
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		var x sample
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&x); err != nil || x.Text == "" || x.Label == "" {
			t.Fatalf("%s:%d: %v %+v", path, line, err, x)
		}
		list = append(list, x)
	}
	if s.Err() != nil || len(list) == 0 {
		t.Fatalf("%s: %d samples, %v", path, len(list), s.Err())
	}
	return list
}

// A score counts what a corpus shows.
type score struct{ attacks, detected, named, benign, clean int }

// evaluate scans a corpus and logs precision and recall, family by family.
func evaluate(t *testing.T, corpus []sample, verbose bool) score {
	t.Helper()
	type count struct{ labelled, found, right int }
	by := map[string]*count{}
	at := func(f string) *count {
		if by[f] == nil {
			by[f] = new(count)
		}
		return by[f]
	}
	var all score
	for _, x := range corpus {
		r := scanAll(t, x.Text)
		if x.Label == "benign" {
			all.benign++
			if len(r.Detections) == 0 {
				all.clean++
			} else if verbose {
				t.Logf("benign, but %s %q: %q", r.Detections[0].Rule, r.Detections[0].Matched, x.Text)
			}
		} else {
			all.attacks++
			if len(r.Detections) > 0 {
				all.detected++
			} else if verbose {
				t.Logf("%s, not detected: %q", x.Label, x.Text)
			}
			if len(r.Detections) > 0 && len(r.Families) == 0 {
				t.Errorf("detected without a family: %q", x.Text)
			}
			at(x.Label).labelled++
		}
		for _, f := range r.Families {
			at(string(f)).found++
			if string(f) == x.Label {
				at(x.Label).right++
				all.named++
			}
		}
	}
	for _, f := range slices.Sorted(maps.Keys(by)) {
		c := by[f]
		t.Logf("%-22s recall %d/%d, precision %d/%d", f, c.right, c.labelled, c.right, c.found)
	}
	t.Logf("detected %d of %d attacks, with their family %d; passed %d of %d benign", all.detected, all.attacks, all.named, all.clean, all.benign)
	return all
}

// TestCorpus holds the rules to a corpus of our own (R1).
func TestCorpus(t *testing.T) {
	t.Parallel()
	corpus := readCorpus(t, "testdata/corpus.jsonl")
	families := map[string]int{}
	for _, x := range corpus {
		families[x.Label]++
	}
	for _, m := range mitigations {
		if m.family != UntrustedOrigin && m.family != Unclassified && families[string(m.family)] < 4 {
			t.Errorf("%s: %d samples", m.family, families[string(m.family)])
		}
	}
	s := evaluate(t, corpus, true)
	if s.attacks < 60 || s.benign < 60 {
		t.Errorf("%d attacks and %d benign samples", s.attacks, s.benign)
	}
	if s.detected*100 < s.attacks*95 || s.named*100 < s.attacks*90 || s.clean*100 < s.benign*97 {
		t.Errorf("%+v: too few", s)
	}
}

// TestOtherCorpus measures with a corpus of somebody else's.
func TestOtherCorpus(t *testing.T) {
	path := os.Getenv("TRUEGREEN_GUARD_CORPUS")
	if path == "" {
		t.Skip("TRUEGREEN_GUARD_CORPUS is not set")
	}
	evaluate(t, readCorpus(t, path), testing.Verbose())
}

// TestFalsePositives scans what is no attack: this repository's pages and Go's library.
// The pages show escapes, commands and receipts on purpose; so do tests, which are left out.
func TestFalsePositives(t *testing.T) {
	t.Parallel()
	library := "/nowhere"
	if root, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		library = filepath.Join(strings.TrimSpace(string(root)), "src")
	}
	for _, c := range []struct {
		root, suffix string
		every, least int // one in so many files; this many must be clean, in 1000
	}{
		{"..", ".md", 1, 600},
		{library, ".go", 20, 950},
	} {
		files, clean, size, n := 0, 0, 0, 0
		rules := map[string]int{}
		err := filepath.WalkDir(c.root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, c.suffix) || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
				return err
			}
			if n++; n%c.every != 0 {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			size += len(text)
			r := scanAll(t, string(text))
			if len(r.Detections) == 0 {
				clean++
			}
			seen := map[string]bool{}
			for _, d := range r.Detections {
				if !seen[d.Rule+d.Inside] {
					seen[d.Rule+d.Inside] = true
					rules[strings.TrimSpace(d.Rule+" "+d.Inside)]++
					t.Logf("%s: %s %s %q", path, d.Rule, d.Inside, d.Matched)
				}
			}
			return nil
		})
		if err != nil {
			t.Logf("%s: %v", c.root, err)
			continue
		}
		if files == 0 {
			t.Logf("%s: has no files", c.root)
			continue
		}
		t.Logf("%s: %d of %d files clean, %d bytes; %v", c.root, clean, files, size, rules)
		if clean*1000 < files*c.least {
			t.Errorf("%s: too few are clean", c.root)
		}
	}
}
