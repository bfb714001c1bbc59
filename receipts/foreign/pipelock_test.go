package foreign

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/receipts/pipelock"
)

var (
	pipelockSigner = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	pipelockKey    = Key{Public: pipelockSigner.Public()}
	pipelockOther  = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	pipelockNow    = time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
)

// pipelockRecord is what a test's receipt says that is not the same in all.
type pipelockRecord struct {
	id, target, verdict, phase, run, rest string
	time                                  string
	prev                                  string
	seq                                   int64
	signer                                ed25519.PrivateKey
}

// sign returns the receipt as its writer writes it.
func (r pipelockRecord) sign() string {
	if r.signer == nil {
		r.signer = pipelockSigner
	}
	or := func(s, other string) string {
		if s == "" {
			return other
		}
		return s
	}
	maybe := func(name, s string) string {
		if s == "" {
			return ""
		}
		return `"` + name + `":"` + s + `",`
	}
	run := ""
	if r.run != "" {
		run = `,"run_nonce":"` + r.run + `"`
	}
	record := `{"version":1,"action_id":"` + or(r.id, "id-"+strconv.FormatInt(r.seq, 10)) + `","action_type":"read","timestamp":"` + or(r.time, "2026-01-02T03:04:05Z") +
		`","principal":"p","actor":"a","delegation_chain":null,"target":"` + or(r.target, "https://example.com/") +
		`","side_effect_class":"none","reversibility":"full","policy_hash":"ph","verdict":"` + or(r.verdict, "allow") + `",` + maybe("decision_phase", r.phase) +
		`"transport":"fetch","chain_prev_hash":"` + or(r.prev, "genesis") + `","chain_seq":` + strconv.FormatInt(r.seq, 10) + run + r.rest + `}`
	digest := sha256.Sum256([]byte(record))
	return `{"version":1,"action_record":` + record + `,"signature":"ed25519:` + hex.EncodeToString(ed25519.Sign(r.signer, digest[:])) +
		`","signer_key":"` + hex.EncodeToString(r.signer.Public().(ed25519.PublicKey)) + `"}`
}

func pipelockHash(receipt string) string {
	sum := sha256.Sum256([]byte(receipt))
	return hex.EncodeToString(sum[:])
}

// pipelockChain signs records as a chain.
func pipelockChain(records ...pipelockRecord) []string {
	var lines []string
	for i, r := range records {
		if r.seq == 0 {
			r.seq = int64(i)
		}
		if i > 0 && r.prev == "" {
			r.prev = pipelockHash(lines[i-1])
		}
		lines = append(lines, r.sign())
	}
	return lines
}

func pipelockOptions(change ...func(*PipelockOptions)) PipelockOptions {
	o := PipelockOptions{Keys: []Key{pipelockKey}}
	o.Now = func() time.Time { return pipelockNow }
	for _, c := range change {
		c(&o)
	}
	return o
}

func asChain(o *PipelockOptions) { o.Chain = true }

