package verifier

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
)

// A Report is what verification says about a bundle. Only [Verify] makes one,
// and only what it verified is in it: where a bundle is broken, the fields that
// were not reached are zero. It cannot be unmarshalled: a later job verifies
// again. The zero Report is unproven: no-evidence.
type Report struct {
	r *report
}

type report struct {
	reasons  []Reason
	seal     bundle.Seal
	sealed   receipts.Digest // seal digest
	patch    Patch
	plan     Plan
	run      *receipts.Run
	args     map[uint64]*receipts.Args
	results  map[uint64]*receipts.Result
	findings *Findings
	upstream []UpstreamReceipt
	trust    []Trust
	// workflows are who an OIDC token is by, whatever the run.
	workflows map[Trust]string
	macs      bool
	policy    string
	quick     bool
	sound     bool // nothing contradicts itself: the facts may be shown
}

// NoBundle returns the report where there is no bundle that could be read, and why:
// a code that is broken, or [EvidenceExpired], or else [NoEvidence].
func NoBundle(code Code, detail string) Report {
	if c, err := CauseOf(code); err != nil || c.Verdict != Broken && code != EvidenceExpired {
		code = NoEvidence
	}
	return Report{&report{reasons: []Reason{{Code: code, Detail: detail}}}}
}

// Verdict returns the worst that a reason of the report says. A reason that has
// no verdict of its own leaves the report unproven: only one without reasons is
// verified.
func (r Report) Verdict() Verdict { return verdictOf(r.Reasons()) }

func verdictOf(reasons []Reason) Verdict {
	worst := Verified
	for _, reason := range reasons {
		c, err := CauseOf(reason.Code)
		if err != nil || c.Verdict == "" {
			c.Verdict = Unproven
		}
		if c.Verdict.worse(worst) {
			worst = c.Verdict
		}
	}
	return worst
}

// Reasons returns why the report is not verified, the gravest first. A verified
// report has none.
func (r Report) Reasons() []Reason {
	if r.r == nil {
		return []Reason{{Code: NoEvidence}}
	}
	return slices.Clone(r.r.reasons)
}

// Has reports whether code is among the reasons.
func (r Report) Has(code Code) bool {
	for _, reason := range r.Reasons() {
		if reason.Code == code {
			return true
		}
	}
	return false
}

// Sound reports whether the evidence does not contradict itself. Only then do
// the other methods say something about the run, and even then only [Report.Trust]
// says whether someone vouches for it.
func (r Report) Sound() bool { return r.r != nil && r.r.sound }

func (r Report) get() *report {
	if !r.Sound() {
		return &report{findings: newFindings()}
	}
	return r.r
}

// Seal returns what the seal states, and the seal digest.
func (r Report) Seal() (bundle.Seal, receipts.Digest) { return r.get().seal, r.get().sealed }

// Patch returns the patch document.
func (r Report) Patch() Patch { return r.get().patch }

// Plan returns the plan document.
func (r Report) Plan() Plan { return r.get().plan }

// Findings returns what the tests came to.
func (r Report) Findings() *Findings { return r.get().findings }

// Sentence says in one sentence what the run proves; see [Findings.Sentence].
func (r Report) Sentence() string {
	p := r.Patch()
	short := func(id string) string { return id[:min(7, len(id))] }
	return r.Findings().Sentence(short(p.Base), short(p.Head))
}

// Trust returns the signatures that an anchor vouches for.
func (r Report) Trust() []Trust { return slices.Clone(r.get().trust) }

// MACsChecked reports whether the receipts' MACs were checked: it takes the key.
// Under another trusted signature the receipts count all the same, because it
// covers them.
func (r Report) MACsChecked() bool { return r.get().macs }

// PolicySource says what the configuration was compared with.
func (r Report) PolicySource() string { return r.get().policy }

// Quick reports whether the evidence document was believed instead of made again.
func (r Report) Quick() bool { return r.get().quick }

