package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/truegreen-dev/truegreen/verifier"
)

// A HooksFolder is where Git looks for the hooks of a repository.
type HooksFolder struct {
	Path  string
	Scope string // of core.hooksPath: local, worktree, global, system, command; "" where it is not set
	Top   string // of the work tree; "" for a bare repository
}

// FindHooks asks Git where the hooks are of the repository that dir is in. Here the
// configuration of the repository and of the user counts, because it does for git push.
// Reading a key of it starts no program.
func FindHooks(ctx context.Context, dir string, environ []string) (HooksFolder, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return HooksFolder{}, &RepositoryError{Code: verifier.GitMissing, What: "git cannot be started", Err: err}
	}
	var r Repository
	if err := r.find(dir); err != nil {
		return HooksFolder{}, &RepositoryError{Code: verifier.NotARepository, What: fmt.Sprintf("%s is not in a Git repository", dir), Err: err}
	}
	f := HooksFolder{Path: filepath.Join(r.common, "hooks"), Top: r.top}
	at := r.top // where Git starts a hook: a relative path is relative to it
	if at == "" {
		at = r.gitDir
	}
	cmd := exec.CommandContext(ctx, git, "-C", at, "config", "--null", "--show-scope", "--type=path", "--get", "core.hooksPath")
	cmd.Env = WithoutGitLocation(environ)
	var out bytes.Buffer
	var stderr tail
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return f, nil
	}
	if err != nil {
		return HooksFolder{}, fmt.Errorf("core.hooksPath: %w%s", err, &stderr)
	}
	scope, path, ok := strings.Cut(strings.TrimSuffix(out.String(), "\x00"), "\x00")
	if !ok || path == "" {
		return HooksFolder{}, errors.New("core.hooksPath: is empty")
	}
	f.Scope, f.Path = scope, resolvePath(at, path)
	return f, nil
}
