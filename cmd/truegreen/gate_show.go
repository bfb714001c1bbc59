package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/truegreen-dev/truegreen/verifier"
)

// printDecision writes a decision for people; with explain, each rule of each commit.
func (a *app) printDecision(d verifier.Decision, explain bool) {
	w, verdict := a.out, d.Verdict()
	tag, signer := d.Tag()
	rows := d.Rows()
	fmt.Fprintf(w, "%s: %s is commit %s", a.color(verdictColors[verdict], string(verdict)), oneLine(strings.TrimPrefix(tag.Ref, "refs/tags/")), short(tag.Commit))
	since := "no release before it"
	if tag.Since != "" {
		since = "since " + short(tag.Since)
	}
	fmt.Fprintf(w, ", %d to look at, %s\n", len(rows), since)
	for _, reason := range d.Reasons() {
		cause, _ := verifier.CauseOf(reason.Code)
		fmt.Fprintf(w, "  %s\n    %s\n", oneLine(reason.String()), cause.Remedy)
	}
	_, source := d.Policy()
	fmt.Fprintf(w, "  policy    %s\n", oneLine(source))
	if signer != "" {
		fmt.Fprintf(w, "  tag       signed by %s\n", oneLine(signer))
	}
	waived := 0
	for _, row := range rows {
		fmt.Fprintf(w, "  %s  %s  %-13s  %s\n", short(row.Commit), a.color(verdictColors[row.Verdict], fmt.Sprintf("%-8s", row.Verdict)), oneLine(row.Rule), oneLine(row.Why))
		if row.Waiver != "" {
			waived++
			for _, r := range row.Waived {
				fmt.Fprintf(w, "                %s  stands in for %s\n", strings.Repeat(" ", 8), oneLine(r.String()))
			}
		}
		if explain {
			printChecks(w, row.Checks)
		}
	}
	if waived > 0 {
		fmt.Fprintf(w, "  waived    %d of %d\n", waived, len(rows))
	}
	printUnused(w, d.Unused(), explain)
}

// printChecks shows what each rule came to, of each bundle.
func printChecks(w io.Writer, checks []verifier.GateCheck) {
	bundle := ""
	for _, c := range checks {
		if c.Bundle != bundle {
			bundle = c.Bundle
			fmt.Fprintf(w, "    %s\n", oneLine(bundle))
		}
		mark := "ok"
		if !c.OK {
			mark = "NO"
		}
		fmt.Fprintf(w, "      %s  %-13s  %s\n", mark, oneLine(c.Rule), oneLine(c.Detail))
	}
}

// printUnused shows what no commit was decided by: all that is not sound, and of the
// rest, unless it is asked for, how many.
func printUnused(w io.Writer, bundles []verifier.GateBundle, explain bool) {
	other := 0
	for _, b := range bundles {
		switch {
		case b.Skipped && !explain:
			other++
		case b.Skipped:
			fmt.Fprintf(w, "  unused    %s: of tree %s\n", oneLine(b.Name), short(b.Tree))
		default:
			text := "not needed"
			if reasons := b.Report.Reasons(); len(reasons) > 0 {
				text = string(b.Report.Verdict()) + ": " + reasons[0].String()
			}
			fmt.Fprintf(w, "  unused    %s: %s\n", oneLine(b.Name), oneLine(text))
		}
	}
	if other > 0 {
		fmt.Fprintf(w, "  unused    bundles of other trees: %d\n", other)
	}
}
