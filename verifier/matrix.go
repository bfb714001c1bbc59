package verifier

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier/source"
)

// The stages of a run, in the order of what they are worth for their time. Later
// ones depend on what earlier ones came to; the budget cuts from the end.
var stages = []func(*Judgement) []PlannedRun{
	(*Judgement).plainRuns,
	(*Judgement).mixedRuns,
	(*Judgement).rebuilds, // comes back
	(*Judgement).binaryRuns,
	(*Judgement).isolations, // comes back
	(*Judgement).withoutCI,
	(*Judgement).headBuilds,
	(*Judgement).repeats,
	(*Judgement).secondBase,
	(*Judgement).reachRuns,
	(*Judgement).coverRuns,
	(*Judgement).mutantRuns,
}

// Bounds of what follows from the plain runs.
const (
	maxBuilt      = 16 // packages whose tests are run from a binary of their own, on a side
	maxRebuilds   = 3  // of a package whose tests do not build on the base's code
	maxIsolations = 4  // of a package whose tests end the process
	maxRepeated   = 64 // tests that are run again
	cheapPackages = 8  // with so many packages at most, every one is run from a binary of its own at level L2

	coverFile   = "cover.out"
	testLogFile = "test.log" // what package testing notes of the environment and files that a test process asks for
)

// A builtKey names a test binary.
type builtKey struct{ entry, side, pkg string }

// built is a test binary, or the attempt at one.
type built struct {
	call    uint64
	digest  receipts.Digest
	size    int64
	dropped []string // test files that do not build on this side's code
	tries   int
	ok      bool
	panics  []string // tests that ended the process
	ran     bool
}

// Next returns the runs that are to be made now; they do not depend on each other.
// After the last there are none.
//
// With a level that is chosen automatically, level 2 is tried where the base was
// run and all plain runs together took no more than a tenth of the budget.
func (j *Judgement) Next() []PlannedRun {
	if j.stage == 1 && j.in.Config.Evidence.Auto && j.bases > 0 && 10*j.plainTime <= j.in.Config.Evidence.budget() {
		j.aimed = max(j.aimed, LevelFailToPass)
	}
	for j.stage < len(stages) {
		runs := stages[j.stage](j)
		if len(runs) == 0 {
			j.stage++
			continue
		}
		for i := range runs {
			key := [2]string{runs[i].Name, runs[i].Side}
			j.round[key]++
			runs[i].Round = j.round[key]
			j.complete(&runs[i])
		}
		if !returns(j.stage) {
			j.stage++
		}
		return runs
	}
	return nil
}

// returns reports whether a stage is asked again after its runs.
func returns(stage int) bool { return stage == 2 || stage == 4 }

// complete adds what the plan's document has no room for.
func (j *Judgement) complete(p *PlannedRun) {
	if len(p.inputs) > 0 || p.Format == FormatExit || p.Format == FormatGoBinary {
		return
	}
	if c := j.in.Trees.control(j.entry(p.Name), p.Side); c != nil && c.carries(p) {
		p.inputs = c.inputs(j.in.Plan.Canary)
	}
}

// plainRuns are those of the plan.
func (j *Judgement) plainRuns() []PlannedRun {
	runs := slices.Clone(j.in.Plan.Runs)
	for i := range runs {
		if p := &runs[i]; p.Side == SideBase && p.Skip == "" && j.in.Imports[p.Name] != nil {
			p.Skip = SkipImported
		}
	}
	return runs
}

// entries calls do for every entry that was run on the head.
func (j *Judgement) entries(do func(e *TestEntry, c *goCommand)) {
	for i := range j.in.Plan.Runs {
		p := &j.in.Plan.Runs[i]
		if p.Side == SideHead && p.Skip == "" {
			e := j.entry(p.Name)
			c := parseGoTest(e)
			if c != nil && len(c.filters) > 0 {
				c = nil
			}
			do(e, c)
		}
	}
}

