package foreign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/jcs"
	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

// The limits of what a program says.
const (
	MaxSaid       = 256 << 10 // bytes
	maxViolations = 64
	maxCode       = 64
)

// ParseSaid reads a verification that someone else made, such as a program that knows a
// format of its own, and holds it to what was asked. The text is one JSON object, with
// the members of a [Verification] but adapter, each at most once and nothing beside
// them. Signature and trust have to be there. What is absent was not asked, is "", zero
// or empty.
//
//	{"form": "v1", "signature": "yes", "trust": "yes", "binding": "no",
//	 "issuer": "acme", "tool": "read", "issued": "2026-01-02T15:04:05Z", "receipts": 1,
//	 "violations": [{"code": "tool-mismatch", "detail": "read, want write", "seq": 0}]}
//
// Or the bytes were no receipt at all: {"malformed": {"code": "not-json", "detail": "",
// "line": 1}}, where detail and line can be absent. That is a [MalformedError].
//
// The answer of a violation, where it is absent, is the worst one.
//
// An answer that contradicts itself or the question is an error: a yes to what was not
// asked (freshness excepted), a reason where all is yes or none where it is not, a
// signature over no receipt, a yes for another tool or target than the caller's. A
// question that was asked and not answered is answered no, with the code not-answered.
// The caller's clock, age and head have the last word: they make an answer worse, too.
// There is no id of the receipt in it: rules with a [Seen] are an error.
func ParseSaid(name string, text []byte, r Rules, b Binding) (Verification, error) {
	v, err := parseSaid(name, text, &r, b)
	var bad *MalformedError
	if err != nil && !errors.As(err, &bad) {
		err = fmt.Errorf("%s: what it says: %w", name, err)
	}
	if err != nil {
		return Verification{}, err
	}
	return v, nil
}

func parseSaid(name string, text []byte, r *Rules, b Binding) (Verification, error) {
	if r.Seen != nil {
		return Verification{}, errors.New("no receipt has an id there by which a second use would show")
	}
	doc, err := jcs.Parse(text, strictjson.Limits{Size: MaxSaid, Depth: 4})
	if err != nil {
		return Verification{}, err
	}
	s := said{}
	if doc.Member("malformed") != nil {
		return Verification{}, s.malformed(name, &doc)
	}
	j := judgment{s.verification(&doc)}
	j.Adapter = name
	if err := s.failure(); err != nil {
		return Verification{}, err
	}
	if err := j.consistent(r, b); err != nil {
		return Verification{}, err
	}
	j.answered(r, b)
	err = j.fresh(context.Background(), &statement{issued: j.Issued, expires: j.Expires}, r)
	return j.Verification, err
}

// consistent reports what an answer cannot be, whatever the receipt.
func (j *judgment) consistent(r *Rules, b Binding) error {
	unasked := map[string]bool{"binding": !b.asked(), "decision": !b.Allowed, "chain": !r.Chain, "end": !r.Chain}
	for _, q := range j.Answers() {
		if q.Answer == Yes && unasked[q.Question] {
			return fmt.Errorf("%s: yes, and nobody asked", q.Question)
		}
	}
	for _, x := range j.Violations {
		if x.Answer < Unproven || x.Answer > j.Worst() {
			return fmt.Errorf("%s: a reason for %s, and the worst answer is %s", x.Code, x.Answer, j.Worst())
		}
	}
	switch {
	case (j.Worst() > Yes) != (len(j.Violations) > 0):
		return fmt.Errorf("%d reasons why an answer is not yes, and the worst is %s", len(j.Violations), j.Worst())
	case j.Signature == Yes && j.Receipts < 1:
		return errors.New("signature: yes, over no receipt")
	case !r.Chain && j.Receipts > 1:
		return fmt.Errorf("%d receipts, and nobody asked for a chain", j.Receipts)
	case j.Binding == Yes && b.Tool != "" && j.Tool != b.Tool:
		return fmt.Errorf("binding: yes, and the tool is %.80q, want %.80q", j.Tool, b.Tool)
	case j.Binding == Yes && b.Target != "" && j.Target != b.Target:
		return fmt.Errorf("binding: yes, and the target is %.80q, want %.80q", j.Target, b.Target)
	}
	return nil
}

// answered says no where nothing was said, and where the caller knows better.
func (j *judgment) answered(r *Rules, b Binding) {
	for _, q := range []struct {
		name   string
		answer *Answer
		asked  bool
	}{
		{"signature", &j.Signature, true},
		{"trust", &j.Trust, true},
		{"binding", &j.Binding, b.asked()},
		{"decision", &j.Decision, b.Allowed},
		{"chain", &j.Chain, r.Chain},
		{"end", &j.End, r.Chain},
	} {
		if q.asked && *q.answer == NotAsked {
			j.find(q.answer, No, "not-answered", "nothing was said of %s", q.name)
		}
	}
	if r.Head != "" && j.Head != r.Head {
		j.find(&j.End, No, "head-mismatch", "%.80q, want %.80q", j.Head, r.Head)
	}
}

