package foreign

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/internal/jcs"
	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

func vectors(t testing.TB, folder string) string {
	t.Helper()
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Skip("TRUEGREEN_VECTORS is not set")
	}
	return filepath.Join(dir, folder)
}

func readFile(t testing.TB, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func readJSON(t testing.TB, v any, path ...string) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, path...), v); err != nil {
		t.Fatal(err)
	}
}

const (
	actaKid    = "3iR-H6Xx_3rpt7eNMUVNazSZkUclb_cekBJZZL4mlUs"
	actaPublic = "4cb5abf6ad79fbf5abbccafcc269d85cd2651ed4b885b5869f241aedf0a5ba29"
)

// actaFiles says of every file in the vectors what runs it, or why nothing does.
var actaFiles = map[string]string{
	"LICENSE":                     "no receipt",
	"spec.md":                     "prose; its three checks are TestActaConformance",
	"a2a-trust-header/README.md":  "prose; its rules are TestActaTrustHeaders",
	"a2a-trust-header/_keys.json": "TestActaTrustHeaders",
	"a2a-trust-header/drift-explicit-flag.json":      "TestActaTrustHeaders",
	"a2a-trust-header/happy-path.json":               "TestActaTrustHeaders",
	"a2a-trust-header/revocation-mid-chain.json":     "TestActaTrustHeaders",
	"a2a-trust-header/shared-card-crossorg.json":     "TestActaTrustHeaders",
	"a2a-trust-header/trust-level-ascending.json":    "TestActaTrustHeaders",
	"a2a-trust-header/trust-level-descending.json":   "TestActaTrustHeaders",
	"expected/chain.jsonl":                           "TestActaConformance",
	"expected/receipt-schema.json":                   "its required members are TestActaConformance",
	"fixtures/inputs/001-allow-read.json":            "TestActaConformance",
	"fixtures/inputs/002-allow-bash-git.json":        "TestActaConformance",
	"fixtures/inputs/003-deny-bash-destructive.json": "TestActaConformance",
	"fixtures/inputs/004-allow-write.json":           "TestActaConformance",
	"fixtures/keys/README.md":                        "TestActaConformance, the key",
	"fixtures/policy/autoresearch-safe.cedar":        "evaluating a policy is the issuer's",

	"aps-gateway-enforcement/README.md":                                    "prose",
	"aps-gateway-enforcement/_keys/jwks.json":                              "TestActaGateway",
	"aps-gateway-enforcement/_keys/public-key.json":                        "TestActaGateway",
	"aps-gateway-enforcement/1-fail-closed/README.md":                      "prose",
	"aps-gateway-enforcement/1-fail-closed/audit-log.json":                 "TestActaGateway: no receipt",
	"aps-gateway-enforcement/1-fail-closed/expected-output.json":           "TestActaGateway",
	"aps-gateway-enforcement/1-fail-closed/fault-injection.json":           "TestActaGateway: no receipt",
	"aps-gateway-enforcement/1-fail-closed/input.json":                     "TestActaGateway: no receipt",
	"aps-gateway-enforcement/2-external-verification/README.md":            "prose",
	"aps-gateway-enforcement/2-external-verification/canonical.txt":        "TestActaGateway",
	"aps-gateway-enforcement/2-external-verification/expected-output.json": "TestActaGateway",
	"aps-gateway-enforcement/2-external-verification/input.json":           "TestActaGateway",
	"aps-gateway-enforcement/2-external-verification/jwks.json":            "TestActaGateway",
	"aps-gateway-enforcement/2-external-verification/receipt.json":         "TestActaGateway",
	"aps-gateway-enforcement/3-state-drift/README.md":                      "prose",
	"aps-gateway-enforcement/3-state-drift/expected-output.json":           "TestActaGateway: the receipt is valid, the state is not the receipt's",
	"aps-gateway-enforcement/3-state-drift/input.json":                     "TestActaGateway",
	"aps-gateway-enforcement/3-state-drift/receipt.json":                   "TestActaGateway",
	"aps-gateway-enforcement/3-state-drift/state-at-execution.json":        "TestActaGateway",
	"aps-gateway-enforcement/3-state-drift/state-at-signing.json":          "TestActaGateway",
	"aps-gateway-enforcement/4-portability/README.md":                      "prose",
	"aps-gateway-enforcement/4-portability/expected-output.json":           "TestActaGateway and TestDSSEActaVector",
	"aps-gateway-enforcement/4-portability/in-toto-statement.json":         "TestDSSEActaVector",
	"aps-gateway-enforcement/4-portability/input.json":                     "TestActaGateway",
	"aps-gateway-enforcement/4-portability/intoto-envelope.json":           "TestDSSEActaVector",
	"aps-gateway-enforcement/4-portability/jwks.json":                      "TestActaGateway",
	"aps-gateway-enforcement/4-portability/receipt.json":                   "TestActaGateway",
}

