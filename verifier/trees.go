package verifier

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier/source"
)

// Trees are what is known of a patch without running it: both trees, the two that
// are mixed of them, and the text of what changed and of all Go tests. All of it
// is held to the trees' ids, so that it says the same to whoever has the bundle.
type Trees struct {
	entries map[string][]TreeEntry // by side
	ids     map[string]TreeID
	changed []string // paths
	facts   *GoFacts

	extra func(path string) bool // configured globs of the tests' files

	texts    map[receipts.Digest][]byte // by the sum of a tree's entry; nil: there are none
	touched  map[source.Class][]string
	changes  []source.Change
	packages map[string][]source.GoPackage // by side, tags and race detector
	folders  map[string]bool               // whose tests, or their data, the patch changes
	modules  map[string]string             // folder of a module of the head by its path
	weaker   []source.GoDelta
	renames  map[[2]string]source.GoRename // by package and name on the base
	renamed  map[[2]string]bool            // the new packages and names
	aware    []source.GoAware              // in code
	harness  []source.GoAware              // in tests
	hints    []source.TextDelta
}

const (
	maxText  = 1 << 20  // bytes of one file that is read
	maxTexts = 32 << 20 // of all; beyond that none is
)

// A TextRef names a file whose text is part of the evidence.
type TextRef struct {
	Side  string // of the patch
	Entry TreeEntry
}

// Texts returns the files whose text belongs into the bundle: on both sides what
// changed, and on the head all Go tests and go.mod and go.work files, as far as
// they are regular files of at most 1 MiB. It returns none where they come to more
// than 32 MiB. They are in the order of a sources document.
func Texts(base, head []TreeEntry) []TextRef {
	isChanged := map[string]bool{}
	for _, p := range Changed(base, head) {
		isChanged[p] = true
	}
	var list []TextRef
	total := int64(0)
	for _, side := range [...]struct {
		name    string
		entries []TreeEntry
	}{{SideBase, base}, {SideHead, head}} {
		for _, e := range side.entries {
			if e.Mode != "100644" && e.Mode != "100755" || e.Size > maxText {
				continue
			}
			if isChanged[e.Path] || side.name == SideHead && isGoText(e.Path) {
				list = append(list, TextRef{side.name, e})
				total += e.Size
			}
		}
	}
	if total > maxTexts {
		return nil
	}
	slices.SortStableFunc(list, func(a, b TextRef) int { return cmp.Compare(a.Entry.Path, b.Entry.Path) })
	return list
}

// isGoText reports whether a file tells the go command which tests there are.
func isGoText(p string) bool {
	name := path.Base(p)
	if name != "go.mod" && name != "go.work" && !strings.HasSuffix(name, "_test.go") {
		return false
	}
	for dir := range strings.SplitSeq(path.Dir(p), "/") {
		if dir == "testdata" || dir == "vendor" {
			return false
		}
	}
	return true
}

var errSources = errors.New("sources")

// ReadTrees makes Trees of both listings. sources is the document with the texts,
// and diff the patch's; without sources, nil, there is no text and no diff either.
// What does not agree with the trees is an error.
func ReadTrees(base, head []TreeEntry, c *EvidenceConfig, facts *GoFacts, sources, diff io.Reader) (*Trees, error) {
	t := &Trees{
		entries: map[string][]TreeEntry{SideBase: base, SideHead: head}, ids: map[string]TreeID{},
		changed: Changed(base, head), facts: facts, touched: map[source.Class][]string{},
	}
	t.extra = func(p string) bool { return MatchPath(c.Tests, []string{p}) }
	for _, p := range t.changed {
		class := source.Classify(p, t.extra)
		t.touched[class] = append(t.touched[class], p)
	}
	if err := t.mix(); err != nil {
		return nil, err
	}
	if sources == nil {
		return t, nil
	}
	if err := t.readTexts(base, head, sources); err != nil {
		return nil, err
	}
	if err := t.read(diff); err != nil {
		return nil, err
	}
	return t, nil
}

// mix makes the trees that are mixed of both sides. One that cannot be, because a
// file of one side is a folder on the other, is not there.
func (t *Trees) mix() error {
	base, head := t.entries[SideBase], t.entries[SideHead]
	format := "sha1"
	for _, e := range append(base[:min(1, len(base)):min(1, len(base))], head[:min(1, len(head))]...) {
		if len(e.ID) == 64 {
			format = "sha256"
		}
	}
	for side, list := range t.entries {
		tree, err := TreeOf(list, format)
		if err != nil {
			return err
		}
		t.ids[side] = TreeIDOf(tree)
	}
	// Each path is asked about up to eight times, and the answer takes longer than all else.
	known := make(map[string]bool, len(head))
	testSide := func(p string) bool {
		is, ok := known[p]
		if !ok {
			is = t.isTestSide(p)
			known[p] = is
		}
		return is
	}
	for _, m := range [...]struct {
		side        string
		code, tests []TreeEntry
	}{{SideHybrid, base, head}, {SideRestored, head, base}} {
		mixed, err := MixTrees(m.code, m.tests, testSide)
		if err != nil {
			continue
		}
		tree, err := TreeOf(mixed, format)
		if err != nil {
			return err
		}
		t.entries[m.side], t.ids[m.side] = mixed, TreeIDOf(tree)
	}
	return nil
}