func text(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

// The behaviours of prompt-shield's adapter for Pipelock, by the numbers of our list of
// them. P15 is about a missing library.
func TestPipelockAdapter(t *testing.T) {
	t.Parallel()
	good := []byte(pipelockRecord{}.sign())
	allowed := Binding{Allowed: true}

	// P1-P3: no key. It is no error here, and never trusted.
	v, codes := verifyPipelock(t, PipelockOptions{}, good, Binding{})
	if v.Signature != Yes || v.Trust != Unproven || v.Trusted() || !slices.Contains(codes, "no-key") {
		t.Errorf("P1-P3: %v, %q", v.Answers(), codes)
	}
	// P4, P5, P14.
	v, codes = verifyPipelock(t, pipelockOptions(), good, allowed)
	if !v.Trusted() || v.Adapter != "pipelock" || v.Form != "v1 receipt" || v.Issuer != hex.EncodeToString(pipelockSigner.Public().(ed25519.PublicKey)) || v.Said != "allow" || v.Receipts != 1 || codes != nil {
		t.Errorf("P4: %+v", v)
	}
	// P6-P11, and a verdict that nobody knows.
	for _, verdict := range []string{"block", "warn", "ask", "strip", "forward", "redirect", "defer", "Allow", "allow "} {
		v, codes := verifyPipelock(t, pipelockOptions(), []byte(pipelockRecord{verdict: verdict}.sign()), allowed)
		if v.Trusted() || v.Decision != No || !slices.Contains(codes, "not-allowed") || !strings.Contains(v.Violations[0].Detail, verdict) {
			t.Errorf("P6-P11: %s: %v, %v", verdict, v.Answers(), v.Violations)
		}
		if v, _ := verifyPipelock(t, pipelockOptions(), []byte(pipelockRecord{verdict: verdict}.sign()), Binding{}); !v.Trusted() || v.Decision != NotAsked || v.Said != verdict {
			t.Errorf("%s as a record: %v", verdict, v.Answers())
		}
	}
	// P12: a signature that is no signature, or another's.
	for _, bad := range []string{
		strings.Replace(string(good), `"verdict":"allow"`, `"verdict":"block"`, 1),
		strings.Replace(string(good), `"ed25519:`, `"ED25519:`, 1),
		strings.Replace(string(good), `"ed25519:`, `"ed25519: `, 1),
		strings.Replace(string(good), `"ed25519:`, `"ed25519:00`, 1),
		string(good[:len(good)-66]) + strings.Repeat("0", 64) + `"}`,
	} {
		v, codes := verifyPipelock(t, pipelockOptions(), []byte(bad), allowed)
		if v.Trusted() || v.Signature != No || v.Trust == Yes || v.Decision == Yes || !slices.Contains(codes, "signature-invalid") {
			t.Errorf("P12: %s: %v, %v", bad, v.Answers(), v.Violations)
		}
	}
	// P13, and a tool.
	v, codes = verifyPipelock(t, pipelockOptions(), good, Binding{ArgHash: "sha256:" + strings.Repeat("0", 64)})
	if v.Trusted() || v.Binding != No || !slices.Equal(codes, []string{"arg-hash-not-carried"}) ||
		!strings.Contains(v.Violations[0].Detail, "arg_hash") || !strings.Contains(v.Violations[0].Detail, "jws") {
		t.Errorf("P13: %v, %v", v.Answers(), v.Violations)
	}
	if v, codes := verifyPipelock(t, pipelockOptions(), good, Binding{Tool: "fetch"}); v.Binding != No || !slices.Equal(codes, []string{"tool-not-carried"}) {
		t.Errorf("tool: %v, %q", v.Answers(), codes)
	}
	// P16.
	for _, bad := range []string{"", " \n", "{", "null", "[]", `"x"`, "\xff", "{}", `{"version":1}`, string(good) + string(good)} {
		if v, err := mustPipelock(t, pipelockOptions()).Verify(t.Context(), strings.NewReader(bad), Binding{}); !errors.As(err, new(*MalformedError)) || v.Adapter != "" {
			t.Errorf("P16: %q: %+v, %v", bad, v, err)
		}
	}
	// A target.
	if v, _ := verifyPipelock(t, pipelockOptions(), good, Binding{Target: "https://example.com/"}); !v.Trusted() || v.Binding != Yes {
		t.Errorf("target: %v", v.Answers())
	}
	if v, codes := verifyPipelock(t, pipelockOptions(), good, Binding{Target: "https://example.com"}); v.Binding != No || !slices.Equal(codes, []string{"target-mismatch"}) {
		t.Errorf("another target: %v, %q", v.Answers(), codes)
	}
}

func mustPipelock(t testing.TB, o PipelockOptions) Adapter {
	t.Helper()
	a, err := NewPipelock(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestPipelockOptions(t *testing.T) {
	t.Parallel()
	seq := int64(1)
	curve, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), mustHex("046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"))
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]PipelockOptions{
		"another kind of key":         {Keys: []Key{{Public: curve}}},
		"secret":                      {Keys: []Key{{Secret: []byte("s")}}},
		"key and secret":              {Keys: []Key{{Public: pipelockKey.Public, Secret: []byte("s")}}},
		"short key":                   {Keys: []Key{{Public: ed25519.PublicKey("s")}}},
		"head of no chain":            {Rules: Rules{Head: strings.Repeat("0", 64)}},
		"seq of no chain":             {Seq: &seq},
		"session of no chain":         {Session: "s"},
		"recorder of no chain":        {WholeRecorder: true},
		"head that is none":           {Rules: Rules{Chain: true, Head: "sha256:0"}},
		"endorsement without a key":   {Rules: Rules{Chain: true}, Endorsements: make([]pipelock.Endorsement, 1)},
		"window of less than nothing": {Window: -1},
	} {
		if a, err := NewPipelock(o); err == nil || a != nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func mustHex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

type seen map[string]time.Time

func (s seen) Add(_ context.Context, issuer, id string, until time.Time) (bool, error) {
	if s == nil {
		return false, errors.New("out of order")
	}
	_, ok := s[issuer+" "+id]
	s[issuer+" "+id] = until
	return !ok, nil
}

func TestPipelockFreshness(t *testing.T) {
	t.Parallel()
	aged := func(d time.Duration) PipelockOptions {
		return pipelockOptions(func(o *PipelockOptions) { o.MaxAge = d })
	}
	at := func(s string) []byte { return []byte(pipelockRecord{time: s}.sign()) }
	for name, c := range map[string]struct {
		o      PipelockOptions
		text   []byte
		answer Answer
		code   string
	}{
		"no age asked for":            {pipelockOptions(), at("2020-01-01T00:00:00Z"), NotAsked, ""},
		"from 2099, no age asked for": {pipelockOptions(), at("2099-01-01T00:00:00Z"), No, "from-the-future"},
		"young":                       {aged(time.Hour), at("2026-01-02T02:05:00Z"), Yes, ""},
		"within the skew":             {aged(time.Hour), at("2026-01-02T02:04:00Z"), Yes, ""},
		"old":                         {aged(time.Hour), at("2026-01-02T02:03:59Z"), No, "expired"},
		"a bit ahead":                 {aged(time.Hour), at("2026-01-02T03:06:00Z"), Yes, ""},
		"ahead":                       {aged(time.Hour), at("2026-01-02T03:06:00.000000001Z"), No, "from-the-future"},
		"in another zone":             {aged(time.Hour), at("2026-01-02T04:05:00+01:00"), Yes, ""},
	} {
		v, codes := verifyPipelock(t, c.o, c.text, Binding{})
		if v.Freshness != c.answer || c.code != "" && !slices.Equal(codes, []string{c.code}) {
			t.Errorf("%s: %s, %q", name, v.Freshness, codes)
		}
	}

	store := seen{}
	o := aged(time.Hour)
	o.Seen = store
	good := at("")
	bad := bytes.Replace(good, []byte(`"allow"`), []byte(`"block"`), 1)
	if v, _ := verifyPipelock(t, o, bad, Binding{}); v.Trusted() || len(store) != 0 {
		t.Errorf("a forged receipt uses up a good one: %v", store)
	}
	if v, _ := verifyPipelock(t, o, good, Binding{Target: "x"}); v.Trusted() || len(store) != 0 {
		t.Errorf("one for something else uses up a good one: %v", store)
	}
	if v, codes := verifyPipelock(t, o, good, Binding{}); !v.Trusted() || v.Freshness != Yes {
		t.Errorf("first: %v, %q", v.Answers(), codes)
	}
	for id, until := range store {
		if !strings.HasSuffix(id, " id-0") || !until.Equal(time.Date(2026, 1, 2, 4, 5, 5, 0, time.UTC)) {
			t.Errorf("%s until %s", id, until)
		}
	}
	if v, codes := verifyPipelock(t, o, good, Binding{}); v.Freshness != No || !slices.Equal(codes, []string{"replay-detected"}) {
		t.Errorf("second: %v, %q", v.Answers(), codes)
	}
	o.Seen = seen(nil)
	if v, err := mustPipelock(t, o).Verify(t.Context(), bytes.NewReader(good), Binding{}); err == nil || errors.As(err, new(*MalformedError)) || v.Adapter != "" {
		t.Errorf("broken store: %+v, %v", v, err)
	}
}

func TestPipelockChain(t *testing.T) {
	t.Parallel()
	six := pipelockChain(make([]pipelockRecord, 6)...)
	head, third := pipelockHash(six[5]), pipelockHash(six[2])
	seq := func(n int64) func(*PipelockOptions) { return func(o *PipelockOptions) { o.Seq = &n } }
	at := func(h string) func(*PipelockOptions) { return func(o *PipelockOptions) { o.Head = h } }
	two := func(a, b pipelockRecord) []string { return pipelockChain(a, b) }
	none := func(*PipelockOptions) {}
	unsigned := slices.Clone(six)
	unsigned[3] = strings.Replace(unsigned[3], `"allow"`, `"block"`, 1)
	for name, c := range map[string]struct {
		lines  []string
		option func(*PipelockOptions)
		chain  Answer
		end    Answer
		code   string
	}{
		"no end":                    {six, none, Yes, Unproven, "end-unproven"},
		"head":                      {six, at(head), Yes, Yes, ""},
		"seq":                       {six, seq(5), Yes, Yes, ""},
		"truncated, by head":        {six[:4], at(head), Yes, No, "head-mismatch"},
		"truncated, by seq":         {six[:4], seq(5), Yes, No, "truncated"},
		"longer than the head":      {six, at(third), Yes, No, "head-mismatch"},
		"longer than the seq":       {six, seq(2), Yes, No, "seq-mismatch"},
		"gap":                       {append(slices.Clone(six[:2]), six[3:]...), at(head), No, Unproven, "gap"},
		"fork":                      {append(slices.Clone(six), pipelockRecord{id: "x", seq: 3, prev: third}.sign()), none, No, Unproven, "fork"},
		"tampered":                  {unsigned, none, Unproven, Unproven, "signature-invalid"},
		"intent and outcome":        {two(pipelockRecord{id: "i", phase: "intent"}, pipelockRecord{id: "i", phase: "outcome"}), none, Yes, Unproven, "end-unproven"},
		"action twice":              {two(pipelockRecord{id: "i"}, pipelockRecord{id: "i"}), none, Yes, Unproven, "replay-detected"},
		"blocked, then allowed":     {two(pipelockRecord{verdict: "block"}, pipelockRecord{}), none, Yes, Unproven, "verdict-chain-mismatch"},
		"so, and the caller agrees": {two(pipelockRecord{verdict: "block"}, pipelockRecord{}), func(o *PipelockOptions) { o.AllowReversals = true }, Yes, Unproven, "end-unproven"},
		"allowed, then blocked":     {two(pipelockRecord{}, pipelockRecord{verdict: "block"}), none, Yes, Unproven, "end-unproven"},
		"asked, then allowed":       {two(pipelockRecord{verdict: "ask"}, pipelockRecord{}), none, Yes, Unproven, "end-unproven"},
		"other signer":              {two(pipelockRecord{}, pipelockRecord{signer: pipelockOther}), none, No, Unproven, "signer-changed"},
		"lines of white space":      {[]string{"", six[0], " \r", six[1]}, seq(1), Yes, Yes, ""},
		"control character":         {two(pipelockRecord{}, pipelockRecord{target: `x\r\nSet-Cookie: a`}), none, Yes, Unproven, "header-injection"},
		"another session":           {six, func(o *PipelockOptions) { o.Session = "s" }, Yes, Unproven, "session-mismatch"},
		"malformed":                 {append(slices.Clone(six), `{"x":1}`), none, NotAsked, NotAsked, "unknown-field"},
		"torn":                      {append(slices.Clone(six), six[0][:100]), none, NotAsked, NotAsked, "malformed-json"},
		"nothing":                   {nil, none, NotAsked, NotAsked, "empty"},
	} {
		v, codes := verifyPipelock(t, pipelockOptions(asChain, c.option), text(c.lines), Binding{})
		if v.Chain != c.chain || v.End != c.end || c.code != "" && !slices.Contains(codes, c.code) || c.code == "" && codes != nil {
			t.Errorf("%s: %v, %v", name, v.Answers(), v.Violations)
		}
		if (v.End == Yes) != (v.EndProof != "") || c.code == "" != v.Trusted() {
			t.Errorf("%s: end %s by %q, trusted %t", name, v.End, v.EndProof, v.Trusted())
		}
	}

	// A beginning of a chain is a chain, whose end is not proven.
	for n := 1; n <= len(six); n++ {
		v, _ := verifyPipelock(t, pipelockOptions(asChain), text(six[:n]), Binding{Allowed: true, Target: "https://example.com/"})
		if v.Chain != Yes || v.End != Unproven || v.Binding != Yes || v.Decision != Yes || v.Receipts != int64(n) || v.Head != pipelockHash(six[n-1]) {
			t.Errorf("%d receipts: %+v", n, v)
		}
	}
	// Where nobody was named, the first key is not trusted for being there.
	v, codes := verifyPipelock(t, PipelockOptions{Rules: Rules{Chain: true, Head: head}}, text(six), Binding{})
	if v.Chain != Yes || v.End != Yes || v.Trust != Unproven || !slices.Equal(codes, []string{"no-key"}) {
		t.Errorf("no key: %v, %q", v.Answers(), codes)
	}
	// What stops a verification leaves nothing proven of what comes after.
	v, _ = verifyPipelock(t, pipelockOptions(asChain, func(o *PipelockOptions) { o.MaxAge = time.Hour }), text(unsigned[3:]), Binding{Allowed: true, Target: "t"})
	if v.Freshness == Yes || v.Binding == Yes || v.Decision == Yes || v.Chain == Yes || v.End == Yes {
		t.Errorf("nothing was read: %v", v.Answers())
	}
}

// A window forgets, and does not grow.
func TestPipelockWindow(t *testing.T) {
	t.Parallel()
	const size = 4
	records := make([]pipelockRecord, 20)
	for i := range records {
		records[i].id = fmt.Sprint("n", i)
	}
	for distance, want := range map[int]bool{1: true, size: true, 2*size + 1: false} {
		twice := slices.Clone(records)
		twice[15].id = twice[15-distance].id
		_, codes := verifyPipelock(t, pipelockOptions(asChain, func(o *PipelockOptions) { o.Window = size }), text(pipelockChain(twice...)), Binding{})
		if slices.Contains(codes, "replay-detected") != want {
			t.Errorf("%d receipts apart: %q", distance, codes)
		}
	}
}

func TestPipelockRotation(t *testing.T) {
	t.Parallel()
	lines := vectorFile(t, "derived/rot-valid.jsonl")
	one := vectorKey(t, "4655a7e605c12ebb00a46037881c33c5bca5eb74b45a02e8e7261a7ff5a21678")
	both := vectorKey(t, "970955695494cf0fb3109671e673ecaeb0a161e834861a325b97b0656e3c9cd1")
	endorsed := func(names ...string) func(*PipelockOptions) {
		return func(o *PipelockOptions) {
			for _, name := range names {
				e, err := pipelock.ParseEndorsement(vectorFile(t, "derived/rot-valid.endorsement"+name+".json"))
				if err != nil {
					t.Fatal(err)
				}
				o.Endorsements = append(o.Endorsements, e)
			}
		}
	}
	none := func(*PipelockOptions) {}
	for name, c := range map[string]struct {
		keys   []Key
		option func(*PipelockOptions)
		trust  Answer
		code   string
	}{
		"both keys":                {[]Key{one, both}, none, Yes, "end-unproven"},
		"the first":                {[]Key{one}, none, No, "signer-key-untrusted"},
		"the second":               {[]Key{both}, none, No, "signer-key-untrusted"},
		"endorsed":                 {[]Key{one}, endorsed(""), Yes, "end-unproven"},
		"endorsed by the new key":  {[]Key{one}, endorsed("-forged-by-new-key"), No, "endorsement-invalid"},
		"of another session":       {[]Key{one}, endorsed("-other-session"), No, "endorsement-unused"},
		"endorsed twice":           {[]Key{one}, endorsed("", ""), No, "endorsement-ambiguous"},
		"one that is not used":     {[]Key{one}, endorsed("", "-other-session"), No, "endorsement-unused"},
		"from a key of no account": {[]Key{both}, endorsed(""), No, "endorsement-invalid"},
		"no keys":                  {nil, none, Unproven, "no-key"},
	} {
		o := PipelockOptions{Keys: c.keys}
		o.Now, o.Chain = func() time.Time { return laterTime }, true
		c.option(&o)
		v, codes := verifyPipelock(t, o, lines, Binding{})
		if v.Trust != c.trust || !slices.Contains(codes, c.code) || v.Chain != Yes || v.Signature != Yes {
			t.Errorf("%s: %v, %v", name, v.Answers(), v.Violations)
		}
	}
}

// Every byte of a chain counts, but white space between its parts.
func TestPipelockChainFlips(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"derived/ext-chain.jsonl", "derived/g1-valid-chain.jsonl"} {
		lines := vectorFile(t, file)
		o := PipelockOptions{Keys: []Key{vectorKey(t, "4655a7e605c12ebb00a46037881c33c5bca5eb74b45a02e8e7261a7ff5a21678")}}
		o.Now, o.Chain = func() time.Time { return laterTime }, true
		v, _ := verifyPipelock(t, o, lines, Binding{})
		o.Head = v.Head
		if v, codes := verifyPipelock(t, o, lines, Binding{}); !v.Trusted() {
			t.Fatalf("%s: %q", file, codes)
		}
		a := mustPipelock(t, o)
		for i := range lines {
			changed := bytes.Clone(lines)
			changed[i] ^= 1 << (i % 8)
			v, err := a.Verify(t.Context(), bytes.NewReader(changed), Binding{})
			if err == nil && v.Trusted() && len(bytes.Fields(changed)) == len(bytes.Fields(lines)) {
				t.Errorf("%s: byte %d: %q for %q is trusted", file, i, changed[i], lines[i])
			}
		}
	}
}

// recorderEntry is an entry as this test writes it, for itself.
type recorderEntry map[string]json.RawMessage

func (e recorderEntry) text(name string) string {
	var s string
	_ = json.Unmarshal(e[name], &s) // absent is empty
	return s
}

// seal computes the hash of a v 2 entry, and returns it.
func (e recorderEntry) seal(prev string) string {
	e["prev_hash"], _ = json.Marshal(prev)
	sum := sha256.Sum256([]byte(strings.Join([]string{string(e["v"]), string(e["seq"]), e.text("ts"), e.text("session_id"), e.text("trace_id"),
		e.text("type"), e.text("event_kind"), e.text("transport"), e.text("summary"), string(e["detail"]), e.text("raw_ref"), prev}, "\x00")))
	hash := hex.EncodeToString(sum[:])
	e["hash"], _ = json.Marshal(hash)
	return hash
}

func TestPipelockRecorder(t *testing.T) {
	t.Parallel()
	live := bytes.Split(bytes.TrimSpace(vectorFile(t, "v1-rotation-and-live/v3_2_0_live_chain.jsonl")), []byte("\n"))
	key := vectorKey(t, "7b50779c51c9968bd70551d777d3672dedf3d68e008fbffa1c0de18dedb92897")
	// rewritten returns the recorder after a change, with all hashes made anew.
	rewritten := func(change func([]recorderEntry) []recorderEntry) []byte {
		var list []recorderEntry
		for _, line := range live {
			e := recorderEntry{}
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatal(err)
			}
			list = append(list, e)
		}
		list = change(list)
		prev := "genesis"
		var out bytes.Buffer
		for i, e := range list {
			e["seq"] = json.RawMessage(strconv.Itoa(i))
			prev = e.seal(prev)
			fmt.Fprint(&out, "{")
			n := 0
			for name, value := range e {
				if n > 0 {
					fmt.Fprint(&out, ",")
				}
				n++
				fmt.Fprintf(&out, "%q:%s", name, value)
			}
			fmt.Fprintln(&out, "}")
		}
		return out.Bytes()
	}
	same := func(list []recorderEntry) []recorderEntry { return list }
	without := func(types ...string) func([]recorderEntry) []recorderEntry {
		return func(list []recorderEntry) []recorderEntry {
			return slices.DeleteFunc(list, func(e recorderEntry) bool { return slices.Contains(types, e.text("type")) })
		}
	}
	set := func(at int, name, value string) func([]recorderEntry) []recorderEntry {
		return func(list []recorderEntry) []recorderEntry {
			list[at][name] = json.RawMessage(value)
			return list
		}
	}
	edited := bytes.Replace(bytes.Join(live, []byte("\n")), []byte("receipt: allow read fetch"), []byte("receipt: block read fetch"), 1)
	inString := func(list []recorderEntry) []recorderEntry {
		list[1]["detail"], _ = json.Marshal(string(list[1]["detail"]))
		return list
	}
	for name, c := range map[string]struct {
		text             []byte
		whole            bool
		chain, end, sign Answer
		code             string
	}{
		"whole":                      {bytes.Join(live, []byte("\n")), true, Yes, Yes, Yes, ""},
		"whole, and written anew":    {rewritten(same), true, Yes, Yes, Yes, ""},
		"receipts":                   {bytes.Join(live, []byte("\n")), false, Yes, Unproven, Yes, "end-unproven"},
		"no evidence receipts":       {rewritten(without("evidence_receipt")), false, Yes, Yes, Yes, ""},
		"receipt in a string":        {rewritten(inString), false, Yes, Unproven, Yes, "end-unproven"},
		"summary edited":             {edited, true, No, Unproven, Yes, "recorder-hash-mismatch"},
		"summary edited, receipts":   {edited, false, Yes, Unproven, Yes, "end-unproven"},
		"summary and all hashes":     {rewritten(set(1, "summary", `"x"`)), true, Unproven, Unproven, No, "checkpoint-signature-invalid"},
		"no checkpoint":              {bytes.Join(live[:18], []byte("\n")), true, Yes, Unproven, Yes, "end-unproven"},
		"no root":                    {bytes.Join(live[:17], []byte("\n")), true, Yes, Unproven, Yes, "end-unproven"},
		"an entry is missing":        {bytes.Join(slices.Delete(slices.Clone(live), 2, 3), []byte("\n")), true, No, Unproven, Yes, "recorder-chain-break"},
		"an evidence receipt less":   {bytes.Join(slices.Delete(slices.Clone(live), 2, 3), []byte("\n")), false, No, Unproven, Yes, "gap"},
		"the last evidence less":     {bytes.Join(slices.Delete(slices.Clone(live), 12, 13), []byte("\n")), false, Yes, Unproven, Yes, "end-unproven"},
		"an action receipt less":     {bytes.Join(slices.Delete(slices.Clone(live), 16, 17), []byte("\n")), false, Yes, No, Yes, "truncated"},
		"an entry after the seal":    {bytes.Join(append(slices.Clone(live), bytes.Replace(live[18], []byte(`"type":"checkpoint"`), []byte(`"type":"decision"`), 1)), []byte("\n")), false, Yes, No, Yes, "entry-after-seal"},
		"another root":               {rewritten(set(17, "detail", `{"session_id":"proxy","final_seq":10,"root_hash":"0","receipt_count":11,"start_time":"2026-07-24T22:57:41Z","end_time":"2026-07-24T23:00:44Z"}`)), false, Yes, No, Yes, "transcript-root-mismatch"},
		"checkpoint of other places": {rewritten(set(18, "detail", `{"entry_count":18,"first_seq":1,"last_seq":18,"signature":""}`)), true, NotAsked, NotAsked, NotAsked, "checkpoint-invalid"},
		"checkpoint without a word":  {rewritten(set(18, "detail", `{"entry_count":18,"first_seq":0,"last_seq":17}`)), true, Yes, Unproven, Yes, "end-unproven"},
		"another session":            {rewritten(set(3, "session_id", `"other"`)), true, No, Unproven, Yes, "recorder-chain-break"},
		"unknown type":               {rewritten(set(3, "type", `"other"`)), false, NotAsked, NotAsked, NotAsked, "unsupported-version"},
		"unknown member":             {rewritten(set(3, "x", `1`)), false, NotAsked, NotAsked, NotAsked, "unknown-field"},
		"NUL in a summary":           {rewritten(set(3, "summary", `"a\u0000b"`)), true, No, Unproven, Yes, "recorder-hash-mismatch"},
		"nothing but a decision":     {rewritten(func(l []recorderEntry) []recorderEntry { return set(0, "type", `"decision"`)(l[:1]) }), false, NotAsked, NotAsked, NotAsked, "empty"},
		"a bare receipt behind it":   {append(bytes.Join(live[:3], []byte("\n")), "\n"+pipelockRecord{}.sign()...), false, NotAsked, NotAsked, NotAsked, "mixed-formats"},
		"a recorder behind a chain":  {append([]byte(pipelockRecord{}.sign()+"\n"), live[1]...), false, NotAsked, NotAsked, NotAsked, "mixed-formats"},
	} {
		o := PipelockOptions{Keys: []Key{key, pipelockKey}, WholeRecorder: c.whole}
		o.Now, o.Chain = func() time.Time { return laterTime }, true
		v, codes := verifyPipelock(t, o, c.text, Binding{})
		if v.Chain != c.chain || v.End != c.end || v.Signature != c.sign || c.code != "" && !slices.Contains(codes, c.code) || c.code == "" && codes != nil {
			t.Errorf("%s: %v, %v, %q", name, v.Answers(), v.Violations, codes)
		}
		if covered := !slices.Contains(v.Uncovered, "summary"); v.Chain == Yes && covered != (c.whole && v.End == Yes) {
			t.Errorf("%s: uncovered %q", name, v.Uncovered)
		}
	}

	// The evidence receipts of a recorder are a chain by themselves.
	var evidence []string
	for _, line := range live {
		e := recorderEntry{}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.text("type") == "evidence_receipt" {
			evidence = append(evidence, string(e["detail"]))
		}
	}
	o := PipelockOptions{Keys: []Key{key}, Exact: true}
	o.Now, o.Chain = func() time.Time { return laterTime }, true
	v, codes := verifyPipelock(t, o, text(evidence), Binding{Allowed: true, Target: "https://example.org/"})
	if v.Form != "v2 chain" || v.Receipts != 6 || v.Chain != Yes || v.End != Unproven || v.Binding != Yes || v.Decision != Yes || v.Trust != Yes || !slices.Equal(codes, []string{"end-unproven"}) {
		t.Errorf("%+v", v)
	}
	o.Head = v.Head
	if v, codes := verifyPipelock(t, o, text(evidence), Binding{}); !v.Trusted() || v.EndProof != "expected-head" {
		t.Errorf("%v, %q", v.Answers(), codes)
	}
	for name, c := range map[string]struct {
		lines []string
		code  string
	}{
		"gap":        {slices.Delete(slices.Clone(evidence), 1, 2), "gap"},
		"no head":    {evidence[1:], "gap"},
		"twice":      {append(slices.Clone(evidence), evidence[2]), "replay-detected"},
		"tampered":   {[]string{strings.Replace(evidence[0], `"verdict":"allow"`, `"verdict":"block"`, 1)}, "signature-invalid"},
		"mixed":      {[]string{evidence[0], pipelockRecord{}.sign()}, "mixed-formats"},
		"truncated":  {evidence[:5], "head-mismatch"},
		"not exact":  {[]string{strings.Replace(evidence[0], `"allow"`, `"\u0061llow"`, 1)}, "not-canonical"},
		"other kind": {[]string{strings.Replace(evidence[0], `"payload_kind":"proxy_decision"`, `"payload_kind":"defer_opened"`, 1)}, "payload-invalid"},
		"other crit": {[]string{strings.Replace(evidence[0], `["canonicalization"]`, `["canonicalization","x"]`, 1)}, "unsupported-version"},
		"no crit":    {[]string{strings.Replace(evidence[0], `["canonicalization"]`, `[]`, 1)}, "missing-required-field"},
		"fraction":   {[]string{strings.Replace(evidence[0], `"chain_seq":0`, `"chain_seq":0.0`, 1)}, "wrong-type"},
		"purpose":    {[]string{strings.Replace(evidence[0], `"receipt-signing"`, `"contract-activation-signing"`, 1)}, "payload-invalid"},
		"profile":    {[]string{strings.Replace(evidence[0], `"rfc8785"`, `"rfc8786"`, 1)}, "unsupported-version"},
		"policy":     {[]string{strings.Replace(evidence[0], `"policy_hash":"sha256:`, `"policy_hash":"`, 1)}, "missing-required-field"},
		"unknown":    {[]string{strings.Replace(evidence[0], `"transport"`, `"x":1,"transport"`, 1)}, "unknown-field"},
		"two cases":  {[]string{strings.Replace(evidence[0], `"verdict"`, `"Verdict":"allow","verdict"`, 1)}, "unknown-field"},
	} {
		if v, codes := verifyPipelock(t, o, text(c.lines), Binding{}); v.Trusted() || !slices.Contains(codes, c.code) {
			t.Errorf("%s: %v, %q; want %s", name, v.Answers(), codes, c.code)
		}
	}
}

