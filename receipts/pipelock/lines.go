package pipelock

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// A LineReader reads a chain's text line by line. Lines of white space count, and are
// not returned. The last line may lack its end.
type LineReader struct {
	r    *bufio.Reader
	buf  []byte
	line int64
}

// NewLineReader returns a reader of r's lines.
func NewLineReader(r io.Reader) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// Line returns the number of the line that Next returned last, from 1.
func (l *LineReader) Line() int64 { return l.line }

// Next returns the next line without white space around it, until the call after it;
// io.EOF where there is none; or an [*Error] if it has more than [MaxReceipt] bytes,
// which are not read further.
func (l *LineReader) Next() ([]byte, error) {
	for {
		l.line++
		text, err := l.next()
		text = bytes.Trim(text, " \t\r\n")
		switch {
		case len(text) > MaxReceipt:
			return nil, wrong(TooLong, "more than %d bytes", MaxReceipt)
		case len(text) > 0 && (err == nil || err == io.EOF):
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (l *LineReader) next() ([]byte, error) {
	text, err := l.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, err
	}
	l.buf = l.buf[:0]
	for errors.Is(err, bufio.ErrBufferFull) || err == nil {
		if l.buf = append(l.buf, text...); len(l.buf) > MaxReceipt+1 {
			return nil, wrong(TooLong, "more than %d bytes", MaxReceipt)
		}
		if err == nil {
			return l.buf, nil
		}
		text, err = l.r.ReadSlice('\n')
	}
	if l.buf = append(l.buf, text...); len(l.buf) > MaxReceipt+1 {
		return nil, wrong(TooLong, "more than %d bytes", MaxReceipt)
	}
	return l.buf, err
}
