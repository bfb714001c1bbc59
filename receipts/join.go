package receipts

import (
	"fmt"
	"iter"
)

// A JoinBreak says why receipts and log do not describe the same calls.
type JoinBreak string

// The breaks of a join, in the order in which they are checked for a receipt.
// The first four are CrustCore's, and all that [Join] knows.
const (
	NoFrameAtSeq       JoinBreak = "NoFrameAtSeq"
	NotAToolCompletion JoinBreak = "NotAToolCompletion"
	TaskMismatch       JoinBreak = "TaskMismatch"
	JobMismatch        JoinBreak = "JobMismatch"

	FrameTaken        JoinBreak = "FrameTaken"        // an earlier receipt names the same frame, or a later one
	PayloadMismatch   JoinBreak = "PayloadMismatch"   // the frame's payload is not the receipt's record
	NotStarted        JoinBreak = "NotStarted"        // no ToolCallStarted frame before it has this call, tool and args, or the call has a receipt
	ArgsMissing       JoinBreak = "ArgsMissing"       // there is no such document
	ArgsMismatch      JoinBreak = "ArgsMismatch"      // the document says something else than receipt and frames
	ResultMissing     JoinBreak = "ResultMissing"     // there is no such document
	ResultMismatch    JoinBreak = "ResultMismatch"    // the document names other artifacts than the receipt, or redactions that the frame does not
	ArtifactMissing   JoinBreak = "ArtifactMissing"   // a blob is neither there nor withheld
	FrameWithoutProof JoinBreak = "FrameWithoutProof" // a completion frame has no receipt
)

// A JoinError says at which receipt, counted from 0, a join fails and why.
// For FrameWithoutProof Index counts the completion frames instead.
type JoinError struct {
	Index  uint64
	Reason JoinBreak
	Err    error // may be nil
}

func (e *JoinError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("join: receipt %d: %s: %v", e.Index, e.Reason, e.Err)
	}
	return fmt.Sprintf("join: receipt %d: %s", e.Index, e.Reason)
}

func (e *JoinError) Unwrap() error { return e.Err }

// A FrameRef is what [Join] needs to know of a frame.
type FrameRef struct {
	Seq           uint64
	ToolCompleted bool
	HasTask       bool
	Task          ID
	HasJob        bool
	Job           ID
}

// Ref returns the FrameRef of f.
func (f *Frame) Ref() FrameRef {
	return FrameRef{f.Seq, f.Kind == ToolCallCompleted, f.HasTask, f.Task, f.HasJob, f.Job}
}

// Join is CrustCore's join: each receipt names a ToolCallCompleted frame of its
// own task and job. Of frames with one sequence number the first counts. It does
// not look at what frames and receipts hold; use [JoinStrict]. A failure is a
// [*JoinError].
func Join(receipts []Receipt, frames []FrameRef) error {
	bySeq := make(map[uint64]FrameRef, len(frames))
	for _, f := range frames {
		if _, taken := bySeq[f.Seq]; !taken {
			bySeq[f.Seq] = f
		}
	}
	for i := range receipts {
		f, ok := bySeq[receipts[i].EventSeq]
		if reason := joinFrame(&receipts[i], f, ok); reason != "" {
			return &JoinError{uint64(i), reason, nil}
		}
	}
	return nil
}

func joinFrame(r *Receipt, f FrameRef, found bool) JoinBreak {
	switch {
	case !found:
		return NoFrameAtSeq
	case !f.ToolCompleted:
		return NotAToolCompletion
	case !f.HasTask || f.Task != r.Task:
		return TaskMismatch
	case !f.HasJob || f.Job != r.Job:
		return JobMismatch
	}
	return ""
}

// Blobs are the blobs that come with a log. Whoever implements it has checked,
// or checks while reading, that the bytes have the digest.
type Blobs interface {
	// Document returns the bytes of a blob of at most MaxDocument bytes.
	Document(d Digest) ([]byte, error)
	// Has reports whether there is such a blob.
	Has(d Digest) bool
}

// ParsedBlobs are Blobs some of whose documents were parsed on the way.
type ParsedBlobs interface {
	Blobs
	// Args returns what [ParseArgs] makes of a blob, nil where nobody has parsed it
	// or it is none.
	Args(d Digest) *Args
	// Result is the same for [ParseResult].
	Result(d Digest) *Result
}

// JoinStrict checks that receipts and frames describe the same calls, each
// exactly once, and that what they name is there. Beyond [Join], for every
// receipt: its frame comes after those of the receipts before; the frame's payload
// is the receipt's record; a ToolCallStarted frame before it has the same call,
// tool and args, and no receipt before it has that call; the args document is there and names the tool; the result document is there,
// its artifacts are the receipt's, and the frame is Redacted exactly where it has
// redactions; every artifact is there, or withheld by the
// terminal frame. And every completion frame has a receipt. The frames must be
// verified; see [LogReader]. A failure is a [*JoinError].
func JoinStrict(receipts []Receipt, frames iter.Seq2[*Frame, error], blobs Blobs) error {
	index := newJoinIndex()
	for f, err := range frames {
		if err != nil {
			return err
		}
		index.observe(f)
	}
	return index.strict(receipts, blobs, nil)
}

