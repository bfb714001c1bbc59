package dsse

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const testType = "application/vnd.example+json"

// keys returns the n-th key of the tests under the id "key n".
func keys(t testing.TB, n byte) (*Ed25519Signer, *Ed25519Verifier) {
	t.Helper()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
	id := fmt.Sprintf("key %d", n)
	s, err := NewEd25519Signer(id, private)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewEd25519Verifier(id, private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}

func TestPAE(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ payloadType, payload, want string }{
		{"http://example.com/HelloWorld", "hello world", "DSSEv1 29 http://example.com/HelloWorld 11 hello world"},
		{"", "", "DSSEv1 0  0 "},
		{"é 2", " 1 x", "DSSEv1 4 é 2 4  1 x"},
	} {
		if got := PAE(c.payloadType, []byte(c.payload)); string(got) != c.want {
			t.Errorf("PAE(%q, %q) = %q; want %q", c.payloadType, c.payload, got, c.want)
		}
	}
}

func TestSignVerify(t *testing.T) {
	t.Parallel()
	s1, v1 := keys(t, 1)
	s2, v2 := keys(t, 2)
	_, v3 := keys(t, 3)
	for _, payload := range []string{"", "x", "{\"a\":\"b\"}\n", "\x00\xff"} {
		e, err := Sign(testType, []byte(payload), s1, s2)
		if err != nil {
			t.Fatal(err)
		}
		text, err := e.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, parse := range parsers {
			e, err := parse(text)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, ids, err := e.Verify(testType, 2, v3, v2, v1)
			if err != nil || string(got) != payload || !reflect.DeepEqual(ids, []string{"key 2", "key 1"}) {
				t.Errorf("%s: %q, %q, %v", name, got, ids, err)
			}
			if e.PayloadType() != testType || !reflect.DeepEqual(e.KeyIDs(), []string{"key 1", "key 2"}) {
				t.Errorf("%s: %q, %q", name, e.PayloadType(), e.KeyIDs())
			}
		}
	}
}

