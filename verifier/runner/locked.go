package runner

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// An ecosystem has lock files that pin packages by hash, and a program that
// fetches them without running code of theirs. The fetcher never sees the tree: it
// gets files that are made of the lock file, so that no setting in the tree can
// send it elsewhere or make it start something.
type ecosystem interface {
	// name is that of its prepare calls.
	name() string
	// commands are those that need it, and none of the others.
	commands() []string
	// find looks for the programs on the host. It runs nothing.
	find(environ []string) (hostTool, error)
	// lock reads what the files of one folder of a tree ask for, nil for nothing.
	// Its error is an unlockedError where they pin it not, or not enough.
	lock(f treeDir, environ []string) (*locked, error)
	// environment is that of the fetcher. Of the caller's, environ, it takes what
	// says where packages come from.
	environment(environ []string) map[string]string
	// steps are the commands that fetch. The first alone has the network.
	steps(t hostTool) [][]string
	// supply is what tests get out of a cache.
	supply(c filled) supply
	// fetched checks what the fetcher left in a cache, and removes what no test needs.
	fetched(cache string, want *locked) error
}

// ecosystems are those beside Go, which has [job.goModules].
var ecosystems = []ecosystem{npm{}, cargo{}, pip{}}

// A hostTool is an ecosystem's programs on the host.
type hostTool struct {
	program string   // name of the file
	version string   // of what fetches
	roots   []string // folders that a sandbox needs and does not have
	bin     string   // folder that goes before the PATH, "" for none
}

// mounts returns the folders of a tool.
func (t *hostTool) mounts() []sandbox.Mount {
	var list []sandbox.Mount
	for _, root := range t.roots {
		list = append(list, sandbox.Mount{Source: root, Target: root, Kind: sandbox.ReadOnly})
	}
	return list
}

// addRoot adds a folder, unless every sandbox has it.
func (t *hostTool) addRoot(root string) {
	if root != "/usr" && !strings.HasPrefix(root, "/usr/") && !slices.Contains(t.roots, root) {
		t.roots = append(t.roots, root)
	}
}

// A treeDir is a folder of a tree, as Git has it.
type treeDir struct {
	has  func(name string) bool // a file, a folder, or anything else
	read func(name string) ([]byte, error)
}

// locked is what a lock file asks for.
type locked struct {
	files   map[string][]byte // that the fetcher works on, by name
	modules []string          // lines: name, version and hash
}

// An unlockedError says why nothing is fetched.
type unlockedError struct{ why string }

func (e *unlockedError) Error() string { return e.why }

func unlocked(format string, args ...any) error {
	return &unlockedError{fmt.Sprintf(format, args...)}
}

// maxLock bounds a lock file or a manifest in bytes.
const maxLock = 16 << 20

// maxModules bounds the packages of one lock file.
const maxModules = 1 << 16

// filled is a cache that holds what is asked for.
type filled struct {
	path    string
	tool    hostTool // that filled it
	dir     string   // of the tree, with the lock file
	environ []string // the caller's
}

// A supply is what a test command gets of an ecosystem.
type supply struct {
	mounts []sandbox.Mount
	env    map[string]string
	bin    []string // folders before the PATH
}

// A place is a folder of one side's tree.
type place struct {
	side int
	dir  string
}

// fetchLocked fetches what lock files ask for, in every folder of a side's tree
// that a test is run in.
func (j *job) fetchLocked(ctx context.Context, side int) error {
	for _, e := range ecosystems {
		done := map[string]bool{}
		find := sync.OnceValues(func() (hostTool, error) { return e.find(j.o.Environ) })
		for i := range j.plan.Runs {
			r := &j.plan.Runs[i]
			dir := string(r.Dir)
			if r.Side != sideName(side) || r.Skip != "" || done[dir] || !needs(string(r.Argv[0]), e) {
				continue
			}
			done[dir] = true
			if err := j.fetchFolder(ctx, e, find, place{side, dir}); err != nil {
				return err
			}
		}
	}
	return nil
}

// needs reports whether a test command may need what an ecosystem fetches: one
// that is another's does not.
func needs(command string, e ecosystem) bool {
	command = path.Base(command)
	if slices.Contains(e.commands(), command) {
		return true
	}
	return command != "go" && !slices.ContainsFunc(ecosystems, func(other ecosystem) bool {
		return slices.Contains(other.commands(), command)
	})
}

