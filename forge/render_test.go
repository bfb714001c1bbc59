package forge

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

var (
	openFence = regexp.MustCompile("^(`{3,})(text|sh)$")
	ourLink   = regexp.MustCompile(`\[[^\][<>@#!]*\]\(https://git\.example\.com/[A-Za-z0-9._~/?&=%+:,;@#-]*\)`)
	ourTags   = regexp.MustCompile(`<br>|</?sub>|<code>[^<]*</code>`)
	details   = regexp.MustCompile(`^<details><summary>(.*)</summary>$`)
	ourWords  = regexp.MustCompile(`^[A-Za-z0-9 ,;:()/%'.{}=*→·✓✗–_\\#-]*$`)
)

// leftover returns what a forge does not take for code in a page: what this program
// itself wrote. It fails where something that was opened is not closed.
func leftover(t testing.TB, page string) string {
	t.Helper()
	var rest strings.Builder
	fence, depth := "", 0
	for line := range strings.SplitSeq(page, "\n") {
		if fence != "" {
			if strings.HasPrefix(line, fence) && strings.Trim(line, "`") == "" {
				fence = ""
			}
			continue
		}
		if m := openFence.FindStringSubmatch(line); m != nil {
			fence = m[1]
			continue
		}
		if m := details.FindStringSubmatch(line); m != nil {
			depth++
			fmt.Fprintln(&rest, ourTags.ReplaceAllString(m[1], ""))
			continue
		}
		if line == "</details>" {
			if depth--; depth < 0 {
				t.Error("a part is closed that was not opened")
			}
			continue
		}
		fmt.Fprintln(&rest, ourTags.ReplaceAllString(ourLink.ReplaceAllString(withoutSpans(line), ""), ""))
	}
	if fence != "" || depth != 0 {
		t.Errorf("not closed: fence %q, %d parts", fence, depth)
	}
	return rest.String()
}

var ticks = regexp.MustCompile("`+")

// withoutSpans takes the code spans out of a line, as CommonMark finds them.
func withoutSpans(line string) string {
	var b strings.Builder
	for {
		open := ticks.FindStringIndex(line)
		if open == nil {
			return b.String() + line
		}
		n, end := open[1]-open[0], -1
		for _, c := range ticks.FindAllStringIndex(line[open[1]:], -1) {
			if c[1]-c[0] == n {
				end = open[1] + c[1]
				break
			}
		}
		if end < 0 {
			return b.String() + line
		}
		b.WriteString(line[:open[0]])
		line = line[end:]
	}
}

// harmless checks that nothing in a page is alive but what this program wrote.
func harmless(t testing.TB, page string) {
	t.Helper()
	if !utf8.ValidString(page) {
		t.Error("not UTF-8")
	}
	for line := range strings.SplitSeq(page, "\n") {
		if logCommand.MatchString(line) {
			t.Errorf("a log takes it for a command: %q", line)
		}
		if i := strings.IndexFunc(strings.ReplaceAll(line, "⚠️", ""), func(r rune) bool { return !visible(r) || r == utf8.RuneError }); i >= 0 {
			t.Errorf("not visible: %q", line)
		}
	}
	for line := range strings.SplitSeq(leftover(t, page), "\n") {
		head, isHead := strings.CutPrefix(line, "### ")
		if !isHead {
			head, isHead = strings.CutPrefix(line, "#### ")
		}
		if isHead {
			for _, s := range []string{"✅", "❌", "⚠️", "⚪", "🛑"} {
				head = strings.TrimPrefix(head, s)
			}
			line = head
		}
		if !ourWords.MatchString(line) || strings.Contains(strings.ReplaceAll(line, `\#`, ""), "#") || strings.Contains(line, "://") || strings.Contains(line, "::") {
			t.Errorf("not code, and not ours: %q", line)
		}
	}
}

