package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

type reproduceFlags struct {
	run  runFlags
	base string
}

func (a *app) reproduceCommand() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce BUNDLE [flags]",
		Short: "Make the run of a bundle again, on this machine, and compare",
		Long: `reproduce tests the patch of a bundle again: the same commits, from this
repository, by the commands that the base configures here. It compares test by
test, and seals what it did into a bundle of its own, which names the first.

Nothing that the bundle says is run. Where its commands are not those of this
repository, or its base is not on the default branch, it is plan-differs.

It exits with 0 if all came out as the bundle says, with 1 if not, and with 2, 3
or 4 if that could not be found out.`,
		Example: `  truegreen reproduce evidence.tar.zst
  truegreen reproduce evidence.tar.zst --repo ~/src/project --out again.tar.zst --sign ~/.ssh/id_ed25519`,
		Args:              oneArg("BUNDLE"),
		ValidArgsFunction: completeBundles,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.reproduce(cmd.Context(), args[0], &f) },
	}
	flags, o := cmd.Flags(), &f.run.o
	flags.StringVar(&o.Repo, "repo", ".", "a folder in the repository")
	flags.StringVar(&o.Name, "repository", "", "its name, as host/path (default: that of the remote origin)")
	flags.StringVar(&f.base, "base", "", "the base that the bundle must have, any revision (default: its own, if the default branch has it)")
	flags.StringVar(&o.Out, "out", "", "write the new bundle here (default: a name in the state folder)")
	flags.IntVar(&o.MinLevel, "isolation", 0, "least isolation level, beside the configuration's own")
	flags.StringVar(&f.run.sign, "sign", "", "sign the seal with this SSH private key file, or with agent[:FINGERPRINT]")
	f.run.receiptFlag(cmd)
	a.jsonFlag(cmd)
	completes(cmd, map[string]string{"repo": completeFolder, "repository": "", "base": "", "out": completeBundle, "isolation": "", "sign": completeFile})
	return cmd
}

func (a *app) reproduce(ctx context.Context, path string, f *reproduceFlags) error {
	f.run.o.Attempt = 1
	if err := a.setUpRun(&f.run); err != nil {
		return err
	}
	first, err := readReport(path)
	if err != nil {
		return err
	}
	if !first.Sound() {
		return a.refuse(first)
	}
	r := reproduced{first: first}
	if r.reasons = unfinished(first); r.reasons == nil {
		if r.reasons, err = a.planAgain(ctx, first, f); err != nil {
			return err
		}
	}
	if r.reasons == nil {
		if err := a.runAgain(ctx, &r, &f.run); err != nil {
			return err
		}
	}
	return a.showReproduced(&r)
}

// readReport verifies a bundle by itself: whoever vouches for it, it either can be made
// again or not.
func readReport(path string) (verifier.Report, error) {
	file, size, err := openBundle(path)
	if err != nil {
		return verifier.Report{}, err
	}
	defer file.Close()
	return verifier.Verify(file, size, verifier.Options{Now: time.Now(), AllowCommand: true})
}

