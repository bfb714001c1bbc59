package verifier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
	"github.com/truegreen-dev/truegreen/receipts"
)

// output is a blob store of what test calls put out.
type output map[receipts.Digest][]byte

func (o output) put(text string) receipts.Stream {
	if text == "" {
		return receipts.Stream{}
	}
	d := receipts.Sum([]byte(text))
	o[d] = []byte(text)
	return receipts.Stream{Digest: d, Bytes: int64(len(text)), Kept: int64(len(text))}
}

func (o output) open(d receipts.Digest) (io.ReadCloser, error) {
	b, ok := o[d]
	if !ok {
		return nil, errors.New("no such blob")
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// call returns a completed call of the tool test.
func (o output) call(n uint64, name, side, format string, exit int, stdout, stderr string) TestCall {
	return TestCall{
		Call: n,
		Args: receipts.Args{Tool: receipts.ToolTest, Name: name, Side: side, Round: 1, Format: format},
		Result: receipts.Result{
			State: receipts.StateExited, Exit: exit, Stdout: o.put(stdout), Stderr: o.put(stderr),
		},
	}
}

var (
	testPatch = receipts.Sum([]byte("patch"))
	testPlan  = receipts.Sum([]byte("plan"))
)

// goLines returns a stream of go test -json; each test is "NAME OUTCOME".
func goLines(pkg string, tests ...string) string {
	var b strings.Builder
	line := func(action, test, out string) {
		event, err := json.Marshal(struct {
			Action, Package string
			Test            string `json:",omitempty"`
			Output          string `json:",omitempty"`
		}{action, pkg, test, out})
		if err != nil {
			panic(err)
		}
		b.Write(append(event, '\n'))
	}
	line("start", "", "")
	verdict := "pass"
	for _, t := range tests {
		name, outcome, _ := strings.Cut(t, " ")
		line("run", name, "")
		line("output", name, "--- "+strings.ToUpper(outcome)+": "+name+" (0.00s)\n")
		line(outcome, name, "")
		if outcome == "fail" {
			verdict = "fail"
		}
	}
	line("output", "", map[string]string{"pass": "PASS\n", "fail": "FAIL\n"}[verdict])
	line(verdict, "", "")
	return b.String()
}

// judgedOf is a judgement about these calls and no more: the plan has them, and none
// of them is of a command that something follows from.
func judgedOf(calls []TestCall, o output) Judged {
	plan, c := &Plan{Runs: []PlannedRun{}}, DefaultConfig()
	c.Evidence.Level, c.Evidence.Auto = LevelRan, false
	c.Integrity.Removed, c.Integrity.NewlySkipped, c.Integrity.ZeroTests = PolicyWarn, PolicyWarn, PolicyWarn
	for i := range calls {
		a := &calls[i].Args
		plan.Runs = append(plan.Runs, PlannedRun{Name: a.Name, Side: a.Side, Format: a.Format, Argv: []receipts.Bytes{"true"}})
		if !slices.ContainsFunc(c.Test, func(e TestEntry) bool { return e.Name == a.Name }) {
			c.Test = append(c.Test, TestEntry{Name: a.Name, Run: []string{"true"}, Format: a.Format})
		}
	}
	return Judged{Patch: testPatch, Planned: testPlan, Plan: plan, Config: &c, Trees: &Trees{}, Open: o.open}
}

// judge goes through the calls with a judgement.
func (j *Judgement) judgeAll(calls []TestCall) (*Findings, error) {
	for batch := j.Next(); len(batch) > 0; batch = j.Next() {
		for i := range batch {
			if len(calls) == 0 {
				return nil, errors.New("more runs than calls")
			}
			if err := j.Add(&batch[i], &calls[0]); err != nil {
				return nil, err
			}
			calls = calls[1:]
		}
	}
	return j.Finish()
}

func judgeCalls(w io.Writer, calls []TestCall, o output) (*Findings, error) {
	return NewJudgement(w, judgedOf(calls, o)).judgeAll(calls)
}

// believeCalls reads a document about the calls without what they put out.
func believeCalls(doc io.Reader, calls []TestCall) (*Findings, error) {
	j, err := believeJudgement(doc, judgedOf(calls, nil))
	if err != nil {
		return nil, err
	}
	return j.judgeAll(calls)
}

// manyCalls is a run that has something of everything.
func manyCalls(o output) []TestCall {
	calls := []TestCall{
		o.call(4, "unit", SideBase, FormatGo, 1, goLines("p", "TestA pass", "TestB fail", "TestGone pass", "TestSkip pass"), ""),
		o.call(5, "unit", SideHead, FormatGo, 1, goLines("p", "TestA fail", "TestB pass", "TestNew fail", "TestSkip skip", "TestMore pass")+goLines("q/\xff", "Test\u2028 pass"), ""),
		o.call(6, "old", SideHead, FormatGo, 1, "", "go: go.mod requires go >= 1.99 (running go 1.26.5)\n"),
		o.call(7, "script", SideHead, FormatExit, 3, "noise", ""),
		o.call(8, "gone", SideBase, FormatGo, 0, "", ""),
		o.call(9, "killed", SideHead, FormatGo, 0, `{"Action":"start","Package":"p"}`+"\n"+`{"Action":"run","Package":"p","Test":"TestA"}`+"\nnot json\n", ""),
		o.call(10, "report", SideHead, FormatJUnit, 0, "", ""),
	}
	calls[4].Result.State = receipts.StateNotFound
	calls[5].Result.State, calls[5].Result.Signal = receipts.StateSignaled, "SIGKILL"
	const report = `<testsuite name="s" tests="2"><testcase name="a"/><testcase name="a"/></testsuite>`
	s := o.put(report)
	calls[6].Result.Files = []receipts.File{{Name: ReportFile("r.xml"), Digest: s.Digest, Size: s.Kept}, {Name: "other", Digest: s.Digest}}
	return calls
}

// TestEvidenceRoundTrip: reading the evidence document gives the findings that
// writing it gave.
func TestEvidenceRoundTrip(t *testing.T) {
	t.Parallel()
	o := output{}
	var doc bytes.Buffer
	wrote, err := judgeCalls(&doc, manyCalls(o), o)
	if err != nil {
		t.Fatal(err)
	}
	read, err := believeCalls(bytes.NewReader(doc.Bytes()), manyCalls(o))
	if err != nil {
		t.Fatalf("%v\n%s", err, doc.Bytes())
	}
	wrote.detail, wrote.trees, wrote.config = read.detail, read.trees, read.config // what tests printed is not part of the document
	wrote.planned = read.planned
	if !reflect.DeepEqual(wrote, read) {
		t.Errorf("wrote %+v\nread %+v\n%s", wrote, read, doc.Bytes())
	}
	var again bytes.Buffer
	if _, err := judgeCalls(&again, manyCalls(o), o); err != nil || !bytes.Equal(doc.Bytes(), again.Bytes()) {
		t.Errorf("the same output gives two documents (%v)", err)
	}
	rows := bytes.SplitAfter(doc.Bytes(), []byte("\n"))
	for n := range doc.Len() {
		if _, err := believeCalls(bytes.NewReader(doc.Bytes()[:n]), manyCalls(o)); err == nil {
			t.Fatalf("%d of %d bytes are a document", n, doc.Len())
		}
	}
	for i := range rows[:len(rows)-1] {
		if bytes.HasPrefix(rows[i], []byte(`{"suite":`)) {
			continue // nothing counts them, and some say what others do not ask about
		}
		without := bytes.Join(append(append([][]byte{}, rows[:i]...), rows[i+1:]...), nil)
		if _, err := believeCalls(bytes.NewReader(without), manyCalls(o)); err == nil {
			t.Errorf("without row %d it still is a document: %s", i, rows[i])
		}
		twice := bytes.Join(append(append([][]byte{}, rows[:i+1]...), rows[i:]...), nil)
		if _, err := believeCalls(bytes.NewReader(twice), manyCalls(o)); err == nil {
			t.Errorf("with row %d twice it still is a document: %s", i, rows[i])
		}
	}
}

func TestEvidenceRefused(t *testing.T) {
	t.Parallel()
	head := fmt.Sprintf(`{"v":1,"patch":"%s","plan":"%s"}`+"\n", testPatch, testPlan)
	const (
		run  = `{"run":4,"name":"unit","side":"head","round":1,"state":"exited","exit":0,"complete":true}` + "\n"
		test = `{"test":"TestA","of":4,"suite":"p","outcome":"pass"}` + "\n"
		none = `{"finding":"no-control","entry":"unit","detail":"no test of truegreen's own could be laid over this command"}` + "\n"
		says = `{"claim":0,"fail_to_pass":0,"pass_both":0,"covered":false,"lines_executed":0,"lines_instrumented":0,"mutants_killed":0,"mutants":0}` + "\n"
		end  = `{"runs":1,"tests":1,"signals":0,"findings":1}` + "\n"
		tail = none + says + end
	)
	o := output{}
	one := []TestCall{o.call(4, "unit", SideHead, FormatGo, 0, "", "")}
	if _, err := believeCalls(strings.NewReader(head+run+test+tail), one); err != nil {
		t.Fatal(err)
	}
	for name, doc := range map[string]string{
		"empty":             "",
		"no head":           run + test + tail,
		"two heads":         head + head + run + test + tail,
		"newer":             strings.Replace(head, `"v":1`, `"v":2`, 1) + run + test + tail,
		"other patch":       strings.Replace(head, testPatch.String(), testPlan.String(), 1) + run + test + tail,
		"other plan":        strings.Replace(head, testPlan.String(), testPatch.String(), 1) + run + test + tail,
		"no tail":           head + run + test,
		"counts":            head + run + test + test + tail,
		"data behind":       head + run + test + tail + "\n",
		"test of no run":    head + test + run + tail,
		"signal of no run":  head + `{"signal":"x","of":5}` + "\n" + run + test + tail,
		"run twice":         head + run + run + test + strings.Replace(tail, `"runs":1`, `"runs":2`, 1),
		"no claim":          head + run + test + none + end,
		"a better claim":    head + run + test + none + strings.Replace(says, `"claim":0`, `"claim":1`, 1) + end,
		"no finding":        head + run + test + says + strings.Replace(end, `"findings":1`, `"findings":0`, 1),
		"another finding":   head + run + test + strings.Replace(none, "no-control", "no-canary", 1) + says + end,
		"unknown side":      head + strings.Replace(run, "head", "face", 1) + test + tail,
		"unknown outcome":   head + run + strings.Replace(test, `"pass"`, `"fine"`, 1) + tail,
		"unknown row":       head + run + `{"note":"x"}` + "\n" + test + tail,
		"unknown member":    head + run + strings.Replace(test, `"outcome"`, `"x":1,"outcome"`, 1) + tail,
		"space":             head + run + strings.Replace(test, `,`, `, `, 1) + tail,
		"no line end":       head + run + test + strings.TrimSuffix(tail, "\n"),
		"carriage return":   head + run + test + strings.TrimSuffix(tail, "\n") + "\r\n",
		"long row":          head + run + strings.Replace(test, "TestA", strings.Repeat("a", maxEvidenceRow), 1) + tail,
		"negative call":     head + strings.Replace(run, `"run":4`, `"run":-4`, 1) + test + tail,
		"fraction":          head + strings.Replace(run, `"exit":0`, `"exit":0.0`, 1) + test + tail,
		"not UTF-8":         head + run + strings.Replace(test, "TestA", "Test\xff", 1) + tail,
		"b64 of plain text": head + run + strings.Replace(test, `"TestA"`, `{"b64":"VGVzdEE="}`, 1) + tail,
	} {
		if f, err := believeCalls(strings.NewReader(doc), one); err == nil || f != nil {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

// FuzzEvidence: a document that can be read consists of rows that are written
// with the same bytes.
func FuzzEvidence(f *testing.F) {
	o := output{}
	var doc bytes.Buffer
	if _, err := judgeCalls(&doc, manyCalls(o), o); err != nil {
		f.Fatal(err)
	}
	f.Add(doc.Bytes())
	for _, row := range bytes.SplitAfter(doc.Bytes(), []byte("\n")) {
		f.Add(row)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := parseRow(b, false); err == nil {
			if again, err := strictjson.Marshal(v); err != nil || !bytes.Equal(again, b) {
				t.Errorf("row %q becomes %q (%v)", b, again, err)
			}
		}
		found, err := believeCalls(bytes.NewReader(b), manyCalls(o))
		if (err == nil) != (found != nil) {
			t.Errorf("findings %v, error %v", found, err)
		}
		if err != nil {
			return
		}
		var again []byte
		for i, row := range bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")) {
			v, err := parseRow(row, i == 0)
			if err == nil {
				again, err = strictjson.Append(again, v)
			}
			if err != nil {
				t.Fatalf("row %d of a document: %v", i, err)
			}
			again = append(again, '\n')
		}
		if !bytes.Equal(again, b) {
			t.Errorf("document %q becomes %q", b, again)
		}
	})
}

// TestToolchainDetail: what a process prints cannot make a row too long.
func TestToolchainDetail(t *testing.T) {
	t.Parallel()
	o := output{}
	long := "requires go >= " + strings.Repeat("9", 65000) + " (running go 1)"
	f, err := judgeCalls(io.Discard, []TestCall{o.call(4, "unit", SideHead, FormatGo, 1, "", long)}, o)
	if err != nil {
		t.Fatal(err)
	}
	if s := f.Runs[0].Signals; len(s[len(s)-1].Detail) > maxDetail {
		t.Errorf("a detail of %d bytes", len(s[len(s)-1].Detail))
	}
}
