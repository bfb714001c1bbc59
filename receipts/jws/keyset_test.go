package jws

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

func ids(s KeySet) []string {
	var list []string
	for _, k := range s.Keys() {
		list = append(list, k.ID)
	}
	return list
}

func TestParseKeySet(t *testing.T) {
	t.Parallel()
	one := &first().PublicKey
	s := setOf(t,
		jwk("b", one, `,"alg":"RS256","use":"sig","x5t":"t","x5c":["AA=="],"issuer":"https://other.example","not_after":"2026-01-02T03:04:05Z"`),
		jwk("a", &second().PublicKey, ""),
		`{"kty":"EC","crv":"P-256","x":"AA","y":"AA","kid":"c"}`,
		`{"kty":"oct","k":"AA","kid":"d"}`,
		jwk("e", one, `,"use":"enc"`), jwk("g", one, `,"key_ops":["encrypt"]`), jwk("f", one, `,"alg":"PS256"`),
	)
	keys := s.Keys()
	if len(keys) != 2 || keys[0].ID != "a" || keys[0].Issuer != issuer || !keys[0].NotAfter.IsZero() || keys[0].Algorithm != "" ||
		keys[1].ID != "b" || keys[1].Issuer != "https://other.example" || keys[1].Algorithm != RS256 ||
		!keys[1].NotAfter.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("%+v", keys)
	}
	text, err := s.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n != 4 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	again, err := ParseKeySet(text, "https://nobody.example")
	if err != nil {
		t.Fatal(err)
	}
	if twice, err := again.Append(nil); err != nil || !bytes.Equal(twice, text) {
		t.Errorf("%s, %v, want %s", twice, err, text)
	}
}

