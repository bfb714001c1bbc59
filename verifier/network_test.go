package verifier_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// TestNetwork: ports of the host and its network are as good as planned, and the
// report has them.
func TestNetwork(t *testing.T) {
	t.Parallel()
	output := func(level int) func(verifier.PlannedRun) fixture.Output {
		return func(verifier.PlannedRun) fixture.Output {
			return fixture.Output{Stdout: fixture.GoTest(fixture.Package, "TestAdd"), Level: level}
		}
	}
	host := func(level int) func(*fixture.Run) {
		return func(r *fixture.Run) {
			r.Config.Isolation.Level, r.Config.Test[0].Network = 1, verifier.NetworkHost
			r.Output = output(level)
		}
	}
	twice := []verifier.Code{verifier.LowIsolation, verifier.LowIsolation}
	for _, test := range []struct {
		name  string
		edit  func(*fixture.Run)
		least int
		want  []verifier.Code
		text  string
	}{
		{"ports", func(r *fixture.Run) {
			r.Config.Test[0].Connect = []string{"127.0.0.1:5432", "[::1]:6379"}
			var plan *verifier.Plan
			r.Forge.Plan = func(p *verifier.Plan) { plan = p }
			r.Forge.Args = func(a *receipts.Args) {
				if a.Tool == receipts.ToolTest {
					id := plan.ID(&verifier.PlannedRun{Name: a.Name, Side: a.Side, Round: a.Round})
					a.Env = append(a.Env, receipts.Bytes(verifier.RunVariable+"="+id))
				}
			}
		}, 3, nil, `"isolation_level":3,"network":"none","connect":["127.0.0.1:5432","[::1]:6379"]`},
		{"host", host(1), 1, nil, `"isolation_level":1,"network":"host"`},
		{"host and more isolation asked for", host(1), 2, twice, `"network":"host"`},
		// Whatever was measured, the host's network counts as level 1.
		{"host and more isolation claimed", host(3), 2, twice, `"network":"host"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := fixture.New()
			test.edit(&r)
			o := r.Options()
			o.MinLevel = test.least
			report := verify(t, bundleOf(t, &r), o)
			want(t, report, test.want...)
			text, err := json.Marshal(report)
			if err != nil || strings.Count(string(text), test.text) != 2 {
				t.Errorf("not twice %s in %s, %v", test.text, text, err)
			}
		})
	}
}
