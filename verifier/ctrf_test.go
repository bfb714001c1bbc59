package verifier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func readCTRF(t *testing.T, exit int, reports ...string) Reading {
	t.Helper()
	var files []JUnitFile
	for i, report := range reports {
		files = append(files, JUnitFile{fmt.Sprintf("report%d.json", i+1), strings.NewReader(report)})
	}
	r, err := ReadCTRF(files, exit)
	if err != nil {
		t.Fatal(err)
	}
	checkReading(t, r)
	return r
}

// ctrf makes a report of a summary and tests.
func ctrf(summary, tests string) string {
	return `{"reportFormat":"CTRF","specVersion":"0.0.0","results":{"tool":{"name":"t"},"summary":{` + summary + `},"tests":[` + tests + `],"environment":{"tests":[{}]}}}`
}

func TestReadCTRF(t *testing.T) {
	t.Parallel()
	const all = `"tests":5,"passed":1,"failed":1,"skipped":1,"pending":1,"other":1,"start":1,"stop":2`
	for _, test := range []struct {
		name, report, want string
		exit               int
	}{
		{"every status", ctrf(all, `{"name":"a","status":"passed","duration":1},{"name":"b","status":"failed","message":"m","trace":"t"},
			{"name":"c","status":"skipped"},{"name":"d","status":"pending"},{"name":"e","status":"other","rawStatus":"interrupted"}`), `complete, 0 unparsed
suite : fail, 5 tests
test  a: pass
test  b: fail (assertion)
test  c: skip
test  d: skip
test  e: unfinished
signal test-unfinished |  | e | interrupted
`, 1},
		{"suites, the summary last", "\ufeff" + ` { "results" : { "tests" : [ {"suite":"s","status":"passed","name":"a","filePath":"f.js"} , {"suite":["s","t"],"name":"a","status":"passed"},
			{"filePath":"f.js","name":"a","status":"passed"},{"suite":null,"name":"b","status":"passed"},{"suite":[],"name":"","status":"failed"}], "summary":{"tests":5,"passed":4}}} `, `complete, 0 unparsed
suite s: pass, 1 tests
suite s/t: pass, 1 tests
suite f.js: pass, 1 tests
suite : fail, 2 tests
test s a: pass
test s/t a: pass
test f.js a: pass
test  b: pass
test  : fail (assertion)
`, 1},
		{"flaky", ctrf(`"tests":6`, `{"name":"a","status":"passed","flaky":true},{"name":"b","status":"passed","retries":2},
			{"name":"c","status":"passed","retryAttempts":[{"attempt":1,"status":"failed","trace":"x"},{"status":"passed"}]},
			{"name":"d","status":"failed","flaky":true},{"name":"e","status":"passed","flaky":false,"retries":0,"retryAttempts":[{"status":"passed"}]},
			{"name":"f","status":"passed","flaky":null,"retries":null,"retryAttempts":null}`), `complete, 0 unparsed
suite : fail, 6 tests
test  a: pass
test  b: pass
test  c: pass
test  d: fail (assertion)
test  e: pass
test  f: pass
signal flaky-test |  | a
signal flaky-test |  | b
signal flaky-test |  | c
`, 1},
		{"a test twice", ctrf(`"tests":2`, `{"name":"a","status":"passed"},{"name":"a","status":"failed"}`), `complete, 0 unparsed
suite : fail, 2 tests
test  a: pass
test  a again 1: fail (assertion)
signal duplicate-test |  | a
`, 1},
		{"fewer tests than declared", ctrf(`"tests":3,"passed":3`, `{"name":"a","status":"passed"}`), `complete, 0 unparsed
suite : pass, 1 tests
test  a: pass
signal fewer-tests-than-declared |  |  | 3 tests declared, 1 seen
signal totals-mismatch |  |  | 3 passed declared, 1 seen
`, 0},
		{"other totals", ctrf(`"tests":0,"passed":1,"failed":null,"skipped":4`, `{"name":"a","status":"passed"}`), `complete, 0 unparsed
suite : pass, 1 tests
test  a: pass
signal totals-mismatch |  |  | 0 tests declared, 1 seen
signal totals-mismatch |  |  | 4 skipped declared, 0 seen
`, 0},
		{"a failure without a test", ctrf(`"tests":1,"failed":1`, `{"name":"a","suite":"s","status":"passed"}`), `complete, 0 unparsed
suite s: pass, 1 tests
suite : fail (error), 0 tests
test s a: pass
signal totals-mismatch |  |  | 1 failed declared, 0 seen
signal suite-failed-without-test |  |  | it declares 1 failures, and has no failed test
`, 1},
		{"nothing", ctrf(`"tests":0`, ``), `complete, 0 unparsed
suite : no-tests, 0 tests
signal no-test-ran
signal zero-tests
`, 0},
		{"escapes", ctrf(`"tests":1`, `{"name":"\u00e9\ud83d\ude00\ud83dx\n\"\\\/","st\u0061tus":"p\u0061ssed"}`), "complete, 0 unparsed\nsuite : pass, 1 tests\ntest  é😀\ufffdx\n\"\\/: pass\n", 0},
		{"members that are skipped", `{"extra":[{"a":[1,-2.5e+3,true,null,"}",{}],"a":{"b":[]}},[]],"results":` + `{"summary":{"tests":1,"x":{"tests":9}},"tests":[{"name":"a","status":"passed","extra":{"status":"failed"},"steps":[{"name":"x","status":"failed"}]}]},"Extra":0}`,
			"complete, 0 unparsed\nsuite : pass, 1 tests\ntest  a: pass\n", 0},
		{"exit 0 and a failure", ctrf(`"tests":1`, `{"name":"a","status":"failed"}`), `complete, 0 unparsed
suite : fail, 1 tests
test  a: fail (assertion)
signal exit-contradicts-results |  |  | exit 0; suites that did not pass: 1
`, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := describe(readCTRF(t, test.exit, test.report)); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}

// TestReadCTRFMalformed reads reports that must never look complete.
func TestReadCTRFMalformed(t *testing.T) {
	t.Parallel()
	const good = `{"results":{"summary":{"tests":1},"tests":[{"name":"a","status":"passed"}`
	one := func(members string) string { return ctrf(`"tests":1`, `{`+members+`}`) }
	for _, test := range []struct{ name, report, code, detail string }{
		{"empty", "", sigReportMalformed, "ends before its end"},
		{"text", "all 12 tests passed", sigReportMalformed, "the report is not an object"},
		{"a list", "[]", sigReportMalformed, "the report is not an object"},
		{"another document", `{"numPassedTests":3,"success":true}`, sigReportMalformed, "no results"},
		{"another format", `{"reportFormat":"X"}`, sigReportMalformed, "reportFormat is not CTRF"},
		{"no tests", `{"results":{"summary":{"tests":0}}}`, sigReportMalformed, "no results.tests"},
		{"whole", good + `]}}`, "", ""},
		{"no summary of its own", `{"results":{"tests":[]}}`, sigReportMalformed, "no results.summary"},
		{"no number of tests", `{"results":{"summary":{},"tests":[]}}`, sigReportMalformed, "no results.summary.tests"},
		{"null", `{"results":null}`, sigReportMalformed, "results is not an object"},
		{"tests that are none", `{"results":{"tests":{}}}`, sigReportMalformed, "results.tests is not a list"},
		{"a test that is none", `{"results":{"tests":["a"]}}`, sigReportMalformed, "a test is not an object"},
		{"cut", good, sigReportMalformed, "ends before"},
		{"cut in a string", good + `,{"name":"b`, sigReportMalformed, "ends before"},
		{"cut at the end", good + `]}`, sigReportMalformed, "ends before"},
		{"more behind it", good + `]}} {}`, sigReportMalformed, "more than one value"},
		{"no comma", good + ` {"name":"b","status":"passed"}]}}`, sigReportMalformed, "comma"},
		{"a comma too many", good + `,]}}`, sigReportMalformed, "comma"},
		{"no colon", good + `],"a" 1}}`, sigReportMalformed, "followed by a colon"},
		{"a second list", good + `],"tests":[]}}`, sigReportMalformed, `member "tests" occurs twice`},
		{"a second document", good + `]},"results":{}}`, sigReportMalformed, `member "results" occurs twice`},
		{"another case", good + `]},"Results":{}}`, sigReportMalformed, `member "Results" in another case`},
		{"a name twice", one(`"name":"a","status":"failed","status":"passed"`), sigReportMalformed, `a test: member "status" occurs twice`},
		{"a name twice, escaped", one(`"name":"a","status":"failed","st\u0061tus":"passed"`), sigReportMalformed, "occurs twice"},
		{"no name", one(`"status":"passed"`), sigReportMalformed, "without a name"},
		{"no status", one(`"name":"a"`), sigReportMalformed, "without a status"},
		{"status null", one(`"name":"a","status":null`), sigReportMalformed, "status is not a string"},
		{"an unknown status", one(`"name":"a","status":"Passed"`), sigReportMalformed, `status "Passed"`},
		{"an attempt of unknown status", one(`"name":"a","status":"passed","retryAttempts":[{"status":""}]`), sigReportMalformed, `status ""`},
		{"a name that is a number", one(`"name":1,"status":"passed"`), sigReportMalformed, "name is not a string"},
		{"a suite of numbers", one(`"name":"a","status":"passed","suite":[1]`), sigReportMalformed, "suite is not a string"},
		{"flaky as text", one(`"name":"a","status":"passed","flaky":"true"`), sigReportMalformed, `no value`},
		{"flaky as a number", one(`"name":"a","status":"passed","flaky":1`), sigReportMalformed, "flaky is not true or false"},
		{"retries below zero", one(`"name":"a","status":"passed","retries":-1`), sigReportMalformed, "whole number"},
		{"a total that is a fraction", ctrf(`"tests":1.5`, ``), sigReportMalformed, "whole number"},
		{"a word", ctrf(`"tests":0,"x":nil`, ``), sigReportMalformed, `"nil" is no value`},
		{"a number", ctrf(`"tests":0,"x":01`, ``), sigReportMalformed, `"01" is no value`},
		{"a control character", good + ",{\"name\":\"\x01\"", sigReportMalformed, "control character"},
		{"not UTF-8", good + ",{\"name\":\"\xff\"}]}}", sigReportMalformed, "not UTF-8"},
		{"not UTF-8 where it is skipped", good + ",{\"x\":\"\xc3\"}]}}", sigReportMalformed, "not UTF-8"},
		{"UTF-16", "\xff\xfe{\x00", sigReportMalformed, "not an object"},
		{"an escape of nothing", good + `,{"x":"\q"}]}}`, sigReportMalformed, "escapes nothing"},
		{"an escape of half", good + `,{"x":"\u12g4"}]}}`, sigReportMalformed, "escapes nothing"},
		{"too deep", good + `,{"x":` + strings.Repeat("[", maxJSONDepth), sigLimitExceeded, "levels"},
		{"a number without an end", good + `,{"x":` + strings.Repeat("1", 2000), sigLimitExceeded, "digits"},
	} {
		if test.code == "" {
			if r := readCTRF(t, 0, test.report); !r.Complete {
				t.Errorf("the report that others are made of: %s", describe(r))
			}
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := readCTRF(t, 0, test.report)
			if r.Complete {
				t.Error("complete")
			}
			found := false
			for _, s := range r.Signals {
				found = found || s.Code == test.code && strings.Contains(s.Detail, test.detail) && s.Disqualifies()
			}
			if !found {
				t.Errorf("signals %v", r.Signals)
			}
			if strings.HasPrefix(test.report, good) && (r.Counts().Pass != 1 || r.Counts().BadSuites == 0) {
				t.Errorf("%+v: what was seen before is lost, or looks whole", r.Counts())
			}
		})
	}
}

func TestReadCTRFFiles(t *testing.T) {
	t.Parallel()
	r := readCTRF(t, 0)
	if r.Complete || describe(r) != "incomplete, 0 unparsed\nsignal report-missing\nsignal zero-tests\n" {
		t.Error(describe(r))
	}
	one := ctrf(`"tests":2`, `{"name":"a","status":"passed"},{"name":"a","suite":"s","status":"passed"}`)
	r = readCTRF(t, 0, one, one, ctrf(`"tests":0`, ``), "{")
	want := `incomplete, 1 unparsed
suite report1.json: pass, 1 tests
suite report1.json/s: pass, 1 tests
suite report2.json: pass, 1 tests
suite report2.json/s: pass, 1 tests
suite report3.json: no-tests, 0 tests
test report1.json a: pass
test report1.json/s a: pass
test report2.json a: pass
test report2.json/s a: pass
signal no-test-ran | report3.json
signal report-malformed | report4.json |  | it ends before its end
`
	if got := describe(r); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	broken := errors.New("broken")
	for _, n := range []int{0, 2, 30, 60, len(one)} {
		body := io.MultiReader(strings.NewReader(one[:n]), iotest.ErrReader(broken))
		if r, err := ReadCTRF([]JUnitFile{{"x", body}}, 0); !errors.Is(err, broken) || r.Format != "" {
			t.Errorf("broken after %d bytes: %v, %v", n, r, err)
		}
	}
}

func TestReadCTRFBounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", maxExcerpt)
	r := readCTRF(t, 1, ctrf(`"tests":1`, `{"name":"`+long+`","suite":["`+long+`","`+long+`"],"status":"failed","message":"m","trace":"`+long+`"}`))
	test := r.Tests[0]
	if len(test.Name) > maxName || len(test.Name) < maxName-8 || len(test.Suite) > maxName || r.Signals[0].Code != sigNameCut {
		t.Errorf("%d bytes of name, %d of suite, %v", len(test.Name), len(test.Suite), r.Signals)
	}
	if d := test.Detail; !strings.HasPrefix(d, "m\néé") || len(d) > maxExcerpt || !strings.HasSuffix(d, "…") || !utf8.ValidString(d) {
		t.Errorf("%d bytes of detail: %.20q", len(d), d)
	}
	const tests = maxExcerpts/maxExcerpt + 16
	failed := strings.Repeat(`{"name":"a","status":"failed","message":"`+strings.Repeat("x", maxExcerpt)+`"},`, tests)
	kept := 0
	for _, test := range readCTRF(t, 1, ctrf(fmt.Sprintf(`"tests":%d`, tests), strings.TrimSuffix(failed, ","))).Tests {
		kept += len(test.Detail)
	}
	if kept != maxExcerpts {
		t.Errorf("%d bytes of excerpts", kept)
	}
	for limit, near := range map[string]func(*ctrfReader){
		"bytes of names": func(c *ctrfReader) { c.names = maxNames - 5 },
		"tests":          func(c *ctrfReader) { c.Tests = make([]Test, maxTests-1) },
		"suites":         func(c *ctrfReader) { c.Suites = make([]Suite, maxSuites-1) },
	} {
		c := ctrfReader{collector: newCollector(FormatCTRF), ordinals: make(map[testKey]int)}
		near(&c)
		report := ctrf(`"tests":2`, `{"name":"abc","status":"passed","suite":"s"},{"name":"abc","status":"passed","suite":"t"}`)
		if err := c.read(JUnitFile{"r", strings.NewReader(report)}); err != nil {
			t.Fatal(err)
		}
		r := c.finish(0)
		if last := r.Signals[len(r.Signals)-1]; r.Complete || last.Code != sigLimitExceeded || !strings.Contains(last.Detail, limit) {
			t.Errorf("%s: complete %v, last signal %v", limit, r.Complete, last)
		}
	}
	in, err := newJSONStream(strings.NewReader("[0,1]"))
	if err != nil {
		t.Fatal(err)
	}
	in.total = maxReport - 4
	var limit *limitError
	if err := in.skip(); !errors.As(err, &limit) {
		t.Errorf("beyond the size of a report: %v", err)
	}
}

