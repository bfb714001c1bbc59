package pipelock

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var testKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

// sign makes a receipt of the members of a record, in the order in which they are given.
func sign(record string, key ed25519.PrivateKey) string {
	digest := sha256.Sum256([]byte(record))
	return fmt.Sprintf(`{"version":1,"action_record":%s,"signature":"ed25519:%x","signer_key":"%x"}`,
		record, ed25519.Sign(key, digest[:]), key.Public())
}

// plain is a record with some members of its own before chain_prev_hash, seq and others
// at its end.
func plain(id string, before, prev string, seq int, after string) string {
	return fmt.Sprintf(`{"version":1,"action_id":"%s","action_type":"read","timestamp":"2026-01-02T03:04:05.6Z","principal":"p",`+
		`"actor":"a","delegation_chain":null,"target":"https://example.com/?a=1\u0026b","side_effect_class":"none","reversibility":"full",`+
		`"policy_hash":"","verdict":"allow","transport":"fetch",%s"chain_prev_hash":"%s","chain_seq":%d%s}`, id, before, prev, seq, after)
}

func code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// chainOf signs records one after the other.
func chainOf(t testing.TB, n int) []string {
	t.Helper()
	var lines []string
	prev := legacyGenesis
	for i := range n {
		lines = append(lines, sign(plain(fmt.Sprintf("id-%d", i), "", prev, i, ""), testKey))
		r, err := new(Decoder).Decode([]byte(lines[i]))
		if err != nil {
			t.Fatal(err)
		}
		prev = r.HashText()
	}
	return lines
}

// add adds a chain's lines, and returns the code of the first that is refused.
func add(t testing.TB, lines []string) (*Chain, string) {
	t.Helper()
	c, d := new(Chain), new(Decoder)
	for _, line := range lines {
		r, err := d.Decode([]byte(line))
		if err != nil {
			return c, code(err)
		}
		if !r.Verify(testKey.Public().(ed25519.PublicKey)) {
			return c, "signature"
		}
		if err := c.Add(r); err != nil {
			return c, code(err)
		}
	}
	return c, ""
}

