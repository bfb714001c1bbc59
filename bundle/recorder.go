package bundle

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
)

// A Recorder writes the log and the blobs of one run into a directory, from
// which [Recorder.Seal] makes the bundle. What it wrote survives the process:
// see [Reseal]. Its methods may be called from several goroutines.
type Recorder struct {
	spool *Spool
	now   func() time.Time

	mu     sync.Mutex
	file   *os.File
	log    *receipts.LogWriter
	chain  *receipts.Chain
	auth   Authenticators
	digest hash.Hash // of the log
	tree   receipts.Tree
	seal   Seal
	calls  uint64
	risks  int
	ended  string // the outcome, once the terminal frame is written
}

// Authenticators make the MACs of one run: of receipts and of the seal.
type Authenticators struct {
	Receipt, Seal receipts.Authenticator
}

// A Run names a run before it begins.
type Run struct {
	Patch []byte // the patch document
	Job   receipts.ID
	Salt  receipts.Digest
}

// NewRun returns a run of the patch with this document, under a random job id
// and salt.
func NewRun(patch []byte) Run {
	r := Run{Patch: patch}
	rand.Read(r.Job[:])
	rand.Read(r.Salt[:])
	return r
}

// Task returns the id of the run's task.
func (r *Run) Task() receipts.ID { return receipts.TaskID(r.Patch) }

// The files of a run in its directory.
const logFile = "log"

// NewRecorder begins a run: it creates the log in dir, which must not hold one,
// and writes its opening frame.
func NewRecorder(dir string, run Run, auth Authenticators, now func() time.Time) (*Recorder, error) {
	chain, err := receipts.NewChain(auth.Receipt)
	if err != nil {
		return nil, err
	}
	spool, err := NewSpool(dir)
	if err != nil {
		return nil, err
	}
	patch, err := spool.Put(run.Patch)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	r := &Recorder{
		spool: spool, now: now,
		file: file, log: receipts.NewLogWriter(file), chain: chain, auth: auth, digest: sha256.New(),
		seal: Seal{Task: run.Task(), Job: run.Job, Patch: patch, Attempt: 1},
	}
	opening := receipts.Opening{V: receipts.DocumentVersion, Salt: run.Salt, Patch: patch}
	if err := r.note(receipts.TaskCreated, &opening); err != nil {
		file.Close()
		return nil, err
	}
	r.seal.Start = r.seal.End
	return r, nil
}

// Calls returns how many calls have started.
func (r *Recorder) Calls() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

// Spool returns where the run's blobs go.
func (r *Recorder) Spool() *Spool { return r.spool }

// A RecordedCall is a call that has started.
type RecordedCall struct {
	r       *Recorder
	receipt receipts.Receipt
	ended   bool
}

// Number returns the number of the call, counted from 1.
func (c *RecordedCall) Number() uint64 {
	n, _ := c.receipt.Call.Uint64() // made by Begin
	return n
}

// Begin records that a call starts.
func (r *Recorder) Begin(args *receipts.Args) (*RecordedCall, error) {
	args.V = receipts.DocumentVersion
	doc, err := receipts.Encode(args)
	if err != nil {
		return nil, err
	}
	digest, err := r.spool.Put(doc)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == receipts.MaxCalls {
		return nil, fmt.Errorf("call %d: the limit is %d", r.calls+1, receipts.MaxCalls)
	}
	start := receipts.Start{V: receipts.DocumentVersion, Call: r.calls + 1, Tool: args.Tool, Args: digest}
	if err := r.note(receipts.ToolCallStarted, &start); err != nil {
		return nil, err
	}
	r.calls++
	return &RecordedCall{r: r, receipt: receipts.Receipt{
		Task: r.seal.Task, Job: r.seal.Job, Call: receipts.CallID(r.calls),
		ToolName: receipts.Sum([]byte(args.Tool)), Args: digest,
	}}, nil
}

var errCallEnded = errors.New("call: has ended")

// End records what the call came to and mints its receipt. The blobs that the
// result names must be in the spool.
func (c *RecordedCall) End(result *receipts.Result) error {
	if c.ended {
		return errCallEnded
	}
	result.V = receipts.DocumentVersion
	if result.Files == nil {
		result.Files = []receipts.File{}
	}
	doc, err := receipts.Encode(result)
	if err != nil {
		return err
	}
	if c.receipt.Result, err = c.r.spool.Put(doc); err != nil {
		return err
	}
	c.receipt.Artifacts = result.Artifacts()
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.receipt.EventSeq = c.r.log.Frames()
	if err := c.r.chain.Mint(&c.receipt); err != nil {
		return err
	}
	c.ended = true
	redaction := receipts.Clean
	if result.Redacted > 0 {
		redaction = receipts.Redacted
	}
	return c.r.append(receipts.ToolCallCompleted, redaction, c.receipt.AppendRecord(nil))
}

// Risk records something that no call's result says.
func (r *Recorder) Risk(code, detail string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.risks == receipts.MaxRisks {
		return fmt.Errorf("risk %s: the limit is %d", code, receipts.MaxRisks)
	}
	r.risks++
	return r.note(receipts.RiskDetected, &receipts.Risk{V: receipts.DocumentVersion, Code: code, Detail: receipts.Bytes(detail)})
}

func (r *Recorder) note(kind receipts.Kind, v any) error {
	payload, err := receipts.Encode(v)
	if err != nil {
		return err
	}
	return r.append(kind, receipts.Clean, payload)
}

