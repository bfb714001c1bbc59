package verifier

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// json writes the members of the report's own JSON, then its tests, one a line.
func (e *export) json() error {
	if err := e.open(e.Report); err != nil {
		return err
	}
	e.text(`,"tests":[`)
	first := true
	for suite := range e.bySuite() {
		for t := range e.tests(suite) {
			if err := e.element(t, &first); err != nil {
				return err
			}
		}
	}
	e.text("\n]}\n")
	return nil
}

// element writes one element of an array, on a line of its own.
func (e *export) element(v any, first *bool) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	e.buf = e.buf[:0]
	if !*first {
		e.buf = append(e.buf, ',')
	}
	*first = false
	e.buf = appendPlainJSON(append(e.buf, '\n'), text)
	_, err = e.w.Write(e.buf)
	return err
}

// ctrfVersion is the version of the specification that ctrf follows.
const ctrfVersion = "1.0.0"

type ctrfHead struct {
	Format    string `json:"reportFormat"`
	Version   string `json:"specVersion"`
	Time      string `json:"timestamp"`
	Generator string `json:"generatedBy"`
}

type ctrfResults struct {
	Tool        ctrfTool        `json:"tool"`
	Summary     ctrfSummary     `json:"summary"`
	Environment ctrfEnvironment `json:"environment"`
	Extra       ctrfReport      `json:"extra"`
}

type ctrfTool struct {
	Name string `json:"name"`
}

type ctrfSummary struct {
	Tests    int   `json:"tests"`
	Passed   int   `json:"passed"`
	Failed   int   `json:"failed"`
	Skipped  int   `json:"skipped"`
	Pending  int   `json:"pending"`
	Other    int   `json:"other"`
	Suites   int   `json:"suites"`
	Start    int64 `json:"start"`
	Stop     int64 `json:"stop"`
	Duration int64 `json:"duration"`
}

type ctrfEnvironment struct {
	Repository string `json:"repositoryName"`
	Commit     string `json:"commit"`
}

type ctrfReport struct {
	Report json.RawMessage `json:"truegreen"`
}

// A ctrfRow is a test as CTRF has it. The duration must be there, and is 0: what
// a report says of the time of a test is not read.
type ctrfRow struct {
	Name      string     `json:"name"`
	Status    string     `json:"status"`
	Duration  int        `json:"duration"`
	Suite     []string   `json:"suite"`
	Message   string     `json:"message,omitempty"`
	Trace     string     `json:"trace,omitempty"`
	RawStatus string     `json:"rawStatus"`
	Extra     *ctrfExtra `json:"extra,omitempty"`
}

type ctrfExtra struct {
	Ordinal int     `json:"ordinal,omitempty"`
	Base    Outcome `json:"base,omitempty"`
	Kind    string  `json:"kind,omitempty"`
	Change  string  `json:"change,omitempty"`
}

// ctrf writes the Common Test Report Format. The report's own JSON is an extra of
// the results.
func (e *export) ctrf() error {
	in := e.r
	report, err := e.MarshalJSON()
	if err != nil {
		return err
	}
	start, stop := int64(in.seal.Start), int64(in.seal.End)
	sum := ctrfSummary{
		Tests: len(e.names) + 1, Passed: e.counts.Pass, Failed: e.counts.Fail + e.counts.Unfinished, Skipped: e.counts.Skip,
		Suites: e.suites + 1, Start: start, Stop: stop, Duration: stop - start,
	}
	verdict := ctrfRow{Name: "truegreen verdict", Status: "passed", Suite: []string{"truegreen"}, RawStatus: string(e.Verdict())}
	if e.Verdict() == Verified {
		sum.Passed++
	} else {
		sum.Failed++
		verdict.Status, verdict.Message, verdict.Trace = "failed", e.headline(), e.why()
	}
	if err := e.open(ctrfHead{"CTRF", ctrfVersion, time.UnixMilli(stop).UTC().Format(time.RFC3339Nano), "truegreen"}); err != nil {
		return err
	}
	e.text(`,"results":`)
	if err := e.open(ctrfResults{
		ctrfTool{"truegreen"}, sum, ctrfEnvironment{string(in.patch.Repository), in.patch.Head}, ctrfReport{report},
	}); err != nil {
		return err
	}
	e.text(`,"tests":[`)
	first := true
	if err := e.element(&verdict, &first); err != nil {
		return err
	}
	for suite := range e.bySuite() {
		for t := range e.tests(suite) {
			if err := e.element(ctrfOf(t), &first); err != nil {
				return err
			}
		}
	}
	e.text("\n]}}\n")
	return nil
}

// ctrfOf returns a test as CTRF has it, where a name must not be empty.
func ctrfOf(t *exportedTest) *ctrfRow {
	c := ctrfRow{
		Name: cmp.Or(t.Name, "(no name)"), Suite: []string{t.Entry}, RawStatus: string(t.Outcome),
		Message: changeText[t.Change], Trace: t.Excerpt,
	}
	if t.Suite != "" {
		c.Suite = append(c.Suite, t.Suite)
	}
	switch t.Outcome {
	case Pass:
		c.Status = "passed"
	case Skip:
		c.Status = "skipped"
	case Unfinished:
		c.Status, c.Message = "failed", unfinishedText
	default:
		c.Status = "failed"
	}
	if x := (ctrfExtra{t.Ordinal, t.Base, t.Kind, t.Change}); x != (ctrfExtra{}) {
		c.Extra = &x
	}
	return &c
}

// open writes an object without its end.
func (e *export) open(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = e.w.Write(appendPlainJSON(nil, text[:len(text)-1]))
	return err
}

// appendPlainJSON appends JSON with what is not printable, and # after #, written
// as \u escapes, which mean the same. Both occur in strings only.
func appendPlainJSON(b, text []byte) []byte {
	var last rune
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		switch {
		case r == '#' && last == '#':
			b = append(b, `\u0023`...)
		case r < 0x7f || unicode.IsPrint(r):
			b = append(b, text[i:i+size]...)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, hi, lo)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
		last, i = r, i+size
	}
	return b
}
