package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
)

// goModules returns the folder with the modules that one side's tree needs. A
// folder that was filled for the same go.mod and go.sum files serves where it
// holds all that this tree imports; else the tree gets one of its own.
func (j *job) goModules(ctx context.Context, side int, args func(string) *receipts.Args) (string, error) {
	dirs, key := j.moduleKey(side)
	if len(dirs) == 0 {
		return "", nil
	}
	shared := filepath.Join(j.depsCache(), key)
	own := shared + "-" + j.listings[side].listing.SHA256.String()[:16]
	for _, dir := range [...]string{shared, own} {
		if !j.cached(dir) {
			return dir, j.fill(dir, func(tmp string) error { return j.fetchModules(ctx, side, tmp, dirs, args) })
		}
		if holds, err := j.holds(ctx, side, dir, dirs, args); holds || err != nil {
			return dir, err
		}
	}
	return own, nil // the tree does not load with all there is: the tests say so better
}

// holds reports whether the modules in deps are all that the tree imports.
func (j *job) holds(ctx context.Context, side int, deps string, dirs []string, args func(string) *receipts.Args) (bool, error) {
	checked := false
	for _, dir := range dirs {
		if !j.hasSums(side, dir) {
			continue // it has no modules of others
		}
		spec := j.fetchSpec(side, "", dir, listPackages)
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: deps, Target: depsDir, Kind: sandbox.ReadOnly})
		setEnv(&spec, "GOPROXY", "off")
		sums, err := j.goSums(ctx, place{side, dir})
		if err != nil {
			return false, err
		}
		_, err = j.fetch(ctx, args("modules"), spec, sums...)
		var failed *fetchError
		if errors.As(err, &failed) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		checked = true
	}
	if checked {
		return true, nil
	}
	return true, j.nothingMissing(ctx, side, args)
}

// fetchModules fetches the modules of a tree: from the host's own downloads
// where they are all there, and else over the network.
func (j *job) fetchModules(ctx context.Context, side int, tmp string, dirs []string, args func(string) *receipts.Args) error {
	host, err := hostGo(ctx, j.o.Environ)
	if err != nil && !j.inImage { // there, the host need not have a go command
		return err
	}
	var packages bytes.Buffer
	for _, dir := range dirs {
		sums, err := j.goSums(ctx, place{side, dir})
		if err != nil {
			return err
		}
		offline := j.fetchSpec(side, tmp, dir, listPackages)
		proxy := "off"
		// A container would get a copy of all of them.
		if downloads := filepath.Join(host["GOMODCACHE"], "cache", "download"); !j.inImage && isDir(downloads) {
			proxy = "file://" + proxyDir
			offline.Mounts = append(offline.Mounts, sandbox.Mount{Source: downloads, Target: proxyDir, Kind: sandbox.ReadOnly})
		}
		setEnv(&offline, "GOPROXY", proxy)
		result, err := j.fetch(ctx, args("modules"), offline, sums...)
		var failed *fetchError
		if errors.As(err, &failed) && j.Config.Prepare.Network && j.hasSums(side, dir) {
			if err := j.download(ctx, side, tmp, dir, host, args, sums); err != nil {
				return err
			}
			result, err = j.fetch(ctx, args("modules"), offline, sums...)
		}
		if errors.As(err, &failed) {
			continue // the tree does not load: the tests say so better
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&packages, "in %q\n", dir)
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
// says, and has the go command look at them again, without network.
func (j *job) download(ctx context.Context, side int, tmp, dir string, host map[string]string, args func(string) *receipts.Args, sums []receipts.File) error {
	spec, err := j.downloadSpec(side, tmp, dir, host)
	if err != nil {
		return err
	}
	if _, err = j.fetch(ctx, args("modules-download"), spec, sums...); err != nil {
		return err
	}
	spec = j.fetchSpec(side, tmp, dir, []string{"go", "mod", "verify"})
	setEnv(&spec, "GOPROXY", "off")
	setEnv(&spec, "GOFLAGS", "-mod=readonly") // of modules, whether there is a vendor folder or not
	_, err = j.fetch(ctx, args("modules-verify"), spec, sums...)
	return err
}

// goSum is a line of go.sum: a module, a version, perhaps with /go.mod, and a hash.
var goSum = lazy.Regexp(`^[!-~]+ [!-~]+ h\d+:[A-Za-z0-9+/=]+$`)

// goSums returns what a module's go.sum, and the go.work.sum that may serve it,
// record: a file of modules, or nothing.
func (j *job) goSums(ctx context.Context, at place) ([]receipts.File, error) {
	l := j.listings[at.side].listing
	names := []string{path.Join(at.dir, "go.sum")}
	if dir, ok := above(names[0], func(dir string) bool { _, ok := l.Find(path.Join(dir, "go.work.sum")); return ok }); ok {
		names = append(names, path.Join(dir, "go.work.sum"))
	}
	var lines []string
	for _, name := range names {
		text, err := j.treeDir(ctx, place{at.side, "."}).read(name)
		var no *unlockedError
		if errors.Is(err, fs.ErrNotExist) || errors.As(err, &no) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.Join(strings.Fields(line), " "); goSum().MatchString(line) {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		return nil, nil
	}
	f, err := j.modulesFile(lines)
	return []receipts.File{f}, err
}

func (j *job) downloadSpec(side int, tmp, dir string, host map[string]string) (sandbox.Spec, error) {
	spec := j.fetchSpec(side, tmp, dir, []string{"go", "mod", "download"})
	for _, name := range [...]string{"GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOINSECURE"} {
		if host[name] != "" {
			setEnv(&spec, name, host[name])
		}
	}
	return spec, j.online(&spec)
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

// moduleKey returns the folders of the tree with a module that a planned command
// can come to, and a digest of all that says which modules they need.
func (j *job) moduleKey(side int) (dirs []string, key string) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", j.tools.version)
	l := &j.listings[side].listing
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
