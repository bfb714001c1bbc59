package source

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of GoMutants.
const (
	maxMutated    = 4 << 20 // bytes of a file that is mutated
	maxCandidates = 1 << 16
	maxUnparsed   = 16  // mutants of one file that do not parse
	maxChange     = 80  // bytes of Mutant.Change
	maxQuoted     = 256 // bytes of an expression that is read for Mutant.Change, or written twice
)

// A Mutant is a file with one small fault in it. If the tests pass with the
// fault as they do without, no test depends on that line.
type Mutant struct {
	Path         string // in the tree
	Line, Column int    // of the change in the original; columns count bytes from 1
	Kind         string // operator, condition, boundary, literal, boolean, statement, branch, jump, return
	Change       string // for people: "a < b → a <= b", at most 80 bytes, one line
	Content      []byte // of the whole mutated file
}

// GoMutants returns at most max mutants of the Go files in files, sorted by
// path, line, column and kind. The kinds, and what they change:
//
//	operator   + and -, * and /, % to *, & and |, << and >>, also where they
//	           assign; ++ and --
//	condition  == and !=, && and ||; !x to x; the conditions of if and for are negated
//	boundary   < and <=, > and >=
//	literal    an integer is one more, or one less where one more does not fit a
//	           type; "" becomes "mutant", any other string ""
//	boolean    true and false
//	statement  a call, or an assignment to what exists, is not executed
//	branch     the body of an if or an else is not executed
//	jump       break and continue, where they end or repeat a loop with a condition
//	return     the last result is nil: of those that return err, errors.New or
//	           fmt.Errorf
//
// Only changes at a line for which eligible is true are made; a nil function
// stands for all lines. Lines keep their numbers: a change adds and removes no
// line. What is not executed stays in the text, in "if false {", and so every
// name stays in use.
//
// Nothing is changed that says little about tests: logging, panics, the texts
// of errors, types, imports, constants that count with iota, the capacity that
// is given to make, the step of a for statement. Files whose names do not end
// in .go or end in _test.go, that do not parse or are larger than 4 MiB have no
// mutants, nor have those that say that they are generated, which is only what
// they say.
//
// There is at most one mutant for each line and kind. Among all, those are
// chosen whose SHA-256 of the seed, the path, a zero byte, the offset of the
// change in decimal, a colon and the kind is least; this order also says which
// 65536 candidates are kept when there are more. The order of files changes
// nothing, and a path that is there twice counts once.
//
// Every mutant parses; of a file where 16 did not, no more are made. Types are not known here, so some do not compile: the
// caller, who builds them, tells those apart. Each holds a copy of its file.
func GoMutants(files []File, eligible func(path string, line int) bool, seed [32]byte, max int) []Mutant {
	if max <= 0 {
		return nil
	}
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), bytes.Compare(a.Content, b.Content))
	})
	files = slices.CompactFunc(files, func(a, b File) bool { return a.Path == b.Path })

	var all mutantCandidates
	for i, f := range files {
		if !strings.HasSuffix(f.Path, ".go") || strings.HasSuffix(f.Path, "_test.go") || len(f.Content) > maxMutated {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, "", f.Content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(parsed) {
			continue
		}
		m := &mutator{
			index: i, path: f.Path, src: string(f.Content), file: set.File(parsed.FileStart),
			eligible: eligible, seed: seed, out: &all,
			texts: textNamesOf(parsed), cases: map[ast.Node]map[string]bool{}, skip: map[ast.Node]bool{},
		}
		m.walk(parsed)
	}
	all.compact()

	var out []Mutant
	unparsed := map[int]int{} // by file
	for i := range all {
		c := &all[i]
		if len(out) == max {
			break
		}
		if unparsed[c.index] == maxUnparsed {
			continue
		}
		f := files[c.index]
		content := c.apply(f.Content)
		// A change of the text may mean something else than it was made for,
		// or nest deeper than the parser goes.
		if _, err := parser.ParseFile(token.NewFileSet(), "", content, parser.SkipObjectResolution); err != nil {
			unparsed[c.index]++
			continue
		}
		out = append(out, Mutant{Path: f.Path, Line: c.line, Column: c.column, Kind: c.kind, Change: c.change, Content: content})
	}
	slices.SortFunc(out, func(a, b Mutant) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Kind, b.Kind))
	})
	return out
}

