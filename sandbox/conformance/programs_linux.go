//go:build amd64 || arm64

package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// searchPath is where attempts find programs, inside and outside.
const searchPath = "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"

// onPath finds a program in searchPath, "" if there is none.
func onPath(name string) string {
	for _, dir := range filepath.SplitList(searchPath) {
		p := filepath.Join(dir, name)
		if unix.Access(p, unix.X_OK) == nil {
			return p
		}
	}
	return ""
}

// installed is the condition of rows that run programs.
func installed(names ...string) func() string {
	return func() string {
		for _, name := range names {
			if onPath(name) == "" {
				return "there is no " + name + " here"
			}
		}
		return ""
	}
}

// A script is a program run on files in a directory made for it.
type script struct {
	files map[string]string // by name
	env   []string
	argv  []string
}

// run returns "ok", or the last thing that the program said.
func (s script) run(in *Inside, id string) string {
	dir := filepath.Join(tempDir(in), id)
	temp := filepath.Join(dir, "tmp")
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return ended(err)
	}
	defer os.RemoveAll(dir)
	for name, content := range s.files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return ended(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o755); err != nil {
			return ended(err)
		}
	}
	p := s.argv[0]
	if !strings.Contains(p, "/") {
		p = onPath(p)
	}
	cmd := exec.Command(p, s.argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + filepath.Dir(p) + ":" + searchPath, "HOME=" + dir, "TMPDIR=" + temp, "LANG=C.UTF-8"}, s.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		if said := lastLine(out); said != "" {
			return said
		}
		return ended(err)
	}
	return "ok"
}

// The Go toolchain, as a row finds it outside.
type goTool struct {
	root, cache string
}

// goInside is where the compiled packages of the caller are, read-only.
const goInside = "/opt/go-build"

var findGo = sync.OnceValues(func() (goTool, error) {
	p, err := exec.LookPath("go")
	if err != nil {
		return goTool{}, err
	}
	cmd := exec.Command(p, "env", "GOROOT", "GOCACHE")
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		return goTool{}, err
	}
	f := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(f) != 2 || !filepath.IsAbs(f[0]) || !filepath.IsAbs(f[1]) {
		return goTool{}, errors.New("go env: no GOROOT and GOCACHE")
	}
	return goTool{f[0], f[1]}, nil
})

func goThere() string {
	if _, err := findGo(); err != nil {
		return "there is no go command here: " + err.Error()
	}
	return ""
}

// compiled is the condition of rows that build Go programs: compiling the
// standard library takes half a minute.
func compiled(list ...string) func() string {
	return func() string {
		tool, err := findGo()
		if err != nil {
			return goThere()
		}
		cmd := exec.Command(filepath.Join(tool.root, "bin/go"), append([]string{"list", "-f", "{{.Stale}}"}, list...)...)
		cmd.Dir = "/"
		cmd.Env = append(goEnv(tool.root, tool.cache), "PATH="+searchPath)
		out, err := cmd.Output()
		if err != nil || strings.Contains(string(out), "true") {
			return "packages that it needs are not in the caller's build cache: go build " + strings.Join(list, " ")
		}
		return ""
	}
}

func goEnv(root, cache string) []string {
	return []string{"GOENV=off", "GOTOOLCHAIN=local", "GOTELEMETRY=off", "GOPROXY=off", "GOFLAGS=", "GOROOT=" + root, "GOCACHE=" + cache}
}

// goRoot shows the toolchain inside.
func goRoot(_ *Outside, spec *sandbox.Spec) {
	tool, err := findGo()
	if err != nil {
		return // the row is not exercised
	}
	spec.Env = append(spec.Env, "GOROOT="+tool.root)
	if !strings.HasPrefix(tool.root, "/usr/") {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: tool.root, Target: tool.root, Kind: sandbox.ReadOnly})
	}
}

// goMounts shows what the toolchain has compiled, too, if the caller may see it.
func goMounts(o *Outside, spec *sandbox.Spec) {
	goRoot(o, spec)
	tool, err := findGo()
	if err != nil {
		return
	}
	if _, err := os.ReadDir(tool.cache); err == nil {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: tool.cache, Target: goInside, Kind: sandbox.ReadOnly})
	}
}

// goCache makes a build cache that can be written to and has, as links, what
// the caller's has.
func goCache(dir string) error {
	for i := range 256 {
		name := string([]byte{"0123456789abcdef"[i>>4], "0123456789abcdef"[i&15]})
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
		list, err := os.ReadDir(filepath.Join(goInside, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := os.Symlink(filepath.Join(goInside, name, e.Name()), filepath.Join(dir, name, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// goTest runs go test on one file.
func goTest(id, test string, flags ...string) func(*Inside) string {
	return func(in *Inside) string {
		cache := filepath.Join(tempDir(in), id+"-cache")
		if err := goCache(cache); err != nil {
			return ended(err)
		}
		root := os.Getenv("GOROOT")
		return script{
			files: map[string]string{"go.mod": "module must\n\ngo 1.24\n", "must_test.go": test, "must.go": "package must\n\nfunc One() int { return 1 }\n"},
			env:   append(goEnv(root, cache), "PATH="+filepath.Join(root, "bin")+":"+searchPath),
			argv:  append([]string{filepath.Join(root, "bin/go"), "test", "-count=1", "-vet=off"}, flags...),
		}.run(in, id)
	}
}
