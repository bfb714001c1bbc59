package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// listed lists the tree of a revision.
func listed(t *testing.T, r *Repository, revision string) Listing {
	t.Helper()
	c, err := r.Resolve(context.Background(), revision)
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.List(context.Background(), c.Tree, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestMaterialiseEntries(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			g := newRepo(t, "--object-format="+format)
			files := awkward(t, g)
			r := g.open()
			l := listed(t, r, "HEAD")
			given := slices.Clone(l.Entries)
			// With what the Repository has hashed before, and without.
			for _, r := range []*Repository{r, g.open()} {
				to := Target{Dir: filepath.Join(t.TempDir(), "new", "tree"), Time: time.Unix(1600000000, 0)}
				if err := r.MaterialiseEntries(context.Background(), l.Entries, to); err != nil {
					t.Fatal(err)
				}
				onDisk(t, to.Dir, files, to.Time)
				if d, err := os.ReadDir(filepath.Join(to.Dir, "sub/module")); err != nil || len(d) != 0 {
					t.Errorf("submodule: %v, %v", d, err)
				}
				if !slices.Equal(l.Entries, given) {
					t.Error("the caller's entries have changed")
				}
				if err := r.MaterialiseEntries(context.Background(), l.Entries, to); err == nil {
					t.Error("written where there are files already")
				}
			}
			to := Target{Dir: filepath.Join(t.TempDir(), "none"), Time: time.Unix(1, 0)}
			if err := r.MaterialiseEntries(context.Background(), nil, to); err != nil {
				t.Error(err)
			}
			onDisk(t, to.Dir, nil, to.Time)
		})
	}
}

