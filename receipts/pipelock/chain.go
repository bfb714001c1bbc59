package pipelock

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A Chain holds receipts to the order in which they have to come. It does not look at
// signatures. Its memory does not grow with the chain: it knows the last recentReceipts
// receipts of the segment, to tell what went wrong, and the runs that were opened.
type Chain struct {
	n       int64 // receipts in order
	session string
	segment segment
	runs    runs
	closed  bool // the last receipt is a session_close
}

// A segment is what one key signed.
type segment struct {
	key    string
	first  string // chain_prev_hash of its first receipt
	n      int64
	last   link
	recent recent
}

// A link is a receipt's place.
type link struct {
	seq  int64
	hash [sha256.Size]byte
}

func (l link) text() string { return hex.EncodeToString(l.hash[:]) }

// recent are the last receipts that come one after the other from chain_seq 0, each at
// its chain_seq modulo their greatest number.
type recent []link

const recentReceipts = 1024

func (l *recent) add(r link) {
	if r.seq < recentReceipts {
		*l = append(*l, r)
		return
	}
	(*l)[r.seq%recentReceipts] = r
}

// misplaced says how a receipt comes to have a chain_seq that was there: it is there
// twice, or its parent has two, or nobody knows.
func (l recent) misplaced(r link, prev, first string) error {
	parent := first
	if r.seq > 0 {
		parent = ""
		if at := (r.seq - 1) % recentReceipts; at < int64(len(l)) && l[at].seq == r.seq-1 {
			parent = l[at].text()
		}
	}
	switch at := r.seq % recentReceipts; {
	case at < int64(len(l)) && l[at] == r:
		return wrong(Replay, "the receipt with chain_seq %d is there twice", r.seq)
	case parent != "" && parent == prev:
		return wrong(codeFork, "two receipts with chain_seq %d come after the same one: two writers, or a chain that was written anew", r.seq)
	}
	return wrong(codeOutOfOrder, "chain_seq %d comes again", r.seq)
}

// Len returns how many receipts were in order.
func (c *Chain) Len() int64 { return c.n }

// SegmentLen returns how many of them the last key signed.
func (c *Chain) SegmentLen() int64 { return c.segment.n }

// Seq returns the chain_seq of the last one.
func (c *Chain) Seq() int64 { return c.segment.last.seq }

// Head returns the hash of the last one, "" if there is none.
func (c *Chain) Head() string {
	if c.n == 0 {
		return ""
	}
	return c.segment.last.text()
}

// Session returns the recorder's session that the chain's first receipt opened, "" if it
// opened none.
func (c *Chain) Session() string { return c.session }

// Closed reports whether the last receipt is a session_close: nothing was cut off.
func (c *Chain) Closed() bool { return c.closed }

// Add returns why r is not the next receipt, an [*Error]. After that, c is of no use.
func (c *Chain) Add(r *Receipt) error {
	if err := c.place(r); err != nil {
		return err
	}
	prior := c.segment.last
	if c.n == 0 || r.Transition != nil {
		c.segment = segment{key: r.SignerKey, first: r.PrevHash}
	}
	s := &c.segment
	if err := c.runs.add(r, c.n == 0, prior, s.n+1); err != nil {
		return err
	}
	if c.n == 0 && r.Control != nil {
		c.session = r.Control.Session
	}
	c.n++
	s.n++
	s.last = link{r.Seq, r.Hash}
	s.recent.add(s.last)
	c.closed = r.Control != nil && r.Control.Kind == Close
	return nil
}

// place returns why r does not come after the last receipt.
func (c *Chain) place(r *Receipt) error {
	s := &c.segment
	switch {
	case c.n == 0 && r.Transition != nil:
		return wrong(codeGap, "it begins at a key_transition: the segment before is missing")
	case c.n == 0 && r.Seq != 0:
		return wrong(codeGap, "it begins with chain_seq %d: the receipts before are missing", r.Seq)
	case c.n == 0 && strings.HasPrefix(r.PrevHash, boundGenesis):
		if r.Control == nil || r.Control.Kind != Open {
			return wrong(codeGenesisMismatch, "chain_prev_hash is bound to a session_open, and there is none")
		}
		return nil
	case c.n == 0 && r.PrevHash != legacyGenesis:
		return wrong(codeChainBreak, "chain_prev_hash of the first receipt is %q", r.PrevHash)
	case c.n == 0:
		return nil
	case r.Transition != nil:
		return c.rotation(r)
	case r.Seq == s.last.seq+1 && r.PrevHash != s.last.text():
		return wrong(codeChainBreak, "chain_prev_hash is %q; the receipt before has %s", r.PrevHash, s.last.text())
	case r.Seq > s.last.seq+1:
		return wrong(codeGap, "chain_seq %d comes after %d: receipts between them are missing", r.Seq, s.last.seq)
	case r.Seq <= s.last.seq:
		return s.recent.misplaced(link{r.Seq, r.Hash}, r.PrevHash, s.first)
	case r.SignerKey != s.key:
		return wrong(codeSignerChanged, "from %s to %q without a key_transition", s.key, r.SignerKey)
	}
	return nil
}

// rotation returns why r does not begin a segment of another key. It says that the
// chain goes on, and nothing of whose key that is: r is signed by it.
func (c *Chain) rotation(r *Receipt) error {
	s, t := &c.segment, r.Transition
	head := s.last.text()
	switch {
	case r.Seq != 0:
		return wrong(codeInvalidRotation, "a key_transition with chain_seq %d", r.Seq)
	case t.Hash != head || r.PrevHash != head:
		return wrong(codeInvalidRotation, "prior_chain_hash is %q, chain_prev_hash is %q; the receipt before has %s", t.Hash, r.PrevHash, head)
	case t.SignerKey != s.key:
		return wrong(codeInvalidRotation, "prior_signer_key is %q; the segment before has %s", t.SignerKey, s.key)
	case t.Seq != s.last.seq:
		return wrong(codeInvalidRotation, "prior_chain_seq is %d; the receipt before has %d", t.Seq, s.last.seq)
	case r.SignerKey == s.key:
		return wrong(codeInvalidRotation, "it does not change the key")
	}
	return nil
}
