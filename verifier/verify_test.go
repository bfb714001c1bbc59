package verifier_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

func bundleOf(t testing.TB, r *fixture.Run) []byte {
	t.Helper()
	file, err := r.Bundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func verify(t testing.TB, file []byte, o verifier.Options) verifier.Report {
	t.Helper()
	r, err := verifier.Verify(bytes.NewReader(file), int64(len(file)), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// codes returns the codes of a report's reasons in their order.
func codes(r verifier.Report) []verifier.Code {
	var list []verifier.Code
	for _, reason := range r.Reasons() {
		list = append(list, reason.Code)
	}
	return list
}

// want checks that a report has exactly these codes, and the verdict that they
// come to.
func want(t testing.TB, r verifier.Report, list ...verifier.Code) {
	t.Helper()
	if got := codes(r); !slices.Equal(got, list) {
		t.Errorf("reasons %v, want %v", r.Reasons(), list)
	}
	if verified := r.Verdict() == verifier.Verified; verified != (len(list) == 0) {
		t.Errorf("verdict %s with reasons %v", r.Verdict(), r.Reasons())
	}
	if _, ok := r.VerifiedPatch(); ok != (len(list) == 0 && !r.Quick()) {
		t.Errorf("a verified patch: %t, with reasons %v", ok, r.Reasons())
	}
	if r.Verdict() == verifier.Broken && r.Sound() {
		t.Error("broken, and sound")
	}
}

// member checks in which member a report sees its first reason.
func member(t testing.TB, r verifier.Report, name string) {
	t.Helper()
	reasons := r.Reasons()
	if len(reasons) == 0 || !strings.HasPrefix(reasons[0].Member, name) || name == "" && reasons[0].Member != "" {
		t.Errorf("reasons %v, want the first in member %q", reasons, name)
	}
}

// TestRed runs through everything that can become of an honest run. Its evidence
// is sound, whatever it says, and quick verification says the same.
func TestRed(t *testing.T) {
	t.Parallel()
	head := func(o fixture.Output) func(*fixture.Run) {
		return func(r *fixture.Run) { r.Output = fixture.OnHead(o) }
	}
	format := func(format, report string, o fixture.Output) func(*fixture.Run) {
		return func(r *fixture.Run) {
			e := &r.Config.Test[0]
			e.Format, e.Report, e.Run = format, report, []string{"make", "test"}
			r.Output = func(verifier.PlannedRun) fixture.Output { return o }
		}
	}
	const pkg = fixture.Package
	started := `{"Action":"start","Package":"` + pkg + `"}` + "\n" + `{"Action":"run","Package":"` + pkg + `","Test":"TestAdd"}` + "\n"
	for _, test := range []struct {
		name string
		edit func(*fixture.Run)
		want []verifier.Code
	}{
		{"green", func(*fixture.Run) {}, nil},
		{"junit", format("junit", "r.xml", fixture.Output{Reports: map[string]string{"r.xml": `<testsuite name="s"><testcase name="a"/></testsuite>`}}), nil},
		{"exit", format("exit", "", fixture.Output{}), nil},
		{"red on the base alone", func(r *fixture.Run) {
			r.Output = func(p verifier.PlannedRun) fixture.Output {
				if p.Side == verifier.SideBase {
					return fixture.Output{State: receipts.StateNotFound, Why: "no go"}
				}
				return fixture.Green(p)
			}
		}, nil},
		{"head only", func(r *fixture.Run) { r.HeadOnly = true }, nil},
		{"test fails", head(fixture.Output{Exit: 1, Stdout: fixture.GoTest(pkg, "TestAdd fail", "TestSum")}), []verifier.Code{verifier.TestsFailed}},
		{"junit fails", format("junit", "r.xml", fixture.Output{Exit: 1, Reports: map[string]string{"r.xml": `<testsuite name="s"><testcase name="a"><failure/></testcase></testsuite>`}}), []verifier.Code{verifier.TestsFailed}},
		{"exit code", format("exit", "", fixture.Output{Exit: 3}), []verifier.Code{verifier.TestsFailed}},
		{"does not build", head(fixture.Output{Exit: 1, Stdout: fixture.GoBuildFailed(pkg)}), []verifier.Code{verifier.BuildBroken}},
		{"exits red after green tests", head(fixture.Output{Exit: 1, Stdout: fixture.GoExit(pkg, "TestAdd")}), []verifier.Code{verifier.CommandFailed}},
		{"killed", head(fixture.Output{State: receipts.StateSignaled, Signal: "SIGKILL", Stdout: started}), []verifier.Code{verifier.CommandFailed, verifier.TestsFailed}},
		{"killed before it began", head(fixture.Output{State: receipts.StateSignaled, Signal: "SIGKILL"}), []verifier.Code{verifier.CommandFailed}},
		{"timeout", head(fixture.Output{State: receipts.StateTimeout, Stdout: started}), []verifier.Code{verifier.TimedOut, verifier.TestsFailed}},
		{"canceled", head(fixture.Output{State: receipts.StateCanceled}), []verifier.Code{verifier.Interrupted}},
		{"not started by us", head(fixture.Output{State: receipts.StateFailed, Why: "mount: EPERM", Level: -1}), []verifier.Code{verifier.RunFailed}},
		{"not found", head(fixture.Output{State: receipts.StateNotFound, Why: "go: no such file"}), []verifier.Code{verifier.CommandNotFound}},
		{"old toolchain", head(fixture.Output{Exit: 1, Stderr: "go: go.mod requires go >= 1.99 (running go 1.26.5; GOTOOLCHAIN=local)\n"}), []verifier.Code{verifier.ToolchainTooOld}},
		{"go command fails", head(fixture.Output{Exit: 1, Stderr: "go: updates to go.mod needed\n"}), []verifier.Code{verifier.CommandFailed}},
		{"no tests", head(fixture.Output{Stdout: ""}), []verifier.Code{verifier.NoTests}},
		{"all skipped", head(fixture.Output{Stdout: fixture.GoTest(pkg, "TestAdd skip")}), []verifier.Code{verifier.NoTests, verifier.TestsSkipped}},
		{"no changed path", func(r *fixture.Run) { r.Config.Test[0].Paths = []string{"docs/**"} }, []verifier.Code{verifier.NoTests}},
		{"cut", head(fixture.Output{Stdout: fixture.GoTest(pkg, "TestAdd"), Dropped: 1}), []verifier.Code{verifier.OutputIncomplete}},
		{"a test named after a secret", head(fixture.Output{Stdout: fixture.GoTest(pkg, "TestAdd", "TestSum/********"), Covered: true}), []verifier.Code{verifier.RedactedEvidence}},
		{"a failing one", head(fixture.Output{Exit: 1, Stdout: fixture.GoTest(pkg, "TestAdd", "TestSum/******** fail"), Covered: true}), []verifier.Code{verifier.RedactedEvidence, verifier.TestsFailed}},
		{"asterisks that cover nothing", head(fixture.Output{Stdout: fixture.GoTest(pkg, "TestAdd", "TestSum/********")}), nil},
		{"a secret in what a test says", head(fixture.Output{Stdout: strings.Replace(fixture.GoTest(pkg, "TestAdd", "TestSum"), "=== RUN   TestAdd", "=== RUN   TestAdd ******** ", 1), Covered: true}), nil},
		{"cut, where nobody reads it", format("junit", "r.xml", fixture.Output{Stdout: "chatter\n", Dropped: 1, Reports: map[string]string{"r.xml": `<testsuite name="s"><testcase name="a"/></testsuite>`}}), nil},
		{"cut, and no report", format("junit", "r.xml", fixture.Output{Stdout: "chatter\n", Dropped: 1}), []verifier.Code{verifier.UntrustedReport}},
		{"cut beside an exit code", format("exit", "", fixture.Output{Stdout: "chatter\n", Dropped: 1}), nil},
		{"exit 0 and a failure", head(fixture.Output{Stdout: fixture.GoTest(pkg, "TestAdd fail")}), []verifier.Code{verifier.TestsFailed}},
		{"exit 1 and no failure", head(fixture.Output{Exit: 1, Stdout: fixture.GoTest(pkg, "TestAdd")}), []verifier.Code{verifier.UntrustedReport}},
		{"no report", format("junit", "r.xml", fixture.Output{}), []verifier.Code{verifier.UntrustedReport}},
		{"low isolation", head(fixture.Output{Stdout: fixture.GoTest(pkg, "TestAdd"), Level: 1}), []verifier.Code{verifier.LowIsolation}},
		{"no isolation", head(fixture.Output{Stdout: fixture.GoTest(pkg, "TestAdd"), Level: -1}), []verifier.Code{verifier.LowIsolation}},
		{"failed to prepare", func(r *fixture.Run) {
			r.Prepare = []fixture.Prepared{{Name: "fetch", Output: fixture.Output{Exit: 1, Stderr: "no route"}}}
			r.Stop, r.Statement = 4, bundle.Statement{Outcome: bundle.OutcomeFailed, Why: "fetch: exit code 1"}
		}, []verifier.Code{verifier.RunFailed}},
		{"interrupted", func(r *fixture.Run) {
			r.Stop, r.Statement = 4, bundle.Statement{Outcome: bundle.OutcomeKilled, Why: "SIGINT"}
		}, []verifier.Code{verifier.Interrupted}},
		{"interrupted at once", func(r *fixture.Run) {
			r.Stop, r.Statement.Outcome = -1, bundle.OutcomeKilled
		}, []verifier.Code{verifier.Interrupted}},
		{"interrupted, red", func(r *fixture.Run) {
			head(fixture.Output{Exit: 1, Stdout: fixture.GoTest(pkg, "TestAdd fail")})(r)
			r.Statement.Outcome = bundle.OutcomeKilled
		}, []verifier.Code{verifier.Interrupted, verifier.TestsFailed}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := fixture.New()
			test.edit(&r)
			file := bundleOf(t, &r)
			for _, quick := range []bool{false, true} {
				o := r.Options()
				o.Quick = quick
				report := verify(t, file, o)
				want(t, report, test.want...)
				if !report.Sound() || report.Quick() != quick || !report.MACsChecked() {
					t.Errorf("sound %t, quick %t, MACs checked %t", report.Sound(), report.Quick(), report.MACsChecked())
				}
				// Nobody who lacks the anchor gets another answer than more doubt.
				o.Keys = nil
				report = verify(t, file, o)
				if report.Verdict() != verifier.Unproven || !report.Has(verifier.NoTrustedSeal) || report.MACsChecked() {
					t.Errorf("without a key: %v", report.Reasons())
				}
				for _, code := range test.want {
					if !report.Has(code) {
						t.Errorf("without a key, the fact %s is not shown", code)
					}
				}
			}
		})
	}
}

// TestRootCommit: a patch without a base is compared with nothing, and its
// commands are its own.
func TestRootCommit(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	r.Base, r.Source = nil, verifier.SourceHead
	file := bundleOf(t, &r)
	o := r.Options()
	want(t, verify(t, file, o), verifier.PlanByHand)
	o.AllowCommand = true
	report := verify(t, file, o)
	want(t, report)
	if run := report.Findings().Runs[1]; run.Side != verifier.SideBase || run.State != receipts.StateNotRun {
		t.Errorf("the base ran: %+v", run)
	}
	o.NoBase, o.Base = false, r.HeadCommit()
	want(t, verify(t, file, o), verifier.WrongBase)

	r = fixture.New() // has a base
	o = r.Options()
	o.Base, o.NoBase = "", true
	want(t, verify(t, bundleOf(t, &r), o), verifier.WrongBase)
}

// TestCommandByHand: nobody is verified by a command of their own choice, unless
// whoever asks accepts it.
func TestCommandByHand(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	r.Source = verifier.SourceCommand
	r.Config.Test[0].Run = []string{"true"}
	r.Config.Test[0].Format = verifier.FormatExit
	r.Output = func(verifier.PlannedRun) fixture.Output { return fixture.Output{} }
	file := bundleOf(t, &r)
	o := r.Options()
	o.Config = nil
	want(t, verify(t, file, o), verifier.PlanByHand)
	o.AllowCommand = true
	report := verify(t, file, o)
	want(t, report)
	if report.PolicySource() == "" || report.Plan().Source != verifier.SourceCommand {
		t.Errorf("the report does not say that the command was given by hand")
	}
}

// TestReplay shows a sound and trusted bundle to someone who asks about another
// patch, base, tree, repository or policy.
func TestReplay(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	file := bundleOf(t, &r)
	seen := verify(t, file, r.Options())
	other := strings.Repeat("0", 40)
	for _, test := range []struct {
		name string
		edit func(*verifier.Options)
		want []verifier.Code
	}{
		{"nothing expected", func(o *verifier.Options) {
			*o = verifier.Options{Keys: o.Keys}
		}, nil},
		{"tree", func(o *verifier.Options) { o.Tree = seen.Patch().Tree.Git }, nil},
		{"tree by SHA-256", func(o *verifier.Options) { o.Tree = seen.Patch().Tree.SHA256.String() }, nil},
		{"other head", func(o *verifier.Options) { o.Head = other }, []verifier.Code{verifier.WrongPatch}},
		{"other base", func(o *verifier.Options) { o.Base = other }, []verifier.Code{verifier.WrongBase}},
		{"no base", func(o *verifier.Options) { o.Base, o.NoBase = "", true }, []verifier.Code{verifier.WrongBase}},
		{"other tree", func(o *verifier.Options) { o.Tree = other }, []verifier.Code{verifier.WrongPatch}},
		{"base's tree", func(o *verifier.Options) { o.Tree = seen.Patch().BaseTree.Git }, []verifier.Code{verifier.WrongPatch}},
		{"other repository", func(o *verifier.Options) { o.Repository = "git.example.com/fork" }, []verifier.Code{verifier.WrongPatch}},
		{"all of it", func(o *verifier.Options) { o.Repository, o.Base, o.Head, o.Tree = "x", other, other, other }, []verifier.Code{verifier.WrongPatch, verifier.WrongPatch, verifier.WrongPatch, verifier.WrongBase}},
		{"other configuration", func(o *verifier.Options) {
			c := r.Config
			c.Isolation.Level = 1
			o.Config, _ = c.Document()
		}, []verifier.Code{verifier.WrongConfig}},
		{"more isolation", func(o *verifier.Options) { o.MinLevel = 4 }, []verifier.Code{verifier.LowIsolation, verifier.LowIsolation}},
		{"young", func(o *verifier.Options) { o.MaxAge = 2 * time.Hour }, nil},
		{"old", func(o *verifier.Options) { o.MaxAge = time.Minute }, []verifier.Code{verifier.Stale}},
		{"from the future", func(o *verifier.Options) { o.MaxAge, o.Now = time.Hour, o.Now.Add(-24*time.Hour) }, []verifier.Code{verifier.Stale}},
		{"small limits", func(o *verifier.Options) { o.Limits.Entries = 5 }, []verifier.Code{verifier.LimitExceeded}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := r.Options()
			test.edit(&o)
			want(t, verify(t, file, o), test.want...)
		})
	}

	// A run that broke off before it wrote a tree is still about one patch.
	r.Stop, r.Statement.Outcome = -1, bundle.OutcomeKilled
	o := r.Options()
	o.Head = other
	want(t, verify(t, bundleOf(t, &r), o), verifier.WrongPatch, verifier.Interrupted)
}

// TestNoBundle looks at files that are no bundle.
func TestNoBundle(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	good := bundleOf(t, &r)
	for _, test := range []struct {
		name string
		file []byte
		want verifier.Code
	}{
		{"empty", nil, verifier.NotABundle},
		{"text", []byte("all tests pass\n"), verifier.NotABundle},
		{"zeros", make([]byte, 1<<20), verifier.NotABundle},
		{"half", good[:len(good)/2], verifier.Truncated},
		{"window of 512 MiB", []byte("\x28\xb5\x2f\xfd\x00\x98\x01\x00\x00"), verifier.LimitExceeded},
		{"two of it", append(slices.Clone(good), good...), verifier.MalformedMember},
	} {
		report := verify(t, test.file, r.Options())
		t.Run(test.name, func(t *testing.T) { want(t, report, test.want) })
	}
}

// TestFileOnly: what cannot be read is an error, and no report.
func TestFileOnly(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	file := bundleOf(t, &r)
	for _, at := range []int{0, 1, len(file) / 2, len(file) - 1} {
		report, err := verifier.Verify(failingAt{file, at}, int64(len(file)), r.Options())
		if err == nil || report.Verdict() != verifier.Unproven || !report.Has(verifier.NoEvidence) {
			t.Errorf("medium fails at byte %d: %v, %v", at, report.Reasons(), err)
		}
	}
	o := r.Options()
	o.Keys[0].Secret = o.Keys[0].Secret[:31]
	if _, err := verifier.Verify(bytes.NewReader(file), int64(len(file)), o); err == nil {
		t.Error("a key of 31 bytes is no error")
	}
}

type failingAt struct {
	file []byte
	at   int
}

func (f failingAt) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > int64(f.at) {
		return 0, fmt.Errorf("input/output error")
	}
	return copy(p, f.file[off:]), nil
}

