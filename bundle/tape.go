package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/truegreen-dev/truegreen/receipts"
)

// A piece is decoded content of one frame; or, without content, the end of the
// frame, after its checksum was found right.
type piece struct {
	b    []byte
	next int64 // at the end of a frame: the offset in the file that follows it
}

// A source yields the pieces of a file, then io.EOF, which never comes inside
// a frame. A piece is valid until the following call.
type source interface {
	next() (piece, error)
	stop()
}

const pieceLen = 128 << 10

// direct is a source that decodes when it is asked.
type direct struct {
	dec    frameDecoder
	inside bool // a frame
	buf    []byte
}

// newDirect returns a source over the frames from offset off on.
func newDirect(r io.ReaderAt, size, off int64, zr *zstd.Decoder) *direct {
	src := bufio.NewReaderSize(io.NewSectionReader(r, off, size-off), int(min(64<<10, size-off)))
	return &direct{dec: frameDecoder{frameReader: frameReader{src: src, off: off}, zr: zr}}
}

func (s *direct) next() (piece, error) {
	if s.buf == nil {
		s.buf = make([]byte, pieceLen)
	}
	return s.read(s.buf)
}

func (s *direct) read(buf []byte) (piece, error) {
	if !s.inside {
		if err := s.dec.start(); err != nil {
			return piece{}, err
		}
		s.inside = true
	}
	n, err := s.dec.read(buf)
	switch {
	case n > 0 && (err == nil || err == io.EOF):
		return piece{b: buf[:n]}, nil // io.EOF comes again
	case err == io.EOF:
		s.inside = false
		return piece{next: s.dec.off}, nil
	case err != nil:
		return piece{}, err
	default:
		return piece{}, io.ErrNoProgress
	}
}

func (s *direct) stop() {}

// A tape is the decoded tar. It holds the frames to their places: a frame ends
// where the writer would end it and nowhere else.
type tape struct {
	src   source
	buf   []byte    // what is left of the piece at hand
	pos   int64     // offset in the tar of the next byte
	start int64     // offset in the tar of the current frame
	file  int64     // offset in the file of the current frame
	sum   hash.Hash // of all that passes, if not nil
	err   error     // sticky
}

var errFrameEnd = errors.New("zstd frame ends inside a member or its header")

// fill makes sure that buf is not empty.
func (t *tape) fill() error {
	if len(t.buf) > 0 {
		return nil
	}
	if t.err != nil {
		return t.err
	}
	p, err := t.src.next()
	switch {
	case err == io.EOF:
		t.err = refuse(Truncated, "", "file ends before the two zero blocks of the tar")
	case err != nil:
		t.err = err
	case len(p.b) == 0:
		t.err = &Error{Code: MalformedMember, Err: errFrameEnd}
	default:
		t.buf = p.b
	}
	return t.err
}

// take returns up to n of the next bytes, valid until the following call.
func (t *tape) take(n int64) ([]byte, error) {
	if err := t.fill(); err != nil {
		return nil, err
	}
	b := t.buf[:min(n, int64(len(t.buf)))]
	t.buf = t.buf[len(b):]
	t.pos += int64(len(b))
	if t.sum != nil {
		t.sum.Write(b)
	}
	return b, nil
}

func (t *tape) readFull(p []byte) error {
	for len(p) > 0 {
		b, err := t.take(int64(len(p)))
		if err != nil {
			return err
		}
		p = p[copy(p, b):]
	}
	return nil
}

// skip moves to offset pos, which is ahead and in the current frame.
func (t *tape) skip(pos int64) error {
	for t.pos < pos {
		if _, err := t.take(pos - t.pos); err != nil {
			return err
		}
	}
	return nil
}

// zeros reads n bytes and refuses all but zeros.
func (t *tape) zeros(n int64) error {
	for n > 0 {
		b, err := t.take(n)
		if err != nil {
			return err
		}
		for _, c := range b {
			if c != 0 {
				return refuse(MalformedMember, "", "padding that is not zero")
			}
		}
		n -= int64(len(b))
	}
	return nil
}

// boundary is called between members. It reports whether a new frame starts.
func (t *tape) boundary() (bool, error) {
	if t.pos-t.start < splitLen {
		return false, nil
	}
	return true, t.endFrame()
}

// endFrame expects the current frame to end here.
func (t *tape) endFrame() error {
	if len(t.buf) == 0 && t.err == nil {
		p, err := t.src.next()
		if err == nil && len(p.b) == 0 {
			t.start, t.file = t.pos, p.next
			return nil
		}
		t.buf, t.err = p.b, err
	}
	if t.err == nil {
		t.err = refuse(MalformedMember, "", "zstd frame goes on after byte %d of the tar, where it has to end", t.pos)
	}
	return t.err
}

// end expects the file to end after the current frame.
func (t *tape) end() error {
	if err := t.endFrame(); err != nil {
		return err
	}
	var refused *Error
	switch _, err := t.src.next(); {
	case err == io.EOF:
		return nil
	case err == nil, errors.As(err, &refused):
		return refuse(MalformedMember, "", "data after the end of the tar, at byte %d of the file", t.file)
	default:
		return err
	}
}

// A body reads the content of one member. It returns io.EOF only after it has
// seen that size, padding and, of a blob, the digest are right.
type body struct {
	t      *tape
	member string
	left   int64
	pad    int64
	sum    hash.Hash // of a blob
	want   receipts.Digest
	err    error // sticky; io.EOF at the end
}

func newBody(t *tape, e Entry, sum hash.Hash) *body {
	b := &body{t: t, member: e.Name, left: e.Size, pad: padLen(e.Size)}
	if e.kind == kindBlob && sum != nil {
		sum.Reset()
		b.sum, b.want = sum, e.Digest
	}
	return b
}

// take returns up to n bytes of the content, valid until the following call.
func (b *body) take(n int64) ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	if b.left == 0 {
		b.err = b.finish()
		return nil, b.err
	}
	p, err := b.t.take(min(n, b.left))
	if err != nil {
		b.err = inMember(err, b.member)
		return nil, b.err
	}
	b.left -= int64(len(p))
	if b.sum != nil {
		b.sum.Write(p)
	}
	return p, nil
}

func (b *body) finish() error {
	if err := b.t.zeros(b.pad); err != nil {
		return inMember(err, b.member)
	}
	if b.sum != nil {
		if got := receipts.Digest(b.sum.Sum(nil)); got != b.want {
			return refuse(BlobMismatch, b.member, "content has SHA-256 %v", got)
		}
	}
	return io.EOF
}

func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	q, err := b.take(int64(len(p)))
	return copy(p, q), err
}

// WriteTo spares [io.Copy] a buffer.
func (b *body) WriteTo(w io.Writer) (n int64, err error) {
	for {
		p, err := b.take(pieceLen)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		m, err := w.Write(p)
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
}

// drain reads what is left and returns nil if the member is sound.
func (b *body) drain() error {
	for {
		if _, err := b.take(pieceLen); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

var errBodyClosed = errors.New("bundle: body read after its member")

// inMember names the member in which err happened.
func inMember(err error, member string) error {
	var e *Error
	if errors.As(err, &e) {
		if e.Member != "" {
			return err
		}
		return &Error{Code: e.Code, Member: member, Err: e.Err}
	}
	return fmt.Errorf("member %s: %w", member, err)
}
