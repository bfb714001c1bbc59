package forge

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/truegreen-dev/truegreen/guard"
	"github.com/truegreen-dev/truegreen/verifier"
)

// screen is the guard before what tests printed. Who shows it to reviewers, and to models
// that read pull requests, passes on orders otherwise that a patch's author gave.
var screen = sync.OnceValue(func() *guard.Guard {
	g, err := guard.New(guard.Options{Mode: guard.Sanitize, NoCache: true})
	if err != nil {
		panic(err) // the options are fixed
	}
	return g
})

// shownAsText are the kinds that a page makes harmless by itself: [OneLine] writes them
// out, so that a reviewer sees what the test printed. It often is what the test is about.
var shownAsText = []guard.Family{guard.TerminalControl, guard.WorkflowCommand, guard.Unclassified}

// printed returns the last lines of what a failed test printed, without what would act
// on whoever is shown it, and which kinds of that were in these lines' text.
func (f *facts) printed(t verifier.TestName, lines int) ([]string, []guard.Family) {
	text := f.Report.Excerpt(t)
	r, err := screen().Scan(context.Background(), guard.Result{Content: []byte(text), ToolName: "test"})
	if err != nil { // it is too large to be looked at, and no excerpt is
		return nil, nil
	}
	kinds := slices.DeleteFunc(slices.Clone(r.Families), func(k guard.Family) bool { return slices.Contains(shownAsText, k) })
	if len(kinds) == 0 {
		return block(text, lines), nil
	}
	shown := block(*r.Sanitized, lines)
	if !slices.ContainsFunc(shown, func(l string) bool { return strings.Contains(l, guard.Placeholder) }) {
		return shown, nil // it was in what is not shown
	}
	return shown, kinds
}

// screened is the sentence about what was left out.
func screened(kinds []guard.Family) string {
	slices.Sort(kinds)
	var names []string
	for _, k := range slices.Compact(kinds) {
		names = append(names, strings.ReplaceAll(string(k), "_", " "))
	}
	return "Left out of what these tests printed, as it would act on whoever is shown it: " + strings.Join(names, ", ") + ". The bundle has it as it was."
}
