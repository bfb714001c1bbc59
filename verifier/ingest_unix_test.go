//go:build unix

package verifier

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// printed is what the test binary of a package prints with so many tests, a line of
// output each.
func printed(tests int) []byte {
	var b bytes.Buffer
	for i := range tests {
		name := fmt.Sprintf("TestThing/case_%d", i)
		fmt.Fprintf(&b, "\x16=== RUN   %s\n    thing_test.go:12: all is %s\n\x16--- PASS: %[1]s (0.01s)\n\x16=== NAME  \n", name, strings.Repeat("well ", 8))
	}
	b.WriteString("\x16PASS\n")
	return b.Bytes()
}

// ingest returns how long go tool test2json works to make events of what a test
// binary prints, and how long a judgement works to read them, each at its best of
// some rounds. It is the time of the processor, which depends little on what else the
// machine does.
func ingest(tb testing.TB, tests, rounds int) (made, read time.Duration, events int) {
	tb.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		tb.Skip("there is no go command")
	}
	out, err := exec.Command(path, "tool", "-n", "test2json").Output()
	if err != nil {
		tb.Skip("there is no go tool test2json: ", err)
	}
	tool, text := strings.TrimSpace(string(out)), printed(tests)
	made, read = time.Hour, time.Hour
	for range rounds {
		cmd := exec.Command(tool, "-t", "-p", "example.com/project")
		cmd.Stdin = bytes.NewReader(text)
		stream, err := cmd.Output()
		if err != nil {
			tb.Skip("go tool test2json: ", err)
		}
		made = min(made, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		events = bytes.Count(stream, []byte("\n"))
		o := output{}
		calls := []TestCall{o.call(4, "unit", SideHead, FormatGo, 0, string(stream), "")}
		start := worked(tb)
		f, err := NewJudgement(io.Discard, judgedOf(calls, o)).judgeAll(calls)
		read = min(read, worked(tb)-start)
		if err != nil || f.Runs[0].Pass != tests {
			tb.Fatalf("%v, %+v", err, f.Runs[0])
		}
	}
	return made, read, events
}

// worked returns the time that the processor spent on this process.
func worked(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestIngestPace: events are judged at no less than twice the speed at which go tool
// test2json makes them. It is not parallel: it counts what the whole process does.
func TestIngestPace(t *testing.T) {
	if RaceEnabled || testing.Short() {
		t.Skip("measures time")
	}
	made, read, events := ingest(t, 20_000, 5)
	t.Logf("%d events: made in %v, judged in %v: %.1f times as fast", events, made, read, made.Seconds()/read.Seconds())
	if made < 2*read {
		t.Errorf("judged in %v, made in %v", read, made)
	}
}

// BenchmarkIngest reports as "ratio" the speed of a judgement over that of go tool
// test2json.
func BenchmarkIngest(b *testing.B) {
	for b.Loop() {
		made, read, events := ingest(b, 20_000, 3)
		b.ReportMetric(made.Seconds()/read.Seconds(), "ratio")
		b.ReportMetric(float64(events)/read.Seconds(), "events/s")
	}
}
