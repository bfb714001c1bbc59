package verifier

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// A verboseSuite is the stream of a suite that prints much: packages of 500
// tests, ten lines of output each, every hundredth failing. It is written while
// it is read, so that it takes no memory.
type verboseSuite struct {
	left     int // bytes, about
	packages int
	first    []byte
	buf      bytes.Buffer
}

func (s *verboseSuite) Read(p []byte) (int, error) {
	if s.buf.Len() == 0 {
		if s.left <= 0 {
			return 0, io.EOF
		}
		if s.first == nil {
			s.first = verbosePackage()
		}
		s.packages++
		s.buf.Write(bytes.ReplaceAll(s.first, []byte("package0"), fmt.Appendf(nil, "package%d", s.packages)))
		s.left -= s.buf.Len()
	}
	return s.buf.Read(p)
}

// verbosePackage returns the stream of example.org/module/package0.
func verbosePackage() []byte {
	var b bytes.Buffer
	const pkg = "example.org/module/package0"
	event := func(action, test, rest string) {
		fmt.Fprintf(&b, `{"Time":"2026-01-02T03:04:05.678901234Z","Action":%q,"Package":%q`, action, pkg)
		if test != "" {
			fmt.Fprintf(&b, `,"Test":%q`, test)
		}
		b.WriteString(rest + "}\n")
	}
	output := func(test, text string) { event("output", test, fmt.Sprintf(`,"Output":%q`, text)) }
	event("start", "", "")
	for i := range 500 {
		test, result, word := fmt.Sprintf("TestThing/case_%d", i), "pass", "PASS"
		if i == 0 {
			test = "TestThing"
		}
		if i%100 == 99 {
			result, word = "fail", "FAIL"
		}
		event("run", test, "")
		output(test, "=== RUN   "+test+"\n")
		for line := range 10 {
			output(test, fmt.Sprintf("    thing_test.go:%d: %s\n", line, strings.Repeat("all is well ", 4)))
		}
		output(test, "--- "+word+": "+test+" (0.01s)\n")
		event(result, test, `,"Elapsed":0.01`)
	}
	output("", "FAIL\n")
	output("", "FAIL\t"+pkg+"\t1.234s\n")
	event("fail", "", `,"Elapsed":1.234`)
	return b.Bytes()
}

// heapProbe remembers the largest heap seen while it was read.
type heapProbe struct {
	r    io.Reader
	peak uint64
	next int
}

func (h *heapProbe) Read(p []byte) (int, error) {
	if h.next -= len(p); h.next < 0 {
		h.next = 1 << 20
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		h.peak = max(h.peak, m.HeapAlloc)
	}
	return h.r.Read(p)
}

// TestReadGoTestMemory does not run in parallel: it measures the whole heap.
func TestReadGoTestMemory(t *testing.T) {
	const size = 50 << 20
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	probe := &heapProbe{r: &verboseSuite{left: size}}
	r, err := ReadGoTest(probe, 1)
	if err != nil {
		t.Fatal(err)
	}
	used := int64(probe.peak) - int64(before.HeapAlloc)
	t.Logf("%d tests in %d MiB of stream: %d MiB of heap", len(r.Tests), size>>20, used>>20)
	if used > 64<<20 {
		t.Errorf("%d MiB of heap", used>>20)
	}
}

func BenchmarkReadGoTest(b *testing.B) {
	stream, err := io.ReadAll(&verboseSuite{left: 8 << 20})
	if err != nil {
		b.Fatal(err)
	}
	events := bytes.Count(stream, []byte("\n"))
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadGoTest(bytes.NewReader(stream), 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
