package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// anchorFlags are the flags that say what a bundle is trusted by, and what it is
// expected to be.
type anchorFlags struct {
	o                     verifier.Options
	key, signers, revoked string
	sigs, oidc            []string
	trust, jwks           string
	run                   int64
	runCommits            []string
	config, repo, merge   string
	noCommand             bool
}

func (f *anchorFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.o.Repository, "repository", "", "the repository that the bundle must be about, as host/path")
	flags.StringVar(&f.o.Base, "base", "", "the base commit that it must be about; with --repo, any revision")
	flags.StringVar(&f.o.Head, "head", "", "the head commit that it must be about; with --repo, any revision")
	flags.StringVar(&f.o.Tree, "tree", "", "the tested tree that it must be about")
	flags.StringVar(&f.config, "config", "", "the .truegreen.yaml that it must have used")
	flags.StringVar(&f.repo, "repo", "", "resolve base, head, tree, configuration, and at the base .truegreen, in this repository")
	flags.StringVar(&f.merge, "merge", "", "with --repo, the merge of head into base whose tree it must have tested")
	flags.DurationVar(&f.o.MaxAge, "max-age", 0, "the greatest age of the run, such as 720h (default: any)")
	flags.IntVar(&f.o.MinLevel, "isolation", 0, "the least isolation level of every test, beside the configuration's own")
	flags.BoolVar(&f.noCommand, "no-command", false, "do not accept commands that do not come from the base")
	flags.Int64Var(&f.run, "run", 0, "the run of the workflow that an OIDC token must be from")
	flags.StringArrayVar(&f.runCommits, "run-commit", nil, "a commit that the run may be of (claim sha); repeatable")
	flags.BoolVar(&f.o.Quick, "quick", false, "believe the sealed evidence instead of reading the output again")
	f.addTrust(cmd)
	completes(cmd, map[string]string{
		"config": completeFile, "repo": completeFolder,
		"repository": "", "base": "", "head": "", "tree": "", "merge": "", "max-age": "", "isolation": "",
		"run": "", "run-commit": "",
	})
}

// addTrust adds the flags that say who is trusted, without what is expected.
func (f *anchorFlags) addTrust(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.signers, "signers", "", "an allowed_signers file: whose SSH signature counts")
	flags.StringVar(&f.revoked, "revoked", "", "a file of SSH keys that do not count any more")
	flags.StringVar(&f.key, "key", "", "the receipt key that sealed it (default: this machine's)")
	flags.StringArrayVar(&f.sigs, "sig", nil, "a sidecar signature over the seal; repeatable")
	flags.StringArrayVar(&f.oidc, "oidc", nil, "an OIDC token over the seal; repeatable (default: NAME.oidc beside NAME.tar.zst)")
	flags.StringVar(&f.trust, "trust", "", "a trust.yaml: whose OIDC tokens count")
	flags.StringVar(&f.jwks, "jwks", "", "the pinned keys of their issuers")
	completes(cmd, map[string]string{
		"signers": completeFile, "revoked": completeFile, "key": completeFile, "sig": completeFile,
		"oidc": completeFile, "trust": completeFile, "jwks": completeFile,
	})
}

// check refuses what would only make the bundle look wrong, or checks nothing.
func (f *anchorFlags) check() error {
	if f.o.MaxAge < 0 {
		return usage("--max-age %s: want a positive duration", f.o.MaxAge)
	}
	if err := checkLevel(f.o.MinLevel); err != nil {
		return err
	}
	if f.merge != "" && f.repo == "" {
		return usage("--merge goes with --repo")
	}
	if f.revoked != "" && f.signers == "" {
		return usage("--revoked goes with --signers")
	}
	if (f.trust == "") != (f.jwks == "") && f.repo == "" {
		return usage("--trust and --jwks go together, or with --repo")
	}
	if (f.run != 0 || f.runCommits != nil) && f.trust == "" && f.repo == "" {
		return usage("--run and --run-commit go with --trust")
	}
	if f.run < 0 {
		return usage("--run %d: want a positive number", f.run)
	}
	for _, id := range f.runCommits {
		if !isObjectID(id) {
			return usage("--run-commit %q: want a full object id", id)
		}
	}
	for _, id := range []struct{ flag, value string }{{"base", f.o.Base}, {"head", f.o.Head}, {"tree", f.o.Tree}} {
		if id.value == "" || isObjectID(id.value) {
			continue
		}
		if f.repo == "" || id.flag == "tree" {
			return usage("--%s %q: want a full object id, 40 or 64 lower-case hexadecimal digits", id.flag, id.value)
		}
	}
	return nil
}

func isObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// anchors reads the files that the flags name, those beside the bundle, and the key of
// this machine.
func (a *app) anchors(path string, o *verifier.Options, f *anchorFlags) error {
	key, err := a.keyAnchor(f.key)
	if err != nil {
		return err
	}
	if key != nil {
		o.Keys = append(o.Keys, *key)
	}
	if err := f.readSigners(o); err != nil {
		return err
	}
	if err := f.readTrust(o); err != nil {
		return err
	}
	for _, path := range f.sigs {
		text, err := readSmall(path)
		if err != nil {
			return err
		}
		o.Sidecars = append(o.Sidecars, verifier.Sidecar{Name: filepath.Base(path), Bytes: text})
	}
	return f.readTokens(path, o)
}

// readSigners reads the files that say whose SSH signatures count.
func (f *anchorFlags) readSigners(o *verifier.Options) error {
	if f.signers != "" {
		text, err := readSmall(f.signers)
		if err != nil {
			return err
		}
		if o.Signers, err = bundle.ParseSigners(text); err != nil {
			return usage("%s: %v", f.signers, err)
		}
	}
	if f.revoked != "" {
		text, err := readSmall(f.revoked)
		if err != nil {
			return err
		}
		if o.Revoked, err = bundle.ParseRevoked(text); err != nil {
			return usage("%s: %v", f.revoked, err)
		}
	}
	return nil
}

// keyAnchor returns the key in a file, or in the environment, or of this machine,
// or nil where there is none. It never makes one.
func (a *app) keyAnchor(path string) (*verifier.KeyAnchor, error) {
	if path != "" {
		secret, err := readKey(path)
		return &verifier.KeyAnchor{Secret: secret, Who: "the key in " + path, Asked: true}, err
	}
	open, err := a.environmentKey()
	if err != nil {
		return nil, err
	}
	if open != nil {
		secret, err := secretOf(open)
		return &verifier.KeyAnchor{Secret: secret, Who: "the key in " + keyVariable, Asked: true}, err
	}
	if path, err = a.keyPath(); err != nil {
		return nil, nil // without a home there is no key in it
	}
	secret, err := readKey(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil && a.ephemeral(filepath.Dir(path)) {
		fmt.Fprintf(a.err, "truegreen: the receipt key %s was made during this job and is not trusted; --key trusts it\n", oneLine(path))
		return nil, nil
	}
	return &verifier.KeyAnchor{Secret: secret, Who: machineKey}, err
}

// readSmall reads a file of at most 1 MiB.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &codeError{verifier.Unreadable, err}
	}
	defer f.Close()
	const limit = 1 << 20
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, &codeError{verifier.Unreadable, err}
	}
	if len(b) > limit {
		return nil, usage("%s: larger than 1 MiB", path)
	}
	return b, nil
}

// expectConfig reads the configuration that a bundle must have used.
func expectConfig(path string, o *verifier.Options) error {
	text, err := readSmall(path)
	if err != nil {
		return err
	}
	c, err := verifier.ParseConfig(text)
	if err != nil {
		return &codeError{verifier.BadConfig, fmt.Errorf("%s: %w", path, err)}
	}
	o.Detected, o.PolicySource = len(c.Test) == 0, "compared with "+path
	o.Config, err = c.Document()
	return err
}

// expectRepository resolves, in a repository, what the bundle must be about. Of
// the bundle it takes the head alone, to know which commit to look for.
func (a *app) expectRepository(ctx context.Context, r io.ReaderAt, size int64, f *anchorFlags, o *verifier.Options) error {
	peek, err := verifier.Verify(r, size, verifier.Options{Quick: true, Now: o.Now})
	if err != nil {
		return err
	}
	if !peek.Sound() {
		return nil // the real verification says why
	}
	head := f.o.Head
	if head == "" {
		head = peek.Patch().Head
	}
	s, err := runner.Select(ctx, runner.Options{Repo: f.repo, Head: head, Base: f.o.Base, Merge: f.merge})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := f.trustBase(ctx, s, o); err != nil {
		return err
	}
	o.Head, o.Base, o.NoBase = s.Head.ID, s.Base.ID, s.Base.ID == ""
	o.Repository = cmp.Or(o.Repository, s.Repository())
	o.Tree = cmp.Or(o.Tree, s.Head.Tree)
	from := fmt.Sprintf("base %s in %s", cmp.Or(short(s.Base.ID), "the empty tree"), f.repo)
	switch {
	case o.Config != nil:
		o.PolicySource += "; " + from
	case peek.Plan().Source == verifier.SourceCommand:
		o.PolicySource = "the command was given by hand, not compared; " + from
	default:
		o.PolicySource = "compared with " + from
		o.Config, err = s.Config.Document()
	}
	return err
}
