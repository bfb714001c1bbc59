package receipts

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// The test vectors of CrustCore, made with its own code. Names of members are
// those of the file.
type vectors struct {
	Discriminants struct {
		Kind, Actor []struct {
			Byte uint8
			Name string
		}
		Visibility, Redaction, Flags map[string]uint8
	}
	Receipts     []vectorReceipt
	ReceiptChain struct {
		Key      hexBytes
		Count    uint64
		Head     hexBytes
		Receipts []vectorReceipt
		Cases    []struct {
			Name           string
			Records        []struct{ Body, MAC hexBytes } `json:"receipts_in_order"`
			Verify         vectorStatus
			VerifyComplete vectorStatus `json:"verify_complete"`
		}
	} `json:"receipt_chain3"`
	SingleFrames []vectorLog `json:"single_frames"`
	Logs         []vectorLog
	Tampers      []struct {
		Name         string
		File         hexBytes
		Verify       vectorStatus
		VerifyToHead vectorStatus `json:"verify_to_head"`
	} `json:"log_tamper_cases_on_demo"`
	Join struct {
		Log   string
		Key   hexBytes
		Cases []struct {
			Name     string
			Receipts []vectorReceipt
			Expect   vectorStatus
		}
	}
	VerifiedPatch struct {
		Receipt  vectorReceipt
		Verifier string
		Result   string `json:"result_bytes_hashed"`
	} `json:"verified_patch"`
}

type vectorStatus struct {
	Status     string
	Count      uint64
	Frames     uint64
	Index      uint64
	FrameIndex uint64 `json:"frame_index"`
	Reason     string
}

type vectorReceipt struct {
	Name      string
	Inputs    *struct{ Key, ToolName, Args, Result hexBytes }
	Task      decimalID  `json:"task_id_dec"`
	Job       decimalID  `json:"job_id_dec"`
	Call      decimalID  `json:"tool_call_id_dec"`
	ToolName  hexBytes   `json:"tool_name_hash"`
	Args      hexBytes   `json:"args_hash"`
	Result    hexBytes   `json:"result_hash"`
	Artifacts []hexBytes `json:"artifact_hashes"`
	EventSeq  string     `json:"event_seq_dec"`
	Prev      hexBytes   `json:"prev_receipt_hash"`
	MAC       hexBytes
	Body      hexBytes
	ChainHash hexBytes `json:"chain_hash"`
}

type vectorLog struct {
	Name    string
	Head    hexBytes `json:"head_hash"`
	File    hexBytes
	Frames  uint64
	Decoded []struct {
		Offset, Length        int
		Seq                   json.Number
		Timestamp             uint64     `json:"timestamp_ms"`
		Task                  *decimalID `json:"task_id_dec"`
		Job                   *decimalID `json:"job_id_dec"`
		Actor                 uint8      `json:"actor_byte"`
		ActorName             string     `json:"actor"`
		Kind                  uint8      `json:"kind_byte"`
		KindName              string     `json:"kind"`
		Visibility, Redaction string
		Payload               hexBytes
		PayloadHash           hexBytes `json:"payload_hash"`
		Prev                  hexBytes `json:"prev_hash"`
		Hash                  hexBytes `json:"frame_hash"`
		Encoded               hexBytes
	}
}

type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

// A decimalID is an ID written as a decimal number.
type decimalID ID

func (id *decimalID) UnmarshalText(text []byte) error {
	n, ok := new(big.Int).SetString(string(text), 10)
	if !ok || n.Sign() < 0 || n.BitLen() > 128 {
		return errors.New("not a number of 128 bits")
	}
	n.FillBytes(id[:])
	slices.Reverse(id[:])
	return nil
}

