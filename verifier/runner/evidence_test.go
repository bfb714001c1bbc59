package runner

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// A found is a commit that is pushed, and a state folder with bundles.
type found struct {
	state string
	p     *Push
	s     *Selection
	o     verifier.Options
	repo  *fixture.Repository
}

// push makes a repository with the patch of r.
func push(t testing.TB, r fixture.Run, fill func(*fixture.Repository)) *found {
	t.Helper()
	g := fixture.NewRepository(filepath.Join(t.TempDir(), "project.git"))
	base, head := g.Tree(r.Base), g.Tree(r.Head)
	g.Head(g.Commit(head, g.Commit(base)))
	if fill != nil {
		fill(g)
	}
	if g.Err != nil {
		t.Fatal(g.Err)
	}
	repo := openRepo(t, g.Dir)
	repo.name = r.Repository
	o := r.Options()
	return &found{
		state: t.TempDir(), p: &Push{repo: repo}, repo: g,
		s: &Selection{Head: Commit{ID: r.HeadCommit(), Tree: head}, Base: Base{Commit: Commit{ID: r.BaseCommit(), Tree: base}}, Config: r.Config, repo: repo},
		o: verifier.Options{Keys: o.Keys, Now: o.Now},
	}
}

// keep puts the bundle of a run into the state folder.
func (f *found) keep(t testing.TB, name string, r fixture.Run) {
	t.Helper()
	file, err := r.Bundle(filepath.Join(t.TempDir(), "record"))
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, filepath.Join(bundlesDir, name+bundleExt), string(file))
}

