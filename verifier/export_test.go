package verifier

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/truegreen-dev/truegreen/receipts"
)

// reportOn returns a sound report on calls. It is verified where they are green.
func reportOn(t testing.TB, o output, calls ...TestCall) Report {
	t.Helper()
	f, judge := judged(t, o, calls...)
	r := reportOf(f, judge())
	for i := range calls {
		r.r.args[calls[i].Call], r.r.results[calls[i].Call] = &calls[i].Args, &calls[i].Result
	}
	return r
}

func reportOf(f *Findings, reasons []Reason) Report {
	r := &report{
		findings: f, reasons: reasons, sound: true, policy: "as sealed, not compared", sealed: receipts.Sum([]byte("seal")),
		args: map[uint64]*receipts.Args{}, results: map[uint64]*receipts.Result{}, trust: []Trust{{Kind: "mac", Who: "the test's key"}},
	}
	r.seal.Start, r.seal.End = 1767323045000, 1767323054250
	r.patch = Patch{Repository: "git.example.com/project", Base: strings.Repeat("b", 40), Head: strings.Repeat("a", 40)}
	r.patch.Tree.Git = strings.Repeat("c", 40)
	return Report{r}
}

func exportOf(t testing.TB, r Report, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Export(&b, format); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return b.Bytes()
}

// The shapes of the three formats, as readers have them that know nothing of this
// package.
type (
	readXML struct {
		XMLName xml.Name   `xml:"testsuites"`
		Tests   int        `xml:"tests,attr"`
		Fail    int        `xml:"failures,attr"`
		Errors  int        `xml:"errors,attr"`
		Skipped int        `xml:"skipped,attr"`
		Suites  []xmlSuite `xml:"testsuite"`
	}
	xmlSuite struct {
		Name       string        `xml:"name,attr"`
		Tests      int           `xml:"tests,attr"`
		Properties []xmlProperty `xml:"properties>property"`
		Cases      []xmlCase     `xml:"testcase"`
	}
	xmlProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	xmlCase struct {
		Class      string        `xml:"classname,attr"`
		Name       string        `xml:"name,attr"`
		Properties []xmlProperty `xml:"properties>property"`
		Failure    *xmlFault     `xml:"failure"`
		Error      *xmlFault     `xml:"error"`
		Skipped    *xmlFault     `xml:"skipped"`
	}
	xmlFault struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}

	ctrfRead struct {
		Format  string `json:"reportFormat"`
		Version string `json:"specVersion"`
		Results struct {
			Tool        *struct{ Name *string }
			Summary     map[string]int64
			Environment map[string]string
			Extra       struct{ Truegreen json.RawMessage }
			Tests       []struct {
				Name, Status              *string
				Duration                  *int
				Suite                     []string
				Message, Trace, RawStatus string
				Extra                     struct {
					Ordinal            int
					Base, Kind, Change string
				}
			}
		}
	}

	readJSON struct {
		Verdict  string
		Compared Comparison
		Tests    []exportedTest
	}
)

func (s *xmlSuite) property(name string) (values []string) {
	for _, p := range s.Properties {
		if p.Name == name {
			values = append(values, p.Value)
		}
	}
	return values
}

