package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// A checkedPackage is a package of this machine that can be type-checked again and
// again.
type checkedPackage struct {
	files  []File
	set    *token.FileSet
	parsed map[string]*ast.File
	path   string
	conf   types.Config
}

func loadChecked(t testing.TB, path string) *checkedPackage {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command")
	}
	cmd := exec.Command(goTool, "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export,ImportMap,DepOnly", path)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", path, err)
	}
	p := &checkedPackage{set: token.NewFileSet(), parsed: map[string]*ast.File{}}
	exports, renamed := map[string]string{}, map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
			ImportMap               map[string]string
			DepOnly                 bool
		}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[l.ImportPath] = l.Export
		if l.DepOnly {
			continue
		}
		p.path, renamed = l.ImportPath, l.ImportMap
		for _, name := range l.GoFiles {
			b, err := os.ReadFile(filepath.Join(l.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			p.files = append(p.files, File{Path: name, Content: b})
			if p.parsed[name], err = parser.ParseFile(p.set, name, b, parser.SkipObjectResolution); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.conf = types.Config{
		Error: func(error) {}, // all of them, and the first is returned
		Importer: importer.ForCompiler(p.set, "gc", func(path string) (io.ReadCloser, error) {
			if to := renamed[path]; to != "" {
				path = to
			}
			return os.Open(exports[path])
		}),
		Sizes: types.SizesFor("gc", runtime.GOARCH),
	}
	if err := p.check(Mutant{}); err != nil {
		t.Fatalf("%s does not compile as it is: %v", path, err)
	}
	return p
}

// check type-checks the package with the file of m in the place of its own.
func (p *checkedPackage) check(m Mutant) error {
	var files []*ast.File
	for _, f := range p.files {
		parsed := p.parsed[f.Path]
		if f.Path == m.Path {
			var err error
			if parsed, err = parser.ParseFile(p.set, f.Path, m.Content, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		files = append(files, parsed)
	}
	_, err := p.conf.Check(p.path, p.set, files, nil)
	return err
}

func TestCheckSeesErrors(t *testing.T) {
	p := loadChecked(t, "path")
	for _, src := range []string{"package path\nfunc f() int { return \"\" }", "package path\nfunc f() int { for { break } }", "package path\nfunc f() { x := 1 }"} {
		if p.check(Mutant{Path: p.files[0].Path, Content: []byte(src)}) == nil {
			t.Error(src)
		}
	}
}

// TestGoMutantsCompile: types are not known where mutants are made, and still
// most of them compile.
func TestGoMutantsCompile(t *testing.T) {
	t.Parallel()
	if raceEnabled {
		t.Skip("takes long with the race detector, and has no goroutines")
	}
	for _, path := range []string{"path", "net/url"} {
		p := loadChecked(t, path)
		mutants := GoMutants(p.files, nil, [32]byte{}, 60)
		if len(mutants) != 60 {
			t.Fatalf("%s: %d mutants", path, len(mutants))
		}
		bad := 0
		for _, m := range mutants {
			i := slices.IndexFunc(p.files, func(f File) bool { return f.Path == m.Path })
			checkMutant(t, p.files[i].Content, m)
			if err := p.check(m); err != nil {
				t.Logf("%d:%d %s: %v", m.Line, m.Column, m.Change, err)
				bad++
			}
		}
		t.Logf("%s: %d of %d mutants do not compile", path, bad, len(mutants))
		if bad > len(mutants)/5 {
			t.Errorf("%s: %d of %d mutants do not compile", path, bad, len(mutants))
		}
	}
}
