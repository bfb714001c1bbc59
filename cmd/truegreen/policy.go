package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/store"
	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "What the release gate asks for, and why it decides as it does",
		Long: `The policy of the release gate is the key gate of .truegreen.yaml at the protected
branch. explain shows each rule of a decision, with what it was held to; without
--tag, the policy alone. test holds the policy in the working tree to examples.
docs/gate.md explains both.`,
		Example: "  truegreen policy explain --tag v1.4.0 --bundles evidence/\n  truegreen policy test .truegreen/gate_cases.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f gateFlags
	explain := &cobra.Command{
		Use: "explain", Short: "Show the policy, or each rule of a decision", Args: cobra.NoArgs,
		Example: "  truegreen policy explain --policy .truegreen.yaml\n  truegreen policy explain --tag v1.4.0 --bundles evidence/",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.tag == "" && f.bundles == nil {
				return a.policyShow(cmd.Context(), &f)
			}
			return a.gate(cmd.Context(), &f, true)
		},
	}
	f.add(explain)
	var t policyTest
	test := &cobra.Command{
		Use: "test FILE", Short: "Hold a policy to examples",
		Long: `test reads examples: bundles and waivers beside the file, and what has to come of
them. It exits with 0 if that comes of all of them, and with 2 otherwise. Policy and
trust are those in the files here, so that a change can be tried before it counts.`,
		Example: "  truegreen policy test .truegreen/gate_cases.yaml",
		Args:    oneArg("FILE"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.policyTest(args[0], &t) },
	}
	flags := test.Flags()
	flags.StringVar(&t.policy, "policy", verifier.ConfigFile, "the .truegreen.yaml with the policy")
	flags.StringVar(&t.signers, "signers", verifier.SignersFile, "the allowed_signers file")
	flags.StringVar(&t.trust, "trust", verifier.TrustFile, "the trust.yaml")
	flags.StringVar(&t.jwks, "jwks", verifier.KeysFile, "the pinned keys of its issuers")
	flags.StringVar(&t.key, "key", "", "the receipt key that sealed the bundles (default: this machine's)")
	completes(test, map[string]string{"policy": completeFile, "signers": completeFile, "trust": completeFile, "jwks": completeFile, "key": completeFile})
	for _, c := range []*cobra.Command{explain, test} {
		a.jsonFlag(c)
		cmd.AddCommand(c)
	}
	return cmd
}

// policyShow shows the policy that the gate would decide by.
func (a *app) policyShow(ctx context.Context, f *gateFlags) error {
	r, err := openRepository(ctx, f)
	if err != nil {
		return err
	}
	defer r.repo.Close()
	branch, name, err := r.repo.Branch(ctx, f.branch)
	if err != nil {
		return err
	}
	if err := a.protect(ctx, r, f, branch, name); err != nil {
		return err
	}
	p := &r.gate.Policy
	if a.json {
		return a.printJSON(struct {
			Source string               `json:"policy_source"`
			Policy *verifier.GatePolicy `json:"policy"`
		}{r.gate.PolicySource, p})
	}
	list := func(names []string, none string) string {
		if len(names) == 0 {
			return none
		}
		return strings.Join(names, ", ")
	}
	age := "any"
	if p.MaxAge > 0 {
		age = p.MaxAge.String()
	}
	fmt.Fprintf(a.out, "%s\n", oneLine(r.gate.PolicySource))
	for _, line := range [][2]string{
		{"level", fmt.Sprintf("L%d", p.Level)}, {"isolation", fmt.Sprint(p.Isolation)}, {"max-age", age}, {"seals", list(p.Seals, "")},
		{"signers", list(p.Signers, "all who are trusted")}, {"threshold", fmt.Sprint(p.Threshold)},
		{"reproduced", fmt.Sprint(p.Reproduced)}, {"second-signer", list(p.SecondSigner, "no path")}, {"tag-signers", list(p.TagSigners, "nobody has to sign a tag")},
		{"waivers", list(p.Waivers, "nobody can sign a waiver")}, {"require", list(p.Require, "nothing")},
	} {
		fmt.Fprintf(a.out, "  %-13s  %s\n", line[0], oneLine(line[1]))
	}
	return nil
}

// policyTest is what truegreen policy test reads.
type policyTest struct {
	policy, signers, trust, jwks, key string

	gate    verifier.Gate
	options verifier.Options
}

// testedCase is one line of the result.
type testedCase struct {
	Name string   `json:"name"`
	OK   bool     `json:"ok"`
	Want []string `json:"want"`
	Got  []string `json:"got"`
	Why  string   `json:"why"`
}

