package runner

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
	"github.com/truegreen-dev/truegreen/sandbox"
)

// cargo fetches with cargo fetch what Cargo.lock pins. It does so for a package of
// its own, which depends on all that the lock file lists: a manifest of the tree
// could name other places, and cargo's answers to what is there are recorded. That
// the package came to nothing but what is pinned is checked afterwards.
type cargo struct{}

// cargoHome is CARGO_HOME of the tests.
const cargoHome = "/cache/cargo"

func (cargo) name() string       { return "cargo" }
func (cargo) commands() []string { return []string{"cargo"} }

func (cargo) steps(hostTool) [][]string { return [][]string{{"cargo", "fetch"}} }

func (cargo) environment(environ []string) map[string]string {
	env := map[string]string{"CARGO_HOME": depsDir + "/home", "CARGO_TERM_COLOR": "never"}
	for name, index := range cargoRegistries(environ) {
		env[registryVariable(name)] = index
	}
	return env
}

func (cargo) supply(c filled) supply {
	s := supply{
		env:    map[string]string{"CARGO_HOME": cargoHome},
		mounts: []sandbox.Mount{{Source: filepath.Join(c.path, "home"), Target: cargoHome, Kind: sandbox.Overlay}},
	}
	for name, index := range cargoRegistries(c.environ) {
		scheme, rest, ok := strings.Cut(index, "+")
		if !ok {
			scheme, rest = "", index
		} else {
			scheme += "+"
		}
		if u, err := url.Parse(rest); err == nil { // tests have no use for a password
			u.User = nil
			s.env[registryVariable(name)] = scheme + u.String()
		}
	}
	return s
}

// cargoRegistries returns the indexes of the registries that the caller's
// environment names, by their names in a manifest.
func cargoRegistries(environ []string) map[string]string {
	found := map[string]string{}
	for _, kv := range environ {
		key, index, _ := strings.Cut(kv, "=")
		name, ok := strings.CutPrefix(key, "CARGO_REGISTRIES_")
		if name, is := strings.CutSuffix(name, "_INDEX"); ok && is && cargoName().MatchString(name) {
			found[strings.ToLower(strings.ReplaceAll(name, "_", "-"))] = index
		}
	}
	return found
}

func registryVariable(name string) string {
	return "CARGO_REGISTRIES_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_INDEX"
}

var defaultToolchain = lazy.Regexp(`(?m)^default_toolchain = "([\w.-]+)"$`)

// find looks for cargo. What rustup puts on the PATH is a switch that may fetch
// toolchains: the one behind it is found by rustup's own settings.
func (cargo) find(environ []string) (hostTool, error) {
	bin, err := lookReal("cargo")
	if err != nil {
		return hostTool{}, err
	}
	if filepath.Base(bin) == "rustup" {
		home := variable(environ, "RUSTUP_HOME")
		if home == "" {
			home = filepath.Join(variable(environ, "HOME"), ".rustup")
		}
		name := variable(environ, "RUSTUP_TOOLCHAIN")
		if name == "" {
			settings, err := readSmall(filepath.Join(home, "settings.toml"), maxConfig)
			if m := defaultToolchain().FindSubmatch(settings); err == nil && m != nil {
				name = string(m[1])
			}
		}
		if name == "" || name == ".." || strings.Contains(name, "/") {
			return hostTool{}, errors.New("rustup has no default toolchain")
		}
		bin, err = filepath.EvalSymlinks(filepath.Join(home, "toolchains", name, "bin/cargo"))
		if err != nil {
			return hostTool{}, fmt.Errorf("rustup: there is no toolchain %s", name)
		}
	}
	t := hostTool{program: filepath.Base(bin)}
	if t.version, err = fileDigest(bin); err != nil {
		return hostTool{}, err
	}
	t.addRoot(filepath.Dir(filepath.Dir(bin)))
	if len(t.roots) > 0 {
		t.bin = filepath.Dir(bin)
	}
	return t, nil
}

func fileDigest(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// fetched checks that what cargo came to is pinned, each package by its checksum.
func (cargo) fetched(dir string, want *locked) error {
	text, err := readSmall(filepath.Join(dir, "Cargo.lock"), maxLock)
	if err != nil {
		return err
	}
	list, err := readCargoLock(text)
	if err != nil {
		return err
	}
	missing := map[string]bool{}
	for _, line := range want.modules {
		missing[line] = true
	}
	for _, c := range list {
		if _, ok := missing[c.line()]; !ok && c.source != "" {
			return fmt.Errorf("%s %s is not in the tree's Cargo.lock", c.name, c.version)
		}
		delete(missing, c.line())
	}
	for line := range missing {
		return fmt.Errorf("%s was not fetched", line)
	}
	return nil
}
