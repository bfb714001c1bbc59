//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os/exec"
	"slices"
	"testing"
	"time"
)

// bubblewrap is the peer to be measured against: namespaces, binds, /proc,
// /dev and tmpfs, but no filter, no Landlock and no probes.
var bubblewrap = []string{
	"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
	"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home/sandbox", "/bin/true",
}

// BenchmarkStart alternates true in the sandbox with true alone and, where it
// is installed, with true in bubblewrap, so that a busy machine slows all, and
// reports the medians and minima. The bound on of-bwrap is 2.
func BenchmarkStart(b *testing.B) {
	for _, mode := range allModes(b) {
		b.Run(string(mode), func(b *testing.B) {
			var bare, boxed, bwrap []time.Duration
			_, err := exec.LookPath(bubblewrap[0])
			peer := err == nil && exec.Command(bubblewrap[0], bubblewrap[1:]...).Run() == nil
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
				if start = time.Now(); peer {
					if err := exec.Command(bubblewrap[0], bubblewrap[1:]...).Run(); err != nil {
						b.Fatal(err)
					}
					bwrap = append(bwrap, time.Since(start))
				}
			}
			for name, d := range map[string][]time.Duration{"bare": bare, "sandbox": boxed, "bwrap": bwrap} {
				if len(d) == 0 {
					continue
				}
				slices.Sort(d)
				b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name+"-median-ms")
				b.ReportMetric(float64(d[0].Microseconds())/1000, name+"-min-ms")
			}
			if peer {
				b.ReportMetric(float64(boxed[len(boxed)/2])/float64(bwrap[len(bwrap)/2]), "of-bwrap")
			}
		})
	}
}
