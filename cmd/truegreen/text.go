package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// oneLine makes text from anywhere fit for a terminal and for the log of a CI job.
// (Attempts 90 and 92 of the conformance list.) All text that is not this
// program's own is printed by it, or by printJSON.
func oneLine(s string) string { return forge.OneLine(s) }

const maxListed = 10

var verdictColors = map[verifier.Verdict]string{
	verifier.Verified: "1;32", verifier.Failed: "1;31", verifier.Unproven: "1;33", verifier.Broken: "1;35",
}

// printReport writes a report for people.
func (a *app) printReport(r verifier.Report) {
	w := a.out
	verdict := r.Verdict()
	fmt.Fprint(w, a.color(verdictColors[verdict], string(verdict)))
	if r.Sound() {
		p := r.Patch()
		base := "the empty tree"
		if p.Base != "" {
			base = short(p.Base)
		}
		fmt.Fprintf(w, ": %s %s against %s", oneLine(string(p.Repository)), short(p.Head), base)
	}
	fmt.Fprintln(w)
	for _, reason := range r.Reasons() {
		cause, _ := verifier.CauseOf(reason.Code)
		fmt.Fprintf(w, "  %s\n", oneLine(reason.String()))
		fmt.Fprintf(w, "    %s\n", cause.Remedy)
	}
	if !r.Sound() {
		return
	}
	if unisolated(r) {
		fmt.Fprintln(w, a.color("1;31", "  NOT ISOLATED: tests ran with all that their user can do, files and network included"))
	}
	a.printClaim(w, r)
	a.printRuns(w, r)
	a.printTests(w, r)
	for _, u := range r.Upstream() {
		fmt.Fprintf(w, "  upstream  %s\n", oneLine(u.String()))
	}
	printNotes(w, r)
	a.printHostNetwork(w, r)
	for _, n := range r.Plan().NotCovered {
		fmt.Fprintf(w, "  note      %s\n", oneLine(string(n)))
	}
	for _, k := range r.Risks() {
		fmt.Fprintf(w, "  note      %s: %s\n", oneLine(k.Code), oneLine(string(k.Detail)))
	}
	if seal, _ := r.Seal(); !seal.Reproduces.IsZero() {
		fmt.Fprintf(w, "  again     made to compare with the run that is sealed as %s\n", seal.Reproduces)
	}
	printTrust(w, r)
}

// refuse says why nothing is shown of a bundle that is not sound.
func (a *app) refuse(r verifier.Report) error {
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		a.explain(r)
	}
	return exitWith(r)
}

// explain writes verdict and reasons to standard error, for commands whose
// standard output is something else.
func (a *app) explain(r verifier.Report) {
	fmt.Fprintf(a.err, "truegreen: the bundle is %s\n", r.Verdict())
	for _, reason := range r.Reasons() {
		cause, _ := verifier.CauseOf(reason.Code)
		fmt.Fprintf(a.err, "truegreen:   %s\ntruegreen:     %s\n", oneLine(reason.String()), cause.Remedy)
	}
}

func (a *app) printRuns(w io.Writer, r verifier.Report) {
	steps := map[uint64]verifier.Step{}
	for _, s := range r.Steps() {
		steps[s.Start.Call] = s
	}
	name, width := "", len("hybrid")
	more := map[string]int{}
	for _, run := range r.Findings().Runs {
		if run.Plain() && run.State != receipts.StateNotRun {
			width = max(width, len(run.Side))
		}
	}
	for _, run := range r.Findings().Runs {
		if !run.Plain() {
			if run.State != receipts.StateNotRun {
				more[run.Purpose]++
			}
			continue
		}
		s := steps[run.Call]
		if run.Name != name && s.Args != nil {
			name = run.Name
			fmt.Fprintf(w, "  %-9s %s  (%s)\n", oneLine(name), oneLine(forge.Words(s.Args.Argv)), verifier.SourceText(r.Plan().Source))
		}
		line := runLine(run, s.Result)
		if i := run.Imported; i != nil {
			line = fmt.Sprintf("%s, imported from the run of %s (seal %s)", runLine(run, &i.Call.Result), i.Ended.UTC().Format(time.RFC3339), short(i.Seal.String()))
		}
		fmt.Fprintf(w, "    %-*s  %s%s\n", width, oneLine(run.Side), oneLine(line), mixes[run.Side])
		if run.Side == verifier.SideHead {
			printSignals(w, run.Signals)
		}
	}
	var also []string
	for _, purpose := range slices.Sorted(maps.Keys(more)) {
		also = append(also, fmt.Sprintf("%d %s", more[purpose], purpose))
	}
	if len(also) > 0 {
		fmt.Fprintf(w, "    and     further runs: %s\n", oneLine(strings.Join(also, ", ")))
	}
}