// spoiled is a page on which all that a patch can choose is text.
func spoiled(t testing.TB, text string) *Page {
	r := fixture.New()
	event := func(action, suite, test, output string) string {
		b, err := json.Marshal(struct{ Action, Package, Test, Output string }{action, suite, test, output})
		if err != nil {
			t.Fatal(err)
		}
		return string(b) + "\n"
	}
	suite := fixture.Package + "/" + text
	r.Output = fixture.OnHead(fixture.Output{Exit: 1, Stdout: fixture.GoTest(fixture.Package, "TestSum") +
		event("start", suite, "", "") + event("run", suite, "Test"+text, "") + event("output", suite, "Test"+text, "=== RUN   Test"+text+"\n") +
		event("output", suite, "Test"+text, text+"\n    a_test.go:1: "+text+"\n") + event("output", suite, "Test"+text, "--- FAIL: Test"+text+" (0.00s)\n") + event("fail", suite, "Test"+text, "") +
		event("output", suite, "", "FAIL\n") + event("output", suite, "", "FAIL\t"+suite+"\t0.001s\n") + event("fail", suite, "", ""), Stderr: text})
	report := verified(t, r, func(o *verifier.Options) { o.PolicySource = text })
	s := Section{Name: text, Report: report, Notes: []string{text}, Links: []Link{{Text: text, URL: "https://git.example.com/" + text}, {Text: text}}, File: text, SHA256: text, Verify: text}
	return &Page{
		Job: Job{Attempt: 1}, Target: Target{Commit: text, Tested: text, Notes: []string{text}}, Sections: []Section{s, {Name: text}}, Newer: text,
		Previous: &Before{Verdict: verifier.Verdict(text), Head: text}, Links: []Link{{Text: text, URL: "https://git.example.com/" + text}},
	}
}

// FuzzPage: whatever names, output and everything else that is not ours are, a page
// keeps to its budget, its marker and itself.
func FuzzPage(f *testing.F) {
	for _, s := range hostileText {
		f.Add(s, 1000)
	}
	f.Fuzz(func(t *testing.T, text string, budget int) {
		if len(text) > 1<<12 {
			return
		}
		p := spoiled(t, text)
		comment := p.Comment(marker)
		if utf16Len(comment) > commentBudget || !strings.HasPrefix(comment, marker+"\n### ") {
			t.Errorf("comment: %d characters: %.200q", utf16Len(comment), comment)
		}
		harmless(t, strings.TrimPrefix(comment, marker+"\n"))
		for _, alone := range []bool{false, true} {
			if alone {
				p.Sections = p.Sections[:1]
			}
			budget = min(max(budget, 0), 1_000_000)
			summary := p.Summary(budget)
			if len(summary) > budget {
				t.Errorf("summary: %d bytes of %d", len(summary), budget)
			}
			harmless(t, summary)
		}
		if _, d := p.Status(); utf8.RuneCountInString(d) > 140 || OneLine(d) != d {
			t.Errorf("status: %q", d)
		}
		checkLines(t, p)
		checkLog(t, p)
	})
}

// checkLines checks the annotations of a page.
func checkLines(t testing.TB, p *Page) {
	t.Helper()
	of := map[string]int{}
	for _, a := range p.Annotations() {
		of[a.Level]++
		if text := a.String(); strings.ContainsAny(text, "\r\n") || !regexp.MustCompile(`^::(error|warning|notice) (file=[^:,]*,(line=\d+,)?)?title=[^:,]*::`).MatchString(text) {
			t.Errorf("annotation %q", text)
		}
		for line := range strings.SplitSeq(a.Message, "\n") {
			if OneLine(line) != line {
				t.Errorf("annotation: %q", line)
			}
		}
		if len(a.Message) > 2000 || utf8.RuneCountInString(a.Title) > 120 || !utf8.ValidString(a.Message) {
			t.Errorf("annotation: %d bytes, title %q", len(a.Message), a.Title)
		}
		if a.Path != "" && !slices.ContainsFunc(p.Sections, func(s Section) bool { return s.Report.Tracked(a.Path) }) {
			t.Errorf("annotation of %s, which the tree does not have", a.Path)
		}
	}
	for level, n := range of {
		if n > 10 {
			t.Errorf("%d of level %s", n, level)
		}
	}
}

