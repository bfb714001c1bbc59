package runner

import (
	"slices"
	"strings"
)

// locationVariables are those that git rev-parse --local-env-vars lists: they say which
// repository a git command is about, and how it is set up.
var locationVariables = []string{
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_DIR",
	"GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS",
	"GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
}

// WithoutGitLocation returns an environment without the variables that tie git commands
// to a repository. A hook is called with some of them, in a linked work tree with GIT_DIR:
// a program that makes a repository of its own, as tests do, would write into the one that
// is pushed.
func WithoutGitLocation(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(locationVariables, name)
	})
}
