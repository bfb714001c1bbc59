package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// npm fetches with npm ci what package-lock.json pins. The packages appear beside
// it, in node_modules.
type npm struct{}

func (npm) name() string       { return "npm" }
func (npm) commands() []string { return []string{"npm", "npx", "node"} }

func (npm) steps(hostTool) [][]string { return [][]string{{"npm", "ci", "--ignore-scripts"}} }

func (npm) environment(environ []string) map[string]string {
	env := map[string]string{
		"npm_config_globalconfig": os.DevNull, "npm_config_cache": "/tmp/npm",
		"npm_config_audit": "false", "npm_config_fund": "false", "npm_config_update_notifier": "false",
		"npm_config_git": "/bin/false", // a package that comes out of a repository has no hash
	}
	for _, name := range [...]string{"NPM_CONFIG_REGISTRY", "npm_config_registry"} {
		if v := variable(environ, name); v != "" {
			env["npm_config_registry"] = v
		}
	}
	return env
}

func (npm) supply(c filled) supply {
	modules := filepath.Join(c.path, "node_modules")
	if !isDir(modules) {
		return supply{} // all that is locked is for other systems
	}
	// Tools write below node_modules, such as to node_modules/.cache.
	return supply{mounts: []sandbox.Mount{{Source: modules, Target: path.Join(verifier.InsideDir(c.dir), "node_modules"), Kind: sandbox.Overlay}}}
}

func (npm) fetched(string, *locked) error { return nil } // npm checks

func (npm) find([]string) (hostTool, error) {
	node, err := lookReal("node")
	if err != nil {
		return hostTool{}, err
	}
	script, err := lookReal("npm")
	if err != nil {
		return hostTool{}, err
	}
	root := filepath.Dir(filepath.Dir(script)) // …/lib/node_modules/npm/bin/npm-cli.js
	text, err := readSmall(filepath.Join(root, "package.json"), maxConfig)
	var manifest struct{ Name, Version string }
	if err != nil || json.Unmarshal(text, &manifest) != nil || manifest.Name != "npm" {
		return hostTool{}, fmt.Errorf("%s: not npm's own script", script)
	}
	t := hostTool{program: filepath.Base(node)}
	if t.version, err = fileDigest(node); err != nil { // it decides which optional packages are left out
		return hostTool{}, err
	}
	t.version += " npm " + manifest.Version
	prefix := filepath.Dir(filepath.Dir(node))
	t.addRoot(prefix)
	if !strings.HasPrefix(root, prefix+"/") {
		t.addRoot(root)
	}
	if len(t.roots) > 0 {
		t.bin = filepath.Join(prefix, "bin")
	}
	return t, nil
}

// lookReal finds a program on the PATH and follows its links.
func lookReal(name string) (string, error) {
	bin, err := exec.LookPath(name)
	if err == nil {
		bin, err = filepath.EvalSymlinks(bin)
	}
	if err != nil {
		return "", fmt.Errorf("there is no %s on this host", name)
	}
	return filepath.Abs(bin)
}
