package foreign

import (
	"context"
	"fmt"
	"io"
	"time"
)

// An Adapter verifies receipts of one format against the anchors and rules that it was
// made with. It keeps nothing between two verifications, except in [Rules.Seen], and can
// be used by several goroutines.
type Adapter interface {
	// Name returns the name of the format, as a command takes it.
	Name() string

	// Verify reads one receipt, or one chain of them where the rules ask for a chain,
	// to the end of r.
	Verify(ctx context.Context, r io.Reader, b Binding) (Verification, error)
}

// A Binding is what the caller knows of a call, and asks its receipt to be about. What
// is empty is not asked.
type Binding struct {
	Tool    string // name of the tool
	ArgHash string // of its arguments, "sha256:" and 64 lower-case hexadecimal digits
	Target  string // what it was done to
	Allowed bool   // the call was allowed, and not only recorded
}

// asked reports whether b asks what a receipt is about.
func (b Binding) asked() bool { return b.Tool != "" || b.ArgHash != "" || b.Target != "" }

// DefaultSkew is how far the clocks of issuer and verifier may differ.
const DefaultSkew = time.Minute

// Rules are what a caller asks of receipts of every format.
type Rules struct {
	Now    func() time.Time // nil: time.Now
	MaxAge time.Duration    // how old a receipt may be; 0: not asked
	Skew   time.Duration    // how far clocks may differ; 0: DefaultSkew
	Seen   Seen             // the receipts of earlier verifications; nil: none

	// Chain says that the input is a chain, and asks for its order and its end.
	Chain bool
	// Head is the hash of the last receipt of the chain, as the caller learned it from
	// elsewhere: it proves the end. "" where the caller does not know.
	Head string
}

// now returns the time that r's clock shows.
func (r *Rules) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// skew returns how far clocks may differ.
func (r *Rules) skew() time.Duration {
	if r.Skew == 0 {
		return DefaultSkew
	}
	return r.Skew
}

// A Seen remembers receipts, so that none counts twice.
type Seen interface {
	// Add remembers the receipt that an issuer calls id, until it would not count any
	// more in any case (zero: for good), and reports whether it is new.
	Add(ctx context.Context, issuer, id string, until time.Time) (bool, error)
}

// An Answer is what a verification says to one question.
type Answer uint8

// The answers, the better ones first.
const (
	NotAsked Answer = iota
	Yes
	Unproven // nothing is wrong, and what would prove it is missing
	No
)

var answers = [...]string{NotAsked: "not-asked", Yes: "yes", Unproven: "unproven", No: "no"}

func (a Answer) String() string {
	if int(a) < len(answers) {
		return answers[a]
	}
	return fmt.Sprintf("Answer(%d)", uint8(a))
}

// MarshalText makes an answer the string that its name is.
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// A Verification is what an adapter says of a receipt or a chain.
type Verification struct {
	Adapter string `json:"adapter"` // its name
	Form    string `json:"form"`    // which form of the format it read, such as "v1 chain"

	Signature Answer `json:"signature"`
	Trust     Answer `json:"trust"`
	Binding   Answer `json:"binding"`
	Decision  Answer `json:"decision"`
	Freshness Answer `json:"freshness"`
	Chain     Answer `json:"chain"`
	End       Answer `json:"end"`

	// What the receipt says, or the last one of a chain. It means nothing where
	// Signature and Trust are not yes.
	Issuer  string    `json:"issuer,omitempty"` // who vouches: an iss, or the key
	Tool    string    `json:"tool,omitempty"`
	Target  string    `json:"target,omitempty"`
	Said    string    `json:"said,omitempty"` // its verdict, in the words of the format
	Issued  time.Time `json:"issued,omitzero"`
	Expires time.Time `json:"expires,omitzero"`

	Receipts int64  `json:"receipts"`            // how many were read and found in order
	Head     string `json:"head,omitempty"`      // hash of the last: keep it, and give it as Rules.Head
	EndProof string `json:"end_proof,omitempty"` // what proves the end, where End is yes

	Uncovered  []string    `json:"uncovered,omitempty"`  // members that no signature covers
	Violations []Violation `json:"violations,omitempty"` // why an answer is not yes: at least one for each
}

// Answers returns the answers by the names of their questions, in the order of the
// package's description.
func (v *Verification) Answers() []NamedAnswer {
	return []NamedAnswer{
		{"signature", v.Signature},
		{"trust", v.Trust},
		{"binding", v.Binding},
		{"decision", v.Decision},
		{"freshness", v.Freshness},
		{"chain", v.Chain},
		{"end", v.End},
	}
}

// A NamedAnswer is an answer with the name of its question.
type NamedAnswer struct {
	Question string
	Answer   Answer
}

// Worst returns the worst answer: what the verification comes to.
func (v *Verification) Worst() Answer {
	worst := NotAsked
	for _, a := range v.Answers() {
		worst = max(worst, a.Answer)
	}
	return worst
}

// Reason returns the first violation that makes the verification as bad as it is, else
// the first, and whether there is one: what keeps it unproven is no reason for a no.
func (v *Verification) Reason() (Violation, bool) {
	if len(v.Violations) == 0 {
		return Violation{}, false
	}
	worst := v.Worst()
	for _, x := range v.Violations {
		if x.Answer == worst {
			return x, true
		}
	}
	return v.Violations[0], true
}

// Trusted reports whether every answer that was asked for is yes. A zero verification
// is not trusted.
func (v *Verification) Trusted() bool {
	return v.Signature == Yes && v.Trust == Yes && v.Worst() == Yes
}

// A Violation is one thing that keeps an answer from being yes.
type Violation struct {
	Code   string `json:"code"`             // in kebab-case; stable
	Detail string `json:"detail,omitempty"` // what was found, and what was wanted
	Seq    *int64 `json:"seq,omitempty"`    // of the receipt in its chain, from 0; nil: none by itself
	Answer Answer `json:"answer"`           // the best that the answer can be with it: unproven or no
}

func (v Violation) String() string {
	s := v.Code
	if v.Detail != "" {
		s += ": " + v.Detail
	}
	if v.Seq != nil {
		s = fmt.Sprintf("seq %d: %s", *v.Seq, s)
	}
	return s
}

// A MalformedError says that bytes are no receipt of the format.
type MalformedError struct {
	Adapter string
	Code    string // in kebab-case, such as "duplicate-key"; stable
	Line    int64  // of the chain's text, from 1; 0: there are no lines
	Err     error  // why
}

func (e *MalformedError) Error() string {
	s := e.Adapter + ": " + e.Code
	if e.Line > 0 {
		s = fmt.Sprintf("%s: line %d: %s", e.Adapter, e.Line, e.Code)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *MalformedError) Unwrap() error { return e.Err }
