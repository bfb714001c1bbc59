package source

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"go/parser"
	"go/token"
	"math"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// shownMutant describes a mutant by its place and the lines that differ.
func shownMutant(src string, m Mutant) string {
	before, after := strings.Split(src, "\n"), strings.Split(string(m.Content), "\n")
	if len(before) != len(after) {
		return fmt.Sprintf("%d lines became %d", len(before), len(after))
	}
	s := fmt.Sprintf("%d:%d %s", m.Line, m.Column, m.Kind)
	for i := range before {
		if before[i] != after[i] {
			s += " | " + strings.TrimSpace(after[i])
		}
	}
	return s
}

func TestGoMutants(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string // line 1 is "package p"
		want       []string
	}{
		{"arithmetic", "var x = a +\n b -\n c *\n d /\n e %\n f", []string{
			"2:11 operator | var x = a -", "3:4 operator | b +", "4:4 operator | c /", "5:4 operator | d *", "6:4 operator | e *"}},
		{"bits", "var x = a &\n b |\n c <<\n d >>\n e ^\n f &^\n g", []string{
			"2:11 operator | var x = a |", "3:4 operator | b &", "4:4 operator | c >>", "5:4 operator | d <<"}},
		{"comparisons", "var x = a <\n b\nvar y = a <=\n b\nvar z = a >\n b\nvar u = a >=\n b", []string{
			"2:11 boundary | var x = a <=", "4:11 boundary | var y = a <", "6:11 boundary | var z = a >=", "8:11 boundary | var u = a >"}},
		{"conditions", "var x = a ==\n b ||\n c !=\n d &&\n !e", []string{
			"2:11 condition | var x = a !=", "3:4 condition | b &&", "4:4 condition | c ==", "5:4 condition | d ||", "6:2 condition | e"}},
		{"operators that touch", "var x = a+-b\nvar y = c**p", []string{
			"2:10 operator | var x = a- -b", "3:10 operator | var y = c/ *p"}},
		{"less than a negative", "var z = d<=-e", []string{"2:10 boundary | var z = d< -e"}},
		{"if", "func f() {\n if a < b {\n }\n if ok() {\n }\n if !ok() {\n }\n if a == b {\n }\n if true {\n }\n}", []string{
			"3:7 boundary | if a <= b {", "3:5 condition | if !(a < b) {", "5:5 condition | if !(ok()) {",
			"7:5 condition | if  ok() {", "9:7 condition | if a != b {", "11:5 boolean | if false {"}},
		{"conditions of many lines", "func f() {\n if a(\n 1.5) {\n }\n}", []string{"3:5 condition | if !(a( | 1.5)) {"}},
		{"for", "func f() {\n for i := a; ok(i); i++ {\n }\n for {\n }\n for range x {\n }\n}", []string{
			"3:14 condition | for i := a; !(ok(i)); i++ {"}},
		{"statements", "func f() {\n g(x)\n x = g\n x, _ = y()\n x := g\n _ = x\n defer g()\n go g()\n c <- x\n <-c\n}", []string{
			"3:2 statement | if false { g(x) }", "4:2 statement | if false { x = g }", "5:2 statement | if false { x, _ = y() }"}},
		{"statements of cases", "func f() {\n switch x {\n case y: g()\n default: h()\n }\n select {\n case x = <-c: i()\n }\n}", []string{
			"4:10 statement | case y: if false { g() }", "5:11 statement | default: if false { h() }", "8:16 statement | case x = <-c: if false { i() }"}},
		{"a call of many lines", "func f() {\n g(func() {\n  return\n })\n}", []string{"3:2 statement | if false { g(func() { | }) }"}},
		{"assignments with an operator", "func f() {\n x +=\n y\n x -=\n y\n x *=\n y\n x /=\n y\n x %=\n y\n x &=\n y\n x |=\n y\n x <<=\n y\n x >>=\n y\n x ^=\n y\n}", []string{
			"3:4 operator | x -=", "3:2 statement | if false { x += | y }", "5:4 operator | x +=", "5:2 statement | if false { x -= | y }",
			"7:4 operator | x /=", "7:2 statement | if false { x *= | y }", "9:4 operator | x *=", "9:2 statement | if false { x /= | y }",
			"11:4 operator | x *=", "11:2 statement | if false { x %= | y }", "13:4 operator | x |=", "13:2 statement | if false { x &= | y }",
			"15:4 operator | x &=", "15:2 statement | if false { x |= | y }", "17:4 operator | x >>=", "17:2 statement | if false { x <<= | y }",
			"19:4 operator | x <<=", "19:2 statement | if false { x >>= | y }", "21:2 statement | if false { x ^= | y }"}},
		{"increments", "func f() {\n x++\n y.z--\n for ; ; x++ {\n }\n}", []string{"3:3 operator | x--", "4:5 operator | y.z++"}},
		{"integers", "var x = 0\nvar y = 0x1f\nvar z = 0b1\nvar u = 0o17\nvar v = 017\nvar w = 1_000", []string{
			"2:9 literal | var x = 1", "3:9 literal | var y = 0x20", "4:9 literal | var z = 0b10", "5:9 literal | var u = 0o20",
			"6:9 literal | var v = 0o20", "7:9 literal | var w = 1001"}},
		{"the greatest integers", "var x = 255\nvar y = 0x7fff\nvar z = 18446744073709551615\nvar u = 18446744073709551616\nvar v = 1.5\nvar w = 'a'", []string{
			"2:9 literal | var x = 254", "3:9 literal | var y = 0x7ffe", "4:9 literal | var z = 18446744073709551614"}},
		{"shifts", "var x = y <<\n 63\nfunc f() {\n x >>=\n 0\n}", []string{
			"2:11 operator | var x = y >>", "3:2 literal | 62",
			"5:4 operator | x <<=", "5:2 statement | if false { x >>= | 0 }", "6:2 literal | 1"}},
		{"strings", "var x = \"\"\nvar y = \"a\"\nvar z = ``\nvar u = `a\nb`\nvar v = `c`", []string{
			`2:9 literal | var x = "mutant"`, `3:9 literal | var y = ""`, `4:9 literal | var z = "mutant"`, `7:9 literal | var v = ""`}},
		{"keys", "var x = T{1: y, \"k\": z, true: u}\nvar y = m[\"k\"]\nvar z = \"abc\"[a]\nvar u = \"abc\"[a:]", []string{
			`3:11 literal | var y = m[""]`}},
		{"cases", "func f() {\n switch x {\n case 1:\n case 2:\n case \"\":\n case \"b\":\n case true:\n }\n}", []string{
			"5:7 literal | case 3:", `6:7 literal | case "mutant":`}},
		{"booleans", "var x = true\nvar y = f(false)\nvar z = T{a: true}\nvar u = v.true", []string{
			"2:9 boolean | var x = false", "3:11 boolean | var y = f(true)", "4:14 boolean | var z = T{a: false}"}},
		{"jumps", "func f() {\n for a {\n  if b {\n   break\n  }\n  continue\n }\n for range x {\n  break\n }\n}", []string{
			"3:6 condition | for !(a) {", "4:6 condition | if !(b) {", "5:4 branch | if false { break }",
			"5:4 jump | continue", "7:3 jump | break", "10:3 jump | continue"}},
		{"jumps that stay", "func f() {\n for {\n  break\n }\n for range x {\n  switch {\n  case y:\n   break\n  }\n  select {\n  case <-c:\n   continue\n  }\n }\nL:\n for range x {\n  break L\n }\n}", nil},
		{"returns", "func f() error {\n return err\n return x, err\n return x\n return fmt.Errorf(\"%w\", err)\n return errors.New(\"a\")\n return err, x\n return\n}", []string{
			"3:2 return | _ = err; return nil", "4:2 return | _ = err; return x, nil",
			`6:2 return | _ = fmt.Errorf("%w", err); return nil`, `7:2 return | _ = errors.New("a"); return nil`}},
		{"a return of many lines", "func f() error {\n return T{\n }, err\n}", []string{"3:2 return | _ = err; return T{ | }, nil"}},
		{"branches", "func f() {\n if a == b {\n  return\n }\n if a == b {\n  x := y\n  g(x)\n }\n}", []string{
			"3:7 condition | if a != b {", "4:3 branch | if false { return }",
			"6:7 condition | if a != b {", "7:3 branch | if false { x := y | g(x) }", "8:3 statement | if false { g(x) }"}},
		{"branches that must end", "func f() int {\n if a == b {\n  x++\n  return c\n } else {\n  y++\n  return d\n }\n}", []string{
			"3:7 condition | if a != b {", "4:4 operator | x--", "7:4 operator | y--"}},
		{"an else", "func f() {\n if a == b {\n  x++\n  y++\n } else if c == d {\n  z++\n } else {\n  u++\n }\n}", []string{
			"3:7 condition | if a != b {", "4:3 branch | if false { x++ | y++ }", "4:4 operator | x--", "5:4 operator | y--",
			"6:14 condition | } else if c != d {", "7:3 branch | if false { z++ }", "7:4 operator | z--", "9:3 branch | if false { u++ }", "9:4 operator | u--"}},
		{"one statement", "func f() {\n if a == b {\n  g()\n }\n}", []string{"3:7 condition | if a != b {", "4:3 statement | if false { g() }"}},

		{"strings that are added", "const c = `\n`\nfunc f(s string, list []string, n int) string {\n x := s +\n y\n x = u +\n x\n _ = list[n] +\n u\n _ = u +\n string(v)\n _ = u +\n v ==\n s\n for _, e := range list {\n  _ = e +\n u\n }\n _ = T{s: u +\n v}\n _ = []byte(u +\n v)\n _ = (u +\n v) +\n c\n g(u +\n w.String())\n return u +\n v\n}", []string{
			"7:2 statement | if false { x = u + | x }", "14:4 condition | v !=", "27:2 statement | if false { g(u + | w.String()) }"}},
		{"strings that are appended", "func f(s string) {\n s += t\n t += \"a\"\n}", []string{
			"3:2 statement | if false { s += t }", `4:7 literal | t += ""`, "4:2 statement | if false { t += \"a\" }"}},

		{"logging", "func f() {\n log.Printf(\"a\", 1+b)\n slog.Info(\"a\", \"b\", c+d)\n fmt.Println(a+b)\n t.Logf(\"%d\", 1)\n s.log.Debug(a+b)\n println(a+b)\n x.Grow(a*b)\n}", nil},
		{"panics", "func f() {\n panic(\"a\")\n panic(fmt.Sprint(a+b))\n}", nil},
		{"a body that logs", "func f() {\n if a == b {\n  log.Print()\n  log.Print()\n }\n}", []string{"3:7 condition | if a != b {"}},
		{"texts of errors", "var x = errors.New(\"a\" + (\"b\"))\nvar y = fmt.Errorf(\"%d\", 1)\nvar z = errors.New(f(\"a\"))", []string{
			"3:26 literal | var y = fmt.Errorf(\"%d\", 2)", "4:22 literal | var z = errors.New(f(\"\"))"}},
		{"types", "import \"fmt\"\ntype T struct {\n a [4]int `json:\"a\"`\n}\ntype N interface { ~int | ~string }\nfunc f[K int | string](x [2+2]K) [3]int {\n var y [2]int\n var z map[[5]int]bool\n}", nil},
		{"iota", "const (\n a = iota + 1\n b = 2\n)\nconst c = 3", []string{"6:11 literal | const c = 4"}},
		{"capacity", "var x = make([]int, 1, 2+n)\nvar y = make(map[int]int, 3)\nvar z = make(chan int, 4)", []string{
			"2:21 literal | var x = make([]int, 2, 2+n)", "4:24 literal | var z = make(chan int, 5)"}},
		{"lines that //line renames", "//line other.go:70\nvar x = 1", []string{"3:9 literal | var x = 2"}},
		{"lines that end in CR LF", "func f() {\r\n\tx = `a`\r\n\tg(`\r\n`)\r\n}\r\n", []string{
			"3:6 literal | x = \"\"", "3:2 statement | if false { x = `a` }", "4:2 statement | if false { g(` | `) }"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			src := "package p\n" + test.body
			if _, err := parser.ParseFile(token.NewFileSet(), "", src, 0); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range GoMutants([]File{{"p.go", []byte(src)}}, nil, [32]byte{}, math.MaxInt) {
				got = append(got, shownMutant(src, m))
				if _, err := parser.ParseFile(token.NewFileSet(), "", m.Content, 0); err != nil {
					t.Error(err)
				}
			}
			sortByLine := func(a, b string) int {
				x, _ := strconv.Atoi(a[:strings.Index(a, ":")])
				y, _ := strconv.Atoi(b[:strings.Index(b, ":")])
				return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
			}
			slices.SortFunc(got, sortByLine)
			slices.SortFunc(test.want, sortByLine)
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(test.want, "\n\t"))
			}
		})
	}
}

