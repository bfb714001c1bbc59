package forge

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/truegreen-dev/truegreen/verifier"
)

// commentBudget is how long a comment may be, of the 65,536 characters that a
// forge takes. They are counted as UTF-16 counts them: that is never less than the
// number of characters.
const commentBudget = 60000

// A detail says how much a page shows. What is beyond it is counted.
type detail struct {
	sections int  // that are shown in full
	listed   int  // that have a line; the rest is counted
	names    int  // of a list of tests
	excerpts int  // of what failed tests printed
	lines    int  // of each
	notes    int  // and reasons, of each section
	chain    bool // line by line, be it intact or not
	left     string
}

// The steps in which a page gives up detail, until it fits.
var (
	commentSteps = []detail{
		{sections: 50, listed: 50, names: 50, excerpts: 10, lines: 12, notes: 20},
		{sections: 50, listed: 50, names: 50, excerpts: 3, lines: 12, notes: 20, left: "the output of most failed tests"},
		{sections: 50, listed: 50, names: 20, notes: 20, left: "the output of failed tests"},
		{sections: 50, listed: 50, names: 3, notes: 3, left: "the output of failed tests, and most names"},
		{sections: 20, listed: 50, notes: 1, left: "all names and output"},
		{sections: 0, listed: 50, left: "all but the verdicts"},
	}
	summarySteps = append([]detail{
		{sections: 200, listed: 200, names: 1000, excerpts: 50, lines: 60, notes: 200, chain: true},
		{sections: 200, listed: 200, names: 200, excerpts: 50, lines: 12, notes: 50, chain: true, left: "the beginning of longer output, and some names"},
	}, commentSteps...)
)

// Comment returns the body of the comment on the pull request. Marker is its first
// line, by which it is found again.
func (p *Page) Comment(marker string) string {
	marker, _, _ = strings.Cut(marker, "\n")
	return p.fit(marker+"\n", commentBudget, utf16Len, commentSteps)
}

// Summary returns the page for the summary of a job, in which budget bytes are
// left, or for the text of a check run. It is "" where nothing fits.
func (p *Page) Summary(budget int) string {
	return p.fit("", budget, func(s string) int { return len(s) }, summarySteps)
}

func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}

// fit returns the page behind first, with as much detail as the budget has room
// for.
func (p *Page) fit(first string, budget int, size func(string) int, steps []detail) string {
	list := p.facts()
	for _, d := range steps {
		if text := first + p.page(list, d); size(text) <= budget {
			return text
		}
	}
	for _, text := range []string{
		first + "### " + sign(worst(list), p.Target.Unattested || p.ReportOnly) + " " + p.headline(list) + "\n\nThere was no room for more here.\n",
		first + p.headline(list) + "\n",
	} {
		if size(text) <= budget {
			return text
		}
	}
	return ""
}

// sign returns the sign that a verdict begins with. One that nobody acts on, or
// that rests on claims, has a sign of its own.
func sign(v verifier.Verdict, neutral bool) string {
	switch {
	case v == verifier.Broken:
		return "🛑"
	case v == verifier.Verified:
		return "✅"
	case neutral:
		return "⚪"
	case v == verifier.Failed:
		return "❌"
	}
	return "⚠️"
}

// A writer puts a page together: paragraphs, and lists, with a blank line between.
type writer struct{ strings.Builder }

func (w *writer) paragraph(format string, args ...any) { fmt.Fprintf(w, "\n"+format+"\n", args...) }

// details writes a part that is folded. Its summary is HTML, and ends with its line.
func (w *writer) details(summary, body string) {
	fmt.Fprintf(w, "\n<details><summary>%s</summary>\n\n%s\n</details>\n", summary, strings.TrimRight(body, "\n")+"\n")
}