// runsBase reports whether the plan runs an entry on the base.
func (j *Judgement) runsBase(e *TestEntry) bool {
	return slices.ContainsFunc(j.in.Plan.Runs, func(p PlannedRun) bool { return p.Name == e.Name && p.Side == SideBase && p.Skip == "" })
}

// mixedRuns are the head's tests on the base's code and, where the patch touches
// what decides how tests run, or tests that there were, the base's tests on the
// head's code.
func (j *Judgement) mixedRuns() []PlannedRun {
	var runs []PlannedRun
	t := j.in.Trees
	j.entries(func(e *TestEntry, c *goCommand) {
		runs = append(runs, j.failingRuns(e)...)
		if !j.runsBase(e) {
			return
		}
		if j.aims(LevelFailToPass) && t.own(SideHybrid) {
			reached := j.reached(e, c)
			for i := range reached {
				runs = append(runs, j.buildRun(e, c, SideHybrid, &reached[i], nil))
			}
			if len(reached) == 0 {
				runs = append(runs, wholeRun(e, SideHybrid, t))
			}
		}
		if j.aims(LevelNoRegression) && t.own(SideRestored) && j.needsRestored() {
			runs = append(runs, j.restoredRuns(e, c)...)
		}
		if c != nil && j.aims(LevelNoRegression) {
			guarded := j.guarded(e, c)
			if !j.cheap(e, c) && len(guarded) > 0 {
				runs = append(runs, j.canaryRun(e, c, guarded))
			} else {
				for i := range guarded {
					runs = append(runs, j.buildRun(e, c, SideHead, &guarded[i], nil))
				}
			}
		}
	})
	return runs
}

// aims reports whether the run tries to reach a level.
func (j *Judgement) aims(level int) bool { return j.aimed >= level }

// needsRestored reports whether the base's own tests have to be seen to pass on the
// head's code: the patch touches how tests run, or a test checks less by some count;
// and at level L2, where it changes tests that there were, or what they compare with:
// no count tells a check that was loosened.
func (j *Judgement) needsRestored() bool {
	t := j.in.Trees
	return t.harnessTouched() || len(t.weaker) > 0 || len(t.hints) > 0 || j.aims(LevelFailToPass) && len(t.testsChanged()) > 0
}

// restoredRuns are the plain command on the head's code with the base's tests: where
// nothing but the tests of some packages was changed, that of these packages alone,
// as far as the command comes to them.
func (j *Judgement) restoredRuns(e *TestEntry, c *goCommand) []PlannedRun {
	t := j.in.Trees
	run := planned(e, SideRestored, t)
	if c == nil || t.harnessTouched() {
		return []PlannedRun{run}
	}
	ran := map[string]bool{}
	for name, s := range j.outcomes {
		ran[name.Suite] = ran[name.Suite] || name.Entry == e.Name && s.base.outcome != ""
	}
	all, tests := t.covered(e, c, SideRestored), t.testsChanged()
	var packages []string
	for i := range all {
		ours := func(changed string) bool { return belongsTo(changed, &all[i]) }
		if ran[all[i].ImportPath] && slices.ContainsFunc(tests, ours) {
			packages = append(packages, packageArg(e, &all[i]))
		}
	}
	if len(packages) > maxBuilt || slices.ContainsFunc(tests, func(changed string) bool {
		return !slices.ContainsFunc(all, func(p source.GoPackage) bool { return belongsTo(changed, &p) })
	}) {
		return []PlannedRun{run} // who reads the file is not known
	}
	if len(packages) == 0 {
		return nil
	}
	run.Argv = asBytes(c.testArgv(e.Run[0], c.test, packages, append([]string{overlayFlag(e.Dir)}, c.vet...)...))
	return []PlannedRun{run}
}

// belongsTo reports whether a file of the tests is one of a package.
func belongsTo(file string, p *source.GoPackage) bool {
	dir := path.Dir(file)
	return dir == p.Dir || strings.HasPrefix(dir, path.Join(p.Dir, "testdata"))
}

