package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) doctorCommand() *cobra.Command {
	var image string
	var probes bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Try what this host can isolate, and say what would fix it", Args: cobra.NoArgs,
		Long: `doctor enters each kind of sandbox and probes it from inside, as a run does, and
says what would mend what is missing. It exits with 2 where tests cannot be
isolated as the default policy asks, and 0 where they can. With --image it tries
mode container, which level 2 needs, too.`,
		Example: "  truegreen doctor\n  truegreen doctor --probes --image golang:1.26\n  truegreen doctor --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := sandbox.Doctor(cmd.Context())
			var probed []probedMode
			if image != "" {
				checks = append(checks, checkImage(cmd.Context(), image))
			}
			if probes {
				probed = probeModes(cmd.Context(), image)
			}
			return a.doctor(checks, probed)
		},
	}
	cmd.Flags().StringVar(&image, "image", "", "try mode container with this image, which the engine must have")
	cmd.Flags().BoolVar(&probes, "probes", false, "list every probe of every mode, and what it got")
	completes(cmd, map[string]string{"image": ""})
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) doctor(checks []sandbox.Check, probed []probedMode) error {
	result := struct {
		failure
		Checks []sandbox.Check `json:"checks"`
		Probes []probedMode    `json:"probes,omitempty"`
	}{newFailure(verifier.IsolationRefused, "no mode isolates tests on this host as the default policy asks"), checks, probed}
	for _, c := range checks {
		// These two reach level 3, or are not OK.
		if c.OK && (c.Name == "mode "+string(sandbox.ModeRootDrop) || c.Name == "mode "+string(sandbox.ModeUserNS)) {
			result.failure = failure{Reasons: []failureReason{}}
		}
	}
	if a.json {
		if err := a.printJSON(result); err != nil {
			return err
		}
	} else {
		a.printChecks(checks)
		a.printProbes(probed)
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

// A probedMode is what the probes got in one mode.
type probedMode struct {
	Mode   sandbox.Mode     `json:"mode"`
	Level  int              `json:"level"`
	Why    string           `json:"why,omitempty"` // there are no probes
	Probes []receipts.Probe `json:"probes"`
}

// enter runs a command that does nothing in one mode.
func enter(ctx context.Context, mode sandbox.Mode, image string, least sandbox.Level) (sandbox.Isolation, error) {
	r, err := sandbox.Run(ctx, sandbox.Spec{
		Argv: []string{"true"}, Env: []string{"PATH=/usr/bin:/bin"}, Modes: []sandbox.Mode{mode}, Image: image, MinLevel: least,
	})
	return r.Isolation, err
}

// checkImage finds out what mode container reaches with an image.
func checkImage(ctx context.Context, image string) sandbox.Check {
	c := sandbox.Check{Name: "mode " + string(sandbox.ModeContainer)}
	iso, err := enter(ctx, sandbox.ModeContainer, image, sandbox.LevelContainer)
	var refused *sandbox.RefusedError
	switch {
	case err == nil:
		c.OK = true
		c.Detail = fmt.Sprintf("level %s, uid %d, %d probes, via %s, image %s", iso.Level, iso.UID, len(iso.Probes), iso.Via, iso.Image)
	case errors.As(err, &refused) && len(refused.Attempts) > 0:
		c.Detail, c.Fix = refused.Attempts[0].Why, refused.Attempts[0].Fix
	default:
		c.Detail = err.Error()
	}
	return c
}

// probeModes enters every mode but none, whatever level it reaches.
func probeModes(ctx context.Context, image string) []probedMode {
	list := []probedMode{}
	for _, mode := range sandbox.DefaultModes() {
		if mode == sandbox.ModeContainer && image == "" {
			continue
		}
		iso, err := enter(ctx, mode, image, sandbox.LevelNone)
		p := probedMode{Mode: mode, Level: int(iso.Level), Probes: []receipts.Probe{}}
		for _, probe := range iso.Probes {
			p.Probes = append(p.Probes, receipts.Probe(probe))
		}
		if err != nil {
			p.Why = err.Error()
		}
		list = append(list, p)
	}
	return list
}

func (a *app) printProbes(list []probedMode) {
	for _, m := range list {
		fmt.Fprintf(a.out, "probes of mode %s: ", m.Mode)
		if m.Why != "" {
			fmt.Fprintln(a.out, oneLine(m.Why))
			continue
		}
		fmt.Fprintf(a.out, "level %s\n", sandbox.Level(m.Level))
		for _, p := range m.Probes {
			mark := "ok"
			if !p.OK {
				mark = "no"
			}
			fmt.Fprintf(a.out, "  %s %-18s %s\n", mark, oneLine(p.Name), oneLine(p.Got))
		}
	}
}
