package foreign

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

var (
	saidAt      = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	saidRules   = Rules{Now: func() time.Time { return saidAt }}
	saidBinding = Binding{Tool: "read", Target: "inbox", Allowed: true}
)

const saidGood = `{"signature": "yes", "trust": "yes", "binding": "yes", "decision": "yes", "tool": "read", "target": "inbox", "receipts": 1}`

// TestSaidTrusted: what counts is an answer to each question, and nothing less.
func TestSaidTrusted(t *testing.T) {
	t.Parallel()
	chain, aged := saidRules, saidRules
	chain.Chain, chain.Head = true, "aa"
	aged.MaxAge = time.Hour
	const plain = `"signature": "yes", "trust": "yes", "receipts": 1`
	for name, c := range map[string]struct {
		text string
		r    Rules
		b    Binding
		code string // of the first violation; "": trusted
	}{
		"all":              {saidGood, saidRules, saidBinding, ""},
		"nothing asked":    {`{` + plain + `}`, saidRules, Binding{}, ""},
		"no binding":       {`{` + plain + `, "decision": "yes"}`, saidRules, saidBinding, "not-answered"},
		"no decision":      {`{` + plain + `, "binding": "yes", "tool": "read", "target": "inbox"}`, saidRules, saidBinding, "not-answered"},
		"trust not asked":  {`{"signature": "yes", "trust": "not-asked", "receipts": 1}`, saidRules, Binding{}, "not-answered"},
		"no end":           {`{` + plain + `, "chain": "yes", "head": "aa"}`, chain, Binding{}, "not-answered"},
		"whole chain":      {`{` + plain + `, "chain": "yes", "end": "yes", "head": "aa"}`, chain, Binding{}, ""},
		"another head":     {`{` + plain + `, "chain": "yes", "end": "yes", "head": "bb"}`, chain, Binding{}, "head-mismatch"},
		"no time":          {`{` + plain + `, "freshness": "yes"}`, aged, Binding{}, "no-time"},
		"too old":          {`{` + plain + `, "freshness": "yes", "issued": "2026-01-02T13:00:00Z"}`, aged, Binding{}, "too-old"},
		"of the last hour": {`{` + plain + `, "issued": "2026-01-02T14:30:00Z"}`, aged, Binding{}, ""},
		"expired":          {`{` + plain + `, "freshness": "yes", "expires": "2026-01-02T14:00:00Z"}`, saidRules, Binding{}, "expired"},
		"said no":          {`{"signature": "no", "trust": "yes", "receipts": 1, "violations": [{"code": "bad-signature", "detail": "x", "seq": 0}]}`, saidRules, Binding{}, "bad-signature"},
	} {
		v, err := ParseSaid("exec", []byte(c.text), c.r, c.b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v.Trusted() != (c.code == "") || v.Adapter != "exec" {
			t.Errorf("%s: trusted %v: %+v", name, v.Trusted(), v)
		}
		if c.code != "" && (len(v.Violations) == 0 || v.Violations[0].Code != c.code) {
			t.Errorf("%s: %v, want %s", name, v.Violations, c.code)
		}
	}
}

// TestSaidRefused: a contradiction is an error, and no word on the receipt.
func TestSaidRefused(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		``:                     "",
		`[]`:                   "want an object",
		`{}`:                   "no member signature",
		`{"signature": "yes"}`: "no member trust",
		`{"signature": "yes", "trust": "Yes", "receipts": 1}`:                                                       "want one of",
		`{"signature": "yes", "trust": true, "receipts": 1}`:                                                        "want a string",
		`{"signature": "yes", "signature": "yes", "trust": "yes", "receipts": 1}`:                                   "signature",
		`{"signature": "yes", "trust": "yes", "receipts": 1, "trusted": true}`:                                      "unknown member",
		`{"signature": "yes", "trust": "yes", "Trust": "yes", "receipts": 1}`:                                       "unknown member",
		`{"signature": "yes", "trust": "yes", "receipts": 1, "adapter": "pipelock"}`:                                "unknown member",
		`{"signature": "yes", "trust": "yes", "receipts": 1} {}`:                                                    "",
		`{"signature": "yes", "trust": "yes"}`:                                                                      "over no receipt",
		`{"signature": "yes", "trust": "yes", "receipts": -1}`:                                                      "not negative",
		`{"signature": "yes", "trust": "yes", "receipts": 2}`:                                                       "nobody asked for a chain",
		`{"signature": "yes", "trust": "yes", "receipts": 1, "chain": "yes"}`:                                       "nobody asked",
		`{"signature": "yes", "trust": "yes", "receipts": 1, "end": "yes"}`:                                         "nobody asked",
		`{"signature": "yes", "trust": "no", "receipts": 1}`:                                                        "0 reasons",
		`{"signature": "yes", "trust": "yes", "receipts": 1, "violations": [{"code": "x"}]}`:                        "a reason for yes",
		`{"signature": "no", "trust": "yes", "violations": [{"code": "A b"}]}`:                                      "small letters",
		`{"signature": "no", "trust": "yes", "violations": [{"code": "a", "x": 1}]}`:                                "unknown member",
		`{"signature": "no", "trust": "yes", "violations": [{"code": "a", "seq": 1.5}]}`:                            "whole number",
		`{"signature": "yes", "trust": "yes", "receipts": 1, "issued": "yesterday"}`:                                "RFC 3339",
		`{"signature": "yes", "trust": "yes", "receipts": 1, "binding": "yes", "tool": "write", "target": "inbox"}`: `the tool is "write"`,
		`{"signature": "yes", "trust": "yes", "receipts": 1, "binding": "yes", "tool": "read"}`:                     `the target is ""`,
		`{"malformed": {"code": "x"}, "signature": "yes"}`:                                                          "unknown member",
		`{"signature": "unproven", "trust": "yes", "violations": [{"code": "a", "answer": "no"}]}`:                  "a reason for no",
		`{"malformed": {}}`:   "code",
		`{"malformed": true}`: "want an object",
		`{"signature": "yes", "trust": "yes", "receipts": 1, "uncovered": [1]}`:                                         "want strings",
		`{"signature": "yes", "trust": "yes", "receipts": 1, "form": "` + strings.Repeat("x", maxText+1) + `"}`:         "more than",
		`{"signature": "no", "trust": "yes", "violations": [` + strings.Repeat(`{"code":"a"},`, 64) + `{"code": "a"}]}`: "64 at most",
	} {
		b := Binding{Tool: "read", Target: "inbox"}
		v, err := ParseSaid("exec", []byte(text), saidRules, b)
		var bad *MalformedError
		if err == nil || errors.As(err, &bad) || !strings.Contains(err.Error(), why) || !reflect.DeepEqual(v, Verification{}) {
			t.Errorf("%.120s: %v, want %q; %+v", text, err, why, v)
		}
	}
	seen := saidRules
	seen.Seen = &SeenMemory{}
	if _, err := ParseSaid("exec", []byte(saidGood), seen, saidBinding); err == nil {
		t.Error("a store of ids, and no id")
	}
}