// reached returns the packages of the hybrid tree whose tests the patch changes.
func (j *Judgement) reached(e *TestEntry, c *goCommand) []source.GoPackage {
	var list []source.GoPackage
	t := j.in.Trees
	for _, p := range t.covered(e, c, SideHybrid) {
		if t.testFolders()[p.Dir] {
			list = append(list, p)
		}
	}
	if len(list) > maxBuilt {
		return nil // all of them, then, with the command itself
	}
	return list
}

// cheap reports whether every package of the head gets a binary of its own.
func (j *Judgement) cheap(e *TestEntry, c *goCommand) bool {
	return j.aims(LevelFailToPass) && len(j.in.Trees.covered(e, c, SideHead)) <= cheapPackages
}

// guarded returns the packages of the head that get a failing canary: those with a
// TestMain, those whose tests the patch changes in a way that decides how they run,
// and all where that is cheap.
func (j *Judgement) guarded(e *TestEntry, c *goCommand) []source.GoPackage {
	var list []source.GoPackage
	for _, p := range j.in.Trees.covered(e, c, SideHead) {
		touched := slices.ContainsFunc(j.in.Trees.harness, func(a source.GoAware) bool { return path.Dir(a.File) == p.Dir })
		if p.Main || touched || j.cheap(e, c) {
			list = append(list, p)
		}
	}
	return list
}

// canaryRun runs the failing canaries of packages, and nothing else of them.
func (j *Judgement) canaryRun(e *TestEntry, c *goCommand, packages []source.GoPackage) PlannedRun {
	o := newOverlay(e.Dir)
	var args []string
	for i := range packages {
		o.addCanary(j.in.Plan.Canary, &packages[i], true)
		args = append(args, packageArg(e, &packages[i]))
	}
	argv := c.testArgv(e.Run[0], without(c.test, "-failfast"), args,
		"-vet=off", overlayFlag(e.Dir), "-run=^"+canaryName(j.in.Plan.Canary, canaryFail, "")+"$")
	run := planned(e, SideHead, j.in.Trees)
	run.Purpose, run.Report, run.Argv, run.inputs = PurposeCanary, "", asBytes(argv), o.files()
	return run
}

// buildRun builds the test binary of a package, with its canaries.
func (j *Judgement) buildRun(e *TestEntry, c *goCommand, side string, p *source.GoPackage, drop []string) PlannedRun {
	o := newOverlay(e.Dir)
	o.addCanary(j.in.Plan.Canary, p, side == SideHead)
	for _, name := range drop {
		if text, ok := j.in.Trees.text(SideBase, name); ok {
			o.add(name, text) // what the base's own code builds with
		} else {
			o.remove(name)
		}
	}
	key := builtKey{e.Name, side, p.ImportPath}
	if j.built[key] == nil {
		j.built[key] = &built{}
	}
	run := planned(e, side, j.in.Trees)
	run.Purpose, run.Package, run.Format, run.Report = PurposeBuild, receipts.Bytes(p.ImportPath), FormatExit, ""
	run.Argv = asBytes(c.buildArgv(e.Run[0], overlayFlag(e.Dir), fromDir(e.Dir)+OutDir+"/"+BuiltFile, packageArg(e, p)))
	run.inputs = o.files()
	return run
}

// BuiltFile is the name of a test binary in [OutDir].
const BuiltFile = "package.test"

// NoteBuilt is the name of the note in a result document that says which test
// binary a call built: its SHA-256 and size, with a space between.
const NoteBuilt = "built"

// noteBuilt remembers the binary that a call built, and what became of its tests.
func (j *Judgement) noteBuilt(p *PlannedRun, c *TestCall) {
	b := j.built[builtKey{p.Name, p.Side, string(p.Package)}]
	if b == nil || p.Package == "" {
		return
	}
	switch p.Purpose {
	case PurposeBuild:
		b.tries++
		for _, n := range c.Result.Notes {
			digest, size, _ := strings.Cut(string(n.Value), " ")
			if n.Name != NoteBuilt {
				continue
			}
			d, err := receipts.ParseDigest(digest)
			bytes, sizeErr := strconv.ParseInt(size, 10, 64)
			if err == nil && sizeErr == nil && c.Result.State == receipts.StateExited && c.Result.Exit == 0 {
				b.call, b.digest, b.size, b.ok = c.Call, d, bytes, true
			}
		}
		if c.Result.State == receipts.StateNotRun {
			b.tries = maxRebuilds
		}
	case PurposePackage, PurposeIsolate:
		b.ran = true
	}
}

