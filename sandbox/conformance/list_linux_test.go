//go:build amd64 || arm64

package conformance

import (
	"slices"
	"testing"
)

// TestListed: attempts 64 to 108 are rows, or elsewhere. 105 is about trees and
// has its tests with them.
func TestListed(t *testing.T) {
	t.Parallel()
	have := map[int]bool{105: true}
	var ids []string
	for _, r := range slices.Concat(networkRows(), resourceRows(), channelRows(), toolchainRows(), mustRows()) {
		ids = append(ids, r.ID)
		have[number(r.ID)] = true
		if r.Try == nil || len(r.Want) == 0 || r.Name == "" || r.Group == "" || r.Control == nil && r.Why == "" {
			t.Errorf("row %s %s lacks something", r.ID, r.Name)
		}
		if (r.Check != nil || r.Spec != nil) && !r.Own {
			t.Errorf("row %s is judged by a sandbox of its own, and has none", r.ID)
		}
	}
	for _, e := range ElsewhereRows() {
		have[number(e.ID)] = true
	}
	for n := 64; n <= 108; n++ {
		if !have[n] {
			t.Errorf("attempt %d is nowhere", n)
		}
	}
	slices.Sort(ids)
	if u := slices.Compact(slices.Clone(ids)); len(u) != len(ids) {
		t.Errorf("an id is used twice: %v", ids)
	}
}
