package verifier

import "fmt"

// ReadExit reads a run of which nothing is known but its exit code, negative if
// the process did not exit by itself. It is the weakest format: one test named
// "command" in a suite of the same name, with the signal exit-code-only.
func ReadExit(exit int) Reading {
	const name = "command"
	c := newCollector(FormatExit)
	c.signal(sigExitOnly, "", "", "")
	t := Test{Suite: name, Name: name}
	switch {
	case exit == 0:
		t.Outcome = Pass
	case exit > 0:
		t.Outcome, t.Kind, t.Detail = Fail, kindExit, fmt.Sprintf("exit status %d", exit)
	default:
		t.Outcome = Unfinished
		c.signal(sigTestUnfinished, name, name, "")
	}
	c.addTest(t)
	c.addSuite(Suite{Name: name, Outcome: t.Outcome, Kind: t.Kind, Tests: 1})
	return c.finish(exit)
}
