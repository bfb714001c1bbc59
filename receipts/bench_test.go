package receipts

import (
	"bytes"
	"crypto/sha256"
	"io"
	"runtime"
	"testing"
	"time"
)

// A logSource is a log of n frames that exists only while it is read: a Read
// appends frames to the buffer of its LogWriter, so nothing of the log is kept.
type logSource struct {
	w       *LogWriter
	frame   Frame
	n       uint64
	pending bytes.Buffer
	bytes   int64
}

func newLogSource(n uint64) *logSource {
	s := &logSource{n: n, frame: Frame{Kind: CommandOutputCaptured, Visibility: Internal, HasTask: true, HasJob: true, Payload: make([]byte, 256)}}
	s.w = NewLogWriter(&s.pending)
	return s
}

func (s *logSource) Read(p []byte) (int, error) {
	if s.pending.Len() == 0 {
		if s.w.Frames() == s.n {
			return 0, io.EOF
		}
		s.pending.Reset()
		for s.pending.Len() < 32<<10 && s.w.Frames() < s.n {
			s.frame.Seq = s.w.Frames()
			if _, err := s.w.Append(&s.frame); err != nil {
				return 0, err
			}
		}
		s.bytes += int64(s.pending.Len())
	}
	return s.pending.Read(p)
}

// passLog writes and verifies a log of n frames, hashes its tree, and returns its
// length.
func passLog(t testing.TB, n uint64) int64 {
	source := newLogSource(n)
	l := NewLogReader(source, MaxPayload)
	var tree Tree
	for {
		if _, err := l.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		tree.Append(l.Raw())
	}
	if l.Frames() != n || tree.Size() != n || l.Head() != source.w.Head() {
		t.Fatalf("%d frames of %d", l.Frames(), n)
	}
	return source.bytes
}

// Ten times the frames take neither more allocations nor more memory.
func TestLogConstantMemory(t *testing.T) {
	few := testing.AllocsPerRun(1, func() { passLog(t, 10_000) })
	many := testing.AllocsPerRun(1, func() { passLog(t, 100_000) })
	// The stack of a tree grows with the logarithm of its size.
	if many > few+16 {
		t.Errorf("%.0f allocations for 10,000 frames, %.0f for 100,000", few, many)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	passLog(t, 100_000)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 1<<20 {
		t.Errorf("%d bytes allocated for 100,000 frames", bytes)
	}
}

func TestReceiptAllocs(t *testing.T) {
	key := vectorKey(t, testSecret)
	chain, err := NewChain(key)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewChainVerifier(key)
	if err != nil {
		t.Fatal(err)
	}
	r := testReceipt(2)
	if n := testing.AllocsPerRun(1000, func() {
		if chain.Mint(&r) != nil || v.Next(&r) != nil {
			t.Error("receipt does not verify")
		}
	}); n > 0 {
		t.Errorf("%.1f allocations per receipt", n)
	}
}

// BenchmarkLog writes and verifies a log of a million frames. sha256/time is the
// time that hashing the log's bytes takes, as often as format and tree demand it
// (payload and frame when written and when read, and the leaf), over the time it
// took.
func BenchmarkLog(b *testing.B) {
	const frames = 1_000_000
	frame := make([]byte, frameMin+2*16+256)
	var size int64
	var took, raw time.Duration
	var mallocs, allocated uint64
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		took += stopwatch(func() { size = passLog(b, frames) })
		runtime.ReadMemStats(&after)
		mallocs += after.Mallocs - before.Mallocs
		allocated += after.TotalAlloc - before.TotalAlloc
		raw += stopwatch(func() {
			for range frames {
				for range 3 {
					sha256.Sum256(frame)
				}
				for range 2 {
					sha256.Sum256(frame[:256])
				}
			}
		})
	}
	if size != int64(len(frame))*frames {
		b.Fatalf("a log of %d bytes", size)
	}
	b.ReportMetric(float64(mallocs)/float64(b.N)/frames, "allocs/frame")
	b.ReportMetric(float64(allocated)/float64(b.N)/1024, "KiB-allocated")
	b.ReportMetric(float64(took)/float64(b.N)/frames, "ns/frame")
	b.ReportMetric(float64(raw)/float64(took), "sha256/time")
}

// BenchmarkReceipts mints and verifies receipts with bodies of 252 bytes.
//
// A receipt's body is hashed twice, for the MAC and for the chain, by whoever
// mints and by whoever verifies. sha256/mint and sha256/verify are the time that
// hashing these bytes takes over the time it took; sha256-once/mint is the first
// with each body hashed a single time.
func BenchmarkReceipts(b *testing.B) {
	const receipts = 2000
	key, err := NewKey(testSecret)
	if err != nil {
		b.Fatal(err)
	}
	list := make([]Receipt, receipts)
	for i := range list {
		list[i] = testReceipt(2)
		list[i].EventSeq = uint64(i)
	}
	body := list[0].AppendBody(nil)
	var mint, verify, once time.Duration
	for b.Loop() {
		mint += stopwatch(func() {
			chain, err := NewChain(key)
			if err != nil {
				b.Fatal(err)
			}
			for i := range list {
				if err := chain.Mint(&list[i]); err != nil {
					b.Fatal(err)
				}
			}
		})
		verify += stopwatch(func() {
			if n, err := VerifyReceipts(key, list); err != nil || n != receipts {
				b.Fatal(n, err)
			}
		})
		once += stopwatch(func() {
			for range receipts {
				sha256.Sum256(body)
			}
		})
	}
	b.ReportMetric(2*float64(once)/float64(mint), "sha256/mint")
	b.ReportMetric(2*float64(once)/float64(verify), "sha256/verify")
	b.ReportMetric(float64(once)/float64(mint), "sha256-once/mint")
	b.ReportMetric(float64(mint+verify)/float64(b.N*receipts), "ns/receipt")
}

func stopwatch(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}
