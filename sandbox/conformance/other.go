//go:build !linux || !(amd64 || arm64)

package conformance

import (
	"context"
	"errors"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// Modes returns none: there is no sandbox here.
func Modes() []sandbox.Mode { return nil }

// Rows returns none.
func Rows() []Row { return nil }

// Run refuses.
func Run(context.Context, sandbox.Mode, string) ([]Outcome, error) {
	return nil, errors.New("conformance: the sandbox exists on linux (amd64, arm64) only")
}

// Child returns at once.
func Child() {}
