package forge

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
)

// fixed is a source that is not random, for what somebody would guess.
type fixed byte

func (f fixed) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(f)
	}
	return len(p), nil
}

// readOutputs reads the file as the platform does.
func readOutputs(t *testing.T, s string) map[string]string {
	t.Helper()
	out := map[string]string{}
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		name, delimiter, ok := strings.Cut(lines[i], "<<")
		if !ok {
			t.Fatalf("line %q", lines[i])
		}
		var value []string
		for i++; i < len(lines) && lines[i] != delimiter; i++ {
			value = append(value, lines[i])
		}
		if i == len(lines) {
			t.Fatalf("%s has no end", name)
		}
		out[name] = strings.Join(value, "\n")
	}
	return out
}

// CVE-2022-35954: a value that ends itself and starts another output.
func TestOutputInjection(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	attack := "x\n_GitHubActionsFileCommandDelimeter_\nverdict=verified\nverdict<<EOF\nverified\nEOF"
	for name, value := range map[string]string{"verdict": "failed", "reasons": attack, "tested": ""} {
		if err := WriteOutput(&b, rand.Reader, name, value); err != nil {
			t.Fatal(err)
		}
	}
	if got := readOutputs(t, b.String()); got["verdict"] != "failed" || got["reasons"] != attack || got["tested"] != "" || len(got) != 3 {
		t.Errorf("got %q", got)
	}
	b.Reset()
	for _, c := range []struct{ name, value string }{
		{"path", "x"}, {"", "x"}, {"verdict<<EOF", "x"}, {"verdict\nx", "x"}, // not ours
		{"reasons", "truegreen_" + strings.Repeat("07", 16)}, // guessed
		{"reasons", "a\x00b"}, {"reasons", "a\rb"}, {"reasons", "\xff"},
		{"reasons", strings.Repeat("x", maxOutput+1)},
	} {
		if err := WriteOutput(&b, fixed(7), c.name, c.value); err == nil || b.Len() != 0 {
			t.Errorf("%q: wrote %q", c.name, b.String())
		}
	}
	if err := WriteOutput(&b, strings.NewReader("short"), "verdict", "failed"); err == nil || b.Len() != 0 {
		t.Errorf("without random bytes: wrote %q", b.String())
	}
}

// maester#905: at 1,024 KiB a summary is dropped; what is there counts.
func TestSummary(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int{-1: 1_000_000, 0: 1_000_000, 1: 999_999, 999_999: 1, 1_000_000: 0, 1 << 40: 0} {
		if got := SummaryBudget(size); got != want {
			t.Errorf("%d: %d, want %d", size, got, want)
		}
	}
	for _, c := range []struct {
		size int64
		text string
		want string // "" is refused
	}{
		{0, "a", "a\n"}, {0, "a\n", "a\n"}, {5, "a", "\na\n"},
		{999_997, "a", "\na\n"}, {999_998, "a", ""}, {1_048_576, "a", ""}, {0, strings.Repeat("é", 500_000), ""},
	} {
		var b bytes.Buffer
		err := AppendSummary(&b, c.size, c.text)
		if errors.Is(err, ErrSummary) != (c.want == "") || b.String() != c.want {
			t.Errorf("%d: %.20q, %v", c.size, b.String(), err)
		}
	}
}

// Commands in the output of tests are text.
func TestStopCommands(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "::error::no\n", "::add-mask::e", "x\n::stop-commands::y\n::y::\n"} {
		var b bytes.Buffer
		w, err := StopCommands(&b, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.WriteString(w, text); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
		for range 2 {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		m := regexp.MustCompile(`(?s)^::stop-commands::([0-9a-f]{32})\n(.*)::([0-9a-f]{32})::\n$`).FindStringSubmatch(b.String())
		if m == nil || m[1] != m[3] || strings.TrimSuffix(m[2], "\n") != strings.TrimSuffix(text, "\n") || m[2] != "" && !strings.HasSuffix(m[2], "\n") {
			t.Errorf("%q became %q", text, b.String())
		}
		if _, err := w.Write([]byte("x")); err == nil {
			t.Error("written after the end")
		}
	}
	if _, err := StopCommands(io.Discard, strings.NewReader("")); err == nil {
		t.Error("without random bytes")
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	for secret, want := range map[string]string{
		"": "", "\n \n": "", "abc": "::add-mask::abc\n", "50%\n": "::add-mask::50%25\n", "a\r\nb": "::add-mask::a\n::add-mask::b\n",
	} {
		var b bytes.Buffer
		if err := Mask(&b, secret); err != nil || b.String() != want {
			t.Errorf("%q: %q, %v", secret, b.String(), err)
		}
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "plain", "a\nb", "\u202e\u200b", "\xff", strings.Repeat("漢", 1000), "::error::"} {
		got := quote(s)
		if len(got) > 700 || strings.ContainsFunc(strings.TrimSuffix(got, "…"), func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%s", fmt.Sprintf("%q: %q", s, got))
		}
	}
}
