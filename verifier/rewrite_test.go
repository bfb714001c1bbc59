package verifier_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// redRun fails a test on the head; its forger wants it green.
// plainRun is a run of which no further runs follow, whatever it comes to.
func plainRun() fixture.Run {
	r := fixture.New()
	r.Config.Evidence.Level, r.Config.Evidence.Auto = verifier.LevelRan, false
	return r
}

func redRun() fixture.Run {
	r := plainRun()
	r.Output = fixture.OnHead(fixture.Output{Exit: 1, Stdout: fixture.GoTest(fixture.Package, "TestAdd fail")})
	return r
}

func keysOf(t testing.TB, r *fixture.Run) (receipt, seal receipts.Key) {
	t.Helper()
	receipt, seal, err := r.Keys()
	if err != nil {
		t.Fatal(err)
	}
	return receipt, seal
}

// TestStrangerRewritesAll: without the key, a whole run can be made up that
// contradicts nothing in itself. It is nobody's.
func TestStrangerRewritesAll(t *testing.T) {
	t.Parallel()
	honest := redRun()
	original := tapeOf(t, bundleOf(t, &honest))
	stranger := plainRun() // the same patch, job and salt, and all green
	stranger.Secret = bytes.Repeat([]byte{0x66}, 32)
	file := bundleOf(t, &stranger)

	check := func(name string, file []byte) {
		o := honest.Options()
		report := verify(t, file, o)
		want(t, report, verifier.NoTrustedSeal)
		if !report.Sound() || report.MACsChecked() || len(report.Trust()) != 0 {
			t.Errorf("%s: sound %t, MACs checked %t, trust %v", name, report.Sound(), report.MACsChecked(), report.Trust())
		}
		o.Keys[0].Asked = true
		report = verify(t, file, o)
		want(t, report, verifier.MACMismatch)
		member(t, report, "seal.mac")
	}
	check("own MACs", file)
	a, err := fixture.Unpack(file)
	if err != nil {
		t.Fatal(err)
	}
	check("the honest run's seal.mac", pack(t, a.With(fixture.MACMember, original.MAC)))
}

