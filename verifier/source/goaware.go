package source

import (
	"cmp"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A GoAware is a place in a Go file that can tell a test run from another one,
// end it early, or speak in its name. What is one of
//
//	testing.Testing()              the question whether this is a test
//	import testing                 also of a package below it
//	flag.Lookup("test.v")          any flag that begins with test.
//	flag.Set("test.v")             likewise
//	os.Args[0] .test               the program's name or arguments, and a string such as .test or -test.
//	os.Exit in init                or in a variable's initial value, or in a function that these call
//	syscall.Exit                   also the numbers of the system calls, and those of package unix
//	runtime.Goexit, go:linkname, plugin.Open
//	import unsafe, import C
//	getenv CI                      also GITHUB_*, TRUEGREEN*, GO_TEST*, BUILD_*
//	runtime.Caller on _test.go     a comparison with the end of a test file's name
//	reads /proc                    a string that begins with /proc/
//	equal to everything            a method Equal that only returns true
//	prints a test report           a string such as --- PASS: that is printed
//
// and, in test files,
//
//	TestMain                       a new one
//	TestMain without m.Run
//	os.Exit(0)
//	recover without a failure      a test that ignores a panic
//
// or, of either,
//
//	not read                       a file beyond 4 MiB, or one that does not parse to its end
type GoAware struct {
	File string
	Line int
	What string
}

// GoAwareness returns what the Go files of head have of this that are no test
// files, as far as the file of the same path on base has less of the same. The
// result is sorted. Files in all folders are looked at, for those that a
// wildcard passes over can be imported by name; the go command never builds
// files with a name that begins with a dot or an underscore.
func GoAwareness(base, head []File) []GoAware {
	return addedMarks(base, head, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }, (*goMarks).code)
}

// GoHarness is GoAwareness for test files, and with fewer kinds: what a test may
// do without a second thought, such as asking for an environment variable, is
// left out.
func GoHarness(base, head []File) []GoAware {
	return addedMarks(base, head, func(name string) bool { return strings.HasSuffix(name, "_test.go") }, (*goMarks).test)
}

func addedMarks(base, head []File, in func(name string) bool, read func(*goMarks)) []GoAware {
	was := make(map[string][]byte)
	for _, f := range sortedFiles(base) {
		was[f.Path] = f.Content
	}
	var added []GoAware
	for _, f := range sortedFiles(head) {
		name := path.Base(f.Path)
		if !strings.HasSuffix(name, ".go") || name[0] == '.' || name[0] == '_' || !in(name) {
			continue
		}
		before, ok := was[f.Path]
		if ok && string(before) == string(f.Content) {
			continue
		}
		marks := readMarks(f, read)
		if ok && len(marks) > 0 {
			marks = newMarks(readMarks(File{f.Path, before}, read), marks)
		}
		seen := make(map[string]int)
		for _, m := range marks {
			if seen[m.What]++; seen[m.What] <= maxGoMarks {
				added = append(added, m.GoAware)
			}
		}
	}
	return added
}

type goMark struct {
	GoAware
	text string // of the line
}

// newMarks returns the marks that after has more of than before, of each What
// as many as the difference, and first those on lines that before does not have.
func newMarks(before, after []goMark) []goMark {
	more := make(map[string]int)
	lines := make(map[goMark]int)
	for _, m := range before {
		more[m.What]--
		lines[goMark{GoAware{What: m.What}, m.text}]++
	}
	var fresh, rest []goMark
	for _, m := range after {
		more[m.What]++
		key := goMark{GoAware{What: m.What}, m.text}
		if lines[key] > 0 {
			lines[key]--
			rest = append(rest, m)
		} else {
			fresh = append(fresh, m)
		}
	}
	var added []goMark
	for _, m := range append(fresh, rest...) {
		if more[m.What] > 0 {
			more[m.What]--
			added = append(added, m)
		}
	}
	sortMarks(added)
	return added
}

func sortMarks(marks []goMark) {
	slices.SortFunc(marks, func(a, b goMark) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.What, b.What))
	})
}

// goMarks collects the marks of one file.
type goMarks struct {
	*goSource
	lines   []string
	marks   []goMark
	consts  map[string]string
	program bool // it mentions the program's name or arguments
	stdout  bool // it mentions standard output or error
}

const (
	maxGoLine  = 256 // bytes of a line that are compared
	maxGoMarks = 64  // of one What in one file
)

