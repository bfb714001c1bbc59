package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/docs/recipes"
	"github.com/truegreen-dev/truegreen/internal/lazy"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/runner"
)

// initOptions are the flags of init.
type initOptions struct {
	repo, action              string
	workflows, forks, release bool
	id                        int64
}

// What goes into a workflow as it is. Other names are possible on GitHub, but would have
// to be quoted, and some are patterns there.
var (
	plainAction     = lazy.Regexp(`^[A-Za-z0-9-]+(/[A-Za-z0-9._-]+)+@[A-Za-z0-9][A-Za-z0-9._/-]*$`)
	plainRepository = lazy.Regexp(`^[A-Za-z0-9-]+/[A-Za-z0-9._-]+$`)
	plainBranch     = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)
)

func (o *initOptions) check(cmd *cobra.Command) error {
	if !o.workflows {
		for _, name := range []string{"forks", "release", "action", "repository-id"} {
			if cmd.Flags().Changed(name) {
				return usage("--%s does not go with --workflows=false", name)
			}
		}
	}
	if !plainAction().MatchString(o.action) {
		return usage("--action %q: want OWNER/REPOSITORY@REF", o.action)
	}
	if o.id < 0 || o.id == 0 && cmd.Flags().Changed("repository-id") {
		return usage("--repository-id %d: want a positive number", o.id)
	}
	return nil
}

// adopt writes all that a repository on GitHub needs, and says what is left to do.
func (a *app) adopt(ctx context.Context, root *os.Root, config newFile, o initOptions) error {
	place, why, err := findPlace(ctx, o)
	if err != nil {
		return err
	}
	files := []newFile{config}
	names := []string{"truegreen.yml", "truegreen-jobs.yml"}
	if o.forks {
		names = append(names, "truegreen-forks.yml")
	}
	if o.release {
		names = append(names, "truegreen-release.yml")
	}
	for _, name := range names {
		text, err := place.Workflow(name)
		if err != nil {
			return err
		}
		files = append(files, newFile{".github/workflows/" + name, text})
	}
	files = append(files, newFile{verifier.TrustFile, trustText(place, o)})
	for _, f := range files {
		switch err := f.write(root); {
		case err == nil:
			fmt.Fprintf(a.out, "wrote  %s\n", f.path)
		case errors.Is(err, fs.ErrExist):
			fmt.Fprintf(a.out, "kept   %s, which was there\n", f.path)
		default:
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	for _, w := range why {
		fmt.Fprintf(a.err, "truegreen: %s\n", oneLine(w))
	}
	a.printNext(nextSteps(place, o))
	return nil
}

// findPlace finds the repository's name and default branch, and says what it could not
// find. What it does not know stays a placeholder.
func findPlace(ctx context.Context, o initOptions) (p recipes.Place, why []string, err error) {
	repo, err := runner.OpenRepository(ctx, o.repo)
	if err != nil {
		return recipes.Place{}, nil, err
	}
	defer repo.Close()
	p = recipes.Place{Repository: recipes.Repository, Branch: recipes.Branch, Action: o.action}
	host, name, _ := strings.Cut(repo.Name(), "/")
	if (host == "github.com" || host == "ssh.github.com") && plainRepository().MatchString(name) {
		p.Repository = name
	} else {
		why = append(why, fmt.Sprintf("%s is not a repository on github.com: put yours where %s is in the files above", repo.Name(), recipes.Repository))
	}
	branch := repo.DefaultBranch()
	switch {
	case plainBranch().MatchString(branch):
		p.Branch = branch
	case branch == "":
		why = append(why, fmt.Sprintf("this clone does not know the default branch of origin: change %s in the files above if it is another", recipes.Branch))
	default:
		why = append(why, fmt.Sprintf("the default branch %q has to be quoted: put it where %s is in the files above", branch, recipes.Branch))
	}
	return p, why, nil
}

// trustText returns a trust.yaml by which the jobs of the workflows are trusted. Without
// the repository's number it is not a complete one, and nobody is.
func trustText(p recipes.Place, o initOptions) string {
	var b strings.Builder
	b.WriteString(`# Whose OIDC tokens vouch for a run: jobs of these workflows, as they are on the default
# branch. It counts there and nowhere else. Protect that branch, and review a change of
# the workflows or of this file as one of who is trusted: truegreen's docs/trust.md
oidc:
`)
	if o.id > 0 {
		fmt.Fprintf(&b, "  - repository-id: %d\n", o.id)
	} else {
		fmt.Fprintf(&b, "  - # repository-id: the number that this prints: %s\n", askID(p))
	}
	fmt.Fprintf(&b, "    workflows: # as GitHub spells them\n      - %s/.github/workflows/truegreen-jobs.yml@refs/heads/%s\n", p.Repository, p.Branch)
	events := "pull_request, merge_group, push"
	if o.forks {
		fmt.Fprintf(&b, "      - %s/.github/workflows/truegreen-forks.yml@refs/heads/%s\n", p.Repository, p.Branch)
		events += ", pull_request_target"
	}
	fmt.Fprintf(&b, "    events: [%s]\n", events)
	return b.String()
}

// askID returns the command that tells a repository's number.
func askID(p recipes.Place) string { return "gh api repos/" + p.Repository + " --jq .id" }

// nextSteps returns what is left to do.
func nextSteps(p recipes.Place, o initOptions) []string {
	var steps []string
	if o.id == 0 {
		steps = append(steps, fmt.Sprintf("put the repository's number into %s: %s", verifier.TrustFile, askID(p)))
	}
	in := "truegreen-jobs.yml"
	if o.forks {
		in += " and truegreen-forks.yml"
	}
	checks := `the check "truegreen / gate"`
	if o.forks {
		checks = `the checks "truegreen / gate" and "truegreen-forks / gate"`
	}
	return append(steps,
		fmt.Sprintf("pin GitHub's keys in %s: truegreen trust update", verifier.KeysFile),
		"add what your tests need to job run in "+in,
		"to watch before it blocks, put enforce: false below each mode: in "+in,
		fmt.Sprintf("review all of it and commit it to %s: it counts there and nowhere else", p.Branch),
		fmt.Sprintf("require %s on %s", checks, p.Branch),
		fmt.Sprintf("to trust seals that people make with their SSH keys, list them in %s: docs/trust.md", verifier.SignersFile),
	)
}

func (a *app) printNext(steps []string) {
	fmt.Fprintln(a.out, "next")
	for i, s := range steps {
		fmt.Fprintf(a.out, "  %d. %s\n", i+1, s)
	}
}
