package jws_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/truegreen-dev/truegreen/receipts/foreign"
	"github.com/truegreen-dev/truegreen/receipts/jws"
)

// A pair is what signs with go-jose, and what verifies here.
type pair struct {
	private any // for go-jose
	public  crypto.PublicKey
}

var pairs = sync.OnceValue(func() map[jws.Algorithm]pair {
	list := map[jws.Algorithm]pair{}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	list[jws.EdDSA] = pair{private, public}
	for name, curve := range map[jws.Algorithm]elliptic.Curve{jws.ES256: elliptic.P256(), jws.ES384: elliptic.P384(), jws.ES512: elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			panic(err)
		}
		list[name] = pair{key, &key.PublicKey}
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	for _, name := range []jws.Algorithm{jws.RS256, jws.RS384, jws.RS512, jws.PS256, jws.PS384, jws.PS512} {
		list[name] = pair{rsaKey, &rsaKey.PublicKey}
	}
	for name, size := range map[jws.Algorithm]int{jws.HS256: 32, jws.HS384: 48, jws.HS512: 64} {
		secret := make([]byte, size)
		rand.Read(secret)
		list[name] = pair{secret, jws.Secret(secret)}
	}
	return list
})

// joseSign makes a token with another library.
func joseSign(t testing.TB, name jws.Algorithm, payload string) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(name), Key: pairs()[name].private},
		(&jose.SignerOptions{}).WithHeader("kid", "one").WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// joseAccepts verifies a token with another library.
func joseAccepts(text string, name jws.Algorithm) (payload []byte, ok bool) {
	signed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(name)})
	if err != nil {
		return nil, false
	}
	key := any(pairs()[name].public)
	if secret, ok := key.(jws.Secret); ok {
		key = []byte(secret)
	}
	payload, err = signed.Verify(key)
	return payload, err == nil
}

func accepts(t testing.TB, text string, key crypto.PublicKey, allowed ...jws.Algorithm) bool {
	t.Helper()
	token, err := jws.Parse([]byte(text))
	if err != nil {
		return false
	}
	v, err := jws.NewVerifier(key, allowed...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Verify(token)
	return err == nil
}

// TestAlgorithmsAgainstJOSE: each algorithm verifies what another library signs, under
// its key and its name alone, and no change is missed: nor of the bits at the end of
// payload and signature that stand for nothing, which the other library passes over.
func TestAlgorithmsAgainstJOSE(t *testing.T) {
	t.Parallel()
	for name, p := range pairs() {
		text := joseSign(t, name, `{"iat":1700000000,"tool_name":"shell"}`)
		if !accepts(t, text, p.public, name) {
			t.Errorf("%s: refused", name)
		}
		for other, q := range pairs() {
			if name != other && accepts(t, text, q.public, other) {
				t.Errorf("%s: accepted by one who allows %s alone", name, other)
			}
		}
		first, last := strings.IndexByte(text, '.'), strings.LastIndexByte(text, '.')
		for _, at := range []int{1, first - 1, first, first + 1, last - 1, last, last + 1, (last + len(text)) / 2, len(text) - 1} {
			changed := []byte(text)
			if changed[at]++; string(changed) == text {
				t.Fatal("no change")
			}
			if accepts(t, string(changed), p.public, name) {
				t.Errorf("%s: accepted with a change at %d of %d", name, at, len(text))
			}
		}
		for _, cut := range []int{1, 2, 3, 8} {
			if accepts(t, text[:len(text)-cut], p.public, name) {
				t.Errorf("%s: accepted without its last %d characters", name, cut)
			}
		}
		if accepts(t, text+"AAAA", p.public, name) {
			t.Errorf("%s: accepted with bytes behind the signature", name)
		}
	}
}

// TestEd25519Name: RFC 9864 has a name of its own for what EdDSA mostly is.
func TestEd25519Name(t *testing.T) {
	t.Parallel()
	p := pairs()[jws.EdDSA]
	for header, ok := range map[string]bool{
		`{"alg":"Ed25519","kid":"k"}`: true,
		`{"alg":"EdDSA","kid":"k"}`:   true,
		`{"alg":"Ed448","kid":"k"}`:   false,
		`{"alg":"eddsa","kid":"k"}`:   false,
	} {
		signed := base64.RawURLEncoding.EncodeToString([]byte(header)) + ".e30"
		text := signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(p.private.(ed25519.PrivateKey), []byte(signed)))
		if accepts(t, text, p.public, jws.EdDSA, jws.Ed25519) != ok {
			t.Errorf("%s: accepted %t", header, !ok)
		}
	}
}

