package receipts

import (
	"errors"
	"fmt"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

const (
	// DocumentVersion is the "v" of every document and note.
	DocumentVersion = 1
	// MaxDocument is the largest size of a document in bytes. The evidence
	// document, which is read as a stream, is not bound by it.
	MaxDocument = 1 << 20
)

// Bytes is a string of any bytes: a JSON string where it is UTF-8, and
// {"b64":"…"} where it is not, and only there.
type Bytes = strictjson.Bytes

// The tools whose calls a run consists of.
const (
	ToolMaterialise = "materialise" // trees and diff out of Git objects
	ToolPlan        = "plan"        // configuration and plan
	ToolReceipt     = "receipt"     // receipts of other tools that the configuration asks for
	ToolPrepare     = "prepare"     // dependencies; the network may be allowed
	ToolImport      = "import"      // the bundle of an earlier run, whose result stands for one on the base
	ToolTest        = "test"        // one test command on one tree
	ToolJudge       = "judge"       // evidence out of what the tests put out
)

// Args is the document that says what a call was asked to do. Its digest is the
// receipt's args_hash.
type Args struct {
	V       int      `json:"v"`
	Tool    string   `json:"tool"`
	Name    string   `json:"name,omitempty"`    // of the plan's entry
	Side    string   `json:"side,omitempty"`    // "base", "head", or one of the two mixed trees, "hybrid" and "restored"
	Round   int      `json:"round,omitempty"`   // counts the runs of an entry on a side, from 1
	Purpose string   `json:"purpose,omitempty"` // of a run that is not the plain command
	Package Bytes    `json:"package,omitempty"` // the only Go package that the run is about
	Format  string   `json:"format,omitempty"`  // of what the command puts out
	Argv    []Bytes  `json:"argv"`
	Dir     Bytes    `json:"dir"`
	Env     []Bytes  `json:"env"`              // the complete environment, NAME=value, sorted
	Patch   Digest   `json:"patch"`            // of the patch document
	Tree    *Digest  `json:"tree,omitempty"`   // tree hash in Git's SHA-256 object format
	Inputs  []File   `json:"inputs,omitempty"` // beside the tree: what was laid over it, or built before
	Sandbox *Sandbox `json:"sandbox,omitempty"`
}

// Sandbox is the isolation that a call was to have.
type Sandbox struct {
	MinLevel int      `json:"min_level"`
	Network  string   `json:"network"`           // "none" or "host"
	Connect  []string `json:"connect,omitempty"` // with network none: loopback ports of the host, "127.0.0.1:5432"
	Mounts   []Bytes  `json:"mounts"`            // "KIND TARGET", in mount order
	Wall     int64    `json:"wall_s"`
	Pids     int64    `json:"pids"`
	Memory   int64    `json:"memory_bytes"`
	CPU      int64    `json:"cpu_milli,omitempty"` // thousandths of a processor, all processes together; 0 is no limit
	Output   int64    `json:"output_bytes"`        // of each stream
	Disk     int64    `json:"disk_bytes"`
	Inodes   int64    `json:"inodes"`
	Files    int64    `json:"files"`
	FileSize int64    `json:"file_bytes"`
}

// The states in which a call ends.
const (
	StateExited   = "exited"          // the command ended with an exit code
	StateSignaled = "signaled"        // a signal ended the command
	StateTimeout  = "timeout"         // the wall-clock limit ended the command
	StateCanceled = "canceled"        // the run was interrupted
	StateNotFound = "could-not-start" // there is no such command, or it cannot be executed
	StateNotRun   = "not-run"         // deliberately left out; Why says the reason
	StateFailed   = "failed"          // truegreen itself could not do it; Why says the reason
)

// Result is the document that says what a call came to. Its digest is the
// receipt's result_hash. The receipt's artifacts are [Result.Artifacts].
type Result struct {
	V         int        `json:"v"`
	State     string     `json:"state"`
	Exit      int        `json:"exit"`
	Signal    string     `json:"signal,omitempty"`
	Why       Bytes      `json:"why,omitempty"`
	Start     int64      `json:"start_ms"` // since the Unix epoch
	End       int64      `json:"end_ms"`
	CPU       int64      `json:"cpu_ms,omitempty"`
	Memory    int64      `json:"peak_memory_bytes,omitempty"`
	Stdout    Stream     `json:"stdout"`
	Stderr    Stream     `json:"stderr"`
	Files     []File     `json:"files"`
	Notes     []Note     `json:"notes,omitempty"`
	Isolation *Isolation `json:"isolation,omitempty"`
	Redacted  int        `json:"redactions"`
}

// Stream is what a call wrote to one of its outputs. Kept bytes are in the blob
// that Digest names; Bytes were written. Where Kept is less, the rest was
// counted and dropped.
type Stream struct {
	Digest  Digest   `json:"sha256"`
	Bytes   int64    `json:"bytes"`
	Kept    int64    `json:"kept"`
	Covered *Covered `json:"covered,omitempty"`
}

// MaxSpans is how many spans a [Covered] lists.
const MaxSpans = 16

// Covered says where there are asterisks in place of as many bytes of secrets. They
// were put there before anything was kept, so the blob is what was recorded.
type Covered struct {
	Rules Digest `json:"rules"` // of the set of rules that looked for secrets
	Count int64  `json:"count"` // of secrets
	Spans []Span `json:"spans"` // the first of them, at most MaxSpans
}

// Span is a place in a blob with what was a secret.
type Span struct {
	At    int64  `json:"at"` // offset of its first byte
	Bytes int64  `json:"bytes"`
	Rule  string `json:"rule"`
}

// valid reports whether c can be of a blob of size bytes.
func (c *Covered) valid(size int64) bool {
	if c == nil {
		return true
	}
	if c.Count < 1 || c.Count > size || int64(len(c.Spans)) != min(c.Count, MaxSpans) {
		return false
	}
	at := int64(0)
	for _, s := range c.Spans {
		if s.At < at || s.Bytes < 1 || s.Bytes > size-s.At || s.Rule == "" {
			return false
		}
		at = s.At + s.Bytes
	}
	return true
}

// File is a blob that a call made under a name that the tool defines.
type File struct {
	Name    Bytes    `json:"name"`
	Digest  Digest   `json:"sha256"`
	Size    int64    `json:"size"`
	Covered *Covered `json:"covered,omitempty"` // of what a call made, never of what it was given
}

// Note is a fact that a call found, such as the number of gitlinks in a tree.
type Note struct {
	Name  string `json:"name"`
	Value Bytes  `json:"value"`
}

// Isolation is what the sandbox measured from inside, not what it intended.
type Isolation struct {
	Level       int        `json:"level"`
	Mode        string     `json:"mode"`
	Via         string     `json:"via,omitempty"`          // what made the walls, where another program did: "sudo", or an engine and its version
	Image       string     `json:"image,omitempty"`        // of a container: config digest, sha256:…
	ImageDigest string     `json:"image_digest,omitempty"` // name by repository digest, where the image has one
	Network     string     `json:"network"`
	Connect     []string   `json:"connect,omitempty"` // loopback ports of the host that were relayed
	UID         int64      `json:"uid"`
	Namespaces  []string   `json:"namespaces"`
	NoNewPrivs  bool       `json:"no_new_privs"`
	CapsEmpty   bool       `json:"caps_empty"`
	Seccomp     bool       `json:"seccomp"`
	LandlockABI int        `json:"landlock_abi"`
	Kill        string     `json:"kill"`
	Probes      []Probe    `json:"probes"`
	Limits      []Limit    `json:"limits"`
	Fallbacks   []Fallback `json:"fallbacks,omitempty"`
}

// Probe is an attempt from inside and what came of it.
type Probe struct {
	Name string `json:"name"`
	Got  string `json:"got"` // "ok" or the name of an errno
	OK   bool   `json:"ok"`  // what had to be got was got
}

// Limit is a limit in force: who enforces it, the value read back, the highest
// use seen where that is known, and whether it was reached.
type Limit struct {
	Name  string `json:"name"`
	By    string `json:"by"`
	Value int64  `json:"value"`
	Peak  int64  `json:"peak,omitempty"`
	Hit   bool   `json:"hit,omitempty"`
}

// Fallback is a stronger mode that was tried before the one used.
type Fallback struct {
	Mode string `json:"mode"`
	Why  string `json:"why"`
}

// Artifacts returns the digests that the receipt of a call with this result
// names: of stdout, of stderr, and of the files in order, without the streams
// of which nothing was kept.
func (r *Result) Artifacts() []Digest {
	var list []Digest
	for _, s := range [...]*Stream{&r.Stdout, &r.Stderr} {
		if s.Kept > 0 {
			list = append(list, s.Digest)
		}
	}
	for i := range r.Files {
		list = append(list, r.Files[i].Digest)
	}
	return list
}

var errVersion = errors.New("unknown version")

// Encode returns the canonical encoding of a document and checks its size.
func Encode(document any) ([]byte, error) {
	b, err := strictjson.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("document: %w", err)
	}
	if len(b) > MaxDocument {
		return nil, fmt.Errorf("document: %d bytes: the limit is %d", len(b), MaxDocument)
	}
	return b, nil
}

