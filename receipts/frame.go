package receipts

import (
	"crypto/sha256"
	"encoding/binary"
)

// An Actor says who caused a frame.
type Actor uint8

// The actors, in wire order.
const (
	Kernel Actor = iota
	User
	Model
	Subagent
	ExternalWorker
	Adapter
	actors
)

// A Kind says what a frame records.
type Kind uint8

// The kinds, in wire order.
const (
	TaskCreated Kind = iota
	TaskPlanned
	JobQueued
	JobLeased
	ModelRequestStarted
	ModelOutputReceived
	ToolCallRequested
	ToolCallApproved
	ToolCallDenied
	ToolCallStarted
	ToolCallCompleted
	SandboxStarted
	CommandStarted
	CommandOutputCaptured
	CommandCompleted
	PatchProposed
	PatchVerified
	PatchRejected
	ApprovalRequested
	ApprovalResolved
	UserMessageQueued
	UserSteerReceived
	GitHubOperationRequested
	GitHubOperationCompleted
	SecretRequested
	SecretHandleStored
	RiskDetected
	TaskCompleted
	TaskFailed
	TaskKilled
	kinds
)

var kindNames = [kinds]string{
	"TaskCreated", "TaskPlanned", "JobQueued", "JobLeased", "ModelRequestStarted", "ModelOutputReceived",
	"ToolCallRequested", "ToolCallApproved", "ToolCallDenied", "ToolCallStarted", "ToolCallCompleted",
	"SandboxStarted", "CommandStarted", "CommandOutputCaptured", "CommandCompleted",
	"PatchProposed", "PatchVerified", "PatchRejected", "ApprovalRequested", "ApprovalResolved",
	"UserMessageQueued", "UserSteerReceived", "GitHubOperationRequested", "GitHubOperationCompleted",
	"SecretRequested", "SecretHandleStored", "RiskDetected", "TaskCompleted", "TaskFailed", "TaskKilled",
}

// String returns the kind's name.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return "Kind(?)"
}

// Terminal reports whether k ends a task.
func (k Kind) Terminal() bool { return k == TaskCompleted || k == TaskFailed || k == TaskKilled }

// Visibility says whether a model may see a frame's payload.
type Visibility uint8

// The visibilities, in wire order.
const (
	ModelVisible Visibility = iota
	Internal
	visibilities
)

// Redaction says whether a frame's payload had something removed.
type Redaction uint8

// The redactions, in wire order.
const (
	Clean Redaction = iota
	Redacted
	redactions
)

// A Frame is one record of an event log. Prev, PayloadHash and Hash are
// computed by [LogWriter.Append] and checked by [LogReader.Next].
type Frame struct {
	Actor      Actor
	Kind       Kind
	Visibility Visibility
	Redaction  Redaction
	Seq        uint64
	Time       uint64 // milliseconds since the Unix epoch
	HasTask    bool
	HasJob     bool
	Task       ID // zero unless HasTask
	Job        ID // zero unless HasJob
	Payload    []byte

	PayloadHash Digest
	Prev        Digest // Hash of the frame before; zero for the first
	Hash        Digest // SHA-256 of the encoded frame without this field
}

const (
	frameMagic   = "CCEL"
	frameVersion = 1
	flagTask     = 1
	flagJob      = 2

	// frameMin is the encoded size of a frame with neither ids nor payload.
	frameMin = 127
)

