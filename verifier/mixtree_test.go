package verifier

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func always(string) bool { return true }
func never(string) bool  { return false }

func ofGoTests(path string) bool {
	return strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "testdata/") || strings.Contains(path, "/testdata/")
}

// entriesOf makes a tree of files that hold what they are mapped to. What
// begins with "->" is a symbolic link, with "@" a gitlink, with "#!" a program.
func entriesOf(format string, files map[string]string) []TreeEntry {
	var list []TreeEntry
	for path, content := range files {
		switch {
		case strings.HasPrefix(content, "->"):
			list = append(list, blobEntry(format, "120000", path, content[2:]))
		case strings.HasPrefix(content, "@"):
			digits := 40
			if format == "sha256" {
				digits = 64
			}
			list = append(list, gitlinkEntry(path, strings.Repeat(content[1:2], digits)))
		case strings.HasPrefix(content, "#!"):
			list = append(list, blobEntry(format, "100755", path, content))
		default:
			list = append(list, blobEntry(format, "100644", path, content))
		}
	}
	slices.SortFunc(list, func(a, b TreeEntry) int { return cmp.Compare(a.Path, b.Path) })
	return list
}

func TestMixTrees(t *testing.T) {
	t.Parallel()
	code := map[string]string{
		"a.go": "old", "a_test.go": "old test", "gone.go": "code only", "gone_test.go": "test only of code",
		"testdata/in": "old", "lib": "@1", "link": "->a.go", "testdata/link": "->in", "testdata/lib": "@1", "run": "#!old",
	}
	tests := map[string]string{
		"a.go": "new", "a_test.go": "new test", "new.go": "x", "new_test.go": "y",
		"testdata/in": "#!new", "testdata/sub/more": "z", "lib": "@2", "link": "->new.go", "testdata/link": "->sub/more", "testdata/lib": "@2", "run": "new",
	}
	want := map[string]string{
		"a.go": "old", "a_test.go": "new test", "gone.go": "code only", "new_test.go": "y",
		"testdata/in": "#!new", "testdata/sub/more": "z", "lib": "@1", "link": "->a.go", "testdata/link": "->sub/more", "testdata/lib": "@2", "run": "#!old",
	}
	for _, format := range []string{"sha1", "sha256"} {
		got, err := MixTrees(entriesOf(format, code), entriesOf(format, tests), ofGoTests)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, entriesOf(format, want)) {
			t.Errorf("%s: %+v", format, got)
		}
		tree, err := TreeOf(got, format)
		if err != nil || tree.Gitlinks != 2 || tree.Entries != len(want) {
			t.Errorf("%s: %+v, %v", format, tree, err)
		}
		if _, listed, err := encodeTree(format, got...); err != nil || listed != tree {
			t.Errorf("%s: listed as %+v, %v, want %+v", format, listed, err, tree)
		}
	}
}

func TestMixTreesRefused(t *testing.T) {
	t.Parallel()
	tree := func(paths ...string) []TreeEntry {
		var list []TreeEntry
		for _, p := range paths {
			list = append(list, blobEntry("sha1", "100644", p, p))
		}
		return list
	}
	for name, c := range map[string]struct {
		code, tests []TreeEntry
		want        string // in the error
	}{
		"file of code, folder of tests":  {tree("testdata"), tree("testdata/in"), `"testdata/in": lies below the entry "testdata"`},
		"folder of code, file of tests":  {tree("x_test.go/code"), tree("x_test.go"), `"x_test.go/code": lies below the entry "x_test.go"`},
		"with others between":            {tree("testdata", "testdata-2"), tree("testdata.go", "testdata/in"), "lies below"},
		"deep":                           {tree("a/b"), tree("a/b/testdata/c/d"), "lies below"},
		"code unsorted":                  {tree("b", "a"), nil, `code: path "a": not after "b"`},
		"code unsorted where not wanted": {tree("b_test.go", "a_test.go"), nil, "code: path"},
		"tests unsorted":                 {nil, tree("b_test.go", "a_test.go"), "tests: path"},
		"tests twice":                    {nil, tree("a", "a"), "tests: path"},
		"code below itself":              {tree("a", "a/b"), nil, "code: path"},
		"no path":                        {tree(""), nil, "code: path"},
	} {
		got, err := MixTrees(c.code, c.tests, ofGoTests)
		if err == nil || got != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	// The same names on one side each are no conflict.
	got, err := MixTrees(tree("testdata"), tree("a_test.go"), ofGoTests)
	if err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	// A question that is answered in two ways does not give a path twice.
	n := 0
	moody := func(string) bool { n++; return n > 3 }
	if got, err := MixTrees(tree("a"), tree("a"), moody); err == nil || got != nil {
		t.Errorf("moody: %v, %v", got, err)
	}
}

func TestTreeOf(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		var entries []TreeEntry
		for _, f := range awkward {
			entries = append(entries, blobEntry(format, f.mode, f.path, f.content))
		}
		tree, err := TreeOf(entries, format)
		if want := gitTree(t, format); err != nil || tree.ID != want {
			t.Errorf("%s: %+v, %v, git says %s", format, tree, err, want)
		}
		if tree, err := TreeOf(nil, format); err != nil || tree.Entries != 0 || tree.ID == "" {
			t.Errorf("%s: empty: %+v, %v", format, tree, err)
		}
		slices.Reverse(entries)
		if tree, err := TreeOf(entries, format); err == nil || tree != (Tree{}) {
			t.Errorf("%s: reversed: %+v, %v", format, tree, err)
		}
	}
	large := blobEntry("sha1", "100644", "a", "x")
	large.Size = 3 << 30
	if tree, err := TreeOf([]TreeEntry{large}, "sha1"); !errors.Is(err, ErrTreeLimit) || tree != (Tree{}) {
		t.Errorf("large: %+v, %v", tree, err)
	}
	for _, format := range []string{"", "md5", "sha256"} {
		if tree, err := TreeOf([]TreeEntry{blobEntry("sha1", "100644", "a", "x")}, format); err == nil || tree != (Tree{}) {
			t.Errorf("%q: %+v, %v", format, tree, err)
		}
	}
}

