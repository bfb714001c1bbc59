package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var hostileText = []string{
	"plain", "ü, 日本語, 🙂", "\x1b[31mred", "\x9b31m", "\u009b31m", "a\rb", "a\nb", "a\tb", "a\x00b", "a\x7fb", "a\u202eb", "a\u2066b", "a\u200bb",
	"a\u00a0b", "a\u2028b", "a\ufeffb", "a\U000e0041b", "a\ufffdb", "a\xffb", "a\xf0\x9f",
	"::error::a", "  ::error::a", "\t::error::a", "a\n::error::a", "a::b", "##[add-path]a", "a ##[b", "a ###vso[b", "## a", "##a##[", "##\u200b[",
}

var logCommand = regexp.MustCompile(`^\s*::|##[a-zA-Z]*\[`)

// FuzzJSON: as JSON the same text means the same, and is as harmless.
func FuzzJSON(f *testing.F) {
	for _, s := range hostileText {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var out bytes.Buffer
		a := &app{out: &out}
		if err := a.printJSON(map[string]string{"k": s}); err != nil {
			t.Fatal(err)
		}
		text := strings.TrimSuffix(out.String(), "\n")
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("printJSON(%q) = %q", s, text)
		}
		if logCommand.MatchString(text) {
			t.Errorf("printJSON(%q) = %q: a log takes it for a command", s, text)
		}
		var back map[string]string
		if err := json.Unmarshal([]byte(text), &back); err != nil || back["k"] != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Errorf("printJSON(%q) reads as %q, %v", s, back["k"], err)
		}
	})
}
