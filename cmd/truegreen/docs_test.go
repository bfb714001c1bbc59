package main

import (
	"crypto/hkdf"
	"crypto/sha256"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update-docs", false, "write the examples and outputs into the documentation")

func hkdfKey(secret, salt []byte, info string) ([]byte, error) {
	return hkdf.Key(sha256.New, secret, salt, info, 32)
}

// A docBlock is a fenced block of a page. Its text has no fences.
type docBlock struct {
	page, lang string
	example    string // the name in an <!-- example: NAME --> line before it
	file       string // the name in a <!-- file: NAME --> line before it
	text       string
	line       int // of its first line of text
	from, to   int // in the page
}

// moduleRoot is where the pages are.
const moduleRoot = "../.."

func readPage(t testing.TB, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docBlocks returns the fenced blocks of a page.
func docBlocks(t testing.TB, page string) []docBlock {
	t.Helper()
	text := readPage(t, page)
	var blocks []docBlock
	var open *docBlock
	example, file, at, line := "", "", 0, 0
	for raw := range strings.Lines(text) {
		line++
		trimmed := strings.TrimRight(raw, "\n")
		switch {
		case open != nil && trimmed == "```":
			open.to = at
			open.text = text[open.from:open.to]
			blocks = append(blocks, *open)
			open, example, file = nil, "", ""
		case open != nil:
		case strings.HasPrefix(trimmed, "```"):
			open = &docBlock{page: page, lang: trimmed[3:], example: example, file: file, line: line + 1, from: at + len(raw)}
		case strings.HasPrefix(trimmed, "<!-- example: "):
			example = strings.TrimSuffix(strings.TrimPrefix(trimmed, "<!-- example: "), " -->")
		case strings.HasPrefix(trimmed, "<!-- file: "):
			file = strings.TrimSuffix(strings.TrimPrefix(trimmed, "<!-- file: "), " -->")
		case trimmed != "":
			example, file = "", ""
		}
		at += len(raw)
	}
	if open != nil {
		t.Fatalf("%s:%d: block does not end", page, open.line)
	}
	return blocks
}

// compareExamples compares the named blocks of a page with what they have to
// be, or writes them.
func compareExamples(t *testing.T, page string, want map[string]string) {
	t.Helper()
	blocks := docBlocks(t, page)
	seen := map[string]bool{}
	changed := map[int]string{}
	for i, b := range blocks {
		if b.example == "" {
			continue
		}
		text, known := want[b.example]
		if !known || seen[b.example] {
			t.Errorf("%s:%d: example %q is unknown, or there twice", page, b.line, b.example)
			continue
		}
		seen[b.example] = true
		if b.text != text {
			changed[i] = text
			if !*updateDocs {
				t.Errorf("%s:%d: example %s is not what the code makes:\n%s", page, b.line, b.example, text)
			}
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("%s: no example %s", page, name)
		}
	}
	if *updateDocs {
		rewriteBlocks(t, page, blocks, changed)
	}
}

// rewriteBlocks gives blocks of a page new text.
func rewriteBlocks(t *testing.T, page string, blocks []docBlock, changed map[int]string) {
	t.Helper()
	if len(changed) == 0 {
		return
	}
	text := readPage(t, page)
	for i := len(blocks) - 1; i >= 0; i-- {
		if to, ok := changed[i]; ok {
			text = text[:blocks[i].from] + to + text[blocks[i].to:]
		}
	}
	if err := os.WriteFile(filepath.Join(moduleRoot, page), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