// isTestSide reports whether a file belongs to the tests.
func (t *Trees) isTestSide(p string) bool { return source.TestSide(p, t.extra) }

// own reports whether a mixed tree is there, and neither the base's nor the head's.
func (t *Trees) own(side string) bool {
	id, ok := t.ids[side]
	return ok && id != t.ids[SideBase] && id != t.ids[SideHead]
}

// Entries returns the files of the tree of a side, in order; nil where the tree is
// not there.
func (t *Trees) Entries(side string) []TreeEntry { return t.entries[side] }

// ID returns the ids of the tree of a side.
func (t *Trees) ID(side string) TreeID { return t.ids[side] }

// Changed returns the paths at which the patch's trees differ.
func (t *Trees) Changed() []string { return t.changed }

// readTexts reads the sources document and compares every text with its tree.
func (t *Trees) readTexts(base, head []TreeEntry, r io.Reader) error {
	want := Texts(base, head)
	got, err := source.ReadSources(r, source.SourceLimits{Total: 2 * maxTexts, File: maxText})
	if err != nil {
		return err
	}
	if len(got) != len(want) {
		return fmt.Errorf("%w: %d texts of %d", errSources, len(got), len(want))
	}
	t.texts = map[receipts.Digest][]byte{}
	for i := range got {
		sum := blobID(got[i].Content)
		if want[i].Side != got[i].Side || want[i].Entry.Path != got[i].Path || want[i].Entry.Sum != sum {
			return fmt.Errorf("%w: %s %q: not what the tree has there", errSources, got[i].Side, got[i].Path)
		}
		t.texts[sum] = got[i].Content
	}
	return nil
}

// blobID returns the id of a blob in Git's SHA-256 object format.
func blobID(content []byte) receipts.Digest {
	b := append([]byte("blob "), strconv.Itoa(len(content))...)
	return receipts.Sum(append(append(b, 0), content...))
}

// read finds out what the patch does to code and tests.
func (t *Trees) read(diff io.Reader) error {
	var err error
	t.changes, err = source.ReadDiff(diff, func(side, name string) ([]byte, bool) {
		e, ok := find(t.entries[side], name)
		if !ok {
			return nil, true // nothing is all there is
		}
		text, ok := t.texts[e.Sum]
		return text, ok
	})
	if err == nil {
		err = t.sameChanges()
	}
	if err != nil {
		return fmt.Errorf("diff: %w", err)
	}
	changedText := func(p string) bool {
		_, changed := slices.BinarySearch(t.changed, p)
		return changed && source.TextLanguage(p)
	}
	t.hints = source.TextDeltas(t.files(SideBase, changedText), t.files(SideHead, changedText), t.isTestSide)
	if t.facts == nil {
		return nil
	}
	t.packages = map[string][]source.GoPackage{}
	var renames []source.GoRename
	t.weaker, renames = source.GoDeltas(t.files(SideBase, isGoText), t.files(SideHead, isGoText), t.env(nil))
	t.renames, t.renamed = map[[2]string]source.GoRename{}, map[[2]string]bool{}
	for _, r := range renames {
		t.renamed[[2]string{cmp.Or(r.In, r.Package), r.To}] = true
		if _, twice := t.renames[[2]string{r.Package, r.From}]; !twice {
			t.renames[[2]string{r.Package, r.From}] = r
		}
	}
	changedGo := func(test bool) func(string) bool {
		return func(p string) bool {
			_, changed := slices.BinarySearch(t.changed, p)
			return changed && strings.HasSuffix(p, ".go") && strings.HasSuffix(p, "_test.go") == test
		}
	}
	t.aware = source.GoAwareness(t.files(SideBase, changedGo(false)), t.files(SideHead, changedGo(false)))
	t.harness = source.GoHarness(t.files(SideBase, changedGo(true)), t.files(SideHead, changedGo(true)))
	return nil
}

