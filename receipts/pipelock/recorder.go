package pipelock

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

// The types of a recorder's entries.
const (
	ActionReceipt   = "action_receipt"
	EvidenceReceipt = "evidence_receipt"
	Checkpoint      = "checkpoint"
	TranscriptRoot  = "transcript_root"
)

// entryTypes are those that say something to a verifier (true) and those that do not.
var entryTypes = map[string]bool{
	ActionReceipt: true, EvidenceReceipt: true, Checkpoint: true, TranscriptRoot: true,
	"decision": false, "capture": false, "capture_drop": false,
}

// An Entry is a line of a flight recorder.
type Entry struct {
	Version  int64
	Seq      int64
	Session  string
	Type     string
	Detail   []byte // JSON: of a receipt, its text
	PrevHash string
	Hash     string

	text [entryStrings]string
	time time.Time
}

const (
	eKind = iota
	eWriter
	eTrace
	eType
	eEvent
	eTransport
	eSummary
	eRaw
	ePrev
	eHash
	eTime
	eSession
	entryStrings
)

var entryNames = map[string]int{
	"chain_kind": eKind, "writer_instance_id": eWriter, "trace_id": eTrace, "type": eType, "event_kind": eEvent,
	"transport": eTransport, "summary": eSummary, "raw_ref": eRaw, "prev_hash": ePrev, "hash": eHash, "ts": eTime,
	"session_id": eSession,
}

// Entry reads a line of a flight recorder.
func (d *Decoder) Entry(line []byte) (*Entry, error) {
	d.c.Reset(line, strictjson.Limits{Size: MaxReceipt, Depth: maxDepth})
	d.fault = nil
	var e Entry
	text := &e.text
	numbers := map[string]*int64{"v": &e.Version, "seq": &e.Seq}
	if k := d.c.Kind(); k != '{' && k != 0 {
		d.wrong(0, codeMalformedJSON, "not an object")
		d.c.Skip()
	} else {
		d.c.Open()
	}
	for d.fault == nil || d.rank > 0 {
		name, ok := d.c.Member()
		if !ok {
			break
		}
		at, isString := entryNames[string(name)]
		number := numbers[string(name)]
		switch k := d.c.Kind(); {
		case isString && k == '"':
			text[at] = string(d.c.String())
		case number != nil && k == '0':
			n, err := strconv.ParseInt(string(d.c.Skip()), 10, 64)
			if err != nil || n < 0 || n > maxInteger {
				d.wrong(rankType, codeWrongType, "%s", name)
			}
			*number = n
			delete(numbers, string(name))
		case string(name) == "detail":
			e.Detail = d.c.Skip()
		case isString || number != nil:
			d.wrong(rankType, codeWrongType, "%s", name)
			d.c.Skip()
		default:
			d.wrong(rankUnknown, codeUnknownField, "%q", name)
			d.c.Skip()
		}
	}
	if err := d.c.End(); err != nil {
		return nil, structure(err)
	}
	t, err := parseTime([]byte(text[eTime]))
	if err != nil {
		d.wrong(rankType, codeWrongType, "ts: not a time of RFC 3339")
	}
	_, known := entryTypes[text[eType]]
	switch {
	case e.Version < 1 || e.Version > 3:
		d.wrong(rankVersion, codeUnsupportedVersion, "v %d", e.Version)
	case len(numbers) > 0 || e.Detail == nil || text[eHash] == "" || text[ePrev] == "" || text[eType] == "":
		d.wrong(rankRequired, codeMissingField, "want v, seq, ts, type, detail, prev_hash and hash")
	case e.Version == 3 != (text[eKind] != "") || e.Version == 3 != (text[eWriter] != ""):
		d.wrong(rankRequired, codeMissingField, "chain_kind and writer_instance_id are there from v 3 on")
	case !known:
		d.wrong(rankVersion, codeUnsupportedVersion, "type %.80q", text[eType])
	}
	if d.fault != nil {
		return nil, d.fault
	}
	e.Session, e.Type, e.PrevHash, e.Hash = text[eSession], text[eType], text[ePrev], text[eHash]
	e.time = t
	return &e, nil
}

