package runner

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/verifier"
)

// bigRepo is a repository of n small files in folders of ten.
func bigRepo(t testing.TB, n int) *gitRepo {
	g := newRepo(t)
	var stream bytes.Buffer
	stream.WriteString("commit refs/heads/main\ncommitter C <c@example.org> 1700000000 +0000\ndata 1\nx\n")
	for i := range n {
		content := bytes.Repeat(fmt.Appendf(nil, "line of file %d\n", i), 200)
		fmt.Fprintf(&stream, "M 100644 inline d%d/s%d/f%d.txt\ndata %d\n%s\n", i/100, i/10%10, i, len(content), content)
	}
	g.gitIn(stream.String(), "fast-import", "--quiet")
	return g
}

// awkward commits a tree that is easy to get wrong and returns its listing of
// what must be on disk: mode, content by path.
func awkward(t testing.TB, g *gitRepo) map[string][2]string {
	files := map[string][2]string{
		"plain.txt":          {"100644", "hello\n"},
		"run.sh":             {"100755", "#!/bin/sh\nexit 0\n"},
		"empty":              {"100644", ""},
		"no-newline":         {"100644", "x"},
		"crlf.txt":           {"100644", "a\r\nb\r\n"},
		"ident.c":            {"100644", "/* $Id$ $Format:%H$ */\n"},
		"link":               {"120000", "plain.txt"},
		"dir/up":             {"120000", "../.."},
		"absolute":           {"120000", "/etc/passwd"},
		"dangling":           {"120000", "no/such/\xff\n"},
		"a-b":                {"100644", "-"},
		"a/b/c/d/deep":       {"100644", "deep\n"},
		"a.c":                {"100644", "."},
		"name with\nnewline": {"100644", "n\n"},
		"\xff\xfe":           {"100644", "not UTF-8\n"},
		"-rf":                {"100644", "option\n"},
		"zero":               {"100644", "a\x00b"},
		"big":                {"100644", strings.Repeat("0123456789abcdef", 40000)},
		"big-exec":           {"100755", strings.Repeat("fedcba9876543210", 40000)},
		"media.bin":          {"100644", lfsPointer + "oid sha256:4d7a\nsize 12345\n"},
		"secret_test.go":     {"100644", "package x\n"},
		".gitattributes": {"100644", "*.txt text eol=crlf\n*.c ident export-subst\n*.bin filter=lfs diff=lfs merge=lfs -text\n" +
			"secret_test.go export-ignore\nplain.txt working-tree-encoding=UTF-16\n* -diff diff=evil filter=evil\n"},
		"dir/.gitignore": {"100644", "*\n"},
	}
	var stream bytes.Buffer
	stream.WriteString("commit refs/heads/main\ncommitter C <c@example.org> 1700000000 +0000\ndata 1\nx\n")
	for path, f := range files {
		fmt.Fprintf(&stream, "M %s inline %s\ndata %d\n%s\n", f[0], quotePath(path), len(f[1]), f[1])
	}
	fmt.Fprintf(&stream, "M 160000 %s sub/module\n", strings.Repeat("1", g.digits()))
	g.gitIn(stream.String(), "fast-import", "--quiet")
	return files
}

// digits is the length of an id.
func (g *gitRepo) digits() int {
	return len(g.gitIn("", "hash-object", "--stdin"))
}

