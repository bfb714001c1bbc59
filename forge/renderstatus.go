package forge

import (
	"fmt"
	"strings"

	"github.com/truegreen-dev/truegreen/verifier"
)

// Status returns the state and the description of a commit status: success for
// verified alone, failure for failed, error for unproven and broken. Where nobody
// acts on the verdict, or nobody attests it, it is neutral unless the evidence
// is broken.
func (p *Page) Status() (state, description string) {
	list := p.facts()
	switch v := worst(list); {
	case v == verifier.Verified:
		state = StateSuccess
	case v != verifier.Broken && (p.ReportOnly || p.Target.Unattested):
		state = StateNeutral
	case v == verifier.Failed:
		state = StateFailure
	default:
		state = StateError
	}
	passed, failed, skipped := p.Counts()
	description = p.headline(list)
	if passed+failed+skipped > 0 {
		counts := fmt.Sprintf("%s passed, %s failed", grouped(passed), grouped(failed))
		if p.Target.Unattested {
			counts = "claimed: " + counts
		}
		if d := description + "; " + counts; len([]rune(d)) <= maxStatusText {
			description = d
		}
	}
	return state, cut(OneLine(strings.TrimSpace(description)), maxStatusText)
}