// computed returns what e.Hash has to be: the hash of its members with a NUL between
// them. It is "" where a member has a NUL in it, so that the bytes might be another
// entry's.
func (e *Entry) computed() string {
	text, detail := &e.text, e.Detail
	if e.Version == 1 {
		// Version 1 hashes what encoding/json makes of the detail that it has read.
		var v any
		if json.Unmarshal(detail, &v) == nil {
			if again, err := json.Marshal(v); err == nil {
				detail = again
			}
		}
	}
	parts := []string{strconv.FormatInt(e.Version, 10), strconv.FormatInt(e.Seq, 10), e.time.UTC().Format(time.RFC3339Nano), text[eSession]}
	if e.Version == 3 {
		parts = append(parts, text[eKind], text[eWriter])
	}
	parts = append(parts, text[eTrace], text[eType])
	if e.Version > 1 {
		parts = append(parts, text[eEvent])
	}
	parts = append(parts, text[eTransport], text[eSummary], string(detail), text[eRaw], text[ePrev])
	for _, p := range parts {
		if strings.IndexByte(p, 0) >= 0 {
			return ""
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// space is what may not change in a recorder's file.
func (e *Entry) space() [3]string {
	return [...]string{strconv.FormatBool(e.Version == 3), e.text[eKind], e.text[eWriter]}
}

// ReceiptText returns the text of the receipt that e holds, which may be in a string.
func (e *Entry) ReceiptText() []byte {
	if len(e.Detail) == 0 || e.Detail[0] != '"' {
		return e.Detail
	}
	var c strictjson.Cursor
	c.Reset(e.Detail, strictjson.Limits{Size: MaxReceipt})
	return c.String()
}

// A Recorder holds entries to their order. Their hashes have no key: whoever changes an
// entry can compute them anew, up to the next checkpoint that is signed.
type Recorder struct {
	n    int64
	last Entry
}

// Add returns why e is not the next entry, an [*Error].
func (r *Recorder) Add(e *Entry) error {
	want := legacyGenesis
	if r.n > 0 {
		want = r.last.Hash
	}
	switch {
	case e.Seq != r.n:
		return wrong(codeRecorderOrder, "seq %d comes as number %d", e.Seq, r.n)
	case e.PrevHash != want:
		return wrong(codeRecorderOrder, "prev_hash is %q; want %s", e.PrevHash, want)
	case e.Hash != e.computed():
		return wrong(codeRecorderHash, "seq %d: hash is %q", e.Seq, e.Hash)
	case r.n > 0 && (e.Session != r.last.Session || e.space() != r.last.space()):
		return wrong(codeRecorderOrder, "seq %d is of another session or writer", e.Seq)
	}
	r.n++
	r.last = *e
	r.last.Detail = nil // the reader's
	return nil
}

// A Seal is what a checkpoint or a transcript_root says.
type Seal struct {
	Session   string
	FinalSeq  int64
	RootHash  string
	Count     int64
	First     int64
	Last      int64
	Signature string // of a checkpoint: 128 hexadecimal digits, or ""

	signed string
}

var checkpointDetail = sync.OnceValue(func() schema {
	return schema{
		always("entry_count", kUint, sCloseCount),
		always("first_seq", kUint, sBeatSeq),
		always("last_seq", kUint, sCloseSeq),
		maybe("signature", kString, sSignature),
	}
})

var rootDetail = sync.OnceValue(func() schema {
	return schema{
		always("session_id", kString, sSession),
		always("final_seq", kUint, sCloseSeq),
		always("root_hash", kString, sCloseRoot),
		always("receipt_count", kUint, sCloseCount),
		always("start_time", kTime, none),
		always("end_time", kTime, none),
	}
})

// Seal reads what e, a checkpoint or a transcript_root, says.
func (d *Decoder) Seal(e *Entry) (*Seal, error) {
	if e.Type == Checkpoint {
		if err := d.read(e.Detail, checkpointDetail()); err != nil {
			return nil, err
		}
		s := &Seal{Count: d.number[sCloseCount], First: d.number[sBeatSeq], Last: d.number[sCloseSeq], Signature: d.optional(sSignature), signed: e.PrevHash}
		if s.First > s.Last || s.Count != s.Last-s.First+1 || s.Last != e.Seq-1 {
			return nil, wrong(codeInvalidCheckpoint, "seq %d: %d entries from %d to %d", e.Seq, s.Count, s.First, s.Last)
		}
		return s, nil
	}
	if err := d.read(e.Detail, rootDetail()); err != nil {
		return nil, err
	}
	return &Seal{Session: d.text[sSession], FinalSeq: d.number[sCloseSeq], RootHash: d.text[sCloseRoot], Count: d.number[sCloseCount]}, nil
}

// Verify reports whether key signed a checkpoint: the text of the hash before it.
func (s *Seal) Verify(key ed25519.PublicKey) bool {
	sig, ok := parseSignature(signaturePrefix + s.Signature)
	return ok && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte(s.signed), sig[:])
}

// Check returns why a transcript_root is not one of the chain so far, an [*Error].
func (s *Seal) Check(c *Chain, e *Entry) error {
	switch {
	case s.Count > c.Len():
		return wrong(Truncated, "the transcript_root counts %d receipts; there are %d", s.Count, c.Len())
	case s.RootHash != c.Head() || s.FinalSeq != c.Seq() || s.Count != c.Len() && s.Count != c.SegmentLen() || s.Session != e.Session:
		return wrong(codeRootMismatch, "%d receipts to seq %d, %q; the chain has %d to %d, %s", s.Count, s.FinalSeq, s.RootHash, c.Len(), c.Seq(), c.Head())
	}
	return nil
}

// A Form is what a text is, as far as its first object's members tell.
type Form uint8

// The forms.
const (
	FormUnknown  Form = iota
	FormReceipt       // a receipt of version 1
	FormEvidence      // one of version 2
	FormEntry         // an entry of a recorder
)

// Recognize returns the form of a text. It does not say that the text is sound.
func (d *Decoder) Recognize(text []byte) Form {
	text = bytes.Trim(text, " \t\r\n")
	d.c.Reset(text, strictjson.Limits{Size: MaxReceipt, Depth: maxDepth})
	if d.c.Kind() != '{' {
		return FormUnknown
	}
	form := FormUnknown
	d.c.Open()
	for {
		name, ok := d.c.Member()
		if !ok {
			return form
		}
		switch string(name) {
		case "record_type":
			return FormEvidence
		case "action_record":
			return FormReceipt
		case "detail":
			return FormEntry
		case "prev_hash":
			form = FormEntry
		}
		d.c.Skip()
	}
}