// mixes says what the trees are that are mixed of both sides.
var mixes = map[string]string{
	verifier.SideHybrid:   "  (the head's tests on the base's code)",
	verifier.SideRestored: "  (the base's tests on the head's code)",
}

// printSignals lists the signals that speak against a run.
func printSignals(w io.Writer, signals []verifier.Signal) {
	n := 0
	for _, sig := range signals {
		if !sig.Disqualifies() && sig.Code != "exit-code-only" {
			continue
		}
		if n++; n <= maxListed {
			fmt.Fprintf(w, "            signal %s\n", oneLine(strings.Join(strings.Fields(sig.Code+" "+sig.Suite+" "+sig.Test+" "+sig.Detail), " ")))
		}
	}
	if n > maxListed {
		fmt.Fprintf(w, "            signal and %d more\n", n-maxListed)
	}
}

// printClaim says in one sentence what the run proves.
func (a *app) printClaim(w io.Writer, r verifier.Report) {
	f := r.Findings()
	level := "none"
	if f.Claim.Level >= 0 {
		level = fmt.Sprintf("L%d", f.Claim.Level)
	}
	fmt.Fprintf(w, "  claim     %s: %s\n", level, oneLine(r.Sentence()))
	if f.Claim.Missing != "" && f.Claim.Level < f.Claim.Aimed {
		fmt.Fprintf(w, "            not L%d: %s\n", f.Claim.Level+1, oneLine(f.Claim.Missing))
	}
}

// printNotes lists what needs attention.
func printNotes(w io.Writer, r verifier.Report) {
	for _, n := range r.Findings().Notes() {
		if n.Code != "" {
			n.Text = n.Code + ": " + n.Text
		}
		fmt.Fprintf(w, "  note      %s\n", oneLine(n.Text))
	}
}

// printHostNetwork names the entries that had the host's network: what they came
// to may depend on anything that can be reached from there.
func (a *app) printHostNetwork(w io.Writer, r verifier.Report) {
	var names []string
	for _, p := range r.Plan().Runs {
		if p.Network == verifier.NetworkHost && p.Skip == "" && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "  %s   HOST: %s ran with the host's network, and could reach and send anything\n",
			a.color(verdictColors[verifier.Failed], "network"), oneLine(strings.Join(names, ", ")))
	}
}

// runLine says what one run came to.
func runLine(run *verifier.RunFinding, result *receipts.Result) string {
	var b strings.Builder
	why := ""
	if result != nil {
		why = string(result.Why)
	}
	switch run.State {
	case receipts.StateNotRun:
		return "not run: " + why
	case receipts.StateNotFound:
		return "could not start: " + why
	case receipts.StateExited:
		fmt.Fprintf(&b, "%d passed, %d failed, %d skipped", run.Pass, run.Fail, run.Skip)
		if run.Exit != 0 {
			fmt.Fprintf(&b, ", exit code %d", run.Exit)
		}
	default:
		fmt.Fprintf(&b, "%s after %d passed, %d failed", run.State, run.Pass, run.Fail)
	}
	if run.Unfinished > 0 {
		fmt.Fprintf(&b, ", %d unfinished", run.Unfinished)
	}
	if run.Unbuilt > 0 {
		fmt.Fprintf(&b, ", %d packages did not build", run.Unbuilt)
	}
	if result != nil {
		fmt.Fprintf(&b, "  %.1fs", float64(result.End-result.Start)/1000)
		if i := result.Isolation; i != nil {
			fmt.Fprintf(&b, "  isolation %d %s (%s), network %s", i.Level, sandbox.Level(i.Level), walls(i), network(i))
		}
	}
	return b.String()
}

