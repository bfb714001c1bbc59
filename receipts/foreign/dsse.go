package foreign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/truegreen-dev/truegreen/internal/jcs"
	"github.com/truegreen-dev/truegreen/internal/strictjson"
	"github.com/truegreen-dev/truegreen/receipts/dsse"
)

// MaxDSSE is how many bytes an envelope has at most that [NewDSSE] reads.
const MaxDSSE = 24 << 20

const inTotoPayload = "application/vnd.in-toto+json"

// DSSEOptions are the anchors and rules of [NewDSSE].
type DSSEOptions struct {
	Rules
	Keys      []Key // Ed25519, or ECDSA on P-256 or P-384; without a name: for any key id
	Threshold int   // how many of the keys have to have signed; 0: one

	// Types are the predicate types that the keys vouch for, nil for any: a key that
	// signs releases does not say by that what an agent did.
	Types []string
}

// dsseAdapter is the adapter that [NewDSSE] describes.
type dsseAdapter struct {
	rules     Rules
	keys      []dsseKey
	threshold int
	types     []string
}

// NewDSSE returns the adapter of in-toto statements in DSSE envelopes.
//
// # Form
//
// The envelope is what [dsse.ParseForeign] reads; "ed25519:" before the base64 of a
// signature, as Pipelock writes it, is taken off. The payload type is
// application/vnd.in-toto+json, and the payload strict JSON, whose members are told apart by
// case:
//
//	{"_type": "https://in-toto.io/Statement/v1", "subject": [{"name"?, "digest": {ALGORITHM: HEX}}],
//	 "predicateType": URI, "predicate"?: OBJECT}
//
// with 1 to [MaxSubjects] subjects, each with a digest. Other members mean nothing.
//
// # Keys
//
// A key id is a hint that nobody signs. A signature with one is checked under the keys of
// that name, of that SSH fingerprint ("SHA256:…"), and those without a name; one without
// an id under all. Signature is no where no key has made any of those; Trust needs as
// many different keys as the threshold, and that the predicate type is among Types. An
// ECDSA signature is ASN.1, over SHA-256 for P-256 and SHA-384 for P-384.
//
// Of an envelope whose signatures do not hold, nothing is read: what was asked of it is
// unproven.
//
// # What a statement says
//
// The target is any of the subjects: its name, or ALGORITHM:HEX of one of its digests.
// What else there is depends on the predicate type:
//
//	https://in-toto.io/attestation/test-result/v0.1   the verdict: "PASSED" is a yes. What
//	                                                  truegreen states of a verified patch.
//	https://slsa.dev/verification_summary/v1          the same, and a time
//	https://aeoess.com/aps/decision-receipt/v2        tool, arguments, decision and time of an ACTA
//	                                                  passport, see [NewActa]. The envelope's signature
//	                                                  covers it; its own is not checked.
//	https://pipelab.org/attestation/fleet-receipt/v1  a time, and the rules of fleet receipts
//	any other                                         nothing
//
// A statement is told from others by the hash of its payload, and there are no chains.
//
// # Fleet receipts
//
// A fleet receipt reports what audit batches hold. Its schemaVersion is 1 and its
// verificationLevel L1, the only ones that are known. Chain answers whether it agrees with
// itself:
//
//   - batches are of its org and fleet, each once, in the order of instance and sequence,
//     which do not overlap; emitted within the report's window;
//   - a batch has as many events as its sequence has numbers, less only where some were
//     dropped;
//   - the subjects are the batches, in their order: conductor-audit-batch:ORG/FLEET/
//     INSTANCE/BATCH with the envelope's hash;
//   - totals are sums: actions of all batches, by follower of its batches; by transport,
//     action type and verdict together the total, by layer and severity not more;
//   - completeness counts the same actions and drops, and its fraction is that of the
//     mediated ones.
//
// Numbers that are missing between two batches of one instance leave it unproven. The
// batches themselves are not here: L1 does not prove what is in them.
func NewDSSE(o DSSEOptions) (Adapter, error) {
	d := &dsseAdapter{rules: o.Rules, threshold: max(o.Threshold, 1), types: slices.Clone(o.Types)}
	if o.Threshold < 0 || len(o.Keys) > 0 && d.threshold > len(o.Keys) {
		return nil, fmt.Errorf("dsse: threshold %d of %d keys", o.Threshold, len(o.Keys))
	}
	for i, k := range o.Keys {
		key, err := newDSSEKey(k)
		if err != nil {
			return nil, fmt.Errorf("dsse: key %d: %w", i, err)
		}
		for _, other := range d.keys {
			if key.public.Equal(other.public) {
				return nil, fmt.Errorf("dsse: key %d: it is there twice, and would count twice", i)
			}
		}
		d.keys = append(d.keys, key)
	}
	return d, nil
}

