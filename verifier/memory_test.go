package verifier_test

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// TestMemory verifies 50 MB of test output and watches the heap.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a bundle of 50 MB of output")
	}
	const tests, size = 45_000, 25 << 20 // on each side
	r := fixture.New()
	r.Output = func(verifier.PlannedRun) fixture.Output {
		stdout, err := io.ReadAll(&chatter{tests: tests, each: size / tests})
		if err != nil {
			t.Fatal(err)
		}
		return fixture.Output{Stdout: string(stdout)}
	}
	file := bundleOf(t, &r)
	var report verifier.Report
	peak := heapPeak(100, func() { report = verify(t, file, r.Options()) })
	want(t, report)
	if n := report.Findings().Runs[1].Pass; n != tests {
		t.Errorf("%d tests passed, want %d", n, tests)
	}
	t.Logf("%d tests on each side, 2 × 25 MB of output: %.1f MB of heap", tests, float64(peak)/1e6)
	if peak > 64e6 {
		t.Errorf("%d MB of heap, want at most 64", peak/1e6)
	}
}

// chatter is a stream of go test -json in which each test takes so many bytes.
type chatter struct {
	tests, each int
	n           int
	buf         []byte
	rest        []byte
}

func (c *chatter) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		c.buf = c.buf[:0]
		switch {
		case c.n == 0:
			c.buf = append(c.buf, `{"Action":"start","Package":"example.com/p"}`+"\n"...)
			fallthrough
		case c.n < c.tests:
			event := func(action, out string) {
				c.buf = fmt.Appendf(c.buf, `{"Time":"2026-01-02T03:04:05.678Z","Action":%q,"Package":"example.com/p","Test":"TestNumber%d"`, action, c.n)
				if out != "" {
					c.buf = fmt.Appendf(c.buf, `,"Output":%q`, out)
				}
				c.buf = append(c.buf, "}\n"...)
			}
			start := len(c.buf)
			event("run", "")
			for len(c.buf)-start < c.each-400 {
				event("output", "    x_test.go:10: the quick brown fox jumps over the lazy dog\n")
			}
			event("output", fmt.Sprintf("--- PASS: TestNumber%d (0.00s)\n", c.n))
			event("pass", "")
			c.n++
		case c.n == c.tests:
			c.buf = append(c.buf, `{"Action":"output","Package":"example.com/p","Output":"PASS\n"}`+"\n"+`{"Action":"pass","Package":"example.com/p"}`+"\n"...)
			c.n++
		default:
			return 0, io.EOF
		}
		c.rest = c.buf
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// heapPeak returns how far the heap grows while f runs, garbage included. The
// collector runs when the heap has grown by so many percent; users have 100.
func heapPeak(percent int, f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	var peak atomic.Uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var m runtime.MemStats
		for {
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-done
	return peak.Load() - min(before, peak.Load())
}
