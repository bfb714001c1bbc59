package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"
	"golang.org/x/mod/sumdb/note"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) proveCommand() *cobra.Command {
	var f anchorFlags
	var check string
	cmd := &cobra.Command{
		Use:   "prove BUNDLE CALL | prove --check FILE",
		Short: "Show one call of a run to someone who does not have the bundle",
		Long: `prove prints a C2SP tlog-proof of one call: its frame with the receipt, what it
was asked and what it came to, and where it is under the seal. The other calls
stay private. It exits with the verdict of the bundle. With --check it checks
such a text; --signers says whose SSH signature on the seal counts.`,
		Example: `  truegreen prove evidence.tar.zst 7 > call7.tlog-proof
  truegreen prove --check call7.tlog-proof --signers allowed_signers`,
		Args: func(_ *cobra.Command, args []string) error {
			if want := map[bool]int{false: 2, true: 0}[check != ""]; len(args) != want {
				return usage("want BUNDLE and CALL, or --check FILE")
			}
			return nil
		},
		ValidArgsFunction: completeBundles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if check != "" {
				return a.checkProof(check, &f)
			}
			call, err := strconv.ParseUint(args[1], 10, 32)
			if err != nil {
				return usage("call %q: want a number; truegreen inspect lists them", args[1])
			}
			return a.prove(cmd.Context(), args[0], call, &f)
		},
	}
	cmd.Flags().StringVar(&check, "check", "", "check the proof in this file")
	completes(cmd, map[string]string{"check": completeFile})
	f.addTrust(cmd)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) prove(ctx context.Context, path string, call uint64, f *anchorFlags) error {
	report, err := a.verify(ctx, path, f)
	if err != nil {
		return err
	}
	if !report.Sound() {
		return a.refuse(report)
	}
	text, err := signedNote(path)
	if err != nil {
		return err
	}
	file, size, err := openBundle(path)
	if err != nil {
		return err
	}
	defer file.Close()
	proof, err := verifier.ProveCall(file, size, call, text, bundle.Limits{})
	if err != nil {
		return &codeError{verifier.Usage, err}
	}
	if a.json {
		err = a.printJSON(struct {
			Proof  string          `json:"proof"`
			Report verifier.Report `json:"report"`
		}{string(proof), report})
	} else if _, err = a.out.Write(proof); report.Verdict() != verifier.Verified {
		a.explain(report)
	}
	if err != nil {
		return err
	}
	return exitWith(report)
}

// checkedProof is what a proof comes to.
type checkedProof struct {
	failure
	Signer string           `json:"signer,omitempty"`
	Seal   *receipts.Digest `json:"seal,omitempty"`
	Call   uint64           `json:"call,omitempty"`
	Args   *receipts.Args   `json:"args,omitempty"`
	Result *receipts.Result `json:"result,omitempty"`
}

func (a *app) checkProof(path string, f *anchorFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	text, err := readSmall(path)
	if err != nil {
		return err
	}
	o := verifier.Options{Now: time.Now()}
	if err := f.readSigners(&o); err != nil {
		return err
	}
	p, err := proofOf(text, &o)
	if err != nil {
		return err
	}
	if a.json {
		if err := a.printJSON(p); err != nil {
			return err
		}
	} else {
		a.printProof(p)
	}
	if p.Exit != 0 {
		return exitCode(p.Exit)
	}
	return nil
}

// proofOf checks a proof and who sealed the run that it is from.
func proofOf(text []byte, o *verifier.Options) (checkedProof, error) {
	c, err := verifier.CheckCall(text)
	if err != nil {
		return checkedProof{failure: newFailure(verifier.JoinBroken, err.Error())}, nil
	}
	verified := verifier.Verified
	p := checkedProof{failure: failure{Verdict: &verified, Reasons: []failureReason{}}}
	why := ""
	if sig, err := bundle.ParseNoteSignature(noteName, c.Note); err != nil {
		why = err.Error()
	} else {
		if _, err := note.Open(c.Note, note.VerifierList(bundle.NewNoteVerifier(noteName, sig.Key()))); err != nil {
			return checkedProof{failure: newFailure(verifier.SignatureInvalid, err.Error())}, nil
		}
		p.Signer, why = signerOf(o, sig.Key())
	}
	if p.Signer == "" {
		p.failure = newFailure(verifier.NoTrustedSeal, why)
	}
	seal := bundle.SealDigest(c.Text)
	p.Seal, p.Args, p.Result = &seal, &c.Args, &c.Result
	p.Call, _ = c.Receipt.Call.Uint64()
	return p, nil
}

// signerOf returns who has the key, or why nobody that counts has.
func signerOf(o *verifier.Options, key ssh.PublicKey) (who, why string) {
	switch {
	case o.Signers == nil:
		return "", "no allowed_signers given"
	case o.Revoked != nil && o.Revoked.Contains(key):
		return "", "the key is revoked"
	}
	who, ok, why := o.Signers.Find(key, bundle.SealNamespace, o.Now)
	if !ok {
		return "", why
	}
	return who, ""
}

func (a *app) printProof(p checkedProof) {
	fmt.Fprint(a.out, a.color(verdictColors[*p.Verdict], string(*p.Verdict)))
	if p.Args != nil {
		fmt.Fprintf(a.out, ": call %d, %s, is under the seal %s", p.Call, oneLine(stepLabel(p.Args.Tool, p.Args)), p.Seal)
	}
	fmt.Fprintln(a.out)
	for _, r := range p.Reasons {
		fmt.Fprintf(a.out, "  %s: %s\n    %s\n", r.Code, oneLine(r.Detail), r.Remedy)
	}
	if p.Signer != "" {
		fmt.Fprintf(a.out, "  sealed by %s\n", oneLine(p.Signer))
	}
	if p.Args != nil {
		fmt.Fprintf(a.out, "  %s\n", oneLine(strings.TrimSpace(p.Result.State+"  "+forge.Words(p.Args.Argv))))
	}
}