// rebuilds builds the packages again, without the test files that do not build on
// the base's code, or with what the base has in their place.
func (j *Judgement) rebuilds() []PlannedRun {
	var runs []PlannedRun
	j.entries(func(e *TestEntry, c *goCommand) {
		for _, p := range j.reached(e, c) {
			b := j.built[builtKey{e.Name, SideHybrid, p.ImportPath}]
			if b == nil || b.ok || b.tries >= maxRebuilds {
				continue
			}
			drop := j.unbuilt[builtKey{e.Name, SideHybrid, p.ImportPath}]
			var fresh []string
			for _, name := range p.Files {
				full := path.Join(p.Dir, path.Base(name))
				if slices.Contains(drop, path.Base(name)) && !slices.Contains(b.dropped, full) && slices.Contains(j.in.Trees.changed, full) {
					fresh = append(fresh, full)
				}
			}
			if len(fresh) == 0 {
				b.tries = maxRebuilds
				continue
			}
			b.dropped = append(b.dropped, fresh...)
			runs = append(runs, j.buildRun(e, c, SideHybrid, &p, b.dropped))
		}
	})
	return runs
}

// binaryRuns are the hybrid packages that were built, and the failing canaries.
func (j *Judgement) binaryRuns() []PlannedRun {
	var runs []PlannedRun
	j.entries(func(e *TestEntry, c *goCommand) {
		for _, p := range j.reached(e, c) {
			if b := j.built[builtKey{e.Name, SideHybrid, p.ImportPath}]; b != nil && b.ok {
				runs = append(runs, j.binaryRun(e, c, SideHybrid, &p, PurposePackage))
			}
		}
		if c == nil || !j.cheap(e, c) {
			return
		}
		for _, p := range j.guarded(e, c) {
			if b := j.built[builtKey{e.Name, SideHead, p.ImportPath}]; b != nil && b.ok {
				name := canaryName(j.in.Plan.Canary, canaryFail, "")
				runs = append(runs, j.binaryRun(e, c, SideHead, &p, PurposeCanary, "-test.run=^"+name+"$"))
				if j.aims(LevelFailToPass) && j.green(e, SideHead) {
					run := j.binaryRun(e, c, SideHead, &p, PurposeRepeat, "-test.testlogfile="+fromDir(p.Dir)+OutDir+"/"+testLogFile,
						"-test.skip=^"+name+"$")
					run.Report = testLogFile
					runs = append(runs, run)
				}
			}
		}
	})
	return runs
}

// binaryRun runs a test binary that was built.
func (j *Judgement) binaryRun(e *TestEntry, c *goCommand, side string, p *source.GoPackage, purpose string, flags ...string) PlannedRun {
	b := j.built[builtKey{e.Name, side, p.ImportPath}]
	name := fmt.Sprintf("%s/%d.test", TestsDir, b.call)
	run := planned(e, side, j.in.Trees)
	run.Purpose, run.Package, run.Format, run.Report = purpose, receipts.Bytes(p.ImportPath), FormatGoBinary, ""
	run.Dir = receipts.Bytes(p.Dir)
	// What a crash prints goes to standard error, and belongs to the tests' output.
	run.Argv = asBytes(append([]string{"sh", "-c", `exec "$0" "$@" 2>&1`}, c.binaryArgv(fromDir(p.Dir)+name, flags...)...))
	run.inputs = []Input{{Name: name, Built: b.call, Digest: b.digest, Size: b.size}}
	return run
}

