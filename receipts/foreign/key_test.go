package foreign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/crypto/ssh"
)

// privateKeys are one of each kind, made once.
var privateKeys = sync.OnceValue(func() (list struct {
	ed   ed25519.PrivateKey
	ec   *ecdsa.PrivateKey
	rsa  *rsa.PrivateKey
	weak *rsa.PrivateKey
}) {
	var errs [4]error
	_, list.ed, errs[0] = ed25519.GenerateKey(rand.Reader)
	list.ec, errs[1] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	list.rsa, errs[2] = rsa.GenerateKey(rand.Reader, 2048)
	list.weak, errs[3] = rsa.GenerateKey(rand.Reader, 1024)
	if err := errors.Join(errs[:]...); err != nil {
		panic(err)
	}
	return list
})

func edPublic() ed25519.PublicKey { return privateKeys().ed.Public().(ed25519.PublicKey) }

func pemOf(t testing.TB, public crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// jwkOf returns the JSON of a key, with more members in it.
func jwkOf(t testing.TB, key any, more string) string {
	t.Helper()
	text, err := jose.JSONWebKey{Key: key}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(text), "}") + more + "}"
}

func sshOf(t testing.TB, public crypto.PublicKey) string {
	t.Helper()
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func setOf(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

func TestParseKeys(t *testing.T) {
	t.Parallel()
	k := privateKeys()
	ed, ec, rs := crypto.PublicKey(edPublic()), crypto.PublicKey(&k.ec.PublicKey), crypto.PublicKey(&k.rsa.PublicKey)
	raw := hex.EncodeToString(edPublic())
	wire, err := ssh.NewPublicKey(ed)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text string
		want []Key
	}{
		"raw":                {raw, []Key{{Public: ed}}},
		"raw and a line end": {raw + "\n", []Key{{Public: ed}}},
		"PEM":                {pemOf(t, ed), []Key{{Public: ed}}},
		"PEMs":               {pemOf(t, ed) + "\n" + pemOf(t, ec) + pemOf(t, rs), []Key{{Public: ed}, {Public: ec}, {Public: rs}}},
		"JWK":                {jwkOf(t, ed, ""), []Key{{Public: ed}}},
		"JWK with names":     {"\n" + jwkOf(t, ec, `,"kid":"one","alg":"ES256","use":"sig","key_ops":["sign","verify"]`), []Key{{Name: "one", Public: ec, Algorithm: "ES256"}}},
		"set":                {setOf(jwkOf(t, ed, `,"kid":"a"`), jwkOf(t, rs, `,"kid":"b","alg":"PS256"`)), []Key{{Name: "a", Public: ed}, {Name: "b", Public: rs, Algorithm: "PS256"}}},
		"set without kid":    {setOf(jwkOf(t, ed, ""), jwkOf(t, rs, "")), []Key{{Public: ed}, {Public: rs}}},
		"set, others left out": {setOf(jwkOf(t, rs, `,"use":"enc"`), jwkOf(t, rs, `,"key_ops":["encrypt"]`), jwkOf(t, rs, `,"key_ops":[]`),
			jwkOf(t, rs, `,"alg":"RSA-OAEP"`), `{"kty":"OKP","crv":"X25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`,
			`{"kty":"NEW","z":1}`, jwkOf(t, ed, `,"kid":"a"`)), []Key{{Name: "a", Public: ed}}},
		"SSH":              {sshOf(t, ed), []Key{{Name: ssh.FingerprintSHA256(wire), Public: ed}}},
		"SSH with comment": {"# keys\n\n" + sshOf(t, ed) + " alice at home\r\n", []Key{{Name: ssh.FingerprintSHA256(wire), Public: ed}}},
		"allowed_signers":  {"alice@example.com,bob " + sshOf(t, ed) + "\n  carol\t" + sshOf(t, ec) + " c\n" + "dave " + sshOf(t, rs), []Key{{Name: "alice@example.com,bob", Public: ed}, {Name: "carol", Public: ec}, {Name: "dave", Public: rs}}},
	} {
		keys, err := ParseKeys([]byte(test.text))
		if err != nil || len(keys) != len(test.want) {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
			continue
		}
		for i, want := range test.want {
			got := keys[i]
			if got.Name != want.Name || got.Algorithm != want.Algorithm || got.Secret != nil ||
				!got.Public.(interface{ Equal(crypto.PublicKey) bool }).Equal(want.Public) {
				t.Errorf("%s: key %d: %+v, want %+v", name, i, got, want)
			}
		}
	}
}

func TestBadKeys(t *testing.T) {
	t.Parallel()
	k := privateKeys()
	ed, rs := edPublic(), &k.rsa.PublicKey
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k.ed)
	if err != nil {
		t.Fatal(err)
	}
	sshPrivate, err := ssh.MarshalPrivateKey(k.ed, "")
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a"}, NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, ed, k.ed)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	raw, line, pemText := hex.EncodeToString(ed), sshOf(t, ed), pemOf(t, ed)
	const private = "that is a private key"
	many := make([]string, MaxKeys+1)
	for i := range many {
		many[i] = jwkOf(t, ed, fmt.Sprintf(`,"kid":"%d"`, i))
	}
	for name, test := range map[string]struct{ text, why string }{
		"nothing":                 {"", "none"},
		"white space":             {" \n\t", "none"},
		"comments":                {"# no key", "none"},
		"a word":                  {"key", "not in a form that is known"},
		"not UTF-8":               {"\xff\xfe\xfd", "not in a form that is known"},
		"too large":               {strings.Repeat("a", MaxKeyFile+1), "the limit is 65536"},
		"upper-case":              {strings.ToUpper(raw), "not in a form that is known"},
		"two raw keys":            {raw + "\n" + raw, "not in a form that is known"},
		"short raw":               {raw[:62], "31 bytes"},
		"raw private":             {hex.EncodeToString(k.ed), private},
		"PEM private":             {block("PRIVATE KEY", pkcs8), private},
		"PEM RSA private":         {block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k.rsa)), private},
		"PEM behind a public one": {pemText + block("PRIVATE KEY", pkcs8), private},
		"OpenSSH private":         {string(pem.EncodeToMemory(sshPrivate)), private},
		"certificate":             {block("CERTIFICATE", certificate), "a certificate"},
		"PKCS 1":                  {block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(rs)), "want PUBLIC KEY"},
		"PEM of a small key":      {pemOf(t, &k.weak.PublicKey), "1024 bits"},
		"PEM with text between":   {pemText + "and\n" + pemText, "outside of a block"},
		"PEM, broken before":      {"-----BEGIN PUBLIC KEY-----\nAA\n" + pemText, "malformed block"},
		"PEM without end":         {pemText[:60], "malformed block"},
		"PEM of nothing":          {block("PUBLIC KEY", []byte{0}), "asn1"},
		"JWK private":             {jwkOf(t, k.ed, ""), private},
		"JWK EC private":          {jwkOf(t, k.ec, ""), private},
		"JWK RSA private":         {jwkOf(t, k.rsa, `,"use":"enc"`), private},
		"JWK RSA, only p":         {jwkOf(t, rs, `,"p":"AQ"`), private},
		"JWK secret":              {`{"kty":"oct","k":"AAAA"}`, "that is a secret"},
		"secret in a set":         {setOf(jwkOf(t, ed, ""), `{"kty":"oct","k":"AAAA"}`), "that is a secret"},
		"JWK of a small key":      {jwkOf(t, &k.weak.PublicKey, ""), "1024 bits"},
		"JWK for encryption":      {jwkOf(t, rs, `,"use":"enc"`), "not for signatures"},
		"JWK, another curve's":    {jwkOf(t, &k.ec.PublicKey, `,"alg":"ES384"`), "P-256"},
		"JWK, another kind's":     {jwkOf(t, ed, `,"alg":"RS256"`), "kty is OKP"},
		"JWK, a MAC's":            {jwkOf(t, rs, `,"alg":"HS256"`), "kty is RSA"},
		"JWK without kty":         {`{"x":"AA"}`, "missing"},
		"JWK of null":             {`{"kty":null}`, "null"},
		"JWK member twice":        {jwkOf(t, ed, `,"kty":"OKP"`), "duplicate"},
		"JWK member by case":      {jwkOf(t, ed, `,"KID":"a","kid":"b"`), "duplicate"},
		"JWK, key_ops a string":   {jwkOf(t, ed, `,"key_ops":"verify"`), "key_ops"},
		"JWK, kid a number":       {jwkOf(t, ed, `,"kid":1`), "cannot unmarshal"},
		"JWK, no point":           {`{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a4"}`, ""},
		"JWK with loose bits":     {`{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a1"}`, "y: not base64url"},
		"JWK, padded":             {`{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo="}`, "x: not base64url"},
		"JWK, short":              {`{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHUQ"}`, ""},
		"JWK, text behind":        {jwkOf(t, ed, "") + "{}", "after the value"},
		"set of nothing":          {setOf(), "none"},
		"set is an object":        {`{"keys":{}}`, "not a list"},
		"set is null":             {`{"keys":null}`, "not a list"},
		"set of strings":          {setOf(`"a"`), "not an object"},
		"set of upper case":       {`{"KEYS":[` + jwkOf(t, ed, "") + `]}`, "missing"},
		"set with a kid twice":    {setOf(jwkOf(t, ed, `,"kid":"a"`), jwkOf(t, rs, `,"kid":"a"`)), "there twice"},
		"set of too many":         {setOf(many...), "more than 64"},
		"deep set":                {setOf(strings.Repeat("[", 20) + strings.Repeat("]", 20)), "too deeply"},
		"SSH of too many":         {strings.Repeat(line+"\n", MaxKeys+1), "more than 64"},
		"PEM of too many":         {strings.Repeat(pemText, MaxKeys+1), "more than 64"},
		"SSH with options":        {`alice namespaces="git" ` + line, "without options"},
		"SSH of an authority":     {"alice cert-authority " + line, "without options"},
		"SSH that may expire":     {`alice valid-before="20200101" ` + line, "without options"},
		"authorized_keys":         {`command="x" ` + line, "without options"},
		"SSH pattern":             {"*@example.com " + line, "plain names"},
		"SSH negation":            {"a,!b " + line, "plain names"},
		"SSH without a key":       {"alice ssh-ed25519", "no public key"},
		"SSH of another name":     {strings.Replace(line, "ssh-ed25519", "ssh-rsa", 1), "is called"},
		"SSH with loose bits":     {"ssh-ed25519 AAAAC3Nz=", "public key"},
		"SSH of a small key":      {sshOf(t, &k.weak.PublicKey), ""},
		"SSH of hardware":         {"sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIAZbQAAWZ0e8Kp5ETDPrDyvYVbsvM1lvLxfNQFlO4AAEAAAABHNzaDo=", ""},
		"SSH, then nonsense":      {line + "\nnon sense", "line 2"},
	} {
		keys, err := ParseKeys([]byte(test.text))
		if err == nil || keys != nil {
			t.Errorf("%s: %d keys", name, len(keys))
			continue
		}
		if !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretKey(t *testing.T) {
	t.Parallel()
	secret := []byte(strings.Repeat("s", 32))
	key, err := SecretKey("mine", secret)
	if err != nil || key.Name != "mine" || !bytes.Equal(key.Secret, secret) || key.Public != nil {
		t.Fatalf("%+v, %v", key, err)
	}
	secret[0] = 'x'
	if key.Secret[0] != 's' {
		t.Error("the caller can change the key")
	}
	for name, bad := range map[string]string{
		"nothing": "", "short": "password", "PEM": pemOf(t, edPublic()), "SSH": sshOf(t, edPublic()), "JWK": jwkOf(t, edPublic(), ""),
	} {
		if key, err := SecretKey("mine", []byte(bad)); err == nil || key.Secret != nil || key.Name != "" {
			t.Errorf("%s: %+v", name, key)
		} else if bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%s: the error tells the secret: %v", name, err)
		}
	}
}

