package verifier_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/receipts/jws"
	"github.com/truegreen-dev/truegreen/verifier"
)

var strangersKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func tokenOf(t testing.TB, claims map[string]any) []byte {
	t.Helper()
	token, err := fixture.Token(claims)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// tokens makes a bundle of a second attempt, and sidecars for it.
type tokens struct {
	t    testing.TB
	run  fixture.Run
	file []byte
	seal bundle.Seal
	sum  receipts.Digest
}

func newTokens(t testing.TB) *tokens {
	t.Helper()
	s := &tokens{t: t, run: fixture.New()}
	s.run.Statement.Attempt = 2
	s.file = bundleOf(t, &s.run)
	a, err := fixture.Unpack(s.file)
	if err != nil {
		t.Fatal(err)
	}
	text := a.Content(fixture.SealMember)
	if s.seal, err = bundle.ParseSeal(text); err != nil {
		t.Fatal(err)
	}
	s.sum = bundle.SealDigest(text)
	return s
}

// with returns a token that an honest job gets, but for some claims; nil leaves one out.
func (s *tokens) with(pairs ...any) []byte {
	s.t.Helper()
	return tokenOf(s.t, s.claims(pairs...))
}

func (s *tokens) claims(pairs ...any) map[string]any {
	claims := fixture.Claims(s.sum)
	claims["run_attempt"] = "2"
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == nil {
			delete(claims, pairs[i].(string))
		} else {
			claims[pairs[i].(string)] = pairs[i+1]
		}
	}
	return claims
}

func (s *tokens) verify(edit func(*verifier.Options), sidecars ...[]byte) verifier.Report {
	s.t.Helper()
	o := s.run.Options()
	o.Keys, o.OIDC = nil, fixture.OIDC()
	for i, b := range sidecars {
		o.Sidecars = append(o.Sidecars, verifier.Sidecar{Name: fmt.Sprintf("%d.oidc", i), Bytes: b})
	}
	if edit != nil {
		edit(&o)
	}
	return verify(s.t, s.file, o)
}

var trusted = verifier.Trust{Kind: "oidc", Who: "octo/project, run 1001 attempt 2, by " + fixture.TokenWorkflow}

