package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// maxWaiver is for how long a waiver can be made out. What is meant for longer is a
// change of the policy.
const maxWaiver = 366 * 24 * time.Hour

func (a *app) waiverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "waiver",
		Short: "Let a commit pass the gate without evidence, in somebody's name",
		Long: `A waiver names a commit or tree, a reason and a day on which it ends, and is signed
by someone whom gate.waivers in .truegreen.yaml at the protected branch names.
truegreen gate shows each that it used. docs/gate.md has the format.`,
		Example: "  truegreen waiver sign --commit HEAD --reason \"the runner was down\" --sign ~/.ssh/id_ed25519",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var o waiverOptions
	sign := &cobra.Command{
		Use: "sign", Short: "Write and sign a waiver", Args: cobra.NoArgs,
		Example: `  truegreen waiver sign --commit v1.4.0~2 --reason "the runner was down" --sign ~/.ssh/id_ed25519
  truegreen waiver sign --tree "$TREE" --reason "reviewed by hand" --expires 168h --sign agent --out evidence/tree.waiver`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.waiverSign(cmd, &o) },
	}
	flags := sign.Flags()
	flags.StringVar(&o.commit, "commit", "", "the commit, as any revision")
	flags.StringVar(&o.tree, "tree", "", "instead: the tree, as a full object id")
	flags.StringVar(&o.reason, "reason", "", "why it may pass, in one line")
	flags.DurationVar(&o.expires, "expires", 14*24*time.Hour, "for how long it counts, at most 8784h")
	flags.StringVar(&o.sign, "sign", "", "the SSH key file, or agent[:FINGERPRINT]")
	flags.StringVar(&o.out, "out", "", "the file to write (default: COMMIT.waiver)")
	flags.StringVar(&o.repo, "repo", ".", "the repository")
	flags.StringVar(&o.repository, "repository", "", "its name, as host/path (default: that of the remote origin)")
	completes(sign, map[string]string{
		"commit": "", "tree": "", "reason": "", "expires": "", "repository": "", "sign": completeFile, "out": completeFile, "repo": completeFolder,
	})
	a.jsonFlag(sign)
	cmd.AddCommand(sign)
	return cmd
}

type waiverOptions struct {
	commit, tree, reason, sign, out, repo, repository string
	expires                                           time.Duration
}

// writtenWaiver is what waiver sign prints with --json.
type writtenWaiver struct {
	Path       string `json:"path"`
	Repository string `json:"repository"`
	Commit     string `json:"commit,omitempty"`
	Tree       string `json:"tree,omitempty"`
	Expires    string `json:"expires"`
}

func (a *app) waiverSign(cmd *cobra.Command, o *waiverOptions) error {
	switch {
	case (o.commit == "") == (o.tree == ""):
		return usage("want --commit or --tree")
	case o.tree != "" && !isObjectID(o.tree):
		return usage("--tree %q: want a full object id", o.tree)
	case o.reason == "":
		return usage("--reason is required: why may it pass?")
	case o.sign == "":
		return usage("--sign is required: by whom?")
	case o.expires < time.Second || o.expires > maxWaiver:
		return usage("--expires %s: want 1s to %.0fh", o.expires, maxWaiver.Hours())
	}
	key, err := a.sshKey(o.sign)
	if err != nil {
		return err
	}
	repo, err := runner.OpenRepository(cmd.Context(), o.repo)
	if err != nil {
		return err
	}
	defer repo.Close()
	w := verifier.Waiver{
		Repository: cmp.Or(o.repository, repo.Name()), Tree: o.tree, Reason: o.reason, Expires: time.Now().Add(o.expires).UTC().Truncate(time.Second),
	}
	if o.commit != "" {
		c, err := repo.Resolve(cmd.Context(), o.commit)
		if err != nil {
			return err
		}
		w.Commit = c.ID
	}
	text, err := w.Text()
	if err != nil {
		return usage("%v", err)
	}
	sig, err := bundle.SignSSH(rand.Reader, key, verifier.WaiverNamespace, text)
	if err != nil {
		return err
	}
	path := cmp.Or(o.out, cmp.Or(w.Commit, w.Tree)+waiverSuffix)
	if err := os.WriteFile(path, bytes.Join([][]byte{text, sig}, []byte("\n")), 0o644); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(writtenWaiver{path, w.Repository, w.Commit, w.Tree, w.Expires.Format(time.RFC3339)})
	}
	fmt.Fprintf(a.out, "wrote %s: %s %s of %s may pass until %s\n", oneLine(path), map[bool]string{true: "commit", false: "tree"}[w.Commit != ""],
		short(cmp.Or(w.Commit, w.Tree)), oneLine(w.Repository), w.Expires.Format(time.RFC3339))
	return nil
}
