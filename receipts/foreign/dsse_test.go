package foreign

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/truegreen-dev/truegreen/receipts/dsse"
)

// A testSigner signs with a key of any kind that the adapter knows.
type testSigner struct {
	id  string
	key any
}

func (s testSigner) KeyID() string { return s.id }

func (s testSigner) Sign(pae []byte) ([]byte, error) {
	switch key := s.key.(type) {
	case *ecdsa.PrivateKey:
		if key.Curve == elliptic.P384() {
			sum := sha512.Sum384(pae)
			return ecdsa.SignASN1(rand.Reader, key, sum[:])
		}
		sum := sha256.Sum256(pae)
		return ecdsa.SignASN1(rand.Reader, key, sum[:])
	case ed25519.PrivateKey:
		return ed25519.Sign(key, pae), nil
	}
	return make([]byte, 64), nil
}

func envelopeOf(t testing.TB, payload []byte, signers ...dsse.Signer) []byte {
	t.Helper()
	e, err := dsse.Sign(inTotoPayload, payload, signers...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newDSSE(t testing.TB, o DSSEOptions) Adapter {
	t.Helper()
	if o.Now == nil {
		o.Now = clock(day)
	}
	a, err := NewDSSE(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func plainStatement(kind string, predicate object) object {
	return object{
		"_type": inTotoStatement, "predicateType": kind, "predicate": predicate,
		"subject": []any{object{"name": "a", "digest": object{"sha256": strings.Repeat("ab", 32)}}, object{"digest": object{"gitCommit": strings.Repeat("0", 40)}}},
	}
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDSSEKeys(t *testing.T) {
	t.Parallel()
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	one, two, three := actaKey(1), actaKey(2), actaKey(3)
	public, err := ssh.NewPublicKey(publicOf(one))
	if err != nil {
		t.Fatal(err)
	}
	fingerprint := ssh.FingerprintSHA256(public)
	a, b := Key{Name: "a", Public: publicOf(one)}, Key{Name: "b", Public: publicOf(two)}
	payload := marshal(t, plainStatement("https://example.com/x", object{}))
	for _, c := range []struct {
		name      string
		keys      []Key
		threshold int
		signers   []dsse.Signer
		signature Answer
		trust     Answer
		codes     string
		issuer    string
	}{
		{"by name", []Key{a}, 0, []dsse.Signer{testSigner{"a", one}}, Yes, Yes, "", "a"},
		{"no key", nil, 0, []dsse.Signer{testSigner{"a", one}}, Unproven, Unproven, "no-key no-key", ""},
		{"no id", []Key{b, a}, 0, []dsse.Signer{testSigner{"", one}}, Yes, Yes, "", "a"},
		{"key without a name", []Key{{Public: publicOf(one)}}, 0, []dsse.Signer{testSigner{"x", one}}, Yes, Yes, "", fingerprint},
		{"principal, by its fingerprint", []Key{a}, 0, []dsse.Signer{testSigner{fingerprint, one}}, Yes, Yes, "", "a"},
		{"id of another", []Key{a, b}, 0, []dsse.Signer{testSigner{"b", one}}, No, No, "signature-invalid unknown-key", ""},
		{"unknown id", []Key{a}, 0, []dsse.Signer{testSigner{"c", one}}, Unproven, No, "unknown-key unknown-key", ""},
		{"unknown key", []Key{{Public: publicOf(one)}}, 0, []dsse.Signer{testSigner{"c", two}}, No, No, "signature-invalid unknown-key", ""},
		{"unknown key beside", []Key{a}, 0, []dsse.Signer{testSigner{"c", three}, testSigner{"a", one}}, Yes, Yes, "", "a"},
		{"bad signature beside", []Key{a, b}, 0, []dsse.Signer{testSigner{"b", three}, testSigner{"a", one}}, No, Yes, "signature-invalid", "a"},
		{"two of two", []Key{a, b}, 2, []dsse.Signer{testSigner{"b", two}, testSigner{"a", one}}, Yes, Yes, "", "a, b"},
		{"one of two", []Key{a, b}, 2, []dsse.Signer{testSigner{"a", one}}, Yes, No, "too-few-signatures", "a"},
		{"one twice", []Key{a, b}, 2, []dsse.Signer{testSigner{"a", one}, testSigner{"a", one}}, Yes, No, "too-few-signatures", "a"},
		{"P-256", []Key{{Name: "e", Public: p256.Public(), Algorithm: "ES256"}}, 0, []dsse.Signer{testSigner{"e", p256}}, Yes, Yes, "", "e"},
		{"P-384", []Key{{Name: "e", Public: p384.Public()}}, 0, []dsse.Signer{testSigner{"e", p384}}, Yes, Yes, "", "e"},
		{"P-256, another key", []Key{{Name: "e", Public: p256.Public()}}, 0, []dsse.Signer{testSigner{"e", p384}}, No, No, "signature-invalid unknown-key", ""},
	} {
		v := verify(t, newDSSE(t, DSSEOptions{Keys: c.keys, Threshold: c.threshold}), envelopeOf(t, payload, c.signers...), Binding{})
		if v.Signature != c.signature || v.Trust != c.trust || codes(&v) != c.codes || v.Issuer != c.issuer {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]DSSEOptions{
		"RSA":                   {Keys: []Key{{Public: weak.Public()}}},
		"no key":                {Keys: []Key{{}}},
		"short key":             {Keys: []Key{{Public: publicOf(one)[:5]}}},
		"for another algorithm": {Keys: []Key{{Public: p256.Public(), Algorithm: "ES384"}}},
		"one key twice":         {Keys: []Key{a, {Name: "b", Public: publicOf(one)}}},
		"threshold of 3 of 2":   {Keys: []Key{a, b}, Threshold: 3},
		"threshold of -1":       {Keys: []Key{a, b}, Threshold: -1},
	} {
		if d, err := NewDSSE(o); err == nil || d != nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDSSEStatements(t *testing.T) {
	t.Parallel()
	key := actaKey(1)
	sign := func(o any) []byte { return envelopeOf(t, marshal(t, o), testSigner{"a", key}) }
	own := readFile(t, "..", "..", "verifier", "testdata", "statement.json")
	passport := signPassport(t, key, passportReceipt())
	for _, c := range []struct {
		name  string
		text  []byte
		types []string
		b     Binding
		codes string
		said  string
	}{
		{"any", sign(plainStatement("https://example.com/x", nil)), nil, Binding{Target: "a"}, "", ""},
		{"digest", sign(plainStatement("https://example.com/x", nil)), nil, Binding{Target: "sha256:" + strings.Repeat("ab", 32)}, "", ""},
		{"digest of the second", sign(plainStatement("https://example.com/x", nil)), nil, Binding{Target: "gitCommit:" + strings.Repeat("0", 40)}, "", ""},
		{"another target", sign(plainStatement("https://example.com/x", nil)), nil, Binding{Target: "b"}, "target-mismatch", ""},
		{"a tool", sign(plainStatement("https://example.com/x", nil)), nil, Binding{Tool: "b", ArgHash: "sha256:"}, "no-tool no-arg-hash", ""},
		{"no verdict", sign(plainStatement("https://example.com/x", object{"result": "PASSED"})), nil, Binding{Allowed: true}, "not-allowed", ""},
		{"purpose", sign(plainStatement("https://example.com/x", nil)), []string{predicateTestResult}, Binding{}, "wrong-purpose", ""},
		{"no purpose", sign(plainStatement("https://example.com/x", nil)), []string{}, Binding{}, "wrong-purpose", ""},
		{"its purpose", sign(plainStatement("https://example.com/x", nil)), []string{"https://example.com/x"}, Binding{}, "", ""},
		{"verified patch", envelopeOf(t, own, testSigner{"a", key}), []string{predicateTestResult}, Binding{Allowed: true}, "", "PASSED"},
		{"failed tests", sign(plainStatement(predicateTestResult, object{"result": "FAILED"})), nil, Binding{Allowed: true}, "not-allowed", "FAILED"},
		{"summary", sign(plainStatement(predicateSummary, object{"verificationResult": "PASSED", "timeVerified": "2026-04-18T12:00:00Z"})), nil, Binding{Allowed: true}, "", "PASSED"},
		{"summary of tomorrow", sign(plainStatement(predicateSummary, object{"verificationResult": "PASSED", "timeVerified": "2026-04-19T12:00:00Z"})), nil, Binding{}, "from-the-future", "PASSED"},
		{"decision", sign(plainStatement(predicateDecision, passport)), nil, Binding{Tool: "http.get", Target: "a", ArgHash: "sha256:" + strings.Repeat("ab", 32), Allowed: true}, "", "allow"},
		{"decision about another tool", sign(plainStatement(predicateDecision, passport)), nil, Binding{Tool: "http.post"}, "tool-mismatch", "allow"},
	} {
		v := verify(t, newDSSE(t, DSSEOptions{Keys: []Key{{Name: "a", Public: publicOf(key)}}, Types: c.types}), c.text, c.b)
		if codes(&v) != c.codes || v.Said != c.said || v.Trusted() != (c.codes == "") {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	// What is not signed is not read.
	forged := envelopeOf(t, own, testSigner{"a", actaKey(2)})
	v := verify(t, newDSSE(t, DSSEOptions{Rules: Rules{MaxAge: time.Hour}, Keys: []Key{{Name: "a", Public: publicOf(key)}}}), forged, Binding{Target: "a", Allowed: true})
	if v.Signature != No || v.Said != "" || v.Binding != Unproven || v.Decision != Unproven || v.Freshness != Unproven {
		t.Errorf("forged: %+v", v)
	}
	v = verify(t, newDSSE(t, DSSEOptions{Rules: Rules{Chain: true}, Keys: []Key{{Name: "a", Public: publicOf(key)}}}), sign(plainStatement("x", nil)), Binding{})
	if v.Chain != No || v.End != No || codes(&v) != "no-chain no-chain" {
		t.Errorf("chain: %+v", v)
	}
	store := seenMap{}
	once := newDSSE(t, DSSEOptions{Rules: Rules{Seen: store}, Keys: []Key{{Name: "a", Public: publicOf(key)}}})
	for i, want := range []string{"", "replayed"} {
		if v := verify(t, once, sign(plainStatement("x", nil)), Binding{}); codes(&v) != want {
			t.Errorf("time %d: %v", i, v.Violations)
		}
	}
	if v := verify(t, newDSSE(t, DSSEOptions{Rules: Rules{MaxAge: time.Hour}, Keys: []Key{{Public: publicOf(key)}}}), sign(plainStatement("x", nil)), Binding{}); codes(&v) != "no-time" {
		t.Errorf("age of what has no time: %v", v.Violations)
	}
}

func TestDSSEMalformed(t *testing.T) {
	t.Parallel()
	key := actaKey(1)
	signed := func(payload string) string { return string(envelopeOf(t, []byte(payload), testSigner{"a", key})) }
	good := string(marshal(t, plainStatement("x", object{})))
	swap := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("no %s in %s", from, good)
		}
		return signed(strings.Replace(good, from, to, 1))
	}
	other, err := dsse.Sign("text/plain", []byte(good), testSigner{"a", key})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := other.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	many := `"subject":[` + strings.Repeat(`{"digest":{"sha256":"0"}},`, MaxSubjects) + `{"digest":{"sha256":"0"}}]`
	for _, c := range []struct{ name, text, code string }{
		{"empty", "", "not-dsse"},
		{"no envelope", `{"a":1}`, "not-dsse"},
		{"prefix in what is no envelope", `{"a":"ed25519:"}`, "not-dsse"},
		{"prefix in what is no JSON", `{"a":"ed25519:"`, "not-json"},
		{"payload type", string(plain), "unknown-payload-type"},
		{"payload is no JSON", signed("x"), "not-json"},
		{"payload is a list", signed("[]"), "missing-member"},
		{"duplicate", swap(`"subject"`, `"predicateType":"y","subject"`), "not-json"},
		{"duplicate at depth", swap(`"digest":{`, `"digest":{"sha256":"1",`), "not-json"},
		{"lone surrogate", swap(`"a"`, `"\udc00"`), "not-json"},
		{"statement of v0.1", swap("Statement/v1", "Statement/v0.1"), "unknown-version"},
		{"no subject", swap(`"subject"`, `"Subject"`), "missing-member"},
		{"no digest", swap(`"digest"`, `"digesT"`), "missing-member"},
		{"digest is a number", swap(`"`+strings.Repeat("ab", 32)+`"`, `1`), "wrong-type"},
		{"no predicate type", swap(`"predicateType":"x"`, `"predicateType":1`), "missing-member"},
		{"many subjects", signed(`{"_type":"` + inTotoStatement + `","predicateType":"x",` + many + `}`), "missing-member"},
		{"result is missing", signed(string(marshal(t, plainStatement(predicateTestResult, object{})))), "missing-member"},
		{"no predicate", signed(string(marshal(t, without(plainStatement(predicateTestResult, nil), "predicate")))), "not-json"},
		{"too long", `"` + strings.Repeat("x", MaxDSSE), "too-long"},
	} {
		v, err := newDSSE(t, DSSEOptions{Keys: []Key{{Name: "a", Public: publicOf(key)}}}).Verify(context.Background(), strings.NewReader(c.text), Binding{})
		if malformedCode(err) != c.code || v.Adapter != "" {
			t.Errorf("%s: %v, %+v", c.name, err, v)
		}
	}
	// A statement of a hundred thousand tests is one.
	tests := make([]any, 100_000)
	for i := range tests {
		tests[i] = "test"
	}
	large := signed(string(marshal(t, plainStatement(predicateTestResult, object{"result": "PASSED", "passedTests": tests}))))
	if v := verify(t, newDSSE(t, DSSEOptions{Keys: []Key{{Name: "a", Public: publicOf(key)}}}), []byte(large), Binding{Allowed: true}); !v.Trusted() {
		t.Errorf("%v", v.Violations)
	}
}

func TestDSSEActaVector(t *testing.T) {
	t.Parallel()
	root := filepath.Join(vectors(t, "acta"), "aps-gateway-enforcement")
	folder := filepath.Join(root, "4-portability")
	keys := actaKeySet(t, root, "_keys", "jwks.json")
	text := readFile(t, folder, "intoto-envelope.json")
	var input struct {
		Tool   string
		Params json.RawMessage
	}
	var expected struct{ Verifiers map[string]string }
	readJSON(t, &input, folder, "input.json")
	readJSON(t, &expected, folder, "expected-output.json")
	b := Binding{Tool: input.Tool, ArgHash: "sha256:" + sumOf(canonicalOf(t, input.Params)), Target: "req-vec4-004", Allowed: true}
	v := verify(t, newDSSE(t, DSSEOptions{Rules: Rules{Now: clock(day.Add(time.Hour)), MaxAge: time.Hour}, Keys: keys, Types: []string{predicateDecision}}), text, b)
	if !v.Trusted() || v.Tool != "http.get" || v.Said != "allow" || expected.Verifiers["in-toto-dsse"] != "VALID" {
		t.Errorf("%+v", v)
	}
	e, err := dsse.ParseForeign(text)
	if err != nil {
		t.Fatal(err)
	}
	k, err := newDSSEKey(keys[0])
	if err != nil {
		t.Fatal(err)
	}
	payload, _, err := e.Verify(inTotoPayload, 1, k)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(canonicalJSON(payload), canonicalJSON(readFile(t, folder, "in-toto-statement.json"))) {
		t.Error("the payload is not the statement beside it")
	}
}

// fleetVectors are the files of the corpus, with what is found, and with what is once the
// corpus' own key signs the payload: in four of them it did not sign what is there, so
// that the rule of which the name speaks shows then only.
var fleetVectors = map[string]struct {
	signature Answer // under the corpus' key
	codes     string
	own       string // codes, or of what is malformed, of the payload alone
}{
	"valid-l1":                    {Yes, "", ""},
	"wrong-key":                   {No, "signature-invalid unknown-key not-read", ""},
	"wrong-key-purpose":           {Yes, "", ""},                                      // the same bytes: the purpose is the verifier's
	"unpinned-rejected":           {Unproven, "unknown-key unknown-key not-read", ""}, // its key id is a key: that is no anchor
	"l2-rejected":                 {No, "signature-invalid unknown-key not-read", "unsupported-level"},
	"tampered-summary-arithmetic": {No, "signature-invalid unknown-key not-read", "summary-mismatch summary-mismatch summary-mismatch summary-mismatch"},
	"reordered-source-batch":      {No, "signature-invalid unknown-key not-read", "reordered"},
	"duplicate-source-batch":      {No, "signature-invalid unknown-key not-read", "duplicate-batch overlap subject-mismatch summary-mismatch summary-mismatch completeness-mismatch"},
}

func TestFleetVectors(t *testing.T) {
	t.Parallel()
	root := filepath.Join(vectors(t, "pipelock"), "fleet-receipt-v1")
	var corpus struct {
		ID      string `json:"key_id"`
		Phrase  string `json:"seed_phrase"`
		Public  string `json:"public_key_hex"`
		Purpose string `json:"key_purpose"`
	}
	readJSON(t, &corpus, root, "test-key.json")
	seed := sha256.Sum256([]byte(corpus.Phrase))
	key := ed25519.NewKeyFromSeed(seed[:])
	pinned := []Key{{Name: corpus.ID, Public: publicOf(key)}}
	if corpus.Purpose != "fleet-report-signing" {
		t.Fatalf("%+v", corpus)
	}
	files, err := filepath.Glob(filepath.Join(root, "*.dsse.json"))
	if err != nil || len(files) != len(fleetVectors) {
		t.Fatalf("%d files, want %d: %v", len(files), len(fleetVectors), err)
	}
	now := Rules{Now: clock(time.Date(2026, 6, 2, 0, 0, 0, 0, time.UTC)), MaxAge: 48 * time.Hour}
	fleets := newDSSE(t, DSSEOptions{Rules: now, Keys: pinned, Types: []string{predicateFleet}})
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".dsse.json")
		want, ok := fleetVectors[name]
		if !ok {
			t.Errorf("%s: nothing says what it is", name)
			continue
		}
		text := readFile(t, file)
		v := verify(t, fleets, text, Binding{})
		if v.Signature != want.signature || codes(&v) != want.codes || v.Trusted() != (want.codes == "") {
			t.Errorf("%s: %+v", name, v)
		}
		if v := verify(t, newDSSE(t, DSSEOptions{Rules: now}), text, Binding{}); v.Trust != Unproven || v.Signature != Unproven {
			t.Errorf("%s: trusted with no key pinned: %+v", name, v)
		}
		if name == "wrong-key-purpose" {
			other := newDSSE(t, DSSEOptions{Rules: now, Keys: pinned, Types: []string{"https://pipelab.org/attestation/agent-action-receipt/v0.1"}})
			if v := verify(t, other, text, Binding{}); v.Trust != No || codes(&v) != "wrong-purpose" {
				t.Errorf("%s: %+v", name, v)
			}
		}
		var envelope struct{ Payload []byte }
		readJSON(t, &envelope, file)
		v, err := fleets.Verify(context.Background(), bytes.NewReader(envelopeOf(t, envelope.Payload, testSigner{corpus.ID, key})), Binding{})
		got := codes(&v)
		if err != nil {
			got = malformedCode(err)
		}
		if got != want.own || want.own != "" && v.Chain == Yes {
			t.Errorf("%s, signed: %s, want %s: %v", name, got, want.own, v.Violations)
		}
		if name == "valid-l1" {
			golden := string(readFile(t, root, "valid-l1.golden"))
			if !strings.Contains(golden, "Payload SHA-256:  "+strings.TrimPrefix(v.Head, "sha256:")) || v.Chain != Yes {
				t.Errorf("%+v", v)
			}
			fleetMutations(t, fleets, envelope.Payload, testSigner{corpus.ID, key})
		}
	}
}

// fleetMutations changes one thing of a good report, and signs it.
func fleetMutations(t *testing.T, a Adapter, payload []byte, s dsse.Signer) {
	t.Helper()
	for _, c := range []struct{ name, from, to, codes string }{
		{"another org in a batch", `"orgId":"org-example","payloadBytes"`, `"orgId":"org-other","payloadBytes"`, "foreign-batch subject-mismatch"},
		{"too few events", `"eventCount":10`, `"eventCount":9`, "batch-count summary-mismatch summary-mismatch completeness-mismatch"},
		{"too many events", `"eventCount":10`, `"eventCount":11`, "batch-count summary-mismatch summary-mismatch completeness-mismatch"},
		{"dropped, not counted", `"droppedCount":0`, `"droppedCount":1`, "completeness-mismatch"},
		{"end before start", `"seqEnd":9`, `"seqEnd":0`, "batch-count"},
		{"hash of the subject", `"digest":{"sha256":"fa`, `"digest":{"sha256":"fb`, "subject-mismatch"},
		{"name of the subject", `follower-1/audit-batch-001"`, `follower-2/audit-batch-001"`, "subject-mismatch"},
		{"another follower", `"byFollower":{"follower-1":10}`, `"byFollower":{"follower-2":10}`, "summary-mismatch summary-mismatch"},
		{"one transport of two", `"byTransport":{"forward_proxy":10}`, `"byTransport":{"forward_proxy":9}`, "summary-mismatch"},
		{"two transports", `"byTransport":{"forward_proxy":10}`, `"byTransport":{"forward_proxy":9,"mcp":1}`, ""},
		{"not every action has a layer", `"byLayer":{"domain_blocklist":10}`, `"byLayer":{"domain_blocklist":1}`, ""},
		{"more layers than actions", `"byLayer":{"domain_blocklist":10}`, `"byLayer":{"domain_blocklist":10,"x":1}`, "summary-mismatch"},
		{"fraction", `"mediatedFraction":"1"`, `"mediatedFraction":"0.99"`, "completeness-mismatch"},
		{"fewer mediated", `"mediatedActions":10`, `"mediatedActions":9`, "completeness-mismatch"},
		{"more mediated", `"mediatedActions":10,"mediatedFraction":"1"`, `"mediatedActions":11,"mediatedFraction":"1.1"`, "completeness-mismatch"},
		{"nine of ten", `"mediatedActions":10,"mediatedFraction":"1"`, `"mediatedActions":9,"mediatedFraction":"0.9"`, ""},
		{"observed", `"observedActions":10`, `"observedActions":11`, "completeness-mismatch completeness-mismatch"},
		{"emitted before the window", `"emittedAt":"2026-05-15`, `"emittedAt":"2026-04-15`, "window"},
		{"window turned round", `"end":"2026-06-01T00:00:00Z","start":"2026-05-01T00:00:00Z"`, `"start":"2026-06-01T00:00:00Z","end":"2026-05-01T00:00:00Z"`, "window window"},
		{"older", `"generatedAt":"2026-06-01`, `"generatedAt":"2026-05-30`, "too-old"},
	} {
		changed := bytes.Replace(payload, []byte(c.from), []byte(c.to), 1)
		if bytes.Equal(changed, payload) {
			t.Errorf("%s: nothing to change", c.name)
		}
		if v := verify(t, a, envelopeOf(t, changed, s), Binding{}); codes(&v) != c.codes {
			t.Errorf("%s: %v, want %s", c.name, v.Violations, c.codes)
		}
	}
}

func TestIsFraction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n, d int64
		want bool
	}{
		{"1", 3, 3, true}, {"1.0", 3, 3, true}, {"0.5", 1, 2, true}, {"0.333333", 1, 3, true}, {"0.67", 2, 3, true}, {"0.66", 2, 3, true},
		{"0", 0, 0, true}, {"0", 1, 3, false}, {"0.68", 2, 3, false}, {"", 1, 1, false}, {"1/1", 1, 1, false}, {"1e0", 1, 1, false}, {"-1", 1, 1, false},
		{".5", 1, 2, false}, {"2", 0, 0, false}, {"1" + strings.Repeat("0", 50), 1, 1, false},
	} {
		if isFraction(c.text, c.n, c.d) != c.want {
			t.Errorf("%q of %d in %d", c.text, c.n, c.d)
		}
	}
}

// FuzzDSSE holds that a payload which is not signed is never believed.
func FuzzDSSE(f *testing.F) {
	key := actaKey(1)
	payload := marshal(f, plainStatement(predicateTestResult, object{"result": "PASSED"}))
	good := envelopeOf(f, payload, testSigner{"a", key})
	f.Add(good, []byte("{}"))
	f.Add(bytes.Replace(good, []byte(`"sig":"`), []byte(`"sig":"ed25519:`), 1), []byte(base64.StdEncoding.EncodeToString(payload)))
	f.Add([]byte("{}"), marshal(f, plainStatement(predicateFleet, object{"schemaVersion": 1, "verificationLevel": "L1"})))
	f.Add([]byte("{}"), marshal(f, plainStatement(predicateDecision, passportReceipt())))
	a := newDSSE(f, DSSEOptions{Keys: []Key{{Name: "a", Public: publicOf(key)}}})
	sum := "sha256:" + sumOf(payload)
	f.Fuzz(func(t *testing.T, envelope, statement []byte) {
		v, err := a.Verify(context.Background(), bytes.NewReader(envelope), Binding{Target: "a", Allowed: true})
		if err == nil {
			holds(t, &v)
			if v.Signature == Yes && v.Head != sum {
				t.Fatalf("%q has a good signature", envelope)
			}
		}
		// A statement that the key did sign may be anything, too.
		if len(statement) > dsse.MaxPayload {
			return
		}
		if v, err := a.Verify(context.Background(), bytes.NewReader(envelopeOf(t, statement, testSigner{"a", key})), Binding{}); err == nil {
			holds(t, &v)
		}
	})
}