// TestECDSAForm: r and s have their full length, and are not ASN.1.
func TestECDSAForm(t *testing.T) {
	t.Parallel()
	key := pairs()[jws.ES256].private.(*ecdsa.PrivateKey)
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"k"}`)) + ".e30"
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	asn1, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	n := key.Params().N
	pad := func(size int, numbers ...*big.Int) (sig []byte) {
		for _, n := range numbers {
			sig = append(sig, n.FillBytes(make([]byte, size))...)
		}
		return sig
	}
	for name, test := range map[string]struct {
		signature []byte
		ok        bool
	}{
		"right":           {pad(32, r, s), true},
		"the other s":     {pad(32, r, new(big.Int).Sub(n, s)), true}, // ECDSA has two
		"padded":          {pad(33, r, s), false},
		"zero before s":   {append(pad(32, r), pad(33, s)...), false},
		"ASN.1":           {asn1, false},
		"r alone":         {pad(32, r), false},
		"zero":            {make([]byte, 64), false},
		"r is zero":       {pad(32, new(big.Int), s), false},
		"s is the order":  {pad(32, r, n), false},
		"s beyond it":     {append(pad(32, r), bytes.Repeat([]byte{0xff}, 32)...), false},
		"nothing":         {[]byte{0}, false},
		"as long as P384": {make([]byte, 96), false},
	} {
		text := signed + "." + base64.RawURLEncoding.EncodeToString(test.signature)
		if accepts(t, text, &key.PublicKey, jws.ES256) != test.ok {
			t.Errorf("%s: accepted %t", name, !test.ok)
		}
	}
}

// TestPSSSalt: RFC 7518 wants a salt as long as the hash, and other libraries take any.
func TestPSSSalt(t *testing.T) {
	t.Parallel()
	key := pairs()[jws.PS256].private.(*rsa.PrivateKey)
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"PS256","kid":"k"}`)) + ".e30"
	sum := sha256.Sum256([]byte(signed))
	for salt, ok := range map[int]bool{rsa.PSSSaltLengthEqualsHash: true, 20: false, 31: false, 33: false, rsa.PSSSaltLengthAuto: false} {
		signature, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: salt})
		if err != nil {
			t.Fatal(err)
		}
		text := signed + "." + base64.RawURLEncoding.EncodeToString(signature)
		if accepts(t, text, &key.PublicKey, jws.PS256) != ok {
			t.Errorf("salt %d: accepted %t", salt, !ok)
		}
	}
}

