package forge

import (
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/truegreen-dev/truegreen/internal/lazy"
	"github.com/truegreen-dev/truegreen/receipts"
)

// Names of tests, paths, branches, details and output are chosen by whoever wrote
// the patch. A page shows them as code only: in a span between more backticks than
// they have in a row, in a block whose fence is longer than any run in it, or, in
// HTML of our own, escaped inside of <code>. A forge makes nothing of text in code:
// no mention, reference, link, image, emoji or tag. Nothing has to be put into the
// text for that, so what is copied from the page is what was there. Before that,
// [OneLine] shows what is invisible, reorders text, or is a command to a log.

// OneLine makes text from anywhere fit for a terminal and for the log of a CI job.
// Control characters, what reorders text and what is invisible are shown as
// escapes, line breaks among them; so is what such a log takes for a command: "::"
// where a line begins, and "##[" anywhere.
func OneLine(s string) string {
	var b strings.Builder
	if spaces := len(s) - len(strings.TrimLeft(s, " ")); strings.HasPrefix(s[spaces:], "::") {
		b.WriteString(s[:spaces] + `\u{3a}`)
		s = s[spaces+1:]
	}
	for _, r := range HideMarks(s, `\u{23}`) {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError, !visible(r):
			fmt.Fprintf(&b, "\\u{%x}", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// visible reports whether a reader sees that a character is there. Some letters,
// marks and symbols are made to be blank.
func visible(r rune) bool {
	const brailleBlank = '\u2800'
	return unicode.IsPrint(r) && r != brailleBlank && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// HideMarks puts escape in the place of the second # of every ##[ and ##word[, which
// begin a command of a CI log wherever they are.
func HideMarks(s, escape string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "##")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i+1])
		s = s[i+1:]
		word := strings.TrimLeft(s[1:], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		if strings.HasPrefix(word, "[") {
			b.WriteString(escape)
			s = s[1:]
		}
	}
}

// Words returns a command's arguments in one line, quoted as a shell takes them.
func Words(argv []receipts.Bytes) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = string(a)
		if words[i] == "" || strings.ContainsAny(words[i], " \t\n\"'\\$*?") {
			words[i] = "'" + strings.ReplaceAll(words[i], "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

const maxField = 200 // characters of a name, a path or a detail

// cut returns at most n characters of s, the last of which then is an ellipsis.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(0, n-1)]) + "…"
}

// code returns s as a code span of Markdown. It may not stand in a table of
// Markdown, where a bar ends a cell even there.
func code(s string) string { return span(cut(OneLine(s), maxField)) }

func span(s string) string {
	if strings.TrimSpace(s) == "" {
		return "(blank)"
	}
	fence := strings.Repeat("`", longestRun(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") || strings.HasPrefix(s, " ") && strings.HasSuffix(s, " ") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// htmlCode returns s as code inside an HTML block, which no blank line may
// interrupt.
func htmlCode(s string) string {
	return "<code>" + html.EscapeString(cut(OneLine(s), maxField)) + "</code>"
}

var colors = lazy.Regexp("\x1b\\[[0-9;]*m")

// block returns the last lines of text, and each line's first characters, as they
// are shown.
func block(text string, lines int) []string {
	const width = 300
	var list []string
	for l := range strings.Lines(text) {
		l = colors().ReplaceAllString(strings.ReplaceAll(strings.TrimRight(l, "\r\n"), "\t", "    "), "")
		if l = strings.TrimRight(cut(OneLine(l), width), " "); l != "" {
			list = append(list, l)
		}
	}
	return list[max(0, len(list)-lines):]
}

// fenced returns lines as a fenced block of Markdown.
func fenced(kind string, lines []string) string {
	fence := "```"
	for _, l := range lines {
		fence = strings.Repeat("`", max(len(fence), longestRun(l)+1))
	}
	return fence + kind + "\n" + strings.Join(lines, "\n") + "\n" + fence + "\n"
}

// longestRun returns the length of the longest run of backticks in s.
func longestRun(s string) int {
	longest, run := 0, 0
	for i := range len(s) {
		if run++; s[i] != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// plain is text in which there is nothing that a forge makes something of.
var plain = lazy.Regexp(`^[A-Za-z0-9 ,;:()/%'.-]*$`)

// marked is what a forge makes something of in text that is otherwise plain: an
// address, an emoji, or the number of an issue behind a word.
var marked = lazy.Regexp(`(?i):\S|www\.|-[0-9]`)

// prose returns a sentence of this program for people, as Markdown and as HTML. If
// it is not only made of plain words, it is shown as code.
func prose(s string) string {
	if plain().MatchString(s) && !marked().MatchString(s) && s != "" {
		return s
	}
	return code(s)
}

var markdown = strings.NewReplacer("\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "<", "&lt;", ">", "&gt;", "[", "\\[", "]", "\\]", "|", "\\|", "&", "&amp;", "~", "\\~", "#", "\\#")

// safeURL has no character that ends an address in Markdown or in HTML.
var safeURL = lazy.Regexp(`^https?://[A-Za-z0-9.:-]+(/[A-Za-z0-9._~/?&=%+:,;@-]*)?(#[A-Za-z0-9._~/?&=%+:,;@-]*)?$`)

// link returns a link, or its text alone where the address is not a plain one.
func link(l Link) string {
	text := prose(cut(l.Text, maxField))
	if u, err := url.Parse(l.URL); err == nil && u.User == nil && u.Host != "" && safeURL().MatchString(l.URL) {
		text = "[" + text + "](" + l.URL + ")"
	}
	if !l.Expires.IsZero() {
		text += " until " + l.Expires.UTC().Format("2006-01-02")
	}
	return text
}
