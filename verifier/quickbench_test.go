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

const manyBlobs = 10_000

// largeBundle is 64 MiB in 10,000 blobs: what fetching dependencies left.
func largeBundle(t testing.TB) ([]byte, verifier.Options) {
	t.Helper()
	r := fixture.New()
	const calls, size = manyBlobs / 250, 64 << 20 / manyBlobs
	for i := range calls {
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
// that of a plain decoder whose output goes through SHA-256, in the same run.
func BenchmarkVerifyQuick(b *testing.B) {
	file, o := largeBundle(b)
	want(b, verify(b, file, o))
	var plain, quick time.Duration
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
		plain += time.Since(start)

		start = time.Now()
		verify(b, file, o)
		quick += time.Since(start)
	}
	b.ReportMetric(plain.Seconds()/quick.Seconds(), "ratio")
	b.ReportMetric(float64(n)*float64(b.N)/quick.Seconds()/1e6, "MB/s")
}

// TestQuickMemory holds quick verification to 8 MiB and 48 bytes for each blob.
func TestQuickMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a bundle of 64 MiB")
	}
	file, o := largeBundle(t)
	var report verifier.Report
	peak := heapPeak(func() { report = verify(t, file, o) })
	want(t, report)
	t.Logf("%d blobs: %.2f MiB of heap", manyBlobs, float64(peak)/(1<<20))
	if limit := uint64(8<<20 + 48*manyBlobs); peak > limit {
		t.Errorf("%d bytes of heap, want at most %d", peak, limit)
	}
}
