package verifier

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
)

// The names of the files that the tools make.
const (
	FilePatch    = "patch"
	FileListing  = "listing"
	FileModules  = "modules" // of prepare calls: lines of name, version and hash, sorted
	FileDiff     = "diff"
	FileSources  = "sources" // texts of what changed, and of tests; see [Texts]
	FileConfig   = "config"
	FilePlan     = "plan"
	FileEvidence = "evidence"
)

// ReportFile returns the name under which a report file of a test command is
// recorded.
func ReportFile(name string) receipts.Bytes { return receipts.Bytes("report/" + name) }

func reportName(file receipts.Bytes) (string, bool) {
	name, ok := bytes.CutPrefix([]byte(file), []byte("report/"))
	return string(name), ok
}

// file returns the blob that a call made under a name.
func file(r *receipts.Result, name string) (receipts.Digest, bool) {
	for _, f := range r.Files {
		if string(f.Name) == name {
			return f.Digest, true
		}
	}
	return receipts.Digest{}, false
}

// completed returns the completed calls of a tool, in order.
func (v *verification) completed(tool string) ([]TestCall, error) {
	var list []TestCall
	for _, c := range v.run.Calls {
		if c.Tool != tool || c.Receipt < 0 {
			continue
		}
		call := TestCall{c.Start.Call, *v.args[c.Start.Call], *v.results[c.Start.Call]}
		if call.Args.Patch != v.seal.Patch {
			return nil, v.stop(CallsMismatch, memberLog, "call %d: made for another patch", c.Start.Call)
		}
		list = append(list, call)
	}
	return list, nil
}

// toolOrder is the order in which a run makes its calls.
var toolOrder = []string{receipts.ToolMaterialise, receipts.ToolPlan, receipts.ToolReceipt, receipts.ToolPrepare, receipts.ToolImport, receipts.ToolTest, receipts.ToolJudge}

// order checks that the calls are of known tools, in the order of a run, and
// that only a run that did not come to its end has one that did not complete.
func (v *verification) order() error {
	at := 0
	for _, c := range v.run.Calls {
		i := slices.Index(toolOrder, c.Tool)
		if i < at {
			return v.stop(CallsMismatch, memberLog, "call %d: %q does not belong there", c.Start.Call, c.Tool)
		}
		at = i
		if c.Receipt < 0 && v.seal.Outcome == bundle.OutcomeCompleted {
			return v.stop(CallsMismatch, memberLog, "call %d did not complete, and the run did", c.Start.Call)
		}
	}
	return nil
}

// readPatch reads the patch document and compares it with what is expected.
func (v *verification) readPatch() error {
	mismatch := func(format string, args ...any) error {
		return v.stop(PatchMismatch, blobMember(v.seal.Patch), format, args...)
	}
	doc, err := v.blobs.Document(v.seal.Patch)
	if err != nil {
		return mismatch("%v", err)
	}
	if v.patch, err = ParsePatch(doc); err != nil {
		return mismatch("%v", err)
	}
	if receipts.TaskID(doc) != v.run.Task {
		return mismatch("the task's id is another patch's")
	}
	if v.o.About != nil {
		if err := v.o.About(v.patch, &v.o); err != nil {
			return err
		}
		v.policy = cmp.Or(v.o.PolicySource, v.policy)
	}
	v.expect()
	return nil
}

// readTrees checks that the patch document follows from the listings and the
// diff, as far as the run came.
func (v *verification) readTrees() error {
	mismatch := func(format string, args ...any) error {
		return v.stop(PatchMismatch, blobMember(v.seal.Patch), format, args...)
	}
	calls, err := v.completed(receipts.ToolMaterialise)
	if err != nil {
		return err
	}
	sides := [...]string{SideBase, SideHead}
	if len(calls) > len(sides) || len(calls) < len(sides) && v.seal.Outcome == bundle.OutcomeCompleted {
		return v.stop(CallsMismatch, memberLog, "materialise: want base, then head")
	}
	for i, want := range []TreeID{v.patch.BaseTree, v.patch.Tree}[:len(calls)] {
		if calls[i].Args.Side != sides[i] {
			return v.stop(CallsMismatch, memberLog, "materialise: want base, then head")
		}
		listing, ok := file(&calls[i].Result, FileListing)
		if !ok {
			return mismatch("call %d: no listing", calls[i].Call)
		}
		r, err := v.blobs.open(listing)
		if err != nil {
			return mismatch("listing: %v", err)
		}
		tree, err := ReadTree(r, TreeLimits{}, func(e TreeEntry) error {
			v.sides[i] = append(v.sides[i], e)
			return nil
		})
		r.Close()
		if err != nil {
			return v.stop(PatchMismatch, blobMember(listing), "%v", err)
		}
		if TreeIDOf(tree) != want {
			return v.stop(PatchMismatch, blobMember(listing), "its tree is %s, the patch has %s", tree.ID, want.Git)
		}
	}
	if v.patch.Base == "" && len(v.sides[0]) > 0 {
		return mismatch("without a base commit, the base has %d files", len(v.sides[0]))
	}
	if len(calls) < len(sides) {
		return nil
	}
	if diff, ok := file(&calls[1].Result, FileDiff); !ok || diff != v.patch.Diff || !v.blobs.Has(diff) {
		return mismatch("diff: not the one that the patch names")
	}
	v.sources, _ = file(&calls[1].Result, FileSources)
	return nil
}

