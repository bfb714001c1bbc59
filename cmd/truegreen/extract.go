package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) extractCommand() *cobra.Command {
	f := anchorFlags{o: verifier.Options{Quick: true}}
	cmd := &cobra.Command{
		Use:   "extract [flags] BUNDLE DIR",
		Short: "Write the members of a bundle, and each call's files, into a new folder",
		Long: `extract writes a bundle into DIR, which must not exist: its members under their
own names, and below calls/ what each call was asked, came to and put out. It
writes nothing unless the evidence is sound, and exits with the verdict, as
verify --quick does. What tests put out is not to be trusted: nothing in DIR is
executable.`,
		Example: "  truegreen extract evidence.tar.zst out\n  cat out/calls/005-test-unit-head/stdout",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("want BUNDLE and DIR, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return completeBundles(nil, args, "")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := a.verify(cmd.Context(), args[0], &f)
			if err != nil {
				return err
			}
			if !report.Sound() {
				return a.refuse(report)
			}
			n, err := extract(args[0], args[1], report)
			if err != nil {
				return err
			}
			if a.json {
				if err := a.printJSON(struct {
					Dir    string          `json:"dir"`
					Files  int             `json:"files"`
					Report verifier.Report `json:"report"`
				}{args[1], n, report}); err != nil {
					return err
				}
				return exitWith(report)
			}
			fmt.Fprintf(a.out, "%d files in %s\n", n, oneLine(args[1]))
			if report.Verdict() != verifier.Verified {
				a.explain(report)
			}
			return exitWith(report)
		},
	}
	f.addTrust(cmd)
	a.jsonFlag(cmd)
	return cmd
}

// extract writes everything below a folder that it makes, inside of which
// nothing can lead outside. Where it cannot write all, it leaves nothing.
func extract(bundlePath, dir string, r verifier.Report) (files int, err error) {
	file, size, err := openBundle(bundlePath)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	b, err := bundle.Open(file, size, bundle.Limits{})
	if err != nil {
		return 0, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	x := extraction{root: root, b: b}
	if err := b.Walk(func(e bundle.Entry, body io.Reader) error { return x.write(e.Name, body) }); err != nil {
		return 0, err
	}
	for _, s := range r.Steps() {
		if err := x.step(s); err != nil {
			return 0, err
		}
	}
	return x.files, nil
}

type extraction struct {
	root  *os.Root
	b     *bundle.Reader
	files int
}

func (x *extraction) write(name string, body io.Reader) error {
	if err := x.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := x.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	x.files++
	_, err = io.Copy(f, body)
	return errors.Join(err, f.Close())
}

func (x *extraction) blob(name string, d receipts.Digest) error {
	if d.IsZero() || !x.b.Has(d) {
		return nil // of no bytes, or withheld
	}
	body, _, err := x.b.Blob(d)
	if err != nil {
		return err
	}
	defer body.Close()
	return x.write(name, body)
}

func (x *extraction) step(s verifier.Step) error {
	dir := "calls/" + plainName(fmt.Sprintf("%03d %s", s.Start.Call, stepLabel(s.Tool, s.Args)))
	if err := x.blob(dir+"/args.json", s.Start.Args); err != nil {
		return err
	}
	if s.Proof == nil || s.Result == nil {
		return nil
	}
	if err := x.blob(dir+"/result.json", s.Proof.Result); err != nil {
		return err
	}
	if err := x.blob(dir+"/stdout", s.Result.Stdout.Digest); err != nil {
		return err
	}
	if err := x.blob(dir+"/stderr", s.Result.Stderr.Digest); err != nil {
		return err
	}
	used := map[string]bool{"args.json": true, "result.json": true, "stdout": true, "stderr": true, "": true}
	for i, f := range s.Result.Files {
		name := plainName(string(f.Name))
		if used[name] {
			name = fmt.Sprintf("%d-%s", i+1, name)
		}
		used[name] = true
		if err := x.blob(dir+"/"+name, f.Digest); err != nil {
			return err
		}
	}
	return nil
}

// plainName keeps letters, digits and dots of a name and makes the rest dashes.
func plainName(s string) string {
	fields := strings.FieldsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '.' && r != '_'
	})
	name := strings.TrimLeft(strings.Join(fields, "-"), ".")
	return name[:min(len(name), 100)]
}