func TestActaEveryVector(t *testing.T) {
	t.Parallel()
	root := vectors(t, "acta")
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if actaFiles[filepath.ToSlash(name)] == "" {
			t.Errorf("%s: nothing runs it, and nothing says why", name)
		}
		found++
		return err
	})
	if err != nil || found != len(actaFiles) {
		t.Errorf("%d files, want %d: %v", found, len(actaFiles), err)
	}
}

// actaKeySet reads the keys of a set whose keys are all Ed25519.
func actaKeySet(t testing.TB, path ...string) (keys []Key) {
	t.Helper()
	var set struct {
		Keys []struct {
			Kid, Kty, Crv string
			X             []byte
		}
	}
	text := strings.NewReplacer("-", "+", "_", "/")
	raw := readFile(t, path...)
	// The standard library reads the padded, standard alphabet.
	var plain map[string][]map[string]string
	if err := json.Unmarshal(raw, &plain); err != nil {
		t.Fatal(err)
	}
	for _, k := range plain["keys"] {
		k["x"] = text.Replace(k["x"]) + "="
	}
	raw, err := json.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	for _, k := range set.Keys {
		if k.Kty != "OKP" || k.Crv != "Ed25519" {
			t.Fatalf("key of type %s", k.Kty)
		}
		keys = append(keys, Key{Name: k.Kid, Public: ed25519.PublicKey(k.X), Algorithm: "EdDSA"})
	}
	return keys
}

