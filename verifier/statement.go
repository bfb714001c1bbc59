package verifier

import (
	"errors"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
	"github.com/truegreen-dev/truegreen/receipts"
)

// A VerifiedPatch is a patch that met its policy, with evidence that someone
// whom the caller trusts vouches for. Only a verified [Report] makes one. It
// cannot be unmarshalled, and the zero VerifiedPatch states nothing.
type VerifiedPatch struct {
	report *report
}

// VerifiedPatch returns the patch of a verified report that is not a quick one.
func (r Report) VerifiedPatch() (VerifiedPatch, bool) {
	if r.Verdict() != Verified || !r.Sound() || r.r.quick || len(r.r.trust) == 0 {
		return VerifiedPatch{}, false
	}
	return VerifiedPatch{r.r}, true
}

// StatementType is the DSSE payload type of [VerifiedPatch.Statement].
const StatementType = "application/vnd.in-toto+json"

const (
	inTotoType     = "https://in-toto.io/Statement/v1"
	testResultType = "https://in-toto.io/attestation/test-result/v0.1"
)

var errNoEvidence = errors.New("verified patch: unproven: no-evidence")

// Statement returns an in-toto Statement v1 with a test-result v0.1 predicate:
// its subjects are the commit and the tested tree, its configuration the plan,
// the configuration and the seal, and its passed tests those that pass on the
// head, by entry, suite and name.
func (p VerifiedPatch) Statement() ([]byte, error) {
	if p.report == nil {
		return nil, errNoEvidence
	}
	type digest struct {
		Commit string           `json:"gitCommit,omitempty"`
		Tree   string           `json:"gitTree,omitempty"`
		SHA256 *receipts.Digest `json:"sha256,omitempty"`
	}
	type resource struct {
		Name   receipts.Bytes `json:"name"`
		Digest digest         `json:"digest"`
	}
	in := p.report
	sum := func(name string, d receipts.Digest) resource {
		return resource{receipts.Bytes(name), digest{SHA256: &d}}
	}
	statement := struct {
		Type      string     `json:"_type"`
		Subject   []resource `json:"subject"`
		Predicate string     `json:"predicateType"`
		Body      struct {
			Result string           `json:"result"`
			Config []resource       `json:"configuration"`
			Passed []receipts.Bytes `json:"passedTests"`
			Warned []receipts.Bytes `json:"warnedTests"`
			Failed []receipts.Bytes `json:"failedTests"`
		} `json:"predicate"`
	}{Type: inTotoType, Predicate: testResultType}
	statement.Subject = []resource{
		{"git+https://" + in.patch.Repository, digest{Commit: in.patch.Head}},
		{in.patch.Repository + " tree", digest{Tree: in.patch.Tree.Git}},
		sum(string(in.patch.Repository)+" tree in Git's SHA-256 object format", in.patch.Tree.SHA256),
	}
	body := &statement.Body
	body.Result = "PASSED"
	body.Config = []resource{sum("truegreen seal", in.sealed), sum("truegreen plan", in.seal.Plan), sum("truegreen configuration", in.seal.Config)}
	body.Warned, body.Failed = []receipts.Bytes{}, []receipts.Bytes{}
	for _, t := range in.findings.Passed() {
		body.Passed = append(body.Passed, receipts.Bytes(t.Entry+": "+t.String()))
	}
	return strictjson.Marshal(&statement)
}

// UnmarshalJSON implements [json.Unmarshaler] by refusing.
func (*VerifiedPatch) UnmarshalJSON([]byte) error { return errReport }

// MarshalJSON implements [json.Marshaler] with the statement.
func (p VerifiedPatch) MarshalJSON() ([]byte, error) { return p.Statement() }
