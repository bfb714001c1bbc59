package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// gateFlags say which release is asked about, what speaks for it, and whom to trust.
type gateFlags struct {
	repo, repository, tag, since, branch, commit string
	policy                                       string
	bundles                                      []string
	all                                          bool
	trust                                        anchorFlags
	statements                                   statementFlags
}

func (f *gateFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.tag, "tag", "", "the tag of the release")
	flags.StringArrayVar(&f.bundles, "bundles", nil, "where bundles and waivers are: PATH, release:OWNER/REPO@TAG, artifact:OWNER/REPO/RUN or oci://HOST/NAME@sha256:HEX; repeatable")
	flags.StringVar(&f.since, "since", "", "the last release, a tag or commit (default: the nearest tag before)")
	flags.BoolVar(&f.all, "all-commits", false, "ask for evidence of every commit, not only of first parents")
	flags.StringVar(&f.commit, "commit", "", "the commit that the tag must name, a full object id")
	flags.StringVar(&f.branch, "branch", "", "the protected branch that is released from (default: the default branch)")
	flags.StringVar(&f.policy, "policy", "", "a .truegreen.yaml with the policy (default: the one at the protected branch)")
	flags.StringVar(&f.repo, "repo", ".", "the repository")
	flags.StringVar(&f.repository, "repository", "", "its name, as host/path (default: that of the remote origin)")
	t := &f.trust
	flags.StringVar(&t.signers, "signers", "", "an allowed_signers file (default: the one at the protected branch)")
	flags.StringVar(&t.revoked, "revoked", "", "a file of SSH keys that do not count any more")
	flags.StringVar(&t.key, "key", "", "the receipt key that sealed the bundles (default: this machine's)")
	flags.StringVar(&t.trust, "trust", "", "a trust.yaml (default: the one at the protected branch)")
	flags.StringVar(&t.jwks, "jwks", "", "the pinned keys of its issuers (default: those at the protected branch)")
	completes(cmd, map[string]string{
		"tag": "", "since": "", "commit": "", "branch": "", "repository": "", "bundles": completeFile, "policy": completeFile, "repo": completeFolder,
		"signers": completeFile, "revoked": completeFile, "key": completeFile, "trust": completeFile, "jwks": completeFile,
	})
}

func (f *gateFlags) check() error {
	switch {
	case f.tag == "":
		return usage("--tag is required: which release?")
	case len(f.bundles) == 0:
		return usage("--bundles is required: where are bundles and waivers?")
	case f.commit != "" && !isObjectID(f.commit):
		return usage("--commit %q: want a full object id", f.commit)
	}
	return f.statements.check()
}

