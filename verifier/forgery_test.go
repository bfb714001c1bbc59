package verifier_test

import (
	"bytes"
	"testing"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// TestLyingSealer lets the holder of all keys record what does not follow from
// what else is recorded. Chains, receipts and seal agree with every lie.
func TestLyingSealer(t *testing.T) {
	t.Parallel()
	const pkg = fixture.Package
	red := fixture.OnHead(fixture.Output{Exit: 1, Stdout: fixture.GoTest(pkg, "TestAdd fail")})
	tests := func(side string, edit func(*receipts.Args)) func(*fixture.Run) {
		return func(r *fixture.Run) {
			r.Forge.Args = func(a *receipts.Args) {
				if a.Tool == receipts.ToolTest && a.Side == side {
					edit(a)
				}
			}
		}
	}
	times := func(n int, tool, side string) func(*fixture.Run) {
		return func(r *fixture.Run) {
			r.Forge.Times = func(a *receipts.Args) int {
				if a.Tool == tool && a.Side == side {
					return n
				}
				return 1
			}
		}
	}
	withhold := func(pick func(*receipts.Args, *receipts.Result) receipts.Digest) func(*fixture.Run) {
		return func(r *fixture.Run) {
			r.Forge.Result = func(a *receipts.Args, result *receipts.Result) {
				if d := pick(a, result); !d.IsZero() {
					r.Statement.Withheld = append(r.Statement.Withheld, receipts.Withheld{Digest: d, Why: "private"})
				}
			}
		}
	}
	file := func(tool, side, name string) func(*receipts.Args, *receipts.Result) receipts.Digest {
		return func(a *receipts.Args, result *receipts.Result) receipts.Digest {
			for _, f := range result.Files {
				if a.Tool == tool && a.Side == side && string(f.Name) == name {
					return f.Digest
				}
			}
			return receipts.Digest{}
		}
	}
	port := []string{"127.0.0.1:5432"}
	planned := func(edit func(*fixture.Run)) func(*fixture.Run) {
		return func(r *fixture.Run) {
			r.Config.Test[0].Connect = port
			edit(r)
		}
	}
	reached := func(edit func(*receipts.Isolation)) func(*fixture.Run) {
		return func(r *fixture.Run) {
			r.Forge.Result = func(a *receipts.Args, result *receipts.Result) {
				if a.Tool == receipts.ToolTest && a.Side == "head" {
					edit(result.Isolation)
				}
			}
		}
	}
	const blob, log, seal = "blobs/sha256/", "log", "seal"
	for _, test := range []struct {
		name   string
		edit   func(*fixture.Run)
		want   verifier.Code
		member string
	}{
		{"counts", func(r *fixture.Run) {
			r.Output = red
			r.Forge.Evidence = func(b []byte) []byte { return bytes.Replace(b, []byte(`"fail"`), []byte(`"pass"`), 1) }
		}, verifier.EvidenceBroken, blob},
		{"a test more", func(r *fixture.Run) {
			r.Forge.Evidence = func(b []byte) []byte {
				rows := bytes.SplitAfter(b, []byte("\n"))
				i := len(rows) - 2 // the tail
				rows[i] = append(bytes.Replace(rows[i-1], []byte("TestSum"), []byte("TestMore"), 1), bytes.Replace(rows[i], []byte(`"tests":3`), []byte(`"tests":4`), 1)...)
				return bytes.Join(rows, nil)
			}
		}, verifier.EvidenceBroken, blob},
		{"a signal less", func(r *fixture.Run) {
			r.Output = fixture.OnHead(fixture.Output{Exit: 1, Stdout: fixture.GoTest(pkg, "TestAdd")})
			r.Forge.Evidence = func(b []byte) []byte {
				var kept [][]byte
				for _, row := range bytes.SplitAfter(b, []byte("\n")) {
					if !bytes.HasPrefix(row, []byte(`{"signal":`)) {
						kept = append(kept, bytes.Replace(row, []byte(`"signals":1`), []byte(`"signals":0`), 1))
					}
				}
				return bytes.Join(kept, nil)
			}
		}, verifier.EvidenceBroken, blob},
		{"empty evidence", func(r *fixture.Run) { r.Forge.Evidence = func([]byte) []byte { return nil } }, verifier.EvidenceBroken, blob},
		{"no evidence file", func(r *fixture.Run) {
			r.Forge.Result = func(a *receipts.Args, result *receipts.Result) {
				if a.Tool == receipts.ToolJudge {
					result.Files = nil
				}
			}
		}, verifier.EvidenceBroken, log},

		{"plan without the head", func(r *fixture.Run) { r.Forge.Plan = func(p *verifier.Plan) { p.Runs = p.Runs[:1] } }, verifier.PlanMismatch, blob},
		{"planned command", func(r *fixture.Run) {
			r.Forge.Plan = func(p *verifier.Plan) { p.Runs[1].Argv = []receipts.Bytes{"true"} }
		}, verifier.PlanMismatch, blob},
		{"planned skip", func(r *fixture.Run) { r.Forge.Plan = func(p *verifier.Plan) { p.Runs[1].Skip = verifier.SkipPaths } }, verifier.PlanMismatch, blob},
		{"base skipped as empty", func(r *fixture.Run) {
			r.Forge.Plan = func(p *verifier.Plan) { p.Runs[0].Skip = verifier.SkipEmptyBase }
		}, verifier.PlanMismatch, blob},
		{"plan of another patch", func(r *fixture.Run) { r.Forge.Plan = func(p *verifier.Plan) { p.Patch[0] ^= 1 } }, verifier.PlanMismatch, blob},
		{"plan of another configuration", func(r *fixture.Run) { r.Forge.Plan = func(p *verifier.Plan) { p.Config[0] ^= 1 } }, verifier.PlanMismatch, blob},
		{"commands of the head, and a base", func(r *fixture.Run) { r.Source = verifier.SourceHead }, verifier.PlanMismatch, blob},
		{"commands of a base that is not there", func(r *fixture.Run) { r.Base = nil }, verifier.PlanMismatch, blob},
		{"unknown source", func(r *fixture.Run) { r.Source = "somewhere" }, verifier.PlanMismatch, blob},
		{"plan that is no document", func(r *fixture.Run) {
			r.Forge.PlanText = func(b []byte) []byte { return append(b, ' ') }
		}, verifier.PlanMismatch, blob},

		{"test left out", times(0, receipts.ToolTest, "head"), verifier.CallsMismatch, log},
		{"test made twice", times(2, receipts.ToolTest, "head"), verifier.CallsMismatch, log},
		{"base left out", times(0, receipts.ToolTest, "base"), verifier.CallsMismatch, log},
		{"tree left out", times(0, receipts.ToolMaterialise, "base"), verifier.CallsMismatch, log},
		{"tree made twice", times(2, receipts.ToolMaterialise, "head"), verifier.CallsMismatch, log},
		{"two plans", times(2, receipts.ToolPlan, ""), verifier.CallsMismatch, log},
		{"no judge", times(0, receipts.ToolJudge, ""), verifier.CallsMismatch, log},
		{"two judges", times(2, receipts.ToolJudge, ""), verifier.CallsMismatch, log},
		{"command", tests("head", func(a *receipts.Args) { a.Argv = []receipts.Bytes{"true"} }), verifier.CallsMismatch, log},
		{"format", tests("head", func(a *receipts.Args) { a.Format = verifier.FormatExit }), verifier.CallsMismatch, log},
		{"folder", tests("head", func(a *receipts.Args) { a.Dir = "/elsewhere" }), verifier.CallsMismatch, log},
		{"round", tests("head", func(a *receipts.Args) { a.Round = 2 }), verifier.CallsMismatch, log},
		{"side", tests("head", func(a *receipts.Args) { a.Side = "base" }), verifier.CallsMismatch, log},
		{"base's tree", tests("head", func(a *receipts.Args) { d := *a.Tree; d[0] ^= 1; a.Tree = &d }), verifier.CallsMismatch, log},
		{"no tree", tests("head", func(a *receipts.Args) { a.Tree = nil }), verifier.CallsMismatch, log},
		{"other patch", tests("head", func(a *receipts.Args) { a.Patch[0] ^= 1 }), verifier.CallsMismatch, log},
		{"network", tests("head", func(a *receipts.Args) { s := *a.Sandbox; s.Network = "host"; a.Sandbox = &s }), verifier.CallsMismatch, log},
		{"time limit", tests("head", func(a *receipts.Args) { s := *a.Sandbox; s.Wall++; a.Sandbox = &s }), verifier.CallsMismatch, log},
		{"less isolation asked for", tests("head", func(a *receipts.Args) { s := *a.Sandbox; s.MinLevel = 0; a.Sandbox = &s }), verifier.CallsMismatch, log},
		{"no sandbox", tests("head", func(a *receipts.Args) { a.Sandbox = nil }), verifier.CallsMismatch, log},
		{"environment", func(r *fixture.Run) {
			r.Config.Test[0].Env = []string{"STRICT=1"}
			tests("head", func(a *receipts.Args) { a.Env = []receipts.Bytes{"STRICT=0"} })(r)
		}, verifier.CallsMismatch, log},
		{"port asked for and not planned", tests("head", func(a *receipts.Args) { s := *a.Sandbox; s.Connect = port; a.Sandbox = &s }), verifier.CallsMismatch, log},
		{"port planned and not asked for", planned(tests("head", func(a *receipts.Args) { s := *a.Sandbox; s.Connect = nil; a.Sandbox = &s })), verifier.CallsMismatch, log},
		{"port reached and not planned", reached(func(i *receipts.Isolation) { i.Connect = port }), verifier.CallsMismatch, log},
		{"port planned and not reached", planned(reached(func(i *receipts.Isolation) { i.Connect = nil })), verifier.CallsMismatch, log},
		{"another port reached", planned(reached(func(i *receipts.Isolation) { i.Connect = []string{"127.0.0.1:5433"} })), verifier.CallsMismatch, log},
		{"network reached", reached(func(i *receipts.Isolation) { i.Network = "host" }), verifier.CallsMismatch, log},
		{"port when prepared", func(r *fixture.Run) {
			prepared(r, func(a *receipts.Args) { s := *a.Sandbox; s.Connect = port; a.Sandbox = &s })
		}, verifier.CallsMismatch, log},
		{"another run in the environment", tests("head", func(a *receipts.Args) {
			a.Env = []receipts.Bytes{verifier.RunVariable + "=base-1"}
		}), verifier.CallsMismatch, log},
		{"network planned and not asked for", func(r *fixture.Run) {
			r.Config.Isolation.Level, r.Config.Test[0].Network = 1, verifier.NetworkHost
			r.Forge.Args = func(a *receipts.Args) {
				if a.Tool == receipts.ToolTest {
					s := *a.Sandbox
					s.Network, a.Sandbox = verifier.NetworkNone, &s
				}
			}
		}, verifier.CallsMismatch, log},
		{"not run", func(r *fixture.Run) {
			r.Output = fixture.OnHead(fixture.Output{State: receipts.StateNotRun})
		}, verifier.CallsMismatch, log},

		{"prepared for another patch", func(r *fixture.Run) { prepared(r, func(a *receipts.Args) { a.Patch[0] ^= 1 }) }, verifier.CallsMismatch, log},
		{"judged for another patch", func(r *fixture.Run) {
			r.Forge.Args = func(a *receipts.Args) {
				if a.Tool == receipts.ToolJudge {
					a.Patch[0] ^= 1
				}
			}
		}, verifier.CallsMismatch, log},
		{"unknown tool", func(r *fixture.Run) { prepared(r, func(a *receipts.Args) { a.Tool = "deploy" }) }, verifier.CallsMismatch, log},
		{"trees after the plan", func(r *fixture.Run) {
			prepared(r, func(a *receipts.Args) { a.Tool = receipts.ToolMaterialise })
		}, verifier.CallsMismatch, log},

		{"listing of another tree", func(r *fixture.Run) {
			r.Forge.Listing = func(side string, b []byte) []byte {
				return bytes.Replace(b, []byte("\tadd.go\x00"), []byte("\tadd.gp\x00"), 1)
			}
		}, verifier.PatchMismatch, blob},
		{"listing that is none", func(r *fixture.Run) {
			r.Forge.Listing = func(string, []byte) []byte { return []byte("add.go\n") }
		}, verifier.PatchMismatch, blob},
		{"no listing", func(r *fixture.Run) {
			r.Forge.Result = func(a *receipts.Args, result *receipts.Result) {
				if a.Tool == receipts.ToolMaterialise {
					result.Files = result.Files[1:]
				}
			}
		}, verifier.PatchMismatch, blob},
		{"other diff", func(r *fixture.Run) { r.Forge.Diff = func([]byte) []byte { return []byte("nothing changed") } }, verifier.PatchMismatch, blob},
		{"other tree in the patch", func(r *fixture.Run) {
			r.Forge.Patch = func(p *verifier.Patch) { p.Tree = p.BaseTree }
		}, verifier.PatchMismatch, blob},
		{"a tree with a submodule less", func(r *fixture.Run) {
			r.Forge.Patch = func(p *verifier.Patch) { p.Tree.Gitlinks = 1 }
		}, verifier.PatchMismatch, blob},
		{"files of a base that is not there", func(r *fixture.Run) {
			r.Source = verifier.SourceCommand
			r.Forge.Patch = func(p *verifier.Patch) { p.Base = "" }
		}, verifier.PatchMismatch, blob},

		{"withheld stdout", withhold(func(a *receipts.Args, result *receipts.Result) receipts.Digest {
			if a.Tool != receipts.ToolTest || a.Side != verifier.SideHead {
				return receipts.Digest{}
			}
			return result.Stdout.Digest
		}), verifier.BlobMissing, blob},
		{"withheld receipt", func(r *fixture.Run) {
			text, key, err := fixture.Receipt("allow")
			if err != nil {
				t.Fatal(err)
			}
			r.Config.Receipts = []verifier.ReceiptEntry{{Name: "agent", Adapter: "acta", Keys: []string{key}}}
			r.Receipts = map[string][]byte{"agent": text}
			withhold(file(receipts.ToolReceipt, "", "receipt/agent"))(r)
		}, verifier.BlobMissing, blob},
		{"withheld listing", withhold(file(receipts.ToolMaterialise, "head", verifier.FileListing)), verifier.PatchMismatch, blob},
		{"withheld diff", withhold(file(receipts.ToolMaterialise, "head", verifier.FileDiff)), verifier.PatchMismatch, blob},
		{"withheld configuration", withhold(file(receipts.ToolPlan, "", verifier.FileConfig)), verifier.PlanMismatch, blob},
		{"withheld plan", withhold(file(receipts.ToolPlan, "", verifier.FilePlan)), verifier.PlanMismatch, blob},
		{"withheld evidence", withhold(file(receipts.ToolJudge, "", verifier.FileEvidence)), verifier.EvidenceBroken, log},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := fixture.New()
			test.edit(&r)
			o := r.Options()
			o.AllowCommand, o.Base, o.NoBase = true, "", false
			report := verify(t, bundleOf(t, &r), o)
			want(t, report, test.want)
			member(t, report, test.member)
			if len(report.Trust()) != 0 || report.Patch() != (verifier.Patch{}) || len(report.Findings().Runs) != 0 {
				t.Error("a broken bundle has facts")
			}
		})
	}
}

