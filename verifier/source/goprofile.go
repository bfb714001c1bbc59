package source

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

const maxProfileLine = 8 << 10 // bytes

// ReadGoProfile reads a profile that go test -coverprofile wrote:
//
//	mode: set
//	example.com/module/file.go:10.20,12.3 2 1
//
// The mode is set, count or atomic. Each other line is a block: the file's name
// below its package's import path, where the block begins and where it ends,
// line and byte, its number of statements and how often it ran. Blocks without
// statements say nothing and are left out. The same block occurs once for each
// test binary that holds its package, and is executed if it was in one of them.
//
// path returns the path in the tree of a name in the profile, and false for
// what is not of the tree, which is left out.
//
// Numbers are canonical decimals below 2^31, counts below 2^64; a line is at
// most 8 KiB. A profile that has nothing but its mode is an error with
// [ErrNoCoverage].
func ReadGoProfile(r io.Reader, path func(name string) (string, bool)) (*Coverage, error) {
	lines := newLineReader(r, maxProfileLine)
	c := &Coverage{columns: true}
	if err := c.readGoProfile(&lines, path); err != nil {
		return nil, fmt.Errorf("coverage profile: line %d: %w", lines.number, err)
	}
	return c, nil
}

func (c *Coverage) readGoProfile(lines *lineReader, path func(string) (string, bool)) error {
	more, err := lines.next()
	if err != nil {
		return err
	}
	if !more {
		return ErrNoCoverage
	}
	switch mode := string(lines.line); mode {
	case "mode: set", "mode: count", "mode: atomic":
	default:
		return fmt.Errorf("want the mode, not %.40q", mode)
	}
	var name string // of the line before, and what it gave
	var f *fileCoverage
	for first := true; ; first = false {
		more, err := lines.next()
		if err != nil {
			return err
		}
		if !more {
			if first {
				return ErrNoCoverage
			}
			return nil
		}
		is, b, err := parseGoBlock(string(lines.line))
		if err != nil {
			return err
		}
		if first || is != name {
			name, f = is, nil
			if p, ok := path(name); ok {
				if f, err = c.file(p); err != nil {
					return err
				}
			}
		}
		if f == nil || b.statements == 0 {
			continue
		}
		if err := c.add(f, b); err != nil {
			return err
		}
	}
}

var errGoBlock = errors.New("want FILE:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT")

func parseGoBlock(line string) (name string, b coverBlock, err error) {
	colon := strings.LastIndexByte(line, ':')
	if colon < 1 {
		return "", coverBlock{}, errGoBlock
	}
	fields := strings.Split(line[colon+1:], " ")
	if len(fields) != 3 {
		return "", coverBlock{}, errGoBlock
	}
	from, to, ok := strings.Cut(fields[0], ",")
	var fromOK, toOK, statementsOK, countOK bool
	b.from, fromOK = parsePosition(from)
	b.to, toOK = parsePosition(to)
	b.statements, statementsOK = parseNumber(fields[1])
	b.hit, countOK = parseHits(fields[2])
	if !ok || !fromOK || !toOK || !statementsOK || !countOK {
		return "", coverBlock{}, errGoBlock
	}
	if b.from > b.to || b.from == b.to && b.statements > 0 {
		return "", coverBlock{}, errors.New("a block ends before it begins")
	}
	return line[:colon], b, nil
}

func parsePosition(s string) (position, bool) {
	line, column, ok := strings.Cut(s, ".")
	l, lineOK := parseNumber(line)
	c, columnOK := parseNumber(column)
	return at(l, c), ok && lineOK && columnOK && l > 0 && c > 0
}
