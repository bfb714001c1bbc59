package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// The values of the worked example in docs/format.md.
var (
	exampleSecret = bytes.Repeat([]byte{0x42}, 32)
	exampleSalt   = receipts.Digest(bytes.Repeat([]byte{0x11}, 32))
	exampleJob    = receipts.ID(bytes.Repeat([]byte{0x22}, 16))
	exampleStart  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

const exampleYAML = `test:
  - name: unit
    run: [go, test, ./...]
    paths: ["**/*.go"]
`

// TestDocFormat makes every example of docs/format.md again.
func TestDocFormat(t *testing.T) {
	t.Parallel()
	ex := formatExample{t: t, blocks: map[string]string{}}
	patch := ex.patch()
	ex.plan(patch)
	ex.bundle(patch)
	ex.evidence()
	compareExamples(t, "docs/format.md", ex.blocks)
}

type formatExample struct {
	t      *testing.T
	blocks map[string]string // by the name of the example
}

func (x *formatExample) ok(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// patch returns a patch document about a tree of one file.
func (x *formatExample) patch() []byte {
	const content = "hello\n"
	object := fmt.Sprintf("blob %d\x00%s", len(content), content)
	var listing bytes.Buffer
	w, err := verifier.NewTreeWriter(&listing, "sha1", verifier.TreeLimits{})
	x.ok(err)
	x.ok(w.Add(verifier.TreeEntry{
		Mode: "100644", ID: "ce013625030ba8dba906f756967f9e9ca394464a", Sum: receipts.Sum([]byte(object)), Size: int64(len(content)), Path: "hello.txt",
	}))
	tree, err := w.Close()
	x.ok(err)
	x.blocks["listing"] = strings.ReplaceAll(listing.String(), "\x00", "\n")
	none, err := verifier.NewTreeWriter(io.Discard, "sha1", verifier.TreeLimits{})
	x.ok(err)
	empty, err := none.Close()
	x.ok(err)
	p := verifier.Patch{
		Repository: "example.org/team/project", BaseTree: verifier.TreeIDOf(empty),
		Head: strings.Repeat("c0", 20), Tree: verifier.TreeIDOf(tree), Diff: receipts.Sum([]byte("a diff")),
	}
	doc, err := p.Document()
	x.ok(err)
	x.blocks["patch"] = string(doc) + "\n"
	return doc
}

// plan makes the configuration and the plan.
func (x *formatExample) plan(patch []byte) {
	c, err := verifier.ParseConfig([]byte(exampleYAML))
	x.ok(err)
	config, err := c.Document()
	x.ok(err)
	base := verifier.TreeEntry{Mode: "100644", ID: strings.Repeat("a0", 20), Path: "a/b.go"}
	head := base
	head.ID = strings.Repeat("b0", 20)
	trees, err := verifier.ReadTrees([]verifier.TreeEntry{base}, []verifier.TreeEntry{head}, &c.Evidence, nil, nil, nil)
	x.ok(err)
	plan := verifier.NewPlan(receipts.Sum(patch), receipts.Sum(config), &c, verifier.SourceBase, trees, verifier.Sides{}, receipts.Sum([]byte("32 random bytes")))
	doc, err := receipts.Encode(&plan)
	x.ok(err)
	_, err = verifier.ParsePlan(doc)
	x.ok(err)
	x.blocks["config"], x.blocks["plan"] = string(config)+"\n", string(doc)+"\n"
}

// bundle makes the example's run and its bundle.
func (x *formatExample) bundle(patch []byte) {
	run := bundle.Run{Patch: patch, Job: exampleJob, Salt: exampleSalt}
	receiptKey, err := receipts.DeriveKey(exampleSecret, exampleSalt, receipts.PurposeReceipt, run.Task(), run.Job)
	x.ok(err)
	sealKey, err := receipts.DeriveKey(exampleSecret, exampleSalt, receipts.PurposeSeal, run.Task(), run.Job)
	x.ok(err)
	dir, at := x.t.TempDir(), exampleStart.Add(-time.Second)
	now := func() time.Time { at = at.Add(time.Second); return at }
	rec, err := bundle.NewRecorder(filepath.Join(dir, "record"), run, bundle.Authenticators{Receipt: receiptKey, Seal: sealKey}, now)
	x.ok(err)
	defer rec.Close()
	call, err := rec.Begin(&receipts.Args{
		Tool: receipts.ToolPrepare, Name: "modules", Side: verifier.SideHead,
		Argv: []receipts.Bytes{"echo", "ok"}, Dir: "/src", Env: []receipts.Bytes{"PATH=/usr/bin"}, Patch: receipts.Sum(patch),
	})
	x.ok(err)
	stdout, err := rec.Spool().Put([]byte("ok\n"))
	x.ok(err)
	x.ok(call.End(&receipts.Result{
		State: receipts.StateExited, Start: exampleStart.UnixMilli() + 1100, End: exampleStart.UnixMilli() + 1900,
		Stdout: receipts.Stream{Digest: stdout, Bytes: 3, Kept: 3},
	}))
	path := filepath.Join(dir, "example.tar.zst")
	text, err := rec.Seal(path, bundle.Statement{Outcome: bundle.OutcomeKilled, Why: "interrupted: received interrupt"}, nil)
	x.ok(err)
	x.blocks["seal"] = string(text) + "\nseal digest " + bundle.SealDigest(text).String() + "\n"
	x.members(path)
	x.verify(path)
}

// members shows what is in the bundle.
func (x *formatExample) members(path string) {
	f, size, err := openBundle(path)
	x.ok(err)
	defer f.Close()
	b, err := bundle.Open(f, size, bundle.Limits{})
	x.ok(err)
	var tar strings.Builder
	var log []byte
	x.ok(b.Walk(func(e bundle.Entry, body io.Reader) error {
		fmt.Fprintf(&tar, "%6d  %s\n", e.Size, e.Name)
		content, err := io.ReadAll(body)
		if e.Name == "log" {
			log = content
		}
		for name, prefix := range map[string]string{"args": `{"v":1,"tool":`, "result": `{"v":1,"state":`} {
			if bytes.HasPrefix(content, []byte(prefix)) {
				x.blocks[name] = string(content) + "\n"
			}
		}
		return err
	}))
	id, err := b.Identity()
	x.ok(err)
	x.blocks["tar"] = tar.String() + "\nidentity " + id.String() + "\n"
	x.blocks["mac"] = string(b.MAC())
	x.blocks["log"] = x.frames(log)
	x.keys(log)
}

func (x *formatExample) keys(log []byte) {
	f, _, reason := receipts.DecodeFrame(log)
	if reason != "" {
		x.t.Fatal(reason)
	}
	derive := func(purpose string) string {
		key, err := hkdfKey(exampleSecret, exampleSalt[:], string(receipts.KeyInfo(purpose, f.Task, f.Job)))
		x.ok(err)
		return hex.EncodeToString(key)
	}
	x.blocks["keys"] = fmt.Sprintf("secret       %x\nsalt         %s\ntask_id      %s\njob_id       %s\nreceipt key  %s\nseal key     %s\n",
		exampleSecret, exampleSalt, f.Task, f.Job, derive(receipts.PurposeReceipt), derive(receipts.PurposeSeal))
}

// frames writes frames in hexadecimal, field by field.
func (x *formatExample) frames(log []byte) string {
	var out strings.Builder
	for n := 0; len(log) > 0; n++ {
		f, size, reason := receipts.DecodeFrame(log)
		if reason != "" {
			x.t.Fatal(reason)
		}
		raw := log[:size]
		log = log[size:]
		fmt.Fprintf(&out, "frame %d, %s, %d bytes\n", n, f.Kind, size)
		field := func(size int, name string) {
			hexLines(&out, raw[:size], name)
			raw = raw[size:]
		}
		field(11, "magic, version, flags, actor, kind, visibility, redaction")
		field(8, "seq")
		field(8, "time")
		field(16, "task_id")
		field(16, "job_id")
		field(4, fmt.Sprintf("payload_len: %d", len(f.Payload)))
		field(32, "payload_hash")
		field(32, "prev_hash")
		if f.Kind == receipts.ToolCallCompleted {
			r, err := receipts.ParseRecord(f.Payload)
			x.ok(err)
			for _, part := range []struct {
				size int
				name string
			}{
				{16, "payload: task_id"}, {16, "job_id"}, {16, "tool_call_id"}, {32, "tool_name_hash"}, {32, "args_hash"},
				{32, "result_hash"}, {4, "artifact_count"}, {32 * len(r.Artifacts), "artifact_hashes"}, {8, "event_seq"},
				{32, "prev_receipt_hash"}, {32, "MAC"},
			} {
				field(part.size, part.name)
			}
		} else {
			field(len(f.Payload), "payload: "+string(f.Payload))
		}
		field(32, "frame_hash")
		if len(log) > 0 {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// hexLines writes b in lines of 32 bytes, and what it is behind the first.
func hexLines(w io.Writer, b []byte, name string) {
	for first := true; first || len(b) > 0; first = false {
		n := min(len(b), 32)
		if first {
			fmt.Fprintf(w, "%-64x  %s\n", b[:n], name)
		} else {
			fmt.Fprintf(w, "%x\n", b[:n])
		}
		b = b[n:]
	}
}

// verify checks what the page says that a verifier says.
func (x *formatExample) verify(path string) {
	f, size, err := openBundle(path)
	x.ok(err)
	defer f.Close()
	for _, c := range []struct {
		keys  []verifier.KeyAnchor
		codes []verifier.Code
	}{
		{[]verifier.KeyAnchor{{Secret: exampleSecret, Who: "42"}}, []verifier.Code{verifier.Interrupted}},
		{nil, []verifier.Code{verifier.Interrupted, verifier.NoTrustedSeal}},
	} {
		r, err := verifier.Verify(f, size, verifier.Options{Keys: c.keys, Now: exampleStart})
		x.ok(err)
		if r.Verdict() != verifier.Unproven || len(r.Reasons()) != len(c.codes) {
			x.t.Errorf("with %d keys: %s, %v", len(c.keys), r.Verdict(), r.Reasons())
		}
		for _, code := range c.codes {
			if !r.Has(code) {
				x.t.Errorf("with %d keys: no %s", len(c.keys), code)
			}
		}
	}
}

// exampleStream is what a go test of one package writes.
const exampleStream = `{"Action":"start","Package":"example.org/p"}
{"Action":"run","Package":"example.org/p","Test":"TestA"}
{"Action":"output","Package":"example.org/p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"example.org/p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"example.org/p","Test":"TestA","Elapsed":0}
{"Action":"run","Package":"example.org/p","Test":"TestB"}
{"Action":"output","Package":"example.org/p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"example.org/p","Test":"TestB","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"output","Package":"example.org/p","Test":"TestB","Output":"--- FAIL: TestB (0.00s)\n"}
{"Action":"fail","Package":"example.org/p","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"example.org/p","Output":"FAIL\n"}
{"Action":"fail","Package":"example.org/p","Elapsed":0.1}
`

func (x *formatExample) evidence() {
	stream := receipts.Sum([]byte(exampleStream))
	call := verifier.TestCall{Call: 4}
	call.Args = receipts.Args{Tool: receipts.ToolTest, Name: "unit", Side: verifier.SideHead, Round: 1, Format: verifier.FormatGo}
	n := int64(len(exampleStream))
	call.Result = receipts.Result{State: receipts.StateExited, Exit: 1, Stdout: receipts.Stream{Digest: stream, Bytes: n, Kept: n}}
	var out bytes.Buffer
	c := verifier.DefaultConfig()
	c.Test = []verifier.TestEntry{{Name: "unit", Run: []string{"make"}, Dir: ".", Format: verifier.FormatGo, Timeout: 1}}
	trees, err := verifier.ReadTrees(nil, nil, &c.Evidence, nil, nil, nil)
	x.ok(err)
	plan := verifier.NewPlan(receipts.Digest{}, receipts.Digest{}, &c, verifier.SourceBase, trees, verifier.Sides{}, receipts.Digest{})
	plan.Runs = plan.Runs[:1]
	j := verifier.NewJudgement(&out, verifier.Judged{
		Patch: receipts.Sum([]byte("patch")), Planned: receipts.Sum([]byte("plan")), Plan: &plan, Config: &c, Trees: trees,
		Open: func(d receipts.Digest) (io.ReadCloser, error) {
			if d != stream {
				return nil, os.ErrNotExist
			}
			return io.NopCloser(strings.NewReader(exampleStream)), nil
		},
	})
	for batch := j.Next(); len(batch) > 0; batch = j.Next() {
		x.ok(j.Add(&batch[0], &call))
	}
	_, err = j.Finish()
	x.ok(err)
	x.blocks["stream"], x.blocks["evidence"] = exampleStream, out.String()
}
