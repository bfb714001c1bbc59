package bundle_test

import (
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
)

// Lines that not every seal has are there where they say something, in their order, and
// nowhere else.
func TestSealOptionalLines(t *testing.T) {
	t.Parallel()
	d := func(s string) receipts.Digest { return receipts.Sum([]byte(s)) }
	s := bundle.Seal{
		Frames: 1, Root: d("root"), Patch: d("patch"), Outcome: bundle.OutcomeCompleted, Log: d("log"), Attempt: 2,
		Shard: 1, Shards: 2, Previous: d("previous"), Reproduces: d("first"), Resealed: true, HasMAC: true,
	}
	text, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	tail := "attempt 2\nshard 1/2\nprevious " + d("previous").String() + "\nreproduces " + d("first").String() + "\nresealed yes\nseals seal.mac\n"
	if !strings.HasSuffix(string(text), tail) {
		t.Errorf("got %s", text)
	}
	if got, err := bundle.ParseSeal(text); err != nil || got != s {
		t.Errorf("got %+v, %v", got, err)
	}
	line := "reproduces " + d("first").String() + "\n"
	for name, bad := range map[string]string{
		"twice":      strings.Replace(string(text), line, line+line, 1),
		"first":      strings.Replace(strings.Replace(string(text), line, "", 1), "shard", line+"shard", 1),
		"none":       strings.Replace(string(text), line, "reproduces none\n", 1),
		"zero":       strings.Replace(string(text), line, "reproduces "+strings.Repeat("0", 64)+"\n", 1),
		"upper case": strings.Replace(string(text), line, strings.ToUpper(line[:11])+line[11:], 1),
	} {
		if got, err := bundle.ParseSeal([]byte(bad)); err == nil || got != (bundle.Seal{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	s.Reproduces = receipts.Digest{}
	if text, err := s.Text(); err != nil || strings.Contains(string(text), "reproduces") {
		t.Errorf("of nothing: %s, %v", text, err)
	}
}
