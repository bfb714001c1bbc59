package runner

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/verifier"
)

// loose writes a file into the object store under an id of its choice.
func (g *gitRepo) loose(id, header, content string, cut int) {
	g.t.Helper()
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	fmt.Fprintf(z, "%s\x00%s", header, content)
	z.Close()
	b.Truncate(b.Len() - cut)
	path := filepath.Join(g.dir, ".git/objects", id[:2], id[2:])
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o444); err != nil {
		g.t.Fatal(err)
	}
}

// TestFirstErrorInTreeOrder: several blobs of a tree are bad, and whoever
// reads or writes first, the error is about the first of them. There are
// enough for two processes.
func TestFirstErrorInTreeOrder(t *testing.T) {
	t.Parallel()
	const n = manyBlobs + 60
	g := newRepo(t)
	good := g.gitIn("good", "hash-object", "-w", "--stdin")
	nul := g.gitIn("a\x00b", "hash-object", "-w", "--stdin")
	forged, large, cut := strings.Repeat("1", 40), strings.Repeat("2", 40), strings.Repeat("3", 40)
	g.loose(forged, "blob 4", "evil", 0)
	g.loose(large, fmt.Sprintf("blob %d", smallBlob+1), strings.Repeat("x", smallBlob+1), 0)
	// Noise, so that its cut end is far from its header.
	g.loose(cut, "blob 40000", noise(40000), 10000)
	absent := strings.Repeat("4", 40)
	for _, c := range []struct {
		bad  map[int]string
		want string // in the error
	}{
		{map[int]string{}, ""},
		{map[int]string{0: forged, 1: forged}, `"f0000": the bytes of blob 1111`},
		{map[int]string{3: large, 4: forged, n - 1: forged}, `"f0003": the bytes of blob 2222`},
		{map[int]string{3: forged, 4: large, n - 1: forged}, `"f0003": the bytes of blob 1111`},
		{map[int]string{n/2 - 40: forged, n/2 + 60: forged}, fmt.Sprintf(`"f%04d"`, n/2-40)},
		{map[int]string{n/2 + 60: large, n/2 + 70: forged}, fmt.Sprintf(`"f%04d"`, n/2+60)},
		{map[int]string{n / 3: nul, n / 2: cut, n - 1: forged}, fmt.Sprintf(`"f%04d": symbolic link`, n/3)},
		{map[int]string{n / 3: cut, n - 1: forged}, "git could not read an object"},
		{map[int]string{n - 90: cut, n - 1: forged}, "git could not read an object"},
		// What is not there is known before anything is read.
		{map[int]string{0: forged, n - 3: absent, n - 2: absent}, fmt.Sprintf(`"f%04d": blob 4444`, n-3)},
	} {
		var list strings.Builder
		for i := range n {
			mode, id := "100644", good
			if bad := c.bad[i]; bad != "" {
				id = bad
			}
			if id == nul {
				mode = "120000"
			}
			fmt.Fprintf(&list, "%s blob %s\tf%04d\n", mode, id, i)
		}
		tree := g.gitIn(list.String(), "mktree", "--missing")
		r := g.open()
		for range 2 {
			l, err := r.Materialise(context.Background(), tree, io.Discard, Target{Dir: filepath.Join(t.TempDir(), "tree")})
			if c.want == "" {
				if err != nil || l.Tree.Entries != n {
					t.Errorf("%+v, %v", l.Tree, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %v, want %s", c.bad, err, c.want)
			}
		}
	}
}

// noise returns n bytes that do not compress.
func noise(n int) string {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return string(b)
}

// TestLargeBlobsStream: a blob is not held in memory. It is not parallel: it
// looks at what the process allocates.
func TestLargeBlobsStream(t *testing.T) {
	const size = 64 << 20
	g := newRepo(t)
	g.write("large", strings.Repeat("0123456789abcdef", size/16))
	g.commit("one")
	r := g.open()
	head, err := r.Resolve(context.Background(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tree")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err := r.Materialise(context.Background(), head.Tree, io.Discard, Target{Dir: dir})
	runtime.ReadMemStats(&after)
	if err != nil || l.Bytes != size {
		t.Fatalf("%+v, %v", l.Tree, err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > size/8 {
		t.Errorf("%d bytes were allocated for a blob of %d", got, size)
	}
	if info, err := os.Stat(filepath.Join(dir, "large")); err != nil || info.Size() != size {
		t.Errorf("%v, %v", info, err)
	}
}

func TestMiddle(t *testing.T) {
	t.Parallel()
	for want, sizes := range map[int][]int64{0: {}, 1: {5, 1, 1}, 2: {1, 1, 1}, 3: {0, 0, 9}, 4: {0, 0, 0, 0}} {
		var blobs []blob
		for _, size := range sizes {
			blobs = append(blobs, blob{entry: new(verifier.TreeEntry), size: size})
		}
		if got := middle(blobs); got != want {
			t.Errorf("%d: middle %d, want %d", sizes, got, want)
		}
	}
}
