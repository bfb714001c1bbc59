// Package conformance attacks the sandbox from inside and says what came of
// it. It is a table of attempts: each has the level at which it must fail, the
// exact errnos that it may fail with, and a control, which makes the same
// attempt outside and must succeed there. [Run] makes all of them in one mode.
//
// The program that uses the package is also the attacker: it is mounted into
// the sandbox and executed there. It calls [Child] first thing in main, after
// sandbox.Child.
//
// # How a run goes
//
//	supervisor  this program again, with secrets in the environment that it is
//	            started with; plants the targets, measures the level of the
//	            mode, makes the controls, starts sandboxes, judges
//	victim      a process beside it, a target
//	inside      this program in the sandbox: most rows one after the other in
//	            one process, rows that are Own in one each
//
// What a row says is believed only as far as its Control, After and Check go:
// they run outside. Nothing on the host is changed but for files below one
// temporary directory and files with random names in /var/tmp and, for root,
// /run; all of them are removed.
package conformance

import (
	"slices"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// A Row is one attempt.
type Row struct {
	// ID is its number in the list and never changes; a letter tells parts of
	// one attempt apart ("22c"). What must work is "must-…".
	ID    string
	Group string        // "processes", "files", "kernel", "network", "resources", "channel", "toolchain" or "must"
	Name  string        // short, lower case: "read /proc/1/environ"
	Level sandbox.Level // the least level at which it must hold
	Want  []string      // how it may end: errno names ("EPERM"), "ok", or a fact

	// Try makes the attempt inside and returns how it ended: an errno's name,
	// "ok", or a fact. It runs on a thread of its own that ends after it.
	Try func(*Inside) string
	// Control makes the same attempt outside, on the same target, and returns
	// "ok" if it succeeds there. An answer that begins with "host: " says
	// that this host refuses it outside, too: the row cannot be exercised.
	// It is nil where there is nothing to reach outside; Why says so.
	Control func(*Outside) string
	// After looks outside for what the attempt did, when the sandbox is gone,
	// and returns "ok" or what is wrong. It may be nil.
	After func(*Outside) string
	// Why says why there is no control, or why there are several ends.
	Why string
	// Needs returns "" if this host can exercise the row, else why not. It
	// may be nil.
	Needs func() string

	// Host marks rows that use programs of the host. A container has what is
	// in its image.
	Host bool

	// An Own row gets a sandbox of its own: it uses resources up, or may end
	// the process.
	Own    bool
	Limits sandbox.Limits
	// Spec changes the specification of an Own row's sandbox. It may be nil.
	Spec func(*Outside, *sandbox.Spec)
	// Check judges an Own row by the Result instead of Try's answer, and
	// returns "ok" or what is wrong. It may be nil.
	Check func(*sandbox.Result) string
}

// Outside is what the supervisor's side plants: targets that it can reach.
type Outside struct {
	Dir     string // of the host, holds the targets
	Program string // this program; inside, it is at the same path
	Work    string // a directory; inside, at the same path, the command may change what it sees of it
	Home    string // the caller's, or a made one if that cannot be read

	File, Secret string // a file that anyone may read and write, and what it holds
	Env          string // NAME=value in the environment that the supervisor was started with
	HostEnvNames []string

	UID         int // of the supervisor and the victim
	Supervisor  int // process id
	Victim      int // process id
	VictimStart string

	TCP, UDP int    // ports on 127.0.0.1
	Abstract string // name with the leading "@"
	Socket   string // path

	Key     string   // description of a key in the supervisor's user keyring, "" if there can be none
	Run     string   // a file below /run, "" if the supervisor may not make one
	Devices []string // device nodes of the host
	Disk    string   // its first block device, "" if there is none
	Goroot  string   // of the go command, "" if there is none
	Setuid  string   // id(1), owned by root with the setuid bit, "" if there can be none
	FileCap string   // cat(1) with a file capability, "" if there can be none
}

// Inside is the same, as told to the code inside (all of it: it needs no guessing).
type Inside struct {
	Outside
	Mode  sandbox.Mode
	Level sandbox.Level // measured before
}

// What the status of an Outcome can be.
const (
	Held         = "held"          // ended as it must
	Works        = "works"         // what must work does
	Open         = "OPEN"          // did not end as it must: a hole, or an errno that nobody has explained
	Broken       = "broken"        // what must work does not
	NotPromised  = "not promised"  // the level measured is below the row's
	NotExercised = "not exercised" // this host cannot exercise it; not a pass
)

// An Outcome is how one row ended in one mode.
type Outcome struct {
	Row    Row
	Mode   sandbox.Mode
	Level  sandbox.Level // measured
	Got    string
	Status string
	Why    string // of a row not exercised
}

// must reports whether the row is about what has to work.
func (r *Row) must() bool {
	return r.Group == "must" || r.After == nil && r.Check == nil && slices.Equal(r.Want, []string{"ok"})
}

// hostRefuses begins the answer of a control that proves nothing on this host.
const hostRefuses = "host: "

// judge returns the status of a row that ended so at this level.
func (r *Row) judge(level sandbox.Level, got string) string {
	good := slices.Contains(r.Want, got)
	switch {
	case level < r.Level:
		return NotPromised
	case good && r.must():
		return Works
	case good:
		return Held
	case r.must():
		return Broken
	}
	return Open
}