func TestDecode(t *testing.T) {
	t.Parallel()
	good := sign(plain("id", "", "genesis", 0, ""), testKey)
	change := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %s in %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	deep := func(n int) string {
		return change(`"signature"`, `"ext":`+strings.Repeat("[", n)+strings.Repeat("]", n)+`,"signature"`)
	}
	for name, c := range map[string]struct{ text, want string }{
		"good":                      {good, ""},
		"white space around":        {" \r\n" + good + "\t\n", ""},
		"128 levels":                {deep(127), ""},
		"129 levels":                {deep(128), codeTooDeep},
		"empty":                     {"", codeMalformedJSON},
		"a list":                    {"[" + good + "]", codeMalformedJSON},
		"null":                      {"null", codeMalformedJSON},
		"two":                       {good + good, codeMalformedJSON},
		"cut":                       {good[:len(good)-1], codeMalformedJSON},
		"byte order mark":           {"\ufeff" + good, codeMalformedJSON},
		"not UTF-8":                 {change("id", "\xff"), codeMalformedJSON},
		"lone surrogate":            {change("id", `\ud800`), codeMalformedJSON},
		"NUL between tokens":        {change(`,"actor"`, "\x00,\"actor\""), codeMalformedJSON},
		"duplicate":                 {change(`"verdict":"allow"`, `"verdict":"block","verdict":"allow"`), codeDuplicateKey},
		"duplicate, escaped":        {change(`"verdict":"allow"`, `"v\u0065rdict":"block","verdict":"allow"`), codeDuplicateKey},
		"duplicate in ext":          {change(`"signature"`, `"ext":[{"a":1,"\u0061":2}],"signature"`), codeDuplicateKey},
		"two cases in ext":          {change(`"signature"`, `"ext":{"a":1,"A":2},"signature"`), ""},
		"duplicate and then junk":   {change(`"verdict":"allow"`, `"verdict":"block","verdict":"allow"`) + "x", codeMalformedJSON},
		"unknown and duplicate":     {change(`"verdict":"allow"`, `"x":1,"verdict":"block","verdict":"allow"`), codeDuplicateKey},
		"two cases (d01)":           {change(`"verdict":"allow"`, `"verdict":"allow","VERDICT":"block"`), codeUnknownField},
		"another case":              {change(`"verdict"`, `"Verdict"`), codeUnknownField},
		"Kelvin sign":               {change(`"version"`, `"ver\u017fion"`), codeUnknownField},
		"unknown in an object":      {change(`"chain_prev_hash"`, `"redaction":{"x":1},"chain_prev_hash"`), codeUnknownField},
		"record_type":               {change(`"signature"`, `"record_type":"action_receipt_v1","signature"`), codeUnknownField},
		"unknown and a wrong type":  {change(`"actor":"a"`, `"actor":1,"x":1`), codeUnknownField},
		"null for a string":         {change(`"actor":"a"`, `"actor":null`), codeWrongType},
		"bool for a number":         {change(`"chain_seq":0`, `"chain_seq":false`), codeWrongType},
		"fraction":                  {change(`"chain_seq":0`, `"chain_seq":0.0`), codeWrongType},
		"exponent":                  {change(`"chain_seq":0`, `"chain_seq":1e0`), codeWrongType},
		"minus zero":                {change(`"chain_seq":0`, `"chain_seq":-0`), codeWrongType},
		"negative":                  {change(`"chain_seq":0`, `"chain_seq":-1`), codeWrongType},
		"2^53":                      {change(`"chain_seq":0`, `"chain_seq":9007199254740992`), codeUnsafeNumber},
		"2^64":                      {change(`"chain_seq":0`, `"chain_seq":18446744073709551616`), codeUnsafeNumber},
		"lower-case time":           {change("T03", "t03"), codeWrongType},
		"ten digits":                {change("05.6Z", "05.6000000000Z"), codeWrongType},
		"offset of a day":           {change("05.6Z", "05.6+24:00"), codeWrongType},
		"comma":                     {change("05.6Z", "05,6Z"), codeWrongType},
		"version 2":                 {change(`"version":1`, `"version":2`), codeUnsupportedVersion},
		"record version":            {change(`{"version":1,"action_id"`, `{"version":0,"action_id"`), codeUnsupportedVersion},
		"version before a lack":     {strings.Replace(change(`"version":1`, `"version":2`), `"actor":"a",`, "", 1), codeUnsupportedVersion},
		"no actor":                  {change(`"actor":"a",`, ""), codeMissingField},
		"no record":                 {`{"version":1,"signature":"s","signer_key":"k"}`, codeMissingField},
		"no target":                 {change(`https://example.com/?a=1\u0026b`, ""), codeMissingField},
		"zero time":                 {change("2026-01-02T03:04:05.6Z", "0001-01-01T00:00:00Z"), codeMissingField},
		"empty time":                {change("2026-01-02T03:04:05.6Z", ""), codeMissingField},
		"empty signer":              {change(fmt.Sprintf("%x", testKey.Public()), ""), codeMissingField},
		"action type":               {change(`"read"`, `"Read"`), codeInvalidActionType},
		"wrapper with a lie":        {`{"body":` + good + `,"declared_length":9999}`, codePaddingAttack},
		"wrapper without":           {`{"body":` + good + fmt.Sprintf(`,"declared_length":%d}`, len(good)), UnknownWrapper},
		"bundle with a lie":         {`{"receipts":[` + good + `],"declared_receipt_count":2}`, codeCountMismatch},
		"bundle without":            {`{"receipts":[` + good + `],"declared_receipt_count":1}`, UnknownWrapper},
		"control of unknown kind":   {change(`"chain_seq":0`, `"chain_seq":0,"session_control":{"kind":"x"}`), codeInvalidControl},
		"control without a payload": {change(`"chain_seq":0`, `"chain_seq":0,"session_control":{"kind":"heartbeat"}`), codeInvalidControl},
		"too long":                  {good + strings.Repeat(" ", MaxReceipt) + "x", codeMalformedJSON},
	} {
		r, err := new(Decoder).Decode([]byte(c.text))
		if code(err) != c.want || (r == nil) != (err != nil) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// One receipt has many texts, and one hash; the exact form takes one of them.
func TestForms(t *testing.T) {
	t.Parallel()
	good := sign(plain("id", `"redaction":{"by_class":{"B":1,"a":2}},`, "genesis", 0, ""), testKey)
	want, err := (&Decoder{Exact: true}).Decode([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"space":            {`"actor":`, `"actor" : `},
		"escape":           {`"fetch"`, `"f\u0065tch"`},
		"raw &":            {`\u0026`, `&`},
		"zero":             {`"transport"`, `"session_id":"","transport"`},
		"null":             {`"transport"`, `"shield":null,"transport"`},
		"empty list":       {`"transport"`, `"precedent_refs":[],"transport"`},
		"order":            {`"principal":"p","actor":"a"`, `"actor":"a","principal":"p"`},
		"order of counts":  {`"B":1,"a":2`, `"a":2,"B":1`},
		"zeros of a time":  {`05.6Z`, `05.600Z`},
		"offset of a time": {`05.6Z`, `05.6+00:00`},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if text == good {
			t.Fatalf("%s: no change", name)
		}
		r, err := new(Decoder).Decode([]byte(text))
		if err != nil || r.Hash != want.Hash || !r.Verify(testKey.Public().(ed25519.PublicKey)) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if _, err := (&Decoder{Exact: true}).Decode([]byte(text)); code(err) != codeNotCanonical {
			t.Errorf("%s: exact: %v", name, err)
		}
	}
	// These say something else.
	for name, change := range map[string][2]string{
		"null is not []":   {`"delegation_chain":null`, `"delegation_chain":[]`},
		"empty object":     {`"transport"`, `"shield":{},"transport"`},
		"another offset":   {`03:04:05.6Z`, `04:04:05.6+01:00`},
		"composed letters": {`"actor":"a"`, `"actor":"ä"`},
	} {
		r, err := new(Decoder).Decode([]byte(strings.Replace(good, change[0], change[1], 1)))
		if err != nil || r.Hash == want.Hash || r.Verify(testKey.Public().(ed25519.PublicKey)) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// What encoding/json writes is the format's canonical form of a string.
func TestStrings(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for r := range rune(0x3000) {
		all.WriteRune(r)
	}
	all.WriteString("\U0001f600\ufffd\ue000 <a&b>")
	want, err := json.Marshal(all.String())
	if err != nil {
		t.Fatal(err)
	}
	if got := appendString(nil, []byte(all.String())); !bytes.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestBytesFlipped(t *testing.T) {
	t.Parallel()
	lines := chainOf(t, 3)
	lines[1] = strings.TrimSuffix(lines[1], "}") + `,"ext":{"k":"v"}}`
	_, err := new(Decoder).Decode([]byte(lines[1]))
	if err != nil {
		t.Fatal(err)
	}
	for i := range lines[0] {
		for bit := range 8 {
			text := []byte(lines[0])
			text[i] ^= 1 << bit
			r, err := new(Decoder).Decode(text)
			if err != nil || !r.Verify(testKey.Public().(ed25519.PublicKey)) || r.SignerKey != hex.EncodeToString(testKey.Public().(ed25519.PublicKey)) {
				continue
			}
			// A digit of the signature in upper case is the same signature under another hash.
			again := append([]string{string(text)}, lines[1:]...)
			if _, code := add(t, again); code != codeChainBreak {
				t.Errorf("byte %d, bit %d: %q is accepted (%s)", i, bit, text, code)
			}
		}
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	lines := chainOf(t, 6)
	fork := sign(plain("other", "", "genesis", 0, ""), testKey)
	r, err := new(Decoder).Decode([]byte(lines[1]))
	if err != nil {
		t.Fatal(err)
	}
	fork2 := sign(plain("other", "", r.HashText(), 2, ""), testKey)
	with := func(line string, at int) []string {
		return append(append(append([]string{}, lines[:at]...), line), lines[at:]...)
	}
	replaced := append([]string{}, lines...)
	replaced[2] = fork2
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"whole":              {lines, ""},
		"missing head":       {lines[1:], codeGap},
		"missing middle":     {append(append([]string{}, lines[:2]...), lines[3:]...), codeGap},
		"swapped":            {[]string{lines[0], lines[2], lines[1], lines[3]}, codeGap},
		"backwards":          {[]string{lines[0], lines[1], fork2, lines[1]}, Replay},
		"repeated":           {with(lines[2], 3), Replay},
		"repeated later":     {with(lines[1], 5), Replay},
		"two writers":        {with(fork2, 3), codeFork},
		"two writers, later": {with(fork2, 5), codeFork},
		"two first ones":     {with(fork, 1), codeFork},
		"replaced":           {replaced, codeChainBreak},
		"other chain behind": {append(append([]string{}, lines[:3]...), chainOfOther(t)[3:]...), codeChainBreak},
	} {
		ch, got := add(t, c.lines)
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if c.want == "" && (ch.Len() != 6 || ch.Seq() != 5 || ch.Closed()) {
			t.Errorf("%s: %d receipts to %d", name, ch.Len(), ch.Seq())
		}
	}
}

func chainOfOther(t *testing.T) []string {
	prev := legacyGenesis
	var lines []string
	for i := range 5 {
		lines = append(lines, sign(plain(fmt.Sprintf("b-%d", i), "", prev, i, ""), testKey))
		r, err := new(Decoder).Decode([]byte(lines[i]))
		if err != nil {
			t.Fatal(err)
		}
		prev = r.HashText()
	}
	return lines
}

func vectors(t testing.TB, name string) []byte {
	t.Helper()
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Skip("TRUEGREEN_VECTORS is not set")
	}
	text, err := os.ReadFile(filepath.Join(dir, "pipelock", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestGenesisVectors(t *testing.T) {
	t.Parallel()
	var list []struct {
		Name, Expected string
		Open           json.RawMessage
	}
	if err := json.Unmarshal(vectors(t, "v1-rotation-and-live/g1-genesis-vectors.json"), &list); err != nil || len(list) != 5 {
		t.Fatalf("%d vectors, %v", len(list), err)
	}
	for _, c := range list {
		var d Decoder
		if err := d.read(c.Open, sessionOpen()); err != nil {
			t.Fatal(err)
		}
		if got := d.genesis(); got != c.Expected {
			t.Errorf("%s: %s, want %s", c.Name, got, c.Expected)
		}
	}
}

func TestEndorsements(t *testing.T) {
	t.Parallel()
	good := vectors(t, "derived/rot-valid.endorsement.json")
	e, err := ParseEndorsement(good)
	if err != nil || !e.Verify() {
		t.Fatal(err)
	}
	if forged, err := ParseEndorsement(vectors(t, "derived/rot-valid.endorsement-forged-by-new-key.json")); err == nil && forged.Verify() {
		t.Error("forged by the new key, and verifies")
	}
	for i := range good {
		text := bytes.Clone(good)
		text[i] ^= 1
		if e, err := ParseEndorsement(text); err == nil && e.Verify() {
			t.Errorf("byte %d: %q verifies", i, text)
		}
	}
	for name, change := range map[string][2]string{
		"time not in UTC": {"10Z", "10+00:00"},
		"same key":        {"970955695494cf0fb3109671e673ecaeb0a161e834861a325b97b0656e3c9cd1", "4655a7e605c12ebb00a46037881c33c5bca5eb74b45a02e8e7261a7ff5a21678"},
		"upper case":      {"4655a7e605c12ebb", "4655A7E605C12EBB"},
		"unknown":         {`"version"`, `"x": 1, "version"`},
		"no session":      {"conformance-session", ""},
	} {
		if _, err := ParseEndorsement([]byte(strings.Replace(string(good), change[0], change[1], 1))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := ParseEndorsement(append(good, bytes.Repeat([]byte(" "), MaxEndorsement)...)); err == nil {
		t.Error("long: accepted")
	}
}

// zeros is a line of many bytes that nobody holds.
type zeros struct{ left int64 }

func (z *zeros) Read(b []byte) (int, error) {
	if z.left <= 0 {
		return 0, io.EOF
	}
	n := int(min(z.left, int64(len(b))))
	for i := range b[:n] {
		b[i] = '0'
	}
	z.left -= int64(n)
	return n, nil
}

func TestLines(t *testing.T) {
	t.Parallel()
	z := &zeros{1 << 30}
	if text, err := NewLineReader(z).Next(); code(err) != TooLong || text != nil {
		t.Errorf("1 GiB: %d bytes, %v", len(text), err)
	}
	if read := 1<<30 - z.left; read > 2*MaxReceipt {
		t.Errorf("%d bytes were read", read)
	}
	longest := strings.Repeat("x", MaxReceipt)
	l := NewLineReader(strings.NewReader("\n a \r\n\t\n" + longest + "\nb"))
	for _, want := range []struct {
		text string
		line int64
	}{{"a", 2}, {longest, 4}, {"b", 5}} {
		text, err := l.Next()
		if err != nil || string(text) != want.text || l.Line() != want.line {
			t.Errorf("line %d: %d bytes, %v; want line %d, %d bytes", l.Line(), len(text), err, want.line, len(want.text))
		}
	}
	if text, err := l.Next(); err != io.EOF || text != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := NewLineReader(strings.NewReader(longest + "x")).Next(); code(err) != TooLong {
		t.Error(err)
	}
}
