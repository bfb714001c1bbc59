package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts/jws"
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
	file, err := os.Open(ts.MkAbs(args[1]))
	ts.Check(err)
	defer file.Close()
	info, err := file.Stat()
	ts.Check(err)
	b, err := bundle.Open(file, info.Size(), bundle.Limits{})
	ts.Check(err)
	seal, err := bundle.ParseSeal(b.Seal())
	ts.Check(err)
	claims := fixture.Claims(bundle.SealDigest(b.Seal()))
	issued := int64(seal.End)/1000 + 60
	claims["iat"], claims["nbf"], claims["exp"] = issued, issued-600, issued+300
	header, end := map[string]any{"typ": "JWT", "alg": "RS256", "kid": "one"}, ""
	for _, arg := range args[2:] {
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
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), fmt.Appendf(token, "%s", end), 0o644))
}
