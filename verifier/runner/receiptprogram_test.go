package runner

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/receipts/foreign"
	"github.com/truegreen-dev/truegreen/sandbox"
)

// askProgram has a shell script verify a receipt.
func askProgram(t *testing.T, o ReceiptProgramOptions, script, receipt string, b foreign.Binding) (foreign.Verification, error) {
	t.Helper()
	o.Path = filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(o.Path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if o.Level == 0 {
		o.Level = sandbox.LevelRestricted
	}
	if o.Wall == 0 {
		o.Wall = 10 * time.Second
	}
	a, err := NewReceiptProgram(o)
	if err != nil {
		t.Fatal(err)
	}
	v, err := a.Verify(t.Context(), strings.NewReader(receipt), b)
	var refused *sandbox.RefusedError
	if errors.As(err, &refused) {
		t.Skip(err)
	}
	return v, err
}

// TestReceiptProgram: the question is on standard input, to the byte, and the answer that
// comes back is the verification.
func TestReceiptProgram(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	key := foreign.Key{Name: "a", Public: ed25519.PublicKey(make([]byte, 32))}
	o := ReceiptProgramOptions{Rules: foreign.Rules{Now: func() time.Time { return at }, MaxAge: time.Hour}, Keys: []foreign.Key{key}}
	want := `{"v":1,"receipt":"eyJ0b29sIjoicmVhZCJ9","binding":{"tool":"read","arg_hash":"","target":"","allowed":true},` +
		`"rules":{"now":"2026-01-02T15:04:05Z","max_age":3600,"skew":60,"chain":false,"head":""},` +
		`"keys":[{"name":"a","algorithm":"","public":"MCowBQYDK2VwAyEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}]}`
	script := `read -r q; [ "$q" = '` + want + `' ] || { echo "$q" >&2; exit 1; }; [ $# = 0 ] || exit 2
echo '{"form": "own", "signature": "yes", "trust": "yes", "binding": "yes", "decision": "yes", "tool": "read", "issued": "2026-01-02T15:00:00Z", "receipts": 1}'`
	v, err := askProgram(t, o, script, `{"tool":"read"}`, foreign.Binding{Tool: "read", Allowed: true})
	if err != nil || !v.Trusted() || v.Form != "own" || v.Adapter != "exec" || v.Freshness != foreign.Yes {
		t.Errorf("%v: %+v", err, v)
	}
}

// TestReceiptProgramHostile: whatever a program does instead of answering, the receipt is
// not trusted, and nothing is said of it.
func TestReceiptProgramHostile(t *testing.T) {
	t.Parallel()
	const yes = `echo '{"signature": "yes", "trust": "yes", "receipts": 1}'`
	for name, c := range map[string]struct{ script, why string }{
		"silent":           {"exit 0", "what it says"},
		"no JSON":          {"echo yes", "what it says"},
		"two answers":      {yes + "; " + yes, "what it says"},
		"fails after":      {yes + "; echo no luck >&2; exit 3", `exit code 3: "no luck"`},
		"killed after":     {yes + "; kill -9 $$", "SIGKILL"},
		"hangs":            {yes + "; sleep 60", "no answer within"},
		"endless":          {"while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done", "no answer within"},
		"long":             {yes + "; head -c 300000 /dev/zero | tr '\\0' ' '", "says more than"},
		"unasked":          {`echo '{"signature": "yes", "trust": "yes", "chain": "yes", "end": "yes", "receipts": 1}'`, "nobody asked"},
		"a false mistake":  {`echo '{"malformed": {"code": "NOT A CODE"}}'`, "small letters"},
		"not there at all": {"exec /nowhere", "exit code 127"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := askProgram(t, ReceiptProgramOptions{Wall: 2 * time.Second}, c.script, "x", foreign.Binding{})
			var bad *foreign.MalformedError
			if err == nil || errors.As(err, &bad) || !strings.Contains(err.Error(), c.why) || v.Worst() != foreign.NotAsked {
				t.Errorf("%v, want %q; %+v", err, c.why, v)
			}
		})
	}
}

// TestReceiptProgramReach: it has no way to what the caller has.
func TestReceiptProgramReach(t *testing.T) {
	t.Setenv("TOKEN_OF_THE_CALLER", "secret")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `[ -z "$TOKEN_OF_THE_CALLER" ] || exit 4
cat ` + file + ` 2>/dev/null && exit 5
echo x 2>/dev/null >>"$0" && exit 6
echo '{"signature": "yes", "trust": "yes", "receipts": 1}'`
	if v, err := askProgram(t, ReceiptProgramOptions{}, script, "x", foreign.Binding{}); err != nil || !v.Trusted() {
		t.Errorf("%v: %+v", err, v)
	}
}

func TestReceiptProgramMalformed(t *testing.T) {
	t.Parallel()
	_, err := askProgram(t, ReceiptProgramOptions{}, `echo '{"malformed": {"code": "not-mine"}}'`, "x", foreign.Binding{})
	var bad *foreign.MalformedError
	if !errors.As(err, &bad) || bad.Code != "not-mine" {
		t.Errorf("%v", err)
	}
	a, err := NewReceiptProgram(ReceiptProgramOptions{Path: "x"})
	if err != nil {
		t.Fatal(err)
	}
	long := bytes.NewReader(make([]byte, MaxProgramReceipt+1))
	if _, err := a.Verify(context.Background(), long, foreign.Binding{}); !errors.As(err, &bad) || bad.Code != "too-long" {
		t.Errorf("%v", err)
	}
}

func TestReceiptProgramOptions(t *testing.T) {
	t.Parallel()
	for why, o := range map[string]ReceiptProgramOptions{
		"no program": {},
		"no id":      {Path: "x", Rules: foreign.Rules{Seen: &foreign.SeenMemory{}}},
		"no secrets": {Path: "x", Keys: []foreign.Key{{Secret: []byte("a")}}},
		"a chain's":  {Path: "x", Rules: foreign.Rules{Head: "aa"}},
		"negative":   {Path: "x", Wall: -1},
	} {
		if a, err := NewReceiptProgram(o); err == nil || a != nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing"), "/etc/passwd"} {
		a, err := NewReceiptProgram(ReceiptProgramOptions{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Verify(t.Context(), strings.NewReader("x"), foreign.Binding{}); err == nil {
			t.Errorf("%s is a program", path)
		}
	}
}
