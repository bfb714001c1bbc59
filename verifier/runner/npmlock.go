package runner

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
)

// npmManifest holds what npm ci needs of package.json: what is compared with the
// lock file.
var npmManifest = []string{
	"name", "version", "dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "peerDependenciesMeta", "overrides",
}

// npmRequires are the members that name packages. Their values say where from.
var npmRequires = []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "overrides"}

func (npm) lock(f treeDir, _ []string) (*locked, error) {
	text, err := f.read("package.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var manifest map[string]json.RawMessage
	if json.Unmarshal(text, &manifest) != nil {
		return nil, unlocked("package.json: not a JSON object")
	}
	for name := range manifest {
		if !slices.Contains(npmManifest, name) {
			delete(manifest, name)
		}
	}
	name := "npm-shrinkwrap.json" // npm's own order
	text, err = f.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		name = "package-lock.json"
		text, err = f.read(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if !requiresAny(manifest) {
			return nil, nil
		}
		return nil, unlocked("there is no package-lock.json")
	}
	if err != nil {
		return nil, err
	}
	if f.has("node_modules") {
		return nil, unlocked("node_modules is part of the tree")
	}
	want, err := readPackageLock(text)
	if err != nil {
		return nil, unlocked("%s: %v", name, err)
	}
	if want == nil {
		return nil, nil
	}
	if err := checkRequires(manifest); err != nil {
		return nil, unlocked("package.json: %v", err)
	}
	if settings, err := f.read(".npmrc"); err == nil && npmLegacy().Match(settings) {
		want.files[".npmrc"] = []byte("legacy-peer-deps=true\n")
	}
	want.files["package.json"], err = json.Marshal(manifest)
	return want, err
}

func requiresAny(manifest map[string]json.RawMessage) bool {
	for _, member := range npmRequires {
		var list map[string]json.RawMessage
		if json.Unmarshal(manifest[member], &list) == nil && len(list) > 0 && member != "overrides" {
			return true
		}
	}
	return false
}

var (
	// npmLegacy finds the one setting of a tree's .npmrc that is taken over: it
	// decides what a complete lock file is, and nothing else.
	npmLegacy    = lazy.Regexp(`(?m)^\s*legacy-peer-deps\s*=\s*"?true"?\s*$`)
	npmPlace     = lazy.Regexp(`^(?:node_modules/(?:@[\w.~-]+/)?[\w~-][\w.~-]*(?:/|$))+$`)
	npmName      = lazy.Regexp(`^(?:@[\w.~-]+/)?[\w~-][\w.~-]*$`)
	npmVersion   = lazy.Regexp(`^[0-9A-Za-z.+-]{1,256}$`)
	npmIntegrity = lazy.Regexp(`^sha512-[A-Za-z0-9+/]{86}==$`)
)

// readPackageLock reads a lock file and writes it again without the places that
// packages come from: the host's registry is asked for all. It returns nil if
// there are no packages.
func readPackageLock(text []byte) (*locked, error) {
	var lock struct {
		Version  int                                   `json:"lockfileVersion"`
		Packages map[string]map[string]json.RawMessage `json:"packages"`
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, errors.New("not a lock file")
	}
	if lock.Version != 2 && lock.Version != 3 {
		return nil, fmt.Errorf("lockfileVersion %d: neither 2 nor 3", lock.Version)
	}
	if len(lock.Packages) > maxModules {
		return nil, fmt.Errorf("more than %d packages", maxModules)
	}
	want := &locked{files: map[string][]byte{}}
	for _, at := range slices.Sorted(maps.Keys(lock.Packages)) {
		pkg := lock.Packages[at]
		if at != "" {
			line, err := lockedPackage(at, pkg, lock.Packages)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", at, err)
			}
			if line != "" {
				want.modules = append(want.modules, line)
			}
		}
		if err := checkRequires(pkg); err != nil {
			return nil, fmt.Errorf("%q: %w", at, err)
		}
	}
	if len(want.modules) == 0 {
		return nil, nil
	}
	out, err := json.Marshal(map[string]any{"lockfileVersion": 3, "requires": true, "packages": lock.Packages})
	want.files["package-lock.json"] = out
	return want, err
}

// lockedPackage checks one package and returns its line, "" for one that is in the
// archive of another.
func lockedPackage(at string, pkg map[string]json.RawMessage, all map[string]map[string]json.RawMessage) (string, error) {
	if isTrue(pkg["link"]) || !strings.HasPrefix(at, "node_modules/") {
		return "", errors.New("workspaces and linked folders are not fetched")
	}
	name := at[strings.LastIndex(at, "node_modules/")+len("node_modules/"):]
	if v, ok := pkg["name"]; ok {
		name = text(v)
	}
	version, integrity := text(pkg["version"]), text(pkg["integrity"])
	switch {
	case !npmPlace().MatchString(at) || strings.HasSuffix(at, "/") || !npmName().MatchString(name):
		return "", errors.New("not the name of a package")
	case !npmVersion().MatchString(version):
		return "", fmt.Errorf("version %q", version)
	}
	if v, ok := pkg["resolved"]; ok && !strings.HasPrefix(text(v), "https://") && !strings.HasPrefix(text(v), "http://") {
		return "", errors.New("not from a registry")
	}
	delete(pkg, "resolved")
	if i := strings.LastIndex(at, "/node_modules/"); i >= 0 && integrity == "" && isTrue(pkg["inBundle"]) && all[at[:i]] != nil {
		// The archive that holds it is pinned. Nothing has this hash: should
		// npm look for it elsewhere, it finds nothing that it takes.
		pkg["integrity"], _ = json.Marshal("sha512-" + base64.StdEncoding.EncodeToString(make([]byte, 64)))
		return "", nil
	}
	if !npmIntegrity().MatchString(integrity) {
		return "", errors.New("no sha512 integrity")
	}
	return name + " " + version + " " + integrity, nil
}

// text returns a JSON string, "" for any other value.
func text(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

func isTrue(v json.RawMessage) bool { return string(v) == "true" }

// checkRequires refuses what would make npm look elsewhere than in the registry:
// URLs, repositories and files.
func checkRequires(pkg map[string]json.RawMessage) error {
	for _, member := range npmRequires {
		if v, ok := pkg[member]; ok {
			var any any
			if err := json.Unmarshal(v, &any); err != nil {
				return err
			}
			if err := checkRanges(any); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkRanges(v any) error {
	switch v := v.(type) {
	case map[string]any:
		for _, v := range v {
			if err := checkRanges(v); err != nil {
				return err
			}
		}
	case string:
		alias, ok := strings.CutPrefix(v, "npm:")
		if ok && strings.HasPrefix(alias, "@") {
			_, alias, _ = strings.Cut(alias, "/")
		}
		if strings.ContainsAny(alias, ":/\\") {
			return fmt.Errorf("%q: not from a registry", v)
		}
	default:
		return errors.New("a requirement that is no string")
	}
	return nil
}
