package verifier

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier/source"
)

// A Judgement goes through the runs of a patch: it says which are to be made,
// reads what they put out, writes the evidence document, and draws the
// conclusions. Whoever makes a run and whoever verifies it go through the same
// steps, so that what was run can be no other than what had to be.
//
//	for {
//		batch := j.Next()          // runs that do not depend on each other
//		if len(batch) == 0 { break }
//		for i := range batch { … j.Add(&batch[i], call) }
//	}
//	findings, err := j.Finish()
type Judgement struct {
	*Findings
	in    Judged
	stage int
	round map[[2]string]int // the last round of an entry on a side
	built map[builtKey]*built

	plainTime time.Duration // that the plain runs took
	bases     int           // plain runs on the base

	w    *bufio.Writer
	doc  *rowReader // instead of reading what was put out: a sealed document
	buf  []byte
	tail evidenceTail
	err  error
}

// Judged is what a judgement is abfrom.
type Judged struct {
	Patch, Planned receipts.Digest // of the documents
	Plan           *Plan
	Config         *Config
	Trees          *Trees
	// Open returns a blob of the run.
	Open func(receipts.Digest) (io.ReadCloser, error)
	// Imports are the results that stand for runs on the base, by entry.
	Imports map[string]*Import
}

// An origin is the call that put out what a run is judged by.
type origin struct {
	*TestCall
	open    func(receipts.Digest) (io.ReadCloser, error)
	canary  receipts.Digest // names the canaries that ran in it
	earlier *Import         // nil: this run's own
}

// originOf returns where a run's output is: a call of an earlier run can stand for c.
func (j *Judgement) originOf(p *PlannedRun, c *TestCall) origin {
	if i := j.in.Imports[p.Name]; i != nil && p.Skip == SkipImported {
		return origin{&i.Call, i.open, i.canary, i}
	}
	return origin{c, j.in.Open, j.in.Plan.Canary, nil}
}

// NewJudgement begins a judgement that writes the evidence document to w.
func NewJudgement(w io.Writer, in Judged) *Judgement {
	j := &Judgement{
		Findings: newFindings(), in: in, round: map[[2]string]int{}, built: map[builtKey]*built{},
		w: bufio.NewWriterSize(w, 8<<10),
	}
	j.trees, j.config, j.aimed, j.imports = in.Trees, in.Config, in.Plan.Level, in.Imports
	j.row(&evidenceHead{receipts.DocumentVersion, in.Patch, in.Planned})
	return j
}

// believeJudgement begins a judgement that believes what a sealed document says of
// each run. The conclusions are drawn again all the same.
func believeJudgement(doc io.Reader, in Judged) (*Judgement, error) {
	j := NewJudgement(io.Discard, in)
	j.doc = newRowReader(doc)
	v, err := j.doc.row()
	if err != nil {
		return nil, missingRow(err)
	}
	if head, ok := v.(*evidenceHead); !ok || *head != (evidenceHead{receipts.DocumentVersion, in.Patch, in.Planned}) {
		return nil, fmt.Errorf("%w: of another patch or plan", errEvidence)
	}
	return j, nil
}

func missingRow(err error) error {
	if err == io.EOF {
		return fmt.Errorf("%w: no end", errEvidence)
	}
	return err
}

// row writes a row and applies it.
func (j *Judgement) row(v any) {
	if j.err != nil {
		return
	}
	if j.buf, j.err = strictjson.Append(j.buf[:0], v); j.err != nil {
		return
	}
	if len(j.buf) > maxEvidenceRow {
		j.err = fmt.Errorf("%w: row of %d bytes: the limit is %d", errEvidenceLimit, len(j.buf), maxEvidenceRow)
		return
	}
	if _, j.err = j.w.Write(append(j.buf, '\n')); j.err == nil {
		j.err = j.apply(v)
	}
}

// apply counts a row and adds it to the findings.
func (j *Judgement) apply(v any) error {
	switch v.(type) {
	case *runRow:
		j.tail.Runs++
	case *signalRow:
		j.tail.Signals++
	case *testRow:
		j.tail.Tests++
	case *findingRow:
		j.tail.Findings++
	}
	return j.add(v)
}

