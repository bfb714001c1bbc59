package source

import (
	"bytes"
	"regexp"
	"strings"
)

// A textPattern is a pattern of a line, and what a line has to hold for it: that is
// looked for first, since it is much quicker.
type textPattern struct {
	keys    [][]byte // one of them
	pattern *regexp.Regexp
}

// newTextPattern takes keys that are separated by spaces.
func newTextPattern(keys, pattern string) textPattern {
	p := textPattern{pattern: regexp.MustCompile(pattern)}
	for key := range strings.SplitSeq(keys, " ") {
		p.keys = append(p.keys, []byte(key))
	}
	return p
}

// A textFile is what is known of a file.
type textFile struct {
	Path       string
	test       bool
	marks      []goMark // with their kind before What
	names      []textName
	assertions int
}

// A textName is the name of a test.
type textName struct {
	text string
	Line int
}

// A textReader reads the files of a side.
type textReader struct {
	tries, names int // made, and found
	spent        bool
}

// readTexts returns what is known of the files whose language is.
func readTexts(files []File, testSide func(string) bool) []*textFile {
	var r textReader
	var list []*textFile
	for _, f := range sortedFiles(files) {
		if TextLanguage(f.Path) && Classify(f.Path, nil) != Tooling {
			list = append(list, r.read(f, testSide(f.Path)))
		}
	}
	return list
}

func (r *textReader) read(f File, test bool) *textFile {
	t := &textFile{Path: f.Path, test: test}
	lang := &languages().script
	if isPython(f.Path) {
		lang = &languages().python
	}
	if len(f.Content) > maxTextFile {
		r.spent = true
	} else {
		r.spent = false
		lines := bytes.Split(lang.blank(f.Content), []byte("\n"))
		for i, line := range lines {
			r.line(t, lang, i, line, lines)
		}
	}
	if r.spent {
		kind := TextAware
		if test {
			kind = TextHarness
		}
		t.marks = append(t.marks, goMark{GoAware: GoAware{f.Path, 1, string(kind) + " not read"}})
	}
	sortMarks(t.marks)
	return t
}

// line reads one line.
func (r *textReader) line(t *textFile, lang *textLanguage, i int, line []byte, lines [][]byte) {
	mark := func(kind TextKind, what string) {
		if len(t.marks) < maxTextMarks {
			text := string(bytes.TrimSpace(line[:min(len(line), maxGoLine)]))
			t.marks = append(t.marks, goMark{GoAware{t.Path, i + 1, string(kind) + " " + what}, text})
		} else {
			r.spent = true
		}
	}
	for k := range lang.rules {
		rule := &lang.rules[k]
		if (rule.in == Test) != t.test {
			continue
		}
		text := line
		if rule.pair && i+1 < len(lines) && rule.pattern.next(line, 0) >= 0 {
			text = bytes.Join([][]byte{line, lines[i+1]}, []byte(" "))
		}
		if r.find(&rule.pattern, line, text, 1) != nil {
			mark(rule.kind, rule.what)
		}
	}
	if isPython(t.Path) {
		p := pytestHook()
		for _, m := range r.find(&p, line, line, 1) {
			mark(TextHarness, "hook "+string(m[1]))
		}
	}
	if !t.test {
		return
	}
	t.assertions += len(r.find(&lang.assertions, line, line, -1))
	for _, m := range r.find(&lang.names, line, line, -1) {
		for _, name := range m[1:] {
			if name == nil {
				continue
			}
			if r.names++; r.names > maxTextNames {
				r.spent = true
				return
			}
			t.names = append(t.names, textName{string(name), i + 1})
		}
	}
}

const maxTextMarks = 1 << 14 // of a file

// find returns the first n matches in text, if the line has one of the keys. Of a long
// line, pieces around the keys are looked at.
func (r *textReader) find(p *textPattern, line, text []byte, n int) (found [][][]byte) {
	if p.next(line, 0) < 0 {
		return nil
	}
	if len(text) <= maxTextLine {
		return r.match(p, text, n)
	}
	for from := 0; n < 0 || len(found) < n; {
		key := p.next(text, from)
		if key < 0 {
			break
		}
		to := min(key+maxTextLine*3/4, len(text))
		found = append(found, r.match(p, text[max(key-maxTextLine/4, from):to], n)...)
		from = to
	}
	return found
}

func (r *textReader) match(p *textPattern, text []byte, n int) [][][]byte {
	if r.tries++; r.tries > maxTextTries {
		r.spent = true
		return nil
	}
	return p.pattern.FindAllSubmatch(text, n)
}

// next returns where the first key is from an offset on, -1 if there is none.
func (p *textPattern) next(text []byte, from int) int {
	const piece, longest = 4 << 10, 64 // one key does not make another one's search long
	for ; from < len(text); from += piece {
		first := -1
		for _, key := range p.keys {
			if i := bytes.Index(text[from:min(from+piece+longest, len(text))], key); i >= 0 && (first < 0 || from+i < first) {
				first = from + i
			}
		}
		if first >= 0 {
			return first
		}
	}
	return -1
}

// blankPython returns a Python text with spaces in place of comments and of what is
// in strings of several lines.
func blankPython(text []byte) []byte {
	out := append([]byte(nil), text...)
	for i := 0; i < len(out); i++ {
		switch c := out[i]; c {
		case '#':
			i = blankUntil(out, i, "\n")
		case '"', '\'':
			if i+2 < len(out) && out[i+1] == c && out[i+2] == c {
				i = blankUntil(out, i+3, string([]byte{c, c, c})) + 2
			} else {
				i = endOfString(out, i)
			}
		}
	}
	return out
}

// blankScript returns a JavaScript or TypeScript text with spaces in place of
// comments.
func blankScript(text []byte) []byte {
	out := append([]byte(nil), text...)
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '/' && i+1 < len(out) && out[i+1] == '/':
			i = blankUntil(out, i, "\n")
		case c == '/' && i+1 < len(out) && out[i+1] == '*':
			out[i], out[i+1] = ' ', ' '
			i = blankUntil(out, i+2, "*/") + 1
		case c == '"' || c == '\'' || c == '`':
			i = endOfString(out, i)
		}
	}
	return out
}

// blankUntil writes spaces up to an end, but for line feeds, and returns where the end
// is, or the text's.
func blankUntil(out []byte, i int, end string) int {
	for ; i < len(out); i++ {
		if len(out)-i >= len(end) && string(out[i:i+len(end)]) == end {
			return i
		}
		if out[i] != '\n' {
			out[i] = ' '
		}
	}
	return i
}

// endOfString returns where a string ends that begins at i: at its quote, or with its
// line unless it can have several.
func endOfString(text []byte, i int) int {
	quote := text[i]
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case quote:
			return i
		case '\n':
			if quote != '`' {
				return i
			}
		}
	}
	return i
}
