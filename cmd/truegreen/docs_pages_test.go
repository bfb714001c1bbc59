package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/mod/modfile"

	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

var docPages = []string{
	"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/badge.md", "docs/configuration.md", "docs/elsewhere.md", "docs/evidence.md",
	"docs/format.md", "docs/gate.md", "docs/guard.md", "docs/hook.md", "docs/reasons.md", "docs/receipts.md", "docs/recipes.md", "docs/report.md", "docs/sandbox.md", "docs/threat-model.md", "docs/trust.md", "docs/verify-by-hand.md",
}

var (
	docLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	docSpan   = regexp.MustCompile("`[^`\n]*`")
	docHeader = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// prose returns a page without its blocks.
func prose(t testing.TB, page string) string {
	text := readPage(t, page)
	blocks := docBlocks(t, page)
	for _, b := range slices.Backward(blocks) {
		text = text[:b.from] + text[b.to:]
	}
	return text
}

// TestDocLinks follows the links between the pages.
func TestDocLinks(t *testing.T) {
	t.Parallel()
	anchors := map[string]map[string]bool{}
	for _, page := range docPages {
		anchors[page] = map[string]bool{"": true}
		for _, h := range docHeader.FindAllStringSubmatch(prose(t, page), -1) {
			anchors[page][anchorOf(h[1])] = true
		}
	}
	for _, page := range docPages {
		for _, link := range docLink.FindAllStringSubmatch(docSpan.ReplaceAllString(prose(t, page), ""), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(link[1], "#")
			target := page
			if file != "" {
				target = path.Join(path.Dir(page), file)
			}
			if _, err := os.Stat(filepath.Join(moduleRoot, target)); err != nil {
				t.Errorf("%s: link to %s: no such file", page, link[1])
			} else if strings.HasSuffix(target, ".md") && !anchors[target][anchor] {
				t.Errorf("%s: link to %s: no such heading", page, link[1])
			}
		}
	}
}

// anchorOf makes of a heading what the forge makes of it.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// tableRows returns the rows of a page's tables that begin with a match of first.
func tableRows(t testing.TB, page, first string) [][]string {
	var rows [][]string
	start := regexp.MustCompile(`^` + first + `$`)
	for line := range strings.Lines(prose(t, page)) {
		if cells := strings.Split(strings.TrimSpace(line), "|"); len(cells) > 3 && start.MatchString(strings.TrimSpace(cells[1])) {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells[1:len(cells)-1])
		}
	}
	return rows
}

func TestDocExitCodes(t *testing.T) {
	t.Parallel()
	rows := tableRows(t, "README.md", "[0-9]")
	if len(rows) != 5 {
		t.Fatalf("%d exit codes", len(rows))
	}
	for _, row := range rows {
		if row[0] == "2" {
			continue // no verdict
		}
		if got := verifier.Verdict(row[1]).Exit(); strconv.Itoa(got) != row[0] {
			t.Errorf("%s exits with %d, the page says %s", row[1], got, row[0])
		}
	}
}