// page returns the page as Markdown.
func (p *Page) page(list []facts, d detail) string {
	var w writer
	fmt.Fprintf(&w, "### %s %s\n", sign(worst(list), p.Target.Unattested || p.ReportOnly), p.headline(list))
	alone := len(list) == 1
	if alone {
		p.claim(&w, &list[0])
	}
	w.paragraph("%s", p.about(list))
	if since := p.since(list); since != "" {
		w.paragraph("%s", since)
	}
	for _, n := range p.Target.Notes {
		w.paragraph("Note: %s", prose(n))
	}
	if slices.ContainsFunc(list, func(f facts) bool { return f.Report.Sound() }) {
		w.paragraph("<sub>%s</sub>", notShown)
	}
	shown := list[:min(len(list), d.sections)]
	for i := range shown {
		f := &shown[i]
		if !alone {
			w.paragraph("#### %s %s: %s", sign(f.verdict, f.claimed || p.ReportOnly), code(f.Name), strings.Join(nonempty(string(f.verdict), f.why()), ", ")+linked(f.Links))
			p.claim(&w, f)
		}
		p.section(&w, f, d)
	}
	if rest := list[len(shown):]; len(rest) > 0 {
		w.WriteString("\n")
		for i := range rest[:min(len(rest), d.listed)] {
			f := &rest[i]
			fmt.Fprintf(&w, "- %s: %s\n", code(f.Name), strings.Join(nonempty(string(f.verdict), f.why()), ", "))
		}
		if more := len(rest) - d.listed; more > 0 {
			fmt.Fprintf(&w, "- and %s more\n", plural(more, "project", "projects"))
		}
	}
	if d.left != "" {
		w.paragraph("Left out here for length: %s. The bundle has all of it.", d.left)
	}
	return w.String()
}

// notShown is said under every verdict.
const notShown = "What this does not show: that code which no test reaches is right, or that code which can tell that it is tested behaves the same elsewhere."

// claim writes what the run proves, and how far.
func (p *Page) claim(w *writer, f *facts) {
	if !f.Report.Sound() {
		switch f.verdict {
		case verifier.Broken:
			w.paragraph("The evidence contradicts itself or what was asked for, so nothing that it says is shown.")
		default:
			w.paragraph("Nothing is verified, so nothing is shown.")
		}
		return
	}
	sentence := prose(f.Report.Sentence())
	if f.claimed {
		w.paragraph("Claimed by the run itself, and attested by nobody: %s.", sentence)
		return
	}
	if f.verdict == verifier.Verified {
		sentence = "**" + sentence + "**"
	}
	w.paragraph("%s.", sentence)
}

// about says which commit and which run the page is about, and where they are.
func (p *Page) about(list []facts) string {
	commit := p.Target.Commit
	seal, _ := list[0].Report.Seal()
	if commit == "" {
		commit = list[0].Report.Patch().Head
	}
	var parts []string
	if commit != "" {
		parts = append(parts, "for commit "+code(short(commit)))
	}
	if attempt := max(p.Job.Attempt, seal.Attempt); attempt > 0 {
		parts = append(parts, fmt.Sprintf("attempt %d", attempt))
	}
	if d := p.elapsed(); d > 0 {
		parts = append(parts, spoken(d))
	}
	text := strings.Join(parts, ", ")
	links := slices.Clone(p.Links)
	if len(list) == 1 {
		links = append(links, list[0].Links...)
	}
	text += linked(links)
	if text == "" {
		text = "for no commit that is known"
	}
	return strings.TrimPrefix(text, " · ")
}

// since says what has changed since the previous verdict, or that there is a newer
// head.
func (p *Page) since(list []facts) string {
	var parts []string
	if p.Newer != "" {
		parts = append(parts, "**superseded**: the pull request has come to "+code(short(p.Newer))+" since")
	}
	b := p.Previous
	if b == nil {
		return strings.Join(parts, "; ")
	}
	at := "since " + code(short(b.Head)) + ": "
	if b.Head == "" || b.Head == p.Target.Commit {
		at = "since the previous run on this commit: "
	}
	var changes []string
	if v := worst(list); b.Verdict != v {
		changes = append(changes, fmt.Sprintf("%s → **%s**", prose(string(b.Verdict)), v))
	} else {
		changes = append(changes, "still "+string(v))
	}
	passed, failed, _ := p.Counts()
	for _, n := range []struct {
		what     string
		from, to int
	}{{"passed", b.Passed, passed}, {"failed", b.Failed, failed}} {
		if n.from != n.to {
			changes = append(changes, fmt.Sprintf("%s → %s %s", grouped(n.from), grouped(n.to), n.what))
		}
	}
	return strings.Join(append(parts, at+strings.Join(changes, ", ")), "; ")
}

// linked returns links behind a text.
func linked(list []Link) string {
	const most = 10
	text := ""
	for _, l := range list[:min(len(list), most)] {
		text += " · " + link(l)
	}
	return text
}

func nonempty(list ...string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// shorten cuts s so that at most n bytes remain, the ellipsis included.
func shorten(s string, n int) string {
	const ellipsis = "…"
	if len(s) <= n {
		return s
	}
	return cutBytes(s, n-len(ellipsis)) + ellipsis
}

// cutBytes returns the longest beginning of s that has at most n bytes and ends
// with a whole character.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(0, n)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
