package source

import (
	"go/ast"
	"go/token"
	"strings"
)

// maxClimb bounds how far is looked up from a node, so that deep nesting does
// not cost a square. What is deeper is left alone.
const maxClimb = 100

// A mutator finds the candidates of one file.
type mutator struct {
	index    int
	path     string
	src      string
	file     *token.File
	eligible func(path string, line int) bool
	seed     [32]byte
	out      *mutantCandidates

	texts textNames
	cases map[ast.Node]map[string]bool // by the body of a switch, the literals in its cases
	skip  map[ast.Node]bool            // subtrees
	stack []ast.Node                   // the ancestors of the node that is visited
}

func (m *mutator) walk(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			m.stack = m.stack[:len(m.stack)-1]
			return true
		}
		if m.skip[n] || !m.visit(n) {
			return false
		}
		m.stack = append(m.stack, n)
		return true
	})
}

// up returns the i-th ancestor of the node that is visited, 1 for its parent,
// or nil.
func (m *mutator) up(i int) ast.Node {
	if i > len(m.stack) {
		return nil
	}
	return m.stack[len(m.stack)-i]
}

// visit adds the changes of n itself and reports whether to go on below it.
func (m *mutator) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.TypeSpec, *ast.FieldList, *ast.StructType, *ast.InterfaceType, *ast.FuncType,
		*ast.ArrayType, *ast.MapType, *ast.ChanType, *ast.CommentGroup:
		return false
	case *ast.GenDecl:
		return n.Tok != token.CONST || !usesIota(n)
	case *ast.CallExpr:
		if arid(n) {
			return false
		}
		m.skipCapacity(n)
	case *ast.BlockStmt:
		m.statements(n.List)
	case *ast.CaseClause:
		m.statements(n.Body)
	case *ast.CommClause:
		m.statements(n.Body)
	case *ast.IfStmt:
		m.negate(n.Cond)
		m.branches(n)
	case *ast.ForStmt:
		m.negate(n.Cond)
		if n.Post != nil {
			m.skip[n.Post] = true // a loop that does not end tells as little as one that is not mutated
		}
	case *ast.BinaryExpr:
		m.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			if x := m.text(n.X); x != "" {
				m.operator("condition", n, n.OpPos, "!", " ", beforeAfter("!"+x, x))
			} else {
				m.operator("condition", n, n.OpPos, "!", " ", "! → nothing")
			}
		}
	case *ast.IncDecStmt:
		if n.Tok == token.INC {
			m.operator("operator", n, n.TokPos, "++", "--", "")
		} else {
			m.operator("operator", n, n.TokPos, "--", "++", "")
		}
	case *ast.AssignStmt:
		if to, ok := swapAssign[n.Tok]; ok && (n.Tok != token.ADD_ASSIGN || !m.texts.any(n.Lhs) && !m.texts.any(n.Rhs)) {
			m.operator("operator", n, n.TokPos, n.Tok.String(), to, "")
		}
	case *ast.BasicLit:
		m.literal(n)
	case *ast.Ident:
		m.boolean(n)
	case *ast.BranchStmt:
		m.jump(n)
	case *ast.ReturnStmt:
		m.returned(n)
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				switch kv.Key.(type) {
				case *ast.BasicLit, *ast.Ident:
					m.skip[kv.Key] = true // the name of a field, or a key that may be there already
				}
			}
		}
	}
	return true
}

var swapBinary = map[token.Token]struct{ to, kind string }{
	token.ADD: {"-", "operator"}, token.SUB: {"+", "operator"},
	token.MUL: {"/", "operator"}, token.QUO: {"*", "operator"}, token.REM: {"*", "operator"},
	token.AND: {"|", "operator"}, token.OR: {"&", "operator"},
	token.SHL: {">>", "operator"}, token.SHR: {"<<", "operator"},
	token.EQL: {"!=", "condition"}, token.NEQ: {"==", "condition"},
	token.LAND: {"||", "condition"}, token.LOR: {"&&", "condition"},
	token.LSS: {"<=", "boundary"}, token.LEQ: {"<", "boundary"},
	token.GTR: {">=", "boundary"}, token.GEQ: {">", "boundary"},
}

