package foreign

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/receipts/pipelock"
)

// The clock of the corpus, and one after all other vectors.
var (
	corpusTime = time.Date(2026, 4, 15, 12, 0, 0, 0, time.UTC)
	laterTime  = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
)

func vectorsDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Skip("TRUEGREEN_VECTORS is not set")
	}
	return filepath.Join(dir, "pipelock")
}

func vectorFile(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vectorsDir(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func vectorKey(t testing.TB, digits string) Key {
	t.Helper()
	key, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return Key{Public: ed25519.PublicKey(key)}
}

// verifyPipelock returns the codes of what was found, the first one first.
func verifyPipelock(t testing.TB, o PipelockOptions, text []byte, b Binding) (Verification, []string) {
	t.Helper()
	a, err := NewPipelock(o)
	if err != nil {
		t.Fatal(err)
	}
	v, err := a.Verify(t.Context(), bytes.NewReader(text), b)
	if m := new(MalformedError); errors.As(err, &m) {
		if v.Signature != NotAsked || v.Violations != nil || m.Code == "" || m.Err == nil {
			t.Errorf("%+v with %v", v, err)
		}
		return v, []string{m.Code}
	}
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, f := range v.Violations {
		codes = append(codes, f.Code)
	}
	if len(codes) == 0 != (v.Worst() <= Yes) {
		t.Errorf("answers %v with violations %v", v.Answers(), v.Violations)
	}
	return v, codes
}

type pipelockCase struct {
	File, Expect, Reason, Key, Kind, Note string
	RootHash                              string `json:"root_hash"`
}

// options returns what a case of the index is verified with.
func (c *pipelockCase) options(t *testing.T) PipelockOptions {
	o := PipelockOptions{Keys: []Key{vectorKey(t, c.Key)}}
	o.Now = func() time.Time { return laterTime }
	if strings.HasPrefix(c.File, "v1-corpus") {
		o.Now = func() time.Time { return corpusTime }
		o.MaxAge = 8760 * time.Hour
		o.Skew = 15 * time.Minute // 11-run-nonce-bound is 10 minutes ahead of its clock
	}
	o.Chain = c.Kind == "chain" || c.Kind == "recorder"
	o.WholeRecorder = c.Kind == "recorder"
	endorse := func(name string) {
		e, err := pipelock.ParseEndorsement(vectorFile(t, name))
		if err != nil {
			t.Fatal(err)
		}
		o.Endorsements = append(o.Endorsements, e)
		o.Session = "conformance-session"
	}
	switch filepath.Base(c.File) {
	case "rot-valid.jsonl":
		endorse("derived/rot-valid.endorsement.json")
	case "g1-rotated-twice-valid.jsonl":
		endorse("v1-rotation-and-live/g1-rotation-endorsement-2.json")
		fallthrough
	case "g1-rotated-close-count-valid.jsonl":
		endorse("v1-rotation-and-live/g1-rotation-endorsement.json")
	}
	return o
}

// reasons maps the index's words to our codes, where they are not the same words.
var reasons = map[string]string{
	"chain_break at seq 3":               "chain-break",
	"body_tampered":                      "signature-invalid",
	"run_nonce_tampered":                 "signature-invalid",
	"session_open genesis_hash mismatch": "genesis-mismatch",
	"session_open genesis hash mismatch": "genesis-mismatch",
	"session_open on legacy genesis must use bound g1 chain_prev_hash":      "genesis-mismatch",
	"heartbeat chain_head mismatch":                                         "heartbeat-invalid",
	"heartbeat chain_seq_head mismatch":                                     "heartbeat-invalid",
	"session_close receipt_count mismatch":                                  "session-close-invalid",
	"record observed after session_close":                                   "record-after-close",
	"run_nonce first receipt is not a matching session_open":                "run-not-opened",
	"session_control must carry exactly one payload":                        "session-control-invalid",
	"session_open prior_chain_seq does not match prior tail seq":            "session-open-invalid",
	"session_open open_nonce is empty":                                      "session-open-invalid",
	"key_transition prior_signer_key does not match prior segment key":      "rotation-invalid",
	"key_transition prior_chain_seq does not match prior segment final seq": "rotation-invalid",
	"key_transition does not change signer key":                             "rotation-invalid",
	"chain starts at a key_transition segment without the prior segment":    "gap",
	"genesis receipt chain_prev_hash must be genesis":                       "gap",
	"seq gap (duplicate)":                                                   "replay-detected",
	"unexpected seq 0 without a key_transition boundary":                    "replay-detected",
	"key Verdict (wrong case); Go reference accepts":                        "unknown-field",
	"principal null": "wrong-type",
	"UTF-8 BOM":      "malformed-json",
	"invalid UTF-8 byte; Python raises UnicodeDecodeError":            "malformed-json",
	"same receipt signed over true RFC 8785 bytes":                    "signature-invalid",
	"timestamp .000Z; Go re-marshal accepts":                          "not-canonical",
	"upper-case signature hex; both accept, but receipt hash changes": "not-canonical",
	"optional field present as null":                                  "not-canonical",
	"top-level key order changed":                                     "not-canonical",
	`\u006f escape for o`:                                             "not-canonical",
}

func TestPipelockIndex(t *testing.T) {
	t.Parallel()
	var index []pipelockCase
	if err := json.Unmarshal(vectorFile(t, "INDEX.json"), &index); err != nil || len(index) < 90 {
		t.Fatalf("%d cases, %v", len(index), err)
	}
	ran := 0
	for _, c := range index {
		t.Run(c.File, func(t *testing.T) {
			if c.run(t) {
				ran++
			} else {
				t.Errorf("expect %q, kind %q: not a case that this test knows", c.Expect, c.Kind)
			}
		})
	}
	if ran != len(index) {
		t.Errorf("%d of %d cases ran", ran, len(index))
	}
}

func (c *pipelockCase) code() string {
	if code := reasons[c.Reason]; code != "" {
		return code
	}
	return strings.ReplaceAll(c.Reason, "_", "-")
}

// run runs a case, if it knows what the case expects.
func (c *pipelockCase) run(t *testing.T) bool {
	if c.Kind == "vectors" {
		return strings.HasSuffix(c.File, "g1-genesis-vectors.json") // receipts/pipelock runs it
	}
	text := vectorFile(t, c.File)
	v, codes := verifyPipelock(t, c.options(t), text, Binding{})
	exact := func() []string {
		o := c.options(t)
		o.Exact = true
		_, codes := verifyPipelock(t, o, text, Binding{})
		return codes
	}
	refused := func(codes []string, want string) {
		t.Helper()
		if !slices.Contains(codes, want) {
			t.Errorf("codes %q: want %s (%s)", codes, want, c.Reason)
		}
	}
	accepted := func() {
		t.Helper()
		if worst := slices.MaxFunc([]Answer{v.Signature, v.Trust, v.Chain, v.Binding, v.Decision, v.Freshness}, func(a, b Answer) int { return int(a) - int(b) }); v.Signature != Yes || v.Trust != Yes || worst > Yes {
			t.Errorf("%v, %v, %v (%s)", v.Answers(), v.Violations, codes, c.Reason)
		}
	}
	chain := c.Kind == "chain" || c.Kind == "recorder"
	switch {
	case c.Kind == "dsse":
		// An envelope around receipts, which is no receipt: receipts/dsse verifies it.
		refused(codes, "unknown-field")
	case strings.HasPrefix(c.Note, "SUPERSEDED"):
		refused(codes, "unknown-field")
	case c.Expect == "accept" && chain:
		accepted()
		if v.Chain != Yes || v.End == No || v.End == NotAsked {
			t.Errorf("%v, %v", v.Answers(), v.Violations)
		}
		if proven := strings.Contains(c.Reason, "PROVEN") && !strings.Contains(c.Reason, "UNPROVEN"); proven && v.End != Yes {
			t.Errorf("end %s", v.End)
		}
	case c.Expect == "accept", c.Expect == "see-note":
		accepted()
		if !v.Trusted() {
			t.Error("not trusted")
		}
	case c.Expect == "accept-prefix":
		accepted()
		if v.Chain != Yes || v.End != Unproven || v.EndProof != "" || v.Trusted() {
			t.Errorf("%v, %v", v.Answers(), v.Violations)
		}
	case c.Expect == "reject":
		refused(codes, c.code())
	case c.Expect == "differs":
		refused(codes, "gap") // a chain begins with 0
	case c.Expect == "reject-exact", c.Expect == "accept-or-exact-reject":
		accepted()
		refused(exact(), c.code())
	default:
		return false
	}
	if c.RootHash != "" && chain && v.Head != c.RootHash {
		t.Errorf("head %s, want %s", v.Head, c.RootHash)
	}
	return true
}
