package receipts

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// MaxPayload is the largest payload of a frame that truegreen writes or accepts
// in a run's log. The format itself allows 2^32-1 bytes.
const MaxPayload = 64 << 10

// A LogBreak says why a log stops verifying.
type LogBreak string

// The breaks of a log, in the order in which a frame is checked. PayloadTooLarge
// is truegreen's own; the others are CrustCore's.
const (
	Truncated           LogBreak = "Truncated"
	BadMagic            LogBreak = "BadMagic"
	BadVersion          LogBreak = "BadVersion"
	BadDiscriminant     LogBreak = "BadDiscriminant"
	PayloadTooLarge     LogBreak = "PayloadTooLarge"
	PayloadHashMismatch LogBreak = "PayloadHashMismatch"
	FrameHashMismatch   LogBreak = "FrameHashMismatch"
	PrevHashMismatch    LogBreak = "PrevHashMismatch"
	NonMonotonicSeq     LogBreak = "NonMonotonicSeq"
	HeadMismatch        LogBreak = "HeadMismatch"
)

// A LogError says at which frame, counted from 0, a log breaks and why.
type LogError struct {
	Frame  uint64
	Reason LogBreak
}

func (e *LogError) Error() string { return fmt.Sprintf("log: frame %d: %s", e.Frame, e.Reason) }

// A LogReader verifies an event log while it reads it. Its memory is bounded by
// twice the largest frame; it allocates nothing per frame.
type LogReader struct {
	r          io.Reader
	maxPayload uint64
	buf        []byte
	at, end    int
	err        error // what r said last
	frame      Frame
	raw        []byte
	frames     uint64
	offset     int64
	head       Digest
	seq        uint64
	failed     error
}

// NewLogReader returns a reader of the log r that refuses payloads of more than
// maxPayload bytes.
func NewLogReader(r io.Reader, maxPayload uint32) *LogReader {
	return &LogReader{r: r, maxPayload: uint64(maxPayload), buf: make([]byte, 32<<10)}
}

// Next returns the next frame once everything about it is verified: layout,
// hashes, link and order. The frame and its payload are valid until the next
// call. At the end of an intact log the error is io.EOF; a break is a
// [*LogError]. After an error, Next repeats it.
func (l *LogReader) Next() (*Frame, error) {
	if l.failed != nil {
		return nil, l.failed
	}
	f, err := l.next()
	if err != nil {
		l.failed, l.frame, l.raw = err, Frame{}, nil
		return nil, err
	}
	return f, nil
}

func (l *LogReader) next() (*Frame, error) {
	reason := Truncated
	for {
		if l.at < l.end || l.err != nil {
			if reason = l.frame.decode(l.buf[l.at:l.end], l.maxPayload); reason != Truncated {
				break
			}
		}
		if l.err == io.EOF && l.at == l.end {
			return nil, io.EOF
		}
		if l.err == io.EOF {
			break
		}
		if l.err != nil {
			return nil, fmt.Errorf("log: frame %d: %w", l.frames, l.err)
		}
		l.fill()
	}
	if reason == "" {
		reason = l.check()
	}
	if reason != "" {
		return nil, &LogError{l.frames, reason}
	}
	n := l.frame.encodedLen()
	l.raw = l.buf[l.at : l.at+n]
	l.at += n
	l.offset += int64(n)
	l.head, l.seq = l.frame.Hash, l.frame.Seq
	l.frames++
	return &l.frame, nil
}

