package forge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// A Page is what one job has to show: reports of verified bundles, and what the
// job itself knows. It has the same content in every place, as far as there is
// room: a comment, a summary, annotations, a status and the log of the job.
//
// What a page says of a run is in a [verifier.Report], which only verification
// makes. A page without sections has the zero report, which is unproven.
type Page struct {
	Job        Job
	Target     Target
	Sections   []Section
	Previous   *Before       // what the comment on the pull request says now; nil: there is none
	Newer      string        // commit that the pull request has come to by now, "" if it is the target's
	ReportOnly bool          // nobody acts on the verdict
	Elapsed    time.Duration // 0: what the seals say
	Links      []Link        // to the run
}

// A Section is what a page shows of one bundle.
type Section struct {
	Name   string // of the project; may be "" where there is one
	Report verifier.Report
	Notes  []string // for people
	Links  []Link   // to the bundle
	File   string   // name of the bundle
	SHA256 string   // of the bundle's file, "" if it is not known
	Verify string   // the command that verifies it anywhere; "": one with File
}

// A Before is what the comment that a page replaces said.
type Before struct {
	Verdict        verifier.Verdict
	Passed, Failed int
	Head           string // commit
}

// Verdict returns the worst of the sections' verdicts: broken, unproven, failed,
// verified. What nobody attests is unproven at best.
func (p *Page) Verdict() verifier.Verdict { return worst(p.facts()) }

// Counts returns how many tests passed, failed and were skipped on the heads.
func (p *Page) Counts() (passed, failed, skipped int) {
	for _, f := range p.facts() {
		passed, failed, skipped = passed+f.passed, failed+f.failed, skipped+f.skipped
	}
	return passed, failed, skipped
}

// facts are what a section shows.
type facts struct {
	*Section
	verdict                 verifier.Verdict
	reasons                 []verifier.Reason
	passed, failed, skipped int // on the head, by the plain commands
	comparison              verifier.Comparison
	compared                bool // the base was run
	proofs                  []verifier.Proof
	claimed                 bool // nobody attests what it shows
}

// facts returns what the sections show, the gravest first.
func (p *Page) facts() []facts {
	sections := p.Sections
	if len(sections) == 0 {
		sections = make([]Section, 1)
	}
	list := make([]facts, len(sections))
	for i := range sections {
		list[i] = p.factsOf(&sections[i])
	}
	slices.SortStableFunc(list, func(a, b facts) int { return severity(b.verdict) - severity(a.verdict) })
	return list
}

func (p *Page) factsOf(s *Section) facts {
	found := s.Report.Findings()
	f := facts{
		Section: s, verdict: s.Report.Verdict(), reasons: s.Report.Reasons(),
		comparison: found.Compare(), proofs: found.Claim.FailToPass, claimed: p.Target.Unattested,
	}
	if p.Target.Unattested && f.verdict != verifier.Broken {
		f.attestedByNobody()
	}
	for _, run := range found.Runs {
		switch {
		case !run.Plain() || run.State == receipts.StateNotRun:
		case run.Side == verifier.SideBase:
			f.compared = true
		case run.Side == verifier.SideHead && run.Round == 1:
			f.passed, f.failed, f.skipped = f.passed+run.Pass, f.failed+run.Fail+run.Unfinished, f.skipped+run.Skip
		}
	}
	return f
}

// attestedByNobody makes the section unproven. Who made the seal then says nothing, and
// no other signature would.
func (f *facts) attestedByNobody() {
	f.verdict = verifier.Unproven
	f.reasons = slices.DeleteFunc(f.reasons, func(r verifier.Reason) bool { return r.Code == verifier.NoTrustedSeal })
	if !slices.ContainsFunc(f.reasons, func(r verifier.Reason) bool { return r.Code == verifier.Unattested }) {
		f.reasons = slices.Insert(f.reasons, 0, verifier.Reason{Code: verifier.Unattested, Detail: "the patch can change the workflow that made it"})
	}
}

// severity orders verdicts; one that is not known is as bad as they come.
func severity(v verifier.Verdict) int {
	order := []verifier.Verdict{verifier.Verified, verifier.Failed, verifier.Unproven, verifier.Broken}
	if i := slices.Index(order, v); i >= 0 {
		return i
	}
	return len(order)
}

func worst(list []facts) verifier.Verdict {
	v := verifier.Verified
	for _, f := range list {
		if severity(f.verdict) > severity(v) {
			v = f.verdict
		}
	}
	return v
}

// headline returns the verdict in one line of this program's own words.
func (p *Page) headline(list []facts) string {
	v := worst(list)
	said := string(v)
	if p.ReportOnly && v != verifier.Verified {
		said = "report only: would have been " + strings.ToUpper(string(v))
		if v == verifier.Failed {
			said = "report only: would have FAILED"
		}
	}
	why := ""
	if len(list) == 1 {
		why = list[0].why()
	} else {
		var counts []string
		for _, v := range []verifier.Verdict{verifier.Broken, verifier.Unproven, verifier.Failed, verifier.Verified} {
			n := 0
			for _, f := range list {
				if f.verdict == v {
					n++
				}
			}
			if n > 0 {
				counts = append(counts, fmt.Sprintf("%d %s", n, v))
			}
		}
		why = fmt.Sprintf("%s of %d projects", strings.Join(counts, ", "), len(list))
	}
	if why != "" {
		said += ": " + why
	}
	if p.ReportOnly && v == verifier.Verified {
		said += " (report only)"
	}
	return said
}

// why says in a few words why a section is not verified: the gravest reason, and
// what is wrong with the tests.
func (f *facts) why() string {
	if f.verdict == verifier.Verified {
		return ""
	}
	var parts []string
	if f.verdict != verifier.Failed && len(f.reasons) > 0 {
		parts = append(parts, string(f.reasons[0].Code))
	}
	c := &f.comparison
	if n := len(c.Regressed) + len(c.NewFailing) + len(c.StillFailing); n > 0 {
		parts = append(parts, plural(n, "test fails", "tests fail"))
	}
	for _, n := range []struct {
		count int
		what  string
	}{{len(c.Regressed), "regressed"}, {len(c.Removed), "removed"}, {len(c.NewlySkipped), "newly skipped"}} {
		if n.count > 0 {
			parts = append(parts, grouped(n.count)+" "+n.what)
		}
	}
	if len(parts) == 0 && len(f.reasons) > 0 {
		parts = append(parts, string(f.reasons[0].Code))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%s %s", grouped(n), many)
}

// grouped writes a number with a comma between groups of three digits.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && n > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// elapsed returns how long the job, or else its runs, took; 0: nobody knows.
func (p *Page) elapsed() time.Duration {
	if p.Elapsed > 0 {
		return p.Elapsed
	}
	var sum time.Duration
	for i := range p.Sections {
		if s, _ := p.Sections[i].Report.Seal(); s.End > s.Start {
			sum += time.Duration(s.End-s.Start) * time.Millisecond
		}
	}
	return sum
}

// spoken writes a duration as people say it.
func spoken(d time.Duration) string {
	d = d.Round(time.Second)
	switch h, m, s := int(d/time.Hour), int(d/time.Minute)%60, int(d/time.Second)%60; {
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, m)
	case m > 0:
		return fmt.Sprintf("%d min %d s", m, s)
	default:
		return fmt.Sprintf("%d s", max(1, s))
	}
}

func short(id string) string { return id[:min(7, len(id))] }
