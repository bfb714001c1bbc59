package receipts

import (
	"bytes"
	"encoding/hex"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exampleRun is the run of the package documentation: one call.
func exampleRun(t testing.TB) *testRun {
	t.Helper()
	r := newTestRun(t)
	r.calls++
	r.tools[1] = ToolTest
	r.args[1] = r.document(Args{V: 1, Tool: ToolTest, Argv: []Bytes{"true"}, Dir: ".", Patch: Sum([]byte(testPatch))})
	r.note(ToolCallStarted, Start{V: 1, Call: 1, Tool: ToolTest, Args: r.args[1]})
	r.complete(1, r.result("ok\n"))
	r.note(TaskCompleted, r.closing())
	return r
}

// The example of the package documentation is true.
func TestDocExample(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, example, ok := strings.Cut(string(source), "\n// # Example\n")
	if !ok {
		t.Fatal("no example")
	}
	var log strings.Builder
	for _, line := range regexp.MustCompile(`(?m)^//\t([0-9a-f]+)(  |$)`).FindAllStringSubmatch(example, -1) {
		log.WriteString(line[1])
	}
	r := exampleRun(t)
	if want := hex.EncodeToString(r.log.Bytes()); log.String() != want {
		t.Errorf("the log is\n%s\nand not\n%s", want, log.String())
	}

	// JSON is wrapped to fit.
	var shown []string
	for _, text := range regexp.MustCompile(`(?m)^//\t(\{.*(\n//\t.*)*)`).FindAllStringSubmatch(example, -1) {
		shown = append(shown, strings.ReplaceAll(text[1], "\n//\t", ""))
	}
	wanted := []string{"ok\n"}
	for _, blob := range r.blobs {
		wanted = append(wanted, string(blob))
	}
	for f, err := range frames(r.log.Bytes()) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind != ToolCallCompleted {
			wanted = append(wanted, string(f.Payload))
		}
	}
	for _, want := range wanted {
		if want != "ok\n" && !slices.Contains(shown, want) {
			t.Errorf("not shown: %s", want)
		}
	}
	for _, text := range shown {
		if !slices.Contains(wanted, text) {
			t.Errorf("not in the run: %s", text)
		}
	}

	run, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"task":        r.task.String(),
		"job":         r.job.String(),
		"salt":        r.salt.String(),
		"receipt key": hex.EncodeToString(hkdfSum(testSecret, r.salt[:], KeyInfo(PurposeReceipt, r.task, r.job))),
		"root":        run.Root.String(),
		"log":         run.Log.String(),
		"head":        r.chain.Head().String(),
	} {
		if !strings.Contains(example, " "+want+"\n") {
			t.Errorf("the example does not show the %s: %s", name, want)
		}
	}
}

// The sample run is pinned: whoever changes a format breaks this.
func TestGoldenRun(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/run.hex")
	if err != nil {
		t.Fatal(err)
	}
	log, err := hex.DecodeString(regexp.MustCompile(`(?m)^#.*$|\s`).ReplaceAllString(string(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	r := sampleRun(t)
	if !bytes.Equal(log, r.log.Bytes()) {
		t.Errorf("the sample run is written otherwise:\n%x", r.log.Bytes())
	}
	run, err := ReadRun(bytes.NewReader(log), testKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Join(r.blobs); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct{ got, want string }{
		"task": {TaskID([]byte(testPatch)).String(), "c1cd7c083778632f59d931bcbd24cbe7"},
		"root": {run.Root.String(), "624a70fe876284e56363f3825ac0361103d463e1b668b26bd0161ec57eac3dea"},
		"log":  {run.Log.String(), "9c05e31bb28f5dd109bc8de58231e7bd8288cfe49a5ec9655db495e736110501"},
		"head": {run.Receipts[1].ChainHash().String(), "c3021640b5844bbb6de70bb7bf02a9730288d45067e16ffab91c5d16fb31b0aa"},
		"MAC":  {run.Receipts[1].MAC.String(), "31fd32ab798172e75435e6a47eddf58f166fa654c2f46437568b68cd11c4392a"},
	} {
		if c.got != c.want {
			t.Errorf("%s %s; want %s", name, c.got, c.want)
		}
	}
}
