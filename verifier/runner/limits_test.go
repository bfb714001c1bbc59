package runner

import (
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// TestLimitsOfSpec: every limit of a configuration reaches the sandbox, and the
// args document says the same.
func TestLimitsOfSpec(t *testing.T) {
	t.Parallel()
	c := verifier.DefaultConfig()
	c.Limits = verifier.LimitsConfig{Pids: 101, Memory: 102, CPU: 103, Disk: 104, Output: 105}
	texts, err := verifier.ReadTrees(nil, nil, &c.Evidence, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	j := &job{Selection: &Selection{Config: c}, texts: texts}
	_, spec, err := j.testSpec(&verifier.PlannedRun{Side: verifier.SideHead, Timeout: 106}, 106*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := sandbox.Limits{Wall: 106 * time.Second, Pids: 101, Memory: 102, CPU: 103, Disk: 104, Output: 105}
	if spec.Limits != want {
		t.Errorf("limits %+v, want %+v", spec.Limits, want)
	}
	doc := sandboxDocument(&spec)
	if got := [...]int64{doc.Pids, doc.Memory, doc.CPU, doc.Disk, doc.Output, doc.Wall}; got != [...]int64{101, 102, 103, 104, 105, 106} {
		t.Errorf("document %+v", doc)
	}
}

// TestCPULimit: a share of the processors is asked for in the evidence of each
// test call, and where somebody enforces it, it is the one that is enforced.
func TestCPULimit(t *testing.T) {
	t.Parallel()
	p := newPatchRun(t, nil)
	p.write(verifier.ConfigFile, "test: [{name: a, run: ['true']}]\nlimits: {cpu: \"0.75\"}\n")
	p.commit("base")
	p.write("file", "x\n")
	report, _, _ := p.run()
	green(t, report)
	calls := 0
	for _, s := range report.Steps() {
		if s.Args.Tool != receipts.ToolTest {
			continue
		}
		calls++
		if s.Args.Sandbox.CPU != 750 {
			t.Errorf("%s: %d asked for", s.Args.Side, s.Args.Sandbox.CPU)
		}
		for _, l := range s.Result.Isolation.Limits {
			if l.Name == "cpu_milli" && l.By != "none" && l.Value != 750 {
				t.Errorf("%s: %+v", s.Args.Side, l)
			}
		}
	}
	if calls == 0 {
		t.Error("no test calls")
	}
}