func (j *job) fetchFolder(ctx context.Context, e ecosystem, find func() (hostTool, error), at place) error {
	want, err := e.lock(j.treeDir(ctx, at), j.o.Environ)
	var no *unlockedError
	if errors.As(err, &no) {
		return j.notFetched(ctx, e, at, no.why)
	}
	if want == nil || err != nil {
		return err
	}
	tool, err := find()
	if err != nil {
		return j.notFetched(ctx, e, at, err.Error())
	}
	modules, err := j.modulesFile(want.modules)
	if err != nil {
		return err
	}
	cache := filepath.Join(j.depsCache(), e.name()+"-"+lockKey(e, tool, want))
	switch {
	case j.cached(cache):
		_, err = j.sandboxed(ctx, j.prepareArgs(e.name(), at.side), lockedSpec(e, tool, "", j.o.Environ, e.steps(tool)[0]), "nothing is missing", modules)
	case !j.Config.Prepare.Network:
		return j.notFetched(ctx, e, at, "prepare.network is false, and it was not fetched before")
	default:
		err = j.fill(cache, func(tmp string) error { return j.runFetcher(ctx, e, tool, at, want, tmp, modules) })
	}
	if err != nil {
		return err
	}
	s := e.supply(filled{cache, tool, at.dir, j.o.Environ})
	s.mounts = append(tool.mounts(), s.mounts...)
	if tool.bin != "" {
		s.bin = append(s.bin, tool.bin)
	}
	if j.supplies == nil {
		j.supplies = map[place][]supply{}
	}
	j.supplies[at] = append(j.supplies[at], s)
	return nil
}

// treeDir returns a folder of a tree. What is above the limit is an unlockedError.
func (j *job) treeDir(ctx context.Context, at place) treeDir {
	l := j.listings[at.side].listing
	prefix := ""
	if at.dir != "." {
		prefix = at.dir + "/"
	}
	has := func(name string) bool {
		i, _ := slices.BinarySearchFunc(l.Entries, prefix+name+"/", func(e verifier.TreeEntry, path string) int { return strings.Compare(e.Path, path) })
		_, file := l.Find(prefix + name)
		return file || i < len(l.Entries) && strings.HasPrefix(l.Entries[i].Path, prefix+name+"/")
	}
	read := func(name string) ([]byte, error) {
		e, ok := l.Find(prefix + name)
		if !ok || e.Mode != "100644" && e.Mode != "100755" {
			return nil, fs.ErrNotExist
		}
		b, err := j.repo.ReadFile(ctx, l, prefix+name, maxLock)
		if errors.Is(err, errTooLarge) {
			return nil, unlocked("%s: more than %d bytes", name, maxLock)
		}
		return b, err
	}
	return treeDir{has, read}
}

// notFetched records why there is nothing of an ecosystem.
func (j *job) notFetched(ctx context.Context, e ecosystem, at place, why string) error {
	spec := lockedSpec(e, hostTool{}, "", j.o.Environ, e.steps(hostTool{})[0])
	_, err := j.sandboxed(ctx, j.prepareArgs(e.name(), at.side), spec, fmt.Sprintf("%s: nothing is fetched: %s", at.dir, why))
	return err
}

// modulesFile stores the lines that say what a prepare call is to get.
func (j *job) modulesFile(lines []string) (receipts.File, error) {
	slices.Sort(lines)
	text := strings.Join(slices.Compact(lines), "\n") + "\n"
	d, err := j.rec.Spool().Put([]byte(text))
	return receipts.File{Name: verifier.FileModules, Digest: d, Size: int64(len(text))}, err
}

// lockKey is a digest of all that decides what a fetcher leaves.
func lockKey(e ecosystem, tool hostTool, want *locked) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %s/%s\n%q\n", e.name(), tool.version, runtime.GOOS, runtime.GOARCH, e.steps(tool))
	for _, name := range slices.Sorted(maps.Keys(want.files)) {
		fmt.Fprintf(h, "%s %q\n", receipts.Sum(want.files[name]), name)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// lockedSpec is a command that sees a cache and no tree.
func lockedSpec(e ecosystem, tool hostTool, cache string, environ []string, argv []string) sandbox.Spec {
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": verifier.HomeDir,
		"TMPDIR": "/tmp", "LANG": "C.UTF-8",
	}
	if tool.bin != "" {
		env["PATH"] = tool.bin + ":" + env["PATH"]
	}
	maps.Copy(env, e.environment(environ))
	spec := sandbox.Spec{
		Argv: argv, Dir: depsDir, Env: sortedEnv(env), Mounts: tool.mounts(),
		Network: sandbox.NetworkNone, Limits: sandbox.Limits{Output: 1 << 20},
	}
	if cache != "" {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: cache, Target: depsDir, Kind: sandbox.Writable})
	}
	return spec
}

// runFetcher fills tmp.
func (j *job) runFetcher(ctx context.Context, e ecosystem, tool hostTool, at place, want *locked, tmp string, modules receipts.File) error {
	if err := j.writeInputs(tmp, want.files); err != nil {
		return err
	}
	for i, argv := range e.steps(tool) {
		spec := lockedSpec(e, tool, tmp, j.o.Environ, argv)
		if i == 0 {
			spec.Network = sandbox.NetworkHost
			j.passProxies(&spec, false)
		}
		if _, err := j.fetch(ctx, j.prepareArgs(e.name(), at.side), spec, modules); err != nil {
			return err
		}
	}
	if err := e.fetched(tmp, want); err != nil {
		return fmt.Errorf("prepare: %s: %w", e.name(), err)
	}
	return nil
}

// variable returns the value of a variable, "" where it is not set.
func variable(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// writeInputs writes files that the fetcher may read and change. The folder is
// empty, and no command has seen it yet.
func (j *job) writeInputs(dir string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return err
		}
	}
	return j.giveAway(dir)
}
