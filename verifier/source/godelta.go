package source

import (
	"bytes"
	"cmp"
	"go/scanner"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
)

// A DeltaKind says in what a test became weaker.
type DeltaKind string

// The kinds. What Base and Head of a GoDelta count is in brackets.
const (
	// Fewer calls that can fail the test [calls]: Error, Fatal, Fail and their
	// kin, functions and methods named like a check, those of packages named
	// like one, cmp.Diff. A call of a function of the same package's test files
	// counts as what it does.
	DeltaAssertions DeltaKind = "assertions-fewer"
	// Fewer cases [rows]: elements of lists and maps of literals in the test, or
	// of other ones that a loop goes over, of tables that the package's test
	// files declare and the test names, and seeds of a fuzz test.
	DeltaRows DeltaKind = "rows-fewer"
	// More reasons not to run [calls]: Skip and its kin, testing.Short, packages
	// and functions named skip.
	DeltaSkip DeltaKind = "skip-added"
	// The test is still there and not built any more [1, 0]: its file has another
	// build constraint or name, or is in a folder that the go command now ignores.
	DeltaConstraint DeltaKind = "constraint-added"
	// The test is gone, and a comment has its declaration [1, 0].
	DeltaComment DeltaKind = "commented-out"
	// An example that is still there has no output any more and is not run [1, 0].
	DeltaOutput DeltaKind = "output-removed"
	// The test has no statement any more [statements].
	DeltaEmptied DeltaKind = "body-emptied"
	// A return, skip, panic or exit without a condition, before other statements
	// of the test or of a subtest [bodies with one].
	DeltaReturn DeltaKind = "early-return"
)

// A GoDelta is one way in which a test became weaker. It may be honest: a
// moved check, a case that no longer exists.
type GoDelta struct {
	Package, Func string // import path, and the test's name on head
	Kind          DeltaKind
	File          string // on head
	Line          int
	Base, Head    int
}

// GoDeltas compares the tests of two trees, those that go test runs on base with
// what head has of the same name in the same folder, or in the one that the folder
// was moved to, or what they were renamed to. Of both trees it needs go.mod files and test files. A test that is gone
// without a trace is none of the deltas: compare GoPackages of both.
//
// Both results are sorted. What was not read is as it is with GoPackages.
func GoDeltas(base, head []File, env GoEnv) ([]GoDelta, []GoRename) {
	var deltas []GoDelta
	var renamed []GoRename
	bases, heads := newGoTree(base).dirs, make(map[string]*goDir)
	for _, d := range newGoTree(head).dirs {
		heads[d.dir] = d
	}
	moved := moves(bases, heads, env)
	for _, b := range bases {
		h := cmp.Or(heads[b.dir], moved[b])
		if !b.reached || h == nil || h.sameAs(b) {
			continue
		}
		c := goComparison{name: cmp.Or(h.importPath, b.importPath), head: h, env: env}
		c.compare(b)
		deltas = append(deltas, c.deltas...)
		renamed = append(renamed, c.renamed...)
	}
	slices.SortFunc(deltas, func(a, b GoDelta) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Func, b.Func), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Base, b.Base), cmp.Compare(a.Head, b.Head))
	})
	slices.SortFunc(renamed, func(a, b GoRename) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return deltas, renamed
}

func (d *goDir) sameAs(o *goDir) bool {
	return d.reached == o.reached && d.importPath == o.importPath &&
		slices.EqualFunc(d.files, o.files, func(a, b File) bool {
			return a.Path == b.Path && bytes.Equal(a.Content, b.Content)
		})
}

// A goSuite is what the functions of a folder's test files do.
type goSuite struct {
	tests   []*goFunc // what go test runs, and what it would if it were built, in their order
	helpers map[string]*goFunc
	tables  map[string]int
	asserts map[string]int // of helpers and what they call
	skips   map[string]int
}

func (d *goDir) suite(env GoEnv) *goSuite {
	s := &goSuite{helpers: make(map[string]*goFunc), tables: make(map[string]int)}
	for _, file := range d.files {
		built, err := env.builds(path.Base(file.Path), file.Content)
		built = (built || err != nil) && d.reached
		source := parseGo(file)
		if source == nil {
			continue
		}
		for _, decl := range source.funcs() {
			if decl.Recv != nil {
				continue
			}
			f := source.readGoFunc(decl)
			f.built = built
			if f.kind == "" || f.kind == goTestMain {
				if built {
					s.helpers[f.Name] = f
				}
				continue
			}
			s.tests = append(s.tests, f)
		}
		if built {
			maps.Copy(s.tables, source.tables())
		}
	}
	s.total()
	return s
}

const maxGoCount = 1 << 20

// total adds to what helpers do themselves what those do that they call. Eight
// rounds reach through as many calls, and are as good for functions that call
// each other in a circle.
func (s *goSuite) total() {
	s.asserts, s.skips = make(map[string]int), make(map[string]int)
	for range 8 {
		asserts, skips := make(map[string]int), make(map[string]int)
		for name, f := range s.helpers {
			asserts[name], skips[name] = s.assertsOf(f), s.skipsOf(f)
		}
		if maps.Equal(asserts, s.asserts) && maps.Equal(skips, s.skips) {
			return
		}
		s.asserts, s.skips = asserts, skips
	}
}

func (s *goSuite) assertsOf(f *goFunc) int {
	n := f.asserts
	for name, calls := range f.calls {
		weight := s.asserts[name]
		if weight == 0 && checks(name) {
			weight = 1
		}
		n = min(n+calls*weight, maxGoCount)
	}
	return n
}

