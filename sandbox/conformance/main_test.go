//go:build linux && (amd64 || arm64)

package conformance

import (
	"os"
	"testing"

	"github.com/truegreen-dev/truegreen/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Child()
	Child()
	os.Exit(m.Run())
}
