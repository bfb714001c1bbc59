package jws

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWycheproof compares the layer below the claims with Wycheproof's RSA vectors for
// RS256. Their payloads are no JSON objects and most headers have no kid, so it goes
// through the parts of [parse] and [KeySet.Verify] that do not ask for these.
func TestWycheproof(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Skip("TRUEGREEN_VECTORS is not set")
	}
	text, err := os.ReadFile(filepath.Join(dir, "jws/json_web_signature_test.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TestGroups []struct {
			Public map[string]any
			Tests  []struct {
				TCID            int
				Comment, Result string
				JWS             any // there are some in the JSON serialisation
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	valid, invalid := 0, 0
	for _, g := range file.TestGroups {
		if g.Public["kty"] != "RSA" {
			continue
		}
		g.Public["kid"] = "k"
		key, err := json.Marshal(g.Public)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := ParseKeySet([]byte(`{"keys":[`+string(key)+`]}`), issuer)
		if alg := g.Public["alg"]; alg != "RS256" {
			if err == nil && alg != nil {
				t.Errorf("a key for %v is of use", alg)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		for _, test := range g.Tests {
			compact, ok := test.JWS.(string)
			if !ok {
				continue
			}
			accepted := acceptsWithoutClaims(keys, compact)
			if want := test.Result == "valid"; accepted != want {
				t.Errorf("%d %s: accepted %t", test.TCID, test.Comment, accepted)
			} else if want {
				valid++
			} else {
				invalid++
			}
		}
	}
	if valid < 5 || invalid < 200 {
		t.Errorf("%d valid and %d invalid tokens", valid, invalid)
	}
}

// acceptsWithoutClaims verifies a token as far as parts, alg and signature go.
func acceptsWithoutClaims(keys KeySet, compact string) bool {
	parts := strings.Split(compact, ".")
	if len(parts) != 3 {
		return false
	}
	var t Token
	var err error
	for i, to := range []*[]byte{&t.header, &t.payload, &t.signature} {
		if *to, err = decode(parts[i]); err != nil && (i != 1 || parts[i] != "") {
			return false
		}
	}
	h, err := object(t.header)
	if err != nil {
		return false
	}
	if err := new(Profile).readHeader(&t, h); err != nil && !strings.HasPrefix(err.Error(), "kid: absent") {
		return false
	}
	chosen, err := choose(t.algorithm, []Algorithm{RS256})
	if err != nil {
		return false
	}
	return chosen.verify(keys.keys[0].public, t.signed(nil), t.signature) == nil
}