// skipsOf counts a call of a helper that may skip as one, whatever it asks.
func (s *goSuite) skipsOf(f *goFunc) int {
	n := f.skips
	for name, calls := range f.calls {
		if s.skips[name] > 0 || skips(name) {
			n = min(n+calls, maxGoCount)
		}
	}
	return n
}

func (s *goSuite) rowsOf(f *goFunc) int {
	n := f.rows
	for name := range f.uses {
		n += s.tables[name]
	}
	return n
}

// A goComparison compares the tests of one folder.
type goComparison struct {
	name    string
	head    *goDir
	env     GoEnv
	deltas  []GoDelta
	renamed []GoRename
}

func (c *goComparison) compare(b *goDir) {
	base, head := b.suite(c.env), c.head.suite(c.env)
	on := make(map[string][]*goFunc) // tests of head by name
	for _, f := range head.tests {
		on[f.Name] = append(on[f.Name], f)
	}
	was := make(map[string]bool)
	idle := make(map[GoTest]bool) // of base, what was not built there either
	for _, f := range base.tests {
		was[f.Name] = true
		if !f.built {
			idle[GoTest{Name: f.Name, File: f.File}] = true
		}
	}
	in := ""
	if c.head.importPath != b.importPath {
		in = c.head.importPath
	}
	var gone []*goFunc
	for _, f := range base.tests {
		if !f.built || f.kind == goSilent {
			continue
		}
		g := take(on, f)
		switch {
		case g == nil, !g.built && idle[GoTest{Name: g.Name, File: g.File}]:
			gone = append(gone, f)
		case !g.built:
			c.add(DeltaConstraint, g, 1, 0)
		case g.kind == goSilent:
			c.add(DeltaOutput, g, 1, 0)
		default:
			c.pair(base, f, head, g)
			if in != "" {
				c.renamed = append(c.renamed, GoRename{Package: b.importPath, From: f.Name, To: g.Name, In: in})
			}
		}
	}
	if len(gone) == 0 {
		return
	}
	gone = c.comments(gone)
	var added []*goFunc
	for _, f := range head.tests {
		if f.built && f.kind != goSilent && !was[f.Name] {
			added = append(added, f)
		}
	}
	for _, pair := range renames(gone, added) {
		c.renamed = append(c.renamed, GoRename{Package: b.importPath, From: pair[0].Name, To: pair[1].Name, In: in})
		c.pair(base, pair[0], head, pair[1])
	}
}

// take removes and returns the function of the name of f: the one in the same
// file, one that is built, or the first.
func take(on map[string][]*goFunc, f *goFunc) *goFunc {
	list := on[f.Name]
	if len(list) == 0 {
		return nil
	}
	i := slices.IndexFunc(list, func(g *goFunc) bool { return g.built && g.File == f.File })
	if i < 0 {
		i = max(slices.IndexFunc(list, func(g *goFunc) bool { return g.built }), 0)
	}
	g := list[i]
	on[f.Name] = slices.Delete(slices.Clone(list), i, i+1)
	return g
}

func (c *goComparison) add(kind DeltaKind, f *goFunc, base, head int) {
	c.deltas = append(c.deltas, GoDelta{c.name, f.Name, kind, f.File, f.Line, base, head})
}

// pair compares a test with what it became.
func (c *goComparison) pair(base *goSuite, f *goFunc, head *goSuite, g *goFunc) {
	if b, h := base.assertsOf(f), head.assertsOf(g); h < b {
		c.add(DeltaAssertions, g, b, h)
	}
	if b, h := base.rowsOf(f), head.rowsOf(g); h < b {
		c.add(DeltaRows, g, b, h)
	}
	if b, h := base.skipsOf(f), head.skipsOf(g); h > b {
		c.add(DeltaSkip, g, b, h)
	}
	if f.stmts > 0 && g.stmts == 0 {
		c.add(DeltaEmptied, g, f.stmts, 0)
	}
	if g.ends > f.ends {
		c.add(DeltaReturn, g, f.ends, g.ends)
	}
}

// comments finds tests that are gone in the comments of head, and returns the
// others. It looks with a scanner: a file that is one comment does not parse.
func (c *goComparison) comments(gone []*goFunc) []*goFunc {
	at := make(map[string]GoTest)
	for _, file := range c.head.files {
		if len(file.Content) > maxGoFile {
			continue
		}
		f := token.NewFileSet().AddFile("", -1, len(file.Content))
		var s scanner.Scanner
		s.Init(f, file.Content, func(token.Position, string) {}, scanner.ScanComments)
		for pos, tok, text := s.Scan(); tok != token.EOF; pos, tok, text = s.Scan() {
			if tok != token.COMMENT {
				continue
			}
			line := f.PositionFor(pos, false).Line
			for l := range strings.Lines(text) {
				if name := declaredName(l); name != "" && at[name].Name == "" {
					at[name] = GoTest{Name: name, File: file.Path, Line: line}
				}
				line++
			}
		}
	}
	return slices.DeleteFunc(gone, func(f *goFunc) bool {
		found, ok := at[f.Name]
		if ok {
			c.add(DeltaComment, &goFunc{GoTest: found}, 1, 0)
		}
		return ok
	})
}

// declaredName returns the name of the function that a line of a comment
// declares.
func declaredName(line string) string {
	line = strings.TrimLeft(line, "/* \t")
	rest, ok := strings.CutPrefix(line, "func ")
	if !ok {
		return ""
	}
	name, _, ok := strings.Cut(rest, "(")
	if name = strings.TrimSpace(name); !ok || strings.ContainsAny(name, " \t[") {
		return ""
	}
	return name
}
