package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
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

// mounts returns what a command needs of the toolchain, of compiled packages and of
// modules; "" is none.
func (t *toolchain) mounts(build, modules string) []sandbox.Mount {
	var list []sandbox.Mount
	if t.goroot != "" && !strings.HasPrefix(t.goroot, "/usr/") {
		list = append(list, sandbox.Mount{Source: t.goroot, Target: t.goroot, Kind: sandbox.ReadOnly})
	}
	if build != "" {
		list = append(list, sandbox.Mount{Source: build, Target: buildDir, Kind: sandbox.Overlay})
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
	if j.vendored(side, dir) {
		mod = "-mod=vendor"
	}
	cache := buildDir
	if j.builds[side] == "" {
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

// vendored reports whether the module in dir of a side's tree brings along the
// modules that it needs.
func (j *job) vendored(side int, dir string) bool {
	_, ok := j.listings[side].listing.Find(path.Join(dir, "vendor/modules.txt"))
	return ok
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
