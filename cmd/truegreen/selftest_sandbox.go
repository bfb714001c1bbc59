package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/sandbox/conformance"
	"github.com/truegreen-dev/truegreen/verifier"
)

// attacked is what came of one mode.
type attacked struct {
	Mode         sandbox.Mode `json:"mode"`
	Offered      bool         `json:"offered"`
	Level        string       `json:"level,omitempty"` // measured
	Held         int          `json:"held"`
	Works        int          `json:"works"`
	Open         int          `json:"open"`
	Broken       int          `json:"broken"`
	NotPromised  int          `json:"not_promised"`
	NotExercised int          `json:"not_exercised"`
	Error        string       `json:"error,omitempty"` // why it is not offered, or what went wrong
	Rows         []attackRow  `json:"rows,omitempty"`
}

// well reports whether every attempt that counts ended as it must, and some did.
func (m *attacked) well() bool {
	return m.Offered && m.Error == "" && m.Open == 0 && m.Broken == 0 && m.Held > 0
}

type attackRow struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Level  string   `json:"level"`
	Want   []string `json:"want"`
	Got    string   `json:"got,omitempty"`
	Status string   `json:"status"`
	Why    string   `json:"why,omitempty"`
}

// selftestSandbox attacks the sandbox in every mode, that of containers if there
// is an image for it.
func (a *app) selftestSandbox(ctx context.Context, only, image string, matrix bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM) // nothing planted is to stay behind
	defer stop()
	var modes []attacked
	var columns []conformance.Column
	offered, sound := false, true
	list := conformance.Modes()
	if image != "" {
		list = append(list, sandbox.ModeContainer)
	}
	if only != "" {
		if !slices.Contains(list, sandbox.Mode(only)) {
			return usage("--mode %s: want one of %v; container needs --image", only, list)
		}
		list = []sandbox.Mode{sandbox.Mode(only)}
	}
	for _, mode := range list {
		outcomes, err := conformance.Run(ctx, mode, image)
		if ctx.Err() != nil {
			return exitCode(130)
		}
		m := attack(mode, outcomes, err)
		offered = offered || m.Offered
		sound = sound && (!m.Offered || m.well())
		if !a.json && !matrix {
			a.printAttacked(&m)
		}
		modes = append(modes, m)
		if m.Offered {
			columns = append(columns, conformance.Column{Name: string(mode), Outcomes: outcomes})
		}
	}
	result := struct {
		failure
		Modes []attacked `json:"modes"`
	}{failure{Reasons: []failureReason{}}, modes}
	if !offered {
		result.failure = newFailure(verifier.IsolationRefused, "no mode isolates tests on this host")
	} else if !sound {
		result.failure = newFailure(verifier.Internal, "the sandbox does not hold what it promises, or the self-test could not find out")
	}
	switch {
	case a.json:
		if err := a.printJSON(result); err != nil {
			return err
		}
	default:
		if matrix {
			if _, err := fmt.Fprint(a.out, conformance.Markdown(columns...)); err != nil {
				return err
			}
		}
		for _, r := range result.Reasons {
			fmt.Fprintf(a.err, "truegreen: %s [%s]\n", r.Detail, r.Code)
		}
	}
	if result.Exit != 0 {
		return exitCode(result.Exit)
	}
	return nil
}

// attack counts the outcomes of one mode.
func attack(mode sandbox.Mode, outcomes []conformance.Outcome, err error) attacked {
	m := attacked{Mode: mode, Offered: true}
	if err != nil {
		var refused *sandbox.RefusedError
		m.Error, m.Offered = err.Error(), !errors.As(err, &refused)
	}
	counts := map[string]*int{
		conformance.Held: &m.Held, conformance.Works: &m.Works, conformance.Open: &m.Open, conformance.Broken: &m.Broken,
		conformance.NotPromised: &m.NotPromised, conformance.NotExercised: &m.NotExercised,
	}
	for _, o := range outcomes {
		m.Level = o.Level.String()
		*counts[o.Status]++
		if o.Level == sandbox.LevelNone && m.Error == "" {
			m.Error = "the level measured is none: nothing was promised, so nothing held"
		}
		m.Rows = append(m.Rows, attackRow{
			ID: o.Row.ID, Name: o.Row.Name, Level: o.Row.Level.String(), Want: o.Row.Want, Got: o.Got, Status: o.Status, Why: o.Why,
		})
	}
	return m
}

func (a *app) printAttacked(m *attacked) {
	if !m.Offered {
		fmt.Fprintf(a.out, "no    %-10s %s\n", m.Mode, oneLine(m.Error))
		return
	}
	mark := a.color("32", "ok  ")
	if !m.well() {
		mark = a.color("31", "FAIL")
	}
	fmt.Fprintf(a.out, "%s  %-10s level %s: %d attempts held, %d needs met, %d open, %d broken, %d not promised, %d not exercised\n",
		mark, m.Mode, m.Level, m.Held, m.Works, m.Open, m.Broken, m.NotPromised, m.NotExercised)
	for _, r := range m.Rows {
		if r.Status == conformance.Open || r.Status == conformance.Broken {
			fmt.Fprintf(a.out, "      %s: %s, %s: got %s, want %v\n", r.Status, r.ID, oneLine(r.Name), oneLine(r.Got), r.Want)
		}
	}
	if m.Error != "" {
		fmt.Fprintf(a.out, "      %s\n", oneLine(m.Error))
	}
}
