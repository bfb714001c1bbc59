package pipelock

import "fmt"

// The codes of what is wrong with a text that is no receipt, in the order in which they
// are looked for: a text has the first one that is true of it.
const (
	codeMalformedJSON      = "malformed-json"
	codeTooDeep            = "nested-too-deeply"
	codeDuplicateKey       = "duplicate-key"
	codeUnknownField       = "unknown-field"
	codeWrongType          = "wrong-type"
	codeUnsafeNumber       = "unsafe-number" // an integer beyond 2^53
	codeUnsupportedVersion = "unsupported-version"
	codeMissingField       = "missing-required-field"
	codeInvalidActionType  = "invalid-action-type"
	codeInvalidControl     = "session-control-invalid"
	codeInvalidPayload     = "payload-invalid" // of an evidence receipt
	codeNotCanonical       = "not-canonical"   // in the exact form alone
	codePaddingAttack      = "padding-attack"
	codeCountMismatch      = "receipt-count-mismatch"
	UnknownWrapper         = "unknown-wrapper"
	MixedFormats           = "mixed-formats"
	TooLong                = "too-long"
	Empty                  = "empty"
)

// The codes of what is wrong with the order of receipts that are ones.
const (
	codeGap               = "gap"             // receipts are missing before this one
	codeFork              = "fork"            // a second receipt after one parent: two writers
	Replay                = "replay-detected" // a receipt that was there before
	codeOutOfOrder        = "out-of-order"    // an earlier place, and not known from where
	codeChainBreak        = "chain-break"     // the next place, after another receipt
	codeInvalidRotation   = "rotation-invalid"
	codeSignerChanged     = "signer-changed" // without a rotation
	codeGenesisMismatch   = "genesis-mismatch"
	codeInvalidOpen       = "session-open-invalid"
	codeInvalidHeartbeat  = "heartbeat-invalid"
	codeInvalidClose      = "session-close-invalid"
	codeAfterClose        = "record-after-close"
	codeRunNotOpened      = "run-not-opened"
	codeTooManyRuns       = "too-many-runs"
	codeRecorderHash      = "recorder-hash-mismatch"
	codeRecorderOrder     = "recorder-chain-break"
	codeInvalidCheckpoint = "checkpoint-invalid"
	codeRootMismatch      = "transcript-root-mismatch"
	Truncated             = "truncated" // a root counts more receipts than there are
	AfterSeal             = "entry-after-seal"
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