// TestStrangerEdits changes a bundle's log in many ways, chains everything again
// as well as it goes without the receipt key, and seals it with no key, with one
// of its own, and, worse than any stranger, with the stolen seal key.
func TestStrangerEdits(t *testing.T) {
	t.Parallel()
	r := redRun()
	file := bundleOf(t, &r)
	other := plainRun() // green, under the same secret
	other.Job[0] ^= 1
	donor := tapeOf(t, bundleOf(t, &other))
	foreign := bytes.Repeat([]byte{0x66}, 32)
	foreignKey, err := receipts.NewKey(foreign)
	if err != nil {
		t.Fatal(err)
	}
	_, sealKey := keysOf(t, &r)

	green := func(t *testing.T, tape *fixture.Tape, i int) {
		stdout := tape.Put([]byte(fixture.GoTest(fixture.Package, "TestAdd")))
		if err := tape.EditResult(i, func(result *receipts.Result) {
			n := int64(len(tape.Blobs[stdout]))
			delete(tape.Blobs, result.Stdout.Digest)
			result.Exit, result.Stdout = 0, receipts.Stream{Digest: stdout, Bytes: n, Kept: n}
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		edit func(*testing.T, *fixture.Tape)
		mint receipts.Authenticator // nil: the MACs stay
		raw  bool                   // do not mint
		want verifier.Code          // under the stolen seal key
	}{
		{"result, chain not mended", func(t *testing.T, tape *fixture.Tape) { green(t, tape, tape.Completed()[3]) }, nil, true, verifier.ReceiptsBroken},
		{"result, old MACs", func(t *testing.T, tape *fixture.Tape) { green(t, tape, tape.Completed()[3]) }, nil, false, verifier.ReceiptsBroken},
		{"result, MACs of another key", func(t *testing.T, tape *fixture.Tape) { green(t, tape, tape.Completed()[3]) }, foreignKey, false, verifier.ReceiptsBroken},
		{"call left out", func(t *testing.T, tape *fixture.Tape) {
			i := tape.Completed()[5]
			tape.Frames = slices.Delete(tape.Frames, i-1, i+1)
		}, nil, false, verifier.BlobUnnamed},
		{"first call left out", func(t *testing.T, tape *fixture.Tape) { tape.Frames = slices.Delete(tape.Frames, 1, 3) }, nil, false, verifier.LogBroken},
		{"completion left out", func(t *testing.T, tape *fixture.Tape) {
			i := tape.Completed()[5]
			tape.Frames = slices.Delete(tape.Frames, i, i+1)
		}, nil, false, verifier.BlobUnnamed},
		{"completion repeated", func(t *testing.T, tape *fixture.Tape) {
			i := tape.Completed()[3]
			tape.Frames = slices.Insert(tape.Frames, i+1, tape.Frames[i])
		}, nil, false, verifier.ReceiptsBroken},
		{"completions swapped", func(t *testing.T, tape *fixture.Tape) {
			c := tape.Completed()
			tape.Frames[c[3]], tape.Frames[c[4]] = tape.Frames[c[4]], tape.Frames[c[3]]
		}, nil, false, verifier.ReceiptsBroken},
		{"call of another run", func(t *testing.T, tape *fixture.Tape) {
			tape.Frames[tape.Completed()[3]] = donor.Frames[donor.Completed()[3]]
		}, nil, false, verifier.LogBroken},
		{"call of another run, relabeled", func(t *testing.T, tape *fixture.Tape) {
			i := tape.Completed()[3]
			f := donor.Frames[donor.Completed()[3]]
			f.Task, f.Job = tape.Frames[i].Task, tape.Frames[i].Job
			tape.Frames[i] = f
		}, nil, false, verifier.ReceiptsBroken},
		{"all of another run's calls", func(t *testing.T, tape *fixture.Tape) {
			head, tail := tape.Frames[0], tape.Frames[len(tape.Frames)-1]
			tape.Frames = slices.Clone(donor.Frames)
			for i := range tape.Frames {
				tape.Frames[i].Task, tape.Frames[i].Job = head.Task, head.Job
			}
			tape.Frames[0], tape.Frames[len(tape.Frames)-1] = head, tail
			tape.Blobs = donor.Blobs
		}, nil, false, verifier.ReceiptsBroken},
		{"another salt", func(t *testing.T, tape *fixture.Tape) {
			tape.Frames[0].Payload = bytes.Replace(tape.Frames[0].Payload, []byte(r.Salt.String()), []byte(donor.Seal.Log.String()), 1)
		}, nil, false, verifier.MACMismatch},
		{"end left out", func(t *testing.T, tape *fixture.Tape) { tape.Frames = tape.Frames[:len(tape.Frames)-1] }, nil, false, verifier.NoEnd},
		{"more after the end", func(t *testing.T, tape *fixture.Tape) {
			tape.Frames = append(tape.Frames, tape.Frames[len(tape.Frames)-1])
		}, nil, false, verifier.LogBroken},
		{"killed becomes completed", func(t *testing.T, tape *fixture.Tape) {
			tape.Frames[len(tape.Frames)-1].Kind = receipts.TaskKilled
		}, nil, false, verifier.SealMismatch},
		{"frame of the model", func(t *testing.T, tape *fixture.Tape) { tape.Frames[2].Actor = receipts.Model }, nil, false, verifier.LogBroken},
		{"a blob more", func(t *testing.T, tape *fixture.Tape) { tape.Put([]byte("more")) }, nil, false, verifier.BlobUnnamed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tape := tapeOf(t, file)
			test.edit(t, tape)
			if !test.raw {
				if err := tape.Mint(test.mint); err != nil {
					t.Fatal(err)
				}
			}
			for _, seal := range []struct {
				name string
				key  receipts.Authenticator
			}{{"old", nil}, {"own", foreignKey}, {"stolen", sealKey}} {
				name := seal.name
				a, err := tape.Resealed(seal.key)
				if err != nil {
					t.Fatal(err)
				}
				o := r.Options()
				o.Keys[0].Asked = true
				report := verify(t, pack(t, a), o)
				switch {
				case name == "stolen" && !report.Has(test.want):
					t.Errorf("seal.mac %s: %v, want %s", name, report.Reasons(), test.want)
				case name != "stolen" && report.Verdict() != verifier.Broken:
					t.Errorf("seal.mac %s: %v, want it broken", name, report.Reasons())
				case report.Reasons()[0].Member == "" && !report.Has(verifier.NoEnd):
					t.Errorf("seal.mac %s: no member named: %v", name, report.Reasons())
				}
				o.Keys[0].Asked = false
				if report := verify(t, pack(t, a), o); report.Verdict() == verifier.Verified || report.Verdict() == verifier.Failed {
					t.Errorf("seal.mac %s: %s", name, report.Verdict())
				}
			}
		})
	}
}

// TestSealerPiecesTogether has both keys and makes receipts that do not fit the
// frames and documents that they are beside.
func TestSealerPiecesTogether(t *testing.T) {
	t.Parallel()
	r := redRun()
	file := bundleOf(t, &r)
	receiptKey, sealKey := keysOf(t, &r)
	for _, test := range []struct {
		name string
		edit func(*receipts.Receipt, *fixture.Tape)
		why  receipts.JoinBreak
	}{
		{"job", func(x *receipts.Receipt, _ *fixture.Tape) { x.Job[0] ^= 1 }, receipts.JobMismatch},
		{"task", func(x *receipts.Receipt, _ *fixture.Tape) { x.Task[0] ^= 1 }, receipts.TaskMismatch},
		{"tool", func(x *receipts.Receipt, _ *fixture.Tape) { x.ToolName = receipts.Sum([]byte("prepare")) }, receipts.NotStarted},
		{"args", func(x *receipts.Receipt, tape *fixture.Tape) { x.Args[0] ^= 1 }, receipts.NotStarted},
		{"no artifacts", func(x *receipts.Receipt, tape *fixture.Tape) {
			delete(tape.Blobs, x.Artifacts[0])
			x.Artifacts = nil
		}, receipts.ResultMismatch},
		{"result is no document", func(x *receipts.Receipt, tape *fixture.Tape) {
			delete(tape.Blobs, x.Result)
			x.Result = tape.Put([]byte("{}"))
		}, receipts.ResultMismatch},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tape := tapeOf(t, file)
			if err := tape.EditReceipt(tape.Completed()[3], func(x *receipts.Receipt) { test.edit(x, tape) }); err != nil {
				t.Fatal(err)
			}
			if err := tape.Mint(receiptKey); err != nil {
				t.Fatal(err)
			}
			a, err := tape.Resealed(sealKey)
			if err != nil {
				t.Fatal(err)
			}
			report := verify(t, pack(t, a), r.Options())
			want(t, report, verifier.JoinBroken)
			if text := fmt.Sprint(report.Reasons()); !bytes.Contains([]byte(text), []byte(test.why)) {
				t.Errorf("%s, want %s", text, test.why)
			}
		})
	}
}

