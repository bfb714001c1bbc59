package runner

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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
		if name, is := strings.CutSuffix(name, "_INDEX"); ok && is && cargoName.MatchString(name) {
			found[strings.ToLower(strings.ReplaceAll(name, "_", "-"))] = index
		}
	}
	return found
}

func registryVariable(name string) string {
	return "CARGO_REGISTRIES_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_INDEX"
}

var (
	defaultToolchain = regexp.MustCompile(`(?m)^default_toolchain = "([\w.-]+)"$`)
	cargoName        = regexp.MustCompile(`^\w[\w-]{0,63}$`)
	cargoVersion     = regexp.MustCompile(`^\d+\.\d+\.\d+[0-9A-Za-z.+-]{0,200}$`)
	cargoSource      = regexp.MustCompile(`^(registry|sparse)\+https?://[^\s"'\\()]+$`)
	cargoChecksum    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	cargoDependency  = regexp.MustCompile(`^ "([^"\\]+)",$`)
	cargoFormat      = regexp.MustCompile(`^version = [34]$`)
	cargoString      = regexp.MustCompile(`^(\w+) = "([^"\\]*)"$`)
)

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
			if m := defaultToolchain.FindSubmatch(settings); err == nil && m != nil {
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

// A crate is a package of a lock file. One without a source is in the tree.
type crate struct {
	name, version, source, checksum string
	dependencies                    []string
}

func (c *crate) line() string { return c.name + " " + c.version + " " + c.checksum }

func (cargo) lock(f treeDir, environ []string) (*locked, error) {
	text, err := f.read("Cargo.lock")
	if errors.Is(err, fs.ErrNotExist) {
		if manifest, err := f.read("Cargo.toml"); err != nil || !cargoRequires.Match(manifest) {
			return nil, nil
		}
		return nil, unlocked("there is no Cargo.lock")
	}
	if err != nil {
		return nil, err
	}
	for _, name := range [...]string{".cargo/config.toml", ".cargo/config"} {
		if settings, err := f.read(name); err == nil && strings.Contains(string(settings), "replace-with") {
			return nil, unlocked("%s says where packages are", name)
		}
	}
	all, err := readCargoLock(text)
	if err != nil {
		return nil, unlocked("Cargo.lock: %v", err)
	}
	crates := slices.DeleteFunc(all, func(c crate) bool { return c.source == "" })
	if len(crates) == 0 {
		return nil, nil
	}
	want := &locked{files: map[string][]byte{"src/lib.rs": nil}}
	if err := want.cargoPackage(crates, cargoRegistries(environ)); err != nil {
		return nil, unlocked("Cargo.lock: %v", err)
	}
	return want, nil
}

// cargoRequires finds a table or key of dependencies in a manifest.
var cargoRequires = regexp.MustCompile(`(?m)^\s*\[?[\w.'"() =-]*dependencies`)

// cargoPackage makes the package that depends on all crates.
func (l *locked) cargoPackage(crates []crate, registries map[string]string) error {
	names := map[string]string{}
	for name, index := range registries {
		if !strings.HasPrefix(index, "sparse+") {
			index = "registry+" + index
		}
		names[index] = name
	}
	var manifest, lock strings.Builder
	manifest.WriteString("[package]\nname = \"truegreen\"\nversion = \"0.0.0\"\nedition = \"2018\"\n\n[workspace]\n\n[dependencies]\n")
	lock.WriteString("version = 3\n\n[[package]]\nname = \"truegreen\"\nversion = \"0.0.0\"\ndependencies = [\n")
	usual := ""
	for i := range crates {
		c := &crates[i]
		if err := c.check(); err != nil {
			return err
		}
		registry := ""
		if name, ok := names[c.source]; ok {
			registry = fmt.Sprintf(", registry = %q", name)
		} else if usual == "" {
			usual = c.source // cargo's own default, or what is fetched is not this
		} else if usual != c.source {
			return fmt.Errorf("%s: from a registry that the host does not name", c.name)
		}
		fmt.Fprintf(&manifest, "d%d = { package = %q, version = \"=%s\", default-features = false%s }\n", i, c.name, c.version, registry)
		fmt.Fprintf(&lock, " \"%s %s (%s)\",\n", c.name, c.version, c.source)
		l.modules = append(l.modules, c.line())
	}
	lock.WriteString("]\n")
	for _, c := range crates {
		fmt.Fprintf(&lock, "\n[[package]]\nname = %q\nversion = %q\nsource = %q\nchecksum = %q\n", c.name, c.version, c.source, c.checksum)
		if len(c.dependencies) > 0 {
			fmt.Fprintf(&lock, "dependencies = [\n \"%s\",\n]\n", strings.Join(c.dependencies, "\",\n \""))
		}
	}
	l.files["Cargo.toml"], l.files["Cargo.lock"] = []byte(manifest.String()), []byte(lock.String())
	return nil
}

func (c *crate) check() error {
	switch {
	case !cargoName.MatchString(c.name) || !cargoVersion.MatchString(c.version):
		return fmt.Errorf("%q %q: not a package", c.name, c.version)
	case !cargoSource.MatchString(c.source):
		return fmt.Errorf("%s: not from a registry", c.name)
	case !cargoChecksum.MatchString(c.checksum):
		return fmt.Errorf("%s: no checksum", c.name)
	}
	return nil
}

// readCargoLock reads a lock file in the form that cargo writes, and no other.
func readCargoLock(text []byte) ([]crate, error) {
	var list []crate
	in, dependencies := "", false
	for n, line := range strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n") {
		c := &crate{}
		if len(list) > 0 && in == "[[package]]" {
			c = &list[len(list)-1]
		}
		m := cargoString.FindStringSubmatch(line)
		switch {
		case dependencies:
			if d := cargoDependency.FindStringSubmatch(line); d != nil {
				c.dependencies = append(c.dependencies, d[1])
			} else if dependencies = line != "]"; dependencies {
				return nil, fmt.Errorf("line %d: not in the form that cargo writes", n+1)
			}
		case line == "" || strings.HasPrefix(line, "#"):
		case line == "[[package]]":
			if in = line; len(list) == maxModules {
				return nil, fmt.Errorf("more than %d packages", maxModules)
			}
			list = append(list, crate{})
		case line == "[[patch.unused]]" || line == "[metadata]":
			in = line
		case in == "" && cargoFormat.MatchString(line), in == "[metadata]":
		case line == "dependencies = [" && in != "":
			dependencies = true
		case m != nil && in != "" && c.set(m[1], m[2]):
		default:
			return nil, fmt.Errorf("line %d: not in the form that cargo writes", n+1)
		}
	}
	return list, nil
}

func (c *crate) set(key, value string) bool {
	to, ok := map[string]*string{"name": &c.name, "version": &c.version, "source": &c.source, "checksum": &c.checksum, "replace": new(string)}[key]
	if !ok || *to != "" {
		return false
	}
	*to = value
	return true
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
	got := map[string]bool{}
	for _, c := range list {
		if c.source == "" {
			continue
		}
		if got[c.line()] = true; !slices.Contains(want.modules, c.line()) {
			return fmt.Errorf("%s %s is not in the tree's Cargo.lock", c.name, c.version)
		}
	}
	for _, line := range want.modules {
		if !got[line] {
			return fmt.Errorf("%s was not fetched", line)
		}
	}
	return nil
}
