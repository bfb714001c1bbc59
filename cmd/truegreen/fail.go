package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// exitCode is an error that says nothing more: the command has printed.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitWith ends a command with the exit code of a report that was printed.
func exitWith(r verifier.Report) error { return exitWithVerdict(r.Verdict()) }

func exitWithVerdict(v verifier.Verdict) error {
	if code := v.Exit(); code != 0 {
		return exitCode(code)
	}
	return nil
}

// codeError is an error with its reason.
type codeError struct {
	code verifier.Code
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }
func (e *codeError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &codeError{verifier.Usage, fmt.Errorf(format, args...)}
}

// codeOf returns the reason why a command could not give a verdict. An error
// that nobody has foreseen is this program's.
func codeOf(err error) verifier.Code {
	var (
		coded   *codeError
		selects *runner.SelectError
		repo    *runner.RepositoryError
		refused *sandbox.RefusedError
		path    *fs.PathError
		link    *os.LinkError
	)
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &selects):
		return selects.Code
	case errors.As(err, &repo):
		return repo.Code
	case errors.As(err, &refused):
		return verifier.IsolationRefused
	case errors.Is(err, context.Canceled):
		return verifier.Interrupted
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return verifier.DiskFull
	case errors.Is(err, exec.ErrNotFound): // git is all that is looked up
		return verifier.GitMissing
	case errors.As(err, &path), errors.As(err, &link):
		return verifier.Unreadable
	}
	return verifier.Internal
}

// A failure is what a command with --json prints that has no report.
type failure struct {
	Verdict *verifier.Verdict `json:"verdict"`
	Exit    int               `json:"exit_code"`
	Reasons []failureReason   `json:"reasons"`
}

type failureReason struct {
	Code   verifier.Code `json:"code"`
	Detail string        `json:"detail"`
	Remedy string        `json:"remedy"`
}

func newFailure(code verifier.Code, detail string) failure {
	f := failure{Exit: 2, Reasons: []failureReason{}}
	cause, _ := verifier.CauseOf(code)
	if cause.Verdict != "" {
		f.Verdict, f.Exit = &cause.Verdict, cause.Verdict.Exit()
	}
	f.Reasons = append(f.Reasons, failureReason{code, detail, cause.Remedy})
	return f
}

// fail prints why there is no report and returns the exit code.
func (a *app) fail(err error) int {
	f := newFailure(codeOf(err), err.Error())
	if a.json {
		if a.printJSON(f) == nil {
			return f.Exit
		}
	}
	verdict := "no verdict"
	if f.Verdict != nil {
		verdict = string(*f.Verdict)
	}
	indent := ""
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(a.err, "truegreen: %s%s\n", indent, oneLine(line))
			indent = "  " // what an error quotes cannot begin a message of ours
		}
	}
	fmt.Fprintf(a.err, "truegreen: %s [%s]: %s\n", verdict, f.Reasons[0].Code, f.Reasons[0].Remedy)
	return f.Exit
}