// manyMutants is a file of n functions, each of which has mutants of all kinds but
// jump on lines of its own.
func manyMutants(n int) []byte {
	var b strings.Builder
	b.WriteString("package p\n")
	for i := range n {
		fmt.Fprintf(&b, `func f%d(a, b int) (bool, error) {
	a++
	if a < b {
		g(a)
		return true, err
	}
	return a == 1, nil
}
`, i)
	}
	return []byte(b.String())
}

func TestGoMutantsFiles(t *testing.T) {
	t.Parallel()
	src := []byte("package p\nvar x = 1\n")
	large := append(slices.Clone(src), "//"...)
	large = append(large, bytes.Repeat([]byte("x"), maxMutated-len(large))...)
	for _, test := range []struct {
		name  string
		files []File
		want  int
	}{
		{"one", []File{{"a.go", src}}, 1},
		{"two", []File{{"a.go", src}, {"b.go", src}}, 2},
		{"a path twice", []File{{"a.go", src}, {"a.go", src}}, 1},
		{"a test", []File{{"a_test.go", src}}, 0},
		{"no Go", []File{{"a.txt", src}}, 0},
		{"generated", []File{{"a.go", append([]byte("// Code generated by x. DO NOT EDIT.\n\n"), src...)}}, 0},
		{"a syntax error", []File{{"a.go", append([]byte("func\n"), src...)}, {"b.go", src}}, 1},
		{"as large as may be", []File{{"a.go", large}}, 1},
		{"larger", []File{{"a.go", append(large[:len(large):len(large)], 'x')}}, 0},
		{"empty", []File{{"a.go", nil}}, 0},
		{"none", nil, 0},
	} {
		if got := GoMutants(test.files, nil, [32]byte{}, 9); len(got) != test.want {
			t.Errorf("%s: %d mutants, want %d", test.name, len(got), test.want)
		}
	}
	for _, n := range []int{0, -1, math.MinInt} {
		if got := GoMutants([]File{{"a.go", src}}, nil, [32]byte{}, n); got != nil {
			t.Errorf("at most %d: %v", n, got)
		}
	}
	// Which of two contents a path has does not depend on which comes first.
	x, y := File{"a.go", src}, File{"a.go", []byte("package p\nvar y = 1\n")}
	if a, b := GoMutants([]File{x, y}, nil, [32]byte{}, 9), GoMutants([]File{y, x}, nil, [32]byte{}, 9); !reflect.DeepEqual(a, b) {
		t.Errorf("%v and %v", a, b)
	}
}

