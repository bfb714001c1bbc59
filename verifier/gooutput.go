package verifier

import (
	"bytes"
	"strings"
)

// goTest is the state of a test that has not ended.
type goTest struct {
	index   int
	name    string
	root    *goTest // nil for a top-level test
	paused  bool
	started bool    // its RUN line was seen
	report  Outcome // what its latest report line says
	silent  []int   // of a top-level test: subtests that failed last and printed nothing
	goOutput
}

// goOutput is what is remembered of the output of a test or package.
type goOutput struct {
	partial  bool   // the last line has not ended
	crash    string // panic or timeout, after the latest report line
	headline string // the line that said so
	raced    bool
	excerpt  excerpt
}

// kind returns what the output says about a failure.
func (o *goOutput) kind() string {
	if o.crash == "" && o.raced {
		return kindRace
	}
	return o.crash
}

// print takes note of text, a line or a part of one.
func (o *goOutput) print(g *goStream, text []byte) {
	if !o.partial {
		switch {
		case bytes.HasPrefix(text, []byte("panic: test timed out after ")),
			bytes.HasPrefix(text, []byte("*** Test killed")):
			o.crash, o.headline = kindTimeout, cut(string(text), maxDetail)
		case bytes.HasPrefix(text, []byte("panic: ")), bytes.HasPrefix(text, []byte("fatal error: ")):
			if o.crash == "" {
				o.crash, o.headline = kindPanic, cut(string(text), maxDetail)
			}
		case bytes.HasPrefix(text, []byte("WARNING: DATA RACE")):
			o.raced = true
		}
	}
	o.partial = !bytes.HasSuffix(text, []byte("\n"))
	g.keep(&o.excerpt, text)
}

// testOutput handles what was printed while t ran. The lines of package testing
// among it are not kept; a line of the same form from elsewhere is counted.
func (p *goPackage) testOutput(t *goTest, text []byte) {
	// Test2json writes long lines in parts: the first one holds the start of
	// the name. What a test printed without ending the line is a part, too, and
	// the report line of package testing then begins behind it.
	whole := bytes.HasSuffix(text, []byte("\n"))
	own := func(name []byte) bool {
		return string(name) == t.name || !whole && strings.HasPrefix(t.name, string(name))
	}
	// Without the framing of -test.v=test2json the lines of subtests are
	// indented.
	flat := bytes.TrimLeft(text, " ")
	if result, name, ok := reportLine(flat); ok && (len(flat) == len(text) || own(name)) {
		if t.report != "" || !own(name) && !t.partial {
			p.foreignReport(text)
		}
		if own(name) {
			t.report, t.crash, t.headline = result, "", ""
			t.partial = !whole
			return
		}
	} else if name, ok := bytes.CutPrefix(text, []byte("=== RUN   ")); ok && !t.partial {
		if own(bytes.TrimSpace(name)) && !t.started {
			t.started = true
			t.partial = !whole
			return
		}
		p.foreignReport(text)
	} else if frameLine(text) {
		t.partial = !whole
		return
	}
	t.print(p.stream, text)
}

func (p *goPackage) foreignReport(text []byte) {
	if p.reportLines++; p.reportLines == 1 {
		p.reportLine = strings.TrimSpace(cut(string(text), 256))
	}
}

// reportLine parses "--- PASS: Name (0.00s)".
func reportLine(text []byte) (result Outcome, name []byte, ok bool) {
	switch {
	case bytes.HasPrefix(text, []byte("--- PASS: ")):
		result = Pass
	case bytes.HasPrefix(text, []byte("--- FAIL: ")):
		result = Fail
	case bytes.HasPrefix(text, []byte("--- SKIP: ")):
		result = Skip
	default:
		return "", nil, false
	}
	name, _, _ = bytes.Cut(text[len("--- PASS: "):], []byte(" ("))
	return result, bytes.TrimSpace(name), true
}

// frameLine reports whether text tells test2json about a test that is running.
func frameLine(text []byte) bool {
	for _, prefix := range []string{"=== PAUSE ", "=== CONT  ", "=== NAME  ", "=== ATTR  ", "=== ARTIFACTS "} {
		if bytes.HasPrefix(text, []byte(prefix)) {
			return true
		}
	}
	return false
}

// signalKind adds the signal that belongs to the kind of a failure.
func (g *goStream) signalKind(kind, suite, test string) {
	switch kind {
	case kindRace:
		g.signal(sigDataRace, suite, test, "")
	case kindTimeout:
		g.signal(sigTimeout, suite, test, "")
	}
}