// longCTRF is a report with long texts, which are not kept.
type longCTRF struct {
	left, n int
	buf     bytes.Buffer
}

func (l *longCTRF) Read(p []byte) (int, error) {
	if l.buf.Len() == 0 {
		if l.left < 0 {
			return 0, io.EOF
		}
		if l.n == 0 {
			l.buf.WriteString(`{"results":{"tests":[`)
		} else {
			l.buf.WriteByte(',')
		}
		l.n++
		text := strings.Repeat(`all is well\n`, 40<<10)
		l.buf.WriteString(`{"name":"a","status":"failed","message":"` + text + `","stdout":["` + text + `"]}`)
		if l.left -= l.buf.Len(); l.left < 0 {
			fmt.Fprintf(&l.buf, `],"summary":{"tests":%d}}}`, l.n)
		}
	}
	return l.buf.Read(p)
}

// TestReadCTRFMemory does not run in parallel: it measures the whole heap.
func TestReadCTRFMemory(t *testing.T) {
	const size = 12 << 20
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	probe := &heapProbe{r: &longCTRF{left: size}}
	r, err := ReadCTRF([]JUnitFile{{"report.json", probe}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	used := int64(probe.peak) - int64(before.HeapAlloc)
	t.Logf("%d tests in %d MiB of report: %d MiB of heap", len(r.Tests), size>>20, used>>20)
	if !r.Complete || used > size {
		t.Errorf("complete %v, %d MiB of heap", r.Complete, used>>20)
	}
}

func FuzzReadCTRF(f *testing.F) {
	for _, report := range []string{
		ctrf(`"tests":2,"passed":1,"failed":1`, `{"name":"a","status":"passed","suite":["s","t"],"retryAttempts":[{"status":"failed"}]},{"name":"b","status":"failed","message":"m"}`),
		ctrf(`"tests":1`, `{"name":"\u00e9","status":"other","rawStatus":"x","filePath":"f","flaky":false,"retries":0}`),
		ctrf(`"tests":0`, ``), `{"results":{"tests":[],"summary":{"tests":1,"failed":1}},"extra":{"a":[true,null,-1e5]}}`,
		`{"results":{"tests":[{"name":"a","status":"skipped"},{"name":"a","status":"pending"}`, "\xef\xbb\xbf{}", "{", "",
	} {
		f.Add([]byte(report), 0)
		f.Add([]byte(report), 1)
	}
	f.Fuzz(func(t *testing.T, report []byte, exit int) {
		r, err := ReadCTRF([]JUnitFile{{"r", bytes.NewReader(report)}}, exit)
		if err != nil {
			t.Fatal(err)
		}
		checkReading(t, r)
		again, err := ReadCTRF([]JUnitFile{{"r", iotest.OneByteReader(bytes.NewReader(report))}}, exit)
		if err != nil || describe(again) != describe(r) {
			t.Errorf("read again: %s\nfirst: %s", describe(again), describe(r))
		}
		if !r.Complete {
			if exit >= 0 && !slices.ContainsFunc(r.Signals, Signal.Disqualifies) {
				t.Errorf("incomplete without a signal that says so: %s", describe(r))
			}
			return
		}
		if exit < 0 {
			t.Error("complete without an exit")
		}
		// Another reader sees the same tests.
		var other struct {
			Results struct {
				Tests []struct{ Name, Status string }
			}
		}
		document := bytes.TrimPrefix(report, []byte("\ufeff"))
		if err := json.Unmarshal(document, &other); err != nil || len(other.Results.Tests) != len(r.Tests) {
			t.Fatalf("%d tests, but %d for another reader: %v", len(r.Tests), len(other.Results.Tests), err)
		}
		for i, test := range other.Results.Tests {
			if got := r.Tests[i]; got.Name != cut(test.Name, maxName) || (got.Outcome == Pass) != (test.Status == "passed") {
				t.Errorf("%s %q, but %s %q for another reader", got.Outcome, got.Name, test.Status, test.Name)
			}
		}
		// Of a report that is cut, no prefix is complete.
		end := bytes.LastIndexByte(report, '}')
		if cut, err := ReadCTRF([]JUnitFile{{"r", bytes.NewReader(report[:end])}}, exit); err != nil || cut.Complete {
			t.Errorf("complete without its end: %q", report[:end])
		}
	})
}

// FuzzJSONStream compares what is skipped with encoding/json.
func FuzzJSONStream(f *testing.F) {
	for _, text := range []string{
		` {"a":[1,-0.5E-7,true,false,null,"\u00e9\ud83d\ude00\ud83d\\\"\/\b\f\n\r\t"],"a":{}} `, "[[],{}]", "[1,]", "{,}", `{"a"}`, `{"a":1,}`, "01", "1.", "-", "1e", "nul",
		"\"\xff\"", "\"\xed\xa0\x80\"", "\"\x1f\"", `"\x"`, `"\u12"`, "[]]", "1 2", "", " ", "[", `{"a":`, "\xef\xbb\xbf1",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<10 || bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > maxJSONDepth {
			return
		}
		in, err := newJSONStream(bytes.NewReader(text))
		if err == nil {
			err = in.skip()
		}
		if err == nil {
			err = in.end()
		}
		document := bytes.TrimPrefix(text, []byte("\ufeff"))
		if want := json.Valid(document) && utf8.Valid(document); (err == nil) != want {
			t.Fatalf("%q: %v, valid %v", text, err, want)
		}
		if in, err = newJSONStream(bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		got, whole, err := in.str("a text", 1<<10)
		if err == nil && in.end() == nil {
			var want string
			if err := json.Unmarshal(document, &want); err != nil || got != want || !whole {
				t.Errorf("%q: %q, want %q, %v", text, got, want, err)
			}
		}
	})
}
