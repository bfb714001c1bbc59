package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
	"github.com/truegreen-dev/truegreen/sandbox"
)

// pip fetches with pip download what requirements.txt pins by hash: wheels, which
// are only unpacked. Python finds them as packages of the user: PYTHONPATH is left to
// the tests.
type pip struct{}

// pythonDir is PYTHONUSERBASE of the tests.
const pythonDir = "/cache/python"

func (pip) name() string       { return "pip" }
func (pip) commands() []string { return []string{"python", "python3", "pytest", "py.test"} }

func (pip) steps(t hostTool) [][]string {
	from := []string{"--only-binary", ":all:", "--require-hashes", "-r", "requirements.txt"}
	return [][]string{
		append([]string{"python3", "-m", "pip", "download", "-d", "wheels"}, from...),
		append([]string{"python3", "-m", "pip", "install", "--no-index", "--find-links", "wheels", "--target", "user/" + sitePackages(t)}, from...),
	}
}

func (pip) environment(environ []string) map[string]string {
	env := map[string]string{
		"PIP_CONFIG_FILE": os.DevNull, "PIP_CACHE_DIR": "/tmp/pip", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1",
	}
	for _, name := range [...]string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST"} {
		if v := variable(environ, name); v != "" {
			env[name] = v
		}
	}
	return env
}

func (pip) supply(c filled) supply {
	user := filepath.Join(c.path, "user")
	if !isDir(user) {
		return supply{} // all that is locked is for other systems
	}
	return supply{
		env: map[string]string{"PYTHONUSERBASE": pythonDir}, bin: []string{pythonDir + "/" + sitePackages(c.tool) + "/bin"},
		mounts: []sandbox.Mount{{Source: user, Target: pythonDir, Kind: sandbox.ReadOnly}},
	}
}

// sitePackages is where Python looks below PYTHONUSERBASE.
func sitePackages(t hostTool) string { return "lib/" + t.program + "/site-packages" }

// fetched removes the archives, which have been checked and unpacked.
func (pip) fetched(cache string, _ *locked) error {
	return os.RemoveAll(filepath.Join(cache, "wheels"))
}

// find looks for Python. What pyenv puts on the PATH is a script: the program
// behind it is found by pyenv's own settings.
func (pip) find(environ []string) (hostTool, error) {
	bin, err := lookReal("python3")
	if err != nil {
		return hostTool{}, err
	}
	if dir := filepath.Dir(bin); filepath.Base(dir) == "shims" && isDir(filepath.Join(filepath.Dir(dir), "versions")) {
		name := variable(environ, "PYENV_VERSION")
		if name == "" {
			text, err := readSmall(filepath.Join(filepath.Dir(dir), "version"), maxConfig)
			if err != nil {
				return hostTool{}, errors.New("pyenv has no global version")
			}
			name, _, _ = strings.Cut(string(text), "\n")
		}
		if name, _, _ = strings.Cut(name, ":"); name == "" || name == ".." || strings.Contains(name, "/") {
			return hostTool{}, errors.New("pyenv has no global version")
		}
		if bin, err = filepath.EvalSymlinks(filepath.Join(filepath.Dir(dir), "versions", name, "bin/python3")); err != nil {
			return hostTool{}, errors.New("pyenv has no Python of its global version")
		}
	}
	root := filepath.Dir(filepath.Dir(bin))
	found := ""
	for _, pattern := range [...]string{filepath.Base(bin) + "/site-packages", "python3/dist-packages"} {
		if list, _ := filepath.Glob(filepath.Join(root, "lib", pattern, "pip-*.dist-info")); len(list) > 0 {
			found = filepath.Base(list[0])
			break
		}
	}
	if found == "" {
		return hostTool{}, errors.New("python3 on this host has no pip")
	}
	t := hostTool{program: filepath.Base(bin)}
	if t.version, err = fileDigest(bin); err != nil {
		return hostTool{}, err
	}
	t.version += " " + found
	if t.addRoot(root); len(t.roots) > 0 {
		t.bin = filepath.Dir(bin)
	}
	return t, nil
}

func (pip) lock(f treeDir, _ []string) (*locked, error) {
	text, err := f.read("requirements.txt")
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range [...]string{"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"} {
			if f.has(name) {
				return nil, unlocked("%s is not read: there is no requirements.txt", name)
			}
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readRequirements(string(text))
}

// requirement is a line that pins a package: name, extras, version, marker and
// hashes. A marker has no "-", with which options begin.
var (
	requirement = lazy.Regexp(`^([A-Za-z0-9][\w.-]*)(\[[\w., -]+\])?[ \t]*==[ \t]*([\w.!+]+)[ \t]*(;[\w \t.<>=!~"'(),]*)?((?:[ \t]+--hash=sha(?:256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128}))+)$`)
	comment     = lazy.Regexp(`(^|\s)#.*$`)
)

// readRequirements reads a requirements file in which every line pins a package.
func readRequirements(text string) (*locked, error) {
	var lines []string
	want := &locked{}
	for line := range strings.SplitSeq(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\\\n", " "), "\n") {
		if line = strings.TrimSpace(comment().ReplaceAllString(line, "")); line == "" {
			continue
		}
		m := requirement().FindStringSubmatch(line)
		if m == nil {
			return nil, unlocked("requirements.txt: %.60q: no package with a version and a hash", line)
		}
		for hash := range strings.FieldsSeq(m[5]) {
			want.modules = append(want.modules, m[1]+" "+m[3]+" "+strings.TrimPrefix(hash, "--hash="))
		}
		if lines = append(lines, line); len(want.modules) > maxModules {
			return nil, unlocked("requirements.txt: more than %d hashes", maxModules)
		}
	}
	if len(lines) == 0 {
		return nil, nil
	}
	want.files = map[string][]byte{"requirements.txt": []byte(strings.Join(lines, "\n") + "\n")}
	return want, nil
}
