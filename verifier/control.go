package verifier

import (
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier/source"
)

// A control is how a command of some kind runs with tests of truegreen's own
// beside those of the tree: see canary.go for what they are good for.
type control interface {
	// command returns the plain command of the entry with tests that pass beside
	// its own, and its environment.
	command() (argv, env []string)
	// carries reports whether a run that has no inputs yet is this command.
	carries(p *PlannedRun) bool
	// inputs returns what the command then needs beside its tree.
	inputs(secret receipts.Digest) []Input
}

// A failing control can be run by itself, without anything being built first: only
// tests of truegreen's own, which have to fail.
type failing interface {
	control
	// alone returns the command, its environment, and what it needs.
	alone(secret receipts.Digest) (argv, env []string, inputs []Input)
	// name returns how the tests are called.
	name(secret receipts.Digest, kind string) string
}

// control returns the control of an entry's plain command on the tree of a side,
// nil where it has none.
func (t *Trees) control(e *TestEntry, side string) control {
	if e.Format == FormatGo {
		if t.controls(e, side) {
			return &goControl{e, t.covered(e, parseGoTest(e), side)}
		}
		return nil
	}
	if c := failingControl(e); c != nil {
		return c
	}
	return nil
}

// failingControl returns the control of an entry that can be run by itself, nil
// where it has none.
func failingControl(e *TestEntry) failing {
	switch e.Format {
	case FormatJUnit, FormatTAP, FormatCTRF:
		if c := parsePytest(e); c != nil {
			return c
		}
		if c := parseNodeTest(e); c != nil {
			return c
		}
	}
	return nil
}

// goControl lays canaries over the packages of a go test command.
type goControl struct {
	e    *TestEntry
	list []source.GoPackage
}

func (c *goControl) command() (argv, env []string) { return commandLine(c.e, true), c.e.Env }

func (c *goControl) carries(p *PlannedRun) bool {
	return slices.ContainsFunc(p.Argv, func(a receipts.Bytes) bool { return string(a) == overlayFlag(string(p.Dir)) })
}

func (c *goControl) inputs(secret receipts.Digest) []Input {
	o := newOverlay(c.e.Dir)
	for i := range c.list {
		o.addCanary(secret, &c.list[i], false)
	}
	return o.files()
}

// controlName returns the name of a test of truegreen's own that no package has.
func controlName(secret receipts.Digest, kind string, e *TestEntry) string {
	return strings.ToLower(strings.Replace(canaryName(secret, kind, "entry "+e.Name), "Test", "test_", 1))
}

// failingRuns returns the run of an entry's failing tests, if it is worth it: the
// tree has files that decide how its tests run, the patch touches such, or the run
// aims at a proof.
func (j *Judgement) failingRuns(e *TestEntry) []PlannedRun {
	c := failingControl(e)
	if c == nil || !j.aims(LevelNoRegression) || !j.aims(LevelFailToPass) && !j.in.Trees.harnessTouched() && !j.in.Trees.hasHarness() {
		return nil
	}
	run := planned(e, SideHead, j.in.Trees)
	run.Purpose = PurposeCanary
	argv, env, inputs := c.alone(j.in.Plan.Canary)
	run.Argv, run.Env, run.inputs = asBytes(argv), asBytes(env), inputs
	return []PlannedRun{run}
}

// wholeRun is the command of an entry on a tree. On the hybrid one, tests of what the
// base does not have may not even be imported, which is no reason to leave out others.
func wholeRun(e *TestEntry, side string, t *Trees) PlannedRun {
	run := planned(e, side, t)
	if side == SideHybrid && e.Format != FormatExit && parsePytest(e) != nil {
		run.Argv = append(run.Argv, receipts.Bytes(pytestGoOn))
	}
	return run
}

// hasHarness reports whether the head has files that decide how tests run.
func (t *Trees) hasHarness() bool {
	return slices.ContainsFunc(t.entries[SideHead], func(e TreeEntry) bool { return source.Classify(e.Path, t.extra) == source.Harness })
}

// examineOther holds a run of another kind than go test to what is known of it:
// the tests of truegreen's own are there, and came to what they have to.
func (j *Judgement) examineOther(p *PlannedRun, c *origin, r *Reading) examination {
	var x examination
	e := j.entry(p.Name)
	control := failingControl(e)
	if control == nil || c.Result.State == receipts.StateNotRun || c.Result.State == receipts.StateNotFound {
		return x
	}
	if n, ok := control.(*nodeTest); ok {
		x.signals = n.silent(j.in.Trees, p.Side, r)
	}
	kind, want := canaryPass, Pass
	switch {
	case p.Purpose == PurposeCanary:
		kind, want = canaryFail, Fail
	case len(p.inputs) == 0:
		x.bound()
		return x
	}
	x.name = control.name(c.canary, kind)
	found, wrong := false, false
	for i := range r.Tests {
		if t := &r.Tests[i]; x.isCanary(t) {
			found = true
			wrong = wrong || t.Outcome != want
		}
	}
	x.canaries = 1
	if p.Purpose == PurposeCanary {
		x.name = "" // it is what the run is about
	}
	if found && !wrong {
		x.sung = 1
	} else if p.Purpose != PurposeCanary {
		x.signals = append(x.signals, Signal{Code: sigCanaryMissing, Detail: "a test that was laid beside those of the tree was not seen to pass"})
	}
	x.bound()
	return x
}