// TestToken asks about one bundle with one token, which is what an honest job gets but
// for one thing.
func TestToken(t *testing.T) {
	t.Parallel()
	s := newTokens(t)
	end := int64(s.seal.End) / 1000
	expires := func(iat int64) []any { return []any{"iat", iat, "exp", iat + 300} }
	const (
		invalid   = verifier.SignatureInvalid
		untrusted = verifier.NoTrustedSeal
	)
	for _, test := range []struct {
		name   string
		claims []any
		want   verifier.Code // "": trusted
		detail string
	}{
		{"as it is", nil, "", ""},
		{"of a later attempt", []any{"run_attempt", "3"}, "", "attempt 3"},
		{"without a name of the repository", []any{"repository", nil}, "", "repository 123456, run"},
		{"at the end", expires(end), "", ""},
		{"a minute early", expires(end - 59), "", ""},
		{"a day late", expires(end + 24*3600), "", ""},
		{"another event that is allowed", []any{"event_name", "push"}, "", ""},
		{"long expired", []any{"exp", s.claims()["iat"].(int64) + 1}, "", ""}, // exp is never compared with now

		// These are not signatures over this seal by this issuer.
		{"audience of another seal", []any{"aud", verifier.Audience(receipts.Sum([]byte("other")))}, invalid, "this seal's is"},
		{"audience of something else", []any{"aud", "https://github.com/octo"}, invalid, "aud"},
		{"audience in capitals", []any{"aud", strings.ToUpper(verifier.Audience(s.sum))}, invalid, "aud"},
		{"audience behind", []any{"aud", verifier.Audience(s.sum) + " "}, invalid, "aud"},
		{"two audiences", []any{"aud", []string{verifier.Audience(s.sum), "other"}}, invalid, "aud"},
		{"audience in a list", []any{"aud", []string{verifier.Audience(s.sum)}}, invalid, "aud"},
		{"no audience", []any{"aud", nil}, invalid, "aud"},
		{"key of another issuer", []any{"iss", "https://issuer.example"}, invalid, "the key is that of"},
		{"no issuer", []any{"iss", nil}, invalid, "iss"},
		{"expired at issue", []any{"exp", s.claims()["iat"]}, invalid, "it had expired when it was issued"},
		{"expired before issue", []any{"exp", 1}, invalid, "exp 1"},
		{"no exp", []any{"exp", nil}, invalid, "exp: absent"},
		{"no iat", []any{"iat", nil}, invalid, "iat: absent"},
		{"iat is a string", []any{"iat", "1767323645"}, invalid, "iat"},
		{"iat is a fraction", []any{"iat", 1767323645.5}, invalid, "iat"},
		{"iat is negative", []any{"iat", -1}, invalid, "iat"},
		{"iat wraps", []any{"iat", uint64(1) << 63, "exp", uint64(1)<<63 + 1}, invalid, "iat"},

		// These are, and the rules do not allow what they say.
		{"another repository", []any{"repository_id", "123457"}, untrusted, `repository_id "123457": allowed is 123456`},
		{"repository by its name", []any{"repository_id", "octo/project"}, untrusted, "repository_id"},
		{"repository with a zero", []any{"repository_id", "0123456"}, untrusted, "repository_id"},
		{"repository is a number", []any{"repository_id", 123456}, untrusted, "repository_id: not a string"},
		{"no repository", []any{"repository_id", nil}, untrusted, "repository_id: absent"},
		{"another event", []any{"event_name", "workflow_dispatch"}, untrusted, `event_name "workflow_dispatch": allowed is pull_request, push`},
		{"no event", []any{"event_name", nil}, untrusted, "event_name: absent"},
		{"the patch's workflow", []any{"job_workflow_ref", "octo/project/.github/workflows/ci.yml@refs/pull/7/merge"}, untrusted, "job_workflow_ref"},
		{"another branch of the workflow", []any{"job_workflow_ref", strings.Replace(fixture.TokenWorkflow, "main", "main2", 1)}, untrusted, "job_workflow_ref"},
		{"workflow of another owner", []any{"job_workflow_ref", "x" + fixture.TokenWorkflow}, untrusted, "job_workflow_ref"},
		{"workflow in capitals", []any{"job_workflow_ref", strings.ToUpper(fixture.TokenWorkflow)}, untrusted, "job_workflow_ref"},
		{"no workflow", []any{"job_workflow_ref", nil}, untrusted, "job_workflow_ref: absent"},
		{"the caller's workflow alone", []any{"job_workflow_ref", nil, "workflow_ref", fixture.TokenWorkflow}, untrusted, "job_workflow_ref: absent"},
		{"another runner", []any{"runner_environment", "self-hosted"}, untrusted, `runner_environment "self-hosted": allowed is github-hosted`},
		{"no runner", []any{"runner_environment", nil}, untrusted, "runner_environment: absent"},
		{"no run", []any{"run_id", nil}, untrusted, "run_id: absent"},
		{"run zero", []any{"run_id", "0"}, untrusted, "run_id"},
		{"earlier attempt", []any{"run_attempt", "1"}, untrusted, `run_attempt "1": allowed is 2 or more`},
		{"attempt is no number", []any{"run_attempt", "2 "}, untrusted, "run_attempt"},
		{"attempt with a zero", []any{"run_attempt", "02"}, untrusted, "run_attempt"},
		{"attempt wraps", []any{"run_attempt", "18446744073709551618"}, untrusted, "run_attempt"},
		{"no attempt", []any{"run_attempt", nil}, untrusted, "run_attempt: absent"},
		{"no sha", []any{"sha", nil}, untrusted, "sha: absent"},
		{"sha is a branch", []any{"sha", "main"}, untrusted, "sha"},
		{"too early", expires(end - 62), untrusted, `iat "`},
		{"too late", expires(end + 24*3600 + 1), untrusted, `iat "`},
		{"far too late", []any{"iat", int64(1<<53 - 2), "exp", int64(1<<53 - 1)}, untrusted, `iat "`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			report := s.verify(nil, s.with(test.claims...))
			if test.want == "" {
				want(t, report)
				if trust := report.Trust(); len(trust) != 1 || trust[0].Kind != "oidc" || !strings.Contains(trust[0].Who, test.detail) {
					t.Errorf("trust %+v", trust)
				}
				return
			}
			if test.want == invalid {
				want(t, report, invalid, untrusted)
			} else {
				want(t, report, untrusted)
			}
			member(t, report, "0.oidc")
			if detail := report.Reasons()[0].Detail; !strings.Contains(detail, test.detail) {
				t.Errorf("detail %q, want %q", detail, test.detail)
			}
			if len(report.Trust()) > 0 {
				t.Errorf("trust %+v", report.Trust())
			}
		})
	}
}

