package forge

import (
	"fmt"
	"strings"

	"github.com/truegreen-dev/truegreen/verifier"
)

const maxDescription = 140 // characters of a commit status

// Status returns the state and the description of a commit status: success for
// verified alone, failure for failed, error for unproven and broken. Where nobody
// acts on the verdict, or nobody attests it, the state is neutral, which is for
// whoever posts it to map to what the forge has, and never to success where the
// run is not attested.
func (p *Page) Status() (state, description string) {
	list := p.facts()
	switch v := worst(list); {
	case v == verifier.Verified:
		state = "success"
	case v != verifier.Broken && (p.ReportOnly || p.Target.Unattested):
		state = "neutral"
	case v == verifier.Failed:
		state = "failure"
	default:
		state = "error"
	}
	passed, failed, skipped := p.Counts()
	description = p.headline(list)
	if passed+failed+skipped > 0 {
		counts := fmt.Sprintf("%s passed, %s failed", grouped(passed), grouped(failed))
		if p.Target.Unattested {
			counts = "claimed: " + counts
		}
		if d := description + "; " + counts; len([]rune(d)) <= maxDescription {
			description = d
		}
	}
	return state, cut(OneLine(strings.TrimSpace(description)), maxDescription)
}
