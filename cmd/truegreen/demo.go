package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

func (a *app) demoCommand() *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use: "demo", Short: "Play a small repository: a good patch, a bad patch, a changed bundle", Args: cobra.NoArgs,
		Long: `demo makes a Git repository of two commits in a temporary folder, tests a good
patch and a bad one, changes one byte of the good one's bundle, and shows what
verification says to each. It needs git and a host that can isolate; see doctor.`,
		Example: "  truegreen demo\n  truegreen demo --keep /tmp/demo",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := demoFolder(keep)
			if err != nil {
				return err
			}
			if keep == "" {
				defer os.RemoveAll(dir)
			}
			ctx, stop := a.interruptible(cmd.Context())
			defer stop()
			err = a.demo(ctx, dir)
			if ctx.Err() != nil {
				return &codeError{verifier.Interrupted, context.Cause(ctx)}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "make this folder and leave everything in it")
	completes(cmd, map[string]string{"keep": completeFolder})
	return cmd
}

// demoFolder makes the folder to play in: the one to keep, or a temporary one.
func demoFolder(keep string) (string, error) {
	if keep == "" {
		return os.MkdirTemp("", "truegreen-demo-")
	}
	dir, err := filepath.Abs(keep)
	if err != nil {
		return "", err
	}
	return dir, os.Mkdir(dir, 0o755)
}

const (
	demoConfig = `test:
  - name: unit
    run: [sh, test.sh]
    format: junit
evidence:
  tests: [test.sh] # belongs to the tests
`
	demoTest = `. ./calc.sh
check() { # NAME GOT WANT
	if [ "$2" = "$3" ]; then
		echo "<testcase name=\"$1\"/>"
	else
		echo "<testcase name=\"$1\"><failure>got $2, want $3</failure></testcase>"
		failed=1
	fi
}
{
	echo "<testsuite name=\"calc\">"
	check zero "$(add 0 0)" 0
	%s
	echo "</testsuite>"
} > "$TRUEGREEN_OUT/report.xml"
exit ${failed:-0}
`
)

// demo plays three scenes, and fails where one of them does not end as told.
func (a *app) demo(ctx context.Context, dir string) error {
	repo := filepath.Join(dir, "repository")
	d := demoRepository{ctx: ctx, path: a.getenv("PATH"), dir: repo}
	d.git("init", "--quiet", "--initial-branch=main", repo)
	d.commit("first version", map[string]string{
		verifier.ConfigFile: demoConfig, "calc.sh": "add() { echo $(($1 - $2)); }\n", "test.sh": fmt.Sprintf(demoTest, ":"),
	})
	d.commit("fix add", map[string]string{
		"calc.sh": "add() { echo $(($1 + $2)); }\n", "test.sh": fmt.Sprintf(demoTest, `check sum "$(add 1 2)" 3`),
	})
	good := d.head()
	d.commit("faster add", map[string]string{"calc.sh": "add() { echo $(($1 | $2)); }\n", "test.sh": fmt.Sprintf(demoTest, `check sum "$(add 1 3)" 4`)})
	if d.err != nil {
		return d.err
	}
	o := runner.Options{Repo: repo, State: filepath.Join(dir, "state"), Now: time.Now}
	anchor, err := a.demoKey(&o)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, "1. A patch that fixes a bug and brings a test for it")
	o.Head, o.Out = good, filepath.Join(dir, "good.tar.zst")
	if err := a.scene(ctx, o, anchor, verifier.Verified); err != nil {
		return err
	}
	fmt.Fprintln(a.out, "\n2. A patch that breaks the code")
	o.Head, o.Base, o.Out = "", good, filepath.Join(dir, "bad.tar.zst")
	if err := a.scene(ctx, o, anchor, verifier.Failed); err != nil {
		return err
	}
	fmt.Fprintln(a.out, "\n3. The first bundle, with one byte changed")
	changed := filepath.Join(dir, "changed.tar.zst")
	b, err := os.ReadFile(filepath.Join(dir, "good.tar.zst"))
	if err != nil {
		return err
	}
	b[len(b)-1] ^= 1 // of a checksum: other bits of a compressed file may not matter
	if err := os.WriteFile(changed, b, 0o600); err != nil {
		return err
	}
	return a.verifyScene(changed, anchor, verifier.Broken)
}

func (a *app) demoKey(o *runner.Options) (verifier.KeyAnchor, error) {
	path := filepath.Join(o.State, keyFile)
	if _, err := initKey(path); err != nil {
		return verifier.KeyAnchor{}, err
	}
	o.Key = func() (*os.File, error) { return openKey(path) }
	secret, err := readKey(path)
	return verifier.KeyAnchor{Secret: secret, Who: "the demo's own key"}, err
}

func (a *app) scene(ctx context.Context, o runner.Options, anchor verifier.KeyAnchor, want verifier.Verdict) error {
	done, err := runner.Run(ctx, o)
	if err != nil {
		return err
	}
	defer done.Close()
	return a.verifyScene(done.Bundle, anchor, want)
}

func (a *app) verifyScene(path string, anchor verifier.KeyAnchor, want verifier.Verdict) error {
	f, size, err := openBundle(path)
	if err != nil {
		return err
	}
	defer f.Close()
	report, err := verifier.Verify(f, size, verifier.Options{Keys: []verifier.KeyAnchor{anchor}, Now: time.Now()})
	if err != nil {
		return err
	}
	a.printReport(report)
	if got := report.Verdict(); got != want {
		return &codeError{verifier.Internal, fmt.Errorf("demo: the verdict is %s, not %s", got, want)}
	}
	return nil
}

// demoRepository makes commits without the user's Git configuration. It keeps
// the first error.
type demoRepository struct {
	ctx       context.Context
	path, dir string
	err       error
}

func (d *demoRepository) git(args ...string) string {
	if d.err != nil {
		return ""
	}
	cmd := exec.CommandContext(d.ctx, "git", args...)
	cmd.Env = []string{
		"PATH=" + d.path, "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=demo", "GIT_AUTHOR_EMAIL=demo@example.com", "GIT_COMMITTER_NAME=demo", "GIT_COMMITTER_EMAIL=demo@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.err = fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return string(bytes.TrimSpace(out))
}

func (d *demoRepository) commit(message string, files map[string]string) {
	for name, text := range files {
		if d.err == nil {
			d.err = os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644)
		}
	}
	d.git("-C", d.dir, "add", ".")
	d.git("-C", d.dir, "commit", "--quiet", "-m", message)
}

func (d *demoRepository) head() string { return d.git("-C", d.dir, "rev-parse", "HEAD") }
