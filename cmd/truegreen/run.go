package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

type runFlags struct {
	o        runner.Options
	dryRun   bool
	sign     string
	shard    string
	previous string
	evidence string
	receipts []string // NAME=FILE
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [-- COMMAND ARG…]",
		Short: "Run a patch's tests in a sandbox and seal the evidence",
		Long: `run tests a patch: the commits between a base and a head of a Git repository.
It writes both trees out of Git objects, runs the test commands that the base
configures or shows on both, in a sandbox without network, seals what happened
into a bundle, and verifies that bundle.

The base is the merge base of HEAD and the default branch, or HEAD's parent.
Uncommitted changes are not part of a patch.`,
		Example: `  truegreen run
  truegreen run --base main --head feature
  truegreen run -- go test ./internal/...
  truegreen run --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return usage("%q: a command goes behind --", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.o.Command = args
			return a.runRun(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.o.Repo, "repo", ".", "a folder in the repository")
	flags.StringVar(&f.o.Base, "base", "", "revision to compare with")
	flags.StringVar(&f.o.Head, "head", "", "revision to test (default HEAD)")
	flags.StringVar(&f.o.Merge, "merge", "", "test the tree of this merge of head into base, as a forge makes it for a pull request")
	flags.StringVar(&f.o.Out, "out", "", "write the bundle here (default: a name in the state folder)")
	flags.BoolVar(&f.o.HeadOnly, "head-only", false, "do not run the base: there is nothing to compare with then")
	flags.IntVar(&f.o.MinLevel, "isolation", 0, "least isolation level, beside the configuration's own")
	flags.BoolVar(&f.o.Fresh, "fresh", false, "run the base even where an earlier run has its results")
	flags.StringVar(&f.evidence, "evidence", "", "level of evidence to try for, L0 to L4, where it is above the configuration's")
	flags.BoolVar(&f.o.Unisolated, "unisolated", false, "run without isolation where none can be had; only if isolation.level is 0")
	flags.StringVar(&f.sign, "sign", "", "sign the seal with this SSH private key file, or with agent[:FINGERPRINT]")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would be run; start nothing")
	flags.IntVar(&f.o.Attempt, "attempt", 1, "number of this attempt")
	flags.StringVar(&f.shard, "shard", "", "this run is shard I/N of a larger one")
	flags.StringVar(&f.previous, "previous", "", "seal digest of the attempt before")
	f.receiptFlag(cmd)
	a.jsonFlag(cmd)
	completes(cmd, map[string]string{
		"repo": completeFolder, "out": completeBundle, "sign": completeFile,
		"base": "", "head": "", "merge": "", "isolation": "", "evidence": "", "attempt": "", "shard": "", "previous": "",
	})
	return cmd
}

func (a *app) runRun(ctx context.Context, f *runFlags) error {
	if err := a.setUpRun(f); err != nil {
		return err
	}
	o := &f.o
	if f.dryRun {
		return a.dryRun(ctx, o)
	}
	done, anchor, err := a.makeRun(ctx, f)
	if err != nil {
		return err
	}
	defer done.Close()
	return a.reportRun(o, done, anchor)
}

// setUpRun fills in what a run gets of this process.
func (a *app) setUpRun(f *runFlags) (err error) {
	o := &f.o
	o.CanMint = forge.OIDCInReach(a.getenv)
	o.Now, o.Getenv, o.Environ, o.Program = time.Now, a.getenv, os.Environ(), programVersion()
	if o.State, err = a.state(); err != nil {
		return err
	}
	return f.check()
}

// makeRun makes a run, and returns how to get the key that its bundle is verified with.
func (a *app) makeRun(ctx context.Context, f *runFlags) (_ runner.Done, anchor func() (verifier.KeyAnchor, error), err error) {
	o := &f.o
	if anchor, err = a.runKey(o); err != nil {
		return runner.Done{}, nil, err
	}
	if f.sign != "" {
		if o.Sign, o.Signer, err = a.signer(f.sign); err != nil {
			return runner.Done{}, nil, err
		}
	}
	ctx, stop := a.interruptible(ctx)
	defer stop()
	p := newProgress(a)
	o.Progress = p.event
	done, err := runner.Run(ctx, *o)
	p.close()
	if err != nil {
		return runner.Done{}, nil, beforeSeal(ctx, err)
	}
	// Only now, when every process of the tested code is gone, does this process
	// read the key.
	a.recover(o)
	return done, anchor, nil
}

// beforeSeal says of an error that an interrupt brought about that it did.
func beforeSeal(ctx context.Context, err error) error {
	if code := codeOf(err); ctx.Err() != nil && (code == verifier.Interrupted || code == verifier.Internal) {
		return &codeError{verifier.Interrupted, fmt.Errorf("%w before there was anything to seal", context.Cause(ctx))}
	}
	return err
}

// check refuses flags that make no sense before anything is begun, and reads
// those that go into the seal.
func (f *runFlags) check() error {
	if err := checkLevel(f.o.MinLevel); err != nil {
		return err
	}
	if f.evidence != "" {
		level, ok := strings.CutPrefix(f.evidence, "L")
		n, err := strconv.Atoi(level)
		if !ok || err != nil || len(level) != 1 || n > verifier.LevelMutants {
			return usage("--evidence %q: want a level from L0 to L4", f.evidence)
		}
		f.o.Evidence = n
	}
	if f.o.Out != "" {
		var err error
		if f.o.Out, err = filepath.Abs(f.o.Out); err != nil {
			return err
		}
		if info, err := os.Stat(f.o.Out); err == nil && !info.Mode().IsRegular() {
			return usage("--out %s: is not a file", f.o.Out)
		}
	}
	if f.o.Attempt < 1 {
		return usage("--attempt %d: want 1 or more", f.o.Attempt)
	}
	if f.shard != "" {
		i, n, _ := strings.Cut(f.shard, "/")
		var errI, errN error
		f.o.Shard, errI = strconv.Atoi(i)
		f.o.Shards, errN = strconv.Atoi(n)
		if errI != nil || errN != nil || f.o.Shard < 1 || f.o.Shard > f.o.Shards {
			return usage("--shard %q: want I/N with 1 ≤ I ≤ N", f.shard)
		}
	}
	if err := f.readReceipts(); err != nil {
		return err
	}
	if f.previous != "" {
		var err error
		if f.o.Previous, err = receipts.ParseDigest(f.previous); err != nil {
			return usage("--previous: %v", err)
		}
	}
	return nil
}

// receiptFlag adds the flag for receipts of other tools.
func (f *runFlags) receiptFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.receipts, "receipt", nil, "NAME=FILE: a receipt of another tool that the configuration asks for by this name; repeatable")
	completes(cmd, map[string]string{"receipt": ""})
}

// readReceipts reads the receipts of other tools, before anything runs that could
// change them.
func (f *runFlags) readReceipts() error {
	for _, given := range f.receipts {
		name, path, ok := strings.Cut(given, "=")
		if !ok || name == "" || path == "" {
			return usage("--receipt %q: want NAME=FILE", given)
		}
		if _, twice := f.o.Receipts[name]; twice {
			return usage("--receipt %q: there twice", name)
		}
		file, size, err := openBundle(path)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(io.LimitReader(file, verifier.MaxUpstreamReceipt+1))
		file.Close()
		if err != nil {
			return &codeError{verifier.Unreadable, err}
		}
		if len(content) > verifier.MaxUpstreamReceipt {
			return usage("--receipt %s: %d bytes: the limit is %d", name, max(size, int64(len(content))), verifier.MaxUpstreamReceipt)
		}
		if f.o.Receipts == nil {
			f.o.Receipts = map[string][]byte{}
		}
		f.o.Receipts[name] = content
	}
	return nil
}

func checkLevel(level int) error {
	if level < int(sandbox.LevelNone) || level > int(sandbox.LevelKernel) {
		return usage("--isolation %d: want a level from %d to %d", level, sandbox.LevelNone, sandbox.LevelKernel)
	}
	return nil
}

// runKey finds or makes the key of a run, and the anchor under which the run's
// own bundle is verified.
func (a *app) runKey(o *runner.Options) (func() (verifier.KeyAnchor, error), error) {
	who := "the key in " + keyVariable
	o.Reuse = true
	open, err := a.environmentKey()
	if err != nil {
		return nil, err
	}
	if open == nil {
		if who = machineKey; a.ephemeral(o.State) {
			who, o.Reuse = jobKey, false
		}
		path := filepath.Join(o.State, keyFile)
		made, err := initKey(path)
		if err != nil {
			return nil, fmt.Errorf("receipt key: %w", err)
		}
		if made {
			fmt.Fprintf(a.err, "truegreen: made the receipt key %s\n", oneLine(path))
		}
		open = func() (*os.File, error) { return openKey(path) }
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	f.Close()
	o.Key = open
	// Read only when every process of the tested code is gone.
	return func() (verifier.KeyAnchor, error) {
		secret, err := secretOf(open)
		return verifier.KeyAnchor{Secret: secret, Who: who, Asked: true}, err
	}, nil
}

// recover seals what earlier processes left behind.
func (a *app) recover(o *runner.Options) {
	found, err := runner.Recover(*o)
	if err != nil {
		fmt.Fprintf(a.err, "truegreen: interrupted runs: %s\n", oneLine(err.Error()))
	}
	for _, r := range found {
		if r.Err != nil {
			fmt.Fprintf(a.err, "truegreen: an interrupted run could not be sealed: %s\n", oneLine(r.Err.Error()))
		} else {
			fmt.Fprintf(a.err, "truegreen: sealed an interrupted run: %s\n", oneLine(r.Bundle))
		}
	}
}

// reportRun verifies the bundle that a run has made and prints the report.
func (a *app) reportRun(run *runner.Options, done runner.Done, anchor func() (verifier.KeyAnchor, error)) error {
	report, err := a.verifyRun(run, done, anchor)
	if err != nil {
		return err
	}
	if a.json {
		if err := a.printJSON(struct {
			Bundle string          `json:"bundle"`
			Seal   receipts.Digest `json:"seal"`
			Report verifier.Report `json:"report"`
		}{done.Bundle, bundle.SealDigest(done.Seal), report}); err != nil {
			return err
		}
	} else {
		a.printReport(report)
		fmt.Fprintf(a.out, "  bundle    %s\n", oneLine(done.Bundle))
	}
	return exitWith(report)
}

// verifyRun verifies the bundle that a run has made.
func (a *app) verifyRun(run *runner.Options, done runner.Done, anchor func() (verifier.KeyAnchor, error)) (verifier.Report, error) {
	key, err := anchor()
	if err != nil {
		return verifier.Report{}, err
	}
	f, size, err := openBundle(done.Bundle)
	if err != nil {
		return verifier.Report{}, err
	}
	defer f.Close()
	o := done.Expect
	o.Keys, o.AllowCommand, o.Now = []verifier.KeyAnchor{key}, true, time.Now()
	report, err := verifier.Verify(f, size, o)
	if err != nil {
		return verifier.Report{}, err
	}
	if err := runner.Remember(*run, done.Bundle, report); err != nil { // the next run makes its results again
		fmt.Fprintf(a.err, "truegreen: %s\n", oneLine(err.Error()))
	}
	if err := runner.IndexBundle(run.State, done.Bundle, report); err != nil { // the hook looks into it then
		fmt.Fprintf(a.err, "truegreen: %s\n", oneLine(err.Error()))
	}
	return report, nil
}

// openBundle opens a file that has a size. What is not one, a pipe for example,
// might never end.
func openBundle(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: is not a file", path)
		if info.IsDir() {
			err = fmt.Errorf("%s: is a folder", path)
		}
	}
	if err != nil {
		return nil, 0, &codeError{verifier.Unreadable, err}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, &codeError{verifier.Unreadable, err}
	}
	return f, info.Size(), nil
}

func (a *app) dryRun(ctx context.Context, o *runner.Options) error {
	p, err := runner.PreviewRun(ctx, *o)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(p)
	}
	w := a.out
	fmt.Fprintf(w, "repository  %s\n", oneLine(p.Repository))
	base := "the empty tree"
	if p.Base != "" {
		base = p.Base
	}
	fmt.Fprintf(w, "base        %s (%s)\n", base, oneLine(p.BaseHow))
	fmt.Fprintf(w, "head        %s\ntree        %s\n", p.Head, p.Tree)
	fmt.Fprintf(w, "changed     %d files of %d\n", p.Changed, p.Files)
	fmt.Fprintf(w, "commands    %s\n", verifier.SourceText(p.Source))
	for _, r := range p.Runs {
		note := ""
		if r.Skip != "" {
			note = "  not run: " + oneLine(r.Skip)
		} else if len(r.Connect) > 0 || r.Network != "" {
			note = "  network " + oneLine(networkText(r.Network, r.Connect))
		}
		fmt.Fprintf(w, "  %-9s %-5s %s%s\n", oneLine(r.Name), oneLine(r.Side), oneLine(forge.Words(r.Argv)), note)
	}
	for _, n := range p.NotCovered {
		fmt.Fprintf(w, "note        %s\n", oneLine(n))
	}
	fmt.Fprintf(w, "isolation   level %d at least\n", p.MinLevel)
	fmt.Fprintf(w, "evidence    %s\n", p.Evidence)
	fmt.Fprintf(w, "cost        %s\n", strings.ReplaceAll(p.Cost, "; ", "\n            "))
	if p.Dirty != "" {
		fmt.Fprintf(w, "note        uncommitted changes (%s) are not part of the patch\n", oneLine(p.Dirty))
	}
	return nil
}
