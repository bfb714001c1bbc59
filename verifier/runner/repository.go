package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

// Repository reads a Git repository that nobody trusts: objects and
// references, as data, and nothing else.
//
// A repository's own configuration can make Git run programs (file system
// monitors, hooks, filters, diff drivers, transports), include other files,
// replace objects and fetch missing ones. So Git never sees it. Every git
// process runs in a private bare Git directory in a temporary folder, which
// reaches the real one through three names only: its object store as an
// alternate, and its refs and packed-refs. The list of shallow commits is
// copied. Configuration, attributes, index, hooks, grafts, replacements and
// commit graphs of the real repository, of the user and of the system do not
// exist there, and the environment is made from nothing. The configuration file
// is read as text, for the object format, the reference format, the URL of the
// remote "origin" and whether the clone is a partial one.
//
// For the same reason it does not matter who owns the repository: Git's
// question about dubious ownership is about trusting its configuration.
//
// What comes out of the object store is believed only after its id was
// computed again: commits in [Repository.Resolve], trees and blobs in
// [Repository.List] and [Repository.Materialise].
//
// Not read: work tree private references (refs/bisect, refs/worktree), reflogs
// and references kept in the reftable format.
type Repository struct {
	// Limits bound the trees that are read. Set it before the first use.
	Limits verifier.TreeLimits

	git     string // the program
	private string // the private Git directory
	lock    *os.File
	top     string // the work tree, "" for a bare repository
	gitDir  string // the real Git directory: HEAD and index
	common  string // the real common directory: objects, refs, config
	head    string // what HEAD holds: a full reference name or an id
	format  string // "sha1" or "sha256"
	name    string
	refs    string // reference storage format if it cannot be read, else ""
	shallow bool
	partial bool

	mu    sync.Mutex // held while the batch process answers
	batch *batch
	known map[string]object               // without bodies: see kinds
	sums  map[string]blobSum              // what blobs hash to, by id
	trees map[string][]verifier.TreeEntry // trees that were proved, by id, without sums
}

// blobSum is what is known of a blob once its bytes were hashed.
type blobSum struct {
	sum  receipts.Digest
	size int64
	lfs  bool
}

// RepositoryError says why the Git side of a run ended before there was
// anything to test.
type RepositoryError struct {
	// Code is the stable reason: GitMissing, NotARepository, ShallowClone,
	// UnknownRevision (or objects that are absent), CorruptObject, HostileTree or
	// TreeTooLarge.
	Code verifier.Code
	What string
	// Fix is what the user can do, or "". With ShallowClone it is exactly
	// the command that gets what is missing.
	Fix string
	Err error
}

