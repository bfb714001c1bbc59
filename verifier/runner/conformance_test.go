package runner

import (
	"testing"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// TestCacheMounts: tests can write to no cache that another command reads.
// Attempts 99 and 100 of the conformance list.
func TestCacheMounts(t *testing.T) {
	t.Parallel()
	tools := toolchain{goroot: "/opt/go"}
	kinds := map[string]sandbox.MountKind{}
	for _, m := range tools.mounts("/state/go-build", "/state/deps") {
		kinds[m.Source] = m.Kind
	}
	for source, want := range map[string]sandbox.MountKind{
		"/opt/go":         sandbox.ReadOnly,
		"/state/go-build": sandbox.Overlay,
		"/state/deps":     sandbox.ReadOnly,
	} {
		if got, ok := kinds[source]; !ok || got != want {
			t.Errorf("%s: mounted as %v (%v), want %v", source, got, ok, want)
		}
	}
	if len(kinds) != 3 {
		t.Errorf("mounts %v", kinds)
	}
}