// Decode reads the canonical encoding of a document into v, a pointer, which is
// zero after an error.
func Decode(data []byte, v any) error {
	if err := strictjson.Unmarshal(data, v, strictjson.Limits{Size: MaxDocument}); err != nil {
		return fmt.Errorf("document: %w", err)
	}
	return nil
}

// ParseArgs reads an args document.
func ParseArgs(data []byte) (Args, error) {
	var a Args
	if err := Decode(data, &a); err != nil {
		return Args{}, fmt.Errorf("args %w", err)
	}
	if a.V != DocumentVersion {
		return Args{}, fmt.Errorf("args document: %w %d", errVersion, a.V)
	}
	for i := range a.Inputs {
		if a.Inputs[i].Covered != nil {
			return Args{}, fmt.Errorf("args document: input %d: covered", i)
		}
	}
	return a, nil
}

// covered reports what r cannot say about secrets.
func (r *Result) covered() error {
	outputs := 0
	for _, s := range [...]*Stream{&r.Stdout, &r.Stderr} {
		if !s.Covered.valid(s.Kept) {
			return errors.New("result document: stream: covered: not of these bytes")
		}
		if s.Covered != nil {
			outputs++
		}
	}
	for i := range r.Files {
		if !r.Files[i].Covered.valid(r.Files[i].Size) {
			return fmt.Errorf("result document: file %d: covered: not of these bytes", i)
		}
		if r.Files[i].Covered != nil {
			outputs++
		}
	}
	if r.Redacted < outputs {
		return fmt.Errorf("result document: redactions: %d, and %d outputs are covered", r.Redacted, outputs)
	}
	return nil
}

// ParseResult reads a result document.
func ParseResult(data []byte) (Result, error) {
	var r Result
	if err := Decode(data, &r); err != nil {
		return Result{}, fmt.Errorf("result %w", err)
	}
	if r.V != DocumentVersion {
		return Result{}, fmt.Errorf("result document: %w %d", errVersion, r.V)
	}
	if err := r.covered(); err != nil {
		return Result{}, err
	}
	for _, s := range [...]Stream{r.Stdout, r.Stderr} {
		if s.Kept < 0 || s.Kept > s.Bytes || (s.Kept == 0) != (s.Digest == Digest{}) {
			return Result{}, errors.New("result document: stream: lengths and digest contradict each other")
		}
	}
	switch r.State {
	case StateExited, StateSignaled, StateTimeout, StateCanceled, StateNotFound, StateNotRun, StateFailed:
	default:
		return Result{}, fmt.Errorf("result document: state %q: unknown", r.State)
	}
	if (r.State == StateSignaled) != (r.Signal != "") || r.State != StateExited && r.Exit != 0 {
		return Result{}, fmt.Errorf("result document: state %q: exit code and signal contradict it", r.State)
	}
	return r, nil
}
