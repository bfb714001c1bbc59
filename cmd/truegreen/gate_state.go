package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/truegreen-dev/truegreen/verifier"
)

// gateID is who states a decision, if nobody says otherwise.
const gateID = "https://github.com/truegreen-dev/truegreen/gate"

// statementFlags say what is stated about a release, and by whom.
type statementFlags struct {
	vsa, svr, sign, id string
}

func (f *statementFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.vsa, "vsa", "", "write a SLSA verification summary of a release that passes, in a DSSE envelope, to this file")
	flags.StringVar(&f.svr, "svr", "", "write an in-toto simple verification result likewise")
	flags.StringVar(&f.sign, "sign", "", "sign them with this ssh-ed25519 key file, or with agent[:FINGERPRINT]")
	flags.StringVar(&f.id, "verifier", gateID, "the URI of whoever states it")
	completes(cmd, map[string]string{"vsa": completeFile, "svr": completeFile, "sign": completeFile, "verifier": ""})
}

func (f *statementFlags) check() error {
	switch {
	case (f.vsa != "" || f.svr != "") != (f.sign != ""):
		return usage("--vsa or --svr, and --sign, go together")
	case f.vsa != "" && f.vsa == f.svr:
		return usage("--vsa and --svr: want two files")
	case f.sign != "" && f.id == "":
		return usage("--verifier: want a URI")
	}
	return nil
}

// statementSigner returns the key that signs, nil where nothing is to be signed.
func (a *app) statementSigner(f *statementFlags) (ssh.Signer, error) {
	if f.sign == "" {
		return nil, nil
	}
	return a.statementKey(f.sign)
}

// stateRelease writes what is asked for about a release that passes. Of another there is
// nothing to state: a file that is there then goes, so that it is not taken for this
// release's.
func (a *app) stateRelease(d verifier.Decision, r *release, f *statementFlags, key ssh.Signer) error {
	if key == nil {
		return nil
	}
	by := verifier.Issuer{ID: f.id, Version: version(), PolicyURI: r.policyURI, Policy: r.policy, Inputs: r.inputs}
	for _, s := range []struct {
		path string
		make func(verifier.Issuer) ([]byte, error)
	}{{f.vsa, d.Summary}, {f.svr, d.Result}} {
		if s.path == "" {
			continue
		}
		if d.Verdict() != verifier.Verified {
			if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			fmt.Fprintf(a.err, "truegreen: no statement: the release is %s\n", d.Verdict())
			continue
		}
		doc, err := s.make(by)
		if err != nil {
			return err
		}
		if err := writeEnvelope(s.path, doc, key); err != nil {
			return err
		}
	}
	return nil
}
