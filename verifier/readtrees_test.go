package verifier_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// treeDocs are the documents from which the trees of a patch are read.
type treeDocs struct{ base, head, sources, diff []byte }

func docsOf(t testing.TB, r fixture.Run) (d treeDocs) {
	t.Helper()
	r.Texts, r.Stop = true, 3
	r.Forge.Listing = func(side string, b []byte) []byte {
		if side == verifier.SideBase {
			d.base = bytes.Clone(b)
		} else {
			d.head = bytes.Clone(b)
		}
		return b
	}
	r.Forge.Sources = func(b []byte) []byte { d.sources = bytes.Clone(b); return b }
	r.Forge.Diff = func(b []byte) []byte { d.diff = bytes.Clone(b); return b }
	bundleOf(t, &r)
	return d
}

func (d treeDocs) read() (*verifier.Trees, error) {
	var sides [2][]verifier.TreeEntry
	for i, list := range [...][]byte{d.base, d.head} {
		if _, err := verifier.ReadTree(bytes.NewReader(list), verifier.TreeLimits{}, func(e verifier.TreeEntry) error {
			sides[i] = append(sides[i], e)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	c := verifier.DefaultConfig()
	facts := &verifier.GoFacts{OS: "linux", Arch: "amd64", Version: "go1.26.5"}
	return verifier.ReadTrees(sides[0], sides[1], &c.Evidence, facts, bytes.NewReader(d.sources), bytes.NewReader(d.diff))
}

// mixed is a patch without a Go module, of which a file is binary.
func mixed() fixture.Run {
	r := fixture.New()
	r.Base = fixture.Files{"a.py": "a = 1\nb = 1\n", "gone.txt": "x\ny\n", "same.txt": "x\n"}
	r.Head = fixture.Files{"a.py": "a = 2\nb = 2\n", "new.txt": "x\ny\n", "same.txt": "x\n"}
	return r
}

// TestReadTreesHostile: what does not agree with the trees is an error, in whichever
// document it is.
func TestReadTreesHostile(t *testing.T) {
	t.Parallel()
	good := docsOf(t, harnessed(3, 3))
	if _, err := good.read(); err != nil {
		t.Fatal(err)
	}
	if _, err := docsOf(t, mixed()).read(); err != nil {
		t.Errorf("without Go: %v", err)
	}
	replace := func(b []byte, from, to string) []byte {
		if !bytes.Contains(b, []byte(from)) {
			t.Fatalf("no %q", from)
		}
		return bytes.Replace(b, []byte(from), []byte(to), 1)
	}
	records := bytes.SplitAfter(good.sources, []byte("\x00"))
	section := func(path string) string {
		at := bytes.Index(good.diff, []byte("diff --git a/"+path))
		end := bytes.Index(good.diff[at+1:], []byte("diff --git "))
		if end < 0 {
			return string(good.diff[at:])
		}
		return string(good.diff[at : at+1+end])
	}
	for name, change := range map[string]func(d *treeDocs){
		"another text":             func(d *treeDocs) { d.sources = replace(d.sources, "n += a - b - 3", "n += a - b - 4") },
		"a text of the other side": func(d *treeDocs) { d.sources = replace(d.sources, "base ", "head ") },
		"no texts":                 func(d *treeDocs) { d.sources = records[0] },
		"nothing":                  func(d *treeDocs) { d.sources = nil },
		"a text left out": func(d *treeDocs) {
			at := bytes.LastIndex(d.sources, []byte("head "))
			d.sources = d.sources[:at]
		},
		"a text more":       func(d *treeDocs) { d.sources = append(bytes.Clone(d.sources), "head 1\tzzz\x00x"...) },
		"data behind":       func(d *treeDocs) { d.sources = append(bytes.Clone(d.sources), 'x') },
		"cut":               func(d *treeDocs) { d.sources = d.sources[:len(d.sources)-1] },
		"twice":             func(d *treeDocs) { d.sources = append(bytes.Clone(d.sources), d.sources[len(records[0]):]...) },
		"no diff":           func(d *treeDocs) { d.diff = nil },
		"a change left out": func(d *treeDocs) { d.diff = replace(d.diff, section("conftest.py"), "") },
		"a change more": func(d *treeDocs) {
			d.diff = append(bytes.Clone(d.diff), strings.ReplaceAll(section("conftest.py"), "conftest", "zz")...)
		},
		"a line left out": func(d *treeDocs) { d.diff = replace(d.diff, "+\tn += a + b + 3\n", "") },
		"another line":    func(d *treeDocs) { d.diff = replace(d.diff, "+\tn += a + b + 3\n", "+\tn += a + b + 9\n") },
		"another id": func(d *treeDocs) {
			at := bytes.Index(d.diff, []byte("index ")) + 6
			d.diff = bytes.Clone(d.diff)
			d.diff[at] ^= 1
		},
		"another mode": func(d *treeDocs) { d.diff = replace(d.diff, " 100644\n", " 100755\n") },
		"nothing but a mode": func(d *treeDocs) {
			d.diff = replace(d.diff, section("conftest.py"), "diff --git a/conftest.py b/conftest.py\nold mode 100644\nnew mode 100755\n")
		},
		"a binary file": func(d *treeDocs) {
			d.diff = replace(d.diff, section("conftest.py")[strings.Index(section("conftest.py"), "--- "):], "Binary files a/conftest.py and b/conftest.py differ\n")
		},
		"a listing without head": func(d *treeDocs) { d.head = nil },
	} {
		d := good
		change(&d)
		if trees, err := d.read(); err == nil || trees != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, forge := range map[string]fixture.Forge{
		"sources": {Sources: func(b []byte) []byte { return bytes.Replace(b, []byte("n += a - b - 3"), []byte("n += a - b - 4"), 1) }},
		"none":    {Sources: func([]byte) []byte { return nil }},
	} {
		r := harnessed(3, 3)
		r.Forge = forge
		if got := verify(t, bundleOf(t, &r), r.Options()); !got.Has(verifier.PatchMismatch) || got.Verdict() != verifier.Broken {
			t.Errorf("%s: %v", name, got.Reasons())
		}
	}
}

// TestTextsBounds: a file of more than 1 MiB has no text in the bundle, and where all
// texts come to more than 32 MiB none has.
func TestTextsBounds(t *testing.T) {
	t.Parallel()
	entries := func(n int, size int64) (list []verifier.TreeEntry) {
		for i := range n {
			list = append(list, verifier.TreeEntry{Mode: "100644", Path: fmt.Sprintf("f%03d", i), Size: size})
		}
		return list
	}
	for _, test := range []struct {
		n    int
		size int64
		want int
	}{{32, 1 << 20, 32}, {33, 1 << 20, 0}, {1, 1<<20 + 1, 0}, {64, 1 << 19, 64}, {65, 1 << 19, 0}, {0, 0, 0}} {
		if got := verifier.Texts(nil, entries(test.n, test.size)); len(got) != test.want {
			t.Errorf("%d files of %d bytes: %d texts, want %d", test.n, test.size, len(got), test.want)
		}
	}
	odd := entries(4, 8)
	odd[0].Mode, odd[1].Mode, odd[2].Mode = "120000", "160000", "100755"
	if got := verifier.Texts(nil, odd); len(got) != 2 || got[0].Entry.Path != "f002" {
		t.Errorf("%v", got)
	}
	if got := verifier.Texts(odd[2:3], odd[2:3]); len(got) != 0 {
		t.Errorf("a file that does not change: %v", got)
	}
	mode := odd[3]
	mode.Mode = "100755"
	if got := verifier.Texts(odd[3:], []verifier.TreeEntry{mode}); len(got) != 2 {
		t.Errorf("a mode that changes: %v", got)
	}
	if testing.Short() {
		return
	}
	// The boundary itself can be written and read.
	r := fixture.New()
	r.Texts, r.Base, r.Head = true, fixture.Files{"a": "x\n"}, fixture.Files{"a": "x\n"}
	for i := range 32 {
		r.Head[fmt.Sprintf("f%02d", i)] = strings.Repeat(fmt.Sprintf("%07d\n", i), 1<<17)
	}
	got := verify(t, bundleOf(t, &r), r.Options())
	want(t, got)
}

// FuzzReadTrees: whatever the documents of a patch are, reading them ends, and what is
// read is read again as the same.
func FuzzReadTrees(f *testing.F) {
	for _, r := range []fixture.Run{harnessed(2, 2), mixed(), ladder(1, 1)} {
		d := docsOf(f, r)
		f.Add(d.base, d.head, d.sources, d.diff)
		f.Add(d.head, d.base, d.sources, d.diff)
	}
	f.Fuzz(func(t *testing.T, base, head, sources, diff []byte) {
		d := treeDocs{base, head, sources, diff}
		trees, err := d.read()
		if (err == nil) != (trees != nil) {
			t.Fatalf("trees %v, error %v", trees, err)
		}
		if err != nil {
			return
		}
		again, err := d.read()
		if err != nil {
			t.Fatal(err)
		}
		for _, side := range []string{verifier.SideBase, verifier.SideHead, verifier.SideHybrid, verifier.SideRestored} {
			if trees.ID(side) != again.ID(side) {
				t.Errorf("%s: two ids", side)
			}
		}
	})
}

// FuzzJudgement: whatever the runs put out, the judgement comes to an end, comes to
// the same once more, and whoever believes its document comes to the same.
func FuzzJudgement(f *testing.F) {
	f.Add([]byte("\x16=== RUN   TestNew\n\x16--- FAIL: TestNew (0.00s)\n\x16FAIL\n"), []byte(fixture.GoTest(fixture.Package, "TestNew", "TestOld000 fail")), uint8(1), uint8(0))
	f.Add([]byte("\x16=== RUN   TestNew\npanic: x\n"), []byte(fixture.GoBuildFailed(fixture.Package)), uint8(2), uint8(3))
	f.Add([]byte("mode: set\nexample.com/project/sum.go:5.2,25.20 21 1\n"), []byte(""), uint8(0), uint8(5))
	states := []string{receipts.StateExited, receipts.StateTimeout, receipts.StateSignaled, receipts.StateFailed, receipts.StateNotFound, receipts.StateCanceled}
	f.Fuzz(func(t *testing.T, binary, stream []byte, exit, which uint8) {
		run := func() fixture.Run {
			r := harnessed(2, 3)
			r.Config.Evidence.Reruns = 2
			n := 0
			return instead(r, func(p *verifier.PlannedRun, o *fixture.Output) {
				if n++; (n+int(which))%3 != 0 {
					return
				}
				o.State, o.Exit = states[int(which)%len(states)], int(exit)
				if o.State != receipts.StateExited {
					o.Exit = 0
				}
				if o.State == receipts.StateSignaled {
					o.Signal = "SIGKILL"
				}
				if o.Stdout = string(stream); p.Format == verifier.FormatGoBinary {
					o.Stdout = string(binary)
				}
				if o.Stderr = string(binary); o.Reports != nil {
					o.Reports = map[string]string{"cover.out": string(binary)}
				}
			})
		}
		one, two := run(), run()
		first, err := one.Try()
		if err != nil {
			t.Fatal(err)
		}
		second, err := two.Try()
		if err != nil || !bytes.Equal(first.Evidence, second.Evidence) {
			t.Fatalf("two documents, or %v", err)
		}
		r := run()
		file := bundleOf(t, &r)
		o := r.Options()
		full := verify(t, file, o)
		o.Quick = true
		quick := verify(t, file, o)
		if fmt.Sprint(codes(full)) != fmt.Sprint(codes(quick)) || full.Sentence() != quick.Sentence() || full.Verdict() == verifier.Broken {
			t.Errorf("full %v %q, quick %v %q", full.Reasons(), full.Sentence(), quick.Reasons(), quick.Sentence())
		}
	})
}
