package receipts

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"slices"
	"testing"
)

// frames returns the frames of a log for JoinStrict.
func frames(log []byte) iter.Seq2[*Frame, error] {
	return NewLogReader(bytes.NewReader(log), MaxPayload).All()
}

// Each case is a log whose receipts are minted with the key and whose frames are
// intact.
func TestJoinBreaks(t *testing.T) {
	t.Parallel()
	large := Sum([]byte("large"))
	seen := map[JoinBreak]bool{}
	one := func(edit func(*testRun, *Receipt)) func(*testRun) {
		return func(r *testRun) {
			receipt := r.receipt(r.start(ToolTest), r.result("x"))
			edit(r, &receipt)
			r.mint(receipt)
		}
	}
	document := func(edit func(*Result)) func(*testRun) {
		return one(func(r *testRun, receipt *Receipt) {
			res := r.result("x")
			edit(&res)
			receipt.Result, receipt.Artifacts = r.document(res), res.Artifacts()
		})
	}
	args := func(edit func(*Args)) func(*testRun) {
		return func(r *testRun) {
			a := Args{V: 1, Tool: ToolTest}
			edit(&a)
			d := r.document(a)
			r.note(ToolCallStarted, Start{V: 1, Call: 1, Tool: ToolTest, Args: d})
			r.tools[1], r.args[1] = ToolTest, d
			r.complete(1, r.result("x"))
		}
	}
	for _, c := range []struct {
		name   string
		record func(*testRun)
		index  uint64
		reason JoinBreak // empty: it joins
	}{
		{"nothing", func(*testRun) {}, 0, ""},
		{"one call", one(func(*testRun, *Receipt) {}), 0, ""},
		{"call without an end", func(r *testRun) { r.start(ToolTest) }, 0, ""},
		{"calls that end in another order", func(r *testRun) {
			first, second := r.start(ToolTest), r.start(ToolTest)
			r.complete(second, r.result("y"))
			r.complete(first, r.result("x"))
		}, 0, ""},
		{"sequence of no frame", one(func(_ *testRun, receipt *Receipt) { receipt.EventSeq = 99 }), 0, NoFrameAtSeq},
		{"sequence of the start", one(func(_ *testRun, receipt *Receipt) { receipt.EventSeq = 1 }), 0, NotAToolCompletion},
		{"task", one(func(_ *testRun, receipt *Receipt) { receipt.Task[0] ^= 1 }), 0, TaskMismatch},
		{"job", one(func(_ *testRun, receipt *Receipt) { receipt.Job[0] ^= 1 }), 0, JobMismatch},
		{"job of the frame", func(r *testRun) {
			receipt := r.receipt(r.start(ToolTest), r.result("x"))
			r.edit = func(f *Frame) { f.HasJob = false }
			r.mint(receipt)
		}, 0, JobMismatch},
		{"task of the frame", func(r *testRun) {
			receipt := r.receipt(r.start(ToolTest), r.result("x"))
			r.edit = func(f *Frame) { f.HasTask = false }
			r.mint(receipt)
		}, 0, TaskMismatch},
		{"earlier frame", func(r *testRun) {
			r.complete(r.start(ToolTest), r.result("x"))
			receipt := r.receipt(r.start(ToolTest), r.result("x"))
			receipt.EventSeq = 2
			r.mint(receipt)
		}, 1, FrameTaken},
		{"call that never started", one(func(_ *testRun, receipt *Receipt) { receipt.Call = CallID(2) }), 0, NotStarted},
		{"call that starts later", func(r *testRun) {
			r.tools[1], r.args[1] = ToolTest, r.document(Args{V: 1, Tool: ToolTest})
			r.complete(1, r.result("x"))
			r.note(ToolCallStarted, Start{V: 1, Call: 1, Tool: ToolTest, Args: r.args[1]})
		}, 0, NotStarted},
		{"tool", one(func(_ *testRun, receipt *Receipt) { receipt.ToolName = Sum([]byte(ToolJudge)) }), 0, NotStarted},
		{"args", one(func(r *testRun, receipt *Receipt) { receipt.Args = r.document(Args{V: 1, Tool: ToolTest}) }), 0, NotStarted},
		{"call with two receipts", func(r *testRun) {
			call := r.start(ToolTest)
			r.complete(call, r.result("x"))
			r.complete(call, r.result("x"))
		}, 1, NotStarted},
		{"no args document", one(func(r *testRun, receipt *Receipt) { delete(r.blobs, receipt.Args) }), 0, ArgsMissing},
		{"args document of version 2", args(func(a *Args) { a.V = 2 }), 0, ArgsMismatch},
		{"args document of another tool", args(func(a *Args) { a.Tool = ToolJudge }), 0, ArgsMismatch},
		{"args that are no document", func(r *testRun) {
			r.tools[1], r.args[1] = ToolTest, r.blobs.put("go test")
			r.note(ToolCallStarted, Start{V: 1, Call: 1, Tool: ToolTest, Args: r.args[1]})
			r.complete(1, r.result("x"))
		}, 0, ArgsMismatch},
		{"no result document", one(func(r *testRun, receipt *Receipt) { delete(r.blobs, receipt.Result) }), 0, ResultMissing},
		{"result document of version 2", document(func(res *Result) { res.V = 2 }), 0, ResultMismatch},
		{"artifact that the result does not name", one(func(r *testRun, receipt *Receipt) {
			receipt.Artifacts = append(receipt.Artifacts, r.blobs.put("more"))
		}), 0, ResultMismatch},
		{"artifact that the receipt does not name", one(func(_ *testRun, receipt *Receipt) { receipt.Artifacts = nil }), 0, ResultMismatch},
		{"another artifact", one(func(r *testRun, receipt *Receipt) { receipt.Artifacts[0] = r.blobs.put("other") }), 0, ResultMismatch},
		{"artifacts in another order", one(func(r *testRun, receipt *Receipt) {
			res := r.result("x", File{Name: "f", Digest: r.blobs.put("f"), Size: 1})
			receipt.Result, receipt.Artifacts = r.document(res), res.Artifacts()
			slices.Reverse(receipt.Artifacts)
		}), 0, ResultMismatch},
		{"redactions that the frame denies", document(func(res *Result) { res.Redacted = 1 }), 0, ResultMismatch},
		{"redactions that the document denies", func(r *testRun) {
			receipt := r.receipt(r.start(ToolTest), r.result("x"))
			r.edit = func(f *Frame) { f.Redaction = Redacted }
			r.mint(receipt)
		}, 0, ResultMismatch},
		{"redactions that both know", func(r *testRun) {
			res := r.result("x")
			res.Redacted = 1
			receipt := r.receipt(r.start(ToolTest), res)
			r.edit = func(f *Frame) { f.Redaction = Redacted }
			r.mint(receipt)
		}, 0, ""},
		{"no artifact", document(func(res *Result) { res.Files = []File{{Name: "f", Digest: large, Size: 5}} }), 0, ArtifactMissing},
		{"artifact withheld", func(r *testRun) {
			document(func(res *Result) { res.Files = []File{{Name: "f", Digest: large, Size: 5}} })(r)
			c := r.closing()
			c.Withheld = []Withheld{{large, "large"}}
			r.note(TaskCompleted, c)
		}, 0, ""},
		{"artifact withheld by a risk", func(r *testRun) {
			document(func(res *Result) { res.Files = []File{{Name: "f", Digest: large, Size: 5}} })(r)
			c := r.closing()
			c.Withheld = []Withheld{{large, "large"}}
			r.note(RiskDetected, c)
		}, 0, ArtifactMissing},
	} {
		r := newTestRun(t)
		c.record(r)
		var receipts []Receipt
		var refs []FrameRef
		for f, err := range frames(r.log.Bytes()) {
			if err != nil {
				t.Fatal(err)
			}
			refs = append(refs, f.Ref())
			if f.Kind == ToolCallCompleted {
				receipt, err := ParseRecord(f.Payload)
				if err != nil {
					t.Fatal(err)
				}
				receipts = append(receipts, receipt)
			}
		}
		check := func(how string, err error, index uint64, reason JoinBreak) {
			t.Helper()
			var broken *JoinError
			if reason == "" && err != nil || reason != "" && (!errors.As(err, &broken) || broken.Reason != reason || broken.Index != index) {
				t.Errorf("%s, %s: %v; want %q at %d", c.name, how, err, reason, index)
			}
			seen[reason] = true
		}
		check("strict", JoinStrict(receipts, frames(r.log.Bytes()), r.blobs), c.index, c.reason)
		switch c.reason {
		case NoFrameAtSeq, NotAToolCompletion, TaskMismatch, JobMismatch:
			check("join", Join(receipts, refs), c.index, c.reason)
		default:
			check("join", Join(receipts, refs), 0, "")
		}
		if c.reason != "" || len(receipts) == 0 {
			continue
		}
		// The ways that Join does not see, on receipts that are all good.
		last := uint64(len(receipts) - 1)
		check("last receipt missing", JoinStrict(receipts[:last], frames(r.log.Bytes()), r.blobs), last, FrameWithoutProof)
		check("receipt repeated", JoinStrict(append(slices.Clone(receipts), receipts[last]), frames(r.log.Bytes()), r.blobs), last+1, FrameTaken)
		if last > 0 {
			backwards := slices.Clone(receipts)
			slices.Reverse(backwards)
			check("out of order", JoinStrict(backwards, frames(r.log.Bytes()), r.blobs), 1, FrameTaken)
		}
		changed := slices.Clone(receipts)
		changed[0].MAC[0] ^= 1
		check("other record", JoinStrict(changed, frames(r.log.Bytes()), r.blobs), 0, PayloadMismatch)
		r.frame(ToolCallCompleted, []byte("PASSED"))
		check("completion without a receipt", JoinStrict(receipts, frames(r.log.Bytes()), r.blobs), last+1, FrameWithoutProof)
	}
	for _, reason := range []JoinBreak{
		NoFrameAtSeq, NotAToolCompletion, TaskMismatch, JobMismatch, FrameTaken, PayloadMismatch, NotStarted,
		ArgsMissing, ArgsMismatch, ResultMissing, ResultMismatch, ArtifactMissing, FrameWithoutProof,
	} {
		if !seen[reason] {
			t.Errorf("no case for %s", reason)
		}
	}
}