func (v *vectorReceipt) receipt(t *testing.T) Receipt {
	t.Helper()
	seq, err := strconv.ParseUint(v.EventSeq, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	r := Receipt{
		Task: ID(v.Task), Job: ID(v.Job), Call: ID(v.Call),
		ToolName: Digest(v.ToolName), Args: Digest(v.Args), Result: Digest(v.Result),
		EventSeq: seq, Prev: Digest(v.Prev), MAC: Digest(v.MAC),
	}
	for _, a := range v.Artifacts {
		r.Artifacts = append(r.Artifacts, Digest(a))
	}
	return r
}

func vectorReceipts(t *testing.T, list []vectorReceipt) []Receipt {
	t.Helper()
	var receipts []Receipt
	for i := range list {
		receipts = append(receipts, list[i].receipt(t))
	}
	return receipts
}

func readVectors(t *testing.T) *vectors {
	t.Helper()
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Skip("TRUEGREEN_VECTORS is not set")
	}
	text, err := os.ReadFile(filepath.Join(dir, "crustcore", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	v := new(vectors)
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatal(err)
	}
	return v
}

func vectorKey(t *testing.T, secret []byte) Key {
	t.Helper()
	key, err := NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestVectorDiscriminants(t *testing.T) {
	t.Parallel()
	d := readVectors(t).Discriminants
	if len(d.Kind) != int(kinds) || len(d.Actor) != int(actors) || len(d.Visibility) != int(visibilities) || len(d.Redaction) != int(redactions) {
		t.Errorf("%d kinds, %d actors, %d visibilities, %d redactions", len(d.Kind), len(d.Actor), len(d.Visibility), len(d.Redaction))
	}
	for _, k := range d.Kind {
		if got := Kind(k.Byte).String(); got != k.Name {
			t.Errorf("kind %d is %s; want %s", k.Byte, got, k.Name)
		}
	}
	for i, name := range []string{Kernel: "Kernel", User: "User", Model: "Model", Subagent: "Subagent", ExternalWorker: "ExternalWorker", Adapter: "Adapter"} {
		if d.Actor[i].Name != name || int(d.Actor[i].Byte) != i {
			t.Errorf("actor %d is %s; want %s", i, name, d.Actor[i].Name)
		}
	}
	for name, got := range map[string]uint8{"ModelVisible": uint8(ModelVisible), "Internal": uint8(Internal)} {
		if want, ok := d.Visibility[name]; !ok || got != want {
			t.Errorf("visibility %s is %d; want %d", name, got, want)
		}
	}
	for name, got := range map[string]uint8{"Clean": uint8(Clean), "Redacted": uint8(Redacted)} {
		if want, ok := d.Redaction[name]; !ok || got != want {
			t.Errorf("redaction %s is %d; want %d", name, got, want)
		}
	}
	if d.Flags["HAS_TASK"] != flagTask || d.Flags["HAS_JOB"] != flagJob {
		t.Errorf("flags %v", d.Flags)
	}
}

// checkVectorReceipt holds body, chain hash and record to v, and the MAC where
// there is a key.
func checkVectorReceipt(t *testing.T, name string, v *vectorReceipt, key *Key) {
	t.Helper()
	r := v.receipt(t)
	if got := r.AppendBody(nil); !bytes.Equal(got, v.Body) {
		t.Errorf("%s: body %x; want %x", name, got, v.Body)
	}
	if got := r.ChainHash(); got != Digest(v.ChainHash) {
		t.Errorf("%s: chain hash %s; want %x", name, got, v.ChainHash)
	}
	record := r.AppendRecord(nil)
	if want := append(bytes.Clone(v.Body), v.MAC...); !bytes.Equal(record, want) {
		t.Errorf("%s: record %x; want %x", name, record, want)
	}
	parsed, err := ParseRecord(record)
	if err != nil || !slices.Equal(parsed.Artifacts, r.Artifacts) || !bytes.Equal(parsed.AppendRecord(nil), record) {
		t.Errorf("%s: record parses as %+v, %v", name, parsed, err)
	}
	if key == nil {
		return
	}
	if mac, err := key.MAC(v.Body); err != nil || mac != Digest(v.MAC) {
		t.Errorf("%s: MAC %s, %v; want %x", name, mac, err, v.MAC)
	}
	if !key.Verify(v.Body, Digest(v.MAC)) {
		t.Errorf("%s: MAC does not verify", name)
	}
}

func TestVectorReceipts(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	if len(v.Receipts) != 6 {
		t.Errorf("%d receipts", len(v.Receipts))
	}
	for i := range v.Receipts {
		r := &v.Receipts[i]
		key := vectorKey(t, r.Inputs.Key)
		checkVectorReceipt(t, r.Name, r, &key)
		for _, hashed := range []struct {
			of   string
			from []byte
			want hexBytes
		}{{"args", r.Inputs.Args, r.Args}, {"result", r.Inputs.Result, r.Result}} {
			if got := Sum(hashed.from); got != Digest(hashed.want) {
				t.Errorf("%s: %s hash %s; want %x", r.Name, hashed.of, got, hashed.want)
			}
		}
	}
	key := vectorKey(t, v.ReceiptChain.Key)
	for i := range v.ReceiptChain.Receipts {
		checkVectorReceipt(t, "chain", &v.ReceiptChain.Receipts[i], &key)
	}
	key = vectorKey(t, v.Join.Key)
	for _, c := range v.Join.Cases {
		for i := range c.Receipts {
			checkVectorReceipt(t, c.Name, &c.Receipts[i], nil)
		}
	}
	checkVectorReceipt(t, "join", &v.Join.Cases[0].Receipts[0], &key)
	patch := &v.VerifiedPatch
	checkVectorReceipt(t, "verified patch", &patch.Receipt, nil)
	r := patch.Receipt.receipt(t)
	if r.ToolName != Sum([]byte("verify")) || r.Args != Sum([]byte(patch.Verifier)) || r.Result != Sum([]byte(patch.Result)) {
		t.Error("verified patch: the hashes are not those of its inputs")
	}
}

// checkReceiptStatus compares the outcome of a chain's verification.
func checkReceiptStatus(t *testing.T, name string, count uint64, err error, want vectorStatus) {
	t.Helper()
	var broken *ReceiptError
	switch {
	case want.Status == "Intact":
		if err != nil || count != want.Count {
			t.Errorf("%s: %d, %v; want intact, %d", name, count, err, want.Count)
		}
	case !errors.As(err, &broken) || string(broken.Reason) != want.Reason || broken.Index != want.Index:
		t.Errorf("%s: %v; want %s at %d", name, err, want.Reason, want.Index)
	}
}

func TestVectorChain(t *testing.T) {
	t.Parallel()
	chain := readVectors(t).ReceiptChain
	key := vectorKey(t, chain.Key)
	if len(chain.Cases) != 16 {
		t.Errorf("%d cases", len(chain.Cases))
	}
	for _, c := range chain.Cases {
		var receipts []Receipt
		for _, record := range c.Records {
			r, err := ParseRecord(slices.Concat(record.Body, record.MAC))
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			receipts = append(receipts, r)
		}
		count, err := VerifyReceipts(key, receipts)
		checkReceiptStatus(t, c.Name, count, err, c.Verify)

		v, err := NewChainVerifier(key)
		if err != nil {
			t.Fatal(err)
		}
		for i := range receipts {
			if v.Next(&receipts[i]) != nil {
				break
			}
		}
		err = v.End(chain.Count, Digest(chain.Head))
		checkReceiptStatus(t, c.Name+", complete", v.Count(), err, c.VerifyComplete)
	}
	// The three receipts can be minted again.
	minted, err := NewChain(key)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range vectorReceipts(t, chain.Receipts) {
		r := want
		r.Prev, r.MAC = Digest{}, Digest{}
		if err := minted.Mint(&r); err != nil || r.Prev != want.Prev || r.MAC != want.MAC {
			t.Errorf("receipt %d: minted with prev %s and MAC %s, %v", i, r.Prev, r.MAC, err)
		}
	}
	if minted.Head() != Digest(chain.Head) || minted.Count() != chain.Count {
		t.Errorf("minted %d, head %s", minted.Count(), minted.Head())
	}
}

func TestVectorLogs(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	if len(v.SingleFrames) != 8 || len(v.Logs) != 4 {
		t.Errorf("%d single frames, %d logs", len(v.SingleFrames), len(v.Logs))
	}
	for _, log := range slices.Concat(v.SingleFrames, v.Logs) {
		var out bytes.Buffer
		w := NewLogWriter(&out)
		l := NewLogReader(bytes.NewReader(log.File), MaxPayload)
		for i, d := range log.Decoded {
			seq, err := strconv.ParseUint(d.Seq.String(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			want := Frame{
				Actor: Actor(d.Actor), Kind: Kind(d.Kind), Seq: seq, Time: d.Timestamp, Payload: d.Payload,
				Visibility: map[string]Visibility{"ModelVisible": ModelVisible, "Internal": Internal}[d.Visibility],
				Redaction:  map[string]Redaction{"Clean": Clean, "Redacted": Redacted}[d.Redaction],
			}
			if d.Task != nil {
				want.HasTask, want.Task = true, ID(*d.Task)
			}
			if d.Job != nil {
				want.HasJob, want.Job = true, ID(*d.Job)
			}
			raw, err := w.Append(&want)
			if err != nil || !bytes.Equal(raw, d.Encoded) {
				t.Errorf("%s: frame %d encodes as %x, %v; want %x", log.Name, i, raw, err, d.Encoded)
			}
			if want.Hash != Digest(d.Hash) || want.Prev != Digest(d.Prev) || want.PayloadHash != Digest(d.PayloadHash) {
				t.Errorf("%s: frame %d: hashes differ", log.Name, i)
			}
			got, err := l.Next()
			if err != nil {
				t.Errorf("%s: frame %d: %v", log.Name, i, err)
				break
			}
			if !sameFrame(got, &want) || !bytes.Equal(l.Raw(), d.Encoded) || got.Kind.String() != d.KindName {
				t.Errorf("%s: frame %d decodes as %+v; want %+v", log.Name, i, *got, want)
			}
			if end := int64(d.Offset + d.Length); l.Offset() != end {
				t.Errorf("%s: frame %d ends at %d; want %d", log.Name, i, l.Offset(), end)
			}
		}
		if !bytes.Equal(out.Bytes(), log.File) {
			t.Errorf("%s: the log that was written differs", log.Name)
		}
		head := Digest(log.Head)
		frames, got, err := VerifyLog(bytes.NewReader(log.File), MaxPayload, &head)
		if err != nil || frames != log.Frames || got != head || w.Head() != head {
			t.Errorf("%s: %d frames, head %s, %v", log.Name, frames, got, err)
		}
	}
}

// sameFrame reports whether two frames are equal in every field.
func sameFrame(a, b *Frame) bool {
	return bytes.Equal(appendFrame(nil, cloneFrame(a)), appendFrame(nil, cloneFrame(b))) &&
		a.Task == b.Task && a.Job == b.Job && a.PayloadHash == b.PayloadHash && a.Hash == b.Hash
}

func cloneFrame(f *Frame) *Frame {
	c := *f
	c.Payload = bytes.Clone(f.Payload)
	return &c
}

func TestVectorTampers(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	var head Digest
	for _, log := range v.Logs {
		if log.Name == "demo" {
			head = Digest(log.Head)
		}
	}
	if len(v.Tampers) != 36 {
		t.Errorf("%d cases", len(v.Tampers))
	}
	check := func(name string, frames uint64, err error, want vectorStatus) {
		if want.Status == "Intact" {
			if err != nil || frames != want.Frames {
				t.Errorf("%s: %d frames, %v; want %d intact", name, frames, err, want.Frames)
			}
			return
		}
		checkLogError(t, name, err, want.FrameIndex, LogBreak(want.Reason))
	}
	for _, c := range v.Tampers {
		frames, _, err := VerifyLog(bytes.NewReader(c.File), maxUint32, nil)
		check(c.Name, frames, err, c.Verify)
		frames, _, err = VerifyLog(bytes.NewReader(c.File), maxUint32, &head)
		check(c.Name+", to head", frames, err, c.VerifyToHead)

		// A run's log has a limit that comes before the length is believed.
		_, _, err = VerifyLog(bytes.NewReader(c.File), MaxPayload, nil)
		if c.Name == "hostile_len" {
			checkLogError(t, c.Name, err, c.Verify.FrameIndex, PayloadTooLarge)
		} else {
			check(c.Name+", limited", frames, err, c.Verify)
		}
	}
}

// JoinStrict refuses all the cases that Join lets pass: a log of CrustCore's holds
// neither records nor starts.
func TestVectorJoin(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	var file []byte
	for _, log := range v.Logs {
		if log.Name == v.Join.Log {
			file = log.File
		}
	}
	frames := func() iter.Seq2[*Frame, error] {
		return NewLogReader(bytes.NewReader(file), MaxPayload).All()
	}
	var refs []FrameRef
	for f, err := range frames() {
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, f.Ref())
	}
	strict := map[string]JoinBreak{
		"ok":                                   PayloadMismatch,
		"empty_receipts":                       FrameWithoutProof,
		"subset_ok_uncovered_frame_undetected": PayloadMismatch,
		"same_frame_twice_undetected":          PayloadMismatch,
		"out_of_order_undetected":              PayloadMismatch,
		"result_differs_from_frame_payload_undetected": PayloadMismatch,
		"missing_seq":             NoFrameAtSeq,
		"not_a_completion":        NotAToolCompletion,
		"task_mismatch":           TaskMismatch,
		"job_mismatch":            JobMismatch,
		"task_checked_before_job": TaskMismatch,
		"second_fails":            PayloadMismatch,
	}
	if len(v.Join.Cases) != len(strict) {
		t.Errorf("%d cases", len(v.Join.Cases))
	}
	for _, c := range v.Join.Cases {
		receipts := vectorReceipts(t, c.Receipts)
		err := Join(receipts, refs)
		var broken *JoinError
		if c.Expect.Status == "Joined" {
			if err != nil || uint64(len(receipts)) != c.Expect.Count {
				t.Errorf("%s: %v; want joined", c.Name, err)
			}
		} else if !errors.As(err, &broken) || string(broken.Reason) != c.Expect.Reason || broken.Index != c.Expect.Index {
			t.Errorf("%s: %v; want %s at %d", c.Name, err, c.Expect.Reason, c.Expect.Index)
		}
		err = JoinStrict(receipts, frames(), testBlobs{})
		if !errors.As(err, &broken) || broken.Reason != strict[c.Name] {
			t.Errorf("%s, strict: %v; want %s", c.Name, err, strict[c.Name])
		}
	}
}