// A name without a key in it is for the key of that name, or one without a name.
func TestPipelockEvidenceKeys(t *testing.T) {
	t.Parallel()
	receipt := vectorFile(t, "v2-golden/valid_evidence_receipt_proxy_decision.json")
	good := vectorKey(t, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
	named := func(k Key, name string) Key { k.Name = name; return k }
	for name, c := range map[string]struct {
		keys        []Key
		sign, trust Answer
	}{
		"no name":        {[]Key{pipelockKey, good}, Yes, Yes},
		"its name":       {[]Key{named(good, "receipt-signing-test")}, Yes, Yes},
		"another name":   {[]Key{named(good, "other")}, Unproven, No},
		"the wrong key":  {[]Key{named(pipelockKey, "receipt-signing-test"), good}, No, Unproven},
		"no key at all":  {nil, Unproven, Unproven},
		"only wrong one": {[]Key{pipelockKey}, No, Unproven},
	} {
		o := PipelockOptions{Keys: c.keys}
		o.Now = func() time.Time { return laterTime }
		if v, codes := verifyPipelock(t, o, receipt, Binding{}); v.Signature != c.sign || v.Trust != c.trust {
			t.Errorf("%s: %v, %q", name, v.Answers(), codes)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestPipelockErrors(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, chain := range []bool{false, true} {
		a := mustPipelock(t, pipelockOptions(func(o *PipelockOptions) { o.Chain = chain }))
		if _, err := a.Verify(t.Context(), failing{}, Binding{}); !errors.Is(err, io.ErrClosedPipe) || errors.As(err, new(*MalformedError)) {
			t.Errorf("chain %t: %v", chain, err)
		}
		var m *MalformedError
		if _, err := a.Verify(t.Context(), strings.NewReader(strings.Repeat("x", pipelock.MaxReceipt+1)), Binding{}); !errors.As(err, &m) || m.Code != pipelock.TooLong {
			t.Errorf("chain %t: %v", chain, err)
		}
	}
	if _, err := mustPipelock(t, pipelockOptions(asChain)).Verify(ended, bytes.NewReader(text(pipelockChain(pipelockRecord{}))), Binding{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var m *MalformedError
	_, err := mustPipelock(t, pipelockOptions(asChain)).Verify(t.Context(), strings.NewReader("\n"+pipelockRecord{}.sign()+"\n\n{"), Binding{})
	if !errors.As(err, &m) || m.Line != 4 || m.Code != "malformed-json" {
		t.Error(err)
	}
}
