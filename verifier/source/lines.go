package source

import (
	"bufio"
	"fmt"
	"io"
)

// lineReader reads lines that all end in a newline.
type lineReader struct {
	in     *bufio.Reader
	max    int    // bytes of a line without its newline
	line   []byte // without its newline, until the next call of next
	long   []byte // the buffer of lines that are longer than in's
	number int    // of line, counted from 1
}

func newLineReader(r io.Reader, max int) lineReader {
	return lineReader{in: bufio.NewReaderSize(r, 64<<10), max: max}
}

// next reads a line; false at the end.
func (r *lineReader) next() (bool, error) {
	line, err := r.in.ReadSlice('\n')
	if err == io.EOF && len(line) == 0 {
		r.line = nil
		return false, nil
	}
	r.number++
	if err == bufio.ErrBufferFull {
		r.long = append(r.long[:0], line...)
		for err == bufio.ErrBufferFull && len(r.long) <= r.max {
			line, err = r.in.ReadSlice('\n')
			r.long = append(r.long, line...)
		}
		line = r.long
	}
	if len(line) > r.max+1 {
		return false, fmt.Errorf("more than %d bytes", r.max)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return false, err
	}
	r.line = line[:len(line)-1]
	return true, nil
}

// backslash reports whether the next line begins with a backslash.
func (r *lineReader) backslash() bool {
	if r.in.Buffered() == 0 {
		// To look ahead overwrites the buffer that the line is in.
		r.long = append(r.long[:0], r.line...)
		r.line = r.long
	}
	next, _ := r.in.Peek(1)
	return len(next) == 1 && next[0] == '\\'
}
