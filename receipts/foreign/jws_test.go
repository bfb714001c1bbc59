package foreign

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/truegreen-dev/truegreen/receipts/jws"
)

var (
	jwsNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	macKey = []byte(strings.Repeat("k", 32))
)

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// macToken and edToken make tokens of any header and payload.
func macToken(key []byte, header, payload string) string {
	signed := b64(header) + "." + b64(payload)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed))
	return signed + "." + b64(string(mac.Sum(nil)))
}

func edToken(header, payload string) string {
	signed := b64(header) + "." + b64(payload)
	return signed + "." + b64(string(ed25519.Sign(privateKeys().ed, []byte(signed))))
}

// claims returns a payload that is sound, with more members.
func claims(more string) string {
	return fmt.Sprintf(`{"iss":"gateway","exp":%d%s}`, jwsNow.Add(time.Hour).Unix(), more)
}

// macOptions are those of the tests that come from other adapters: HS256 and one secret.
func macOptions() JWSOptions {
	return JWSOptions{Rules: Rules{Now: func() time.Time { return jwsNow }}, Keys: []Key{{Secret: macKey}}, Algorithms: []jws.Algorithm{jws.HS256}}
}

func edOptions() JWSOptions {
	o := macOptions()
	o.Keys, o.Algorithms = []Key{{Public: edPublic()}}, []jws.Algorithm{jws.EdDSA}
	return o
}

