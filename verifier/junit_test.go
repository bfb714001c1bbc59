package verifier

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func readJUnit(t *testing.T, exit int, reports ...string) Reading {
	t.Helper()
	var files []JUnitFile
	for i, report := range reports {
		files = append(files, JUnitFile{fmt.Sprintf("report%d.xml", i+1), strings.NewReader(report)})
	}
	r, err := ReadJUnit(files, exit)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReadJUnitDialects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, report, want string
		exit               int
	}{
		{"plain", `<?xml version="1.0" encoding="UTF-8"?>
			<testsuites tests="3" failures="1">
			<testsuite name="s" tests="3" failures="1" errors="0" skipped="1">
			<testcase classname="c" name="a"/>
			<testcase classname="c" name="b"><failure message="no" type="E">text</failure></testcase>
			<testcase classname="c" name="d"><skipped/></testcase>
			</testsuite></testsuites>`, `complete, 0 unparsed
suite s: fail, 3 tests
test s c.a: pass
test s c.b: fail (assertion)
test s c.d: skip
`, 1},
		{"a suite as the root, with a byte order mark", "\ufeff" + `<testsuite name="s"><testcase name="a"/></testsuite>`, `complete, 0 unparsed
suite s: pass, 1 tests
test s a: pass
`, 0},
		{"directly below testsuites", `<testsuites><testcase name="a" classname="test"/><testsuite name="inner"><testcase name="b"/></testsuite>
			<testcase name="c" failure="because"/></testsuites>`, `complete, 0 unparsed
suite : fail, 2 tests
suite inner: pass, 1 tests
test  test.a: pass
test inner b: pass
test  c: fail (assertion)
`, 1},
		{"nested, totals of either kind", `<testsuite name="a" tests="3"><testsuite name="b" tests="1"><testcase name="x"/></testsuite>
			<testsuite name="c" tests="2"><testcase name="y"/><testcase name="z"/></testsuite></testsuite>`, `complete, 0 unparsed
suite a: pass, 0 tests
suite a/b: pass, 1 tests
suite a/c: pass, 2 tests
test a/b x: pass
test a/c y: pass
test a/c z: pass
`, 0},
		{"the worst of several results", `<testsuite name="s" failures="2" errors="1">
			<testcase name="a"><skipped/><failure/></testcase>
			<testcase name="b"><failure/><error/><skipped/></testcase>
			<testcase name="c" status="disabled"><failure/></testcase></testsuite>`, `complete, 0 unparsed
suite s: fail, 3 tests
test s a: fail (assertion)
test s b: fail (error)
test s c: fail (assertion)
`, 1},
		{"reruns", `<testsuite name="s">
			<testcase name="a"><flakyFailure/></testcase>
			<testcase name="b"><failure/><rerunFailure/></testcase>
			<testcase name="c"><rerunError/></testcase></testsuite>`, `complete, 0 unparsed
suite s: fail, 3 tests
test s a: pass
test s b: fail (assertion)
test s c: fail (error)
signal flaky-test | s | a
`, 1},
		{"status attributes", `<testsuite name="s"><testcase name="a" status="run" result="completed"/><testcase name="b" status="notrun"/>
			<testcase name="c" result="suppressed"/><testcase name="d" status="FAILED"/></testsuite>`, `complete, 0 unparsed
suite s: fail, 4 tests
test s a: pass
test s b: skip
test s c: skip
test s d: fail (assertion)
`, 1},
		{"results of something else", `<testsuite name="s"><testcase name="a"><properties><failure/></properties><system-out>&lt;failure/&gt;</system-out></testcase>
			<testcase name="b"><failure><error/></failure></testcase></testsuite>`, `complete, 0 unparsed
suite s: fail, 2 tests
test s a: pass
test s b: fail (assertion)
`, 1},
		{"a test twice", `<testsuite name="s"><testcase name="a"/><testcase name="a"><error/></testcase></testsuite>`, `complete, 0 unparsed
suite s: fail, 2 tests
test s a: pass
test s a again 1: fail (error)
signal duplicate-test | s | a
`, 1},
		{"a suite that failed without a test", `<testsuites><testsuite name="s" tests="0" errors="1"/><testsuite name="t" tests="0"><error message="import"/></testsuite>
			<testsuite name="u"><testcase name="a"/></testsuite></testsuites>`, `complete, 0 unparsed
suite s: fail (error), 0 tests
suite t: fail (error), 0 tests
suite u: pass, 1 tests
test u a: pass
signal totals-mismatch | s |  | 1 failures declared, 0 seen
signal suite-failed-without-test | s |  | it declares 1 failures, and has no failed test
signal suite-failed-without-test | t |  | error of the suite itself: import
`, 1},
		{"fewer tests than declared", `<testsuites tests="9"><testsuite name="s" tests="2"><testcase name="a"/></testsuite></testsuites>`, `complete, 0 unparsed
suite s: pass, 1 tests
test s a: pass
signal fewer-tests-than-declared | s |  | 2 tests declared, 1 seen
signal totals-mismatch |  |  | 9 tests declared, 1 seen
`, 0},
		{"exit 0 and a failure", `<testsuite name="s"><testcase name="a"><failure/></testcase></testsuite>`, `complete, 0 unparsed
suite s: fail, 1 tests
test s a: fail (assertion)
signal exit-contradicts-results |  |  | exit 0; suites that did not pass: 1
`, 0},
		{"exit 1 and none", `<testsuite name="s"><testcase name="a"/></testsuite>`, `complete, 0 unparsed
suite s: pass, 1 tests
test s a: pass
signal exit-contradicts-results |  |  | exit 1, and no suite failed
`, 1},
		{"nothing", `<testsuites><testsuite name="s" tests="0"/></testsuites>`, `complete, 0 unparsed
suite s: no-tests, 0 tests
signal no-test-ran | s
signal zero-tests
`, 0},
		{"Latin-1", "<?xml version='1.0' encoding='ISO-8859-1'?><testsuite name='s'><testcase name='\xe4\xff'/></testsuite>", `complete, 0 unparsed
suite s: pass, 1 tests
test s äÿ: pass
`, 0},
		{"a namespace", `<testsuite xmlns="urn:x" xmlns:y="urn:y" name="s" y:name="t"><testcase name="a"/></testsuite>`, `complete, 0 unparsed
suite s: pass, 1 tests
test s a: pass
`, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := describe(readJUnit(t, test.exit, test.report)); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}

// TestReadJUnitMalformed reads reports that must never look complete.
func TestReadJUnitMalformed(t *testing.T) {
	t.Parallel()
	good := `<testsuite name="s"><testcase name="a"/>`
	for _, test := range []struct{ name, report, code, detail string }{
		{"empty", "", sigReportMalformed, "no element"},
		{"space", " \n", sigReportMalformed, "no element"},
		{"text", "all 12 tests passed", sigReportMalformed, "text outside"},
		{"cut", good, sigReportMalformed, "not well-formed"},
		{"cut in CDATA", good + `<system-out><![CDATA[`, sigReportMalformed, "not well-formed"},
		{"wrong end", good + `</testcase></testsuite>`, sigReportMalformed, "not well-formed"},
		{"a control character", good + "<system-out>\x1b</system-out></testsuite>", sigReportMalformed, "not well-formed"},
		{"not UTF-8", good + "<system-out>\xff</system-out></testsuite>", sigReportMalformed, "not well-formed"},
		{"an angle bracket in an attribute", good + `<testcase name="<"/></testsuite>`, sigReportMalformed, "not well-formed"},
		{"an entity", good + `<system-out>&xxe;</system-out></testsuite>`, sigReportMalformed, "not well-formed"},
		{"a document type", `<!DOCTYPE testsuite [<!ENTITY x "y">]>` + good + `</testsuite>`, sigReportMalformed, "document type"},
		{"an attribute twice", `<testsuite name="s" name="t"/>`, sigReportMalformed, "occurs twice"},
		{"a second root", good + `</testsuite><testsuite/>`, sigReportMalformed, "second root"},
		{"text after the root", good + `</testsuite>and more`, sigReportMalformed, "text outside"},
		{"a late declaration", good + `<?xml version="1.0" encoding="ISO-8859-1"?></testsuite>`, sigReportMalformed, "declaration"},
		{"UTF-16", "\xff\xfe<\x00", sigReportMalformed, "UTF-16"},
		{"an encoding", `<?xml version="1.0" encoding="EBCDIC"?><testsuite/>`, sigReportMalformed, `"EBCDIC"`},
		{"another root", `<test-run><testsuite/></test-run>`, sigReportNotJUnit, "root element"},
		{"too deep", strings.Repeat("<testsuite>", maxXMLDepth+1), sigLimitExceeded, "levels"},
		{"too long", good + "<system-out>" + strings.Repeat("x", maxXMLToken) + "</system-out></testsuite>", sigLimitExceeded, "token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := readJUnit(t, 0, test.report)
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
			if strings.HasPrefix(test.report, good) && r.Counts().Pass != 1 {
				t.Errorf("%+v: what was seen before is lost", r.Counts())
			}
		})
	}
}