// onDisk compares a folder with what it must hold, nothing else in it.
func onDisk(t *testing.T, dir string, want map[string][2]string, when time.Time) {
	t.Helper()
	seen := make(map[string]bool)
	err := filepath.WalkDir(dir, func(full string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, _ := filepath.Rel(dir, full)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Type() != os.ModeSymlink && !info.ModTime().Equal(when) {
			t.Errorf("%q: modified at %v, want %v", path, info.ModTime(), when)
		}
		if d.IsDir() {
			if info.Mode().Perm() != 0o755 {
				t.Errorf("%q: mode %v", path, info.Mode())
			}
			return nil
		}
		mode, content := "", ""
		if info.Mode().Type() == os.ModeSymlink {
			mode = "120000"
			content, err = os.Readlink(full)
		} else {
			mode = fmt.Sprintf("100%o", info.Mode().Perm())
			var b []byte
			b, err = os.ReadFile(full)
			content = string(b)
		}
		if got := [2]string{mode, content}; got != want[path] {
			t.Errorf("%q: %.60q, want %.60q", path, got, want[path])
		}
		seen[path] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range want {
		if !seen[path] {
			t.Errorf("%q: not written", path)
		}
	}
}

func TestMaterialise(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			g := newRepo(t, "--object-format="+format)
			files := awkward(t, g)
			r := g.open()
			head, err := r.Resolve(context.Background(), "HEAD")
			if err != nil {
				t.Fatal(err)
			}
			var listing, again bytes.Buffer
			to := Target{Dir: filepath.Join(t.TempDir(), "new", "tree"), Time: time.Unix(head.Time, 0)}
			l, err := r.Materialise(context.Background(), head.Tree, &listing, to)
			if err != nil {
				t.Fatal(err)
			}
			onDisk(t, to.Dir, files, to.Time)
			if d, err := os.ReadDir(filepath.Join(to.Dir, "sub/module")); err != nil || len(d) != 0 {
				t.Errorf("submodule: %v, %v", d, err)
			}
			if l.ID != head.Tree || l.Tree.Gitlinks != 1 || l.Tree.Entries != len(files)+1 {
				t.Errorf("%+v", l.Tree)
			}
			if !slices.Equal(l.LFS, []string{"media.bin"}) || !slices.Equal(l.Gitlinks(), []string{"sub/module"}) {
				t.Errorf("LFS %q, gitlinks %q", l.LFS, l.Gitlinks())
			}
			read, err := verifier.ReadTree(bytes.NewReader(listing.Bytes()), verifier.TreeLimits{}, nil)
			if err != nil || read != l.Tree {
				t.Errorf("the listing reads as %+v, %v", read, err)
			}
			// The same listing without writing, with and without what is known.
			for _, r := range []*Repository{r, g.open()} {
				again.Reset()
				if l2, err := r.List(context.Background(), head.Tree, &again); err != nil || l2.Tree != l.Tree || !slices.Equal(l2.LFS, l.LFS) {
					t.Errorf("listed: %+v, %v", l2.Tree, err)
				}
				if !bytes.Equal(again.Bytes(), listing.Bytes()) {
					t.Error("two listings of one tree differ")
				}
			}
			b, err := r.ReadFile(context.Background(), l, "plain.txt", 100)
			if err != nil || string(b) != "hello\n" {
				t.Errorf("%q, %v", b, err)
			}
			if _, err := r.ReadFile(context.Background(), l, "big", 100); err == nil || !errors.Is(err, errTooLarge) {
				t.Errorf("too large: %v", err)
			}
			for _, path := range []string{"nope", "a", "sub/module", ""} {
				if _, err := r.ReadFile(context.Background(), l, path, 100); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%q: %v", path, err)
				}
			}
		})
	}
}

