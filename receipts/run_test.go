package receipts

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestReadRun(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	run, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Join(r.blobs); err != nil {
		t.Error(err)
	}
	if run.Task != r.task || run.Job != r.job || run.Opening.Salt != r.salt || run.Opening.Patch != Sum([]byte(testPatch)) {
		t.Errorf("task %s, job %s, opening %+v", run.Task, run.Job, run.Opening)
	}
	if run.Frames != 7 || run.Began != 1700000000000 || run.Ended != 1700000006000 || run.Outcome != TaskCompleted || !run.MACs {
		t.Errorf("%d frames, %d to %d, %s, MACs %t", run.Frames, run.Began, run.Ended, run.Outcome, run.MACs)
	}
	if run.Log != Sum(r.log.Bytes()) || run.Root != logRoot(t, r.log.Bytes()) {
		t.Errorf("log %s, root %s", run.Log, run.Root)
	}
	wantCalls := []Call{
		{Start{1, 1, ToolTest, r.args[1]}, 1, 1700000001000, 0, 1700000002000},
		{Start{1, 2, ToolJudge, r.args[2]}, 4, 1700000004000, 1, 1700000005000},
	}
	if !reflect.DeepEqual(run.Calls, wantCalls) {
		t.Errorf("calls %+v; want %+v", run.Calls, wantCalls)
	}
	if len(run.Receipts) != 2 || run.Receipts[1].EventSeq != 5 || run.Receipts[1].Prev != run.Receipts[0].ChainHash() {
		t.Errorf("receipts %+v", run.Receipts)
	}
	if len(run.Risks) != 1 || run.Risks[0].Code != "harness-touched" {
		t.Errorf("risks %+v", run.Risks)
	}
	if c := run.Closing; c == nil || c.Frames != 7 || c.Receipts != 2 || c.Head != r.chain.Head() || len(c.Withheld) != 1 {
		t.Errorf("closing %+v", c)
	}

	linked, err := ReadRun(bytes.NewReader(r.log.Bytes()), nil)
	if err != nil || linked.MACs {
		t.Fatalf("without a key: %v", err)
	}
	if err := linked.Join(r.blobs); err != nil {
		t.Errorf("without a key: %v", err)
	}
	_, err = ReadRun(bytes.NewReader(r.log.Bytes()), func(Digest, ID, ID) (Key, error) { return NewKey(testSecret) })
	checkReceiptStatus(t, "another key", 0, err, vectorStatus{Status: "Broken", Reason: "BadMac"})
	unkeyed, err := ReadRun(bytes.NewReader(r.log.Bytes()), func(Digest, ID, ID) (Key, error) { return Key{}, nil })
	if err != nil || unkeyed.MACs {
		t.Errorf("zero key: MACs %t, %v", unkeyed.MACs, err)
	}
	if _, err := ReadRun(bytes.NewReader(r.log.Bytes()), func(Digest, ID, ID) (Key, error) { return Key{}, errNoBlob }); err != errNoBlob {
		t.Errorf("no key: %v", err)
	}
}

// logRoot computes the RFC 6962 root by its definition.
func logRoot(t *testing.T, log []byte) Digest {
	t.Helper()
	frames, err := verifyAll(bytes.NewReader(log))
	if err != io.EOF {
		t.Fatal(err)
	}
	return naiveRoot(frames)
}

