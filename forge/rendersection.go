package forge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/guard"
	"github.com/truegreen-dev/truegreen/internal/lazy"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// section writes what a bundle says: what was tested and how, what holds the
// evidence together, what the tests came to, what needs attention, and why it is
// not verified.
func (p *Page) section(w *writer, f *facts, d detail) {
	w.WriteString("\n")
	if f.Report.Sound() {
		fmt.Fprintf(w, "- tested%s: %s\n", f.label(), p.testedLine(f))
		fmt.Fprintf(w, "- with%s: %s\n", f.label(), f.withLine())
	}
	fmt.Fprintf(w, "- chain: %s\n", f.chainLine())
	if d.chain || !f.Report.Sound() {
		for _, row := range f.chainRows() {
			fmt.Fprintf(w, "  - %s %s: %s\n", row.mark, row.name, row.text)
		}
	}
	if f.Report.Sound() {
		fmt.Fprintf(w, "- tests%s: %s\n", f.label(), f.testsLine())
		f.upstream(w, d)
	}
	f.failing(w, d)
	f.lists(w, d)
	f.notes(w, d)
	f.because(w, d)
	if command := f.command(); command != "" {
		w.paragraph("Verify it yourself:\n%s", strings.TrimRight(fenced("sh", []string{cut(OneLine(command), maxCommand)}), "\n"))
	}
}

// label stands beside what nobody attests.
func (f *facts) label() string {
	if f.claimed {
		return " (claimed)"
	}
	return ""
}

// upstream writes what became of the receipts that other tools made.
func (f *facts) upstream(w *writer, d detail) {
	list := f.Report.Upstream()
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "- upstream receipts%s, which say what other tools saw:\n", f.label())
	n := min(len(list), d.names)
	for i := range list[:n] {
		fmt.Fprintf(w, "  - %s\n", code(cut(OneLine(list[i].String()), maxUpstream)))
	}
	if more := len(list) - n; more > 0 {
		fmt.Fprintf(w, "  - and %s more\n", grouped(more))
	}
}

const maxUpstream = 300 // characters of one receipt

// testsLine counts the tests on the head, and what differs from the base.
func (f *facts) testsLine() string {
	c := &f.comparison
	text := fmt.Sprintf("%s passed, %s failed, %s skipped", grouped(f.passed), grouped(f.failed), grouped(f.skipped))
	if f.failed > 0 {
		text = fmt.Sprintf("%s passed, **%s failed**, %s skipped", grouped(f.passed), grouped(f.failed), grouped(f.skipped))
	}
	if !f.compared {
		return text + "; the base was not run"
	}
	return text + fmt.Sprintf("; %s fail-to-pass, %s removed, %s newly skipped", grouped(len(f.proofs)), grouped(len(c.Removed)), grouped(len(c.NewlySkipped)))
}

func (p *Page) testedLine(f *facts) string {
	patch := f.Report.Patch()
	base := "the empty tree"
	if patch.Base != "" {
		base = code(short(patch.Base))
	}
	text := fmt.Sprintf("head %s on base %s, tree %s", code(short(patch.Head)), base, code(short(patch.Tree.Git)))
	if t := p.Target.Tested; t != "" && t != patch.Head && t != p.Target.Commit {
		text += ", merged as " + code(short(t))
	}
	return text
}

// withLine says which commands ran, where they came from and what was around them.
func (f *facts) withLine() string {
	const shown = 3
	plan := f.Report.Plan()
	var commands []string
	var networks []string
	for _, run := range plan.Runs {
		if run.Side != verifier.SideHead || run.Skip != "" {
			continue
		}
		if c := code(Words(run.Argv)); !slices.Contains(commands, c) {
			commands = append(commands, c)
		}
		if run.Network == verifier.NetworkHost {
			networks = append(networks, run.Name)
		}
	}
	if more := len(commands) - shown; more > 0 {
		commands = append(commands[:shown], fmt.Sprintf("%d more", more))
	}
	text := strings.Join(commands, ", ")
	if text == "" {
		text = "no command"
	}
	if from := verifier.SourceText(plan.Source); from != "" {
		text += " (" + from + ")"
	}
	text += "; " + f.isolation()
	if len(networks) > 0 {
		text += "; **the host's network**: " + code(strings.Join(networks, ", "))
	}
	return text
}

