package runner

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// A patchRun runs the head of a repository of its own, again and again with one
// state folder.
type patchRun struct {
	*gitRepo
	env   map[string]string // the caller's
	state string
}

func newPatchRun(t *testing.T, env map[string]string) *patchRun {
	p := &patchRun{gitRepo: newRepo(t), env: env, state: t.TempDir()}
	if err := os.Chmod(p.state, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { makeWritable(p.state) })
	return p
}

// run commits the work tree and runs it. It returns the verified report, the
// steps that name a prepare call, and the lines of modules of them all.
func (p *patchRun) run() (report verifier.Report, steps []verifier.Step, modules []string) {
	p.t.Helper()
	p.commit("patch")
	out := filepath.Join(p.t.TempDir(), "bundle.tar.zst")
	secret := bytes.Repeat([]byte{7}, 32)
	key := filepath.Join(p.t.TempDir(), "key")
	if err := os.WriteFile(key, secret, 0o600); err != nil {
		p.t.Fatal(err)
	}
	environ := os.Environ()
	for name, value := range p.env {
		environ = append(environ, name+"="+value)
	}
	done, err := Run(p.t.Context(), Options{
		Repo: p.dir, Head: "HEAD", State: p.state, Out: out, Attempt: 1,
		Key: func() (*os.File, error) { return os.Open(key) }, Now: time.Now,
		Getenv: func(name string) string { return p.env[name] }, Environ: environ,
	})
	var refused *sandbox.RefusedError
	if errors.As(err, &refused) || errors.Is(err, errors.ErrUnsupported) {
		p.t.Skip(err)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	done.Close()
	f, err := os.Open(out)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		p.t.Fatal(err)
	}
	o := done.Expect
	o.Keys, o.Now = []verifier.KeyAnchor{{Secret: secret, Who: "the test"}}, time.Now()
	if report, err = verifier.Verify(f, info.Size(), o); err != nil {
		p.t.Fatal(err)
	}
	b, err := bundle.Open(f, info.Size(), bundle.Limits{})
	if err != nil {
		p.t.Fatal(err)
	}
	blobs := map[receipts.Digest]string{}
	err = b.Walk(func(_ bundle.Entry, body io.Reader) error {
		text, err := io.ReadAll(body)
		blobs[receipts.Sum(text)] = string(text)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range report.Steps() {
		p.t.Logf("%s %s on %s: %s %d %s %s%s", s.Args.Tool, s.Args.Name, s.Args.Side, s.Result.State, s.Result.Exit, s.Result.Why,
			blobs[s.Result.Stdout.Digest], blobs[s.Result.Stderr.Digest])
		if s.Args.Tool != receipts.ToolPrepare {
			continue
		}
		steps = append(steps, s)
		for _, file := range s.Result.Files {
			if string(file.Name) == verifier.FileModules {
				modules = append(modules, strings.Split(strings.TrimSuffix(blobs[file.Digest], "\n"), "\n")...)
			}
		}
	}
	return report, steps, modules
}

// green fails the test unless the report says so.
func green(t testing.TB, r verifier.Report) {
	t.Helper()
	if r.Verdict() != verifier.Verified {
		t.Errorf("%v: %v", r.Verdict(), r.Reasons())
	}
}

// A registry serves files on the loopback and counts what is asked for.
type registry struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string]string // path: content; URL stands for the registry's
	asked []string
}

func newRegistry(t *testing.T) *registry {
	r := &registry{files: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asked = append(r.asked, q.URL.Path)
		content, ok := r.files[q.URL.Path]
		if !ok {
			http.NotFound(w, q)
			return
		}
		if strings.HasSuffix(q.URL.Path, "/") {
			w.Header().Set("Content-Type", "text/html")
		}
		io.WriteString(w, content)
	}))
	t.Cleanup(r.Close)
	return r
}

// requests returns the paths that were asked for since the last time.
func (r *registry) requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

func (r *registry) serve(path, content string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[path] = content
}

// tarball makes a .tar.gz of files, in pairs of name and content.
func tarball(t testing.TB, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Name: files[i], Mode: 0o755, Size: int64(len(files[i+1])), ModTime: time.Unix(1700000000, 0)}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// folderOf is a folder with files of these contents.
func folderOf(files map[string]string) treeDir {
	return treeDir{
		has: func(name string) bool {
			for file := range files {
				if file == name || strings.HasPrefix(file, name+"/") {
					return true
				}
			}
			return false
		},
		read: func(name string) ([]byte, error) {
			if content, ok := files[name]; ok {
				return []byte(content), nil
			}
			return nil, fs.ErrNotExist
		},
	}
}

func TestTreeDir(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("node_modules-x/a", "1")
	g.write("web/node_modules/a", "2")
	g.write("web/lock", "3")
	if err := os.Symlink("lock", filepath.Join(g.dir, "web/link")); err != nil {
		t.Fatal(err)
	}
	g.commit("one")
	j := &job{Selection: &Selection{repo: g.open()}}
	var err error
	if j.listings[1].listing, err = j.repo.List(t.Context(), g.git("rev-parse", "HEAD^{tree}"), io.Discard); err != nil {
		t.Fatal(err)
	}
	root, web := j.treeDir(t.Context(), place{1, "."}), j.treeDir(t.Context(), place{1, "web"})
	for name, want := range map[string][2]bool{
		"node_modules": {false, true}, "lock": {false, true}, "link": {false, true}, "web": {true, false}, "web/node_modules": {true, false}, "z": {},
	} {
		if got := [2]bool{root.has(name), web.has(name)}; got != want {
			t.Errorf("%s: there: %v, want %v", name, got, want)
		}
	}
	if b, err := web.read("lock"); string(b) != "3" {
		t.Errorf("%q, %v", b, err)
	}
	for _, name := range []string{"link", "node_modules", "z"} { // a link is not what it points to
		if _, err := web.read(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