// said reads members of what a program says.
type said struct{ fields }

// failure returns what is wrong with the answer. It is no word on the receipt, and so no
// MalformedError.
func (s *said) failure() error {
	var bad *MalformedError
	if errors.As(s.err, &bad) {
		return bad.Err
	}
	return s.err
}

// known refuses members that are not known.
func (s *said) known(v *jcs.Value, names string) {
	if v.Kind() != jcs.Object {
		s.fail("", "want an object")
	}
	for _, m := range v.Members() {
		if !slices.Contains(strings.Fields(names), m.Name) {
			s.fail("", "unknown member %.80q", m.Name)
		}
	}
}

func (s *said) code(v *jcs.Value) string {
	code := s.text(v, "code")
	if len(code) > maxCode || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		s.fail("", "code %.80q: want small letters, digits and hyphens, %d at most", code, maxCode)
	}
	return code
}

// number returns a number that is not negative, nil where it is absent.
func (s *said) number(v *jcs.Value, name string) *int64 {
	m := v.Member(name)
	if m == nil {
		return nil
	}
	n, ok := m.Int()
	if !ok || n < 0 {
		s.fail("", "%s: want a whole number, not negative", name)
	}
	return &n
}

func (s *said) list(v *jcs.Value, name string, most int) []jcs.Value {
	m := v.Member(name)
	if m == nil {
		return nil
	}
	if m.Kind() != jcs.Array || len(m.Elements()) > most {
		s.fail("", "%s: want an array, of %d at most", name, most)
		return nil
	}
	return m.Elements()
}

func (s *said) answer(v *jcs.Value, name string) Answer {
	text := s.optional(v, name)
	i := slices.Index(answers[:], text)
	if i < 0 && v.Member(name) != nil {
		s.fail("", "%s %.80q: want one of %s", name, text, strings.Join(answers[:], ", "))
	}
	return Answer(max(i, 0))
}

func (s *said) verification(v *jcs.Value) (out Verification) {
	s.known(v, "form signature trust binding decision freshness chain end issuer tool target said issued expires receipts head end_proof uncovered violations")
	for _, name := range []string{"signature", "trust"} {
		if v.Member(name) == nil {
			s.fail("", "no member %s", name)
		}
	}
	for _, q := range []struct {
		name string
		to   *Answer
	}{
		{"signature", &out.Signature}, {"trust", &out.Trust}, {"binding", &out.Binding}, {"decision", &out.Decision},
		{"freshness", &out.Freshness}, {"chain", &out.Chain}, {"end", &out.End},
	} {
		*q.to = s.answer(v, q.name)
	}
	for _, t := range []struct {
		name string
		to   *string
	}{
		{"form", &out.Form}, {"issuer", &out.Issuer}, {"tool", &out.Tool}, {"target", &out.Target}, {"said", &out.Said},
		{"head", &out.Head}, {"end_proof", &out.EndProof},
	} {
		*t.to = s.optional(v, t.name)
	}
	out.Issued, out.Expires = s.optionalTime(v, "issued"), s.optionalTime(v, "expires")
	if n := s.number(v, "receipts"); n != nil {
		out.Receipts = *n
	}
	for _, e := range s.list(v, "uncovered", maxViolations) {
		text, ok := e.Text()
		if !ok || len(text) > maxText {
			s.fail("", "uncovered: want strings of at most %d bytes", maxText)
		}
		out.Uncovered = append(out.Uncovered, text)
	}
	for _, e := range s.list(v, "violations", maxViolations) {
		s.known(&e, "code detail seq answer")
		x := Violation{s.code(&e), s.optional(&e, "detail"), s.number(&e, "seq"), s.answer(&e, "answer")}
		if x.Answer == NotAsked {
			x.Answer = out.Worst()
		}
		out.Violations = append(out.Violations, x)
	}
	return out
}

func (s *said) malformed(name string, doc *jcs.Value) error {
	s.known(doc, "malformed")
	m := s.object(doc, "malformed")
	s.known(m, "code detail line")
	bad := &MalformedError{Adapter: name, Code: s.code(m)}
	if line := s.number(m, "line"); line != nil {
		bad.Line = *line
	}
	if detail := s.optional(m, "detail"); detail != "" {
		bad.Err = errors.New(detail)
	}
	if err := s.failure(); err != nil {
		return err
	}
	return bad
}