// levels are the names of isolation levels.
var levels = []string{"none", "restricted", "container", "namespaces", "kernel"}

// isolation says what the weakest walls were that a test was measured to have had.
func (f *facts) isolation() string {
	least, measured := len(levels), true
	network := "network none"
	for _, s := range f.Report.Steps() {
		if s.Result == nil || s.Args == nil || s.Args.Tool != receipts.ToolTest || s.Result.State == receipts.StateNotRun {
			continue
		}
		i := s.Result.Isolation
		if i == nil {
			measured = false
			continue
		}
		least = min(least, max(0, i.Level))
		if i.Network != verifier.NetworkNone || len(i.Connect) > 0 || !slices.Contains(i.Namespaces, "net") {
			network = "a network that the report names"
		}
	}
	switch {
	case least == len(levels) || !measured:
		return "isolation not measured"
	case least == 0:
		return "**not isolated**: tests ran with all that their user can do"
	}
	return fmt.Sprintf("isolation %d (%s), %s", least, levels[least], network)
}

// A failure is a group of failed tests.
type failure struct {
	title string
	tests []verifier.TestName
}

func (f *facts) failures() []failure {
	c := &f.comparison
	return []failure{
		{"regressed: passed on the base", c.Regressed}, {"new, and fails", c.NewFailing}, {"fails on the base as well", c.StillFailing},
	}
}

// failing writes the failed tests, with what the first of them printed.
func (f *facts) failing(w *writer, d detail) {
	excerpts := d.excerpts
	for _, group := range f.failures() {
		if len(group.tests) == 0 {
			continue
		}
		w.paragraph("**%s%s: %s**", group.title, f.label(), plural(len(group.tests), "test", "tests"))
		var plainNames []string
		var kinds []guard.Family
		for _, t := range group.tests[:min(len(group.tests), d.names)] {
			var lines []string
			var found []guard.Family
			if excerpts > 0 { // looking at what is not shown takes its time
				lines, found = f.printed(t, d.lines)
			}
			if len(lines) == 0 {
				plainNames = append(plainNames, code(t.String()))
				continue
			}
			excerpts--
			kinds = append(kinds, found...)
			summary := htmlCode(t.String())
			at, ok := f.place(t)
			if ok {
				summary += " at " + htmlCode(at.String())
			}
			w.details(summary+": "+htmlCode(cut(at.said(lines), maxSaid)), fenced("text", lines))
		}
		listed(w, plainNames, len(group.tests)-min(len(group.tests), d.names))
		if len(kinds) > 0 {
			w.paragraph("%s", screened(kinds))
		}
	}
}

const maxSaid = 100 // characters of what a test said, beside its name

// listed writes a list, and how many more there are.
func listed(w *writer, items []string, more int) {
	if len(items) == 0 && more <= 0 {
		return
	}
	w.WriteString("\n")
	for _, item := range items {
		fmt.Fprintf(w, "- %s\n", item)
	}
	if more > 0 {
		fmt.Fprintf(w, "- and %s more\n", grouped(more))
	}
}

// lists writes which tests are gone, are skipped, or were not come to.
func (f *facts) lists(w *writer, d detail) {
	c := &f.comparison
	for _, l := range []failure{{"removed", c.Removed}, {"newly skipped", c.NewlySkipped}, {"not run: their package ended before", c.NeverRun}} {
		if len(l.tests) == 0 {
			continue
		}
		w.paragraph("**%s%s: %s**", l.title, f.label(), plural(len(l.tests), "test", "tests"))
		n := min(len(l.tests), d.names)
		items := make([]string, n)
		for i, t := range l.tests[:n] {
			items[i] = code(t.String())
		}
		listed(w, items, len(l.tests)-n)
	}
}