// readTexts makes what is known of the trees, with the texts that the bundle has.
func (v *verification) readTexts(c *Config, facts *GoFacts) error {
	var sources, diff io.Reader
	if !v.sources.IsZero() {
		for _, b := range []struct {
			to     *io.Reader
			digest receipts.Digest
		}{{&sources, v.sources}, {&diff, v.patch.Diff}} {
			if !v.blobs.Has(b.digest) {
				return v.stop(BlobMissing, blobMember(b.digest), "what the verdict is made of is withheld")
			}
			r, err := v.blobs.open(b.digest)
			if err != nil {
				return v.refuse(err)
			}
			defer r.Close()
			*b.to = r
		}
	}
	var err error
	if v.trees, err = ReadTrees(v.sides[0], v.sides[1], &c.Evidence, facts, sources, diff); err != nil {
		return v.stop(PatchMismatch, blobMember(v.sources), "%v", err)
	}
	return nil
}

// expect compares the patch with what the caller asked for.
func (v *verification) expect() {
	p, o := &v.patch, &v.o
	wrong := func(code Code, what, want, got string) {
		if want != "" && want != got {
			v.because(code, "", "%s: want %q, the bundle is about %q", what, want, got)
		}
	}
	wrong(WrongPatch, "repository", o.Repository, string(p.Repository))
	wrong(WrongPatch, "head", o.Head, p.Head)
	if o.Tree != p.Tree.SHA256.String() {
		wrong(WrongPatch, "tree", o.Tree, p.Tree.Git)
	}
	wrong(WrongBase, "base", o.Base, p.Base)
	if o.NoBase && p.Base != "" {
		v.because(WrongBase, "", "base: want the empty tree, the bundle is about %q", p.Base)
	}
}

// readPlan checks that the plan follows from configuration, patch and trees.
func (v *verification) readPlan() error {
	calls, err := v.completed(receipts.ToolPlan)
	if err != nil {
		return err
	}
	if len(calls) == 0 && v.seal.Outcome != bundle.OutcomeCompleted {
		if !v.seal.Plan.IsZero() || !v.seal.Config.IsZero() {
			return v.stop(PlanMismatch, memberSeal, "it states a plan that no call made")
		}
		return nil
	}
	if len(calls) != 1 {
		return v.stop(CallsMismatch, memberLog, "plan: want one call")
	}
	config, _ := file(&calls[0].Result, FileConfig)
	plan, _ := file(&calls[0].Result, FilePlan)
	if config != v.seal.Config || plan != v.seal.Plan {
		return v.stop(PlanMismatch, memberSeal, "it states another plan or configuration than the log")
	}
	doc, err := v.blobs.Document(config)
	var c Config
	if err == nil {
		c, err = ParseConfigDocument(doc)
	}
	if err != nil {
		return v.stop(PlanMismatch, blobMember(config), "%v", err)
	}
	v.config = &c
	sealed, err := v.blobs.Document(plan)
	if err == nil {
		v.plan, err = ParsePlan(sealed)
	}
	if err != nil {
		return v.stop(PlanMismatch, blobMember(plan), "%v", err)
	}
	if v.plan.Source != SourceCommand && (v.plan.Source == SourceHead) != (v.patch.Base == "") {
		return v.stop(PlanMismatch, blobMember(plan), "configuration from %q: not with this base", v.plan.Source)
	}
	sides := v.plan.sides()
	if sides.EmptyBase != (v.patch.Base == "") && len(c.Test) > 0 && !sides.HeadOnly {
		sides.EmptyBase = v.patch.Base == ""
	}
	if err := v.readTexts(&c, v.plan.Go); err != nil {
		return err
	}
	again := NewPlan(v.seal.Patch, config, &c, v.plan.Source, v.trees, sides, v.plan.Canary)
	again.NotCovered = v.plan.NotCovered
	if doc, err := receipts.Encode(&again); err != nil || !bytes.Equal(doc, sealed) {
		return v.stop(PlanMismatch, blobMember(plan), "another one follows from configuration and patch")
	}
	if v.o.Config != nil && !v.asConfigured(&c, config) {
		v.because(WrongConfig, blobMember(config), "the base has another configuration (%s)", v.policy)
	}
	return nil
}