func TestGoMutantsEligible(t *testing.T) {
	t.Parallel()
	files := []File{{"a.go", manyMutants(3)}, {"b.go", manyMutants(3)}}
	all := GoMutants(files, nil, [32]byte{}, math.MaxInt)
	wanted := func(path string, line int) bool { return path == "b.go" && line%3 == 1 }
	var want []Mutant
	for _, m := range all {
		if wanted(m.Path, m.Line) {
			want = append(want, m)
		}
	}
	if got := GoMutants(files, wanted, [32]byte{}, math.MaxInt); !reflect.DeepEqual(got, want) || len(got) == 0 {
		t.Errorf("%d mutants, want %d", len(got), len(want))
	}
	if got := GoMutants(files, func(string, int) bool { return false }, [32]byte{}, 9); len(got) != 0 {
		t.Errorf("no line is eligible, and there are %d mutants", len(got))
	}
}

// TestGoMutantsChoice computes by the documentation which mutants are chosen.
func TestGoMutantsChoice(t *testing.T) {
	t.Parallel()
	files := []File{{"a.go", manyMutants(4)}, {"dir/b.go", manyMutants(5)}, {"c.go", manyMutants(6)}}
	offset := func(m Mutant) int {
		i := slices.IndexFunc(files, func(f File) bool { return f.Path == m.Path })
		at := m.Column - 1
		for _, line := range bytes.SplitAfter(files[i].Content, []byte("\n"))[:m.Line-1] {
			at += len(line)
		}
		return at
	}
	seed := [32]byte{1, 2, 3}
	order := func(m Mutant) string {
		h := sha256.Sum256([]byte(string(seed[:]) + m.Path + "\x00" + strconv.Itoa(offset(m)) + ":" + m.Kind))
		return string(h[:])
	}
	all := GoMutants(files, nil, seed, math.MaxInt)
	if len(all) != 15*9 {
		t.Fatalf("%d mutants", len(all))
	}
	type place struct {
		path string
		line int
		kind string
	}
	places := map[place]bool{}
	for _, m := range all {
		p := place{m.Path, m.Line, m.Kind}
		if places[p] {
			t.Errorf("%v has two mutants", p)
		}
		places[p] = true
	}
	best := slices.Clone(all)
	slices.SortFunc(best, func(a, b Mutant) int { return strings.Compare(order(a), order(b)) })
	position := func(a, b Mutant) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Kind, b.Kind))
	}
	for _, n := range []int{1, 2, 40, len(all) - 1} {
		want := slices.Clone(best[:n])
		slices.SortFunc(want, position)
		got := GoMutants(files, nil, seed, n)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the first %d are others", n)
		}
		turned := slices.Clone(files)
		slices.Reverse(turned)
		if !reflect.DeepEqual(GoMutants(turned, nil, seed, n), got) {
			t.Errorf("the first %d depend on the order of files", n)
		}
	}
	if reflect.DeepEqual(GoMutants(files, nil, seed, 40), GoMutants(files, nil, [32]byte{9}, 40)) {
		t.Error("the seed changes nothing")
	}
	if !slices.IsSortedFunc(all, position) {
		t.Error("they are not in order")
	}
}