// randomTree makes a legal tree of a few names at a few depths, so that two of
// them have much in common.
func randomTree(rnd *rand.Rand) []TreeEntry {
	names := []string{"a", "a.go", "a-b", "a_test.go", "testdata", "b", "x_test.go"}
	files := map[string]string{}
	for range rnd.IntN(20) {
		path := names[rnd.IntN(len(names))]
		for range rnd.IntN(3) {
			path += "/" + names[rnd.IntN(len(names))]
		}
		files[path] = []string{"", "->", "@", "#!"}[rnd.IntN(4)] + fmt.Sprint(rnd.IntN(3))
	}
	for path := range maps.Clone(files) {
		for i, c := range path {
			if c == '/' {
				delete(files, path[:i])
			}
		}
	}
	return entriesOf("sha1", files)
}

// TestMixTreesProperties compares with a map, and checks what holds for every
// two trees.
func TestMixTreesProperties(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	mixed, refused := 0, 0
	for range 600 {
		a, b := randomTree(rnd), randomTree(rnd)
		for _, c := range []struct {
			name        string
			code, tests []TreeEntry
			testSide    func(string) bool
			want        []TreeEntry
		}{
			{"itself", a, a, ofGoTests, a},
			{"never", a, b, never, a},
			{"always", a, b, always, b},
			{"nothing", nil, nil, ofGoTests, nil},
			{"code alone", a, nil, never, a},
			{"tests alone", nil, b, always, b},
		} {
			got, err := MixTrees(c.code, c.tests, c.testSide)
			if err != nil || !slices.Equal(got, c.want) {
				t.Fatalf("%s: %+v\nwith %+v: %+v, %v", c.name, c.code, c.tests, got, err)
			}
			tree, err := TreeOf(got, "sha1")
			want, err2 := TreeOf(c.want, "sha1")
			if err != nil || err2 != nil || tree != want {
				t.Fatalf("%s: %+v, %v; want %+v, %v", c.name, tree, err, want, err2)
			}
		}
		want := map[string]TreeEntry{}
		for _, e := range a {
			if !ofGoTests(e.Path) {
				want[e.Path] = e
			}
		}
		for _, e := range b {
			if ofGoTests(e.Path) {
				want[e.Path] = e
			}
		}
		plain := slices.SortedFunc(maps.Values(want), func(x, y TreeEntry) int { return cmp.Compare(x.Path, y.Path) })
		_, wantErr := TreeOf(plain, "sha1")
		got, err := MixTrees(a, b, ofGoTests)
		if (err != nil) != (wantErr != nil) || err == nil && !slices.Equal(got, plain) || err != nil && got != nil {
			t.Fatalf("%+v\nwith %+v: %+v, %v; want %+v, %v", a, b, got, err, plain, wantErr)
		}
		if err != nil {
			refused++
			continue
		}
		mixed++
		// What is mixed once stays as it is, whichever side it takes the place of.
		for _, again := range [][2][]TreeEntry{{got, b}, {a, got}, {got, got}} {
			if g, err := MixTrees(again[0], again[1], ofGoTests); err != nil || !slices.Equal(g, got) {
				t.Fatalf("again: %+v, %v; want %+v", g, err, got)
			}
		}
	}
	if mixed < 50 || refused < 50 {
		t.Errorf("%d mixed, %d refused: too few of one kind to say much", mixed, refused)
	}
}

func FuzzMixTrees(f *testing.F) {
	f.Add("a\x00a/b\x00c", "a\x00a/b", byte(0))
	f.Add("testdata", "a\x00testdata/x", byte(2))
	f.Add("b\x00a", "", byte(1))
	f.Fuzz(func(t *testing.T, code, tests string, mask byte) {
		list := func(s string) []TreeEntry {
			var l []TreeEntry
			for p := range strings.SplitSeq(s, "\x00") {
				l = append(l, TreeEntry{Mode: "160000", ID: strings.Repeat("1", 40), Sum: GitlinkSum(strings.Repeat("1", 40)), Path: p})
			}
			return l
		}
		testSide := func(p string) bool { return p != "" && p[len(p)-1]&mask != 0 }
		a, b := list(code), list(tests)
		got, err := MixTrees(a, b, testSide)
		if err != nil {
			if got != nil {
				t.Fatalf("%v with %v", got, err)
			}
			return
		}
		// If both sides are trees, so is the result.
		_, errA := TreeOf(a, "sha1")
		_, errB := TreeOf(b, "sha1")
		if _, err := TreeOf(got, "sha1"); err != nil && errA == nil && errB == nil {
			t.Fatalf("%q with %q: %v", code, tests, err)
		}
		for _, e := range got {
			from := a
			if testSide(e.Path) {
				from = b
			}
			if !slices.Contains(from, e) {
				t.Fatalf("%+v comes from nowhere", e)
			}
		}
	})
}
