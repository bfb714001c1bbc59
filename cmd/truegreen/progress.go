package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// progress tells on standard error how a run gets on: on a terminal in one line
// that changes, elsewhere in a line for each kind of step. What it says of tests is
// what they print, and proves nothing.
type progress struct {
	a     *app
	live  bool
	start time.Time
	mu    sync.Mutex
	steps []*step         // at work, the first to begin first
	last  string          // name of the step that was at work last
	said  map[string]bool // names of steps that have had their line
	shown time.Time
	stop  chan struct{}
}

// A step is at work, perhaps beside others, once or several times.
type step struct {
	name       string
	times      int
	pass, fail int
}

const clearLine = "\r\x1b[K"

func newProgress(a *app) *progress {
	p := &progress{a: a, live: isTerminal(a.err) && a.getenv("TERM") != "dumb", start: time.Now(), said: map[string]bool{}, stop: make(chan struct{})}
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
		if s := p.at(e); p.live && s != nil {
			s.count(e.Output)
			if time.Since(p.shown) > 100*time.Millisecond {
				p.line()
			}
		}
		return
	case e.Done:
		p.end(e)
		return
	}
	name := stepName(e)
	if s := p.at(e); s != nil {
		s.times++
	} else {
		p.steps = append(p.steps, &step{name: name, times: 1})
	}
	p.last = name
	if p.live {
		p.line()
	} else if !p.a.json && !p.said[name] {
		p.said[name] = true
		fmt.Fprintf(p.a.err, "truegreen: %s\n", name)
	}
}

func stepName(e runner.Event) string {
	if e.Detail == "" {
		return e.Step
	}
	return e.Step + " " + oneLine(e.Detail)
}

// at returns the step that an event is about, nil if it is not at work.
func (p *progress) at(e runner.Event) *step {
	name := stepName(e)
	if i := slices.IndexFunc(p.steps, func(s *step) bool { return s.name == name }); i >= 0 {
		return p.steps[i]
	}
	return nil
}

func (p *progress) end(e runner.Event) {
	if e.Detail == "" {
		p.steps = slices.DeleteFunc(p.steps, func(s *step) bool { return s.name == e.Step || strings.HasPrefix(s.name, e.Step+" ") })
	} else if s := p.at(e); s != nil {
		if s.times--; s.times == 0 {
			p.steps = slices.DeleteFunc(p.steps, func(o *step) bool { return o == s })
		}
	}
}

// count looks for the results of tests in a line of go test -json.
func (s *step) count(line []byte) {
	var e struct{ Action, Test string }
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Test == "" {
		return
	}
	switch e.Action {
	case "pass":
		s.pass++
	case "fail":
		s.fail++
	}
}

func (p *progress) line() {
	p.shown = time.Now()
	text := p.last
	if len(p.steps) > 0 {
		s, more := p.steps[0], -1
		text = s.name
		if s.pass+s.fail > 0 {
			text += fmt.Sprintf("  %d passed, %d failed so far", s.pass, s.fail)
		}
		for _, o := range p.steps {
			more += o.times
		}
		if more > 0 {
			text += fmt.Sprintf(", and %d more", more)
		}
	}
	fmt.Fprintf(p.a.err, clearLine+"%s  %ds", text, int(time.Since(p.start).Seconds()))
}

func (p *progress) close() {
	close(p.stop)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		fmt.Fprint(p.a.err, clearLine)
	}
}
