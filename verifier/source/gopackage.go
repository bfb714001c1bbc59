package source

import (
	"bytes"
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

const (
	maxGoPath   = 4 << 10 // bytes of the path of a test file
	maxGoDepth  = 128     // folders above it
	maxGoIgnore = 1 << 10 // ignore directives of a go.mod
)

// A GoPackage is a package with tests, as the go command would build it.
type GoPackage struct {
	Dir        string // in the tree, "." for the root
	Module     string // folder of its go.mod
	ImportPath string // as go list gives it; what go test -json calls Package
	// Name is the package clause that a new test file needs: that of the test
	// files in the package, or NAME_test if all are outside of it.
	Name  string
	Files []string // its _test.go files that the environment builds, sorted
	Main  bool     // it defines TestMain
	// Tests are the functions that go test runs without flags: tests, fuzz
	// tests and examples with output, sorted by name. A package and its
	// external test may each have one of the same name.
	Tests []GoTest
}

// GoPackages returns the packages of a tree that have at least one test file
// which env builds, sorted by folder. Of files, which may be in any order, it
// looks at those named go.mod or ending in _test.go.
//
// Folders that the go command ignores have no packages: those named testdata or
// with a name that begins with a dot or an underscore, those of an ignore
// directive, all below them, and all below folders named vendor. A folder with a go.mod is a module of
// its own, wherever it is; whether the go command reaches it, also whether a
// go.work uses it, depends on where and how it is run. Folders without a go.mod
// above them have no packages.
//
// The second result lists, sorted, what was not read or not read to the end:
// files beyond 4 MiB, files with a syntax error, a malformed build constraint
// (they count as built) or a path that is too long, too deep or malformed. Of a
// malformed go.mod only the module's path is used.
func GoPackages(files []File, env GoEnv) ([]GoPackage, []string) {
	tree := newGoTree(files)
	var pkgs []GoPackage
	for _, dir := range tree.dirs {
		p, unparsed := dir.read(env)
		if len(p.Files) > 0 {
			pkgs = append(pkgs, p)
		}
		tree.unparsed = append(tree.unparsed, unparsed...)
	}
	slices.Sort(tree.unparsed)
	return pkgs, slices.Compact(tree.unparsed)
}

// A goTree is how the go command sees a tree.
type goTree struct {
	dirs     []*goDir // those with test files, sorted
	unparsed []string
}

// A goDir is a folder with test files.
type goDir struct {
	dir, module, importPath string
	reached                 bool   // it is part of a module, and not ignored
	files                   []File // the test files, sorted
}

type goModule struct {
	path         string
	here, anyway []string // what it ignores, from its root and anywhere; with slashes around
}

func newGoTree(files []File) *goTree {
	t := new(goTree)
	modules := make(map[string]goModule)
	var tests []File
	for _, f := range sortedFiles(files) {
		name := path.Base(f.Path)
		switch {
		case name != "go.mod" && !strings.HasSuffix(name, "_test.go"):
		case !fs.ValidPath(f.Path) || len(f.Path) > maxGoPath || strings.Count(f.Path, "/") > maxGoDepth:
			t.unparsed = append(t.unparsed, f.Path)
		case name == "go.mod":
			m, ok := readGoMod(f)
			if !ok {
				t.unparsed = append(t.unparsed, f.Path)
			}
			modules[path.Dir(f.Path)] = m
		default:
			tests = append(tests, f)
		}
	}
	byDir := make(map[string]*goDir)
	for _, f := range tests {
		dir := path.Dir(f.Path)
		d := byDir[dir]
		if d == nil {
			d = &goDir{dir: dir}
			d.place(modules)
			byDir[dir] = d
			t.dirs = append(t.dirs, d)
		}
		d.files = append(d.files, f)
	}
	slices.SortFunc(t.dirs, func(a, b *goDir) int { return cmp.Compare(a.dir, b.dir) })
	return t
}

// sortedFiles returns files sorted by path, each path once.
func sortedFiles(files []File) []File {
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), bytes.Compare(a.Content, b.Content))
	})
	return slices.CompactFunc(sorted, func(a, b File) bool { return a.Path == b.Path })
}

func readGoMod(f File) (goModule, bool) {
	if len(f.Content) > maxGoFile {
		return goModule{}, false
	}
	mod, err := modfile.ParseLax(f.Path, f.Content, nil)
	if err != nil || mod.Module == nil || len(mod.Ignore) > maxGoIgnore {
		return goModule{path: modfile.ModulePath(f.Content)}, false
	}
	m := goModule{path: mod.Module.Mod.Path}
	for _, ignore := range mod.Ignore {
		folder, here := strings.CutPrefix(ignore.Path, "./")
		folder = "/" + strings.Trim(folder, "/") + "/"
		if here {
			m.here = append(m.here, folder)
		} else {
			m.anyway = append(m.anyway, folder)
		}
	}
	return m, true
}

// place finds the module of d.
func (d *goDir) place(modules map[string]goModule) {
	d.module = d.dir
	m, ok := modules[d.module]
	for !ok && d.module != "." {
		d.module = path.Dir(d.module)
		m, ok = modules[d.module]
	}
	if !ok || m.path == "" {
		d.module = ""
		return
	}
	rel := d.dir
	if d.module != "." {
		rel = strings.TrimPrefix(strings.TrimPrefix(d.dir, d.module), "/")
	}
	if rel == "." || rel == "" {
		d.importPath, d.reached = m.path, true
		return
	}
	d.importPath = m.path + "/" + rel
	d.reached = !m.ignores("/" + rel + "/")
}

// ignores reports whether the go command passes over a folder, or one above it.
func (m goModule) ignores(rel string) bool {
	elements := strings.Split(strings.Trim(rel, "/"), "/")
	for i, element := range elements {
		if element == "testdata" || element[0] == '.' || element[0] == '_' || element == "vendor" && i < len(elements)-1 {
			return true
		}
	}
	return slices.ContainsFunc(m.here, func(folder string) bool { return strings.HasPrefix(rel, folder) }) ||
		slices.ContainsFunc(m.anyway, func(folder string) bool { return strings.Contains(rel, folder) })
}

// read returns the package of d, and the files that it could not read.
func (d *goDir) read(env GoEnv) (GoPackage, []string) {
	p := GoPackage{Dir: d.dir, Module: d.module, ImportPath: d.importPath}
	if !d.reached {
		return p, nil
	}
	var unparsed []string
	external := ""
	for _, f := range d.files {
		built, err := env.builds(path.Base(f.Path), f.Content)
		if !built && err == nil {
			continue
		}
		s := parseGo(f)
		if s == nil || s.broken || err != nil {
			unparsed = append(unparsed, f.Path)
		}
		if s == nil {
			p.Files = append(p.Files, f.Path)
			continue
		}
		clause := s.file.Name.Name
		if clause == "documentation" {
			continue // the go command ignores files of this package
		}
		p.Files = append(p.Files, f.Path)
		switch {
		case strings.HasSuffix(clause, "_test"):
			external = cmp.Or(external, clause)
		default:
			p.Name = cmp.Or(p.Name, clause)
		}
		for _, fn := range s.funcs() {
			switch s.kind(fn) {
			case goTestMain:
				p.Main = true
			case goTest, goFuzz, goExample:
				p.Tests = append(p.Tests, GoTest{Name: fn.Name.Name, File: f.Path, Line: s.line(fn.Pos())})
			}
		}
	}
	p.Name = cmp.Or(p.Name, external)
	slices.SortFunc(p.Tests, func(a, b GoTest) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return p, unparsed
}
