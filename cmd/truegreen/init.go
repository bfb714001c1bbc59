package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

func (a *app) initCommand() *cobra.Command {
	var repo string
	cmd := &cobra.Command{
		Use: "init", Short: "Write a .truegreen.yaml with the test commands that the repository shows", Args: cobra.NoArgs,
		Long: `init writes .truegreen.yaml at the top of the repository, with the test commands
that its HEAD shows. An existing file stays as it is.`,
		Example: "  truegreen init && git add .truegreen.yaml && git commit",
		RunE: func(cmd *cobra.Command, _ []string) error {
			entries, notes, err := runner.Suggest(cmd.Context(), repo)
			if err != nil {
				return err
			}
			top, err := topFolder(repo)
			if err != nil {
				return err
			}
			path := filepath.Join(top, verifier.ConfigFile)
			if err := writeNew(path, configText(entries, notes)); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "wrote %s; it counts once it is committed at the base\n", oneLine(path))
			return nil
		},
	}
	cmd.Flags().StringVar(&repo, "repo", ".", "a folder in the repository")
	completes(cmd, map[string]string{"repo": completeFolder})
	return cmd
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

// writeNew writes a file that does not exist.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path)
	}
	return err
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