// sameChanges checks that the diff is about the paths that differ, and about these
// versions of them.
func (t *Trees) sameChanges() error {
	if len(t.changes) != len(t.changed) {
		return fmt.Errorf("%d paths, and %d differ", len(t.changes), len(t.changed))
	}
	for i := range t.changes {
		c := &t.changes[i]
		if c.Path != t.changed[i] {
			return fmt.Errorf("path %q: does not differ, or %q is left out", c.Path, t.changed[i])
		}
		var ids []string
		for _, side := range [...]struct{ name, id, mode string }{{SideBase, c.BaseID, c.BaseMode}, {SideHead, c.HeadID, c.HeadMode}} {
			e, ok := find(t.entries[side.name], c.Path)
			if ok != (side.mode != "") || e.Mode != side.mode || side.id != "" && e.ID != side.id {
				return fmt.Errorf("path %q: another %s than the tree's", c.Path, side.name)
			}
			ids = append(ids, e.ID)
		}
		if c.BaseID == "" && c.HeadID == "" && ids[0] != ids[1] {
			return fmt.Errorf("path %q: more than its mode differs", c.Path)
		}
	}
	return nil
}

// testFolders returns the folders whose tests the patch changes: those of changed
// files that belong to the tests, and those above a testdata folder with one.
func (t *Trees) testFolders() map[string]bool {
	if t.folders != nil {
		return t.folders
	}
	t.folders = map[string]bool{}
	for _, p := range t.changed {
		if !t.isTestSide(p) {
			continue
		}
		dir := path.Dir(p)
		t.folders[dir] = true
		for at := 0; at <= len(dir); {
			name, _, _ := strings.Cut(dir[at:], "/")
			if name == "testdata" {
				t.folders[path.Clean(dir[:max(0, at-1)])] = true
			}
			at += len(name) + 1
		}
	}
	return t.folders
}

func (t *Trees) env(c *goCommand) source.GoEnv {
	env := source.GoEnv{OS: t.facts.OS, Arch: t.facts.Arch, Version: t.facts.Version, Cgo: t.facts.Cgo}
	if c != nil {
		env.Tags, env.Race = c.tags(), c.race()
	}
	return env
}

// goPackages returns the packages of a tree that have tests for a command.
func (t *Trees) goPackages(side string, c *goCommand) []source.GoPackage {
	if t.packages == nil {
		return nil
	}
	key := fmt.Sprintf("%s %q %t", side, c.tags(), c.race())
	list, ok := t.packages[key]
	if !ok {
		list, _ = source.GoPackages(t.files(side, isGoText), t.env(c))
		t.packages[key] = list
	}
	return list
}

func find(entries []TreeEntry, name string) (TreeEntry, bool) {
	i, ok := slices.BinarySearchFunc(entries, name, func(e TreeEntry, name string) int { return strings.Compare(e.Path, name) })
	if !ok {
		return TreeEntry{}, false
	}
	return entries[i], true
}

// files returns the files of a tree that are wanted and whose text is known.
func (t *Trees) files(side string, wanted func(string) bool) []source.File {
	var list []source.File
	for _, e := range t.entries[side] {
		if text, ok := t.texts[e.Sum]; ok && wanted(e.Path) {
			list = append(list, source.File{Path: e.Path, Content: text})
		}
	}
	return list
}

// text returns the text of a file of a tree.
func (t *Trees) text(side, name string) ([]byte, bool) {
	e, ok := find(t.entries[side], name)
	if !ok {
		return nil, false
	}
	text, ok := t.texts[e.Sum]
	return text, ok
}

// goFile returns the path in the head's tree of a file that is named by its
// package's import path.
func (t *Trees) goFile(name string) (string, bool) {
	if t.modules == nil {
		t.modules = map[string]string{}
		for _, f := range t.files(SideHead, func(p string) bool { return path.Base(p) == "go.mod" }) {
			if module := modfile.ModulePath(f.Content); module != "" {
				t.modules[module] = path.Dir(f.Path)
			}
		}
	}
	for module := path.Dir(name); module != "." && module != "/"; module = path.Dir(module) {
		if dir, ok := t.modules[module]; ok {
			return path.Join(dir, name[len(module)+1:]), true
		}
	}
	return "", false
}

// testsChanged returns the files of the base's tests that the head has otherwise, or
// does not have.
func (t *Trees) testsChanged() []string {
	var list []string
	for _, p := range t.changed {
		if _, ok := find(t.entries[SideBase], p); ok && t.isTestSide(p) {
			list = append(list, p)
		}
	}
	return list
}

// harnessTouched reports whether the patch touches what decides how tests run, or
// code that finds out whether it is tested: then the head's own tests prove less.
func (t *Trees) harnessTouched() bool {
	return len(t.touched[source.Harness]) > 0 || len(t.harness) > 0 || len(t.aware) > 0 ||
		slices.ContainsFunc(t.hints, func(d source.TextDelta) bool { return d.Kind != source.TextWeaker })
}
