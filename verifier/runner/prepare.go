package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// Where fetched dependencies and the compiler's cache are inside a sandbox.
const (
	depsDir  = "/cache/deps"
	buildDir = "/cache/go-build"
	// proxyDir holds the host's own downloads, which the fetchers may use as a
	// source: what they take is checked against the tree's go.sum.
	proxyDir = "/cache/host"
)

// prepare fetches what the tests need and have no network for, and compiles what
// they need of the standard library. What it leaves lies under a name that is a
// digest of what was asked for, and is never changed: nothing that the patch's
// code wrote gets there.
func (j *job) prepare(ctx context.Context) error {
	if !j.usesGo() && len(j.Config.Prepare.Run) == 0 {
		return nil
	}
	if j.usesGo() {
		j.tools = findGo()
	}
	packages := map[string]bool{}
	for side := range j.trees {
		if j.trees[side] == "" {
			continue
		}
		var err error
		if j.modules[side], err = j.dependencies(ctx, side); err != nil {
			return err
		}
		if err := readPackages(j.modules[side], packages); err != nil {
			return err
		}
	}
	if len(packages) == 0 {
		return nil
	}
	return j.seedBuildCache(ctx, packages)
}

// usesGo reports whether a planned command is the go command, or the tree has a
// module that another command may test.
func (j *job) usesGo() bool {
	for i := range j.Config.Test {
		if j.Config.Test[i].Run[0] == "go" {
			return true
		}
	}
	_, ok := j.listings[1].listing.Find("go.mod")
	return ok
}

// dependencies returns the folder with what one side's tree depends on, "" where
// there is nothing, after fetching what is missing.
func (j *job) dependencies(ctx context.Context, side int) (string, error) {
	dirs, key := j.moduleKey(side)
	custom := j.Config.Prepare.Run
	if len(custom) == 0 && (len(dirs) == 0 || j.tools.goroot == "") {
		return "", nil
	}
	dir := filepath.Join(j.o.State, "cache", "deps", key)
	args := func(name string) *receipts.Args {
		tree := j.listings[side].listing.SHA256
		return &receipts.Args{Tool: receipts.ToolPrepare, Name: name, Side: sideName(side), Tree: &tree}
	}
	if _, err := os.Stat(dir); err == nil {
		_, err := j.sandboxed(ctx, args("dependencies"), j.fetchSpec(side, "", ".", []string{"true"}), "nothing is missing")
		return dir, err
	}
	tmp, err := j.newCache(filepath.Join(j.o.State, "cache", "deps"))
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if len(custom) > 0 {
		for i, argv := range custom {
			spec := j.fetchSpec(side, tmp, ".", argv)
			if j.Config.Prepare.Network {
				if err := j.online(&spec); err != nil {
					return "", err
				}
			}
			if _, err := j.fetch(ctx, args(fmt.Sprintf("prepare-%d", i+1)), spec); err != nil {
				return "", err
			}
		}
	} else if err := j.fetchModules(ctx, side, tmp, dirs, args); err != nil {
		return "", err
	}
	if err := j.keepCache(tmp, dir, false); err != nil {
		return "", err
	}
	return dir, nil
}

// packagesFile holds, among the dependencies, the standard library's packages
// that they and the tree need.
const packagesFile = "std-packages"

// fetchModules fetches the modules of a tree: from the host's own downloads
// where they are all there, and else over the network.
func (j *job) fetchModules(ctx context.Context, side int, tmp string, dirs []string, args func(string) *receipts.Args) error {
	host, err := hostGo(ctx, j.o.Environ)
	if err != nil {
		return err
	}
	var packages bytes.Buffer
	for _, dir := range dirs {
		offline := j.fetchSpec(side, tmp, dir, []string{"go", "list", "-deps", "-test", "-f", "{{if .Standard}}{{.ImportPath}}{{end}}", "./..."})
		proxy := "off"
		if downloads := filepath.Join(host["GOMODCACHE"], "cache", "download"); isDir(downloads) {
			proxy = "file://" + proxyDir
			offline.Mounts = append(offline.Mounts, sandbox.Mount{Source: downloads, Target: proxyDir, Kind: sandbox.ReadOnly})
		}
		setEnv(&offline, "GOPROXY", proxy)
		result, err := j.fetch(ctx, args("modules"), offline)
		var failed *fetchError
		if errors.As(err, &failed) && j.Config.Prepare.Network && j.hasSums(side, dir) {
			if err := j.download(ctx, side, tmp, dir, host, args("modules-download")); err != nil {
				return err
			}
			result, err = j.fetch(ctx, args("modules"), offline)
		}
		if errors.As(err, &failed) {
			continue // the tree does not load: the tests say so better
		}
		if err != nil {
			return err
		}
		if err := j.copyOutput(&packages, result); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(tmp, packagesFile), packages.Bytes(), 0o644)
}