// readCalls checks what can be known of the calls without reading what they put
// out.
func (v *verification) readCalls() error {
	prepares, err := v.completed(receipts.ToolPrepare)
	if err != nil {
		return err
	}
	for i := range prepares {
		if !sameNetwork(&prepares[i], "", nil) {
			return v.stop(CallsMismatch, memberLog, "call %d: network: not as planned", prepares[i].Call)
		}
	}
	v.calls, err = v.completed(receipts.ToolTest)
	if err == nil && v.seal.Outcome == bundle.OutcomeCompleted && len(v.calls) < len(v.plan.Runs) {
		return v.stop(CallsMismatch, memberLog, "%d test calls, %d are planned", len(v.calls), len(v.plan.Runs))
	}
	return err
}

func (v *verification) matchCall(c *TestCall, p *PlannedRun) error {
	a := &c.Args
	tree := v.trees.ID(p.Side)
	differ := func(what string) error {
		return v.stop(CallsMismatch, memberLog, "call %d: %s: not as planned", c.Call, what)
	}
	switch {
	case a.Name != p.Name || a.Side != p.Side || a.Round != p.Round || a.Purpose != p.Purpose || string(a.Package) != string(p.Package):
		return differ("name, side, round or purpose")
	case !sameInputs(a.Inputs, p.inputs):
		return differ("what it gets beside the tree")
	case !slices.Equal(a.Argv, p.Argv) || a.Format != p.Format:
		return differ("command")
	case string(a.Dir) != InsideDir(string(p.Dir)):
		return differ("folder")
	case a.Patch != v.seal.Patch || a.Tree == nil || *a.Tree != tree.SHA256:
		return differ("patch or tree")
	case p.Skip != "" && c.Result.State != receipts.StateNotRun, !p.Cuttable() && p.Skip == "" && c.Result.State == receipts.StateNotRun:
		return differ("whether it is run")
	case c.Result.State == receipts.StateNotRun && string(c.Result.Why) != cmp.Or(p.Skip, SkipBudget):
		return differ("why it is not run")
	case a.Sandbox == nil || a.Sandbox.Wall > p.Timeout || a.Sandbox.Wall < p.Timeout && !p.Cuttable() || a.Sandbox.MinLevel < v.config.Isolation.Level:
		return differ("sandbox")
	case !sameNetwork(c, p.NetworkName(), p.Connect):
		return differ("network")
	}
	for _, kv := range a.Env {
		if id, ok := strings.CutPrefix(string(kv), RunVariable+"="); ok && id != v.plan.ID(p) {
			return differ(RunVariable)
		}
	}
	for _, kv := range p.Env {
		if !slices.Contains(a.Env, kv) {
			return differ("environment")
		}
	}
	if p.WithoutCI() && slices.ContainsFunc(a.Env, func(kv receipts.Bytes) bool {
		name, _, _ := strings.Cut(string(kv), "=")
		return IsCIVariable(name)
	}) {
		return differ("environment")
	}
	if p.Skip == SkipImported {
		if err := v.matchImport(c); err != nil {
			return err
		}
	}
	// What the verdict is made of cannot be withheld.
	for _, d := range c.Result.Artifacts() {
		if !v.blobs.Has(d) {
			return v.stop(BlobMissing, blobMember(d), "call %d: what a test put out is withheld", c.Call)
		}
	}
	return nil
}

// sameInputs reports whether a call got the files that a run is to have.
func sameInputs(got []receipts.File, want []Input) bool {
	return slices.EqualFunc(got, want, func(f receipts.File, in Input) bool {
		return string(f.Name) == in.Name && f.Digest == in.Digest && f.Size == in.Size
	})
}

// sameNetwork reports whether what a call asked for and what it then had in
// reach are this network, "" for any, and these ports of the host.
func sameNetwork(c *TestCall, network string, connect []string) bool {
	same := func(got string, ports []string) bool {
		return (network == "" || got == network) && slices.Equal(ports, connect)
	}
	s, i := c.Args.Sandbox, c.Result.Isolation
	return (s == nil || same(s.Network, s.Connect)) && (i == nil || same(i.Network, i.Connect))
}