func (a *app) policyTest(path string, t *policyTest) error {
	text, err := readSmall(path)
	if err != nil {
		return err
	}
	cases, err := verifier.ParseGateCases(path, text)
	if err != nil {
		return usage("%v", err)
	}
	if err := a.readPolicy(t); err != nil {
		return err
	}
	results := []testedCase{}
	bad := 0
	for i := range cases {
		d, err := t.decide(filepath.Dir(path), &cases[i])
		if err != nil {
			return fmt.Errorf("case %q: %w", cases[i].Name, err)
		}
		result := testedCase{Name: cases[i].Name, Want: cases[i].Want, Why: d.Rows()[0].Why}
		for _, reason := range d.Reasons() {
			result.Got = append(result.Got, string(reason.Code))
		}
		if result.Got == nil {
			result.Got = []string{verifier.CasePass}
		}
		if result.OK = slices.Equal(result.Got, result.Want); !result.OK {
			bad++
		}
		results = append(results, result)
		if !a.json {
			mark := "ok  "
			if !result.OK {
				mark = "FAIL"
			}
			fmt.Fprintf(a.out, "%s  %s: %s: %s\n", mark, oneLine(result.Name), strings.Join(result.Got, ", "), oneLine(result.Why))
			if !result.OK {
				fmt.Fprintf(a.out, "      want %s\n", strings.Join(result.Want, ", "))
			}
		}
	}
	if a.json {
		err = a.printJSON(struct {
			OK    int          `json:"ok"`
			Of    int          `json:"of"`
			Cases []testedCase `json:"cases"`
		}{len(results) - bad, len(results), results})
	} else {
		_, err = fmt.Fprintf(a.out, "%d of %d cases\n", len(results)-bad, len(results))
	}
	if err == nil && bad > 0 {
		err = exitCode(2)
	}
	return err
}

// readPolicy reads policy and trust from files; those that say whom to trust need not be
// there.
func (a *app) readPolicy(t *policyTest) error {
	key, err := a.keyAnchor(t.key)
	if err != nil {
		return err
	}
	o, g := &t.options, &t.gate
	if key != nil {
		o.Keys = append(o.Keys, *key)
	}
	o.OIDC = &verifier.OIDCAnchor{}
	files := []trustFile{{t.policy, func(text []byte) (err error) {
		if g.Policy, _, err = verifier.ParseGate(text); err == nil && len(g.Policy.Require) > 0 {
			g.Requirements, err = compileRequirements(g.Policy.Require)
		}
		return err
	}}}
	paths := [...]string{t.signers, t.trust, t.jwks}
	for i, file := range trustFiles(o, func() *verifier.OIDCAnchor { return o.OIDC }) {
		files = append(files, trustFile{paths[i], file.parse})
	}
	for _, file := range files {
		text, err := readSmall(file.path)
		if errors.Is(err, os.ErrNotExist) && file.path != t.policy {
			continue
		}
		if err == nil {
			err = file.parse(text)
		}
		if err != nil {
			return badAt(file.path, err)
		}
	}
	g.Signers, g.PolicySource = o.Signers, t.policy
	g.Policy.TagSigners = nil // an example has no tag
	return nil
}

// decide decides on the commit of an example: it has the tree of its bundles, and what
// they were compared with for its base.
func (t *policyTest) decide(dir string, c *verifier.GateCase) (verifier.Decision, error) {
	const id = "0000000000000000000000000000000000000000"
	g := t.gate
	if g.Now = c.Time; g.Now.IsZero() {
		g.Now = time.Now()
	}
	commit := verifier.GateCommit{ID: id, Tree: c.Tree, Changed: c.Changed}
	g.History = map[string]bool{}
	for _, name := range c.Bundles {
		r := release{options: t.options, gate: verifier.Gate{Policy: g.Policy}}
		r.options.Now = g.Now
		path := filepath.Join(dir, name)
		e, err := store.OpenFile(path)
		if err != nil {
			return verifier.Decision{}, err
		}
		b, err := r.verifyAbout(path, e, func(p verifier.Patch, _ *verifier.Options) error {
			if commit.Tree == "" {
				commit.Tree, commit.Base, g.Repository, commit.Root = p.Tree.Git, p.BaseTree.Git, string(p.Repository), p.Base == ""
			}
			g.History[p.Base] = true
			return nil
		})
		e.Close()
		if err != nil {
			return verifier.Decision{}, err
		}
		g.Bundles = append(g.Bundles, b)
	}
	for _, name := range c.Waivers {
		text, err := readSmall(filepath.Join(dir, name))
		if err != nil {
			return verifier.Decision{}, err
		}
		w, err := verifier.ParseWaiver(text)
		if err != nil {
			return verifier.Decision{}, usage("%s: %v", name, err)
		}
		if g.Repository == "" {
			g.Repository = w.Repository
		}
		g.Waivers = append(g.Waivers, verifier.GateWaiver{Name: name, Waiver: w})
	}
	g.Commits = []verifier.GateCommit{commit}
	g.Tag = verifier.GateTag{Ref: "refs/tags/example", Commit: id, Tree: commit.Tree, Protected: true}
	return g.Decide(), nil
}
