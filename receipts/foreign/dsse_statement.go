package foreign

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/truegreen-dev/truegreen/internal/jcs"
	"github.com/truegreen-dev/truegreen/internal/strictjson"
	"github.com/truegreen-dev/truegreen/receipts/dsse"
)

// MaxSubjects is how many subjects a statement has at most.
const MaxSubjects = 1 << 10

const (
	inTotoStatement = "https://in-toto.io/Statement/v1"

	predicateTestResult = "https://in-toto.io/attestation/test-result/v0.1"
	predicateSummary    = "https://slsa.dev/verification_summary/v1"
	predicateDecision   = "https://aeoess.com/aps/decision-receipt/v2"
	predicateFleet      = "https://pipelab.org/attestation/fleet-receipt/v1"
)

// statement reads the payload of an envelope whose signatures hold.
func (d *dsseAdapter) statement(payload []byte, j *judgment) (*statement, error) {
	f := fields{adapter: d.Name()}
	members, err := topLevel(payload, "_type", "subject", "predicateType", "predicate")
	if err != nil {
		return nil, d.malformed("not-json", "%w", err)
	}
	var values [3]jcs.Value
	for i := range values {
		if members[i] == nil {
			return nil, d.malformed("missing-member", "_type, subject or predicateType")
		}
		if values[i], err = jcs.Parse(members[i], strictjson.Limits{Size: dsse.MaxPayload}); err != nil {
			return nil, d.malformed("not-json", "%w", err)
		}
	}
	if kind, _ := values[0].Text(); kind != inTotoStatement {
		return nil, d.malformed("unknown-version", "_type %.80q: want %s", kind, inTotoStatement)
	}
	predicateType, _ := values[2].Text()
	if predicateType == "" || len(predicateType) > maxText {
		return nil, d.malformed("missing-member", "predicateType: want a string of 1 to %d bytes", maxText)
	}
	j.Form = "in-toto v1 " + predicateType
	if d.types != nil && !slices.Contains(d.types, predicateType) {
		j.find(&j.Trust, No, "wrong-purpose", "the keys do not vouch for statements of the type %.200q", predicateType)
	}
	s := &statement{}
	s.subjects(&values[1], &f)
	read := map[string]func(*jcs.Value, *statement, *fields){
		predicateTestResult: testResult, predicateSummary: summary, predicateDecision: decision,
		predicateFleet: func(p *jcs.Value, s *statement, f *fields) { fleet(p, &values[1], s, f, j) },
	}[predicateType]
	if read != nil && f.err == nil {
		predicate, err := d.predicate(predicateType, members[3])
		if err != nil {
			return nil, err
		}
		read(&predicate, s, &f)
	}
	if f.err != nil {
		return nil, f.err
	}
	return s, nil
}

// predicate parses a predicate. A list of tests may be far longer than what is looked at,
// so that of those only the verdict is.
func (d *dsseAdapter) predicate(kind string, text []byte) (jcs.Value, error) {
	if text != nil && (kind == predicateTestResult || kind == predicateSummary) {
		members, err := topLevel(text, "result", "verificationResult", "timeVerified")
		if err != nil {
			return jcs.Value{}, d.malformed("not-json", "%w", err)
		}
		text = []byte("{")
		for i, name := range [...]string{"result", "verificationResult", "timeVerified"} {
			if members[i] != nil {
				if len(text) > 1 {
					text = append(text, ',')
				}
				text = append(append(append(text, '"'), name+`":`...), members[i]...)
			}
		}
		text = append(text, '}')
	}
	v, err := jcs.Parse(text, strictjson.Limits{Size: dsse.MaxPayload, Depth: maxNesting})
	if err == nil && v.Kind() != jcs.Object {
		return jcs.Value{}, d.malformed("missing-member", "predicate: want an object")
	}
	if err != nil {
		return jcs.Value{}, d.malformed("not-json", "predicate: %w", err)
	}
	return v, nil
}

// topLevel returns the members of these names of a strict JSON object, without building
// the rest of it.
func topLevel(text []byte, names ...string) ([]json.RawMessage, error) {
	if err := strictjson.Check(text, strictjson.Limits{Size: dsse.MaxPayload, Depth: maxNesting, CaseSensitive: true}); err != nil {
		return nil, err
	}
	members := make([]json.RawMessage, len(names))
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return members, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if i := slices.Index(names, name.(string)); i >= 0 {
			members[i] = value
		}
	}
	return members, nil
}

// subjects reads what a statement is about.
func (s *statement) subjects(v *jcs.Value, f *fields) {
	list := v.Elements()
	if v.Kind() != jcs.Array || len(list) == 0 || len(list) > MaxSubjects {
		f.fail("missing-member", "subject: want a list of 1 to %d", MaxSubjects)
		return
	}
	for i := range list {
		if name := f.optional(&list[i], "name"); name != "" {
			s.targets = append(s.targets, name)
		}
		digests := f.object(&list[i], "digest").Members()
		if len(digests) == 0 || len(digests) > 16 {
			f.fail("missing-member", "subject %d: want 1 to 16 digests", i)
		}
		for _, m := range digests {
			if text, ok := m.Value.Text(); ok && text != "" && len(text) <= maxText {
				s.targets = append(s.targets, m.Name+":"+text)
			} else {
				f.fail("wrong-type", "subject %d: digest %.40q: want a string", i, m.Name)
			}
		}
	}
}

func testResult(p *jcs.Value, s *statement, f *fields) {
	s.said = f.text(p, "result")
	s.allowed = s.said == "PASSED"
}

func summary(p *jcs.Value, s *statement, f *fields) {
	s.said, s.issued = f.text(p, "verificationResult"), f.time(p, "timeVerified")
	s.allowed = s.said == "PASSED"
}

// decision reads an ACTA passport.
func decision(p *jcs.Value, s *statement, f *fields) {
	r := &actaReceipt{value: *p}
	r.passport(f)
	r.says.targets = s.targets
	*s = r.says
}