// Add reads what a run came to that [Judgement.Next] asked for.
func (j *Judgement) Add(p *PlannedRun, c *TestCall) error {
	if j.err != nil {
		return j.err
	}
	j.planned, j.clipped = p, c.Args.Sandbox != nil && c.Args.Sandbox.Wall < p.Timeout
	from := j.originOf(p, c)
	if j.doc != nil {
		j.err = j.believe(c, &from)
	} else if reading, err := readCall(from.TestCall, string(p.Lines), from.open); err != nil {
		j.err = err
	} else {
		j.reading(p, c, &from, &reading)
		if j.err == nil && p.counts() {
			j.err = j.coverage(p, c)
		}
	}
	if j.err != nil {
		return fmt.Errorf("evidence: %w", j.err)
	}
	if p.Purpose == "" && from.Result.State != receipts.StateNotRun && j.stage <= 1 {
		j.plainTime += time.Duration(max(0, from.Result.End-from.Result.Start)) * time.Millisecond
		if p.Side == SideBase {
			j.bases++
		}
	}
	j.noteBuilt(p, c)
	return nil
}

// believe takes the rows of a run out of the sealed document.
func (j *Judgement) believe(c *TestCall, from *origin) error {
	for first := true; ; first = false {
		v, err := j.doc.row()
		if err != nil {
			return missingRow(err)
		}
		switch row := v.(type) {
		case *runRow:
			if !first {
				j.doc.next = v
				return nil
			}
			if row.Run != c.Call || row.Name != c.Args.Name || row.Side != c.Args.Side || row.Round != c.Args.Round ||
				row.Purpose != c.Args.Purpose || string(row.Package) != string(c.Args.Package) ||
				row.State != from.Result.State || row.Exit != from.Result.Exit || row.Imported != from.imported() {
				return fmt.Errorf("%w: run %d: not what the log has", errEvidence, row.Run)
			}
		case *signalRow, *suiteRow, *testRow, *coverRow:
			if first {
				return fmt.Errorf("%w: a row without a run", errEvidence)
			}
		default:
			if first {
				return fmt.Errorf("%w: fewer runs than the log has", errEvidence)
			}
			j.doc.next = v
			return nil
		}
		if err := j.apply(v); err != nil {
			return fmt.Errorf("%w: %w", errEvidence, err)
		}
	}
}

// Finish draws the conclusions and ends the document.
func (j *Judgement) Finish() (*Findings, error) {
	if j.err == nil {
		j.conclude(j.conclusion)
		j.conclusion(&j.tail)
	}
	if j.err == nil && j.doc != nil {
		if _, err := j.doc.row(); err != io.EOF {
			j.err = fmt.Errorf("%w: data after the end", errEvidence)
		}
	}
	if j.err == nil {
		j.err = j.w.Flush()
	}
	if j.err != nil {
		return nil, fmt.Errorf("evidence: %w", j.err)
	}
	return j.Findings, nil
}

// conclusion writes a row, or compares it with that of the sealed document.
func (j *Judgement) conclusion(v any) {
	if j.doc == nil || j.err != nil {
		j.row(v)
		return
	}
	want, err := strictjson.Marshal(v)
	if err != nil {
		j.err = err
		return
	}
	row, err := j.doc.row()
	if err != nil {
		j.err = missingRow(err)
		return
	}
	if got, err := strictjson.Marshal(row); err != nil || string(got) != string(want) {
		j.err = fmt.Errorf("%w: other conclusions follow from its rows", errEvidence)
		return
	}
	j.err = j.apply(v)
}

// imported returns the number that the call has in the earlier run, 0 for this run.
func (o *origin) imported() uint64 {
	if o.earlier == nil {
		return 0
	}
	return o.Call
}

// reading writes the rows of one run.
func (j *Judgement) reading(p *PlannedRun, c *TestCall, from *origin, r *Reading) {
	x := j.examine(p, from, r)
	n := r.Counts()
	j.row(&runRow{
		Run: c.Call, Name: c.Args.Name, Side: c.Args.Side, Round: c.Args.Round, Purpose: c.Args.Purpose, Package: c.Args.Package,
		State: from.Result.State, Exit: from.Result.Exit, Imported: from.imported(),
		Suites: n.BadSuites, Unbuilt: n.BuildFailed, Complete: r.Complete, Unparsed: r.Unparsed,
		Canaries: x.canaries, Sung: x.sung,
	})
	for _, s := range append(r.Signals, x.signals...) {
		j.row(&signalRow{s.Code, c.Call, receipts.Bytes(s.Suite), receipts.Bytes(s.Test), receipts.Bytes(s.Detail)})
	}
	for i := range r.Suites {
		if s := &r.Suites[i]; s.Outcome != Pass {
			j.row(&suiteRow{receipts.Bytes(s.Name), c.Call, s.Outcome, s.Kind})
		}
	}
	for i := range r.Tests {
		t := &r.Tests[i]
		if !x.isCanary(t) {
			j.row(&testRow{receipts.Bytes(t.Name), c.Call, receipts.Bytes(t.Suite), t.Ordinal, t.Outcome, t.Kind})
		}
	}
	if j.err == nil {
		j.excerpts(r)
	}
}