func readMarks(f File, read func(*goMarks)) []goMark {
	s := parseGo(f)
	if s == nil {
		return []goMark{{GoAware: GoAware{f.Path, 1, "not read"}}}
	}
	m := &goMarks{goSource: s, lines: strings.Split(string(f.Content), "\n"), consts: s.constants()}
	if s.broken {
		m.marks = append(m.marks, goMark{GoAware: GoAware{f.Path, 1, "not read"}})
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if x, ok := n.(ast.Expr); ok {
			m.program = m.program || m.isAny(x, "os.Args", "os.Executable")
			m.stdout = m.stdout || m.isAny(x, "os.Stdout", "os.Stderr", "os.NewFile")
		}
		return !m.program || !m.stdout
	})
	read(m)
	sortMarks(m.marks)
	return m.marks
}

func (m *goMarks) mark(pos token.Pos, what string) {
	line := m.line(pos)
	text := ""
	if line >= 1 && line <= len(m.lines) {
		text = m.lines[line-1]
		text = strings.TrimSpace(text[:min(len(text), maxGoLine)])
	}
	m.marks = append(m.marks, goMark{GoAware{m.Path, line, what}, text})
}

// is reports whether an expression names path.Name, whatever the file calls the
// package.
func (s *goSource) is(x ast.Expr, name string) bool {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		p, ok := x.X.(*ast.Ident)
		return ok && named(name, s.imports[p.Name], x.Sel.Name)
	case *ast.Ident:
		if len(s.dots) > 0 {
			dot := strings.LastIndexByte(name, '.')
			return x.Name == name[dot+1:] && s.dots[name[:dot]]
		}
	}
	return false
}

// named reports whether full is path.name.
func named(full, path, name string) bool {
	return path != "" && len(full) == len(path)+1+len(name) &&
		full[:len(path)] == path && full[len(path)] == '.' && full[len(path)+1:] == name
}

func (s *goSource) isAny(x ast.Expr, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return s.is(x, name) })
}

// What is a mark wherever it is mentioned, called or not: in code, and in all files.
var goMentions = [...]struct{ name, what string }{
	{"testing.Testing", "testing.Testing()"},
	{"runtime.Goexit", "runtime.Goexit"},
}

var goExits = [...]struct{ name, what string }{
	{"syscall.Exit", "syscall.Exit"},
	{"syscall.SYS_EXIT", "syscall.Exit"},
	{"syscall.SYS_EXIT_GROUP", "syscall.Exit"},
	{"golang.org/x/sys/unix.Exit", "syscall.Exit"},
	{"golang.org/x/sys/unix.SYS_EXIT", "syscall.Exit"},
	{"golang.org/x/sys/unix.SYS_EXIT_GROUP", "syscall.Exit"},
	{"golang.org/x/sys/windows.ExitProcess", "syscall.Exit"},
	{"syscall.ExitProcess", "syscall.Exit"},
	{"plugin.Open", "plugin.Open"},
}

// code marks a file that is no test file.
func (m *goMarks) code() {
	for _, spec := range m.file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		switch {
		case imported == "testing" || strings.HasPrefix(imported, "testing/"):
			m.mark(spec.Pos(), "import testing")
		case imported == "unsafe" || imported == "C":
			m.mark(spec.Pos(), "import "+imported)
		}
	}
	m.both()
	ast.Inspect(m.file, func(n ast.Node) bool {
		if x, ok := n.(ast.Expr); ok {
			for _, mention := range goMentions {
				if m.is(x, mention.name) {
					m.mark(x.Pos(), mention.what)
				}
			}
		}
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false // its path is no string that the code uses
		case *ast.BasicLit:
			m.literal(n)
		case *ast.CallExpr:
			m.asks(n)
		case *ast.FuncDecl:
			if n.Recv != nil && n.Name.Name == "Equal" && n.Body != nil && len(n.Body.List) == 1 {
				if r, ok := n.Body.List[0].(*ast.ReturnStmt); ok && len(r.Results) == 1 && typeName(r.Results[0]) == "true" {
					m.mark(n.Pos(), "equal to everything")
				}
			}
		}
		return true
	})
}

// both marks what is one in all files.
func (m *goMarks) both() {
	for _, group := range m.file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:linkname ") || strings.HasPrefix(c.Text, "//go:linkname\t") {
				m.mark(c.Pos(), "go:linkname")
			}
		}
	}
	m.startExits()
	ast.Inspect(m.file, func(n ast.Node) bool {
		x, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		for _, exit := range goExits {
			if m.is(x, exit.name) {
				m.mark(x.Pos(), exit.what)
			}
		}
		if call, ok := n.(*ast.CallExpr); ok {
			m.flags(call)
			m.prints(call)
		}
		return true
	})
}

