package foreign

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/jcs"
	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

// The forms of an ACTA receipt.
const (
	formFlat     = "flat"
	formEnvelope = "envelope"
	formPassport = "passport"
	formHeader   = "header"
)

// An actaReceipt is one that is well-formed.
type actaReceipt struct {
	form string
	says statement
	hash [sha256.Size]byte // of the whole

	value   jcs.Value
	payload *jcs.Value // nil: a flat one
	signed  [][]byte   // what the signature may cover, the first that it does
	covers  int        // which of these it covers; before it is checked, a guess

	embedded  ed25519.PublicKey // the key that it carries; nil: it names one
	kid       string
	signature []byte
	uncovered []string // members beside the payload, for the second of signed
	header    *actaHeader
}

// parse reads a receipt, of a line of a chain where that is not 0.
func (a *acta) parse(text []byte, line int64) (*actaReceipt, error) {
	v, err := jcs.Parse(text, strictjson.Limits{Size: MaxActa, Depth: maxNesting})
	if err != nil {
		return nil, a.malformed(line, "not-json", "%w", err)
	}
	if v.Kind() != jcs.Object {
		return nil, a.malformed(line, "not-json", "not an object")
	}
	f := fields{adapter: a.Name(), line: line}
	r := &actaReceipt{value: v, hash: sha256.Sum256(v.Append(nil))}
	switch {
	case v.Member("receipt_version") != nil:
		r.flat(&f)
	case v.Member("v") != nil:
		r.passport(&f)
	case v.Member("trust_header_version") != nil:
		r.trustHeader(&f)
	case v.Member("payload") != nil:
		r.envelope(&f)
	default:
		f.fail("unknown-form", "none of receipt_version, v, trust_header_version and payload is there")
	}
	if f.err != nil {
		return nil, f.err
	}
	return r, nil
}

func (r *actaReceipt) flat(f *fields) {
	v := &r.value
	r.form = formFlat
	f.only(v, "receipt_version", "1.0", "unknown-version")
	r.says = statement{
		tool: f.text(v, "tool_name"), said: f.text(v, "decision"), id: f.text(v, "receipt_id"),
		issuer: f.optional(v, "issuer_id"), issued: f.time(v, "timestamp"), expires: f.optionalTime(v, "expires_at"),
	}
	f.text(v, "policy_id")
	r.says.allowed = r.says.said == "allow"
	r.says.args = f.argHashes(v, "input_hash", "tool_input")
	r.embedded = f.hex(v, "public_key", ed25519.PublicKeySize)
	r.signature = f.hex(v, "signature", ed25519.SignatureSize)
	r.cover(false)
}

func (r *actaReceipt) passport(f *fields) {
	v := &r.value
	r.form = formPassport
	if n, ok := v.Member("v").Int(); !ok || n != 2 {
		f.fail("unknown-version", "v: want 2")
	}
	f.only(v, "type", "decision_receipt", "unknown-type")
	f.only(v, "algorithm", "ed25519", "unknown-algorithm")
	r.kid = f.text(v, "kid")
	r.signature = f.hex(v, "signature", ed25519.SignatureSize)
	p := f.object(v, "payload")
	r.payload = p
	r.says = statement{
		tool: f.text(p, "tool"), target: f.optional(p, "target"), said: f.text(p, "decision"), id: f.optional(p, "request_id"),
		issuer: f.text(v, "issuer"), issued: f.time(v, "issued_at"), expires: f.optionalTime(v, "expires_at"),
	}
	r.says.allowed = r.says.said == "allow"
	r.says.args = f.argHashes(p, "params_hash", "params")
	r.cover(false)
}

func (r *actaReceipt) envelope(f *fields) {
	v := &r.value
	r.form = formEnvelope
	if len(v.Members()) > 32 {
		f.fail("too-many-members", "an envelope of more than 32")
	}
	p := f.object(v, "payload")
	r.payload = p
	if s := v.Member("signature"); s != nil && s.Kind() == jcs.Object {
		r.kid, r.embedded, r.signature = f.signature(s)
	} else {
		r.signature = f.hex(v, "signature", ed25519.SignatureSize)
		r.embedded = f.hex(v, "pubkey", ed25519.PublicKeySize)
	}
	switch kind := f.text(p, "type"); kind {
	case "scopeblind.receipt.v1":
		action := f.object(p, "action")
		r.says = statement{tool: f.text(action, "kind"), target: f.text(action, "target"), said: f.text(p, "decision"), issued: f.time(p, "timestamp")}
		if r.says.tool == "tool" {
			r.says.tool, r.says.target = r.says.target, ""
		}
		if _, ok := p.Member("sequence").Int(); !ok {
			f.fail("missing-member", "sequence: want a number")
		}
		r.says.allowed = r.says.said == "allow"
	case "deny_receipt": // of a revoked delegation
		r.says = statement{said: "deny", target: f.text(p, "attempted_scope"), issued: f.time(p, "attempted_at")}
	default:
		f.fail("unknown-type", "payload type %.80q", kind)
	}
	if f.err == nil {
		r.says.expires = f.optionalTime(p, "expires_at")
		r.says.issuer = f.optional(p, "issuer_id")
		r.says.id = f.optional(p, "receipt_id")
	}
	r.cover(true)
}