// isolations run the hybrid packages again whose tests ended the process, without
// the test that did.
func (j *Judgement) isolations() []PlannedRun {
	var runs []PlannedRun
	j.entries(func(e *TestEntry, c *goCommand) {
		for _, p := range j.reached(e, c) {
			b := j.built[builtKey{e.Name, SideHybrid, p.ImportPath}]
			if b == nil || !b.ran || len(b.panics) >= maxIsolations {
				continue
			}
			root := j.crashed[builtKey{e.Name, SideHybrid, p.ImportPath}]
			if root == "" || slices.Contains(b.panics, root) {
				continue
			}
			b.panics = append(b.panics, root)
			runs = append(runs, j.binaryRun(e, c, SideHybrid, &p, PurposeIsolate, "-test.skip="+anyOf(b.panics)))
		}
	})
	return runs
}

// anyOf returns a pattern of package testing for these functions alone.
func anyOf(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}

// withoutCI runs the packages again that ask for variables of a CI, without them.
func (j *Judgement) withoutCI() []PlannedRun {
	var runs []PlannedRun
	j.entries(func(e *TestEntry, c *goCommand) {
		if c == nil {
			return
		}
		for _, p := range j.guarded(e, c) {
			b := j.built[builtKey{e.Name, SideHead, p.ImportPath}]
			if b == nil || !b.ok || !j.readsCI[builtKey{e.Name, SideHead, p.ImportPath}] {
				continue
			}
			name := canaryName(j.in.Plan.Canary, canaryFail, "")
			run := j.binaryRun(e, c, SideHead, &p, PurposeNoCI, "-test.skip=^"+name+"$")
			run.Env = slices.DeleteFunc(slices.Clone(run.Env), func(kv receipts.Bytes) bool {
				name, _, _ := strings.Cut(string(kv), "=")
				return IsCIVariable(name)
			})
			runs = append(runs, run)
		}
	})
	return runs
}

// reachRuns run the tests that regressed once more, and count which of the changed
// lines they execute: none of them speaks for a test that fails by chance.
func (j *Judgement) reachRuns() []PlannedRun {
	var runs []PlannedRun
	c := j.Compare()
	if !j.aims(LevelNoRegression) || len(c.Regressed) == 0 || len(c.Regressed) > maxRepeated {
		return nil
	}
	j.entries(func(e *TestEntry, cmd *goCommand) {
		packages := j.in.Trees.covered(e, cmd, SideHead)
		roots, dirs := []string{}, []string{}
		for _, n := range c.Regressed {
			if n.Entry != e.Name {
				continue
			}
			for i := range packages {
				if packages[i].ImportPath == n.Suite {
					if dir := packageArg(e, &packages[i]); !slices.Contains(dirs, dir) {
						dirs = append(dirs, dir)
					}
					if root := rootName(n.Name); !slices.Contains(roots, root) {
						roots = append(roots, root)
					}
				}
			}
		}
		if len(roots) == 0 {
			return
		}
		run := planned(e, SideHead, j.in.Trees)
		run.Purpose, run.Report, run.only = PurposeReach, coverFile, roots
		run.Argv = asBytes(cmd.testArgv(e.Run[0], without(cmd.test, "-shuffle"), dirs,
			append([]string{"-vet=off", "-run=" + anyOf(roots)}, cmd.coverFlags(e.Dir)...)...))
		runs = append(runs, run)
	})
	return runs
}

// packageArg returns how a package is named on the command line of an entry.
func packageArg(e *TestEntry, p *source.GoPackage) string {
	if e.Dir == "." {
		return "./" + p.Dir
	}
	return "./" + strings.TrimPrefix(strings.TrimPrefix(p.Dir, e.Dir), "/")
}

// headBuilds builds the head's packages of tests that are to be run again.
func (j *Judgement) headBuilds() []PlannedRun {
	var runs []PlannedRun
	j.entries(func(e *TestEntry, c *goCommand) {
		if c == nil {
			return
		}
		again := j.again(e)
		for _, p := range j.in.Trees.covered(e, c, SideHead) {
			if len(again[p.ImportPath]) > 0 && j.built[builtKey{e.Name, SideHead, p.ImportPath}] == nil && len(runs) < maxBuilt {
				runs = append(runs, j.buildRun(e, c, SideHead, &p, nil))
			}
		}
	})
	return runs
}