// TestCandidates: compacting early changes nothing but the memory.
func TestCandidates(t *testing.T) {
	t.Parallel()
	var got, want mutantCandidates
	for i := range 3 * maxCandidates {
		c := mutantCandidate{order: sha256.Sum256([]byte(strconv.Itoa(i))), line: i / 3}
		got.add(c)
		if len(got) > 2*maxCandidates {
			t.Fatalf("%d are kept", len(got))
		}
		want = append(want, c)
	}
	got.compact()
	want.compact()
	if len(got) != maxCandidates || !reflect.DeepEqual(got, want) {
		t.Errorf("%d candidates, want the first %d", len(got), len(want))
	}
}

func TestMutantChange(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 100)
	for _, test := range []struct{ src, want string }{
		{"var x = a < b", "a < b → a <= b"},
		{"var x = a.b(c) +\n\n\t1.5", "a.b(c) + 1.5 → a.b(c) - 1.5"},
		{"var x = " + long + " < b", "< → <="},
		{"var x = a || " + strings.Repeat(" ", 300) + "b", "|| → &&"},
		{"var x = !a", "!a → a"},
		{"var x = !" + long + long, "! → nothing"},
		{"var x = \"" + long + "\"", `"` + strings.Repeat("ä", 34) + `… → ""`},
		{"var x = \"a\tb\u202ec\"", `"a b c" → ""`},
		{"func f() { g(a,\n\tb) }", "g(a, b) → left out"},
		{"func f() { x++ }", "x++ → x--"},
		{"func f() { if a { return } }", "a → !(a)"},
		{"func f() error { return err }", "return err → return nil"},
		{"func f() error { return x, errors.New(y) }", "return …, errors.New(y) → return …, nil"},
	} {
		got := GoMutants([]File{{"p.go", []byte("package p\n" + test.src)}}, nil, [32]byte{}, 9)
		if !slices.ContainsFunc(got, func(m Mutant) bool { return m.Change == test.want }) {
			t.Errorf("%s: no %q in %d mutants", test.src, test.want, len(got))
			for _, m := range got {
				t.Logf("%q", m.Change)
			}
		}
		for _, m := range got {
			checkChange(t, m.Change)
		}
	}
	if got := beforeAfter(long, long); len(got) > maxChange || !utf8.ValidString(got) || strings.Count(got, "…") != 2 {
		t.Errorf("%q", got)
	}
}