// All returns an iterator over the rest of the log; an error ends it, io.EOF
// does silently.
func (l *LogReader) All() iter.Seq2[*Frame, error] {
	return func(yield func(*Frame, error) bool) {
		for {
			f, err := l.Next()
			if err != nil {
				if l.whole() {
					return
				}
				yield(nil, err)
				return
			}
			if !yield(f, nil) {
				return
			}
		}
	}
}

// A joinIndex holds what a join needs of the frames of one log.
type joinIndex struct {
	frames      map[uint64]FrameRef // not the completions of a truegreen log alone: a receipt may name any
	payloads    map[uint64]Digest   // of completion frames
	redacted    map[uint64]bool     // of them, those whose call had something taken out
	starts      map[ID]start
	withheld    map[Digest]bool
	completions uint64
}

type start struct {
	seq  uint64
	tool string
	args Digest
}

func newJoinIndex() joinIndex {
	return joinIndex{map[uint64]FrameRef{}, map[uint64]Digest{}, map[uint64]bool{}, map[ID]start{}, map[Digest]bool{}, 0}
}

func (x *joinIndex) observe(f *Frame) {
	if _, taken := x.frames[f.Seq]; !taken {
		x.frames[f.Seq] = f.Ref()
	}
	switch {
	case f.Kind == ToolCallCompleted:
		x.completions++
		x.payloads[f.Seq] = f.PayloadHash
		if f.Redaction == Redacted {
			x.redacted[f.Seq] = true
		}
	case f.Kind == ToolCallStarted:
		var s Start
		if decodeNote(f.Payload, &s, &s.V) == nil {
			id := CallID(s.Call)
			if _, taken := x.starts[id]; !taken {
				x.starts[id] = start{f.Seq, s.Tool, s.Args}
			}
		}
	case f.Kind.Terminal():
		var c Closing
		if decodeNote(f.Payload, &c, &c.V) == nil {
			for _, w := range c.Withheld {
				x.withheld[w.Digest] = true
			}
		}
	}
}

func (x *joinIndex) strict(receipts []Receipt, blobs Blobs, each func(receipt int, args *Args, result *Result)) error {
	done := make(map[ID]bool, len(receipts)) // calls that have a receipt
	var record []byte
	for i := range receipts {
		r := &receipts[i]
		fail := func(reason JoinBreak, err error) error { return &JoinError{uint64(i), reason, err} }
		f, ok := x.frames[r.EventSeq]
		if reason := joinFrame(r, f, ok); reason != "" {
			return fail(reason, nil)
		}
		if i > 0 && r.EventSeq <= receipts[i-1].EventSeq {
			return fail(FrameTaken, nil)
		}
		record = r.AppendRecord(record[:0])
		if Sum(record) != x.payloads[r.EventSeq] {
			return fail(PayloadMismatch, nil)
		}
		s, ok := x.starts[r.Call]
		if !ok || done[r.Call] || s.seq >= r.EventSeq || s.args != r.Args || Sum([]byte(s.tool)) != r.ToolName {
			return fail(NotStarted, nil)
		}
		done[r.Call] = true
		args, result, reason, err := x.documents(r, s.tool, blobs)
		if reason != "" {
			return fail(reason, err)
		}
		if each != nil {
			each(i, args, result)
		}
	}
	if n := uint64(len(receipts)); n != x.completions {
		return &JoinError{n, FrameWithoutProof, nil}
	}
	return nil
}

// documents reads the documents that r names and checks them.
func (x *joinIndex) documents(r *Receipt, tool string, blobs Blobs) (*Args, *Result, JoinBreak, error) {
	args, result := (*Args)(nil), (*Result)(nil)
	if parsed, ok := blobs.(ParsedBlobs); ok {
		args, result = parsed.Args(r.Args), parsed.Result(r.Result)
	}
	if args == nil {
		raw, err := blobs.Document(r.Args)
		if err != nil {
			return nil, nil, ArgsMissing, err
		}
		a, err := ParseArgs(raw)
		if err != nil {
			return nil, nil, ArgsMismatch, err
		}
		args = &a
	}
	if args.Tool != tool {
		return nil, nil, ArgsMismatch, fmt.Errorf("tool %q in the document, %q in the log", args.Tool, tool)
	}
	if result == nil {
		raw, err := blobs.Document(r.Result)
		if err != nil {
			return nil, nil, ResultMissing, err
		}
		a, err := ParseResult(raw)
		if err != nil {
			return nil, nil, ResultMismatch, err
		}
		result = &a
	}
	if x.redacted[r.EventSeq] != (result.Redacted > 0) {
		return nil, nil, ResultMismatch, fmt.Errorf("%d redactions in the document, and the frame says something else", result.Redacted)
	}
	named := result.Artifacts()
	if len(named) != len(r.Artifacts) {
		return nil, nil, ResultMismatch, fmt.Errorf("%d artifacts in the document, %d in the receipt", len(named), len(r.Artifacts))
	}
	for i, d := range named {
		if d != r.Artifacts[i] {
			return nil, nil, ResultMismatch, fmt.Errorf("artifact %d differs", i)
		}
		if !blobs.Has(d) && !x.withheld[d] {
			return nil, nil, ArtifactMissing, fmt.Errorf("blob %s", d)
		}
	}
	return args, result, "", nil
}
