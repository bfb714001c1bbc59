package verifier

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
)

// A Gate is a release and all that speaks for it: what [Gate.Decide] decides on. The
// caller resolves everything but the bundles and waivers itself, at refs that it
// protects.
type Gate struct {
	Repository string // as in the patch document
	Tag        GateTag
	Commits    []GateCommit // that need evidence; the tag's own is one of them
	Bundles    []GateBundle
	Waivers    []GateWaiver

	Policy       GatePolicy
	PolicySource string          // where it comes from, for people
	History      map[string]bool // commits of the protected branch, on which the bases lie
	Signers      *bundle.Signers // whose waivers and tags count
	Revoked      *bundle.Revoked
	Requirements Requirements // of Policy.Require; nil: there are none
	Now          time.Time
}

// A GateTag is the tag of the release.
type GateTag struct {
	Ref          string // refs/tags/v1.4.0
	Commit, Tree string // that it names, peeled
	Object       []byte // of an annotated tag, with its id already checked
	Since        string // the last release: a commit, "" for none
	Expected     string // the commit that it has to name; "": any
	Protected    bool   // the commit is on the protected branch
	Rewritten    bool   // the last release is not part of this one's history
}

// A GateCommit is a commit that needs evidence.
type GateCommit struct {
	ID, Tree string
	// Base is the tree that evidence of more than level L0 has to be relative to: that of
	// the first parent, or of the last commit before with another tree than this one.
	Base    string
	Root    bool     // it has no parent
	Changed []string // paths, against the first parent
}

// A GateBundle is a bundle that was verified for this gate.
type GateBundle struct {
	Name   string
	Tree   string // that its patch document states, "" where that could not be read
	Report Report
	// Skipped: no commit has the tree, so the bundle was not verified to its end, and
	// Report is zero.
	Skipped bool
}

// A GateWaiver is a waiver in a file.
type GateWaiver struct {
	Name   string
	Waiver Waiver
}

// Requirements are the expressions of a policy. Check returns which of them a report, in
// its JSON form, does not meet, and why.
type Requirements interface {
	Check(report []byte) error
}

// Decide decides. It fails closed: a commit passes by evidence that meets every rule, or
// by a waiver, and by nothing else.
func (g *Gate) Decide() Decision {
	d := &decision{
		repository: g.Repository, tag: g.Tag, policy: g.Policy, source: g.PolicySource, now: g.Now, made: true,
	}
	d.tagged(g)
	if !slices.ContainsFunc(g.Commits, func(c GateCommit) bool { return c.ID == g.Tag.Commit && c.Tree == g.Tag.Tree }) {
		d.reasons = append(d.reasons, Reason{NoEvidence, "", "the tag's own commit is not among those that were asked about"})
	}
	used := map[string]bool{}
	for i := range g.Commits {
		row := g.row(&g.Commits[i])
		for _, name := range row.Bundles {
			used[name] = true
		}
		d.rows = append(d.rows, row)
		d.add(row)
	}
	for _, b := range g.Bundles {
		if !used[b.Name] {
			d.unused = append(d.unused, b)
		}
	}
	return Decision{d}
}

// tagged holds the tag to what is asked of it.
func (d *decision) tagged(g *Gate) {
	t := &g.Tag
	because := func(code Code, format string, args ...any) {
		d.reasons = append(d.reasons, Reason{code, t.Ref, fmt.Sprintf(format, args...)})
	}
	if t.Expected != "" && t.Expected != t.Commit {
		because(WrongTag, "it names commit %s, not %s", t.Commit, t.Expected)
	}
	var tag GitTag
	if t.Object != nil {
		var err error
		tag, err = ParseGitTag(t.Object)
		switch {
		case err != nil:
			because(WrongTag, "%v", err)
		case "refs/tags/"+tag.Name != t.Ref:
			because(WrongTag, "the tag object is that of tag %q", tag.Name)
		case tag.Object != t.Commit:
			because(WrongTag, "the tag object is one of %s %s", tag.Type, tag.Object)
		}
	}
	if len(g.Policy.TagSigners) > 0 {
		who, err := tag.By(g.Policy.TagSigners, g.Signers, g.Revoked, g.Now)
		if err != nil {
			because(TagNotSigned, "%v", err)
		}
		d.tagger = who
	}
	if !t.Protected {
		because(TagElsewhere, "commit %s is not on the protected branch", t.Commit)
	}
	if t.Rewritten {
		because(HistoryRewritten, "the last release, %s, is not in the history of %s", t.Since, t.Commit)
	}
}

