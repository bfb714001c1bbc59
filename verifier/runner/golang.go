package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// A toolchain is the Go installation of the host, seen from a sandbox, or that of
// a container's image. The zero toolchain is none.
type toolchain struct {
	goroot  string // of the host's
	image   string // name of the image that has its own
	version string // such as go1.26.5; of an image's, a digest of its name
	build   string // folder with the compiled standard library
}

// findGo looks for the go command on the PATH. It runs nothing.
func findGo() toolchain {
	bin, err := exec.LookPath("go")
	if err == nil {
		bin, err = filepath.EvalSymlinks(bin)
	}
	if err != nil {
		return toolchain{}
	}
	root := filepath.Dir(filepath.Dir(bin))
	text, err := os.ReadFile(filepath.Join(root, "VERSION"))
	version, _, _ := strings.Cut(string(text), "\n")
	if err != nil || !strings.HasPrefix(version, "go") || strings.ContainsAny(version, "/ ") {
		return toolchain{}
	}
	return toolchain{goroot: root, version: version}
}

// imageGo is the toolchain of a container. What it is, and whether there is one,
// only the image knows: the go command is looked up in its PATH.
func imageGo(image string) toolchain {
	return toolchain{image: image, version: "image-" + receipts.Sum([]byte(image)).String()[:16]}
}

func (t *toolchain) none() bool { return t.goroot == "" && t.image == "" }

// mounts returns what a command needs of the toolchain and its caches.
func (t *toolchain) mounts(modules string) []sandbox.Mount {
	var list []sandbox.Mount
	if t.goroot != "" && !strings.HasPrefix(t.goroot, "/usr/") {
		list = append(list, sandbox.Mount{Source: t.goroot, Target: t.goroot, Kind: sandbox.ReadOnly})
	}
	if t.build != "" {
		list = append(list, sandbox.Mount{Source: t.build, Target: buildDir, Kind: sandbox.Overlay})
	}
	if modules != "" {
		list = append(list, sandbox.Mount{Source: modules, Target: depsDir, Kind: sandbox.ReadOnly})
	}
	return list
}

// environment returns the variables of the go command in dir of a side's tree.
func (t *toolchain) environment(j *job, side int, dir string) map[string]string {
	if t.none() {
		return nil
	}
	mod := "-mod=readonly"
	if _, ok := j.listings[side].listing.Find(path.Join(dir, "vendor/modules.txt")); ok {
		mod = "-mod=vendor"
	}
	cache := buildDir
	if t.build == "" {
		cache = verifier.HomeDir + "/.cache/go-build"
	}
	env := map[string]string{
		"GOENV":  "off",
		"GOPATH": verifier.HomeDir + "/go", "GOCACHE": cache, "GOMODCACHE": depsDir + "/go",
		"GOFLAGS": mod + " -buildvcs=false", "GOPROXY": "off", "GOSUMDB": "off", "GOTOOLCHAIN": "local", "GOTELEMETRY": "off",
	}
	if t.goroot != "" {
		env["GOROOT"], env["PATH"] = t.goroot, t.goroot+"/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return env
}

// seedBuildCache finds, or makes, a build cache with packages of the standard
// library and what go vet notes about them. No code of a patch is near when it is
// made: what lies in this cache, tests read and never write. A new one goes on
// from the one before, so that there are few.
func (j *job) seedBuildCache(ctx context.Context, packages map[string]bool) error {
	parent := filepath.Join(j.o.State, cacheDir, "go-build", j.tools.version+"-"+runtime.GOARCH)
	last := ""
	for dir, holds := range seeds(parent) {
		if len(holds) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(packages)), func(p string) bool { return !holds[p] }) {
			j.tools.build = dir
			return nil
		}
		if last == "" || len(holds) > len(readSeed(last)) {
			last = dir
		}
	}
	tmp, err := j.newCache(parent)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if last != "" {
		maps.Copy(packages, readSeed(last))
		if err := j.copySeed(tmp, last); err != nil {
			return err
		}
	}
	names := slices.Sorted(maps.Keys(packages))
	dir := filepath.Join(parent, receipts.Sum([]byte(strings.Join(names, "\n"))).String()[:16])
	source := filepath.Join(j.dir, "seed")
	if err := writeSeed(source, names); err != nil {
		return err
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
		}, j.tools.mounts("")...),
		Limits: sandbox.Limits{Output: 1 << 20},
	}
	_, err = j.fetch(ctx, &receipts.Args{Tool: receipts.ToolPrepare, Name: "go-std"}, spec)
	var failed *fetchError
	if errors.As(err, &failed) {
		return j.rec.Risk("no-build-cache", failed.Error()) // slower, and no less true
	}
	if err != nil {
		return err
	}
	if err := j.keepCache(tmp, dir, true); err != nil {
		return err
	}
	j.tools.build = dir
	return os.WriteFile(dir+seedList, []byte(strings.Join(names, "\n")), 0o644)
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
	var b strings.Builder
	b.WriteString("package seed\n\nimport (\n\t_ \"testing\"\n")
	for _, p := range packages {
		if p != "testing" {
			fmt.Fprintf(&b, "\t_ %q\n", p)
		}
	}
	b.WriteString(")\n")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module seed\n\ngo 1.21\n"), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "seed_test.go"), []byte(b.String()), 0o644)
}

// hostGo asks the host's go command, outside of any tree, where modules come from.
func hostGo(ctx context.Context, environ []string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "-json", "GOMODCACHE", "GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOINSECURE")
	cmd.Dir = "/"
	cmd.Env = append(slices.Clip(environ), "GOTOOLCHAIN=local", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	env := map[string]string{}
	if err := json.Unmarshal(out, &env); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	return env, nil
}
