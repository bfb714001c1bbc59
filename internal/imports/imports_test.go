package imports

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/truegreen-dev/truegreen"

// A pkg is what go list says about a package.
type pkg struct {
	ImportPath   string
	Standard     bool
	Dir          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// packages lists the module's packages and all that they depend on, on Linux,
// where every part of the program is built.
var packages = sync.OnceValues(func() (map[string]*pkg, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Dir,GoFiles,Imports,TestImports,XTestImports,Deps", module+"/...")
	cmd.Env = append(cmd.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(string(exit.Stderr))
		}
		return nil, err
	}
	all := map[string]*pkg{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(pkg)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
})

func list(t *testing.T) map[string]*pkg {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command")
	}
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ours reports whether a package is of this module, and its path in it.
func ours(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// A rule says what packages do not import: directly, or through anything.
type rule struct {
	of       []string // packages of the module, if they are there yet
	never    []string // packages; of this module with a leading "./"
	directly bool
	why      string
}

var rules = []rule{
	{
		of:    []string{"receipts", "receipts/dsse", "receipts/jws", "receipts/pipelock", "receipts/foreign", "bundle", "verifier", "verifier/expression", "verifier/source", "guard", "forge", "store", "store/oci", "internal/strictjson", "internal/jcs", "internal/fixture"},
		never: []string{"os/exec", "plugin", "./sandbox", "./verifier/runner"},
		why:   "whoever checks evidence cannot run code",
	},
	{
		of:    []string{"sandbox"},
		never: []string{"./receipts", "./bundle", "./verifier", "./guard", "./forge", "./store", "./internal/strictjson"},
		why:   "what is recorded cannot shape its own record",
	},
	{
		of:    []string{"sandbox/conformance"},
		never: []string{"./receipts", "./bundle", "./verifier", "./guard", "./forge", "./store", "./internal/strictjson", "./internal/fixture"},
		why:   "the attacker inside has nothing of what judges evidence, and knows the sandbox alone",
	},
	{
		of:    []string{"sandbox", "verifier", "verifier/runner", "forge"},
		never: []string{"./sandbox/conformance"},
		why:   "attacks are for the self-test: nothing but the command carries them",
	},
	{
		of:       []string{"receipts", "receipts/dsse", "receipts/jws", "receipts/pipelock", "receipts/foreign", "bundle", "verifier", "verifier/expression", "verifier/source", "guard", "sandbox", "sandbox/conformance"},
		never:    []string{"net", "net/http", "crypto/tls", "golang.org/x/crypto/ssh/agent"},
		directly: true,
		why:      "checking works offline; dialling is the caller's, which passes it in",
	},
	{
		of:    []string{"receipts"},
		never: []string{"net", "os/exec", "crypto/x509", "golang.org/x/crypto/ssh", "github.com/klauspost/compress/zstd"},
		why:   "the formats need hashes and nothing else",
	},
	{
		of:    []string{"receipts", "receipts/jws", "receipts/pipelock", "receipts/foreign"},
		never: []string{"./bundle", "./verifier"},
		why:   "imports point one way: verifier, bundle, receipts",
	},
	{
		of:       []string{"guard"},
		never:    []string{"os", "syscall", "./bundle", "./verifier"},
		directly: true,
		why:      "the guard is pure: text in, a report out",
	},
	{
		of:    []string{"bundle"},
		never: []string{"./verifier"},
		why:   "imports point one way: verifier, bundle, receipts",
	},
	{
		of:    []string{"verifier", "verifier/runner", "forge", "store", "cmd/truegreen"},
		never: []string{"cel.dev/cel-go/cel", "./verifier/expression", "oras.land/oras-go/v2/registry", "github.com/opencontainers/go-digest", "./store/oci"},
		why:   "the language of expressions is large, and the client of registries works at each start: programs of their own have them, so that no other starts slower",
	},
	{
		of:    []string{"verifier/source", "verifier/expression"},
		never: []string{"./receipts", "./bundle", "./verifier", "./sandbox"},
		why:   "they read text that they are given, and know nothing of evidence",
	},
	{
		of:    []string{"verifier", "verifier/runner", "sandbox", "guard"},
		never: []string{"./forge", "./store", "./cmd/truegreen", "github.com/spf13/cobra"},
		why:   "libraries know neither the command line nor where they are used",
	},
	{
		of:    []string{"cmd/truegreen", "verifier", "verifier/runner", "forge", "store", "store/oci"},
		never: []string{"./internal/githubtest", "./internal/registrytest", "./internal/storetest", "github.com/getkin/kin-openapi/openapi3"},
		why:   "the fakes of a forge and of a registry are for tests",
	},
	{
		of:    []string{"forge"},
		never: []string{"./sandbox", "./verifier/runner", "./store"},
		why:   "what speaks to the forge shows verified reports and runs nothing",
	},
	{
		of:    []string{"store"},
		never: []string{"./verifier/runner", "./sandbox", "./cmd/truegreen"},
		why:   "a store hands bytes over: command, then store, then forge",
	},
	{
		of:       []string{"store"},
		never:    []string{"./verifier", "./bundle", "./receipts"},
		directly: true,
		why:      "nothing that a store says is evidence, so it judges none",
	},
}

func TestRules(t *testing.T) {
	all := list(t)
	for _, r := range rules {
		for _, of := range r.of {
			p := all[module+"/"+of]
			if p == nil {
				continue // not written yet
			}
			has := p.Deps
			if r.directly {
				has = p.Imports
			}
			for _, never := range r.never {
				if rest, ok := strings.CutPrefix(never, "./"); ok {
					never = module + "/" + rest
				}
				if slices.Contains(has, never) {
					t.Errorf("%s imports %s (%s): %s", of, never, strings.Join(chain(all, p.ImportPath, never), " → "), r.why)
				}
			}
		}
	}
}

// chain returns one way on which a package comes to import another.
func chain(all map[string]*pkg, from, to string) []string {
	type step struct {
		at  string
		way []string
	}
	seen := map[string]bool{}
	for queue := []step{{from, []string{from}}}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		if s.at == to {
			return s.way
		}
		if seen[s.at] || all[s.at] == nil {
			continue
		}
		seen[s.at] = true
		for _, next := range all[s.at].Imports {
			queue = append(queue, step{next, append(slices.Clone(s.way), next)})
		}
	}
	return nil
}

// TestDependencies holds the packages that strangers build on to few others.
func TestDependencies(t *testing.T) {
	all := list(t)
	for of, allowed := range map[string][]string{
		"internal/strictjson": nil,
		"receipts":            {"golang.org/x/mod", module + "/internal/strictjson"},
		"receipts/dsse":       {module + "/internal/strictjson"},
		"receipts/jws":        {module + "/internal/strictjson"},
		"receipts/foreign": {
			"golang.org/x/mod", "golang.org/x/crypto", "golang.org/x/sys", "golang.org/x/text", "github.com/go-jose/go-jose/v4",
			module + "/internal/strictjson", module + "/internal/jcs", module + "/receipts",
		},
		"receipts/pipelock": {"golang.org/x/text", module + "/internal/strictjson"},
		"bundle": {
			"golang.org/x/mod", "golang.org/x/crypto", "golang.org/x/sys", "github.com/klauspost/compress",
			module + "/internal/strictjson", module + "/receipts",
		},
		"verifier": {
			"golang.org/x/mod", "golang.org/x/crypto", "golang.org/x/sys", "github.com/klauspost/compress", "go.yaml.in/yaml/v4",
			"golang.org/x/text", "github.com/go-jose/go-jose/v4", // by what it knows of receipts of other tools
			module + "/internal/strictjson", module + "/internal/jcs", module + "/internal/lazy", module + "/receipts", module + "/bundle", module + "/verifier/source",
		},
		"forge": {
			"golang.org/x/mod", "golang.org/x/crypto", "golang.org/x/sys", "github.com/klauspost/compress", "go.yaml.in/yaml/v4",
			"github.com/google/go-github/v60", "github.com/google/go-querystring",
			"golang.org/x/text", "github.com/go-jose/go-jose/v4", // by what the guard knows of receipts
			module + "/internal/strictjson", module + "/internal/jcs", module + "/internal/lazy", module + "/receipts", module + "/guard", module + "/bundle", module + "/verifier",
		},
		"guard": {
			"golang.org/x/mod", "golang.org/x/crypto", "golang.org/x/sys", "golang.org/x/text", "github.com/go-jose/go-jose/v4",
			module + "/internal/strictjson", module + "/internal/jcs", module + "/receipts",
		},
		"store": {
			"golang.org/x/mod", "golang.org/x/crypto", "golang.org/x/sys", "golang.org/x/sync", "github.com/klauspost/compress", "go.yaml.in/yaml/v4",
			"github.com/google/go-github/v60", "github.com/google/go-querystring", "golang.org/x/text", "github.com/go-jose/go-jose/v4",
			module + "/internal/strictjson", module + "/internal/jcs", module + "/internal/lazy", module + "/receipts", module + "/guard", module + "/bundle", module + "/verifier", module + "/forge",
		},
		"verifier/source": {"golang.org/x/mod"},
		"verifier/expression": {
			"cel.dev/cel-go", "cel.dev/expr", "github.com/antlr4-go/antlr/v4", "go.yaml.in/yaml/v3", "golang.org/x/exp",
			"google.golang.org/genproto/googleapis/api", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf",
		},
		"sandbox":             {"golang.org/x/sys"},
		"sandbox/conformance": {"golang.org/x/sys", module + "/sandbox"},
	} {
		p := all[module+"/"+of]
		if p == nil {
			t.Errorf("%s: is gone", of)
			continue
		}
		for _, dep := range p.Deps {
			if all[dep].Standard || slices.ContainsFunc(allowed, func(a string) bool { return dep == a || strings.HasPrefix(dep, a+"/") }) {
				continue
			}
			t.Errorf("%s imports %s (%s), which is not one of %v", of, dep, strings.Join(chain(all, p.ImportPath, dep), " → "), allowed)
		}
	}
}

// TestFixture: what forges evidence is for tests and the self-test.
func TestFixture(t *testing.T) {
	const fixture = module + "/internal/fixture"
	for _, p := range list(t) {
		rel, ok := ours(p.ImportPath)
		if !ok || rel == "internal/fixture" || !slices.Contains(p.Imports, fixture) {
			continue
		}
		if rel != "cmd/truegreen" {
			t.Errorf("%s imports internal/fixture: what forges evidence is for tests and the self-test", rel)
		}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if i.Path.Value == `"`+fixture+`"` && !strings.HasPrefix(name, "selftest") {
					t.Errorf("%s/%s imports internal/fixture: only the self-test does", rel, name)
				}
			}
		}
	}
}