func (e *RepositoryError) Error() string {
	s := e.What
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

func (e *RepositoryError) Unwrap() error { return e.Err }

// OpenRepository opens the repository that dir lies in: a work tree, a linked
// work tree, a submodule or a bare repository. Close removes what it made.
func OpenRepository(ctx context.Context, dir string) (*Repository, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, &RepositoryError{Code: verifier.GitMissing, What: "git cannot be started", Err: err,
			Fix: "install Git and put it on the PATH"}
	}
	r := &Repository{git: git, sums: make(map[string]blobSum), trees: make(map[string][]verifier.TreeEntry)}
	if err := r.find(dir); err != nil {
		return nil, &RepositoryError{Code: verifier.NotARepository, What: fmt.Sprintf("%s is not in a Git repository", dir), Err: err,
			Fix: "run in a clone, or name one with --repo"}
	}
	if r.private, r.lock, err = makePrivate(os.TempDir()); err != nil {
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close ends the processes and removes the private Git directory.
func (r *Repository) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.batch != nil {
		r.batch.close()
		r.batch = nil
	}
	r.lock.Close()
	return os.RemoveAll(r.private)
}

// Name returns what the patch document calls the repository: host and path of
// the remote "origin", without scheme, user, port and ".git", or
// "local/<folder>" when there is no such remote on another host.
func (r *Repository) Name() string { return r.name }

// Shallow reports whether history was cut when the repository was cloned.
func (r *Repository) Shallow() bool { return r.shallow }

// prepare fills the private Git directory and reads what the real one says
// about itself.
func (r *Repository) prepare(ctx context.Context) error {
	config, err := r.readConfig(ctx)
	if err != nil {
		return &RepositoryError{Code: verifier.NotARepository, What: "the repository's configuration cannot be read", Err: err}
	}
	last := func(key string) string { // the value that counts for Git
		values := append([]string{""}, config[key]...)
		return strings.ToLower(values[len(values)-1])
	}
	if r.format = last("extensions.objectformat"); r.format == "" {
		r.format = "sha1"
	}
	if r.format != "sha1" && r.format != "sha256" {
		return &RepositoryError{Code: verifier.NotARepository, What: fmt.Sprintf("object format %q is not supported", r.format)}
	}
	if f := last("extensions.refstorage"); f != "" && f != "files" {
		r.refs = f
	}
	r.trees[r.emptyTree()] = nil // Git knows it without having it
	for key := range config {
		r.partial = r.partial || key == "extensions.partialclone" || strings.HasPrefix(key, "remote.") && strings.HasSuffix(key, ".promisor")
	}
	origin := append(config["remote.origin.url"], "")[0] // Git fetches from the first
	r.name = repositoryName(origin, r.folder())

	head, err := readSmall(filepath.Join(r.gitDir, "HEAD"), maxPointer)
	if err != nil {
		return &RepositoryError{Code: verifier.NotARepository, What: "HEAD cannot be read", Err: err}
	}
	r.head = strings.TrimSpace(strings.TrimPrefix(string(head), "ref:"))

	// HEAD stays dangling: some versions of Git take attributes from the tree
	// of a bare repository's HEAD.
	settings := "[core]\n\tbare = true\n\tcommitGraph = false\n\tmultiPackIndex = false\n\tattributesFile = " + os.DevNull + "\n"
	if r.format == "sha256" {
		settings += "\trepositoryFormatVersion = 1\n[extensions]\n\tobjectFormat = sha256\n"
	}
	files := map[string]string{
		"HEAD":                    "ref: refs/heads/none/none\n",
		"config":                  settings,
		"objects/info/alternates": quotePath(filepath.Join(r.common, "objects")) + "\n",
	}
	shallow, err := readSmall(filepath.Join(r.common, "shallow"), maxShallow)
	if err == nil && len(shallow) > 0 {
		r.shallow = true
		files["shallow"] = string(shallow)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for name, content := range files {
		path := filepath.Join(r.private, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	for _, name := range []string{"refs", "packed-refs"} {
		if err := os.Symlink(filepath.Join(r.common, name), filepath.Join(r.private, name)); err != nil {
			return err
		}
	}
	return nil
}

// readConfig lets Git parse the bytes of the configuration file: on standard
// input, without includes, outside of any repository. A key may have
// several values.
func (r *Repository) readConfig(ctx context.Context) (map[string][]string, error) {
	text, err := readSmall(filepath.Join(r.common, "config"), maxConfig)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out bytes.Buffer
	if err := r.run(ctx, bytes.NewReader(text), &out, "config", "--file", "-", "--no-includes", "--null", "--list"); err != nil {
		return nil, err
	}
	config := make(map[string][]string)
	for item := range strings.SplitSeq(out.String(), "\x00") {
		key, value, _ := strings.Cut(item, "\n")
		config[key] = append(config[key], value)
	}
	return config, nil
}

// quotePath writes a path as info/alternates wants it: in C quotes, so that no
// byte of it can mean a comment or a second line.
func quotePath(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(path) {
		if c := path[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// run runs one git command in the private Git directory. An error of stdout is
// returned as it is, any other says what git said.
func (r *Repository) run(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, r.git, args...)
	stderr := r.isolate(cmd)
	out := &output{w: stdout}
	cmd.Stdin, cmd.Stdout = stdin, out
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case out.err != nil:
		return out.err
	}
	return fmt.Errorf("git %s: %w%s", args[0], err, stderr)
}

// output remembers why it could not be written: to git that is only a closed
// pipe.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (n int, err error) {
	n, err = o.w.Write(p)
	o.err = err
	return n, err
}

// isolate gives cmd its complete environment and a bounded standard error.
// git needs a PATH only where it is a wrapper script.
func (r *Repository) isolate(cmd *exec.Cmd) *tail {
	stderr := new(tail)
	cmd.Dir = r.private
	cmd.Stderr = stderr
	cmd.Env = []string{
		"PATH=" + filepath.Dir(r.git) + string(filepath.ListSeparator) + "/usr/bin" + string(filepath.ListSeparator) + "/bin",
		"HOME=" + r.private,
		"XDG_CONFIG_HOME=" + r.private,
		"LC_ALL=C",
		"GIT_DIR=" + r.private,
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0",
	}
	return stderr
}

// tail keeps the end of what a process wrote to standard error.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const keep = 2 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-keep):]...)
	t.b = t.b[max(0, len(t.b)-keep):]
	return len(p), nil
}

// String returns the text on one line, after a colon, ready to be appended.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(t.b), "?")), " ")
	if text == "" {
		return ""
	}
	return ": " + text
}
