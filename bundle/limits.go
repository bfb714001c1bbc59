package bundle

import "fmt"

// Limits bound what a reader spends on a bundle before it trusts any of it. A
// zero field stands for its default. A writer keeps to the same limits, so
// that it never makes a file that it would not read.
type Limits struct {
	File    int64 // bytes of the file; 2 GiB
	Decoded int64 // bytes of the tar; 8 GiB
	Log     int64 // bytes of the log; 1 GiB
	Blob    int64 // bytes of one blob; 2 GiB
	Entries int   // members of any kind; 65,536
}

// The signed members have fixed limits: a reader holds them in memory, and the
// seal ends within the first 4 KiB of the tar.
const (
	maxSeal = 3584
	maxMAC  = 65
	maxSig  = 16 << 10
)

func (l Limits) withDefaults() Limits {
	if l.File == 0 {
		l.File = 2 << 30
	}
	if l.Decoded == 0 {
		l.Decoded = 8 << 30
	}
	if l.Log == 0 {
		l.Log = 1 << 30
	}
	if l.Blob == 0 {
		l.Blob = 2 << 30
	}
	if l.Entries == 0 {
		l.Entries = 1 << 16
	}
	return l
}

// The codes of an [Error].
const (
	NotABundle      = "not-a-bundle"     // another kind of file
	Truncated       = "truncated"        // the file ends before the bundle does
	LimitExceeded   = "limit-exceeded"   // sound so far, but larger than a limit
	MalformedMember = "malformed-member" // order, name, header, padding, framing
	BlobMismatch    = "blob-mismatch"    // content that is not what its name says
)

// An Error says why bytes are not a sound bundle. Trouble with the medium (a
// file that cannot be read, say) is never an Error.
type Error struct {
	Code   string // one of the codes above
	Member string // the member being read; "" outside of one
	Err    error
}

func (e *Error) Error() string {
	if e.Member == "" {
		return fmt.Sprintf("%s: %v", e.Code, e.Err)
	}
	return fmt.Sprintf("member %s: %s: %v", e.Member, e.Code, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

func refuse(code, member, format string, args ...any) *Error {
	return &Error{Code: code, Member: member, Err: fmt.Errorf(format, args...)}
}
