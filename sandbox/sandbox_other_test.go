//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"errors"
	"strings"
	"testing"
)

// Where nothing can run, every way in says what to do instead.
func TestElsewhere(t *testing.T) {
	_, run := Run(t.Context(), Spec{Argv: []string{"true"}})
	_, signer := StartSigner(t.Context(), strings.NewReader(""), [32]byte{}, nil)
	for _, err := range []error{run, signer} {
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "docker run --rm --security-opt seccomp=unconfined --security-opt systempaths=unconfined ") {
			t.Errorf("%v", err)
		}
	}
}