// row decides on one commit.
func (g *Gate) row(c *GateCommit) GateRow {
	row := GateRow{Commit: c.ID, Tree: c.Tree}
	var (
		best    []Reason
		against []Reason // of evidence that counts and says no
		signers []signer
		counts  []counting
	)
	for i := range g.Bundles {
		b := &g.Bundles[i]
		if b.Tree != c.Tree && b.Report.Patch().Tree.Git != c.Tree {
			continue
		}
		checks, by := g.checks(c, b)
		row.Checks = append(row.Checks, checks...)
		reasons := unmet(checks)
		switch {
		case len(reasons) == 0:
			row.Bundles = append(row.Bundles, b.Name)
			signers = append(signers, by...)
			counts = append(counts, counting{b, by})
		case g.saysNo(c, b):
			against = append(against, reasons...)
			row.Bundles = append(row.Bundles, b.Name)
		case best == nil || gravityOf(reasons) < gravityOf(best):
			best = reasons
		}
	}
	distinct := distinctSigners(signers)
	row.Signers = distinct
	need := max(g.Policy.Threshold, 1)
	rule := "threshold"
	if len(g.Policy.SecondSigner) > 0 && need < 2 && MatchPath(g.Policy.SecondSigner, c.Changed) {
		need, rule = 2, "second-signer"
	}
	switch {
	case len(against) > 0:
		row.Rule, row.Reasons = "verified", against
		if len(signers) > 0 {
			row.Why = "two bundles disagree: one that counts says no"
		}
	case len(signers) > 0 && len(distinct) >= need && g.Policy.Reproduced && !reproduced(counts):
		row.Rule, row.Reasons = "reproduced", []Reason{{NoReproduction, "", "no run of " + strings.Join(row.Bundles, ", ") + " is one that another signer has made again with the same outcomes"}}
	case len(signers) > 0 && len(distinct) >= need:
		row.Rule, row.Why = "evidence", "signed by "+strings.Join(distinct, " and by ")
	case len(signers) > 0:
		r := Reason{TooFewSigners, "", fmt.Sprintf("%d of the %d different signers that %s asks for: %s", len(distinct), need, rule, strings.Join(distinct, "; "))}
		row.Rule, row.Reasons = rule, []Reason{r}
	case best != nil:
		row.Reasons = best
		row.Rule = ruleOf(row.Checks, best)
	default:
		row.Rule, row.Reasons = "evidence", []Reason{g.missing(c)}
	}
	if len(row.Reasons) > 0 {
		g.waive(c, &row)
	}
	row.Verdict = verdictOf(row.Reasons)
	if row.Why == "" && len(row.Reasons) > 0 {
		row.Why = row.Reasons[0].String()
	}
	return row
}

// missing is the reason of a commit for whose tree there is no bundle. Where some have
// expired, it may have been one of these.
func (g *Gate) missing(c *GateCommit) Reason {
	r := Reason{NoEvidence, "", "no bundle was made for tree " + c.Tree}
	for _, b := range g.Bundles {
		if reasons := b.Report.Reasons(); b.Tree == "" && !b.Skipped && len(reasons) > 0 && reasons[0].Code == EvidenceExpired {
			return Reason{EvidenceExpired, "", "no bundle that is left was made for tree " + c.Tree + "; " + b.Name + ": " + reasons[0].Detail}
		}
	}
	return r
}

