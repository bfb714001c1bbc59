package jws

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"
)

// Keys are made once: it takes a while.
var (
	first  = sync.OnceValue(func() *rsa.PrivateKey { return generate(2048) })
	second = sync.OnceValue(func() *rsa.PrivateKey { return generate(2048) })
	weak   = sync.OnceValue(func() *rsa.PrivateKey { return generate(1024) })
)

func generate(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return key
}

const issuer = "https://issuer.example"

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwk returns the JSON of a key, with more members behind it.
func jwk(id string, public *rsa.PublicKey, more string) string {
	return fmt.Sprintf(`{"kty":"RSA","kid":%q,"n":%q,"e":%q%s}`, id, b64(public.N.Bytes()), b64(big.NewInt(int64(public.E)).Bytes()), more)
}

func setOf(t testing.TB, keys ...string) KeySet {
	t.Helper()
	s, err := ParseKeySet([]byte(`{"keys":[`+strings.Join(keys, ",")+`]}`), issuer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sign makes a token of any header and payload.
func sign(t testing.TB, key *rsa.PrivateKey, header, payload string) string {
	t.Helper()
	signed := b64([]byte(header)) + "." + b64([]byte(payload))
	sum := sha256.Sum256([]byte(signed))
	sig, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + b64(sig)
}

const plain = `{"typ":"JWT","alg":"RS256","x5t":"thumb","kid":"one"}`

func TestVerify(t *testing.T) {
	t.Parallel()
	keys := setOf(t, jwk("one", &first().PublicKey, `,"alg":"RS256","use":"sig","x5c":["AA=="]`), jwk("two", &second().PublicKey, ""))
	token, err := Parse([]byte(sign(t, first(), plain, ` {"iss":"me", "iat":1700000000,"n":-1,"f":1.0,"large":9007199254740992,"zeros":1e3,"nested":{"a":[1]}}`)))
	if err != nil {
		t.Fatal(err)
	}
	if token.KeyID() != "one" {
		t.Errorf("kid %q", token.KeyID())
	}
	claims, key, err := keys.Verify(token, RS256)
	if err != nil || key.ID != "one" || key.Issuer != issuer || key.Bits() != 2048 {
		t.Fatalf("%+v, %v", key, err)
	}
	if iss, err := claims.Text("iss"); err != nil || iss != "me" {
		t.Errorf("iss %q, %v", iss, err)
	}
	if iat, err := claims.Integer("iat"); err != nil || iat != 1700000000 {
		t.Errorf("iat %d, %v", iat, err)
	}
	if !claims.Has("nested") || claims.Has("Iss") || claims.Has("exp") {
		t.Error("Has")
	}
	for _, name := range []string{"n", "f", "large", "zeros", "iss", "nested", "exp"} {
		if n, err := claims.Integer(name); err == nil || n != 0 {
			t.Errorf("%s is the number %d", name, n)
		}
	}
	for _, name := range []string{"iat", "nested", "ISS"} {
		if s, err := claims.Text(name); err == nil || s != "" {
			t.Errorf("%s is the string %q", name, s)
		}
	}
	if _, _, err := keys.Verify(Token{}, RS256); err == nil {
		t.Error("a zero token verifies")
	}
	if _, _, err := (KeySet{}).Verify(token, RS256); !errors.Is(err, ErrNoKey) {
		t.Errorf("no keys: %v", err)
	}
}

// TestAttacks has what other libraries were seen to accept, and what RFC 8725 warns of.
// Every token is signed, by the key that it names, unless the attack is another.
func TestAttacks(t *testing.T) {
	t.Parallel()
	const payload = `{"iat":1700000000}`
	keys := setOf(t, jwk("one", &first().PublicKey, ""), jwk("two", &second().PublicKey, ""))
	good := sign(t, first(), plain, payload)
	parts := strings.Split(good, ".")
	header := func(h string) string { return sign(t, first(), h, payload) }
	body := func(p string) string { return sign(t, first(), plain, p) }
	hmacKey := b64(first().N.Bytes())
	loose := []byte(parts[2]) // 256 bytes leave 4 bits of the last character unused
	loose[len(loose)-1] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", loose[len(loose)-1])+1]

	if token, err := Parse([]byte(good)); err != nil {
		t.Fatal(err)
	} else if _, _, err := keys.Verify(token, RS256); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":                     "",
		"alg none, no signature":    b64([]byte(`{"alg":"none","kid":"one"}`)) + "." + parts[1] + ".",
		"alg none":                  header(`{"alg":"none","kid":"one"}`),
		"alg None":                  header(`{"alg":"None","kid":"one"}`),
		"alg rs256":                 header(`{"alg":"rs256","kid":"one"}`),
		"no alg":                    header(`{"kid":"one"}`),
		"alg is a list":             header(`{"alg":["RS256"],"kid":"one"}`),
		"alg null":                  header(`{"alg":null,"kid":"one"}`),
		"ALG":                       header(`{"ALG":"RS256","kid":"one"}`),
		"key confusion":             b64([]byte(`{"alg":"HS256","kid":"one"}`)) + "." + parts[1] + "." + hmacKey,
		"HS256":                     header(`{"alg":"HS256","kid":"one"}`),
		"RS512":                     header(`{"alg":"RS512","kid":"one"}`),
		"PS256":                     header(`{"alg":"PS256","kid":"one"}`),
		"duplicate alg":             header(`{"alg":"none","alg":"RS256","kid":"one"}`),
		"duplicate alg by case":     header(`{"alg":"RS256","Alg":"none","kid":"one"}`),
		"duplicate kid":             header(`{"alg":"RS256","kid":"two","kid":"one"}`),
		"no kid":                    header(`{"alg":"RS256"}`),
		"empty kid":                 header(`{"alg":"RS256","kid":""}`),
		"kid is a number":           header(`{"alg":"RS256","kid":1}`),
		"long kid":                  header(`{"alg":"RS256","kid":"` + strings.Repeat("k", maxKeyID+1) + `"}`),
		"another's kid":             header(`{"alg":"RS256","kid":"two"}`),
		"kid is a path":             header(`{"alg":"RS256","kid":"../../dev/null"}`),
		"crit":                      header(`{"alg":"RS256","kid":"one","crit":["exp"],"exp":1}`),
		"crit unknown":              header(`{"alg":"RS256","kid":"one","crit":["x"]}`),
		"crit empty":                header(`{"alg":"RS256","kid":"one","crit":[]}`),
		"b64 false":                 header(`{"alg":"RS256","kid":"one","b64":false,"crit":["b64"]}`),
		"b64 true":                  header(`{"alg":"RS256","kid":"one","b64":true}`),
		"zip":                       header(`{"alg":"RS256","kid":"one","zip":"DEF"}`),
		"cty":                       header(`{"alg":"RS256","kid":"one","cty":"JWT"}`),
		"enc":                       header(`{"alg":"RS256","kid":"one","enc":"A128GCM"}`),
		"jwk":                       header(`{"alg":"RS256","kid":"one","jwk":` + jwk("one", &first().PublicKey, "") + `}`),
		"jku":                       header(`{"alg":"RS256","kid":"one","jku":"https://attacker.example/jwks"}`),
		"x5u":                       header(`{"alg":"RS256","kid":"one","x5u":"https://attacker.example/x"}`),
		"x5c":                       header(`{"alg":"RS256","kid":"one","x5c":["AA=="]}`),
		"typ of something else":     header(`{"alg":"RS256","kid":"one","typ":"at+jwt"}`),
		"typ null":                  header(`{"alg":"RS256","kid":"one","typ":null}`),
		"header is a list":          header(`[]`),
		"header is null":            header(`null`),
		"header is a string":        header(`"RS256"`),
		"header is two values":      header(plain + plain),
		"header not UTF-8":          header("{\"alg\":\"RS256\",\"kid\":\"one\",\"x\":\"\xff\"}"),
		"header with a mark":        header("\ufeff" + plain),
		"stripped signature":        parts[0] + "." + parts[1] + ".",
		"no signature":              parts[0] + "." + parts[1],
		"four parts":                good + "." + parts[2],
		"five parts":                good + "." + parts[2] + "." + parts[2],
		"signature of another key":  sign(t, second(), plain, payload),
		"payload exchanged":         parts[0] + "." + b64([]byte(`{"iat":1700000001}`)) + "." + parts[2],
		"header exchanged":          b64([]byte(`{"alg":"RS256","kid":"one"}`)) + "." + parts[1] + "." + parts[2],
		"padded signature":          good + "==",
		"loose bits":                parts[0] + "." + parts[1] + "." + string(loose),
		"line end in the signature": parts[0] + "." + parts[1] + "." + parts[2][:8] + "\n" + parts[2][8:],
		"return in the payload":     parts[0] + "." + parts[1][:4] + "\r" + parts[1][4:] + "." + parts[2],
		"line end behind":           good + "\n",
		"space before":              " " + good,
		"standard alphabet":         parts[0] + "." + parts[1] + "." + strings.NewReplacer("-", "+", "_", "/").Replace(parts[2]) + "+/",
		"JSON serialisation":        `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`,
		"short signature":           parts[0] + "." + parts[1] + "." + b64([]byte("x")),
		"signature is zero":         parts[0] + "." + parts[1] + "." + b64(make([]byte, 256)),
		"signature is one":          parts[0] + "." + parts[1] + "." + b64(append(make([]byte, 255), 1)),
		"duplicate claim":           body(`{"iat":1,"iat":1700000000}`),
		"duplicate claim by case":   body(`{"iat":1,"IAT":2}`),
		"duplicate claim inside":    body(`{"iat":1,"a":[{"b":1,"b":2}]}`),
		"escaped duplicate":         body(`{"iat":1,"\u0069at":2}`),
		"payload is a list":         body(`[1]`),
		"payload is null":           body(`null`),
		"payload is nothing":        body(` `),
		"payload not UTF-8":         body("{\"a\":\"\xff\"}"),
		"lone surrogate":            body(`{"a":"\ud800"}`),
		"deep":                      body(`{"a":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`),
		"data behind the payload":   body(payload + " x"),
		"too large":                 body(`{"a":"` + strings.Repeat("x", MaxToken) + `"}`),
	} {
		token, err := Parse([]byte(text))
		if err != nil {
			if token.KeyID() != "" || len(token.Append(nil)) > 2 {
				t.Errorf("%s: not zero after an error", name)
			}
			continue
		}
		claims, key, err := keys.Verify(token, RS256)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		if claims.members != nil || key.public != nil {
			t.Errorf("%s: claims after an error", name)
		}
	}
}

func TestStandardAlphabet(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"-_8", "-_-_"} {
		if _, err := decode(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		if _, err := decode(strings.NewReplacer("-", "+", "_", "/").Replace(s)); err == nil {
			t.Errorf("%s in the standard alphabet: accepted", s)
		}
	}
}

// TestAlgorithms: a caller says what counts, and not two families at once.
func TestAlgorithms(t *testing.T) {
	t.Parallel()
	token, err := Parse([]byte(sign(t, first(), plain, `{}`)))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		key     string
		allowed []Algorithm
		ok      bool
	}{
		"right":             {jwk("one", &first().PublicKey, ""), []Algorithm{RS256}, true},
		"none allowed":      {jwk("one", &first().PublicKey, ""), nil, false},
		"unknown allowed":   {jwk("one", &first().PublicKey, ""), []Algorithm{RS256, "none"}, false},
		"for signatures":    {jwk("one", &first().PublicKey, `,"use":"sig"`), []Algorithm{RS256}, true},
		"for encryption":    {jwk("one", &first().PublicKey, `,"use":"enc"`), []Algorithm{RS256}, false},
		"for something new": {jwk("one", &first().PublicKey, `,"alg":"RS1024"`), []Algorithm{RS256}, false},
	} {
		keys := setOf(t, test.key, jwk("other", &second().PublicKey, ""))
		if _, _, err := keys.Verify(token, test.allowed...); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNotAfter: a retired key counts for what was made by then.
func TestNotAfter(t *testing.T) {
	t.Parallel()
	keys := setOf(t, jwk("one", &first().PublicKey, `,"not_after":"2026-01-02T03:04:05Z"`))
	retired := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Unix()
	for payload, want := range map[string]error{
		fmt.Sprintf(`{"iat":%d}`, retired):         nil,
		fmt.Sprintf(`{"iat":%d}`, retired-1):       nil,
		fmt.Sprintf(`{"iat":%d}`, retired+1):       ErrNoKey,
		`{"iat":9007199254740991}`:                 ErrNoKey,
		`{"exp":1}`:                                errAbsent,
		fmt.Sprintf(`{"iat":"%d"}`, retired):       errAny,
		fmt.Sprintf(`{"iat":%d.0}`, retired):       errAny,
		fmt.Sprintf(`{"iat":-%d}`, retired):        errAny,
		`{"iat":18446744073709551616}`:             errAny,
		fmt.Sprintf(`{"iat":%d,"nbf":1}`, retired): nil,
	} {
		token, err := Parse([]byte(sign(t, first(), plain, payload)))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = keys.Verify(token, RS256)
		if want == errAny && err != nil && !errors.Is(err, ErrNoKey) {
			continue
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", payload, err, want)
		}
	}
	// A forged token does not learn that its key is a retired one.
	token, err := Parse([]byte(sign(t, second(), plain, fmt.Sprintf(`{"iat":%d}`, retired+1))))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := keys.Verify(token, RS256); !errors.Is(err, errSignature) {
		t.Errorf("forged: %v", err)
	}
}

var errAny = errors.New("any")

func FuzzParse(f *testing.F) {
	f.Add([]byte(sign(f, first(), plain, `{"iat":1700000000}`)))
	f.Add([]byte("eyJhbGciOiJub25lIiwia2lkIjoiMSJ9.e30.AA"))
	f.Add([]byte("e30.e30.AA"))
	keys := setOf(f, jwk("two", &second().PublicKey, ""))
	f.Fuzz(func(t *testing.T, text []byte) {
		token, err := Parse(text)
		if err != nil {
			return
		}
		if again := token.Append(nil); !bytes.Equal(again, text) {
			t.Fatalf("%q parses and encodes as %q", text, again)
		}
		if _, _, err := keys.Verify(token, RS256); err == nil {
			t.Fatalf("%q verifies, and nobody has signed it", text)
		}
	})
}
