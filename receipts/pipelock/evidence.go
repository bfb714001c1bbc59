package pipelock

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

const evidenceType = "evidence_receipt_v2"

// Evidence is an evidence receipt of version 2 that nobody has verified.
type Evidence struct {
	EventID    string
	Kind       string // payload_kind
	Time       time.Time
	Principal  string
	Actor      string
	KeyID      string // signer_key_id: a name, or 64 hexadecimal digits that are the key
	PolicyHash string
	ActionType string // of a proxy_decision, as are the next three
	Target     string
	Verdict    string
	Transport  string
	PrevHash   string
	Seq        int64

	Hash [sha256.Size]byte

	signed    []byte
	signature [ed25519.SignatureSize]byte
	unsafe    string
}

// The members of an evidence receipt: what each may hold, by its first byte, and
// whether it has to be there. Slots say where a string is kept.
type evidenceMember struct {
	first    string
	required bool
	keep     *string
}

type evidenceMembers map[string]evidenceMember

var canonicalization = map[string]string{
	"jcs_profile":               "pipelock-jcs-rfc8785-nfc-v1",
	"jcs_version":               "rfc8785",
	"hash_alg":                  "sha256",
	"sig_alg":                   "ed25519",
	"redaction_ruleset_id":      "pipelock-transform-v1",
	"redaction_ruleset_version": "1",
	"redaction_ruleset_hash":    "sha256:541896788b42651a202448894583a847db9d1aa081c33a7e1f0512303d72527e",
}

// payloads lists the members of each kind of payload: "name", or "name?" of one that
// may be absent, and behind a colon the first byte of its value where that is not '"'.
var payloads = map[string]string{
	"proxy_decision":               "action_type target verdict transport policy_sources:[ winning_source rule_id?",
	"proxy_decision_with_spans":    "action_type target verdict transport policy_sources:[ winning_source rule_id? source_spans:[",
	"contract_ratified":            "contract_hash ratifier_key_id ratified_rule_ids:[ ratification_decision_per_rule:{",
	"contract_promote_intent":      "target_manifest_hash target_generation:0 prior_manifest_hash intent_id",
	"contract_promote_committed":   "target_manifest_hash prior_manifest_hash intent_id validation_outcome reject_reason?",
	"contract_rollback_authorized": "rollback_target_hash current_generation:0 authorizer_signatures:[ authorization_id",
	"contract_rollback_committed":  "rollback_target_hash prior_manifest_hash authorization_id validation_outcome reject_reason?",
	"contract_demoted":             "contract_hash rule_id demotion_reason prior_state new_state aggregation_window",
	"contract_expired":             "contract_hash rule_id expiration_reason",
	"contract_drift":               "contract_hash rule_id drift_kind observation_summary? missed_windows?:0 opportunity_status?",
	"shadow_delta":                 "contract_hash rule_id original_verdict candidate_verdict aggregation:{",
	"opportunity_missing":          "contract_hash rule_id parent_context historical_opportunity_rate current_opportunity_rate window",
	"key_rotation":                 "key_id key_purpose old_status new_status roster_hash authorization_id",
	"contract_redaction_request":   "target_contract_hash request_kind reason_class authorization_id tombstone_hash",
}

// activation are the kinds of payload that a key for receipts may not sign.
var activation = []string{"contract_promote_intent", "contract_rollback_authorized", "key_rotation", "contract_redaction_request"}

// evidenceReader reads one evidence receipt, and keeps the first fault of the least rank.
type evidenceReader struct {
	e     Evidence
	c     strictjson.Cursor
	fault *Error
	rank  int
}

func (d *evidenceReader) wrong(rank int, code, format string, args ...any) {
	if d.fault == nil || rank < d.rank {
		d.fault, d.rank = wrong(code, format, args...), rank
	}
}

// members reads an object, and returns the text of its members.
func (d *evidenceReader) members(what string, text []byte, want evidenceMembers) map[string][]byte {
	d.c.Reset(text, strictjson.Limits{Size: MaxReceipt, Depth: maxDepth})
	got := make(map[string][]byte, len(want))
	if d.c.Kind() != '{' {
		d.wrong(rankType, codeWrongType, "%s: not an object", what)
		return got
	}
	d.c.Open()
	for {
		name, ok := d.c.Member()
		if !ok {
			break
		}
		m, known := want[string(name)]
		switch k := d.c.Kind(); {
		case !known:
			d.wrong(rankUnknown, codeUnknownField, "%s: %q", what, name)
			d.c.Skip()
		case strings.IndexByte(m.first, k) < 0:
			d.wrong(rankType, codeWrongType, "%s: %s", what, name)
			d.c.Skip()
		case k == '"':
			s := d.c.String()
			if m.keep != nil {
				*m.keep = string(s)
			}
			got[string(name)] = s
		default:
			got[string(name)] = d.c.Skip()
		}
	}
	for name, m := range want {
		if m.required && got[name] == nil {
			d.wrong(rankRequired, codeMissingField, "%s: %s", what, name)
		}
	}
	return got
}

