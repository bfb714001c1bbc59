package runner

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// A module that comes from a proxy on the loopback, and is not there a second time.
func TestGoModules(t *testing.T) {
	t.Parallel()
	if findGo().goroot == "" {
		t.Skip("needs go")
	}
	lib, mod := t.TempDir(), "module lib.example.com/lib\n\ngo 1.21\n"
	archive := filepath.Join(t.TempDir(), "lib.zip")
	z, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"go.mod": mod, "lib.go": "package lib\n\nimport _ \"errors\"\n"} {
		if err := os.WriteFile(filepath.Join(lib, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := zip.CreateFromDir(z, module.Version{Path: "lib.example.com/lib", Version: "v1.0.0"}, lib); err != nil {
		t.Fatal(err)
	}
	z.Close()
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := dirhash.HashZip(archive, dirhash.Hash1)
	if err != nil {
		t.Fatal(err)
	}
	modSum, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(mod)), nil })
	if err != nil {
		t.Fatal(err)
	}
	r := newRegistry(t)
	for name, content := range map[string]string{".info": `{"Version":"v1.0.0"}`, ".mod": mod, ".zip": string(content)} {
		r.serve("/lib.example.com/lib/@v/v1.0.0"+name, content)
	}

	p := newPatchRun(t, map[string]string{"GOPROXY": r.URL, "GOSUMDB": "off", "GOMODCACHE": t.TempDir(), "GOFLAGS": "", "GOENV": "off"})
	// The tree is compiled in the test, what go.sum locks was before.
	p.write(".truegreen.yaml", "test: [{name: go, run: [sh, -c, \"go build -x . 2>/tmp/log; grep -q ' -p example.com/x ' /tmp/log && ! grep ' -p lib.example.com/lib ' /tmp/log\"], format: exit}]\n")
	p.commit("base")
	p.write("go.mod", "module example.com/x\n\ngo 1.21\n\nrequire lib.example.com/lib v1.0.0\n")
	p.write("x.go", "package x\n\nimport _ \"lib.example.com/lib\"\n")
	lines := []string{"lib.example.com/lib v1.0.0 " + sum, "lib.example.com/lib v1.0.0/go.mod " + modSum}
	p.write("go.sum", strings.Join(lines, "\n")+"\n")
	report, steps, modules := p.run()
	green(t, report)
	var names []string
	for _, s := range steps {
		names = append(names, fmt.Sprint(s.Args.Name, " ", s.Result.State, " ", s.Result.Exit))
	}
	if want := []string{"modules exited 1", "modules-download exited 0", "modules-verify exited 0", "modules exited 0", "go-std exited 0", "go-deps exited 0"}; !slices.Equal(names, want) {
		t.Errorf("steps %q, want %q", names, want)
	}
	if want := slices.Concat(lines, lines, lines, lines); !slices.Equal(modules, want) {
		t.Errorf("modules %q, want %q", modules, want)
	}
	r.requests()

	p.write("y.go", "package x\n")
	report, _, modules = p.run()
	green(t, report)
	if asked := r.requests(); asked != nil || !slices.Equal(modules, slices.Concat(lines, lines)) {
		t.Errorf("asked for %q, modules %q", asked, modules)
	}
}
