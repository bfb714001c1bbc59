package source

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxGoFile = 4 << 20 // bytes of one Go file or go.mod

// A GoTest is a function that go test runs.
type GoTest struct {
	Name, File string
	Line       int
}

// A goSource is a parsed Go file. What its parser did not understand is
// missing.
type goSource struct {
	File
	fset    *token.FileSet
	file    *ast.File
	broken  bool
	imports map[string]string // import paths by the names that the file gives them
	dots    map[string]bool   // import paths of dot imports
}

// parseGo parses a Go file, and returns nil if it is too large.
func parseGo(f File) *goSource {
	if len(f.Content) > maxGoFile {
		return nil
	}
	s := &goSource{File: f, fset: token.NewFileSet(), imports: make(map[string]string), dots: make(map[string]bool)}
	var err error
	s.file, err = parser.ParseFile(s.fset, f.Path, f.Content, parser.ParseComments|parser.SkipObjectResolution)
	s.broken = err != nil
	for _, spec := range s.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		switch {
		case err != nil:
		case spec.Name == nil:
			s.imports[importName(imported)] = imported
		case spec.Name.Name == ".":
			s.dots[imported] = true
		default:
			s.imports[spec.Name.Name] = imported
		}
	}
	return s
}

// importName guesses the name of a package from its import path.
func importName(imported string) string {
	name := path.Base(imported)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(imported))
	}
	if i := strings.Index(name, ".v"); i > 0 {
		name = name[:i]
	}
	return strings.TrimPrefix(name, "go-")
}

// line returns the line of a position in the text, whatever //line says.
func (s *goSource) line(pos token.Pos) int { return s.fset.PositionFor(pos, false).Line }

// text returns the source of a node.
func (s *goSource) text(from, to token.Pos) []byte {
	i, j := s.fset.PositionFor(from, false).Offset, s.fset.PositionFor(to, false).Offset
	if i < 0 || j < i || j > len(s.Content) {
		return nil
	}
	return s.Content[i:j]
}

// Kinds of functions of a test file.
const (
	goTest     = "Test"
	goFuzz     = "Fuzz"
	goExample  = "Example" // with output
	goSilent   = "silent"  // an example without output, which go test compiles only
	goTestMain = "TestMain"
)

// kind returns what go test takes a function for, or "". A benchmark is none of
// the kinds: go test runs it only when told to.
func (s *goSource) kind(d *ast.FuncDecl) string {
	name := d.Name.Name
	if d.Recv != nil || d.Type.TypeParams.NumFields() > 0 {
		return ""
	}
	switch {
	case name == goTestMain && takesTesting(d.Type, "M"):
		return goTestMain
	case isTestName(name, goTest) && takesTesting(d.Type, "T"):
		return goTest
	case isTestName(name, goFuzz) && takesTesting(d.Type, "F"):
		return goFuzz
	case isTestName(name, goExample) && d.Body != nil && d.Type.Params.NumFields() == 0 && d.Type.Results.NumFields() == 0:
		if s.hasOutput(d.Body) {
			return goExample
		}
		return goSilent
	}
	return ""
}

// isTestName reports whether a name is the prefix, or goes on with anything but
// a lower-case letter.
func isTestName(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok || rest == "" {
		return ok
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return !unicode.IsLower(r)
}

// takesTesting reports whether a function has no result and one parameter that
// is a pointer to a type of that name, in whatever package: so does the go
// command, which does not resolve imports either.
func takesTesting(t *ast.FuncType, name string) bool {
	if t.Results.NumFields() > 0 || t.Params == nil || len(t.Params.List) != 1 || len(t.Params.List[0].Names) > 1 {
		return false
	}
	pointer, ok := t.Params.List[0].Type.(*ast.StarExpr)
	return ok && typeName(pointer.X) == name
}

// typeName returns the last part of a type's name.
func typeName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// hasOutput reports whether the last comment of an example's body says what it
// prints.
func (s *goSource) hasOutput(body *ast.BlockStmt) bool {
	comments := s.file.Comments
	i := sort.Search(len(comments), func(i int) bool { return comments[i].End() > body.End() }) - 1
	if i < 0 || comments[i].Pos() < body.Pos() {
		return false
	}
	text := strings.TrimLeft(comments[i].Text(), " \t\n\v\f\r")
	for _, prefix := range []string{"output:", "unordered output:"} {
		if len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// funcs yields the functions of a file in their order.
func (s *goSource) funcs() []*ast.FuncDecl {
	var list []*ast.FuncDecl
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			list = append(list, f)
		}
	}
	return list
}