// TestMaterialiseSHA256 compares with what git computes for the same files in
// a sha256 repository.
func TestMaterialiseSHA256(t *testing.T) {
	t.Parallel()
	trees := make(map[string]verifier.Tree)
	for _, format := range []string{"sha1", "sha256"} {
		g := newRepo(t, "--object-format="+format)
		awkward(t, g)
		g.git("read-tree", "HEAD")
		g.git("rm", "-q", "-r", "--cached", "sub")
		g.git("commit", "-q", "-m", "without submodule")
		r := g.open()
		head, err := r.Resolve(context.Background(), "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		l, err := r.List(context.Background(), head.Tree, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		trees[format] = l.Tree
	}
	if trees["sha1"].SHA256 != trees["sha256"].SHA256 || trees["sha256"].ID != trees["sha256"].SHA256.String() {
		t.Errorf("%+v", trees)
	}
}

func TestMaterialiseNotEmpty(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("a", "x")
	g.commit("one")
	r := g.open()
	head, err := r.Resolve(context.Background(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	os.Symlink("/etc", filepath.Join(dir, "a"))
	if l, err := r.Materialise(context.Background(), head.Tree, io.Discard, Target{Dir: dir}); err == nil {
		t.Errorf("%+v", l)
	}
}

// TestHostileTrees: trees that git itself would not write are refused before
// anything is on disk. Attempt 111 of the conformance list.
func TestHostileTrees(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	blob := g.gitIn("hello", "hash-object", "-w", "--stdin")
	up := g.gitIn("..", "hash-object", "-w", "--stdin")
	nul := g.gitIn("a\x00b", "hash-object", "-w", "--stdin")
	empty := g.gitIn("", "hash-object", "-w", "--stdin")
	long := g.gitIn(strings.Repeat("l", 5000), "hash-object", "-w", "--stdin")
	raw := func(id string) string {
		b, err := hex.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	file := func(mode, name, id string) string { return mode + " " + name + "\x00" + raw(id) }
	tree := func(records ...string) string {
		return g.gitIn(strings.Join(records, ""), "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	}
	sub := tree(file("100644", "x", blob))
	emptyTree := tree()
	bomb := emptyTree
	for range 30 {
		var records []string
		for i := range 10 {
			records = append(records, file("40000", fmt.Sprint(i), bomb))
		}
		bomb = tree(records...)
	}
	filled := tree(file("100644", "x", blob))
	for range 30 {
		filled = tree(file("40000", "a", filled), file("40000", "b", filled))
	}
	chain := tree(file("100644", "x", blob))
	for range 40 {
		chain = tree(file("40000", strings.Repeat("d", 200), chain))
	}
	for name, c := range map[string]struct{ id, want string }{
		"good":            {tree(file("100644", "a", blob), file("40000", "b", sub)), ""},
		"old mode":        {tree(file("100664", "a", blob)), `mode "100664"`},
		".git":            {tree(file("40000", ".git", sub)), `can mean .git`},
		".GIT":            {tree(file("100644", ".GIT", blob)), `can mean .git`},
		"HFS+":            {tree(file("100644", ".g\u200cit", blob)), `can mean .git`},
		"NTFS":            {tree(file("100644", "git~1", blob)), `can mean .git`},
		"NTFS stream":     {tree(file("40000", ".git::$INDEX_ALLOCATION", sub)), `can mean .git`},
		"NTFS end":        {tree(file("40000", ".git. ", sub)), `can mean .git`},
		".Git below":      {tree(file("40000", "d", tree(file("100644", ".Git", blob)))), `can mean .git`},
		"gitlink .git":    {tree(file("160000", ".GIt", blob)), `can mean .git`},
		"link .git":       {tree(file("120000", ".git", blob)), `can mean .git`},
		"..":              {tree(file("40000", "..", sub)), `segment ".."`},
		".":               {tree(file("100644", ".", blob)), `segment "."`},
		"slash":           {tree(file("100644", "a/b", blob), file("100644", "a/../../c", blob)), `illegal name`},
		"slash that fits": {tree(file("100644", "a/b", blob)), `illegal name`},
		"absolute":        {tree(file("100644", "/etc/passwd", blob)), `illegal name`},
		"below a link":    {tree(file("120000", "a", blob), file("40000", "a", sub)), `lies below`},
		"above a link":    {tree(file("120000", "a", up), file("40000", "a", sub)), `lies below`},
		"gitlink below":   {tree(file("120000", "a", up), file("40000", "a", tree(file("160000", "x", blob)))), `lies below`},
		"in a gitlink":    {tree(file("160000", "a", blob), file("40000", "a", sub)), `lies below`},
		"twice":           {tree(file("100644", "a", blob), file("100644", "a", blob)), `not after`},
		"unsorted":        {tree(file("100644", "b", blob), file("100644", "a", blob)), `not as Git writes`},
		"empty folder":    {tree(file("40000", "a", emptyTree)), `an empty folder`},
		"padded mode":     {tree(file("0100644", "a", blob)), `mode "0100644"`},
		"unknown mode":    {tree(file("100600", "a", blob)), `mode "100600"`},
		"blob is a tree":  {tree(file("100644", "a", sub)), "is not in the repository"},
		"blob is missing": {tree(file("100644", "a", strings.Repeat("1", 40))), "is not in the repository"},
		"tree is missing": {tree(file("40000", "a", strings.Repeat("1", 40))), `is not in the repository`},
		"tree is a blob":  {tree(file("40000", "a", blob)), `is not in the repository`},
		"link with NUL":   {tree(file("120000", "a", nul)), `NUL`},
		"link to nothing": {tree(file("120000", "a", empty)), `link of 0 bytes`},
		"link too long":   {tree(file("120000", "a", long)), `link of 5000 bytes`},
		"padded folder":   {tree(file("040000", "a", sub)), `mode "040000"`},
		"bomb of folders": {bomb, "more than 1000"},
		"bomb of files":   {filled, "more than 1000"},
		"too deep":        {chain, "illegal name"},
		"cut":             {tree(file("100644", "a", blob)[:20]), "malformed"},
		"no mode":         {tree("\x00" + raw(blob)), "malformed"},
		"not a tree":      {blob, `is not in the repository`},
		"absent":          {strings.Repeat("2", 40), `is not in the repository`},
		"an option":       {"--help", "is no tree id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := g.open()
			r.Limits.Entries = 1000
			dir := filepath.Join(t.TempDir(), "tree")
			l, err := r.Materialise(context.Background(), c.id, io.Discard, Target{Dir: dir})
			if c.want == "" {
				if err != nil || l.ID != c.id {
					t.Errorf("%+v, %v", l.Tree, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || l.ID != "" {
				t.Errorf("%+v, %v; want %q", l.Tree, err, c.want)
			}
			hostile := strings.Contains(err.Error(), "refused")
			want := verifier.UnknownRevision
			switch {
			case errors.Is(err, verifier.ErrTreeLimit):
				want = verifier.TreeTooLarge
			case hostile:
				want = verifier.HostileTree
			}
			if code(err) != want {
				t.Errorf("code %q of %v", code(err), err)
			}
			// Only the content of a blob can be refused later than at the names.
			if _, err := os.Stat(dir); err == nil && !strings.HasPrefix(name, "link ") {
				t.Error("something was written")
			}
			if matches, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); len(matches) > 1 {
				t.Errorf("written outside: %q", matches)
			}
		})
	}
}

func TestMaterialiseLimits(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("a", "12345")
	g.write("b", "12345")
	g.write("c", strings.Repeat("x", smallBlob+1))
	g.commit("one")
	for _, limits := range []verifier.TreeLimits{{Entries: 2}, {File: 4}, {File: smallBlob}, {Total: 9}, {Listing: 100}} {
		r := g.open()
		r.Limits = limits
		head, err := r.Resolve(context.Background(), "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		if l, err := r.Materialise(context.Background(), head.Tree, io.Discard, Target{Dir: t.TempDir()}); code(err) != verifier.TreeTooLarge || !errors.Is(err, verifier.ErrTreeLimit) {
			t.Errorf("%+v: %+v, %v", limits, l, err)
		}
	}
}

// canceler is a hand that cancels all at the first blob.
type canceler struct {
	*blobHasher
	cancel func()
}

func (c canceler) blob(e *verifier.TreeEntry, size int64, body io.Reader) (blobSum, error) {
	c.cancel()
	return c.blobHasher.blob(e, size, body)
}

func TestMaterialiseCanceled(t *testing.T) {
	t.Parallel()
	g := bigRepo(t, 300)
	r := g.open()
	head, err := r.Resolve(context.Background(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	entries, err := r.entries(ctx, head.Tree)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := r.wanted(ctx, entries, true)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.blobs(ctx, entries, blobs, func() hand { return canceler{r.newBlobHasher(io.Discard), cancel} })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := r.List(context.Background(), head.Tree, io.Discard); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// BenchmarkSmallRepository is all of the Git side of a run on 33 files. The
// start of one git process is the unit.
func BenchmarkSmallRepository(b *testing.B) {
	g := bigRepo(b, 33)
	dir := b.TempDir()
	ctx := context.Background()
	var git, ours time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		g.git("rev-parse", "HEAD")
		git += time.Since(start)
		start = time.Now()
		r, err := OpenRepository(ctx, g.dir)
		if err != nil {
			b.Fatal(err)
		}
		head, err := r.Resolve(ctx, "HEAD")
		if err != nil {
			b.Fatal(err)
		}
		base, err := r.Base(ctx, head, "")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := r.Materialise(ctx, head.Tree, io.Discard, Target{Dir: filepath.Join(dir, fmt.Sprint(i))}); err != nil {
			b.Fatal(err)
		}
		if _, err := r.List(ctx, base.Tree, io.Discard); err != nil {
			b.Fatal(err)
		}
		if err := r.Diff(ctx, base.Tree, head.Tree, io.Discard); err != nil {
			b.Fatal(err)
		}
		r.Close()
		ours += time.Since(start)
	}
	b.ReportMetric(ours.Seconds()/git.Seconds(), "of-git-rev-parse")
}
