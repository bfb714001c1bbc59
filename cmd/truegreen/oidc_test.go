package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts/jws"
	"github.com/truegreen-dev/truegreen/verifier"
)

// An issuer publishes keys on the loopback interface.
type issuer struct {
	mu  sync.Mutex
	url string
	how string
	ids []string
}

// serveIssuer serves, or changes, an issuer. How it answers is honest, or
//
//	foreign    its configuration is another issuer's
//	elsewhere  it names keys on another host
//	redirect   it redirects to its keys
//	large      its keys never end
//	malformed  its keys are none
//	gone       it has no configuration
func serveIssuer(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) < 2, "issuer NAME HOW KID…")
	all := ts.Value("issuers").(map[string]*issuer)
	s := all[args[0]]
	if s == nil {
		s = &issuer{}
		all[args[0]] = s
		server := httptest.NewServer(s)
		ts.Defer(server.Close)
		s.url = server.URL
		ts.Setenv(args[0], s.url)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.how, s.ids = args[1], args[2:]
}

// ServeHTTP implements [http.Handler].
func (s *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, keys := s.url, s.url+"/keys"
	switch s.how {
	case "foreign":
		name = "https://other.example"
	case "elsewhere":
		keys = strings.Replace(keys, "127.0.0.1", "127.0.0.2", 1)
	case "gone":
		http.NotFound(w, r)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{"issuer": name, "jwks_uri": keys, "scopes_supported": []string{"openid"}})
	case "/keys":
		switch s.how {
		case "redirect":
			http.Redirect(w, r, s.url+"/moved", http.StatusFound)
		case "large":
			w.Write([]byte(strings.Repeat(" ", jws.MaxKeySet+1)))
		case "malformed":
			w.Write([]byte(`{"keys":[{"kty":"RSA","kid":"k","n":"AQAB","e":"AQAB"}]}`))
			return
		}
		s.keys(w)
	case "/moved":
		s.keys(w)
	}
}

// keys writes one key under several ids.
func (s *issuer) keys(w http.ResponseWriter) {
	list := []json.RawMessage{}
	for _, id := range s.ids {
		var set struct{ Keys []json.RawMessage }
		if json.Unmarshal(fixture.IssuerKeys(id, &fixture.IssuerKey().PublicKey), &set) == nil {
			list = append(list, set.Keys...)
		}
	}
	json.NewEncoder(w).Encode(map[string]any{"keys": list})
}

// makeToken signs a bundle's seal as a later job does.
func makeToken(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) < 2, "token FILE BUNDLE CLAIM=VALUE…")
	token, err := tokenOver(ts.MkAbs(args[1]), args[2:])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), token, 0o644))
}

func tokenOver(path string, with []string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	b, err := bundle.Open(file, info.Size(), bundle.Limits{})
	if err != nil {
		return nil, err
	}
	seal, err := bundle.ParseSeal(b.Seal())
	if err != nil {
		return nil, err
	}
	claims := fixture.Claims(bundle.SealDigest(b.Seal()))
	issued := int64(seal.End)/1000 + 60
	claims["iat"], claims["nbf"], claims["exp"] = issued, issued-600, issued+300
	header, end := map[string]any{"typ": "JWT", "alg": "RS256", "kid": "one"}, ""
	for _, arg := range with {
		switch name, value, _ := strings.Cut(arg, "="); name {
		case "kid":
			header["kid"] = value
		case "line":
			end = "\n"
		default:
			claims[name] = value
		}
	}
	token, err := fixture.SignToken(fixture.IssuerKey(), header, claims)
	return append(token, end...), err
}

// TestDocTrust holds the page to the code: its rule is the one that it describes, and it
// lists every claim without which a token does not count.
func TestDocTrust(t *testing.T) {
	t.Parallel()
	const page = "docs/trust.md"
	var rules []verifier.OIDCRule
	for _, b := range docBlocks(t, page) {
		if b.lang == "yaml" {
			c, err := verifier.ParseTrust([]byte(b.text))
			if err != nil {
				t.Fatalf("%s:%d: %v", page, b.line, err)
			}
			rules = append(rules, c.OIDC...)
		}
	}
	if len(rules) != 1 {
		t.Fatalf("%s: %d rules", page, len(rules))
	}
	for key, want := range map[string]string{
		"issuer": "`" + rules[0].Issuer + "`", "runner": "`" + rules[0].Runner + "`", "window": fmt.Sprintf("`%.0fh`", rules[0].Window.Hours()),
		"repository-id": "required", "workflows": "required", "events": "required",
	} {
		if rows := tableRows(t, page, "`"+key+"`"); len(rows) != 1 || rows[0][1] != want {
			t.Errorf("%s: %s: want %s in %v", page, key, want, rows)
		}
	}
	for _, claim := range []string{
		"iss", "aud", "repository_id", "event_name", "job_workflow_ref", "runner_environment", "run_id", "run_attempt", "sha", "iat", "exp",
	} {
		if rows := tableRows(t, page, "`"+claim+"`"); len(rows) != 1 {
			t.Errorf("%s: claim %s: %v", page, claim, rows)
		}
	}
}

// trustToken puts a bundle, its token and what trusts that into a session.
func trustToken(s *docSession) {
	s.sh("mkdir .truegreen; truegreen run --out evidence.tar.zst")
	token, err := tokenOver(filepath.Join(s.dir, "evidence.tar.zst"), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, b := range docBlocks(s.t, "docs/trust.md") {
		if b.lang == "yaml" {
			writeTo(s, verifier.TrustFile, []byte(b.text))
		}
	}
	writeTo(s, verifier.KeysFile, fixture.IssuerKeys("one", &fixture.IssuerKey().PublicKey))
	writeTo(s, "evidence.oidc", token)
	s.env = append(s.env, "TRUEGREEN_STATE="+filepath.Join(s.dir, "elsewhere")) // the token is all that there is
}

func writeTo(s *docSession, name string, content []byte) {
	if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o644); err != nil {
		s.t.Fatal(err)
	}
}