// A dsseKey checks signatures of one key.
type dsseKey struct {
	name, fingerprint string
	id                string // under which it answers for the envelope at hand
	public            interface{ Equal(crypto.PublicKey) bool }
}

func newDSSEKey(k Key) (dsseKey, error) {
	d := dsseKey{name: k.Name}
	switch public := k.Public.(type) {
	case ed25519.PublicKey:
		if err := checkEd25519(k); err != nil {
			return dsseKey{}, err
		}
		d.public = public
	case *ecdsa.PublicKey:
		want := map[elliptic.Curve]string{elliptic.P256(): "ES256", elliptic.P384(): "ES384"}[public.Curve]
		if want == "" || k.Algorithm != "" && k.Algorithm != want {
			return dsseKey{}, errors.New("not an ECDSA key on P-256 or P-384 for its own algorithm")
		}
		d.public = public
	default:
		return dsseKey{}, fmt.Errorf("%T: want Ed25519 or ECDSA", k.Public)
	}
	public, err := ssh.NewPublicKey(d.public)
	if err != nil {
		return dsseKey{}, err
	}
	d.fingerprint = ssh.FingerprintSHA256(public)
	return d, nil
}

// KeyID implements [dsse.Verifier].
func (k dsseKey) KeyID() string { return k.id }

var errSignature = errors.New("bad signature")

// Verify implements [dsse.Verifier].
func (k dsseKey) Verify(pae, sig []byte) error {
	ok := false
	switch public := k.public.(type) {
	case ed25519.PublicKey:
		ok = ed25519.Verify(public, pae, sig)
	case *ecdsa.PublicKey:
		if public.Curve == elliptic.P384() {
			sum := sha512.Sum384(pae)
			ok = ecdsa.VerifyASN1(public, sum[:], sig)
		} else {
			sum := sha256.Sum256(pae)
			ok = ecdsa.VerifyASN1(public, sum[:], sig)
		}
	}
	if !ok {
		return errSignature
	}
	return nil
}

func (d *dsseAdapter) Name() string { return "dsse" }

func (d *dsseAdapter) malformed(code, format string, args ...any) error {
	return &MalformedError{Adapter: d.Name(), Code: code, Err: fmt.Errorf(format, args...)}
}

// Verify implements [Adapter].
func (d *dsseAdapter) Verify(ctx context.Context, r io.Reader, b Binding) (Verification, error) {
	text, whole, err := readLimited(ctx, r, MaxDSSE)
	if err != nil {
		return Verification{}, fmt.Errorf("dsse: %w", err)
	}
	if !whole {
		return Verification{}, d.malformed("too-long", "more than %d bytes", MaxDSSE)
	}
	if text, err = withoutPrefix(text); err != nil {
		return Verification{}, d.malformed("not-json", "%w", err)
	}
	envelope, err := dsse.ParseForeign(text)
	if err != nil {
		return Verification{}, d.malformed("not-dsse", "%w", err)
	}
	if envelope.PayloadType() != inTotoPayload {
		return Verification{}, d.malformed("unknown-payload-type", "%.80q", envelope.PayloadType())
	}
	j := judgment{Verification{Adapter: d.Name(), Form: "in-toto v1"}}
	if d.rules.Chain {
		j.find(&j.Chain, No, "no-chain", "statements are no chain")
		j.find(&j.End, No, "no-chain", "statements are no chain")
	}
	payload := d.signers(envelope, &j)
	if payload == nil {
		j.unread(b, &d.rules)
		return j.Verification, nil
	}
	s, err := d.statement(payload, &j)
	if err != nil {
		return Verification{}, err
	}
	sum := sha256.Sum256(payload)
	s.id, s.issuer = hex.EncodeToString(sum[:]), j.Issuer
	j.Receipts, j.Head = 1, "sha256:"+s.id
	j.say(s, b)
	if err := j.fresh(ctx, s, &d.rules); err != nil {
		return Verification{}, fmt.Errorf("dsse: %w", err)
	}
	return j.Verification, nil
}