// checks holds a bundle to each rule, and returns who signed it that counts. Rules that
// need sound evidence are not asked where there is none.
func (g *Gate) checks(c *GateCommit, b *GateBundle) (checks []GateCheck, by []signer) {
	r, p := b.Report, &g.Policy
	check := func(rule string, code Code, ok bool, format string, args ...any) {
		checks = append(checks, GateCheck{Bundle: b.Name, Rule: rule, OK: ok, Detail: fmt.Sprintf(format, args...), code: code})
	}
	for _, reason := range r.Reasons() {
		check("verified", reason.Code, false, "%s", strings.TrimPrefix(reason.String(), string(reason.Code)+": "))
	}
	_, verified := r.VerifiedPatch()
	if verified {
		check("verified", "", true, "%s", r.Sentence())
	} else if len(checks) == 0 {
		check("verified", NoEvidence, false, "a quick report, or one that nobody vouches for")
	}
	if !r.Sound() {
		return checks, nil
	}
	patch := r.Patch()
	check("repository", WrongPatch, string(patch.Repository) == g.Repository, "it is about %s", patch.Repository)
	check("tree", WrongPatch, patch.Tree.Git == c.Tree, "it is about tree %s", patch.Tree.Git)
	switch {
	case patch.Base == "":
		check("base", WrongBase, c.Root, "its base is the empty tree")
	default:
		check("base", WrongBase, g.History[patch.Base], "its base is %s, on the protected branch: %t", patch.Base, g.History[patch.Base])
	}
	seal, _ := r.Seal()
	age := g.Now.Sub(time.UnixMilli(int64(seal.End)))
	check("max-age", Stale, age >= -5*time.Minute && (p.MaxAge == 0 || age <= p.MaxAge), "the run ended %s ago; at most: %s", age.Round(time.Second), ageText(p.MaxAge))
	level := r.r.leastIsolation()
	check("isolation", LowIsolation, level >= p.Isolation, "level %d was measured; at least: %d", level, p.Isolation)
	if by = p.counted(r.r); len(by) == 0 {
		check("seals", NoTrustedSeal, false, "signed by %s; what counts: %s", trustText(r.r.trust), p.sealsText())
	} else {
		check("seals", "", true, "signed by %s", strings.Join(distinctSigners(by), " and by "))
	}
	if !verified { // what it proves is told already
		return checks, by
	}
	claim, about := r.Findings().Claim.Level, ""
	if claim > LevelRan && patch.BaseTree.Git != c.Base {
		claim, about = LevelRan, ", as what it was compared with is not what the commit changes"
	}
	check("level", EvidenceTooLow, claim >= p.Level, "it proves L%d%s; at least: L%d", claim, about, p.Level)
	if len(p.Require) > 0 {
		text, err := r.MarshalJSON()
		switch {
		case err != nil:
		case g.Requirements == nil:
			err = fmt.Errorf("no expressions were compiled")
		default:
			err = g.Requirements.Check(text)
		}
		if err != nil {
			check("require", NotMet, false, "%v", err)
		} else {
			check("require", "", true, "all %d expressions are true", len(p.Require))
		}
	}
	return checks, by
}

// saysNo reports whether a bundle is evidence against a commit: it is sound, someone
// who counts vouches for it, it is about this very tree, and its verdict is failed.
func (g *Gate) saysNo(c *GateCommit, b *GateBundle) bool {
	r := b.Report
	if !r.Sound() || len(g.Policy.counted(r.r)) == 0 {
		return false
	}
	patch := r.Patch()
	return r.Verdict() == Failed && patch.Tree.Git == c.Tree && string(patch.Repository) == g.Repository
}

// waive looks for a waiver of what a commit lacks, and notes those that are none.
func (g *Gate) waive(c *GateCommit, row *GateRow) {
	for i := range g.Waivers {
		w := &g.Waivers[i].Waiver
		if (w.Commit == "" || w.Commit != c.ID) && (w.Tree == "" || w.Tree != c.Tree) {
			continue
		}
		check := GateCheck{Bundle: g.Waivers[i].Name, Rule: "waiver"}
		who, err := w.By(g.Policy.Waivers, g.Signers, g.Revoked, g.Now)
		switch {
		case w.Repository != g.Repository:
			check.Detail = "it is for " + w.Repository
		case err != nil:
			check.Detail = err.Error()
		case !g.Now.Before(w.Expires):
			check.Detail = "it expired at " + w.Expires.Format(time.RFC3339)
		default:
			check.OK = true
			check.Detail = fmt.Sprintf("%s, until %s: %s", who, w.Expires.Format(time.RFC3339), w.Reason)
		}
		row.Checks = append(row.Checks, check)
		if check.OK {
			row.Rule, row.Why, row.Waiver, row.Waived, row.Reasons = "waiver", "waived by "+check.Detail, g.Waivers[i].Name, row.Reasons, nil
			return
		}
	}
}

// leastIsolation returns the least level that was measured of a test, here or in an
// earlier run that stands for it; -1 where one was not measured.
func (r *report) leastIsolation() int {
	least := maxLevel
	take := func(result *receipts.Result) {
		switch i := result.Isolation; {
		case i == nil:
			least = -1
		case i.Network == NetworkHost:
			least = min(least, i.Level, maxLevelHost)
		default:
			least = min(least, i.Level)
		}
	}
	for call, args := range r.args {
		if result := r.results[call]; args.Tool == receipts.ToolTest && result != nil && result.State != receipts.StateNotRun {
			take(result)
		}
	}
	for _, f := range r.findings.Runs {
		if f.Imported != nil {
			take(&f.Imported.Call.Result)
		}
	}
	return least
}

func ageText(d time.Duration) string {
	if d == 0 {
		return "any"
	}
	return d.String()
}
