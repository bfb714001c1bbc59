package source

import (
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"math"
	"slices"
	"strings"
)

// Coverage says which code of a tree a run executed, as the tested process
// reported it: nobody else counts, so it is a claim. What it shows as missed is
// a reason to look; what it shows as executed is nothing more than that.
type Coverage struct {
	files   map[string]*fileCoverage
	columns bool // blocks begin and end within lines
	blocks  int
}

// ErrNoCoverage is in the chain of the error for a report that is well-formed
// and names no code at all. A Go test binary leaves such a profile if a test
// panics, or if TestMain does not run the tests.
var ErrNoCoverage = errors.New("the report names no code")

const (
	maxCoverage     = 1 << 21 // different blocks, or lines, of a report
	maxCoverageFile = 1 << 17 // files of a report
)

// fileCoverage is what a report says of one file.
type fileCoverage struct {
	blocks []coverBlock
	index  map[[2]position]int
}

// A coverBlock is a piece of code that is executed as a whole.
type coverBlock struct {
	from, to   position // to is not part of it
	statements int
	hit        bool
}

// A position is a line and a byte of it, both counted from 1.
type position uint64

func at(line, column int) position { return position(line)<<32 | position(column) }
func (p position) line() int       { return int(p >> 32) }

// Lines are lines of one file.
type Lines struct {
	Path   string
	Ranges []Range // ascending, disjoint, not adjacent
}

// file returns the coverage of a file, nil if there are too many.
func (c *Coverage) file(path string) (*fileCoverage, error) {
	f := c.files[path]
	if f == nil {
		if len(c.files) == maxCoverageFile {
			return nil, fmt.Errorf("more than %d files", maxCoverageFile)
		}
		if c.files == nil {
			c.files = make(map[string]*fileCoverage)
		}
		f = &fileCoverage{index: make(map[[2]position]int)}
		c.files[path] = f
	}
	return f, nil
}

// add adds a block. One that was there before is executed if it ever was.
func (c *Coverage) add(f *fileCoverage, b coverBlock) error {
	key := [2]position{b.from, b.to}
	if i, ok := f.index[key]; ok {
		if f.blocks[i].statements != b.statements {
			return errors.New("a block occurs with two numbers of statements")
		}
		f.blocks[i].hit = f.blocks[i].hit || b.hit
		return nil
	}
	if c.blocks == maxCoverage {
		return fmt.Errorf("more than %d blocks", maxCoverage)
	}
	c.blocks++
	f.index[key] = len(f.blocks)
	f.blocks = append(f.blocks, b)
	return nil
}

// addLine adds a line, of a report that counts lines.
func (c *Coverage) addLine(f *fileCoverage, line int, hit bool) error {
	return c.add(f, coverBlock{from: at(line, 0), to: at(line, 1), statements: 1, hit: hit})
}

// Has reports whether the report names the file: whether its code could have
// been seen to run.
func (c *Coverage) Has(path string) bool { return c.files[path] != nil }

// Changed counts the changed lines that the report instruments, and of them
// those that were executed; missed are the others, by path. Paths that isCode
// does not hold for are left out; nil takes them all.
//
// Of a Go profile, a line counts if it holds a token that is no comment, and
// lies, from the first line to the last, in a block with statements. If names,
// literals, keywords or operators of the line are inside of blocks, it is
// executed if all these blocks were: of a line with a condition and what
// depends on it, both. If there are none, as on a line with a brace, a case or
// a function's name, one block is enough. head returns the content of a file
// for this; where it does not know a file, its blank lines and comments count,
// and one block is enough everywhere.
//
// Of the other reports, the lines that they name count.
func (c *Coverage) Changed(changes []Change, isCode func(path string) bool, head func(path string) ([]byte, bool)) (executed, instrumented int, missed []Lines) {
	for _, l := range c.ChangedLines(changes, isCode, head) {
		executed += countLines(l.Executed)
		instrumented += countLines(l.Executed) + countLines(l.Missed)
		if len(l.Missed) > 0 {
			missed = append(missed, Lines{l.Path, l.Missed})
		}
	}
	return executed, instrumented, missed
}

// ChangedLines are the changed lines of a file that a report instruments.
type ChangedLines struct {
	Path             string
	Executed, Missed []Range
}

func countLines(list []Range) (n int) {
	for _, r := range list {
		n += r.To - r.From + 1
	}
	return n
}

