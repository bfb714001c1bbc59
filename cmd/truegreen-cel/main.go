// Command truegreen-cel evaluates the expressions of a release policy for truegreen gate,
// which starts it. It is a program of its own because the language is large: as a part of
// truegreen it would make every start of that slower, and a run starts it many times.
// See package expression for what it reads and writes.
package main

import (
	"os"

	"github.com/truegreen-dev/truegreen/verifier/expression"
)

func main() { os.Exit(expression.Serve(os.Stdin, os.Stdout)) }
