package foreign

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The limits of the acta adapter.
const (
	MaxActa    = 1 << 20 // bytes of a receipt, and of a line of a chain
	maxNesting = 32
)

// ActaOptions are the anchors and rules of [NewActa].
type ActaOptions struct {
	Rules
	Keys []Key // Ed25519; without a name: for any kid
}

// acta is the adapter that [NewActa] describes.
type acta struct {
	rules Rules
	keys  []Key
	head  string // in hexadecimal; "": not known
}

// NewActa returns the adapter of the receipts of draft-farley-acta-signed-receipts and of
// the tools that the draft grew out of. A signature is Ed25519 over the canonical form (RFC
// 8785) of JSON; signatures and keys are lower-case hexadecimal.
//
// # Forms
//
//	flat      {receipt_id, receipt_version: "1.0", tool_name, decision, policy_id, timestamp,
//	          public_key, signature}
//	envelope  {payload: {type: "scopeblind.receipt.v1", decision, action: {kind, target},
//	          sequence, timestamp}, signature, pubkey}, or with a signature
//	          {alg: "EdDSA", kid, sig} instead of signature and pubkey
//	passport  {v: 2, type: "decision_receipt", algorithm: "ed25519", kid, issuer, issued_at,
//	          payload: {decision, tool}, signature}
//	header    the value of an x-agent-trust header, see below
//
// These members are required, and others may be there: the formats have room for any.
// Another version, type or algorithm is malformed.
//
// A signature covers all members but itself; that of an envelope may cover the payload
// alone, as some tools make it. What it does not cover then is in Uncovered, and not
// looked at, but for the key that it names.
//
// # Keys
//
// A receipt that carries its key is checked under that, so that Signature says whether
// it is whole; Trust is yes only where the key is one of the caller's. A kid has to be
// the name of one of the caller's keys, unless these have none.
//
// # Calls
//
// The tool is tool_name or tool; of an envelope the kind of its action, and its target
// where the kind is "tool". The arguments' hash is input_hash or params_hash, and that of
// tool_input; an envelope has none. Only the decision "allow" is a yes. A receipt is told
// from others by receipt_id or request_id, and by the hash of what is signed where it has
// none; a trust header by its delegations.
//
// # Chains
//
// A chain is lines, each a receipt, all of one form. The link of a receipt is
// parent_receipt_hash, previousReceiptHash, previous_receipt_hash or prev_hash. It is the
// SHA-256 of the receipt before, or of what that one signed, or of its payload; in
// hexadecimal, also after "sha256:", or in base64url. Which of these, the second receipt
// decides for the chain. The first has none: its link is absent, null, "", "genesis" or
// zeros. A sequence begins at 0 or 1 and has no gaps; all receipts have one or none.
//
// Reading stops at what is wrong. These are told apart: a gap, a fork (two receipts after
// one), a duplicate, a reordering, and a link to something else (link-mismatch). The
// hash in Head is always that of the whole receipt, "sha256:" and hexadecimal. Nothing in
// a chain proves its end: only [Rules.Head] does. Freshness is that of the last receipt,
// and so is what Binding asks.
//
// # Trust headers
//
// The value of an x-agent-trust header, version 0.1, is what several issuers say of an
// agent.
//
//	{trust_header_version: "0.1", subject_agent: DID, delegation_chain: [{delegated_by: KEY,
//	 delegated_to: KEY, scope: [NAME], issued_at, expires_at, status?, signature}],
//	 delegation_chain_root: "sha256:…", attestations?: [{payload: {agent_id: DID, trust_level,
//	 delegation_chain_root, issued_at, issuer: DID}, signature}],
//	 agent_card?: {trust: {signals: attestations}}, deny_receipt?: {payload, signature}}
//
// A signature is {alg: "EdDSA", kid: DID, pubkey: KEY, sig}, over the link without its
// signature, or over the payload. A DID is "did:aps:" and the first half of a key.
//
// The keys of all signatures have to be the caller's, except that a link's may be the one
// that a link before it delegates to. The links follow each other, none widens its
// scope, and the last one's agent is the subject. The root is the hash of the chain, and
// all attestations name the same: that is what Chain answers. A link with the status
// "revoked" makes Decision a no, asked for or not, and a header never says that a call
// was allowed. Freshness is that of the first link to expire; Said is the trust level of
// the last attestation. Nothing covers the header as a whole: one attestation has to be
// there, and whether another was left out it cannot show.
func NewActa(o ActaOptions) (Adapter, error) {
	a := &acta{rules: o.Rules, keys: slices.Clone(o.Keys)}
	for i, k := range o.Keys {
		if err := checkEd25519(k); err != nil {
			return nil, fmt.Errorf("acta: key %d: %w", i, err)
		}
	}
	if o.Head != "" {
		a.head = strings.TrimPrefix(o.Head, "sha256:")
		if !isHex(a.head, sha256.Size) {
			return nil, fmt.Errorf("acta: head %.80q: want the hash of a receipt", o.Head)
		}
	}
	return a, nil
}

var errKeyType = errors.New("not an Ed25519 key")

