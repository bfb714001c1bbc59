package source

import (
	"bytes"
	"fmt"
	"go/build"
	"go/doc"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var linux = GoEnv{OS: "linux", Arch: "amd64", Version: "go1.26.5", Cgo: true}

// tree makes files of path, content, path, content, …
func tree(parts ...string) []File {
	var files []File
	for i := 0; i+1 < len(parts); i += 2 {
		files = append(files, File{parts[i], []byte(parts[i+1])})
	}
	return files
}

// tests makes a test file of the functions after its package clause.
func tests(name string, functions ...string) string {
	return "package " + name + "\n\nimport \"testing\"\n\n" + strings.Join(functions, "\n\n") + "\n"
}

func describePackages(pkgs []GoPackage, unparsed []string) string {
	var b strings.Builder
	for _, p := range pkgs {
		fmt.Fprintf(&b, "%s in %s: %s, package %s", p.Dir, p.Module, p.ImportPath, p.Name)
		if p.Main {
			b.WriteString(", main")
		}
		fmt.Fprintf(&b, "\n  %s\n", strings.Join(p.Files, " "))
		for _, t := range p.Tests {
			fmt.Fprintf(&b, "  %s %s:%d\n", t.Name, t.File, t.Line)
		}
	}
	for _, u := range unparsed {
		fmt.Fprintf(&b, "unparsed %s\n", u)
	}
	return b.String()
}

func TestGoPackages(t *testing.T) {
	t.Parallel()
	mod := "module example.org/m\n\ngo 1.26\n"
	one := tests("p", "func TestA(t *testing.T) {}")
	for _, c := range []struct {
		name  string
		files []File
		want  string
	}{
		{"what is a test", tree("go.mod", mod, "a_test.go", tests("p",
			"func TestA(t *testing.T) {}",
			"func Test(t *testing.T) {}",
			"func Test_b(x *testing.T) {}",
			"func TestÉ(*testing.T) {}",
			"func Testing(t *testing.T) {}",
			"func Testé(t *testing.T) {}",
			"func TestNone() {}",
			"func TestTwo(t *testing.T, n int) {}",
			"func TestPair(t, u *testing.T) {}",
			"func TestValue(t testing.T) {}",
			"func TestB(t *testing.B) {}",
			"func TestResult(t *testing.T) error { return nil }",
			"func TestGeneric[T any](t *testing.T) {}",
			"func (s S) TestMethod(t *testing.T) {}",
			"func BenchmarkA(b *testing.B) {}",
			"func FuzzA(f *testing.F) {}",
			"func FuzzT(f *testing.T) {}",
			"func ExampleA() {\n\t// Output: x\n}",
			"func ExampleB() {\n\tf() // UNORDERED OUTPUT:\n}",
			"func ExampleC() {\n\t// Output: x\n\n\t// a later comment\n}",
			"func ExampleD() {\n\tf()\n}\n\n// Output: x",
			"func ExampleE(n int) {\n\t// Output: x\n}",
			"func ExampleF() int {\n\treturn 1 // Output: x\n}",
			"func Example() { // Output:\n}",
			"var TestVar = func(t *testing.T) {}",
		)), `. in .: example.org/m, package p
  a_test.go
  Example a_test.go:67
  ExampleA a_test.go:39
  ExampleB a_test.go:43
  FuzzA a_test.go:35
  Test a_test.go:7
  TestA a_test.go:5
  Test_b a_test.go:9
  TestÉ a_test.go:11
`},
		{"package names", tree("go.mod", mod,
			"in/a_test.go", one, "in/b_test.go", tests("p_test", "func TestA(t *testing.T) {}"),
			"out/a_test.go", tests("out_test", "func TestMain(m *testing.M) {}"),
			"odd/a_test.go", tests("odd", "func TestMain(t *testing.T) {}"),
			"doc/a_test.go", tests("documentation", "func TestA(t *testing.T) {}"),
		), `in in .: example.org/m/in, package p
  in/a_test.go in/b_test.go
  TestA in/a_test.go:5
  TestA in/b_test.go:5
odd in .: example.org/m/odd, package odd
  odd/a_test.go
  TestMain odd/a_test.go:5
out in .: example.org/m/out, package out_test, main
  out/a_test.go
`},
		{"ignored folders", tree("go.mod", mod+"\nignore (\n\t./here\n\tanywhere\n\t./a/b/\n)\n",
			"vendor/x/a_test.go", one, "a/vendor/x/a_test.go", one, "testdata/a_test.go", one, "_x/a_test.go", one, ".x/y/a_test.go", one,
			"here/a_test.go", one, "x/here/a_test.go", one, "hereafter/a_test.go", one,
			"x/anywhere/y/a_test.go", one, "a/b/c/a_test.go", one, "a/a_test.go", one,
		), `a in .: example.org/m/a, package p
  a/a_test.go
  TestA a/a_test.go:5
hereafter in .: example.org/m/hereafter, package p
  hereafter/a_test.go
  TestA hereafter/a_test.go:5
x/here in .: example.org/m/x/here, package p
  x/here/a_test.go
  TestA x/here/a_test.go:5
`},
		{"modules", tree("a/go.mod", "module a", "a/b/go.mod", "module \"example.org/b/v2\"", "a/b/c/a_test.go", one, "a/a_test.go", one, "none/a_test.go", one,
			"a/testdata/m/go.mod", "module m", "a/testdata/m/a_test.go", one,
		), `a in a: a, package p
  a/a_test.go
  TestA a/a_test.go:5
a/b/c in a/b: example.org/b/v2/c, package p
  a/b/c/a_test.go
  TestA a/b/c/a_test.go:5
a/testdata/m in a/testdata/m: m, package p
  a/testdata/m/a_test.go
  TestA a/testdata/m/a_test.go:5
`},
		{"constraints", tree("go.mod", mod,
			"a_windows_test.go", one, "a_linux_test.go", one, "b_arm64_test.go", one, "linux_test.go", one, "windows_test.go", one,
			"_c_test.go", one, ".d_test.go", one,
			"e_test.go", "//go:build !linux\n\n"+one,
			"f_test.go", "// +build windows\n\n"+one,
			"g_test.go", "// +build windows\n"+one,
			"h_test.go", "//go:build go1.27\n\n"+one,
			"i_test.go", "//go:build go1.26 && unix && cgo && gc && !race\n\n"+one,
			"j_test.go", "//go:build &&\n\n"+one,
			"k_test.go", "/* a\n//go:build ignore\n*/\n"+one,
		), `. in .: example.org/m, package p
  a_linux_test.go g_test.go i_test.go j_test.go k_test.go linux_test.go windows_test.go
  TestA a_linux_test.go:5
  TestA g_test.go:6
  TestA i_test.go:7
  TestA j_test.go:7
  TestA k_test.go:8
  TestA linux_test.go:5
  TestA windows_test.go:5
unparsed j_test.go
`},
		{"what is not read", tree("go.mod", mod,
			"a_test.go", tests("p", "func TestA(t *testing.T) {}", "func {", "func TestB(t *testing.T) {}"),
			"big_test.go", "package p\n"+strings.Repeat("/", maxGoFile),
			"../x_test.go", one, "/y_test.go", one, "a//z_test.go", one, strings.Repeat("d/", maxGoDepth+1)+"x_test.go", one,
			"bad/go.mod", "module bad\nrequire (", "bad/a_test.go", one,
			"none/go.mod", "go 1.26", "none/a_test.go", one,
		), `. in .: example.org/m, package p
  a_test.go big_test.go
  TestA a_test.go:5
bad in bad: bad, package p
  bad/a_test.go
  TestA bad/a_test.go:5
unparsed ../x_test.go
unparsed /y_test.go
unparsed a//z_test.go
unparsed a_test.go
unparsed bad/go.mod
unparsed big_test.go
unparsed ` + strings.Repeat("d/", maxGoDepth+1) + `x_test.go
unparsed none/go.mod
`},
		{"line directives", tree("go.mod", mod, "a_test.go", "package p\n\nimport \"testing\"\n\n//line other.go:100\nfunc TestA(t *testing.T) {}\n"),
			". in .: example.org/m, package p\n  a_test.go\n  TestA a_test.go:6\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := describePackages(GoPackages(c.files, linux)); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
			slices.Reverse(c.files)
			if got := describePackages(GoPackages(c.files, linux)); got != c.want {
				t.Errorf("in another order of the files, got:\n%s", got)
			}
		})
	}
}

