package verifier

import (
	"errors"
	"fmt"
	"time"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
	"github.com/truegreen-dev/truegreen/receipts"
)

// An Issuer is who states what the gate has decided.
type Issuer struct {
	ID      string // a URI
	Version string // of this program
	// PolicyURI and Policy name the file that the policy was read from, and its digest;
	// zero: there was none, and the default counted.
	PolicyURI string
	Policy    receipts.Digest
	// Inputs are the digests of the bundles' files, by the names that the gate knows.
	Inputs map[string]receipts.Digest
}

const (
	summaryType = "https://slsa.dev/verification_summary/v1"
	resultType  = "https://in-toto.io/attestation/svr/v0.2"
	slsaVersion = "1.1"
)

var errNotReleased = errors.New("gate: there is nothing to state about a release that does not pass")

type gateDigest struct {
	Commit string           `json:"gitCommit,omitempty"`
	Tree   string           `json:"gitTree,omitempty"`
	SHA256 *receipts.Digest `json:"sha256,omitempty"`
}

type gateSubject struct {
	Name   receipts.Bytes `json:"name"`
	Digest gateDigest     `json:"digest"`
}

type gateResource struct {
	URI    receipts.Bytes `json:"uri"`
	Digest *gateDigest    `json:"digest,omitempty"`
}

// policy names the policy that was decided by.
func (by *Issuer) policy() gateResource {
	r := gateResource{URI: receipts.Bytes(by.PolicyURI)}
	if !by.Policy.IsZero() {
		r.Digest = &gateDigest{SHA256: &by.Policy}
	}
	return r
}

func (d *decision) subjects() []gateSubject {
	return []gateSubject{
		{receipts.Bytes("git+https://" + d.repository + "@" + d.tag.Ref), gateDigest{Commit: d.tag.Commit}},
		{receipts.Bytes(d.repository + " tree"), gateDigest{Tree: d.tag.Tree}},
	}
}

// properties are what holds for every commit of the release, as names.
func (d *decision) properties() []receipts.Bytes {
	list := []receipts.Bytes{"TRUEGREEN_GATE"}
	for _, r := range d.rows {
		if r.Waiver != "" { // then nothing more holds for every commit
			return append(list, "TRUEGREEN_GATE_WITH_WAIVERS")
		}
	}
	list = append(list, receipts.Bytes(fmt.Sprintf("TRUEGREEN_EVIDENCE_L%d", d.policy.Level)))
	if d.policy.Isolation > 0 {
		list = append(list, receipts.Bytes(fmt.Sprintf("TRUEGREEN_ISOLATION_%d", d.policy.Isolation)))
	}
	if d.policy.Threshold > 1 {
		list = append(list, receipts.Bytes(fmt.Sprintf("TRUEGREEN_SIGNERS_%d", d.policy.Threshold)))
	}
	return list
}

// Summary returns a SLSA Verification Summary, as an in-toto Statement v1, of a release
// that passes. Of another there is none, so that nobody takes a statement that exists
// for one that says yes.
func (d Decision) Summary(by Issuer) ([]byte, error) {
	if d.Verdict() != Verified {
		return nil, errNotReleased
	}
	in := d.d
	statement := struct {
		Type      string        `json:"_type"`
		Subject   []gateSubject `json:"subject"`
		Predicate string        `json:"predicateType"`
		Body      struct {
			Verifier struct {
				ID      string `json:"id"`
				Version struct {
					Truegreen string `json:"truegreen"`
				} `json:"version"`
			} `json:"verifier"`
			Time     string           `json:"timeVerified"`
			Resource receipts.Bytes   `json:"resourceUri"`
			Policy   gateResource     `json:"policy"`
			Inputs   []gateResource   `json:"inputAttestations"`
			Result   string           `json:"verificationResult"`
			Levels   []receipts.Bytes `json:"verifiedLevels"`
			Version  string           `json:"slsaVersion"`
		} `json:"predicate"`
	}{Type: inTotoType, Subject: in.subjects(), Predicate: summaryType}
	b := &statement.Body
	b.Verifier.ID, b.Verifier.Version.Truegreen = by.ID, by.Version
	b.Time, b.Resource = in.now.UTC().Format(time.RFC3339), statement.Subject[0].Name
	b.Policy = by.policy()
	b.Inputs = []gateResource{}
	seen := map[string]bool{}
	for _, row := range in.rows {
		names := row.Bundles
		if row.Waiver != "" {
			names = []string{row.Waiver}
		}
		for _, name := range names {
			sum, ok := by.Inputs[name]
			if seen[name] || !ok {
				continue
			}
			seen[name] = true
			b.Inputs = append(b.Inputs, gateResource{receipts.Bytes(name), &gateDigest{SHA256: &sum}})
		}
	}
	b.Result, b.Levels, b.Version = "PASSED", in.properties(), slsaVersion
	return strictjson.Marshal(&statement)
}

// Result returns an in-toto Simple Verification Result, as a Statement v1, of a release
// that passes.
func (d Decision) Result(by Issuer) ([]byte, error) {
	if d.Verdict() != Verified {
		return nil, errNotReleased
	}
	statement := struct {
		Type      string        `json:"_type"`
		Subject   []gateSubject `json:"subject"`
		Predicate string        `json:"predicateType"`
		Body      struct {
			Verifier struct {
				ID       string         `json:"id"`
				Policies []gateResource `json:"policies"`
			} `json:"verifier"`
			Time       string           `json:"timeCreated"`
			Properties []receipts.Bytes `json:"properties"`
		} `json:"predicate"`
	}{Type: inTotoType, Subject: d.d.subjects(), Predicate: resultType}
	statement.Body.Verifier.Policies = []gateResource{by.policy()}
	statement.Body.Verifier.ID, statement.Body.Time = by.ID, d.d.now.UTC().Format(time.RFC3339)
	statement.Body.Properties = d.d.properties()
	return strictjson.Marshal(&statement)
}