var parsers = map[string]func([]byte) (*Envelope, error){"Parse": Parse, "ParseForeign": ParseForeign}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	s1, v1 := keys(t, 1)
	s2, v2 := keys(t, 2)
	_, v3 := keys(t, 3)
	anonymous, err := NewEd25519Verifier("", v2.key)
	if err != nil {
		t.Fatal(err)
	}
	liar, err := NewEd25519Signer("key 2", s1.key)
	if err != nil {
		t.Fatal(err)
	}
	signed := func(signers ...Signer) *Envelope {
		e, err := Sign(testType, []byte("payload"), signers...)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	other := signed(s1)
	other.payload = []byte("Payload")
	otherType := signed(s1)
	otherType.payloadType = "text/plain"
	for _, c := range []struct {
		name      string
		e         *Envelope
		threshold int
		verifiers []Verifier
		want      error // nil: any
	}{
		{"no such key", signed(s1), 1, []Verifier{v2, v3}, ErrSignatures},
		{"too few", signed(s1), 2, []Verifier{v1, v2}, ErrSignatures},
		{"same signature twice", signed(s1, s1), 2, []Verifier{v1, v2}, ErrSignatures},
		{"other payload", other, 1, []Verifier{v1}, ErrSignatures},
		{"key id of another key", signed(liar), 1, []Verifier{v1, v2}, ErrSignatures},
		{"other type", otherType, 1, []Verifier{v1}, nil},
		{"threshold 0", signed(s1), 0, []Verifier{v1}, nil},
		{"threshold above the verifiers", signed(s1), 2, []Verifier{v1}, nil},
		{"no verifiers", signed(s1), 0, nil, nil},
		{"one verifier twice", signed(s1, s1), 2, []Verifier{v1, v1}, nil},
		{"one key under two ids", signed(s2), 2, []Verifier{v2, anonymous}, ErrSignatures},
	} {
		payload, ids, err := c.e.Verify(testType, c.threshold, c.verifiers...)
		if err == nil || payload != nil || ids != nil {
			t.Errorf("%s: %q, %q, %v", c.name, payload, ids, err)
		}
		if c.want != nil && !errors.Is(err, c.want) || c.want == nil && errors.Is(err, ErrSignatures) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// An id on one side only narrows nothing down.
	if _, _, err := signed(s2).Verify(testType, 1, anonymous); err != nil {
		t.Error(err)
	}
}

type brokenSigner struct{}

func (brokenSigner) KeyID() string               { return "" }
func (brokenSigner) Sign([]byte) ([]byte, error) { return nil, errSignature }

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	s, _ := keys(t, 1)
	long, err := NewEd25519Signer(strings.Repeat("k", MaxName+1), s.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, sign := range map[string]func() (*Envelope, error){
		"no signer":         func() (*Envelope, error) { return Sign(testType, nil) },
		"too many":          func() (*Envelope, error) { return Sign(testType, nil, make17(s)...) },
		"no type":           func() (*Envelope, error) { return Sign("", nil, s) },
		"type not UTF-8":    func() (*Envelope, error) { return Sign("\xff", nil, s) },
		"long type":         func() (*Envelope, error) { return Sign(strings.Repeat("t", MaxName+1), nil, s) },
		"long key id":       func() (*Envelope, error) { return Sign(testType, nil, long) },
		"large payload":     func() (*Envelope, error) { return Sign(testType, make([]byte, MaxPayload+1), s) },
		"signer that fails": func() (*Envelope, error) { return Sign(testType, nil, brokenSigner{}) },
	} {
		if e, err := sign(); err == nil || e != nil {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
	if _, err := NewEd25519Signer("", nil); err == nil {
		t.Error("signer without a key")
	}
	if _, err := NewEd25519Verifier("", make([]byte, 31)); err == nil {
		t.Error("verifier with a short key")
	}
	if text, err := new(Envelope).Append(nil); err == nil {
		t.Errorf("the zero envelope is %s", text)
	}
}

func make17(s Signer) []Signer {
	list := make([]Signer, MaxSignatures+1)
	for i := range list {
		list[i] = s
	}
	return list
}

// Each text is another form of one envelope. Parse knows none of them.
func TestForeignForms(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"white space":       "{ \"payload\": \"+/8=\",\n\t\"payloadType\":\"t\", \"signatures\":[ {\"keyid\":\"k\",\"sig\":\"+/8=\"} ] }\n",
		"order":             `{"payloadType":"t","signatures":[{"sig":"+/8=","keyid":"k"}],"payload":"+/8="}`,
		"URL alphabet":      `{"payload":"-_8=","payloadType":"t","signatures":[{"keyid":"k","sig":"-_8="}]}`,
		"no padding":        `{"payload":"+/8","payloadType":"t","signatures":[{"keyid":"k","sig":"-_8"}]}`,
		"escapes":           `{"payload":"\u002b\/8=","payloadType":"\u0074","signatures":[{"keyid":"k","sig":"+/8="}]}`,
		"unknown members":   `{"payload":"+/8=","payloadType":"t","x":[1.5,null],"signatures":[{"keyid":"k","sig":"+/8=","cert":{}}]}`,
		"empty key id":      `{"payload":"+/8=","payloadType":"t","signatures":[{"keyid":"","sig":"+/8="}]}`,
		"16 with unknown s": `{"payload":"+/8=","payloadType":"t","signatures":[{"keyid":"k","sig":"+/8="}` + strings.Repeat(`,{"sig":"+/8=","x":0}`, 15) + `]}`,
	} {
		e, err := ParseForeign([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if string(e.payload) != "\xfb\xff" || e.payloadType != "t" || string(e.signatures[0].sig) != "\xfb\xff" {
			t.Errorf("%s: %+v", name, e)
		}
		if e, err := Parse([]byte(text)); err == nil || e != nil {
			t.Errorf("%s: Parse accepts it", name)
		}
	}
}

// No parser reads any of these.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const good = `{"payload":"/w==","payloadType":"t","signatures":[{"sig":"/w=="}]}`
	for name, parse := range parsers {
		if _, err := parse([]byte(good)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	refused := map[string]string{
		"empty":                   ``,
		"array":                   `[]`,
		"null":                    `null`,
		"two values":              good + good,
		"duplicate member":        `{"payload":"/w==","payload":"/w==","payloadType":"t","signatures":[{"sig":"/w=="}]}`,
		"member in two cases":     `{"payload":"/w==","Payload":"AA==","payloadType":"t","signatures":[{"sig":"/w=="}]}`,
		"member in another case":  `{"Payload":"/w==","payloadType":"t","signatures":[{"sig":"/w=="}]}`,
		"duplicate in an unknown": `{"payload":"/w==","payloadType":"t","x":{"y":1,"y":2},"signatures":[{"sig":"/w=="}]}`,
		"no payload":              `{"payloadType":"t","signatures":[{"sig":"/w=="}]}`,
		"no type":                 `{"payload":"/w==","signatures":[{"sig":"/w=="}]}`,
		"empty type":              `{"payload":"/w==","payloadType":"","signatures":[{"sig":"/w=="}]}`,
		"no signatures":           `{"payload":"/w==","payloadType":"t"}`,
		"null signatures":         `{"payload":"/w==","payloadType":"t","signatures":null}`,
		"empty signatures":        `{"payload":"/w==","payloadType":"t","signatures":[]}`,
		"signature without sig":   `{"payload":"/w==","payloadType":"t","signatures":[{"keyid":"k"}]}`,
		"empty sig":               `{"payload":"/w==","payloadType":"t","signatures":[{"sig":""}]}`,
		"null signature":          `{"payload":"/w==","payloadType":"t","signatures":[null]}`,
		"null key id":             `{"payload":"/w==","payloadType":"t","signatures":[{"keyid":null,"sig":"/w=="}]}`,
		"number as payload":       `{"payload":1,"payloadType":"t","signatures":[{"sig":"/w=="}]}`,
		"17 signatures":           `{"payload":"/w==","payloadType":"t","signatures":[{"sig":"/w=="}` + strings.Repeat(`,{"sig":"/w=="}`, 16) + `]}`,
		"stray bits":              `{"payload":"/x==","payloadType":"t","signatures":[{"sig":"/w=="}]}`,
		"two alphabets":           `{"payload":"+_8=","payloadType":"t","signatures":[{"sig":"/w=="}]}`,
		"half padded":             `{"payload":"/w=","payloadType":"t","signatures":[{"sig":"/w=="}]}`,
		"line end in base64":      `{"payload":"/w\n==","payloadType":"t","signatures":[{"sig":"/w=="}]}`,
		"line end in a signature": `{"payload":"/w==","payloadType":"t","signatures":[{"sig":"/w==\r"}]}`,
		"not UTF-8":               "{\"payload\":\"/w==\",\"payloadType\":\"\xff\",\"signatures\":[{\"sig\":\"/w==\"}]}",
		"deep":                    `{"payload":"/w==","payloadType":"t","signatures":[{"sig":"/w=="}],"x":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`,
		"many elements":           `{"payload":"/w==","payloadType":"t","signatures":[{"sig":"/w=="}],"x":[0` + strings.Repeat(",0", maxCommas) + `]}`,
		"long key id":             `{"payload":"/w==","payloadType":"t","signatures":[{"keyid":"` + strings.Repeat("k", MaxName+1) + `","sig":"/w=="}]}`,
		"long signature":          `{"payload":"/w==","payloadType":"t","signatures":[{"sig":"` + base64.StdEncoding.EncodeToString(make([]byte, MaxSignature+1)) + `"}]}`,
		"text beyond the limit":   `{"payload":"` + strings.Repeat("A", maxText) + `","payloadType":"t","signatures":[{"sig":"/w=="}]}`,
	}
	for name, text := range refused {
		for parser, parse := range parsers {
			if e, err := parse([]byte(text)); err == nil || e != nil {
				t.Errorf("%s: %s accepts it", name, parser)
			}
		}
	}
	for size, want := range map[int]bool{MaxPayload: true, MaxPayload + 1: false} {
		w := wire{base64.StdEncoding.EncodeToString(make([]byte, size)), testType, []wireSign{{"", "/w=="}}}
		for how, decode := range map[string]func(string) ([]byte, error){"canonical": decodeCanonical, "foreign": decodeForeign} {
			if _, err := w.envelope(decode); (err == nil) != want {
				t.Errorf("payload of %d bytes, %s: %v", size, how, err)
			}
		}
	}
}

func TestBitFlips(t *testing.T) {
	t.Parallel()
	s, v := keys(t, 1)
	e, err := Sign(testType, []byte("payload"), s)
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) * 8 {
		flipped := bytes.Clone(text)
		flipped[i/8] ^= 1 << (i % 8)
		for name, parse := range parsers {
			e, err := parse(flipped)
			if err != nil {
				continue
			}
			// The member "keyid" under another name is one that ParseForeign ignores.
			payload, _, err := e.Verify(testType, 1, v)
			if err == nil && (name == "Parse" || string(payload) != "payload") {
				t.Errorf("%s: bit %d: verifies with payload %q", name, i, payload)
			}
		}
	}
}

func TestSignerDoesNotPrint(t *testing.T) {
	t.Parallel()
	s, _ := keys(t, 7)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		if got := fmt.Sprintf(verb, s); got != "[ed25519 signer]" {
			t.Errorf("%s: %s", verb, got)
		}
	}
}

func vector(t *testing.T, name ...string) []byte {
	t.Helper()
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Skip("TRUEGREEN_VECTORS is not set")
	}
	b, err := os.ReadFile(filepath.Join(append([]string{dir}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const inToto = "application/vnd.in-toto+json"

func TestActaVector(t *testing.T) {
	t.Parallel()
	var key struct{ PublicKeyHex, Kid string }
	if err := json.Unmarshal(vector(t, "acta", "aps-gateway-enforcement", "_keys", "public-key.json"), &key); err != nil {
		t.Fatal(err)
	}
	public, err := hex.DecodeString(key.PublicKeyHex)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewEd25519Verifier(key.Kid, public)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ParseForeign(vector(t, "acta", "aps-gateway-enforcement", "4-portability", "intoto-envelope.json"))
	if err != nil {
		t.Fatal(err)
	}
	payload, ids, err := e.Verify(inToto, 1, v)
	if err != nil || len(ids) != 1 || ids[0] != key.Kid {
		t.Fatalf("%q, %v", ids, err)
	}
	statement := vector(t, "acta", "aps-gateway-enforcement", "4-portability", "in-toto-statement.json")
	if !bytes.Equal(bytes.TrimSpace(payload), bytes.TrimSpace(statement)) {
		t.Error("the payload is not the statement beside it")
	}
	e.payload[0] ^= 1
	if _, _, err := e.Verify(inToto, 1, v); !errors.Is(err, ErrSignatures) {
		t.Errorf("changed payload: %v", err)
	}
}

// These envelopes have "ed25519:" before the base64 of a signature, which is not
// DSSE. Without it they are, and three have a good signature: the rules that two
// of those break are pipelock's.
func TestPipelockVectors(t *testing.T) {
	t.Parallel()
	const folder = "fleet-receipt-v1"
	var key struct {
		ID     string `json:"key_id"`
		Public string `json:"public_key_hex"`
	}
	if err := json.Unmarshal(vector(t, "pipelock", folder, "test-key.json"), &key); err != nil {
		t.Fatal(err)
	}
	public, err := hex.DecodeString(key.Public)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewEd25519Verifier("", public)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv("TRUEGREEN_VECTORS"), "pipelock", folder, "*.dsse.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		text := vector(t, "pipelock", folder, name)
		if _, err := ParseForeign(text); err == nil {
			t.Errorf("%s: accepted with its prefix", name)
		}
		e, err := ParseForeign(bytes.Replace(text, []byte(`"ed25519:`), []byte(`"`), 1))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		payload, _, err := e.Verify(inToto, 1, v)
		switch name {
		case "valid-l1.dsse.json", "unpinned-rejected.dsse.json", "wrong-key-purpose.dsse.json":
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		default:
			if !errors.Is(err, ErrSignatures) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if name == "valid-l1.dsse.json" {
			sum := sha256.Sum256(payload)
			if !bytes.Contains(vector(t, "pipelock", folder, "valid-l1.golden"), []byte(hex.EncodeToString(sum[:]))) {
				t.Errorf("%s: payload digest %x is not the one on record", name, sum)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	s, _ := keys(f, 1)
	e, err := Sign(testType, []byte("payload"), s)
	if err != nil {
		f.Fatal(err)
	}
	text, err := e.Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"payload":"","payloadType":"t","signatures":[{"sig":"AA=="},{"keyid":"k","sig":"+/8="}]}`))
	f.Add([]byte(`{ "signatures":[{"sig":"-_8"}],"payloadType":"t", "payload":"_w", "x":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		foreign, foreignErr := ParseForeign(text)
		if foreignErr == nil {
			again, err := foreign.Append(nil)
			if err != nil {
				t.Fatalf("%q parses, but does not encode: %v", text, err)
			}
			if _, err := Parse(again); err != nil {
				t.Fatalf("%q encodes as %q, which does not parse: %v", text, again, err)
			}
		}
		e, err := Parse(text)
		if err != nil {
			return
		}
		if foreignErr != nil || !reflect.DeepEqual(e, foreign) {
			t.Fatalf("%q: Parse accepts it, ParseForeign does not agree: %v", text, foreignErr)
		}
		if again, err := e.Append(nil); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("%q parses and encodes as %q, %v", text, again, err)
		}
	})
}
