package source

import (
	"go/ast"
	"go/token"
	"strconv"
)

func (m *mutator) boolean(n *ast.Ident) {
	to := ""
	switch n.Name {
	case "true":
		to = "false"
	case "false":
		to = "true"
	default:
		return
	}
	switch p := m.up(1).(type) {
	case *ast.SelectorExpr, *ast.CaseClause, *ast.LabeledStmt, *ast.BranchStmt, *ast.FuncDecl:
		return
	case *ast.AssignStmt:
		for _, x := range p.Lhs {
			if x == n {
				return
			}
		}
	case *ast.ValueSpec:
		for _, x := range p.Names {
			if x == n {
				return
			}
		}
	}
	m.operator("boolean", n, n.NamePos, n.Name, to, n.Name+" → "+to)
}

func (m *mutator) literal(n *ast.BasicLit) {
	if !m.eligibleAt(n.ValuePos) {
		return
	}
	parent := m.up(1)
	to := ""
	switch n.Kind {
	case token.INT:
		less := false
		switch p := parent.(type) {
		case *ast.BinaryExpr:
			less = (p.Op == token.SHL || p.Op == token.SHR) && p.Y == n
		case *ast.AssignStmt:
			less = p.Tok == token.SHL_ASSIGN || p.Tok == token.SHR_ASSIGN
		}
		to = neighbour(n.Value, less)
	case token.STRING:
		switch p := parent.(type) {
		case *ast.SliceExpr:
			return // the bounds are constants, and in it
		case *ast.IndexExpr:
			if p.X == n {
				return
			}
		}
		if m.tellsError() {
			return
		}
		to = `""`
		if n.Value == `""` || n.Value == "``" {
			to = `"mutant"`
		}
	}
	if to == "" {
		return
	}
	if _, ok := parent.(*ast.CaseClause); ok && m.taken(to) {
		return
	}
	m.operator("literal", n, n.ValuePos, n.Value, to, beforeAfter(n.Value, to))
}

// taken reports whether a case of the switch whose case is the parent has the
// literal already.
func (m *mutator) taken(literal string) bool {
	body, ok := m.up(2).(*ast.BlockStmt)
	if !ok {
		return true
	}
	values := m.cases[body]
	if values == nil {
		values = map[string]bool{}
		for _, s := range body.List {
			if c, ok := s.(*ast.CaseClause); ok {
				for _, x := range c.List {
					if l, ok := x.(*ast.BasicLit); ok {
						values[literalValue(l.Value)] = true
					}
				}
			}
		}
		m.cases[body] = values
	}
	return values[literalValue(literal)]
}

// literalValue returns the same for literals of the same integer or string.
func literalValue(literal string) string {
	if v, err := strconv.ParseUint(literal, 0, 64); err == nil {
		return strconv.FormatUint(v, 10)
	}
	if s, err := strconv.Unquote(literal); err == nil {
		return strconv.Quote(s)
	}
	return literal
}

// neighbour returns the integer after the one that is written in s, in the same
// base, or the one before. A number that is the greatest of a type, or would
// take one more bit of a shift, has none after it.
func neighbour(s string, less bool) string {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return ""
	}
	switch v {
	case 1<<7 - 1, 1<<8 - 1, 1<<15 - 1, 1<<16 - 1, 1<<31 - 1, 1<<32 - 1, 1<<63 - 1, 1<<64 - 1:
		less = true
	}
	if less && v > 0 {
		v--
	} else {
		v++
	}
	if len(s) > 1 && s[0] == '0' {
		switch s[1] {
		case 'x', 'X':
			return "0x" + strconv.FormatUint(v, 16)
		case 'b', 'B':
			return "0b" + strconv.FormatUint(v, 2)
		default:
			return "0o" + strconv.FormatUint(v, 8)
		}
	}
	return strconv.FormatUint(v, 10)
}
