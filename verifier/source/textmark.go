package source

// marks returns what the rules find in a file, with their kind before What.
func (t *textFile) marks() []goMark {
	var list []goMark
	mark := func(kind TextKind, what string, offset int) {
		line, text := t.at(offset)
		list = append(list, goMark{GoAware{t.Path, line, string(kind) + " " + what}, text})
	}
	for i := range t.lang.rules {
		r := &t.lang.rules[i]
		if (r.in == Test) != t.test || Classify(t.Path, nil) == Tooling {
			continue
		}
		for _, m := range r.pattern.FindAllIndex(t.Content, maxTextMarks) {
			mark(r.kind, r.what, skipSpace(t.Content, m[0]))
		}
	}
	if isPython(t.Path) {
		for _, m := range pytestHook().FindAllSubmatchIndex(t.Content, maxTextMarks) {
			mark(TextHarness, "hook "+string(t.Content[m[2]:m[3]]), m[2])
		}
	}
	sortMarks(list)
	return list
}

const maxTextMarks = 4096 // of one rule in one file

// skipSpace returns the offset of the first byte from one on that is no space.
func skipSpace(text []byte, offset int) int {
	for offset+1 < len(text) && (text[offset] == ' ' || text[offset] == '\t' || text[offset] == '\n' || text[offset] == '\r') {
		offset++
	}
	return offset
}

// assertions counts what looks like one in a file of tests.
func (t *textFile) assertions() int {
	return len(t.lang.assertions.FindAllIndex(t.Content, -1))
}

// A textName is the name of a test.
type textName struct {
	text string
	Line int
}

// names returns the tests of a file, as long as count is within its bound.
func (t *textFile) names(count *int) []textName {
	if !t.test || *count >= maxTextNames {
		return nil
	}
	var list []textName
	for _, m := range t.lang.names.FindAllSubmatchIndex(t.Content, maxTextNames-*count) {
		for i := 2; i+1 < len(m); i += 2 {
			if m[i] >= 0 {
				line, _ := t.at(m[i])
				list = append(list, textName{string(t.Content[m[i]:m[i+1]]), line})
			}
		}
	}
	*count += len(list)
	return list
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
