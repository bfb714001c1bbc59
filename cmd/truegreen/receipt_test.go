package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReceiptPipelock: what receipt verify exits with for each case of the Pipelock
// corpora: 0 where the index accepts a receipt, or a chain whose end is proven; 3 where
// the end is not; 4 where it rejects.
func TestReceiptPipelock(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Skip("TRUEGREEN_VECTORS is not set")
	}
	dir = filepath.Join(dir, "pipelock")
	text, err := os.ReadFile(filepath.Join(dir, "INDEX.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index []struct{ File, Expect, Reason, Key, Kind, Note string }
	if err := json.Unmarshal(text, &index); err != nil || len(index) < 90 {
		t.Fatalf("%d cases, %v", len(index), err)
	}
	ended := map[int]int{}
	for _, c := range index {
		if c.Kind == "vectors" {
			continue // no receipts, but what their hashes are made of
		}
		path := filepath.Join(dir, filepath.FromSlash(c.File))
		args := []string{"receipt", "verify", path, "--json", "--adapter", "pipelock", "--key", c.Key}
		if c.Kind == "dsse" { // an envelope around receipts
			args = []string{"receipt", "verify", path, "--json", "--adapter", "dsse", "--key", c.Key}
		} else if strings.HasPrefix(c.File, "v1-corpus") {
			args = append(args, "--at", "2026-04-15T12:00:00Z", "--max-age", "8760h", "--skew", "15m")
		}
		if c.Kind == "chain" || c.Kind == "recorder" {
			args = append(args, "--chain")
		}
		if c.Kind == "recorder" {
			args = append(args, "--whole-recorder")
		}
		endorsed := func(names ...string) {
			args = append(args, "--session", "conformance-session")
			for _, n := range names {
				args = append(args, "--endorsement", filepath.Join(dir, filepath.FromSlash(n)))
			}
		}
		switch filepath.Base(c.File) {
		case "rot-valid.jsonl":
			endorsed("derived/rot-valid.endorsement.json")
		case "g1-rotated-twice-valid.jsonl":
			endorsed("v1-rotation-and-live/g1-rotation-endorsement.json", "v1-rotation-and-live/g1-rotation-endorsement-2.json")
		case "g1-rotated-close-count-valid.jsonl":
			endorsed("v1-rotation-and-live/g1-rotation-endorsement.json")
		}
		// The bytes of these two are those of a good one: what rejects them is whose key
		// it is, and what for.
		unpinned := strings.HasSuffix(c.File, "/unpinned-rejected.dsse.json")
		if unpinned {
			args = args[:len(args)-2]
		} else if strings.HasSuffix(c.File, "/wrong-key-purpose.dsse.json") {
			args = append(args, "--type", "https://slsa.dev/verification_summary/v1")
		}
		want := []int{4}
		switch chain := c.Kind == "chain" || c.Kind == "recorder"; {
		case strings.HasPrefix(c.Note, "SUPERSEDED"):
		case unpinned:
			want = []int{3}
		case c.Expect == "accept" && chain && strings.Contains(c.Reason, "END UNPROVEN"), c.Expect == "accept-prefix":
			want = []int{3}
		case c.Expect == "accept" && chain:
			want = []int{0, 3} // the index does not say of the end
		case c.Expect == "accept", c.Expect == "see-note", c.Expect == "accept-or-exact-reject", c.Expect == "reject-exact":
			want = []int{0}
		case c.Expect != "reject" && c.Expect != "differs":
			t.Errorf("%s: expect %q: not known here", c.File, c.Expect)
		}
		exit, out := runReceipt(t, args...)
		ended[exit]++
		if exit != want[0] && exit != want[len(want)-1] {
			t.Errorf("%s: exit code %d, want %v: %s: %s", c.File, exit, want, c.Reason, out)
		}
		var got verifiedReceipt
		if err := json.Unmarshal([]byte(out), &struct {
			*verifiedReceipt
			Verification json.RawMessage `json:"verification"`
		}{verifiedReceipt: &got}); err != nil || got.Exit != exit {
			t.Errorf("%s: %v: %s", c.File, err, out)
		}
		if c.Expect == "accept-or-exact-reject" || c.Expect == "reject-exact" {
			if exit, out := runReceipt(t, append(args, "--exact")...); exit != 4 {
				t.Errorf("%s, exactly: exit code %d: %s", c.File, exit, out)
			}
		}
	}
	if ended[0] < 30 || ended[3] < 8 || ended[4] < 40 {
		t.Errorf("exit codes %v", ended)
	}
}

// TestReceiptReason: of a chain that is changed, and has no key of the caller's, the first
// line says what is wrong, and not what is missing.
func TestReceiptReason(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Skip("TRUEGREEN_VECTORS is not set")
	}
	text, err := os.ReadFile(filepath.Join(dir, "pipelock", "derived", "g1-prefix-no-close.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "log.jsonl")
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "org:conformance-test", "org:conformance-tess", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	exit, out := runReceipt(t, "receipt", "verify", path, "--adapter", "pipelock", "--chain")
	if exit != 4 || !strings.HasPrefix(out, "INVALID at seq 0: signature-invalid: ") {
		t.Errorf("exit code %d: %s", exit, out)
	}
}

func runReceipt(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out, err := exec.Command("truegreen", args...).Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), string(out) + string(exit.Stderr)
	case err != nil:
		t.Fatal(err)
	}
	return 0, string(out)
}

// TestDocReceipts: the page's table of formats is the command's.
func TestDocReceipts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/receipts.md")
	if err != nil {
		t.Skipf("the source is not here: %v", err)
	}
	for _, a := range receiptAdapters {
		row := regexp.MustCompile("(?m)^\\| `" + a.Name + "` \\| [^|]+ \\| " + strings.Join(a.Carries, ", ") + " \\|$")
		if !row.Match(page) {
			t.Errorf("no line %s", row)
		}
	}
	if got := strings.Count(string(page), "\n| `"); got != 1+len(receiptAdapters) { // and the heading
		t.Errorf("%d formats, want %d", got-1, len(receiptAdapters))
	}
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Skip("TRUEGREEN_VECTORS is not set: the example is not compared")
	}
	const key = "4655a7e605c12ebb00a46037881c33c5bca5eb74b45a02e8e7261a7ff5a21678"
	log := filepath.Join(dir, "pipelock", "derived", "g1-prefix-no-close.jsonl")
	exit, out := runReceipt(t, "receipt", "verify", log, "--adapter", "pipelock", "--chain", "--key", key)
	if exit != 3 || !strings.Contains(string(page), "--key pipelock.pub\n"+out+"```") {
		t.Errorf("exit code %d, and the page does not have\n%s", exit, out)
	}
}

// TestDocGuard: the example of the page says what the command says.
func TestDocGuard(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guard.md")
	if err != nil {
		t.Skipf("the source is not here: %v", err)
	}
	m := regexp.MustCompile(`(?s)\$ printf '([^']*)' \| truegreen guard\n(.*?)` + "```").FindSubmatch(page)
	if m == nil {
		t.Fatal("no example")
	}
	cmd := exec.Command("truegreen", "guard")
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(string(m[1]), `\n`, "\n"))
	if out, _ := cmd.Output(); string(out) != string(m[2]) {
		t.Errorf("%s\nwant %s", out, m[2])
	}
}
