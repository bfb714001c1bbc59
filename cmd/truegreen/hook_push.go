package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/prepush"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

const (
	skipVariable = "TRUEGREEN_SKIP"
	quietFor     = 2 * time.Second // that a hook may take without a word
	maxLooking   = time.Minute     // that it may look for evidence
	maxRuns      = 8               // that a push may start
)

type pushFlags struct {
	mode             prepush.Mode
	notes, preCommit bool
	chain            string
	args             []string // remote and URL
}

// hookPush is the hook: what is pushed may go on, and the hook that was there before
// agrees. That one comes last, because some send things: git lfs, for one.
func (a *app) hookPush(ctx context.Context, f *pushFlags) error {
	a.out = a.err // of the output of git push nothing is ours
	var input []byte
	if !f.preCommit {
		if isTerminal(os.Stdin) {
			return usage("pre-push reads from Git what is to be pushed, and standard input is a terminal; install it with truegreen hook install, and push")
		}
		var err error
		if input, err = io.ReadAll(io.LimitReader(os.Stdin, prepush.MaxInput+1)); err != nil {
			return &codeError{verifier.Unreadable, fmt.Errorf("standard input: %w", err)}
		}
	}
	if f.mode != prepush.Warn {
		if err := a.judgePush(ctx, f, input); err != nil {
			return err
		}
		return chain(ctx, f, input)
	}
	// In this mode nothing of ours stops a push: no mistake in here does either.
	a.guard(func() int {
		err := a.judgePush(ctx, f, input)
		if exit := exitCode(0); err != nil && !errors.As(err, &exit) {
			a.fail(err)
			fmt.Fprintln(a.err, "truegreen: the push goes on, since the mode of the hook is warn")
		}
		return 0
	})
	return chain(ctx, f, input)
}

// chain calls the hook that was there before, as Git would have.
func chain(ctx context.Context, f *pushFlags, input []byte) error {
	if f.chain == "" {
		return nil
	}
	info, err := os.Stat(f.chain)
	windows := runtime.GOOS == "windows" // without modes, and without scripts of its own
	if errors.Is(err, os.ErrNotExist) || err == nil && (info.IsDir() || info.Mode()&0o111 == 0 && !windows) {
		return nil // Git leaves out what is not executable
	}
	call := func(name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), os.Stdout, os.Stderr
		return cmd.Run()
	}
	path := f.chain
	if !strings.ContainsRune(path, filepath.Separator) {
		path = "." + string(filepath.Separator) + path
	}
	if !windows {
		err = call(path, f.args...)
	}
	if windows || errors.Is(err, syscall.ENOEXEC) { // no first line that names a program
		err = call("sh", append([]string{path}, f.args...)...)
	}
	// It may leave its input where it is.
	if errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exitCode(max(1, exit.ExitCode()))
	}
	if err != nil {
		return &codeError{verifier.Unreadable, fmt.Errorf("hook %s: %w", f.chain, err)}
	}
	return nil
}

// A tip is a commit of a push, and what is known of it.
type tip struct {
	*runner.Tip
	standing prepush.Standing
	why      string
	base     string
	evidence runner.Evidence
}

// judgePush returns nil where a push may go on.
func (a *app) judgePush(ctx context.Context, f *pushFlags, input []byte) error {
	// Git names the repository for a linked work tree, and wherever it was told which one
	// to take. Where it does not, the hook starts in it.
	repo := cmp.Or(a.getenv("GIT_DIR"), ".")
	remote, updates, err := a.updates(ctx, f, repo, input)
	if err != nil {
		return err
	}
	pushed := false
	for _, u := range updates {
		pushed = pushed || !u.Deletes()
	}
	if !pushed {
		return nil
	}
	if reason, set := a.getenv(skipVariable), a.getenv(skipVariable) != ""; set {
		return a.skip(ctx, repo, remote, strings.TrimSpace(reason), updates)
	}
	tips, err := a.look(ctx, repo, remote, updates)
	if err != nil {
		return err
	}
	standings := make([]prepush.Standing, len(tips))
	for i, t := range tips {
		standings[i] = t.standing
	}
	run, block, pass := prepush.Decide(f.mode, standings)
	a.explainPassed(tips)
	if len(run) > maxRuns {
		return &codeError{verifier.NoEvidence, fmt.Errorf("%d commits of this push have no evidence; a push starts at most %d runs: push fewer at a time", len(run), maxRuns)}
	}
	for _, i := range run {
		if err := a.runTip(ctx, repo, &tips[i]); err != nil {
			return err
		}
	}
	if len(block) > 0 {
		a.explainPush(f, tips, block)
		if !pass {
			return &codeError{verifier.NoEvidence, fmt.Errorf("the push is blocked; to push without evidence, and have that recorded: %s=REASON git push", skipVariable)}
		}
	}
	if f.notes {
		a.note(ctx, repo, tips)
	}
	return nil
}