// TestMediumFails lets each read of a verification fail, those too with which it
// comes back to what it has read: there is no report then, and no word against
// the bundle.
func TestMediumFails(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	// Too much to be taken down in the first pass, and too much for one read.
	r.Config.Test[0].Env = []string{"LONG=" + strings.Repeat("x", 4<<10)}
	many := make([]string, 2000)
	for i := range many {
		many[i] = "Test" + receipts.Sum([]byte{byte(i), byte(i >> 8)}).String()
	}
	r.Output = func(verifier.PlannedRun) fixture.Output {
		return fixture.Output{Stdout: fixture.GoTest(fixture.Package, many...)}
	}
	file := bundleOf(t, &r)
	for _, quick := range []bool{false, true} {
		o := r.Options()
		o.Quick = quick
		good := &failingOnce{file: file, at: -1}
		report, err := verifier.Verify(good, int64(len(file)), o)
		if err != nil || report.Verdict() != verifier.Verified {
			t.Fatalf("%v, %v", report.Reasons(), err)
		}
		if good.again == 0 {
			t.Error("nothing was read twice, so this shows nothing")
		}
		for at := range good.reads {
			report, err := verifier.Verify(&failingOnce{file: file, at: at}, int64(len(file)), o)
			if !errors.Is(err, errMedium) || !report.Has(verifier.NoEvidence) {
				t.Errorf("quick %t, read %d of %d fails: %v, %v", quick, at+1, good.reads, report.Reasons(), err)
			}
		}
	}
}

var errMedium = errors.New("input/output error")

// failingOnce fails the read with number at.
type failingOnce struct {
	file  []byte
	at    int
	reads int
	again int // reads after the first that came to the end
	end   bool
}

func (f *failingOnce) ReadAt(p []byte, off int64) (int, error) {
	f.reads++
	if f.reads-1 == f.at {
		return 0, errMedium
	}
	if f.end {
		f.again++
	}
	n, err := bytes.NewReader(f.file).ReadAt(p, off)
	f.end = f.end || off+int64(n) == int64(len(f.file))
	return n, err
}
