package source

import (
	"go/ast"
	"go/token"
	"strings"
)

// A goFunc is what counts of a function in a test file.
type goFunc struct {
	GoTest
	kind   string
	built  bool
	source []byte // of the declaration

	asserts int            // calls that fail the test themselves
	skips   int            // calls that skip it, and questions whether tests should be short
	rows    int            // of the tables in its body
	stmts   int            // statements of its body
	ends    int            // places from which on a body is never run
	calls   map[string]int // of functions by their bare name
	uses    map[string]bool
}

// readGoFunc counts in a function of s.
func (s *goSource) readGoFunc(d *ast.FuncDecl) *goFunc {
	f := &goFunc{
		GoTest: GoTest{Name: d.Name.Name, File: s.Path, Line: s.line(d.Pos())},
		kind:   s.kind(d),
		source: s.text(d.Pos(), d.End()),
		calls:  make(map[string]int),
		uses:   make(map[string]bool),
	}
	if d.Body == nil {
		return f
	}
	for _, stmt := range d.Body.List {
		if _, empty := stmt.(*ast.EmptyStmt); !empty {
			f.stmts++
		}
	}
	c := goCounter{s: s, f: f, tests: make(map[string]bool), checkers: make(map[string]bool), ranged: rangedNames(d)}
	c.params(d)
	c.body(d.Body)
	ast.Inspect(d, c.visit)
	return f
}

type goCounter struct {
	s        *goSource
	f        *goFunc
	tests    map[string]bool // parameters that are a test
	checkers map[string]bool // variables that hold a test and fail it
	ranged   map[string]bool // names that a loop goes over
}

// params finds the names of tests and of what was made of them. Names are not
// resolved: one that means a test anywhere in a function means it everywhere in
// the function.
func (c *goCounter) params(d *ast.FuncDecl) {
	ast.Inspect(d, func(n ast.Node) bool {
		if t, ok := n.(*ast.FuncType); ok && t.Params != nil {
			for _, field := range t.Params.List {
				if isTestingType(field.Type) {
					for _, name := range field.Names {
						c.tests[name.Name] = true
					}
				}
			}
		}
		return true
	})
	ast.Inspect(d, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
			return true
		}
		name, ok := a.Lhs[0].(*ast.Ident)
		call, called := a.Rhs[0].(*ast.CallExpr)
		if !ok || !called || len(call.Args) == 0 {
			return true
		}
		// c := qt.New(t), g := NewWithT(t)
		if arg, ok := call.Args[0].(*ast.Ident); ok && c.tests[arg.Name] {
			switch made := typeName(call.Fun); made {
			case "New", "NewWithT", "NewGomegaWithT":
				c.checkers[name.Name] = true
			}
		}
		return true
	})
}

// isTestingType reports whether a type is that of a test: *testing.T, *testing.F,
// *testing.B, testing.TB.
func isTestingType(t ast.Expr) bool {
	if pointer, ok := t.(*ast.StarExpr); ok {
		switch typeName(pointer.X) {
		case "T", "F", "B":
			return true
		}
		return false
	}
	return typeName(t) == "TB"
}

func (c *goCounter) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Ident:
		c.f.uses[n.Name] = true
	case *ast.CallExpr:
		c.call(n)
	case *ast.CompositeLit:
		c.f.rows += tableRows(n, nil, false, 0)
	case *ast.AssignStmt:
		for i, right := range n.Rhs {
			if i < len(n.Lhs) {
				if name, ok := n.Lhs[i].(*ast.Ident); ok && c.ranged[name.Name] {
					c.f.rows += scalarRows(right)
				}
			}
		}
	case *ast.ValueSpec:
		for i, value := range n.Values {
			if i < len(n.Names) && c.ranged[n.Names[i].Name] {
				c.f.rows += scalarRows(value)
			}
		}
	case *ast.RangeStmt:
		c.f.rows += scalarRows(n.X)
	}
	return true
}

// The packages and the beginnings of names of functions that fail a test.
const goCheckPackages = " assert require is check expect should must qt quicktest verify ensure "

var goCheckPrefixes = [...]string{"assert", "require", "check", "expect", "should", "must", "verify", "ensure"}