func (r *Recorder) append(kind receipts.Kind, redaction receipts.Redaction, payload []byte) error {
	now := uint64(r.now().UnixMilli())
	// The wall clock may step back; a log whose time runs backwards tells nothing.
	now = max(now, r.seal.End)
	raw, err := r.log.Append(&receipts.Frame{
		Actor: receipts.Kernel, Kind: kind, Visibility: receipts.Internal, Redaction: redaction,
		Seq: r.log.Frames(), Time: now,
		HasTask: true, Task: r.seal.Task, HasJob: true, Job: r.seal.Job,
		Payload: payload,
	})
	if err != nil {
		return err
	}
	r.digest.Write(raw)
	r.tree.Append(raw)
	r.seal.End = now
	return nil
}

// A Statement is what a seal says beyond what the log shows.
type Statement struct {
	Outcome       string
	Why           string // for the terminal frame; may be empty
	Plan, Config  receipts.Digest
	Attempt       int // 0 is 1
	Shard, Shards int
	Previous      receipts.Digest
	Reproduces    receipts.Digest
	Withheld      []receipts.Withheld
	// Sign makes the seal.sig member from the seal's text; nil: there is none.
	Sign func(text []byte) ([]byte, error)
}

var outcomes = map[receipts.Kind]string{
	receipts.TaskCompleted: OutcomeCompleted, receipts.TaskFailed: OutcomeFailed, receipts.TaskKilled: OutcomeKilled,
}

var errEnded = errors.New("run: has ended")

// Seal ends the run and writes its bundle to path, which check reads before it
// gets that name. It returns the seal's text.
func (r *Recorder) Seal(path string, s Statement, check func(*Reader) error) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != "" {
		return nil, errEnded
	}
	kind := receipts.TaskKilled
	for k, outcome := range outcomes {
		if outcome == s.Outcome {
			kind = k
		}
	}
	r.ended = outcomes[kind]
	s.Outcome = r.ended
	closing := receipts.Closing{
		V: receipts.DocumentVersion, Frames: r.log.Frames() + 1, Receipts: r.chain.Count(), Head: r.chain.Head(),
		Withheld: s.Withheld, Resealed: r.seal.Resealed, Why: receipts.Bytes(s.Why),
	}
	if err := r.note(kind, &closing); err != nil {
		return nil, err
	}
	if err := r.file.Sync(); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return r.write(path, s, check)
}

func (r *Recorder) write(path string, s Statement, check func(*Reader) error) ([]byte, error) {
	seal := r.seal
	seal.Frames, seal.Root, seal.Receipts, seal.Head = r.tree.Size(), r.tree.Root(), r.chain.Count(), r.chain.Head()
	r.digest.Sum(seal.Log[:0])
	seal.Outcome, seal.Plan, seal.Config = s.Outcome, s.Plan, s.Config
	seal.Shard, seal.Shards, seal.Previous, seal.Reproduces = s.Shard, s.Shards, s.Previous, s.Reproduces
	seal.Attempt = max(s.Attempt, 1)
	seal.HasMAC, seal.HasSig = true, s.Sign != nil
	text, err := seal.Text()
	if err != nil {
		return nil, err
	}
	mac, err := r.auth.Seal.MAC(text)
	if err != nil {
		return nil, fmt.Errorf("seal.mac: %w", err)
	}
	m := Members{Seal: text, MAC: macLine(mac), Open: r.spool.Open}
	if s.Sign != nil {
		if m.Sig, err = s.Sign(text); err != nil {
			return nil, fmt.Errorf("seal.sig: %w", err)
		}
	}
	if m.Blobs, err = r.named(); err != nil {
		return nil, err
	}
	m.Log = func() (io.ReadCloser, int64, error) {
		f, err := os.Open(r.file.Name())
		if err != nil {
			return nil, 0, err
		}
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, 0, err
		}
		return f, info.Size(), nil
	}
	if err := WriteFile(path, m, check); err != nil {
		return nil, err
	}
	return text, nil
}

// named returns the blobs that the log names and the spool holds. A call that
// did not complete leaves args that a started frame names.
func (r *Recorder) named() ([]receipts.Digest, error) {
	f, err := os.Open(r.file.Name())
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	defer f.Close()
	run, err := receipts.ReadRun(f, nil)
	if err != nil {
		return nil, err
	}
	names := Named(run)
	have, err := r.spool.Blobs()
	if err != nil {
		return nil, err
	}
	var list []receipts.Digest
	for _, d := range have {
		if names[d] {
			list = append(list, d)
		}
	}
	return list, nil
}

// Named returns the digests of the blobs that a run's log names: the patch
// document, the args of every call, and what the receipts name, without what
// the terminal frame withholds.
func Named(run *receipts.Run) map[receipts.Digest]bool {
	names := map[receipts.Digest]bool{run.Opening.Patch: true}
	for i := range run.Calls {
		names[run.Calls[i].Args] = true
	}
	for i := range run.Receipts {
		r := &run.Receipts[i]
		names[r.Result] = true
		for _, d := range r.Artifacts {
			names[d] = true
		}
	}
	if run.Closing != nil {
		for _, w := range run.Closing.Withheld {
			delete(names, w.Digest)
		}
	}
	return names
}

// Close releases the log. It does not end the run.
func (r *Recorder) Close() error { return r.file.Close() }