// TestTokenForged has the attacks on the token's form; package jws has more of them.
func TestTokenForged(t *testing.T) {
	t.Parallel()
	s := newTokens(t)
	good := s.with()
	parts := bytes.Split(good, []byte("."))
	encode := base64.RawURLEncoding.EncodeToString
	join := func(header, payload, sig string) []byte { return []byte(header + "." + payload + "." + sig) }
	signed := func(key *rsa.PrivateKey, header map[string]any) []byte {
		token, err := fixture.SignToken(key, header, s.claims())
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	const id = fixture.TokenKeyID
	doubled := fmt.Sprintf(`{"aud":%q,`, verifier.Audience(receipts.Sum(nil)))
	for _, test := range []struct {
		name  string
		token []byte
		want  verifier.Code
	}{
		{"alg none", join(encode([]byte(`{"alg":"none","kid":"fixture"}`)), string(parts[1]), ""), verifier.SignatureInvalid},
		{"alg none, signed", signed(fixture.IssuerKey(), map[string]any{"alg": "none", "kid": id}), verifier.SignatureInvalid},
		{"key confusion", join(encode([]byte(`{"alg":"HS256","kid":"fixture"}`)), string(parts[1]), encode(fixture.IssuerKey().N.Bytes())), verifier.SignatureInvalid},
		{"crit", signed(fixture.IssuerKey(), map[string]any{"alg": "RS256", "kid": id, "crit": []string{"x"}, "x": 1}), verifier.SignatureInvalid},
		{"brings its key", signed(strangersKey(), map[string]any{"alg": "RS256", "kid": id, "jwk": map[string]any{"kty": "RSA"}}), verifier.SignatureInvalid},
		{"by a stranger", signed(strangersKey(), map[string]any{"alg": "RS256", "kid": id}), verifier.SignatureInvalid},
		{"by an unknown key", signed(strangersKey(), map[string]any{"alg": "RS256", "kid": "new"}), verifier.StaleKeys},
		{"payload of another", join(string(parts[0]), string(bytes.Split(s.with("run_id", "1002"), []byte("."))[1]), string(parts[2])), verifier.SignatureInvalid},
		{"duplicate claim", join(string(parts[0]), encode([]byte(doubled+string(mustDecode(t, parts[1])[1:]))), string(parts[2])), verifier.SignatureInvalid},
		{"line end", append(slices.Clone(good), '\n'), verifier.SignatureInvalid},
		{"padded", append(slices.Clone(good), '=', '='), verifier.SignatureInvalid},
		{"nothing", nil, verifier.SignatureInvalid},
		{"SSH signature", sign(t, "alice", []byte("x")), verifier.SignatureInvalid},
	} {
		report := s.verify(nil, test.token)
		switch test.want {
		case verifier.SignatureInvalid:
			want(t, report, verifier.SignatureInvalid, verifier.NoTrustedSeal)
		default:
			want(t, report, test.want)
		}
		member(t, report, "0.oidc")
		if t.Failed() {
			t.Fatal(test.name)
		}
	}
}

func mustDecode(t *testing.T, part []byte) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(string(part))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTokenAnchors asks with other anchors, and with more signatures than one.
func TestTokenAnchors(t *testing.T) {
	t.Parallel()
	s := newTokens(t)
	good, bad, stale := s.with(), s.with("event_name", "schedule"), []byte(nil)
	stale, err := fixture.SignToken(fixture.IssuerKey(), map[string]any{"alg": "RS256", "kid": "new"}, s.claims())
	if err != nil {
		t.Fatal(err)
	}
	anchor := func(edit func(*verifier.OIDCAnchor)) func(*verifier.Options) {
		return func(o *verifier.Options) { edit(o.OIDC) }
	}
	rule := func(edit func(*verifier.OIDCRule)) func(*verifier.Options) {
		return anchor(func(a *verifier.OIDCAnchor) { edit(&a.Trust.OIDC[0]) })
	}
	retired := func(after time.Duration) func(*verifier.Options) {
		at := time.Unix(s.claims()["iat"].(int64), 0).Add(after).UTC().Format(time.RFC3339)
		return anchor(func(a *verifier.OIDCAnchor) {
			text, err := a.Keys.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			text = bytes.Replace(text, []byte(`"issuer"`), []byte(`"not_after":"`+at+`","issuer"`), 1)
			if a.Keys, err = jws.ParseKeySet(text, verifier.DefaultIssuer); err != nil {
				t.Fatal(err)
			}
		})
	}
	mac := verifier.Trust{Kind: "mac", Who: s.run.Anchor().Who}
	withKey := func(o *verifier.Options) { o.Keys = append(o.Keys, s.run.Anchor()) }
	const (
		invalid   = verifier.SignatureInvalid
		untrusted = verifier.NoTrustedSeal
	)
	for _, test := range []struct {
		name     string
		edit     func(*verifier.Options)
		sidecars [][]byte
		trust    []verifier.Trust
		want     []verifier.Code
	}{
		{"no anchor", func(o *verifier.Options) { o.OIDC = nil }, [][]byte{good}, nil, []verifier.Code{untrusted}},
		{"no keys", anchor(func(a *verifier.OIDCAnchor) { a.Keys = jws.KeySet{} }), [][]byte{good}, nil, []verifier.Code{verifier.StaleKeys}},
		{"no rules", anchor(func(a *verifier.OIDCAnchor) { a.Trust = verifier.TrustConfig{} }), [][]byte{good}, nil, []verifier.Code{untrusted}},
		{"a zero rule", rule(func(r *verifier.OIDCRule) { *r = verifier.OIDCRule{} }), [][]byte{good}, nil, []verifier.Code{untrusted}},
		{"second rule", anchor(func(a *verifier.OIDCAnchor) {
			other := a.Trust.OIDC[0]
			other.RepositoryID = 1
			a.Trust.OIDC = []verifier.OIDCRule{other, a.Trust.OIDC[0]}
		}), [][]byte{good}, []verifier.Trust{trusted}, nil},
		{"halves of two rules", anchor(func(a *verifier.OIDCAnchor) {
			one, two := a.Trust.OIDC[0], a.Trust.OIDC[0]
			one.RepositoryID, two.Events = 1, []string{"schedule"}
			a.Trust.OIDC = []verifier.OIDCRule{one, two}
		}), [][]byte{good}, nil, []verifier.Code{untrusted}},
		{"rule of another issuer", rule(func(r *verifier.OIDCRule) { r.Issuer = "https://issuer.example" }), [][]byte{good}, nil, []verifier.Code{untrusted}},
		{"any runner", rule(func(r *verifier.OIDCRule) { r.Runner = verifier.RunnerAny }), [][]byte{s.with("runner_environment", "self-hosted")},
			[]verifier.Trust{trusted}, nil},
		{"a short window", rule(func(r *verifier.OIDCRule) { r.Window = time.Minute }), [][]byte{good}, nil, []verifier.Code{untrusted}},

		{"this repository", anchor(func(a *verifier.OIDCAnchor) { a.RepositoryID = 123456 }), [][]byte{good}, []verifier.Trust{trusted}, nil},
		{"another repository", anchor(func(a *verifier.OIDCAnchor) { a.RepositoryID = 1 }), [][]byte{good}, nil, []verifier.Code{untrusted}},
		{"this run", anchor(func(a *verifier.OIDCAnchor) { a.Run = 1001 }), [][]byte{good}, []verifier.Trust{trusted}, nil},
		{"swapped run", anchor(func(a *verifier.OIDCAnchor) { a.Run = 1002 }), [][]byte{good}, nil, []verifier.Code{untrusted}},
		{"this commit", anchor(func(a *verifier.OIDCAnchor) { a.Commits = []string{"x", s.claims()["sha"].(string)} }), [][]byte{good}, []verifier.Trust{trusted}, nil},
		{"another commit", anchor(func(a *verifier.OIDCAnchor) { a.Commits = []string{s.run.HeadCommit()} }), [][]byte{good}, nil, []verifier.Code{untrusted}},

		{"key retired later", retired(0), [][]byte{good}, []verifier.Trust{trusted}, nil},
		{"key retired before", retired(-time.Second), [][]byte{good}, nil, []verifier.Code{verifier.StaleKeys}},

		{"one of many", nil, [][]byte{bad, stale, good}, []verifier.Trust{trusted}, nil},
		{"none of many", nil, [][]byte{bad, stale, bad}, nil, []verifier.Code{untrusted, verifier.StaleKeys, untrusted}},
		{"one is invalid", nil, [][]byte{good, s.with("aud", "x")}, []verifier.Trust{trusted}, []verifier.Code{invalid}},
		{"stale, and the key", withKey, [][]byte{stale}, []verifier.Trust{mac}, nil},
		{"both", withKey, [][]byte{good}, []verifier.Trust{mac, trusted}, nil},
		{"by its form", func(o *verifier.Options) { o.Sidecars[0].Name = "token" }, [][]byte{good}, []verifier.Trust{trusted}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			report := s.verify(test.edit, test.sidecars...)
			want(t, report, test.want...)
			if report.Sound() && !slices.Equal(report.Trust(), test.trust) {
				t.Errorf("trust %+v, want %+v", report.Trust(), test.trust)
			}
		})
	}
}