func unmarshalXML(t testing.TB, text []byte) (v readXML) {
	t.Helper()
	if err := xml.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

func unmarshalJSON[T any](t testing.TB, text []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

// mixedRun has a test of every outcome and change.
func mixedRun(o output) []TestCall {
	head := strings.Replace(goLines("p", "Both pass", "Broke fail", "Mended pass", "Red fail", "Lazy skip", "Idle skip", "New pass", "NewRed fail"),
		`{"Action":"output","Package":"p","Test":"Broke"`, `{"Action":"output","Package":"p","Test":"Broke","Output":"got 1, want 2\n"}`+"\n"+`{"Action":"output","Package":"p","Test":"Broke"`, 1)
	calls := []TestCall{
		o.call(4, "unit", SideBase, FormatGo, 1, goLines("p", "Both pass", "Broke pass", "Mended fail", "Red fail", "Lazy pass", "Gone pass", "Idle skip"), ""),
		o.call(5, "unit", SideHead, FormatGo, 1, head, ""),
		o.call(6, "lint", SideHead, FormatGo, 0, `{"Action":"start","Package":"p"}`+"\n"+`{"Action":"run","Package":"p","Test":"Hangs"}`+"\n", ""),
		o.call(7, "script", SideHead, FormatExit, 3, "", ""),
	}
	calls[2].Result.State, calls[2].Result.Signal = receipts.StateSignaled, "SIGKILL"
	calls[1].Result.Isolation = &receipts.Isolation{Level: 3}
	calls[3].Result.Isolation = &receipts.Isolation{Level: 1}
	return calls
}

// mixedTests are the tests of the head of mixedRun in the order of an export:
// entry, suite, name, outcome, base, kind, change.
const mixedTests = `lint p Hangs unfinished - - new_failing
script command command fail - exit new_failing
unit p Both pass pass - -
unit p Broke fail pass assertion regressed
unit p Idle skip skip - -
unit p Lazy skip pass - newly_skipped
unit p Mended pass fail - fixed
unit p New pass - - added
unit p NewRed fail - assertion new_failing
unit p Red fail fail assertion still_failing
`

func row(words ...any) string {
	for i, w := range words {
		if fmt.Sprint(w) == "" {
			words[i] = "-"
		}
	}
	return fmt.Sprintln(words...)
}

func TestExportJSON(t *testing.T) {
	t.Parallel()
	o := output{}
	r := reportOn(t, o, mixedRun(o)...)
	text := exportOf(t, r, "json")
	v := unmarshalJSON[readJSON](t, text)
	got := ""
	for _, x := range v.Tests {
		got += row(x.Entry, x.Suite, x.Name, x.Outcome, x.Base, x.Kind, x.Change)
		if failed := x.Outcome == Fail || x.Outcome == Unfinished; !failed && x.Excerpt != "" || failed && x.Excerpt != r.Excerpt(x.TestName) {
			t.Errorf("%s: excerpt %q", x.Name, x.Excerpt)
		}
	}
	if got != mixedTests {
		t.Errorf("got\n%swant\n%s", got, mixedTests)
	}
	if !strings.Contains(string(text), `"name":"Broke","outcome":"fail","base":"pass","kind":"assertion","change":"regressed","excerpt":"got 1, want 2\n`) {
		t.Error("no excerpt")
	}
	// Before the tests it is the report's own JSON, byte for byte, and each test is
	// a line.
	own, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if lines[0] != string(own[:len(own)-1])+`,"tests":[` || len(lines) != len(v.Tests)+2 || lines[len(lines)-1] != "]}" {
		t.Errorf("%d lines, the first\n%s\nwant\n%s", len(lines), lines[0], own)
	}
	for i, line := range lines[1 : len(lines)-1] {
		one := unmarshalJSON[exportedTest](t, []byte(strings.TrimSuffix(line, ",")))
		if one.TestName != v.Tests[i].TestName {
			t.Errorf("line %d: %s", i, line)
		}
	}
}

// TestExportChanges holds the words of an export to the comparison.
func TestExportChanges(t *testing.T) {
	t.Parallel()
	o := output{}
	v := unmarshalJSON[readJSON](t, exportOf(t, reportOn(t, o, mixedRun(o)...), "json"))
	words := map[string][]TestName{}
	for _, x := range v.Tests {
		words[x.Change] = append(words[x.Change], x.TestName)
	}
	c := v.Compared
	for word, list := range map[string][]TestName{
		"regressed": c.Regressed, "fixed": c.Fixed, "still_failing": c.StillFailing, "new_failing": c.NewFailing, "newly_skipped": c.NewlySkipped,
	} {
		if len(list) == 0 || !slices.Equal(words[word], list) {
			t.Errorf("%s: %v, compared %v", word, words[word], list)
		}
	}
	if len(words["added"]) != c.Added || c.Added == 0 {
		t.Errorf("added: %v, compared %d", words["added"], c.Added)
	}
}

func TestExportCTRF(t *testing.T) {
	t.Parallel()
	o := output{}
	r := reportOn(t, o, mixedRun(o)...)
	text := exportOf(t, r, "ctrf")
	v := unmarshalJSON[ctrfRead](t, text)
	if v.Format != "CTRF" || v.Version != "1.0.0" || v.Results.Tool == nil || v.Results.Tool.Name == nil || *v.Results.Tool.Name != "truegreen" {
		t.Errorf("head %.200s", text)
	}
	want := map[string]int64{
		"tests": 11, "passed": 3, "failed": 6, "skipped": 2, "pending": 0, "other": 0, "suites": 4,
		"start": 1767323045000, "stop": 1767323054250, "duration": 9250,
	}
	if !maps.Equal(v.Results.Summary, want) {
		t.Errorf("summary %v, want %v", v.Results.Summary, want)
	}
	if e := v.Results.Environment; e["repositoryName"] != "git.example.com/project" || e["commit"] != strings.Repeat("a", 40) {
		t.Errorf("environment %v", e)
	}
	own, _ := json.Marshal(r)
	if !bytes.Equal(v.Results.Extra.Truegreen, own) {
		t.Errorf("extra %s\nwant %s", v.Results.Extra.Truegreen, own)
	}
	status := map[string]string{"pass": "passed", "skip": "skipped", "fail": "failed", "unfinished": "failed"}
	got := ""
	for i, x := range v.Results.Tests {
		if x.Name == nil || x.Status == nil || x.Duration == nil || *x.Duration != 0 {
			t.Fatalf("test %d lacks a member: %+v", i, x)
		}
		if i == 0 {
			if *x.Name != "truegreen verdict" || *x.Status != "failed" || x.RawStatus != "failed" ||
				x.Message != "failed: tests-failed, command-failed" || !strings.Contains(x.Trace, "tests-failed: unit: 3 of 8\n") {
				t.Errorf("verdict %s %s %q %q", *x.Name, *x.Status, x.Message, x.Trace)
			}
			continue
		}
		if *x.Status != status[x.RawStatus] {
			t.Errorf("%s: %s of %s", *x.Name, *x.Status, x.RawStatus)
		}
		got += row(x.Suite[0], x.Suite[1], *x.Name, x.RawStatus, x.Extra.Base, x.Extra.Kind, x.Extra.Change)
	}
	if got != mixedTests {
		t.Errorf("got\n%swant\n%s", got, mixedTests)
	}
}

func TestExportJUnit(t *testing.T) {
	t.Parallel()
	o := output{}
	r := reportOn(t, o, mixedRun(o)...)
	v := unmarshalXML(t, exportOf(t, r, "junit"))
	if v.Tests != 11 || v.Fail != 3 || v.Errors != 3 || v.Skipped != 2 {
		t.Errorf("totals %d %d %d %d", v.Tests, v.Fail, v.Errors, v.Skipped)
	}
	if len(v.Suites) != 4 {
		t.Fatalf("%d suites", len(v.Suites))
	}
	own := &v.Suites[0]
	if own.Name != "truegreen" || len(own.Cases) != 1 || own.Cases[0].Name != "verdict" || own.Cases[0].Error == nil ||
		own.Cases[0].Error.Type != "failed" || own.Cases[0].Error.Message != "failed: tests-failed, command-failed" {
		t.Errorf("verdict %+v", own)
	}
	for name, want := range map[string][]string{
		"verdict": {"failed"}, "repository": {"git.example.com/project"}, "seal": {r.r.sealed.String()},
		"base": {strings.Repeat("b", 40)}, "head": {strings.Repeat("a", 40)}, "tree": {strings.Repeat("c", 40)},
		"isolation": {"1"}, "removed": {"unit: p Gone"}, "trusted": {"mac: the test's key"},
		"reason": {"command-failed: lint: ended by SIGKILL", "tests-failed: lint: 1 of 1", "tests-failed: script: 1 of 1", "tests-failed: unit: 3 of 8"},
	} {
		if got := own.property(name); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("property %s: %q, want %q", name, got, want)
		}
	}
	got := ""
	for _, s := range v.Suites[1:] {
		entry := s.property("entry")[0]
		if want := map[string][]string{"unit": {"3"}, "script": {"1"}}[entry]; !slices.Equal(s.property("isolation"), want) {
			t.Errorf("%s: isolation %q", s.Name, s.property("isolation"))
		}
		for _, c := range s.Cases {
			change, outcome, kind, base := "", Pass, "", ""
			if len(c.Properties) > 0 {
				change = c.Properties[0].Value
			}
			switch {
			case c.Skipped != nil:
				outcome = Skip
			case c.Failure != nil:
				outcome, kind = Fail, c.Failure.Type
			case c.Error != nil && c.Error.Type == "unfinished":
				outcome = Unfinished
			case c.Error != nil:
				outcome, kind = Fail, c.Error.Type
			}
			for _, want := range strings.Split(mixedTests, "\n") {
				if f := strings.Fields(want); len(f) > 0 && f[0] == entry && f[2] == c.Name {
					base = f[4] // JUnit has no place for it but in the change
				}
			}
			if c.Class != s.Name {
				t.Errorf("%s: class %s", c.Name, c.Class)
			}
			got += row(entry, strings.TrimPrefix(s.Name, entry+"/"), c.Name, outcome, base, kind, change)
		}
	}
	if got != mixedTests {
		t.Errorf("got\n%swant\n%s", got, mixedTests)
	}
}

// TestExportVerified: of a verified report the verdict is one more passed test.
func TestExportVerified(t *testing.T) {
	t.Parallel()
	o := output{}
	r := reportOn(t, o, o.call(4, "unit", SideHead, FormatGo, 0, goLines("p", "A pass"), ""))
	if r.Verdict() != Verified {
		t.Fatal(r.Reasons())
	}
	v := unmarshalXML(t, exportOf(t, r, "junit"))
	if c := v.Suites[0].Cases[0]; v.Tests != 2 || v.Errors+v.Fail != 0 || c.Error != nil || c.Failure != nil || c.Skipped != nil {
		t.Errorf("%+v", v)
	}
	c := unmarshalJSON[ctrfRead](t, exportOf(t, r, "ctrf"))
	if x := c.Results.Tests[0]; *x.Status != "passed" || x.RawStatus != "verified" || c.Results.Summary["failed"] != 0 || c.Results.Summary["passed"] != 2 {
		t.Errorf("%+v", c.Results)
	}
	if reading, err := ReadJUnit([]JUnitFile{{Body: bytes.NewReader(exportOf(t, r, "junit"))}}, 0); err != nil || !reading.Complete || len(reading.Signals) != 0 {
		t.Errorf("%+v, %v", reading.Signals, err)
	}
}

// TestExportEmpty: without a test there is still the verdict.
func TestExportEmpty(t *testing.T) {
	t.Parallel()
	o := output{}
	r := reportOn(t, o, o.call(4, "unit", SideHead, FormatGo, 0, "", ""))
	v := unmarshalXML(t, exportOf(t, r, "junit"))
	if v.Tests != 1 || v.Errors != 1 || len(v.Suites) != 1 || v.Suites[0].Cases[0].Error.Message != "unproven: no-tests" {
		t.Errorf("%+v", v)
	}
	if c := unmarshalJSON[ctrfRead](t, exportOf(t, r, "ctrf")); len(c.Results.Tests) != 1 || *c.Results.Tests[0].Status != "failed" {
		t.Errorf("%+v", c)
	}
	if j := unmarshalJSON[readJSON](t, exportOf(t, r, "json")); j.Tests == nil || len(j.Tests) != 0 || j.Verdict != "unproven" {
		t.Errorf("%+v", j)
	}
}

// TestExportSuiteOutput: what a suite printed is there once, however many of its
// tests fail, and with the verdict where none of them does.
func TestExportSuiteOutput(t *testing.T) {
	t.Parallel()
	f := newFindings()
	add := func(v any) {
		if err := f.add(v); err != nil {
			t.Fatal(err)
		}
	}
	add(&runRow{Run: 1, Name: "unit", Side: SideHead, Round: 1, State: receipts.StateExited, Exit: 1, Unbuilt: 1})
	for i := range 9 {
		add(&testRow{Test: receipts.Bytes(fmt.Sprintf("T%d", i)), Of: 1, Suite: "p", Outcome: Fail})
	}
	add(&testRow{Test: "T", Of: 1, Suite: "q", Outcome: Pass})
	f.detail[TestName{Entry: "unit", Suite: "p"}] = "all of p crashed"
	f.detail[TestName{Entry: "unit", Suite: "p", Name: "T3"}] = "T3 says this"
	f.detail[TestName{Entry: "unit", Suite: "r"}] = "r.go:1:1: syntax error"
	r := reportOf(f, []Reason{{Code: BuildBroken}})
	for _, format := range ExportFormats() {
		text := string(exportOf(t, r, format))
		if strings.Count(text, "all of p crashed") != 1 || strings.Count(text, "T3 says this") != 1 {
			t.Errorf("%s: excerpts in\n%s", format, text)
		}
		if n := strings.Count(text, "r.go:1:1: syntax error"); format != "json" && n != 1 {
			t.Errorf("%s: what does not build is there %d times", format, n)
		}
	}
	v := unmarshalXML(t, exportOf(t, r, "junit"))
	if text := v.Suites[0].Cases[0].Error.Text; !strings.Contains(text, "unit/r:\nr.go:1:1: syntax error\n") || strings.Contains(text, "crashed") {
		t.Errorf("verdict %q", text)
	}
	if c := v.Suites[1].Cases; c[0].Failure.Text != "all of p crashed" || c[3].Failure.Text != "T3 says this" || c[4].Failure.Text != "" {
		t.Errorf("%+v", c)
	}
}

// TestExportKinds: what JUnit calls an error is not a failed assertion.
func TestExportKinds(t *testing.T) {
	t.Parallel()
	for kind, element := range map[string]string{
		"": "failure", kindAssertion: "failure", kindPanic: "error", kindTimeout: "error", kindRace: "error", kindError: "error", kindExit: "error",
	} {
		f := newFindings()
		if err := errors.Join(
			f.add(&runRow{Run: 1, Name: "unit", Side: SideHead, Round: 1, State: receipts.StateExited, Exit: 1}),
			f.add(&testRow{Test: "T", Of: 1, Suite: "p", Outcome: Fail, Kind: kind}),
		); err != nil {
			t.Fatal(err)
		}
		v := unmarshalXML(t, exportOf(t, reportOf(f, nil), "junit"))
		c := v.Suites[1].Cases[0]
		if element == "failure" && (c.Failure == nil || c.Failure.Type != kind || v.Fail != 1) || element == "error" && (c.Error == nil || c.Error.Type != kind || v.Errors != 1) {
			t.Errorf("kind %q: %+v", kind, c)
		}
	}
}

// TestExportRounds: a test that failed in one of several runs has not passed.
func TestExportRounds(t *testing.T) {
	t.Parallel()
	o := output{}
	first := o.call(4, "unit", SideHead, FormatGo, 0, goLines("p", "Flaky pass"), "")
	second := o.call(5, "unit", SideHead, FormatGo, 1, goLines("p", "Flaky fail"), "")
	second.Args.Round = 2
	v := unmarshalJSON[readJSON](t, exportOf(t, reportOn(t, o, first, second), "json"))
	if len(v.Tests) != 1 || v.Tests[0].Outcome != Fail || v.Tests[0].Kind != kindAssertion {
		t.Errorf("%+v", v.Tests)
	}

	// The kind is that of the first failure, the level that of the run with the least.
	f := newFindings()
	for i, kind := range []string{kindPanic, kindAssertion, kindRace} {
		if err := errors.Join(
			f.add(&runRow{Run: uint64(i), Name: "unit", Side: SideHead, Round: i + 1, State: receipts.StateExited, Exit: 1}),
			f.add(&testRow{Test: "T", Of: uint64(i), Suite: "p", Outcome: Fail, Kind: kind}),
		); err != nil {
			t.Fatal(err)
		}
	}
	r := reportOf(f, nil)
	for i, level := range []int{3, 1, 2} {
		r.r.results[uint64(i)] = &receipts.Result{Isolation: &receipts.Isolation{Level: level}}
	}
	x := unmarshalXML(t, exportOf(t, r, "junit"))
	if c := x.Suites[1].Cases[0]; c.Error == nil || c.Error.Type != kindPanic {
		t.Errorf("%+v", c)
	}
	if got := x.Suites[1].property("isolation"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("isolation %q", got)
	}
}

// TestExportRefused: nothing is written of what is not sound, or in no known
// format, and a writer's error is told.
func TestExportRefused(t *testing.T) {
	t.Parallel()
	o := output{}
	sound := reportOn(t, o, mixedRun(o)...)
	broken := reportOn(t, o, mixedRun(o)...)
	broken.r.sound = false
	var b bytes.Buffer
	for _, format := range ExportFormats() {
		if err := (Report{}).Export(&b, format); !errors.Is(err, errExportReport) {
			t.Errorf("zero report: %v", err)
		}
		if err := broken.Export(&b, format); !errors.Is(err, errExportReport) {
			t.Errorf("broken report: %v", err)
		}
		size := len(exportOf(t, sound, format))
		for _, room := range []int{0, 1, size / 2, size - 1} {
			if err := sound.Export(&smallWriter{room}, format); !errors.Is(err, errSmall) {
				t.Errorf("%s: room for %d of %d bytes: %v", format, room, size, err)
			}
		}
		if err := sound.Export(&smallWriter{size}, format); err != nil {
			t.Errorf("%s: room for all: %v", format, err)
		}
	}
	for _, format := range []string{"", "JUnit", "xml", "go", strings.Repeat("x", 1<<20)} {
		if err := sound.Export(&b, format); !errors.Is(err, errExportFormat) || len(err.Error()) > 200 {
			t.Errorf("format %.20q: %.300v", format, err)
		}
	}
	if b.Len() > 0 {
		t.Errorf("written: %.200s", b.String())
	}
}

var errSmall = errors.New("no room")

type smallWriter struct{ room int }

func (w *smallWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		return w.room, errSmall
	}
	w.room -= len(p)
	return len(p), nil
}

