package runner

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// A Preview is what a run would do.
type Preview struct {
	Repository string                `json:"repository"`
	Base       string                `json:"base"`
	BaseHow    string                `json:"base_how"`
	Head       string                `json:"head"`
	Tree       string                `json:"tree"`
	Files      int                   `json:"files"`
	Changed    int                   `json:"changed"`
	Source     string                `json:"source"`
	Runs       []verifier.PlannedRun `json:"runs"`
	NotCovered []string              `json:"not_covered,omitempty"`
	MinLevel   int                   `json:"min_level"`
	Evidence   string                `json:"evidence"` // level that the run tries to reach, such as L2
	Cost       string                `json:"cost"`
	Dirty      string                `json:"dirty,omitempty"`
}

// PreviewRun says what [Run] would do with these options. It starts no command.
func PreviewRun(ctx context.Context, o Options) (Preview, error) {
	s, err := Select(ctx, o)
	if err != nil {
		return Preview{}, err
	}
	defer s.Close()
	var lists [2]Listing
	for i, tree := range [...]string{s.Base.Tree, s.Head.Tree} {
		if lists[i], err = s.repo.List(ctx, tree, io.Discard); err != nil {
			return Preview{}, err
		}
	}
	trees, err := verifier.ReadTrees(lists[0].Entries, lists[1].Entries, &s.Config.Evidence, nil, nil, nil)
	if err != nil {
		return Preview{}, err
	}
	changed := trees.Changed()
	plan := verifier.NewPlan(receipts.Digest{}, receipts.Digest{}, &s.Config, s.Source, trees, verifier.Sides{EmptyBase: s.Base.ID == "", HeadOnly: o.HeadOnly, Level: o.Evidence}, receipts.Digest{})
	commands, written := 0, 2
	for _, r := range plan.Runs {
		if r.Skip == "" {
			commands++
		}
	}
	if s.Base.ID == "" || o.HeadOnly {
		written = 1
	}
	return Preview{
		Repository: s.Repository(), Base: s.Base.ID, BaseHow: s.Base.How, Head: s.Head.ID, Tree: s.Head.Tree,
		Files: len(lists[1].Entries), Changed: len(changed), Source: s.Source, Runs: plan.Runs, NotCovered: s.NotCovered,
		MinLevel: max(s.Config.Isolation.Level, o.MinLevel), Evidence: aim(&s.Config.Evidence, &plan), Dirty: s.Dirty,
		Cost: fmt.Sprintf("%d commands, each as long as without truegreen; writing %d trees, %d MiB; %s",
			commands, written, int64(written)*lists[1].Bytes>>20, further(&s.Config.Evidence, &plan)),
	}, nil
}

// aim says which level the run tries to reach.
func aim(c *verifier.EvidenceConfig, p *verifier.Plan) string {
	level := fmt.Sprintf("L%d", p.Level)
	if c.Auto && p.Level < verifier.LevelFailToPass {
		level += fmt.Sprintf(", and L%d where these commands take no more than a tenth of the budget", verifier.LevelFailToPass)
	}
	return level
}

// further says which runs may follow from what the planned ones come to.
func further(c *verifier.EvidenceConfig, p *verifier.Plan) string {
	var text []string
	highest := p.Level
	if c.Auto {
		highest = max(highest, verifier.LevelFailToPass)
	}
	based := slices.ContainsFunc(p.Runs, func(r verifier.PlannedRun) bool { return r.Side == verifier.SideBase && r.Skip == "" })
	for _, kind := range []struct {
		level int
		based bool // they compare with the base
		text  string
	}{
		{verifier.LevelNoRegression, false, "a test that has to fail, in Go packages with a TestMain"},
		{verifier.LevelNoRegression, true, "failed tests again, the base again, the base's tests on the head's code"},
		{verifier.LevelFailToPass, true, fmt.Sprintf("the head's tests on the base's code, and those that fail there %d times on each side", c.Reruns)},
		{verifier.LevelExecuted, false, "all Go tests with their executed lines counted, and in another order"},
		{verifier.LevelMutants, false, fmt.Sprintf("Go tests on at most %d faults in changed lines", c.Mutants)},
	} {
		if kind.level <= highest && (based || !kind.based) {
			text = append(text, fmt.Sprintf("L%d: %s", kind.level, kind.text))
		}
	}
	if len(text) == 0 {
		return "nothing more for the evidence"
	}
	budget := strings.TrimSuffix((time.Duration(c.Budget) * time.Second).String(), "m0s")
	if budget[len(budget)-1] != 's' {
		budget += "m"
	}
	return fmt.Sprintf("within %s in all, what these come to may call for more; %s", budget, strings.Join(text, "; "))
}