// fill reads more of the log behind the bytes that are still to be decoded. The
// buffer grows only by what was really read, never by what a length field says.
func (l *LogReader) fill() {
	if l.at > 0 {
		l.end = copy(l.buf, l.buf[l.at:l.end])
		l.at = 0
	}
	if l.end == len(l.buf) {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	for range 100 {
		var n int
		n, l.err = l.r.Read(l.buf[l.end:])
		l.end += n
		if n > 0 || l.err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}

func (l *LogReader) check() LogBreak {
	f := &l.frame
	if sha256.Sum256(f.Payload) != f.PayloadHash {
		return PayloadHashMismatch
	}
	n := f.encodedLen() - len(f.Hash)
	if sha256.Sum256(l.buf[l.at:l.at+n]) != f.Hash {
		return FrameHashMismatch
	}
	if f.Prev != l.head {
		return PrevHashMismatch
	}
	if l.frames > 0 && f.Seq <= l.seq {
		return NonMonotonicSeq
	}
	return ""
}

// whole reports whether the log was read to its end without a break.
func (l *LogReader) whole() bool { return l.failed == io.EOF }

// Raw returns the encoding of the frame that Next returned last, valid as long.
func (l *LogReader) Raw() []byte { return l.raw }

// Frames returns how many frames have verified.
func (l *LogReader) Frames() uint64 { return l.frames }

// Head returns the hash of the last verified frame, zero before the first.
func (l *LogReader) Head() Digest { return l.head }

// Offset returns the number of bytes that the verified frames take.
func (l *LogReader) Offset() int64 { return l.offset }

// VerifyLog reads a whole log and returns the number of frames and the head of
// its verified part. An intact log that does not end at want, where want is not
// nil, is a [HeadMismatch] behind its last frame.
func VerifyLog(r io.Reader, maxPayload uint32, want *Digest) (frames uint64, head Digest, err error) {
	l := NewLogReader(r, maxPayload)
	for {
		if _, err = l.Next(); err != nil {
			break
		}
	}
	if err == io.EOF {
		err = nil
		if want != nil && l.Head() != *want {
			err = &LogError{l.Frames(), HeadMismatch}
		}
	}
	return l.Frames(), l.Head(), err
}

// A LogWriter appends frames to an event log. It is not safe for concurrent use.
type LogWriter struct {
	w      io.Writer
	buf    []byte
	head   Digest
	seq    uint64
	frames uint64
	failed error
}

// NewLogWriter returns a writer of a new, empty log.
func NewLogWriter(w io.Writer) *LogWriter { return &LogWriter{w: w} }

// Append writes f in one Write, after setting its Prev, PayloadHash and Hash,
// and returns its encoding, valid until the next call. f.Seq must exceed that
// of the frame before. After a failed write the log may have a torn tail, and
// every further Append fails.
func (l *LogWriter) Append(f *Frame) ([]byte, error) {
	switch {
	case l.failed != nil:
		return nil, l.failed
	case len(f.Payload) > MaxPayload:
		return nil, fmt.Errorf("log: frame %d: payload of %d bytes: the limit is %d", l.frames, len(f.Payload), MaxPayload)
	case l.frames > 0 && f.Seq <= l.seq:
		return nil, fmt.Errorf("log: frame %d: sequence %d after %d", l.frames, f.Seq, l.seq)
	case f.Actor >= actors || f.Kind >= kinds || f.Visibility >= visibilities || f.Redaction >= redactions:
		return nil, fmt.Errorf("log: frame %d: field out of range", l.frames)
	}
	f.Prev = l.head
	l.buf = appendFrame(l.buf[:0], f)
	if _, err := l.w.Write(l.buf); err != nil {
		l.failed = fmt.Errorf("log: frame %d: %w", l.frames, err)
		return nil, l.failed
	}
	l.head, l.seq = f.Hash, f.Seq
	l.frames++
	return l.buf, nil
}

// Frames returns how many frames the log has.
func (l *LogWriter) Frames() uint64 { return l.frames }

// Head returns the hash of the last frame, zero where there is none.
func (l *LogWriter) Head() Digest { return l.head }

// A LogFile is a log at rest, such as an *os.File.
type LogFile interface {
	io.ReadWriteSeeker
	Truncate(size int64) error
}

var errTail = errors.New("torn tail: cut it before appending")

// OpenLog verifies the log in f and returns a writer that appends to it. It
// refuses a log that breaks anywhere, a torn tail included; see [CutTail].
func OpenLog(f LogFile) (*LogWriter, error) {
	l, err := scan(f)
	var broken *LogError
	if errors.As(err, &broken) && broken.Reason == Truncated {
		return nil, fmt.Errorf("%w: %w", broken, errTail)
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return &LogWriter{w: f, head: l.head, seq: l.seq, frames: l.frames}, nil
}

// CutTail removes the incomplete frame that an interrupted write left at the
// end of f and returns its length. A log that breaks in another way is not
// touched: that is not what a crash does.
func CutTail(f LogFile) (cut int64, err error) {
	l, err := scan(f)
	if err == nil {
		return 0, nil
	}
	var broken *LogError
	if !errors.As(err, &broken) || broken.Reason != Truncated {
		return 0, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, fmt.Errorf("log: %w", err)
	}
	if err := f.Truncate(l.offset); err != nil {
		return 0, fmt.Errorf("log: %w", err)
	}
	return size - l.offset, nil
}

// scan reads f from its start to its end or its first break.
func scan(f LogFile) (*LogReader, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	l := NewLogReader(bufio.NewReader(f), MaxPayload)
	for {
		if _, err := l.Next(); err == io.EOF {
			return l, nil
		} else if err != nil {
			return l, err
		}
	}
}