// withoutPrefix takes the algorithm's name off the signatures of an envelope.
func withoutPrefix(text []byte) ([]byte, error) {
	const prefix = "ed25519:"
	if !bytes.Contains(text, []byte(prefix)) {
		return text, nil
	}
	v, err := jcs.Parse(text, strictjson.Limits{Size: MaxDSSE})
	if err != nil {
		return nil, err
	}
	signatures := v.Member("signatures")
	if signatures == nil {
		return text, nil // what is missing is said where it is looked for
	}
	for i := range signatures.Elements() {
		if sig, ok := signatures.Elements()[i].Member("sig").Text(); ok {
			signatures.Elements()[i].Member("sig").SetText(strings.TrimPrefix(sig, prefix))
		}
	}
	return v.Append(nil), nil
}

// signers answers for the signatures, and returns the payload if one of them is good.
func (d *dsseAdapter) signers(e *dsse.Envelope, j *judgment) (payload []byte) {
	askFor(&j.Signature)
	askFor(&j.Trust)
	ids := e.KeyIDs()
	asked := 0
	var issuers []string
	for _, k := range d.keys {
		k.id = k.name
		if k.name != "" && !slices.Contains(ids, k.name) && slices.Contains(ids, k.fingerprint) {
			k.id = k.fingerprint
		}
		if k.id != "" && !slices.Contains(ids, k.id) && !slices.Contains(ids, "") {
			continue
		}
		asked++
		p, _, err := e.Verify(inTotoPayload, 1, k)
		if err == nil {
			payload = p
			if k.name == "" {
				k.name = k.fingerprint
			}
			issuers = append(issuers, k.name)
		} else if k.id != "" && slices.Contains(ids, k.id) {
			j.find(&j.Signature, No, "signature-invalid", "%.80q did not sign this", k.id)
		}
	}
	j.Issuer = strings.Join(issuers, ", ")
	switch {
	case len(d.keys) == 0:
		j.find(&j.Signature, Unproven, "no-key", "there is no key to check it with")
		j.find(&j.Trust, Unproven, "no-key", "no key is trusted")
	case asked == 0:
		j.find(&j.Signature, Unproven, "unknown-key", "none of the trusted keys has the id of a signature: %.200q", ids)
		j.find(&j.Trust, No, "unknown-key", "no trusted key has signed")
	case len(issuers) == 0:
		if j.Signature != No {
			j.find(&j.Signature, No, "signature-invalid", "no trusted key made one of the signatures")
		}
		j.find(&j.Trust, No, "unknown-key", "no trusted key has signed")
	case len(issuers) < d.threshold:
		j.find(&j.Trust, No, "too-few-signatures", "%d of %d keys that have to have signed", len(issuers), d.threshold)
	}
	return payload
}

// unread answers what was asked of a receipt that nobody has read.
func (j *judgment) unread(b Binding, r *Rules) {
	const code, detail = "not-read", "the signature does not hold, so that nothing is read of it"
	if b.asked() {
		j.find(&j.Binding, Unproven, code, detail)
	}
	if b.Allowed {
		j.find(&j.Decision, Unproven, code, detail)
	}
	if r.MaxAge > 0 || r.Seen != nil {
		j.find(&j.Freshness, Unproven, code, detail)
	}
}