func naiveRoot(leaves [][]byte) Digest {
	switch len(leaves) {
	case 0:
		return Sum(nil)
	case 1:
		return Sum(append([]byte{0}, leaves[0]...))
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	left, right := naiveRoot(leaves[:k]), naiveRoot(leaves[k:])
	return Sum(append(append([]byte{1}, left[:]...), right[:]...))
}

// A log without its end is one that was interrupted, at any frame.
func TestReadRunWithoutEnd(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	for i, end := range r.ends[:len(r.ends)-1] {
		run, err := ReadRun(bytes.NewReader(r.log.Bytes()[:end]), testKey)
		if err != nil {
			t.Errorf("%d frames: %v", i+1, err)
			continue
		}
		if run.Closing != nil || run.Outcome != 0 || run.Frames != uint64(i)+1 {
			t.Errorf("%d frames: %+v", i+1, run)
		}
		if open := len(run.Calls) > len(run.Receipts); open != (i == 1 || i == 4) {
			t.Errorf("%d frames: %d calls, %d receipts", i+1, len(run.Calls), len(run.Receipts))
		}
		// Without its terminal frame nothing is withheld.
		var broken *JoinError
		if err := run.Join(r.blobs); i >= 5 && (!errors.As(err, &broken) || broken.Reason != ArtifactMissing) || i < 5 && err != nil {
			t.Errorf("%d frames: %v", i+1, err)
		}
	}
}

// Each case is an intact log, and no run's.
func TestRunBreaks(t *testing.T) {
	t.Parallel()
	encode := func(v any) []byte {
		b, err := Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	spaced := func(b []byte) []byte { return append(bytes.Clone(b), ' ') }
	opening := Opening{V: 1, Salt: Sum(nil), Patch: Sum(nil)}
	// first edits the opening frame of a run, next adds frames to an open one.
	first := func(edit func(*Frame)) func(*testRun) []byte {
		return func(r *testRun) []byte { return rehash(t, r.log.Bytes(), 0, edit) }
	}
	next := func(add func(*testRun)) func(*testRun) []byte {
		return func(r *testRun) []byte {
			add(r)
			return r.log.Bytes()
		}
	}
	foreign := func(edit func(*Frame)) func(*testRun) []byte {
		return next(func(r *testRun) {
			r.edit = edit
			r.note(RiskDetected, Risk{V: 1})
		})
	}
	closing := func(edit func(*Closing)) func(*testRun) []byte {
		return next(func(r *testRun) {
			r.complete(r.start(ToolTest), r.result("x"))
			c := r.closing()
			edit(&c)
			r.note(TaskFailed, c)
		})
	}
	seen := map[RunBreak]bool{}
	for _, c := range []struct {
		name   string
		make   func(*testRun) []byte
		frame  uint64
		reason RunBreak
	}{
		{"empty", func(*testRun) []byte { return nil }, 0, NoOpening},
		{"opening of another kind", first(func(f *Frame) { f.Kind = TaskPlanned }), 0, NoOpening},
		{"opening without task", first(func(f *Frame) { f.HasTask = false }), 0, NoOpening},
		{"opening without job", first(func(f *Frame) { f.HasJob = false }), 0, NoOpening},
		{"opening with sequence 1", first(func(f *Frame) { f.Seq = 1 }), 0, NoOpening},
		{"opening by a model", first(func(f *Frame) { f.Actor = Model }), 0, NoOpening},
		{"opening for a model", first(func(f *Frame) { f.Visibility = ModelVisible }), 0, NoOpening},
		{"opening redacted", first(func(f *Frame) { f.Redaction = Redacted }), 0, NoOpening},
		{"opening that is no document", first(func(f *Frame) { f.Payload = []byte("{}") }), 0, NoOpening},
		{"opening not canonical", first(func(f *Frame) { f.Payload = spaced(f.Payload) }), 0, NoOpening},
		{"opening without salt", first(func(f *Frame) { f.Payload = encode(Opening{V: 1, Patch: Sum(nil)}) }), 0, NoOpening},
		{"opening of version 2", first(func(f *Frame) { o := opening; o.V = 2; f.Payload = encode(o) }), 0, NoOpening},

		{"other task", foreign(func(f *Frame) { f.Task[15] ^= 1 }), 1, ForeignFrame},
		{"other job", foreign(func(f *Frame) { f.Job[15] ^= 1 }), 1, ForeignFrame},
		{"no task", foreign(func(f *Frame) { f.HasTask = false }), 1, ForeignFrame},
		{"no job", foreign(func(f *Frame) { f.HasJob = false }), 1, ForeignFrame},
		{"sequence with a gap", foreign(func(f *Frame) { f.Seq++ }), 1, ForeignFrame},
		{"other actor", foreign(func(f *Frame) { f.Actor = Adapter }), 1, ForeignFrame},
		{"visible", foreign(func(f *Frame) { f.Visibility = ModelVisible }), 1, ForeignFrame},
		{"redacted", foreign(func(f *Frame) { f.Redaction = Redacted }), 1, ForeignFrame},
		{"second opening", next(func(r *testRun) { r.note(TaskCreated, opening) }), 1, ForeignFrame},
		{"kind that no run has", next(func(r *testRun) { r.frame(PatchVerified, nil) }), 1, ForeignFrame},

		{"start", next(func(r *testRun) { r.frame(ToolCallStarted, []byte("{}")) }), 1, MalformedRecord},
		{"start of version 2", next(func(r *testRun) { r.note(ToolCallStarted, Start{V: 2, Call: 1}) }), 1, MalformedRecord},
		{"receipt", next(func(r *testRun) { r.frame(ToolCallCompleted, make([]byte, 219)) }), 1, MalformedRecord},
		{"receipt and more", next(func(r *testRun) {
			r.start(ToolTest)
			receipt := r.receipt(1, r.result("x"))
			if err := r.chain.Mint(&receipt); err != nil {
				t.Fatal(err)
			}
			r.frame(ToolCallCompleted, append(receipt.AppendRecord(nil), make([]byte, 32)...))
		}), 2, MalformedRecord},
		{"risk", next(func(r *testRun) { r.frame(RiskDetected, nil) }), 1, MalformedRecord},
		{"too many risks", next(func(r *testRun) {
			for range MaxRisks + 1 {
				r.note(RiskDetected, Risk{V: 1})
			}
		}), 1 + MaxRisks, MalformedRecord},
		{"closing", next(func(r *testRun) { r.frame(TaskKilled, []byte("null")) }), 1, MalformedRecord},
		{"closing of version 0", next(func(r *testRun) { c := r.closing(); c.V = 0; r.note(TaskKilled, c) }), 1, MalformedRecord},

		{"call 0", next(func(r *testRun) { r.note(ToolCallStarted, Start{V: 1, Call: 0}) }), 1, CallOutOfOrder},
		{"call 2 first", next(func(r *testRun) { r.note(ToolCallStarted, Start{V: 1, Call: 2}) }), 1, CallOutOfOrder},
		{"call 1 again", next(func(r *testRun) { r.start(ToolTest); r.calls = 0; r.start(ToolTest) }), 2, CallOutOfOrder},
		{"receipt of no call", next(func(r *testRun) { r.complete(1, r.result("x")) }), 1, CallOutOfOrder},
		{"receipt of call 0", next(func(r *testRun) { r.start(ToolTest); r.complete(0, r.result("x")) }), 2, CallOutOfOrder},
		{"receipt of call 2^64+1", next(func(r *testRun) {
			receipt := r.receipt(r.start(ToolTest), r.result("x"))
			receipt.Call[8] = 1
			r.mint(receipt)
		}), 2, CallOutOfOrder},
		{"two receipts of one call", next(func(r *testRun) {
			call := r.start(ToolTest)
			r.complete(call, r.result("x"))
			r.complete(call, r.result("y"))
		}), 3, CallOutOfOrder},

		{"risk after the end", next(func(r *testRun) {
			r.note(TaskCompleted, r.closing())
			r.note(RiskDetected, Risk{V: 1})
		}), 2, AfterEnd},
		{"two ends", next(func(r *testRun) {
			r.note(TaskCompleted, r.closing())
			r.note(TaskCompleted, r.closing())
		}), 2, AfterEnd},

		{"frames", closing(func(c *Closing) { c.Frames++ }), 3, CountMismatch},
		{"receipts", closing(func(c *Closing) { c.Receipts-- }), 3, CountMismatch},
		{"head", closing(func(c *Closing) { c.Head = Digest{} }), 3, CountMismatch},
	} {
		log := c.make(newTestRun(t))
		if _, _, err := VerifyLog(bytes.NewReader(log), MaxPayload, nil); err != nil {
			t.Errorf("%s: not intact: %v", c.name, err)
		}
		run, err := ReadRun(bytes.NewReader(log), testKey)
		var broken *RunError
		if !errors.As(err, &broken) || broken.Frame != c.frame || broken.Reason != c.reason {
			t.Errorf("%s: %v; want %s at frame %d", c.name, err, c.reason, c.frame)
			continue
		}
		if run.Frames != c.frame || !run.Root.IsZero() || !run.Log.IsZero() {
			t.Errorf("%s: a broken run has %d frames, root %s", c.name, run.Frames, run.Root)
		}
		if !strings.Contains(err.Error(), string(c.reason)) {
			t.Errorf("%s: message %q", c.name, err)
		}
		seen[c.reason] = true
	}
	for _, reason := range []RunBreak{NoOpening, ForeignFrame, MalformedRecord, CallOutOfOrder, AfterEnd, CountMismatch} {
		if !seen[reason] {
			t.Errorf("no case for %s", reason)
		}
	}
}

// The calls of a run are limited before its memory is.
func TestReadRunMaxCalls(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]bool{MaxCalls: true, MaxCalls + 1: false} {
		payload, err := Encode(Start{V: 1, Call: n, Tool: ToolTest, Args: Sum(nil)})
		if err != nil {
			t.Fatal(err)
		}
		r := runReader{Run: &Run{Frames: 1, Calls: make([]Call, n-1), index: newJoinIndex()}}
		err = r.frame(&Frame{Kind: ToolCallStarted, Visibility: Internal, Seq: 1, HasTask: true, HasJob: true, Payload: payload})
		var broken *RunError
		if refused := errors.As(err, &broken) && broken.Reason == CallOutOfOrder; refused == want {
			t.Errorf("call %d: %v", n, err)
		}
	}
}

// expectRun reports why log is not the run that a verifier with the key, the
// blobs, the number of frames and the root expects.
func expectRun(log []byte, blobs Blobs, frames uint64, root Digest) error {
	run, err := ReadRun(bytes.NewReader(log), testKey)
	if err != nil {
		return err
	}
	if run.Frames != frames || run.Root != root {
		return errors.New("another log")
	}
	if run.Closing == nil {
		return errors.New("no end")
	}
	return run.Join(blobs)
}

func TestRunBitFlips(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	log := r.log.Bytes()
	root := logRoot(t, log)
	if err := expectRun(log, r.blobs, 7, root); err != nil {
		t.Fatal(err)
	}
	edited := bytes.Clone(log)
	for i := range 8 * len(log) {
		edited[i/8] ^= 1 << (i % 8)
		if err := expectRun(edited, r.blobs, 7, root); err == nil {
			t.Errorf("bit %d of byte %d: accepted", i%8, i/8)
		}
		edited[i/8] ^= 1 << (i % 8)
	}
	for n := range len(log) {
		if err := expectRun(log[:n], r.blobs, 7, root); err == nil {
			t.Errorf("%d bytes: accepted", n)
		}
	}
	if err := expectRun(append(edited, 0), r.blobs, 7, root); err == nil {
		t.Error("one more byte: accepted")
	}
}

// A forger without the key computes all hashes anew after a change. The root
// gives every change away, and the key and the blobs those that matter.
func TestRunForged(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	log := r.log.Bytes()
	root := logRoot(t, log)
	start := 0
	for n, end := range r.ends {
		frame, _, _ := DecodeFrame(log[start:end])
		start = end
		for i := range len(frame.Payload) {
			forged := rehash(t, log, n, func(f *Frame) { f.Payload[i] ^= 1 })
			if err := expectRun(forged, r.blobs, 7, root); err == nil {
				t.Fatalf("frame %d: byte %d of the payload: accepted", n, i)
			}
			// Of what a risk says only the root knows.
			if frame.Kind != RiskDetected && frame.Kind != TaskCreated && !frame.Kind.Terminal() {
				run, err := ReadRun(bytes.NewReader(forged), testKey)
				if err == nil {
					err = run.Join(r.blobs)
				}
				if err == nil {
					t.Fatalf("frame %d: byte %d of the payload: accepted without a root", n, i)
				}
			}
		}
		forged := rehash(t, log, n, func(f *Frame) { f.Time++ })
		if err := expectRun(forged, r.blobs, 7, root); err == nil {
			t.Fatalf("frame %d: time: accepted", n)
		}
	}
}

// A change to any blob that the run names is refused.
func TestRunWithoutBlob(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	run, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for d, blob := range r.blobs {
		if string(blob) == testPatch {
			continue // named by no receipt, but by the opening
		}
		named++
		delete(r.blobs, d)
		var broken *JoinError
		if err := run.Join(r.blobs); !errors.As(err, &broken) {
			t.Errorf("without %q: %v", blob, err)
		}
		r.blobs[d] = blob
	}
	if named != 6 {
		t.Errorf("%d blobs", named)
	}
}