// readEvidence makes the evidence document again, or believes it if asked to.
func (v *verification) readEvidence() error {
	judges, err := v.completed(receipts.ToolJudge)
	if err != nil {
		return err
	}
	in := Judged{Patch: v.seal.Patch, Planned: v.seal.Plan, Plan: &v.plan, Config: v.config, Trees: v.trees, Open: v.blobs.open, Imports: v.imports}
	if len(judges) == 0 && v.seal.Outcome != bundle.OutcomeCompleted {
		if len(v.calls) == 0 {
			return nil
		}
		_, err := v.replay(NewJudgement(io.Discard, in))
		if err == nil || errors.Is(err, errStop) {
			return err
		}
		return v.refuse(err)
	}
	if len(judges) != 1 {
		return v.stop(CallsMismatch, memberLog, "judge: want one call")
	}
	evidence, ok := file(&judges[0].Result, FileEvidence)
	if !ok || !v.blobs.Has(evidence) {
		return v.stop(EvidenceBroken, memberLog, "no evidence document")
	}
	var j *Judgement
	again := sha256.New()
	if v.o.Quick {
		r, err := v.blobs.open(evidence)
		if err != nil {
			return v.refuse(err)
		}
		defer r.Close()
		if j, err = believeJudgement(r, in); err != nil {
			return v.stop(EvidenceBroken, blobMember(evidence), "%v", err)
		}
	} else {
		j = NewJudgement(again, in)
	}
	f, err := v.replay(j)
	switch {
	case errors.Is(err, errStop):
		return err
	case errors.Is(err, errEvidenceLimit):
		return v.stop(LimitExceeded, blobMember(evidence), "%v", err)
	case errors.Is(err, errEvidence):
		return v.stop(EvidenceBroken, blobMember(evidence), "%v", err)
	case err != nil:
		return v.refuse(err)
	}
	if !v.o.Quick && receipts.Digest(again.Sum(nil)) != evidence {
		return v.stop(EvidenceBroken, blobMember(evidence), "the captured output gives another one")
	}
	v.findings = f
	return nil
}

// replay goes through the calls as the run did: each has to be the one that
// follows from those before. A run that did not come to its end lacks the last
// ones, and of a batch any.
func (v *verification) replay(j *Judgement) (*Findings, error) {
	calls, ended := v.calls, v.seal.Outcome == bundle.OutcomeCompleted
	for batch := j.Next(); len(batch) > 0; batch = j.Next() {
		for i := range batch {
			if !ended && (len(calls) == 0 || calls[0].Args.Side != batch[i].Side || calls[0].Args.Name != batch[i].Name || calls[0].Args.Round != batch[i].Round) {
				if i == len(batch)-1 && len(calls) > 0 {
					return nil, v.stop(CallsMismatch, memberLog, "call %d: no such test call follows from those before", calls[0].Call)
				}
				if i == len(batch)-1 {
					return nil, nil
				}
				continue
			}
			if len(calls) == 0 {
				return nil, v.stop(CallsMismatch, memberLog, "a test call is missing: %s on %s, round %d", batch[i].Name, batch[i].Side, batch[i].Round)
			}
			if err := v.matchCall(&calls[0], &batch[i]); err != nil {
				return nil, err
			}
			if err := j.Add(&batch[i], &calls[0]); err != nil {
				return nil, err
			}
			calls = calls[1:]
		}
	}
	if len(calls) > 0 {
		return nil, v.stop(CallsMismatch, memberLog, "call %d: no such test call follows from those before", calls[0].Call)
	}
	return j.Finish()
}

// InsideDir returns the folder inside the sandbox in which a command with this
// dir of the configuration runs.
func InsideDir(dir string) string {
	if dir == "" || dir == "." {
		return WorkDir
	}
	return WorkDir + "/" + dir
}

// asConfigured reports whether the configuration is the one that the caller resolved.
// Which commands detection comes to, files of the base say that are not here.
func (v *verification) asConfigured(c *Config, digest receipts.Digest) bool {
	if !v.o.Detected {
		return receipts.Sum(v.o.Config) == digest
	}
	rest := *c
	rest.Test = nil
	doc, err := rest.Document()
	return err == nil && bytes.Equal(doc, v.o.Config) && (v.plan.Source == SourceDetected || v.plan.Source == SourceHead)
}
