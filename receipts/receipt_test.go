package receipts

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"
)

func testReceipt(artifacts int) Receipt {
	r := Receipt{
		Task: ID{1}, Job: ID{2}, Call: CallID(3),
		ToolName: Sum([]byte("tool")), Args: Sum([]byte("args")), Result: Sum([]byte("result")),
		EventSeq: 1<<63 + 5, Prev: Sum([]byte("prev")), MAC: Sum([]byte("mac")),
	}
	for i := range artifacts {
		r.Artifacts = append(r.Artifacts, Sum([]byte{byte(i)}))
	}
	return r
}

func TestRecord(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, MaxArtifacts} {
		want := testReceipt(n)
		record := want.AppendRecord([]byte("prefix"))[len("prefix"):]
		if len(record) != 188+32*n+32 {
			t.Errorf("%d artifacts: %d bytes", n, len(record))
		}
		got, err := ParseRecord(record)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d artifacts: %+v, %v", n, got, err)
		}
	}
}

func TestRecordRefused(t *testing.T) {
	t.Parallel()
	r := testReceipt(2)
	record := r.AppendRecord(nil)
	tooMany := testReceipt(MaxArtifacts + 1)
	count := func(n uint32) []byte {
		b := bytes.Clone(record)
		binary.LittleEndian.PutUint32(b[144:], n)
		return b
	}
	bad := map[string][]byte{
		"too many artifacts": tooMany.AppendRecord(nil),
		"more":               append(bytes.Clone(record), 0),
		"32 more":            append(bytes.Clone(record), make([]byte, 32)...),
		"count 1":            count(1),
		"count 3":            count(3),
		"count 2^32-1":       count(1<<32 - 1),
		"count 2^27+2":       count(1<<27 + 2), // 32·2^27 is 0 in 32 bits
	}
	for n := range len(record) {
		if got, err := ParseRecord(record[:n]); err == nil || !reflect.DeepEqual(got, Receipt{}) {
			t.Errorf("%d bytes: %+v, %v", n, got, err)
		}
	}
	for name, b := range bad {
		if got, err := ParseRecord(b); err == nil || !reflect.DeepEqual(got, Receipt{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// mintedChain returns key and n receipts minted under it.
func mintedChain(t *testing.T, n int) (Key, *Chain, []Receipt) {
	t.Helper()
	key := vectorKey(t, bytes.Repeat([]byte{9}, 32))
	chain, err := NewChain(key)
	if err != nil {
		t.Fatal(err)
	}
	receipts := make([]Receipt, n)
	for i := range receipts {
		receipts[i] = testReceipt(i)
		receipts[i].EventSeq = uint64(i)
		if err := chain.Mint(&receipts[i]); err != nil {
			t.Fatal(err)
		}
	}
	return key, chain, receipts
}

func TestChainBreaks(t *testing.T) {
	t.Parallel()
	key, chain, receipts := mintedChain(t, 4)
	seen := map[ReceiptBreak]bool{}
	check := func(name string, err error, index uint64, reason ReceiptBreak) {
		t.Helper()
		var broken *ReceiptError
		if !errors.As(err, &broken) || broken.Index != index || broken.Reason != reason {
			t.Errorf("%s: %v; want %s at %d", name, err, reason, index)
		}
		seen[reason] = true
	}
	verify := func(key Key, edit func([]Receipt) []Receipt) error {
		list := make([]Receipt, len(receipts))
		for i, r := range receipts {
			list[i], _ = ParseRecord(r.AppendRecord(nil))
		}
		v, err := NewChainVerifier(key)
		if err != nil {
			t.Fatal(err)
		}
		list = edit(list)
		for i := range list {
			if err := v.Next(&list[i]); err != nil {
				if again := v.Next(&list[i]); again != err {
					t.Errorf("after %v: %v", err, again)
				}
				break
			}
		}
		return v.End(chain.Count(), chain.Head())
	}
	same := func(list []Receipt) []Receipt { return list }
	if err := verify(key, same); err != nil {
		t.Error(err)
	}
	other := vectorKey(t, make([]byte, 32))
	check("other key", verify(other, same), 0, BadMAC)
	check("prev", verify(key, func(l []Receipt) []Receipt { l[2].Prev[31] ^= 1; return l }), 2, ChainMismatch)
	check("first prev", verify(key, func(l []Receipt) []Receipt { l[0].Prev[0] = 1; return l }), 0, ChainMismatch)
	check("mac", verify(key, func(l []Receipt) []Receipt { l[2].MAC[0] ^= 1; return l }), 2, BadMAC)
	check("zero mac", verify(key, func(l []Receipt) []Receipt { l[3].MAC = Digest{}; return l }), 3, BadMAC)
	check("no receipts", verify(key, func(l []Receipt) []Receipt { return nil }), 0, EndTruncated)
	check("last missing", verify(key, func(l []Receipt) []Receipt { return l[:3] }), 3, EndTruncated)
	check("one more", verify(key, func(l []Receipt) []Receipt {
		longer, err := ResumeChain(key, l)
		if err != nil {
			t.Fatal(err)
		}
		r := testReceipt(0)
		if err := longer.Mint(&r); err != nil {
			t.Fatal(err)
		}
		return append(l, r)
	}), 5, EndTruncated)
	v, err := NewChainVerifier(key)
	if err != nil {
		t.Fatal(err)
	}
	for i := range receipts {
		if err := v.Next(&receipts[i]); err != nil {
			t.Fatal(err)
		}
	}
	check("another count", v.End(3, chain.Head()), 4, EndTruncated)
	check("another head", v.End(4, receipts[2].ChainHash()), 4, EndTruncated)
	fields := map[string]func(*Receipt){
		"task":      func(r *Receipt) { r.Task[0]++ },
		"job":       func(r *Receipt) { r.Job[15]++ },
		"call":      func(r *Receipt) { r.Call[8]++ },
		"tool":      func(r *Receipt) { r.ToolName[0]++ },
		"args":      func(r *Receipt) { r.Args[0]++ },
		"result":    func(r *Receipt) { r.Result[0]++ },
		"artifact":  func(r *Receipt) { r.Artifacts[1][3]++ },
		"artifacts": func(r *Receipt) { r.Artifacts = r.Artifacts[1:] },
		"order":     func(r *Receipt) { r.Artifacts[0], r.Artifacts[1] = r.Artifacts[1], r.Artifacts[0] },
		"seq":       func(r *Receipt) { r.EventSeq++ },
	}
	for name, edit := range fields {
		check(name, verify(key, func(l []Receipt) []Receipt { edit(&l[2]); return l }), 2, BadMAC)
	}
	for _, reason := range []ReceiptBreak{ChainMismatch, BadMAC, EndTruncated} {
		if !seen[reason] {
			t.Errorf("no case for %s", reason)
		}
	}
}

// A verifier without the key sees what is unlinked, and nothing else.
func TestLinkVerifier(t *testing.T) {
	t.Parallel()
	_, chain, receipts := mintedChain(t, 3)
	v := NewLinkVerifier()
	for i := range receipts {
		receipts[i].MAC = Digest{}
		if err := v.Next(&receipts[i]); err != nil {
			t.Error(err)
		}
	}
	if err := v.End(chain.Count(), chain.Head()); err != nil {
		t.Error(err)
	}
	receipts[0].EventSeq++
	v = NewLinkVerifier()
	if err := v.Next(&receipts[0]); err != nil {
		t.Error(err)
	}
	var broken *ReceiptError
	if err := v.Next(&receipts[1]); !errors.As(err, &broken) || broken.Reason != ChainMismatch {
		t.Errorf("changed receipt: %v", err)
	}
}

type failingAuthenticator struct{ err error }

func (a failingAuthenticator) MAC([]byte) (Digest, error) { return Digest{}, a.err }

func TestMintRefuses(t *testing.T) {
	t.Parallel()
	if c, err := NewChain(nil); err == nil || c != nil {
		t.Error("chain without an authenticator")
	}
	if v, err := NewChainVerifier(Key{}); err == nil || v != nil {
		t.Error("verifier with the zero key")
	}
	if _, err := VerifyReceipts(Key{}, nil); err == nil {
		t.Error("receipts verify under the zero key")
	}
	r := testReceipt(0)
	if err := (&ChainVerifier{}).Next(&Receipt{}); err == nil {
		t.Error("the zero verifier accepts a receipt")
	}
	gone := errors.New("signer is gone")
	for name, auth := range map[string]Authenticator{"zero key": Key{}, "failing": failingAuthenticator{gone}} {
		c, err := NewChain(auth)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Mint(&r); err == nil {
			t.Errorf("%s: minted", name)
		}
		if c.Count() != 0 || !c.Head().IsZero() {
			t.Errorf("%s: the chain went on", name)
		}
	}
	_, c, _ := mintedChain(t, 1)
	head := c.Head()
	tooMany := testReceipt(MaxArtifacts + 1)
	if err := c.Mint(&tooMany); err == nil || c.Head() != head || c.Count() != 1 {
		t.Errorf("%d artifacts: %v", MaxArtifacts+1, err)
	}
}

func TestResumeChain(t *testing.T) {
	t.Parallel()
	key, whole, receipts := mintedChain(t, 4)
	c, err := ResumeChain(key, receipts[:3])
	if err != nil {
		t.Fatal(err)
	}
	again := testReceipt(3)
	again.EventSeq = 3
	if err := c.Mint(&again); err != nil || again.MAC != receipts[3].MAC || c.Head() != whole.Head() || c.Count() != 4 {
		t.Errorf("%+v, %v", again, err)
	}
	if c, err := ResumeChain(key, nil); err != nil || c.Count() != 0 || !c.Head().IsZero() {
		t.Errorf("after nothing: %v", err)
	}
	if c, err := ResumeChain(nil, receipts); err == nil || c != nil {
		t.Error("resumed without an authenticator")
	}
}

// TestParseRecords: records that follow each other parse as they do one by one, and
// nothing is left over.
func TestParseRecords(t *testing.T) {
	t.Parallel()
	r := sampleRun(t)
	run, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for i := range run.Receipts {
		text = run.Receipts[i].AppendRecord(text)
	}
	if got, err := ParseRecords(text, 2); err != nil || !reflect.DeepEqual(got, run.Receipts) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseRecords(nil, 0); err != nil || got != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
	if got, err := ParseRecords(text, 1); err == nil || got != nil {
		t.Errorf("more than there may be: %v", got)
	}
	for n := 1; n < len(text); n++ {
		whole := n == len(run.Receipts[0].AppendRecord(nil))
		if got, err := ParseRecords(text[:n], 2); (err == nil) != whole || (got == nil) == whole {
			t.Errorf("%d bytes: %v, %v", n, got, err)
		}
	}
}
