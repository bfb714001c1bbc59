package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// gateTrials returns, for every code that only a release can have, one that is like one
// that passes but for one thing.
func gateTrials() map[verifier.Code]trial {
	return map[verifier.Code]trial{
		verifier.WrongTag:       ofGate(func(g *verifier.Gate) { g.Tag.Expected = strings.Repeat("0", 40) }),
		verifier.EvidenceTooLow: ofGate(func(g *verifier.Gate) { g.Policy.Level = verifier.LevelMutants }),
		verifier.TooFewSigners:  ofGate(func(g *verifier.Gate) { g.Policy.Threshold = 2 }),
		verifier.NoReproduction: ofGate(func(g *verifier.Gate) {
			again := g.Bundles[0]
			again.Name = "again.tar.zst" // the same run once more, under another name
			g.Policy.Reproduced, g.Bundles = true, append(g.Bundles, again)
		}),
		verifier.TagNotSigned:     ofGate(func(g *verifier.Gate) { g.Policy.TagSigners = []string{"alice"} }),
		verifier.TagElsewhere:     ofGate(func(g *verifier.Gate) { g.Tag.Protected = false }),
		verifier.HistoryRewritten: ofGate(func(g *verifier.Gate) { g.Tag.Rewritten = true }),
		verifier.EvidenceExpired: ofGate(func(g *verifier.Gate) {
			g.Bundles = []verifier.GateBundle{{Name: "artifact:octo/project/500", Report: verifier.NoBundle(verifier.EvidenceExpired, "it has expired")}}
		}),
		verifier.NotMet: ofGate(func(g *verifier.Gate) { g.Policy.Require = []string{"report.claim.level > 4"} }),
	}
}

// ofGate decides on a release of one commit with one bundle that edit has changed.
func ofGate(edit func(*verifier.Gate)) trial {
	return func(dir string) (observed, error) {
		run := fixture.New()
		file, err := run.Bundle(dir)
		if err != nil {
			return observed{}, err
		}
		a, err := fixture.Unpack(file)
		if err != nil {
			return observed{}, err
		}
		sig, err := fixture.Sign("alice", a.Content(fixture.SealMember))
		if err != nil {
			return observed{}, err
		}
		o := run.Options()
		if o.Signers, err = bundle.ParseSigners([]byte(fixture.SignerLine("alice", ""))); err != nil {
			return observed{}, err
		}
		o.Sidecars = []verifier.Sidecar{{Name: "evidence.sig", Bytes: sig}}
		report, err := verifier.Verify(bytes.NewReader(file), int64(len(file)), o)
		if err != nil {
			return observed{}, err
		}
		p := report.Patch()
		g := verifier.Gate{
			Repository: run.Repository, Policy: verifier.DefaultGate(), PolicySource: "the fixture's", Signers: o.Signers, Now: o.Now.Add(time.Hour),
			History: map[string]bool{p.Base: true, p.Head: true},
			Commits: []verifier.GateCommit{{ID: p.Head, Tree: p.Tree.Git, Base: p.BaseTree.Git}},
			Bundles: []verifier.GateBundle{{Name: "evidence.tar.zst", Tree: p.Tree.Git, Report: report}},
			Tag:     verifier.GateTag{Ref: "refs/tags/v1.0.0", Commit: p.Head, Tree: p.Tree.Git, Protected: true},
		}
		if d := g.Decide(); d.Verdict() != verifier.Verified {
			return observed{}, fmt.Errorf("unchanged, the release is %s: %v", d.Verdict(), d.Reasons())
		}
		edit(&g)
		if len(g.Policy.Require) > 0 {
			g.Requirements = notMet{}
		}
		return observeDecision(g.Decide())
	}
}

// observeDecision shows a decision as the commands do, and reads what they show.
func observeDecision(d verifier.Decision) (observed, error) {
	var text bytes.Buffer
	shown := &app{out: &text, err: &text, getenv: func(string) string { return "" }}
	if err := shown.printJSON(d); err != nil {
		return observed{}, err
	}
	var exit exitCode
	if err := exitWithVerdict(d.Verdict()); err != nil && !errors.As(err, &exit) {
		return observed{}, err
	}
	got, err := observeJSON(text.Bytes(), int(exit))
	if err != nil {
		return observed{}, err
	}
	text.Reset()
	shown.printDecision(d, false)
	for _, code := range got.Codes {
		if !strings.Contains(text.String(), string(code)) {
			return observed{}, fmt.Errorf("the text does not name %s: %s", code, text.String())
		}
	}
	return got, nil
}

// notMet is what an expression is that is not true.
type notMet struct{}

// Check implements [verifier.Requirements].
func (notMet) Check([]byte) error { return errors.New("\"report.claim.level >= 4\" is not true") }
