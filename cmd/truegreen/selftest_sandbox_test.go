package main

import (
	"errors"
	"testing"

	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/sandbox/conformance"
)

// TestAttacked: what is open, broken, or promises nothing is never well, and a
// mode that is refused is not offered.
func TestAttacked(t *testing.T) {
	t.Parallel()
	outcome := func(level sandbox.Level, status string) []conformance.Outcome {
		return []conformance.Outcome{{Level: level, Status: status}, {Level: level, Status: conformance.NotPromised}}
	}
	for name, c := range map[string]struct {
		outcomes []conformance.Outcome
		err      error
		offered  bool
		well     bool
	}{
		"held":    {outcome(sandbox.LevelNamespaces, conformance.Held), nil, true, true},
		"open":    {outcome(sandbox.LevelNamespaces, conformance.Open), nil, true, false},
		"broken":  {outcome(sandbox.LevelNamespaces, conformance.Broken), nil, true, false},
		"none":    {outcome(sandbox.LevelNone, conformance.NotPromised), nil, true, false},
		"control": {outcome(sandbox.LevelNamespaces, conformance.Held), errors.New("control: ENOENT"), true, false},
		"refused": {nil, &sandbox.RefusedError{}, false, false},
		"nothing": {nil, nil, true, false},
	} {
		m := attack(sandbox.ModeUserNS, c.outcomes, c.err)
		if m.Offered != c.offered || m.well() != c.well {
			t.Errorf("%s: offered %v, well %v: %+v", name, m.Offered, m.well(), m)
		}
	}
}