func TestSaidMalformed(t *testing.T) {
	t.Parallel()
	_, err := ParseSaid("exec", []byte(`{"malformed": {"code": "not-json", "detail": "why", "line": 3}}`), saidRules, saidBinding)
	var bad *MalformedError
	if !errors.As(err, &bad) || err.Error() != "exec: line 3: not-json: why" {
		t.Errorf("%v", err)
	}
}

// TestReason: what keeps a receipt unproven is not named as what makes it wrong.
func TestReason(t *testing.T) {
	t.Parallel()
	v, err := ParseSaid("exec", []byte(`{"signature": "no", "trust": "unproven",
		"violations": [{"code": "no-key", "answer": "unproven"}, {"code": "bad-signature", "answer": "no"}]}`), saidRules, Binding{})
	if x, ok := v.Reason(); err != nil || !ok || x.Code != "bad-signature" {
		t.Errorf("%v: %v", err, x)
	}
	v = Verification{}
	if x, ok := v.Reason(); ok {
		t.Errorf("%v", x)
	}
}

// FuzzSaid: nothing that is said makes a receipt trusted that is not answered to be about
// the call that was asked for, at a time that counts.
func FuzzSaid(f *testing.F) {
	f.Add([]byte(saidGood))
	f.Add([]byte(`{"malformed": {"code": "x"}}`))
	f.Add([]byte(`{"signature": "no", "trust": "yes", "violations": [{"code": "a", "seq": 1}], "issued": "2026-01-02T15:04:05Z"}`))
	r := saidRules
	r.MaxAge = time.Hour
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ParseSaid("exec", text, r, saidBinding)
		if err != nil {
			if !reflect.DeepEqual(v, Verification{}) {
				t.Errorf("%v, and %+v", err, v)
			}
			return
		}
		if v.Worst() > Yes && len(v.Violations) == 0 {
			t.Errorf("no reason: %+v", v)
		}
		if v.Trusted() && (v.Tool != "read" || v.Target != "inbox" || v.Decision != Yes || v.Issued.Before(saidAt.Add(-r.MaxAge-DefaultSkew))) {
			t.Errorf("trusted: %+v", v)
		}
	})
}