// TestExportEscapes: no name and no output is markup, a command to a terminal or
// the log of a CI job, or something else than it looks like.
func TestExportEscapes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, xml, read string }{
		{"plain", "plain", "plain"},
		{`<a b="c">&'`, "&lt;a b=&#34;c&#34;&gt;&amp;'", `<a b="c">&'`},
		{"]]>", "]]&gt;", "]]>"},
		{"<![CDATA[x]]>", "&lt;![CDATA[x]]&gt;", "<![CDATA[x]]>"},
		{"a\tb\nc\rd", "a&#9;b&#10;c&#13;d", "a\tb\nc\rd"},
		{"\x00\x1b[2J\x0b", `\u{0}\u{1b}[2J\u{b}`, `\u{0}\u{1b}[2J\u{b}`},
		{"\ufffe\uffff", `\u{fffe}\u{ffff}`, `\u{fffe}\u{ffff}`},
		{"\ufffd", "\ufffd", "\ufffd"},
		{"\xff\xc3(", `\xff\xc3(`, `\xff\xc3(`},
		{"\xed\xa0\x80", `\xed\xa0\x80`, `\xed\xa0\x80`}, // half of a surrogate pair
		{"\u202egnp\u200b\u009b\u007f\u2028", "&#x202e;gnp&#x200b;&#x9b;&#x7f;&#x2028;", "\u202egnp\u200b\u009b\u007f\u2028"},
		{"##[error] ###", "#&#35;[error] #&#35;&#35;", "##[error] ###"},
		{"a\n::set-output name=a::b", "a&#10;::set-output name=a::b", "a\n::set-output name=a::b"},
		{"é漢😀", "é漢😀", "é漢😀"},
		{"\U000e0001", "&#xe0001;", "\U000e0001"},
	} {
		got := string(appendXML(nil, test.text))
		if got != test.xml {
			t.Errorf("%q: %s, want %s", test.text, got, test.xml)
		}
		var v struct {
			A string `xml:"a,attr"`
			T string `xml:",chardata"`
		}
		if err := xml.Unmarshal([]byte(`<e a="`+got+`">`+got+`</e>`), &v); err != nil || v.A != test.read || v.T != test.read {
			t.Errorf("%q: read as %q and %q (%v)", test.text, v.A, v.T, err)
		}
		own, err := json.Marshal(test.text)
		if err != nil {
			t.Fatal(err)
		}
		plain := appendPlainJSON(nil, own)
		if s := unmarshalJSON[string](t, plain); s != strings.ToValidUTF8(test.text, "\ufffd") && utf8.ValidString(test.text) {
			t.Errorf("%q: JSON %s", test.text, plain)
		}
		checkPlain(t, plain)
		checkPlain(t, []byte(got))
	}
}

