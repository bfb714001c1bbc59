package runner

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestDirty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(g *gitRepo)
		want   string
	}{
		"clean":     {func(g *gitRepo) {}, ""},
		"untracked": {func(g *gitRepo) { g.write("new", "x") }, ""},
		"edited":    {func(g *gitRepo) { g.write("d/b", "y") }, "d/b"},
		"same size": {func(g *gitRepo) { g.write("a", "X") }, "a"},
		"same size and time": {func(g *gitRepo) {
			info, err := os.Lstat(g.dir + "/a")
			if err != nil {
				g.t.Fatal(err)
			}
			g.write("a", "X")
			for _, path := range []string{"/a", "/.git/index"} {
				os.Chtimes(g.dir+path, info.ModTime(), info.ModTime())
			}
		}, "a"},
		"deleted":          {func(g *gitRepo) { os.Remove(g.dir + "/a") }, "a"},
		"folder for file":  {func(g *gitRepo) { os.Remove(g.dir + "/a"); os.Mkdir(g.dir+"/a", 0o755) }, "a"},
		"link for file":    {func(g *gitRepo) { os.Remove(g.dir + "/a"); os.Symlink("x", g.dir+"/a") }, "a"},
		"pipe for file":    {func(g *gitRepo) { os.Remove(g.dir + "/a"); mkfifo(g.dir + "/a") }, "a"},
		"link changed":     {func(g *gitRepo) { os.Remove(g.dir + "/link"); os.Symlink("z", g.dir+"/link") }, "link"},
		"staged":           {func(g *gitRepo) { g.write("d/b", "y"); g.git("add", "d/b") }, "d/b"},
		"staged new":       {func(g *gitRepo) { g.write("c", "y"); g.git("add", "c") }, "c"},
		"staged removal":   {func(g *gitRepo) { g.git("rm", "-q", "d/b") }, "d/b"},
		"staged last":      {func(g *gitRepo) { g.git("rm", "-q", "z") }, "z"},
		"staged mode":      {func(g *gitRepo) { g.git("update-index", "--chmod=+x", "a") }, "a"},
		"intent to add":    {func(g *gitRepo) { g.write("c", "y"); g.git("add", "-N", "c") }, "c"},
		"touched":          {func(g *gitRepo) { os.Chtimes(g.dir+"/a", time.Unix(9, 0), time.Unix(9, 0)) }, ""},
		"assume unchanged": {func(g *gitRepo) { g.git("update-index", "--assume-unchanged", "a"); g.write("a", "changed") }, ""},
		"skip worktree":    {func(g *gitRepo) { g.git("update-index", "--skip-worktree", "a"); os.Remove(g.dir + "/a") }, ""},
		"version 4":        {func(g *gitRepo) { g.git("update-index", "--index-version=4") }, ""},
		"version 4 edited": {func(g *gitRepo) { g.git("update-index", "--index-version=4"); g.write("z", "y") }, "z"},
		"version 3": {func(g *gitRepo) {
			g.git("update-index", "--skip-worktree", "a")
			g.git("update-index", "--index-version=3")
			g.write("z", "y")
		}, "z"},
		"conflict": {func(g *gitRepo) {
			blob := g.git("rev-parse", "HEAD:a")
			g.gitIn("0 "+blob+"\ta\n100644 "+blob+" 1\ta\n100644 "+blob+" 2\ta\n", "update-index", "--index-info")
		}, "a"},
		"sparse index": {func(g *gitRepo) { g.git("sparse-checkout", "set", "--cone", "--sparse-index", "e") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRepo(t)
			g.write("a", "x")
			g.write("d/b", "x")
			g.write("e/f", "x")
			g.write("a very long name that is kept, and shared by the next", "x")
			g.write("a very long name that is kept, and shared by the one after", "x")
			os.Symlink("a", g.dir+"/link")
			g.write("z", "x")
			g.commit("one")
			r := g.open()
			head, err := r.Resolve(context.Background(), "HEAD")
			if err != nil {
				t.Fatal(err)
			}
			l, err := r.Names(context.Background(), head.Tree)
			if err != nil {
				t.Fatal(err)
			}
			c.change(g)
			if got, err := r.Dirty(l); err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestDirtyElsewhere(t *testing.T) {
	t.Parallel()
	g := newRepo(t, "--object-format=sha256")
	g.write("a", "x")
	g.commit("one")
	base := filepath.Dir(g.dir)
	g.git("worktree", "add", "-q", "--detach", base+"/linked")
	g.git("clone", "-q", "--bare", g.dir, base+"/bare")
	os.WriteFile(base+"/linked/a", []byte("y"), 0o644)
	for dir, want := range map[string]string{g.dir: "", base + "/linked": "a", base + "/bare": ""} {
		r := openRepo(t, dir)
		head, err := r.Resolve(context.Background(), "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		l, err := r.Names(context.Background(), head.Tree)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Dirty(l); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", dir, got, err, want)
		}
	}
	// What cannot be read is an error, not a clean tree.
	r := g.open()
	g.git("update-index", "--split-index")
	if got, err := r.Dirty(Listing{}); err == nil {
		t.Errorf("split index: %q", got)
	}
	os.Remove(g.dir + "/.git/index")
	if got, err := r.Dirty(Listing{}); err == nil {
		t.Errorf("no index: %q", got)
	}
}

func FuzzIndex(f *testing.F) {
	for _, version := range []string{"2", "3", "4"} {
		g := newRepo(f)
		g.write("a", "x")
		g.write("d/b", "x")
		g.commit("one")
		g.git("update-index", "--skip-worktree", "a")
		g.git("update-index", "--index-version="+version)
		b, err := os.ReadFile(g.dir + "/.git/index")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		readIndex(b, 20, func(indexEntry) bool { return true })
	})
}
