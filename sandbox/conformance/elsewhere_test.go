package conformance

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestElsewhere: the tests that the table names are in the source.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Skip("the source is not here: ", err)
	}
	for _, e := range ElsewhereRows() {
		if script, ok := strings.CutPrefix(e.Test, "cmd/truegreen "); ok {
			if _, err := os.Stat(filepath.Join(root, "cmd/truegreen/testdata/script", script+".txt")); err != nil {
				t.Errorf("%s %s: %v", e.ID, e.Name, err)
			}
			continue
		}
		dir, name, _ := strings.Cut(e.Test, ".")
		if err := hasTest(filepath.Join(root, dir), name); err != nil {
			t.Errorf("%s %s: %s: %v", e.ID, e.Name, e.Test, err)
		}
	}
	if err := hasTest(filepath.Join(root, "verifier"), "TestNoSuchTest"); err == nil {
		t.Error("a test that is not there is found")
	}
}

func hasTest(dir, name string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return err
	}
	for _, p := range files {
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name {
				return nil
			}
		}
	}
	return errors.New("there is no such test")
}
