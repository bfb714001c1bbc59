//go:build amd64 || arm64

package conformance

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// What the rows that use something up are held to. Every one has an end of
// its own a little past the limit, should nothing stop it.
const (
	bombPids   = 64
	bombMemory = 256 << 20
	bombDisk   = 32 << 20
	bombOutput = 1 << 20
	bombWall   = time.Second
)

// longWall is for rows in which time is not the limit: how busy the host is
// must not decide.
const longWall = time.Minute

const bombWhy = "no control: outside it would hit the host"

func resourceRows() []Row {
	row := func(id, name, want string, l sandbox.Limits) Row {
		if l.Wall == 0 {
			l.Wall = longWall
		}
		return Row{ID: id, Group: "resources", Name: name, Level: sandbox.LevelRestricted, Want: []string{want}, Own: true, Limits: l, Why: bombWhy}
	}
	return slices.Concat(countRows(row), memoryRows(row), diskRows(row), streamRows(row), timeRows(row), tableRows(row))
}

type makeRow func(id, name, want string, l sandbox.Limits) Row

func countRows(row makeRow) []Row {
	fork := row("80", "fork bomb", "EAGAIN", sandbox.Limits{Pids: bombPids})
	fork.Try = insist("EAGAIN", forkBomb)
	fork.Check = func(r *sandbox.Result) string {
		return first(exited(r, 0), limited(r, "pids", bombPids), "EAGAIN")
	}
	thread := row("81", "thread bomb", "EAGAIN", sandbox.Limits{Pids: bombPids})
	thread.Try = func(*Inside) string { return threadBomb() }
	thread.Check = func(r *sandbox.Result) string {
		return first(exited(r, exitNoThread), limited(r, "pids", bombPids), "EAGAIN")
	}
	thread.Why = "the Go runtime ends a process that is refused a thread with code 2; " + bombWhy
	open := row("83", "open files without end", "EMFILE", sandbox.Limits{})
	open.Try = insist("EMFILE", openMany)
	open.Check = func(r *sandbox.Result) string { return first(exited(r, 0), hostOpens(), "EMFILE") }
	fork.Level, thread.Level = walls, walls // in mode restricted, an ordinary user's processes are not counted
	return []Row{fork, thread, open}
}

func memoryRows(row makeRow) []Row {
	bomb := func(id, name string, f func() string) Row {
		r := row(id, name, "stopped", sandbox.Limits{Memory: bombMemory})
		r.Try = func(*Inside) string { return f() }
		r.Check = func(res *sandbox.Result) string {
			if id == "82d" && exited(res, 0) == "" {
				return "stopped" // it could not be made: see Try
			}
			return first(limited(res, "memory", bombMemory), "stopped")
		}
		return r
	}
	return []Row{
		bomb("82a", "memory of one process", func() string { return touch(2 * bombMemory) }),
		bomb("82b", "memory of many processes", touchMany),
		bomb("82c", "memory in a memfd that nobody maps", fillMemfd),
		bomb("82d", "memory in a System V segment that nobody maps", segmentOrNone),
	}
}

func diskRows(row makeRow) []Row {
	var rows []Row
	for _, d := range []struct{ id, dir string }{{"82e", "/tmp"}, {"82f", "/dev/shm"}} {
		r := row(d.id, "fill "+d.dir, "ENOSPC", sandbox.Limits{Disk: bombDisk})
		r.Level = walls // below, nothing is mounted
		r.Try = insist("ENOSPC", func() string { return fill(d.dir+"/fill", 2*bombDisk) })
		r.Check = func(res *sandbox.Result) string {
			return first(exited(res, 0), limited(res, "disk", bombDisk), "ENOSPC")
		}
		rows = append(rows, r)
	}
	return rows
}

