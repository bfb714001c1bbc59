// Command truegreen runs a patch's tests in a sandbox, seals the evidence into
// one file and verifies such files anywhere.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/internal/prepush"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/sandbox/conformance"
	"github.com/truegreen-dev/truegreen/verifier"
)

func main() {
	sandbox.Child()     // a stage of a sandbox, or the process that signs
	conformance.Child() // a part of the self-test of the sandbox
	hideEnvironment(runsTests(os.Args[1:]))
	os.Exit(run(os.Args[1:]))
}

// runsTests reports whether a command may run tests, which could look into /proc.
func runsTests(args []string) bool {
	switch {
	case len(args) == 0:
		return false
	case args[0] == "ci":
		return os.Getenv("INPUT_MODE") == modeRun
	case args[0] == "hook":
		return slices.Contains(args, string(prepush.Run)) || slices.Contains(args, "--mode="+string(prepush.Run))
	}
	return args[0] == "run" || args[0] == "reproduce"
}

// run executes one command and returns its exit code.
func run(args []string) int {
	stdout := &output{f: os.Stdout}
	a := &app{out: stdout, err: os.Stderr, getenv: os.Getenv}
	code := a.guard(func() int { return a.execute(args) })
	if stdout.err != nil {
		// What could not be shown was not said, so it does not count.
		a.json = false
		return a.fail(&codeError{verifier.Unreadable, fmt.Errorf("standard output: %w", stdout.err)})
	}
	return code
}

// guard turns a panic of f into an exit code that is no verdict.
func (a *app) guard(f func() int) (code int) {
	defer func() {
		if p := recover(); p != nil {
			code = a.fail(&codeError{verifier.Internal, fmt.Errorf("%v\n%s", p, debug.Stack())})
		}
	}()
	return f()
}

func (a *app) execute(args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	started := false // until then, errors are about flags and arguments
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	a.json = asksForJSON(args)
	err := root.ExecuteContext(context.Background())
	var exit exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case !started:
		err = &codeError{verifier.Usage, err}
	}
	return a.fail(err)
}

// asksForJSON looks for --json by itself: arguments that do not parse are
// answered in JSON too.
func asksForJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "truegreen",
		Short: "A green check that anyone can verify",
		Long: `truegreen runs a patch's tests in a clean sandbox, records every step as
receipted, hash-chained evidence, seals it into one file, and verifies such
files anywhere, offline.

A command that makes or reads a bundle exits with what the bundle proves:
0 verified, 1 failed, 3 unproven, 4 broken. 2 means that there is no verdict.
Every exit code but 0 comes with the reasons; docs/reasons.md explains each.`,
		Example: `  truegreen run                              # test HEAD against its base
  truegreen verify evidence.tar.zst          # check a bundle, on any machine
  truegreen inspect evidence.tar.zst         # every step, with its receipt`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		a.runCommand(), a.verifyCommand(), a.inspectCommand(), a.extractCommand(), a.proveCommand(), a.exportCommand(), a.reproduceCommand(), a.gateCommand(), a.ciCommand(),
		a.initCommand(), a.hookCommand(), a.keyCommand(), a.trustCommand(), a.policyCommand(), a.waiverCommand(), a.storeCommand(), a.receiptCommand(), a.guardCommand(), a.doctorCommand(), a.demoCommand(),
		a.selftestCommand(), a.versionCommand(),
	)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Example = "  source <(truegreen completion bash)"
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() } // which checks the arguments too
		}
	}
	return root
}

// helpCommand is cobra's, but for the exit code where there is no such command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Explain a command",
		Example: "  truegreen help run",
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, c := range cmd.Root().Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usage("no command %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