// A Step is a call of the run with its documents. Args and Result are nil where
// the report does not hold them.
type Step struct {
	receipts.Call
	Proof  *receipts.Receipt // nil: the call did not complete
	Args   *receipts.Args
	Result *receipts.Result
}

// Steps returns the calls of the run in order.
func (r Report) Steps() []Step {
	in := r.get()
	if in.run == nil {
		return nil
	}
	steps := make([]Step, len(in.run.Calls))
	for i, c := range in.run.Calls {
		steps[i] = Step{Call: c, Args: in.args[c.Start.Call], Result: in.results[c.Start.Call]}
		if c.Receipt >= 0 {
			steps[i].Proof = &in.run.Receipts[c.Receipt]
		}
	}
	return steps
}

// Risks returns what the run noted beside its calls.
func (r Report) Risks() []receipts.Risk {
	if run := r.get().run; run != nil {
		return run.Risks
	}
	return nil
}

// Excerpt returns the end of what a test printed that failed on the head, or
// what its package printed, where the report kept it.
func (r Report) Excerpt(t TestName) string {
	f := r.get().findings
	if s := f.detail[t]; s != "" {
		return s
	}
	return f.detail[TestName{Entry: t.Entry, Suite: t.Suite}]
}

var errReport = errors.New("report: a report is made by verification only")

// UnmarshalJSON implements [json.Unmarshaler] by refusing.
func (*Report) UnmarshalJSON([]byte) error { return errReport }

// UnmarshalText implements [encoding.TextUnmarshaler] by refusing.
func (*Report) UnmarshalText([]byte) error { return errReport }

type jsonReason struct {
	Code    Code    `json:"code"`
	Verdict Verdict `json:"verdict"`
	Member  string  `json:"member,omitempty"`
	Detail  string  `json:"detail,omitempty"`
	Remedy  string  `json:"remedy"`
}

type jsonRun struct {
	Call       uint64   `json:"call"`
	Name       string   `json:"name"`
	Side       string   `json:"side"`
	Round      int      `json:"round"`
	Purpose    string   `json:"purpose,omitempty"`
	Package    string   `json:"package,omitempty"`
	Argv       []string `json:"argv"`
	State      string   `json:"state"`
	Exit       int      `json:"exit"`
	Pass       int      `json:"pass"`
	Fail       int      `json:"fail"`
	Skip       int      `json:"skip"`
	Unfinished int      `json:"unfinished"`
	Millis     int64    `json:"wall_ms"`
	Level      *int     `json:"isolation_level,omitempty"`
	Network    string   `json:"network,omitempty"`
	Connect    []string `json:"connect,omitempty"`
	Signals    []string `json:"signals,omitempty"`

	Imported *jsonImport `json:"imported,omitempty"`
}

// jsonImport names the call of an earlier run that a run is taken from.
type jsonImport struct {
	Seal  receipts.Digest `json:"seal"`
	Call  uint64          `json:"call"`
	Ended string          `json:"ended"`
}

