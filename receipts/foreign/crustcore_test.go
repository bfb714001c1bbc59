package foreign

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
)

type hexText []byte

func (b *hexText) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

// A crustcoreStatus is an answer of CrustCore.
type crustcoreStatus struct {
	Status, Reason       string
	Count, Index, Frames uint64
	FrameIndex           uint64 `json:"frame_index"`
}

type crustcoreRecord struct {
	Body, MAC hexText
}

type crustcoreLog struct {
	Name    string
	File    hexText
	Head    hexText `json:"head_hash"`
	Frames  uint64
	Decoded []struct{ Kind string }
	Verify  crustcoreStatus
	ToHead  crustcoreStatus `json:"verify_to_head"`
}

type crustcoreVectors struct {
	Receipts []struct {
		Name string
		crustcoreRecord
		Inputs struct{ Key, Args, Result hexText }
	}
	Chain struct {
		Key   hexText
		Count uint64
		Head  hexText
		Cases []struct {
			Name           string
			Records        []crustcoreRecord `json:"receipts_in_order"`
			Verify         crustcoreStatus
			VerifyComplete crustcoreStatus `json:"verify_complete"`
		}
	} `json:"receipt_chain3"`
	Single  []crustcoreLog `json:"single_frames"`
	Logs    []crustcoreLog
	Tampers []crustcoreLog `json:"log_tamper_cases_on_demo"`
	Join    struct {
		Log   string
		Key   hexText
		Cases []struct {
			Name     string
			Receipts []crustcoreRecord
			Expect   crustcoreStatus
		}
	}
	Patch struct {
		Receipt  crustcoreRecord
		Verifier string
	} `json:"verified_patch"`
}

