package receipts

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
)

// verifyAll reads a log and returns the encodings of its frames.
func verifyAll(r io.Reader) (frames [][]byte, err error) {
	l := NewLogReader(r, MaxPayload)
	for {
		if _, err = l.Next(); err != nil {
			return frames, err
		}
		frames = append(frames, bytes.Clone(l.Raw()))
	}
}

// A chunkReader returns reads of random lengths, some of them empty.
type chunkReader struct {
	r   io.Reader
	rnd *rand.Rand
	max int
}

func (c chunkReader) Read(p []byte) (int, error) {
	return c.r.Read(p[:min(len(p), c.rnd.IntN(c.max))])
}

func TestLogReaderChunks(t *testing.T) {
	t.Parallel()
	var large bytes.Buffer
	w := NewLogWriter(&large)
	for i, size := range []int{0, MaxPayload, 1, 33 << 10, 32<<10 - frameMin, MaxPayload - 1, 0} {
		if _, err := w.Append(&Frame{Seq: uint64(i), Payload: bytes.Repeat([]byte{byte(i)}, size)}); err != nil {
			t.Fatal(err)
		}
	}
	for name, log := range map[string][]byte{"sample": sampleRun(t).log.Bytes(), "large": large.Bytes()} {
		want, err := verifyAll(bytes.NewReader(log))
		if err != io.EOF || !bytes.Equal(bytes.Join(want, nil), log) {
			t.Fatalf("%s: %v", name, err)
		}
		readers := map[string]io.Reader{
			"one byte":       iotest.OneByteReader(bytes.NewReader(log)),
			"half":           iotest.HalfReader(bytes.NewReader(log)),
			"data with EOF":  iotest.DataErrReader(bytes.NewReader(log)),
			"random chunks":  chunkReader{bytes.NewReader(log), rand.New(rand.NewPCG(1, 2)), 300},
			"random chunks2": chunkReader{bytes.NewReader(log), rand.New(rand.NewPCG(3, 4)), 70000},
		}
		for how, r := range readers {
			if got, err := verifyAll(r); err != io.EOF || !slices.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%s, %s: %d frames, %v; want %d", name, how, len(got), err, len(want))
			}
		}
	}
}

// An error of the reader is neither a break nor an end, and what came before it
// still verifies.
func TestLogReaderError(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	log := r.log.Bytes()
	broken := errors.New("broken disk")
	for n := range len(log) + 1 {
		got, err := verifyAll(io.MultiReader(bytes.NewReader(log[:n]), iotest.ErrReader(broken)))
		var break_ *LogError
		if !errors.Is(err, broken) || errors.As(err, &break_) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
		whole := 0
		for whole < len(r.ends) && r.ends[whole] <= n {
			whole++
		}
		if len(got) != whole {
			t.Fatalf("after %d bytes: %d frames; want %d", n, len(got), whole)
		}
	}
	if _, err := verifyAll(iotest.ErrReader(nil)); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that returns nothing for ever: %v", err)
	}
}

func TestLogReaderRepeatsError(t *testing.T) {
	t.Parallel()
	log := sampleRun(t).log.Bytes()
	l := NewLogReader(bytes.NewReader(log[:len(log)-1]), MaxPayload)
	var err error
	for err == nil {
		_, err = l.Next()
	}
	f, again := l.Next()
	if f != nil || again != err || l.Raw() != nil || l.whole() {
		t.Errorf("after %v: %v, %v, raw %x", err, f, again, l.Raw())
	}
}

func TestLogTruncatedAtEveryLength(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	log := r.log.Bytes()
	whole := uint64(0)
	for n := range len(log) + 1 {
		atBoundary := n == 0
		if whole < uint64(len(r.ends)) && n == r.ends[whole] {
			whole++
			atBoundary = true
		}
		frames, _, err := VerifyLog(bytes.NewReader(log[:n]), MaxPayload, nil)
		if frames != whole {
			t.Fatalf("%d bytes: %d frames; want %d", n, frames, whole)
		}
		if atBoundary {
			if err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			continue
		}
		checkLogError(t, "truncated", err, whole, Truncated)
	}
}

