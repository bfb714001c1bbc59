package foreign

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// floorRecord is as much of a record as the receipts of these tests have.
type floorRecord struct {
	Version         int       `json:"version"`
	ActionID        string    `json:"action_id"`
	ActionType      string    `json:"action_type"`
	Timestamp       time.Time `json:"timestamp"`
	Principal       string    `json:"principal"`
	Actor           string    `json:"actor"`
	DelegationChain []string  `json:"delegation_chain"`
	Target          string    `json:"target"`
	SideEffectClass string    `json:"side_effect_class"`
	Reversibility   string    `json:"reversibility"`
	PolicyHash      string    `json:"policy_hash"`
	Verdict         string    `json:"verdict"`
	Phase           string    `json:"decision_phase,omitempty"`
	Transport       string    `json:"transport"`
	PrevHash        string    `json:"chain_prev_hash"`
	Seq             uint64    `json:"chain_seq"`
}

type floorReceipt struct {
	Version   int         `json:"version"`
	Record    floorRecord `json:"action_record"`
	Signature string      `json:"signature"`
	SignerKey string      `json:"signer_key"`
}

// floor is what the standard library alone needs to follow a chain, with no other check.
func floor(t testing.TB, chain []byte, key ed25519.PublicKey) {
	lines := bufio.NewScanner(bytes.NewReader(chain))
	prev := "genesis"
	for lines.Scan() {
		var r floorReceipt
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		record, err := json.Marshal(&r.Record)
		if err != nil {
			t.Fatal(err)
		}
		sig, err := hex.DecodeString(strings.TrimPrefix(r.Signature, "ed25519:"))
		if err != nil {
			t.Fatal(err)
		}
		digest := sha256.Sum256(record)
		if r.Record.PrevHash != prev || !ed25519.Verify(key, digest[:], sig) {
			t.Fatal("the floor does not follow the chain")
		}
		whole, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		hash := sha256.Sum256(whole)
		prev = hex.EncodeToString(hash[:])
	}
}

// follow verifies a chain as the adapter does.
func follow(t testing.TB, chain []byte) {
	v, err := mustPipelock(t, pipelockOptions(asChain)).Verify(t.Context(), bytes.NewReader(chain), Binding{})
	if err != nil || v.Chain != Yes || v.Signature != Yes || v.Trust != Yes {
		t.Fatalf("%+v, %v", v, err)
	}
}

// A pipelockStream is a chain that is made while it is read.
type pipelockStream struct {
	n, end int64
	prev   string
	rest   []byte
	each   func(n int64)
}

func (s *pipelockStream) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		if s.n == s.end {
			return 0, io.EOF
		}
		if s.each != nil {
			s.each(s.n)
		}
		line := pipelockRecord{id: "id-" + strconv.FormatInt(s.n, 10), target: "https://example.com/" + strconv.FormatInt(s.n%100, 10) + `\u0026x`, seq: s.n, prev: s.prev}.sign()
		s.prev = pipelockHash(line)
		s.rest = append(append(s.rest[:0], line...), '\n')
		s.n++
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func pipelockBytes(t testing.TB, n int64) []byte {
	chain, err := io.ReadAll(&pipelockStream{end: n})
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

func TestPipelockSpeed(t *testing.T) {
	if testing.Short() || pipelockRace {
		t.Skip("it measures")
	}
	const most = 1.4
	chain := pipelockBytes(t, 10_000)
	key := pipelockKey.Public.(ed25519.PublicKey)
	best := func(least *time.Duration, f func()) {
		start := time.Now()
		f()
		if d := time.Since(start); *least == 0 || d < *least {
			*least = d
		}
	}
	var ours, least time.Duration
	for try := range 12 {
		best(&least, func() { floor(t, chain, key) })
		best(&ours, func() { follow(t, chain) })
		if try >= 2 && float64(ours) <= most*float64(least) {
			break
		}
	}
	t.Logf("10,000 receipts: %s; the standard library's floor: %s", ours, least)
	if float64(ours) > most*float64(least) {
		t.Errorf("%s is more than %.1f times the floor of %s", ours, most, least)
	}
}

// The heap that is in use does not grow with the chain, once the window is full.
func TestPipelockMemory(t *testing.T) {
	if testing.Short() || pipelockRace {
		t.Skip("it makes many receipts")
	}
	end := int64(31_000)
	if os.Getenv("TRUEGREEN_FULL") != "" {
		end = 100_000
	}
	var heap []uint64
	s := &pipelockStream{end: end, each: func(n int64) {
		if n%10_000 == 0 && n > 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			heap = append(heap, m.HeapAlloc)
		}
	}}
	o := pipelockOptions(asChain, func(o *PipelockOptions) { o.Window = 1024 })
	v, err := mustPipelock(t, o).Verify(t.Context(), s, Binding{})
	if err != nil || v.Receipts != s.end || v.Chain != Yes {
		t.Fatalf("%+v, %v", v, err)
	}
	t.Logf("heap in use: %d", heap)
	for _, h := range heap[1:] {
		if h > heap[0]+512<<10 {
			t.Errorf("%d bytes after %d", h, heap[0])
		}
	}
}

func BenchmarkPipelockChain(b *testing.B) {
	chain := pipelockBytes(b, 1000)
	b.SetBytes(int64(len(chain)))
	b.ReportAllocs()
	for b.Loop() {
		follow(b, chain)
	}
}

func BenchmarkPipelockFloor(b *testing.B) {
	chain := pipelockBytes(b, 1000)
	b.SetBytes(int64(len(chain)))
	b.ReportAllocs()
	for b.Loop() {
		floor(b, chain, pipelockKey.Public.(ed25519.PublicKey))
	}
}
