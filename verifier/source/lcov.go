package source

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const maxLCOVLine = 1 << 20 // bytes

// ReadLCOV reads a tracefile of lcov:
//
//	TN:name of a test
//	SF:path/to/file.js
//	DA:12,3
//	end_of_record
//
// DA is a line and how often it ran; a checksum may follow. The records of
// functions, branches and totals are read over, any other is an error, and so
// is a file that does not end. A line that occurs again is executed if it ever
// was. Line 0, which some compilers give to code that has no line, is left
// out.
//
// path returns the path in the tree of a name after SF, and false for what is
// not of the tree, which is left out. Numbers are canonical decimals; a line of
// the report is at most 1 MiB. A report without a DA record is an error with
// [ErrNoCoverage].
func ReadLCOV(r io.Reader, path func(name string) (string, bool)) (*Coverage, error) {
	lines := newLineReader(r, maxLCOVLine)
	c := &Coverage{}
	if err := c.readLCOV(&lines, path); err != nil {
		return nil, fmt.Errorf("LCOV report: line %d: %w", lines.number, err)
	}
	return c, nil
}

func (c *Coverage) readLCOV(lines *lineReader, path func(string) (string, bool)) error {
	any, open := false, false
	var f *fileCoverage // of the open record, if it is of the tree
	for {
		more, err := lines.next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		record := string(lines.line)
		tag, value, _ := strings.Cut(record, ":")
		switch {
		case record == "end_of_record":
			if !open {
				return errors.New("the end of a file that did not begin")
			}
			open, f = false, nil
		case tag == "SF":
			if open || value == "" {
				return errors.New("a file within a file, or without a name")
			}
			open = true
			if p, ok := path(value); ok {
				if f, err = c.file(p); err != nil {
					return err
				}
			}
		case tag == "DA":
			line, hit, ok := parseDA(value)
			if !ok || !open {
				return errors.New("want DA:LINE,COUNT within a file")
			}
			any = true
			if f == nil || line == 0 {
				continue
			}
			if err := c.addLine(f, line, hit); err != nil {
				return err
			}
		case tag == "TN", record == "", record[0] == '#':
		case open && isLCOVTag(tag):
		default:
			return fmt.Errorf("record %.40q is not known here", record)
		}
	}
	switch {
	case open:
		return io.ErrUnexpectedEOF
	case !any:
		return ErrNoCoverage
	}
	return nil
}

// isLCOVTag reports whether lcov has such a record, of a file and of no line.
func isLCOVTag(tag string) bool {
	switch tag {
	case "VER", "FN", "FNDA", "FNF", "FNH", "FNL", "FNA", "BRDA", "BRF", "BRH", "MCDC", "MCF", "MCH", "LF", "LH":
		return true
	}
	return false
}

func parseDA(value string) (line int, hit, ok bool) {
	fields := strings.Split(value, ",")
	if len(fields) < 2 || len(fields) > 3 {
		return 0, false, false
	}
	line, lineOK := parseNumber(fields[0])
	hit, hitOK := parseHits(fields[1])
	return line, hit, lineOK && hitOK
}

// parseHits parses a count: a canonical decimal below 2^64.
func parseHits(s string) (hit, ok bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n > 0, err == nil && (len(s) == 1 || s[0] != '0')
}