// Only the command prints, reads the environment and exits; libraries are given
// what they need, and return what they have to say.
var reserved = map[string][]string{
	"os":      {"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Unsetenv", "Exit", "Stdin", "Stdout", "Stderr", "UserHomeDir", "UserCacheDir", "UserConfigDir"},
	"fmt":     {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"log":     nil, // all of it
	"flag":    nil,
	"syscall": {"Exit", "Getenv", "Environ"},
}

// exceptions are uses in a library that are not what the rule is about.
var exceptions = map[string]string{
	"sandbox/child_linux.go syscall.Exit":   "a re-executed process is no caller's: it ends here",
	"sandbox/probe_linux.go os.Environ":     "the probe asks whether the environment is the one that was given",
	"sandbox/container_linux.go os.Environ": "the engine's command is the caller's own, and finds its daemon by it",
	"sandbox/conformance":                   "all of it runs in processes of its own, as the supervisor of a self-test or as the tested code",
}

func TestOnlyCommandsPrintAndExit(t *testing.T) {
	used := map[string]bool{}
	for _, p := range list(t) {
		rel, ok := ours(p.ImportPath)
		if !ok || strings.HasPrefix(rel, "cmd/") {
			continue
		}
		for _, name := range p.GoFiles {
			for _, what := range uses(t, filepath.Join(p.Dir, name)) {
				key := path.Join(rel, name) + " " + what
				excepted := false
				for _, k := range []string{key, rel} {
					if _, ok := exceptions[k]; ok {
						used[k], excepted = true, true
					}
				}
				if excepted {
					continue
				}
				t.Errorf("%s: only cmd prints, reads the environment and exits", key)
			}
		}
	}
	for key := range exceptions {
		if !used[key] {
			t.Errorf("%s: is not there any more: remove the exception", key)
		}
	}
}

// uses returns what a file uses of the reserved names.
func uses(t *testing.T, file string) (found []string) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // in the file → import path
	for _, i := range f.Imports {
		p := strings.Trim(i.Path.Value, `"`)
		if _, ok := reserved[p]; !ok {
			continue
		}
		names[path.Base(p)] = p
		if i.Name != nil {
			delete(names, path.Base(p))
			names[i.Name.Name] = p
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			p, ok := names[x.Name]
			if ok && (reserved[p] == nil || slices.Contains(reserved[p], n.Sel.Name)) {
				found = append(found, p+"."+n.Sel.Name)
			}
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && (x.Name == "print" || x.Name == "println") {
				found = append(found, x.Name)
			}
		}
		return true
	})
	return found
}
