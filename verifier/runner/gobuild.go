package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// goPackages are the packages of others that the tests of a tree import.
type goPackages struct {
	std  map[string]bool
	deps map[string][]string // of modules that go.sum locks, by the folder of the importing module
}

// packagesFile holds these, among the modules of a tree that imported them: for
// each module of the tree a line
//
//	in "FOLDER"
//
// and lines that listPackages printed.
const packagesFile = "packages"

// listPackages loads, without compiling or running anything, all that the tests
// of a module import, and prints what of it is not of the tree: the standard
// library's, and what go.sum locks.
var listPackages = []string{"go", "list", "-deps", "-test", "-f", "{{if .Standard}}std {{.ImportPath}}" +
	"{{else if .Module}}{{if not (or .Module.Main .ForTest (eq .Name \"main\") (and .Module.Replace (not .Module.Replace.Version)))}}dep {{.ImportPath}}{{end}}{{end}}", "./..."}

// readPackages reads what the folder of a tree's modules lists.
func readPackages(modules string) (goPackages, error) {
	found := goPackages{map[string]bool{}, map[string][]string{}}
	text, err := os.ReadFile(filepath.Join(modules, packagesFile))
	if modules == "" || errors.Is(err, os.ErrNotExist) {
		return found, nil
	}
	dir := ""
	for line := range strings.Lines(string(text)) {
		switch kind, what, _ := strings.Cut(strings.TrimSpace(line), " "); {
		case kind == "in":
			if dir, err = strconv.Unquote(what); err != nil {
				return goPackages{}, fmt.Errorf("%s: %w", packagesFile, err)
			}
		case !importable(what):
		case kind == "std":
			found.std[what] = true
		case kind == "dep":
			found.deps[dir] = append(found.deps[dir], what)
		}
	}
	return found, err
}

// importable reports whether a package can be imported from anywhere. The rest
// are dependencies of those that can.
func importable(pkg string) bool {
	for _, element := range strings.Split(pkg, "/") {
		if element == "internal" || element == "vendor" || element == "main" {
			return false
		}
	}
	return pkg != "" && pkg != "unsafe" && pkg != "C" && pkg != "runtime/cgo" && !strings.HasPrefix(pkg, "cmd/") && !strings.ContainsAny(pkg, " \"`\\")
}

