package foreign

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
)

// MaxCrustcorePayload is how many bytes the payload of a frame has at most that
// [NewCrustcore] reads.
const MaxCrustcorePayload = 16 << 20

// CrustcoreOptions are the anchors and rules of [NewCrustcore].
type CrustcoreOptions struct {
	Rules
	Key Key // its Secret of 32 bytes makes the MACs; none: they are not checked

	// Receipts are those of the log, in order, which CrustCore keeps beside it; nil where
	// they are the payloads of its ToolCallCompleted frames, as truegreen keeps them.
	Receipts []receipts.Receipt
	// Minted says how many receipts there have to be, and the chain hash of the last.
	Minted *CrustcoreMinted
}

// CrustcoreMinted is what is known of a whole chain of receipts.
type CrustcoreMinted struct {
	Count uint64
	Head  receipts.Digest
}

// crustcore is the adapter that [NewCrustcore] describes.
type crustcore struct {
	rules    Rules
	name     string
	key      *receipts.Key
	receipts []receipts.Receipt
	named    map[uint64]bool // sequence numbers that receipts have
	minted   *CrustcoreMinted
	head     string
}

// NewCrustcore returns the adapter of CrustCore's event logs with their receipts. Package
// [receipts] has the bytes, and checks them; this is what its checks answer.
//
//   - Signature: every receipt has its MAC, and every ToolCallCompleted frame a receipt. A
//     log without receipts has nothing that is signed. Who can check a MAC can make one.
//   - Trust: the MACs are those of the caller's key.
//   - Chain: the frames follow each other, and so do the receipts; each receipt names a
//     ToolCallCompleted frame of its task and job, as [receipts.Join] has it, and no two the
//     same. The codes are the names of package receipts in kebab-case. Seq counts frames, or
//     receipts where the detail says so.
//   - End: the log ends with the head that [Rules.Head] names; or, where that is not known,
//     with a terminal event, and the receipts as Minted says. A terminal event alone proves
//     nothing: no MAC covers it, nor any frame, and who can write the log can write another.
//     The head excludes that, and without it Uncovered has the frames.
//   - Binding: tool and arguments of the last receipt, by their hashes. There is no target.
//   - Decision: a receipt says that a call was completed, and never that it was allowed.
//   - Freshness: the time of the last frame. A log is told from others by its head.
//
// Chain and End are always asked. Bytes that do not begin as a log are malformed, and so
// are frames of another version and payloads beyond the limit.
func NewCrustcore(o CrustcoreOptions) (Adapter, error) {
	c := &crustcore{rules: o.Rules, name: o.Key.Name, receipts: slices.Clone(o.Receipts), minted: o.Minted}
	if o.Key.Public != nil {
		return nil, errors.New("crustcore: a public key checks no MAC")
	}
	if o.Key.Secret != nil {
		key, err := receipts.NewKey(o.Key.Secret)
		if err != nil {
			return nil, fmt.Errorf("crustcore: %w", err)
		}
		c.key = &key
	}
	if o.Receipts != nil {
		c.named = map[uint64]bool{}
		for i := range o.Receipts {
			c.named[o.Receipts[i].EventSeq] = true
		}
	}
	if o.Head != "" {
		c.head = strings.TrimPrefix(o.Head, "sha256:")
		if !isHex(c.head, sha256.Size) {
			return nil, fmt.Errorf("crustcore: head %.80q: want the hash of a frame", o.Head)
		}
	}
	return c, nil
}

func (c *crustcore) Name() string { return "crustcore" }

// A crustcoreRun is one verification.
type crustcoreRun struct {
	*crustcore
	judgment
	chain    *receipts.ChainVerifier
	last     *receipts.Receipt // that is in order
	refs     []receipts.FrameRef
	complete uint64 // ToolCallCompleted frames
	without  uint64 // of these, have no receipt
	broken   bool   // the log
	final    receipts.Kind
	time     uint64
}

