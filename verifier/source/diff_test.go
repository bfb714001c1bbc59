package source

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// A treeFile is one entry of a tree of the tests; a gitlink's content is its
// commit's id.
type treeFile struct{ mode, content string }

type fileTree map[string]treeFile

func (t fileTree) content(path string) ([]byte, bool) {
	f, ok := t[path]
	return []byte(f.content), ok
}

func contents(base, head fileTree) func(side, path string) ([]byte, bool) {
	return func(side, path string) ([]byte, bool) {
		if side == Base {
			return base.content(path)
		}
		return head.content(path)
	}
}

// A gitStore makes patches with the real git.
type gitStore struct {
	t   testing.TB
	dir string
}

func newStore(t testing.TB, format string) *gitStore {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	g := &gitStore{t, t.TempDir()}
	g.git("", "init", "-q", "--bare", "--template=", "--object-format="+format)
	return g
}

func (g *gitStore) git(stdin string, args ...string) string {
	g.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = g.dir, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		g.t.Fatalf("git %q: %v\n%s", args, err, stderr.Bytes())
	}
	return string(out)
}

// diff commits both trees and returns the patch, with so many lines around.
func (g *gitStore) diff(base, head fileTree, context int) string {
	g.t.Helper()
	var in bytes.Buffer
	for i, t := range []fileTree{base, head} {
		fmt.Fprintf(&in, "commit refs/heads/t%d\ncommitter C <c@example.org> 1700000000 +0000\ndata 1\nx\ndeleteall\n", i)
		for path, f := range t {
			if f.mode == "160000" {
				fmt.Fprintf(&in, "M 160000 %s %s\n", f.content, quoteAlways(path))
			} else {
				fmt.Fprintf(&in, "M %s inline %s\ndata %d\n%s\n", f.mode, quoteAlways(path), len(f.content), f.content)
			}
		}
	}
	g.git(in.String(), "fast-import", "--quiet", "--force")
	return g.git("", "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-color",
		"--no-ext-diff", "--no-textconv", "--no-indent-heuristic", "--diff-algorithm=myers", "--unified="+strconv.Itoa(context),
		"--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none",
		"t0^{tree}", "t1^{tree}")
}