// updates returns the name of the remote, "" for a push by URL, and what is pushed.
func (a *app) updates(ctx context.Context, f *pushFlags, repo string, input []byte) (string, []prepush.Update, error) {
	if f.preCommit {
		remote, updates, err := prepush.FromPreCommit(a.getenv, func(rev string) (string, error) {
			r, err := runner.OpenRepository(ctx, repo)
			if err != nil {
				return "", err
			}
			defer r.Close()
			c, err := r.Resolve(ctx, rev)
			return c.ID, err
		})
		if err != nil {
			return "", nil, usage("%v", err)
		}
		return remote, updates, nil
	}
	updates, err := prepush.Parse(input)
	if err != nil {
		return "", nil, usage("%v", err)
	}
	remote := f.args[0]
	if len(f.args) == 2 && f.args[1] == remote {
		remote = ""
	}
	return remote, updates, nil
}

// skip records that a push goes without evidence. What cannot be recorded does not go.
func (a *app) skip(ctx context.Context, repo, remote, reason string, updates []prepush.Update) error {
	if reason == "" {
		return usage("%s: say why, in its value", skipVariable)
	}
	state, err := a.state()
	if err != nil {
		return err
	}
	r, err := runner.OpenRepository(ctx, repo)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := runner.RecordSkip(state, runner.NewSkip(time.Now(), r.Name(), remote, reason, updates)); err != nil {
		return fmt.Errorf("%s: %w", skipVariable, err)
	}
	fmt.Fprintf(a.err, "truegreen: no evidence was looked for: %s; recorded in %s\n", oneLine(reason), oneLine(filepath.Join(state, "skips.jsonl")))
	return nil
}

// look finds out how the commits of a push stand. Those that the remote has are left out.
func (a *app) look(ctx context.Context, repo, remote string, updates []prepush.Update) ([]tip, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxLooking, fmt.Errorf("looking for evidence took more than %s", maxLooking))
	defer cancel()
	slow := time.AfterFunc(quietFor, func() { fmt.Fprintln(a.err, "truegreen: still looking for evidence") })
	defer slow.Stop()
	p, err := runner.OpenPush(ctx, repo, remote, updates)
	if err != nil {
		return nil, late(ctx, err)
	}
	defer p.Close()
	state, err := a.state()
	if err != nil {
		return nil, err
	}
	o := verifier.Options{Now: time.Now()}
	key, err := a.keyAnchor("")
	if err != nil {
		return nil, err
	}
	if key != nil {
		o.Keys = []verifier.KeyAnchor{*key}
	}
	var tips []tip
	known := map[*runner.Selection]runner.Evidence{}
	for i := range p.Tips {
		t := tip{Tip: &p.Tips[i]}
		switch {
		case t.There:
			continue
		case t.Kind == "":
			t.standing, t.why = prepush.Untested, "is not in this repository"
		case t.Kind != "commit":
			t.standing, t.why = prepush.Untested, "is a "+t.Kind+", and no commit that tests could be run on"
		default:
			if err := a.stand(ctx, p, state, o, known, &t); err != nil {
				return nil, late(ctx, err)
			}
		}
		tips = append(tips, t)
	}
	return tips, nil
}

// late says of an error that the time was up, where that is why.
func late(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &codeError{verifier.NoEvidence, context.Cause(ctx)}
	}
	return err
}

// stand finds out how one commit stands, by evidence that is known for its selection, or
// is looked for. An error is about the search itself.
func (a *app) stand(ctx context.Context, p *runner.Push, state string, o verifier.Options, known map[*runner.Selection]runner.Evidence, t *tip) error {
	s, unchanged, err := p.Select(ctx, t.Tip)
	var anchors anchorFlags
	if err == nil && !unchanged {
		err = anchors.trustBase(ctx, s, &o)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		t.standing, t.why = prepush.Untested, err.Error()
		return nil
	case unchanged:
		t.standing, t.why = prepush.Unchanged, "its tree is that of base "+short(s.Base.ID)+", which the remote has"
		return nil
	}
	t.base = cmp.Or(short(s.Base.ID), "the empty tree")
	e, ok := known[s]
	if !ok {
		e, err = p.Evidence(ctx, s, state, o, func(path string) ([]verifier.Sidecar, error) {
			var beside verifier.Options
			err := anchors.readTokens(path, &beside)
			return beside.Sidecars, err
		})
		if err != nil {
			return err
		}
		known[s] = e
	}
	t.evidence = e
	t.weigh()
	return nil
}

