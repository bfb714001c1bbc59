package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

func (a *app) inspectCommand() *cobra.Command {
	var f anchorFlags
	var note bool
	cmd := &cobra.Command{
		Use:   "inspect [flags] BUNDLE",
		Short: "Show who, what and when, and every step with its receipt",
		Long: `inspect verifies a bundle as verify does and shows what is in it: the seal, both
chains and every call. With --note it prints the seal as a C2SP checkpoint, with
its SSH signature as a signed-note line where there is one.`,
		Example: `  truegreen inspect evidence.tar.zst
  truegreen inspect --json evidence.tar.zst
  truegreen inspect --note evidence.tar.zst`,
		Args:              oneArg("BUNDLE"),
		ValidArgsFunction: completeBundles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if note && a.json {
				return usage("--note and --json exclude each other")
			}
			report, err := a.verify(cmd.Context(), args[0], &f)
			if err != nil {
				return err
			}
			switch {
			case note && !report.Sound():
				return a.refuse(report)
			case note:
				text, err := signedNote(args[0])
				if err != nil {
					return err
				}
				if _, err := a.out.Write(text); err != nil {
					return err
				}
			case a.json:
				if err := a.printJSON(inspection(report)); err != nil {
					return err
				}
			default:
				a.printReport(report)
				if report.Sound() {
					a.printSeal(report)
					a.printSteps(report)
				}
			}
			return exitWith(report)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&note, "note", false, "print the checkpoint as a signed note")
	a.jsonFlag(cmd)
	return cmd
}

// noteName is the signer's name in a signed note of a seal.
const noteName = "truegreen.dev/seal"

