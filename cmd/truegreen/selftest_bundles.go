package main

import (
	"bytes"
	"maps"
	"path/filepath"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// bundleTrials returns, for every code that a report can have, a bundle that is
// like a verified one but for one thing.
func bundleTrials() map[verifier.Code]trial {
	const pkg = fixture.Package
	return map[verifier.Code]trial{
		verifier.NotABundle:    ofFile(func([]byte) []byte { return []byte("all tests passed\n") }),
		verifier.Truncated:     ofFile(func(b []byte) []byte { return b[:len(b)/2] }),
		verifier.LimitExceeded: ofFile(func([]byte) []byte { return []byte("\x28\xb5\x2f\xfd\x00\x98\x01\x00\x00") }), // a window of 512 MiB
		verifier.MalformedMember: ofArchive(func(a fixture.Archive) fixture.Archive {
			return append(a, fixture.Member{Name: "report.json", Content: []byte("{}")})
		}),
		verifier.BlobMismatch: ofArchive(func(a fixture.Archive) fixture.Archive {
			last := a[len(a)-1]
			return a.With(last.Name, append(bytes.Clone(last.Content), '\n'))
		}),
		verifier.MalformedSeal: ofArchive(func(a fixture.Archive) fixture.Archive {
			return a.With(fixture.SealMember, bytes.Replace(a.Content(fixture.SealMember), []byte("outcome completed"), []byte("outcome excellent"), 1))
		}),
		verifier.SealMembers: ofArchive(func(a fixture.Archive) fixture.Archive { return a.Without(fixture.MACMember) }),
		verifier.LogBroken: ofArchive(func(a fixture.Archive) fixture.Archive {
			log := bytes.Clone(a.Content(fixture.LogMember))
			log[len(log)/2] ^= 1
			return a.With(fixture.LogMember, log)
		}),
		verifier.ReceiptsBroken: ofTape(func(t *fixture.Tape, _, seal receipts.Key) (fixture.Archive, error) {
			if err := t.Mint(seal); err != nil { // by someone who has the seal's key, and not the receipts'
				return nil, err
			}
			return t.Resealed(seal)
		}),
		verifier.JoinBroken: ofTape(func(t *fixture.Tape, receipt, seal receipts.Key) (fixture.Archive, error) {
			if err := t.EditReceipt(t.Completed()[0], func(r *receipts.Receipt) { r.ToolName[0] ^= 1 }); err != nil {
				return nil, err
			}
			if err := t.Mint(receipt); err != nil {
				return nil, err
			}
			return t.Resealed(seal)
		}),
		verifier.SealMismatch: ofTape(func(t *fixture.Tape, _, seal receipts.Key) (fixture.Archive, error) {
			t.Seal.End++
			return t.AsSealed(seal)
		}),
		verifier.NoEnd: ofTape(func(t *fixture.Tape, _, seal receipts.Key) (fixture.Archive, error) {
			t.Frames = t.Frames[:len(t.Frames)-1]
			return t.Resealed(seal)
		}),
		verifier.BlobMissing: ofArchive(func(a fixture.Archive) fixture.Archive { return a[:len(a)-1] }),
		verifier.BlobUnnamed: ofArchive(func(a fixture.Archive) fixture.Archive { return a.Add([]byte("more")) }),
		verifier.NewerVersion: ofArchive(func(a fixture.Archive) fixture.Archive {
			return a.With(fixture.SealMember, bytes.Replace(a.Content(fixture.SealMember), []byte("\nformat 1\n"), []byte("\nformat 2\n"), 1))
		}),

		verifier.PatchMismatch: ofRun(func(r *fixture.Run) { r.Forge.Diff = func([]byte) []byte { return nil } }, nil),
		verifier.PlanMismatch:  ofRun(func(r *fixture.Run) { r.Forge.Plan = func(p *verifier.Plan) { p.Runs = p.Runs[:1] } }, nil),
		verifier.CallsMismatch: ofRun(func(r *fixture.Run) {
			r.Forge.Times = func(a *receipts.Args) int {
				if a.Tool == receipts.ToolTest && a.Side == verifier.SideHead {
					return 0
				}
				return 1
			}
		}, nil),
		verifier.EvidenceBroken: ofRun(func(r *fixture.Run) {
			r.Output = fixture.OnHead(fixture.Output{Exit: 1, Stdout: fixture.GoTest(pkg, "TestAdd fail")})
			r.Forge.Evidence = func(b []byte) []byte { return bytes.Replace(b, []byte(`"fail"`), []byte(`"pass"`), 1) }
		}, nil),
		verifier.ImportBroken: importOfAnother,

		verifier.MACMismatch: ofRun(nil, func(o *verifier.Options) {
			o.Keys = []verifier.KeyAnchor{{Secret: bytes.Repeat([]byte{1}, 32), Who: "another key", Asked: true}}
		}),
		verifier.SignatureInvalid: ofRun(nil, func(o *verifier.Options) {
			o.Sidecars = []verifier.Sidecar{{Name: "evidence.sig", Bytes: []byte("signed\n")}}
		}),
		verifier.WrongPatch:  ofRun(nil, func(o *verifier.Options) { o.Repository = "git.example.com/fork" }),
		verifier.WrongBase:   ofRun(nil, func(o *verifier.Options) { o.Base = o.Head }),
		verifier.WrongConfig: ofRun(nil, func(o *verifier.Options) { o.Config = []byte("{}") }),
		verifier.WrongBundle: ofRun(nil, func(o *verifier.Options) { o.Sealed = receipts.Sum([]byte("another seal")) }),
		verifier.UnsafeArchive: func(string) (observed, error) {
			return observeReport(verifier.NoBundle(verifier.UnsafeArchive, "two bundles"))
		},
		verifier.NoEvidence:    func(string) (observed, error) { return observeReport(verifier.Report{}) },
		verifier.NoTrustedSeal: ofRun(nil, func(o *verifier.Options) { o.Keys = nil }),
		verifier.StaleKeys:     ofRun(nil, tokenOfAnotherKey),
		verifier.Unattested:    ofRun(nil, func(o *verifier.Options) { o.Unattested = true }),
		verifier.Stale:         ofRun(nil, func(o *verifier.Options) { o.MaxAge = time.Second }),
		verifier.PlanByHand: ofRun(func(r *fixture.Run) { r.Source = verifier.SourceCommand }, func(o *verifier.Options) {
			o.AllowCommand = false
		}),

		verifier.Interrupted: ofRun(func(r *fixture.Run) { r.Stop, r.Statement.Outcome = 4, bundle.OutcomeKilled }, nil),
		verifier.RunFailed:   ofRun(func(r *fixture.Run) { r.Stop, r.Statement.Outcome = 3, bundle.OutcomeFailed }, nil),
		verifier.NoTests:     onHead(fixture.Output{Stdout: fixture.GoTest(pkg)}),
		verifier.CommandNotFound: onHead(fixture.Output{
			State: receipts.StateNotFound, Why: "go: no such file",
		}),
		verifier.ToolchainTooOld: onHead(fixture.Output{
			Exit: 1, Stderr: "go: go.mod requires go >= 1.99 (running go 1.26.5; GOTOOLCHAIN=local)\n",
		}),
		verifier.RedactedEvidence: onHead(fixture.Output{
			Stdout: fixture.GoTest(pkg, "TestAdd", "TestAdd/********************", "TestSum"), Covered: true,
		}),
		verifier.ReceiptMissing:   withReceipt(func(r *fixture.Run) { r.Receipts = nil }),
		verifier.ReceiptUnproven:  withReceipt(func(r *fixture.Run) { r.Config.Receipts[0].Chain = true }),
		verifier.ReceiptUntrusted: withReceipt(func(r *fixture.Run) { r.Config.Receipts[0].Tool = "write" }),
		verifier.LowIsolation:     onHead(fixture.Output{Stdout: fixture.GoTest(pkg, "TestAdd"), Level: 1}),

		verifier.TestsFailed:   onHead(fixture.Output{Exit: 1, Stdout: fixture.GoTest(pkg, "TestAdd fail")}),
		verifier.BuildBroken:   onHead(fixture.Output{Exit: 1, Stdout: fixture.GoBuildFailed(pkg)}),
		verifier.TimedOut:      onHead(fixture.Output{State: receipts.StateTimeout, Stdout: fixture.GoTest(pkg, "TestAdd")}),
		verifier.CommandFailed: onHead(fixture.Output{Exit: 1, Stdout: fixture.GoExit(pkg, "TestAdd")}),
		verifier.NeedsNested:   onHead(fixture.Output{Exit: 1, Stdout: fixture.GoExit(pkg, "TestAdd"), Denied: "unshare 1"}),
		verifier.UntrustedReport: onHead(fixture.Output{
			Exit: 1, Stdout: fixture.GoTest(pkg, "TestAdd"),
		}),
		verifier.OutputIncomplete: onHead(fixture.Output{Stdout: fixture.GoTest(pkg, "TestAdd"), Dropped: 1}),
		verifier.TestsRemoved:     onHead(fixture.Output{Stdout: fixture.GoTest(pkg, "TestSum")}),
		verifier.TestsSkipped:     onHead(fixture.Output{Stdout: fixture.GoTest(pkg, "TestAdd skip", "TestSum")}),
		verifier.CanaryFailed:     ofRun(muteMain, nil),
		verifier.PolicyFinding: ofRun(func(r *fixture.Run) {
			r.Config.Integrity.CI = verifier.PolicyFail
			r.Head[".github/workflows/test.yml"] = "on: push\n"
		}, nil),
	}
}

// tokenOfAnotherKey has a token stand for all signatures whose key is not pinned.
func tokenOfAnotherKey(o *verifier.Options) {
	header := map[string]any{"alg": "RS256", "kid": "a newer key"}
	token, err := fixture.SignToken(fixture.IssuerKey(), header, fixture.Claims(receipts.Digest{}))
	if err != nil {
		panic(err) // its inputs are fixed
	}
	o.Keys, o.OIDC = nil, fixture.OIDC()
	o.Sidecars = []verifier.Sidecar{{Name: "evidence.oidc", Bytes: token}}
}

// muteMain makes of a run one of a package whose TestMain hides failures.
func muteMain(r *fixture.Run) {
	const test = "package project\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n" +
		"func TestMain(m *testing.M) {\n\tm.Run()\n\tos.Exit(0)\n}\n\nfunc TestAdd(t *testing.T) {}\n"
	r.Texts, r.Config.Evidence.Auto = true, false // one run of the failing canaries
	r.Base["add_test.go"], r.Head["add_test.go"] = test, test
	delete(r.Head, "sum/sum_test.go")
	r.Output = func(p verifier.PlannedRun) fixture.Output {
		names := fixture.Canaries(p)
		if p.Purpose == verifier.PurposeCanary {
			return fixture.Output{Stdout: fixture.GoTest(fixture.Package, names[0])}
		}
		return fixture.Output{Stdout: fixture.GoTest(fixture.Package, append(names, "TestAdd")...)}
	}
}

// ofRun verifies the bundle of a run that edit has changed, with options that ask
// has changed; each may be nil.
func ofRun(edit func(*fixture.Run), ask func(*verifier.Options)) trial {
	return func(dir string) (observed, error) {
		r := fixture.New()
		if edit != nil {
			edit(&r)
		}
		file, err := r.Bundle(dir)
		if err != nil {
			return observed{}, err
		}
		o := r.Options()
		if ask != nil {
			ask(&o)
		}
		return observeFile(file, o)
	}
}

// withReceipt verifies a run that asks for another tool's receipt.
func withReceipt(edit func(*fixture.Run)) trial {
	return ofRun(func(r *fixture.Run) {
		text, key, err := fixture.Receipt("allow")
		if err != nil {
			return // then the run asks for none, and the trial shows it
		}
		r.Config.Receipts = []verifier.ReceiptEntry{{Name: "agent", Adapter: "acta", Keys: []string{key}}}
		r.Receipts = map[string][]byte{"agent": text}
		edit(r)
	}, nil)
}

// onHead is [ofRun] with an output of the head's tests.
func onHead(out fixture.Output) trial {
	return ofRun(func(r *fixture.Run) { r.Output = fixture.OnHead(out) }, nil)
}

// ofFile verifies what edit makes of a bundle's file.
func ofFile(edit func([]byte) []byte) trial {
	return func(dir string) (observed, error) {
		r := fixture.New()
		file, err := r.Bundle(dir)
		if err != nil {
			return observed{}, err
		}
		return observeFile(edit(file), r.Options())
	}
}

// ofArchive verifies what edit makes of a bundle's members.
func ofArchive(edit func(fixture.Archive) fixture.Archive) trial {
	return func(dir string) (observed, error) {
		r := fixture.New()
		file, err := r.Bundle(dir)
		if err != nil {
			return observed{}, err
		}
		a, err := fixture.Unpack(file)
		if err != nil {
			return observed{}, err
		}
		if file, err = edit(a).Pack(); err != nil {
			return observed{}, err
		}
		return observeFile(file, r.Options())
	}
}

// ofTape verifies what edit makes of a bundle's frames, with the run's keys.
func ofTape(edit func(t *fixture.Tape, receipt, seal receipts.Key) (fixture.Archive, error)) trial {
	return func(dir string) (observed, error) {
		r := fixture.New()
		file, err := r.Bundle(dir)
		if err != nil {
			return observed{}, err
		}
		receipt, seal, err := r.Keys()
		if err != nil {
			return observed{}, err
		}
		t, err := fixture.NewTape(file)
		if err != nil {
			return observed{}, err
		}
		a, err := edit(t, receipt, seal)
		if err != nil {
			return observed{}, err
		}
		if file, err = a.Pack(); err != nil {
			return observed{}, err
		}
		return observeFile(file, r.Options())
	}
}

// importOfAnother verifies the bundle of a run that takes the results on its base
// out of a run that another version of the program made.
func importOfAnother(dir string) (observed, error) {
	test := map[string]string{"a.go": "package p\n\nvar A int\n", "go.mod": "module " + fixture.Package + "\n", "a_test.go": "package p\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {}\n"}
	made := func(r fixture.Run, dir string) (fixture.Run, []byte, error) {
		r.Texts = true
		r.Output = func(verifier.PlannedRun) fixture.Output {
			return fixture.Output{Stdout: fixture.GoTest(fixture.Package, "TestAdd")}
		}
		file, err := r.Bundle(dir)
		return r, file, err
	}
	first := fixture.New()
	first.Base, first.Head, first.Program = test, maps.Clone(test), "v1"
	first.Head["a.go"] = "package p\n\nvar B int\n"
	first, file, err := made(first, filepath.Join(dir, "first"))
	if err != nil {
		return observed{}, err
	}
	second := first
	second.Head, second.Program = maps.Clone(test), "v2"
	second.Head["a.go"] = "package p\n\nvar C int\n"
	second.Import = []fixture.Imported{{Entry: "unit", Bundle: file, Call: 5}}
	second, file, err = made(second, filepath.Join(dir, "second"))
	if err != nil {
		return observed{}, err
	}
	return observeFile(file, second.Options())
}

func observeFile(file []byte, o verifier.Options) (observed, error) {
	report, err := verifier.Verify(bytes.NewReader(file), int64(len(file)), o)
	if err != nil {
		return observed{}, err
	}
	return observeReport(report)
}
