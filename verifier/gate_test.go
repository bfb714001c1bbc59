package verifier_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// gateTime is an hour after the fixture's runs.
var gateTime = time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC)

// gated is the gate of a release of one commit, the fixture's head.
type gated struct {
	verifier.Gate
	t   *testing.T
	run fixture.Run
}

// newGate makes one whose only bundle alice has signed.
func newGate(t *testing.T) *gated {
	t.Helper()
	g := &gated{t: t, run: fixture.New()}
	g.Repository = g.run.Repository
	g.Policy = verifier.DefaultGate()
	g.Now = gateTime
	signers, err := bundle.ParseSigners([]byte(fixture.SignerLine("alice", "") + fixture.SignerLine("bob", "")))
	if err != nil {
		t.Fatal(err)
	}
	g.Signers = signers
	g.Bundles = []verifier.GateBundle{g.bundle("a", "alice")}
	p := g.Bundles[0].Report.Patch()
	g.History = map[string]bool{p.Base: true, p.Head: true}
	g.Commits = []verifier.GateCommit{{ID: p.Head, Tree: p.Tree.Git, Base: p.BaseTree.Git, Changed: []string{"add.go"}}}
	g.Tag = verifier.GateTag{Ref: "refs/tags/v1.4.0", Commit: p.Head, Tree: p.Tree.Git, Protected: true}
	return g
}

// bundle makes a bundle of the gate's run that these have signed.
func (g *gated) bundle(name string, signers ...string) verifier.GateBundle {
	g.t.Helper()
	return g.bundleOf(name, g.run, nil, signers...)
}

func (g *gated) bundleOf(name string, run fixture.Run, ask func(*verifier.Options), signers ...string) verifier.GateBundle {
	g.t.Helper()
	run.Job[0] = byte(len(name)) ^ name[0] // another run than that of another name
	file := bundleOf(g.t, &run)
	a, err := fixture.Unpack(file)
	if err != nil {
		g.t.Fatal(err)
	}
	o := run.Options()
	o.Keys, o.Signers = nil, g.Signers
	for _, s := range signers {
		if id, ok := strings.CutPrefix(s, "token "); ok {
			claims := fixture.Claims(bundle.SealDigest(a.Content(fixture.SealMember)))
			claims["run_id"] = id
			token, err := fixture.Token(claims)
			if err != nil {
				g.t.Fatal(err)
			}
			o.Sidecars = append(o.Sidecars, verifier.Sidecar{Name: "evidence.oidc", Bytes: token})
			continue
		}
		sig, err := fixture.Sign(s, a.Content(fixture.SealMember))
		if err != nil {
			g.t.Fatal(err)
		}
		o.Sidecars = append(o.Sidecars, verifier.Sidecar{Name: s + ".sig", Bytes: sig})
	}
	if ask != nil {
		ask(&o)
	}
	var tree string
	o.About = func(p verifier.Patch, _ *verifier.Options) error {
		tree = p.Tree.Git
		return nil
	}
	return verifier.GateBundle{Name: name, Tree: tree, Report: verify(g.t, file, o)}
}

func (g *gated) waiver(edit func(*verifier.Waiver), signer string) verifier.GateWaiver {
	g.t.Helper()
	w := verifier.Waiver{Repository: g.Repository, Commit: g.Tag.Commit, Expires: g.Now.Add(time.Hour), Reason: "seen by hand"}
	if edit != nil {
		edit(&w)
	}
	return verifier.GateWaiver{Name: "w", Waiver: signedWaiver(g.t, w, signer, verifier.WaiverNamespace)}
}