// Every break, on the second of three frames.
func TestLogBreaks(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var ends []int
	w := NewLogWriter(&log)
	for seq := range uint64(3) {
		if _, err := w.Append(&Frame{Seq: seq + 7, HasTask: true, Payload: []byte("payload")}); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, log.Len())
	}
	head := w.Head()
	set := func(at int, b ...byte) func([]byte) []byte {
		return func(log []byte) []byte {
			copy(log[ends[0]+at:], b)
			return log
		}
	}
	const size = 43 // of payload_len, behind one id
	cases := []struct {
		name   string
		edit   func([]byte) []byte
		frame  uint64
		reason LogBreak
	}{
		{"magic", set(0, 'c'), 1, BadMagic},
		{"version 0", set(4, 0), 1, BadVersion},
		{"version 257", set(5, 1), 1, BadVersion},
		{"flags", set(6, 4), 1, BadDiscriminant},
		{"actor", set(7, byte(actors)), 1, BadDiscriminant},
		{"kind", set(8, byte(kinds)), 1, BadDiscriminant},
		{"visibility", set(9, byte(visibilities)), 1, BadDiscriminant},
		{"redaction", set(10, byte(redactions)), 1, BadDiscriminant},
		{"magic before version", set(0, 'c', 'C', 'E', 'L', 9), 1, BadMagic},
		{"version before flags", set(4, 9, 9, 9), 1, BadVersion},
		{"payload at the limit", set(size, 0, 0, 1, 0), 1, Truncated},
		{"payload beyond the limit", set(size, 1, 0, 1, 0), 1, PayloadTooLarge},
		{"payload hash", set(size+4, 0), 1, PayloadHashMismatch},
		{"payload", set(size+4+64, 'P'), 1, PayloadHashMismatch},
		{"sequence", set(11, 99), 1, FrameHashMismatch},
		{"previous", set(size+4+32, 0), 1, FrameHashMismatch},
		{"frame hash", func(log []byte) []byte { log[ends[1]-1] ^= 1; return log }, 1, FrameHashMismatch},
		{"frame removed", func(log []byte) []byte { return slices.Delete(log, ends[0], ends[1]) }, 1, PrevHashMismatch},
		{"frame repeated", func(log []byte) []byte { return slices.Insert(log, ends[1], log[ends[0]:ends[1]]...) }, 2, PrevHashMismatch},
		{"first removed", func(log []byte) []byte { return log[ends[0]:] }, 0, PrevHashMismatch},
		{"last removed", func(log []byte) []byte { return log[:ends[1]] }, 2, HeadMismatch},
		{"all removed", func(log []byte) []byte { return nil }, 0, HeadMismatch},
		{"torn", func(log []byte) []byte { return log[:ends[1]+1] }, 2, Truncated},
		{"garbage", func(log []byte) []byte { return append(log, "XXXX"...) }, 3, BadMagic},
	}
	for _, step := range []uint64{7, 6} {
		cases = append(cases, struct {
			name   string
			edit   func([]byte) []byte
			frame  uint64
			reason LogBreak
		}{"sequence order", func([]byte) []byte {
			// appendFrame has no opinion about order; LogWriter does.
			first := Frame{Seq: 7}
			b := appendFrame(nil, &first)
			return appendFrame(b, &Frame{Seq: step, Prev: first.Hash})
		}, 1, NonMonotonicSeq})
	}
	seen := map[LogBreak]bool{}
	for _, c := range cases {
		edited := c.edit(bytes.Clone(log.Bytes()))
		_, _, err := VerifyLog(bytes.NewReader(edited), MaxPayload, &head)
		checkLogError(t, c.name, err, c.frame, c.reason)
		seen[c.reason] = true
	}
	for _, reason := range []LogBreak{Truncated, BadMagic, BadVersion, BadDiscriminant, PayloadTooLarge, PayloadHashMismatch, FrameHashMismatch, PrevHashMismatch, NonMonotonicSeq, HeadMismatch} {
		if !seen[reason] {
			t.Errorf("no case for %s", reason)
		}
	}
}

// What a length field says is not allocated before the bytes are there.
func TestLogReaderTrustsNoLength(t *testing.T) {
	t.Parallel()
	frame := appendFrame(nil, &Frame{})
	copy(frame[27:], "\xff\xff\xff\xff")
	l := NewLogReader(bytes.NewReader(frame), maxUint32)
	_, err := l.Next()
	checkLogError(t, "4 GiB", err, 0, Truncated)
	if len(l.buf) > 64<<10 {
		t.Errorf("a buffer of %d bytes for a frame of %d", len(l.buf), len(frame))
	}
}