// Evidence reads the text of one evidence receipt.
func (d *Decoder) Evidence(text []byte) (*Evidence, error) {
	text = bytes.Trim(text, " \t\r\n")
	full, signed, err := canonicalEvidence(text)
	if err != nil {
		return nil, err
	}
	r := evidenceReader{}
	e := &r.e
	var record, stamp, purpose, algorithm, signature string
	top := r.members("receipt", text, evidenceMembers{
		"record_type": {`"`, true, &record}, "receipt_version": {"0", true, nil}, "payload_kind": {`"`, true, &e.Kind},
		"canonicalization": {"{", true, nil}, "crit": {"[", true, nil}, "event_id": {`"`, true, &e.EventID},
		"timestamp": {`"`, true, &stamp}, "principal": {`"`, false, &e.Principal}, "actor": {`"`, false, &e.Actor},
		"delegation_chain": {"[", false, nil}, "signature": {"{", true, nil}, "chain_seq": {"0", true, nil},
		"chain_prev_hash": {`"`, true, &e.PrevHash}, "active_manifest_hash": {`"`, false, nil},
		"contract_hash": {`"`, false, nil}, "policy_hash": {`"`, false, &e.PolicyHash}, "selector_id": {`"`, false, nil},
		"contract_generation": {"0", false, nil}, "payload": {"{", true, nil},
	})
	r.members("signature", top["signature"], evidenceMembers{
		"signer_key_id": {`"`, true, &e.KeyID}, "key_purpose": {`"`, true, &purpose},
		"algorithm": {`"`, true, &algorithm}, "signature": {`"`, true, &signature},
	})
	r.profile(top["canonicalization"])
	r.crit(top["crit"])
	r.payload(top["payload"])
	e.Seq, err = strconv.ParseInt(string(top["chain_seq"]), 10, 64)
	if err != nil || e.Seq < 0 {
		r.wrong(rankType, codeWrongType, "chain_seq")
	}
	if string(top["receipt_version"]) != "2" || record != evidenceType {
		r.wrong(rankVersion, codeUnsupportedVersion, "%s, version %.20s", record, top["receipt_version"])
	}
	if e.Time, err = parseTime([]byte(stamp)); err != nil || e.Time.IsZero() {
		r.wrong(rankType, codeWrongType, "timestamp: not a time of RFC 3339")
	}
	want := "receipt-signing"
	if slices.Contains(activation, e.Kind) {
		want = "contract-activation-signing"
	}
	if purpose != want || algorithm != "ed25519" {
		r.wrong(rankRequired, codeInvalidPayload, "%s is for keys with the purpose %s and the algorithm ed25519", e.Kind, want)
	}
	for _, s := range []string{e.EventID, e.KeyID, signature} {
		if s == "" {
			r.wrong(rankRequired, codeMissingField, "event_id, signer_key_id or signature is empty")
		}
	}
	if r.fault != nil {
		return nil, r.fault
	}
	if d.Exact {
		w := canonicalWriter{}
		if again, err := w.write(text); err != nil || !bytes.Equal(again, text) || strings.ToLower(signature) != signature {
			return nil, wrong(codeNotCanonical, "its writer would write it otherwise")
		}
	}
	for name, s := range map[string]string{
		"event_id": e.EventID, "principal": e.Principal, "actor": e.Actor, "target": e.Target, "verdict": e.Verdict,
		"transport": e.Transport, "signer_key_id": e.KeyID, "action_type": e.ActionType,
	} {
		if strings.IndexFunc(s, unicode.IsControl) >= 0 {
			e.unsafe = name
		}
	}
	e.Hash, e.signed = sha256.Sum256(full), signed
	e.signature, _ = parseSignature(signature) // zero verifies under no key
	return e, nil
}