// networkText says what a command had in reach: ports of 127.0.0.1 by their
// number alone.
func networkText(network string, connect []string) string {
	if len(connect) == 0 {
		return network
	}
	text := "loopback"
	for _, at := range connect {
		text += " + " + strings.TrimPrefix(at, "127.0.0.1:")
	}
	return text
}

// unisolated reports whether a call was measured to have had no walls.
func unisolated(r verifier.Report) bool {
	return slices.ContainsFunc(r.Steps(), func(s verifier.Step) bool {
		return s.Result != nil && s.Result.Isolation != nil && s.Result.Isolation.Level == int(sandbox.LevelNone)
	})
}

// network says what a call could reach: what it was to have counts only where it
// had a network of its own, or could not make a socket of one.
func network(i *receipts.Isolation) string {
	if i.Network == string(sandbox.NetworkNone) && !slices.Contains(i.Namespaces, "net") {
		if i.Mode == string(sandbox.ModeRestricted) && i.Seccomp && i.Level >= int(sandbox.LevelRestricted) {
			return "none (no internet sockets)"
		}
		return "shared with the host"
	}
	return networkText(i.Network, i.Connect)
}

// walls says what made the walls around a call.
func walls(i *receipts.Isolation) string {
	s := i.Mode
	if i.Via != "" {
		s += " via " + i.Via
	}
	if i.Image != "" {
		s += ", image " + i.Image[:min(len("sha256:")+12, len(i.Image))] + "…"
	}
	return s
}

func (a *app) printTests(w io.Writer, r verifier.Report) {
	c := r.Findings().Compare()
	if len(r.Findings().Runs) > 1 {
		fmt.Fprintf(w, "  compared  %d pass on both, %d new, %d fixed, %d regressed, %d newly skipped, %d removed\n",
			c.PassBoth, c.Added, len(c.Fixed), len(c.Regressed), len(c.NewlySkipped), len(c.Removed))
	}
	for _, list := range []struct {
		title string
		tests []verifier.TestName
		text  bool
	}{
		{"regressed", c.Regressed, true}, {"fails", c.NewFailing, true}, {"fails on both", c.StillFailing, true},
		{"fixed", c.Fixed, false},
	} {
		for i, t := range list.tests {
			if i == maxListed {
				fmt.Fprintf(w, "  %s: and %d more\n", list.title, len(list.tests)-i)
				break
			}
			fmt.Fprintf(w, "  %s: %s\n", list.title, oneLine(t.String()))
			if list.text && i < 3 {
				printExcerpt(w, r.Excerpt(t))
			}
		}
	}
}

// printExcerpt writes the last lines of what a failed test printed.
func printExcerpt(w io.Writer, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > 12 {
		lines = lines[len(lines)-12:]
	}
	for _, l := range lines {
		if l = strings.TrimRight(oneLine(l), " "); l != "" {
			if runes := []rune(l); len(runes) > 300 {
				l = string(runes[:300]) + "…"
			}
			fmt.Fprintf(w, "      %s\n", l)
		}
	}
}

func printTrust(w io.Writer, r verifier.Report) {
	for _, t := range r.Trust() {
		fmt.Fprintf(w, "  trusted   %s: %s\n", t.Kind, oneLine(t.Who))
	}
	if !r.MACsChecked() {
		fmt.Fprintln(w, "  receipts  MAC: not checked (no key)")
	}
	fmt.Fprintf(w, "  policy    %s\n", oneLine(r.PolicySource()))
	if r.Quick() {
		fmt.Fprintln(w, "  quick     the sealed evidence was believed, not made again from the output")
	}
	seal, digest := r.Seal()
	fmt.Fprintf(w, "  sealed    %s  %s\n", time.UnixMilli(int64(seal.End)).UTC().Format(time.RFC3339), digest)
}

func short(id string) string { return id[:min(12, len(id))] }