// weigh says how a commit stands by the evidence that was found for its tree.
func (t *tip) weigh() {
	e := &t.evidence
	patch := e.Report.Patch()
	switch {
	case e.Bundle == "":
		t.standing, t.why = prepush.Missing, "no run on its tree by the configuration of base "+t.base
		if len(e.Passed) > 0 {
			t.why += ", but " + e.Passed[0]
		}
	case e.Report.Verdict() == verifier.Verified && e.SameBase:
		t.standing, t.why = prepush.Proved, "verified: "+e.Report.Sentence()
		if patch.Head != t.ID {
			t.why += " (made for commit " + short(patch.Head) + ", same tree, same base tree)"
		}
	case e.Report.Verdict() == verifier.Verified:
		t.standing = prepush.ByTree
		t.why = fmt.Sprintf("L0: the tests ran on this tree; made for commit %s, same tree, against another base %s", short(patch.Head), cmp.Or(short(patch.Base), "(the empty tree)"))
	case e.SameBase:
		t.standing, t.why = prepush.Bad, "the newest run on its tree: failed: "+e.Report.Reasons()[0].String()
	default: // what failed may be the comparison with a base that is not this one's
		t.standing, t.why = prepush.Missing, "the newest run on its tree, against another base: failed: "+e.Report.Reasons()[0].String()
	}
}

const maxExplained = 10

// explainPassed says by what the commits pass that do.
func (a *app) explainPassed(tips []tip) {
	n := 0
	for _, t := range tips {
		if !t.standing.Passes() {
			continue
		}
		if n++; n <= maxExplained {
			fmt.Fprintf(a.err, "truegreen: %s: %s\n", short(t.ID), oneLine(t.why))
		}
	}
	if n > maxExplained {
		fmt.Fprintf(a.err, "truegreen: and %d more with evidence that counts, or without need of it\n", n-maxExplained)
	}
}

// explainPush says which commits lack evidence, and with which command it is made.
func (a *app) explainPush(f *pushFlags, tips []tip, block []int) {
	remote := "the remote"
	if len(f.args) > 0 && (len(f.args) == 1 || f.args[0] != f.args[1]) {
		remote = f.args[0]
	}
	fmt.Fprintf(a.err, "truegreen: %d of %d new commits for %s without evidence that counts\n", len(block), len(tips), oneLine(remote))
	var missing []string
	for n, i := range block {
		t := &tips[i]
		if t.standing != prepush.Untested {
			missing = append(missing, t.ID)
		}
		if n < maxExplained {
			fmt.Fprintf(a.err, "truegreen:   %s for %s: %s\n", short(t.ID), oneLine(refsText(t.Refs)), oneLine(t.why))
		} else if n == maxExplained {
			fmt.Fprintf(a.err, "truegreen:   and %d more\n", len(block)-n)
		}
	}
	switch {
	case len(missing) == 1:
		fmt.Fprintf(a.err, "truegreen: to make it: truegreen run --head %s\n", missing[0])
	case len(missing) > 1 && len(missing) <= maxExplained:
		fmt.Fprintf(a.err, "truegreen: to make it: for c in %s; do truegreen run --head $c; done\n", strings.Join(missing, " "))
	}
}

func refsText(refs []string) string {
	if len(refs) > 1 {
		return fmt.Sprintf("%s and %d more", refs[0], len(refs)-1)
	}
	return refs[0]
}

// runTip makes the evidence of a commit.
func (a *app) runTip(ctx context.Context, repo string, t *tip) error {
	fmt.Fprintf(a.err, "truegreen: %s for %s: %s: running its tests\n", short(t.ID), oneLine(refsText(t.Refs)), oneLine(t.why))
	f := runFlags{o: runner.Options{Repo: repo, Head: t.ID, Attempt: 1}}
	if err := a.setUpRun(&f); err != nil {
		return err
	}
	f.o.Environ = runner.WithoutGitLocation(f.o.Environ)
	done, anchor, err := a.makeRun(ctx, &f)
	if err != nil {
		return err
	}
	defer done.Close()
	report, err := a.verifyRun(&f.o, done, anchor)
	if err != nil {
		return err
	}
	a.printReport(report)
	fmt.Fprintf(a.err, "  bundle    %s\n", oneLine(done.Bundle))
	t.evidence = runner.Evidence{Bundle: done.Bundle, Report: report, SameBase: true}
	t.weigh()
	return exitWith(report)
}

// note names the bundle of each commit in a Git note. What cannot be noted is pushed all
// the same: the bundle is the evidence.
func (a *app) note(ctx context.Context, repo string, tips []tip) {
	for _, t := range tips {
		if t.standing != prepush.Proved && t.standing != prepush.ByTree {
			continue
		}
		id, err := identity(t.evidence.Bundle)
		if err == nil {
			_, seal := t.evidence.Report.Seal()
			err = runner.AddNote(ctx, repo, os.Environ(), t.ID, runner.NoteLine(seal, id))
		}
		if err != nil {
			fmt.Fprintf(a.err, "truegreen: %s has no note: %s\n", short(t.ID), oneLine(err.Error()))
		}
	}
}

func identity(path string) (id receipts.Digest, err error) {
	f, size, err := openBundle(path)
	if err != nil {
		return id, err
	}
	defer f.Close()
	b, err := bundle.Open(f, size, bundle.Limits{})
	if err != nil {
		return id, err
	}
	return b.Identity()
}