// TestDocDependencies compares the README's list with what the code imports and
// which tools the module has.
func TestDocDependencies(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(moduleRoot, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	moduleOf := func(pkg string) string {
		best := ""
		for _, r := range mod.Require {
			if (pkg == r.Mod.Path || strings.HasPrefix(pkg, r.Mod.Path+"/")) && len(r.Mod.Path) > len(best) {
				best = r.Mod.Path
			}
		}
		return best
	}
	used := map[string]bool{}
	for _, tool := range mod.Tool {
		used[moduleOf(tool.Path)] = true
	}
	err = filepath.WalkDir(moduleRoot, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			if d != nil && d.IsDir() && err == nil {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			if pkg, _ := strconv.Unquote(i.Path.Value); strings.Contains(strings.Split(pkg, "/")[0], ".") && !strings.HasPrefix(pkg, mod.Module.Mod.Path+"/") {
				used[moduleOf(pkg)] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range tableRows(t, "README.md", `[a-z]+\.[a-z./A-Z0-9-]+`) {
		listed[row[0]] = true
		if !used[row[0]] {
			t.Errorf("the README lists %s, which nothing uses", row[0])
		}
	}
	for module := range used {
		if !listed[module] {
			t.Errorf("the README does not say why %s is needed", module)
		}
	}
}

// TestDocConfiguration parses the example, and compares defaults and reserved
// names with the page.
func TestDocConfiguration(t *testing.T) {
	t.Parallel()
	const page = "docs/configuration.md"
	parsed := 0
	for _, b := range docBlocks(t, page) {
		if b.lang == "yaml" {
			parsed++
			if _, err := verifier.ParseConfig([]byte(b.text)); err != nil {
				t.Errorf("%s:%d: %v", page, b.line, err)
			}
		}
	}
	if parsed == 0 {
		t.Errorf("%s: no example", page)
	}
	d := sandbox.DefaultLimits()
	for key, want := range map[string]string{
		"pids": strconv.Itoa(d.Pids), "memory": fmt.Sprintf("%d GiB", d.Memory>>30), "disk": fmt.Sprintf("%d GiB", d.Disk>>30),
		"output": fmt.Sprintf("%d MiB of each stream", d.Output>>20), "cpu": map[bool]string{true: "none"}[d.CPU == 0],
	} {
		if rows := tableRows(t, page, "`"+key+"`"); len(rows) != 1 || rows[0][1] != want {
			t.Errorf("%s: limits.%s: want %s in %v", page, key, want, rows)
		}
	}
	_, list, _ := strings.Cut(readPage(t, page), "It cannot set ")
	list, _, _ = strings.Cut(list, "## ")
	names := regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(list, -1)
	if len(names) < 20 {
		t.Errorf("%s: %d reserved names", page, len(names))
	}
	for _, name := range names {
		config := fmt.Sprintf("test: [{name: a, run: [b], env: {%s: c}}]", name[1])
		if strings.HasSuffix(name[1], "_") {
			config = strings.Replace(config, name[1], name[1]+"X", 1)
		}
		if _, err := verifier.ParseConfig([]byte(config)); err == nil || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("%s: %s is not reserved: %v", page, name[1], err)
		}
	}
}

// TestDocRecipe: what the README shows of a recipe is in it.
func TestDocRecipe(t *testing.T) {
	t.Parallel()
	shown := 0
	for _, b := range docBlocks(t, "README.md") {
		if b.lang != "yaml" || b.file == "" {
			continue
		}
		shown++
		if !strings.Contains(readPage(t, b.file), b.text) {
			t.Errorf("README.md:%d: this is not in %s", b.line, b.file)
		}
	}
	if shown != 1 {
		t.Errorf("%d recipes shown", shown)
	}
}

// TestDocEnvironment compares the environment of a test with the page.
func TestDocEnvironment(t *testing.T) {
	t.Parallel()
	needIsolation(t)
	const page = "docs/configuration.md"
	s := newDocSession(t)
	s.sh("truegreen run --out e.tar.zst -- sh -c 'env > /out/env; env'")
	out := s.sh("truegreen extract e.tar.zst e > /dev/null; cat e/calls/*-test-*-head/stdout")
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name == "PWD" || name == "OLDPWD" || name == "SHLVL" || name == "_" {
			continue // the shell's own
		}
		if !strings.Contains(readPage(t, page), "`"+name+"`") {
			t.Errorf("%s: %s=%s is not there", page, name, value)
		}
	}
}

// TestDocFlags looks for the flags that the pages show.
func TestDocFlags(t *testing.T) {
	t.Parallel()
	call, flag := regexp.MustCompile("truegreen ([a-z]+(?: [a-z]+[a-z-]*)?) [^`\n#]*"), regexp.MustCompile("--[a-z][a-z-]*")
	seen := 0
	for _, page := range docPages {
		for _, m := range call.FindAllStringSubmatch(readPage(t, page), -1) {
			flags := flag.FindAllString(m[0], -1)
			if len(flags) == 0 {
				continue
			}
			help, err := exec.Command("truegreen", append(strings.Fields(m[1]), "--help")...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %s: %v", page, m[0], err)
			}
			for _, name := range flags {
				if seen++; !strings.Contains(string(help), name+" ") {
					t.Errorf("%s: %s: there is no %s", page, m[0], name)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d flags seen", seen)
	}
}
