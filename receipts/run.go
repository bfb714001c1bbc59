package receipts

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// Opening is the payload of the first frame of a run, a TaskCreated.
type Opening struct {
	V     int    `json:"v"`
	Salt  Digest `json:"salt"`  // 32 random bytes
	Patch Digest `json:"patch"` // of the patch document
}

// Start is the payload of a ToolCallStarted frame.
type Start struct {
	V    int    `json:"v"`
	Call uint64 `json:"call"` // 1 for the first of a run
	Tool string `json:"tool"`
	Args Digest `json:"args"`
}

// Risk is the payload of a RiskDetected frame: something that a reader of the
// evidence should know and that no call's result says.
type Risk struct {
	V      int    `json:"v"`
	Code   string `json:"code"`
	Detail Bytes  `json:"detail"`
}

// Closing is the payload of the last frame of a run: a TaskCompleted, TaskFailed
// or TaskKilled.
type Closing struct {
	V        int        `json:"v"`
	Frames   uint64     `json:"frames"` // this one included
	Receipts uint64     `json:"receipts"`
	Head     Digest     `json:"head"` // chain hash of the last receipt
	Withheld []Withheld `json:"withheld,omitempty"`
	Resealed bool       `json:"resealed,omitempty"` // closed by a later process, after a crash
	Why      Bytes      `json:"why,omitempty"`
}

// Withheld names a blob that a receipt names and the bundle does not hold.
type Withheld struct {
	Digest Digest `json:"sha256"`
	Why    Bytes  `json:"why"`
}

// A RunBreak says in which way an intact log is not the log of a run.
type RunBreak string

// The ways in which a log is not the log of a run.
const (
	NoOpening       RunBreak = "NoOpening"       // the first frame is not a TaskCreated with an Opening
	ForeignFrame    RunBreak = "ForeignFrame"    // task, job, sequence number, actor or kind are not the run's
	MalformedRecord RunBreak = "MalformedRecord" // a payload does not parse
	CallOutOfOrder  RunBreak = "CallOutOfOrder"  // calls do not count 1, 2, 3 …
	AfterEnd        RunBreak = "AfterEnd"        // a frame follows the terminal one
	CountMismatch   RunBreak = "CountMismatch"   // the terminal frame states other counts or another head
)

// A RunError says at which frame, counted from 0, a log stops being a run's.
type RunError struct {
	Frame  uint64
	Reason RunBreak
	Err    error // may be nil
}

func (e *RunError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("run: frame %d: %s: %v", e.Frame, e.Reason, e.Err)
	}
	return fmt.Sprintf("run: frame %d: %s", e.Frame, e.Reason)
}

func (e *RunError) Unwrap() error { return e.Err }

const (
	// MaxCalls is how many calls one run can have.
	MaxCalls = 1 << 15
	// MaxRisks is how many risks one run can have.
	MaxRisks = 1 << 12
)

// A Call is one tool call of a run.
type Call struct {
	Start
	Seq       uint64 // of its ToolCallStarted frame
	Time      uint64
	Receipt   int // index in Run.Receipts, or -1 where it did not complete
	Completed uint64
}

// A Run is what the log of one run says. The zero Run says nothing.
type Run struct {
	Task, Job ID
	Opening   Opening
	Began     uint64 // time of the first frame
	Ended     uint64 // time of the last frame
	Calls     []Call
	Receipts  []Receipt
	Risks     []Risk
	Closing   *Closing // nil: the log has no end
	Outcome   Kind     // of the terminal frame
	Frames    uint64
	Root      Digest // RFC 6962 root over the frames
	Log       Digest // SHA-256 of the log's bytes
	MACs      bool   // the receipts' MACs were checked

	index joinIndex
}

// ReadRun reads the log of a run and checks everything that it says about
// itself: the frames' chain, the receipts' chain, that calls start and complete
// once, that an end is stated truly. Where key is not nil, it is asked for the
// receipt key of the run; with a key the MACs are checked, with the zero Key the
// links between receipts alone.
//
// The error is a [*LogError], [*ReceiptError], [*RunError] or what
// r or key returned; with the first three the Run holds what verified before.
func ReadRun(r io.Reader, key func(salt Digest, task, job ID) (Key, error)) (*Run, error) {
	hash := sha256.New()
	log := NewLogReader(io.TeeReader(r, hash), MaxPayload)
	run := &Run{index: newJoinIndex()}
	reader := runReader{Run: run, key: key, links: NewLinkVerifier()}
	var tree Tree
	var err error
	for {
		var f *Frame
		if f, err = log.Next(); err != nil {
			break
		}
		tree.Append(log.Raw())
		if err = reader.frame(f); err != nil {
			break
		}
		run.Frames++
		run.Ended = f.Time
	}
	if err == io.EOF {
		err = nil
		if run.Frames == 0 {
			err = &RunError{0, NoOpening, nil}
		}
	}
	if err == nil {
		run.Root = tree.Root()
		hash.Sum(run.Log[:0])
	}
	return run, err
}