// Verify implements [Adapter].
func (c *crustcore) Verify(ctx context.Context, r io.Reader, b Binding) (Verification, error) {
	run := crustcoreRun{crustcore: c, judgment: judgment{Verification{Adapter: c.Name(), Form: "log", Issuer: c.name}}}
	j := &run.judgment
	for _, a := range []*Answer{&j.Signature, &j.Trust, &j.Chain, &j.End} {
		askFor(a)
	}
	if err := run.start(); err != nil {
		return Verification{}, fmt.Errorf("crustcore: %w", err)
	}
	log := receipts.NewLogReader(r, MaxCrustcorePayload)
	for {
		if err := ctx.Err(); err != nil {
			return Verification{}, fmt.Errorf("crustcore: %w", err)
		}
		f, err := log.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var broken *receipts.LogError
		if errors.As(err, &broken) {
			if malformed := c.malformed(broken); malformed != nil {
				return Verification{}, malformed
			}
			run.broken = true
			found := len(j.Violations)
			j.find(&j.Chain, No, kebab(string(broken.Reason)), "the log breaks at frame %d", broken.Frame)
			j.at(int64(broken.Frame), found)
			j.find(&j.End, Unproven, "not-reached", "what comes behind frame %d was not read", broken.Frame)
			break
		}
		if err != nil {
			return Verification{}, fmt.Errorf("crustcore: %w", err)
		}
		run.frame(f)
	}
	run.join()
	run.end(log)
	j.Head = log.Head().String()
	if c.head == "" || j.End != Yes {
		j.Uncovered = []string{"frames"}
	}
	s := run.says(b)
	j.say(s, b)
	if err := j.fresh(ctx, s, &c.rules); err != nil {
		return Verification{}, fmt.Errorf("crustcore: %w", err)
	}
	return j.Verification, nil
}

// malformed returns an error for what is no log at all, or none that can be read.
func (c *crustcore) malformed(e *receipts.LogError) error {
	switch {
	case e.Reason == receipts.BadMagic && e.Frame == 0:
		return &MalformedError{Adapter: c.Name(), Code: "not-a-log", Err: e}
	case e.Reason == receipts.BadVersion:
		return &MalformedError{Adapter: c.Name(), Code: "unknown-version", Err: e}
	case e.Reason == receipts.PayloadTooLarge:
		return &MalformedError{Adapter: c.Name(), Code: "payload-too-large", Err: e}
	}
	return nil
}

// start checks the receipts that are beside the log.
func (r *crustcoreRun) start() (err error) {
	r.chain = receipts.NewLinkVerifier()
	if r.key != nil {
		if r.chain, err = receipts.NewChainVerifier(*r.key); err != nil {
			return err
		}
	}
	for i := range r.receipts {
		r.receipt(&r.receipts[i])
	}
	return nil
}

// receipt checks the next receipt. After one that is wrong the others are not looked at.
func (r *crustcoreRun) receipt(next *receipts.Receipt) {
	j, found := &r.judgment, len(r.Violations)
	if j.Signature == No || j.Chain == No {
		return
	}
	var broken *receipts.ReceiptError
	err := r.chain.Next(next)
	switch {
	case err == nil:
		r.last = next
		j.Receipts++
		return
	case errors.As(err, &broken) && broken.Reason == receipts.BadMAC:
		j.find(&j.Signature, No, "bad-mac", "receipt %d: the key did not make it", broken.Index)
	case broken != nil:
		j.find(&j.Chain, No, kebab(string(broken.Reason)), "receipt %d does not come after the one before it", broken.Index)
	default: // the verifier knows no other
		j.find(&j.Chain, No, "chain-mismatch", "receipt %d: %v", j.Receipts, err)
	}
	j.at(j.Receipts, found)
}

// frame takes what there is to know of a verified frame.
func (r *crustcoreRun) frame(f *receipts.Frame) {
	r.final, r.time = f.Kind, f.Time
	if r.receipts != nil {
		if r.named[f.Seq] {
			r.refs = append(r.refs, f.Ref())
		} else if f.Kind == receipts.ToolCallCompleted {
			r.without++
		}
	}
	if f.Kind != receipts.ToolCallCompleted {
		return
	}
	r.complete++
	if r.receipts != nil {
		return
	}
	record, err := receipts.ParseRecord(f.Payload)
	if err != nil {
		r.without++
		return
	}
	r.Form = "log with records"
	r.receipt(&record)
	if r.Chain != No && r.Signature != No {
		r.joined(receipts.Join([]receipts.Receipt{record}, []receipts.FrameRef{f.Ref()}), r.Receipts-1)
	}
}

