package foreign

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// FuzzPipelockChain: no text makes an adapter panic, what it says hangs together, and
// each beginning of a chain in order is a chain in order.
func FuzzPipelockChain(f *testing.F) {
	f.Add(text(pipelockChain(make([]pipelockRecord, 3)...)), true)
	f.Add(text(pipelockChain(pipelockRecord{verdict: "block"}, pipelockRecord{})), false)
	f.Add([]byte(pipelockRecord{}.sign()), true)
	f.Add([]byte(`{"v":2,"seq":0,"ts":"2026-01-02T03:04:05Z","session_id":"s","type":"decision","transport":"","summary":"","detail":{},"prev_hash":"genesis","hash":"x"}`), true)
	chain := mustPipelock(f, pipelockOptions(asChain))
	whole := mustPipelock(f, pipelockOptions(asChain, func(o *PipelockOptions) { o.WholeRecorder = true }))
	one := mustPipelock(f, pipelockOptions())
	f.Fuzz(func(t *testing.T, input []byte, recorder bool) {
		a := chain
		if recorder {
			a = whole
		}
		v, err := a.Verify(t.Context(), bytes.NewReader(input), Binding{})
		if err != nil {
			if v.Adapter != "" || !errors.As(err, new(*MalformedError)) {
				t.Fatalf("%+v, %v", v, err)
			}
		} else if v.Signature == NotAsked || v.Trust == NotAsked || v.Chain == NotAsked || v.End == NotAsked || v.Trusted() || len(v.Violations) == 0 {
			t.Fatalf("%+v", v) // no end is proven here
		}
		if single, err := one.Verify(t.Context(), bytes.NewReader(input), Binding{Allowed: true}); err == nil && single.Trusted() && (single.Said != "allow" || single.Receipts != 1) {
			t.Fatalf("%+v", single)
		}
		if err != nil || v.Chain != Yes {
			return
		}
		lines := strings.SplitAfter(string(input), "\n")
		before := strings.Join(lines[:len(lines)/2], "")
		if half, err := a.Verify(t.Context(), strings.NewReader(before), Binding{}); err == nil && half.Chain != Yes {
			t.Fatalf("%q: %+v", before, half)
		}
	})
}
