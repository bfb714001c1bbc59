package source

import (
	"strings"
	"testing"
	"time"
)

// TestHostileFiles reads files that are all of one thing, deeper than the
// parser goes. Files of 4 MiB take 32 times as long, if all is linear.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	if raceEnabled {
		t.Skip("takes long with the race detector, and has no goroutines")
	}
	if testing.Short() {
		t.Skip("reads large files")
	}
	const size = maxGoFile / 32
	fill := func(before, text, after string) string {
		return before + strings.Repeat(text, (size-len(before)-len(after))/len(text)) + after
	}
	start := "package p\nimport . \"os\"\nfunc TestA(t *testing.T) { "
	for name, text := range map[string]string{
		"parentheses":  fill(start, "(", ""),
		"calls":        fill(start, "f(", ""),
		"sums":         fill(start+"println(", "\"\"+", "\"\")}"),
		"statements":   fill(start, "t.Error();", "}"),
		"exits":        fill(start, "Exit(0);", "}"),
		"literals":     fill(start+"_ = []T", "{{}},", "}"),
		"nested lists": fill(start+"_ = [][]T", "{", ""),
		"defers":       fill(start, "defer func(){recover();", ""),
		"subtests":     fill(start, "t.Run(\"\",func(t *testing.T){return;", ""),
		"ifs":          fill(start, "if true{", ""),
		"elses":        fill(start, "if x{}else ", "{}}"),
		"labels":       fill(start, "a:", ";}"),
		"functions":    fill("package p\n", "func TestA(t *testing.T){TestA()};", ""),
		"helpers":      fill("package p\n", "func a(t *testing.T){a(t);b(t)};func b(){a()};", ""),
		"examples":     fill("package p\n", "func ExampleA(){//output:\n};", ""),
		"imports":      fill("package p\n", "import . \"os\";", ""),
		"inits":        fill("package p\n", "func init(){f()};func f(){Exit(0)};", ""),
		"comments":     fill("package p\n", "//func TestX(\n", ""),
		"constraints":  fill("", "//go:build x\n", "\npackage p"),
		"old tags":     fill("", "// +build x\n", "\npackage p"),
		"constraint":   fill("//go:build ", "!(", "\n\npackage p"),
		"linknames":    fill("package p\n", "//go:linkname a\n", ""),
		"garbage":      fill("", "\x00\xff\"`'", ""),
	} {
		t.Run(name, func(t *testing.T) {
			base := tree("go.mod", "module m", "a_test.go", tests("p", body("TestA", "t.Error()"), body("TestB", "f()")), "a.go", "package p")
			head := tree("go.mod", "module m", "a_test.go", text, "a.go", text, "b/go.mod", text)
			begin := time.Now()
			GoPackages(head, linux)
			GoDeltas(base, head, linux)
			GoAwareness(base, head)
			GoHarness(base, head)
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}
