package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// redactAll writes text in pieces of the given sizes, over and over, and returns what
// comes out.
func redactAll(t testing.TB, text []byte, sizes ...int) ([]byte, *Redactor) {
	t.Helper()
	var b bytes.Buffer
	r := NewRedactor(&b)
	for i := 0; len(text) > 0; i++ {
		n := len(text)
		if len(sizes) > 0 {
			n = min(n, max(1, sizes[i%len(sizes)]))
		}
		if m, err := r.Write(text[:n]); m != n || err != nil {
			t.Fatal(m, err)
		}
		text = text[n:]
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), r
}

// TestRedactor: each secret is replaced, and only it, wherever it stands.
func TestRedactor(t *testing.T) {
	t.Parallel()
	for i := range secretTable {
		s := &secretTable[i]
		token := forge(s, rand.New(rand.NewPCG(2, uint64(i))))
		if s.name == "slack-webhook" || s.name == "discord-webhook" {
			token = "https://" + token
		}
		value := token[strings.LastIndex(token, `"`)+1:] // behind a name
		at := len(token) - len(value)
		for _, around := range [][2]string{{"", ""}, {"a=", "\n"}, {`{"k":"`, `"}`}, {`{"Output":"x\n`, `\n"}`}, {"\x1b[31m", "\x1b[0m"}, {"%20", "%20"}, {`\u003d`, `\u0026`}, {strings.Repeat("x ", 60000), strings.Repeat(" y", 9000)}} {
			text := around[0] + token + around[1]
			got, r := redactAll(t, []byte(text), 1<<20)
			secret := value
			if i := strings.Index(secret, "://"); i >= 0 {
				secret = secret[i+3:]
			}
			at := at + len(value) - len(secret)
			want := around[0] + token[:at] + strings.Repeat("*", len(secret)) + around[1]
			if string(got) != want {
				t.Errorf("%s: %.60q became %.60q, want %.60q", s.name, text, got, want)
			}
			if list := r.Redactions(); r.Count() != 1 || len(list) != 1 || list[0] != (Redaction{int64(len(around[0]) + at), len(secret), s.name}) {
				t.Errorf("%s: %d, %+v", s.name, r.Count(), list)
			}
		}
	}
}

