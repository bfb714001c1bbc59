package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// progress tells on standard error how a run gets on: on a terminal in one line
// that changes, elsewhere in a line for each step. What it says of tests is what
// they print, and proves nothing.
type progress struct {
	a     *app
	live  bool
	start time.Time
	mu    sync.Mutex
	step  string
	shown time.Time
	pass  int
	fail  int
	stop  chan struct{}
}

const clearLine = "\r\x1b[K"

func newProgress(a *app) *progress {
	p := &progress{a: a, live: isTerminal(a.err) && a.getenv("TERM") != "dumb", start: time.Now(), stop: make(chan struct{})}
	if p.live {
		go p.tick()
	}
	return p
}

// tick keeps the elapsed time moving while nothing else does.
func (p *progress) tick() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.mu.Lock()
			p.line()
			p.mu.Unlock()
		}
	}
}

func (p *progress) event(e runner.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Step == "note": // stays, whatever comes after it
		if p.live {
			fmt.Fprint(p.a.err, clearLine)
		}
		fmt.Fprintf(p.a.err, "truegreen: %s\n", oneLine(e.Detail))
		return
	case e.Output != nil:
		if !p.live {
			return
		}
		p.count(e.Output)
		if time.Since(p.shown) > 100*time.Millisecond {
			p.line()
		}
		return
	case e.Done:
		return
	}
	p.step, p.pass, p.fail = e.Step, 0, 0
	if e.Detail != "" {
		p.step += " " + oneLine(e.Detail)
	}
	if p.live {
		p.line()
	} else if !p.a.json {
		fmt.Fprintf(p.a.err, "truegreen: %s\n", p.step)
	}
}

// count looks for the results of tests in a line of go test -json.
func (p *progress) count(line []byte) {
	var e struct{ Action, Test string }
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Test == "" {
		return
	}
	switch e.Action {
	case "pass":
		p.pass++
	case "fail":
		p.fail++
	}
}

func (p *progress) line() {
	p.shown = time.Now()
	tests := ""
	if p.pass+p.fail > 0 {
		tests = fmt.Sprintf("  %d passed, %d failed so far", p.pass, p.fail)
	}
	fmt.Fprintf(p.a.err, clearLine+"%s%s  %ds", p.step, tests, int(time.Since(p.start).Seconds()))
}

func (p *progress) close() {
	close(p.stop)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		fmt.Fprint(p.a.err, clearLine)
	}
}
