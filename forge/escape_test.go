package forge

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/truegreen-dev/truegreen/receipts"
)

var hostileText = []string{
	"plain", "ü, 日本語, 🙂", "\x1b[31mred", "\x9b31m", "\u009b31m", "a\rb", "a\nb", "a\tb", "a\x00b", "a\x7fb", "a\u202eb", "a\u2066b", "a\u200bb",
	"a\u00a0b", "a\u2028b", "a\ufeffb", "a\U000e0041b", "a\ufffdb", "a\xffb", "a\xf0\x9f", "a\u3164b", "a\u2800b", "a\ufe0fb", "a\U000e0101b",
	"::error::a", "  ::error::a", "\t::error::a", "a\n::error::a", "a::b", "##[add-path]a", "a ##[b", "a ###vso[b", "## a", "##a##[", "##\u200b[",
	"@acme/team", "#123", "GH-1", "acme/calc#1", "[a](https://evil.example)", "![a](https://evil.example/a.png)", "<img src=x onerror=1>", "</details>",
	"`a`", "``` a", "`", "a`b``c```d", "https://evil.example", "www.evil.example", "a@evil.example", "</code></summary>", "--> <!--", "a|b", `a\|b`, ":tada:", " a ", " ",
	"", "```\n</details>\n@acme", "~~~", "\\", "&lt;img&gt;", "\n\n# a\n\n- b",
}

var logCommand = regexp.MustCompile(`^\s*::|##[a-zA-Z]*\[`)

// FuzzOneLine: whatever comes in, what goes to a terminal is one line of
// characters that it shows and does not act on.
func FuzzOneLine(f *testing.F) {
	for _, s := range hostileText {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := OneLine(s)
		if !utf8.ValidString(out) || strings.ContainsFunc(out, func(r rune) bool { return !visible(r) || r == utf8.RuneError }) {
			t.Errorf("OneLine(%q) = %q", s, out)
		}
		if logCommand.MatchString(out) {
			t.Errorf("OneLine(%q) = %q: a log takes it for a command", s, out)
		}
		plain := !strings.ContainsFunc(s, func(r rune) bool { return !visible(r) || r == utf8.RuneError })
		if plain && !logCommand.MatchString(s) && out != s {
			t.Errorf("OneLine(%q) = %q", s, out)
		}
	})
}

// TestInvisible: characters that are made to be blank are shown, though Unicode
// calls them letters, marks or symbols.
func TestInvisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\u3164b": `a\u{3164}b`, "a\u115fb": `a\u{115f}b`, "a\uffa0b": `a\u{ffa0}b`, "a\u2800b": `a\u{2800}b`, "a\u034fb": `a\u{34f}b`,
		"a\ufe0fb": `a\u{fe0f}b`, "a\U000e0101b": `a\u{e0101}b`, "a\u17b4b": `a\u{17b4}b`, "a\u180bb": `a\u{180b}b`, "e\u0301": "e\u0301",
	} {
		if got := OneLine(in); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCode(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a": "`a`", "a`b": "``a`b``", "`": "`` ` ``", "``a": "``` ``a ```", " a ": "`  a  `", "": "(blank)", "  ": "(blank)", "a|b": "`a|b`",
		"@acme\n#1": "`@acme\\n#1`", strings.Repeat("ü", 201): "`" + strings.Repeat("ü", 199) + "…`",
	} {
		if got := code(in); got != want {
			t.Errorf("code(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"<b>&`": "<code>&lt;b&gt;&amp;`</code>", `"'`: "<code>&#34;&#39;</code>"} {
		if got := htmlCode(in); got != want {
			t.Errorf("htmlCode(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestProse(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"3 tests pass on both; 21 of 21 changed lines executed", "1 test fails on base f9257b8 (did-not-compile, 5/5 each way)"} {
		if got := prose(s); got != s {
			t.Errorf("prose(%q) = %q", s, got)
		}
	}
	for _, s := range []string{"@acme", "#1", "GH-1", "https://evil.example", "www.evil.example", "a*b*", "a_b_", "a<b", "a\u202eb", "[a]", "a`b"} {
		if got := prose(s); !strings.HasPrefix(got, "`") {
			t.Errorf("prose(%q) = %q", s, got)
		}
	}
}

func TestLink(t *testing.T) {
	t.Parallel()
	if got := link(Link{Text: "run", URL: "https://git.example.com/a/b/actions/runs/1#s"}); got != "[run](https://git.example.com/a/b/actions/runs/1#s)" {
		t.Error(got)
	}
	for _, url := range []string{
		"", "javascript:alert(1)", "https://a b", "https://a/)[x](https://b", "https://user:pw@a/", "//a/b", "https:///b", "https://a/\n", "https://a/<b>", "data:text/html,a", "https://a/`", "HTTPS://",
	} {
		if got := link(Link{Text: "run", URL: url}); got != "run" {
			t.Errorf("%q: %s", url, got)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	argv := []receipts.Bytes{"go", "test", "", "a b", "it's", "$HOME", "a\nb"}
	if got, want := Words(argv), `go test '' 'a b' 'it'\''s' '$HOME' 'a`+"\n"+`b'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestBlock(t *testing.T) {
	t.Parallel()
	lines := block("a\n\n\x1b[31m\tred\x1b[0m  \r\n::error::b\n"+strings.Repeat("ü", 400)+"\n", 3)
	if len(lines) != 3 || lines[0] != "    red" || lines[1] != `\u{3a}:error::b` || utf8.RuneCountInString(lines[2]) != 300 || !strings.HasSuffix(lines[2], "…") {
		t.Errorf("%q", lines)
	}
	if got := fenced("text", []string{"````", "a"}); got != "`````text\n````\na\n`````\n" {
		t.Errorf("%q", got)
	}
	if unicode.IsPrint('\u3164') == false { // then visible would have nothing to add
		t.Error("U+3164 is not printed")
	}
}