func TestReadJUnitFiles(t *testing.T) {
	t.Parallel()
	r := readJUnit(t, 0)
	if r.Complete || describe(r) != "incomplete, 0 unparsed\nsignal report-missing\nsignal zero-tests\n" {
		t.Error(describe(r))
	}
	one := `<testsuite name="s"><testcase name="a"/></testsuite>`
	r = readJUnit(t, 0, one, one, "<")
	want := `incomplete, 1 unparsed
suite report1.xml/s: pass, 1 tests
suite report2.xml/s: pass, 1 tests
test report1.xml/s a: pass
test report2.xml/s a: pass
signal report-malformed | report3.xml |  | not well-formed XML
`
	if got := describe(r); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	broken := errors.New("broken")
	if r, err := ReadJUnit([]JUnitFile{{"x", io.MultiReader(strings.NewReader(one[:9]), iotest.ErrReader(broken))}}, 0); !errors.Is(err, broken) || r.Format != "" {
		t.Errorf("%v, %v", r, err)
	}
}

func TestReadJUnitDetail(t *testing.T) {
	t.Parallel()
	r := readJUnit(t, 1, `<testsuite name="s"><testcase name="a"><failure type="T" message="m">`+strings.Repeat("é", maxExcerpt)+`</failure>
		<error>second</error></testcase></testsuite>`)
	if d := r.Tests[0].Detail; !strings.HasPrefix(d, "T: m\néé") || len(d) > maxExcerpt || !strings.HasSuffix(d, "…") {
		t.Errorf("%d bytes of detail: %.20q", len(d), d)
	}
	r = readJUnit(t, 0, `<testsuite name="s"><testcase name="`+strings.Repeat("é", maxName)+`"/></testsuite>`)
	if n := len(r.Tests[0].Name); n > maxName || n < maxName-8 || r.Signals[0].Code != sigNameCut {
		t.Errorf("%d bytes of name, %v", n, r.Signals)
	}
}