// checkPlain checks that text is safe to show: valid, printable, in our lines.
func checkPlain(t testing.TB, text []byte) {
	t.Helper()
	if !utf8.Valid(text) {
		t.Fatalf("not UTF-8: %q", text)
	}
	for _, r := range string(text) {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%U is there: %q", r, text)
		}
	}
	if bytes.Contains(text, []byte("##")) {
		t.Fatalf("## is there: %q", text)
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("::")) {
			t.Fatalf("a line begins with ::: %q", line)
		}
	}
}

// FuzzExport exports tests of hostile names and outputs. Each format parses, has
// every test once with its outcome, and the reader of this package finds them in
// the JUnit export again.
func FuzzExport(f *testing.F) {
	f.Add("p", "TestA", "out", byte(0), "assertion")
	f.Add("]]>", "<testcase/>", "]]></failure>", byte(1), "panic")
	f.Add("\x1b[2J", "\u202e##[error]\n::x", "\xff\x00", byte(2), "")
	f.Add("", "", "\ufffe\r\n", byte(3), "\"\t")
	f.Fuzz(func(t *testing.T, suite, name, text string, pick byte, kind string) {
		if len(suite)+len(name) > 512 {
			t.Skip("the reader cuts long names")
		}
		outcomes := []Outcome{Pass, Fail, Skip, Unfinished}
		findings := newFindings()
		rows := []any{&runRow{Run: 1, Name: "unit", Side: SideHead, Round: 1, State: receipts.StateExited, Exit: 1}}
		for i := range 4 { // two names, two occurrences of each
			o := outcomes[(int(pick)+i)%4]
			row := &testRow{Test: receipts.Bytes(name), Of: 1, Suite: receipts.Bytes(suite), Ordinal: i % 2, Outcome: o}
			if i >= 2 {
				row.Test += "'"
			}
			if o == Fail {
				row.Kind = kind
			}
			rows = append(rows, row)
		}
		for _, row := range rows {
			if err := findings.add(row); err != nil {
				t.Fatal(err)
			}
		}
		findings.detail[TestName{"unit", suite, name, 0}] = text
		r := reportOf(findings, []Reason{{Code: TestsFailed, Detail: cut(text, maxDetail)}})

		want := map[string]int{}
		for key, s := range findings.outcomes {
			want[fmt.Sprint(strings.ToValidUTF8(key.Name, "\ufffd"), key.Ordinal, s.head.outcome)]++
		}
		for _, format := range ExportFormats() {
			out := exportOf(t, r, format)
			checkPlain(t, out)
			if again := exportOf(t, r, format); !bytes.Equal(again, out) {
				t.Fatalf("%s: another export:\n%s\n%s", format, out, again)
			}
		}
		got := map[string]int{}
		for _, x := range unmarshalJSON[readJSON](t, exportOf(t, r, "json")).Tests {
			got[fmt.Sprint(x.Name, x.Ordinal, x.Outcome)]++
		}
		if utf8.ValidString(name) && !maps.Equal(got, want) {
			t.Fatalf("JSON %v, want %v", got, want)
		}
		if c := unmarshalJSON[ctrfRead](t, exportOf(t, r, "ctrf")); len(c.Results.Tests) != 5 || c.Results.Summary["tests"] != 5 || c.Results.Summary["failed"] != 3 {
			t.Fatalf("CTRF %+v", c.Results)
		}
		readAgain(t, r)
	})
}

