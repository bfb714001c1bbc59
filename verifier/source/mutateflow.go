package source

import (
	"go/ast"
	"go/token"
)

// jump swaps break and continue. In a loop without a condition the one is often
// the only way out, and the other makes a function end without its result.
func (m *mutator) jump(n *ast.BranchStmt) {
	if n.Label != nil || n.Tok != token.BREAK && n.Tok != token.CONTINUE || !m.eligibleAt(n.TokPos) {
		return
	}
	for i := 1; i <= maxClimb; i++ {
		switch loop := m.up(i).(type) {
		case *ast.ForStmt:
			if loop.Cond == nil {
				return
			}
		case *ast.RangeStmt:
		case nil, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.FuncLit, *ast.FuncDecl:
			return
		default:
			continue
		}
		if n.Tok == token.BREAK {
			m.operator("jump", n, n.TokPos, "break", "continue", "break → continue")
		} else {
			m.operator("jump", n, n.TokPos, "continue", "break", "continue → break")
		}
		return
	}
}

// returned makes an error that is returned nil.
func (m *mutator) returned(n *ast.ReturnStmt) {
	if len(n.Results) == 0 || !m.eligibleAt(n.Return) {
		return
	}
	last := n.Results[len(n.Results)-1]
	switch x := last.(type) {
	case *ast.Ident:
		if x.Name != "err" {
			return
		}
	case *ast.CallExpr:
		if !makesError(x) {
			return
		}
	default:
		return
	}
	x := m.text(last)
	if x == "" {
		return
	}
	from := "return " + x
	to := "return nil"
	if len(n.Results) > 1 {
		from, to = "return …, "+x, "return …, nil"
	}
	at, off, end := m.file.Offset(n.Return), m.file.Offset(last.Pos()), m.file.Offset(last.End())
	m.add("return", n.Return, beforeAfter(from, to), splice{at, at, "_ = " + x + "; "}, splice{off, end, "nil"})
}

// statements adds the statements of a list that can be left out.
func (m *mutator) statements(list []ast.Stmt) {
	for _, s := range list {
		if omissible(s) {
			m.omit("statement", s, s, "left out")
		}
	}
}

// omissible reports whether s is a call or an assignment that says something
// about tests and declares nothing.
func omissible(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && !arid(call)
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE {
			return false
		}
		for _, x := range s.Lhs {
			if id, ok := x.(*ast.Ident); !ok || id.Name != "_" {
				return true
			}
		}
	}
	return false
}

// omit makes the statements from first to last one that is never executed.
func (m *mutator) omit(kind string, first, last ast.Stmt, how string) {
	if !m.eligibleAt(first.Pos()) {
		return
	}
	from, to := m.file.Offset(first.Pos()), m.file.Offset(last.End())
	if from >= to {
		return
	}
	shown := m.src[from:min(to, from+maxQuoted)]
	m.add(kind, first.Pos(), beforeAfter(shown, how), splice{from, from, "if false { "}, splice{to, to, " }"})
}

// branches adds the body and the else of n, if without them the function still
// ends where it must.
func (m *mutator) branches(n *ast.IfStmt) {
	m.branch(n.Body, n.Else == nil, "body left out")
	if e, ok := n.Else.(*ast.BlockStmt); ok {
		m.branch(e, false, "else left out")
	}
}

func (m *mutator) branch(b *ast.BlockStmt, mayEnd bool, how string) {
	if len(b.List) == 0 || len(b.List) == 1 && omissible(b.List[0]) {
		return // the statement alone is a mutant
	}
	telling := false
	for _, s := range b.List {
		if x, ok := s.(*ast.ExprStmt); ok {
			if call, ok := x.X.(*ast.CallExpr); ok && logsOnly(call) {
				continue
			}
		}
		telling = true
	}
	last := b.List[len(b.List)-1]
	if !telling || !mayEnd && !runsOn(last) {
		return
	}
	m.omit("branch", b.List[0], last, how)
}

// runsOn reports whether s surely does not end a function.
func runsOn(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return !ok || !panics(call)
	case *ast.AssignStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.DeclStmt, *ast.RangeStmt:
		return true
	}
	return false
}
