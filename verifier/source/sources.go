package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A Source is a file of one side of a patch.
type Source struct {
	Side string // [Base] or [Head]
	File
}

// Sources is what a sources document holds, which carries the text of files so
// that somebody without the repository can read it. The document begins with
//
//	truegreen/v1 sources NUL
//
// and goes on with one record a file, the content's size in decimal without
// leading zeros:
//
//	<side> SP <size> TAB <path> NUL <content>
//
// The side is base or head. Records strictly ascend by path, bytewise, and the
// base's comes before the head's. A path has 1 to 4096 bytes, no NUL, no
// leading, trailing or doubled slash and no element "." or "..". Which files
// are there, and whether they are those of the trees, the document does not
// say: the reader compares their ids with the listings. Anything that can be
// read is written again as the same bytes.
type Sources []Source

// SourceLimits bound a sources document. A zero field means the default.
type SourceLimits struct {
	Total int // encoded bytes: 64 MiB
	File  int // bytes of one file: 4 MiB; below 2^31
	Files int // 2^16
}

func (l SourceLimits) withDefaults() SourceLimits {
	if l.Total == 0 {
		l.Total = 64 << 20
	}
	if l.File == 0 {
		l.File = 4 << 20
	}
	if l.Files == 0 {
		l.Files = 1 << 16
	}
	l.File = min(l.File, 1<<31-1)
	return l
}

// ErrSourceLimit is in the chain of every error that says that a
// [SourceLimits] field was exceeded.
var ErrSourceLimit = errors.New("sources are larger than allowed")

const (
	sourceHeader = "truegreen/v1 sources\x00"
	// The longest start of a record: side, a size below 2^63 and a path.
	maxSourceRecord = 4 + 1 + 19 + 1 + 4096 + 1
)

// sourceCheck checks records as they come.
type sourceCheck struct {
	limits     SourceLimits
	side, path string // of the last record
	files      int
	total      int
}

// add checks a record whose start has so many bytes.
func (c *sourceCheck) add(side, path string, size, start int) error {
	if side != Base && side != Head {
		return fmt.Errorf("side %.40q is not known", side)
	}
	if err := checkPath(path); err != nil {
		return err
	}
	// As it happens, "base" is before "head".
	if path < c.path || path == c.path && side <= c.side {
		return fmt.Errorf("%s of %q: not after %s of %q", side, path, c.side, c.path)
	}
	switch {
	case c.files >= c.limits.Files:
		return fmt.Errorf("%w: more than %d files", ErrSourceLimit, c.limits.Files)
	case size > c.limits.File:
		return fmt.Errorf("path %q: %w: %d bytes, at most %d", path, ErrSourceLimit, size, c.limits.File)
	case start > c.limits.Total-c.total || size > c.limits.Total-c.total-start:
		return fmt.Errorf("%w: more than %d bytes in all", ErrSourceLimit, c.limits.Total)
	}
	c.side, c.path = side, path
	c.files++
	c.total += start + size
	return nil
}

// SourceWriter writes a sources document.
type SourceWriter struct {
	w     *bufio.Writer
	check sourceCheck
	buf   []byte
	err   error
}

// NewSourceWriter returns a writer of a document.
func NewSourceWriter(w io.Writer, limits SourceLimits) *SourceWriter {
	sw := &SourceWriter{w: bufio.NewWriterSize(w, 64<<10), check: sourceCheck{limits: limits.withDefaults(), total: len(sourceHeader)}}
	sw.w.WriteString(sourceHeader)
	return sw
}

// Add appends a file. After an error the writer is unusable; nothing of the
// file that was refused is written.
func (w *SourceWriter) Add(s Source) error {
	if w.err != nil {
		return w.err
	}
	w.buf = append(append(w.buf[:0], s.Side...), ' ')
	w.buf = append(strconv.AppendInt(w.buf, int64(len(s.Content)), 10), '\t')
	w.buf = append(append(w.buf, s.Path...), 0)
	if w.err = w.check.add(s.Side, s.Path, len(s.Content), len(w.buf)); w.err != nil {
		w.err = fmt.Errorf("sources: %w", w.err)
		return w.err
	}
	w.w.Write(w.buf)
	_, w.err = w.w.Write(s.Content)
	return w.err
}

// Close ends the document. It does not close the underlying writer.
func (w *SourceWriter) Close() error {
	if w.err != nil {
		return w.err
	}
	w.err = errors.New("sources: closed")
	return w.w.Flush()
}

// ReadSources reads a whole sources document; see [Sources].
func ReadSources(r io.Reader, limits SourceLimits) (Sources, error) {
	in := bufio.NewReaderSize(r, 2*maxSourceRecord)
	header := make([]byte, len(sourceHeader))
	if _, err := io.ReadFull(in, header); err != nil || string(header) != sourceHeader {
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return nil, fmt.Errorf("sources: header: %w", err)
		}
		return nil, errors.New("sources: header: no sources document of version 1")
	}
	check := sourceCheck{limits: limits.withDefaults(), total: len(sourceHeader)}
	var sources Sources
	for {
		s, err := readSource(in, &check)
		if err == io.EOF {
			return sources, nil
		}
		if err != nil {
			return nil, fmt.Errorf("sources: file %d: %w", len(sources), err)
		}
		sources = append(sources, s)
	}
}

// readSource reads a record; io.EOF if there is none.
func readSource(in *bufio.Reader, check *sourceCheck) (Source, error) {
	start, err := in.ReadSlice(0)
	switch {
	case err == io.EOF && len(start) == 0:
		return Source{}, io.EOF
	case err == io.EOF:
		return Source{}, io.ErrUnexpectedEOF
	case err == bufio.ErrBufferFull || len(start) > maxSourceRecord:
		return Source{}, errors.New("the start of a record is too long")
	case err != nil:
		return Source{}, err
	}
	meta, path, ok := bytes.Cut(start[:len(start)-1], []byte{'\t'})
	side, number, sideOK := strings.Cut(string(meta), " ")
	if !ok || !sideOK {
		return Source{}, errors.New("want side and size, then a tab and the path")
	}
	size, err := strconv.ParseUint(number, 10, 31)
	if err != nil || strconv.FormatUint(size, 10) != number {
		return Source{}, fmt.Errorf("size %.40q is not canonical", number)
	}
	s := Source{Side: side, File: File{Path: string(path)}}
	if err := check.add(s.Side, s.Path, int(size), len(start)); err != nil {
		return Source{}, err
	}
	s.Content = make([]byte, size)
	if _, err := io.ReadFull(in, s.Content); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Source{}, fmt.Errorf("path %q: %w", s.Path, err)
	}
	return s, nil
}

// Content returns what a file holds on a side, and whether it is here. The
// sources must be in the order of their document.
func (s Sources) Content(side, path string) ([]byte, bool) {
	i, ok := slices.BinarySearchFunc(s, Source{Side: side, File: File{Path: path}}, func(a, b Source) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Side, b.Side)
	})
	if !ok {
		return nil, false
	}
	return s[i].Content, true
}