// readAgain reads the JUnit export of r and compares it with r.
func readAgain(t *testing.T, r Report) {
	t.Helper()
	text := exportOf(t, r, "junit")
	reading, err := ReadJUnit([]JUnitFile{{Body: bytes.NewReader(text)}}, 1)
	if err != nil || !reading.Complete || reading.Unparsed != 0 {
		t.Fatalf("%v, signals %v in\n%s", err, reading.Signals, text)
	}
	for _, s := range reading.Signals {
		if s.Code != sigDuplicateTest {
			t.Fatalf("signal %v in\n%s", s, text)
		}
	}
	if len(reading.Tests) == 0 || reading.Tests[0].Suite != "truegreen" || reading.Tests[0].Name != "truegreen.verdict" || (reading.Tests[0].Outcome == Pass) != (r.Verdict() == Verified) {
		t.Fatalf("verdict: %+v", reading.Tests)
	}
	f := r.Findings()
	var names []TestName
	for name, s := range f.outcomes {
		if s.head.outcome != "" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, TestName.compare)
	if len(reading.Tests) != len(names)+1 {
		t.Fatalf("%d tests, want %d in\n%s", len(reading.Tests)-1, len(names), text)
	}
	for i, name := range names {
		got, suite := reading.Tests[i+1], asRead(name.path())
		want := f.outcomes[name].head.outcome
		if want == Unfinished {
			want = Fail // as an error
		}
		if got.Suite != suite || got.Name != suite+"."+asRead(name.Name) || got.Ordinal != name.Ordinal || got.Outcome != want {
			t.Fatalf("%+v is read as %+v in\n%s", name, got, text)
		}
	}
}