func (j *job) hasSums(side int, dir string) bool {
	_, ok := j.listings[side].listing.Find(path.Join(dir, "go.sum"))
	return ok
}

// download gets modules over the network, from where the host's configuration
// says.
func (j *job) download(ctx context.Context, side int, tmp, dir string, host map[string]string, args *receipts.Args) error {
	spec := j.fetchSpec(side, tmp, dir, []string{"go", "mod", "download"})
	for _, name := range [...]string{"GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOINSECURE"} {
		if host[name] != "" {
			setEnv(&spec, name, host[name])
		}
	}
	if err := j.online(&spec); err != nil {
		return err
	}
	_, err := j.fetch(ctx, args, spec)
	return err
}

// copyOutput appends what a call wrote to its standard output.
func (j *job) copyOutput(to *bytes.Buffer, r *receipts.Result) error {
	if r.Stdout.Kept == 0 {
		return nil
	}
	b, err := j.openBlob(r.Stdout.Digest)
	if err != nil {
		return err
	}
	defer b.Close()
	_, err = to.ReadFrom(b)
	return err
}

// readPackages adds the packages that a folder of dependencies lists.
func readPackages(deps string, to map[string]bool) error {
	text, err := os.ReadFile(filepath.Join(deps, packagesFile))
	if deps == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, line := range strings.Fields(string(text)) {
		if importable(line) {
			to[line] = true
		}
	}
	return err
}

// importable reports whether a package of the standard library can be imported
// by others. The rest are dependencies of those that can.
func importable(pkg string) bool {
	for _, element := range strings.Split(pkg, "/") {
		if element == "internal" || element == "vendor" || element == "main" {
			return false
		}
	}
	return pkg != "unsafe" && pkg != "C" && pkg != "runtime/cgo" && !strings.HasPrefix(pkg, "cmd/")
}

// fetchSpec is a command that may write to deps and to nothing else that stays.
func (j *job) fetchSpec(side int, deps, dir string, argv []string) sandbox.Spec {
	mounts := []sandbox.Mount{{Source: j.trees[side], Target: verifier.WorkDir, Kind: sandbox.Overlay}}
	if deps != "" {
		mounts = append(mounts, sandbox.Mount{Source: deps, Target: depsDir, Kind: sandbox.Writable})
	}
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": verifier.HomeDir,
		"TMPDIR": "/tmp", "LANG": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0",
	}
	for k, v := range j.tools.environment(j, side, dir) {
		env[k] = v
	}
	delete(env, "GOPROXY")
	return sandbox.Spec{
		Argv: argv, Dir: verifier.InsideDir(dir), Env: sortedEnv(env), Mounts: append(mounts, j.tools.mounts("")...),
		Network: sandbox.NetworkNone, Limits: sandbox.Limits{Output: 1 << 20},
	}
}

// online gives a fetcher the host's network, its proxies and the secrets that
// the configuration names.
func (j *job) online(spec *sandbox.Spec) error {
	spec.Network = sandbox.NetworkHost
	setEnv(spec, "GOVCS", "*:off")
	for _, name := range [...]string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
		if v := j.getenv(name); v != "" {
			setEnv(spec, name, v)
		}
	}
	for _, name := range j.Config.Prepare.Secrets {
		v := j.getenv(name)
		if v == "" {
			return fmt.Errorf("prepare: secret %s: not set in the environment", name)
		}
		setEnv(spec, name, v)
	}
	return nil
}

