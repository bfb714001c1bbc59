package pipelock

import "fmt"

// The codes of what is wrong with a text that is no receipt, in the order in which they
// are looked for: a text has the first one that is true of it.
const (
	MalformedJSON      = "malformed-json"
	TooDeep            = "nested-too-deeply"
	DuplicateKey       = "duplicate-key"
	UnknownField       = "unknown-field"
	WrongType          = "wrong-type"
	UnsafeNumber       = "unsafe-number" // an integer beyond 2^53
	UnsupportedVersion = "unsupported-version"
	MissingField       = "missing-required-field"
	InvalidActionType  = "invalid-action-type"
	InvalidControl     = "session-control-invalid"
	InvalidPayload     = "payload-invalid" // of an evidence receipt
	NotCanonical       = "not-canonical"   // in the exact form alone
	PaddingAttack      = "padding-attack"
	CountMismatch      = "receipt-count-mismatch"
	UnknownWrapper     = "unknown-wrapper"
	MixedFormats       = "mixed-formats"
	TooLong            = "too-long"
	Empty              = "empty"
)

// The codes of what is wrong with the order of receipts that are ones.
const (
	Gap               = "gap"             // receipts are missing before this one
	Fork              = "fork"            // a second receipt after one parent: two writers
	Replay            = "replay-detected" // a receipt that was there before
	OutOfOrder        = "out-of-order"    // an earlier place, and not known from where
	ChainBreak        = "chain-break"     // the next place, after another receipt
	InvalidRotation   = "rotation-invalid"
	SignerChanged     = "signer-changed" // without a rotation
	GenesisMismatch   = "genesis-mismatch"
	InvalidOpen       = "session-open-invalid"
	InvalidHeartbeat  = "heartbeat-invalid"
	InvalidClose      = "session-close-invalid"
	AfterClose        = "record-after-close"
	RunNotOpened      = "run-not-opened"
	TooManyRuns       = "too-many-runs"
	RecorderHash      = "recorder-hash-mismatch"
	RecorderOrder     = "recorder-chain-break"
	InvalidCheckpoint = "checkpoint-invalid"
	RootMismatch      = "transcript-root-mismatch"
	Truncated         = "truncated" // a root counts more receipts than there are
	AfterSeal         = "entry-after-seal"
)

// An Error says what is wrong, with a code that is stable.
type Error struct {
	Code string
	Err  error // why
}

func (e *Error) Error() string { return e.Code + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

func wrong(code, format string, args ...any) *Error {
	return &Error{code, fmt.Errorf(format, args...)}
}
