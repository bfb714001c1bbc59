package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/truegreen-dev/truegreen/verifier"
)

const (
	celProgram = "truegreen-cel"
	celTime    = time.Minute // for one report
)

// requirements are expressions that a program of its own evaluates: the language would
// make every start of this one slower.
type requirements struct {
	program string
	sources []string
}

// compileRequirements finds the program and has it compile the expressions.
func compileRequirements(sources []string) (verifier.Requirements, error) {
	program, err := findProgram(celProgram)
	if err != nil {
		return nil, fmt.Errorf("require: %s evaluates expressions, and %w", celProgram, err)
	}
	r := &requirements{program, sources}
	compiled, err := r.ask(nil)
	if err == nil && !compiled {
		err = errors.New("no answer")
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// findProgram looks for a program of ours beside this one, and then on the PATH.
func findProgram(program string) (string, error) {
	name := program
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), name); isFile(path) {
			return path, nil
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("is neither beside truegreen nor on the PATH: go install github.com/truegreen-dev/truegreen/cmd/%s@latest", program)
	}
	return path, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Check implements [verifier.Requirements]. Without an answer no expression is met.
func (r *requirements) Check(report []byte) error {
	compiled, err := r.ask(report)
	if err == nil && !compiled {
		err = errors.New("no answer")
	}
	return err
}

func (r *requirements) ask(report []byte) (compiled bool, err error) {
	question, err := json.Marshal(struct {
		Expressions []string        `json:"expressions"`
		Report      json.RawMessage `json:"report,omitempty"`
	}{r.sources, report})
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), celTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.program)
	cmd.Stdin, cmd.Env = bytes.NewReader(question), []string{"SystemRoot=" + os.Getenv("SystemRoot")}
	out, err := cmd.Output()
	if err != nil {
		return false, fmt.Errorf("%s: %w", celProgram, err)
	}
	var answer struct {
		Compiled bool   `json:"compiled"`
		Error    string `json:"error"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return false, fmt.Errorf("%s: %w", celProgram, err)
	}
	if answer.Error != "" {
		return answer.Compiled, errors.New(answer.Error)
	}
	return answer.Compiled, nil
}