var swapAssign = map[token.Token]string{
	token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=",
	token.MUL_ASSIGN: "/=", token.QUO_ASSIGN: "*=", token.REM_ASSIGN: "*=",
	token.AND_ASSIGN: "|=", token.OR_ASSIGN: "&=",
	token.SHL_ASSIGN: ">>=", token.SHR_ASSIGN: "<<=",
}

func (m *mutator) binary(n *ast.BinaryExpr) {
	s, ok := swapBinary[n.Op]
	if !ok || !m.eligibleAt(n.OpPos) || n.Op == token.ADD && m.concatenates(n) {
		return
	}
	m.operator(s.kind, n, n.OpPos, n.Op.String(), s.to, "")
}

// operator replaces the operator of n at pos. Without a change, n itself is
// shown before and after.
func (m *mutator) operator(kind string, n ast.Node, pos token.Pos, from, to, change string) {
	if !m.eligibleAt(pos) {
		return
	}
	off := m.file.Offset(pos)
	if !strings.HasPrefix(m.src[off:], from) {
		return
	}
	if change == "" {
		change = beforeAfter(from, to)
		if x := m.text(n); x != "" {
			at := off - m.file.Offset(n.Pos())
			if whole := beforeAfter(x, x[:at]+to+x[at+len(from):]); !strings.Contains(whole, "…") {
				change = whole
			}
		}
	}
	// 1+-x must not become 1--x, nor x**p a comment.
	if end := off + len(from); end < len(m.src) && strings.IndexByte("+-*/&|^<>=!", m.src[end]) >= 0 {
		to += " "
	}
	m.add(kind, pos, change, splice{off, off + len(from), to})
}

// concatenates reports whether the sum n is, or may well be, one of strings.
func (m *mutator) concatenates(n *ast.BinaryExpr) bool {
	var sum ast.Expr = n
	for i := 1; i <= maxClimb; i++ {
		switch p := m.up(i).(type) {
		case *ast.ParenExpr:
			sum = p
			continue
		case *ast.BinaryExpr:
			switch p.Op {
			case token.ADD, token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
				if m.texts.is(p.X, 0) || m.texts.is(p.Y, 0) {
					return true
				}
				sum = p
				continue
			}
		case *ast.AssignStmt:
			for j, x := range p.Rhs {
				if x == sum && j < len(p.Lhs) && m.texts.is(p.Lhs[j], 0) {
					return true
				}
			}
		case *ast.KeyValueExpr:
			if p.Value == sum && m.texts.is(p.Key, 0) {
				return true
			}
		case *ast.CallExpr:
			if m.texts.wants(p) {
				return true
			}
		case *ast.ReturnStmt:
			if m.returnsText(p, sum, i) {
				return true
			}
		}
		return m.texts.is(sum, 0)
	}
	return true
}

// returnsText reports whether result x of the return statement r, the i-th
// ancestor, is a string by the type of the function.
func (m *mutator) returnsText(r *ast.ReturnStmt, x ast.Expr, i int) bool {
	for end := i + maxClimb; i < end; i++ {
		var t *ast.FuncType
		switch f := m.up(i).(type) {
		case nil:
			return false
		case *ast.FuncDecl:
			t = f.Type
		case *ast.FuncLit:
			t = f.Type
		default:
			continue
		}
		at := 0
		for at < len(r.Results)-1 && r.Results[at] != x {
			at++
		}
		if t.Results == nil {
			return false
		}
		for _, f := range t.Results.List {
			if at -= max(1, len(f.Names)); at < 0 {
				return isStringType(f.Type)
			}
		}
		return false
	}
	return true
}

// negate negates a condition as a whole, unless changing its operator does the
// same.
func (m *mutator) negate(cond ast.Expr) {
	if cond == nil || !m.eligibleAt(cond.Pos()) {
		return
	}
	switch c := cond.(type) {
	case *ast.BinaryExpr:
		if c.Op == token.EQL || c.Op == token.NEQ {
			return
		}
	case *ast.UnaryExpr:
		if c.Op == token.NOT {
			return
		}
	case *ast.Ident:
		if c.Name == "true" || c.Name == "false" {
			return
		}
	}
	change := "condition → negated"
	if x := m.text(cond); x != "" {
		change = beforeAfter(x, "!("+x+")")
	}
	from, to := m.file.Offset(cond.Pos()), m.file.Offset(cond.End())
	m.add("condition", cond.Pos(), change, splice{from, from, "!("}, splice{to, to, ")"})
}