// unfinished returns why there is nothing to compare with in a run.
func unfinished(r verifier.Report) (reasons []verifier.Reason) {
	for _, reason := range r.Reasons() {
		if slices.Contains([]verifier.Code{verifier.NoEnd, verifier.Interrupted, verifier.RunFailed}, reason.Code) {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// planAgain sets up the run of a bundle's patch by what this repository says, and returns
// why the bundle's own was another.
func (a *app) planAgain(ctx context.Context, first verifier.Report, f *reproduceFlags) ([]verifier.Reason, error) {
	patch, plan, o := first.Patch(), first.Plan(), &f.run.o
	because := func(code verifier.Code, format string, args ...any) ([]verifier.Reason, error) {
		return []verifier.Reason{{Code: code, Detail: fmt.Sprintf(format, args...)}}, nil
	}
	if plan.Source == verifier.SourceCommand {
		return because(verifier.PlanByHand, "the bundle's command was given by hand: %s", commandsOf(plan.Runs))
	}
	seal, digest := first.Seal()
	o.Reproduces, o.Fresh, o.Evidence = digest, true, plan.Level
	o.Head, o.Base = patch.Head, patch.Base
	o.HeadOnly = !slices.ContainsFunc(plan.Runs, func(r verifier.PlannedRun) bool { return r.Side == verifier.SideBase })
	if o.Merge = mergeOf(first); o.Merge != "" && !isObjectID(o.Merge) {
		return because(verifier.PlanDiffers, "the bundle names the merge %s", o.Merge)
	}
	s, err := runner.Select(ctx, *o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	config, err := s.Config.Document()
	if err != nil {
		return nil, err
	}
	switch {
	case s.Repository() != string(patch.Repository):
		return nil, usage("this repository is %s, and the bundle is about %s: if it is the same, say --repository", s.Repository(), patch.Repository)
	case s.Base.ID != patch.Base:
		return because(verifier.PlanDiffers, "its base is the empty tree, and %s has a parent", short(patch.Head))
	case s.Head.Tree != patch.Tree.Git:
		return because(verifier.PlanDiffers, "it tested tree %s, and %s has tree %s", patch.Tree.Git, short(patch.Head), s.Head.Tree)
	}
	if why, err := a.baseCounts(ctx, s.Base.ID, f); why != "" || err != nil {
		if err != nil {
			return nil, err
		}
		return because(verifier.PlanDiffers, "%s", why)
	}
	if receipts.Sum(config) != seal.Config || s.Source != plan.Source {
		return because(verifier.PlanDiffers, "the bundle was made with %s, and this repository says otherwise at base %s", verifier.SourceText(plan.Source), short(patch.Base))
	}
	preview, err := runner.PreviewRun(ctx, *o)
	if err != nil {
		return nil, err
	}
	if here, there := commandsOf(preview.Runs), commandsOf(plan.Runs); here != there {
		return because(verifier.PlanDiffers, "the bundle's commands are %s, and here they are %s", there, here)
	}
	return nil, nil
}

// baseCounts says what speaks against the base of a bundle, whose configuration decides
// what is run: who made the bundle has chosen it.
func (a *app) baseCounts(ctx context.Context, base string, f *reproduceFlags) (why string, err error) {
	repo, err := runner.OpenRepository(ctx, f.run.o.Repo)
	if err != nil {
		return "", err
	}
	defer repo.Close()
	if f.base != "" {
		c, err := repo.Resolve(ctx, f.base)
		if err == nil && c.ID != base {
			why = fmt.Sprintf("its base is %s, and not %s", short(base), short(c.ID))
		}
		return why, err
	}
	if base == "" {
		return "", nil
	}
	branch, name, err := repo.Branch(ctx, "")
	if err != nil {
		return "", err
	}
	on, err := repo.Contains(ctx, branch, base)
	if err == nil && !on {
		why = fmt.Sprintf("its base %s is not on %s: if it is one that you trust, say --base", short(base), name)
	}
	return why, err
}

// mergeOf returns the merge whose tree was tested, as the run noted it.
func mergeOf(r verifier.Report) string {
	for _, step := range r.Steps() {
		if step.Args == nil || step.Result == nil || step.Args.Tool != receipts.ToolMaterialise {
			continue
		}
		for _, n := range step.Result.Notes {
			if n.Name == "merge" {
				return string(n.Value)
			}
		}
	}
	return ""
}

// commandsOf are the planned commands in one line, with the folders that they run in.
func commandsOf(runs []verifier.PlannedRun) string {
	var list []string
	for _, r := range runs {
		list = append(list, fmt.Sprintf("%s on %s in %s: %q %q %s", r.Name, r.Side, r.Dir, r.Env, r.Argv, r.Format))
	}
	return strings.Join(list, "; ")
}

// reproduced is what came of making a run again.
type reproduced struct {
	first   verifier.Report
	second  *verifier.Report // nil: nothing was run
	path    string           // of its bundle
	result  verifier.Reproduction
	reasons []verifier.Reason
}

// runAgain makes the run, and compares.
func (a *app) runAgain(ctx context.Context, r *reproduced, f *runFlags) error {
	done, anchor, err := a.makeRun(ctx, f)
	if err != nil {
		return err
	}
	defer done.Close()
	second, err := a.verifyRun(&f.o, done, anchor)
	if err != nil {
		return err
	}
	r.second, r.path = &second, done.Bundle
	return r.compare()
}

// compare compares the two reports.
func (r *reproduced) compare() (err error) {
	if !r.second.Sound() {
		r.reasons = r.second.Reasons()
		return nil
	}
	if r.reasons = unfinished(*r.second); r.reasons != nil {
		return nil
	}
	if r.result, err = verifier.CompareRuns(r.first, *r.second); err != nil {
		return err
	}
	if n := len(r.result.Differences); n > 0 {
		r.reasons = []verifier.Reason{{Code: verifier.NotReproduced, Detail: fmt.Sprintf("%d of %d: %s", n, max(r.result.Tests, n), r.result.Differences[0])}}
	} else if r.result.Tests == 0 {
		r.reasons = []verifier.Reason{{Code: verifier.NoTests, Detail: "no test was seen in either run that came out the same way each time"}}
	}
	return nil
}

// showReproduced prints what came of it, and ends with its exit code.
func (a *app) showReproduced(r *reproduced) error {
	verdict := verifier.Verified
	reasons := make([]failureReason, len(r.reasons))
	for i, reason := range r.reasons {
		cause, _ := verifier.CauseOf(reason.Code)
		reasons[i] = failureReason{reason.Code, reason.Detail, cause.Remedy}
		if i == 0 { // the gravest
			verdict = cause.Verdict
		}
	}
	_, first := r.first.Seal()
	if a.json {
		out := struct {
			Verdict verifier.Verdict `json:"verdict"`
			Exit    int              `json:"exit_code"`
			Reasons []failureReason  `json:"reasons"`
			First   receipts.Digest  `json:"reproduces"`
			Bundle  string           `json:"bundle,omitempty"`
			Seal    string           `json:"seal,omitempty"`
			verifier.Reproduction
		}{verdict, verdict.Exit(), reasons, first, r.path, "", r.result}
		if r.second != nil {
			_, digest := r.second.Seal()
			out.Seal = digest.String()
		}
		if out.Differences == nil {
			out.Differences = []verifier.TestDifference{}
		}
		if err := a.printJSON(out); err != nil {
			return err
		}
		return exitWithVerdict(verdict)
	}
	word := map[verifier.Verdict]string{verifier.Verified: "reproduced", verifier.Failed: "differs"}[verdict]
	if word == "" {
		word = "cannot be reproduced"
	}
	patch, w := r.first.Patch(), a.out
	fmt.Fprintf(w, "%s: %s %s, %d tests compared", a.color(verdictColors[verdict], word), oneLine(string(patch.Repository)), short(patch.Head), r.result.Tests)
	if r.result.Unstable > 0 {
		fmt.Fprintf(w, ", %d left out that come out both ways", r.result.Unstable)
	}
	fmt.Fprintln(w)
	for _, reason := range reasons {
		fmt.Fprintf(w, "  %s: %s\n    %s\n", reason.Code, oneLine(reason.Detail), reason.Remedy)
	}
	for i, d := range r.result.Differences {
		if i == maxListed {
			fmt.Fprintf(w, "  … and %d more\n", len(r.result.Differences)-i)
			break
		}
		fmt.Fprintf(w, "  %s\n", oneLine(d.String()))
	}
	fmt.Fprintf(w, "  first     %s\n", first)
	if r.path != "" {
		fmt.Fprintf(w, "  bundle    %s\n", oneLine(r.path))
	}
	return exitWithVerdict(verdict)
}