// TestMixedTree writes trees that no commit has: the code of one and the tests
// of another.
func TestMixedTree(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("a.go", "old code")
	g.write("a_test.go", "old test")
	g.write("gone_test.go", "removed test")
	g.write("d/same.go", "same")
	g.commit("base")
	for _, name := range []string{"a.go", "a_test.go"} {
		g.write(name, strings.Replace("new code of "+name, "code of a_test.go", "test", 1))
	}
	g.write("new.go", "new code")
	g.write("d/testdata/in", "new data")
	if err := os.Symlink("in", filepath.Join(g.dir, "d/testdata/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(g.dir, "gone_test.go")); err != nil {
		t.Fatal(err)
	}
	g.commit("head")
	r := g.open()
	base, head := listed(t, r, "HEAD~1"), listed(t, r, "HEAD")
	for _, c := range []struct {
		name        string
		code, tests Listing
		want        map[string][2]string
	}{
		{"hybrid", base, head, map[string][2]string{
			"a.go": {"100644", "old code"}, "a_test.go": {"100644", "new test"}, "d/same.go": {"100644", "same"},
			"d/testdata/in": {"100644", "new data"}, "d/testdata/link": {"120000", "in"},
		}},
		{"restored", head, base, map[string][2]string{
			"a.go": {"100644", "new code of a.go"}, "a_test.go": {"100644", "old test"}, "d/same.go": {"100644", "same"},
			"new.go": {"100644", "new code"}, "gone_test.go": {"100644", "removed test"},
		}},
	} {
		entries, err := verifier.MixTrees(c.code.Entries, c.tests.Entries, func(path string) bool {
			return strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata/")
		})
		if err != nil {
			t.Fatal(err)
		}
		to := Target{Dir: filepath.Join(t.TempDir(), "tree"), Time: time.Unix(1700000000, 0)}
		if err := r.MaterialiseEntries(context.Background(), entries, to); err != nil {
			t.Fatal(err)
		}
		onDisk(t, to.Dir, c.want, to.Time)
		// Git agrees about the ids of what is on disk.
		tree, err := verifier.TreeOf(entries, "sha1")
		if err != nil {
			t.Fatal(err)
		}
		g.git("--work-tree="+to.Dir, "add", "-A")
		if want := g.git("write-tree"); tree.ID != want {
			t.Errorf("%s: id %s, git says %s", c.name, tree.ID, want)
		}
	}
}

// TestHostileEntries: what is no listing is refused before anything is on disk.
func TestHostileEntries(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("a", "hello")
	g.write("b", "other")
	g.commit("one")
	up := g.gitIn("../..", "hash-object", "-w", "--stdin")
	long := g.gitIn(strings.Repeat("l", 5000), "hash-object", "-w", "--stdin")
	sum := func(content string) receipts.Digest {
		return receipts.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content))
	}
	l := listed(t, g.open(), "HEAD")
	file := func(path string) verifier.TreeEntry {
		e := l.Entries[0]
		e.Path = path
		return e
	}
	with := func(change func(e *verifier.TreeEntry)) []verifier.TreeEntry {
		list := slices.Clone(l.Entries)
		change(&list[1])
		return list
	}
	link := verifier.TreeEntry{Mode: "120000", ID: up, Sum: sum("../.."), Size: 5, Path: "a"}
	for name, c := range map[string]struct {
		entries []verifier.TreeEntry
		code    verifier.Code
		want    string
		late    bool // what is wrong is the content of a blob
	}{
		"outside":            {[]verifier.TreeEntry{file("../x")}, verifier.HostileTree, `segment ".."`, false},
		"outside, below":     {[]verifier.TreeEntry{file("a/../../x")}, verifier.HostileTree, `segment ".."`, false},
		"absolute":           {[]verifier.TreeEntry{file("/etc/x")}, verifier.HostileTree, `segment ""`, false},
		"dot":                {[]verifier.TreeEntry{file("./x")}, verifier.HostileTree, `segment "."`, false},
		"no path":            {[]verifier.TreeEntry{file("")}, verifier.HostileTree, "path of 0 bytes", false},
		"NUL":                {[]verifier.TreeEntry{file("a\x00b")}, verifier.HostileTree, "NUL", false},
		".git":               {[]verifier.TreeEntry{file(".git/hooks/post-checkout")}, verifier.HostileTree, "can mean .git", false},
		".GIT below":         {[]verifier.TreeEntry{file("a/.GIT")}, verifier.HostileTree, "can mean .git", false},
		"below a link":       {[]verifier.TreeEntry{link, file("a/b")}, verifier.HostileTree, "lies below", false},
		"unsorted":           {[]verifier.TreeEntry{file("b"), file("a")}, verifier.HostileTree, "not after", false},
		"twice":              {[]verifier.TreeEntry{file("a"), file("a")}, verifier.HostileTree, "not after", false},
		"too many":           {[]verifier.TreeEntry{file("a"), file("b"), file("c"), file("d")}, verifier.TreeTooLarge, "more than 3 entries", false},
		"mode":               {with(func(e *verifier.TreeEntry) { e.Mode = "100600" }), verifier.HostileTree, `mode "100600"`, false},
		"folder":             {with(func(e *verifier.TreeEntry) { e.Mode = "040000" }), verifier.HostileTree, `mode "040000"`, false},
		"no id":              {with(func(e *verifier.TreeEntry) { e.ID = "" }), verifier.HostileTree, "hexadecimal", false},
		"id of two lines":    {with(func(e *verifier.TreeEntry) { e.ID = e.ID[:19] + "\n" + e.ID[:20] }), verifier.HostileTree, "hexadecimal", false},
		"revision":           {with(func(e *verifier.TreeEntry) { e.ID = "HEAD:a" }), verifier.HostileTree, "hexadecimal", false},
		"gitlink":            {with(func(e *verifier.TreeEntry) { e.Mode = "160000" }), verifier.HostileTree, "gitlink", false},
		"negative":           {with(func(e *verifier.TreeEntry) { e.Size = -1 }), verifier.HostileTree, "negative", false},
		"missing":            {with(func(e *verifier.TreeEntry) { e.ID = strings.Repeat("1", 40) }), verifier.UnknownRevision, "is not in the repository", false},
		"a tree":             {with(func(e *verifier.TreeEntry) { e.ID = g.git("rev-parse", "HEAD^{tree}") }), verifier.UnknownRevision, "is not in the repository", false},
		"size":               {with(func(e *verifier.TreeEntry) { e.Size++ }), verifier.CorruptObject, `"b": blob`, false},
		"no size":            {with(func(e *verifier.TreeEntry) { e.Size = 0 }), verifier.CorruptObject, "another size than", false},
		"sum":                {with(func(e *verifier.TreeEntry) { e.Sum = sum("evil!") }), verifier.CorruptObject, `"b": blob`, true},
		"no sum":             {with(func(e *verifier.TreeEntry) { e.Sum = receipts.Digest{} }), verifier.CorruptObject, "another sum than", true},
		"id of another":      {with(func(e *verifier.TreeEntry) { e.ID = l.Entries[0].ID }), verifier.CorruptObject, "another sum than", true},
		"link that is large": {[]verifier.TreeEntry{{Mode: "120000", ID: long, Sum: sum(strings.Repeat("l", 5000)), Size: 5000, Path: "x"}}, verifier.HostileTree, "link of 5000", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := g.open()
			r.Limits.Entries = 3
			dir := filepath.Join(t.TempDir(), "a", "b", "tree")
			err := r.MaterialiseEntries(context.Background(), c.entries, Target{Dir: dir})
			if code(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s, %q", err, c.code, c.want)
			}
			if _, err := os.Lstat(dir); (err == nil) != c.late {
				t.Errorf("folder afterwards: %v", err)
			}
			if found, _ := filepath.Glob(filepath.Join(dir, "../../../*")); len(found) > 1 {
				t.Errorf("written outside: %q", found)
			}
		})
	}
	// A link that leads out is written as it is, and followed by nothing.
	to := Target{Dir: filepath.Join(t.TempDir(), "tree"), Time: time.Unix(1, 0)}
	if err := g.open().MaterialiseEntries(context.Background(), []verifier.TreeEntry{link, file("b")}, to); err != nil {
		t.Error(err)
	}
	onDisk(t, to.Dir, map[string][2]string{"a": {"120000", "../.."}, "b": {"100644", "hello"}}, to.Time)
}