func (d *evidenceReader) profile(text []byte) {
	want, got := evidenceMembers{}, map[string]*string{}
	for name := range canonicalization {
		got[name] = new(string)
		want[name] = evidenceMember{`"`, true, got[name]}
	}
	d.members("canonicalization", text, want)
	for name, value := range canonicalization {
		if *got[name] != value {
			d.wrong(rankVersion, codeUnsupportedVersion, "canonicalization: %s %.80q", name, *got[name])
		}
	}
}

// crit holds the names of what a reader has to know: canonicalization, and source_spans
// where the payload has them.
func (d *evidenceReader) crit(text []byte) {
	spans := d.e.Kind == "proxy_decision_with_spans"
	want := map[string]bool{"canonicalization": true}
	if spans {
		want["source_spans"] = true
	}
	d.c.Reset(text, strictjson.Limits{Size: MaxReceipt, Depth: maxDepth})
	n := 0
	if d.c.Kind() == '[' {
		for d.c.Open(); d.c.Element(); n++ {
			if d.c.Kind() != '"' {
				d.wrong(rankType, codeWrongType, "crit")
				d.c.Skip()
				continue
			}
			name := string(d.c.String())
			if !want[name] {
				d.wrong(rankVersion, codeUnsupportedVersion, "crit: %.80q", name)
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		d.wrong(rankRequired, codeMissingField, "crit: not all that the receipt needs")
	}
}

func (d *evidenceReader) payload(text []byte) {
	list, ok := payloads[d.e.Kind]
	if !ok {
		d.wrong(rankVersion, codeInvalidPayload, "payload_kind %.80q", d.e.Kind)
		return
	}
	e, want := &d.e, evidenceMembers{}
	keep := map[string]*string{"action_type": &e.ActionType, "target": &e.Target, "verdict": &e.Verdict, "transport": &e.Transport}
	outcome := new(string)
	keep["validation_outcome"] = outcome
	for _, item := range strings.Fields(list) {
		name, first, ok := strings.Cut(item, ":")
		if !ok {
			first = `"`
		}
		name, optional := strings.CutSuffix(name, "?")
		want[name] = evidenceMember{first, !optional, keep[name]}
	}
	got := d.members("payload", text, want)
	if _, decides := want["verdict"]; decides {
		if e.ActionType == "" || e.Target == "" || e.Verdict == "" || e.Transport == "" {
			d.wrong(rankRequired, codeMissingField, "payload: action_type, target, verdict or transport is empty")
		}
		hash, ok := strings.CutPrefix(e.PolicyHash, "sha256:")
		if _, err := ParseKey(hash); !ok || err != nil {
			d.wrong(rankRequired, codeMissingField, "policy_hash: want sha256: and 64 lower-case hexadecimal digits")
		}
	}
	if _, has := want["validation_outcome"]; has {
		if *outcome != "accepted" && *outcome != "rejected" || *outcome == "rejected" && len(got["reject_reason"]) == 0 {
			d.wrong(rankRequired, codeInvalidPayload, "validation_outcome %.80q", *outcome)
		}
	}
}

// Unsafe returns the name of an identifier with a control character in it, or "".
func (e *Evidence) Unsafe() string { return e.unsafe }

// Verify reports whether e's signature is one that key made.
func (e *Evidence) Verify(key ed25519.PublicKey) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, e.signed, e.signature[:])
}

// HashText returns e.Hash as the next receipt and an expected head have it.
func (e *Evidence) HashText() string { return hex.EncodeToString(e.Hash[:]) }

// An EvidenceChain holds evidence receipts to their order. Nothing in it marks its end.
type EvidenceChain struct {
	n      int64
	last   link
	recent recent
}

// Len returns how many receipts were in order.
func (c *EvidenceChain) Len() int64 { return c.n }

// Head returns the hash of the last one, "" if there is none.
func (c *EvidenceChain) Head() string {
	if c.n == 0 {
		return ""
	}
	return c.last.text()
}

// Add returns why e is not the next receipt, an [*Error]. After that, c is of no use.
func (c *EvidenceChain) Add(e *Evidence) error {
	want := legacyGenesis
	if c.n > 0 {
		want = c.last.text()
	}
	switch {
	case e.Seq > c.n:
		return wrong(codeGap, "chain_seq %d comes as number %d: receipts before it are missing", e.Seq, c.n)
	case e.Seq < c.n:
		return c.recent.misplaced(link{e.Seq, e.Hash}, e.PrevHash, legacyGenesis)
	case e.PrevHash != want:
		return wrong(codeChainBreak, "chain_prev_hash is %q; want %s", e.PrevHash, want)
	}
	c.n++
	c.last = link{e.Seq, e.Hash}
	c.recent.add(c.last)
	return nil
}
