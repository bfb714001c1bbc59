package verifier

import (
	"bytes"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

func goodPatch() Patch {
	id := func(c string) string { return strings.Repeat(c, 40) }
	return Patch{
		Repository: "git.example.com/project", Base: id("a"), BaseTree: TreeID{id("b"), receipts.Sum([]byte("b")), 0},
		Head: id("c"), Tree: TreeID{id("d"), receipts.Sum([]byte("d")), 2}, Diff: receipts.Sum([]byte("diff")),
	}
}

func TestPatchDocument(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64)
	for _, test := range []struct {
		name string
		edit func(*Patch)
		ok   bool
	}{
		{"sha1", func(*Patch) {}, true},
		{"root commit", func(p *Patch) { p.Base = "" }, true},
		{"sha256", func(p *Patch) { p.Base, p.Head, p.Tree.Git, p.BaseTree.Git = long, long, long, long }, true},
		{"local", func(p *Patch) { p.Repository = "local/project" }, true},
		{"not UTF-8", func(p *Patch) { p.Repository = "local/\xff" }, true},
		{"no head", func(p *Patch) { p.Head = "" }, false},
		{"branch", func(p *Patch) { p.Head = "main" }, false},
		{"short id", func(p *Patch) { p.Head = p.Head[:12] }, false},
		{"capitals", func(p *Patch) { p.Head = strings.ToUpper(p.Head) }, false},
		{"base of another format", func(p *Patch) { p.Base = long }, false},
		{"tree of another format", func(p *Patch) { p.Tree.Git = long }, false},
		{"base tree of another format", func(p *Patch) { p.BaseTree.Git = long }, false},
		{"no tree", func(p *Patch) { p.Tree.Git = "" }, false},
		{"no repository", func(p *Patch) { p.Repository = "" }, false},
		{"user information", func(p *Patch) { p.Repository = "user:secret@git.example.com/project" }, false},
		{"two lines", func(p *Patch) { p.Repository = "a\nb" }, false},
		{"long", func(p *Patch) { p.Repository = receipts.Bytes(strings.Repeat("a", 1025)) }, false},
	} {
		p := goodPatch()
		test.edit(&p)
		doc, err := p.Document()
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
		if err != nil {
			// What cannot be written cannot be read either.
			doc, err = receipts.Encode(&p)
			if err != nil {
				t.Fatal(err)
			}
		}
		got, err := ParsePatch(doc)
		if (err == nil) != test.ok || test.ok && got != p || !test.ok && got != (Patch{}) {
			t.Errorf("%s: read %+v, %v", test.name, got, err)
		}
	}
}

// FuzzPatch: a document that can be read is written with the same bytes.
func FuzzPatch(f *testing.F) {
	p := goodPatch()
	doc, err := p.Document()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(doc)
	f.Add(bytes.Replace(doc, []byte(`"v":1`), []byte(`"v":2`), 1))
	f.Fuzz(func(t *testing.T, doc []byte) {
		p, err := ParsePatch(doc)
		if err != nil {
			if p != (Patch{}) {
				t.Errorf("%+v beside %v", p, err)
			}
			return
		}
		if again, err := p.Document(); err != nil || !bytes.Equal(again, doc) {
			t.Errorf("%q becomes %q (%v)", doc, again, err)
		}
	})
}
