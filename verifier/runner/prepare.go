package runner

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
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
// they need of the standard library and of locked modules. What it leaves lies under a name that is a
// digest of what was asked for, and is never changed: nothing that the patch's
// code wrote gets there.
func (j *job) prepare(ctx context.Context) error {
	for side := range j.trees {
		if j.trees[side] == "" {
			continue
		}
		if len(j.Config.Prepare.Run) == 0 {
			if err := j.fetchLocked(ctx, side); err != nil {
				return err
			}
		}
		var err error
		if j.modules[side], err = j.dependencies(ctx, side); err != nil {
			return err
		}
	}
	return j.compileGo(ctx)
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
	args := func(name string) *receipts.Args { return j.prepareArgs(name, side) }
	if len(j.Config.Prepare.Run) > 0 {
		return j.configured(ctx, side, args)
	}
	if j.tools.none() {
		return "", nil
	}
	return j.goModules(ctx, side, args)
}

func (j *job) prepareArgs(name string, side int) *receipts.Args {
	tree := j.listings[side].listing.SHA256
	return &receipts.Args{Tool: receipts.ToolPrepare, Name: name, Side: sideName(side), Tree: &tree}
}

// configured runs the fetchers that the configuration names. What they leave is
// used for this very tree only.
func (j *job) configured(ctx context.Context, side int, args func(string) *receipts.Args) (string, error) {
	commands := j.Config.Prepare.Run
	key := receipts.Sum(fmt.Appendf(nil, "%s\n%q\n%s\n", j.tools.version, commands, j.listings[side].listing.SHA256))
	dir := filepath.Join(j.depsCache(), key.String()[:32])
	if j.cached(dir) {
		return dir, j.nothingMissing(ctx, side, args)
	}
	return dir, j.fill(dir, func(tmp string) error {
		for i, argv := range commands {
			spec := j.fetchSpec(side, tmp, ".", argv)
			if j.Config.Prepare.Network {
				if err := j.online(&spec); err != nil {
					return err
				}
			}
			if _, err := j.fetch(ctx, args(fmt.Sprintf("prepare-%d", i+1)), spec); err != nil {
				return err
			}
		}
		return nil
	})
}

// nothingMissing records that nothing had to be fetched.
func (j *job) nothingMissing(ctx context.Context, side int, args func(string) *receipts.Args) error {
	_, err := j.sandboxed(ctx, args("dependencies"), j.fetchSpec(side, "", ".", []string{"true"}), "nothing is missing")
	return err
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
		Argv: argv, Dir: verifier.InsideDir(dir), Env: sortedEnv(env), Mounts: append(mounts, j.tools.mounts("", "")...),
		Network: sandbox.NetworkNone, Limits: sandbox.Limits{Output: 1 << 20},
	}
}

// online gives a fetcher the host's network, its proxies and the secrets that
// the configuration names. A proxy's password is for the go command's downloads
// only: another command may run what is in the tree.
func (j *job) online(spec *sandbox.Spec) error {
	spec.Network = sandbox.NetworkHost
	allowVCS(spec, j.Config.Prepare.VCS)
	j.passProxies(spec, verifier.OnlyDownloads(spec.Argv))
	for _, name := range j.Config.Prepare.Secrets {
		v := j.getenv(name)
		if v == "" {
			return fmt.Errorf("prepare: secret %s: not set in the environment", name)
		}
		setEnv(spec, name, v)
	}
	return nil
}

// passProxies gives a fetcher the caller's proxies, with or without passwords.
func (j *job) passProxies(spec *sandbox.Spec, passwords bool) {
	for _, name := range [...]string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
		v := j.getenv(name)
		if u, err := url.Parse(v); err == nil && u.User != nil && !passwords {
			u.User = nil
			v = u.String()
		}
		if v != "" {
			setEnv(spec, name, v)
		}
	}
}

// allowVCS lets the go command fetch the modules of some hosts with git, and of no
// others with any version control system. Nobody else is asked for them: their
// names may be private, and what comes is held to the tree's go.sum.
func allowVCS(spec *sandbox.Spec, hosts []string) {
	rules := make([]string, 0, len(hosts)+1)
	for _, host := range hosts {
		rules = append(rules, host+":git")
	}
	setEnv(spec, "GOVCS", strings.Join(append(rules, "*:off"), ","))
	if len(hosts) == 0 {
		return
	}
	for _, name := range [...]string{"GONOPROXY", "GONOSUMDB"} {
		patterns := hosts
		if v := getEnv(spec, name); v != "" {
			patterns = append([]string{v}, hosts...)
		}
		setEnv(spec, name, strings.Join(patterns, ","))
	}
	// What a server sends, or redirects to, is not to choose another transport;
	// ext and file would run programs and read files.
	setEnv(spec, "GIT_ALLOW_PROTOCOL", "https")
	setEnv(spec, "GIT_ATTR_NOSYSTEM", "1")
	setEnv(spec, "GIT_CONFIG_GLOBAL", os.DevNull)
	setEnv(spec, "GIT_CONFIG_SYSTEM", os.DevNull)
}

// getEnv returns the value of a variable of a command, "" where it is not set.
func getEnv(spec *sandbox.Spec, name string) string {
	for _, kv := range spec.Env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
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
func (j *job) fetch(ctx context.Context, args *receipts.Args, spec sandbox.Spec, files ...receipts.File) (*receipts.Result, error) {
	result, err := j.sandboxed(ctx, args, spec, "", files...)
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

func sideName(side int) string { return [...]string{verifier.SideBase, verifier.SideHead}[side] }

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