func signedWaiver(t testing.TB, w verifier.Waiver, signer, namespace string) verifier.Waiver {
	t.Helper()
	text, err := w.Text()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := bundle.SignSSH(nil, fixture.Signer(signer), namespace, text)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := verifier.ParseWaiver(append(append(text, '\n'), sig...))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// tagObject makes an annotated tag that someone has signed, "" for nobody.
func tagObject(t testing.TB, name, commit, signer string) []byte {
	t.Helper()
	text := fmt.Sprintf("object %s\ntype commit\ntag %s\ntagger a <a@example.com> 1767323045 +0000\n\nrelease\n", commit, name)
	if signer == "" {
		return []byte(text)
	}
	sig, err := bundle.SignSSH(nil, fixture.Signer(signer), verifier.GitNamespace, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(text), sig...)
}

type refuseAll struct{}

func (refuseAll) Check(report []byte) error {
	if !json.Valid(report) {
		return errors.New("no JSON")
	}
	return errors.New(`"false" is not true`)
}

type acceptAll struct{}

func (acceptAll) Check([]byte) error { return nil }

// TestGate has every way in which a release passes or does not, and the rule that
// decides.
func TestGate(t *testing.T) {
	t.Parallel()
	other := "00112233445566778899aabbccddeeff00112233"
	for name, c := range map[string]struct {
		edit func(g *gated)
		rule string // of the first row; "" is evidence
		want []verifier.Code
	}{
		"evidence":                 {func(*gated) {}, "", nil},
		"no bundle":                {func(g *gated) { g.Bundles = nil }, "", []verifier.Code{verifier.NoEvidence}},
		"nothing was asked":        {func(g *gated) { g.Commits = nil }, "-", []verifier.Code{verifier.NoEvidence}},
		"another commit was asked": {func(g *gated) { g.Tag.Commit = other }, "", []verifier.Code{verifier.NoEvidence}},
		"the tag has another tree": {func(g *gated) { g.Tag.Tree = other }, "", []verifier.Code{verifier.NoEvidence}},
		"bundle of another tree":   {func(g *gated) { g.Commits[0].Tree, g.Tag.Tree = other, other }, "", []verifier.Code{verifier.NoEvidence}},
		"bundle of another tree that says it is of this one": {func(g *gated) {
			g.Commits[0].Tree, g.Tag.Tree, g.Bundles[0].Tree = other, other, other
		}, "tree", []verifier.Code{verifier.WrongPatch}},
		"bundle of a fork":          {func(g *gated) { g.Repository = "git.example.com/original" }, "repository", []verifier.Code{verifier.WrongPatch}},
		"its base is not protected": {func(g *gated) { clear(g.History) }, "base", []verifier.Code{verifier.WrongBase}},
		"nobody vouches for it":     {func(g *gated) { g.Bundles[0] = g.bundle("a") }, "verified", []verifier.Code{verifier.NoTrustedSeal}},
		"zero report":               {func(g *gated) { g.Bundles[0] = verifier.GateBundle{Name: "z", Tree: g.Tag.Tree} }, "verified", []verifier.Code{verifier.NoEvidence}},
		"quick report": {func(g *gated) {
			g.Bundles[0] = g.bundleOf("a", g.run, func(o *verifier.Options) { o.Quick = true }, "alice")
		}, "verified", []verifier.Code{verifier.NoEvidence}},

		"old":                {func(g *gated) { g.Policy.MaxAge = time.Minute }, "max-age", []verifier.Code{verifier.Stale}},
		"recent enough":      {func(g *gated) { g.Policy.MaxAge = 2 * time.Hour }, "", nil},
		"from the future":    {func(g *gated) { g.Now = g.Now.Add(-2 * time.Hour) }, "max-age", []verifier.Code{verifier.Stale}},
		"little isolation":   {func(g *gated) { g.Policy.Isolation = 4 }, "isolation", []verifier.Code{verifier.LowIsolation}},
		"enough isolation":   {func(g *gated) { g.Policy.Isolation = 3 }, "", nil},
		"level":              {func(g *gated) { g.Policy.Level = 1 }, "", nil},
		"little evidence":    {func(g *gated) { g.Policy.Level = 2 }, "level", []verifier.Code{verifier.EvidenceTooLow}},
		"against other base": {func(g *gated) { g.Policy.Level, g.Commits[0].Base = 1, other }, "level", []verifier.Code{verifier.EvidenceTooLow}},
		"L0, other base":     {func(g *gated) { g.Commits[0].Base = other }, "", nil},

		"mac where ssh is asked": {func(g *gated) {
			g.Bundles[0] = g.bundleOf("a", g.run, func(o *verifier.Options) { o.Keys = []verifier.KeyAnchor{g.run.Anchor()} })
		}, "seals", []verifier.Code{verifier.NoTrustedSeal}},
		"mac": {func(g *gated) {
			g.Policy.Seals = []string{verifier.SealMAC}
			g.Bundles[0] = g.bundleOf("a", g.run, func(o *verifier.Options) { o.Keys = []verifier.KeyAnchor{g.run.Anchor()} })
		}, "", nil},
		"mac where signers are asked": {func(g *gated) {
			g.Policy.Seals, g.Policy.Signers = []string{verifier.SealMAC}, []string{"the fixture's key"}
			g.Bundles[0] = g.bundleOf("a", g.run, func(o *verifier.Options) { o.Keys = []verifier.KeyAnchor{g.run.Anchor()} })
		}, "seals", []verifier.Code{verifier.NoTrustedSeal}},
		"signer":       {func(g *gated) { g.Policy.Signers = []string{"bob", "alice"} }, "", nil},
		"other signer": {func(g *gated) { g.Policy.Signers = []string{"bob"} }, "seals", []verifier.Code{verifier.NoTrustedSeal}},

		"workflow": {func(g *gated) {
			g.Policy.Signers = []string{fixture.TokenWorkflow}
			g.Bundles[0] = g.token("a", "1001")
		}, "", nil},
		"workflow where ssh is asked": {func(g *gated) {
			g.Policy.Seals = []string{verifier.SealSSH}
			g.Bundles[0] = g.token("a", "1001")
		}, "seals", []verifier.Code{verifier.NoTrustedSeal}},
		"threshold, a workflow and alice": {func(g *gated) {
			g.Policy.Threshold = 2
			g.Bundles = append(g.Bundles, g.token("t", "1001"))
		}, "", nil},
		"threshold, two runs of a workflow": {func(g *gated) {
			g.Policy.Threshold = 2
			g.Bundles = []verifier.GateBundle{g.token("a", "1001"), g.token("b", "1002")}
		}, "threshold", []verifier.Code{verifier.TooFewSigners}},

		"threshold": {func(g *gated) {
			g.Policy.Threshold = 2
			g.Bundles = append(g.Bundles, g.bundle("b", "bob"))
		}, "", nil},
		"threshold, one bundle": {func(g *gated) {
			g.Policy.Threshold = 2
			g.Bundles = []verifier.GateBundle{g.bundle("b", "bob", "alice")}
		}, "", nil},
		"threshold, one signer": {func(g *gated) { g.Policy.Threshold = 2 }, "threshold", []verifier.Code{verifier.TooFewSigners}},
		"threshold, the same signer twice": {func(g *gated) {
			g.Policy.Threshold = 2
			g.Bundles = append(g.Bundles, g.bundle("bb", "alice"))
		}, "threshold", []verifier.Code{verifier.TooFewSigners}},
		"threshold, the same bundle twice": {func(g *gated) {
			g.Policy.Threshold = 2
			g.Bundles = append(g.Bundles, g.Bundles[0])
		}, "threshold", []verifier.Code{verifier.TooFewSigners}},
		"threshold, one signer with two keys": {func(g *gated) {
			g.signers("alice,work", "alice", "alice,home", "bob")
			g.Policy.Threshold = 2
			g.Bundles = []verifier.GateBundle{g.bundle("a", "alice"), g.bundle("b", "bob")}
		}, "threshold", []verifier.Code{verifier.TooFewSigners}},
		"threshold, patterns name nobody": {func(g *gated) {
			g.signers("*@example.com", "alice", "*", "bob")
			g.Policy.Threshold = 2
			g.Bundles = []verifier.GateBundle{g.bundle("a", "alice"), g.bundle("b", "bob")}
		}, "threshold", []verifier.Code{verifier.TooFewSigners}},
		"threshold, the second is of another tree": {func(g *gated) {
			g.Policy.Threshold = 2
			run := fixture.New()
			run.Head["add.go"] += "\n"
			g.Bundles = append(g.Bundles, g.bundleOf("b", run, nil, "bob"))
		}, "threshold", []verifier.Code{verifier.TooFewSigners}},
		"second signer, path not changed": {func(g *gated) { g.Policy.SecondSigner = []string{"release/**"} }, "", nil},
		"second signer":                   {func(g *gated) { g.Policy.SecondSigner = []string{"*.go"} }, "second-signer", []verifier.Code{verifier.TooFewSigners}},
		"second signer, two": {func(g *gated) {
			g.Policy.SecondSigner = []string{"*.go"}
			g.Bundles = append(g.Bundles, g.bundle("b", "bob"))
		}, "", nil},

		"red":                  {func(g *gated) { g.Bundles = []verifier.GateBundle{g.red("alice")} }, "verified", []verifier.Code{verifier.TestsFailed}},
		"two bundles disagree": {func(g *gated) { g.Bundles = append(g.Bundles, g.red("bob")) }, "verified", []verifier.Code{verifier.TestsFailed}},
		"red, of nobody":       {func(g *gated) { g.Bundles = append(g.Bundles, g.red()) }, "", nil},

		"expressions are not there":  {func(g *gated) { g.Policy.Require = []string{"true"} }, "require", []verifier.Code{verifier.NotMet}},
		"an expression is false":     {func(g *gated) { g.Policy.Require, g.Requirements = []string{"false"}, refuseAll{} }, "require", []verifier.Code{verifier.NotMet}},
		"all expressions are true":   {func(g *gated) { g.Policy.Require, g.Requirements = []string{"true"}, acceptAll{} }, "", nil},
		"tag elsewhere":              {func(g *gated) { g.Tag.Protected = false }, "", []verifier.Code{verifier.TagElsewhere}},
		"history rewritten":          {func(g *gated) { g.Tag.Rewritten = true }, "", []verifier.Code{verifier.HistoryRewritten}},
		"tag moved":                  {func(g *gated) { g.Tag.Expected = other }, "", []verifier.Code{verifier.WrongTag}},
		"annotated":                  {func(g *gated) { g.Tag.Object = tagObject(t, "v1.4.0", g.Tag.Commit, "") }, "", nil},
		"tag under another name":     {func(g *gated) { g.Tag.Object = tagObject(t, "v1.3.0", g.Tag.Commit, "") }, "", []verifier.Code{verifier.WrongTag}},
		"tag of another commit":      {func(g *gated) { g.Tag.Object = tagObject(t, "v1.4.0", other, "") }, "", []verifier.Code{verifier.WrongTag}},
		"signed tag":                 {func(g *gated) { g.tagged("alice") }, "", nil},
		"tag signed by someone else": {func(g *gated) { g.tagged("bob") }, "", []verifier.Code{verifier.TagNotSigned}},
		"tag not signed":             {func(g *gated) { g.tagged("") }, "", []verifier.Code{verifier.TagNotSigned}},
		"lightweight tag": {func(g *gated) {
			g.tagged("")
			g.Tag.Object = nil
		}, "", []verifier.Code{verifier.TagNotSigned}},
		"tag changed after it was signed": {func(g *gated) {
			g.tagged("alice")
			g.Tag.Object = []byte(strings.Replace(string(g.Tag.Object), "release", "Release", 1))
		}, "", []verifier.Code{verifier.TagNotSigned}},

		"waiver":            {func(g *gated) { g.waived(nil, "alice") }, "waiver", nil},
		"waiver for a tree": {func(g *gated) { g.waived(func(w *verifier.Waiver) { w.Commit, w.Tree = "", g.Tag.Tree }, "alice") }, "waiver", nil},
		"waiver of a red commit": {func(g *gated) {
			g.waived(nil, "alice")
			g.Bundles = []verifier.GateBundle{g.red("alice")}
		}, "waiver", nil},
		"expired waiver":                 {func(g *gated) { g.waived(func(w *verifier.Waiver) { w.Expires = g.Now }, "alice") }, "", []verifier.Code{verifier.NoEvidence}},
		"waiver for another commit":      {func(g *gated) { g.waived(func(w *verifier.Waiver) { w.Commit = other }, "alice") }, "", []verifier.Code{verifier.NoEvidence}},
		"waiver for another repository":  {func(g *gated) { g.waived(func(w *verifier.Waiver) { w.Repository = "local/other" }, "alice") }, "", []verifier.Code{verifier.NoEvidence}},
		"waiver by someone else":         {func(g *gated) { g.waived(nil, "bob") }, "", []verifier.Code{verifier.NoEvidence}},
		"waiver by nobody who is listed": {func(g *gated) { g.waived(nil, "mallory") }, "", []verifier.Code{verifier.NoEvidence}},
		"waivers are not allowed":        {func(g *gated) { g.waived(nil, "alice"); g.Policy.Waivers = nil }, "", []verifier.Code{verifier.NoEvidence}},
		"waiver without allowed signers": {func(g *gated) { g.waived(nil, "alice"); g.Signers = nil }, "", []verifier.Code{verifier.NoEvidence}},
		"waiver that nobody signed": {func(g *gated) {
			g.waived(nil, "alice")
			g.Waivers[0].Waiver = verifier.Waiver{Repository: g.Repository, Commit: g.Tag.Commit, Expires: g.Now.Add(1)}
		}, "", []verifier.Code{verifier.NoEvidence}},
		"waiver signed as a seal":         {func(g *gated) { g.waived(nil, "alice"); g.resign(bundle.SealNamespace) }, "", []verifier.Code{verifier.NoEvidence}},
		"waiver by a key that is revoked": {func(g *gated) { g.waived(nil, "alice"); g.revoke("alice") }, "", []verifier.Code{verifier.NoEvidence}},
		"waiver is of no use to a tag":    {func(g *gated) { g.waived(nil, "alice"); g.Tag.Protected = false }, "waiver", []verifier.Code{verifier.TagElsewhere}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			c.edit(g)
			d := g.Decide()
			var got []verifier.Code
			for _, r := range d.Reasons() {
				got = append(got, r.Code)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("reasons %v, want %v", d.Reasons(), c.want)
			}
			if (d.Verdict() == verifier.Verified) != (len(c.want) == 0) {
				t.Errorf("verdict %s", d.Verdict())
			}
			rule := c.rule
			if rule == "" {
				rule = "evidence"
			}
			if rows := d.Rows(); rule != "-" && (len(rows) != 1 || rows[0].Rule != rule || rows[0].Why == "") {
				t.Errorf("decided by %+v, want rule %q", rows, rule)
			}
			if _, err := d.Summary(verifier.Issuer{ID: "https://example.com"}); (err == nil) != (len(c.want) == 0) {
				t.Errorf("summary: %v", err)
			}
		})
	}
}

