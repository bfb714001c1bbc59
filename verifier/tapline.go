package verifier

import (
	"bytes"
	"strings"
)

// The kinds of a line of TAP.
const (
	tapTest = iota + 1
	tapPlan
	tapVersion
	tapPragma
	tapComment
	tapBail
)

const maxTAPNumber = 1 << 30 // greater ones are read as this

// A tapLine is a line of TAP without its indentation.
type tapLine struct {
	kind  int
	n     int    // of a plan or version
	name  string // of the subtest that a comment announces; why to bail out; a version as it stands
	point tapPoint
}

// A tapPoint is a test point.
type tapPoint struct {
	ok        bool
	number    int // -1 without one
	name      string
	directive string // SKIP, TODO or ""
}

// outcome returns what p says of its test. Only what passed can be skipped, and
// only what failed is still to do.
func (p *tapPoint) outcome() Outcome {
	switch {
	case p.ok && p.directive == "SKIP", !p.ok && p.directive == "TODO":
		return Skip
	case p.ok:
		return Pass
	}
	return Fail
}

// parseTAP parses a line without indentation and end.
func parseTAP(text []byte) (tapLine, bool) {
	switch {
	case bytes.HasPrefix(text, []byte("#")):
		name, _ := bytes.CutPrefix(bytes.TrimLeft(text[1:], " \t"), []byte("Subtest:"))
		if len(name) == len(bytes.TrimLeft(text[1:], " \t")) {
			name = nil
		}
		return tapLine{kind: tapComment, name: unescapeTAP(string(bytes.TrimSpace(name)))}, true
	case len(text) >= len("Bail out!") && strings.EqualFold(string(text[:len("Bail out!")]), "Bail out!"):
		return tapLine{kind: tapBail, name: string(bytes.TrimSpace(text[len("Bail out!"):]))}, true
	case bytes.HasPrefix(text, []byte("pragma ")):
		return tapLine{kind: tapPragma}, true
	}
	if rest, ok := bytes.CutPrefix(text, []byte("TAP version ")); ok {
		rest = bytes.TrimSpace(rest)
		n, tail := tapNumber(rest)
		if len(tail) > 0 {
			n = -1
		}
		return tapLine{kind: tapVersion, n: n, name: string(rest)}, true
	}
	if rest, ok := bytes.CutPrefix(text, []byte("1..")); ok {
		n, tail := tapNumber(rest)
		tail = bytes.TrimSpace(tail)
		return tapLine{kind: tapPlan, n: n}, n >= 0 && (len(tail) == 0 || tail[0] == '#')
	}
	rest, failed := bytes.CutPrefix(text, []byte("not "))
	rest, ok := bytes.CutPrefix(rest, []byte("ok"))
	if !ok || len(rest) > 0 && rest[0] != ' ' && rest[0] != '\t' {
		return tapLine{}, false
	}
	p := tapPoint{ok: !failed, number: -1}
	rest = bytes.TrimSpace(rest)
	if n, tail := tapNumber(rest); n >= 0 && (len(tail) == 0 || bytes.IndexByte([]byte(" \t#-"), tail[0]) >= 0) {
		p.number, rest = n, tail
	}
	p.name, p.directive = tapDescription(string(rest))
	return tapLine{kind: tapTest, point: p}, true
}

// tapNumber parses the digits at the start of text, -1 if there are none.
func tapNumber(text []byte) (int, []byte) {
	n, i := 0, 0
	for ; i < len(text) && isDigit(text[i]); i++ {
		n = min(n*10+int(text[i]-'0'), maxTAPNumber)
	}
	if i == 0 {
		return -1, text
	}
	return n, text[i:]
}

// tapDescription parses what follows the number of a test point. What some
// runners append about the time is no part of the name.
func tapDescription(text string) (name, directive string) {
	end := len(text)
	for i := 0; i < len(text) && directive == ""; i++ {
		switch {
		case text[i] == '\\':
			i++
			continue
		case text[i] != '#':
			continue
		}
		apart := i == 0 || text[i-1] == ' ' || text[i-1] == '\t'
		word := strings.TrimLeft(text[i+1:], " \t")
		switch {
		case tapWord(word, "SKIP"): // and "skipped", and without a space: a test less passes
			directive = "SKIP"
		case apart && tapWord(word, "TODO") && (len(word) == 4 || !isIdentifier("_"+word[4:5])):
			directive = "TODO"
		case !apart || !strings.HasPrefix(word, "time="):
			continue
		}
		end = min(end, i)
	}
	name = strings.TrimSpace(text[:end])
	if rest, ok := strings.CutPrefix(name, "-"); ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
		name = strings.TrimSpace(rest)
	}
	return unescapeTAP(name), directive
}

// tapWord reports whether text begins with word, in any case.
func tapWord(text, word string) bool {
	return len(text) >= len(word) && strings.EqualFold(text[:len(word)], word)
}

// unescapeTAP resolves \# and \\. Before anything else a backslash stands for
// itself.
func unescapeTAP(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (s[i+1] == '\\' || s[i+1] == '#') {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
