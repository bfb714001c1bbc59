package verifier

import "testing"

// TestVerdictOfReasons: a report with any reason at all is not verified, and the
// gravest reason decides.
func TestVerdictOfReasons(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		codes []Code
		want  Verdict
	}{
		{nil, Verified},
		{[]Code{TestsFailed}, Failed},
		{[]Code{TestsFailed, Stale}, Unproven},
		{[]Code{Stale, TestsFailed, Truncated}, Broken},
		{[]Code{Usage}, Unproven},             // a code without a verdict
		{[]Code{"from-the-future"}, Unproven}, // a code that nobody knows
		{[]Code{"from-the-future", TestsFailed}, Unproven},
		{[]Code{Usage, Truncated}, Broken},
	} {
		r := Report{&report{sound: true, trust: []Trust{{"mac", "x"}}}}
		for _, code := range test.codes {
			r.r.reasons = append(r.r.reasons, Reason{Code: code})
		}
		if got := r.Verdict(); got != test.want {
			t.Errorf("%v: %s, want %s", test.codes, got, test.want)
		}
		if _, ok := r.VerifiedPatch(); ok != (test.want == Verified) {
			t.Errorf("%v: a verified patch: %t", test.codes, ok)
		}
	}
}