func (f *found) write(t testing.TB, name, content string) {
	t.Helper()
	path := filepath.Join(f.state, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *found) evidence(t testing.TB) Evidence {
	t.Helper()
	e, err := f.p.Evidence(context.Background(), f.s, f.state, f.o, func(string) ([]verifier.Sidecar, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (f *found) index(t testing.TB) []string {
	t.Helper()
	names, err := namesIn(filepath.Join(f.state, cacheDir, treesDir))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	red := fixture.New()
	red.Output = fixture.OnHead(fixture.Output{Stdout: fixture.GoTest(fixture.Package), Exit: 1})
	killed := fixture.New()
	killed.Stop, killed.Statement.Outcome = 3, bundle.OutcomeKilled
	other := fixture.New()
	other.Secret = []byte(strings.Repeat("o", 32))
	byHand := fixture.New()
	byHand.Source = verifier.SourceCommand
	elsewhere := fixture.New()
	elsewhere.Repository = "git.example.com/fork"
	lenient := fixture.New()
	lenient.Config.Isolation.Level = 1
	tree := fixture.New()
	tree.Head = fixture.Files{"go.mod": "module x\n"}

	for _, test := range []struct {
		name    string
		bundles []fixture.Run // the oldest first
		edit    func(*found)
		want    verifier.Verdict // "": nothing counts
		passed  string
	}{
		{"one", []fixture.Run{fixture.New()}, nil, verifier.Verified, ""},
		{"none", nil, nil, "", ""},
		{"the newest is red", []fixture.Run{fixture.New(), red}, nil, verifier.Failed, ""},
		{"the newest is green", []fixture.Run{red, fixture.New()}, nil, verifier.Verified, ""},
		{"the newest was interrupted", []fixture.Run{fixture.New(), killed}, nil, verifier.Verified, "unproven: interrupted"},
		{"the newest is someone else's", []fixture.Run{fixture.New(), other}, nil, verifier.Verified, "unproven: no-trusted-seal"},
		{"red by someone else", []fixture.Run{other}, nil, "", "no-trusted-seal"},
		{"a command by hand", []fixture.Run{byHand}, nil, "", "plan-not-from-base"},
		{"another repository", []fixture.Run{elsewhere}, nil, "", ""},
		{"another configuration", []fixture.Run{lenient}, nil, "", "broken: wrong-config"},
		{"another tree", []fixture.Run{tree}, nil, "", ""},
		{"less isolation", []fixture.Run{fixture.New()}, func(f *found) { f.o.MinLevel = 4 }, "", "isolation-too-low"},
		{"no key", []fixture.Run{fixture.New()}, func(f *found) { f.o.Keys = nil }, "", "no-trusted-seal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := push(t, fixture.New(), nil)
			for i, r := range test.bundles {
				f.keep(t, fmt.Sprintf("2024010%dT000000Z", i), r)
			}
			if test.edit != nil {
				test.edit(f)
			}
			for _, indexed := range []bool{false, true} {
				e := f.evidence(t)
				switch {
				case test.want == "" && e.Bundle != "":
					t.Fatalf("indexed %t: %s counts", indexed, e.Bundle)
				case test.want != "" && (e.Bundle == "" || e.Report.Verdict() != test.want || !e.SameBase):
					t.Fatalf("indexed %t: got %q, %s, same base %t; passed over %q", indexed, e.Bundle, e.Report.Verdict(), e.SameBase, e.Passed)
				}
				if passed := strings.Join(e.Passed, "\n"); !strings.Contains(passed, test.passed) || test.passed == "" && passed != "" {
					t.Fatalf("indexed %t: passed over %q", indexed, passed)
				}
			}
		})
	}
}

// A tree with another base says nothing about a comparison with this one.
func TestEvidenceOtherBase(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	f := push(t, r, nil)
	f.keep(t, "one", r)
	f.s.Base.Tree = f.repo.Tree(fixture.Files{"go.mod": "module another\n"})
	if e := f.evidence(t); e.Bundle == "" || e.SameBase {
		t.Errorf("got %q, same base %t", e.Bundle, e.SameBase)
	}
}

// What someone else has sealed is read again in full: a red run whose evidence document says
// that it was green does not count. Under the receipt key the document is this program's own.
func TestEvidenceReadAgain(t *testing.T) {
	t.Parallel()
	var lie []byte
	green := fixture.New()
	green.Config.Evidence.Level = verifier.LevelRan // one run, so that none follows from what it said
	green.Output = fixture.OnHead(fixture.Output{Stdout: fixture.GoTest(fixture.Package, "TestAdd")})
	green.Forge.Evidence = func(b []byte) []byte { lie = bytes.Clone(b); return b }
	if _, err := green.Bundle(filepath.Join(t.TempDir(), "record")); err != nil {
		t.Fatal(err)
	}
	r := fixture.New()
	r.Config = green.Config
	r.Output = fixture.OnHead(fixture.Output{Stdout: fixture.GoTest(fixture.Package, "TestAdd fail")})
	r.Forge.Evidence = func([]byte) []byte { return lie }
	r.Statement.Sign = func(text []byte) ([]byte, error) { return fixture.Sign("alice", text) }
	for _, key := range []bool{false, true} {
		f := push(t, r, nil)
		f.keep(t, "one", r)
		var err error
		if f.o.Signers, err = bundle.ParseSigners([]byte(fixture.SignerLine("alice", "") + "\n")); err != nil {
			t.Fatal(err)
		}
		if !key {
			f.o.Keys = nil
		}
		e := f.evidence(t)
		if counts := e.Bundle != ""; counts != key {
			t.Errorf("receipt key %t: got %q, passed over %q", key, e.Bundle, e.Passed)
		}
		if !key && !strings.Contains(strings.Join(e.Passed, ""), "broken: judgement-differs") {
			t.Errorf("passed over %q", e.Passed)
		}
	}
}

// The id of a tree is no more than a first look: what is in it is hashed again.
func TestEvidenceOtherContents(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	f := push(t, r, func(g *fixture.Repository) {
		lie := strings.ReplaceAll(r.Head["add.go"], "+ b", "- b")
		g.Lie(r.Head["add.go"], int64(len(lie)), lie)
	})
	f.keep(t, "one", r)
	if e := f.evidence(t); e.Bundle != "" || len(e.Passed) != 1 {
		t.Errorf("got %q, passed over %q", e.Bundle, e.Passed)
	}
}

// The index is a cache: with whatever is in it, no more is found than there is.
func TestEvidenceIndex(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	f := push(t, r, nil)
	f.keep(t, "a", r)
	tree := fixture.New()
	tree.Head = fixture.Files{"go.mod": "module x\n"}
	for i := range 5 {
		f.keep(t, fmt.Sprintf("b%d", i), tree)
	}
	f.write(t, filepath.Join(bundlesDir, "c"+bundleExt), "no bundle")
	f.write(t, filepath.Join(bundlesDir, "d.txt"), "no bundle")
	if err := os.Mkdir(filepath.Join(f.state, bundlesDir, "e"+bundleExt), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := IndexBundles(context.Background(), f.state, f.o.Now); err != nil {
		t.Fatal(err)
	}
	if names := f.index(t); len(names) != 8 {
		t.Errorf("%d entries: %q", len(names), names)
	}

	// An entry that leads to a bundle about something else.
	key := treeKey(r.Repository, f.s.Head.Tree)
	f.write(t, filepath.Join(cacheDir, treesDir, key+"-b3"+bundleExt), "")
	e := f.evidence(t)
	if filepath.Base(e.Bundle) != "a"+bundleExt || len(e.Passed) != 1 || !strings.Contains(e.Passed[0], "wrong-patch") {
		t.Errorf("got %q, passed over %q", e.Bundle, e.Passed)
	}

	// Bundles that are gone, and names that are no entries.
	for _, name := range []string{key + "-gone" + bundleExt, "x", key} {
		f.write(t, filepath.Join(cacheDir, treesDir, name), "")
	}
	if err := os.Remove(e.Bundle); err != nil {
		t.Fatal(err)
	}
	if e := f.evidence(t); e.Bundle != "" {
		t.Errorf("got %q", e.Bundle)
	}
	for _, name := range f.index(t) {
		if strings.Contains(name, "gone") || strings.HasSuffix(name, "-a"+bundleExt) || name == "x" || name == key {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestRecordSkip(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	s := NewSkip(time.Unix(1700000000, 0), "git.example.com/project", "origin", strings.Repeat("why \xff\n", 1000), nil)
	if err := RecordSkip(state, s); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(state, skipsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"v":1,"ti`...), 0o600); err != nil { // cut off
		t.Fatal(err)
	}
	if err := RecordSkip(state, s); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines: %q", len(lines), text)
	}
	for _, i := range []int{0, 2} {
		var got Skip
		if err := receipts.Decode([]byte(lines[i]), &got); err != nil || len(got.Reason) != maxSkipReason {
			t.Errorf("line %d: %d bytes of a reason, %v", i, len(got.Reason), err)
		}
	}
}

// The variables are those of the git that is installed, and no others go.
func TestWithoutGitLocation(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	var environ []string
	for name := range strings.SplitSeq(g.git("rev-parse", "--local-env-vars"), "\n") {
		environ = append(environ, name+"=x")
	}
	kept := []string{"GIT_SSH_COMMAND=ssh -v", "GIT_EXEC_PATH=/usr/lib/git-core", "PATH=/bin", "GIT_DIRECTORY=x", "GIT_DIR_=x"}
	before := append(environ, kept...)
	if got := WithoutGitLocation(before); fmt.Sprint(got) != fmt.Sprint(kept) {
		t.Errorf("left are %q", got)
	}
	if len(before) != len(environ)+len(kept) || before[0] != environ[0] {
		t.Error("what was given was changed")
	}
}