// MarshalJSON returns the report for other programs. What is not sound is not in
// it: the verdict and its reasons are, always.
func (r Report) MarshalJSON() ([]byte, error) {
	type jsonSide struct {
		Commit string          `json:"commit"`
		Tree   string          `json:"tree"`
		SHA256 receipts.Digest `json:"tree_sha256"`
	}
	out := struct {
		Verdict    Verdict      `json:"verdict"`
		Exit       int          `json:"exit_code"`
		Reasons    []jsonReason `json:"reasons"`
		Trust      []Trust      `json:"trust"`
		MACs       string       `json:"receipt_macs,omitempty"`
		Seal       string       `json:"seal,omitempty"`
		Repository string       `json:"repository,omitempty"`
		Base       *jsonSide    `json:"base,omitempty"`
		Head       *jsonSide    `json:"head,omitempty"`
		Source     string       `json:"plan_source,omitempty"`
		Policy     string       `json:"policy,omitempty"`
		Outcome    string       `json:"outcome,omitempty"`
		Reproduces string       `json:"reproduces,omitempty"`
		Start      string       `json:"start,omitempty"`
		End        string       `json:"end,omitempty"`
		Quick      bool         `json:"quick,omitempty"`
		Runs       []jsonRun    `json:"runs,omitempty"`
		Sentence   string       `json:"sentence,omitempty"`
		Claim      *Claim       `json:"claim,omitempty"`
		Findings   []Finding    `json:"findings,omitempty"`
		Compared   *Comparison  `json:"compared,omitempty"`
		NotCovered []string     `json:"not_covered,omitempty"`

		Upstream []UpstreamReceipt `json:"upstream_receipts,omitempty"`
	}{Verdict: r.Verdict(), Exit: r.Verdict().Exit(), Reasons: []jsonReason{}, Trust: []Trust{}}
	out.Reasons = jsonReasons(r.Reasons())
	if r.Sound() {
		in := r.r
		out.Trust = append(out.Trust, in.trust...)
		out.MACs = map[bool]string{true: "checked", false: "not checked (no key)"}[in.macs]
		out.Seal, out.Policy, out.Quick, out.Source = in.sealed.String(), in.policy, in.quick, in.plan.Source
		out.Repository = string(in.patch.Repository)
		out.Base = &jsonSide{in.patch.Base, in.patch.BaseTree.Git, in.patch.BaseTree.SHA256}
		out.Head = &jsonSide{in.patch.Head, in.patch.Tree.Git, in.patch.Tree.SHA256}
		out.Outcome = in.seal.Outcome
		if !in.seal.Reproduces.IsZero() {
			out.Reproduces = in.seal.Reproduces.String()
		}
		out.Start = time.UnixMilli(int64(in.seal.Start)).UTC().Format(time.RFC3339Nano)
		out.End = time.UnixMilli(int64(in.seal.End)).UTC().Format(time.RFC3339Nano)
		for _, f := range in.findings.Runs {
			out.Runs = append(out.Runs, r.jsonRun(f))
		}
		c := in.findings.Compare()
		out.Compared, out.Sentence, out.Claim, out.Findings = &c, r.Sentence(), &in.findings.Claim, in.findings.Findings
		out.Upstream = in.upstream
		for _, n := range in.plan.NotCovered {
			out.NotCovered = append(out.NotCovered, string(n))
		}
	}
	return json.Marshal(out)
}

func (r Report) jsonRun(f *RunFinding) jsonRun {
	out := jsonRun{
		Call: f.Call, Name: f.Name, Side: f.Side, Round: f.Round, Purpose: f.Purpose, Package: f.Package, State: f.State, Exit: f.Exit,
		Pass: f.Pass, Fail: f.Fail, Skip: f.Skip, Unfinished: f.Unfinished,
	}
	if args := r.r.args[f.Call]; args != nil {
		for _, a := range args.Argv {
			out.Argv = append(out.Argv, string(a))
		}
	}
	if i := f.Imported; i != nil {
		out.Imported = &jsonImport{i.Seal, i.Call.Call, i.Ended.UTC().Format(time.RFC3339Nano)}
	}
	if result := r.resultOf(f); result != nil {
		out.Millis = result.End - result.Start
		if result.Isolation != nil {
			out.Level, out.Network, out.Connect = &result.Isolation.Level, result.Isolation.Network, result.Isolation.Connect
		}
	}
	for _, s := range f.Signals {
		out.Signals = append(out.Signals, s.Code)
	}
	return out
}

// resultOf returns the result document of the call that put out what f is read
// from, nil where the report does not hold it.
func (r Report) resultOf(f *RunFinding) *receipts.Result {
	if f.Imported != nil {
		return &f.Imported.Call.Result
	}
	return r.get().results[f.Call]
}
