package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/docs/recipes"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

func (a *app) initCommand() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use: "init", Short: "Write a .truegreen.yaml, and what GitHub Actions needs", Args: cobra.NoArgs,
		Long: `init writes .truegreen.yaml at the top of the repository, with the test commands
that its HEAD shows, workflows for GitHub Actions below .github/workflows, and
.truegreen/trust.yaml, which says that their word counts. The repository's name and
default branch are those of the remote "origin". Existing files stay as they are.
docs/recipes.md explains the workflows, docs/trust.md the trust.

With --workflows=false it writes .truegreen.yaml alone.`,
		Example: `  truegreen init --repository-id "$(gh api repos/OWNER/REPOSITORY --jq .id)"
  truegreen init --workflows=false && git add .truegreen.yaml && git commit`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			return a.init(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.repo, "repo", ".", "a folder in the repository")
	flags.BoolVar(&o.workflows, "workflows", true, "write workflows, and whom they are trusted by")
	flags.BoolVar(&o.forks, "forks", true, "write the workflow for pull requests from forks")
	flags.BoolVar(&o.release, "release", false, "write the workflow that gates releases")
	flags.StringVar(&o.action, "action", recipes.Action, "what the workflows use, as OWNER/REPOSITORY@REF")
	flags.Int64Var(&o.id, "repository-id", 0, "the repository's number on GitHub")
	completes(cmd, map[string]string{"repo": completeFolder, "action": "", "repository-id": ""})
	return cmd
}

func (a *app) init(ctx context.Context, o initOptions) error {
	entries, notes, err := runner.Suggest(ctx, o.repo)
	if err != nil {
		return err
	}
	top, err := topFolder(o.repo)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return err
	}
	defer root.Close()
	config := newFile{verifier.ConfigFile, configText(entries, notes)}
	if !o.workflows {
		if err := config.write(root); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "wrote %s; it counts once it is committed at the base\n", oneLine(filepath.Join(top, config.path)))
		return nil
	}
	return a.adopt(ctx, root, config, o)
}

// topFolder returns the folder at the top of the work tree that dir is in.
func topFolder(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", &codeError{verifier.NotARepository, fmt.Errorf("%s: a bare repository has no work tree to write to", dir)}
		}
	}
}

// A newFile is one that init writes, at a path in the work tree.
type newFile struct{ path, text string }

// write makes the file, whole, where there is none. A link in the work tree does not
// lead out of it.
func (f newFile) write(root *os.Root) error {
	path := filepath.FromSlash(f.path)
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".truegreen-" + rand.Text()
	out, err := root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer root.Remove(tmp)
	_, err = out.WriteString(f.text)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	// Unlike a rename, it never replaces a file.
	if err = root.Link(tmp, path); err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// There are file systems without hard links.
	if _, err := root.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "write", Path: f.path, Err: cmp.Or(err, fs.ErrExist)}
	}
	return root.Rename(tmp, path)
}

// writeNew writes a file that does not exist.
func writeNew(path, text string) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	return newFile{filepath.Base(path), text}.write(root)
}

// configExamples are keys that have a default, to be taken out of their comments.
const configExamples = `
# evidence:
#   level: L3             # what a run tries to prove, L0 to L4: see docs/evidence.md
#   budget: 20m           # of all test runs together
# integrity:              # what a finding does: fail, warn or ignore
#   removed: warn         # tests of the base that are gone
#   harness-touched: fail # files that decide how tests run
`

// configText returns a configuration that parses to entries.
func configText(entries []verifier.TestEntry, notes []string) string {
	var b strings.Builder
	b.WriteString("# How truegreen tests a patch. It is read from the base of the patch, so a patch\n# cannot choose how it is tested. Keys: truegreen's docs/configuration.md\ntest:\n")
	for _, e := range entries {
		fmt.Fprintf(&b, "  - name: %s\n    run: %s\n", e.Name, quoted(e.Run))
		if e.Dir != "." {
			fmt.Fprintf(&b, "    dir: %q\n", e.Dir)
		}
		fmt.Fprintf(&b, "    format: %s\n", e.Format)
		if e.Report != "" {
			fmt.Fprintf(&b, "    report: %q\n", e.Report)
		}
		if e.Coverage != "" {
			fmt.Fprintf(&b, "    coverage: %q\n", e.Coverage)
		}
		for i, kv := range e.Env {
			if i == 0 {
				b.WriteString("    env:\n")
			}
			name, value, _ := strings.Cut(kv, "=")
			fmt.Fprintf(&b, "      %s: %q\n", name, value)
		}
		if len(e.Paths) > 0 {
			fmt.Fprintf(&b, "    paths: %s\n", quoted(e.Paths))
		}
	}
	if len(entries) == 0 {
		b.WriteString("  - name: unit\n    run: [\"make\", \"test\"] # nothing was detected: put your test command here\n")
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "# %s\n", oneLine(n))
	}
	b.WriteString(configExamples)
	return b.String()
}

// quoted writes a YAML list of strings in one line.
func quoted(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = strconv.Quote(w)
	}
	return "[" + strings.Join(list, ", ") + "]"
}