// again returns the functions that are run again, by package: those that prove the
// change, and those that failed.
func (j *Judgement) again(e *TestEntry) map[string][]string {
	roots := map[string][]string{}
	n := 0
	add := func(list []TestName) {
		for _, t := range list {
			root := rootName(t.Name)
			if t.Entry == e.Name && !slices.Contains(roots[t.Suite], root) && n < maxRepeated {
				roots[t.Suite] = append(roots[t.Suite], root)
				n++
			}
		}
	}
	if j.aims(LevelFailToPass) {
		for _, f := range j.FailToPass() {
			add([]TestName{f.Test})
		}
	}
	if j.aims(LevelNoRegression) && j.runsBase(e) {
		c := j.Compare()
		add(c.Regressed)
		add(c.NewFailing)
	}
	for suite := range roots {
		slices.Sort(roots[suite])
	}
	return roots
}

// repeats run tests again, each time in a fresh process and another order.
func (j *Judgement) repeats() []PlannedRun {
	var runs []PlannedRun
	t := j.in.Trees
	j.entries(func(e *TestEntry, c *goCommand) {
		again := j.again(e)
		if len(again) == 0 {
			return
		}
		if c == nil { // no part of it can be run: once more is what it is worth
			for _, side := range [...]string{SideHead, SideHybrid} {
				if j.in.Config.Evidence.Reruns > 1 && (side == SideHead || j.aims(LevelFailToPass) && t.own(side)) {
					run := wholeRun(e, side, t)
					run.Purpose = PurposeRepeat
					runs = append(runs, run)
				}
			}
			return
		}
		for round := 2; round <= j.in.Config.Evidence.Reruns; round++ {
			for _, side := range [...]string{SideHead, SideHybrid} {
				for _, p := range t.covered(e, c, side) {
					b := j.built[builtKey{e.Name, side, p.ImportPath}]
					if b == nil || !b.ok || len(again[p.ImportPath]) == 0 {
						continue
					}
					for _, names := range apart(again[p.ImportPath], b.panics) {
						run := j.binaryRun(e, c, side, &p, PurposeRepeat, "-test.run="+anyOf(names), "-test.shuffle="+j.seed(e.Name, side, round))
						run.only = names
						runs = append(runs, run)
					}
				}
			}
		}
	})
	return runs
}

// apart returns the tests that can be run together, and each one alone that would
// end the process before the others.
func apart(names, alone []string) [][]string {
	var together []string
	var groups [][]string
	for _, name := range names {
		if slices.Contains(alone, name) {
			groups = append(groups, []string{name})
		} else {
			together = append(together, name)
		}
	}
	if len(together) > 0 {
		groups = append(groups, together)
	}
	return groups
}

// seed returns the seed of a shuffled run, a positive number.
func (j *Judgement) seed(entry, side string, round int) string {
	sum := receipts.Sum(fmt.Appendf(nil, "truegreen/v1 shuffle\x00%s\x00%s\x00%s\x00%d", j.in.Plan.Canary, entry, side, round))
	n := uint64(1)
	for _, b := range sum[:6] {
		n = n<<8 | uint64(b)
	}
	return strconv.FormatUint(n, 10)
}

// secondBase runs the base a second time where tests are gone or fail that were
// there: their names, or their results, may not be stable on the base itself. Nor
// may a failure that proves the change and was seen on the base alone.
func (j *Judgement) secondBase() []PlannedRun {
	var runs []PlannedRun
	c := j.Compare()
	if !j.aims(LevelNoRegression) {
		return nil
	}
	tried := j.triedHybrid()
	j.entries(func(e *TestEntry, _ *goCommand) {
		ours := func(n TestName) bool { return n.Entry == e.Name }
		once := func(n TestName) bool {
			return ours(n) && j.aims(LevelFailToPass) && !tried[suiteKey{n.Entry, SideHybrid, ""}] && !tried[suiteKey{n.Entry, SideHybrid, n.Suite}]
		}
		if j.runsBase(e) && (slices.ContainsFunc(c.Removed, ours) || slices.ContainsFunc(c.Regressed, ours) || slices.ContainsFunc(c.Fixed, once)) {
			run := planned(e, SideBase, j.in.Trees)
			run.Purpose = PurposeRepeat
			runs = append(runs, run)
		}
	})
	return runs
}

