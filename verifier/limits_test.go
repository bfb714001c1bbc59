package verifier

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

// TestJudgementLimits: what a hostile run puts out is bounded before it is kept, and
// the run is red where something of it was left out.
func TestJudgementLimits(t *testing.T) {
	if RaceEnabled || testing.Short() {
		t.Skip("reads streams of gigabytes")
	}
	for name, test := range map[string]struct {
		repeat func(i int) string
		n      int
		signal string
		heap   uint64
	}{
		"more than a million tests": {func(i int) string {
			return fmt.Sprintf(`{"Action":"run","Package":"p","Test":"T%d"}`+"\n"+`{"Action":"output","Package":"p","Test":"T%[1]d","Output":"--- PASS: T%[1]d (0.00s)\n"}`+"\n"+`{"Action":"pass","Package":"p","Test":"T%[1]d"}`+"\n", i)
		}, maxTests + 1000, sigLimitExceeded, 700 << 20},
		"names of 4 KiB": {func(i int) string {
			return fmt.Sprintf(`{"Action":"run","Package":"p","Test":"T%d%s"}`+"\n", i, strings.Repeat("x", 4000))
		}, 1 << 15, sigLimitExceeded, 300 << 20},
		"a gigabyte of output": {func(i int) string {
			return `{"Action":"output","Package":"p","Test":"T","Output":"` + strings.Repeat("out ", 1<<12) + `\n"}` + "\n"
		}, 1 << 16, sigTestUnfinished, 128 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			o := output{}
			calls := []TestCall{o.call(4, "unit", SideHead, FormatGo, 0, "x", "")}
			in := judgedOf(calls, o)
			runtime.GC()
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			probe := &heapProbe{r: &repeated{each: test.repeat, left: test.n, buf: []byte(`{"Action":"start","Package":"p"}` + "\n" + `{"Action":"run","Package":"p","Test":"T"}` + "\n")}}
			in.Open = func(receipts.Digest) (io.ReadCloser, error) { return io.NopCloser(probe), nil }
			f, err := NewJudgement(io.Discard, in).judgeAll(calls)
			if err != nil {
				t.Fatal(err)
			}
			used := probe.peak - min(probe.peak, before.HeapAlloc)
			r := f.Runs[0]
			var codes []Code
			for _, reason := range f.judge(nil, nil) {
				codes = append(codes, reason.Code)
			}
			t.Logf("%d tests, %d unfinished, complete %t, %v, %d MiB of heap", r.Tests(), r.Unfinished, r.Complete, codes, used>>20)
			if r.Complete || !r.has(test.signal) || f.Claim.Level != -1 || len(codes) == 0 || r.Tests() > maxTests {
				t.Errorf("complete %t, signals %v, L%d", r.Complete, r.Signals[:min(3, len(r.Signals))], f.Claim.Level)
			}
			if used > test.heap {
				t.Errorf("%d MiB of heap", used>>20)
			}
		})
	}
}

// repeated is a stream of so many pieces, made when they are read.
type repeated struct {
	each    func(i int) string
	i, left int
	buf     []byte
}

func (r *repeated) Read(p []byte) (int, error) {
	if len(r.buf) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		r.buf = append(r.buf[:0], r.each(r.i)...)
		r.i, r.left = r.i+1, r.left-1
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}
