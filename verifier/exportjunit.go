package verifier

import (
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// junit writes JUnit XML: a testsuites element with one testsuite for the
// verdict, then one for each suite of each entry, without nesting, since not
// every reader expects that.
func (e *export) junit() error {
	in := e.r
	elapsed := time.Duration(in.seal.End-in.seal.Start) * time.Millisecond
	verdictErrors := 0
	if e.Verdict() != Verified {
		verdictErrors = 1
	}
	failures, errs := 0, 0
	for suite := range e.bySuite() {
		n := e.tally(suite)
		failures, errs = failures+n.failures, errs+n.errors
	}
	e.text(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<testsuites")
	e.attribute("name", "truegreen")
	e.totals(len(e.names)+1, failures, errs+verdictErrors, e.counts.Skip)
	e.attribute("timestamp", time.UnixMilli(int64(in.seal.Start)).UTC().Format("2006-01-02T15:04:05"))
	e.attribute("time", strconv.FormatFloat(elapsed.Seconds(), 'f', 3, 64))
	e.text(">\n<testsuite")
	e.attribute("name", "truegreen")
	e.totals(1, 0, verdictErrors, 0)
	e.text(">\n<properties>\n")
	e.facts()
	e.text("</properties>\n<testcase")
	e.attribute("classname", "truegreen")
	e.attribute("name", "verdict")
	if verdictErrors == 0 {
		e.text("/>\n</testsuite>\n")
	} else {
		e.text(">")
		e.fault("error", string(e.Verdict()), e.headline(), e.why())
		e.text("</testcase>\n</testsuite>\n")
	}
	for suite := range e.bySuite() {
		e.testsuite(suite)
	}
	e.text("</testsuites>\n")
	return nil
}

// facts writes what the verdict is about.
func (e *export) facts() {
	in := e.r
	e.line("verdict", string(e.Verdict()))
	for _, r := range e.Reasons() {
		e.line("reason", r.String())
	}
	e.line("seal", in.sealed.String())
	e.line("repository", string(in.patch.Repository))
	if in.patch.Base != "" {
		e.line("base", in.patch.Base)
	}
	e.line("head", in.patch.Head)
	e.line("tree", in.patch.Tree.Git)
	e.line("tree_sha256", in.patch.Tree.SHA256.String())
	e.line("policy", in.policy)
	for _, t := range in.trust {
		e.line("trusted", t.Kind+": "+t.Who)
	}
	if in.quick {
		e.line("quick", "true")
	}
	least, known := 0, false
	for _, level := range e.levels {
		if !known || level < least {
			least, known = level, true
		}
	}
	if known {
		e.line("isolation", strconv.Itoa(least))
	}
	for _, name := range e.removed {
		e.line("removed", name.Entry+": "+name.String())
	}
}

// junitTally are the totals of a testsuite element.
type junitTally struct{ failures, errors, skipped int }

func (e *export) tally(suite []TestName) (n junitTally) {
	f := e.Findings()
	for _, name := range suite {
		switch f.outcomes[name].head.outcome {
		case Fail:
			if isAssertion(f.outcomes[name].head.kind) {
				n.failures++
			} else {
				n.errors++
			}
		case Unfinished:
			n.errors++
		case Skip:
			n.skipped++
		}
	}
	return n
}

// isAssertion tells the failures of JUnit from its errors.
func isAssertion(kind string) bool { return kind == "" || kind == kindAssertion }

func (e *export) testsuite(suite []TestName) {
	path, n := suite[0].path(), e.tally(suite)
	e.text("<testsuite")
	e.attribute("name", path)
	e.totals(len(suite), n.failures, n.errors, n.skipped)
	e.text(">\n<properties>\n")
	e.line("entry", suite[0].Entry)
	if level, known := e.levels[suite[0].Entry]; known {
		e.line("isolation", strconv.Itoa(level))
	}
	e.text("</properties>\n")
	for t := range e.tests(suite) {
		e.testcase(path, t)
	}
	e.text("</testsuite>\n")
}

func (e *export) testcase(path string, t *exportedTest) {
	e.text("<testcase")
	e.attribute("classname", path)
	e.attribute("name", t.Name)
	if t.Outcome == Pass && t.Change == "" {
		e.text("/>\n")
		return
	}
	e.text(">")
	if t.Change != "" {
		e.text("<properties>")
		e.property("change", t.Change)
		e.text("</properties>")
	}
	message := changeText[t.Change]
	switch t.Outcome {
	case Pass:
	case Skip:
		e.text("<skipped")
		if message != "" {
			e.attribute("message", message)
		}
		e.text("/>")
	case Unfinished:
		e.fault("error", string(Unfinished), unfinishedText, t.Excerpt)
	default:
		element, kind := "failure", t.Kind
		if !isAssertion(kind) {
			element = "error"
		}
		e.fault(element, kind, message, t.Excerpt)
	}
	e.text("</testcase>\n")
}

const unfinishedText = "it started, and nothing says how it ended"

// fault writes a failure or error element.
func (e *export) fault(element, kind, message, text string) {
	e.text("<" + element)
	if kind != "" {
		e.attribute("type", kind)
	}
	if message != "" {
		e.attribute("message", message)
	}
	e.text(">")
	e.buf = appendXML(e.buf[:0], text)
	e.w.Write(e.buf)
	e.text("</" + element + ">")
}

func (e *export) text(s string) { e.w.WriteString(s) }

func (e *export) totals(tests, failures, errors, skipped int) {
	for _, n := range []struct {
		name  string
		count int
	}{{"tests", tests}, {"failures", failures}, {"errors", errors}, {"skipped", skipped}} {
		e.attribute(n.name, strconv.Itoa(n.count))
	}
}

func (e *export) attribute(name, value string) {
	e.buf = append(e.buf[:0], ' ')
	e.buf = append(append(e.buf, name...), `="`...)
	e.buf = append(appendXML(e.buf, value), '"')
	e.w.Write(e.buf)
}

func (e *export) property(name, value string) {
	e.text("<property")
	e.attribute("name", name)
	e.attribute("value", value)
	e.text("/>")
}

// line writes a property on a line of its own.
func (e *export) line(name, value string) {
	e.property(name, value)
	e.text("\n")
}

// appendXML appends s as the text of an element or of an attribute in quotes.
// What XML 1.0 has no way to say is written out: \u{1b} for a character, \xff for
// a byte that is no UTF-8. All else that is not printable, line ends among it, is
// a character reference, and so is # after #: ##[ begins a command of a CI log.
func appendXML(b []byte, s string) []byte {
	var last rune
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = fmt.Appendf(b, `\x%02x`, s[i])
		case r == '&':
			b = append(b, "&amp;"...)
		case r == '<':
			b = append(b, "&lt;"...)
		case r == '>':
			b = append(b, "&gt;"...)
		case r == '"':
			b = append(b, "&#34;"...)
		case r == '#' && last == '#':
			b = append(b, "&#35;"...)
		case r >= ' ' && r < 0x7f:
			b = append(b, byte(r))
		case r == '\t', r == '\n', r == '\r':
			b = fmt.Appendf(b, "&#%d;", r)
		case r < ' ', r == 0xfffe, r == 0xffff:
			b = fmt.Appendf(b, `\u{%x}`, r)
		case unicode.IsPrint(r):
			b = append(b, s[i:i+size]...)
		default:
			b = fmt.Appendf(b, "&#x%x;", r)
		}
		last, i = r, i+size
	}
	return b
}
