package receipts

import (
	"fmt"
)

// A Chain mints receipts. It is not safe for concurrent use.
type Chain struct {
	auth  Authenticator
	body  []byte
	head  Digest
	count uint64
}

// NewChain returns an empty chain whose receipts auth authenticates.
func NewChain(auth Authenticator) (*Chain, error) {
	if auth == nil {
		return nil, errNoKey
	}
	return &Chain{auth: auth}, nil
}

// ResumeChain returns a chain that goes on after receipts, which its caller has
// verified.
func ResumeChain(auth Authenticator, receipts []Receipt) (*Chain, error) {
	c, err := NewChain(auth)
	if err != nil {
		return nil, err
	}
	if n := len(receipts); n > 0 {
		c.head, c.count = receipts[n-1].ChainHash(), uint64(n)
	}
	return c, nil
}

// Mint sets r's Prev and MAC, which makes it the next receipt of the chain. A
// failed Mint leaves the chain as it was.
func (c *Chain) Mint(r *Receipt) error {
	if len(r.Artifacts) > MaxArtifacts {
		return fmt.Errorf("receipt %d: %d artifacts: the limit is %d", c.count, len(r.Artifacts), MaxArtifacts)
	}
	r.Prev = c.head
	c.body = r.AppendBody(c.body[:0])
	mac, err := c.auth.MAC(c.body)
	if err != nil {
		return fmt.Errorf("receipt %d: %w", c.count, err)
	}
	r.MAC = mac
	c.head = Sum(c.body)
	c.count++
	return nil
}

// Head returns the chain hash of the last receipt, zero where there is none.
func (c *Chain) Head() Digest { return c.head }

// Count returns how many receipts were minted.
func (c *Chain) Count() uint64 { return c.count }

// A ReceiptBreak says why a chain of receipts stops verifying.
type ReceiptBreak string

// The breaks of a chain of receipts, in the order in which they are checked.
const (
	ChainMismatch ReceiptBreak = "ChainMismatch" // Prev is not the chain hash of the receipt before
	BadMAC        ReceiptBreak = "BadMac"        // the MAC is not the body's under the key
	EndTruncated  ReceiptBreak = "EndTruncated"  // the chain does not end where it is said to
)

// A ReceiptError says at which receipt, counted from 0, a chain breaks and why.
type ReceiptError struct {
	Index  uint64
	Reason ReceiptBreak
}

func (e *ReceiptError) Error() string { return fmt.Sprintf("receipt %d: %s", e.Index, e.Reason) }

// A ChainVerifier checks receipts one after the other, in constant memory.
type ChainVerifier struct {
	key    Key
	linked bool // links only: there is no key
	body   []byte
	head   Digest
	count  uint64
	failed error
}

// NewChainVerifier returns a verifier of the links and of the MACs under key.
func NewChainVerifier(key Key) (*ChainVerifier, error) {
	if key.state == nil {
		return nil, errNoKey
	}
	return &ChainVerifier{key: key}, nil
}

// NewLinkVerifier returns a verifier of the links alone. Anyone can make a
// chain that it accepts.
func NewLinkVerifier() *ChainVerifier { return &ChainVerifier{linked: true} }

// Next checks the next receipt. A break is a [*ReceiptError]; after one, Next
// repeats it.
func (v *ChainVerifier) Next(r *Receipt) error {
	if v.failed != nil {
		return v.failed
	}
	v.body = r.AppendBody(v.body[:0])
	switch {
	case r.Prev != v.head:
		v.failed = &ReceiptError{v.count, ChainMismatch}
	case !v.linked && !v.key.verify(v.body, &r.MAC):
		v.failed = &ReceiptError{v.count, BadMAC}
	}
	if v.failed != nil {
		return v.failed
	}
	v.head = Sum(v.body)
	v.count++
	return nil
}

// End checks that the chain has count receipts and ends at head. Without it, any
// prefix of a chain verifies.
func (v *ChainVerifier) End(count uint64, head Digest) error {
	if v.failed != nil {
		return v.failed
	}
	if v.count != count || v.head != head {
		return &ReceiptError{v.count, EndTruncated}
	}
	return nil
}

// Head returns the chain hash of the last verified receipt, zero before the first.
func (v *ChainVerifier) Head() Digest { return v.head }

// Count returns how many receipts have verified.
func (v *ChainVerifier) Count() uint64 { return v.count }

// VerifyReceipts checks a whole chain, but not that it is whole: see
// [ChainVerifier.End].
func VerifyReceipts(key Key, receipts []Receipt) (count uint64, err error) {
	v, err := NewChainVerifier(key)
	if err != nil {
		return 0, err
	}
	for i := range receipts {
		if err := v.Next(&receipts[i]); err != nil {
			return v.Count(), err
		}
	}
	return v.Count(), nil
}
