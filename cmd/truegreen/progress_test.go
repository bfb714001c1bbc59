package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// TestProgressBeside: of steps side by side each has its own numbers, and the line
// is about one that is at work.
func TestProgressBeside(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{a: &app{err: &out}, live: true, start: time.Now(), said: map[string]bool{}, stop: make(chan struct{})}
	begin := func(detail string) runner.Event { return runner.Event{Step: "test", Detail: detail} }
	end := func(detail string) runner.Event { return runner.Event{Step: "test", Detail: detail, Done: true} }
	line := func(detail, action string) runner.Event {
		return runner.Event{Step: "test", Detail: detail, Output: []byte(`{"Action":"` + action + `","Package":"p","Test":"T"}`)}
	}
	for i, step := range []struct {
		event runner.Event
		want  string
	}{
		{runner.Event{Step: "materialise", Detail: "head 1"}, "materialise head 1"},
		{runner.Event{Step: "materialise", Done: true}, "materialise head 1"},
		{begin("go on head"), "test go on head"},
		{begin("go on base"), "test go on head, and 1 more"},
		{line("go on base", "fail"), "test go on head, and 1 more"},
		{line("go on head", "pass"), "test go on head  1 passed, 0 failed so far, and 1 more"},
		{end("go on head"), "test go on base  0 passed, 1 failed so far"},
		{end("left out on head"), "test go on base  0 passed, 1 failed so far"},
		{begin("go mutant on head"), "test go on base  0 passed, 1 failed so far, and 1 more"},
		{begin("go mutant on head"), "test go on base  0 passed, 1 failed so far, and 2 more"},
		{end("go on base"), "test go mutant on head, and 1 more"},
		{end("go mutant on head"), "test go mutant on head"},
		{end("go mutant on head"), "test go mutant on head"},
	} {
		p.event(step.event)
		out.Reset()
		p.line()
		got := regexp.MustCompile(`  \d+s$`).ReplaceAllString(strings.TrimPrefix(out.String(), clearLine), "")
		if got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// TestProgressLines: without a terminal a kind of step has one line, however often
// it is made.
func TestProgressLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{a: &app{err: &out}, start: time.Now(), said: map[string]bool{}, stop: make(chan struct{})}
	for range 3 {
		p.event(runner.Event{Step: "test", Detail: "go mutant on head"})
		p.event(runner.Event{Step: "test", Detail: "go mutant on head", Done: true})
	}
	p.event(runner.Event{Step: "judge"})
	if want := "truegreen: test go mutant on head\ntruegreen: judge\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
