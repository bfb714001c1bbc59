package runner

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
)

// NotesRef is the reference of the notes that name bundles.
const NotesRef = "refs/notes/truegreen"

// NoteLine is the line of a note that names a bundle: by the digest of its seal, and by its
// identity, which is the SHA-256 of its tar. It is a claim until the bundle was verified.
func NoteLine(seal, identity receipts.Digest) string {
	return "seal " + seal.String() + " bundle " + identity.String()
}

// AddNote adds a line to the note of a commit, unless it has it. It is the one place that
// writes to a repository; the name of the committer, and whether there are hooks for
// references, says the user's own configuration, as for every commit that they make.
func AddNote(ctx context.Context, dir string, environ []string, commit, line string) error {
	git, err := exec.LookPath("git")
	if err != nil {
		return err
	}
	var r Repository
	if err := r.find(dir); err != nil {
		return err
	}
	notes := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, git, append([]string{"--git-dir=" + r.gitDir, "notes", "--ref=" + NotesRef}, args...)...)
		cmd.Env = WithoutGitLocation(environ)
		var stderr tail
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("git notes %s: %w%s", args[0], err, &stderr)
		}
		return string(out), nil
	}
	if has, err := notes("show", commit); err == nil && strings.Contains("\n"+has, "\n"+line+"\n") {
		return nil
	}
	_, err = notes("append", "-m", line, commit)
	return err
}
