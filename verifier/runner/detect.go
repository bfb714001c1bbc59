package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/mod/modfile"

	"github.com/truegreen-dev/truegreen/internal/lazy"
	"github.com/truegreen-dev/truegreen/verifier"
)

// Detect finds the test commands of a repository that configures none. It
// looks at the base, so a patch cannot choose how it is tested; only where the
// base has no files does it look at the head, and a note says so. The other
// notes name what was seen and is not covered. Listings from
// [Repository.Names] will do.
//
//   - go.mod: `go test ./...` in every module. Left out are modules in folders
//     that the go command ignores (testdata, vendor, names that begin with "."
//     or "_") and, below the root, modules without test files. A module that
//     the go.work above it does not use is tested outside of the workspace.
//   - Cargo.toml at the root: cargo test --workspace.
//   - package.json at the root with a test script: npm test.
//   - A Python project at the root with pytest's settings or test files:
//     pytest with a JUnit report.
//   - A Makefile at the root with a target "test", if there is nothing else:
//     make test.
func (r *Repository) Detect(ctx context.Context, base, head Listing) ([]verifier.TestEntry, []string, error) {
	from, side := base, "base"
	if len(base.Entries) == 0 {
		from, side = head, "head"
	}
	d := detector{files: make(map[string]bool)}
	for _, e := range from.Entries {
		if e.Mode == "100644" || e.Mode == "100755" {
			d.files[e.Path] = true
			d.paths = append(d.paths, e.Path)
		}
	}
	var readErr error
	d.read = func(path string) []byte {
		b, err := r.ReadFile(ctx, from, path, 1<<20)
		if err != nil && !errors.Is(err, errTooLarge) {
			readErr = err
		}
		return b
	}
	if side == "head" {
		d.note("the base has no files: commands detected in the patch itself")
	}
	d.detect()
	if readErr != nil {
		return nil, nil, readErr
	}
	return d.entries, d.notes, nil
}

// maxDetected is how many entries a configuration may have.
const maxDetected = 64

// detector holds the regular files of a tree, read (nil for a file that is too
// large), and what was found.
type detector struct {
	paths []string // sorted
	files map[string]bool
	read  func(path string) []byte

	entries []verifier.TestEntry
	notes   []string
}

func (d *detector) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

func (d *detector) detect() {
	d.goModules()
	if d.files["Cargo.toml"] {
		d.add(verifier.TestEntry{Name: "cargo", Run: []string{"cargo", "test", "--workspace"}, Format: verifier.FormatExit})
	}
	if d.files["package.json"] && d.npmScript() {
		d.add(verifier.TestEntry{Name: "npm", Run: []string{"npm", "test"}, Format: verifier.FormatExit})
	}
	if d.python() {
		const report = "report.xml"
		d.add(verifier.TestEntry{Name: "pytest", Run: []string{"python3", "-m", "pytest", "--junitxml=" + verifier.OutDir + "/" + report},
			Format: verifier.FormatJUnit, Report: report})
	}
	for _, manifest := range []string{"Cargo.toml", "package.json", "pyproject.toml"} {
		d.noteBelow(manifest)
	}
	if len(d.entries) == 0 {
		d.makefile()
	}
}

// add appends an entry, for the root if it does not say where.
func (d *detector) add(e verifier.TestEntry) {
	if e.Dir == "" {
		e.Dir = "."
	}
	e.Timeout = verifier.DefaultTimeout
	d.entries = append(d.entries, e)
}

func (d *detector) goModules() {
	modules := make(map[string]bool) // folder with a go.mod that counts: has test files
	var dirs []string
	for _, file := range d.paths {
		if dir, name := path.Split(file); name == "go.mod" {
			dir = path.Clean(dir)
			switch {
			case goIgnores(dir):
				d.note("module %q: not covered: the go command ignores the folder", dir)
			case !utf8.ValidString(dir) || strings.ContainsAny(dir, "\\\x00"):
				d.note("module %q: not covered: the folder's name cannot be configured", dir)
			default:
				modules[dir] = false
				dirs = append(dirs, dir)
			}
		}
	}
	for _, file := range d.paths {
		if name := path.Base(file); strings.HasSuffix(name, "_test.go") && name[0] != '_' && name[0] != '.' && !goIgnores(path.Dir(file)) {
			if dir, ok := above(file, func(dir string) bool { _, ok := modules[dir]; return ok }); ok {
				modules[dir] = true
			}
		}
	}
	slices.Sort(dirs) // "." first
	for _, dir := range dirs {
		switch {
		case dir != "." && !modules[dir]:
			d.note("module %q: not covered: it has no test files", dir)
		case len(d.entries) >= maxDetected-4: // leave room for other ecosystems
			d.note("module %q: not covered: too many modules", dir)
		default:
			d.add(verifier.TestEntry{Name: d.entryName(dir), Run: []string{"go", "test", "./..."}, Dir: dir,
				Format: verifier.FormatGo, Env: d.workspaceEnv(dir)})
		}
	}
	if len(dirs) == 0 && slices.ContainsFunc(d.paths, func(p string) bool { return strings.HasSuffix(p, "_test.go") && !goIgnores(path.Dir(p)) }) {
		d.note("Go test files: not covered: there is no go.mod")
	}
}

