//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func limit(t *testing.T, r Result, name string) Limit {
	t.Helper()
	i := slices.IndexFunc(r.Isolation.Limits, func(l Limit) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no limit %s in %+v", name, r.Isolation.Limits)
	}
	return r.Isolation.Limits[i]
}

func TestWallLimit(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes(t) {
		r, out := mustRun(t, mode, Spec{
			Argv:   sh(`trap "" TERM INT; echo begun; (trap "" TERM; sleep 60) & sleep 60; sleep 60`),
			Limits: Limits{Wall: 3 * time.Second},
		})
		if r.State != StateTimeout || r.Exit != -1 || out.stdout.String() != "begun\n" || !limit(t, r, "wall_ms").Hit {
			t.Errorf("%s: %s %d %q", mode, r.State, r.Exit, out.stdout.String())
		}
		if d := r.End.Sub(r.Start); d < 3*time.Second || d > 30*time.Second {
			t.Errorf("%s: took %v", mode, d)
		}
	}
}

// TestPidsLimit: a fork bomb stops at the limit, and the sandbox still ends in good order.
func TestPidsLimit(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		r, out := mustRun(t, mode, Spec{
			Argv:   []string{attackPath, "attack:forkbomb"},
			Mounts: []Mount{attackMount(t)},
			Limits: Limits{Pids: 64},
		})
		f := strings.Fields(out.stdout.String())
		if r.State != StateExited || len(f) != 2 || f[1] != "EAGAIN" {
			t.Fatalf("%s %d %s: %q %q", r.State, r.Exit, r.Why, out.stdout.String(), out.stderr.String())
		}
		if n, _ := strconv.Atoi(f[0]); n < 16 || n >= 64 {
			t.Errorf("%d processes with a limit of 64", n)
		}
		l := limit(t, r, "pids")
		if l.By == "none" || l.Value != 64 || strings.HasPrefix(l.By, "cgroup") && !l.Hit {
			t.Errorf("limit %+v", l)
		}
	})
}

// TestBombs: process 1 needs no thread that it does not have when the command
// takes all of them.
func TestBombs(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		for range 30 {
			r, out := mustRun(t, mode, Spec{
				Argv:   []string{attackPath, "attack:bombs"},
				Mounts: []Mount{attackMount(t)},
				Limits: Limits{Pids: 64, Wall: time.Minute},
			})
			// The command itself may die of it.
			if l := limit(t, r, "pids"); r.State != StateExited || strings.HasPrefix(l.By, "cgroup") && !l.Hit {
				t.Fatalf("%s %q, %+v: %.300s", r.State, r.Why, l, out.stderr.String())
			}
		}
	})
}

func TestMemoryLimit(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		r, out := mustRun(t, mode, Spec{
			Argv:   []string{attackPath, "attack:hog"},
			Mounts: []Mount{attackMount(t)},
			Limits: Limits{Memory: 256 << 20, Wall: time.Minute},
		})
		l := limit(t, r, "memory")
		if r.State != StateSignaled || r.Signal != "SIGKILL" || !l.Hit || !strings.Contains(r.Why, "memory") {
			t.Errorf("%s %s %q, %+v, %q", r.State, r.Signal, r.Why, l, out.stdout.String())
		}
		if l.Value != 256<<20 || l.By == "none" {
			t.Errorf("limit %+v", l)
		}
		if strings.HasPrefix(l.By, "cgroup") && (r.PeakMemory < 128<<20 || r.PeakMemory > 300<<20) {
			t.Errorf("peak memory %d", r.PeakMemory)
		}
	})
}

// TestDiskLimit: all writable places share one budget.
func TestDiskLimit(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		r, out := mustRun(t, mode, Spec{
			Argv: sh(`head -c 5000000 /dev/zero >/tmp/a && head -c 5000000 /dev/zero >/home/sandbox/b; echo $?
rm -f /tmp/a /home/sandbox/b; i=0; while : 2>/dev/null >/dev/shm/$i; do i=$((i+1)); done 2>/dev/null; echo $i`),
			Limits: Limits{Disk: 8 << 20, Inodes: 200},
		})
		f := strings.Fields(out.stdout.String())
		if r.State != StateExited || len(f) != 2 {
			if !strings.Contains(out.stderr.String(), "No space left") {
				t.Fatalf("%s %q %q", r.State, out.stdout.String(), out.stderr.String())
			}
		}
		if len(f) == 0 || f[0] != "1" || !strings.Contains(out.stderr.String(), "No space left") {
			t.Errorf("second file: %q %q", out.stdout.String(), out.stderr.String())
		}
		if l := limit(t, r, "disk"); l.By != "tmpfs" || l.Value != 8<<20 {
			t.Errorf("disk %+v", l)
		}
		if l := limit(t, r, "inodes"); l.By != "tmpfs" || l.Value != 200 || !l.Hit {
			t.Errorf("inodes %+v", l)
		}
	})
}

