package main

import (
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
	"github.com/truegreen-dev/truegreen/verifier/expression"
)

// TestDocGate reads the examples of docs/gate.md as the gate does.
func TestDocGate(t *testing.T) {
	t.Parallel()
	const page = "docs/gate.md"
	read := map[string]int{}
	for _, b := range docBlocks(t, page) {
		first, _, _ := strings.Cut(b.text, "\n")
		read[first]++
		var err error
		switch first {
		case "gate:":
			var p verifier.GatePolicy
			if p, _, err = verifier.ParseGate([]byte(b.text)); err == nil {
				_, err = expression.Compile(p.Require)
			}
		case "cases:":
			_, err = verifier.ParseGateCases(page, []byte(b.text))
		case "truegreen.dev/waiver/v1":
			var sig []byte
			if sig, err = bundle.SignSSH(nil, fixture.Signer("alice"), verifier.WaiverNamespace, []byte(b.text)); err == nil {
				_, err = verifier.ParseWaiver([]byte(b.text + "\n" + string(sig)))
			}
		}
		if err != nil {
			t.Errorf("%s:%d: %v", page, b.line, err)
		}
	}
	for _, first := range []string{"gate:", "cases:", "truegreen.dev/waiver/v1"} {
		if read[first] != 1 {
			t.Errorf("%s: %d examples that begin with %q", page, read[first], first)
		}
	}
	checkGoReleaser(t, page)
	rows := tableRows(t, page, "`[^`]*report[^`]*`")
	var sources []string
	for _, row := range rows {
		sources = append(sources, strings.Trim(row[0], "`"))
	}
	if _, err := expression.Compile(sources); err != nil || len(sources) < 4 {
		t.Errorf("%s: %q: %v", page, sources, err)
	}
	// Every rule that a decision can name is there, and every key of the policy.
	text := readPage(t, page)
	for _, name := range []string{
		"verified", "repository", "tree", "base", "max-age", "isolation", "level", "seals", "require", "signers", "threshold", "second-signer", "tag-signers", "waivers",
	} {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s: %s is not there", page, name)
		}
	}
}
