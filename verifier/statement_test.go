package verifier_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/receipts/dsse"
	"github.com/truegreen-dev/truegreen/verifier"
)

func statementOf(t testing.TB, r *fixture.Run) []byte {
	t.Helper()
	p, ok := verify(t, bundleOf(t, r), r.Options()).VerifiedPatch()
	if !ok {
		t.Fatal("not verified")
	}
	doc, err := p.Statement()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestStatementGolden pins the statement of a fixture to the byte.
func TestStatementGolden(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	got := append(statementOf(t, &r), '\n')
	path := filepath.Join("testdata", "statement.json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the statement has changed:\n%s\nwant\n%s", got, want)
	}
}

// TestStatementFields reads the statement with nothing but the two in-toto
// specifications in mind: Statement v1 and test-result v0.1.
func TestStatementFields(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	file := bundleOf(t, &r)
	report := verify(t, file, r.Options())
	type resource struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	}
	var s struct {
		Type      string     `json:"_type"`
		Subject   []resource `json:"subject"`
		Predicate string     `json:"predicateType"`
		Body      struct {
			Result        string     `json:"result"`
			Configuration []resource `json:"configuration"`
			Passed        []string   `json:"passedTests"`
			Warned        []string   `json:"warnedTests"`
			Failed        []string   `json:"failedTests"`
		} `json:"predicate"`
	}
	dec := json.NewDecoder(bytes.NewReader(statementOf(t, &r)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		t.Fatal(err)
	}
	if s.Type != "https://in-toto.io/Statement/v1" || s.Predicate != "https://in-toto.io/attestation/test-result/v0.1" {
		t.Errorf("types %q, %q", s.Type, s.Predicate)
	}
	patch, seal := report.Patch(), receipts.Digest{}
	sealed, digest := report.Seal()
	seal = digest
	for i, want := range []resource{
		{"git+https://git.example.com/project", map[string]string{"gitCommit": r.HeadCommit()}},
		{"git.example.com/project tree", map[string]string{"gitTree": patch.Tree.Git}},
		{"git.example.com/project tree in Git's SHA-256 object format", map[string]string{"sha256": patch.Tree.SHA256.String()}},
	} {
		if i >= len(s.Subject) || s.Subject[i].Name != want.Name || len(s.Subject[i].Digest) != 1 {
			t.Fatalf("subjects %v", s.Subject)
		}
		for k, v := range want.Digest {
			if s.Subject[i].Digest[k] != v {
				t.Errorf("subject %v, want %v", s.Subject[i], want)
			}
		}
	}
	var sums []string
	for _, c := range s.Body.Configuration {
		sums = append(sums, c.Digest["sha256"])
	}
	if !slices.Equal(sums, []string{seal.String(), sealed.Plan.String(), sealed.Config.String()}) {
		t.Errorf("configuration %v", s.Body.Configuration)
	}
	passed := []string{"unit: " + fixture.Package + " TestAdd", "unit: " + fixture.Package + " TestSum"}
	if s.Body.Result != "PASSED" || !slices.Equal(s.Body.Passed, passed) || s.Body.Warned == nil || len(s.Body.Warned) > 0 || s.Body.Failed == nil || len(s.Body.Failed) > 0 {
		t.Errorf("result %+v", s.Body)
	}
}

// TestStatementEnvelope signs a statement and opens the envelope again.
func TestStatementEnvelope(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	doc := statementOf(t, &r)
	seed := receipts.Sum([]byte("statement signer"))
	key := ed25519.NewKeyFromSeed(seed[:])
	signer, err := dsse.NewEd25519Signer("ci", key)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := dsse.Sign(verifier.StatementType, doc, signer)
	if err != nil {
		t.Fatal(err)
	}
	text, err := envelope.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := dsse.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	good, err := dsse.NewEd25519Verifier("ci", key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	payload, who, err := opened.Verify(verifier.StatementType, 1, good)
	if err != nil || !bytes.Equal(payload, doc) || !slices.Equal(who, []string{"ci"}) {
		t.Errorf("%q by %v: %v", payload, who, err)
	}
	if _, _, err := opened.Verify("application/json", 1, good); err == nil {
		t.Error("it opens as another type")
	}
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	bad, err := dsse.NewEd25519Verifier("ci", other.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := opened.Verify(verifier.StatementType, 1, bad); !errors.Is(err, dsse.ErrSignatures) {
		t.Errorf("it opens for another key: %v", err)
	}
}

// TestNoStatement: whoever is not verified has no statement.
func TestNoStatement(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	o := r.Options()
	o.Keys = nil
	for name, report := range map[string]verifier.Report{
		"untrusted": verify(t, bundleOf(t, &r), o),
		"no bundle": verify(t, []byte("x"), o),
		"zero":      {},
	} {
		p, ok := report.VerifiedPatch()
		if doc, err := p.Statement(); ok || err == nil || doc != nil {
			t.Errorf("%s: %q", name, doc)
		}
	}
}
