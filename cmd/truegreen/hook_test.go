package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestPreCommitHooks holds the file for the pre-commit framework to the command that it
// calls, and to the ways in which others go wrong: called for files, or not at all.
func TestPreCommitHooks(t *testing.T) {
	t.Parallel()
	var hooks []struct {
		ID, Name, Description, Language, Entry string
		Stages                                 []string
		PassFilenames                          *bool `yaml:"pass_filenames"`
		AlwaysRun                              bool  `yaml:"always_run"`
	}
	if err := yaml.Unmarshal([]byte(readPage(t, ".pre-commit-hooks.yaml")), &hooks); err != nil || len(hooks) != 1 {
		t.Fatal(hooks, err)
	}
	h := hooks[0]
	if h.PassFilenames == nil || *h.PassFilenames || !h.AlwaysRun || h.Language != "golang" || !slices.Equal(h.Stages, []string{"pre-push"}) {
		t.Errorf("%+v", h)
	}
	args := strings.Fields(h.Entry)
	if out, err := exec.Command(args[0], append(args[1:], "--help")...).CombinedOutput(); err != nil || !strings.Contains(string(out), "--pre-commit-env") {
		t.Errorf("%s: %v\n%s", h.Entry, err, out)
	}
}