// checkEd25519 reports why k is no key for plain Ed25519 signatures.
func checkEd25519(k Key) error {
	public, ok := k.Public.(ed25519.PublicKey)
	if !ok || len(public) != ed25519.PublicKeySize {
		return errKeyType
	}
	switch k.Algorithm {
	case "", "EdDSA", "Ed25519", "ed25519":
		return nil
	}
	return fmt.Errorf("%w: it is for %.40q", errKeyType, k.Algorithm)
}

// isHex reports whether s is n bytes in lower-case hexadecimal.
func isHex(s string, n int) bool {
	if len(s) != 2*n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func (a *acta) Name() string { return "acta" }

func (a *acta) malformed(line int64, code, format string, args ...any) error {
	return &MalformedError{Adapter: a.Name(), Code: code, Line: line, Err: fmt.Errorf(format, args...)}
}

// Verify implements [Adapter].
func (a *acta) Verify(ctx context.Context, r io.Reader, b Binding) (Verification, error) {
	j := judgment{Verification{Adapter: a.Name()}}
	var last *actaReceipt
	var err error
	if a.rules.Chain {
		last, err = a.chain(ctx, r, &j)
	} else {
		last, err = a.single(ctx, r, &j)
	}
	if err != nil {
		return Verification{}, err
	}
	j.Form, j.Uncovered = last.form, last.uncovered
	j.say(&last.says, b)
	if err := j.fresh(ctx, &last.says, &a.rules); err != nil {
		return Verification{}, fmt.Errorf("acta: %w", err)
	}
	return j.Verification, nil
}

// single verifies one receipt.
func (a *acta) single(ctx context.Context, r io.Reader, j *judgment) (*actaReceipt, error) {
	text, whole, err := readLimited(ctx, r, MaxActa)
	if err != nil {
		return nil, fmt.Errorf("acta: %w", err)
	}
	if !whole {
		return nil, a.malformed(0, "too-long", "more than %d bytes", MaxActa)
	}
	receipt, err := a.parse(text, 0)
	if err != nil {
		return nil, err
	}
	a.check(receipt, j)
	if j.Signature == Yes {
		j.Receipts = 1
	}
	j.Head = "sha256:" + hex.EncodeToString(receipt.hash[:])
	return receipt, nil
}

// chain verifies the receipts of a chain up to the first that is wrong, which it returns
// like the last.
func (a *acta) chain(ctx context.Context, r io.Reader, j *judgment) (*actaReceipt, error) {
	askFor(&j.Chain)
	askFor(&j.End)
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), MaxActa)
	torn := false // the last line has no end, as an interrupted write leaves it
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n, line, err := bufio.ScanLines(data, atEOF)
		torn = n > 0 && data[n-1] != '\n'
		return n, line, err
	})
	var before, last *actaReceipt
	links := actaLinks{}
	headAt := int64(-1)
	for n := int64(0); lines.Scan(); n++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("acta: %w", err)
		}
		receipt, err := a.parse(lines.Bytes(), n+1)
		if err != nil {
			var m *MalformedError
			if torn && errors.As(err, &m) {
				m.Code = "torn-line"
			}
			return nil, err
		}
		if receipt.form == formHeader {
			return nil, a.malformed(n+1, "no-chain", "trust headers are no chain")
		}
		found := len(j.Violations)
		last = receipt
		if before != nil {
			receipt.covers = before.covers
		}
		a.check(receipt, j)
		links.check(before, receipt, j)
		j.at(n, found)
		// What is wrong with the key of one is wrong with that of all: it is said once.
		j.Violations = dedupe(j.Violations, found)
		if j.Signature == No || j.Chain == No {
			j.find(&j.End, Unproven, "not-reached", "what comes behind receipt %d was not read", n)
			return last, nil
		}
		if hex.EncodeToString(receipt.hash[:]) == a.head {
			headAt = n
		}
		j.Receipts++
		j.Head = "sha256:" + hex.EncodeToString(receipt.hash[:])
		before = receipt
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, a.malformed(j.Receipts+1, "too-long", "more than %d bytes in a line", MaxActa)
	case err != nil:
		return nil, fmt.Errorf("acta: %w", err)
	case last == nil:
		return nil, a.malformed(0, "empty", "a chain of no receipts")
	}
	switch {
	case a.head == "":
		j.find(&j.End, Unproven, "end-unproven", "any prefix of a chain looks like this: give the head that it has to have")
	case headAt == j.Receipts-1:
		j.EndProof = "expected-head"
	case headAt >= 0:
		j.find(&j.End, No, "head-not-last", "%d receipts come behind the expected head", j.Receipts-1-headAt)
	default:
		j.find(&j.End, No, "head-mismatch", "the expected head %.16s… is not there: receipts are missing at the end, or it is another chain", a.head)
	}
	return last, nil
}

// dedupe takes what is found from the given place on away where it is found before.
func dedupe(list []Violation, from int) []Violation {
	out := list[:from]
	for _, v := range list[from:] {
		if !slices.ContainsFunc(out, func(o Violation) bool { return o.Code == v.Code && o.Detail == v.Detail }) && len(out) < 16 {
			out = append(out, v)
		}
	}
	return out
}