// FuzzParseKeys: keys that are read verify something, and are read again from PEM.
func FuzzParseKeys(f *testing.F) {
	k := privateKeys()
	f.Add([]byte(hex.EncodeToString(edPublic())))
	f.Add([]byte(pemOf(f, &k.ec.PublicKey)))
	f.Add([]byte(setOf(jwkOf(f, edPublic(), `,"kid":"a"`), jwkOf(f, &k.rsa.PublicKey, `,"alg":"RS256"`))))
	f.Add([]byte("alice " + sshOf(f, &k.ec.PublicKey) + "\n" + sshOf(f, edPublic())))
	f.Add([]byte(jwkOf(f, k.ed, "")))
	private, err := json.Marshal(base64.StdEncoding.EncodeToString(k.ed.Seed()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(private)
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := ParseKeys(data)
		if err != nil {
			if keys != nil {
				t.Fatal("keys and an error")
			}
			return
		}
		if len(keys) == 0 || len(keys) > MaxKeys {
			t.Fatalf("%d keys", len(keys))
		}
		for _, key := range keys {
			if err := checkPublic(key.Public); err != nil {
				t.Fatal(err)
			}
			again, err := ParseKeys([]byte(pemOf(t, key.Public)))
			if err != nil || len(again) != 1 || !again[0].Public.(interface{ Equal(crypto.PublicKey) bool }).Equal(key.Public) {
				t.Fatalf("%v, %v", again, err)
			}
		}
	})
}