func TestActaGateway(t *testing.T) {
	t.Parallel()
	root := filepath.Join(vectors(t, "acta"), "aps-gateway-enforcement")
	keys := actaKeySet(t, root, "_keys", "jwks.json")
	var public struct{ PublicKeyHex, Kid string }
	readJSON(t, &public, root, "_keys", "public-key.json")
	if len(keys) != 1 || keys[0].Name != actaKid || keys[0].Name != public.Kid || public.PublicKeyHex != actaPublic ||
		!keys[0].Public.(ed25519.PublicKey).Equal(actaKey(1).Public()) || hex.EncodeToString(publicOf(actaKey(1))) != actaPublic {
		t.Fatalf("%+v, %+v", keys, public)
	}
	a := newActa(t, ActaOptions{Rules: Rules{Now: clock(day.Add(time.Hour)), MaxAge: time.Hour, Seen: seenMap{}}, Keys: keys})

	for _, name := range []string{"audit-log.json", "fault-injection.json", "input.json", "expected-output.json"} {
		_, err := a.Verify(context.Background(), bytes.NewReader(readFile(t, root, "1-fail-closed", name)), Binding{})
		if malformedCode(err) != "unknown-form" {
			t.Errorf("%s counts as a receipt: %v", name, err)
		}
	}

	for _, folder := range []string{"2-external-verification", "3-state-drift", "4-portability"} {
		var input struct {
			Tool   string
			Params json.RawMessage
		}
		var expected struct {
			OK       bool
			Decision string
			Valid    *bool  `json:"receipt_signature_valid"`
			Sum      string `json:"receipt_canonical_sha256"`
		}
		readJSON(t, &input, root, folder, "input.json")
		readJSON(t, &expected, root, folder, "expected-output.json")
		text := readFile(t, root, folder, "receipt.json")
		params := "sha256:" + sumOf(canonicalOf(t, input.Params))
		v := verify(t, a, text, Binding{Tool: input.Tool, ArgHash: params, Allowed: true})
		if !v.Trusted() || v.Form != formPassport || v.Issuer != "aps:gateway:test" || v.Tool != input.Tool || v.Freshness != Yes || v.Said != "allow" {
			t.Errorf("%s: %+v", folder, v)
		}
		if expected.Valid != nil && !*expected.Valid || expected.OK && expected.Decision != v.Said {
			t.Errorf("%s: %+v is expected", folder, expected)
		}
		if v := verify(t, a, text, Binding{Tool: input.Tool}); codes(&v) != "replayed" {
			t.Errorf("%s, again: %v", folder, v.Violations)
		}
		if folder != "2-external-verification" {
			continue
		}
		value, err := jcs.Parse(text, strictjson.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		unsigned := value.Without("signature")
		canonical := unsigned.Append(nil)
		if !bytes.Equal(canonical, bytes.TrimSpace(readFile(t, root, folder, "canonical.txt"))) {
			t.Errorf("canonical form %s", canonical)
		}
		if sumOf(canonical) != expected.Sum {
			t.Errorf("canonical form has the digest %s, want %s", sumOf(canonical), expected.Sum)
		}
		for i := range text {
			changed := bytes.Clone(text)
			changed[i] ^= 1
			v, err := newActa(t, ActaOptions{Keys: keys}).Verify(context.Background(), bytes.NewReader(changed), Binding{})
			if err == nil && v.Trusted() && !bytes.Equal(canonicalJSON(changed), value.Append(nil)) {
				t.Errorf("byte %d changed: %s", i, changed)
			}
		}
	}

	// The gateway aborts since the state is another by then; the receipt says which it was.
	var receipt struct {
		Payload struct {
			State string `json:"state_hash_at_signing"`
		}
	}
	var abort struct {
		Decision string
		Signing  string `json:"state_hash_at_signing"`
		Now      string `json:"state_hash_at_execution"`
	}
	readJSON(t, &receipt, root, "3-state-drift", "receipt.json")
	readJSON(t, &abort, root, "3-state-drift", "expected-output.json")
	state := func(name string) string {
		return "sha256:" + sumOf(canonicalJSON(readFile(t, root, "3-state-drift", name)))
	}
	if abort.Decision != "aborted" || receipt.Payload.State != abort.Signing || state("state-at-signing.json") != abort.Signing || state("state-at-execution.json") != abort.Now || abort.Signing == abort.Now {
		t.Errorf("%+v, %+v", receipt, abort)
	}
}

// The inputs and decisions of the conformance suite make a chain in each form that it
// accepts: of the required members, no more.
func TestActaConformance(t *testing.T) {
	t.Parallel()
	root := vectors(t, "acta")
	key := actaKey(1)
	for _, want := range []string{actaPublic, hex.EncodeToString(key.Seed())} {
		if !bytes.Contains(readFile(t, root, "fixtures", "keys", "README.md"), []byte(want)) {
			t.Errorf("%s is not the key of the suite", want)
		}
	}
	inputs, err := filepath.Glob(filepath.Join(root, "fixtures", "inputs", "*.json"))
	decisions := bytes.Split(bytes.TrimSpace(readFile(t, root, "expected", "chain.jsonl")), []byte("\n"))
	if err != nil || len(inputs) != len(decisions) || len(inputs) != 4 {
		t.Fatalf("%d inputs, %d decisions, %v", len(inputs), len(decisions), err)
	}
	for _, line := range decisions {
		if _, err := newActa(t, ActaOptions{}).Verify(context.Background(), bytes.NewReader(line), Binding{}); malformedCode(err) != "unknown-form" {
			t.Errorf("%s counts as a receipt: %v", line, err)
		}
	}
	var flat, envelope []object
	for i, path := range inputs {
		var in, want object
		readJSON(t, &in, path)
		if err := json.Unmarshal(decisions[i], &want); err != nil {
			t.Fatal(err)
		}
		if in["tool_name"] != want["tool_name"] || in["expected_decision"] != want["decision"] || in["sequence"] != want["sequence"] {
			t.Fatalf("%s: %v", path, want)
		}
		f := object{"receipt_id": "rcpt-" + filepath.Base(path), "receipt_version": "1.0", "tool_name": want["tool_name"], "decision": want["decision"], "policy_id": want["policy_id"], "timestamp": "2026-04-17T12:34:56Z", "sequence": want["sequence"], "parent_receipt_hash": nil}
		p := object{"type": "scopeblind.receipt.v1", "decision": want["decision"], "action": object{"kind": "tool", "target": want["tool_name"]}, "sequence": want["sequence"], "prev_hash": "sha256:" + strings.Repeat("0", 64), "timestamp": "2026-04-17T12:34:56Z"}
		if i > 0 {
			f["parent_receipt_hash"] = "sha256:" + sumOf(canonicalOf(t, flat[i-1]))
			p["prev_hash"] = "sha256:" + sumOf(canonicalOf(t, envelope[i-1]))
		}
		flat, envelope = append(flat, signFlat(t, key, f)), append(envelope, signEnvelope(t, key, p, true))
	}
	for form, receipts := range map[string][]object{formFlat: flat, formEnvelope: envelope} {
		head := sumOf(canonicalOf(t, receipts[3]))
		a := newActa(t, ActaOptions{Rules: Rules{Chain: true, Head: head}, Keys: []Key{{Public: publicOf(key)}}})
		if v := verify(t, a, lines(t, receipts...), Binding{Tool: "Write", Allowed: true}); !v.Trusted() || v.Receipts != 4 || v.Form != form {
			t.Errorf("%s: %+v", form, v)
		}
		if v := verify(t, a, lines(t, receipts[:3]...), Binding{Allowed: true}); codes(&v) != "head-mismatch not-allowed" {
			t.Errorf("%s without the last: %v", form, v.Violations)
		}
	}
}

func TestActaTrustHeaders(t *testing.T) {
	t.Parallel()
	root := filepath.Join(vectors(t, "acta"), "a2a-trust-header")
	var set struct {
		Keys map[string]struct{ Pubkey, DID string }
	}
	readJSON(t, &set, root, "_keys.json")
	var keys []Key
	for _, name := range []string{"aps_issuer", "org_a", "org_b"} {
		raw, err := hex.DecodeString(set.Keys[name].Pubkey)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			t.Fatal(err)
		}
		keys = append(keys, Key{Name: set.Keys[name].DID, Public: ed25519.PublicKey(raw)})
	}
	fixtures := map[string]struct{ codes, said string }{
		"happy-path":             {"", "trusted"},
		"trust-level-ascending":  {"", "trusted"},
		"trust-level-descending": {"", "flagged"},
		"drift-explicit-flag":    {"root-drift", "trusted"},
		"revocation-mid-chain":   {"revoked", "deny"},
		"shared-card-crossorg":   {"", "trusted"},
	}
	a := newActa(t, ActaOptions{Rules: Rules{Now: clock(day.Add(10 * time.Minute))}, Keys: keys})
	for name, want := range fixtures {
		var fixture struct {
			Expected string          `json:"expected_verifier_output"`
			Header   json.RawMessage `json:"header_value"`
		}
		readJSON(t, &fixture, root, name+".json")
		v := verify(t, a, fixture.Header, Binding{})
		got := "valid"
		switch {
		case v.Signature != Yes || v.Trust != Yes || v.Chain != Yes:
			got = "invalid"
		case v.Decision == No:
			got = "deny"
		}
		if got != fixture.Expected || codes(&v) != want.codes || v.Said != want.said || v.Form != formHeader || v.Trusted() != (got == "valid") {
			t.Errorf("%s: %s, want %s: %+v", name, got, fixture.Expected, v)
		}
		if v := verify(t, a, fixture.Header, Binding{Allowed: true}); v.Decision != No {
			t.Errorf("%s: a header allows a call: %+v", name, v)
		}
		late := newActa(t, ActaOptions{Rules: Rules{Now: clock(day.Add(time.Hour))}, Keys: keys})
		if v := verify(t, late, fixture.Header, Binding{}); v.Freshness != No {
			t.Errorf("%s: not expired an hour later", name)
		}
		for _, few := range [][]Key{nil, keys[1:], keys[1:2]} {
			if v := verify(t, newActa(t, ActaOptions{Rules: Rules{Now: clock(day)}, Keys: few}), fixture.Header, Binding{}); v.Trust == Yes || v.Signature != Yes {
				t.Errorf("%s: trusted without its issuer's key", name)
			}
		}
		headerMutations(t, a, name, fixture.Header, v.Uncovered)
	}
}

// headerMutations changes each string of a header: nothing that is signed can change.
func headerMutations(t *testing.T, a Adapter, name string, header []byte, uncovered []string) {
	t.Helper()
	good := canonicalJSON(header)
	for i := range good {
		changed := bytes.Clone(good)
		changed[i] ^= 1
		v, err := a.Verify(context.Background(), bytes.NewReader(changed), Binding{})
		if err != nil || !v.Trusted() {
			continue
		}
		value, err := jcs.Parse(changed, strictjson.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		was, err := jcs.Parse(good, strictjson.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		left, right := value.Without(append(uncovered, v.Uncovered...)...), was.Without(append(uncovered, v.Uncovered...)...)
		if !bytes.Equal(left.Append(nil), right.Append(nil)) {
			t.Errorf("%s: byte %d changed: …%s…", name, i, changed[max(0, i-30):min(len(changed), i+30)])
		}
	}
}