func TestReadJUnitBounds(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	const tests = maxExcerpts/maxExcerpt + 16
	b.WriteString("<testsuite>")
	for range tests {
		b.WriteString("<testcase><failure>" + strings.Repeat("x", maxExcerpt) + "</failure></testcase>")
	}
	b.WriteString("</testsuite>")
	kept := 0
	for _, test := range readJUnit(t, 1, b.String()).Tests {
		kept += len(test.Detail)
	}
	if kept != maxExcerpts {
		t.Errorf("%d bytes of excerpts", kept)
	}

	in, err := newXMLTokens(strings.NewReader("<testsuite></testsuite>"))
	if err != nil {
		t.Fatal(err)
	}
	in.in.total = maxReport - 12
	if _, err = in.next(); err != nil {
		t.Fatal(err)
	}
	var limit *limitError
	if _, err = in.next(); !errors.As(err, &limit) {
		t.Errorf("beyond the size of a report: %v", err)
	}
}

// TestReadJUnitVectors reads real reports; see testdata/junit-expectations.txt.
func TestReadJUnitVectors(t *testing.T) {
	vectors := os.Getenv("TRUEGREEN_VECTORS")
	if vectors == "" {
		t.Skip("needs TRUEGREEN_VECTORS, the folder of test data")
	}
	t.Parallel()
	list, err := os.ReadFile("testdata/junit-expectations.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for _, line := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		if name, rest, ok := strings.Cut(line, "\t"); ok && !strings.HasPrefix(line, "#") {
			want[name] = rest
		}
	}
	files, err := filepath.Glob(filepath.Join(vectors, "junit", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ReadJUnit([]JUnitFile{{file, bytes.NewReader(data)}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		checkReading(t, r)
		n, state := r.Counts(), "incomplete"
		if r.Complete {
			state = "complete"
		}
		name := filepath.Base(file)
		if got := fmt.Sprintf("%d\t%d\t%d\t%d\t%s", len(r.Tests), n.Pass, n.Fail, n.Skip, state); got != want[name] {
			t.Errorf("%s: got %q, want %q", name, got, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s: missing", name)
	}
}

// longReport is a report with a long text per test, which is not kept.
type longReport struct {
	left int
	buf  bytes.Buffer
}

func (l *longReport) Read(p []byte) (int, error) {
	if l.buf.Len() == 0 {
		if l.left < 0 {
			return 0, io.EOF
		}
		text := strings.Repeat("all is well\n", 40<<10)
		l.buf.WriteString("<testcase name='a'><failure>" + text + "</failure><system-out><![CDATA[" + text + "]]></system-out></testcase>")
		if l.left -= l.buf.Len(); l.left < 0 {
			l.buf.WriteString("</testsuite>")
		}
	}
	return l.buf.Read(p)
}

// TestReadJUnitMemory does not run in parallel: it measures the whole heap.
func TestReadJUnitMemory(t *testing.T) {
	const size = 12 << 20
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	probe := &heapProbe{r: io.MultiReader(strings.NewReader("<testsuite name='s'>"), &longReport{left: size})}
	r, err := ReadJUnit([]JUnitFile{{"report.xml", probe}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	used := int64(probe.peak) - int64(before.HeapAlloc)
	t.Logf("%d tests in %d MiB of report: %d MiB of heap", len(r.Tests), size>>20, used>>20)
	if !r.Complete || used > size {
		t.Errorf("complete %v, %d MiB of heap", r.Complete, used>>20)
	}
}

func TestReadExit(t *testing.T) {
	t.Parallel()
	for exit, want := range map[int]string{
		0: "complete, 0 unparsed\nsuite command: pass, 1 tests\ntest command command: pass\nsignal exit-code-only\n",
		3: "complete, 0 unparsed\nsuite command: fail (exit), 1 tests\ntest command command: fail (exit)\nsignal exit-code-only\n",
		-1: "incomplete, 0 unparsed\nsuite command: unfinished, 1 tests\ntest command command: unfinished\n" +
			"signal exit-code-only\nsignal test-unfinished | command | command\nsignal no-exit-status\n",
	} {
		if got := describe(ReadExit(exit)); got != want {
			t.Errorf("%d: got:\n%s\nwant:\n%s", exit, got, want)
		}
	}
}

func FuzzReadJUnit(f *testing.F) {
	for _, report := range []string{
		`<testsuites><testsuite name="s" tests="1"><testcase classname="c" name="a"><failure message="m">t</failure></testcase></testsuite></testsuites>`,
		"<?xml version='1.0' encoding='ISO-8859-1'?><testsuite failures='1'><testcase name='\xe4' status='notrun'><flakyError/></testcase></testsuite>",
		`<testsuite><testsuite><testcase><testcase/><rerunFailure/></testcase><error/></testsuite>`,
		`<testsuite><![CDATA[<testcase/>]]><!-- <testcase/> --><testcase name="&#228;"/></testsuite>`,
		"<testsuite><?xml?></testsuite>", "<!DOCTYPE x><testsuite/>", "\xff\xfe", "\xef\xbb\xbf<testsuite/>",
	} {
		f.Add([]byte(report), 0)
		f.Add([]byte(report), 1)
	}
	f.Fuzz(func(t *testing.T, report []byte, exit int) {
		r, err := ReadJUnit([]JUnitFile{{"r", bytes.NewReader(report)}}, exit)
		if err != nil {
			t.Fatal(err)
		}
		checkReading(t, r)
		again, err := ReadJUnit([]JUnitFile{{"r", iotest.HalfReader(bytes.NewReader(report))}}, exit)
		if err != nil || describe(again) != describe(r) {
			t.Errorf("read again: %s\nfirst: %s", describe(again), describe(r))
		}
		// Of a report that is cut, no prefix is a complete report with tests.
		if r.Complete && len(r.Tests) > 0 {
			end := bytes.LastIndexByte(report, '<')
			cut, err := ReadJUnit([]JUnitFile{{"r", bytes.NewReader(report[:end])}}, exit)
			if err != nil || cut.Complete && !bytes.HasPrefix(report[end:], []byte("<!")) && !bytes.HasPrefix(report[end:], []byte("<?")) {
				t.Errorf("complete without its end: %q", report[:end])
			}
		}
	})
}