// appendFrame appends the encoding of f, computing its three hashes.
func appendFrame(dst []byte, f *Frame) []byte {
	start := len(dst)
	dst = append(dst, frameMagic...)
	dst = binary.LittleEndian.AppendUint16(dst, frameVersion)
	var flags byte
	if f.HasTask {
		flags |= flagTask
	}
	if f.HasJob {
		flags |= flagJob
	}
	dst = append(dst, flags, byte(f.Actor), byte(f.Kind), byte(f.Visibility), byte(f.Redaction))
	dst = binary.LittleEndian.AppendUint64(dst, f.Seq)
	dst = binary.LittleEndian.AppendUint64(dst, f.Time)
	if f.HasTask {
		dst = append(dst, f.Task[:]...)
	}
	if f.HasJob {
		dst = append(dst, f.Job[:]...)
	}
	f.PayloadHash = sha256.Sum256(f.Payload)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.Payload)))
	dst = append(dst, f.PayloadHash[:]...)
	dst = append(dst, f.Prev[:]...)
	dst = append(dst, f.Payload...)
	f.Hash = sha256.Sum256(dst[start:])
	return append(dst, f.Hash[:]...)
}

// DecodeFrame reads the frame at the start of b and returns its encoded length.
// It checks the layout only: no hash, no order. f.Payload is a part of b.
// The reason is [Truncated], [BadMagic], [BadVersion], [BadDiscriminant] or,
// where all is well, empty.
func DecodeFrame(b []byte) (f Frame, n int, reason LogBreak) {
	if reason := f.decode(b, maxUint32); reason != "" {
		return Frame{}, 0, reason
	}
	return f, f.encodedLen(), ""
}

const maxUint32 = 1<<32 - 1

func (f *Frame) encodedLen() int {
	n := frameMin + len(f.Payload)
	if f.HasTask {
		n += 16
	}
	if f.HasJob {
		n += 16
	}
	return n
}

// decode fills f from the start of b. The fields are judged in wire order, so a
// short b is Truncated only where nothing before its end was wrong.
func (f *Frame) decode(b []byte, maxPayload uint64) LogBreak {
	at := 0
	take := func(n int) []byte {
		if len(b)-at < n {
			return nil
		}
		at += n
		return b[at-n : at]
	}
	magic := take(4)
	if magic == nil {
		return Truncated
	}
	if string(magic) != frameMagic {
		return BadMagic
	}
	version := take(2)
	if version == nil {
		return Truncated
	}
	if binary.LittleEndian.Uint16(version) != frameVersion {
		return BadVersion
	}
	for i, limit := range [...]byte{flagTask | flagJob + 1, byte(actors), byte(kinds), byte(visibilities), byte(redactions)} {
		field := take(1)
		if field == nil {
			return Truncated
		}
		c := field[0]
		if c >= limit {
			return BadDiscriminant
		}
		switch i {
		case 0:
			f.HasTask, f.HasJob = c&flagTask != 0, c&flagJob != 0
		case 1:
			f.Actor = Actor(c)
		case 2:
			f.Kind = Kind(c)
		case 3:
			f.Visibility = Visibility(c)
		case 4:
			f.Redaction = Redaction(c)
		}
	}
	numbers := take(16)
	if numbers == nil {
		return Truncated
	}
	f.Seq, f.Time = binary.LittleEndian.Uint64(numbers), binary.LittleEndian.Uint64(numbers[8:])
	f.Task, f.Job = ID{}, ID{}
	for _, id := range [...]struct {
		has bool
		to  *ID
	}{{f.HasTask, &f.Task}, {f.HasJob, &f.Job}} {
		if !id.has {
			continue
		}
		raw := take(16)
		if raw == nil {
			return Truncated
		}
		copy(id.to[:], raw)
	}
	size := take(4)
	if size == nil {
		return Truncated
	}
	payload := uint64(binary.LittleEndian.Uint32(size))
	if payload > maxPayload {
		return PayloadTooLarge
	}
	hashes := take(64)
	if hashes == nil || uint64(len(b)-at) < payload+32 {
		return Truncated
	}
	copy(f.PayloadHash[:], hashes)
	copy(f.Prev[:], hashes[32:])
	f.Payload = take(int(payload))
	if f.Payload == nil { // take(0) at the end of b
		f.Payload = b[at:at]
	}
	copy(f.Hash[:], take(32))
	return ""
}