// TestSealerOfAnotherTask labels a run as one of another patch, everywhere.
func TestSealerOfAnotherTask(t *testing.T) {
	t.Parallel()
	r := plainRun()
	tape := tapeOf(t, bundleOf(t, &r))
	task := receipts.TaskID([]byte("another patch"))
	tape.Seal.Task = task
	for i := range tape.Frames {
		tape.Frames[i].Task = task
	}
	for _, i := range tape.Completed() {
		if err := tape.EditReceipt(i, func(x *receipts.Receipt) { x.Task = task }); err != nil {
			t.Fatal(err)
		}
	}
	var keys [2]receipts.Key
	for i, purpose := range []string{receipts.PurposeReceipt, receipts.PurposeSeal} {
		var err error
		if keys[i], err = receipts.DeriveKey(r.Secret, r.Salt, purpose, task, r.Job); err != nil {
			t.Fatal(err)
		}
	}
	if err := tape.Mint(keys[0]); err != nil {
		t.Fatal(err)
	}
	a, err := tape.Resealed(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	want(t, verify(t, pack(t, a), r.Options()), verifier.PatchMismatch)
}

// TestSealerLeavesOpen completes a run in which a call has begun and not ended.
func TestSealerLeavesOpen(t *testing.T) {
	t.Parallel()
	r := plainRun()
	r.Prepare = []fixture.Prepared{{Name: "fetch"}}
	receiptKey, sealKey := keysOf(t, &r)
	tape := tapeOf(t, bundleOf(t, &r))
	i := tape.Completed()[3]
	if err := tape.EditReceipt(i, func(x *receipts.Receipt) { delete(tape.Blobs, x.Result) }); err != nil {
		t.Fatal(err)
	}
	tape.Frames = slices.Delete(tape.Frames, i, i+1)
	if err := tape.Mint(receiptKey); err != nil {
		t.Fatal(err)
	}
	a, err := tape.Resealed(sealKey)
	if err != nil {
		t.Fatal(err)
	}
	report := verify(t, pack(t, a), r.Options())
	want(t, report, verifier.CallsMismatch)
	member(t, report, "log")
}

// TestSealerSwapsOutput exchanges what a red test put out, after it was judged.
func TestSealerSwapsOutput(t *testing.T) {
	t.Parallel()
	r := redRun()
	receiptKey, sealKey := keysOf(t, &r)
	tape := tapeOf(t, bundleOf(t, &r))
	stdout := tape.Put([]byte(fixture.GoTest(fixture.Package, "TestAdd")))
	if err := tape.EditResult(tape.Completed()[3], func(result *receipts.Result) {
		delete(tape.Blobs, result.Stdout.Digest)
		n := int64(len(tape.Blobs[stdout]))
		result.Exit, result.Stdout = 0, receipts.Stream{Digest: stdout, Bytes: n, Kept: n}
	}); err != nil {
		t.Fatal(err)
	}
	if err := tape.Mint(receiptKey); err != nil {
		t.Fatal(err)
	}
	a, err := tape.Resealed(sealKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, quick := range []bool{false, true} {
		o := r.Options()
		o.Quick = quick
		report := verify(t, pack(t, a), o)
		want(t, report, verifier.EvidenceBroken)
		member(t, report, "blobs/sha256/")
	}
}

// TestCrashed seals what a killed process left: it is sound, and not verified.
func TestCrashed(t *testing.T) {
	t.Parallel()
	for stop := -1; stop < 7; stop++ {
		r := plainRun()
		if r.Stop = stop; stop == 0 {
			continue
		}
		dir := t.TempDir()
		if err := r.Crash(dir); err != nil {
			t.Fatal(err)
		}
		file, err := r.Reseal(dir)
		if err != nil {
			t.Fatal(err)
		}
		report := verify(t, file, r.Options())
		want(t, report, verifier.Interrupted)
		if seal, _ := report.Seal(); !report.Sound() || !seal.Resealed || seal.Outcome != bundle.OutcomeKilled {
			t.Errorf("after %d calls: sound %t, %+v", stop, report.Sound(), seal)
		}
		tape := tapeOf(t, file)
		tape.Seal.Resealed = false
		_, sealKey := keysOf(t, &r)
		a, err := tape.AsSealed(sealKey)
		if err != nil {
			t.Fatal(err)
		}
		want(t, verify(t, pack(t, a), r.Options()), verifier.SealMismatch)
	}
}