func quoteAlways(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// everyChange are two trees that differ in every way that a patch expresses.
func everyChange(digits int) (base, head fileTree) {
	one, two := strings.Repeat("1", digits), strings.Repeat("2", digits)
	lines := func(n int, edit map[int]string) string {
		var b strings.Builder
		for i := 1; i <= n; i++ {
			if s, ok := edit[i]; ok {
				b.WriteString(s)
				continue
			}
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	base = fileTree{
		"kept": {"100644", "same\n"}, "edited": {"100644", lines(60, nil)}, "deleted": {"100644", "gone\ntoo\n"}, "deleted empty": {"100644", ""},
		"mode": {"100644", "#!/bin/sh\n"}, "mode and content": {"100755", "a\n"}, "to link": {"100644", "kept\n"}, "from link": {"120000", "kept"},
		"link": {"120000", "kept"}, "binary": {"100644", "\x00\x01" + strings.Repeat("abc\xff", 3000)}, "binary to text": {"100644", "a\x00"},
		"lost newline": {"100644", "x\ny\n"}, "got newline": {"100644", "x\ny"}, "no newline": {"100644", "x\ny"}, "crlf": {"100644", "a\r\nb\r\nc"},
		"folder/file": {"100644", "becomes a file\n"}, "file": {"100644", "becomes a folder\n"}, "file.x": {"100644", "1\n"},
		"t\tn\n\"q\" \\": {"100644", "1\n"}, "\xe9\xff": {"100644", "1\n"}, "\x01\a\b\v\f\r\x7f": {"100644", "1\n"}, "ü b/ü": {"100644", "1\n"},
		"a b/a": {"100644", "1\n"}, "module": {"160000", one}, "module gone": {"160000", one}, "module to file": {"160000", one},
		"emptied": {"100644", "1\n2\n"}, "filled": {"100644", ""}, "long": {"100644", strings.Repeat("x", 200<<10) + "\n"},
	}
	head = fileTree{
		"kept": {"100644", "same\n"}, "edited": {"100644", lines(60, map[int]string{2: "", 20: "new\nlines\n", 21: "", 40: "line 40\nmore\n", 59: "x\n"})},
		"mode": {"100755", "#!/bin/sh\n"}, "mode and content": {"100644", "b\n"}, "to link": {"120000", "kept"}, "from link": {"100644", "kept\n2\n"},
		"link": {"120000", "edited"}, "binary": {"100644", "\x00\x02" + strings.Repeat("abd\xff", 3000)}, "binary to text": {"100644", "a\n"}, "new binary": {"100755", "\x00\xff\xfe"},
		"lost newline": {"100644", "x\ny"}, "got newline": {"100644", "x\ny\n"}, "no newline": {"100644", "z\ny"}, "crlf": {"100644", "a\r\nB\r\nc\r\n"},
		"folder": {"100644", "becomes a file\n"}, "file/x": {"100644", "becomes a folder\n"}, "file.x": {"100644", "2\n"}, "new empty": {"100644", ""}, "new": {"100755", "1\n2\n3"},
		"t\tn\n\"q\" \\": {"100644", "2\n"}, "\xe9\xff": {"100644", "2\n"}, "\x01\a\b\v\f\r\x7f": {"100644", "2\n"}, "ü b/ü": {"100644", "2\n"},
		"a b/a": {"100644", "-- a\n++ b\n@@ -1 +1 @@\ndiff --git a/x b/x\n\\ No newline at end of file\n"}, "module": {"160000", two}, "module new": {"160000", two}, "module to file": {"100644", "1\n"},
		"emptied": {"100644", ""}, "filled": {"100644", "1\n2\n"}, "long": {"100644", strings.Repeat("x", 200<<10) + "y\n"},
	}
	return base, head
}

// wantChanges is what a patch without context says, read in another way: it
// has the lines in the heads of its hunks, and modes tell the rest.
func wantChanges(t testing.TB, bare string, base, head fileTree) []Change {
	t.Helper()
	var want []Change
	for path := range union(base, head) {
		b, inBase := base[path]
		h, inHead := head[path]
		if b == h {
			continue
		}
		want = append(want, Change{Path: path, Added: !inBase, Deleted: !inHead, BaseMode: b.mode, HeadMode: h.mode})
	}
	sort.Slice(want, func(i, j int) bool { return want[i].Path < want[j].Path })
	at := -1
	var left [2]int // lines of the hunk that are to come
	for line := range strings.SplitSeq(bare, "\n") {
		switch {
		case left[0]+left[1] > 0:
			if strings.HasPrefix(line, "-") {
				left[0]--
			} else if strings.HasPrefix(line, "+") {
				left[1]--
			}
		case strings.HasPrefix(line, "diff --git "):
			for at++; at > 0 && line == "diff --git "+quote("a/"+want[at-1].Path)+" "+quote("b/"+want[at-1].Path); {
				at--
			}
		case line == "GIT binary patch":
			want[at].Binary = true
		case strings.HasPrefix(line, "@@ "):
			fields := strings.Fields(line)
			span := func(s string) (start, count int) {
				first, second, ok := strings.Cut(s[1:], ",")
				start, _ = strconv.Atoi(first)
				if count = 1; ok {
					count, _ = strconv.Atoi(second)
				}
				return start, count
			}
			_, left[0] = span(fields[1])
			var start int
			start, left[1] = span(fields[2])
			want[at].Removed += left[0]
			for i := range left[1] {
				want[at].Lines = appendLine(want[at].Lines, start+i)
			}
		}
	}
	if at != len(want)-1 {
		t.Fatalf("%d paths in the patch, want %d", at+1, len(want))
	}
	return want
}

func union(trees ...fileTree) map[string]bool {
	all := map[string]bool{}
	for _, t := range trees {
		for path := range t {
			all[path] = true
		}
	}
	return all
}

// A oneLine is a reader of one line at a time.
type oneLine struct{ rest string }

func (r *oneLine) Read(p []byte) (int, error) {
	if r.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, r.rest[:strings.IndexByte(r.rest, '\n')+1])
	r.rest = r.rest[n:]
	return n, nil
}

// checkDiff reads a patch with all, some and no contents, and compares.
func checkDiff(t *testing.T, g *gitStore, base, head fileTree) (patch string, changes []Change) {
	t.Helper()
	patch = g.diff(base, head, 3)
	want := wantChanges(t, g.diff(base, head, 0), base, head)
	both := contents(base, head)
	for name, content := range map[string]func(string, string) ([]byte, bool){
		"both": both, "neither": nil,
		"base": func(side, path string) ([]byte, bool) {
			if side == Head {
				return nil, false
			}
			return both(side, path)
		},
		"head": func(side, path string) ([]byte, bool) {
			if side == Base {
				return nil, false
			}
			return both(side, path)
		},
	} {
		got, err := ReadDiff(&oneLine{patch}, content)
		if err != nil {
			t.Fatalf("contents of %s: %v\n%.3000q", name, err, patch)
		}
		for i := range got {
			c := &got[i]
			for _, side := range []struct {
				id   *string
				file treeFile
			}{{&c.BaseID, base[c.Path]}, {&c.HeadID, head[c.Path]}} {
				id := ""
				if f := side.file; f.mode == "160000" {
					id = f.content
				} else if f.mode != "" && base[c.Path].content != head[c.Path].content || c.Added || c.Deleted {
					if f.mode != "" {
						id = blobID([]byte(f.content), len(*side.id))
					}
				}
				if *side.id != id {
					t.Errorf("%q: id %q, want %q", c.Path, *side.id, id)
				}
				*side.id = ""
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("contents of %s:\n got %+v\nwant %+v\n%.3000s", name, got, want, patch)
		}
		if name == "both" {
			changes = got
		}
	}
	return patch, changes
}

func TestReadDiff(t *testing.T) {
	t.Parallel()
	for format, digits := range map[string]int{"sha1": 40, "sha256": 64} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			g := newStore(t, format)
			base, head := everyChange(digits)
			checkDiff(t, g, base, head)
			checkDiff(t, g, head, base)
			checkDiff(t, g, nil, head)
			checkDiff(t, g, base, nil)
			if patch, _ := checkDiff(t, g, base, base); patch != "" {
				t.Errorf("equal trees: %q", patch)
			}
		})
	}
}