// TestEntriesOfFormat: entries of one object format are none of the other.
func TestEntriesOfFormat(t *testing.T) {
	t.Parallel()
	var of [2]Listing
	var repos [2]*Repository
	for i, format := range []string{"sha1", "sha256"} {
		g := newRepo(t, "--object-format="+format)
		g.write("a", "hello")
		g.commit("one")
		repos[i] = g.open()
		of[i] = listed(t, repos[i], "HEAD")
	}
	for i, r := range repos {
		dir := filepath.Join(t.TempDir(), "tree")
		if err := r.MaterialiseEntries(context.Background(), of[1-i].Entries, Target{Dir: dir}); code(err) != verifier.HostileTree {
			t.Errorf("%v", err)
		}
		if err := r.Contents(context.Background(), of[1-i].Entries, 100, noVisit(t)); code(err) != verifier.HostileTree {
			t.Errorf("%v", err)
		}
	}
	// In a sha256 repository a wrong sum is no listing.
	wrong := slices.Clone(of[1].Entries)
	wrong[0].Sum = receipts.Sum([]byte("other"))
	if err := repos[1].MaterialiseEntries(context.Background(), wrong, Target{Dir: filepath.Join(t.TempDir(), "tree")}); code(err) != verifier.HostileTree {
		t.Errorf("%v", err)
	}
	if err := repos[1].Contents(context.Background(), wrong, 100, noVisit(t)); code(err) != verifier.CorruptObject {
		t.Errorf("%v", err)
	}
}

// TestEntriesForged: an object whose bytes are not those of its id, of the
// listed size and of another.
func TestEntriesForged(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"evil", "evil, and more"} {
		g := newRepo(t)
		g.write("a", "good")
		g.write("b", "fine")
		g.commit("one")
		entries := listed(t, g.open(), "HEAD").Entries
		id := entries[0].ID
		if err := os.Remove(filepath.Join(g.dir, ".git/objects", id[:2], id[2:])); err != nil {
			t.Fatal(err)
		}
		g.loose(id, fmt.Sprintf("blob %d", len(content)), content, 0)
		dir := filepath.Join(t.TempDir(), "tree")
		if err := g.open().MaterialiseEntries(context.Background(), entries, Target{Dir: dir}); code(err) != verifier.CorruptObject || !strings.Contains(err.Error(), `"a": `) {
			t.Errorf("%q: %v", content, err)
		}
		if err := g.open().Contents(context.Background(), entries, 100, noVisit(t)); code(err) != verifier.CorruptObject || !strings.Contains(err.Error(), `"a": `) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// TestEntriesShared: who is given entries only reads them.
func TestEntriesShared(t *testing.T) {
	t.Parallel()
	g := bigRepo(t, 50)
	r := g.open()
	entries := listed(t, r, "HEAD").Entries
	var wg sync.WaitGroup
	for i := range 3 {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		wg.Go(func() {
			if err := r.MaterialiseEntries(context.Background(), entries, Target{Dir: dir}); err != nil {
				t.Error(err)
			}
			err := r.Contents(context.Background(), entries, 1<<20, func(verifier.TreeEntry, []byte) error { return nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestEntriesLimits(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("a", "12345")
	g.write("b", "12345")
	g.write("c", strings.Repeat("x", smallBlob+1))
	g.commit("one")
	entries := listed(t, g.open(), "HEAD").Entries
	for _, limits := range []verifier.TreeLimits{{Entries: 2}, {File: 4}, {File: smallBlob}, {Total: 9}, {Listing: 100}} {
		r := g.open()
		r.Limits = limits
		dir := filepath.Join(t.TempDir(), "tree")
		if err := r.MaterialiseEntries(context.Background(), entries, Target{Dir: dir}); code(err) != verifier.TreeTooLarge || !errors.Is(err, verifier.ErrTreeLimit) {
			t.Errorf("%+v: %v", limits, err)
		}
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%+v: something was written", limits)
		}
	}
}

func TestEntriesCanceled(t *testing.T) {
	t.Parallel()
	g := bigRepo(t, 300)
	r := g.open()
	entries := listed(t, r, "HEAD").Entries
	ctx, cancel := context.WithCancel(context.Background())
	blobs, err := r.wanted(ctx, entries, true)
	if err != nil {
		t.Fatal(err)
	}
	to := Target{Dir: filepath.Join(t.TempDir(), "tree")}
	_, err = r.write(ctx, entries, blobs, to, func(h hand) hand { return cancelingHand{h, cancel} })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("while it writes: %v", err)
	}
	if err := r.MaterialiseEntries(ctx, entries, Target{Dir: filepath.Join(t.TempDir(), "tree")}); !errors.Is(err, context.Canceled) {
		t.Errorf("before: %v", err)
	}
	if err := r.MaterialiseEntries(context.Background(), entries, Target{Dir: filepath.Join(t.TempDir(), "tree")}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// cancelingHand cancels all at the first blob.
type cancelingHand struct {
	hand
	cancel func()
}

func (h cancelingHand) blob(e *verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
	h.cancel()
	return h.hand.blob(e, size, body)
}