// TestRedactorEscapes: a token whose first character ends an escape leaves it whole.
func TestRedactorEscapes(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(secretTable, func(s secret) bool { return s.name == "npm-token" })
	npm := forge(&secretTable[i], rand.New(rand.NewPCG(3, 3)))
	for in, want := range map[string]string{
		`{"a":"\` + npm + `"}`:                 `{"a":"\n` + strings.Repeat("*", len(npm)-1) + `"}`,
		`{"a":"\\` + npm + `"}`:                `{"a":"\\n` + strings.Repeat("*", len(npm)-1) + `"}`,
		`{"a":"\u000A` + npm + `"}`:            `{"a":"\u000A` + strings.Repeat("*", len(npm)) + `"}`,
		`{"a":"\u000` + "dapi" + hex32 + `"}`:  `{"a":"\u000dapi` + hex32 + `"}`, // a carriage return and api…
		`{"a":"\"` + npm + `","b":1234567890}`: `{"a":"\"` + strings.Repeat("*", len(npm)) + `","b":1234567890}`,
	} {
		got, _ := redactAll(t, []byte(in))
		if string(got) != want || !json.Valid(got) {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

const hex32 = "0123456789abcdef0123456789abcdef"

func keyBody(n int) []string {
	const std = base62 + "+/"
	rnd := rand.New(rand.NewPCG(4, 4))
	var lines []string
	for range n {
		b := make([]byte, 64)
		for i := range b {
			b[i] = std[rnd.IntN(64)]
		}
		lines = append(lines, string(b))
	}
	return lines
}

// TestRedactorPrivateKey: in a file, in a string, and in the events of go test -json.
func TestRedactorPrivateKey(t *testing.T) {
	t.Parallel()
	body := keyBody(5)
	body[4] = body[4][:30] + "=="
	event := func(s string) string {
		text, err := json.Marshal(map[string]string{"Action": "output", "Package": "p", "Test": "TestKey", "Output": s})
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	begin, end := "-----BEGIN RSA PRIVATE KEY-----\n", "-----END RSA PRIVATE KEY-----\n"
	file := begin + strings.Join(body, "\n") + "\n" + end
	inString, err := json.Marshal(map[string]string{"key": file})
	if err != nil {
		t.Fatal(err)
	}
	events := event("=== RUN   TestKey\n") + event("    k_test.go:3: "+begin)
	for _, l := range body {
		events += event("        " + l + "\n")
	}
	events += event("        "+end) + event("--- PASS: TestKeyWithALongName\n") + event("PASS\n")
	for name, text := range map[string]string{
		"file": file, "CRLF": strings.ReplaceAll(file, "\n", "\r\n"), "string": string(inString), "events": events,
		"without an end": begin + strings.Join(body, "\n") + "\n" + strings.Repeat("ok example.com/p 0.1s\n", 20) + body[0] + "\n",
	} {
		got, r := redactAll(t, []byte(text))
		want := text
		for _, l := range body {
			want = strings.Replace(want, l, strings.Repeat("*", len(l)), 1)
		}
		if string(got) != want || r.Count() != 5 {
			t.Errorf("%s: %d\n%s\n%s", name, r.Count(), got, want)
		}
		for _, x := range r.Redactions() {
			if x.Rule != "private-key" {
				t.Errorf("%s: %+v", name, x)
			}
		}
	}
	public := strings.ReplaceAll(file, "PRIVATE", "PUBLIC")
	if got, r := redactAll(t, []byte(public)); string(got) != public || r.Count() != 0 {
		t.Errorf("%s", got)
	}
}

// TestRedactorFindsWhatTheScanFinds: spans are the same.
func TestRedactorFindsWhatTheScanFinds(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i, r := range compiled().rules {
		if r.family == SecretExposure {
			hit, miss := examples(r)
			b.WriteString(hit + miss + strings.Repeat(clean, i%7))
		}
	}
	text := b.String()
	_, red := redactAll(t, []byte(text), 1000, 3)
	var want []Redaction
	findSecrets([]byte(text), func(i, start, end int) {
		want = append(want, Redaction{int64(start), end - start, compiled().secret(i).name})
	})
	if got := red.Redactions(); !slices.Equal(got, want) || len(got) < len(secretTable) {
		t.Errorf("%d: %v\n%d: %v", len(got), got, len(want), want)
	}
}

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestRedactorErrors(t *testing.T) {
	t.Parallel()
	r := NewRedactor(&failing{1})
	big := make([]byte, 1<<20)
	n, err := r.Write(big)
	if !errors.Is(err, io.ErrClosedPipe) || n == len(big) {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := r.Write(big); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	if err := r.Close(); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	r = NewRedactor(io.Discard)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := r.Write([]byte("x")); err == nil {
		t.Error("written to after it was closed")
	}
}

// TestRedactorList: what is not listed is counted.
func TestRedactorList(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("dapi"+hex32+"\n", MaxRedactions+5)
	_, r := redactAll(t, []byte(text))
	if r.Count() != MaxRedactions+5 || len(r.Redactions()) != MaxRedactions {
		t.Errorf("%d, %d listed", r.Count(), len(r.Redactions()))
	}
	if d := r.Digest(); len(d) != len("sha256:")+64 || d == Digest() {
		t.Error(d)
	}
	if len(r.buf) > 256<<10 || cap(r.buf) > 1<<20 {
		t.Errorf("%d bytes are kept", cap(r.buf))
	}
}

// structure returns the tokens of JSON, of strings the length only.
func structure(t *testing.T, text []byte) (list []any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		x, err := d.Token()
		if err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		if s, ok := x.(string); ok {
			x = len([]rune(s))
		}
		list = append(list, x)
	}
}

// FuzzRedactor: pieces do not matter, the length stays, JSON lines stay so with the same
// structure, what is no asterisk is as it was, and what comes out has no secret.
func FuzzRedactor(f *testing.F) {
	for i := range secretTable {
		token := forge(&secretTable[i], rand.New(rand.NewPCG(5, uint64(i))))
		f.Add([]byte(`{"a":"\n`+token+`"}`+"\n"+token+" "+token), uint16(i+1), uint16(7))
	}
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n"+strings.Join(keyBody(3), "\n")), uint16(3), uint16(100))
	f.Add([]byte("{\"a\":\"-----BEGIN PRIVATE KEY-----\\n\"}\n12345678901234567890\n{\"b\":\"  "+keyBody(1)[0]+"\\n\"}\n"), uint16(1), uint16(1))
	f.Fuzz(func(t *testing.T, text []byte, a, b uint16) {
		// The same text behind what fills the buffer goes through other ways.
		for _, text := range [][]byte{text, append(bytes.Repeat([]byte("0 \n"), 4000), text...)} {
			want, whole := redactAll(t, text)
			got, parts := redactAll(t, text, int(a), int(b))
			if !bytes.Equal(got, want) || !slices.Equal(whole.Redactions(), parts.Redactions()) {
				t.Fatalf("in pieces %q, want %q", got, want)
			}
			if len(got) != len(text) {
				t.Fatalf("%d bytes became %d", len(text), len(got))
			}
			covered := make([]bool, len(text))
			for _, x := range whole.Redactions() {
				for i := x.Offset; i < x.Offset+int64(x.Length); i++ {
					covered[i] = true
				}
			}
			if whole.Count() <= MaxRedactions {
				for i := range text {
					if covered[i] && got[i] != '*' || !covered[i] && got[i] != text[i] {
						t.Fatalf("byte %d: %q became %q", i, text[i], got[i])
					}
				}
			}
			before, after := bytes.Split(text, []byte("\n")), bytes.Split(got, []byte("\n"))
			for i := range before {
				if !json.Valid(before[i]) {
					continue
				}
				if !json.Valid(after[i]) || !slices.Equal(structure(t, before[i]), structure(t, after[i])) {
					t.Fatalf("%q became %q", before[i], after[i])
				}
			}
		}
	})
}