// Join checks the run's receipts against its frames and its blobs: see
// [JoinStrict].
func (r *Run) Join(blobs Blobs) error { return r.JoinEach(blobs, nil) }

// JoinEach is [Run.Join], and hands over the documents of each receipt, in order,
// once they are found to be right. Nothing counts before it returns nil.
func (r *Run) JoinEach(blobs Blobs, each func(receipt int, args *Args, result *Result)) error {
	return r.index.strict(r.Receipts, blobs, each)
}

// A runReader applies the frames of a log to a Run.
type runReader struct {
	*Run
	key   func(salt Digest, task, job ID) (Key, error)
	links *ChainVerifier
}

func (r *runReader) frame(f *Frame) error {
	fail := func(reason RunBreak, err error) error { return &RunError{r.Frames, reason, err} }
	if r.Frames == 0 {
		return r.open(f, fail)
	}
	if r.Closing != nil {
		return fail(AfterEnd, nil)
	}
	if !f.HasTask || !f.HasJob || f.Task != r.Task || f.Job != r.Job || f.Seq != r.Frames || f.Actor != Kernel || f.Visibility != Internal ||
		f.Redaction != Clean && f.Kind != ToolCallCompleted {
		return fail(ForeignFrame, nil)
	}
	var err error
	switch {
	case f.Kind == ToolCallStarted:
		var s Start
		if err = decodeNote(f.Payload, &s, &s.V); err != nil {
			return fail(MalformedRecord, err)
		}
		if s.Call != uint64(len(r.Calls))+1 || s.Call > MaxCalls {
			return fail(CallOutOfOrder, nil)
		}
		r.Calls = append(r.Calls, Call{Start: s, Seq: f.Seq, Time: f.Time, Receipt: -1})
	case f.Kind == ToolCallCompleted:
		if err = r.receipt(f, fail); err != nil {
			return err
		}
	case f.Kind == RiskDetected:
		var risk Risk
		if err = decodeNote(f.Payload, &risk, &risk.V); err != nil {
			return fail(MalformedRecord, err)
		}
		if len(r.Risks) == MaxRisks {
			return fail(MalformedRecord, fmt.Errorf("more than %d risks", MaxRisks))
		}
		r.Risks = append(r.Risks, risk)
	case f.Kind.Terminal():
		var c Closing
		if err = decodeNote(f.Payload, &c, &c.V); err != nil {
			return fail(MalformedRecord, err)
		}
		if c.Frames != r.Frames+1 || c.Receipts != r.links.Count() || c.Head != r.links.Head() {
			return fail(CountMismatch, nil)
		}
		r.Closing, r.Outcome = &c, f.Kind
	default:
		return fail(ForeignFrame, nil)
	}
	r.index.observe(f)
	return nil
}

func (r *runReader) open(f *Frame, fail func(RunBreak, error) error) error {
	var o Opening
	if f.Kind != TaskCreated || !f.HasTask || !f.HasJob || f.Seq != 0 || f.Actor != Kernel || f.Visibility != Internal || f.Redaction != Clean {
		return fail(NoOpening, nil)
	}
	if err := decodeNote(f.Payload, &o, &o.V); err != nil {
		return fail(NoOpening, err)
	}
	if o.Salt.IsZero() {
		return fail(NoOpening, errors.New("no salt"))
	}
	r.Task, r.Job, r.Opening, r.Began = f.Task, f.Job, o, f.Time
	if r.key != nil {
		key, err := r.key(o.Salt, f.Task, f.Job)
		if err != nil {
			return err
		}
		if key.state != nil {
			r.MACs = true
			r.links, _ = NewChainVerifier(key)
		}
	}
	r.index.observe(f)
	return nil
}

func (r *runReader) receipt(f *Frame, fail func(RunBreak, error) error) error {
	receipt, err := ParseRecord(f.Payload)
	if err != nil {
		return fail(MalformedRecord, err)
	}
	if err := r.links.Next(&receipt); err != nil {
		return err
	}
	n, ok := receipt.Call.Uint64()
	if !ok || n == 0 || n > uint64(len(r.Calls)) || r.Calls[n-1].Receipt >= 0 {
		return fail(CallOutOfOrder, nil)
	}
	r.Calls[n-1].Receipt, r.Calls[n-1].Completed = len(r.Receipts), f.Time
	r.Receipts = append(r.Receipts, receipt)
	return nil
}

// decodeNote reads the canonical payload of a frame into v, which is zero after
// an error. version is v's.
func decodeNote[T any](payload []byte, v *T, version *int) error {
	if err := Decode(payload, v); err != nil {
		return err
	}
	if n := *version; n != DocumentVersion {
		*v = *new(T)
		return fmt.Errorf("%w %d", errVersion, n)
	}
	return nil
}