// setEnv sets a variable of a command; the list stays sorted and without doubles.
func setEnv(spec *sandbox.Spec, name, value string) {
	spec.Env = slices.DeleteFunc(spec.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	spec.Env = append(spec.Env, name+"="+value)
	slices.Sort(spec.Env)
}

func (j *job) getenv(name string) string {
	if j.o.Getenv == nil {
		return ""
	}
	return j.o.Getenv(name)
}

// A fetchError says that a fetcher ran and did not succeed.
type fetchError struct{ what string }

func (e *fetchError) Error() string { return e.what }

// fetch makes one prepare call, with secrets removed from its record.
func (j *job) fetch(ctx context.Context, args *receipts.Args, spec sandbox.Spec) (*receipts.Result, error) {
	result, err := j.sandboxed(ctx, args, spec, "")
	if err != nil {
		return nil, err
	}
	if result.State != receipts.StateExited || result.Exit != 0 {
		return result, &fetchError{fmt.Sprintf("prepare: %s: %s %d %s", strings.Join(spec.Argv, " "), result.State, result.Exit, j.lastLine(result))}
	}
	return result, nil
}

// lastLine returns the end of a call's standard error for a message.
func (j *job) lastLine(r *receipts.Result) string {
	if r.Stderr.Kept == 0 {
		return string(r.Why)
	}
	b, err := j.openBlob(r.Stderr.Digest)
	if err != nil {
		return ""
	}
	defer b.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(b); err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	last := lines[len(lines)-1]
	return last[:min(len(last), 300)]
}

// redactor removes from text what must not become evidence: the values of
// secrets, and user information in URLs.
func (j *job) redactor(env []string) *strings.Replacer {
	var pairs []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains(j.Config.Prepare.Secrets, name) && len(value) > 0:
			hidden := "[secret " + name + "]"
			pairs = append(pairs, value, hidden, url.QueryEscape(value), hidden, base64.StdEncoding.EncodeToString([]byte(value)), hidden)
		case strings.Contains(value, "@"):
			for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == '|' }) {
				if u, err := url.Parse(part); err == nil && u.User != nil {
					pairs = append(pairs, u.User.String()+"@", "")
					if pw, ok := u.User.Password(); ok && pw != "" {
						pairs = append(pairs, pw, "[secret]")
					}
				}
			}
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	return strings.NewReplacer(pairs...)
}

// moduleKey returns the folders of the tree with a module that a planned command
// can come to, and a digest of all that says which modules they need.
func (j *job) moduleKey(side int) (dirs []string, key string) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n", j.tools.version, j.Config.Prepare.Run)
	l := &j.listings[side].listing
	if len(j.Config.Prepare.Run) > 0 {
		fmt.Fprintf(h, "tree %s\n", l.SHA256)
	}
	for _, e := range l.Entries {
		switch path.Base(e.Path) {
		case "go.mod":
			if dir := path.Dir(e.Path); !goIgnores(dir) && j.covers(dir) {
				dirs = append(dirs, dir)
			}
			fallthrough
		case "go.sum", "go.work", "go.work.sum":
			fmt.Fprintf(h, "%s %s\n", e.Sum, e.Path)
		}
	}
	return dirs, fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// covers reports whether a planned command can come to the module in dir.
func (j *job) covers(dir string) bool {
	for i := range j.Config.Test {
		if d := j.Config.Test[i].Dir; d == dir || d == "." && j.Config.Test[i].Run[0] != "go" {
			return true
		}
	}
	return false
}

func sideName(side int) string { return [...]string{verifier.SideBase, verifier.SideHead}[side] }

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// newCache makes an empty folder in parent that commands in a sandbox may write
// to.
func (j *job) newCache(parent string) (string, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return "", err
	}
	if j.owner.Chown {
		err = os.Chown(dir, j.owner.UID, j.owner.GID)
	}
	return dir, err
}

// keepCache gives a filled folder its name and takes it out of the hands of the
// id that filled it. Where shared, any id may add files in an overlay of it.
func (j *job) keepCache(tmp, dir string, shared bool) error {
	err := filepath.WalkDir(tmp, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if j.owner.Chown {
			if err := os.Lchown(p, 0, 0); err != nil {
				return err
			}
		}
		if d.IsDir() {
			mode := fs.FileMode(0o755)
			if shared {
				mode = 0o777
			}
			return os.Chmod(p, mode)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Another run may have been faster; what it made is the same.
	if err := os.Rename(tmp, dir); err != nil && !isDir(dir) {
		return err
	}
	return nil
}