// Of frames with one sequence number the first counts.
func TestJoinFirstFrame(t *testing.T) {
	t.Parallel()
	r := Receipt{Task: ID{1}, Job: ID{2}, EventSeq: 4}
	good := FrameRef{Seq: 4, ToolCompleted: true, HasTask: true, Task: ID{1}, HasJob: true, Job: ID{2}}
	bad := FrameRef{Seq: 4}
	if err := Join([]Receipt{r}, []FrameRef{good, bad}); err != nil {
		t.Error(err)
	}
	if err := Join([]Receipt{r}, []FrameRef{bad, good}); err == nil {
		t.Error("the second frame counts")
	}
}

// No id is not the id zero.
func TestJoinWithoutIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ref  FrameRef
		want JoinBreak
	}{
		{FrameRef{ToolCompleted: true, HasJob: true}, TaskMismatch},
		{FrameRef{ToolCompleted: true, HasTask: true}, JobMismatch},
	} {
		var broken *JoinError
		if err := Join(make([]Receipt, 1), []FrameRef{c.ref}); !errors.As(err, &broken) || broken.Reason != c.want {
			t.Errorf("%+v: %v; want %s", c.ref, err, c.want)
		}
	}
}

// A log that breaks does not join, however good its start.
func TestJoinStrictBrokenLog(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	log := r.log.Bytes()
	err := JoinStrict(nil, frames(log[:r.ends[0]+1]), r.blobs)
	checkLogError(t, "torn", err, 1, Truncated)

	l := NewLogReader(bytes.NewReader(log), MaxPayload)
	for range l.All() {
		break
	}
	if l.Frames() != 1 {
		t.Errorf("%d frames read before the loop was left", l.Frames())
	}
	for _, err := range l.All() {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Next(); err != io.EOF || l.Frames() != 7 {
		t.Errorf("%d frames, %v", l.Frames(), err)
	}
}
