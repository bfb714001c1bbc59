package verifier_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// TestZeroReport: a report that nobody made says that there is no evidence, in
// every way that it can be asked.
func TestZeroReport(t *testing.T) {
	t.Parallel()
	var r verifier.Report
	want(t, r, verifier.NoEvidence)
	if r.Verdict() != verifier.Unproven || r.Verdict().Exit() != 3 || r.Sound() || r.Quick() || r.MACsChecked() {
		t.Errorf("verdict %s, sound %t", r.Verdict(), r.Sound())
	}
	seal, digest := r.Seal()
	if seal != (bundle.Seal{}) || !digest.IsZero() || r.Patch() != (verifier.Patch{}) || r.Plan().Runs != nil || r.PolicySource() != "" {
		t.Error("a zero report has facts")
	}
	if len(r.Trust()) != 0 || len(r.Steps()) != 0 || len(r.Risks()) != 0 || len(r.Findings().Runs) != 0 || r.Excerpt(verifier.TestName{}) != "" {
		t.Error("a zero report has facts")
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Verdict string
		Exit    int `json:"exit_code"`
		Reasons []struct{ Code, Verdict, Remedy string }
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Verdict != "unproven" || got.Exit != 3 || len(got.Reasons) != 1 || got.Reasons[0].Code != "no-evidence" || got.Reasons[0].Remedy == "" {
		t.Errorf("JSON %s", text)
	}
	for _, fact := range []string{"repository", "head", "runs", "seal", "policy"} {
		if strings.Contains(string(text), `"`+fact+`":`) {
			t.Errorf("JSON of a zero report has %q: %s", fact, text)
		}
	}

	var p verifier.VerifiedPatch
	if doc, err := p.Statement(); err == nil || doc != nil || !strings.Contains(err.Error(), "no-evidence") {
		t.Errorf("a zero patch states %q (%v)", doc, err)
	}
	if doc, err := json.Marshal(p); err == nil {
		t.Errorf("a zero patch marshals to %s", doc)
	}
	if _, ok := r.VerifiedPatch(); ok {
		t.Error("a zero report has a verified patch")
	}
}

// TestNoReportFromBytes: nothing that arrives as bytes becomes a report or a
// verified patch, alone or inside of something else.
func TestNoReportFromBytes(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	real := verify(t, bundleOf(t, &r), r.Options())
	text, err := json.Marshal(real)
	if err != nil {
		t.Fatal(err)
	}
	patch, _ := real.VerifiedPatch()
	statement, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	type inside struct {
		Report verifier.Report
		Patch  verifier.VerifiedPatch
	}
	for _, b := range []string{string(text), string(statement), `{}`, `""`, `"verified"`, `[]`, `1`} {
		var report verifier.Report
		if err := json.Unmarshal([]byte(b), &report); err == nil || !report.Has(verifier.NoEvidence) {
			t.Errorf("JSON %.40s becomes a report (%v)", b, err)
		}
		var p verifier.VerifiedPatch
		if err := json.Unmarshal([]byte(b), &p); err == nil || p != (verifier.VerifiedPatch{}) {
			t.Errorf("JSON %.40s becomes a verified patch (%v)", b, err)
		}
		for _, field := range []string{"Report", "Patch"} {
			var in inside
			if err := json.Unmarshal(fmt.Appendf(nil, `{%q:%s}`, field, b), &in); err == nil {
				t.Errorf("JSON %.40s becomes a field %s", b, field)
			}
		}
	}
	var report verifier.Report
	if err := report.UnmarshalText([]byte("verified")); err == nil {
		t.Error("text becomes a report")
	}
	if err := xml.Unmarshal([]byte("<Report>verified</Report>"), &report); err == nil {
		t.Error("XML becomes a report")
	}
	// gob has no encoding for what has no exported fields.
	if err := gob.NewEncoder(new(bytes.Buffer)).Encode(real); err == nil {
		t.Error("a report has a gob")
	}
	if err := gob.NewEncoder(new(bytes.Buffer)).Encode(patch); err == nil {
		t.Error("a verified patch has a gob")
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(struct{ Verdict string }{"verified"}); err != nil {
		t.Fatal(err)
	}
	if err := gob.NewDecoder(&b).Decode(&report); err == nil || !report.Has(verifier.NoEvidence) {
		t.Errorf("a gob becomes a report (%v)", err)
	}
}

// TestNoConstructor: a package outside can neither fill a report in nor find one
// in something that it can fill in.
func TestNoConstructor(t *testing.T) {
	t.Parallel()
	for _, typ := range []reflect.Type{reflect.TypeFor[verifier.Report](), reflect.TypeFor[verifier.VerifiedPatch]()} {
		for i := range typ.NumField() {
			if typ.Field(i).IsExported() {
				t.Errorf("%s.%s is exported", typ, typ.Field(i).Name)
			}
		}
	}
}

// TestReportKeeps: a caller who changes what a report hands out does not change
// the report.
func TestReportKeeps(t *testing.T) {
	t.Parallel()
	r := redRun()
	o := r.Options()
	report := verify(t, bundleOf(t, &r), o)
	want(t, report, verifier.TestsFailed)
	report.Reasons()[0] = verifier.Reason{}
	report.Trust()[0].Who = "mallory"
	want(t, report, verifier.TestsFailed)
	if report.Trust()[0].Who != o.Keys[0].Who {
		t.Error("the trust has changed")
	}
}

// TestReportJSON reads the JSON of a report as another program does.
func TestReportJSON(t *testing.T) {
	t.Parallel()
	r := redRun()
	r.NotCovered = []string{"other/go.mod"}
	report := verify(t, bundleOf(t, &r), r.Options())
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Verdict    string
		Exit       int `json:"exit_code"`
		Reasons    []struct{ Code, Verdict, Detail, Remedy string }
		Trust      []struct{ Kind, Who string }
		MACs       string `json:"receipt_macs"`
		Seal       string
		Repository string
		Base, Head struct {
			Commit, Tree string
			SHA256       string `json:"tree_sha256"`
		}
		Source   string `json:"plan_source"`
		Policy   string
		Outcome  string
		Start    string
		End      string
		Runs     []map[string]any
		Compared struct {
			Regressed []struct{ Entry, Suite, Name string }
		}
		NotCovered []string `json:"not_covered"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	_, digest := report.Seal()
	if got.Verdict != "failed" || got.Exit != 1 || got.Seal != digest.String() || got.MACs != "checked" ||
		got.Repository != r.Repository || got.Base.Commit != r.BaseCommit() || got.Head.Commit != r.HeadCommit() || got.Head.Tree != report.Patch().Tree.Git ||
		got.Source != "base" || got.Policy != "compared with the fixture" || got.Outcome != "completed" || got.Start != "2026-01-02T03:04:05Z" {
		t.Errorf("JSON %s", text)
	}
	if len(got.Reasons) != 1 || got.Reasons[0].Code != "tests-failed" || got.Reasons[0].Verdict != "failed" || len(got.Trust) != 1 || got.Trust[0].Kind != "mac" {
		t.Errorf("JSON %s", text)
	}
	if len(got.Runs) != 2 || got.Runs[0]["fail"] != 1.0 || got.Runs[0]["exit"] != 1.0 || got.Runs[0]["isolation_level"] != 3.0 {
		t.Errorf("runs %v", got.Runs)
	}
	if c := got.Compared.Regressed; len(c) != 1 || c[0].Name != "TestAdd" || c[0].Suite != fixture.Package || c[0].Entry != "unit" {
		t.Errorf("compared %s", text)
	}
	if len(got.NotCovered) != 1 {
		t.Errorf("not covered %v", got.NotCovered)
	}
}

// TestSteps: every call is there, with its receipt and its documents.
func TestSteps(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	r.Risks = [][2]string{{"dirty", "uncommitted changes"}}
	report := verify(t, bundleOf(t, &r), r.Options())
	var tools []string
	for i, s := range report.Steps() {
		if s.Start.Call != uint64(i)+1 || s.Proof == nil || s.Args == nil || s.Result == nil || s.Args.Tool != s.Tool {
			t.Errorf("step %d: %+v", i, s)
		}
		tools = append(tools, s.Tool)
	}
	if got := strings.Join(tools, " "); got != "materialise materialise plan test test judge" {
		t.Errorf("steps %s", got)
	}
	if k := report.Risks(); len(k) != 1 || k[0].Code != "dirty" {
		t.Errorf("risks %v", k)
	}

	// A call that was begun and not ended has no receipt.
	r.Stop = 4
	r.Statement.Outcome = bundle.OutcomeKilled
	tape := tapeOf(t, bundleOf(t, &r))
	receiptKey, sealKey := keysOf(t, &r)
	i := tape.Completed()[3]
	if err := tape.EditReceipt(i, func(x *receipts.Receipt) {
		delete(tape.Blobs, x.Result)
		for _, d := range x.Artifacts {
			delete(tape.Blobs, d)
		}
	}); err != nil {
		t.Fatal(err)
	}
	tape.Frames = append(tape.Frames[:i], tape.Frames[i+1:]...)
	if err := tape.Mint(receiptKey); err != nil {
		t.Fatal(err)
	}
	a, err := tape.Resealed(sealKey)
	if err != nil {
		t.Fatal(err)
	}
	report = verify(t, pack(t, a), r.Options())
	want(t, report, verifier.Interrupted)
	steps := report.Steps()
	if last := steps[len(steps)-1]; last.Proof != nil || last.Result != nil || last.Tool != receipts.ToolTest {
		t.Errorf("the call without a receipt: %+v", last)
	}
}
