package receipts

import (
	"bytes"
	"errors"
	"testing"
)

// A testRun records a run in memory. Its methods fail the test where a frame
// cannot be written.
type testRun struct {
	t         testing.TB
	log       bytes.Buffer
	w         *LogWriter
	chain     *Chain
	task, job ID
	salt      Digest
	blobs     testBlobs
	ends      []int // length of the log after each frame
	calls     uint64
	args      map[uint64]Digest
	tools     map[uint64]string

	edit func(*Frame) // applied to the next frame
}

var testSecret = bytes.Repeat([]byte{0x2a}, 32)

// testKey is the source of receipt keys that a verifier of a testRun has.
func testKey(salt Digest, task, job ID) (Key, error) {
	return DeriveKey(testSecret, salt, PurposeReceipt, task, job)
}

const testPatch = `{"v":1,"example":"patch document"}`

// newTestRun returns a run whose log has its opening frame.
func newTestRun(t testing.TB) *testRun {
	t.Helper()
	r := &testRun{
		t:    t,
		task: TaskID([]byte(testPatch)),
		job:  ID{0: 1, 15: 0x80},
		salt: Sum([]byte("example salt")),
		args: map[uint64]Digest{}, tools: map[uint64]string{},
		blobs: testBlobs{},
	}
	key, err := testKey(r.salt, r.task, r.job)
	if err != nil {
		t.Fatal(err)
	}
	if r.chain, err = NewChain(key); err != nil {
		t.Fatal(err)
	}
	r.w = NewLogWriter(&r.log)
	r.note(TaskCreated, Opening{V: 1, Salt: r.salt, Patch: r.blobs.put(testPatch)})
	return r
}

func (r *testRun) frame(kind Kind, payload []byte) {
	r.t.Helper()
	f := &Frame{
		Kind: kind, Visibility: Internal, Seq: r.w.Frames(), Time: 1700000000000 + 1000*r.w.Frames(),
		HasTask: true, Task: r.task, HasJob: true, Job: r.job, Payload: payload,
	}
	if r.edit != nil {
		r.edit(f)
		r.edit = nil
	}
	if _, err := r.w.Append(f); err != nil {
		r.t.Fatal(err)
	}
	r.ends = append(r.ends, r.log.Len())
}

func (r *testRun) note(kind Kind, note any) {
	r.t.Helper()
	payload, err := Encode(note)
	if err != nil {
		r.t.Fatal(err)
	}
	r.frame(kind, payload)
}

// document stores a document.
func (r *testRun) document(v any) Digest {
	r.t.Helper()
	b, err := Encode(v)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.blobs.put(string(b))
}

// start writes the start of the next call.
func (r *testRun) start(tool string) uint64 {
	r.t.Helper()
	r.calls++
	tree := Sum([]byte("tree"))
	r.tools[r.calls] = tool
	r.args[r.calls] = r.document(Args{
		V: 1, Tool: tool, Name: "unit", Side: "head", Round: int(r.calls), Format: "gotest",
		Argv: []Bytes{"go", "test", "-json", "./..."}, Dir: ".", Env: []Bytes{"HOME=/home/t", "LANG=\xff"},
		Patch: Sum([]byte(testPatch)), Tree: &tree,
	})
	r.note(ToolCallStarted, Start{V: 1, Call: r.calls, Tool: tool, Args: r.args[r.calls]})
	return r.calls
}

// result returns the result document of a call that wrote stdout and made files.
func (r *testRun) result(stdout string, files ...File) Result {
	res := Result{V: 1, State: StateExited, Start: 1700000000000, End: 1700000000500, Files: files}
	if stdout != "" {
		res.Stdout = Stream{Digest: r.blobs.put(stdout), Bytes: int64(len(stdout)), Kept: int64(len(stdout))}
	}
	return res
}

// receipt returns the receipt of a call, to be minted.
func (r *testRun) receipt(call uint64, res Result) Receipt {
	r.t.Helper()
	return Receipt{
		Task: r.task, Job: r.job, Call: CallID(call),
		ToolName: Sum([]byte(r.tools[call])), Args: r.args[call], Result: r.document(res),
		Artifacts: res.Artifacts(), EventSeq: r.w.Frames(),
	}
}

// mint writes the completion frame with the receipt.
func (r *testRun) mint(receipt Receipt) {
	r.t.Helper()
	if err := r.chain.Mint(&receipt); err != nil {
		r.t.Fatal(err)
	}
	r.frame(ToolCallCompleted, receipt.AppendRecord(nil))
}

func (r *testRun) complete(call uint64, res Result) {
	r.t.Helper()
	r.mint(r.receipt(call, res))
}

func (r *testRun) closing() Closing {
	return Closing{V: 1, Frames: r.w.Frames() + 1, Receipts: r.chain.Count(), Head: r.chain.Head()}
}

// read reads what was recorded as a verifier with the key.
func (r *testRun) read() (*Run, error) { return ReadRun(bytes.NewReader(r.log.Bytes()), testKey) }

// sampleRun is a whole run: two calls, a risk, a withheld blob.
func sampleRun(t testing.TB) *testRun {
	t.Helper()
	r := newTestRun(t)
	test := r.start(ToolTest)
	r.complete(test, r.result("{\"Action\":\"pass\"}\n"))
	r.note(RiskDetected, Risk{V: 1, Code: "harness-touched", Detail: "x_test.go"})
	judge := r.start(ToolJudge)
	large := Sum([]byte("large"))
	r.complete(judge, r.result("", File{Name: "evidence.json", Digest: r.blobs.put("{}"), Size: 2}, File{Name: "core", Digest: large, Size: 1 << 40}))
	closing := r.closing()
	closing.Withheld = []Withheld{{large, "too large"}}
	r.note(TaskCompleted, closing)
	return r
}

// testBlobs holds blobs under their digests.
type testBlobs map[Digest][]byte

func (b testBlobs) put(s string) Digest {
	d := Sum([]byte(s))
	b[d] = []byte(s)
	return d
}

var errNoBlob = errors.New("no such blob")

func (b testBlobs) Document(d Digest) ([]byte, error) {
	if blob, ok := b[d]; ok {
		return blob, nil
	}
	return nil, errNoBlob
}

func (b testBlobs) Has(d Digest) bool { return b[d] != nil }

// rehash returns log with the three hashes of every frame computed anew after
// edit has changed frame number n, which is what a forger without a key can do.
func rehash(t testing.TB, log []byte, n int, edit func(*Frame)) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewLogWriter(&out)
	for i := 0; len(log) > 0; i++ {
		f, size, reason := DecodeFrame(log)
		if reason != "" {
			t.Fatalf("frame %d: %s", i, reason)
		}
		log = log[size:]
		if i == n {
			f.Payload = bytes.Clone(f.Payload)
			edit(&f)
		}
		if _, err := w.Append(&f); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
	}
	return out.Bytes()
}

// checkLogError fails the test unless err is the break of frame n for reason.
func checkLogError(t *testing.T, name string, err error, n uint64, reason LogBreak) {
	t.Helper()
	var broken *LogError
	if !errors.As(err, &broken) || broken.Frame != n || broken.Reason != reason {
		t.Errorf("%s: %v; want %s at frame %d", name, err, reason, n)
	}
}
