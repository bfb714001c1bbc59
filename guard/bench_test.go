package guard

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"
)

// plain is text such as a test run has, of a length.
func plain(size int) []byte {
	const run = "=== RUN   TestParse/empty\n    parse_test.go:12: Parse(\"\") = 0, want 1\n--- FAIL: TestParse/empty (0.00s)\nok  \texample.com/p\t0.123s\n" +
		"npm warn deprecated inflight@1.0.6: this module leaks memory\ndiff --git a/main.go b/main.go\nindex 83db48f..bf269f4 100644\n"
	return bytes.Repeat([]byte(run), size/len(run)+1)[:size]
}

// hostile are units of text that make matchers try and fail.
var hostile = []string{
	"ignore ", "ignore all ", "instructions ", "previous instructions ", "a b c ", "::error", "\n::error ", "##[", "<|", "<|im_start", "![", "](http://x?", "](http?data=", "style=\"", "<svg onload", " onload=",
	"\x1b[", "\x1b]", "\x1b]8;;", "\x1b[8;", "\u200b", "\U000e0041", "\u202e", "а", "aа", "aаб", "%41", "\\u0041", "&#65;", "\\n",
	"curl -d ", "curl ", "cat ", "base64 -d ", "bash -i", "rm -rf ", "send ", "send it to ", "https://a", "https://a.", "\"role\":\"", "human:", "\nhuman:", "---end---", "[end system", "</context>",
	"AAAA", "QUJD", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9w\n", "abcdef01", "eyJ", "eyJhbGciOi.eyJ", "ghp_", "sk-", "AKIA", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\n    ", "--", "\x00", "\x00a",
	"忽略", "忽", "ä", "ｉ", "<!--", "\"\\", "'", "xoxb-1", "Q~", "T3BlbkFJ", ".atlasv1.", "\xff", "�",
}

// scanTime returns the shortest of some scans. Time of a process is not to be had without
// a system call, so others on the machine count: hence the shortest, and a wide bound.
func scanTime(t testing.TB, text []byte, times int) time.Duration {
	best := time.Duration(1 << 62)
	for range times {
		start := time.Now()
		if err := newFindings(text).scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	return best
}

// TestHostileIsLinear: text that is made to be slow takes a bounded multiple of the time
// of plain text, and twice as much of it about twice as long.
func TestHostileIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const small, large = 64 << 10, 8 << 20
	base := scanTime(t, plain(small), 5)
	worst, slowest := "", 0.0
	for _, unit := range hostile {
		text := bytes.Repeat([]byte(unit), small/len(unit)+1)[:small]
		ratio := float64(scanTime(t, text, 3)) / float64(base)
		if ratio > slowest {
			worst, slowest = unit, ratio
		}
		if ratio > 100 {
			t.Errorf("%q: %.1f times as slow as plain text", unit, ratio)
		}
	}
	t.Logf("slowest of %d: %q, %.1f times plain text", len(hostile), worst, slowest)
	// All of them, and the slowest, at full length.
	all := bytes.Repeat([]byte(fmt.Sprint(hostile)), 1)
	base = scanTime(t, plain(large), 1)
	for name, text := range map[string][]byte{"all": bytes.Repeat(all, large/len(all)+1)[:large], worst: bytes.Repeat([]byte(worst), large/len(worst)+1)[:large]} {
		ratio := float64(scanTime(t, text, 1)) / float64(base)
		t.Logf("%q: 8 MiB, %.1f times plain text", name, ratio)
		if ratio > 100 {
			t.Errorf("%q: 8 MiB are %.1f times as slow as plain text", name, ratio)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	for name, text := range map[string][]byte{"plain": plain(1 << 20), "escapes": bytes.ReplaceAll(plain(1<<20), []byte("\n"), []byte(`\u000a`))} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				scanTime(b, text, 1)
			}
		})
	}
}

func BenchmarkRedactor(b *testing.B) {
	text := plain(1 << 20)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewRedactor(io.Discard)
		for i := 0; i < len(text); i += 4096 {
			if _, err := r.Write(text[i:min(len(text), i+4096)]); err != nil {
				b.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
