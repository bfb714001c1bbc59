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

// printed returns the last lines of what a failed test printed, without what would act
// on whoever is shown it, and which kinds of that there were.
func (f *facts) printed(t verifier.TestName, lines int) ([]string, []guard.Family) {
	text := f.Report.Excerpt(t)
	r, err := screen().Scan(context.Background(), guard.Result{Content: []byte(text), ToolName: "test"})
	switch {
	case err != nil: // it is too large to be looked at, and no excerpt is
		return nil, nil
	case r.Action == guard.ActionPass || r.Sanitized == nil:
		return block(text, lines), nil
	}
	return block(*r.Sanitized, lines), r.Families
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
