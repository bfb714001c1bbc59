package forge

import (
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// TestUpstream: receipts of other tools have lines of their own, apart from what was
// observed, and what a hostile one says does nothing to the page.
func TestUpstream(t *testing.T) {
	t.Parallel()
	text, key, err := fixture.Receipt("allow")
	if err != nil {
		t.Fatal(err)
	}
	page := func(receipt []byte) string {
		r := fixture.New()
		r.Config.Receipts = []verifier.ReceiptEntry{{Name: "agent", Adapter: "acta", Keys: []string{key}, Tool: "read"}}
		r.Receipts = map[string][]byte{"agent": receipt}
		p := &Page{Job: Job{Attempt: 1}, Sections: []Section{{Report: verified(t, r, func(*verifier.Options) {})}}}
		return p.Comment("marker")
	}
	if got := page(text); !strings.Contains(got, "- upstream receipts, which say what other tools saw:\n  - `agent: trusted, ") || strings.Contains(got, "receipt-untrusted") {
		t.Error(got)
	}
	hostile := strings.Replace(string(text), `"tool_name":"read"`, `"tool_name":"@all </details> <!-- x`+"`"+`\u001b[2J"`, 1)
	got := page([]byte(hostile))
	if !strings.Contains(got, "agent: untrusted: ") || !strings.Contains(got, "receipt-untrusted") {
		t.Error(got)
	}
	harmless(t, got)
}
