//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// besideModule is a module whose own test passes, and folders that are mounted
// beside it: overlays that add a test by paths relative to the folder in which
// the go command runs, and a compiled test. The names of a source may not be
// those inside.
var besideModule = map[string]string{
	"module/go.mod":          "module example.org/beside\n\ngo 1.21\n",
	"module/a/a.go":          "package a\n\nfunc One() int { return 1 }\n",
	"module/a/a_test.go":     "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestOne(t *testing.T) {\n\tb, err := os.ReadFile(\"testdata/one\")\n\tif err != nil || string(b) != \"1\\n\" || One() != 1 {\n\t\tt.Fatal(string(b), err)\n\t}\n}\n",
	"module/a/testdata/one":  "1\n",
	"module/sub/b/b.go":      "package a\n",
	"module/sub/b/b_test.go": "package a\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {}\n",
	"top/overlay.json":       `{"Replace":{"a/zz_test.go":"../overlay/c_test.go"}}`,
	"top/c_test.go":          "package a\n\nimport \"testing\"\n\nfunc TestAdded(t *testing.T) {}\n",
	"below/overlay.json":     `{"Replace":{"b/zz_test.go":"../../overlay/c_test.go"}}`,
	"below/c_test.go":        "package a\n\nimport \"testing\"\n\nfunc TestAdded(t *testing.T) {}\n",
	"compiled/run.sh":        "#!/bin/sh\necho ran in \"$(pwd -P)\"\n",
}

// A besideTree has the folders of besideModule with the compiled test, and a
// build cache with all that the module needs.
type besideTree struct {
	dir, goroot, cache string
	part               string // of goroot, for who does not see the host's
}

// makeBeside makes what the tests copy.
var makeBeside = sync.OnceValues(func() (b besideTree, err error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return b, err
	}
	b.goroot = strings.TrimSpace(string(out))
	if b.dir, err = os.MkdirTemp("", "truegreen-beside-"); err != nil {
		return b, err
	}
	madeForTests = append(madeForTests, func() error { return os.RemoveAll(b.dir) })
	b.cache = filepath.Join(b.dir, "cache")
	for name, content := range besideModule {
		p := filepath.Join(b.dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return b, err
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			return b, err
		}
	}
	if err := os.Chmod(filepath.Join(b.dir, "compiled/run.sh"), 0o755); err != nil {
		return b, err
	}
	for _, args := range [][]string{{"test", "-c", "-vet=off", "-o", b.dir + "/compiled/a.test", "./a"}, {"test", "-count=1", "-vet=off", "./..."}} {
		cmd := exec.Command(b.goroot+"/bin/go", args...)
		cmd.Dir, cmd.Env = filepath.Join(b.dir, "module"), goEnv(b.goroot, b.cache)
		if out, err := cmd.CombinedOutput(); err != nil {
			return b, fmt.Errorf("go %q: %w\n%s", args, err, out)
		}
	}
	return b, nil
})

func goEnv(goroot, cache string) []string {
	return []string{
		"PATH=" + goroot + "/bin:/usr/bin:/bin", "HOME=" + homeDir, "TMPDIR=/tmp", "GOROOT=" + goroot, "GOCACHE=" + cache, "GOPATH=" + homeDir + "/go",
		"GOENV=off", "GOFLAGS=-buildvcs=false", "GOPROXY=off", "GOTOOLCHAIN=local", "GOTELEMETRY=off", "CGO_ENABLED=0",
	}
}

