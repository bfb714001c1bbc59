package source

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// diffSide is one side of a file while its hunks are read.
type diffSide struct {
	known bool
	data  []byte // if known
	at    int    // the offset in data that was reached
	lines int    // the lines before it
	ended bool   // a line without a newline was the last one
}

// take reads one line of a hunk on this side.
func (s *diffSide) take(text []byte, newline bool) error {
	switch {
	case s.ended:
		return errors.New("a line after one that the file ends with")
	case !newline && len(text) == 0:
		return errors.New("an empty line without a newline")
	}
	s.lines++
	s.ended = !newline
	if !s.known {
		return nil
	}
	rest, ok := bytes.CutPrefix(s.data[s.at:], text)
	if ok && newline {
		rest, ok = bytes.CutPrefix(rest, []byte("\n"))
	} else if ok {
		ok = len(rest) == 0
	}
	if !ok {
		return fmt.Errorf("not line %d of the file", s.lines)
	}
	s.at = len(s.data) - len(rest)
	return nil
}

// skip goes over n lines that the patch does not show, and returns them if
// they are known.
func (s *diffSide) skip(n int) ([]byte, error) {
	if n > 0 && s.ended {
		return nil, errors.New("a hunk after the end of the file")
	}
	s.lines += n
	if !s.known {
		return nil, nil
	}
	from := s.at
	for range n {
		i := bytes.IndexByte(s.data[s.at:], '\n')
		if i < 0 {
			return nil, errors.New("a hunk after the end of the file")
		}
		s.at += i + 1
	}
	return s.data[from:s.at], nil
}

// sameRest checks what follows the last hunk.
func sameRest(base, head *diffSide) error {
	if base.known && head.known && !bytes.Equal(base.data[base.at:], head.data[head.at:]) {
		return fmt.Errorf("the files differ after line %d of the head, the patch does not say so", head.lines)
	}
	return nil
}

// hunks reads the hunks of a file.
func (d *diffReader) hunks(c *Change, base, head *diffSide) error {
	heading, from := "", 0
	for first := true; ; first = false {
		more, err := d.inside()
		if err != nil {
			return err
		}
		if !more {
			if first {
				return errors.New("no hunk")
			}
			return sameRest(base, head)
		}
		h, err := parseHunk(string(d.line))
		if err != nil {
			return err
		}
		gap := h.baseFrom - base.lines
		if gap < 0 || h.headFrom-head.lines != gap {
			return errors.New("a hunk that does not follow from the one before")
		}
		was, err := base.skip(gap)
		if err != nil {
			return err
		}
		is, err := head.skip(gap)
		if err != nil {
			return err
		}
		if base.known && head.known && !bytes.Equal(was, is) {
			return errors.New("the files differ before the hunk, the patch does not say so")
		}
		// Git repeats the last heading where no line since the start of the last
		// hunk looks like one: so nothing has to be searched twice.
		if h.heading != "" && h.heading != heading && base.known && !bytes.Contains(base.data[from:base.at], []byte(h.heading)) {
			return errors.New("the heading of a hunk is not from above it")
		}
		heading, from = h.heading, base.at
		if err := d.hunk(c, h, base, head); err != nil {
			return err
		}
	}
}

// hunk reads the lines of one hunk.
func (d *diffReader) hunk(c *Change, h hunk, base, head *diffSide) error {
	changed := false
	for h.baseLines > 0 || h.headLines > 0 {
		if err := d.must(); err != nil {
			return err
		}
		if len(d.line) == 0 {
			return errors.New("an empty line in a hunk")
		}
		op := d.line[0]
		newline := !d.backslash()
		if op != '+' {
			if h.baseLines--; h.baseLines < 0 {
				return errors.New("more lines of the base than the hunk says")
			}
			if err := base.take(d.line[1:], newline); err != nil {
				return fmt.Errorf("base: %w", err)
			}
		}
		if op != '-' {
			if h.headLines--; h.headLines < 0 {
				return errors.New("more lines of the head than the hunk says")
			}
			if err := head.take(d.line[1:], newline); err != nil {
				return fmt.Errorf("head: %w", err)
			}
		}
		switch op {
		case ' ':
		case '-':
			changed = true
			c.Removed++
		case '+':
			changed = true
			c.Lines = appendLine(c.Lines, head.lines)
		default:
			return fmt.Errorf("a line of a hunk begins with %q", op)
		}
		if !newline {
			if err := d.must(); err != nil {
				return err
			}
			if string(d.line) != `\ No newline at end of file` {
				return errors.New("a line begins with a backslash and says something else than that there is no newline")
			}
		}
	}
	if !changed {
		return errors.New("a hunk without a change")
	}
	return nil
}

