package prepush

import "fmt"

// A Mode says what a push comes to whose commits have no evidence.
type Mode string

// The modes.
const (
	Require Mode = "require" // it is blocked, with the command that makes evidence
	Run     Mode = "run"     // the evidence is made, and a bad verdict blocks
	Warn    Mode = "warn"    // it is said, and the push goes on
)

// ParseMode reads the name of a mode.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Require, Run, Warn:
		return m, nil
	}
	return "", fmt.Errorf("mode %q: want %s, %s or %s", s, Require, Run, Warn)
}

// A Standing is what is known of a commit that a push brings to a remote.
type Standing int

// The standings. The zero Standing is that there is no evidence.
const (
	Missing   Standing = iota // no run counts
	Bad                       // the newest run that counts failed
	Untested                  // there is no commit, or none that can be looked at: no run could count
	Unchanged                 // its tree is that of its base, which the remote has
	ByTree                    // a run on the same tree against another base: it ran, and no more
	Proved                    // a run on the same tree against the same base tree
)

// Passes reports whether a commit of this standing may be pushed.
func (s Standing) Passes() bool { return s >= Unchanged }

// Decide says what a push comes to: which of its commits are to be run first, or which
// block it. There are never both: what would be blocked in any case is not run. In mode
// warn those that would block are returned as well, and pass says that they do not.
func Decide(m Mode, standings []Standing) (run, block []int, pass bool) {
	for i, s := range standings {
		switch {
		case s.Passes():
		case m == Run && s == Missing:
			run = append(run, i)
		default:
			block = append(block, i)
		}
	}
	if len(block) > 0 {
		run = nil
	}
	return run, block, len(block) == 0 || m == Warn
}