// checkLog checks that no line in the log of a page is a command but the brackets
// around what tests printed.
func checkLog(t testing.TB, p *Page) {
	t.Helper()
	const token = "0123456789abcdefghijklmnopqrstuv"
	var b strings.Builder
	if err := p.Log(&b, token); err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.SplitSeq(b.String(), "\n") {
		switch {
		case line == "::stop-commands::"+token && !inside, line == "::"+token+"::" && inside:
			inside = !inside
		case logCommand.MatchString(line), strings.Contains(line, token):
			t.Errorf("log: %q", line)
		case strings.HasPrefix(line, "      ") && !inside:
			t.Errorf("log: output outside of the brackets: %q", line)
		}
	}
	if inside {
		t.Error("log: not closed")
	}
}

func TestLogToken(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "short", "0123456789abcde\n", "0123456789:abcdef"} {
		var b strings.Builder
		if err := paged().Log(&b, token); err == nil || b.Len() > 0 {
			t.Errorf("%q is taken: %q", token, b.String())
		}
	}
}

// TestGreenIsShort: a comment on a verified patch has at most twelve lines to see.
func TestGreenIsShort(t *testing.T) {
	t.Parallel()
	p := paged(section(green(t)))
	p.Previous = &Before{Verdict: verifier.Failed, Head: "61867f2843d0"}
	n, folded := 0, false
	for line := range strings.SplitSeq(strings.TrimPrefix(p.Comment(marker), marker+"\n"), "\n") {
		if strings.HasPrefix(line, "<details>") {
			n++
			folded = true
		}
		if !folded && line != "" && !strings.HasPrefix(line, "```") {
			n++
		}
		folded = folded && line != "</details>"
	}
	if n > 12 {
		t.Errorf("%d lines:\n%s", n, p.Comment(marker))
	}
	if !strings.Contains(p.Comment(marker), "\n- chain: 46 events, 22 receipts, 1 seal: intact") {
		t.Error("the chain is not in one line")
	}
}

// flooding is 100,000, or 3,000 where everything takes ten times as long.
var flooding = map[bool]int{true: 3_000, false: 100_000}[raceEnabled]

// flood is a report on as many failed tests with hostile names, whose output is of
// characters of four bytes.
var flood = sync.OnceValue(func() func(t *testing.T) verifier.Report {
	var once sync.Once
	var report verifier.Report
	return func(t *testing.T) verifier.Report {
		once.Do(func() {
			names := make([]string, flooding)
			printed := map[string]string{}
			for i := range names {
				name := fmt.Sprintf("Test%06d/``%s<img_src=x>@acme/#1[a](https://evil.example)\u202e", i, strings.Repeat("🙂", 20))
				names[i] = name + " fail"
				if i < 20 {
					printed[name] = strings.Repeat(strings.Repeat("🙂", 280)+"::error::````</details>\n", 60)
				}
			}
			r := fixture.New()
			r.Output = func(p verifier.PlannedRun) fixture.Output {
				if p.Side == verifier.SideBase {
					return fixture.Green(p)
				}
				return stream(&p, outcomes{fixture.Package: names}, printed)
			}
			report = verified(t, r, nil)
		})
		return report
	}
})