// coverRuns run all tests of the head again: in their own order, and counting the
// executed lines; and in another order.
func (j *Judgement) coverRuns() []PlannedRun {
	var runs []PlannedRun
	if !j.aims(LevelExecuted) {
		return nil
	}
	j.entries(func(e *TestEntry, c *goCommand) {
		if c == nil || len(j.in.Trees.covered(e, c, SideHead)) == 0 || !j.green(e, SideHead) {
			return
		}
		run := planned(e, SideHead, j.in.Trees)
		run.Purpose, run.Report = PurposeCover, coverFile
		run.Argv = asBytes(c.testArgv(e.Run[0], without(c.test, "-shuffle"), c.packages,
			append([]string{overlayFlag(e.Dir), "-vet=off"}, c.coverFlags(e.Dir)...)...))
		shuffled := planned(e, SideHead, j.in.Trees)
		shuffled.Purpose = PurposeShuffle
		shuffled.Argv = slices.Insert(asBytes(commandLine(e, true)), 2, receipts.Bytes("-shuffle="+j.seed(e.Name, SideHead, 0)))
		runs = append(runs, run, shuffled)
	})
	return runs
}

func without(flags []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == name || strings.HasPrefix(f, name+"=") })
}

// green reports whether the first run of an entry on a side has no failure.
func (j *Judgement) green(e *TestEntry, side string) bool {
	list := j.side(e.Name, side)
	return len(list) > 0 && list[0].State == receipts.StateExited && list[0].Exit == 0 && list[0].Fail == 0 && list[0].Unfinished == 0
}

// mutantRuns run the tests that reach changed lines on code in which one of these
// lines was changed on purpose.
func (j *Judgement) mutantRuns() []PlannedRun {
	var runs []PlannedRun
	if !j.aims(LevelMutants) {
		return nil
	}
	t := j.in.Trees
	changed := t.files(SideHead, func(p string) bool {
		_, ok := slices.BinarySearch(t.changed, p)
		return ok && strings.HasSuffix(p, ".go") && source.Classify(p, nil) == source.Code
	})
	j.entries(func(e *TestEntry, c *goCommand) {
		covered := t.covered(e, c, SideHead)
		if c == nil || !j.green(e, SideHead) || len(covered) == 0 || len(j.mutants) > 0 {
			return
		}
		j.mutants = source.GoMutants(changed, j.executedLine, [32]byte(j.in.Plan.Canary), j.in.Config.Evidence.Mutants)
		for i := range j.mutants {
			m := &j.mutants[i]
			run := planned(e, SideHead, t)
			run.Purpose, run.mutant = PurposeMutant, i
			// The package of the changed line first; the others may notice too.
			run.Argv = asBytes(c.testArgv(e.Run[0], without(without(c.test, "-failfast"), "-v"), j.mutantPackages(e, c, m),
				overlayFlag(e.Dir), "-vet=off", "-failfast"))
			o := newOverlay(e.Dir)
			o.add(m.Path, m.Content)
			run.inputs = o.files()
			runs = append(runs, run)
		}
	})
	return runs
}

// mutantPackages returns what is tested on a mutant: the package of the line if it
// has tests, else what the command tests.
func (j *Judgement) mutantPackages(e *TestEntry, c *goCommand, m *source.Mutant) []string {
	dir := path.Dir(m.Path)
	for _, p := range j.in.Trees.covered(e, c, SideHead) {
		if p.Dir == dir {
			return []string{packageArg(e, &p)}
		}
	}
	return c.packages
}