// signedNote returns the seal of a bundle as a C2SP note: the text alone where
// the bundle has no SSH signature.
func signedNote(path string) ([]byte, error) {
	file, size, err := openBundle(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := bundle.Open(file, size, bundle.Limits{})
	if err != nil {
		return nil, err
	}
	text := b.Seal()
	if b.Sig() == nil {
		return text, nil
	}
	sig, err := bundle.ParseSSH(b.Sig())
	if err != nil {
		return nil, err
	}
	return append(append(text, '\n'), bundle.NoteSignature(noteName, sig)...), nil
}

type inspectedStep struct {
	Call    uint64           `json:"call"`
	Tool    string           `json:"tool"`
	Frame   *uint64          `json:"frame,omitempty"`
	Receipt string           `json:"receipt,omitempty"`
	Args    *receipts.Args   `json:"args,omitempty"`
	Result  *receipts.Result `json:"result,omitempty"`
}

func inspection(r verifier.Report) any {
	steps := []inspectedStep{}
	for _, s := range r.Steps() {
		step := inspectedStep{Call: s.Start.Call, Tool: s.Tool, Args: s.Args, Result: s.Result}
		if s.Proof != nil {
			step.Frame, step.Receipt = &s.Proof.EventSeq, s.Proof.ChainHash().String()
		}
		steps = append(steps, step)
	}
	return struct {
		Report verifier.Report `json:"report"`
		Steps  []inspectedStep `json:"steps"`
	}{r, steps}
}

func (a *app) printSeal(r verifier.Report) {
	s, digest := r.Seal()
	w := a.out
	fmt.Fprintf(w, "\nseal        %s\n", digest)
	fmt.Fprintf(w, "  origin    %s\n", s.Origin())
	fmt.Fprintf(w, "  outcome   %s, attempt %d", s.Outcome, s.Attempt)
	if s.Shards > 0 {
		fmt.Fprintf(w, ", shard %d/%d", s.Shard, s.Shards)
	}
	if s.Resealed {
		fmt.Fprint(w, ", resealed after a crash")
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "  time      %s to %s\n", stamp(s.Start), stamp(s.End))
	fmt.Fprintf(w, "  log       %d frames, chain intact, root %s\n", s.Frames, s.Root)
	macs := "links intact, MACs not checked (no key)"
	if r.MACsChecked() {
		macs = "links and MACs intact"
	}
	fmt.Fprintf(w, "  receipts  %d, %s, head %s\n", s.Receipts, macs, s.Head)
	p := r.Patch()
	fmt.Fprintf(w, "patch       %s\n", s.Patch)
	fmt.Fprintf(w, "  head      %s, tree %s\n", p.Head, p.Tree.Git)
	fmt.Fprintf(w, "            tree (SHA-256) %s, %d gitlinks\n", p.Tree.SHA256, p.Tree.Gitlinks)
	if p.Base == "" {
		fmt.Fprintln(w, "  base      the empty tree")
	} else {
		fmt.Fprintf(w, "  base      %s, tree %s\n", p.Base, p.BaseTree.Git)
	}
	fmt.Fprintf(w, "  diff      %s\n", p.Diff)
}

func stamp(ms uint64) string {
	return time.UnixMilli(int64(ms)).UTC().Format("2006-01-02T15:04:05.000Z")
}

func (a *app) printSteps(r verifier.Report) {
	w := a.out
	fmt.Fprintln(w, "steps")
	for _, s := range r.Steps() {
		fmt.Fprintf(w, "%4d  %-26s ", s.Start.Call, oneLine(stepLabel(s.Tool, s.Args)))
		if s.Proof == nil {
			fmt.Fprintln(w, "started, did not complete: no receipt")
			continue
		}
		fmt.Fprintf(w, "frame %-4d receipt %.16s…", s.Proof.EventSeq, s.Proof.ChainHash())
		printResult(w, s)
	}
}

// stepLabel names a call.
func stepLabel(tool string, args *receipts.Args) string {
	if args == nil {
		return tool
	}
	return strings.Join(strings.Fields(strings.Join([]string{tool, args.Name, args.Side, args.Purpose, string(args.Package)}, " ")), " ")
}

func printResult(w io.Writer, s verifier.Step) {
	if s.Result == nil {
		fmt.Fprintln(w)
		return
	}
	state := s.Result.State
	if state == receipts.StateExited {
		state = fmt.Sprintf("exit %d", s.Result.Exit)
	}
	fmt.Fprintf(w, "  %s  %.1fs\n", oneLine(state), float64(s.Result.End-s.Result.Start)/1000)
	if len(s.Args.Argv) > 0 {
		fmt.Fprintf(w, "        $ %s\n", oneLine(forge.Words(s.Args.Argv)))
	}
	if s.Result.Why != "" {
		fmt.Fprintf(w, "        %s\n", oneLine(string(s.Result.Why)))
	}
	for _, out := range []struct {
		name string
		s    receipts.Stream
	}{{"stdout", s.Result.Stdout}, {"stderr", s.Result.Stderr}} {
		if out.s.Bytes > 0 {
			cut := ""
			if out.s.Kept < out.s.Bytes {
				cut = fmt.Sprintf(", %d kept", out.s.Kept)
			}
			fmt.Fprintf(w, "        %-9s %d bytes%s  %s\n", out.name, out.s.Bytes, cut, out.s.Digest)
			writeCovered(w, out.name, out.s.Covered)
		}
	}
	for _, f := range s.Result.Files {
		fmt.Fprintf(w, "        %-9s %d bytes  %s\n", oneLine(string(f.Name)), f.Size, f.Digest)
		writeCovered(w, oneLine(string(f.Name)), f.Covered)
	}
	for _, n := range s.Result.Notes {
		fmt.Fprintf(w, "        %s: %s\n", oneLine(n.Name), oneLine(string(n.Value)))
	}
	if i := s.Result.Isolation; i != nil {
		fmt.Fprintf(w, "        isolation level %d (%s), uid %d, network %s, landlock ABI %d, kill by %s\n", i.Level, oneLine(walls(i)), i.UID, oneLine(network(i)), i.LandlockABI, oneLine(i.Kill))
		if i.Image != "" {
			fmt.Fprintf(w, "        image     %s %s\n", oneLine(i.Image), oneLine(i.ImageDigest))
		}
	}
}

// writeCovered says which secrets are covered in what a call put out.
func writeCovered(w io.Writer, name string, c *receipts.Covered) {
	if c == nil {
		return
	}
	noun := "secrets"
	if c.Count == 1 {
		noun = "secret"
	}
	var places []string
	for _, s := range c.Spans {
		places = append(places, fmt.Sprintf("%s at %d", oneLine(s.Rule), s.At))
	}
	if int64(len(places)) < c.Count {
		places = append(places, "…")
	}
	fmt.Fprintf(w, "        covered   %d %s in %s: %s\n", c.Count, noun, name, strings.Join(places, ", "))
}