func TestNewVerifier(t *testing.T) {
	t.Parallel()
	p := pairs()
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	modulus := p[jws.RS256].public.(*rsa.PublicKey).N
	p256 := p[jws.ES256].public.(*ecdsa.PublicKey)
	//lint:ignore SA1019 nothing else makes a key that is no point of its curve
	noPoint := &ecdsa.PublicKey{Curve: elliptic.P256(), X: p256.X, Y: new(big.Int).Add(p256.Y, big.NewInt(1))}
	long := jws.Secret(strings.Repeat("s", 64))
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: make([]byte, 91)})
	for name, test := range map[string]struct {
		key     crypto.PublicKey
		allowed []jws.Algorithm
		other   bool // it may be a key for another algorithm
	}{
		"no algorithm":          {p[jws.EdDSA].public, nil, false},
		"none":                  {p[jws.EdDSA].public, []jws.Algorithm{"none"}, false},
		"unknown":               {p[jws.EdDSA].public, []jws.Algorithm{jws.EdDSA, "ES256K"}, false},
		"two families":          {p[jws.RS256].public, []jws.Algorithm{jws.RS256, jws.HS256}, false},
		"two curves' families":  {p[jws.ES256].public, []jws.Algorithm{jws.ES256, jws.EdDSA}, false},
		"no key":                {nil, []jws.Algorithm{jws.EdDSA}, false},
		"bytes":                 {[]byte(long), []jws.Algorithm{jws.HS256}, false},
		"a private key":         {p[jws.EdDSA].private, []jws.Algorithm{jws.EdDSA}, false},
		"key by value":          {*p256, []jws.Algorithm{jws.ES256}, false},
		"short Ed25519":         {ed25519.PublicKey(make([]byte, 31)), []jws.Algorithm{jws.EdDSA}, false},
		"Ed25519 for ES256":     {p[jws.EdDSA].public, []jws.Algorithm{jws.ES256}, true},
		"Ed25519 for HS256":     {p[jws.EdDSA].public, []jws.Algorithm{jws.HS256}, true},
		"RSA for HS256":         {p[jws.RS256].public, []jws.Algorithm{jws.HS256}, true},
		"secret for RS256":      {long, []jws.Algorithm{jws.RS256}, true},
		"P-256 for ES384":       {p256, []jws.Algorithm{jws.ES384, jws.ES512}, true},
		"P-224":                 {&p224.PublicKey, []jws.Algorithm{jws.ES256}, true},
		"nil RSA":               {(*rsa.PublicKey)(nil), []jws.Algorithm{jws.RS256}, false},
		"empty RSA":             {&rsa.PublicKey{}, []jws.Algorithm{jws.RS256}, false},
		"small RSA":             {&small.PublicKey, []jws.Algorithm{jws.RS256}, false},
		"large RSA":             {&rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 8192, 1), E: 65537}, []jws.Algorithm{jws.RS256}, false},
		"even RSA":              {&rsa.PublicKey{N: new(big.Int).Sub(modulus, big.NewInt(1)), E: 65537}, []jws.Algorithm{jws.RS256}, false},
		"negative RSA":          {&rsa.PublicKey{N: new(big.Int).Neg(modulus), E: 65537}, []jws.Algorithm{jws.RS256}, false},
		"exponent 1":            {&rsa.PublicKey{N: modulus, E: 1}, []jws.Algorithm{jws.RS256}, false},
		"exponent 4":            {&rsa.PublicKey{N: modulus, E: 4}, []jws.Algorithm{jws.PS256}, false},
		"nil EC":                {(*ecdsa.PublicKey)(nil), []jws.Algorithm{jws.ES256}, false},
		"empty EC":              {&ecdsa.PublicKey{}, []jws.Algorithm{jws.ES256}, false},
		"no point":              {noPoint, []jws.Algorithm{jws.ES256}, false},
		"no secret":             {jws.Secret(nil), []jws.Algorithm{jws.HS256}, false},
		"short secret":          {long[:31], []jws.Algorithm{jws.HS256}, false},
		"short for HS384":       {long[:47], []jws.Algorithm{jws.HS384}, false},
		"short for HS512":       {long[:63], []jws.Algorithm{jws.HS512}, false},
		"J4: secret is PEM":     {jws.Secret(pemKey), []jws.Algorithm{jws.HS256}, false},
		"PEM behind a line":     {jws.Secret("key:\n" + string(pemKey)), []jws.Algorithm{jws.HS256}, false},
		"secret is an SSH key":  {jws.Secret("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8J4wx0 a@b.example"), []jws.Algorithm{jws.HS256}, false},
		"secret is an EC SSH":   {jws.Secret("\necdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAA="), []jws.Algorithm{jws.HS256}, false},
		"secret is a JWK":       {jws.Secret(` {"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg"}`), []jws.Algorithm{jws.HS256}, false},
		"secret is a set of it": {jws.Secret(`{"keys":[{"n":"11qYAYKxCrfVS_7TyWQHOg11qYAYKx"}]}`), []jws.Algorithm{jws.HS256}, false},
	} {
		v, err := jws.NewVerifier(test.key, test.allowed...)
		if err == nil || v != nil {
			t.Errorf("%s: accepted", name)
		}
		if errors.Is(err, jws.ErrOtherKey) != test.other {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(fmt.Sprint(err), "sssss") {
			t.Errorf("%s: the error tells the secret: %v", name, err)
		}
	}
	if s := fmt.Sprintf("%v %x %#v %s %q", long, long, long, long, long); strings.Contains(s, "sssss") || strings.Contains(s, "7373") {
		t.Errorf("a secret is printed: %s", s)
	}
	// A key of the right kind that is fit for some of the algorithms counts for these.
	v, err := jws.NewVerifier(p256, jws.ES256, jws.ES384)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.Parse([]byte(joseSign(t, jws.ES384, "{}")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(token); err == nil {
		t.Error("a P-256 key verifies ES384")
	}
	if _, err := v.Verify(jws.Token{}); err == nil {
		t.Error("a zero token verifies")
	}
}

// TestRFC7515 has the examples of RFC 7515, A.1 to A.3, and of RFC 8037, A.4.
func TestRFC7515(t *testing.T) {
	t.Parallel()
	const joe = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
	secret, err := base64.RawURLEncoding.DecodeString("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		token string
		alg   jws.Algorithm
		jwk   string
	}{
		"RFC 7515 A.1": {"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." + joe + ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", jws.HS256, ""},
		"RFC 7515 A.2": {"eyJhbGciOiJSUzI1NiJ9." + joe + ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
			jws.RS256, `{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}`},
		"RFC 7515 A.3": {"eyJhbGciOiJFUzI1NiJ9." + joe + ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
			jws.ES256, `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`},
		"RFC 8037 A.4": {"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
			jws.EdDSA, `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`},
	} {
		var key crypto.PublicKey = jws.Secret(secret)
		if test.jwk != "" {
			keys, err := foreign.ParseKeys([]byte(test.jwk))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			key = keys[0].Public
		}
		v, err := jws.NewVerifier(key, test.alg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := jws.CheckSignature(v, []byte(test.token)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := jws.CheckSignature(v, []byte(strings.Replace(test.token, ".", "A.", 1))); err == nil {
			t.Errorf("%s: changed, and accepted", name)
		}
	}
}

// TestROCA: a modulus of the form that the flaw makes is found; others are not. (Wycheproof
// has a real one.)
func TestROCA(t *testing.T) {
	t.Parallel()
	// A number of the form that the flaw makes: 65537^a modulo all the primes up to 167.
	m := big.NewInt(2)
	for p := int64(3); p <= 167; p += 2 {
		if big.NewInt(p).ProbablyPrime(0) {
			m.Mul(m, big.NewInt(p))
		}
	}
	weak := new(big.Int).Exp(big.NewInt(65537), big.NewInt(123456789), m)
	weak.Add(weak, new(big.Int).Mul(m, new(big.Int).Lsh(big.NewInt(1), uint(2048-m.BitLen()))))
	if _, err := jws.NewVerifier(&rsa.PublicKey{N: weak, E: 65537}, jws.RS256); err == nil || !strings.Contains(err.Error(), "easy to factor") {
		t.Errorf("%d bits: %v", weak.BitLen(), err)
	}
	if _, err := jws.NewVerifier(pairs()[jws.RS256].public, jws.RS256); err != nil {
		t.Error(err)
	}
}

// TestProfile: a use says which kinds of tokens are its own.
func TestProfile(t *testing.T) {
	t.Parallel()
	text := func(header string) []byte {
		return []byte(base64.RawURLEncoding.EncodeToString([]byte(header)) + ".e30.AA")
	}
	receipts := []string{"application/agent-receipt+jwt"}
	for _, test := range []struct {
		header  string
		profile jws.Profile
		ok      bool
	}{
		{`{"alg":"EdDSA","kid":"k"}`, jws.Profile{}, true},
		{`{"alg":"EdDSA","kid":"k","typ":"JWT"}`, jws.Profile{}, true},
		{`{"alg":"EdDSA","kid":"k","typ":"jwt"}`, jws.Profile{}, false},
		{`{"alg":"EdDSA","kid":"k","typ":""}`, jws.Profile{}, false},
		{`{"alg":"EdDSA"}`, jws.Profile{}, false},
		{`{"alg":"EdDSA"}`, jws.Profile{Unnamed: true}, true},
		{`{"alg":"EdDSA","kid":""}`, jws.Profile{Unnamed: true}, false},
		{`{"alg":"EdDSA","kid":null}`, jws.Profile{Unnamed: true}, false},
		{`{"alg":"EdDSA","kid":7}`, jws.Profile{Unnamed: true}, false},
		{`{"alg":"EdDSA","kid":"k"}`, jws.Profile{Types: receipts}, false},
		{`{"alg":"EdDSA","kid":"k","typ":"JWT"}`, jws.Profile{Types: receipts}, false},
		{`{"alg":"EdDSA","kid":"k","typ":"application/agent-receipt+jwt"}`, jws.Profile{Types: receipts}, true},
		{`{"alg":"EdDSA","kid":"k","typ":"Application/Agent-Receipt+JWT"}`, jws.Profile{Types: receipts}, false},
		{`{"alg":"EdDSA","kid":"k"}`, jws.Profile{Types: append([]string{""}, receipts...)}, true},
		{`{"alg":"EdDSA","kid":"k","typ":""}`, jws.Profile{Types: append([]string{""}, receipts...)}, false},
		{`{"alg":"EdDSA","kid":"k","typ":null}`, jws.Profile{Types: append([]string{""}, receipts...)}, false},
		{`{"alg":"EdDSA","kid":"k","crit":["exp"]}`, jws.Profile{Unnamed: true, Types: receipts}, false},
		{`{"alg":"EdDSA","x5t":"a"}`, jws.Profile{Unnamed: true}, true},
	} {
		if _, err := test.profile.Parse(text(test.header)); (err == nil) != test.ok {
			t.Errorf("%s, %+v: %v", test.header, test.profile, err)
		}
	}
	unsigned := strings.TrimSuffix(string(text(`{"alg":"none"}`)), "AA")
	if _, err := (jws.Profile{Unnamed: true}).Parse([]byte(unsigned)); !errors.Is(err, jws.ErrUnsigned) {
		t.Errorf("unsigned: %v", err)
	}
}

// FuzzVerify: who has no key makes nothing that verifies, and what verifies here verifies
// with another library, which reads the same payload.
func FuzzVerify(f *testing.F) {
	const payload = `{"iat":1700000000}`
	names := slices.Sorted(maps.Keys(pairs()))
	var signed []string
	for _, name := range names {
		signed = append(signed, joseSign(f, name, payload))
		f.Add(signed[len(signed)-1])
	}
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range names {
			if !accepts(t, text, pairs()[name].public, name) {
				continue
			}
			got, ok := joseAccepts(text, name)
			if !ok || string(got) != payload {
				t.Fatalf("%q: verifies as %s, and not with another library: %q", text, name, got)
			}
			// ECDSA has a second signature for what was signed, and nothing else does.
			if !strings.HasPrefix(string(name), "ES") && !slices.Contains(signed, text) {
				t.Fatalf("%q: verifies, and nobody has signed it", text)
			}
		}
	})
}
