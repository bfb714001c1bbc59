package main

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) exportCommand() *cobra.Command {
	var f anchorFlags
	var format, out string
	formats := verifier.ExportFormats()
	cmd := &cobra.Command{
		Use:   "export [flags] BUNDLE",
		Short: "Write the tests of a bundle as JUnit XML, CTRF or JSON",
		Long: `export verifies a bundle as verify does, and writes what its evidence says of
every test on the head, with the verdict and the reasons, in a format that other
tools read: junit (JUnit XML), ctrf (Common Test Report Format) or json. In the
first two, a verdict other than verified is a failed test of its own.

It writes nothing unless the evidence is sound, and exits with the verdict, which
it says on standard error. A FILE that was there goes before anything is
verified, so that it is not taken for this bundle's.`,
		Example: `  truegreen export --format junit --out report.xml evidence.tar.zst
  truegreen export --format ctrf --signers allowed_signers evidence.tar.zst
  truegreen export --format json --repo . evidence.tar.zst | jq .tests[0]`,
		Args:              oneArg("BUNDLE"),
		ValidArgsFunction: completeBundles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(formats, format) {
				return usage("--format %q: want one of %s", format, strings.Join(formats, ", "))
			}
			if err := f.check(); err != nil {
				return err
			}
			if cmd.Flags().Changed("out") {
				if err := clearOut(out, f.files(args[0])); err != nil {
					return err
				}
			}
			report, err := a.verify(cmd.Context(), args[0], &f)
			if err != nil {
				return err
			}
			if !report.Sound() {
				return a.refuse(report)
			}
			if out == "" {
				err = report.Export(a.out, format)
			} else {
				err = exportTo(out, report, format)
			}
			if err != nil {
				return err
			}
			a.explain(report)
			return exitWith(report)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&format, "format", "", "what to write: "+strings.Join(formats, ", "))
	cmd.Flags().StringVar(&out, "out", "", "write to this file (default: standard output)")
	completes(cmd, map[string]string{"out": completeFile})
	if err := cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

// files are the files that a command reads which takes f.
func (f *anchorFlags) files(bundle string) []string {
	return append([]string{bundle, f.key, f.signers, f.revoked, f.config}, f.sigs...)
}

// clearOut removes what is at the place of an output. It must be a file, and none
// of those that are read.
func clearOut(path string, inputs []string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) && path != "" {
		return nil
	}
	if path == "" || err == nil && !info.Mode().IsRegular() {
		return usage("--out %q: is no regular file", path)
	}
	if err != nil {
		return err
	}
	for _, input := range inputs {
		if other, err := os.Stat(input); err == nil && os.SameFile(info, other) {
			return usage("--out %q: is read, too", path)
		}
	}
	return os.Remove(path)
}

// exportTo writes an export into a new file. Where it cannot write all, it leaves
// nothing.
func exportTo(path string, r verifier.Report, format string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	err = errors.Join(r.Export(f, format), f.Close())
	if err != nil {
		os.Remove(path)
	}
	return err
}
