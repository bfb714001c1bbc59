package runner

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

func TestAllowVCS(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env, hosts, want []string
	}{
		{nil, nil, []string{"GOVCS=*:off"}},
		{[]string{"GONOPROXY=a.org"}, nil, []string{"GONOPROXY=a.org", "GOVCS=*:off"}},
		{[]string{"GONOSUMDB=b.org/x,c.org", "GOVCS=*:all"}, []string{"d.org", "e.org"}, []string{
			"GIT_ALLOW_PROTOCOL=https", "GIT_ATTR_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GONOPROXY=d.org,e.org", "GONOSUMDB=b.org/x,c.org,d.org,e.org", "GOVCS=d.org:git,e.org:git,*:off",
		}},
	} {
		hosts := slices.Clone(test.hosts)
		spec := sandbox.Spec{Env: slices.Clone(test.env)}
		allowVCS(&spec, hosts)
		if !slices.Equal(spec.Env, test.want) || !slices.Equal(hosts, test.hosts) {
			t.Errorf("%q and hosts %q:\ngot  %q\nwant %q", test.env, test.hosts, spec.Env, test.want)
		}
	}
}

// TestVCS fetches a module with git, over https, from a server on the loopback
// that stands for git.example.com, in the sandbox and the environment of the
// fetchers. It is reached through the caller's proxy, and trusted because the test
// adds its certificate; all else is as in a run.
func TestVCS(t *testing.T) {
	t.Parallel()
	if findGo().goroot == "" {
		t.Skip("needs go")
	}
	s := newVCSServer(t)
	const refused = "GOVCS disallows using git for public git.example.com/team/lib"
	for _, test := range []struct {
		name    string
		vcs     []string
		goproxy string
		stderr  string   // "" where the module comes
		asked   []string // hosts
	}{
		{"named", []string{"git.example.com"}, s.proxy.URL + "/goproxy", "", []string{"git.example.com"}},
		{"named, proxy off", []string{"git.example.com", "other.example.com"}, "off", "", []string{"git.example.com"}},
		{"not named", nil, "direct", refused, []string{"git.example.com"}},
		{"another named", []string{"example.com"}, "direct", refused, []string{"git.example.com"}},
		{"not named, by proxy", nil, s.proxy.URL + "/goproxy", "404 Not Found", []string{"goproxy"}},
	} {
		s.reset()
		j := &job{Selection: &Selection{Config: verifier.DefaultConfig()}, tools: findGo(), dir: t.TempDir()}
		j.Config.Prepare.VCS = test.vcs
		j.owner.UID, j.owner.GID, j.owner.Chown = sandbox.Owner()
		j.o.Getenv = func(name string) string { return map[string]string{"HTTPS_PROXY": s.proxy.URL}[name] }
		j.trees[1] = s.tree(t, &j.owner)
		deps, err := j.newCache(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { makeWritable(deps) })
		spec, err := j.downloadSpec(1, deps, ".", map[string]string{"GOPROXY": test.goproxy, "GOSUMDB": "sum.golang.org"})
		if err != nil {
			t.Fatal(err)
		}
		setEnv(&spec, "SSL_CERT_FILE", verifier.WorkDir+"/ca.pem")
		setEnv(&spec, "GIT_SSL_CAINFO", verifier.WorkDir+"/ca.pem")
		var stderr bytes.Buffer
		spec.Stderr, spec.MinLevel = &stderr, sandbox.LevelRestricted
		r, err := sandbox.Run(t.Context(), spec)
		var no *sandbox.RefusedError
		if errors.As(err, &no) || errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}

		asked, packs := s.reset()
		fetched, err := os.ReadFile(filepath.Join(deps, "go/git.example.com/team/lib@v1.0.0/lib.go"))
		if test.stderr == "" {
			if r.Exit != 0 || string(fetched) != libSource || packs == 0 {
				t.Errorf("%s: exit code %d, fetched %q, %v, packs %d\n%s", test.name, r.Exit, fetched, err, packs, &stderr)
			}
		} else if r.Exit == 0 || !errors.Is(err, fs.ErrNotExist) || packs != 0 || !strings.Contains(stderr.String(), test.stderr) {
			t.Errorf("%s: exit code %d, fetched %q, %v, packs %d\n%s", test.name, r.Exit, fetched, err, packs, &stderr)
		}
		if slices.Sort(asked); !slices.Equal(slices.Compact(asked), test.asked) {
			t.Errorf("%s: %q was asked, want %q", test.name, asked, test.asked)
		}
	}
}

