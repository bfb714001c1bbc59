package source

import (
	"go/ast"
	"go/token"
)

// maxText bounds how deep an expression is looked into.
const maxText = 50

// textNames are the names in a file that stand for strings somewhere in it, so that
// a sum of strings can be told from one of numbers without types.
type textNames struct {
	single map[string]bool // variables, constants, fields
	many   map[string]bool // variables and fields whose elements are strings
	funcs  map[string]bool // functions and methods with one result
}

func isStringType(t ast.Expr) bool {
	id, ok := t.(*ast.Ident)
	return ok && id.Name == "string"
}

// areStrings reports whether the elements of a t are strings.
func areStrings(t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.ArrayType:
		return isStringType(t.Elt)
	case *ast.Ellipsis:
		return isStringType(t.Elt)
	case *ast.MapType:
		return isStringType(t.Value)
	}
	return false
}

func textNamesOf(f *ast.File) textNames {
	t := textNames{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				t.declare(name.Name, n.Type, nil)
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				var value ast.Expr
				if i < len(n.Values) {
					value = n.Values[i]
				}
				t.declare(name.Name, n.Type, value)
			}
		case *ast.AssignStmt:
			for i, x := range n.Lhs {
				if id, ok := x.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
					t.declare(id.Name, nil, n.Rhs[i])
				}
			}
		case *ast.RangeStmt:
			if id, ok := n.Value.(*ast.Ident); ok && t.hold(n.X) {
				t.single[id.Name] = true
			}
		case *ast.FuncDecl:
			if r := n.Type.Results; r != nil && len(r.List) == 1 && isStringType(r.List[0].Type) {
				t.funcs[n.Name.Name] = true
			}
		}
		return true
	})
	return t
}

func (t textNames) declare(name string, typ, value ast.Expr) {
	if name == "_" {
		return
	}
	if typ == nil && value != nil {
		t.single[name] = t.single[name] || t.is(value, 0)
		switch v := value.(type) {
		case *ast.CompositeLit:
			typ = v.Type
		case *ast.CallExpr:
			if id, ok := v.Fun.(*ast.Ident); ok && id.Name == "make" && len(v.Args) > 0 {
				typ = v.Args[0]
			}
		}
	}
	t.single[name] = t.single[name] || isStringType(typ)
	t.many[name] = t.many[name] || areStrings(typ)
}

// any reports whether one of the expressions is a string.
func (t textNames) any(list []ast.Expr) bool {
	for _, x := range list {
		if t.is(x, 0) {
			return true
		}
	}
	return false
}

// hold reports whether the elements of x are strings.
func (t textNames) hold(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return t.many[x.Name]
	case *ast.SelectorExpr:
		return t.many[x.Sel.Name]
	case *ast.CompositeLit:
		return areStrings(x.Type)
	}
	return false
}

// is reports whether x is a string, as far as names tell; what is too deep to
// see is one.
func (t textNames) is(x ast.Expr, depth int) bool {
	if depth++; depth > maxText {
		return true
	}
	switch x := x.(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING
	case *ast.Ident:
		return t.single[x.Name]
	case *ast.SelectorExpr:
		return t.single[x.Sel.Name]
	case *ast.ParenExpr:
		return t.is(x.X, depth)
	case *ast.BinaryExpr:
		return x.Op == token.ADD && (t.is(x.X, depth) || t.is(x.Y, depth))
	case *ast.IndexExpr:
		return t.hold(x.X)
	case *ast.SliceExpr:
		return t.is(x.X, depth)
	case *ast.CallExpr:
		of, name := calledName(x)
		switch name {
		case "String", "Error", "Name", "Text", "Sprint", "Sprintf", "Sprintln":
			return true
		case "string":
			return of == ""
		}
		return t.funcs[name] || textFuncs[of][name]
	}
	return false
}

// wants reports whether the arguments of the call c are strings, not numbers.
func (t textNames) wants(c *ast.CallExpr) bool {
	if a, ok := c.Fun.(*ast.ArrayType); ok {
		return a.Len == nil // []byte and []rune
	}
	of, name := calledName(c)
	switch of {
	case "errors", "strings", "filepath", "path", "os", "regexp", "url":
		return true
	case "":
		return name == "string"
	}
	switch name {
	case "WriteString", "HasPrefix", "HasSuffix", "MustCompile":
		return true
	}
	return false
}

// textFuncs are functions of the standard library with one result, a string.
var textFuncs = map[string]map[string]bool{
	"strings": {
		"Clone": true, "Join": true, "Map": true, "Repeat": true, "Replace": true, "ReplaceAll": true,
		"Title": true, "ToLower": true, "ToTitle": true, "ToUpper": true, "ToValidUTF8": true,
		"Trim": true, "TrimFunc": true, "TrimLeft": true, "TrimPrefix": true, "TrimRight": true,
		"TrimSpace": true, "TrimSuffix": true,
	},
	"strconv":  {"FormatBool": true, "FormatFloat": true, "FormatInt": true, "FormatUint": true, "Itoa": true, "Quote": true},
	"filepath": {"Base": true, "Clean": true, "Dir": true, "Ext": true, "FromSlash": true, "Join": true, "ToSlash": true},
	"path":     {"Base": true, "Clean": true, "Dir": true, "Ext": true, "Join": true},
	"os":       {"Getenv": true, "TempDir": true},
	"hex":      {"EncodeToString": true},
	"url":      {"PathEscape": true, "QueryEscape": true},
	"html":     {"EscapeString": true, "UnescapeString": true},
}