// TestOutputLimit: a flood is cut, counted and drained, in constant memory.
func TestOutputLimit(t *testing.T) {
	mode := strongModes(t)[0]
	const total, keep = 100 << 20, 1 << 20
	var count counter
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, out := mustRun(t, mode, Spec{
		Argv:   []string{attackPath, "attack:flood", strconv.Itoa(total)},
		Mounts: []Mount{attackMount(t)},
		Limits: Limits{Output: keep},
		Stdout: &count,
	})
	runtime.ReadMemStats(&after)
	if r.State != StateExited || r.Stdout != (Stream{Total: total, Kept: keep}) || count != keep {
		t.Errorf("%s, %+v, writer got %d", r.State, r.Stdout, count)
	}
	if out.stderr.String() != "end" {
		t.Errorf("stderr %q: the command noticed", out.stderr.String())
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("allocated %d bytes", grown)
	}
	if l := limit(t, r, "stdout"); !l.Hit || l.Peak != total {
		t.Errorf("limit %+v", l)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// TestFailingWriter: output is drained although nobody wants it.
func TestFailingWriter(t *testing.T) {
	t.Parallel()
	r, _ := mustRun(t, strongModes(t)[0], Spec{Argv: sh("head -c 1000000 /dev/zero"), Stdout: failing{}})
	if r.State != StateExited || r.Exit != 0 || r.Stdout.Total != 1000000 || r.Stdout.Kept != 10 {
		t.Errorf("%s %d %+v", r.State, r.Exit, r.Stdout)
	}
}

type failing struct{}

func (failing) Write(p []byte) (int, error) { return 10, errors.New("disk full") }

func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	got, err := Limits{Pids: 100}.WithDefaults()
	want := DefaultLimits()
	want.Pids = 100
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	buf := make([]byte, maxEvent)
	for _, in := range []string{"", "E", "E\x00\x00\x00", "E\x00\x00\x00\x05abc", "E\x00\x01\x00\x01", "E\xff\xff\xff\xff"} {
		if kind, b, err := readEvent(strings.NewReader(in), buf); err == nil || kind != 0 || b != nil {
			t.Errorf("%q: %q %q", in, kind, b)
		}
	}
	kind, b, err := readEvent(strings.NewReader("E\x00\x00\x00\x03abc"), buf)
	if err != nil || kind != 'E' || string(b) != "abc" {
		t.Errorf("%q %q %v", kind, b, err)
	}
	// A stage that sends more or less than it announced is cut off.
	for _, in := range []string{"D\x00\x00\x00\x05abcde", "D\x00\x00\x00\x02ab", "D\x00\x00\x00\x02abD\x00\x00\x00\x00", "Z\x00\x00\x00\x00"} {
		r := &fileReader{events: strings.NewReader(in), buf: buf, left: 4}
		if b, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: read %q, %v", in, b, err)
		}
	}
}

// TestCPUShares: a group takes every share that can be asked for, more than the
// host has too, and reads it back.
func TestCPUShares(t *testing.T) {
	t.Parallel()
	value := func(milli int) int64 {
		g := newCgroup(Limits{Pids: 100, Memory: 1 << 30, CPU: milli})
		defer g.remove()
		_, _, l := g.limits()
		return l.Value
	}
	if value(1000) == 0 {
		t.Skip("this host has no cpu cgroup for this user")
	}
	for _, milli := range []int{1, 9, 10, 11, 1500, 1024000} {
		if got := value(milli); got != int64(milli) {
			t.Errorf("%d thousandths: %d", milli, got)
		}
	}
}

// TestCPULimit: a share of a processor is kept, and read back from who keeps it.
func TestCPULimit(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes(t) {
		r, _ := mustRun(t, mode, Spec{Argv: sh("while :; do :; done"), Limits: Limits{Wall: 600 * time.Millisecond, CPU: 200}})
		l := limit(t, r, "cpu_milli")
		if l.By == "none" {
			if os.Geteuid() == 0 {
				t.Logf("%s: this host has no cpu cgroup", mode)
			}
			continue
		}
		if l.Value != 200 || !l.Hit || r.CPU > 400*time.Millisecond {
			t.Errorf("%s: %+v, %v of CPU time", mode, l, r.CPU)
		}
	}
}

// TestFirstToGo: when memory runs out, the command goes before its supervisor, and
// so does all that it began at once. A memory file in a container once ended the
// supervisor in place of the command, which was not marked yet.
func TestFirstToGo(t *testing.T) {
	t.Parallel()
	var own int
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err == nil {
		own, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err != nil || own >= firstToGo {
		t.Skipf("scores of this process: %q, %v", text, err)
	}
	for _, mode := range allModes(t) {
		_, out := mustRun(t, mode, Spec{Argv: sh("(cat /proc/self/oom_score_adj); sleep 0.2; cat /proc/$PPID/oom_score_adj")})
		if want := fmt.Sprintf("%d\n%d\n", firstToGo, own); out.stdout.String() != want {
			t.Errorf("%s: the command and then its supervisor: %q, want %q: %s", mode, out.stdout.String(), want, out.stderr.String())
		}
	}
}