func (a *app) gateCommand() *cobra.Command {
	var f gateFlags
	cmd := &cobra.Command{
		Use:   "gate --tag TAG --bundles PLACE [flags]",
		Short: "Decide whether a tag can be released",
		Long: `gate asks for evidence of the tag's tree and of every commit since the last release:
a bundle that verifies, is trusted, was made for that very tree, and meets the
policy; or a waiver. Policy and trust are those of the protected branch, never
those of the tag. What is missing is unproven, never passed over. truegreen store
says which places there are.`,
		Example: `  truegreen gate --tag v1.4.0 --bundles evidence/
  truegreen gate --tag v1.4.0 --since v1.3.0 --bundles evidence/ --json
  truegreen gate --tag v1.4.0 --bundles evidence/ --vsa vsa.json --sign gate_key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.gate(cmd.Context(), &f, false)
		},
	}
	f.add(cmd)
	f.statements.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

// gate decides, shows it, and states it; explain shows every rule of every commit.
func (a *app) gate(ctx context.Context, f *gateFlags, explain bool) error {
	if err := f.check(); err != nil {
		return err
	}
	sign, err := a.statementSigner(&f.statements)
	if err != nil {
		return err
	}
	r, err := a.openRelease(ctx, f)
	if err != nil {
		return err
	}
	defer r.repo.Close()
	r.stated = sign != nil
	if err := a.readEvidence(ctx, r, f.bundles); err != nil {
		return err
	}
	d := r.gate.Decide()
	if err := a.stateRelease(d, r, &f.statements, sign); err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(d)
	} else {
		a.printDecision(d, explain)
	}
	return cmp.Or(err, exitWithVerdict(d.Verdict()))
}

// A release is what a gate is asked about, and where it looks things up.
type release struct {
	repo    *runner.Repository
	gate    verifier.Gate
	needed  map[string]bool // trees
	sums    treeSums
	options verifier.Options
	configs configs
	policy  receipts.Digest // of its file
	stated  bool            // the digests of the evidence are asked for

	policyURI string

	mu     sync.Mutex
	inputs map[string]receipts.Digest
}

func openRepository(ctx context.Context, f *gateFlags) (*release, error) {
	repo, err := runner.OpenRepository(ctx, f.repo)
	if err != nil {
		return nil, err
	}
	r := &release{repo: repo, needed: map[string]bool{}, inputs: map[string]receipts.Digest{}}
	r.gate.Now, r.gate.Repository = time.Now(), cmp.Or(f.repository, repo.Name())
	return r, nil
}

// openRelease resolves the tag, the protected branch, what it says, and the commits that
// need evidence.
func (a *app) openRelease(ctx context.Context, f *gateFlags) (_ *release, err error) {
	r, err := openRepository(ctx, f)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.repo.Close()
		}
	}()
	tag, err := r.repo.Tag(ctx, f.tag)
	if err != nil {
		return nil, err
	}
	branch, name, err := r.repo.Branch(ctx, f.branch)
	if err != nil {
		return nil, err
	}
	g := &r.gate
	g.Tag = verifier.GateTag{Ref: tag.Ref, Object: tag.Object, Commit: tag.Commit.ID, Tree: tag.Commit.Tree, Expected: f.commit}
	if err := a.protect(ctx, r, f, branch, name); err != nil {
		return nil, err
	}
	protected, err := r.repo.FirstParents(ctx, branch)
	if err != nil {
		return nil, err
	}
	g.History = make(map[string]bool, len(protected))
	for _, c := range protected {
		g.History[c.ID] = true
	}
	history := protected
	at := slices.IndexFunc(protected, func(c runner.Commit) bool { return c.ID == tag.Commit.ID })
	if g.Tag.Protected = at >= 0; g.Tag.Protected {
		history = protected[at:]
	} else if history, err = r.repo.FirstParents(ctx, tag.Commit); err != nil {
		return nil, err
	}
	if err := r.commits(ctx, f, history); err != nil {
		return nil, err
	}
	r.configs = configs{repo: r.repo, commits: protected}
	return r, nil
}

// protect reads policy and trust at the tip of the protected branch, where no flag names
// others: who was taken out of it is not trusted any more.
func (a *app) protect(ctx context.Context, r *release, f *gateFlags, branch runner.Commit, name string) error {
	g, at := &r.gate, fmt.Sprintf("%s at %s", oneLine(name), short(branch.ID))
	source := fmt.Sprintf("%s at %s", verifier.ConfigFile, at)
	r.policyURI = fmt.Sprintf("git+https://%s@%s#%s", g.Repository, branch.ID, verifier.ConfigFile)
	text, err := r.repo.File(ctx, branch.Tree, verifier.ConfigFile, 64<<10)
	if f.policy != "" {
		source, r.policyURI = f.policy, "file:"+filepath.ToSlash(f.policy)
		text, err = readSmall(f.policy)
	}
	found := false
	if err == nil {
		g.Policy, found, err = verifier.ParseGate(text)
		r.policy = receipts.Sum(text)
	} else if errors.Is(err, fs.ErrNotExist) && f.policy == "" {
		g.Policy, err = verifier.DefaultGate(), nil
	}
	if err != nil {
		return badAt(source, err)
	}
	if g.PolicySource = source; !found {
		g.PolicySource = "the default: " + source + " has no gate"
	}
	if len(g.Policy.Require) > 0 {
		e, err := compileRequirements(g.Policy.Require)
		if err != nil {
			return badAt(source, err)
		}
		g.Requirements = e
	}
	o := &r.options
	o.Repository, o.Now = g.Repository, g.Now
	key, err := a.keyAnchor(f.trust.key)
	if err != nil {
		return err
	}
	if key != nil {
		o.Keys = append(o.Keys, *key)
	}
	if f.trust.revoked != "" {
		text, err := readSmall(f.trust.revoked)
		if err != nil {
			return err
		}
		if o.Revoked, err = bundle.ParseRevoked(text); err != nil {
			return usage("%s: %v", f.trust.revoked, err)
		}
	}
	o.OIDC = &verifier.OIDCAnchor{}
	flags := [...]string{f.trust.signers, f.trust.trust, f.trust.jwks}
	for i, file := range trustFiles(o, func() *verifier.OIDCAnchor { return o.OIDC }) {
		flag := flags[i]
		where := cmp.Or(flag, file.path+" at "+at)
		text, err := r.repo.File(ctx, branch.Tree, file.path, 1<<20)
		if flag != "" {
			text, err = readSmall(flag)
		} else if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = file.parse(text)
		}
		if err != nil {
			return badAt(where, err)
		}
	}
	g.Signers, g.Revoked = o.Signers, o.Revoked
	return nil
}

// badAt is an error of a file that decides, unless there is a better name for it.
func badAt(where string, err error) error {
	var coded *codeError
	var repo *runner.RepositoryError
	if errors.As(err, &coded) || errors.As(err, &repo) {
		return err
	}
	return &codeError{verifier.BadConfig, fmt.Errorf("%s: %w", where, err)}
}