func streamRows(row makeRow) []Row {
	flood := func(id, name string, fd int, size int64) Row {
		r := row(id, name, "drained", sandbox.Limits{Output: bombOutput})
		r.Try = func(*Inside) string { return pour(fd, size) }
		r.Check = func(res *sandbox.Result) string {
			s := res.Stdout
			if fd == 2 {
				s = res.Stderr
			}
			if s.Kept != bombOutput || s.Total < size {
				return fmt.Sprintf("kept %d of %d bytes", s.Kept, s.Total)
			}
			return first(exited(res, 0), "drained")
		}
		r.Spec = func(_ *Outside, spec *sandbox.Spec) { spec.Stdout, spec.Stderr = io.Discard, io.Discard }
		r.Why = "past the limit bytes are counted and dropped, and the command is not held up"
		return r
	}
	out := flood("84a", "1 GiB on standard output, one line", 1, 1<<30)
	errs := flood("84b", "1 GiB on standard error, one line", 2, 1<<30)
	long := flood("84c", "10 GiB on standard output, one line", 1, 10<<30)
	long.Needs = needsTime

	in := row("85a", "wait for standard input", "end of file", sandbox.Limits{})
	in.Try = insist("end of file", readInput)
	in.Check = func(r *sandbox.Result) string { return first(exited(r, 0), "end of file") }
	in.Why = "standard input is /dev/null"
	closed := row("85b", "close the output and go on", "waited for", sandbox.Limits{})
	closed.Try = func(*Inside) string { return closeOutput() }
	closed.Check = func(r *sandbox.Result) string { return first(exited(r, exitClosed), "waited for") }
	closed.Why = "the end of the output is not the end of the command, whose exit code says that it ended itself"
	held := row("89", "descendant that holds the output open", "not waited for", sandbox.Limits{})
	held.Try = insist("left", leaveDescendant)
	held.Check = func(r *sandbox.Result) string { return first(exited(r, 0), "not waited for") }
	held.Why = "it has its own session, ignores signals and lives longer than the wall limit"
	return []Row{out, errs, long, in, closed, held}
}

func timeRows(row makeRow) []Row {
	late := func(id, name string, f func()) Row {
		r := row(id, name, "timeout", sandbox.Limits{Wall: bombWall})
		r.Try = func(*Inside) string { f(); return "went on" }
		r.Check = func(res *sandbox.Result) string {
			if res.State != sandbox.StateTimeout {
				return exited(res, -1)
			}
			return first(limited(res, "wall_ms", bombWall.Milliseconds()), "timeout")
		}
		r.Why = "no control: outside nothing would end it"
		return r
	}
	return []Row{
		late("85c", "block on a pipe that nobody reads", blockOnPipe),
		late("86", "spin past the wall limit", spin),
		late("87", "stop oneself", func() { unix.Kill(os.Getpid(), unix.SIGSTOP) }),
	}
}

// insist is the Try of a row that is judged by its Result: an answer that is not
// the one wanted ends the command with a code that no Check takes.
func insist(want string, f func() string) func(*Inside) string {
	return func(*Inside) string {
		got := f()
		if got != want {
			fmt.Fprintln(os.Stderr, got)
			os.Exit(exitWrong)
		}
		return got
	}
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	return texts[slices.IndexFunc(texts, func(s string) bool { return s != "" })]
}

// exited says what is wrong with an end that should be an exit with a code.
func exited(r *sandbox.Result, code int) string {
	if r.State == sandbox.StateExited && r.Exit == code {
		return ""
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s %d %s %s", r.State, r.Exit, r.Signal, r.Why)), " ")
}

// limited says what is wrong with a limit that should have been in force and
// hit.
func limited(r *sandbox.Result, name string, value int64) string {
	i := slices.IndexFunc(r.Isolation.Limits, func(l sandbox.Limit) bool { return l.Name == name })
	if i < 0 {
		return "no limit " + name
	}
	switch l := r.Isolation.Limits[i]; {
	case l.By == "none":
		return "nobody limits " + name
	case l.Value != value:
		return "limit " + name + " is " + strconv.FormatInt(l.Value, 10)
	case !l.Hit && l.By != "rlimit" && r.Isolation.Mode != sandbox.ModeContainer: // which do not count refusals
		return "limit " + name + " by " + l.By + " was not hit"
	}
	return ""
}

// needsTime keeps a row out of quick runs.
func needsTime() string {
	if os.Getenv("TRUEGREEN_FULL") == "" {
		return "takes long; TRUEGREEN_FULL=1 includes it"
	}
	return ""
}