func checks(name string) bool {
	name = strings.ToLower(name)
	for _, prefix := range goCheckPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func skips(name string) bool { return len(name) >= 4 && strings.EqualFold(name[:4], "skip") }

func (c *goCounter) call(call *ast.CallExpr) {
	fun := call.Fun
	switch x := fun.(type) {
	case *ast.IndexExpr: // f[T](…)
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	switch fun := fun.(type) {
	case *ast.Ident:
		c.f.calls[fun.Name]++
	case *ast.SelectorExpr:
		c.method(call, fun)
	}
}

// method counts a call x.F(…).
func (c *goCounter) method(call *ast.CallExpr, fun *ast.SelectorExpr) {
	name := fun.Sel.Name
	switch x := fun.X.(type) {
	case *ast.Ident:
		switch {
		case c.tests[x.Name]:
			c.test(call, name)
		case x.Name == "skip" || skips(name), x.Name == "testing" && name == "Short":
			c.f.skips++
		case name == "New" || len(call.Args) == 0 && checks(name):
			// It makes what checks, s.Require(), and checks nothing.
		case c.checkers[x.Name], oneOf(goCheckPackages, x.Name), checks(name),
			x.Name == "cmp" && name == "Diff":
			c.f.asserts++
		}
	case *ast.CallExpr:
		// assert.New(t).Equal(…), s.Require().Equal(…)
		if inner, ok := x.Fun.(*ast.SelectorExpr); ok {
			root, _ := inner.X.(*ast.Ident)
			if len(x.Args) == 0 && checks(inner.Sel.Name) || root != nil && inner.Sel.Name == "New" && oneOf(goCheckPackages, root.Name) {
				c.f.asserts++
			}
		}
	case *ast.SelectorExpr:
		if checks(name) {
			c.f.asserts++
		}
	}
}

// test counts a call of a method of a test.
func (c *goCounter) test(call *ast.CallExpr, name string) {
	switch name {
	case "Skip", "Skipf", "SkipNow":
		c.f.skips++
	case "Add":
		c.f.rows++ // a seed of a fuzz test
	case "Run", "Fuzz":
		if n := len(call.Args); n > 0 {
			if lit, ok := call.Args[n-1].(*ast.FuncLit); ok && lit.Body != nil {
				c.body(lit.Body)
			}
		}
	default:
		if failing(name) {
			c.f.asserts++
		}
	}
}

// failing reports whether a method of a test makes it fail.
func failing(method string) bool {
	return oneOf(" Error Errorf Fatal Fatalf Fail FailNow ", method)
}

// body counts the first statement after which nothing of a body is run.
func (c *goCounter) body(b *ast.BlockStmt) {
	for i, stmt := range b.List {
		if i < len(b.List)-1 && c.leaves(stmt, 0) {
			c.f.ends++
			return
		}
	}
}

// leaves reports whether a statement ends the function whenever it is reached.
func (c *goCounter) leaves(stmt ast.Stmt, depth int) bool {
	if depth > 8 {
		return false
	}
	switch stmt := stmt.(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BlockStmt:
		for _, inner := range stmt.List {
			if c.leaves(inner, depth+1) {
				return true
			}
		}
	case *ast.IfStmt:
		if name, ok := ast.Unparen(stmt.Cond).(*ast.Ident); ok && name.Name == "true" && stmt.Body != nil {
			return c.leaves(stmt.Body, depth+1)
		}
	case *ast.ExprStmt:
		call, ok := stmt.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			return fun.Name == "panic"
		case *ast.SelectorExpr:
			x, _ := fun.X.(*ast.Ident)
			if x == nil {
				return false
			}
			switch fun.Sel.Name {
			case "Skip", "Skipf", "SkipNow":
				return c.tests[x.Name]
			case "Exit":
				return c.s.imports[x.Name] == "os" || c.s.imports[x.Name] == "syscall"
			case "Goexit":
				return c.s.imports[x.Name] == "runtime"
			}
		}
	}
	return false
}

// rangedNames returns the names that loops of a node go over.
func rangedNames(n ast.Node) map[string]bool {
	names := make(map[string]bool)
	ast.Inspect(n, func(n ast.Node) bool {
		if loop, ok := n.(*ast.RangeStmt); ok {
			if name, ok := loop.X.(*ast.Ident); ok {
				names[name.Name] = true
			}
		}
		return true
	})
	return names
}

// tableRows returns the number of elements of a literal of a list or map whose
// elements are literals themselves, as those of a table of cases are; with plain,
// those of other lists as well. Elements may leave out the type that they have
// by that of the literal around them; ast.Inspect comes to those with one.
func tableRows(lit *ast.CompositeLit, inherited ast.Expr, plain bool, depth int) int {
	t := lit.Type
	if t == nil {
		t = inherited
	}
	var element ast.Expr
	switch t := t.(type) {
	case *ast.ArrayType:
		element = t.Elt
	case *ast.MapType:
		element = t.Value
	default:
		return 0
	}
	rows, table := 0, plain
	for _, e := range lit.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			e = pair.Value
		}
		if address, ok := e.(*ast.UnaryExpr); ok && address.Op == token.AND {
			e = address.X
		}
		inner, ok := e.(*ast.CompositeLit)
		if !ok {
			continue
		}
		table = true
		if inner.Type == nil && depth < 8 {
			rows += tableRows(inner, element, false, depth+1)
		}
	}
	if table {
		rows += len(lit.Elts)
	}
	return rows
}

// scalarRows returns the number of elements of an expression that is a list or
// map of plain values, which is a table only because something goes over it.
func scalarRows(x ast.Expr) int {
	lit, ok := x.(*ast.CompositeLit)
	if !ok {
		return 0
	}
	return tableRows(lit, nil, true, 0) - tableRows(lit, nil, false, 0)
}

// tables returns the rows of the tables that a file declares outside of
// functions, by their names.
func (s *goSource) tables() map[string]int {
	rows := make(map[string]int)
	for _, d := range s.file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.VAR {
			continue
		}
		for _, spec := range decl.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for i, value := range v.Values {
				if lit, ok := value.(*ast.CompositeLit); ok && i < len(v.Names) {
					ast.Inspect(lit, func(n ast.Node) bool {
						if inner, ok := n.(*ast.CompositeLit); ok {
							rows[v.Names[i].Name] += tableRows(inner, nil, inner == lit, 0)
						}
						return true
					})
				}
			}
		}
	}
	return rows
}