const libSource = "package lib\n"

// A vcsServer is git.example.com, and the proxy through which alone it is reached.
type vcsServer struct {
	proxy *httptest.Server
	ca    []byte // PEM
	repos string // folder with team/lib.git

	mu    sync.Mutex
	asked []string // hosts, and goproxy
	packs int      // requests for objects
}

// reset returns what was asked since the last time.
func (s *vcsServer) reset() (asked []string, packs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, packs = s.asked, s.packs
	s.asked, s.packs = nil, 0
	return asked, packs
}

// makeWritable lets a user remove what the go command wrote.
func makeWritable(dir string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return nil
	})
}

func newVCSServer(t *testing.T) *vcsServer {
	g := newRepo(t)
	backend := filepath.Join(g.git("--exec-path"), "git-http-backend")
	for _, program := range []string{backend, filepath.Join(filepath.Dir(backend), "git-remote-https")} {
		if _, err := os.Stat(program); err != nil {
			t.Skip(err)
		}
	}
	g.write("go.mod", "module git.example.com/team/lib\n\ngo 1.21\n")
	g.write("lib.go", libSource)
	g.commit("one")
	g.git("tag", "v1.0.0")
	s := &vcsServer{repos: t.TempDir()}
	g.git("clone", "-q", "--bare", g.dir, s.repos+"/team/lib.git")

	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("go-get") == "1" {
			io.WriteString(w, `<meta name="go-import" content="git.example.com/team/lib git https://git.example.com/team/lib.git">`)
			return
		}
		s.mu.Lock()
		s.packs++
		s.mu.Unlock()
		h := cgi.Handler{Path: backend, Root: "/", Dir: s.repos, Env: []string{
			"GIT_PROJECT_ROOT=" + s.repos, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		}}
		h.ServeHTTP(w, r)
	}))
	site.TLS = &tls.Config{Certificates: []tls.Certificate{s.certificate(t)}}
	site.StartTLS()
	t.Cleanup(site.Close)
	s.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.Host)
		if r.Method != http.MethodConnect {
			host = "goproxy"
		}
		s.mu.Lock()
		s.asked = append(s.asked, host)
		s.mu.Unlock()
		if r.Method != http.MethodConnect || r.Host != "git.example.com:443" {
			http.NotFound(w, r)
			return
		}
		tunnel(w, site.Listener.Addr().String())
	}))
	t.Cleanup(s.proxy.Close)
	return s
}

// tunnel connects the client of a CONNECT request with an address.
func tunnel(w http.ResponseWriter, addr string) {
	to, err := net.Dial("tcp", addr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	from, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		io.Copy(to, buf)
		to.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(from, to)
}

// certificate makes one for git.example.com, which signs itself.
func (s *vcsServer) certificate(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "git.example.com"}, DNSNames: []string{"git.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// tree writes a tree that needs the module.
func (s *vcsServer) tree(t *testing.T, owner *Target) string {
	dir := filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"go.mod": "module example.org/tree\n\ngo 1.21\n\nrequire git.example.com/team/lib v1.0.0\n",
		"x.go":   fmt.Sprintf("package tree\n\nimport _ %q\n", "git.example.com/team/lib"),
		"ca.pem": string(s.ca),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if owner.Chown {
		for _, name := range []string{"", "go.mod", "x.go", "ca.pem"} {
			if err := os.Chown(filepath.Join(dir, name), owner.UID, owner.GID); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}
