//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkStart alternates true in the sandbox with true alone, so that a
// busy machine slows both, and reports the medians and minima.
func BenchmarkStart(b *testing.B) {
	for _, mode := range strongModes(b) {
		b.Run(string(mode), func(b *testing.B) {
			var bare, boxed []time.Duration
			for b.Loop() {
				start := time.Now()
				if err := exec.Command("/bin/true").Run(); err != nil {
					b.Fatal(err)
				}
				middle := time.Now()
				if r, _ := mustRun(b, mode, Spec{Argv: []string{"/bin/true"}}); r.Exit != 0 {
					b.Fatalf("%+v", r)
				}
				bare, boxed = append(bare, middle.Sub(start)), append(boxed, time.Since(middle))
			}
			for name, d := range map[string][]time.Duration{"bare": bare, "sandbox": boxed} {
				slices.Sort(d)
				b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name+"-median-ms")
				b.ReportMetric(float64(d[0].Microseconds())/1000, name+"-min-ms")
			}
		})
	}
}
