package source

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// test marks a test file.
func (m *goMarks) test() {
	m.both()
	for _, d := range m.funcs() {
		switch m.kind(d) {
		case goTestMain:
			m.mark(d.Pos(), "TestMain")
			if !m.runs(d) {
				m.mark(d.Pos(), "TestMain without m.Run")
			}
		case goTest, goFuzz, goExample:
			m.recovers(d)
		}
	}
	ast.Inspect(m.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && m.is(call.Fun, "os.Exit") && len(call.Args) == 1 {
			if code, ok := call.Args[0].(*ast.BasicLit); ok && code.Kind == token.INT {
				// Another code makes the run fail.
				if n, err := strconv.ParseInt(code.Value, 0, 64); err == nil && n == 0 {
					m.mark(call.Pos(), "os.Exit(0)")
				}
			}
		}
		return true
	})
}

// runs reports whether a TestMain runs the tests: it calls Run of its parameter,
// or hands the parameter to someone else.
func (m *goMarks) runs(d *ast.FuncDecl) bool {
	names := d.Type.Params.List[0].Names
	if len(names) == 0 || d.Body == nil {
		return false
	}
	param, found := names[0].Name, false
	ast.Inspect(d.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return !found
		}
		if fun, ok := call.Fun.(*ast.SelectorExpr); ok && fun.Sel.Name == "Run" && typeName(fun.X) == param {
			found = true
		}
		for _, arg := range call.Args {
			if typeName(arg) == param {
				found = true
			}
		}
		return !found
	})
	return found
}

// recovers marks deferred functions in a test that end a panic and neither look
// at it nor fail the test: the recovered value is dropped. It is no mark if the
// last statement of the block that defers fails the test: a panic is expected.
func (m *goMarks) recovers(d *ast.FuncDecl) {
	expected := make(map[ast.Stmt]bool)
	ast.Inspect(d, func(n ast.Node) bool {
		if block, ok := n.(*ast.BlockStmt); ok && len(block.List) > 0 && fails(block.List[len(block.List)-1]) {
			for _, statement := range block.List {
				expected[statement] = true
			}
		}
		statement, ok := n.(*ast.DeferStmt)
		if !ok || expected[statement] {
			return true
		}
		lit, ok := statement.Call.Fun.(*ast.FuncLit)
		if !ok {
			return true
		}
		var pos token.Pos
		handled := false
		ast.Inspect(lit.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.DeferStmt:
				return false // looked at by itself
			case *ast.AssignStmt:
				// Something is kept for the code that follows to look at.
				if n.Tok == token.ASSIGN && typeName(n.Lhs[0]) != "_" {
					handled = true
				}
			case *ast.CallExpr:
				switch {
				case isRecover(n):
					pos = n.Pos()
				case typeName(n.Fun) == "panic" || checks(typeName(n.Fun)):
					handled = true
				default:
					fun, ok := n.Fun.(*ast.SelectorExpr)
					if ok && (failing(fun.Sel.Name) || oneOf(goCheckPackages, typeName(fun.X))) {
						handled = true
					}
					for _, arg := range n.Args {
						if isRecover(arg) {
							handled = true // whoever gets it
						}
					}
				}
			}
			return true
		})
		if pos.IsValid() && !handled {
			m.mark(pos, "recover without a failure")
		}
		return true
	})
}

// fails reports whether a statement is a call that fails the test.
func fails(statement ast.Stmt) bool {
	x, ok := statement.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := x.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	return ok && failing(fun.Sel.Name)
}

func isRecover(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	return ok && typeName(call.Fun) == "recover"
}

// prints marks calls that print a line of a test report: to standard output or
// error, or to a writer that may be one of them since the file mentions them.
func (m *goMarks) prints(call *ast.CallExpr) {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	switch {
	case m.isAny(call.Fun, "fmt.Print", "fmt.Printf", "fmt.Println", "syscall.Write", "golang.org/x/sys/unix.Write"):
	case ok && m.isAny(fun.X, "os.Stdout", "os.Stderr"):
	case typeName(call.Fun) == "print" || typeName(call.Fun) == "println":
	case m.isAny(call.Fun, "fmt.Fprint", "fmt.Fprintf", "fmt.Fprintln", "io.WriteString") && len(call.Args) > 0:
		if _, address := call.Args[0].(*ast.UnaryExpr); address || !m.stdout {
			return
		}
	default:
		return
	}
	for _, arg := range call.Args {
		if value, ok := m.stringValue(arg, 0); ok && isReport(value) {
			m.mark(arg.Pos(), "prints a test report")
			return
		}
	}
}

func isReport(text string) bool {
	for _, part := range []string{"--- PASS", "=== RUN", "ok  \t", "\x16"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "PASS" {
			return true
		}
	}
	return false
}

// startExits marks what ends the process before main or the first test: an exit
// in a function init, in the initial value of a variable, or in a function of
// the file that one of these calls. A function that they only keep, such as a
// command's, is not called by them.
func (m *goMarks) startExits() {
	bodies := make(map[string]*ast.BlockStmt)
	var queue []ast.Node
	for _, d := range m.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil || d.Body == nil {
				continue
			}
			if d.Name.Name == "init" {
				queue = append(queue, d.Body)
			} else {
				bodies[d.Name.Name] = d.Body
			}
		case *ast.GenDecl:
			if d.Tok == token.VAR {
				queue = append(queue, d)
			}
		}
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		called := make(map[*ast.FuncLit]bool)
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return called[n]
			case *ast.CallExpr:
				if m.isAny(n.Fun, "os.Exit", "syscall.Exit") {
					m.mark(n.Pos(), "os.Exit in init")
				}
				// A function that is an argument may be called as well.
				for _, x := range append(n.Args[:len(n.Args):len(n.Args)], n.Fun) {
					if lit, ok := ast.Unparen(x).(*ast.FuncLit); ok {
						called[lit] = true
					}
				}
				if name, ok := n.Fun.(*ast.Ident); ok && bodies[name.Name] != nil {
					queue = append(queue, bodies[name.Name])
					delete(bodies, name.Name)
				}
			}
			return true
		})
	}
}