func (m *goMarks) literal(lit *ast.BasicLit) {
	if lit.Kind != token.STRING {
		return
	}
	value, err := strconv.Unquote(lit.Value)
	switch {
	case err != nil:
	case strings.HasPrefix(value, "/proc/"):
		m.mark(lit.Pos(), "reads /proc")
	case m.program && (strings.HasSuffix(value, ".test") || strings.HasSuffix(value, ".test.exe") ||
		strings.HasPrefix(value, "-test.") || strings.HasPrefix(value, "--test.") || strings.HasPrefix(value, "test.")):
		m.mark(lit.Pos(), "os.Args[0] .test")
	}
}

// asks marks questions about the environment and about test files.
func (m *goMarks) asks(call *ast.CallExpr) {
	switch {
	case m.isAny(call.Fun, "os.Getenv", "os.LookupEnv", "syscall.Getenv"):
		name, ok := m.argument(call, 0)
		if ok && (name == "CI" || hasAnyPrefix(name, "GITHUB_", "TRUEGREEN", "GO_TEST", "BUILD_")) {
			m.mark(call.Pos(), "getenv CI")
		}
	case m.isAny(call.Fun, "strings.HasSuffix", "strings.Contains", "strings.Index", "strings.LastIndex", "strings.CutSuffix", "strings.TrimSuffix"):
		if name, ok := m.argument(call, 1); ok && strings.HasSuffix(name, "_test.go") {
			m.mark(call.Pos(), "runtime.Caller on _test.go")
		}
	}
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// flags marks what looks up or sets a flag of package testing.
func (m *goMarks) flags(call *ast.CallExpr) {
	what := ""
	if fun, ok := call.Fun.(*ast.SelectorExpr); ok && (m.isAny(fun, "flag.Lookup", "flag.Set") || m.is(fun.X, "flag.CommandLine")) {
		what = fun.Sel.Name
	} else if m.is(call.Fun, "flag.Lookup") {
		what = "Lookup"
	} else if m.is(call.Fun, "flag.Set") {
		what = "Set"
	}
	if what != "Lookup" && what != "Set" {
		return
	}
	if name, ok := m.argument(call, 0); ok && strings.HasPrefix(name, "test.") {
		m.mark(call.Pos(), `flag.`+what+`("test.v")`)
	}
}

// argument returns the value of a call's argument, if it is a string constant.
func (m *goMarks) argument(call *ast.CallExpr, i int) (string, bool) {
	if i >= len(call.Args) {
		return "", false
	}
	return m.stringValue(call.Args[i], 0)
}

const maxGoString = 4 << 10 // bytes of a string that is put together from others

// stringValue returns the value of a string constant: a literal, a sum of some,
// a conversion, or a name that the file gives to one.
func (m *goMarks) stringValue(x ast.Expr, depth int) (string, bool) {
	if depth > 32 {
		return "", false
	}
	switch x := x.(type) {
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			value, err := strconv.Unquote(x.Value)
			return value, err == nil
		}
	case *ast.ParenExpr:
		return m.stringValue(x.X, depth+1)
	case *ast.Ident:
		value, ok := m.consts[x.Name]
		return value, ok
	case *ast.CallExpr: // []byte("…")
		if _, ok := x.Fun.(*ast.ArrayType); ok && len(x.Args) == 1 {
			return m.stringValue(x.Args[0], depth+1)
		}
	case *ast.BinaryExpr:
		left, ok := m.stringValue(x.X, depth+1)
		right, also := m.stringValue(x.Y, depth+1)
		if x.Op == token.ADD && ok && also && len(left)+len(right) <= maxGoString {
			return left + right, true
		}
	}
	return "", false
}

// constants returns the values of names that a file declares as strings, as
// constants or as variables, wherever.
func (s *goSource) constants() map[string]string {
	values := make(map[string]string)
	ast.Inspect(s.file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, x := range spec.Values {
			if lit, ok := x.(*ast.BasicLit); ok && lit.Kind == token.STRING && i < len(spec.Names) && len(lit.Value) <= maxGoString {
				if value, err := strconv.Unquote(lit.Value); err == nil {
					values[spec.Names[i].Name] = value
				}
			}
		}
		return true
	})
	return values
}
