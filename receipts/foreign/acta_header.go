package foreign

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/jcs"
)

// An actaHeader is the value of an x-agent-trust header, see [NewActa].
type actaHeader struct {
	links       []actaSigned
	attests     []actaSigned
	deny        *actaSigned
	root        string // as the header says
	computed    string
	subject     string
	revoked     bool
	denyRef     string // that the attestations name
	denyPayload string // hash of what is there
}

// An actaSigned is a part of a header with a signature of its own.
type actaSigned struct {
	what      string
	key       ed25519.PublicKey
	message   []byte
	signature []byte
	to        string   // of a link: the key that it delegates to
	scope     []string // of a link
	root      string   // of an attestation
	agent     string   // of an attestation
	revoked   bool
}

const maxHeaderParts = 64 // links and attestations, each

func did(key []byte) string { return "did:aps:" + hex.EncodeToString(key[:len(key)/2]) }

func (r *actaReceipt) trustHeader(f *fields) {
	v := &r.value
	r.form = formHeader
	f.only(v, "trust_header_version", "0.1", "unknown-version")
	h := &actaHeader{root: f.text(v, "delegation_chain_root"), subject: f.text(v, "subject_agent")}
	r.header = h
	if chain := v.Member("delegation_chain"); chain == nil || len(chain.Elements()) == 0 || len(chain.Elements()) > maxHeaderParts {
		f.fail("missing-member", "delegation_chain: want a list of 1 to %d links", maxHeaderParts)
	} else {
		sum := sha256.Sum256(chain.Append(nil))
		h.computed = "sha256:" + hex.EncodeToString(sum[:])
		for i := range chain.Elements() {
			h.link(&chain.Elements()[i], &r.says, f)
		}
	}
	lists := []*jcs.Value{v.Member("attestations")}
	if card := v.Member("agent_card"); card != nil {
		lists = append(lists, f.object(f.object(v, "agent_card"), "trust").Member("signals"))
	}
	for _, list := range lists {
		if list == nil {
			continue
		}
		if list.Kind() != jcs.Array || len(list.Elements()) > maxHeaderParts {
			f.fail("too-many-members", "want a list of at most %d attestations", maxHeaderParts)
			return
		}
		for i := range list.Elements() {
			h.attestation(&list.Elements()[i], &r.says, f)
		}
	}
	if v.Member("deny_receipt") != nil {
		deny := f.object(v, "deny_receipt")
		p := f.object(deny, "payload")
		f.only(p, "type", "deny_receipt", "unknown-type")
		h.deny = f.signed(deny, p, "deny receipt")
		h.deny.agent = f.text(p, "subject_agent")
		sum := sha256.Sum256(p.Append(nil))
		h.denyPayload = "sha256:" + hex.EncodeToString(sum[:])
	}
	if len(h.attests) == 0 {
		f.fail("missing-member", "no attestation")
	}
	for _, m := range v.Members() {
		switch m.Name {
		case "delegation_chain", "delegation_chain_root", "attestations", "deny_receipt":
		case "trust_header_version", "subject_agent", "agent_card":
			r.uncovered = append(r.uncovered, m.Name)
		default:
			f.fail("unknown-member", "%.80q in a header", m.Name)
		}
	}
}

// signed reads the signature beside a payload.
func (f *fields) signed(v, payload *jcs.Value, what string) *actaSigned {
	s := f.object(v, "signature")
	kid, key, signature := f.signature(s)
	out := &actaSigned{what: what, key: key, signature: signature, message: payload.Append(nil)}
	if f.err == nil && (key == nil || kid != did(key)) {
		f.fail("kid-mismatch", "%s: kid %.80q is not that of its key", what, kid)
	}
	return out
}