// token makes a bundle that a job of a run vouches for.
func (g *gated) token(name, run string) verifier.GateBundle {
	g.t.Helper()
	return g.bundleOf(name, g.run, func(o *verifier.Options) { o.OIDC = fixture.OIDC() }, "token "+run)
}

func (g *gated) waived(edit func(*verifier.Waiver), signer string) {
	g.Bundles, g.Policy.Waivers = nil, []string{"alice"}
	g.Waivers = []verifier.GateWaiver{g.waiver(edit, signer)}
}

func (g *gated) resign(namespace string) {
	g.Waivers[0].Waiver = signedWaiver(g.t, g.Waivers[0].Waiver, "alice", namespace)
}

func (g *gated) revoke(signer string) {
	line := strings.TrimPrefix(fixture.SignerLine(signer, ""), signer+" ")
	var err error
	if g.Revoked, err = bundle.ParseRevoked([]byte(line)); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gated) tagged(signer string) {
	g.Policy.TagSigners = []string{"alice"}
	g.Tag.Object = tagObject(g.t, "v1.4.0", g.Tag.Commit, signer)
}

// signers makes allowed signers of principals and the keys of names.
func (g *gated) signers(pairs ...string) {
	var text string
	for i := 0; i < len(pairs); i += 2 {
		text += pairs[i] + strings.TrimPrefix(fixture.SignerLine(pairs[i+1], ""), pairs[i+1])
	}
	var err error
	if g.Signers, err = bundle.ParseSigners([]byte(text)); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gated) red(signers ...string) verifier.GateBundle {
	run := fixture.New()
	run.Output = fixture.OnHead(fixture.Output{Exit: 1, Stdout: fixture.GoTest(fixture.Package, "TestAdd fail")})
	return g.bundleOf("red", run, nil, signers...)
}

// A decision is made by the gate, and by nothing else.
func TestZeroDecision(t *testing.T) {
	t.Parallel()
	var d verifier.Decision
	if d.Verdict() != verifier.Unproven || len(d.Reasons()) != 1 || d.Reasons()[0].Code != verifier.NoEvidence {
		t.Errorf("%s, %v", d.Verdict(), d.Reasons())
	}
	if _, err := d.Summary(verifier.Issuer{ID: "https://example.com"}); err == nil {
		t.Error("it states something")
	}
	good, err := json.Marshal(newGate(t).Decide())
	if err != nil || !strings.HasPrefix(string(good), `{"verdict":"verified","exit_code":0,"reasons":[],`) {
		t.Fatalf("%s, %v", good, err)
	}
	if err := json.Unmarshal(good, &d); err == nil || d.Verdict() == verifier.Verified {
		t.Error("it can be unmarshalled")
	}
	if (&verifier.Gate{}).Decide().Verdict() != verifier.Unproven {
		t.Error("nothing was asked, and it passes")
	}
}