func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local", "GO111MODULE=on")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", args[0], err, stderr.Bytes())
	}
	return string(out)
}

func hostEnv() GoEnv {
	return GoEnv{OS: runtime.GOOS, Arch: runtime.GOARCH, Version: runtime.Version(), Tags: build.Default.ToolTags, Cgo: build.Default.CgoEnabled}
}

// TestGoPackagesList compares with go list on folders of all kinds.
func TestGoPackagesList(t *testing.T) {
	t.Parallel()
	one, out := tests("p", "func TestA(t *testing.T) {}"), tests("p_test", "func TestB(t *testing.T) {}")
	files := tree("go.mod", "module example.org/m\n\ngo 1.26\n\nignore (\n\t./here\n\tanywhere\n\tq/r\n)\n",
		"a_test.go", one, "lib.go", "package p\n",
		"vendor/a_test.go", one, "vendor/x/a_test.go", one, "a/vendor/x/a_test.go", one, "a/vendor/a_test.go", one, "testdata/a_test.go", one, "a/testdata/b/a_test.go", one,
		"_x/a_test.go", one, ".x/y/a_test.go", one, "a/_y/z/a_test.go", one, "a/b_c/a_test.go", one,
		"here/a_test.go", one, "x/here/a_test.go", one, "hereafter/a_test.go", one, "x/anywhere/y/a_test.go", one, "x/anywhereelse/a_test.go", one,
		"x/q/r/s/a_test.go", one, "x/q/a_test.go", one,
		"n/go.mod", "module n\n", "n/a_test.go", one, "n/m/a_test.go", one,
		"both/a_test.go", one, "both/b_test.go", out, "out/b_test.go", out,
		"tags/a_test.go", "//go:build "+runtime.GOOS+" && go1.1 && !go1.999\n\n"+one, "tags/b_test.go", "// +build !"+runtime.GOOS+"\n\n"+one,
		"tags/c_plan9_test.go", one, "tags/d_plan9_386_test.go", one, "tags/e_"+runtime.GOOS+"_test.go", out, "tags/_f_test.go", one,
	)
	dir := t.TempDir()
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var want, got []string
	for line := range strings.Lines(goCommand(t, dir, "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.TestGoFiles}} {{.XTestGoFiles}}{{end}}", "./...")) {
		line = strings.Join(strings.Fields(strings.NewReplacer("[", " ", "]", " ").Replace(line)), " ")
		if line != "" {
			want = append(want, line)
		}
	}
	pkgs, unparsed := GoPackages(files, hostEnv())
	if len(unparsed) > 0 {
		t.Error("unparsed:", unparsed)
	}
	for _, p := range pkgs {
		if p.Module != "." {
			continue
		}
		line := p.ImportPath
		for _, f := range p.Files {
			line += " " + path.Base(f)
		}
		got = append(got, line)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// goroot returns the standard library's folder.
func goroot(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("needs the go command")
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src")
}

func readGoFiles(t testing.TB, root string, in func(path string) bool) []File {
	t.Helper()
	var files []File
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if rel = filepath.ToSlash(rel); err != nil || !in(rel) {
			return err
		}
		content, err := os.ReadFile(name)
		files = append(files, File{rel, content})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestGoPackagesStd compares with the names that the tests of the standard
// library list themselves.
func TestGoPackagesStd(t *testing.T) {
	t.Parallel()
	if raceEnabled {
		t.Skip("takes long with the race detector, and has no goroutines")
	}
	if testing.Short() {
		t.Skip("builds tests of the standard library")
	}
	root := goroot(t)
	names := []string{"bufio", "bytes", "container/list", "encoding/hex", "encoding/json", "go/parser", "net/url", "path", "sort", "strings", "testing", "text/template", "unicode/utf8"}
	got := make(map[string][]string)
	for _, name := range names {
		files := readGoFiles(t, filepath.Join(root, filepath.FromSlash(name)), func(p string) bool {
			return strings.HasSuffix(p, "_test.go") && !strings.Contains(p, "/")
		})
		pkgs, unparsed := GoPackages(append(files, File{"go.mod", []byte("module " + name)}), hostEnv())
		if len(pkgs) != 1 || len(unparsed) > 0 {
			t.Fatalf("%s: %d packages, unparsed %v", name, len(pkgs), unparsed)
		}
		for _, f := range pkgs[0].Tests {
			got[name] = append(got[name], f.Name)
		}
	}
	var list []string
	for line := range strings.Lines(goCommand(t, root, append([]string{"test", "-list", "."}, names...)...)) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "ok"); ok {
			name := strings.Fields(rest)[0]
			slices.Sort(list)
			if len(list) == 0 || !slices.Equal(got[name], list) {
				t.Errorf("%s\ngot  %v\nwant %v", name, got[name], list)
			}
			delete(got, name)
			list = nil
		} else if !strings.HasPrefix(line, "Benchmark") {
			list = append(list, line)
		}
	}
	if len(got) > 0 {
		t.Errorf("%d packages were not listed", len(got))
	}
}

// TestBuildsLikeGo compares constraints with go/build on the standard library
// and on headers of many forms.
func TestBuildsLikeGo(t *testing.T) {
	t.Parallel()
	files := readGoFiles(t, goroot(t), func(p string) bool {
		return strings.HasSuffix(p, ".go") && (strings.HasPrefix(p, "os/") || strings.HasPrefix(p, "internal/") || strings.HasPrefix(p, "runtime/"))
	})
	lines := []string{"//go:build linux", "//go:build !linux", "//go:build go1.0", "//go:build go1.1", "//go:build go1.09 || go1.9", "// +build windows", "// +build !windows,!cgo linux", "//go:build (", "// text", "",
		"/* text */", "/*", "//go:build ignore", "*/", " //go:build darwin", "/* x */ //go:build ignore", "//go:build", "\ufeff//go:build plan9", "//+build ignore", "var x = 1 //go:build ignore"}
	for i := range len(lines) * len(lines) * len(lines) {
		n := len(lines)
		files = append(files, File{"x.go", []byte(strings.Join([]string{lines[i%n], lines[i/n%n], lines[i/n/n], "package p", ""}, "\n"))})
	}
	for _, name := range []string{"a_linux.go", "a_windows_test.go", "linux.go", "_linux.go", "a_linux_amd64.go", "a_amd64_linux.go", "a_windows_amd64_test.go", "a_foo_arm64.go",
		"linux_amd64.go", "amd64_test.go", "a_test_linux.go", "a_unix.go", "a__linux.go", "a_linux.x.go", "a.b_windows.go", "a_.go", "_test.go", ".a.go", "a_linux_test_test.go", "a_ios_test.go", "a_android.go", "a_solaris.go"} {
		files = append(files, File{name, []byte("package p\n")})
	}
	compared := 0
	for _, env := range []GoEnv{linux, {OS: "windows", Arch: "arm64", Version: "go1.20rc1", Race: true}, {OS: "ios", Arch: "arm64", Version: "go1.9", Tags: []string{"ignore", "x"}}, {OS: "android", Arch: "arm", Version: "unknown"}, {OS: "illumos", Arch: "amd64", Version: "go1.26"}} {
		context := build.Context{GOOS: env.OS, GOARCH: env.Arch, Compiler: "gc", CgoEnabled: env.Cgo, BuildTags: env.Tags}
		if env.Race {
			context.ToolTags = []string{"race"}
		}
		releases := map[string]int{"go1.26.5": 26, "go1.20rc1": 20, "go1.9": 9, "go1.26": 26}[env.Version]
		for i := 1; i <= releases; i++ {
			context.ReleaseTags = append(context.ReleaseTags, fmt.Sprintf("go1.%d", i))
		}
		for _, f := range files {
			context.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.Content)), nil }
			want, wantErr := context.MatchFile("/", path.Base(f.Path))
			got, err := env.builds(path.Base(f.Path), f.Content)
			if wantErr != nil && strings.Contains(wantErr.Error(), "read ") {
				continue // no Go file
			}
			if got != want || (err != nil) != (wantErr != nil) {
				t.Errorf("%v, %s\n%.200s\ngot %v, %v; want %v, %v", env, f.Path, f.Content, got, err, want, wantErr)
			}
			compared++
		}
	}
	if compared < 5000 {
		t.Errorf("only %d comparisons", compared)
	}
}

