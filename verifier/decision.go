package verifier

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Decision is what the gate says about a release. Only [Gate.Decide] makes one, and
// it cannot be unmarshalled: a later job decides again. The zero Decision is unproven:
// no-evidence.
type Decision struct {
	d *decision
}

type decision struct {
	made       bool
	repository string
	tag        GateTag
	tagger     string // who signed the tag, where that was asked for
	policy     GatePolicy
	source     string
	rows       []GateRow
	unused     []GateBundle
	reasons    []Reason
	now        time.Time
}

// A GateRow is what was decided on one commit.
type GateRow struct {
	Commit  string      `json:"commit"`
	Tree    string      `json:"tree"`
	Verdict Verdict     `json:"verdict"`
	Rule    string      `json:"rule"` // that decided: evidence, waiver, or the rule that was not met
	Why     string      `json:"why"`
	Bundles []string    `json:"bundles"` // that decided
	Signers []string    `json:"signers"` // of these, different ones
	Waiver  string      `json:"waiver,omitempty"`
	Waived  []Reason    `json:"-"` // what the waiver stands in for
	Reasons []Reason    `json:"-"` // none: the commit passes
	Checks  []GateCheck `json:"checks"`
}

// A GateCheck is one rule, held to one bundle or waiver.
type GateCheck struct {
	Bundle string `json:"bundle"`
	Rule   string `json:"rule"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`

	code Code // of a check that is not OK
}

// unmet returns the reasons that checks give.
func unmet(checks []GateCheck) (reasons []Reason) {
	for _, c := range checks {
		if !c.OK {
			reasons = append(reasons, Reason{c.code, c.Bundle, c.Detail})
		}
	}
	return reasons
}

// ruleOf returns the rule behind the first of the reasons.
func ruleOf(checks []GateCheck, reasons []Reason) string {
	i := slices.IndexFunc(checks, func(c GateCheck) bool { return !c.OK && c.code == reasons[0].Code && c.Bundle == reasons[0].Member })
	return checks[i].Rule
}

// gravityOf says how grave the worst of the reasons is.
func gravityOf(reasons []Reason) (worst int) {
	for _, r := range reasons {
		worst = max(worst, -rank(r))
	}
	return worst
}

// add takes over the reasons of a row, each code once.
func (d *decision) add(row GateRow) {
	for _, r := range row.Reasons {
		r.Member, r.Detail = "", fmt.Sprintf("commit %s: %s", row.Commit[:min(12, len(row.Commit))], r.Detail)
		i := slices.IndexFunc(d.reasons, func(have Reason) bool { return have.Code == r.Code })
		if i < 0 {
			d.reasons = append(d.reasons, r)
		}
	}
	slices.SortStableFunc(d.reasons, func(a, b Reason) int { return rank(a) - rank(b) })
}

// Verdict returns the worst that a reason says.
func (d Decision) Verdict() Verdict { return verdictOf(d.Reasons()) }

// Reasons returns why the release does not pass, the gravest first, each code once: the
// rows say which commits have it.
func (d Decision) Reasons() []Reason {
	if d.d == nil || len(d.d.rows) == 0 && len(d.d.reasons) == 0 {
		return []Reason{{Code: NoEvidence}}
	}
	return slices.Clone(d.d.reasons)
}

// Rows returns what was decided on each commit, newest first.
func (d Decision) Rows() []GateRow { return slices.Clone(d.get().rows) }

// Unused returns the bundles that no commit was decided by.
func (d Decision) Unused() []GateBundle { return slices.Clone(d.get().unused) }

// Policy returns the policy, and where it comes from.
func (d Decision) Policy() (GatePolicy, string) { return d.get().policy, d.get().source }

// Tag returns the tag, and who signed it, where the policy asks for that.
func (d Decision) Tag() (t GateTag, signer string) { return d.get().tag, d.get().tagger }

func (d Decision) get() *decision {
	if d.d == nil {
		return &decision{}
	}
	return d.d
}

var errDecision = errors.New("decision: a decision is made by the gate only")

// UnmarshalJSON implements [json.Unmarshaler] by refusing.
func (*Decision) UnmarshalJSON([]byte) error { return errDecision }

// UnmarshalText implements [encoding.TextUnmarshaler] by refusing.
func (*Decision) UnmarshalText([]byte) error { return errDecision }

// MarshalJSON returns the decision for other programs.
func (d Decision) MarshalJSON() ([]byte, error) {
	type unused struct {
		Bundle  string  `json:"bundle"`
		Tree    string  `json:"tree,omitempty"` // that it says that it is about
		Verdict Verdict `json:"verdict,omitempty"`
		Codes   []Code  `json:"codes,omitempty"`
	}
	type row struct {
		GateRow
		Reasons []jsonReason `json:"reasons"`
		Waived  []jsonReason `json:"waived,omitempty"`
	}
	in := d.get()
	out := struct {
		Verdict    Verdict      `json:"verdict"`
		Exit       int          `json:"exit_code"`
		Reasons    []jsonReason `json:"reasons"`
		Repository string       `json:"repository,omitempty"`
		Tag        string       `json:"tag,omitempty"`
		Commit     string       `json:"commit,omitempty"`
		Tree       string       `json:"tree,omitempty"`
		Since      string       `json:"since,omitempty"`
		Tagger     string       `json:"tag_signer,omitempty"`
		Source     string       `json:"policy_source,omitempty"`
		Policy     *GatePolicy  `json:"policy,omitempty"`
		Rows       []row        `json:"commits"`
		Unused     []unused     `json:"unused"`
	}{
		Verdict: d.Verdict(), Exit: d.Verdict().Exit(), Reasons: jsonReasons(d.Reasons()),
		Repository: in.repository, Tag: in.tag.Ref, Commit: in.tag.Commit, Tree: in.tag.Tree, Since: in.tag.Since, Tagger: in.tagger,
		Source: in.source, Rows: []row{}, Unused: []unused{},
	}
	if in.made {
		out.Policy = &in.policy
	}
	for _, r := range in.rows {
		shown := row{GateRow: r, Reasons: jsonReasons(r.Reasons)}
		shown.Bundles, shown.Signers, shown.Checks = append([]string{}, r.Bundles...), append([]string{}, r.Signers...), append([]GateCheck{}, r.Checks...)
		if r.Waived != nil {
			shown.Waived = jsonReasons(r.Waived)
		}
		out.Rows = append(out.Rows, shown)
	}
	for _, b := range in.unused {
		u := unused{Bundle: b.Name, Tree: b.Tree}
		if !b.Skipped {
			u.Verdict = b.Report.Verdict()
			for _, r := range b.Report.Reasons() {
				u.Codes = append(u.Codes, r.Code)
			}
		}
		out.Unused = append(out.Unused, u)
	}
	return json.Marshal(out)
}

func jsonReasons(reasons []Reason) []jsonReason {
	out := []jsonReason{}
	for _, r := range reasons {
		c, _ := CauseOf(r.Code)
		out = append(out, jsonReason{r.Code, c.Verdict, r.Member, r.Detail, c.Remedy})
	}
	return out
}
