package verifier

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestGoTestLies runs packages that lie about their tests, as attempts 93 to 95
// of the conformance list do. None of them gets a test that is not there, or a
// pass without one.
func TestGoTestLies(t *testing.T) {
	needGo(t)
	if runtime.GOOS == "windows" {
		t.Skip("needs signals")
	}
	t.Parallel()
	for name, c := range map[string]struct {
		body    string
		suite   Outcome
		signals []string
		tests   []string
	}{
		"initexit": {`func init() { os.Exit(0) }; func TestA(t *testing.T) { t.Error("red") }`,
			Empty, []string{sigPassNoSummary, sigNoTestRan}, nil},
		"mainexit": {`func TestMain(*testing.M) { os.Exit(0) }; func TestA(t *testing.T) { t.Error("red") }`,
			Empty, []string{sigPassNoSummary, sigNoTestRan}, nil},
		"events": {`func TestA(t *testing.T) { os.Stdout.WriteString("{\"Action\":\"pass\",\"Package\":\"lies/events\",\"Test\":\"TestGhost\"}\n{\"Action\":\"pass\"}\n") }`,
			Pass, nil, []string{"TestA pass"}},
		"summary": {`func TestA(t *testing.T) { os.Stdout.WriteString("ok  \tlies/other\t0.01s\nPASS\nok  \tlies/summary\t0.01s\n"); t.Error("red") }`,
			Fail, nil, []string{"TestA fail"}},
		"parent": {`func TestA(t *testing.T) { syscall.Kill(os.Getppid(), syscall.SIGKILL); time.Sleep(time.Second) }`,
			Unfinished, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			test := "package lies\n\nimport (\n\"os\"\n\"syscall\"\n\"testing\"\n\"time\"\n)\n\nvar _, _, _ = os.Exit, syscall.Kill, time.Sleep\n\n" + c.body + "\n"
			for file, text := range map[string]string{"go.mod": "module lies\n\ngo 1.24\n", name + "/x_test.go": test} {
				p := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			r := runGoTest(t, dir, "-vet=off", "./...")
			if len(r.Suites) != 1 || r.Suites[0].Name != "lies/"+name || r.Suites[0].Outcome != c.suite {
				t.Errorf("suites %+v, want one that is %s", r.Suites, c.suite)
			}
			var tests []string
			for _, test := range r.Tests {
				// How far the events of a killed command came is a matter of time.
				if c.suite != Unfinished || test.Outcome != Unfinished {
					tests = append(tests, test.Name+" "+string(test.Outcome))
				}
			}
			if !slices.Equal(tests, c.tests) {
				t.Errorf("tests %q, want %q", tests, c.tests)
			}
			got := strings.Join(signalsOf(r, "lies/"+name), " ")
			for _, s := range c.signals {
				if !strings.Contains(got, s) {
					t.Errorf("no signal %s in %q", s, got)
				}
			}
			if c.suite == Unfinished && r.Complete {
				t.Error("complete, though the go command was killed")
			}
		})
	}
}
