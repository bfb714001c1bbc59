package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Try what this host can isolate, and say what would fix it", Args: cobra.NoArgs,
		Long: `doctor enters each kind of sandbox and probes it from inside, as a run does, and
says what would mend what is missing. It exits with 2 where tests cannot be
isolated as the default policy asks, and 0 where they can.`,
		Example: "  truegreen doctor\n  truegreen doctor --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.doctor(sandbox.Doctor(cmd.Context()))
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) doctor(checks []sandbox.Check) error {
	result := struct {
		failure
		Checks []sandbox.Check `json:"checks"`
	}{newFailure(verifier.IsolationRefused, "no mode isolates tests on this host"), checks}
	for _, c := range checks {
		if c.OK && strings.HasPrefix(c.Name, "mode ") {
			result.failure = failure{Reasons: []failureReason{}}
		}
	}
	if a.json {
		if err := a.printJSON(result); err != nil {
			return err
		}
	} else {
		a.printChecks(checks)
		for _, r := range result.Reasons {
			fmt.Fprintf(a.err, "truegreen: %s [%s]\n", r.Detail, r.Code)
		}
	}
	if result.Exit != 0 {
		return exitCode(result.Exit)
	}
	return nil
}

func (a *app) printChecks(checks []sandbox.Check) {
	for _, c := range checks {
		mark := a.color("32", "ok  ")
		if !c.OK {
			mark = a.color("33", "no  ")
		}
		fmt.Fprintf(a.out, "%s %-24s %s\n", mark, c.Name, oneLine(c.Detail))
		if c.Fix != "" {
			fmt.Fprintf(a.out, "     %s\n", oneLine(c.Fix))
		}
	}
}
