package jws_test

import (
	"crypto"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts/foreign"
	"github.com/truegreen-dev/truegreen/receipts/jws"
)

// vectors reads a file of public test vectors.
func vectors(t *testing.T, name string, to any) {
	t.Helper()
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Skip("TRUEGREEN_VECTORS is not set")
	}
	text, err := os.ReadFile(filepath.Join(dir, "jws", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}

type wycheproof struct {
	TestGroups []struct {
		Comment         string
		Public, Private json.RawMessage
		Tests           []struct {
			TCID            int
			Comment, Result string
			JWS             json.RawMessage
		}
	}
}

type verifierKey struct {
	name     string
	verifier *jws.Verifier
}

// load makes verifiers of a group's keys, as a careful application would: of public keys
// with the loader of receipts, of secrets by their alg and use.
func load(set json.RawMessage) ([]verifierKey, error) {
	var secrets struct {
		Keys             []struct{ Kty, K, Kid, Alg, Use string }
		Kty, K, Kid, Alg string
		Use              string
	}
	if err := json.Unmarshal(set, &secrets); err != nil {
		return nil, err
	}
	if secrets.Keys == nil {
		secrets.Keys = append(secrets.Keys, struct{ Kty, K, Kid, Alg, Use string }{secrets.Kty, secrets.K, secrets.Kid, secrets.Alg, secrets.Use})
	}
	var list []verifierKey
	seen := map[string]bool{}
	for _, s := range secrets.Keys {
		if s.Kty != "oct" {
			if len(list) > 0 {
				return nil, errors.New("secrets and public keys in one set")
			}
			return loadPublic(set)
		}
		if seen[s.Kid] {
			return nil, errors.New("a kid twice")
		}
		seen[s.Kid] = true
		secret, err := base64.RawURLEncoding.DecodeString(s.K)
		if err != nil {
			return nil, err
		}
		v, err := jws.NewVerifier(jws.Secret(secret), jws.Algorithm(s.Alg))
		if err != nil {
			return nil, err
		}
		list = append(list, verifierKey{s.Kid, v})
	}
	return list, nil
}

func loadPublic(set json.RawMessage) ([]verifierKey, error) {
	keys, err := foreign.ParseKeys(set)
	if err != nil {
		return nil, err
	}
	var list []verifierKey
	for _, k := range keys {
		v, err := jws.NewVerifier(k.Public, jws.Algorithm(k.Algorithm))
		if err != nil {
			return nil, err
		}
		list = append(list, verifierKey{k.Name, v})
	}
	return list, nil
}

// run puts a group's tokens to its keys, and returns the tests whose answer is another
// than their result.
func (w *wycheproof) run(t *testing.T, stripped bool) (differ map[int]string, valid, invalid int) {
	differ = map[int]string{}
	for _, g := range w.TestGroups {
		set := g.Public
		if set == nil {
			set = g.Private
			if stripped {
				set = public(t, set)
			}
		}
		keys, err := load(set)
		if err != nil {
			t.Logf("%s: %v", g.Comment, err) // no key: every token is refused
		}
		for _, test := range g.Tests {
			accepted := false
			var compact string
			if json.Unmarshal(test.JWS, &compact) != nil {
				compact = string(test.JWS) // in the JSON serialisation
			}
			for _, k := range keys {
				accepted = accepted || jws.CheckSignature(k.verifier, []byte(compact)) == nil
			}
			switch want := test.Result == "valid"; {
			case accepted != want:
				differ[test.TCID] = test.Comment
			case want:
				valid++
			default:
				invalid++
			}
		}
	}
	return differ, valid, invalid
}

// public takes the private members out of a set.
func public(t *testing.T, set json.RawMessage) json.RawMessage {
	t.Helper()
	var s struct {
		Keys []map[string]any `json:"keys"`
	}
	if err := json.Unmarshal(set, &s); err != nil {
		t.Fatal(err)
	}
	if s.Keys == nil {
		return set
	}
	for _, k := range s.Keys {
		for _, name := range []string{"d", "p", "q", "dp", "dq", "qi"} {
			delete(k, name)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// wycheproofExceptions are the tests whose answer is another here, and why.
var wycheproofExceptions = map[int]string{
	346: "a PS384 token, and the key's alg is PS256: a key is for its alg alone",
	350: "the same, and the key has key_ops",
	347: "the key's alg is ES521, which is no algorithm: a key of an unknown one is for nothing",
	351: "the same, and the key has key_ops",
	372: "called valid, with a question mark in the header: RFC 7515 has no such character",
	373: "the same, in the payload",
	367: "called invalid, and is byte for byte the token of 357, which is valid",
	370: "the same",
}

// TestWycheproofSignatures has all of Wycheproof's tokens, with the keys that they come
// with.
func TestWycheproofSignatures(t *testing.T) {
	t.Parallel()
	var w wycheproof
	vectors(t, "json_web_signature_test.json", &w)
	differ, valid, invalid := w.run(t, false)
	for id, comment := range differ {
		if wycheproofExceptions[id] == "" {
			t.Errorf("%d %s: unexpected", id, comment)
		}
	}
	tokens := map[int]string{}
	for _, g := range w.TestGroups {
		for _, test := range g.Tests {
			tokens[test.TCID] = test.Result + string(test.JWS)
		}
	}
	for id := range wycheproofExceptions {
		if _, ok := differ[id]; !ok {
			t.Errorf("%d: is as Wycheproof has it: remove the exception", id)
		}
		// An invalid token that is accepted has to be one that is valid, too.
		if token, invalid := strings.CutPrefix(tokens[id], "invalid"); invalid && "valid"+token != tokens[357] {
			t.Errorf("%d: an exception that no other test speaks for", id)
		}
	}
	if valid != 40 || invalid != 353 {
		t.Errorf("%d valid and %d invalid tokens", valid, invalid)
	}
}

// TestWycheproofKeys has all of Wycheproof's key sets, without the private halves that
// no verifier is given.
func TestWycheproofKeys(t *testing.T) {
	t.Parallel()
	var w wycheproof
	vectors(t, "json_web_key_test.json", &w)
	differ, valid, invalid := w.run(t, true)
	for id, comment := range differ {
		t.Errorf("%d %s: unexpected", id, comment)
	}
	if valid+invalid != 26 || valid < 4 {
		t.Errorf("%d valid and %d invalid sets", valid, invalid)
	}
}

// TestWycheproofEd25519 makes no token of the vectors: their messages are any bytes.
func TestWycheproofEd25519(t *testing.T) {
	t.Parallel()
	var w struct {
		TestGroups []struct {
			PublicKeyJWK json.RawMessage
			PublicKeyPEM string
			PublicKey    struct{ PK string }
			Tests        []struct {
				TCID             int
				Msg, Sig, Result string
			}
		}
	}
	vectors(t, "ed25519_test.json", &w)
	n := map[string]int{}
	for _, g := range w.TestGroups {
		var public crypto.PublicKey
		for _, form := range []string{string(g.PublicKeyJWK), g.PublicKeyPEM, g.PublicKey.PK} {
			keys, err := foreign.ParseKeys([]byte(form))
			if err != nil || len(keys) != 1 {
				t.Fatalf("%s: %v", form, err)
			}
			if public != nil && !public.(interface{ Equal(crypto.PublicKey) bool }).Equal(keys[0].Public) {
				t.Errorf("%s: another key than in the form before", form)
			}
			public = keys[0].Public
		}
		for _, test := range g.Tests {
			msg, err1 := hex.DecodeString(test.Msg)
			sig, err2 := hex.DecodeString(test.Sig)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			if accepted := jws.CheckBytes(public, jws.Ed25519, msg, sig); accepted != (test.Result == "valid") {
				t.Errorf("%d: accepted %t", test.TCID, accepted)
			}
			n[test.Result]++
		}
	}
	if n["valid"] != 88 || n["invalid"] != 63 {
		t.Errorf("%v", n)
	}
}
