package runner

import (
	"os"
	"testing"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// A sandbox executes the test binary again.
func TestMain(m *testing.M) {
	sandbox.Child()
	os.Exit(m.Run())
}
