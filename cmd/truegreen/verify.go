package main

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) verifyCommand() *cobra.Command {
	var f anchorFlags
	var statement, sign string
	cmd := &cobra.Command{
		Use:   "verify [flags] BUNDLE",
		Short: "Verify a bundle, offline, on any machine",
		Long: `verify reads a bundle, checks every byte of it, reads again what the tests put
out, and says what it proves, to whom. Without flags it trusts the receipt key
of this machine, with --repo whom .truegreen at the base there names. What the
bundle says about itself is never trusted.`,
		Example: `  truegreen verify evidence.tar.zst
  truegreen verify --signers allowed_signers --head "$SHA" evidence.tar.zst
  truegreen verify --repo . --json evidence.tar.zst
  truegreen verify --trust trust.yaml --jwks jwks.json --run 1234 evidence.tar.zst
  truegreen verify --statement patch.intoto.json --sign ~/.ssh/id_ed25519 evidence.tar.zst`,
		Args:              oneArg("BUNDLE"),
		ValidArgsFunction: completeBundles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (statement == "") != (sign == "") {
				return usage("--statement and --sign go together")
			}
			var key ssh.Signer
			if sign != "" {
				var err error
				if key, err = a.statementKey(sign); err != nil {
					return err
				}
			}
			report, err := a.verify(cmd.Context(), args[0], &f)
			if err != nil {
				return err
			}
			if statement != "" {
				if err := a.writeStatement(statement, report, key); err != nil {
					return err
				}
			}
			if a.json {
				if err := a.printJSON(report); err != nil {
					return err
				}
			} else {
				a.printReport(report)
			}
			return exitWith(report)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&statement, "statement", "", "write an in-toto statement of a verified bundle, in a DSSE envelope, to this file")
	cmd.Flags().StringVar(&sign, "sign", "", "sign the statement with this ssh-ed25519 key file, or with agent[:FINGERPRINT]")
	completes(cmd, map[string]string{"statement": completeFile, "sign": completeFile})
	a.jsonFlag(cmd)
	return cmd
}

func oneArg(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("want one %s, got %d arguments", name, len(args))
		}
		return nil
	}
}

// verify resolves the anchors and verifies a bundle.
func (a *app) verify(ctx context.Context, path string, f *anchorFlags) (verifier.Report, error) {
	if err := f.check(); err != nil {
		return verifier.Report{}, err
	}
	// A verifier's memory is bounded by what a bundle may cost, not by what it
	// leaves behind.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	o := f.o
	o.Now, o.AllowCommand = time.Now(), !f.noCommand
	if err := a.anchors(path, &o, f); err != nil {
		return verifier.Report{}, err
	}
	file, size, err := openBundle(path)
	if err != nil {
		return verifier.Report{}, err
	}
	defer file.Close()
	if f.config != "" {
		if err := expectConfig(f.config, &o); err != nil {
			return verifier.Report{}, err
		}
	}
	if f.repo != "" {
		if err := a.expectRepository(ctx, file, size, f, &o); err != nil {
			return verifier.Report{}, err
		}
	}
	return verifier.Verify(file, size, o)
}