// TestTokenOfAnotherRun: a true token for another bundle is none for this one.
func TestTokenOfAnotherRun(t *testing.T) {
	t.Parallel()
	s := newTokens(t)
	other := newTokens(t)
	other.run = fixture.New()
	other.run.Salt = receipts.Sum([]byte("another salt"))
	other.file = bundleOf(t, &other.run)
	want(t, other.verify(nil, s.with()), verifier.SignatureInvalid, verifier.NoTrustedSeal)
}

// TestUnattested: where the patch could change the workflow, no signature counts.
func TestUnattested(t *testing.T) {
	t.Parallel()
	s := newTokens(t)
	unattested := func(o *verifier.Options) { o.Unattested, o.Keys = true, []verifier.KeyAnchor{s.run.Anchor()} }
	report := s.verify(unattested, s.with())
	want(t, report, verifier.Unattested)
	if !report.Sound() || len(report.Trust()) > 0 || len(report.Findings().Runs) == 0 {
		t.Errorf("sound %t, trust %v, %d runs", report.Sound(), report.Trust(), len(report.Findings().Runs))
	}
	want(t, s.verify(unattested), verifier.Unattested)
	want(t, s.verify(unattested, s.with("event_name", "x"), []byte("x.y.z")), verifier.SignatureInvalid, verifier.Unattested)

	red := fixture.New()
	red.Output = fixture.OnHead(fixture.Output{Exit: 1, Stdout: fixture.GoTest(fixture.Package, "TestAdd fail")})
	o := red.Options()
	o.Unattested = true
	want(t, verify(t, bundleOf(t, &red), o), verifier.Unattested, verifier.TestsFailed)
}

// TestSealed: a caller who was told which bundle to expect gets no other.
func TestSealed(t *testing.T) {
	t.Parallel()
	s := newTokens(t)
	want(t, s.verify(func(o *verifier.Options) { o.Sealed = s.sum }, s.with()))
	report := s.verify(func(o *verifier.Options) { o.Sealed = receipts.Sum(nil) }, s.with())
	want(t, report, verifier.WrongBundle)
	member(t, report, "seal")
}

// TestTokenClaims holds the fixture's token to the claims that are checked: leaving any of
// them out must be noticed.
func TestTokenClaims(t *testing.T) {
	t.Parallel()
	s := newTokens(t)
	ignored := []string{"sub", "jti", "nbf", "repository", "repository_visibility", "ref", "workflow_ref", "run_number"}
	for _, name := range slices.Sorted(maps.Keys(s.claims())) {
		accepted := s.verify(nil, s.with(name, nil)).Verdict() == verifier.Verified
		if accepted != slices.Contains(ignored, name) {
			t.Errorf("without %s: accepted %t", name, accepted)
		}
	}
}