// An examination is what a reading shows beside its tests.
type examination struct {
	canaries, sung int
	names          map[string]string // canary by package
	failing        string            // name of the canary that fails
	name           string            // of the canary, where there are no packages
	signals        []Signal
}

func (x *examination) isCanary(t *Test) bool {
	if x.name != "" { // JUnit has a class before it
		return t.Name == x.name || strings.HasSuffix(t.Name, "."+x.name)
	}
	name, ok := x.names[t.Suite]
	return ok && (name == t.Name || t.Name == x.failing) // which no flag keeps from running where TestMain sets the flags
}

// examine holds a plain run of go test to what the text of the tests says: each
// package that ran has its canary, and the tests that are seen are those that are
// written.
func (j *Judgement) examine(p *PlannedRun, c *origin, r *Reading) examination {
	var x examination
	if p.Purpose == PurposeBuild && c.Result.State == receipts.StateExited && c.Result.Exit != 0 {
		x.signals = j.notBuilt(p, c.TestCall)
		return x
	}
	if c.Args.Format != FormatGo && c.Args.Format != FormatGoBinary {
		return j.examineOther(p, c, r)
	}
	if c.Result.State == receipts.StateNotRun {
		return x
	}
	e := j.entry(p.Name)
	command := parseGoTest(e)
	if command == nil || len(command.filters) > 0 {
		return x
	}
	packages := map[string]*source.GoPackage{}
	list := j.in.Trees.covered(e, command, p.Side)
	for i := range list {
		packages[list[i].ImportPath] = &list[i]
	}
	x.names, x.failing = map[string]string{}, canaryName(c.canary, canaryFail, "")
	for path := range packages {
		x.names[path] = canaryName(c.canary, canaryPass, path)
	}
	if p.Purpose == PurposeCanary && c.Result.State == receipts.StateExited {
		x.signals = j.silentCanaries(p, r, packages)
		x.bound()
	}
	if p.Report == testLogFile {
		x.signals = j.readsCIOf(p, c.TestCall)
	}
	whole := p.Purpose == "" || p.Purpose == PurposeCover || p.Purpose == PurposeShuffle || p.Purpose == PurposePackage
	if !whole {
		return x
	}
	seen := map[string]map[string]bool{} // roots by package
	sung, stopped := map[string]bool{}, map[string]bool{}
	for i := range r.Tests {
		t := &r.Tests[i]
		if packages[t.Suite] == nil {
			continue
		}
		if t.Kind == kindPanic || t.Kind == kindTimeout {
			stopped[t.Suite] = true // nothing after it was run
		}
		if x.isCanary(t) {
			sung[t.Suite] = t.Outcome == Pass
			continue
		}
		if seen[t.Suite] == nil {
			seen[t.Suite] = map[string]bool{}
		}
		seen[t.Suite][rootName(t.Name)] = true
	}
	for i := range r.Suites {
		s := &r.Suites[i]
		pkg := packages[s.Name]
		if pkg == nil || s.Outcome == BuildFailed || s.Outcome == Unfinished && c.Result.State != receipts.StateExited {
			continue
		}
		x.canaries++
		if sung[s.Name] {
			x.sung++
		}
		stopped := stopped[s.Name] || s.Outcome == Unfinished || s.Kind == kindPanic || s.Kind == kindTimeout || slices.Contains(command.test, "-failfast")
		if !sung[s.Name] && !stopped {
			x.signals = append(x.signals, Signal{Code: sigCanaryMissing, Suite: s.Name, Detail: "the test that was laid over this package was not seen to pass"})
		}
		written := map[string]bool{}
		for _, t := range pkg.Tests {
			written[t.Name] = true
			if !seen[s.Name][t.Name] && !stopped {
				x.signals = append(x.signals, Signal{Code: sigSilentTest, Suite: s.Name, Test: t.Name, Detail: cut(t.File+":"+strconv.Itoa(t.Line), maxDetail)})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(seen[s.Name])) {
			if !written[name] && !strings.HasPrefix(name, "Benchmark") {
				x.signals = append(x.signals, Signal{Code: sigGhostTest, Suite: s.Name, Test: name, Detail: "no test file of the package has it"})
			}
		}
	}
	x.bound()
	return x
}

// silentCanaries names the packages whose failing canary did not turn them red.
func (j *Judgement) silentCanaries(p *PlannedRun, r *Reading, packages map[string]*source.GoPackage) []Signal {
	name := canaryName(j.in.Plan.Canary, canaryFail, "")
	failed := map[string]bool{}
	for i := range r.Tests {
		if t := &r.Tests[i]; t.Name == name && t.Outcome == Fail {
			failed[t.Suite] = true
		}
	}
	var list []Signal
	for i := range r.Suites {
		s := &r.Suites[i]
		if packages[s.Name] == nil || s.Outcome == BuildFailed || failed[s.Name] && s.Outcome == Fail {
			continue
		}
		list = append(list, Signal{Code: sigCanarySilent, Suite: s.Name, Detail: fmt.Sprintf("the package is %s, its failing test was seen: %t", s.Outcome, failed[s.Name])})
	}
	return list
}

// buildError finds the test file that a line of the compiler's output is about.
var buildError = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\S*?([^/\s:]+_test\.go):\d+(:\d+)?: `)
})

// notBuilt names the test files that the compiler complains abfrom.
func (j *Judgement) notBuilt(p *PlannedRun, c *TestCall) []Signal {
	stderr, err := openStream(&c.Result.Stderr, j.in.Open)
	if err != nil {
		j.err = err
		return nil
	}
	defer stderr.Close()
	text, err := io.ReadAll(io.LimitReader(stderr, 64<<10))
	if err != nil {
		j.err = err
		return nil
	}
	var list []Signal
	for _, m := range buildError().FindAllSubmatch(text, maxSignals) {
		s := Signal{Code: sigNotBuilt, Suite: string(p.Package), Detail: cut(string(m[1]), maxDetail)}
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// readsCIOf names the variables of a CI that a test process asked for, as package
// testing noted it inside of that process.
func (j *Judgement) readsCIOf(p *PlannedRun, c *TestCall) []Signal {
	digest, ok := file(&c.Result, string(ReportFile(testLogFile)))
	if !ok {
		return nil
	}
	log, err := j.in.Open(digest)
	if err != nil {
		j.err = err
		return nil
	}
	defer log.Close()
	var list []Signal
	lines := bufio.NewScanner(io.LimitReader(log, 16<<20))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() { // a longer line ends it: it is a hint, and names nothing that is believed
		name, ok := strings.CutPrefix(lines.Text(), "getenv ")
		if !ok || !IsCIVariable(name) {
			continue
		}
		s := Signal{Code: sigReadsCI, Suite: string(p.Package), Detail: cut(name, maxDetail)}
		if len(list) < maxSignals && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// IsCIVariable reports whether a variable tells a program that it runs in
// continuous integration, or under truegreen.
func IsCIVariable(name string) bool {
	return name == "CI" || strings.HasPrefix(name, "GITHUB_") || strings.HasPrefix(name, "TRUEGREEN_")
}

// bound keeps at most maxSignals of a code.
func (x *examination) bound() {
	n := map[string]int{}
	kept := x.signals[:0]
	for _, s := range x.signals {
		if n[s.Code]++; n[s.Code] <= maxSignals {
			kept = append(kept, s)
		}
	}
	x.signals = kept
	for _, code := range slices.Sorted(maps.Keys(n)) {
		if n[code] > maxSignals {
			x.signals = append(x.signals, Signal{Code: code, Detail: fmt.Sprintf("and %d more", n[code]-maxSignals)})
		}
	}
}

// entry returns the entry of the configuration with this name.
func (j *Judgement) entry(name string) *TestEntry {
	for i := range j.in.Config.Test {
		if e := &j.in.Config.Test[i]; e.Name == name {
			return e
		}
	}
	return &TestEntry{}
}