func verifyJWS(t testing.TB, o JWSOptions, token string, b Binding) Verification {
	t.Helper()
	v, err := tryJWS(t, o, token, b)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func tryJWS(t testing.TB, o JWSOptions, token string, b Binding) (Verification, error) {
	t.Helper()
	a, err := NewJWS(o)
	if err != nil {
		t.Fatal(err)
	}
	v, err := a.Verify(t.Context(), strings.NewReader(token), b)
	if _, jsonErr := json.Marshal(v); jsonErr != nil {
		t.Errorf("%v", jsonErr)
	}
	if err == nil {
		for _, answer := range v.Answers() {
			if answer.Answer > Yes && len(v.Violations) == 0 {
				t.Errorf("%s is %s, and nothing says why", answer.Question, answer.Answer)
			}
		}
		if (v.Worst() == Yes) != (len(v.Violations) == 0) {
			t.Errorf("%+v", v)
		}
	}
	return v, err
}

const hs256 = `{"alg":"HS256","typ":"JWT"}`

// TestJWSBehaviour has what another project's adapter for such tokens is held to, J1 to
// J15. Where it says untrusted, this one does, or says that the bytes are no token.
func TestJWSBehaviour(t *testing.T) {
	t.Parallel()
	shell := Binding{Tool: "shell"}
	hash := "sha256:" + strings.Repeat("ab", 32)
	good := macToken(macKey, hs256, claims(`,"tool_name":"shell"`))

	v := verifyJWS(t, macOptions(), good, shell)
	if !v.Trusted() || v.Adapter != "jws" || v.Form != "compact" || v.Issuer != "gateway" || !v.Expires.Equal(jwsNow.Add(time.Hour)) ||
		v.Tool != "shell" || v.Receipts != 1 || v.Violations != nil || v.Binding != Yes || v.Freshness != Yes || v.Decision != NotAsked || v.Chain != NotAsked || v.End != NotAsked {
		t.Errorf("J1: %+v", v)
	}
	for name, test := range map[string]struct {
		token   string
		binding Binding
		codes   string
		answer  func(*Verification) Answer
		want    Answer
	}{
		"J2 wrong key":        {macToken([]byte(strings.Repeat("x", 32)), hs256, claims("")), Binding{}, "signature-invalid not-read", signature, No},
		"J3 none":             {b64(`{"alg":"none"}`) + "." + b64(claims("")) + ".", Binding{}, "unsigned not-read", signature, No},
		"J3 none, signed":     {b64(`{"alg":"none"}`) + "." + b64(claims("")) + ".AA", Binding{}, "algorithm-not-allowed not-read", signature, No},
		"J6 expired":          {macToken(macKey, hs256, fmt.Sprintf(`{"exp":%d}`, jwsNow.Unix()-61)), Binding{}, "expired", freshness, No},
		"J7 no exp":           {macToken(macKey, hs256, `{"iss":"gateway"}`), Binding{}, "no-expiry", freshness, No},
		"J8 other tool":       {macToken(macKey, hs256, claims(`,"tool_name":"browser"`)), shell, "tool-mismatch", binding, No},
		"J9 no tool":          {macToken(macKey, hs256, claims("")), shell, "no-tool", binding, No},
		"J11 other arguments": {macToken(macKey, hs256, claims(`,"arg_hash":"sha256:00"`)), Binding{ArgHash: hash}, "arg-hash-mismatch", binding, No},
		"J12 no arg_hash":     {macToken(macKey, hs256, claims(`,"tool_name":"shell"`)), Binding{Tool: "shell", ArgHash: hash}, "no-arg-hash", binding, No},
	} {
		v := verifyJWS(t, macOptions(), test.token, test.binding)
		if codes(&v) != test.codes || test.answer(&v) != test.want || v.Trusted() {
			t.Errorf("%s: %+v", name, v)
		}
	}
	// J4: a public key is no secret: there is no such adapter.
	for name, key := range map[string]Key{"PEM": {Secret: []byte(pemOf(t, edPublic()))}, "short": {Secret: macKey[:31]}, "neither": {}} {
		o := macOptions()
		o.Keys = []Key{key}
		if a, err := NewJWS(o); err == nil || a != nil {
			t.Errorf("J4 %s: accepted", name)
		}
	}
	// And who takes the public key of an adapter for a secret signs nothing for it.
	forged := macToken([]byte(pemOf(t, edPublic())), hs256, claims(""))
	if v := verifyJWS(t, edOptions(), forged, Binding{}); v.Signature != No || codes(&v) != "algorithm-not-allowed not-read" {
		t.Errorf("J4: %+v", v)
	}
	// J10: there is no option that lets another tool's receipt pass.
	o := macOptions()
	o.AllowNoExpiry = true
	if v := verifyJWS(t, o, macToken(macKey, hs256, `{"tool_name":"browser"}`), shell); v.Binding != No || v.Trusted() {
		t.Errorf("J10: %+v", v)
	}
	for name, test := range map[string]struct{ text, code, says string }{
		"J5 not UTF-8":    {"\xff\xfe.\xff.\xff", "not-utf-8", "UTF-8"},
		"J13 JSON":        {`{"payload":"e30","signatures":[]}`, "not-compact", "compact"},
		"J13 JSON, lines": {"\n {\n}", "not-compact", "compact"},
		"nothing":         {"", "not-compact", "1 parts"},
		"words":           {"this is. no. token", "malformed-token", "base64url"},
		"too large":       {strings.Repeat("a", jws.MaxToken+9), "too-large", "limit"},
		"two line ends":   {good + "\n\n", "malformed-token", "signature"},
		"space before":    {" " + good, "malformed-token", "header"},
		"two tokens":      {good + "\n" + good, "not-compact", "5 parts"},
		"claim twice":     {macToken(macKey, hs256, `{"exp":1,"exp":2}`), "malformed-token", "duplicate"},
	} {
		v, err := tryJWS(t, macOptions(), test.text, shell)
		var malformed *MalformedError
		if !errors.As(err, &malformed) || malformed.Adapter != "jws" || malformed.Code != test.code || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
		if v.Adapter != "" || v.Worst() != NotAsked {
			t.Errorf("%s: %+v with an error", name, v)
		}
	}
	for _, end := range []string{"\n", "\r\n"} { // J14, from a file
		if v := verifyJWS(t, macOptions(), good+end, shell); !v.Trusted() {
			t.Errorf("J14: %+v", v)
		}
	}
	o = macOptions()
	o.Algorithms = nil
	if _, err := NewJWS(o); err == nil {
		t.Error("J15: no algorithms, and no error")
	}
}

func signature(v *Verification) Answer { return v.Signature }
func trust(v *Verification) Answer     { return v.Trust }
func binding(v *Verification) Answer   { return v.Binding }
func freshness(v *Verification) Answer { return v.Freshness }

// TestJWSAttacks has what libraries were seen to accept. Every token is signed by the
// right key.
func TestJWSAttacks(t *testing.T) {
	t.Parallel()
	good := edToken(`{"alg":"EdDSA"}`, claims(""))
	if v := verifyJWS(t, edOptions(), good, Binding{}); !v.Trusted() {
		t.Fatalf("%+v", v)
	}
	head := func(h string) string { return edToken(h, claims("")) }
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"no alg":                   head(`{"typ":"JWT"}`),
		"alg none":                 head(`{"alg":"none"}`),
		"ALG":                      head(`{"ALG":"EdDSA"}`),
		"alg twice":                head(`{"alg":"none","alg":"EdDSA"}`),
		"alg twice, by case":       head(`{"alg":"EdDSA","Alg":"none"}`),
		"the other name":           head(`{"alg":"Ed25519"}`), // the caller allows EdDSA alone
		"crit unknown":             head(`{"alg":"EdDSA","crit":["x"],"x":1}`),
		"crit of what is absent":   head(`{"alg":"EdDSA","crit":["x"]}`),
		"crit empty":               head(`{"alg":"EdDSA","crit":[]}`),
		"crit b64 without b64":     head(`{"alg":"EdDSA","crit":["b64"]}`),
		"b64 false":                head(`{"alg":"EdDSA","crit":["b64"],"b64":false}`),
		"zip":                      head(`{"alg":"EdDSA","zip":"DEF"}`),
		"jwk":                      head(`{"alg":"EdDSA","jwk":` + jwkOf(t, edPublic(), "") + `}`),
		"jku":                      head(`{"alg":"EdDSA","jku":"https://keys.example"}`),
		"x5u":                      head(`{"alg":"EdDSA","x5u":"https://keys.example"}`),
		"x5c":                      head(`{"alg":"EdDSA","x5c":["AA=="]}`),
		"typ of another kind":      head(`{"alg":"EdDSA","typ":"at+jwt"}`),
		"stripped signature":       parts[0] + "." + parts[1] + ".",
		"two parts":                parts[0] + "." + parts[1],
		"four parts":               good + ".",
		"five parts":               good + ".AA.AA",
		"padded":                   good + "==",
		"standard alphabet":        parts[0] + "." + parts[1] + "." + strings.NewReplacer("-", "+", "_", "/").Replace(parts[2]) + "+/",
		"line end in a part":       parts[0] + "." + parts[1] + "." + parts[2][:9] + "\n" + parts[2][9:],
		"loose bits":               good[:len(good)-1] + string("BCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", good[len(good)-1])]),
		"claim twice":              edToken(`{"alg":"EdDSA"}`, claims(`,"tool_name":"a","tool_name":"b"`)),
		"claim twice, by case":     edToken(`{"alg":"EdDSA"}`, claims(`,"EXP":99999999999`)),
		"claim twice, inside":      edToken(`{"alg":"EdDSA"}`, claims(`,"x":{"a":1,"a":2}`)),
		"lone surrogate":           edToken(`{"alg":"EdDSA"}`, claims(`,"x":"\udc00"`)),
		"payload not UTF-8":        edToken(`{"alg":"EdDSA"}`, claims(",\"x\":\"\xff\"")),
		"payload exchanged":        parts[0] + "." + b64(claims(`,"x":1`)) + "." + parts[2],
		"token in a JSON object":   `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`,
		"alg in an outer header":   `{"header":{"alg":"EdDSA"},"payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`,
		"five parts of encryption": "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..AA.AA.AA",
	} {
		v, err := tryJWS(t, edOptions(), token, Binding{})
		var malformed *MalformedError
		if err != nil && !errors.As(err, &malformed) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && v.Signature == Yes || v.Trusted() {
			t.Errorf("%s: accepted: %+v", name, v)
		}
	}
}