// TestReadDiffLines pins one patch by hand.
func TestReadDiffLines(t *testing.T) {
	t.Parallel()
	patch := "diff --git a/x.go b/x.go\n" +
		"index 83db48f84ec878fbfb30b46d16630e944e34f205..6e1bbd4eb4a0a43b9be6bb8e6a4e0d5e1c0f2fc4 100644\n" +
		"--- a/x.go\n+++ b/x.go\n" +
		"@@ -1,3 +1,4 @@\n line1\n-line2\n+two\n+more\n line3\n" +
		"@@ -9,0 +11 @@ line3\n+end\n" +
		"\\ No newline at end of file\n"
	got, err := ReadDiff(strings.NewReader(patch), nil)
	want := []Change{{
		Path: "x.go", Lines: []Range{{2, 3}, {11, 11}}, Removed: 1, BaseMode: "100644", HeadMode: "100644",
		BaseID: "83db48f84ec878fbfb30b46d16630e944e34f205", HeadID: "6e1bbd4eb4a0a43b9be6bb8e6a4e0d5e1c0f2fc4",
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// randomText is a text whose lines repeat, so that a diff has choices.
func randomText(r *rand.Rand) string {
	var b strings.Builder
	end := []string{"\n", "\n", "\r\n"}[r.IntN(3)]
	for range r.IntN(40) {
		b.WriteString([]string{"", "}", "\tx++", "func f() {", "-- a", "++ b", "@@ -1 +1 @@", "\\ No newline at end of file", "\xff\xfe", "_a  "}[r.IntN(10)])
		b.WriteString(end)
	}
	if r.IntN(4) == 0 {
		b.WriteString("no newline")
	}
	return b.String()
}

func editText(r *rand.Rand, s string) string {
	lines := slices.Collect(strings.SplitAfterSeq(s, "\n"))
	for range 1 + r.IntN(4) {
		i := r.IntN(len(lines))
		switch r.IntN(4) {
		case 0:
			lines[i] = ""
		case 1:
			lines[i] = lines[i] + "new\n"
		case 2:
			lines[i] = strings.TrimSuffix(lines[i], "\n")
		default:
			lines[i] = "x" + lines[i]
		}
	}
	return strings.Join(lines, "")
}

// randomTrees are two trees that share most of their paths.
func randomTrees(r *rand.Rand, digits int) (base, head fileTree) {
	base, head = fileTree{}, fileTree{}
	names := []string{"a", "b c", "d/e", "d.x", "d/f g/h", "\xc3\xa9", "q\"\\", "t\tx", "z"}
	file := func() treeFile {
		switch r.IntN(12) {
		case 0:
			return treeFile{"120000", "to/" + strconv.Itoa(r.IntN(9))}
		case 1:
			return treeFile{"160000", strings.Repeat(strconv.Itoa(1+r.IntN(9)), digits)}
		case 2:
			b := make([]byte, r.IntN(3000))
			for i := range b {
				b[i] = byte(r.IntN(256))
			}
			return treeFile{"100644", "\x00" + string(b)}
		case 3:
			return treeFile{"100755", randomText(r)}
		}
		return treeFile{"100644", randomText(r)}
	}
	for _, name := range names {
		f := file()
		if r.IntN(5) > 0 {
			base[name] = f
		}
		switch n := r.IntN(8); {
		case n == 0:
		case n == 1:
			head[name] = file()
		case f.mode == "100644" && n < 6:
			head[name] = treeFile{f.mode, editText(r, f.content)}
		case f.mode == "100644" && n == 6:
			head[name] = treeFile{"100755", f.content}
		default:
			head[name] = f
		}
	}
	return base, head
}

func TestReadDiffRandom(t *testing.T) {
	t.Parallel()
	g := newStore(t, "sha1")
	for seed := range uint64(30) {
		base, head := randomTrees(rand.New(rand.NewPCG(1, seed)), 40)
		checkDiff(t, g, base, head)
	}
}

// silent reports whether a changed line of a patch is one of those that the
// contents do not tell: modes, the data of binary patches, the text of a hunk's
// head.
func silent(line, mutated string, inBinary bool) bool {
	head := func(s string) string {
		i := strings.LastIndex(s, " @@")
		return s[:max(i, 0)]
	}
	return inBinary || strings.Contains(line, "mode ") || strings.HasPrefix(line, "index ") && line[:len(line)-4] == mutated[:min(len(mutated), len(line)-4)] ||
		strings.HasPrefix(line, "@@ ") && head(line) == head(mutated)
}

// TestDiffMutations: with both contents, no line of a patch can be changed,
// dropped or doubled.
func TestDiffMutations(t *testing.T) {
	t.Parallel()
	if raceEnabled {
		t.Skip("takes long with the race detector, and has no goroutines")
	}
	g := newStore(t, "sha1")
	refused, read := 0, 0
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(2, seed))
		base, head := randomTrees(r, 40)
		if seed == 0 {
			base, head = everyChange(40)
			delete(base, "long")
			delete(head, "long")
		}
		patch, changes := checkDiff(t, g, base, head)
		ids, err := ReadDiff(strings.NewReader(patch), contents(base, head))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(patch, "\n")
		lines = lines[:len(lines)-1]
		inBinary := false
		for i, line := range lines {
			if strings.HasPrefix(line, "diff --git ") {
				inBinary = false
			}
			flip := []byte(line)
			flip[r.IntN(len(flip))] ^= 1 << r.IntN(8)
			for how, mutated := range map[string]string{
				"dropped": "", "doubled": line + line, "longer": strings.TrimSuffix(line, "\n") + "x\n", "flipped": string(flip), "cut": line[1:],
				"shifted": strings.Replace(line, ",", ",1", 1), "moved": strings.Replace(line, "-", "-1", 1), "no newline": line + "\\ No newline at end of file\n",
			} {
				if mutated == line || silent(line, mutated, inBinary) {
					continue
				}
				got, err := ReadDiff(strings.NewReader(strings.Join(lines[:i], "")+mutated+strings.Join(lines[i+1:], "")), contents(base, head))
				if err != nil {
					refused++
					if got != nil {
						t.Errorf("%+v beside %v", got, err)
					}
					continue
				}
				read++
				t.Errorf("seed %d: line %d, %q %s: read as %d changes, without it %d", seed, i+1, line, how, len(got), len(changes))
			}
			if line == "GIT binary patch\n" {
				inBinary = true
			}
		}
		// Whole hunks can neither be dropped.
		for i := range lines {
			if !strings.HasPrefix(lines[i], "@@ ") {
				continue
			}
			end := i + 1
			for end < len(lines) && !strings.HasPrefix(lines[end], "@@ -") && !strings.HasPrefix(lines[end], "diff --git ") {
				end++
			}
			if got, err := ReadDiff(strings.NewReader(strings.Join(lines[:i], "")+strings.Join(lines[end:], "")), contents(base, head)); err == nil && !reflect.DeepEqual(got, ids) {
				t.Errorf("seed %d: without the hunk in line %d: %+v", seed, i+1, got)
			}
		}
	}
	t.Logf("%d refused, %d read", refused, read)
	if refused < 1000 {
		t.Errorf("only %d mutations", refused)
	}
}

// TestReadDiffTrue: a patch that is well-formed, and not the one of the files.
func TestReadDiffTrue(t *testing.T) {
	t.Parallel()
	base, head := fileTree{}, fileTree{}
	for _, test := range []struct {
		name, base, head, hunks string
		ok                      bool
	}{
		{"all", "a\nb\nc\n", "a\nB\nc\n", "@@ -2 +2 @@\n-b\n+B\n", true},
		{"all, with context", "a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", true},
		{"more than needed", "a\nb\nc\n", "a\nB\nc\n", "@@ -1,2 +1,2 @@\n-a\n-b\n+a\n+B\n", true},
		{"a change before left out", "a\nb\nc\n", "A\nb\nC\n", "@@ -3 +3 @@\n-c\n+C\n", false},
		{"a change after left out", "a\nb\nc\n", "A\nb\nC\n", "@@ -1 +1 @@\n-a\n+A\n", false},
		{"a change between left out", "a\nb\nc\n", "A\nB\nC\n", "@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-c\n+C\n", false},
		{"an added end left out", "a\n", "A\nb\n", "@@ -1 +1 @@\n-a\n+A\n", false},
		{"a lost newline left out", "a\nb\n", "A\nb", "@@ -1 +1 @@\n-a\n+A\n", false},
		{"another line number", "a\na\n", "a\nb\na\n", "@@ -2,0 +3 @@\n+b\n", false},
		{"the line number of the choice", "a\na\n", "a\na\na\n", "@@ -2,0 +3 @@\n+a\n", true},
		{"context of the base alone", "a\nb\n", "A\nB\n", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n", false},
		{"beyond the end", "a\n", "a\nb\n", "@@ -5,0 +6 @@\n+b\n", false},
		{"without a change", "a\n", "a\nb\n", "@@ -1 +1 @@\n a\n", false},
		{"hunks that overlap", "a\nb\n", "A\nB\n", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -2 +2 @@\n-b\n+B\n", false},
		{"no newline said wrongly", "a\n", "b\n", "@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", false},
		{"no newline not said", "a\n", "b", "@@ -1 +1 @@\n-a\n+b\n", false},
		{"no newline", "a\n", "b", "@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", true},
		{"a heading from above", "f\nb\n", "f\nB\n", "@@ -2 +2 @@ f\n-b\n+B\n", true},
		{"a heading from nowhere", "f\nb\n", "f\nB\n", "@@ -2 +2 @@ g\n-b\n+B\n", false},
		{"the last heading again", "f\nb\nc\n", "f\nB\nc\nd\n", "@@ -2 +2 @@ f\n-b\n+B\n@@ -3,0 +4 @@ f\n+d\n", true},
		{"a later heading", "f\nb\nc\n", "f\nB\nc\nd\n", "@@ -2 +2 @@ f\n-b\n+B\n@@ -3,0 +4 @@ c\n+d\n", true},
		{"a heading that an earlier hunk would have had", "f\nb\nc\n", "f\nB\nc\nd\n", "@@ -2 +2 @@\n-b\n+B\n@@ -3,0 +4 @@ f\n+d\n", false},
		{"an empty heading", "f\nb\n", "f\nB\n", "@@ -2 +2 @@ \n-b\n+B\n", false},
		{"a count of one", "a\n", "b\n", "@@ -1,1 +1 @@\n-a\n+b\n", false},
		{"a leading zero", "a\n", "b\n", "@@ -01 +1 @@\n-a\n+b\n", false},
		{"line 0", "a\n", "b\n", "@@ -0 +1 @@\n-a\n+b\n", false},
		{"binary, of text", "a\n", "b\n", "GIT binary patch\nliteral 2\nJcmY#ZGXMYp2LJ&8\n\nliteral 2\nJcmYdHGXMYp2LJ&7\n\n", false},
		{"binary", "a\x00", "b\x00", "GIT binary patch\nliteral 2\nJcmY#ZGXMYp2LJ&8\n\nliteral 2\nJcmYdHGXMYp2LJ&7\n\n", true},
		{"binary of another size", "a\x00", "b\x00", "GIT binary patch\nliteral 3\nJcmY#ZGXMYp2LJ&8\n\nliteral 2\nJcmYdHGXMYp2LJ&7\n\n", false},
		{"half a binary patch", "a\x00", "b\x00", "GIT binary patch\nliteral 2\nJcmY#ZGXMYp2LJ&8\n\n", false},
		{"binary without data", "a\x00", "b\x00", "GIT binary patch\nliteral 2\n\nliteral 2\nJcmYdHGXMYp2LJ&7\n\n", false},
		{"no lines", "a\n", "b\n", "", false},
	} {
		base["f"], head["f"] = treeFile{"100644", test.base}, treeFile{"100644", test.head}
		patch := fmt.Sprintf("diff --git a/f b/f\nindex %s..%s 100644\n", blobID([]byte(test.base), 40), blobID([]byte(test.head), 40))
		if test.hunks != "" && !strings.HasPrefix(test.hunks, "GIT") {
			patch += "--- a/f\n+++ b/f\n"
		}
		got, err := ReadDiff(strings.NewReader(patch+test.hunks), contents(base, head))
		if (err == nil) != test.ok {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
	}
}

func TestReadDiffRefuses(t *testing.T) {
	t.Parallel()
	one, two, none := strings.Repeat("1", 40), strings.Repeat("2", 40), strings.Repeat("0", 40)
	section := func(path string) string {
		return fmt.Sprintf("diff --git %s %s\nindex %s..%s 100644\n--- %[1]s\n+++ %[2]s\n@@ -1 +1 @@\n-a\n+b\n", quote("a/"+path), quote("b/"+path), one, two)
	}
	good := section("f")
	if _, err := ReadDiff(strings.NewReader(section("a")+section("b")), nil); err != nil {
		t.Fatal(err)
	}
	for name, patch := range map[string]string{
		"text before":                       "\n" + good,
		"text after":                        good + "\n",
		"not ended":                         strings.TrimSuffix(good, "\n"),
		"twice":                             good + good,
		"out of order":                      section("b") + section("a"),
		"two formats":                       section("a") + strings.NewReplacer(one, strings.Repeat("1", 64), two, strings.Repeat("2", 64)).Replace(section("b")),
		"two names":                         strings.Replace(good, "b/f", "b/g", 1),
		"other prefixes":                    strings.Replace(strings.Replace(good, "a/f", "c/f", 1), "b/f", "d/f", 1),
		"other label":                       strings.Replace(good, "+++ b/f", "+++ b/g", 1),
		"a label with a tab":                strings.Replace(good, "+++ b/f", "+++ b/f\t", 1),
		"a path outside":                    section("../f"),
		"an absolute path":                  section("/f"),
		"an empty path":                     section(""),
		"a long path":                       section(strings.Repeat("a", 4097)),
		"quoted needlessly":                 strings.ReplaceAll(strings.ReplaceAll(good, "a/f", `"a/f"`), "b/f", `"b/f"`),
		"an unknown escape":                 strings.ReplaceAll(strings.ReplaceAll(good, "a/f", `"a/\x"`), "b/f", `"b/\x"`),
		"a large escape":                    strings.ReplaceAll(strings.ReplaceAll(good, "a/f", `"a/\777"`), "b/f", `"b/\777"`),
		"a cut escape":                      strings.ReplaceAll(strings.ReplaceAll(good, "a/f", `"a/\1"`), "b/f", `"b/\1"`),
		"short ids":                         strings.Replace(strings.Replace(good, one, one[:7], 1), two, two[:7], 1),
		"capitals":                          strings.Replace(good, one, strings.Repeat("A", 40), 1),
		"equal ids":                         strings.Replace(good, two, one, 1),
		"a zero id":                         strings.Replace(good, one, none, 1),
		"an unknown mode":                   strings.Replace(good, "100644", "100664", 1),
		"a mode in two lines":               strings.Replace(good, "index", "old mode 100644\nnew mode 100755\nindex", 1),
		"no mode":                           strings.Replace(good, " 100644", "", 1),
		"equal modes":                       "diff --git a/f b/f\nold mode 100644\nnew mode 100644\n",
		"two kinds":                         "diff --git a/f b/f\nold mode 100644\nnew mode 120000\n",
		"half a mode change":                "diff --git a/f b/f\nold mode 100644\n",
		"nothing":                           "diff --git a/f b/f\n",
		"nothing, and more":                 "diff --git a/f b/f\n" + section("g"),
		"added without an id":               "diff --git a/f b/f\nnew file mode 100644\n",
		"added, nothing in it":              "diff --git a/f b/f\nnew file mode 100644\nindex " + none + ".." + one + "\n",
		"added from something":              "diff --git a/f b/f\nnew file mode 100644\nindex " + two + ".." + one + "\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n",
		"added, with a base":                "diff --git a/f b/f\nnew file mode 100644\nindex " + none + ".." + one + "\n--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
		"added, not labelled":               "diff --git a/f b/f\nnew file mode 100644\nindex " + none + ".." + one + "\n--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a\n",
		"a rename":                          "diff --git a/f b/f\nsimilarity index 100%\nrename from f\nrename to g\n",
		"no hunk":                           good[:strings.Index(good, "@@")],
		"a cut hunk":                        strings.TrimSuffix(good, "+b\n"),
		"a hunk too long":                   good + "+c\n",
		"an empty context":                  strings.Replace(good, "@@ -1 +1 @@\n-a\n+b\n", "@@ -1,2 +1,2 @@\n\n-a\n+b\n", 1),
		"another sign":                      strings.Replace(good, "-a", "*a", 1),
		"other words":                       strings.Replace(good, "-a\n", "-a\n\\ Kein Zeilenumbruch\n", 1),
		"a line after the last":             strings.Replace(good, "@@ -1 +1 @@\n-a\n+b\n", "@@ -1 +1,2 @@\n-a\n+b\n\\ No newline at end of file\n+c\n", 1),
		"a hunk after the last line":        good + "\\ No newline at end of file\n@@ -3 +3 @@\n-a\n+b\n",
		"a hunk after the base's last line": strings.Replace(good, "-a\n", "-a\n\\ No newline at end of file\n", 1) + "@@ -2,0 +3 @@\n+c\n",
		"an empty last line":                strings.Replace(good, "+b\n", "+\n\\ No newline at end of file\n", 1),
		"hunks out of order":                strings.Replace(good, "@@ -1 +1 @@", "@@ -9 +9 @@", 1) + "@@ -1 +1 @@\n-a\n+b\n",
		"hunks that drift":                  good + "@@ -9 +10 @@\n-a\n+b\n",
		"a file that becomes a file": "diff --git a/f b/f\ndeleted file mode 100644\nindex " + one + ".." + none + "\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n" +
			"diff --git a/f b/f\nnew file mode 100755\nindex " + none + ".." + one + "\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n",
		"huge numbers":               strings.Replace(good, "@@ -1 +1 @@", "@@ -9999999999 +9999999999 @@", 1),
		"numbers that overflow":      strings.Replace(good, "@@ -1 +1 @@", "@@ -2147483647,2 +2147483647,2 @@", 1),
		"an unknown id of a gitlink": "diff --git a/f b/f\nindex " + one + ".." + two + " 160000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-Subproject commit " + one + "\n+Subproject commit " + one + "\n",
		"the end of a typechange before its start": "diff --git a/f b/f\nnew file mode 100644\nindex " + none + ".." + blobID(nil, 40) + "\n" +
			"diff --git a/f b/f\ndeleted file mode 120000\nindex " + one + ".." + none + "\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
	} {
		if got, err := ReadDiff(strings.NewReader(patch), nil); err == nil || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// What the patch says is not there.
	added := "diff --git a/f b/f\nnew file mode 100644\nindex " + none + ".." + blobID(nil, 40) + "\n"
	if _, err := ReadDiff(strings.NewReader(added), contents(fileTree{}, fileTree{"f": {"100644", ""}})); err != nil {
		t.Error(err)
	}
	if _, err := ReadDiff(strings.NewReader(added), contents(fileTree{"f": {"100644", "x"}}, fileTree{"f": {"100644", ""}})); err == nil {
		t.Error("added, and the base has it")
	}
}

// FuzzReadDiff: whatever is read is consistent, and nothing comes beside an
// error.
func FuzzReadDiff(f *testing.F) {
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 40)
	f.Add([]byte("diff --git a/f b/f\nindex "+one+".."+two+" 100644\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@ x\n a\n-b\n+c\n\\ No newline at end of file\n"), []byte("a\nb\n"), []byte("a\nc"))
	f.Add([]byte("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"), []byte("a"), []byte("a"))
	f.Add([]byte("diff --git \"a/\\001\" \"b/\\001\"\nindex "+one+".."+two+" 160000\n--- \"a/\\001\"\n+++ \"b/\\001\"\n@@ -1 +1 @@\n-Subproject commit "+one+"\n+Subproject commit "+two+"\n"), []byte{}, []byte{})
	f.Add([]byte("diff --git a/f b/f\nindex "+one+".."+two+" 100644\nGIT binary patch\nliteral 2\nJcmY#ZGXMYp2LJ&8\n\ndelta 2\nJcmYdHGXMYp2LJ&7\n\n"), []byte("\x00"), []byte("\x01"))
	f.Fuzz(func(t *testing.T, patch, base, head []byte) {
		for _, content := range []func(string, string) ([]byte, bool){
			nil,
			func(side, path string) ([]byte, bool) {
				if side == Base {
					return base, true
				}
				return head, true
			},
		} {
			changes, err := ReadDiff(bytes.NewReader(patch), content)
			if err != nil && changes != nil {
				t.Fatalf("%+v beside %v", changes, err)
			}
			last := ""
			for _, c := range changes {
				if c.Path <= last || checkPath(c.Path) != nil || c.Added && c.Deleted || c.Removed < 0 {
					t.Errorf("%+v after %q", c, last)
				}
				last = c.Path
				to := -1
				for _, r := range c.Lines {
					if r.From <= to+1 && to >= 0 || r.From < 1 || r.To < r.From {
						t.Errorf("ranges %v", c.Lines)
					}
					to = r.To
				}
			}
		}
	})
}

// FuzzTrueDiff: of two texts, a patch that takes all lines out and puts the
// others in is read, and is refused for any other head.
func FuzzTrueDiff(f *testing.F) {
	f.Add([]byte("a\nb\n"), []byte("a\nc"), []byte("a\nd"))
	f.Add([]byte(""), []byte("\r\n"), []byte("\n"))
	f.Fuzz(func(t *testing.T, base, head, other []byte) {
		if bytes.Equal(base, head) {
			return
		}
		patch := fmt.Appendf(nil, "diff --git a/f b/f\nindex %s..%s 100644\n--- a/f\n+++ b/f\n@@", blobID(base, 40), blobID(head, 40))
		var body []byte
		for i, text := range [][]byte{base, head} {
			n := 0
			for line := range bytes.Lines(text) {
				n++
				body = append(append(body, "-+"[i]), line...)
				if !bytes.HasSuffix(line, []byte("\n")) {
					body = append(body, "\n\\ No newline at end of file\n"...)
				}
			}
			span := map[int]string{0: "0,0", 1: "1"}[n]
			if span == "" {
				span = fmt.Sprintf("1,%d", n)
			}
			patch = fmt.Appendf(patch, " %c%s", "-+"[i], span)
		}
		patch = append(append(patch, " @@\n"...), body...)
		read := func(head []byte) error {
			_, err := ReadDiff(bytes.NewReader(patch), func(side, _ string) ([]byte, bool) {
				if side == Base {
					return base, true
				}
				return head, true
			})
			return err
		}
		if err := read(head); err != nil {
			t.Errorf("%v: %q", err, patch)
		}
		if err := read(other); (err == nil) != bytes.Equal(head, other) {
			t.Errorf("with %q: %v: %q", other, err, patch)
		}
	})
}
