package verifier_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// largeBundle holds many blobs: what fetching dependencies left. 10,000 of them are
// 64 MiB.
func largeBundle(t testing.TB, blobs int) ([]byte, verifier.Options) {
	t.Helper()
	r := fixture.New()
	const size = 64 << 20 / 10_000
	for i := range blobs / 250 {
		p := fixture.Prepared{Name: fmt.Sprintf("fetch-%d", i), Files: map[string][]byte{}}
		for j := range 250 {
			var b bytes.Buffer
			for seed := receipts.Sum(fmt.Appendf(nil, "%d %d", i, j)); b.Len() < size; seed = receipts.Sum(seed[:]) {
				fmt.Fprintf(&b, "=== RUN   TestCase/%x\n    case_test.go:%d: as expected\n", seed[:6], seed[7])
			}
			p.Files[fmt.Sprintf("f%03d", j)] = b.Bytes()[:size]
		}
		r.Prepare = append(r.Prepare, p)
	}
	o := r.Options()
	o.Quick = true
	return bundleOf(t, &r), o
}

// BenchmarkVerifyQuick reports as "ratio" the speed of quick verification over
// that of a plain decoder whose output goes through SHA-256, each at its best in
// the same run: what else the machine does only ever adds to a time.
func BenchmarkVerifyQuick(b *testing.B) {
	file, o := largeBundle(b, 10_000)
	want(b, verify(b, file, o))
	plain, quick := time.Hour, time.Hour
	var n int64
	for b.Loop() {
		start := time.Now()
		d, err := zstd.NewReader(bytes.NewReader(file))
		if err != nil {
			b.Fatal(err)
		}
		h := sha256.New()
		if n, err = io.Copy(h, d); err != nil {
			b.Fatal(err)
		}
		d.Close()
		plain = min(plain, time.Since(start))

		start = time.Now()
		verify(b, file, o)
		quick = min(quick, time.Since(start))
	}
	b.ReportMetric(plain.Seconds()/quick.Seconds(), "ratio")
	b.ReportMetric(float64(n)/quick.Seconds()/1e6, "MB/s")
}

// TestQuickMemory holds quick verification to 8 MiB and 48 bytes for each blob. The
// collector has to keep up: how much garbage lies about by default depends on what
// else the machine does.
func TestQuickMemory(t *testing.T) {
	const blobs = 2_500
	file, o := largeBundle(t, blobs)
	var report verifier.Report
	usual := heapPeak(100, func() { report = verify(t, file, o) })
	peak := heapPeak(25, func() { report = verify(t, file, o) })
	want(t, report)
	t.Logf("%d blobs: %.2f MiB of heap, %.2f MiB with GOGC=100", blobs, float64(peak)/(1<<20), float64(usual)/(1<<20))
	if limit := uint64(8<<20 + 48*blobs); peak > limit {
		t.Errorf("%d bytes of heap, want at most %d", peak, limit)
	}
}