func (h *actaHeader) link(v *jcs.Value, says *statement, f *fields) {
	unsigned := v.Without("signature")
	s := f.signed(v, &unsigned, "delegation")
	s.to = f.text(v, "delegated_to")
	if by := f.text(v, "delegated_by"); f.err == nil && (by != hex.EncodeToString(s.key) || !isHex(s.to, ed25519.PublicKeySize)) {
		f.fail("kid-mismatch", "a delegation by %.80q to %.80q, signed by %x", by, s.to, []byte(s.key))
	}
	f.time(v, "issued_at")
	if expires := f.time(v, "expires_at"); says.expires.IsZero() || expires.Before(says.expires) {
		says.expires = expires
	}
	switch status := f.optional(v, "status"); status {
	case "", "active":
	case "revoked":
		s.revoked, h.revoked = true, true
	default:
		f.fail("unknown-status", "%.80q", status)
	}
	scope := v.Member("scope")
	if scope == nil || scope.Kind() != jcs.Array {
		f.fail("missing-member", "scope: want a list")
		return
	}
	for i := range scope.Elements() {
		name, ok := scope.Elements()[i].Text()
		if !ok {
			f.fail("wrong-type", "scope: want strings")
		}
		s.scope = append(s.scope, name)
	}
	h.links = append(h.links, *s)
}

func (h *actaHeader) attestation(v *jcs.Value, says *statement, f *fields) {
	p := f.object(v, "payload")
	s := f.signed(v, p, "attestation")
	s.agent, s.root = f.text(p, "agent_id"), f.text(p, "delegation_chain_root")
	if issuer := f.text(p, "issuer"); f.err == nil && issuer != did(s.key) {
		f.fail("kid-mismatch", "an attestation by %.80q, signed by %s", issuer, did(s.key))
	}
	if ref := f.optional(p, "deny_receipt_ref"); ref != "" {
		h.denyRef = ref
	}
	says.said, says.issuer, says.issued = f.text(p, "trust_level"), f.text(p, "issuer"), f.time(p, "issued_at")
	h.attests = append(h.attests, *s)
}

// checkHeader answers for what a trust header says.
func (a *acta) checkHeader(r *actaReceipt, j *judgment) {
	h := r.header
	askFor(&j.Chain)
	parts := slices.Concat(h.links, h.attests)
	if h.deny != nil {
		parts = append(parts, *h.deny)
	}
	delegated := map[string]bool{}
	for _, s := range parts {
		if !ed25519.Verify(s.key, s.message, s.signature) {
			j.find(&j.Signature, No, "signature-invalid", "%s by %s: the key did not sign this", s.what, did(s.key))
		}
		if s.to == "" || !delegated[string(s.key)] {
			a.trust(s.key, did(s.key), j)
		}
		if to, err := hex.DecodeString(s.to); err == nil && s.to != "" && !s.revoked {
			delegated[string(to)] = true
		}
		if s.agent != "" && s.agent != h.subject {
			j.find(&j.Chain, No, "subject-mismatch", "%s about %.80q, in a header about %.80q", s.what, s.agent, h.subject)
		}
		if s.root != "" && s.root != h.root {
			j.find(&j.Chain, No, "root-drift", "an attestation about %.80q, beside the root %.80q", s.root, h.root)
		}
	}
	j.Violations = dedupe(j.Violations, 0)
	if h.root != h.computed {
		j.find(&j.Chain, No, "root-mismatch", "the root is %.80q, the delegations have %s", h.root, h.computed)
	}
	h.checkLinks(j)
	if h.deny != nil && h.denyRef != "" && h.denyRef != h.denyPayload {
		j.find(&j.Chain, No, "deny-receipt-mismatch", "the attestation names %.80q, there is %s", h.denyRef, h.denyPayload)
	}
	if h.revoked {
		r.says.said = "deny"
		j.find(&j.Decision, No, "revoked", "a delegation to the agent was revoked")
	}
}

// checkLinks answers whether the delegations follow each other.
func (h *actaHeader) checkLinks(j *judgment) {
	for i := 1; i < len(h.links); i++ {
		before, l := &h.links[i-1], &h.links[i]
		again := l.to == before.to && l.key.Equal(before.key) // a change of status
		if !again && hex.EncodeToString(l.key) != before.to {
			j.find(&j.Chain, No, "broken-delegation", "delegation %d is by another than the one before is to", i)
		}
		for _, name := range l.scope {
			if !slices.Contains(before.scope, name) {
				j.find(&j.Chain, No, "widened-scope", "delegation %d has %.80q, which the one before has not", i, name)
				break
			}
		}
	}
	last := h.links[len(h.links)-1]
	if !strings.HasPrefix("did:aps:"+last.to, h.subject) || len(h.subject) != len("did:aps:")+ed25519.PublicKeySize {
		j.find(&j.Chain, No, "subject-mismatch", "the last delegation is to %.80q, the header is about %.80q", last.to, h.subject)
	}
}