// asRead returns a text as whoever reads the XML gets it.
func asRead(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\ufffe' || r == '\uffff':
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// TestExportRoundTrip reads exports again.
func TestExportRoundTrip(t *testing.T) {
	t.Parallel()
	o := output{}
	readAgain(t, reportOn(t, o, mixedRun(o)...))
	readAgain(t, reportOn(t, o, manyCalls(o)...))
}

// manyTests is a report on n tests, some of them failed.
func manyTests(t testing.TB, n int) Report {
	f := newFindings()
	for i, side := range []string{SideBase, SideHead} {
		if err := f.add(&runRow{Run: uint64(i + 1), Name: "unit", Side: side, Round: 1, State: receipts.StateExited, Exit: i}); err != nil {
			t.Fatal(err)
		}
		for k := range n {
			row := testRow{Test: receipts.Bytes(fmt.Sprintf("TestThing/case_%d", k)), Of: uint64(i + 1), Suite: receipts.Bytes(fmt.Sprintf("example.com/module/package%d", k/100)), Outcome: Pass}
			if i == 1 && k%50 == 0 {
				row.Outcome, row.Kind = Fail, kindAssertion
			}
			if err := f.add(&row); err != nil {
				t.Fatal(err)
			}
		}
	}
	return reportOf(f, []Reason{{Code: TestsFailed}})
}

// TestExportStreams: an export is written as it is made, in small pieces.
func TestExportStreams(t *testing.T) {
	t.Parallel()
	r := manyTests(t, 20000)
	for _, format := range ExportFormats() {
		var w pieces
		if err := r.Export(&w, format); err != nil {
			t.Fatal(err)
		}
		// The head of the JSON formats lists the regressed tests, and is one piece.
		if w.total < 1<<20 || w.largest > w.total/4 {
			t.Errorf("%s: %d bytes, %d in one piece", format, w.total, w.largest)
		}
	}
}

type pieces struct{ total, largest int }

func (p *pieces) Write(b []byte) (int, error) {
	p.total += len(b)
	p.largest = max(p.largest, len(b))
	return len(b), nil
}

func BenchmarkExport(b *testing.B) {
	r := manyTests(b, 66000)
	for _, format := range ExportFormats() {
		b.Run(format, func(b *testing.B) {
			b.ReportAllocs()
			start := time.Now()
			for b.Loop() {
				if err := r.Export(io.Discard, format); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(time.Since(start).Seconds()/float64(b.N), "s/export")
		})
	}
}
