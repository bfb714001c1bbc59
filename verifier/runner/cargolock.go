package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
)

var (
	cargoName       = lazy.Regexp(`^\w[\w-]{0,63}$`)
	cargoVersion    = lazy.Regexp(`^\d+\.\d+\.\d+[0-9A-Za-z.+-]{0,200}$`)
	cargoSource     = lazy.Regexp(`^(registry|sparse)\+https?://[^\s"'\\()]+$`)
	cargoChecksum   = lazy.Regexp(`^[0-9a-f]{64}$`)
	cargoDependency = lazy.Regexp(`^ "([^"\\]+)",$`)
	cargoFormat     = lazy.Regexp(`^version = [34]$`)
	cargoString     = lazy.Regexp(`^(\w+) = "([^"\\]*)"$`)
)

// A crate is a package of a lock file. One without a source is in the tree.
type crate struct {
	name, version, source, checksum string
	dependencies                    []string
}

func (c *crate) line() string { return c.name + " " + c.version + " " + c.checksum }

func (cargo) lock(f treeDir, environ []string) (*locked, error) {
	text, err := f.read("Cargo.lock")
	if errors.Is(err, fs.ErrNotExist) {
		if manifest, err := f.read("Cargo.toml"); err != nil || !cargoRequires().Match(manifest) {
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
var cargoRequires = lazy.Regexp(`(?m)^\s*\[?[\w.'"() =-]*dependencies`)

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
	case !cargoName().MatchString(c.name) || !cargoVersion().MatchString(c.version):
		return fmt.Errorf("%q %q: not a package", c.name, c.version)
	case !cargoSource().MatchString(c.source):
		return fmt.Errorf("%s: not from a registry", c.name)
	case !cargoChecksum().MatchString(c.checksum):
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
		m := cargoString().FindStringSubmatch(line)
		switch {
		case dependencies:
			if d := cargoDependency().FindStringSubmatch(line); d != nil {
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
		case in == "" && cargoFormat().MatchString(line), in == "[metadata]":
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
