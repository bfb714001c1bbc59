package forge

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// logged is how much of a page is in the log: a reader scrolls through it.
var logged = detail{names: 20, excerpts: 5, lines: 40}

var errToken = errors.New("log: the token of stop-commands is too short, or not of letters and digits")

// Log writes the page to the log of a job. What tests printed is between
// stop-commands and token, so that no line of it is a command: token has to be
// random, as nothing that was tested may know it.
func (p *Page) Log(w io.Writer, token string) error {
	if len(token) < 16 || strings.Trim(token, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return errToken
	}
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintln(&b, OneLine(fmt.Sprintf(format, args...))) }
	list := p.facts()
	say("truegreen: %s", p.headline(list))
	for i := range list {
		f := &list[i]
		if f.Name != "" {
			say("project %s: %s", f.Name, strings.Join(nonempty(string(f.verdict), f.why()), ", "))
		}
		for _, r := range f.reasons {
			say("  %s", r)
			say("    %s", causeOf(r.Code).Remedy)
		}
		if f.Report.Sound() {
			said := "claim"
			if f.claimed {
				said = "claimed, attested by nobody"
			}
			say("  %s: %s", said, f.Report.Sentence())
			say("  tests: %s", strings.ReplaceAll(f.testsLine(), "**", ""))
		}
		say("  chain: %s", f.chainLine())
		f.log(&b, say, token)
		if command := f.command(); command != "" {
			say("  verify it yourself: %s", command)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// log writes the failed tests, and what the first of them printed.
func (f *facts) log(b *strings.Builder, say func(string, ...any), token string) {
	excerpts := logged.excerpts
	for _, group := range f.failures() {
		for _, t := range group.tests[:min(len(group.tests), logged.names)] {
			say("  %s: %s", group.title, t)
			if excerpts == 0 {
				continue
			}
			if lines, kinds := f.printed(t, logged.lines); len(lines) > 0 {
				excerpts--
				if len(kinds) > 0 {
					say("  %s", screened(kinds))
				}
				fmt.Fprintf(b, "::stop-commands::%s\n", token)
				for _, l := range lines {
					fmt.Fprintf(b, "      %s\n", l)
				}
				fmt.Fprintf(b, "::%s::\n", token)
			}
		}
		if more := len(group.tests) - logged.names; more > 0 {
			say("  %s: and %s more", group.title, grouped(more))
		}
	}
}