// prepared gives r a call that fetches something, and edits its args.
func prepared(r *fixture.Run, edit func(*receipts.Args)) {
	r.Prepare = []fixture.Prepared{{Name: "fetch"}}
	r.Forge.Args = func(a *receipts.Args) {
		if a.Tool == receipts.ToolPrepare {
			edit(a)
		}
	}
}

// TestWithheldOutput: what the verdict is not made of may stay private, and the
// rest is verified.
func TestWithheldOutput(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	r.Prepare = []fixture.Prepared{{Name: "fetch", Output: fixture.Output{Stdout: "from a private host"}}}
	r.Forge.Result = func(a *receipts.Args, result *receipts.Result) {
		if a.Tool == receipts.ToolPrepare {
			r.Statement.Withheld = []receipts.Withheld{{Digest: result.Stdout.Digest, Why: "names a private host"}}
		}
	}
	file := bundleOf(t, &r)
	want(t, verify(t, file, r.Options()))
	a, err := fixture.Unpack(file)
	if err != nil {
		t.Fatal(err)
	}
	want(t, verify(t, pack(t, a.Add([]byte("from a private host"))), r.Options()), verifier.BlobUnnamed)
}

// TestQuickBelieves pins what quick verification cannot see, and that it says
// that it is quick: an evidence document that contradicts the captured output.
func TestQuickBelieves(t *testing.T) {
	t.Parallel()
	green := plainRun()
	green.Output = fixture.OnHead(fixture.Output{Stdout: fixture.GoTest(fixture.Package, "TestAdd")})
	var lie []byte
	green.Forge.Evidence = func(b []byte) []byte { lie = bytes.Clone(b); return b }
	bundleOf(t, &green)
	r := plainRun()
	r.Output = fixture.OnHead(fixture.Output{Stdout: fixture.GoTest(fixture.Package, "TestAdd fail")})
	r.Forge.Evidence = func([]byte) []byte { return lie }
	file := bundleOf(t, &r)
	o := r.Options()
	want(t, verify(t, file, o), verifier.EvidenceBroken)
	o.Quick = true
	report := verify(t, file, o)
	want(t, report)
	if !report.Quick() {
		t.Error("the report does not say that it is quick")
	}

	// It does see what contradicts the calls.
	for _, lie := range [][2]string{
		{`"exit":0`, `"exit":1`}, {`"state":"exited"`, `"state":"timeout"`}, {`"side":"head"`, `"side":"base"`}, {`"name":"unit"`, `"name":"other"`},
		{`"round":1`, `"round":2`}, {`"patch":"`, `"patch":"0`}, {`"runs":2`, `"runs":3`}, {`"run":5`, `"run":6`},
	} {
		r.Forge.Evidence = func(b []byte) []byte { return bytes.Replace(b, []byte(lie[0]), []byte(lie[1]), 1) }
		want(t, verify(t, bundleOf(t, &r), o), verifier.EvidenceBroken)
	}
	r.Forge.Evidence = func(b []byte) []byte { // of the head alone
		rows := bytes.SplitAfter(b, []byte("\n"))
		return append(bytes.Join(rows[:3], nil), []byte(`{"runs":1,"tests":1,"signals":0,"findings":0}`+"\n")...)
	}
	want(t, verify(t, bundleOf(t, &r), o), verifier.EvidenceBroken)
}

