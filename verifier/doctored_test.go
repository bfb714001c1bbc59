package verifier_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// doctored verifies a run whose evidence document was changed.
func doctored(t *testing.T, r fixture.Run, quick bool, change func([]byte) []byte) verifier.Report {
	t.Helper()
	r.Forge.Evidence = change
	o := r.Options()
	o.Quick = quick
	return verify(t, bundleOf(t, &r), o)
}

// TestDoctoredRows: whatever number or word of a row is changed in the sealed
// document, whoever reads the output again sees it. Who believes the document draws
// the conclusions again all the same: no finding and no claim can be another one.
func TestDoctoredRows(t *testing.T) {
	t.Parallel()
	run := func() fixture.Run {
		r := harnessed(2, 8)
		r.Config.Evidence.Reruns = 2
		return r
	}
	var doc []byte
	for _, quick := range []bool{false, true} {
		if got := doctored(t, run(), quick, func(b []byte) []byte { doc = bytes.Clone(b); return b }); got.Verdict() != verifier.Verified || got.Findings().Claim.Level != 4 {
			t.Fatalf("quick %t: %v, L%d", quick, got.Reasons(), got.Findings().Claim.Level)
		}
	}
	rows := strings.SplitAfter(strings.TrimSuffix(string(doc), "\n"), "\n")
	number, word := regexp.MustCompile(`:(\d+)`), regexp.MustCompile(`:"([^"]+)"|:(true|false)`)
	kinds, most := map[string]int{}, 3
	if testing.Short() {
		most = 1
	}
	for i, row := range rows {
		kind, _, _ := strings.Cut(row, ":")
		if kinds[kind]++; kinds[kind] > most && kind != `{"claim"` {
			continue
		}
		for _, edit := range edits(row, number, word) {
			changed := []byte(strings.Join(rows[:i], "") + edit + strings.Join(rows[i+1:], "") + "\n")
			if bytes.Equal(changed, doc) {
				t.Fatalf("row %d is not changed", i)
			}
			for _, quick := range []bool{false, true} {
				if quick && (kind == `{"test"` || kind == `{"signal"` || kind == `{"suite"` || kind == `{"run"` || kind == `{"cover"`) {
					continue // what it believes; TestDoctoredBelieved
				}
				if got := doctored(t, run(), quick, func([]byte) []byte { return changed }); !got.Has(verifier.EvidenceBroken) || got.Verdict() != verifier.Broken {
					t.Errorf("quick %t: %q: %v", quick, strings.TrimSpace(edit), got.Reasons())
				}
			}
		}
	}
	for _, kind := range []string{`{"v"`, `{"run"`, `{"test"`, `{"cover"`, `{"finding"`, `{"claim"`, `{"runs"`} {
		if kinds[kind] == 0 {
			t.Errorf("no row %s", kind)
		}
	}
}

// edits returns a row with each of its numbers and words changed.
func edits(row string, number, word *regexp.Regexp) (list []string) {
	for _, at := range number.FindAllStringSubmatchIndex(row, -1) {
		n, _ := strconv.Atoi(row[at[2]:at[3]])
		list = append(list, fmt.Sprintf("%s%d%s", row[:at[2]], n+1, row[at[3]:]))
	}
	for _, at := range word.FindAllStringSubmatchIndex(row, -1) {
		if at[2] < 0 {
			other := map[string]string{"true": "false", "false": "true"}[row[at[4]:at[5]]]
			list = append(list, row[:at[4]]+other+row[at[5]:])
			continue
		}
		list = append(list, row[:at[2]]+string(row[at[2]]^1)+row[at[2]+1:at[3]]+row[at[3]:])
	}
	return list
}

// TestDoctoredBelieved: a document whose rows are changed, and whose conclusions are
// left as they were, is believed by no one where the conclusions depend on the row.
func TestDoctoredBelieved(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"a failure less on the hybrid": {`{"test":"TestNew","of":9,"suite":"example.com/project","outcome":"fail","kind":"assertion"}`, `{"test":"TestNew","of":9,"suite":"example.com/project","outcome":"pass"}`},
		"a line more":                  {`"executed":[{"from":5,"to":25}]`, `"executed":[{"from":5,"to":26}]`},
		"a pass more on both":          {`{"test":"TestOld000","of":5,`, `{"test":"TestOld002","of":5,`},
		"a mutant less":                {`"purpose":"mutant","state":"exited","exit":0`, `"purpose":"mutant","state":"exited","exit":1`},
	} {
		seen := false
		got := doctored(t, harnessed(2, 8), true, func(b []byte) []byte {
			seen = bytes.Contains(b, []byte(change[0]))
			return bytes.Replace(b, []byte(change[0]), []byte(change[1]), 1)
		})
		if !seen || !got.Has(verifier.EvidenceBroken) && !got.Has(verifier.CallsMismatch) {
			t.Errorf("%s: there %t: %v", name, seen, got.Reasons())
		}
	}
}