// goIgnores reports whether "./..." skips a folder.
func goIgnores(dir string) bool {
	if dir == "." {
		return false
	}
	for name := range strings.SplitSeq(dir, "/") {
		if name == "testdata" || name == "vendor" || name[0] == '.' || name[0] == '_' {
			return true
		}
	}
	return false
}

// above returns the nearest folder above a file for which is holds.
func above(file string, is func(dir string) bool) (string, bool) {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if is(dir) {
			return dir, true
		}
		if dir == "." {
			return "", false
		}
	}
}

// workspaceEnv returns what a module needs in its environment: the go command
// refuses to work in a module below a go.work that does not use it.
func (d *detector) workspaceEnv(module string) []string {
	dir, ok := above(path.Join(module, "go.mod"), func(dir string) bool { return d.files[path.Join(dir, "go.work")] })
	if !ok {
		return nil
	}
	file := path.Join(dir, "go.work")
	work, err := modfile.ParseWork(file, d.read(file), nil)
	if err != nil || slices.ContainsFunc(work.Use, func(u *modfile.Use) bool { return path.Join(dir, u.Path) == module }) {
		return nil // a go.work that does not parse fails where the user sees it
	}
	return []string{"GOWORK=off"}
}

var notInName = lazy.Regexp(`[^a-z0-9]+`)

// entryName makes a legal and unused name: "go" and what the folder's
// name has of a-z, 0-9 and "-".
func (d *detector) entryName(dir string) string {
	name := "go"
	if dir != "." {
		name += "-" + notInName().ReplaceAllString(strings.ToLower(dir), "-")
	}
	name = strings.TrimRight(name[:min(len(name), 28)], "-")
	unique := name
	for n := 2; slices.ContainsFunc(d.entries, func(e verifier.TestEntry) bool { return e.Name == unique }); n++ {
		unique = fmt.Sprintf("%s-%d", name, n)
	}
	return unique
}

// npmScript reports whether package.json has a test script other than the one
// that npm init writes, which only fails.
func (d *detector) npmScript() bool {
	var manifest struct {
		Scripts struct {
			Test string `json:"test"`
		} `json:"scripts"`
	}
	if json.Unmarshal(d.read("package.json"), &manifest) != nil || manifest.Scripts.Test == "" ||
		strings.Contains(manifest.Scripts.Test, "no test specified") {
		d.note("package.json: not covered: it has no test script")
		return false
	}
	return true
}

// pytestSection finds pytest's settings in pyproject.toml, setup.cfg and tox.ini.
var pytestSection = lazy.Regexp(`(?m)^\[(tool\.pytest(\.ini_options)?|tool:pytest|pytest)\]`)

func (d *detector) python() bool {
	project, settings := false, d.files["pytest.ini"] || d.files["conftest.py"]
	for _, name := range []string{"pyproject.toml", "setup.cfg", "tox.ini"} {
		if d.files[name] {
			project = true
			settings = settings || pytestSection().Match(d.read(name))
		}
	}
	if settings {
		return true
	}
	tests := slices.ContainsFunc(d.paths, func(p string) bool {
		name := path.Base(p)
		return strings.HasSuffix(name, "_test.py") || strings.HasPrefix(name, "test_") && strings.HasSuffix(name, ".py") || p == "tests/conftest.py"
	})
	if tests && !project && !d.files["setup.py"] {
		d.note("Python test files: not covered: there is no Python project at the root")
		return false
	}
	return tests
}

// noteBelow notes manifests of an ecosystem that is looked for at the root only.
func (d *detector) noteBelow(manifest string) {
	var dirs []string
	for _, p := range d.paths {
		if dir, name := path.Split(p); name == manifest && dir != "" && !goIgnores(path.Clean(dir)) && !strings.Contains("/"+dir, "/node_modules/") {
			dirs = append(dirs, path.Clean(dir))
		}
	}
	if len(dirs) > 0 {
		d.note("%s in %d folders below the root, such as %q: not looked at", manifest, len(dirs), dirs[0])
	}
}

// testTarget finds a rule for "test", not an assignment to a variable.
var testTarget = lazy.Regexp(`(?m)^([^\s:=#]+ +)*test( +[^\s:=#]+)* *::?([^:=]|$)`)

func (d *detector) makefile() {
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} { // make's own order
		if !d.files[name] {
			continue
		}
		if testTarget().Match(d.read(name)) {
			d.add(verifier.TestEntry{Name: "make", Run: []string{"make", "test"}, Format: verifier.FormatExit})
		} else {
			d.note("%s: not covered: it has no target \"test\"", name)
		}
		return
	}
}
