package foreign

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/internal/jcs"
	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

// actaKey is the key of the public vectors: a seed of zeros that ends in 1.
func actaKey(last byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[ed25519.SeedSize-1] = last
	return ed25519.NewKeyFromSeed(seed)
}

func publicOf(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// day is when the receipts of these tests are made.
var day = time.Date(2026, 4, 18, 12, 0, 0, 0, time.UTC)

func clock(t time.Time) func() time.Time { return func() time.Time { return t } }

// object is JSON of which a test changes parts.
type object = map[string]any

func canonicalOf(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jcs.Parse(text, strictjson.Limits{Depth: 64})
	if err != nil {
		t.Fatal(err)
	}
	return value.Append(nil)
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func without(o object, names ...string) object {
	out := object{}
	for name, v := range o {
		out[name] = v
	}
	for _, name := range names {
		delete(out, name)
	}
	return out
}

func flatReceipt() object {
	return object{
		"receipt_id": "rcpt-1", "receipt_version": "1.0", "tool_name": "Read", "decision": "allow",
		"policy_id": "p", "timestamp": "2026-04-18T12:00:00Z", "tool_input": object{"file_path": "./README.md"},
	}
}

func signFlat(t testing.TB, key ed25519.PrivateKey, o object) object {
	o["public_key"] = hex.EncodeToString(publicOf(key))
	o["signature"] = hex.EncodeToString(ed25519.Sign(key, canonicalOf(t, without(o, "signature"))))
	return o
}

func envelopePayload() object {
	return object{
		"type": "scopeblind.receipt.v1", "decision": "allow", "action": object{"kind": "exec", "target": "/usr/bin/git"},
		"policy_id": "p", "sequence": 1, "prev_hash": "genesis", "timestamp": "2026-04-18T12:00:00Z",
	}
}

// signEnvelope signs the payload, or with whole the rest of the envelope too.
func signEnvelope(t testing.TB, key ed25519.PrivateKey, payload object, whole bool) object {
	o := object{"payload": payload, "pubkey": hex.EncodeToString(publicOf(key))}
	signed := any(payload)
	if whole {
		signed = o
	}
	signature := hex.EncodeToString(ed25519.Sign(key, canonicalOf(t, signed)))
	o = without(o)
	o["signature"] = signature
	return o
}

func signPassport(t testing.TB, key ed25519.PrivateKey, o object) object {
	o["signature"] = hex.EncodeToString(ed25519.Sign(key, canonicalOf(t, without(o, "signature"))))
	return o
}

func passportReceipt() object {
	return object{
		"v": 2, "type": "decision_receipt", "algorithm": "ed25519", "kid": "k", "issuer": "gw", "issued_at": "2026-04-18T12:00:00Z",
		"payload": object{"decision": "allow", "tool": "http.get", "request_id": "req-1", "params_hash": "sha256:" + strings.Repeat("ab", 32)},
	}
}

func newActa(t testing.TB, o ActaOptions) Adapter {
	t.Helper()
	if o.Now == nil {
		o.Now = clock(day)
	}
	a, err := NewActa(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func verify(t testing.TB, a Adapter, text []byte, b Binding) Verification {
	t.Helper()
	v, err := a.Verify(context.Background(), bytes.NewReader(text), b)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	holds(t, &v)
	return v
}

// holds fails unless every answer that is not yes has a violation, and no receipt that is
// in order has one.
func holds(t testing.TB, v *Verification) {
	t.Helper()
	bad := 0
	for _, a := range v.Answers() {
		if a.Answer == No || a.Answer == Unproven {
			bad++
		}
	}
	if (bad == 0) != (len(v.Violations) == 0) || bad > len(v.Violations) {
		t.Errorf("%d answers are not yes, for %v", bad, v.Violations)
	}
}

func codes(v *Verification) string {
	var list []string
	for _, v := range v.Violations {
		list = append(list, v.Code)
	}
	return strings.Join(list, " ")
}

func malformedCode(err error) string {
	var m *MalformedError
	if errors.As(err, &m) {
		return m.Code
	}
	return fmt.Sprintf("not malformed: %v", err)
}

func TestActaForms(t *testing.T) {
	t.Parallel()
	key, other := actaKey(1), actaKey(2)
	trusted := []Key{{Public: publicOf(key)}}
	named := []Key{{Name: "k", Public: publicOf(key)}, {Name: "l", Public: publicOf(other)}}
	changed := func(o object, name string, to any) object { o = without(o); o[name] = to; return o }
	for _, c := range []struct {
		name      string
		receipt   object
		keys      []Key
		signature Answer
		trust     Answer
		codes     string
		uncovered string
	}{
		{"flat", signFlat(t, key, flatReceipt()), trusted, Yes, Yes, "", ""},
		{"flat, no key", signFlat(t, key, flatReceipt()), nil, Yes, Unproven, "no-key", ""},
		{"flat, its own key", signFlat(t, other, flatReceipt()), trusted, Yes, No, "untrusted-key", ""},
		{"flat, unknown member", signFlat(t, key, changed(flatReceipt(), "x", []any{1.5})), trusted, Yes, Yes, "", ""},
		{"flat, member added", changed(signFlat(t, key, flatReceipt()), "x", 1), trusted, No, Yes, "signature-invalid", ""},
		{"flat, decision changed", changed(signFlat(t, key, flatReceipt()), "decision", "deny"), trusted, No, Yes, "signature-invalid", ""},
		{"flat, member removed", without(signFlat(t, key, flatReceipt()), "tool_input"), trusted, No, Yes, "signature-invalid", ""},
		{"flat, key replaced", changed(signFlat(t, key, flatReceipt()), "public_key", hex.EncodeToString(publicOf(other))), trusted, No, No, "untrusted-key signature-invalid", ""},
		{"envelope", signEnvelope(t, key, envelopePayload(), true), trusted, Yes, Yes, "", ""},
		{"envelope of the payload", signEnvelope(t, key, envelopePayload(), false), trusted, Yes, Yes, "", "pubkey"},
		{"envelope, member added", changed(signEnvelope(t, key, envelopePayload(), true), "x", 1), trusted, No, Yes, "signature-invalid", ""},
		{"envelope of the payload, member added", changed(signEnvelope(t, key, envelopePayload(), false), "x", 1), trusted, Yes, Yes, "", "pubkey x"},
		{"envelope, self-made", signEnvelope(t, other, envelopePayload(), false), trusted, Yes, No, "untrusted-key", "pubkey"},
		{"passport", signPassport(t, key, passportReceipt()), named, Yes, Yes, "", ""},
		{"passport, key without a name", signPassport(t, key, passportReceipt()), trusted, Yes, Yes, "", ""},
		{"passport, kid of another", signPassport(t, key, changed(passportReceipt(), "kid", "l")), named, No, Yes, "signature-invalid", ""},
		{"passport, unknown kid", signPassport(t, key, changed(passportReceipt(), "kid", "m")), named, Unproven, No, "unknown-kid unknown-kid", ""},
		{"passport, no key", signPassport(t, key, passportReceipt()), nil, Unproven, Unproven, "no-key no-key", ""},
	} {
		v := verify(t, newActa(t, ActaOptions{Keys: c.keys}), canonicalOf(t, c.receipt), Binding{})
		if v.Signature != c.signature || v.Trust != c.trust || codes(&v) != c.codes || strings.Join(v.Uncovered, " ") != c.uncovered {
			t.Errorf("%s: signature %s, trust %s, %v, uncovered %q", c.name, v.Signature, v.Trust, v.Violations, v.Uncovered)
		}
		if want := c.signature == Yes && c.trust == Yes; v.Trusted() != want {
			t.Errorf("%s: trusted is %t", c.name, !want)
		}
	}
}

func TestActaBinding(t *testing.T) {
	t.Parallel()
	key := actaKey(1)
	flat, passport := signFlat(t, key, flatReceipt()), signPassport(t, key, passportReceipt())
	envelope := signEnvelope(t, key, envelopePayload(), false)
	denied := flatReceipt()
	denied["decision"] = "deny"
	denied = signFlat(t, key, denied)
	two := flatReceipt()
	two["input_hash"] = "sha256:" + strings.Repeat("00", 32)
	two = signFlat(t, key, two)
	tool := envelopePayload()
	tool["action"] = object{"kind": "tool", "target": "Bash"}
	input := "sha256:" + sumOf([]byte(`{"file_path":"./README.md"}`))
	for _, c := range []struct {
		name    string
		receipt object
		b       Binding
		codes   string
	}{
		{"nothing", flat, Binding{}, ""},
		{"nothing, of a denial", denied, Binding{}, ""},
		{"tool", flat, Binding{Tool: "Read", ArgHash: input, Allowed: true}, ""},
		{"other tool", flat, Binding{Tool: "read"}, "tool-mismatch"},
		{"other arguments", flat, Binding{ArgHash: "sha256:" + strings.Repeat("0", 64)}, "arg-hash-mismatch"},
		{"hash that is not the arguments'", two, Binding{ArgHash: input}, "arg-hash-mismatch"},
		{"target of flat", flat, Binding{Target: "x"}, "no-target"},
		{"denied", denied, Binding{Allowed: true}, "not-allowed"},
		{"passport", passport, Binding{Tool: "http.get", ArgHash: "sha256:" + strings.Repeat("ab", 32), Allowed: true}, ""},
		{"envelope", envelope, Binding{Tool: "exec", Target: "/usr/bin/git", Allowed: true}, ""},
		{"envelope, other target", envelope, Binding{Target: "/usr/bin/gi"}, "target-mismatch"},
		{"envelope, arguments", envelope, Binding{ArgHash: input}, "no-arg-hash"},
		{"envelope of a tool", signEnvelope(t, key, tool, true), Binding{Tool: "Bash"}, ""},
	} {
		v := verify(t, newActa(t, ActaOptions{Keys: []Key{{Public: publicOf(key)}}}), canonicalOf(t, c.receipt), c.b)
		if codes(&v) != c.codes || v.Trusted() != (c.codes == "") {
			t.Errorf("%s: %v", c.name, v.Violations)
		}
	}
}

// seenMap is a Seen for tests.
type seenMap map[string]time.Time

func (s seenMap) Add(_ context.Context, issuer, id string, until time.Time) (bool, error) {
	if id == "error" {
		return false, io.ErrClosedPipe
	}
	_, old := s[issuer+" "+id]
	s[issuer+" "+id] = until
	return !old, nil
}

func TestActaFreshness(t *testing.T) {
	t.Parallel()
	key := actaKey(1)
	receipt := func(expires string) []byte {
		o := flatReceipt()
		if expires != "" {
			o["expires_at"] = expires
		}
		return canonicalOf(t, signFlat(t, key, o))
	}
	keys := []Key{{Public: publicOf(key)}}
	for _, c := range []struct {
		name    string
		rules   Rules
		expires string
		is      Answer
		codes   string
	}{
		{"not asked", Rules{Now: clock(day.AddDate(9, 0, 0))}, "", NotAsked, ""},
		{"from the future", Rules{Now: clock(day.Add(-61 * time.Second))}, "", No, "from-the-future"},
		{"clocks differ", Rules{Now: clock(day.Add(-59 * time.Second))}, "", NotAsked, ""},
		{"age", Rules{Now: clock(day.Add(time.Hour)), MaxAge: time.Hour}, "", Yes, ""},
		{"too old", Rules{Now: clock(day.Add(time.Hour + 61*time.Second)), MaxAge: time.Hour}, "", No, "too-old"},
		{"not expired", Rules{Now: clock(day.Add(time.Hour))}, "2026-04-18T13:00:00Z", Yes, ""},
		{"expired", Rules{Now: clock(day.Add(time.Hour + time.Minute))}, "2026-04-18T13:00:00Z", No, "expired"},
	} {
		v := verify(t, newActa(t, ActaOptions{Rules: c.rules, Keys: keys}), receipt(c.expires), Binding{})
		if v.Freshness != c.is || codes(&v) != c.codes {
			t.Errorf("%s: %s, %v", c.name, v.Freshness, v.Violations)
		}
	}

	store := seenMap{}
	a := newActa(t, ActaOptions{Rules: Rules{Seen: store, MaxAge: time.Hour}, Keys: keys})
	forged := signFlat(t, actaKey(2), flatReceipt())
	if v := verify(t, a, canonicalOf(t, forged), Binding{}); v.Freshness != Unproven || len(store) != 0 {
		t.Errorf("a forged receipt uses up an id: %v", v.Violations)
	}
	if v := verify(t, a, receipt(""), Binding{Tool: "other"}); v.Freshness != Unproven || len(store) != 0 {
		t.Errorf("a receipt that is about another call uses up an id: %v", v.Violations)
	}
	for i, want := range []Answer{Yes, No} {
		if v := verify(t, a, receipt(""), Binding{}); v.Freshness != want {
			t.Errorf("time %d: %v", i, v.Violations)
		}
	}
	if until := store[hex.EncodeToString(publicOf(key))+" rcpt-1"]; !until.Equal(day.Add(time.Hour + 2*time.Minute)) {
		t.Errorf("remembered until %s", until)
	}
	// What is not signed does not make another receipt of one that was seen.
	envelope := signEnvelope(t, key, envelopePayload(), false)
	padded := without(envelope)
	padded["x"] = 1
	for i, want := range []Answer{Yes, No} {
		if v := verify(t, a, canonicalOf(t, []object{envelope, padded}[i]), Binding{}); v.Freshness != want {
			t.Errorf("envelope %d: %v", i, v.Violations)
		}
	}
	o := flatReceipt()
	o["receipt_id"] = "error"
	if v, err := a.Verify(context.Background(), bytes.NewReader(canonicalOf(t, signFlat(t, key, o))), Binding{}); !errors.Is(err, io.ErrClosedPipe) || v.Adapter != "" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestActaMalformed(t *testing.T) {
	t.Parallel()
	key := actaKey(1)
	good := string(canonicalOf(t, signFlat(t, key, flatReceipt())))
	passport := string(canonicalOf(t, signPassport(t, key, passportReceipt())))
	envelope := string(canonicalOf(t, signEnvelope(t, key, envelopePayload(), false)))
	swap := func(text, from, to string) string {
		if !strings.Contains(text, from) {
			t.Fatalf("no %s in %s", from, text)
		}
		return strings.Replace(text, from, to, 1)
	}
	for _, c := range []struct{ name, text, code string }{
		{"empty", "", "not-json"},
		{"array", "[]", "not-json"},
		{"two", good + good, "not-json"},
		{"duplicate", swap(good, `{`, `{"decision":"deny",`), "not-json"},
		{"duplicate at depth", swap(good, `{"file_path"`, `{"file\u005fpath":"x","file_path"`), "not-json"},
		{"lone surrogate", swap(good, `./README.md`, `\ud800`), "not-json"},
		{"not UTF-8", swap(good, `./README.md`, "\xff"), "not-json"},
		{"no form", `{"decision":"allow"}`, "unknown-form"},
		{"other version", swap(good, `"1.0"`, `"1.1"`), "unknown-version"},
		{"version is a number", swap(good, `"1.0"`, `1`), "wrong-type"},
		{"no tool", swap(good, `"tool_name"`, `"tool_nam"`), "missing-member"},
		{"tool in another case", swap(good, `"tool_name"`, `"Tool_name"`), "missing-member"},
		{"tool is null", swap(good, `"tool_name":"Read"`, `"tool_name":null`), "missing-member"},
		{"tool is a list", swap(good, `"tool_name":"Read"`, `"tool_name":["Read"]`), "wrong-type"},
		{"long tool", swap(good, `"Read"`, `"`+strings.Repeat("R", 1025)+`"`), "too-long"},
		{"time with a blank", swap(good, `12:00:00Z`, `12:00:00 Z`), "not-a-time"},
		{"time with a comma", swap(good, `12:00:00Z`, `12:00:00,5Z`), "not-a-time"},
		{"passport of v 1", swap(passport, `"v":2`, `"v":1`), "unknown-version"},
		{"passport of v 2 as a string", swap(passport, `"v":2`, `"v":"2"`), "unknown-version"},
		{"passport of another type", swap(passport, `decision_receipt`, `decision_receipts`), "unknown-type"},
		{"passport with another algorithm", swap(passport, `"ed25519"`, `"none"`), "unknown-algorithm"},
		{"passport without a payload", swap(passport, `"payload"`, `"payloaf"`), "missing-member"},
		{"envelope of another type", swap(envelope, `receipt.v1`, `receipt.v2`), "unknown-type"},
		{"envelope without an action", swap(envelope, `"action"`, `"actiom"`), "missing-member"},
		{"envelope with a sequence of 1.5", swap(envelope, `"sequence":1`, `"sequence":1.5`), "missing-member"},
		{"too long", `"` + strings.Repeat("x", MaxActa) + `"`, "too-long"},
		{"deep", swap(good, `"./README.md"`, strings.Repeat("[", 40)+strings.Repeat("]", 40)), "not-json"},
	} {
		v, err := newActa(t, ActaOptions{}).Verify(context.Background(), strings.NewReader(c.text), Binding{})
		if malformedCode(err) != c.code || v.Adapter != "" {
			t.Errorf("%s: %v, %+v", c.name, err, v)
		}
	}
	for name, from := range map[string]string{"signature": `"signature":"`, "key": `"public_key":"`} {
		at := strings.Index(good, from) + len(from)
		for text, code := range map[string]string{
			good[:at] + good[at+2:]:                                    "not-hex", // a byte less
			good[:at] + "00" + good[at:]:                               "not-hex",
			good[:at] + "g" + good[at+1:]:                              "not-hex",
			good[:at] + strings.ToUpper(good[at:at+64]) + good[at+64:]: "not-hex",
		} {
			if _, err := newActa(t, ActaOptions{}).Verify(context.Background(), strings.NewReader(text), Binding{}); malformedCode(err) != code {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// One number has one canonical form, however it is spelled; another number has another.
func TestActaNumbers(t *testing.T) {
	t.Parallel()
	key := actaKey(1)
	text := canonicalOf(t, signEnvelope(t, key, envelopePayload(), false))
	a := newActa(t, ActaOptions{Keys: []Key{{Public: publicOf(key)}}})
	for spelling, want := range map[string]Answer{"1": Yes, "1.0": Yes, "1e0": Yes, "2": No, "-1": No} {
		changed := bytes.Replace(text, []byte(`"sequence":1`), []byte(`"sequence":`+spelling), 1)
		if v := verify(t, a, changed, Binding{}); v.Signature != want {
			t.Errorf("%s: %v", spelling, v.Violations)
		}
	}
}

func TestActaKeys(t *testing.T) {
	t.Parallel()
	wrong, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := publicOf(actaKey(1))
	for name, k := range map[string]Key{
		"none": {}, "secret": {Secret: make([]byte, 32)}, "ECDSA": {Public: wrong.Public()}, "short": {Public: public[:31]}, "for another algorithm": {Public: public, Algorithm: "ES256"},
	} {
		if a, err := NewActa(ActaOptions{Keys: []Key{k}}); !errors.Is(err, errKeyType) || a != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, head := range []string{"x", "sha256:", strings.Repeat("A", 64)} {
		if a, err := NewActa(ActaOptions{Rules: Rules{Head: head}}); err == nil || a != nil {
			t.Errorf("head %q is one", head)
		}
	}
}

// No byte of a receipt can change: what still is JSON of the form has a bad signature,
// unless it means the same.
func TestActaMutations(t *testing.T) {
	t.Parallel()
	key := actaKey(1)
	keys := []Key{{Public: publicOf(key)}}
	for name, receipt := range map[string]object{
		"flat": signFlat(t, key, flatReceipt()), "envelope": signEnvelope(t, key, envelopePayload(), true), "passport": signPassport(t, key, passportReceipt()),
	} {
		text := canonicalOf(t, receipt)
		a := newActa(t, ActaOptions{Keys: keys})
		for i := range text {
			for _, flip := range []byte{1, 0x20, 0x80} {
				changed := bytes.Clone(text)
				changed[i] ^= flip
				v, err := a.Verify(context.Background(), bytes.NewReader(changed), Binding{})
				if err == nil && v.Trusted() && !bytes.Equal(canonicalJSON(changed), text) {
					t.Errorf("%s: byte %d: %s is trusted", name, i, changed)
				}
			}
		}
	}
}

func canonicalJSON(text []byte) []byte {
	v, err := jcs.Parse(text, strictjson.Limits{})
	if err != nil {
		return nil
	}
	return v.Append(nil)
}

// A linker makes chains.
type linker struct {
	key  ed25519.PrivateKey
	link func(receipt object) string
	form string
}

func (l linker) chain(t testing.TB, n int) []object {
	var out []object
	link := ""
	for i := range n {
		out = append(out, l.next(t, i+1, link))
		link = l.link(out[i])
	}
	return out
}

func (l linker) next(t testing.TB, sequence int, link string) object {
	switch l.form {
	case formFlat:
		o := flatReceipt()
		o["receipt_id"], o["sequence"] = fmt.Sprintf("rcpt-%d", sequence), sequence
		if link != "" {
			o["parent_receipt_hash"] = link
		}
		return signFlat(t, l.key, o)
	case formPassport:
		o := passportReceipt()
		payload := without(o["payload"].(object))
		payload["sequence"] = sequence
		if link != "" {
			payload["previousReceiptHash"] = link
		}
		o["payload"] = payload
		return signPassport(t, l.key, o)
	}
	o := envelopePayload()
	o["sequence"] = sequence
	if link != "" {
		o["prev_hash"] = link
	}
	return signEnvelope(t, l.key, o, false)
}

func lines(t testing.TB, receipts ...object) []byte {
	var out []byte
	for _, r := range receipts {
		out = append(append(out, canonicalOf(t, r)...), '\n')
	}
	return out
}

// The links that tools in use write.
func TestActaLinks(t *testing.T) {
	t.Parallel()
	key := actaKey(1)
	whole := func(o object) string { return sumOf(canonicalOf(t, o)) }
	payload := func(o object) string { return sumOf(canonicalOf(t, o["payload"])) }
	for name, l := range map[string]linker{
		"draft":             {key, whole, formPassport},
		"draft, flat":       {key, whole, formFlat},
		"whole, prefixed":   {key, func(o object) string { return "sha256:" + whole(o) }, formEnvelope},
		"payload, prefixed": {key, func(o object) string { return "sha256:" + payload(o) }, formEnvelope},
		"payload":           {key, payload, formPassport},
		"what is signed":    {key, func(o object) string { return sumOf(canonicalOf(t, without(o, "signature"))) }, formFlat},
		"without the key":   {key, func(o object) string { return sumOf(canonicalOf(t, without(o, "signature", "public_key"))) }, formFlat},
		"base64url": {key, func(o object) string {
			sum := sha256.Sum256(canonicalOf(t, o))
			return base64.RawURLEncoding.EncodeToString(sum[:])
		}, formFlat},
	} {
		receipts := l.chain(t, 4)
		head := whole(receipts[3])
		v := verify(t, newActa(t, ActaOptions{Rules: Rules{Chain: true, Head: head}, Keys: []Key{{Public: publicOf(key)}}}), lines(t, receipts...), Binding{})
		if !v.Trusted() || v.Receipts != 4 || v.Head != "sha256:"+head || v.EndProof != "expected-head" {
			t.Errorf("%s: %+v", name, v)
		}
	}
	// One chain has one kind of link.
	mixed := linker{key, nil, formEnvelope}
	first := mixed.next(t, 1, "")
	second := mixed.next(t, 2, whole(first))
	third := mixed.next(t, 3, payload(second))
	v := verify(t, newActa(t, ActaOptions{Rules: Rules{Chain: true}}), lines(t, first, second, third), Binding{})
	if v.Chain != No || codes(&v) != "no-key link-mismatch not-reached" || v.Receipts != 2 {
		t.Errorf("two kinds of links: %v", v.Violations)
	}
}

func TestActaChains(t *testing.T) {
	t.Parallel()
	key, other := actaKey(1), actaKey(2)
	whole := func(o object) string { return sumOf(canonicalOf(t, o)) }
	l := linker{key, whole, formFlat}
	r := l.chain(t, 5)
	tampered := without(r[2])
	tampered["decision"] = "deny"
	resigned := without(r[2], "signature")
	resigned["decision"] = "deny"
	resigned = signFlat(t, key, resigned)
	sibling := without(r[3], "signature")
	sibling["tool_name"] = "Write"
	sibling = signFlat(t, key, sibling)
	foreign := without(r[4], "signature")
	foreign = signFlat(t, other, foreign)
	unnumbered := func(link string) object {
		o := flatReceipt()
		if link != "" {
			o["parent_receipt_hash"] = link
		}
		return signFlat(t, key, o)
	}
	first := unnumbered("")
	wrongNumber := l.next(t, 7, whole(r[1]))
	two := l.next(t, 2, "")
	two["parent_receipt_hash"], two["prev_hash"] = whole(r[0]), whole(r[1])
	two = signFlat(t, key, without(two, "signature"))
	for _, c := range []struct {
		name     string
		receipts []object
		head     string
		codes    string
		seq      int64 // of the first violation; -1: none by itself
		count    int64
	}{
		{"whole", r, whole(r[4]), "", -1, 5},
		{"end not known", r, "", "end-unproven", -1, 5},
		{"prefix", r[:3], whole(r[4]), "head-mismatch", -1, 3},
		{"goes on behind the head", r, whole(r[2]), "head-not-last", -1, 5},
		{"gap", []object{r[0], r[1], r[3]}, "", "gap not-reached", 2, 2},
		{"start missing", r[1:], "", "no-genesis not-reached", 0, 0},
		{"reordered", []object{r[0], r[1], r[3], r[2]}, "", "gap not-reached", 2, 2},
		{"back", []object{r[0], r[1], r[2], r[1]}, "", "reordered not-reached", 3, 3},
		{"duplicate", []object{r[0], r[1], r[1]}, "", "duplicate not-reached", 2, 2},
		{"fork", []object{r[0], r[1], r[2], r[3], sibling}, "", "fork not-reached", 4, 4},
		{"tampered", []object{r[0], r[1], tampered, r[3]}, "", "signature-invalid not-reached", 2, 2},
		{"replaced by its signer", []object{r[0], r[1], resigned, r[3]}, "", "link-mismatch not-reached", 3, 3},
		{"one of another key", []object{r[0], r[1], r[2], r[3], foreign}, whole(foreign), "untrusted-key", 4, 5},
		{"wrong number", []object{r[0], r[1], wrongNumber}, "", "sequence-mismatch not-reached", 2, 2},
		{"without numbers", []object{first, unnumbered(whole(first))}, "", "end-unproven", -1, 2},
		{"without numbers, fork", []object{first, unnumbered(whole(first)), func() object {
			o := without(unnumbered(whole(first)), "signature")
			o["tool_name"] = "Write"
			return signFlat(t, key, o)
		}()}, "", "fork not-reached", 2, 2},
		{"without numbers, restart", []object{first, unnumbered(whole(first)), first}, "", "restart not-reached", 2, 2},
		{"number lost", []object{r[0], unnumbered(whole(r[0]))}, "", "sequence-mismatch not-reached", 1, 1},
		{"two links", []object{r[0], two}, "", "link-mismatch not-reached", 1, 1},
		{"mixed forms", []object{r[0], linker{key, whole, formPassport}.next(t, 2, whole(r[0]))}, "", "mixed-forms not-reached", 1, 1},
	} {
		a := newActa(t, ActaOptions{Rules: Rules{Chain: true, Head: c.head}, Keys: []Key{{Public: publicOf(key)}}})
		v := verify(t, a, lines(t, c.receipts...), Binding{})
		if codes(&v) != c.codes || v.Receipts != c.count {
			t.Errorf("%s: %d receipts, %v", c.name, v.Receipts, v.Violations)
			continue
		}
		if c.codes != "" {
			if s := v.Violations[0].Seq; (s == nil) != (c.seq < 0) || s != nil && *s != c.seq {
				t.Errorf("%s: %v", c.name, v.Violations)
			}
		}
	}
	for _, c := range []struct {
		name, text, code string
		line             int64
	}{
		{"empty", "", "empty", 0},
		{"empty line", string(lines(t, r[0])) + "\n", "not-json", 2},
		{"torn", string(lines(t, r[0], r[1])[:len(lines(t, r[0]))+40]), "torn-line", 2},
		{"garbage", string(lines(t, r[0])) + "x\n", "not-json", 2},
		{"long line", string(lines(t, r[0])) + strings.Repeat("x", MaxActa+1), "too-long", 2},
	} {
		a := newActa(t, ActaOptions{Rules: Rules{Chain: true}, Keys: []Key{{Public: publicOf(key)}}})
		_, err := a.Verify(context.Background(), strings.NewReader(c.text), Binding{})
		var m *MalformedError
		if !errors.As(err, &m) || m.Code != c.code || m.Line != c.line {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, chain := range []bool{false, true} {
		if _, err := newActa(t, ActaOptions{Rules: Rules{Chain: chain}}).Verify(ctx, bytes.NewReader(lines(t, r[0])), Binding{}); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: %v", err)
		}
	}
}

// A chain takes the memory of two receipts, however long it is. TRUEGREEN_FULL=1 has
// 100,000 of them.
func TestActaLongChain(t *testing.T) {
	if testing.Short() {
		t.Skip("many receipts take seconds")
	}
	n := 20_001
	if os.Getenv("TRUEGREEN_FULL") != "" {
		n = 100_000
	}
	key := actaKey(1)
	run := func(n int) (peak uint64) {
		read, write := io.Pipe()
		go func() {
			prefix, suffix := []byte(nil), []byte(nil)
			link := "genesis"
			for i := range n {
				payload := fmt.Appendf(nil, `{"action":{"kind":"exec","target":"/bin/true"},"decision":"allow","prev_hash":"%s","sequence":%d,"timestamp":"2026-04-18T12:00:00Z","type":"scopeblind.receipt.v1"}`, link, i+1)
				sum := sha256.Sum256(payload)
				link = "sha256:" + hex.EncodeToString(sum[:])
				prefix = fmt.Appendf(prefix[:0], `{"payload":%s,"pubkey":"%x",`, payload, []byte(publicOf(key)))
				suffix = fmt.Appendf(suffix[:0], "\"signature\":\"%x\"}\n", ed25519.Sign(key, payload))
				if _, err := write.Write(append(prefix, suffix...)); err != nil {
					return
				}
				if i%5_000 == 0 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					peak = max(peak, m.HeapAlloc)
				}
			}
			write.Close()
		}()
		a := newActa(t, ActaOptions{Rules: Rules{Chain: true}, Keys: []Key{{Public: publicOf(key)}}})
		v, err := a.Verify(context.Background(), read, Binding{})
		if err != nil || v.Chain != Yes || v.Signature != Yes || v.Receipts != int64(n) || codes(&v) != "end-unproven" {
			t.Fatalf("%+v, %v", v, err)
		}
		return peak
	}
	short := run(5_001)
	if long := run(n); long > short+short/2+1<<20 {
		t.Errorf("%d bytes for %d receipts, %d for 5,001", long, n, short)
	}
}

// FuzzActa holds that what is trusted is what was signed, whatever the bytes.
func FuzzActa(f *testing.F) {
	key := actaKey(1)
	good := map[string]bool{}
	for _, o := range []object{signFlat(f, key, flatReceipt()), signEnvelope(f, key, envelopePayload(), true), signPassport(f, key, passportReceipt())} {
		text := canonicalOf(f, o)
		good[string(text)] = true
		f.Add(text)
	}
	f.Add(lines(f, linker{key, func(o object) string { return sumOf(canonicalOf(f, o)) }, formFlat}.chain(f, 2)...))
	f.Add([]byte(`{"trust_header_version":"0.1","delegation_chain":[{}],"attestations":[{}]}`))
	single := newActa(f, ActaOptions{Keys: []Key{{Public: publicOf(key)}}})
	chain := newActa(f, ActaOptions{Rules: Rules{Chain: true}, Keys: []Key{{Public: publicOf(key)}}})
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := single.Verify(context.Background(), bytes.NewReader(data), Binding{Tool: "x", Allowed: true})
		if err == nil {
			holds(t, &v)
			if v.Signature == Yes && v.Trust == Yes && !good[string(canonicalJSON(data))] {
				t.Fatalf("%q is trusted", data)
			}
		}
		if v, err = chain.Verify(context.Background(), bytes.NewReader(data), Binding{}); err == nil {
			holds(t, &v)
			if v.Trusted() {
				t.Fatalf("%q is trusted, end and all", data)
			}
		}
	})
}