// ChangedLines returns the lines that [Coverage.Changed] counts, sorted by path;
// files without any are left out.
func (c *Coverage) ChangedLines(changes []Change, isCode func(path string) bool, head func(path string) ([]byte, bool)) []ChangedLines {
	var all []ChangedLines
	for _, change := range changes {
		f := c.files[change.Path]
		if f == nil || len(change.Lines) == 0 || isCode != nil && !isCode(change.Path) {
			continue
		}
		hit, miss := f.sweeps(position.line)
		var tokens []tokenLine
		known := false
		if c.columns && head != nil {
			var content []byte
			if content, known = head(change.Path); known {
				tokens = f.tokenLines(content)
			}
		}
		lines := ChangedLines{Path: change.Path}
		for _, r := range change.Lines {
			if known {
				r.To = min(r.To, len(tokens)-1)
			}
			for line := r.From; line <= r.To; line++ {
				if !hit.more(uint64(line)) && !miss.more(uint64(line)) {
					break // no block begins or goes on here or later
				}
				wasHit, wasMissed := hit.active(uint64(line)), miss.active(uint64(line))
				if known {
					t := tokens[line]
					if t&hasToken == 0 {
						continue
					}
					if t&(hitToken|missedToken) != 0 {
						wasHit, wasMissed = t&missedToken == 0, t&missedToken != 0
					}
				}
				switch {
				case wasHit:
					lines.Executed = appendLine(lines.Executed, line)
				case wasMissed:
					lines.Missed = appendLine(lines.Missed, line)
				}
			}
		}
		if len(lines.Executed)+len(lines.Missed) > 0 {
			all = append(all, lines)
		}
	}
	slices.SortStableFunc(all, func(a, b ChangedLines) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// A sweep tells for places that ascend whether a block is there.
type sweep struct {
	starts, ends []uint64 // ends are not part of blocks
	open, closed int
}

// active reports whether the place is in a block.
func (s *sweep) active(place uint64) bool {
	for s.open < len(s.starts) && s.starts[s.open] <= place {
		s.open++
	}
	for s.closed < len(s.ends) && s.ends[s.closed] <= place {
		s.closed++
	}
	return s.open > s.closed
}

// more reports whether a block is at the place or after it.
func (s *sweep) more(place uint64) bool {
	return len(s.ends) > 0 && s.ends[len(s.ends)-1] > place
}

// sweeps returns the sweeps of executed and of missed blocks: over their lines
// or, if line is nil, over exact positions.
func (f *fileCoverage) sweeps(line func(position) int) (hit, miss *sweep) {
	hit, miss = &sweep{}, &sweep{}
	for _, b := range f.blocks {
		s := miss
		if b.hit {
			s = hit
		}
		if line != nil {
			s.starts = append(s.starts, uint64(line(b.from)))
			s.ends = append(s.ends, uint64(line(b.to))+1)
		} else {
			s.starts = append(s.starts, uint64(b.from))
			s.ends = append(s.ends, uint64(b.to))
		}
	}
	for _, s := range []*sweep{hit, miss} {
		slices.Sort(s.starts)
		slices.Sort(s.ends)
	}
	return hit, miss
}

// tokenLine says what a line of Go source holds.
type tokenLine uint8

const (
	hasToken    tokenLine = 1 << iota
	hitToken              // one that is no bracket, in an executed block
	missedToken           // the same in a block that was not executed
)

// tokenLines returns the lines of a Go file, from index 1 on. Of a file that is
// not Go it returns something.
func (f *fileCoverage) tokenLines(content []byte) []tokenLine {
	if len(content) > math.MaxInt32 {
		return nil
	}
	file := token.NewFileSet().AddFile("", -1, len(content))
	var s scanner.Scanner
	s.Init(file, content, nil, 0)
	hit, miss := f.sweeps(nil)
	var lines []tokenLine
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue // put in by the scanner
		}
		// Not what a line directive says: blocks are compared with the file.
		p := file.PositionFor(pos, false)
		is := hasToken
		switch tok {
		case token.LBRACE, token.RBRACE, token.LPAREN, token.RPAREN, token.LBRACK, token.RBRACK, token.COMMA, token.SEMICOLON:
		default:
			place := uint64(at(p.Line, p.Column))
			if hit.active(place) {
				is |= hitToken
			}
			if miss.active(place) {
				is |= missedToken
			}
		}
		last := p.Line + strings.Count(lit, "\n")
		for len(lines) <= last {
			lines = append(lines, 0)
		}
		for line := p.Line; line <= last; line++ {
			lines[line] |= is
		}
	}
}
