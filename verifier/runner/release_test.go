package runner

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"testing"

	"github.com/truegreen-dev/truegreen/verifier"
)

func hasCode(err error, code verifier.Code) bool {
	var repo *RepositoryError
	return errors.As(err, &repo) && repo.Code == code
}

func TestTag(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		g := newRepo(t, "--object-format="+format)
		g.write("a", "1")
		first := g.commit("first")
		g.git("tag", "light")
		g.git("tag", "-a", "-m", "release", "v1")
		g.git("tag", "-a", "-m", "again", "nested", "v1")
		g.git("tag", "tree", "HEAD^{tree}")
		g.git("tag", "-a", "-m", "a tree", "anntree", "HEAD^{tree}")
		g.git("tag", "blob", "HEAD:a")
		g.git("branch", "v2") // a branch is no tag
		r, ctx := g.open(), context.Background()
		for _, name := range []string{"light", "v1", "refs/tags/v1"} {
			tag, err := r.Tag(ctx, name)
			if err != nil || tag.Commit.ID != first || (tag.Object == nil) != (name == "light") {
				t.Errorf("%s: %s: %+v, %v", format, name, tag, err)
			}
		}
		for _, name := range []string{"nested", "tree", "anntree", "blob", "v2", "none", "", "v1^{}", "v1~0", "../heads/main", "v1:a", "heads/../v1", "v1@{0}", "a b", "v1\n"} {
			if tag, err := r.Tag(ctx, name); !hasCode(err, verifier.UnknownRevision) || tag.Ref != "" {
				t.Errorf("%s: %q: %+v, %v", format, name, tag, err)
			}
		}
		tags, err := r.TagsOf(ctx)
		if got := tags[first]; err != nil || !slices.Equal(got, []string{"light", "v1"}) && !slices.Equal(got, []string{"light", "nested", "v1"}) {
			t.Errorf("%s: tags %v, %v", format, tags, err)
		}
	}
}

func TestFirstParents(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("a", "1")
	first := g.commit("first")
	g.git("checkout", "-q", "-b", "side")
	g.write("b", "1")
	side := g.commit("side")
	g.git("checkout", "-q", "main")
	g.write("a", "2")
	second := g.commit("second")
	g.git("merge", "-q", "--no-ff", "-m", "merge", "side")
	merge := g.git("rev-parse", "HEAD")
	r, ctx := g.open(), context.Background()
	branch, name, err := r.Branch(ctx, "")
	if err != nil || branch.ID != merge || name != "main" {
		t.Fatalf("%+v, %q, %v", branch, name, err)
	}
	ids := func(commits []Commit, err error) (list []string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commits {
			list = append(list, c.ID)
		}
		return list
	}
	if got := ids(r.FirstParents(ctx, branch)); !slices.Equal(got, []string{merge, second, first}) {
		t.Errorf("first parents %v", got)
	}
	got := ids(r.Since(ctx, branch, first))
	slices.Sort(got)
	want := []string{merge, second, side}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("since the first: %v, want %v", got, want)
	}
	for commit, want := range map[string]bool{first: true, side: true, merge: true} {
		if got, err := r.Contains(ctx, branch, commit); err != nil || got != want {
			t.Errorf("contains %s: %t, %v", commit, got, err)
		}
	}
	s, err := r.Resolve(ctx, second)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Contains(ctx, s, side); err != nil || got {
		t.Errorf("the second contains the side: %t, %v", got, err)
	}
	paths, err := r.Changed(ctx, g.git("rev-parse", first+"^{tree}"), branch.Tree)
	if err != nil || !slices.Equal(paths, []string{"a", "b"}) {
		t.Errorf("changed %v, %v", paths, err)
	}
	if paths, err = r.Changed(ctx, branch.Tree, g.git("rev-parse", first+"^{tree}")); err != nil || !slices.Equal(paths, []string{"a", "b"}) {
		t.Errorf("changed back %v, %v", paths, err)
	}
	if _, _, err := r.Branch(ctx, "nowhere"); !hasCode(err, verifier.UnknownRevision) {
		t.Errorf("no branch: %v", err)
	}

	// What a clone does not have could lack evidence.
	clone := &gitRepo{t, t.TempDir()}
	cmd := exec.Command("git", "clone", "-q", "--depth=1", "file://"+g.dir, clone.dir)
	cmd.Env = gitEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	shallow := clone.open()
	head, err := shallow.Resolve(ctx, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if commits, err := shallow.FirstParents(ctx, head); !hasCode(err, verifier.ShallowClone) || commits != nil {
		t.Errorf("shallow: %v, %v", commits, err)
	}
}