// TestDegrade: (reviewdog#1065, peter-evans#205, dorny#57, dorny#60, maester#905) a
// page that does not fit gives up detail step by step, says so, and keeps to its
// budget to the byte.
func TestDegrade(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("so many tests take seconds")
	}
	p := paged(section(flood()(t)))
	comment := p.Comment(marker)
	if n := utf16Len(comment); n > commentBudget || n < 1000 {
		t.Errorf("comment of %d characters", n)
	}
	if !strings.HasPrefix(comment, marker+"\n### ❌ failed: "+grouped(flooding)+" tests fail") || !strings.Contains(comment, "- and "+grouped(flooding-50)+" more") {
		t.Errorf("%.3000s", comment)
	}
	harmless(t, strings.TrimPrefix(comment, marker+"\n"))
	list := p.facts()
	sizes := map[int]bool{}
	for i, d := range summarySteps {
		want := p.page(list, d)
		size := len(want)
		if sizes[size] {
			t.Errorf("step %d gives up nothing", i)
		}
		sizes[size] = true
		harmless(t, want)
		if got := p.Summary(size); len(got) > size || !slices.ContainsFunc(summarySteps[:i+1], func(d detail) bool { return p.page(list, d) == got }) {
			t.Errorf("step %d: with room for it, the page has %d bytes of %d", i, len(got), size)
		}
		if got := p.Summary(size - 1); len(got) >= size || got == "" {
			t.Errorf("step %d: without room for it, the page has %d bytes of %d", i, len(got), size-1)
		}
		if i > 0 && !strings.Contains(want, "Left out here for length: "+d.left) && d.left != "" {
			t.Errorf("step %d does not say what it leaves out", i)
		}
	}
	for _, budget := range []int{0, 1, 10, 50, 100, 200} {
		got := p.Summary(budget)
		harmless(t, got)
		if len(got) > budget || budget == 200 && !strings.Contains(got, "failed: "+grouped(flooding)+" tests fail") {
			t.Errorf("%d bytes: %q", budget, got)
		}
	}
	if got := p.Summary(65535); len(got) > 65535 {
		t.Errorf("text of a check run: %d bytes", len(got))
	}
	checkLines(t, p)
	checkLog(t, p)
}

// TestBudget: whatever the room, a page keeps to it to the byte, and uses it.
func TestBudget(t *testing.T) {
	t.Parallel()
	p := paged(named("a", red(t, nil)), named("b", green(t)))
	whole := len(p.Summary(1_000_000))
	if p.Summary(whole) != p.Summary(1_000_000) || len(p.Summary(whole-1)) >= whole {
		t.Errorf("the whole page of %d bytes is not the limit", whole)
	}
	for budget := 0; budget < whole; budget += 499 {
		got := p.Summary(budget)
		if len(got) > budget || budget > 200 && got == "" {
			t.Errorf("%d bytes of %d", len(got), budget)
		}
		harmless(t, got)
	}
	if n := utf16Len("a🙂ü"); n != 4 {
		t.Errorf("%d characters", n)
	}
}

// TestManyProjects: sections that there is no room for have a line, and then a count.
func TestManyProjects(t *testing.T) {
	t.Parallel()
	r := red(t, nil)
	sections := make([]Section, 500)
	for i := range sections {
		sections[i] = named(fmt.Sprintf("project-%d-%s", i, strings.Repeat("🙂", 300)), r)
	}
	comment := paged(sections...).Comment(marker)
	if n := utf16Len(comment); n > commentBudget || !strings.Contains(comment, "\n- and 4") || !strings.Contains(comment, "500 failed of 500 projects") || !strings.Contains(comment, "\nLeft out here for length: ") {
		t.Errorf("%d characters: %.2000s", n, comment)
	}
	harmless(t, strings.TrimPrefix(comment, marker+"\n"))
}