// copyBeside copies the tree and gives it to whom its commands run as.
func copyBeside(t *testing.T, dir string) besideTree {
	t.Helper()
	b, err := makeBeside()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("needs go")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(b.dir)); err != nil {
		t.Fatal(err)
	}
	b.dir, b.cache = dir, filepath.Join(dir, "cache")
	uid, gid, chown := Owner()
	for _, name := range []string{"module", "cache"} {
		if !chown {
			break
		}
		err := filepath.WalkDir(filepath.Join(dir, name), func(p string, _ os.DirEntry, _ error) error { return os.Lchown(p, uid, gid) })
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestBeside: what is mounted beside the working directory is there under
// paths relative to it, in files that nobody rewrites too, cannot be changed, and
// its programs start. It is how a run adds tests to a tree that it leaves as it
// is, and runs tests that were compiled before.
func TestBeside(t *testing.T) {
	t.Parallel()
	places := map[string]func(*testing.T) string{
		"private":   func(t *testing.T) string { return t.TempDir() }, // a uid of its own does not get there
		"reachable": reachableDir,
	}
	for _, mode := range allModes(t) {
		for name, place := range places {
			if name == "reachable" && mode != ModeRestricted {
				continue // only there it makes a difference
			}
			t.Run(string(mode)+"/"+name, func(t *testing.T) {
				t.Parallel()
				copyBeside(t, place(t)).run(t, mode, func(spec Spec) (Result, *output) { return mustRun(t, mode, spec) })
			})
		}
	}
}

// TestBesideContainer is TestBeside with as much of the toolchain as is needed.
func TestBesideContainer(t *testing.T) {
	te := needEngine(t)
	t.Parallel()
	b := copyBeside(t, t.TempDir())
	b.part = filepath.Join(b.dir, "goroot")
	cmd := exec.Command(b.goroot+"/bin/go", "list", "-deps", "-test", "-f", "{{if .Standard}}{{.Dir}}{{end}}", "./...")
	cmd.Dir, cmd.Env = filepath.Join(b.dir, "module"), goEnv(b.goroot, b.cache)
	dirs, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"VERSION", "go.env", "bin/go"}
	for _, pattern := range []string{"pkg/include/*", "pkg/tool/*/*"} {
		found, _ := filepath.Glob(filepath.Join(b.goroot, pattern))
		for _, p := range found {
			files = append(files, strings.TrimPrefix(p, b.goroot+"/"))
		}
	}
	for dir := range strings.Lines(string(dirs)) {
		dir = strings.TrimPrefix(strings.TrimSpace(dir), b.goroot+"/")
		list, _ := os.ReadDir(filepath.Join(b.goroot, dir))
		for _, e := range list {
			if e.Type().IsRegular() {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	for _, name := range files {
		from, to := filepath.Join(b.goroot, name), filepath.Join(b.part, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(from); err != nil {
			t.Logf("not in this toolchain: %v", err)
		} else if err := os.WriteFile(to, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.run(t, ModeContainer, func(spec Spec) (Result, *output) { return te.run(t, spec) })
}

func (b besideTree) run(t *testing.T, mode Mode, run func(Spec) (Result, *output)) {
	for _, c := range []struct {
		dir, overlay string
		argv         []string
		want         []string
	}{
		{"/src", "top", []string{"go", "test", "-v", "-count=1", "-vet=off", "-overlay=../overlay/overlay.json", "./..."},
			[]string{"--- PASS: TestOne ", "--- PASS: TestAdded ", "--- PASS: TestTwo ", "ok  \texample.org/beside/a", "ok  \texample.org/beside/sub/b"}},
		{"/src/sub", "below", []string{"go", "test", "-v", "-count=1", "-vet=off", "-overlay=../../overlay/overlay.json", "./..."},
			[]string{"--- PASS: TestAdded ", "--- PASS: TestTwo ", "ok  \texample.org/beside/sub/b"}},
		{"/src", "top", []string{"go", "test", "-v", "-count=1", "-vet=off", "-overlay=/overlay/overlay.json", "./a"}, []string{"--- PASS: TestAdded "}},
		{"/src/a", "top", []string{"/tests/a.test", "-test.v"}, []string{"--- PASS: TestOne ", "PASS\n"}},
		{"/src/a", "top", []string{"../../tests/a.test", "-test.v"}, []string{"--- PASS: TestOne ", "PASS\n"}},
		{"/src/a", "top", []string{"../../tests/run.sh"}, []string{"ran in /"}},
		{"/tests", "top", []string{"./run.sh"}, []string{"ran in /"}},
		{"/src", "top", sh("for f in ../overlay/c_test.go ../tests/a.test /tests/run.sh; do (: >>$f) 2>/dev/null && echo changed $f; done; (: >/overlay/x) 2>/dev/null && echo changed && rm /overlay/x\ncat ../overlay/c_test.go; ls /tests; ls ../tests"),
			[]string{besideModule["top/c_test.go"] + "a.test\nrun.sh\na.test\nrun.sh\n"}},
	} {
		mounts := []Mount{
			{Source: filepath.Join(b.dir, "module"), Target: "/src", Kind: Overlay},
			{Source: filepath.Join(b.dir, c.overlay), Target: "/overlay", Kind: ReadOnly},
			{Source: filepath.Join(b.dir, "compiled"), Target: "/tests", Kind: ReadOnly},
		}
		if c.argv[0] == "go" {
			mounts = append(mounts, Mount{Source: b.cache, Target: "/cache/build", Kind: Overlay})
			if b.part != "" {
				mounts = append(mounts, Mount{Source: b.part, Target: b.goroot, Kind: ReadOnly})
			} else if !strings.HasPrefix(b.goroot, "/usr/") {
				mounts = append(mounts, Mount{Source: b.goroot, Target: b.goroot, Kind: ReadOnly})
			}
		}
		r, out := run(Spec{Argv: c.argv, Dir: c.dir, Env: goEnv(b.goroot, "/cache/build"), Mounts: mounts})
		text := out.stdout.String()
		lacks := slices.DeleteFunc(c.want, func(want string) bool { return strings.Contains(text, want) })
		changed := mode != ModeNone && strings.Contains(text, "changed ")
		if r.State != StateExited || r.Exit != 0 || len(lacks) > 0 || changed {
			t.Errorf("%q in %s: %s %d %s, lacks %q\n%s%s", c.argv, c.dir, r.State, r.Exit, r.Why, lacks, text, out.stderr.String())
		}
	}
	for name, content := range besideModule {
		if text, err := os.ReadFile(filepath.Join(b.dir, name)); string(text) != content {
			t.Errorf("%s afterwards: %q, %v", name, text, err)
		}
	}
}

// TestLinkBox: every target that lies in nothing else is in the box, whatever was
// mounted before and after it, and nothing is put into a source.
func TestLinkBox(t *testing.T) {
	t.Parallel()
	dir := reachableDir(t)
	for _, name := range []string{"one", "two/b"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "file"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for name, c := range map[string]struct {
		mounts []Mount
		want   map[string]string // content of a file by its path in the box; "" for none
	}{
		"beside":        {[]Mount{{one, "/one", ReadOnly}, {two, "/x/two", Writable}}, map[string]string{"one/file": "one", "x/two/b/file": "two/b"}},
		"a file":        {[]Mount{{one + "/file", "/x/f", ReadOnly}}, map[string]string{"x/f": "one"}},
		"copied":        {[]Mount{{one, "/one", Overlay}}, map[string]string{"one/file": "one"}},
		"in a copy":     {[]Mount{{two, "/src", Overlay}, {one, "/src/one", ReadOnly}}, map[string]string{"src/b/file": "two/b", "src/one/file": "one"}},
		"in a scratch":  {[]Mount{{one, "/tmp/one", ReadOnly}}, map[string]string{"tmp/one/file": "one"}},
		"covered":       {[]Mount{{one, "/x/b", ReadOnly}, {two, "/x", Overlay}}, map[string]string{"x/b/file": "two/b"}},
		"twice":         {[]Mount{{one, "/x", ReadOnly}, {two, "/x", ReadOnly}}, map[string]string{"x/b/file": "two/b", "x/file": ""}},
		"over a folder": {[]Mount{{one, "/home", ReadOnly}}, map[string]string{"home/sandbox/file": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := newView(c.mounts, os.Geteuid(), os.Getegid(), false)
			defer v.remove()
			if err != nil {
				t.Fatal(err)
			}
			for p, want := range c.want {
				if b, err := os.ReadFile(filepath.Join(v.box, p)); string(b) != want || (err == nil) != (want != "") {
					t.Errorf("%s: %q, %v", p, b, err)
				}
			}
		})
	}
	var left []string
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if !d.IsDir() {
			left = append(left, strings.TrimPrefix(p, dir))
		}
		return err
	})
	if !slices.Equal(left, []string{"/one/file", "/two/b/file"}) {
		t.Errorf("sources afterwards: %q", left)
	}
}