// join checks that the receipts beside the log are of its calls, in their order. Where the
// log breaks, what they name may be behind that.
func (r *crustcoreRun) join() {
	j := &r.judgment
	if r.receipts != nil && !r.broken {
		err := receipts.Join(r.receipts, r.refs)
		for i := 1; i < len(r.receipts) && err == nil; i++ {
			if r.receipts[i].EventSeq <= r.receipts[i-1].EventSeq {
				err = &receipts.JoinError{Index: uint64(i), Reason: receipts.FrameTaken}
			}
		}
		r.joined(err, 0)
	}
	switch {
	case j.Signature == No:
	case j.Receipts == 0:
		j.find(&j.Signature, Unproven, "no-receipt", "the log has no receipt, and nothing in it is signed")
		j.find(&j.Trust, Unproven, "no-receipt", "no key vouches for it")
	case r.key == nil:
		j.find(&j.Signature, Unproven, "no-key", "there is no key to check the MACs with")
		j.find(&j.Trust, Unproven, "no-key", "no key is trusted")
	case r.without > 0:
		j.find(&j.Signature, Unproven, "frame-without-proof", "%d of %d completed calls have no receipt", r.without, r.complete)
	}
}

// joined takes the result of a join, whose receipts are counted from some place on.
func (r *crustcoreRun) joined(err error, from int64) {
	var broken *receipts.JoinError
	if errors.As(err, &broken) {
		found, at := len(r.Violations), from+int64(broken.Index)
		r.find(&r.Chain, No, kebab(string(broken.Reason)), "receipt %d is not of the call that it names", at)
		r.at(at, found)
	}
}

// end answers whether log and receipts are whole.
func (r *crustcoreRun) end(log *receipts.LogReader) {
	j := &r.judgment
	if r.minted != nil && j.Signature != No && j.Chain != No {
		if r.chain.End(r.minted.Count, r.minted.Head) != nil {
			found := len(j.Violations)
			j.find(&j.End, No, "end-truncated", "%d receipts, %d were minted, or the last is another", j.Receipts, r.minted.Count)
			j.at(j.Receipts, found)
		}
	}
	switch head := log.Head().String(); {
	case j.Chain == No:
		if j.End == Yes {
			j.find(&j.End, Unproven, "not-reached", "the log does not hold, so that its end proves nothing")
		}
	case r.head != "" && r.head != head:
		j.find(&j.End, No, "head-mismatch", "the log ends at %s, want %s", head, r.head)
	case r.head != "":
		j.EndProof = "expected-head"
	case log.Frames() == 0 || !r.final.Terminal():
		j.find(&j.End, Unproven, "end-unproven", "no terminal event is the last, and the head is not known")
	case r.minted == nil:
		j.find(&j.End, Unproven, "end-unproven", "the terminal event is no proof: nobody has signed it, and the head is not known")
	default:
		j.EndProof = "minted-receipts"
	}
	if j.End != Yes {
		j.EndProof = ""
	}
}

// says returns what the last receipt and the last frame say.
func (r *crustcoreRun) says(b Binding) *statement {
	s := &statement{issuer: r.name, id: r.Head}
	if r.final.Terminal() {
		s.said = r.final.String()
	}
	if r.time != 0 {
		const last = 253402300799999 // of the year 9999: what is beyond is from the future, too
		s.issued = time.UnixMilli(int64(min(r.time, last))).UTC()
	}
	if r.last != nil {
		s.tool = "sha256:" + r.last.ToolName.String()
		if b.Tool != "" && receipts.Sum([]byte(b.Tool)) == r.last.ToolName {
			s.tool = b.Tool
		}
		s.args = []string{"sha256:" + hex.EncodeToString(r.last.Args[:])}
	}
	return s
}

// kebab writes a name in kebab-case.
func kebab(name string) string {
	var b strings.Builder
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte('-')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}