// notes writes, folded, which tests prove the change and what needs attention.
func (f *facts) notes(w *writer, d detail) {
	if d.notes == 0 {
		return
	}
	items := f.attention()
	if len(items)+len(f.proofs) == 0 {
		return
	}
	var body writer
	var summary []string
	if n := min(len(f.proofs), d.names); len(f.proofs) > 0 {
		tests := make([]string, n)
		for i := range tests {
			tests[i] = "fail-to-pass: " + code(f.proofs[i].Test.String())
		}
		listed(&body, tests, len(f.proofs)-n)
		summary = append(summary, plural(len(f.proofs), "fail-to-pass test", "fail-to-pass tests"))
	}
	if n := min(len(items), d.notes); n > 0 {
		listed(&body, items[:n], len(items)-n)
		summary = append(summary, plural(len(items), "note", "notes"))
	}
	w.details(strings.Join(summary, ", "), strings.TrimPrefix(body.String(), "\n"))
}

// attention returns what needs attention, and what the report rests on.
func (f *facts) attention() []string {
	var items []string
	for _, n := range f.Notes {
		items = append(items, prose(n))
	}
	if !f.Report.Sound() {
		return items
	}
	found := f.Report.Findings()
	for _, n := range found.Notes() {
		switch n.Code {
		case verifier.FindRemoved, verifier.FindNewlySkipped, verifier.FindNeverRun: // have lists of their own
		case "":
			items = append(items, prose(n.Text))
		default:
			items = append(items, prose(n.Code)+": "+code(n.Text))
		}
	}
	for _, n := range f.Report.Plan().NotCovered {
		items = append(items, "not covered: "+code(string(n)))
	}
	for _, k := range f.Report.Risks() {
		items = append(items, code(k.Code)+": "+code(string(k.Detail)))
	}
	if c := found.Claim; c.Missing != "" && c.Level < c.Aimed {
		items = append(items, fmt.Sprintf("not L%d: %s", c.Level+1, code(c.Missing)))
	}
	if f.Report.Quick() {
		items = append(items, "quick: the sealed evidence was believed, not made again from the output")
	}
	items = append(items, "policy: "+code(f.Report.PolicySource()))
	if f.SHA256 != "" {
		items = append(items, "bundle: "+code(f.File)+", SHA-256 "+code(f.SHA256))
	}
	return items
}

// because writes the reasons, each with its remedy.
func (f *facts) because(w *writer, d detail) {
	if len(f.reasons) == 0 {
		return
	}
	w.paragraph("**%s**", plural(len(f.reasons), "reason", "reasons"))
	n := min(len(f.reasons), max(1, d.notes))
	items := make([]string, n)
	for i, r := range f.reasons[:n] {
		items[i] = "**" + code(string(r.Code)) + "**"
		if r.Member != "" {
			items[i] += " in " + code(r.Member)
		}
		if r.Detail != "" {
			items[i] += " " + code(r.Detail)
		}
		cause := causeOf(r.Code)
		if r.Detail == "" && cause.Cause != "" {
			items[i] += " " + markdown.Replace(cause.Cause)
		}
		if cause.Remedy != "" {
			items[i] += "<br>" + markdown.Replace(cause.Remedy)
		}
	}
	listed(w, items, len(f.reasons)-n)
}

// causeOf returns the documentation of a code, nothing where there is none.
func causeOf(c verifier.Code) verifier.Cause {
	cause, _ := verifier.CauseOf(c)
	return cause
}

const maxCommand = 1000 // characters

// shellName has nothing that a shell or the command line makes something of.
var shellName = lazy.Regexp(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

// command returns how to verify the bundle anywhere.
func (f *facts) command() string {
	switch {
	case f.Verify != "":
		return f.Verify
	case shellName().MatchString(f.File):
		return "truegreen verify --repo . " + f.File
	}
	return ""
}
