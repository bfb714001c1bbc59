//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
)

// What this package does exists for Linux on amd64 and arm64 only. Elsewhere
// everything refuses; nothing runs with less isolation than was asked for.

type remote struct{}

func elsewhere() Fallback {
	return Fallback{
		Mode: ModeRootDrop,
		Why:  "no sandbox for " + runtime.GOOS + "/" + runtime.GOARCH,
		Fix:  inDocker,
	}
}

// inDocker reaches level namespaces with Docker Desktop, whose containers have a
// Linux kernel of their own. The braces are for PowerShell, which takes $PWD: for
// something else.
const inDocker = "run on Linux (amd64 or arm64), or with Docker Desktop in the repository's folder: " +
	"docker run --rm --security-opt seccomp=unconfined --security-opt systempaths=unconfined " +
	`--volume "${PWD}:/repo:ro" --volume truegreen-state:/state --env TRUEGREEN_STATE=/state ` +
	"IMAGE truegreen run --repo /repo, where IMAGE has git, the tests' toolchain and truegreen for Linux"

func refuse(least Level) error {
	return &RefusedError{Want: least, Attempts: []Fallback{elsewhere()}}
}

// Run checks the Spec and refuses.
func Run(ctx context.Context, spec Spec) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("sandbox: %w", err)
	}
	spec, err := spec.withDefaults()
	if err != nil {
		return Result{}, err
	}
	return Result{}, refuse(spec.MinLevel)
}

// Owner returns the caller.
func Owner() (uid, gid int, chown bool) { return os.Geteuid(), os.Getegid(), false }

// Child returns at once.
func Child() {}

// Doctor reports that there is no sandbox.
func Doctor(context.Context) []Check {
	f := elsewhere()
	return []Check{{Name: "platform", Detail: f.Why, Fix: f.Fix}}
}

// A Signer does not exist here.
type Signer struct{}

func errNoSigner() error { return fmt.Errorf("signer: %w", refuse(LevelNone)) }

// StartSigner refuses.
func StartSigner(context.Context, io.Reader, [32]byte, [][]byte) (*Signer, error) {
	return nil, errNoSigner()
}

// MAC refuses.
func (*Signer) MAC(int, []byte) ([32]byte, error) { return [32]byte{}, errNoSigner() }

// Close does nothing.
func (*Signer) Close() error { return nil }

// What a Spec carries between processes exists for Linux only, too.
type (
	person     struct{}
	canaryPlan struct{}
)