// A splice puts text in the place of the bytes from off to end, which hold no
// end of a line.
type splice struct {
	off, end int
	text     string
}

// A mutantCandidate is a mutant that is not made yet.
type mutantCandidate struct {
	order        [sha256.Size]byte
	index        int // of its file
	line, column int
	kind, change string
	splices      []splice // in the order of the text; they do not overlap
}

func (c *mutantCandidate) apply(src []byte) []byte {
	size := len(src)
	for _, e := range c.splices {
		size += len(e.text) - (e.end - e.off)
	}
	out, at := make([]byte, 0, size), 0
	for _, e := range c.splices {
		out = append(append(out, src[at:e.off]...), e.text...)
		at = e.end
	}
	return append(out, src[at:]...)
}

// mutantCandidates are the best so far, and up to as many that came since.
type mutantCandidates []mutantCandidate

func (all *mutantCandidates) add(c mutantCandidate) {
	if *all = append(*all, c); len(*all) >= 2*maxCandidates {
		all.compact()
	}
}

// compact sorts the candidates and keeps the first of each line and kind. To do
// so early loses none that would be kept at the end.
func (all *mutantCandidates) compact() {
	slices.SortFunc(*all, func(a, b mutantCandidate) int {
		return cmp.Or(bytes.Compare(a.order[:], b.order[:]), strings.Compare(a.change, b.change))
	})
	type place struct {
		index, line int
		kind        string
	}
	seen := make(map[place]bool)
	*all = slices.DeleteFunc(*all, func(c mutantCandidate) bool {
		p := place{c.index, c.line, c.kind}
		if seen[p] {
			return true
		}
		seen[p] = true
		return false
	})
	if len(*all) > maxCandidates {
		clear((*all)[maxCandidates:])
		*all = (*all)[:maxCandidates]
	}
}

// eligibleAt reports whether a change at pos is wanted.
func (m *mutator) eligibleAt(pos token.Pos) bool {
	if !pos.IsValid() {
		return false
	}
	// Not where //line comments say that it is.
	line := m.file.PositionFor(pos, false).Line
	return m.eligible == nil || m.eligible(m.path, line)
}

// add keeps a change at pos, unless a splice is not within one line of the file.
func (m *mutator) add(kind string, pos token.Pos, change string, splices ...splice) {
	for i, e := range splices {
		if e.off < 0 || e.end < e.off || e.end > len(m.src) || i > 0 && e.off < splices[i-1].end ||
			strings.Contains(m.src[e.off:e.end], "\n") || strings.ContainsAny(e.text, "\r\n") {
			return
		}
	}
	at := m.file.PositionFor(pos, false)
	c := mutantCandidate{index: m.index, line: at.Line, column: at.Column, kind: kind, change: change, splices: splices}
	h := sha256.New()
	h.Write(m.seed[:])
	h.Write([]byte(m.path + "\x00" + strconv.Itoa(at.Offset) + ":" + kind))
	h.Sum(c.order[:0])
	m.out.add(c)
}

// text returns the source of n, or "" if it is too long to be written again.
func (m *mutator) text(n ast.Node) string {
	from, to := m.file.Offset(n.Pos()), m.file.Offset(n.End())
	if from >= to || to-from > maxQuoted {
		return ""
	}
	return m.src[from:to]
}

// beforeAfter returns "from → to" within the limits of Mutant.Change, with an
// ellipsis where the text is longer.
func beforeAfter(from, to string) string {
	const arrow = " → "
	from, to = inOneLine(from), inOneLine(to)
	room := maxChange - len(arrow)
	switch half := room / 2; {
	case len(from)+len(to) <= room:
	case len(to) <= half:
		from = cutText(from, room-len(to))
	case len(from) <= half:
		to = cutText(to, room-len(from))
	default:
		from, to = cutText(from, half), cutText(to, half)
	}
	return from + arrow + to
}

// inOneLine makes every run of space and of what is not printable one space.
func inOneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}

// cutText cuts s to at most n bytes.
func cutText(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	if n -= len(mark); n < 0 {
		n = 0
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