// TestSealOfAnotherLog changes one thing in the seal, under the right MAC.
func TestSealOfAnotherLog(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	file := bundleOf(t, &r)
	_, key, err := r.Keys()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		edit func(*bundle.Seal)
		want verifier.Code
	}{
		{"nothing", func(*bundle.Seal) {}, ""},
		{"task", func(s *bundle.Seal) { s.Task[0] ^= 1 }, verifier.SealMismatch},
		{"job", func(s *bundle.Seal) { s.Job[0] ^= 1 }, verifier.SealMismatch},
		{"frames", func(s *bundle.Seal) { s.Frames-- }, verifier.SealMismatch},
		{"root", func(s *bundle.Seal) { s.Root[0] ^= 1 }, verifier.SealMismatch},
		{"patch", func(s *bundle.Seal) { s.Patch[0] ^= 1 }, verifier.SealMismatch},
		{"outcome", func(s *bundle.Seal) { s.Outcome = bundle.OutcomeKilled }, verifier.SealMismatch},
		{"receipts", func(s *bundle.Seal) { s.Receipts++ }, verifier.SealMismatch},
		{"head", func(s *bundle.Seal) { s.Head = receipts.Digest{} }, verifier.SealMismatch},
		{"log", func(s *bundle.Seal) { s.Log[0] ^= 1 }, verifier.SealMismatch},
		{"plan", func(s *bundle.Seal) { s.Plan[0] ^= 1 }, verifier.PlanMismatch},
		{"no plan", func(s *bundle.Seal) { s.Plan = receipts.Digest{} }, verifier.PlanMismatch},
		{"configuration", func(s *bundle.Seal) { s.Config[0] ^= 1 }, verifier.PlanMismatch},
		{"start", func(s *bundle.Seal) { s.Start-- }, verifier.SealMismatch},
		{"end", func(s *bundle.Seal) { s.End++ }, verifier.SealMismatch},
		{"a signature listed", func(s *bundle.Seal) { s.HasSig = true }, verifier.SealMembers},
		{"no MAC listed", func(s *bundle.Seal) { s.HasMAC, s.HasSig = false, true }, verifier.SealMembers},
		// What only the sealer knows stays its word.
		{"attempt", func(s *bundle.Seal) { s.Attempt = 2 }, ""},
		{"previous", func(s *bundle.Seal) { s.Previous[0] = 1 }, ""},
		{"shard", func(s *bundle.Seal) { s.Shard, s.Shards = 1, 2 }, ""},
		{"resealed", func(s *bundle.Seal) { s.Resealed = true }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tape := tapeOf(t, file)
			test.edit(&tape.Seal)
			a, err := tape.AsSealed(key)
			if err != nil {
				t.Fatal(err)
			}
			report := verify(t, pack(t, a), r.Options())
			if test.want == "" {
				want(t, report)
			} else {
				want(t, report, test.want)
			}
		})
	}
}

func tapeOf(t testing.TB, file []byte) *fixture.Tape {
	t.Helper()
	tape, err := fixture.NewTape(file)
	if err != nil {
		t.Fatal(err)
	}
	return tape
}

func pack(t testing.TB, a fixture.Archive) []byte {
	t.Helper()
	file, err := a.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return file
}