// TestExamplesLikeGo compares which examples have output with go/doc.
func TestExamplesLikeGo(t *testing.T) {
	t.Parallel()
	found := 0
	for _, f := range readGoFiles(t, goroot(t), func(p string) bool {
		return strings.HasPrefix(path.Base(p), "example") && strings.HasSuffix(p, "_test.go")
	}) {
		s := parseGo(f)
		if s == nil || s.broken {
			continue
		}
		want := make(map[string]bool)
		for _, e := range doc.Examples(s.file) {
			want["Example"+e.Name] = e.Output != "" || e.EmptyOutput
		}
		got := make(map[string]bool)
		for _, d := range s.funcs() {
			switch s.kind(d) {
			case goExample:
				got[d.Name.Name] = true
				found++
			case goSilent:
				got[d.Name.Name] = false
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", f.Path, got, want)
		}
	}
	if found < 100 {
		t.Errorf("only %d examples with output", found)
	}
}

func TestImportName(t *testing.T) {
	t.Parallel()
	for imported, want := range map[string]string{
		"os": "os", "go/ast": "ast", "example.org/x/v2": "x", "gopkg.in/yaml.v3": "yaml", "example.org/go-x": "x", "": ".", "v2": ".",
	} {
		if got := importName(imported); got != want {
			t.Errorf("%q: got %q, want %q", imported, got, want)
		}
	}
	s := parseGo(File{"x.go", []byte("package p\nimport a \"b\"\nimport . \"c\"\nimport \"d/e\"\nimport \"\\z\"\n")})
	if want := map[string]string{"a": "b", "e": "d/e"}; !reflect.DeepEqual(s.imports, want) || !reflect.DeepEqual(s.dots, map[string]bool{"c": true}) {
		t.Errorf("got %v, %v", s.imports, s.dots)
	}
}

// shuffled returns files in another order that depends on n.
func shuffled(files []File, n uint32) []File {
	files = slices.Clone(files)
	for i := len(files) - 1; i > 0; i-- {
		n = n*1664525 + 1013904223
		j := int(n>>8) % (i + 1)
		files[i], files[j] = files[j], files[i]
	}
	return files
}

func FuzzGoPackages(f *testing.F) {
	f.Add("module m\n", tests("p", "func TestA(t *testing.T) {}"), "a/b_test.go", uint32(1))
	f.Add("module m\nignore a\n", "//go:build linux\n// +build x\n\npackage p_test\nfunc ExampleX() { // Output:\n}", "a/b_linux_test.go", uint32(2))
	f.Add("module", "package", "go.mod", uint32(3))
	f.Fuzz(func(t *testing.T, mod, text, name string, seed uint32) {
		files := tree("go.mod", mod, name, text, "x/a_test.go", text, "x/go.mod", text, "y/z_test.go", text+mod)
		pkgs, unparsed := GoPackages(files, linux)
		again, alsoUnparsed := GoPackages(shuffled(files, seed), linux)
		if !reflect.DeepEqual(pkgs, again) || !slices.Equal(unparsed, alsoUnparsed) {
			t.Fatalf("the order of the files matters:\n%s\n%s", describePackages(pkgs, unparsed), describePackages(again, alsoUnparsed))
		}
		for _, p := range pkgs {
			if len(p.Files) == 0 || p.ImportPath == "" || !slices.IsSorted(p.Files) {
				t.Fatalf("%+v", p)
			}
		}
	})
}