// TestJWSClaims puts one token each to one question.
func TestJWSClaims(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) int64 { return jwsNow.Add(d).Unix() }
	exp := fmt.Sprintf(`"exp":%d`, at(time.Hour))
	for name, test := range map[string]struct {
		payload string
		change  func(*JWSOptions)
		codes   string
		answer  func(*Verification) Answer
		want    Answer
	}{
		"issuer":                  {`{"iss":"a",` + exp + `}`, func(o *JWSOptions) { o.Issuer = "a" }, "", trust, Yes},
		"another issuer":          {`{"iss":"a",` + exp + `}`, func(o *JWSOptions) { o.Issuer = "A" }, "issuer-mismatch", trust, No},
		"no issuer":               {`{` + exp + `}`, func(o *JWSOptions) { o.Issuer = "a" }, "issuer-mismatch", trust, No},
		"issuer is a number":      {`{"iss":1,` + exp + `}`, nil, "bad-claim", trust, No},
		"audience":                {`{"aud":"me",` + exp + `}`, func(o *JWSOptions) { o.Audience = "me" }, "", trust, Yes},
		"audiences":               {`{"aud":["you","me"],` + exp + `}`, func(o *JWSOptions) { o.Audience = "me" }, "", trust, Yes},
		"another audience":        {`{"aud":["you","ME"],` + exp + `}`, func(o *JWSOptions) { o.Audience = "me" }, "audience-mismatch", trust, No},
		"nobody's audience":       {`{"aud":[],` + exp + `}`, func(o *JWSOptions) { o.Audience = "me" }, "audience-mismatch", trust, No},
		"no audience":             {`{` + exp + `}`, func(o *JWSOptions) { o.Audience = "me" }, "audience-mismatch", trust, No},
		"audience that is no one": {`{"aud":"me",` + exp + `}`, nil, "audience-mismatch", trust, No},
		"audience of nothing":     {`{"aud":["you",""],` + exp + `}`, nil, "audience-mismatch", trust, No},
		"audience of numbers":     {`{"aud":["me",1],` + exp + `}`, func(o *JWSOptions) { o.Audience = "me" }, "bad-claim", trust, No},
		"audience null":           {`{"aud":null,` + exp + `}`, nil, "bad-claim", trust, No},

		"expires within the skew": {fmt.Sprintf(`{"exp":%d}`, at(-59*time.Second)), nil, "", freshness, Yes},
		"expired by the skew":     {fmt.Sprintf(`{"exp":%d}`, at(-time.Minute)), nil, "expired", freshness, No},
		"own skew":                {fmt.Sprintf(`{"exp":%d}`, at(-time.Second)), func(o *JWSOptions) { o.Skew = time.Second }, "expired", freshness, No},
		"fraction":                {fmt.Sprintf(`{"exp":%d.5}`, at(-time.Minute)), nil, "", freshness, Yes},
		"fraction of nine":        {fmt.Sprintf(`{"exp":%d.000000001}`, at(-time.Minute)), nil, "", freshness, Yes},
		"fraction of ten":         {fmt.Sprintf(`{"exp":%d.0000000001}`, at(time.Hour)), nil, "bad-claim", freshness, No},
		"last exp":                {`{"exp":253402300799}`, nil, "", freshness, Yes},
		"exp of the year 10000":   {`{"exp":253402300800}`, nil, "bad-claim", freshness, No},
		"huge exp":                {`{"exp":9223372036854775807}`, nil, "bad-claim", freshness, No},
		"larger exp":              {`{"exp":99999999999999999999999}`, nil, "bad-claim", freshness, No},
		"exp with an exponent":    {`{"exp":1e18}`, nil, "bad-claim", freshness, No},
		"exp below zero":          {`{"exp":-1}`, nil, "bad-claim", freshness, No},
		"exp is a string":         {fmt.Sprintf(`{"exp":"%d"}`, at(time.Hour)), nil, "bad-claim", freshness, No},
		"exp null":                {`{"exp":null}`, nil, "bad-claim", freshness, No},
		"bad exp, allowed none":   {`{"exp":true}`, func(o *JWSOptions) { o.AllowNoExpiry = true }, "bad-claim", freshness, No},
		"no exp, allowed":         {`{}`, func(o *JWSOptions) { o.AllowNoExpiry = true }, "", freshness, NotAsked},
		"expired, allowed none":   {fmt.Sprintf(`{"exp":%d}`, at(-time.Hour)), func(o *JWSOptions) { o.AllowNoExpiry = true }, "expired", freshness, No},
		"nbf":                     {fmt.Sprintf(`{%s,"nbf":%d}`, exp, at(time.Minute)), nil, "", freshness, Yes},
		"nbf later":               {fmt.Sprintf(`{%s,"nbf":%d}`, exp, at(61*time.Second)), nil, "not-yet-valid", freshness, No},
		"iat later":               {fmt.Sprintf(`{%s,"iat":%d}`, exp, at(61*time.Second)), nil, "from-the-future", freshness, No},
		"iat later, no exp":       {fmt.Sprintf(`{"iat":%d}`, at(61*time.Second)), func(o *JWSOptions) { o.AllowNoExpiry = true }, "from-the-future", freshness, No},
		"exp before iat":          {fmt.Sprintf(`{"exp":%d,"iat":%d}`, at(0), at(0)), nil, "bad-claim", freshness, No},
		"age":                     {fmt.Sprintf(`{%s,"iat":%d}`, exp, at(-61*time.Minute)), func(o *JWSOptions) { o.MaxAge = time.Hour }, "", freshness, Yes},
		"too old":                 {fmt.Sprintf(`{%s,"iat":%d}`, exp, at(-61*time.Minute-time.Second)), func(o *JWSOptions) { o.MaxAge = time.Hour }, "too-old", freshness, No},
		"of 1970":                 {`{` + exp + `,"iat":0}`, func(o *JWSOptions) { o.MaxAge = time.Hour }, "too-old", freshness, No},
		"no age":                  {`{` + exp + `}`, func(o *JWSOptions) { o.MaxAge = time.Hour }, "no-issue-time", freshness, No},
		"lifetime":                {fmt.Sprintf(`{%s,"iat":%d}`, exp, at(0)), func(o *JWSOptions) { o.MaxLifetime = time.Hour }, "", freshness, Yes},
		"too long a lifetime":     {fmt.Sprintf(`{%s,"iat":%d}`, exp, at(-time.Second)), func(o *JWSOptions) { o.MaxLifetime = time.Hour }, "lifetime-too-long", freshness, No},
		"longest lifetime":        {`{"exp":253402300799,"iat":0}`, func(o *JWSOptions) { o.MaxLifetime = time.Hour }, "lifetime-too-long", freshness, No},
		"no lifetime":             {`{` + exp + `}`, func(o *JWSOptions) { o.MaxLifetime = time.Hour }, "no-lifetime", freshness, No},
	} {
		o := edOptions()
		if test.change != nil {
			test.change(&o)
		}
		v := verifyJWS(t, o, edToken(`{"alg":"EdDSA"}`, test.payload), Binding{})
		if codes(&v) != test.codes || test.answer(&v) != test.want || v.Trusted() != (test.codes == "") {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestJWSLimits: what the format has no room for is answered no, and named.
func TestJWSLimits(t *testing.T) {
	t.Parallel()
	o := edOptions()
	o.Chain, o.Head = true, "sha256:00"
	v := verifyJWS(t, o, edToken(`{"alg":"EdDSA"}`, claims(`,"tool_name":"shell"`)), Binding{Target: "https://a.example", Allowed: true})
	if v.Signature != Yes || v.Trust != Yes || v.Binding != No || v.Decision != No || v.Chain != No || v.End != No || codes(&v) != "no-target no-decision no-chain no-end" {
		t.Errorf("%+v", v)
	}
	// A tool that nobody asks about is said, and is no answer.
	v = verifyJWS(t, edOptions(), edToken(`{"alg":"EdDSA"}`, claims(`,"tool_name":"shell"`)), Binding{})
	if !v.Trusted() || v.Tool != "shell" || v.Binding != NotAsked {
		t.Errorf("%+v", v)
	}
	v = verifyJWS(t, edOptions(), edToken(`{"alg":"EdDSA"}`, claims(`,"tool_name":["shell"]`)), Binding{})
	if !v.Trusted() || v.Tool != "" {
		t.Errorf("%+v", v)
	}
	v = verifyJWS(t, edOptions(), edToken(`{"alg":"EdDSA"}`, claims(`,"tool_name":["shell"]`)), Binding{Tool: "shell"})
	if v.Binding != No || codes(&v) != "bad-claim" {
		t.Errorf("%+v", v)
	}
	// Nothing that no known key has signed is read: what was asked stays unproven.
	o.Keys = nil
	v = verifyJWS(t, o, edToken(`{"alg":"EdDSA"}`, claims(`,"tool_name":"shell"`)), Binding{Tool: "shell", Allowed: true})
	want := Verification{Adapter: "jws", Form: "compact", Signature: Unproven, Trust: Unproven, Binding: Unproven,
		Decision: Unproven, Freshness: Unproven, Chain: Unproven, End: Unproven, Violations: v.Violations}
	if fmt.Sprint(v) != fmt.Sprint(want) || codes(&v) != "no-key not-read" {
		t.Errorf("%+v", v)
	}
}

// TestJWSKeys: a kid chooses among the caller's keys, and never beyond.
func TestJWSKeys(t *testing.T) {
	t.Parallel()
	ed, rs := Key{Name: "ed", Public: edPublic()}, Key{Name: "rsa", Public: &privateKeys().rsa.PublicKey}
	other := Key{Name: "other", Public: ed25519.NewKeyFromSeed(make([]byte, 32)).Public()}
	named := func(k Key, name string) Key { k.Name = name; return k }
	unnamed, kid := `{"alg":"EdDSA"}`, func(s string) string { return fmt.Sprintf(`{"alg":"EdDSA","kid":%q}`, s) }
	for name, test := range map[string]struct {
		keys   []Key
		header string
		codes  string
		sig    Answer
	}{
		"no kid, one of two":         {[]Key{other, ed}, unnamed, "", Yes},
		"kid":                        {[]Key{other, ed}, kid("ed"), "", Yes},
		"kid of another":             {[]Key{other, ed}, kid("other"), "signature-invalid not-read", No},
		"kid of two":                 {[]Key{other, named(ed, "other")}, kid("other"), "", Yes},
		"unknown kid, known key":     {[]Key{other, ed}, kid("../../dev/null"), "", Yes},
		"unknown kid, unknown key":   {[]Key{other}, kid("ed"), "unknown-key not-read", Unproven},
		"no kid, unknown key":        {[]Key{other}, unnamed, "signature-invalid not-read", No},
		"beside a key of other kind": {[]Key{rs, ed}, kid("ed"), "", Yes},
		"kid of the other kind":      {[]Key{named(rs, "x"), ed}, kid("x"), "", Yes},
		"alg of the key":             {[]Key{{Public: edPublic(), Algorithm: "EdDSA"}}, unnamed, "", Yes},
	} {
		o := edOptions()
		o.Keys = test.keys
		v := verifyJWS(t, o, edToken(test.header, claims("")), Binding{})
		if codes(&v) != test.codes || v.Signature != test.sig || v.Trusted() != (test.sig == Yes) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	// Who vouches where no iss says it: the key.
	for _, key := range []Key{ed, named(ed, "")} {
		o := edOptions()
		o.Keys = []Key{key}
		v := verifyJWS(t, o, edToken(unnamed, fmt.Sprintf(`{"exp":%d}`, jwsNow.Unix()+1)), Binding{})
		if v.Issuer != key.Name && (key.Name != "" || !strings.HasPrefix(v.Issuer, "SHA256:")) {
			t.Errorf("%q vouches", v.Issuer)
		}
	}
	o := edOptions()
	o.Types = []string{"application/agent-receipt+jwt"}
	if v := verifyJWS(t, o, edToken(`{"alg":"EdDSA","typ":"application/agent-receipt+jwt"}`, claims("")), Binding{}); !v.Trusted() {
		t.Errorf("%+v", v)
	}
	if _, err := tryJWS(t, o, edToken(unnamed, claims("")), Binding{}); err == nil || !strings.Contains(err.Error(), "no typ") {
		t.Errorf("%v", err)
	}
}

func TestNewJWS(t *testing.T) {
	t.Parallel()
	ed, weak := Key{Public: edPublic()}, Key{Public: &privateKeys().weak.PublicKey}
	secret := Key{Secret: macKey}
	for name, change := range map[string]func(*JWSOptions){
		"none":               func(o *JWSOptions) { o.Algorithms = []jws.Algorithm{"none"} },
		"unknown":            func(o *JWSOptions) { o.Algorithms = []jws.Algorithm{jws.EdDSA, "HS1"} },
		"two families":       func(o *JWSOptions) { o.Algorithms = []jws.Algorithm{jws.EdDSA, jws.HS256} },
		"no types":           func(o *JWSOptions) { o.Types = []string{} },
		"key of other kind":  func(o *JWSOptions) { o.Algorithms = []jws.Algorithm{jws.ES256} },
		"public key for MAC": func(o *JWSOptions) { o.Algorithms = []jws.Algorithm{jws.HS256} },
		"secret beside it":   func(o *JWSOptions) { o.Keys = []Key{ed, secret} },
		"a secret's":         func(o *JWSOptions) { o.Keys = []Key{ed, secret}; o.Algorithms = []jws.Algorithm{jws.HS256} },
		"both in one":        func(o *JWSOptions) { o.Keys = []Key{{Public: ed.Public, Secret: macKey}} },
		"small key":          func(o *JWSOptions) { o.Keys = []Key{ed, weak}; o.Algorithms = []jws.Algorithm{jws.RS256} },
		"alg of the key":     func(o *JWSOptions) { o.Keys = []Key{{Public: ed.Public, Algorithm: "Ed25519"}} },
		"no key":             func(o *JWSOptions) { o.Keys = []Key{{}} },
		"too many keys":      func(o *JWSOptions) { o.Keys = make([]Key, MaxKeys+1) },
	} {
		o := edOptions()
		change(&o)
		if a, err := NewJWS(o); err == nil || a != nil {
			t.Errorf("%s: accepted", name)
		}
	}
	a, err := NewJWS(edOptions())
	if err != nil || a.Name() != "jws" {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := a.Verify(ended, strings.NewReader("a.b.c"), Binding{}); !errors.Is(err, context.Canceled) || v.Adapter != "" {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := a.Verify(t.Context(), iotest.ErrReader(io.ErrClosedPipe), Binding{}); !errors.Is(err, io.ErrClosedPipe) || v.Adapter != "" {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestJWSSeen: a receipt counts once, and one that is refused is not used up.
func TestJWSSeen(t *testing.T) {
	t.Parallel()
	o := edOptions()
	seen := &SeenMemory{Now: o.Now}
	o.Seen = seen
	token := edToken(`{"alg":"EdDSA"}`, claims(`,"jti":"1","tool_name":"shell"`))
	if v := verifyJWS(t, o, token, Binding{Tool: "browser"}); v.Binding != No || v.Freshness != Yes {
		t.Errorf("%+v", v)
	}
	if v := verifyJWS(t, o, token, Binding{Tool: "shell"}); !v.Trusted() {
		t.Errorf("%+v", v)
	}
	if v := verifyJWS(t, o, token, Binding{Tool: "shell"}); v.Freshness != No || codes(&v) != "seen-before" {
		t.Errorf("%+v", v)
	}
	// It is the name that counts, not the bytes: another signature changes nothing.
	if v := verifyJWS(t, o, edToken(`{"alg":"EdDSA","x5t":"a"}`, claims(`,"jti":"1"`)), Binding{}); codes(&v) != "seen-before" {
		t.Errorf("%+v", v)
	}
	for payload, want := range map[string]string{claims(""): "no-id", claims(`,"jti":""`): "bad-claim", claims(`,"jti":1`): "bad-claim", claims(`,"jti":"2"`): ""} {
		if v := verifyJWS(t, o, edToken(`{"alg":"EdDSA"}`, payload), Binding{}); codes(&v) != want || v.Trusted() != (want == "") {
			t.Errorf("%s: %+v", payload, v)
		}
	}
	if n := len(seen.until); n != 2 {
		t.Errorf("%d are remembered", n)
	}
	if until := seen.until[Digest("gateway", "1")]; !until.Equal(jwsNow.Add(time.Hour + DefaultSkew)) {
		t.Errorf("until %s", until)
	}
	seen.Limit = 1
	if v, err := tryJWS(t, o, edToken(`{"alg":"EdDSA"}`, claims(`,"jti":"3"`)), Binding{}); !errors.Is(err, errSeenFull) || v.Adapter != "" {
		t.Errorf("%+v, %v", v, err)
	}
	// The age ends it before the expiry does.
	o.Seen, o.MaxAge = &SeenMemory{}, time.Minute
	verifyJWS(t, o, edToken(`{"alg":"EdDSA"}`, claims(fmt.Sprintf(`,"jti":"1","iat":%d`, jwsNow.Unix()))), Binding{})
	if until := o.Seen.(*SeenMemory).until[Digest("gateway", "1")]; !until.Equal(jwsNow.Add(time.Minute + DefaultSkew)) {
		t.Errorf("until %s", until)
	}
	o.AllowNoExpiry, o.MaxAge = true, 0
	verifyJWS(t, o, edToken(`{"alg":"EdDSA"}`, `{"jti":"9","iss":"gateway"}`), Binding{})
	if until, ok := o.Seen.(*SeenMemory).until[Digest("gateway", "9")]; !ok || !until.IsZero() {
		t.Errorf("until %s, %t", until, ok)
	}
}

// FuzzJWS: nothing panics, and nothing is trusted that nobody has signed.
func FuzzJWS(f *testing.F) {
	good := edToken(`{"alg":"EdDSA"}`, claims(`,"jti":"1","aud":["me"],"tool_name":"shell"`))
	f.Add([]byte(good))
	f.Add([]byte(`{"payload":""}`))
	f.Add([]byte("a.b.\n"))
	o := edOptions()
	o.Audience = "me"
	a, err := NewJWS(o)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := a.Verify(t.Context(), strings.NewReader(string(text)), Binding{Tool: "shell"})
		if err != nil {
			if v.Adapter != "" {
				t.Fatal("a verification and an error")
			}
			return
		}
		if v.Signature == Yes && strings.TrimRight(string(text), "\r\n") != good {
			t.Fatalf("%q: nobody has signed it", text)
		}
		if v.Worst() != Yes && len(v.Violations) == 0 {
			t.Fatalf("%+v: nothing says why", v)
		}
	})
}
