package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// noVisit is a visit that must not be made.
func noVisit(t *testing.T) func(verifier.TreeEntry, []byte) error {
	return func(e verifier.TreeEntry, content []byte) error {
		t.Helper()
		t.Errorf("visited %q with %q", e.Path, content)
		return nil
	}
}

func TestContents(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			g := newRepo(t, "--object-format="+format)
			files := awkward(t, g)
			r := g.open()
			entries := listed(t, r, "HEAD").Entries
			// Any order, and any number of times.
			entries = append(entries, entries[:3]...)
			slices.Reverse(entries[5:])
			for _, max := range []int64{math.MinInt64, -1, 0, 1, 6, 100, 1 << 20, math.MaxInt64} {
				var want, got []string
				for _, e := range entries {
					if content := files[e.Path][1]; !e.Gitlink() && int64(len(content)) <= max {
						want = append(want, e.Path+"\x00"+content)
					}
				}
				var kept [][]byte
				err := r.Contents(context.Background(), entries, max, func(e verifier.TreeEntry, content []byte) error {
					if !slices.Contains(entries, e) {
						t.Errorf("visited %+v", e)
					}
					kept = append(kept, content)
					got = append(got, e.Path)
					return nil
				})
				for i := range kept { // only now: each is the visitor's own
					got[i] += "\x00" + string(kept[i])
				}
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("at most %d: %d visits, %v, want %d\n%.200q\n%.200q", max, len(got), err, len(want), got, want)
				}
			}
		})
	}
}

func TestContentsRefused(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("a", "hello")
	g.write("b", "other")
	g.commit("one")
	entries := listed(t, g.open(), "HEAD").Entries
	for name, c := range map[string]struct {
		change func(e *verifier.TreeEntry)
		code   verifier.Code
		want   string
	}{
		"missing":         {func(e *verifier.TreeEntry) { e.ID = strings.Repeat("1", 40) }, verifier.UnknownRevision, `"b": blob 1111`},
		"a tree":          {func(e *verifier.TreeEntry) { e.ID = g.git("rev-parse", "HEAD^{tree}") }, verifier.UnknownRevision, "is not in the repository"},
		"size":            {func(e *verifier.TreeEntry) { e.Size = 4 }, verifier.CorruptObject, "another size"},
		"negative":        {func(e *verifier.TreeEntry) { e.Size = -1 }, verifier.CorruptObject, "another size"},
		"sum":             {func(e *verifier.TreeEntry) { e.Sum = receipts.Sum([]byte("x")) }, verifier.CorruptObject, "another sum"},
		"id of another":   {func(e *verifier.TreeEntry) { e.ID = entries[0].ID }, verifier.CorruptObject, "another sum"},
		"no id":           {func(e *verifier.TreeEntry) { e.ID = "" }, verifier.HostileTree, `"" is no sha1 id`},
		"id of two lines": {func(e *verifier.TreeEntry) { e.ID = e.ID[:19] + "\n" + e.ID[:20] }, verifier.HostileTree, "is no sha1 id"},
		"revision":        {func(e *verifier.TreeEntry) { e.ID = "HEAD:b" }, verifier.HostileTree, "is no sha1 id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := slices.Clone(entries)
			c.change(&wrong[1])
			var seen []string
			err := g.open().Contents(context.Background(), wrong, 100, func(e verifier.TreeEntry, _ []byte) error {
				seen = append(seen, e.Path)
				return nil
			})
			if code(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s, %q", err, c.code, c.want)
			}
			if slices.Contains(seen, "b") {
				t.Errorf("visited %q", seen)
			}
		})
	}
	// What is too large is not even looked at.
	large := slices.Clone(entries)
	large[1].Size, large[1].ID = 101, "none"
	n := 0
	count := func(verifier.TreeEntry, []byte) error { n++; return nil }
	if err := g.open().Contents(context.Background(), large, 100, count); err != nil || n != 1 {
		t.Errorf("%d visits, %v", n, err)
	}
	r := g.open()
	r.Limits.File = 4
	if err := r.Contents(context.Background(), entries, 100, noVisit(t)); err != nil {
		t.Errorf("over the limit of the repository: %v", err)
	}
}

func TestContentsEnded(t *testing.T) {
	t.Parallel()
	g := bigRepo(t, 300)
	r := g.open()
	entries := listed(t, r, "HEAD").Entries
	ended := errors.New("enough")
	n := 0
	err := r.Contents(context.Background(), entries, 1<<20, func(verifier.TreeEntry, []byte) error {
		if n++; n == 3 {
			return ended
		}
		return nil
	})
	if err != ended || n != 3 {
		t.Errorf("visit ended it: %v after %d", err, n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n = 0
	err = r.Contents(ctx, entries, 1<<20, func(verifier.TreeEntry, []byte) error {
		n++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("canceled: %v after %d", err, n)
	}
	for _, list := range [][]verifier.TreeEntry{entries, nil} {
		if err := r.Contents(ctx, list, 1<<20, noVisit(t)); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled before: %v", err)
		}
	}
	// A visit may use the repository.
	l := listed(t, r, "HEAD")
	err = r.Contents(context.Background(), entries[:20], 1<<20, func(e verifier.TreeEntry, content []byte) error {
		b, err := r.ReadFile(context.Background(), l, e.Path, 1<<20)
		if err == nil && string(b) != string(content) {
			err = fmt.Errorf("%s: read otherwise as %q", e.Path, b)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