// compileGo finds or makes, for each side, a build cache with all that its tests
// import and that is not of the tree.
func (j *job) compileGo(ctx context.Context) error {
	var needs [2]goPackages
	std := map[string]bool{}
	for side := range needs {
		var err error
		if needs[side], err = readPackages(j.modules[side]); err != nil {
			return err
		}
		maps.Copy(std, needs[side].std)
	}
	if len(std) == 0 {
		return nil
	}
	seed, err := j.seedBuildCache(ctx, std)
	if seed == "" || err != nil {
		return err
	}
	for side := range needs {
		if j.trees[side] == "" {
			continue
		}
		if j.builds[side], err = j.compileDeps(ctx, side, seed, needs[side].deps); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) buildCaches() string {
	return filepath.Join(j.o.State, cacheDir, "go-build", j.tools.version+"-"+runtime.GOARCH)
}

// compileDeps finds, or makes, a build cache with the packages that the modules
// of one side's tree import from modules that go.sum locks, beside those of the
// standard library. The go command compiles and vets them for a test that lies in
// the module for that; nothing of the tree is compiled, and nothing at all is run. So
// the content of the cache follows from go.mod and go.sum, by which it is named.
func (j *job) compileDeps(ctx context.Context, side int, seed string, deps map[string][]string) (string, error) {
	if len(deps) == 0 {
		return seed, nil
	}
	dir := filepath.Join(j.buildCaches(), "deps-"+filepath.Base(j.modules[side]))
	if j.cached(dir) {
		return dir, nil
	}
	tmp, err := j.newCache(filepath.Dir(dir))
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := j.copySeed(tmp, seed); err != nil {
		return "", err
	}
	for _, at := range slices.Sorted(maps.Keys(deps)) {
		if j.vendored(side, at) {
			continue // they are of the tree
		}
		spec := j.fetchSpec(side, "", at, []string{"go", "test", "-c", "-o", os.DevNull, "./" + depsPackage})
		setEnv(&spec, "GOCACHE", buildDir)
		setEnv(&spec, "GOPROXY", "off")
		source, err := os.MkdirTemp(j.dir, "deps-")
		if err != nil {
			return "", err
		}
		if err := writeImports(source, "deps", deps[at]); err != nil {
			return "", err
		}
		spec.Mounts = append(spec.Mounts,
			sandbox.Mount{Source: source, Target: spec.Dir + "/" + depsPackage, Kind: sandbox.ReadOnly},
			sandbox.Mount{Source: j.modules[side], Target: depsDir, Kind: sandbox.ReadOnly},
			sandbox.Mount{Source: tmp, Target: buildDir, Kind: sandbox.Writable},
		)
		args := j.prepareArgs("go-deps", side)
		_, err = j.fetch(ctx, args, spec)
		var failed *fetchError
		if errors.As(err, &failed) {
			err = j.rec.Risk("dependencies-not-compiled", failed.Error()) // what did compile is there
		}
		if err != nil {
			return "", err
		}
	}
	return dir, j.keepCache(tmp, dir, true)
}

// depsPackage is the folder, in that of a module, of the test that imports the
// dependencies. It hides what the tree has there.
const depsPackage = "truegreen-dependencies"

// seedBuildCache finds, or makes, a build cache with packages of the standard
// library and what go vet notes about them. No code of a patch is near when it is
// made: what lies in this cache, tests read and never write. A new one goes on
// from the one before, so that there are few. "" says that there is none.
func (j *job) seedBuildCache(ctx context.Context, packages map[string]bool) (string, error) {
	parent := j.buildCaches()
	last := ""
	for dir, holds := range seeds(parent) {
		if len(holds) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(packages)), func(p string) bool { return !holds[p] }) {
			j.cached(dir)
			return dir, nil
		}
		if last == "" || len(holds) > len(readSeed(last)) {
			last = dir
		}
	}
	tmp, err := j.newCache(parent)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if last != "" {
		maps.Copy(packages, readSeed(last))
		if err := j.copySeed(tmp, last); err != nil {
			return "", err
		}
	}
	names := slices.Sorted(maps.Keys(packages))
	dir := filepath.Join(parent, receipts.Sum([]byte(strings.Join(names, "\n"))).String()[:16])
	source := filepath.Join(j.dir, "seed")
	if err := writeSeed(source, names); err != nil {
		return "", err
	}
	env := map[string]string{
		"PATH": "/usr/bin:/bin", "HOME": verifier.HomeDir, "TMPDIR": "/tmp", "GOENV": "off", "GOTOOLCHAIN": "local",
		"GOCACHE": buildDir, "GOFLAGS": "-buildvcs=false", "GOPROXY": "off", "GOTELEMETRY": "off",
	}
	if j.tools.goroot != "" {
		env["GOROOT"], env["PATH"] = j.tools.goroot, j.tools.goroot+"/bin:/usr/bin:/bin"
	}
	spec := sandbox.Spec{
		// A test without tests: it is built, linked and vetted like any other.
		Argv: []string{"go", "test", "-run=^$", "."}, Dir: verifier.WorkDir, Env: sortedEnv(env), Network: sandbox.NetworkNone,
		Mounts: append([]sandbox.Mount{
			{Source: source, Target: verifier.WorkDir, Kind: sandbox.ReadOnly},
			{Source: tmp, Target: buildDir, Kind: sandbox.Writable},
		}, j.tools.mounts("", "")...),
		Limits: sandbox.Limits{Output: 1 << 20},
	}
	_, err = j.fetch(ctx, &receipts.Args{Tool: receipts.ToolPrepare, Name: "go-std"}, spec)
	var failed *fetchError
	if errors.As(err, &failed) {
		return "", j.rec.Risk("no-build-cache", failed.Error()) // slower, and no less true
	}
	if err != nil {
		return "", err
	}
	if err := j.keepCache(tmp, dir, true); err != nil {
		return "", err
	}
	return dir, os.WriteFile(dir+seedList, []byte(strings.Join(names, "\n")), 0o644)
}

// seedList is the suffix of the file, beside a build cache, that lists what it
// holds. A cache without one is not used.
const seedList = ".packages"

// seeds returns the build caches in a folder with what they hold.
func seeds(parent string) map[string]map[string]bool {
	found := map[string]map[string]bool{}
	lists, err := filepath.Glob(filepath.Join(parent, "*"+seedList))
	if err != nil {
		return nil
	}
	for _, list := range lists {
		if dir := strings.TrimSuffix(list, seedList); isDir(dir) {
			found[dir] = readSeed(dir)
		}
	}
	return found
}

func readSeed(dir string) map[string]bool {
	text, err := os.ReadFile(dir + seedList)
	if err != nil {
		return nil
	}
	holds := map[string]bool{}
	for _, p := range strings.Fields(string(text)) {
		holds[p] = true
	}
	return holds
}

// copySeed fills a new build cache with the content of another.
func (j *job) copySeed(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return j.giveAway(to)
}

// writeSeed writes a module whose test imports the packages and does nothing.
func writeSeed(dir string, packages []string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module seed\n\ngo 1.21\n"), 0o644); err != nil {
		return err
	}
	return writeImports(dir, "seed", packages)
}

// writeImports writes a test file that imports packages and has no test.
func writeImports(dir, name string, packages []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n\nimport (\n\t_ \"testing\"\n", name)
	for _, p := range packages {
		if p != "testing" {
			fmt.Fprintf(&b, "\t_ %q\n", p)
		}
	}
	b.WriteString(")\n")
	if err := os.WriteFile(filepath.Join(dir, "imports_test.go"), []byte(b.String()), 0o644); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}