func TestBadKeySet(t *testing.T) {
	t.Parallel()
	one := &first().PublicKey
	set := func(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }
	n := b64(one.N.Bytes())
	rsaKey := func(n, e string) string { return set(fmt.Sprintf(`{"kty":"RSA","kid":"k","n":%q,"e":%q}`, n, e)) }
	even := new(big.Int).Sub(one.N, big.NewInt(1))
	huge := new(big.Int).SetBit(big.NewInt(1), maxModulus, 1)
	many := slices.Repeat([]string{`{"kty":"oct"}`}, MaxKeys+1)
	if _, err := ParseKeySet([]byte(rsaKey(n, "AQAB")), ""); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":              "",
		"list":               "[" + jwk("k", one, "") + "]",
		"null":               "null",
		"no keys":            `{}`,
		"keys null":          `{"keys":null}`,
		"keys is an object":  `{"keys":{}}`,
		"no key":             set(),
		"none of use":        set(`{"kty":"oct","k":"AA","kid":"d"}`),
		"key is a string":    set(`"k"`),
		"key null":           set(`null`),
		"no kty":             set(`{"kid":"k"}`),
		"no kid":             set(fmt.Sprintf(`{"kty":"RSA","n":%q,"e":"AQAB"}`, n)),
		"empty kid":          set(jwk("", one, "")),
		"long kid":           set(jwk(strings.Repeat("k", maxKeyID+1), one, "")),
		"kid is a number":    set(fmt.Sprintf(`{"kty":"RSA","kid":1,"n":%q,"e":"AQAB"}`, n)),
		"one kid twice":      set(jwk("k", one, ""), jwk("k", one, "")),
		"kid, other issuer":  set(jwk("k", one, ""), jwk("k", &second().PublicKey, `,"issuer":"https://other.example"`)),
		"keys twice":         `{"keys":[` + jwk("k", one, "") + `],"keys":[]}`,
		"n twice":            set(jwk("k", one, `,"n":"AA"`)),
		"n twice by case":    set(jwk("k", one, `,"N":"AA"`)),
		"n even":             rsaKey(b64(even.Bytes()), "AQAB"),
		"n too small":        set(jwk("k", &weak().PublicKey, "")),
		"n too large":        rsaKey(b64(huge.Bytes()), "AQAB"),
		"n far too large":    rsaKey(strings.Repeat("_", 20000), "AQAB"),
		"n with zeros":       rsaKey(b64(append([]byte{0}, one.N.Bytes()...)), "AQAB"),
		"n padded":           rsaKey(n+"==", "AQAB"),
		"n empty":            rsaKey("", "AQAB"),
		"e is 1":             rsaKey(n, "AQ"),
		"e is 2":             rsaKey(n, "Ag"),
		"e even":             rsaKey(n, "AQAA"),
		"e too large":        rsaKey(n, "_____w"),
		"e huge":             rsaKey(n, strings.Repeat("_", 64)),
		"e is a number":      set(fmt.Sprintf(`{"kty":"RSA","kid":"k","n":%q,"e":65537}`, n)),
		"not_after empty":    set(jwk("k", one, `,"not_after":""`)),
		"not_after a number": set(jwk("k", one, `,"not_after":1700000000`)),
		"not_after zone":     set(jwk("k", one, `,"not_after":"2026-01-02T03:04:05+00:00"`)),
		"not_after fraction": set(jwk("k", one, `,"not_after":"2026-01-02T03:04:05.5Z"`)),
		"not_after day":      set(jwk("k", one, `,"not_after":"2026-02-30T03:04:05Z"`)),
		"long issuer":        set(jwk("k", one, `,"issuer":"`+strings.Repeat("i", maxIssuer+1)+`"`)),
		"alg is a list":      set(jwk("k", one, `,"alg":["RS256"]`)),
		"key_ops a string":   set(jwk("k", one, `,"key_ops":"verify"`)),
		"use is a list":      set(jwk("k", one, `,"use":["sig"]`)),
		"too many":           set(append(many, jwk("k", one, ""))...),
		"too large":          set(jwk("k", one, `,"x":"`+strings.Repeat("x", MaxKeySet)+`"`)),
		"behind":             rsaKey(n, "AQAB") + "x",
	} {
		if s, err := ParseKeySet([]byte(text), issuer); err == nil || s.keys != nil {
			t.Errorf("%s: accepted: %v", name, err)
		}
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	one, two := &first().PublicKey, &second().PublicKey
	now := time.Date(2026, 5, 6, 7, 8, 9, 10, time.UTC)
	with := func(keys ...string) KeySet { return setOf(t, keys...) }
	const long, then = `,"not_after":"2026-01-02T03:04:05Z"`, `,"not_after":"2026-05-06T07:08:09Z"`
	for name, test := range map[string]struct {
		old, published, want KeySet
		update               Update
	}{
		"first":         {KeySet{}, with(jwk("a", one, "")), with(jwk("a", one, "")), Update{Added: []string{"a"}}},
		"same":          {with(jwk("a", one, "")), with(jwk("a", one, "")), with(jwk("a", one, "")), Update{}},
		"rotated":       {with(jwk("a", one, "")), with(jwk("b", two, "")), with(jwk("a", one, then), jwk("b", two, "")), Update{Added: []string{"b"}, Retired: []string{"a"}}},
		"gone for long": {with(jwk("a", one, long), jwk("b", two, "")), with(jwk("b", two, "")), with(jwk("a", one, long), jwk("b", two, "")), Update{}},
		"returned":      {with(jwk("a", one, long)), with(jwk("a", one, "")), with(jwk("a", one, long)), Update{Returned: []string{"a"}}},
		"of another issuer": {
			with(jwk("a", one, `,"issuer":"https://other.example"`)), with(jwk("b", two, "")),
			with(jwk("a", one, `,"issuer":"https://other.example"`), jwk("b", two, "")), Update{Added: []string{"b"}},
		},
		"what an issuer says of itself": {KeySet{}, with(jwk("a", one, `,"issuer":"https://other.example"`+long)), with(jwk("a", one, "")), Update{Added: []string{"a"}}},
	} {
		got, update, err := test.old.Update(issuer, test.published, now)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, _ := got.Append(nil)
		want, _ := test.want.Append(nil)
		if !bytes.Equal(text, want) || fmt.Sprint(update) != fmt.Sprint(test.update) {
			t.Errorf("%s: %+v\n%s\nwant %+v\n%s", name, update, text, test.update, want)
		}
	}
	for name, test := range map[string][2]KeySet{
		"other key under one kid": {with(jwk("a", one, "")), with(jwk("a", two, ""))},
		"kid of another issuer":   {with(jwk("a", one, `,"issuer":"https://other.example"`)), with(jwk("a", one, ""))},
	} {
		if got, _, err := test[0].Update(issuer, test[1], now); err == nil || got.keys != nil {
			t.Errorf("%s: accepted: %v", name, ids(got))
		}
	}
	var old, published []string
	for i := range MaxKeys {
		old, published = append(old, jwk(fmt.Sprint("old", i), one, "")), append(published, jwk(fmt.Sprint("new", i), two, ""))
	}
	if got, _, err := with(old...).Update(issuer, with(published...), now); err == nil || got.keys != nil {
		t.Error("more keys than a set may have")
	}
}

func FuzzParseKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[` + jwk("a", &first().PublicKey, `,"alg":"RS256","not_after":"2026-01-02T03:04:05Z"`) + `,` + jwk("b", &second().PublicKey, "") + `]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseKeySet(text, issuer)
		if err != nil {
			return
		}
		form, err := s.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseKeySet(form, issuer)
		if err != nil {
			t.Fatalf("%q is written as %q, which does not parse: %v", text, form, err)
		}
		if twice, err := again.Append(nil); err != nil || !bytes.Equal(twice, form) {
			t.Fatalf("%q is written as %q and as %q", text, form, twice)
		}
	})
}