func TestLogWriterRefuses(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Frame{
		"payload":        {Seq: 2, Payload: make([]byte, MaxPayload+1)},
		"equal sequence": {Seq: 1},
		"lower sequence": {Seq: 0},
		"actor":          {Seq: 2, Actor: actors},
		"kind":           {Seq: 2, Kind: kinds},
		"visibility":     {Seq: 2, Visibility: visibilities},
		"redaction":      {Seq: 2, Redaction: redactions},
	} {
		var out bytes.Buffer
		w := NewLogWriter(&out)
		if _, err := w.Append(&Frame{Seq: 1}); err != nil {
			t.Fatal(err)
		}
		size, head := out.Len(), w.Head()
		if raw, err := w.Append(&f); err == nil || raw != nil {
			t.Errorf("%s: accepted", name)
		}
		if out.Len() != size || w.Head() != head || w.Frames() != 1 {
			t.Errorf("%s: something was written", name)
		}
		// A refusal is no failure: the log goes on.
		if _, err := w.Append(&Frame{Seq: 2}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A failingWriter takes n bytes and fails.
type failingWriter struct {
	bytes.Buffer
	n int
}

var errFull = errors.New("no space left")

func (w *failingWriter) Write(p []byte) (int, error) {
	if len(p) > w.n-w.Len() {
		n, _ := w.Buffer.Write(p[:w.n-w.Len()])
		return n, errFull
	}
	return w.Buffer.Write(p)
}

func TestLogWriterFailed(t *testing.T) {
	t.Parallel()
	for n := frameMin; n < 2*frameMin; n++ {
		out := &failingWriter{n: n}
		w := NewLogWriter(out)
		if _, err := w.Append(&Frame{Seq: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(&Frame{Seq: 2}); !errors.Is(err, errFull) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		out.n = 1 << 20
		if raw, err := w.Append(&Frame{Seq: 3}); !errors.Is(err, errFull) || raw != nil {
			t.Fatalf("%d bytes: append after a failed write: %v", n, err)
		}
		if out.Len() != n || w.Frames() != 1 {
			t.Fatalf("%d bytes: %d written, %d frames", n, out.Len(), w.Frames())
		}
	}
}

// A memoryFile is a LogFile.
type memoryFile struct {
	data []byte
	at   int
}

func (m *memoryFile) Read(p []byte) (int, error) {
	if m.at >= len(m.data) {
		return 0, io.EOF
	}
	n := copy(p, m.data[m.at:])
	m.at += n
	return n, nil
}

func (m *memoryFile) Write(p []byte) (int, error) {
	m.data = append(m.data[:m.at], p...)
	m.at = len(m.data)
	return len(p), nil
}

func (m *memoryFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		m.at = int(offset)
	case io.SeekEnd:
		m.at = len(m.data) + int(offset)
	default:
		return 0, errors.New("unexpected seek")
	}
	return int64(m.at), nil
}

func (m *memoryFile) Truncate(size int64) error {
	m.data = m.data[:size]
	return nil
}

// A crash tears the log at any length: OpenLog refuses a torn log, CutTail leaves
// the whole frames, and the log then goes on.
func TestOpenLogAtEveryLength(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	log := r.log.Bytes()
	for n := range len(log) + 1 {
		whole := 0
		for whole < len(r.ends) && r.ends[whole] <= n {
			whole++
		}
		end := 0
		if whole > 0 {
			end = r.ends[whole-1]
		}
		f := &memoryFile{data: bytes.Clone(log[:n])}
		w, err := OpenLog(f)
		if n == end {
			if err != nil || w.Frames() != uint64(whole) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		} else {
			checkLogError(t, "torn", err, uint64(whole), Truncated)
			if !errors.Is(err, errTail) || w != nil || len(f.data) != n {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
		cut, err := CutTail(f)
		if err != nil || cut != int64(n-end) || !bytes.Equal(f.data, log[:end]) {
			t.Fatalf("%d bytes: cut %d, %v; want %d", n, cut, err, n-end)
		}
		if cut, err := CutTail(f); cut != 0 || err != nil {
			t.Fatalf("%d bytes: cut %d again, %v", n, cut, err)
		}
		if w, err = OpenLog(f); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if whole > 0 {
			if _, err := w.Append(&Frame{Seq: w.Frames() - 1}); err == nil {
				t.Fatalf("%d bytes: the last sequence number is taken again", n)
			}
		}
		if _, err := w.Append(&Frame{Seq: w.Frames(), Payload: []byte("next")}); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if frames, _, err := VerifyLog(bytes.NewReader(f.data), MaxPayload, nil); err != nil || frames != uint64(whole)+1 {
			t.Fatalf("%d bytes: %d frames after appending, %v", n, frames, err)
		}
	}
}

// A log that is broken in another way is neither opened nor cut.
func TestOpenLogBroken(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	log := r.log.Bytes()
	for i := range r.ends[0] {
		// A changed flag or length moves what follows, which can look torn.
		if i == 6 || i >= 59 && i < 63 {
			continue
		}
		edited := bytes.Clone(log[:r.ends[0]+frameMin/2])
		edited[i] ^= 0x80
		m := &memoryFile{data: edited}
		size := len(edited)
		var broken *LogError
		if _, err := OpenLog(m); !errors.As(err, &broken) || broken.Reason == Truncated {
			t.Fatalf("byte %d: %v", i, err)
		}
		if cut, err := CutTail(m); err == nil || cut != 0 || len(m.data) != size {
			t.Fatalf("byte %d: cut %d, %v", i, cut, err)
		}
	}
}

func TestKindString(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for k := range kinds {
		if k.String() == "" || seen[k.String()] {
			t.Errorf("kind %d: %q", k, k)
		}
		seen[k.String()] = true
		if want := k == TaskCompleted || k == TaskFailed || k == TaskKilled; k.Terminal() != want {
			t.Errorf("%s: terminal %t", k, k.Terminal())
		}
	}
	if got := kinds.String(); got != "Kind(?)" {
		t.Errorf("beyond the last: %q", got)
	}
}
