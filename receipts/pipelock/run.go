package pipelock

import "crypto/sha256"

// maxRuns is how many runs one chain may open.
const maxRuns = 1 << 16

// runs follows the runs of a chain: a process that opens one, makes receipts that name
// it, and closes it or dies. A receipt that names none is of no run.
type runs struct {
	known  map[[16]byte]bool // by their nonces; true: closed
	active struct{ run, open string }
}

func runID(nonce string) (id [16]byte) {
	sum := sha256.Sum256([]byte(nonce))
	copy(id[:], sum[:])
	return id
}

// add takes a receipt that comes after prior, as the n-th of its segment.
func (s *runs) add(r *Receipt, first bool, prior link, n int64) error {
	if r.RunNonce == "" {
		if r.Control != nil {
			return wrong(codeInvalidControl, "session_control without a run_nonce")
		}
		return nil
	}
	if r.Control == nil && r.RunNonce == s.active.run {
		return nil // as most are
	}
	id := runID(r.RunNonce)
	closed, known := s.known[id]
	opens := r.Control != nil && r.Control.Kind == Open
	switch {
	case opens && known:
		return wrong(codeInvalidOpen, "duplicate session_open of a run")
	case closed:
		return wrong(codeAfterClose, "a receipt of a run after its session_close")
	case opens:
		return s.open(r, id, first, prior)
	case !known:
		return wrong(codeRunNotOpened, "the first receipt of a run is not its session_open")
	case r.Control == nil:
		return nil
	}
	c := r.Control
	code := map[string]string{Heartbeat: codeInvalidHeartbeat, Close: codeInvalidClose}[c.Kind]
	switch {
	case c.RunNonce != r.RunNonce || s.active.run != c.RunNonce || s.active.open != c.OpenNonce:
		return wrong(code, "it is not of the run that is open")
	case c.Head != r.PrevHash:
		return wrong(code, "it names %q as the receipt before, which has %s", c.Head, r.PrevHash)
	case c.Kind == Heartbeat && c.Seq != r.Seq-1:
		return wrong(code, "chain_seq_head is %d before chain_seq %d", c.Seq, r.Seq)
	case c.Kind == Close && c.Seq != r.Seq:
		return wrong(code, "final_seq is %d, chain_seq %d", c.Seq, r.Seq)
	case c.Kind == Close && c.Count != n:
		return wrong(code, "receipt_count is %d; the segment has %d", c.Count, n)
	}
	if c.Kind == Close {
		s.known[id] = true
		s.active.run, s.active.open = "", ""
	}
	return nil
}

func (s *runs) open(r *Receipt, id [16]byte, first bool, prior link) error {
	c := r.Control
	switch {
	case c.RunNonce != r.RunNonce:
		return wrong(codeInvalidOpen, "it opens another run than its own")
	case c.OpenNonce == "":
		return wrong(codeInvalidOpen, "open_nonce is empty")
	case c.OpenSeq != r.Seq:
		return wrong(codeInvalidOpen, "chain_open_seq is %d, chain_seq %d", c.OpenSeq, r.Seq)
	case first && (c.PriorHead != "" || c.PriorSeq != 0):
		return wrong(codeInvalidOpen, "a first session_open names a chain before")
	case first && r.PrevHash == legacyGenesis:
		return wrong(codeGenesisMismatch, "a first session_open has to be bound to chain_prev_hash")
	case first && (c.GenesisHash != c.genesis || r.PrevHash != c.genesis):
		return wrong(codeGenesisMismatch, "genesis_hash is %q, chain_prev_hash %q; the session_open has %s", c.GenesisHash, r.PrevHash, c.genesis)
	case !first && c.GenesisHash != "":
		return wrong(codeInvalidOpen, "a session_open inside a chain has a genesis_hash")
	case !first && c.PriorHead != prior.text():
		return wrong(codeInvalidOpen, "prior_chain_head is %q; the receipt before has %s", c.PriorHead, prior.text())
	case !first && c.PriorSeq != prior.seq:
		return wrong(codeInvalidOpen, "prior_chain_seq is %d; the receipt before has %d", c.PriorSeq, prior.seq)
	case len(s.known) == maxRuns:
		return wrong(codeTooManyRuns, "more than %d", maxRuns)
	}
	if s.known == nil {
		s.known = make(map[[16]byte]bool)
	}
	s.known[id] = false
	s.active.run, s.active.open = c.RunNonce, c.OpenNonce
	return nil
}
