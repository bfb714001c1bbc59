package forge

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
)

const oidcRoute = "GET /oidc"

func TestIDToken(t *testing.T) {
	f := newForgeTest(t)
	env := f.OIDC()
	getenv := func(name string) string { return env[name] }
	if !OIDCInReach(getenv) {
		t.Error("not in reach")
	}
	audience := "truegreen:sha256:" + strings.Repeat("0", 64) + "&x=y"
	f.Fault(oidcRoute, 1, githubtest.Fault{Status: 503})
	f.Fault(oidcRoute, 2, githubtest.Fault{Drop: true})
	token, err := IDToken(t.Context(), getenv, audience, f.o)
	if err != nil || strings.Count(token, ".") != 2 || !slices.Equal(f.Audiences, []string{audience}) {
		t.Errorf("%q for %q: %v", token, f.Audiences, err)
	}
	for _, r := range f.Requests() {
		if r.Authorization != "Bearer "+githubtest.OIDCBearer {
			t.Errorf("shown %q", r.Authorization)
		}
	}
	if f.Calls(oidcRoute) != 3 || len(f.slept) == 0 { // net/http repeats what a closed connection lost by itself
		t.Errorf("%d calls, slept %v", f.Calls(oidcRoute), f.slept)
	}
}

func TestIDTokenRefuses(t *testing.T) {
	none := func(string) string { return "" }
	if OIDCInReach(none) {
		t.Error("in reach")
	}
	if _, err := IDToken(t.Context(), none, "a", Options{}); !errors.Is(err, ErrNoOIDC) || !strings.Contains(err.Error(), "id-token: write") {
		t.Errorf("got %v", err)
	}
	for name, fault := range map[string]githubtest.Fault{
		"refused":    {Status: 403},
		"no json":    {Status: 200, Body: "<html>"},
		"no token":   {Status: 200, Body: `{"value":""}`},
		"no jwt":     {Status: 200, Body: `{"value":"a.b"}`},
		"two lines":  {Status: 200, Body: `{"value":"a.b.c\n::set-output::"}`},
		"too long":   {Status: 200, Body: `{"value":"a.b.` + strings.Repeat("c", maxIDToken) + `"}`},
		"endless":    {Status: 200, Body: strings.Repeat(" ", 3*maxIDToken)},
		"redirected": {Status: 302, Header: http.Header{"Location": {"http://127.0.0.1:1/"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForgeTest(t)
			f.Fault(oidcRoute, 0, fault)
			env := f.OIDC()
			if token, err := IDToken(t.Context(), func(name string) string { return env[name] }, "a", f.o); err == nil || token != "" || f.Calls(oidcRoute) != 1 {
				t.Errorf("%q after %d calls, %v", token, f.Calls(oidcRoute), err)
			}
		})
	}
	for _, address := range []string{"http://token.example/?a", "token.example", "https://user@token.example"} {
		env := map[string]string{oidcURL: address, oidcToken: "x"}
		if _, err := IDToken(t.Context(), func(name string) string { return env[name] }, "a", Options{}); err == nil {
			t.Errorf("%s: asked", address)
		}
	}
}