func readCrustcore(t *testing.T) *crustcoreVectors {
	t.Helper()
	v := new(crustcoreVectors)
	if err := json.Unmarshal(readFile(t, vectors(t, "crustcore"), "vectors.json"), v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (r *crustcoreRecord) receipt(t *testing.T) receipts.Receipt {
	t.Helper()
	out, err := receipts.ParseRecord(slices.Concat(r.Body, r.MAC))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// logOf writes a log in which the receipts, in the order of their calls, have theirs.
func logOf(t testing.TB, list []receipts.Receipt, record bool, end ...receipts.Kind) []byte {
	t.Helper()
	var out bytes.Buffer
	w := receipts.NewLogWriter(&out)
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b receipts.Receipt) int { return int(a.EventSeq) - int(b.EventSeq) })
	seq := uint64(0)
	write := func(f receipts.Frame) {
		f.Time = uint64(day.UnixMilli())
		if _, err := w.Append(&f); err != nil {
			t.Fatal(err)
		}
		seq = f.Seq
	}
	for _, r := range list {
		if r.EventSeq == seq && seq != 0 {
			continue
		}
		f := receipts.Frame{Kind: receipts.ToolCallCompleted, Seq: r.EventSeq, HasTask: true, Task: r.Task, HasJob: true, Job: r.Job}
		if record {
			f.Payload = r.AppendRecord(nil)
		}
		write(f)
	}
	for _, kind := range end {
		write(receipts.Frame{Kind: kind, Seq: seq + 1})
	}
	return out.Bytes()
}

func newCrustcore(t testing.TB, o CrustcoreOptions) Adapter {
	t.Helper()
	if o.Now == nil {
		o.Now = clock(day)
	}
	a, err := NewCrustcore(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// has reports whether an answer of CrustCore is the first that v has of it.
func has(v *Verification, code string, at uint64) bool {
	for _, f := range v.Violations {
		if f.Code == code && f.Seq != nil && *f.Seq == int64(at) {
			return true
		}
	}
	return false
}

func TestCrustcoreLogs(t *testing.T) {
	t.Parallel()
	vec := readCrustcore(t)
	if len(vec.Single) != 8 || len(vec.Logs) != 4 || len(vec.Tampers) != 36 {
		t.Fatalf("%d, %d and %d logs", len(vec.Single), len(vec.Logs), len(vec.Tampers))
	}
	for _, log := range slices.Concat(vec.Single, vec.Logs) {
		v := verify(t, newCrustcore(t, CrustcoreOptions{}), log.File, Binding{})
		if log.Verify.Status != "Intact" || v.Chain != Yes || v.End != Unproven || v.Head != hex.EncodeToString(log.Head) || v.Signature != Unproven || v.Trusted() {
			t.Errorf("%s: %+v", log.Name, v)
		}
		head := newCrustcore(t, CrustcoreOptions{Rules: Rules{Head: hex.EncodeToString(log.Head)}})
		if v := verify(t, head, log.File, Binding{}); v.End != Yes || v.EndProof != "expected-head" || v.Uncovered != nil {
			t.Errorf("%s, with its head: %+v", log.Name, v)
		}
	}
	demo := slices.IndexFunc(vec.Logs, func(l crustcoreLog) bool { return l.Name == "demo" })
	plain := newCrustcore(t, CrustcoreOptions{})
	toHead := newCrustcore(t, CrustcoreOptions{Rules: Rules{Head: hex.EncodeToString(vec.Logs[demo].Head)}})
	for _, log := range vec.Tampers {
		for name, c := range map[string]struct {
			a    Adapter
			want crustcoreStatus
		}{"verify": {plain, log.Verify}, "verify to head": {toHead, log.ToHead}} {
			v, err := c.a.Verify(context.Background(), bytes.NewReader(log.File), Binding{})
			var m *MalformedError
			var ok bool
			switch {
			case errors.As(err, &m):
				// A version that is not known, and a payload of 4 GiB that is not there: CrustCore
				// calls that truncated.
				ok = m.Code == "unknown-version" && c.want.Reason == "BadVersion" || m.Code == "payload-too-large" && log.Name == "hostile_len" && c.want.Reason == "Truncated"
			case err != nil:
			case c.want.Status == "Intact":
				ok = v.Chain == Yes && v.End != No
			case c.want.Reason == "HeadMismatch":
				ok = v.Chain == Yes && v.End == No && strings.Contains(codes(&v), "head-mismatch")
			default:
				ok = v.Chain == No && v.End == Unproven && has(&v, kebab(c.want.Reason), c.want.FrameIndex)
			}
			if !ok {
				t.Errorf("%s, %s: %v, %+v; want %+v", log.Name, name, err, v, c.want)
			}
		}
	}
}

func TestCrustcoreChains(t *testing.T) {
	t.Parallel()
	vec := readCrustcore(t)
	if len(vec.Chain.Cases) != 16 || len(vec.Receipts) != 6 {
		t.Fatalf("%d cases, %d receipts", len(vec.Chain.Cases), len(vec.Receipts))
	}
	key := Key{Name: "run", Secret: vec.Chain.Key}
	minted := &CrustcoreMinted{vec.Chain.Count, receipts.Digest(vec.Chain.Head)}
	for _, c := range vec.Chain.Cases {
		list := []receipts.Receipt{}
		for i := range c.Records {
			list = append(list, c.Records[i].receipt(t))
		}
		log := logOf(t, list, false, receipts.TaskCompleted)
		for name, run := range map[string]struct {
			minted *CrustcoreMinted
			want   crustcoreStatus
		}{"verify": {nil, c.Verify}, "complete": {minted, c.VerifyComplete}} {
			v := verify(t, newCrustcore(t, CrustcoreOptions{Key: key, Receipts: list, Minted: run.minted}), log, Binding{})
			ok := false
			switch {
			case run.want.Status == "Intact":
				// Without knowing how many were minted nobody knows whether it is whole.
				whole := Unproven
				if run.minted != nil {
					whole = Yes
				}
				ok = v.Chain == Yes && v.End == whole && v.Receipts == int64(run.want.Count) && v.Trusted() == (run.want.Count > 0 && whole == Yes)
			case run.want.Reason == "BadMac":
				ok = v.Signature == No && has(&v, "bad-mac", run.want.Index)
			case run.want.Reason == "ChainMismatch":
				ok = v.Chain == No && has(&v, "chain-mismatch", run.want.Index)
			case run.want.Reason == "EndTruncated":
				ok = v.End == No && has(&v, "end-truncated", run.want.Index)
			}
			if !ok || v.Trusted() && run.want.Status != "Intact" {
				t.Errorf("%s, %s: %+v; want %+v", c.Name, name, v, run.want)
			}
		}
	}
	for _, c := range vec.Receipts {
		r := c.receipt(t)
		v := verify(t, newCrustcore(t, CrustcoreOptions{Key: Key{Secret: c.Inputs.Key}, Receipts: []receipts.Receipt{r}}), logOf(t, []receipts.Receipt{r}, false), Binding{ArgHash: "sha256:" + sumOf(c.Inputs.Args)})
		// Some of them name a receipt before that is not there.
		if first := r.Prev.IsZero(); v.Binding != Yes && first || v.Signature != Yes && first || (v.Chain == Yes) != first {
			t.Errorf("%s: %+v", c.Name, v)
		}
	}
	patch := vec.Patch.Receipt.receipt(t)
	a := newCrustcore(t, CrustcoreOptions{Receipts: []receipts.Receipt{patch}})
	if v := verify(t, a, logOf(t, []receipts.Receipt{patch}, false), Binding{Tool: "verify", ArgHash: "sha256:" + sumOf([]byte(vec.Patch.Verifier))}); v.Binding != Yes || v.Tool != "verify" || v.Signature != Unproven || v.Trust != Unproven {
		t.Errorf("verified patch: %+v", v)
	}
}

func TestCrustcoreJoins(t *testing.T) {
	t.Parallel()
	vec := readCrustcore(t)
	if len(vec.Join.Cases) != 12 {
		t.Fatalf("%d cases", len(vec.Join.Cases))
	}
	i := slices.IndexFunc(vec.Logs, func(l crustcoreLog) bool { return l.Name == vec.Join.Log })
	log := vec.Logs[i].File
	// What CrustCore joins, and is refused here.
	stricter := map[string]string{
		"empty_receipts":                       "no-receipt no-receipt",
		"subset_ok_uncovered_frame_undetected": "frame-without-proof",
		"same_frame_twice_undetected":          "frame-taken",
		"out_of_order_undetected":              "frame-taken",
	}
	for _, c := range vec.Join.Cases {
		list := []receipts.Receipt{}
		for i := range c.Receipts {
			list = append(list, c.Receipts[i].receipt(t))
		}
		v := verify(t, newCrustcore(t, CrustcoreOptions{Key: Key{Secret: vec.Join.Key}, Receipts: list}), log, Binding{})
		if c.Expect.Status == "Broken" {
			if v.Chain != No || !has(&v, kebab(c.Expect.Reason), c.Expect.Index) {
				t.Errorf("%s: %v, want %+v", c.Name, v.Violations, c.Expect)
			}
			continue
		}
		for _, code := range strings.Fields(stricter[c.Name]) {
			if !strings.Contains(codes(&v), code) || v.Trusted() {
				t.Errorf("%s: %v, want %s", c.Name, v.Violations, code)
			}
		}
		for _, reason := range []receipts.JoinBreak{receipts.NoFrameAtSeq, receipts.NotAToolCompletion, receipts.TaskMismatch, receipts.JobMismatch} {
			if strings.Contains(codes(&v), kebab(string(reason))) {
				t.Errorf("%s: %v", c.Name, v.Violations)
			}
		}
		if c.Name == "ok" && codes(&v) != "end-unproven" {
			t.Errorf("%s: %+v", c.Name, v)
		}
	}
}

// mint makes receipts of calls.
func mint(t testing.TB, secret []byte, n int) []receipts.Receipt {
	t.Helper()
	key, err := receipts.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := receipts.NewChain(key)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]receipts.Receipt, n)
	for i := range list {
		list[i] = receipts.Receipt{
			Task: receipts.CallID(1), Job: receipts.CallID(2), Call: receipts.CallID(uint64(i)), EventSeq: uint64(i + 1),
			ToolName: receipts.Sum([]byte("test")), Args: receipts.Sum([]byte("args")),
		}
		if err := chain.Mint(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func TestCrustcoreRules(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte{7}, 32)
	list := mint(t, secret, 3)
	log := logOf(t, list, true, receipts.TaskFailed)
	key := Key{Name: "k", Secret: secret}
	args := "sha256:" + sumOf([]byte("args"))
	var moved bytes.Buffer
	w := receipts.NewLogWriter(&moved)
	for i, r := range list {
		f := receipts.Frame{Kind: receipts.ToolCallCompleted, Seq: uint64(i + 2), HasTask: true, Task: r.Task, HasJob: true, Job: r.Job, Payload: r.AppendRecord(nil)}
		if _, err := w.Append(&f); err != nil {
			t.Fatal(err)
		}
	}
	all := &CrustcoreMinted{3, list[2].ChainHash()}
	for _, c := range []struct {
		name  string
		o     CrustcoreOptions
		log   []byte
		b     Binding
		codes string
	}{
		{"records", CrustcoreOptions{Key: key, Minted: all}, log, Binding{Tool: "test", ArgHash: args}, ""},
		{"other tool", CrustcoreOptions{Key: key, Minted: all}, log, Binding{Tool: "tes"}, "tool-mismatch"},
		{"other arguments", CrustcoreOptions{Key: key, Minted: all}, log, Binding{ArgHash: "sha256:" + sumOf(nil)}, "arg-hash-mismatch"},
		{"a target", CrustcoreOptions{Key: key, Minted: all}, log, Binding{Target: "x"}, "no-target"},
		{"allowed", CrustcoreOptions{Key: key, Minted: all}, log, Binding{Allowed: true}, "not-allowed"},
		{"no key", CrustcoreOptions{Minted: all}, log, Binding{}, "no-key no-key"},
		{"other key", CrustcoreOptions{Key: Key{Secret: make([]byte, 32)}}, log, Binding{}, "bad-mac end-unproven"},
		{"no receipts", CrustcoreOptions{Key: key, Receipts: []receipts.Receipt{}}, log, Binding{Tool: "test", ArgHash: args}, "no-receipt no-receipt end-unproven no-tool no-arg-hash"},
		{"an end that nobody signed", CrustcoreOptions{Key: key}, log, Binding{}, "end-unproven"},
		{"records of other calls", CrustcoreOptions{Key: key}, moved.Bytes(), Binding{}, "no-frame-at-seq not-reached"},
		{"no end", CrustcoreOptions{Key: key}, logOf(t, list, true), Binding{}, "end-unproven"},
		{"cut", CrustcoreOptions{Key: key}, log[:len(log)-1], Binding{}, "truncated not-reached"},
		{"cut, a new end", CrustcoreOptions{Key: key, Minted: &CrustcoreMinted{3, list[2].ChainHash()}}, logOf(t, list[:2], true, receipts.TaskCompleted), Binding{}, "end-truncated"},
		{"young", CrustcoreOptions{Key: key, Minted: all, Rules: Rules{MaxAge: time.Hour}}, log, Binding{}, ""},
		{"old", CrustcoreOptions{Key: key, Minted: all, Rules: Rules{MaxAge: time.Hour, Now: clock(day.AddDate(0, 0, 1))}}, log, Binding{}, "too-old"},
	} {
		v := verify(t, newCrustcore(t, c.o), c.log, c.b)
		if codes(&v) != c.codes || v.Trusted() != (c.codes == "") {
			t.Errorf("%s: %+v", c.name, v)
		}
		if !slices.Contains(v.Uncovered, "frames") {
			t.Errorf("%s: the frames are covered", c.name)
		}
	}
	for name, text := range map[string]string{"text": "hello, world\n", "JSON": `{"a":1}`} {
		if _, err := newCrustcore(t, CrustcoreOptions{}).Verify(context.Background(), strings.NewReader(text), Binding{}); malformedCode(err) != "not-a-log" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]CrustcoreOptions{
		"public key": {Key: Key{Public: ed25519.PublicKey(make([]byte, 32))}}, "short secret": {Key: Key{Secret: make([]byte, 31)}}, "head": {Rules: Rules{Head: "x"}},
	} {
		if a, err := NewCrustcore(o); err == nil || a != nil {
			t.Errorf("%s: accepted", name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := newCrustcore(t, CrustcoreOptions{}).Verify(ctx, bytes.NewReader(log), Binding{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	// No byte of a log can change without a trace.
	a := newCrustcore(t, CrustcoreOptions{Key: key, Minted: all})
	if v := verify(t, a, log, Binding{}); !v.Trusted() {
		t.Fatalf("%+v", v)
	}
	for i := range log {
		changed := bytes.Clone(log)
		changed[i] ^= 1
		if v, err := a.Verify(context.Background(), bytes.NewReader(changed), Binding{}); err == nil && v.Trusted() {
			t.Errorf("byte %d changed: trusted", i)
		}
	}
}

// FuzzCrustcore holds that a log is trusted only if it is the one that was written, or one
// that anybody can write around its receipts.
func FuzzCrustcore(f *testing.F) {
	secret := bytes.Repeat([]byte{7}, 32)
	list := mint(f, secret, 2)
	f.Add(logOf(f, list, true, receipts.TaskCompleted))
	f.Add(logOf(f, list, false))
	f.Add([]byte{})
	a := newCrustcore(f, CrustcoreOptions{Key: Key{Secret: secret}})
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := a.Verify(context.Background(), bytes.NewReader(data), Binding{Tool: "test"})
		if err != nil {
			return
		}
		holds(t, &v)
		if v.Signature == Yes && (v.Receipts == 0 || v.Receipts > 2) {
			t.Fatalf("%x: %d receipts", data, v.Receipts)
		}
	})
}