// appendLine adds a line after all those in ranges.
func appendLine(ranges []Range, line int) []Range {
	if n := len(ranges); n > 0 && ranges[n-1].To == line-1 {
		ranges[n-1].To = line
		return ranges
	}
	return append(ranges, Range{line, line})
}

// A hunk is what the line with @@ says. From are the lines before it.
type hunk struct {
	baseFrom, baseLines int
	headFrom, headLines int
	heading             string
}

func parseHunk(line string) (hunk, error) {
	fail := func() (hunk, error) { return hunk{}, errors.New("the line of a hunk is malformed") }
	rest, ok := strings.CutPrefix(line, "@@ -")
	if !ok {
		return hunk{}, errors.New("want a line with @@ of a hunk")
	}
	base, rest, ok := strings.Cut(rest, " +")
	if !ok {
		return fail()
	}
	head, heading, ok := strings.Cut(rest, " @@")
	if !ok {
		return fail()
	}
	var h hunk
	var baseOK, headOK bool
	h.baseFrom, h.baseLines, baseOK = parseSpan(base)
	h.headFrom, h.headLines, headOK = parseSpan(head)
	if !baseOK || !headOK || h.baseLines == 0 && h.headLines == 0 {
		return fail()
	}
	if heading != "" {
		if h.heading, ok = strings.CutPrefix(heading, " "); !ok || h.heading == "" {
			return fail()
		}
	}
	return h, nil
}

// parseSpan parses START[,COUNT] in its one spelling: no count if it is 1. An
// empty span starts at the line before it.
func parseSpan(s string) (before, count int, ok bool) {
	first, more, hasCount := strings.Cut(s, ",")
	start, ok := parseNumber(first)
	if !ok {
		return 0, 0, false
	}
	count = 1
	if hasCount {
		if count, ok = parseNumber(more); !ok || count == 1 {
			return 0, 0, false
		}
	}
	if count == 0 {
		return start, 0, true
	}
	return start - 1, count, start > 0 && start <= maxLineNo-count
}

// parseNumber parses a decimal number below 2^31 without leading zeros.
func parseNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	return int(n), true
}

// Git takes a file for binary that has a NUL among its first bytes, or is
// larger than a bound.
const (
	binaryPrefix = 8000
	binarySize   = 512 << 20
)

func looksBinary(s *diffSide) bool {
	return bytes.IndexByte(s.data[:min(len(s.data), binaryPrefix)], 0) >= 0 || len(s.data) >= binarySize
}

// binary reads over the two halves of a binary patch: what gives the head, and
// what gives the base.
func (d *diffReader) binary(base, head *diffSide) error {
	if base.known && head.known && !looksBinary(base) && !looksBinary(head) {
		return errors.New("a binary patch of text")
	}
	for _, to := range []*diffSide{head, base} {
		if err := d.must(); err != nil {
			return err
		}
		kind, number, _ := strings.Cut(string(d.line), " ")
		size, ok := parseNumber(number)
		if !ok || kind != "literal" && kind != "delta" {
			return errors.New("want literal or delta and a size")
		}
		if kind == "literal" && to.known && size != len(to.data) {
			return errors.New("a size that is not the file's")
		}
		for lines, last := 0, false; ; lines++ {
			if err := d.must(); err != nil {
				return err
			}
			if len(d.line) == 0 {
				if lines == 0 {
					return errors.New("a binary patch without data")
				}
				break
			}
			n := binaryLength(d.line)
			if n == 0 || last {
				return errors.New("the data of a binary patch is malformed")
			}
			last = n < 52
		}
	}
	return nil
}

// binaryLength returns how many bytes a line of a binary patch encodes, 0 if
// it is malformed: a letter for the length, then 5 characters for 4 bytes.
func binaryLength(line []byte) int {
	var n int
	switch c := line[0]; {
	case c >= 'A' && c <= 'Z':
		n = int(c-'A') + 1
	case c >= 'a' && c <= 'z':
		n = int(c-'a') + 27
	}
	if len(line)-1 != (n+3)/4*5 {
		return 0
	}
	for _, c := range line[1:] {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"',./:[\]`, c) >= 0 {
			return 0
		}
	}
	return n
}