// TestWorst: the verdict of a page is the worst of its sections', and none is green
// by absence.
func TestWorst(t *testing.T) {
	t.Parallel()
	ok, bad, none, cracked := section(green(t)), section(red(t, nil)), Section{}, section(broken(t))
	for _, c := range []struct {
		sections []Section
		want     verifier.Verdict
		state    string
	}{
		{nil, verifier.Unproven, "error"}, {[]Section{none}, verifier.Unproven, "error"}, {[]Section{ok}, verifier.Verified, "success"}, {[]Section{ok, bad}, verifier.Failed, "failure"},
		{[]Section{ok, bad, none}, verifier.Unproven, "error"}, {[]Section{cracked, ok, bad, none}, verifier.Broken, "error"},
	} {
		p := paged(c.sections...)
		state, description := p.Status()
		if p.Verdict() != c.want || state != c.state || !strings.HasPrefix(description, string(c.want)) {
			t.Errorf("%d sections: %s, status %s: %s", len(c.sections), p.Verdict(), state, description)
		}
		p.Target.Unattested = true
		if state, _ := p.Status(); p.Verdict() == verifier.Verified || state == "success" {
			t.Errorf("%d sections, unattested: %s, status %s", len(c.sections), p.Verdict(), state)
		}
		p.ReportOnly = true
		if state, _ := p.Status(); state == "success" {
			t.Errorf("%d sections, unattested, report only: status %s", len(c.sections), state)
		}
	}
	p := paged(bad)
	p.ReportOnly = true
	if first, _, _ := strings.Cut(strings.TrimPrefix(p.Comment(marker), marker+"\n"), "\n"); !strings.Contains(first, "report only: would have FAILED") {
		t.Error(first)
	}
}

// TestChainLinks: every code with which evidence breaks has its line, and what was
// not looked at is not said to hold.
func TestChainLinks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   verifier.Code
		member string
		want   string // a mark for each line
	}{
		{verifier.NotABundle, "", "✗file –events –receipts –join –blobs –seal –anchors"},
		{verifier.MalformedSeal, "seal", "–events –receipts –join –blobs ✗seal –anchors"},
		{verifier.LogBroken, "log", "✗events –receipts –join –blobs –seal –anchors"},
		{verifier.ReceiptsBroken, "log", "–events ✗receipts –join –blobs –seal –anchors"},
		{verifier.BlobMissing, "", "✓events ✓receipts –join ✗blobs –seal –anchors"},
		{verifier.SealMismatch, "log", "✓events ✓receipts –join ✓blobs ✗seal –anchors"},
		{verifier.JoinBroken, "log", "✓events ✓receipts ✗join ✓blobs ✓seal –anchors"},
		{verifier.SignatureInvalid, "seal.sig", "✓events ✓receipts ✓join ✓blobs ✓seal ✗anchors"},
		{verifier.SignatureInvalid, "seal.mac", "–events –receipts –join –blobs –seal ✗anchors"},
		{verifier.MACMismatch, "seal.mac", "–events –receipts –join –blobs –seal ✗anchors"},
		{verifier.EvidenceBroken, "", "✓events ✓receipts ✓join ✓blobs ✓seal ✓anchors ✗contents"},
		{verifier.WrongBase, "", "✓events ✓receipts ✓join ✓blobs ✓seal ✓anchors ✗expected"},
	} {
		f := facts{Section: &Section{}, verdict: verifier.Broken, reasons: []verifier.Reason{{Code: c.code, Member: c.member}}}
		var got []string
		for _, row := range f.chainRows() {
			got = append(got, row.mark+row.name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s in %s: %s, want %s", c.code, c.member, strings.Join(got, " "), c.want)
		}
	}
	for _, c := range verifier.Causes() {
		f := facts{Section: &Section{}, verdict: c.Verdict, reasons: []verifier.Reason{{Code: c.Code}}}
		if rows := f.chainRows(); (c.Verdict == verifier.Broken) != slices.ContainsFunc(rows, func(r chainRow) bool { return r.mark == "✗" }) {
			t.Errorf("%s: %v", c.Code, rows)
		}
	}
}

// TestRemedies: causes and remedies are text of ours, and their marks are none of
// Markdown's.
func TestRemedies(t *testing.T) {
	t.Parallel()
	for _, c := range verifier.Causes() {
		harmless(t, markdown.Replace(c.Cause))
		harmless(t, markdown.Replace(c.Remedy))
	}
}

func TestSpoken(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Millisecond: "1 s", 59*time.Second + 600*time.Millisecond: "1 min 0 s", 3*time.Minute + 12*time.Second: "3 min 12 s", 2*time.Hour + 5*time.Minute: "2 h 5 min",
	} {
		if got := spoken(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 12: "12", 1234: "1,234", 123456: "123,456", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
