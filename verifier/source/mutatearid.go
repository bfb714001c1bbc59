package source

import (
	"go/ast"
	"go/token"
	"strings"
)

// calledName returns the package or variable and the name of what is called:
// "fmt", "Println", or "", "panic".
func calledName(c *ast.CallExpr) (of, name string) {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return "", f.Name
	case *ast.SelectorExpr:
		switch x := f.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
		return of, f.Sel.Name
	}
	return "", ""
}

// arid reports whether a change within the call c would say little about tests,
// and to leave the call out as well.
func arid(c *ast.CallExpr) bool {
	return logsOnly(c) || panics(c)
}

func panics(c *ast.CallExpr) bool {
	of, name := calledName(c)
	return of == "" && name == "panic"
}

// logsOnly reports whether c logs, or asks for memory ahead of its use.
func logsOnly(c *ast.CallExpr) bool {
	of, name := calledName(c)
	switch of {
	case "":
		return name == "print" || name == "println"
	case "fmt":
		return strings.HasPrefix(name, "Print")
	case "t", "b", "f", "tb":
		return strings.HasPrefix(name, "Log")
	}
	switch strings.ToLower(of) {
	case "log", "slog", "klog", "glog", "logrus", "logger":
		return true
	}
	return name == "Grow"
}

// makesError reports whether c is errors.New or fmt.Errorf.
func makesError(c *ast.CallExpr) bool {
	of, name := calledName(c)
	return of == "errors" && name == "New" || of == "fmt" && name == "Errorf"
}

// tellsError reports whether the literal that is visited is a part of the text
// of an error.
func (m *mutator) tellsError() bool {
	for i := 1; i <= maxClimb; i++ {
		switch p := m.up(i).(type) {
		case *ast.ParenExpr:
		case *ast.BinaryExpr:
			if p.Op != token.ADD {
				return false
			}
		case *ast.CallExpr:
			return makesError(p)
		default:
			return false
		}
	}
	return true
}

// skipCapacity passes over the arguments of make that only say how much memory
// to have ready.
func (m *mutator) skipCapacity(c *ast.CallExpr) {
	if of, name := calledName(c); of != "" || name != "make" || len(c.Args) < 2 {
		return
	}
	if _, ok := c.Args[0].(*ast.MapType); ok {
		m.skip[c.Args[1]] = true
	}
	for _, x := range c.Args[2:] {
		m.skip[x] = true
	}
}

// usesIota reports whether the constants of d depend on their place in it.
func usesIota(d *ast.GenDecl) bool {
	found := false
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.Ident:
			found = found || n.Name == "iota"
		}
		return !found
	})
	return found
}