func checkChange(t *testing.T, s string) {
	t.Helper()
	if len(s) > maxChange || s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }) {
		t.Errorf("change %q, %d bytes", s, len(s))
	}
}

// deepest is how many if statements in each other parse.
var deepest = sync.OnceValue(func() int {
	return sort.Search(1<<18, func(n int) bool {
		src := "package p\nfunc f() {" + strings.Repeat("if a {", n) + "\nx = y\n" + strings.Repeat("}", n+1)
		_, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
		return err != nil
	}) - 1
})

// TestGoMutantsHostile: what is made to cost much costs little.
func TestGoMutantsHostile(t *testing.T) {
	if raceEnabled {
		t.Skip("takes long with the race detector, and has no goroutines")
	}
	repeat := func(s string, n int) string { return strings.Repeat(s, n) }
	for _, test := range []struct{ name, src string }{
		{"a line of sums", "package p\nvar x = []int{" + repeat("a+b,", 100_000) + "}"},
		{"lines of sums", "package p\nvar x = []int{\n" + repeat("a+b,\n", 100_000) + "}"},
		{"a long sum", "package p\nvar x = " + repeat("a+", 90_000) + "a"},
		{"sums in sums", "package p\nvar x = " + repeat("(", 30_000) + "a" + repeat("+b)[:]", 30_000)},
		{"blocks in blocks", "package p\nfunc f() {" + repeat("for a {", 20_000) + repeat("break;", 100_000) + repeat("}", 20_001)},
		{"if after if", "package p\nfunc f() {" + repeat("if a { x; y } else ", 20_000) + "{}}"},
		{"functions in constants", "package p\n" + repeat("const x = func() {", 10_000) + repeat("}", 10_000)},
		{"a large switch", "package p\nfunc f() { switch x {" + repeat("case 1:\n", 100_000) + "}}"},
		{"mutants that nest too deep", "package p\nfunc f() {" + repeat("if a {", deepest()) + "\n" + repeat("x = y\n", 10_000) + repeat("}", deepest()+1)},
		{"calls in calls", "package p\nvar x = " + repeat("f(", 30_000) + repeat(")", 30_000)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if len(test.src) > maxMutated {
				t.Fatalf("%d bytes", len(test.src))
			}
			start := time.Now()
			got := GoMutants([]File{{"p.go", []byte(test.src)}}, nil, [32]byte{}, 2)
			took := time.Since(start)
			t.Logf("%d mutants of %d bytes in %v", len(got), len(test.src), took)
			// A square of these lengths would take minutes.
			if took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func FuzzGoMutants(f *testing.F) {
	f.Add(manyMutants(2), byte(0))
	f.Add([]byte("package p\n//line x:1\nvar x = a+-b == \"c\" && !true\r\nfunc f() error { for a { if b { break } else { g(); h() }; continue }; return err }"), byte(1))
	f.Add([]byte("package p\nfunc f(s ...string) { switch { case 1, \"a\": s[0] += `x`\n default: panic(1<<63) } }"), byte(2))
	f.Fuzz(func(t *testing.T, src []byte, b byte) {
		eligible := func(_ string, line int) bool { return line%3 != int(b)%4 }
		files := []File{{"a.go", src}, {"b.go", manyMutants(1)}}
		got := GoMutants(files, eligible, [32]byte{b}, 50)
		if !reflect.DeepEqual(got, GoMutants([]File{files[1], files[0]}, eligible, [32]byte{b}, 50)) {
			t.Fatal("the order of files matters")
		}
		if len(got) > 50 {
			t.Fatalf("%d mutants", len(got))
		}
		for _, m := range got {
			was := src
			if m.Path == "b.go" {
				was = files[1].Content
			}
			checkMutant(t, was, m)
			if !eligible(m.Path, m.Line) {
				t.Errorf("line %d is not eligible", m.Line)
			}
		}
	})
}

// checkMutant checks what holds for every mutant.
func checkMutant(t *testing.T, src []byte, m Mutant) {
	t.Helper()
	checkChange(t, m.Change)
	if bytes.Equal(src, m.Content) {
		t.Errorf("%s:%d %s: nothing changed", m.Path, m.Line, m.Change)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", m.Content, parser.SkipObjectResolution); err != nil {
		t.Errorf("%s:%d %s: %v", m.Path, m.Line, m.Change, err)
	}
	before, after := bytes.Split(src, []byte("\n")), bytes.Split(m.Content, []byte("\n"))
	if len(before) != len(after) {
		t.Fatalf("%s:%d %s: %d lines became %d", m.Path, m.Line, m.Change, len(before), len(after))
	}
	for i := range before {
		if !bytes.Equal(before[i], after[i]) {
			if i != m.Line-1 {
				t.Errorf("%s:%d %s: line %d is the first that changed", m.Path, m.Line, m.Change, i+1)
			}
			break
		}
	}
}