// signature reads a signature with its key's name. Nothing covers it, so that it has no
// room for more.
func (f *fields) signature(s *jcs.Value) (kid string, key ed25519.PublicKey, signature []byte) {
	for _, m := range s.Members() {
		switch m.Name {
		case "alg":
			f.only(s, m.Name, "EdDSA", "unknown-algorithm")
		case "canonicalization":
			f.only(s, m.Name, "RFC8785-JCS", "unknown-algorithm")
		case "pubkey":
			key = f.hex(s, m.Name, ed25519.PublicKeySize)
		case "kid", "sig":
		default:
			f.fail("unknown-member", "%.80q in a signature", m.Name)
		}
	}
	f.text(s, "alg")
	return f.text(s, "kid"), key, f.hex(s, "sig", ed25519.SignatureSize)
}

// cover writes down what the signature may cover.
func (r *actaReceipt) cover(payload bool) {
	whole := r.value.Without("signature")
	r.signed = append(r.signed, whole.Append(nil))
	if payload && r.payload != nil {
		r.signed = append(r.signed, r.payload.Append(nil))
	}
}

// check answers for the signature of a receipt and for its key.
func (a *acta) check(r *actaReceipt, j *judgment) {
	askFor(&j.Signature)
	askFor(&j.Trust)
	if r.header != nil {
		r.says.id = r.header.computed
		a.checkHeader(r, j)
		return
	}
	key := a.signer(r, j)
	if key == nil {
		return
	}
	if r.covers = r.covered(key); r.covers < 0 {
		j.find(&j.Signature, No, "signature-invalid", "the key did not sign this")
		return
	}
	if r.says.id == "" { // who changes what is not signed makes no other receipt
		sum := sha256.Sum256(r.signed[r.covers])
		r.says.id = hex.EncodeToString(sum[:])
	}
	if r.covers == 1 {
		for _, m := range r.value.Members() {
			if m.Name != "payload" && m.Name != "signature" {
				r.uncovered = append(r.uncovered, m.Name)
			}
		}
	}
}

// covered returns what r's signature covers under a key, -1 for nothing. It tries the one
// that r.covers guesses first.
func (r *actaReceipt) covered(key ed25519.PublicKey) int {
	for i := range r.signed {
		if i = (i + r.covers) % len(r.signed); ed25519.Verify(key, r.signed[i], r.signature) {
			return i
		}
	}
	return -1
}

// signer returns the key to check a receipt under, nil where there is none, after it has
// answered whether that is one of the caller's.
func (a *acta) signer(r *actaReceipt, j *judgment) ed25519.PublicKey {
	if r.embedded != nil {
		if r.says.issuer == "" {
			r.says.issuer = hex.EncodeToString(r.embedded)
		}
		a.trust(r.embedded, r.kid, j)
		return r.embedded
	}
	if r.says.issuer == "" {
		r.says.issuer = r.kid
	}
	var keys []ed25519.PublicKey
	for _, k := range a.keys {
		if k.Name == r.kid || k.Name == "" {
			keys = append(keys, k.Public.(ed25519.PublicKey))
		}
	}
	for _, key := range keys {
		if r.covered(key) >= 0 {
			return key
		}
	}
	switch {
	case len(keys) > 0:
		return keys[0]
	case len(a.keys) == 0:
		j.find(&j.Signature, Unproven, "no-key", "there is no key to check %.80q with", r.kid)
		j.find(&j.Trust, Unproven, "no-key", "no key is trusted")
	default:
		j.find(&j.Signature, Unproven, "unknown-kid", "%.80q is none of the trusted keys", r.kid)
		j.find(&j.Trust, No, "unknown-kid", "%.80q is none of the trusted keys", r.kid)
	}
	return nil
}

// trust answers whether a key is one of the caller's, under the name that it has there.
func (a *acta) trust(key ed25519.PublicKey, kid string, j *judgment) {
	for _, k := range a.keys {
		if key.Equal(k.Public) && (kid == "" || k.Name == "" || k.Name == kid) {
			return
		}
	}
	if len(a.keys) == 0 {
		j.find(&j.Trust, Unproven, "no-key", "no key is trusted, and one in a receipt proves nothing")
		return
	}
	j.find(&j.Trust, No, "untrusted-key", "%x is none of the trusted keys", []byte(key))
}

// link returns the member that names the receipt before, as far as the signature covers
// it, "" for none. Two that differ are a link to nothing.
func (r *actaReceipt) link() (link string) {
	const genesis = "0000000000000000000000000000000000000000000000000000000000000000"
	places := []*jcs.Value{&r.value, r.payload}
	if r.covers == 1 {
		places = places[1:]
	}
	for _, v := range places {
		for _, name := range [...]string{"previousReceiptHash", "previous_receipt_hash", "parent_receipt_hash", "prev_hash"} {
			if v == nil {
				continue
			}
			if text, ok := v.Member(name).Text(); ok && text != "" && text != "genesis" && strings.TrimPrefix(text, "sha256:") != genesis {
				if link != "" && link != text {
					return link + " and " + text
				}
				link = text
			}
		}
	}
	return link
}

// sequence returns the receipt's own number in its chain.
func (r *actaReceipt) sequence() (int64, bool) {
	if r.payload != nil {
		if n, ok := r.payload.Member("sequence").Int(); ok {
			return n, true
		}
	}
	if r.covers == 1 {
		return 0, false
	}
	return r.value.Member("sequence").Int()
}
