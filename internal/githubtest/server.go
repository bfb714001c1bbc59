// Package githubtest is a GitHub for tests: an HTTP server on this machine that
// keeps comments, statuses, check runs, pull requests, commits, files and artifacts,
// and answers as GitHub does, failures included.
//
// A test sets up what is there by the exported fields, before the first request or
// between requests, and scripts what goes wrong with [Server.Fault]. If it is given
// GitHub's description of its API, each request and each answer is held to it.
package githubtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// The repository that a server has.
const (
	Repository   = "acme/widgets"
	RepositoryID = 4001
	ForkID       = 4002 // of mallory/widgets
)

// The tokens that a server knows. Each is another account.
const (
	JobToken      = "job-token"   // github-actions[bot], all permissions
	OtherToken    = "other-token" // alice, a person, all permissions
	ReadOnlyToken = "read-only"   // github-actions[bot], as a fork's run has it
	OIDCBearer    = "oidc-bearer" // for [Server.OIDC]
	permissions   = "pull_requests=write; issues=write"
)

// A Server is a forge with one repository.
type Server struct {
	Mu       sync.Mutex // held while a request is answered; a test that changes fields later holds it
	Pulls    map[int]*Pull
	Commits  map[string]Commit
	Refs     map[string]Object // heads/main, tags/v1
	Tags     map[string]Object // annotated tags by their id
	Files    map[string][]byte // commit + ":" + path
	Comments []*Comment
	Statuses []Status
	Checks   []*Check
	Artifact []Artifact
	Runs     []Run
	Releases map[string][]Asset // published, by their tags
	// ForbidGraphQL makes the GraphQL API refuse each query.
	ForbidGraphQL bool
	// Audiences are what tokens were asked for. Token makes one; nil: it says nothing.
	Audiences []string
	Token     func(audience string) string

	released string // the tag of the release that was asked for last

	t      testing.TB
	web    *httptest.Server
	store  *httptest.Server // another host, where artifacts are
	faults map[string]map[int]Fault
	calls  map[string]int
	log    []Request
	nextID int64
	spec   *spec
}

// A Request is one that was made.
type Request struct {
	Route         string // pattern
	Method, Path  string
	Authorization string
	Body          string
}

// A Fault is what happens to one request instead of an answer, or beside it.
type Fault struct {
	Status  int         // answer with it; 0: answer as usual
	After   bool        // after the request was carried out
	Drop    bool        // close the connection without an answer
	Header  http.Header // of the answer with Status
	Body    string
	Latency time.Duration
	Before  func() // runs without the lock, before the request is carried out
	Then    func() // and after it was
}

// New starts a server, which ends with the test. The description is the path of
// GitHub's OpenAPI description, or "".
func New(t testing.TB, description string) *Server {
	s := &Server{
		Pulls: map[int]*Pull{}, Commits: map[string]Commit{}, Refs: map[string]Object{}, Tags: map[string]Object{},
		Files: map[string][]byte{}, Releases: map[string][]Asset{}, faults: map[string]map[int]Fault{}, calls: map[string]int{}, t: t, nextID: 100,
	}
	if description != "" {
		s.spec = load(t, description)
	}
	mux := http.NewServeMux()
	for pattern, h := range s.routes() {
		mux.HandleFunc(pattern, s.route(pattern, h))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("githubtest: there is no %s %s", r.Method, r.URL.Path)
		refuse(w, http.StatusNotFound, "Not Found")
	})
	s.web = httptest.NewServer(mux)
	t.Cleanup(s.web.Close)
	s.store = httptest.NewServer(http.HandlerFunc(s.blob))
	t.Cleanup(s.store.Close)
	return s
}

// URL returns the address of the REST API; it has a path, as an enterprise's has.
func (s *Server) URL() string { return s.web.URL + "/api/v3" }

// GraphQLURL returns the address of the GraphQL API.
func (s *Server) GraphQLURL() string { return s.web.URL + "/api/graphql" }

// GiteaURL returns the address of the REST API under the path that Gitea has.
func (s *Server) GiteaURL() string { return s.web.URL + "/api/v1" }

// OIDC returns the environment in which tokens can be asked for.
func (s *Server) OIDC() map[string]string {
	return map[string]string{
		"ACTIONS_ID_TOKEN_REQUEST_URL":   s.web.URL + "/oidc?api-version=2.0",
		"ACTIONS_ID_TOKEN_REQUEST_TOKEN": OIDCBearer,
	}
}

// Fault makes the k-th request to a route, counted from 1, go wrong; k is 0 for
// each request. A route is a method and a path below the API's, such as
// "POST /repos/{owner}/{repo}/issues/{number}/comments".
func (s *Server) Fault(route string, k int, f Fault) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if _, ok := s.routes()[prefixed("/api/v3", route)]; !ok && !strings.HasSuffix(route, "/graphql") && route != "GET /oidc" {
		s.t.Fatalf("githubtest: no route %q", route)
	}
	if s.faults[route] == nil {
		s.faults[route] = map[int]Fault{}
	}
	s.faults[route][k] = f
}

// Calls returns how many requests were made to a route.
func (s *Server) Calls(route string) int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.calls[route]
}

// Requests returns all requests that were made.
func (s *Server) Requests() []Request {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return append([]Request(nil), s.log...)
}

// A call is a request while it is answered.
type call struct {
	r     *http.Request
	body  []byte
	who   identity
	gitea bool
}

type reply struct {
	status int
	body   any // JSON; nil: none
	header http.Header
	raw    []byte // instead of body
	kind   string // content type of raw
}

type handler func(*call) reply

func (s *Server) routes() map[string]handler {
	all := map[string]handler{}
	for _, at := range []string{"/api/v3", "/api/v1"} {
		for route, h := range s.rest() {
			all[prefixed(at, route)] = h
		}
	}
	all["POST /api/graphql"] = s.graphql
	all["GET /oidc"] = s.oidc
	return all
}

func prefixed(at, route string) string {
	method, path, _ := strings.Cut(route, " ")
	return method + " " + at + path
}

func (s *Server) route(pattern string, h handler) http.HandlerFunc {
	method, path, _ := strings.Cut(pattern, " ")
	gitea := strings.HasPrefix(path, "/api/v1/")
	path = strings.TrimPrefix(strings.TrimPrefix(path, "/api/v3"), "/api/v1")
	name := method + " " + path
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
		if err != nil {
			return
		}
		f := s.count(name, r, string(body))
		if f.Before != nil {
			f.Before()
		}
		if f.Latency > 0 {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(f.Latency):
			}
		}
		var a reply
		if (f.Status == 0 && !f.Drop) || f.After {
			a = s.answer(&call{r: r, body: body, gitea: gitea}, h)
			if f.Then != nil {
				f.Then()
			}
		}
		switch {
		case f.Drop:
			panic(http.ErrAbortHandler)
		case f.Status != 0:
			maps.Copy(w.Header(), f.Header)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(f.Status)
			io.WriteString(w, f.Body)
		default:
			s.send(w, r, name, body, a)
		}
	}
}

func (s *Server) count(name string, r *http.Request, body string) Fault {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.calls[name]++
	s.log = append(s.log, Request{Route: name, Method: r.Method, Path: r.URL.Path, Authorization: r.Header.Get("Authorization"), Body: body})
	if f, ok := s.faults[name][s.calls[name]]; ok {
		return f
	}
	return s.faults[name][0]
}

func (s *Server) answer(c *call, h handler) reply {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	token, _ := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	who, ok := identities[token]
	if !ok && token != "" {
		return reply{status: http.StatusUnauthorized, body: message("Bad credentials")}
	}
	c.who = who
	if r := c.r.PathValue("owner") + "/" + c.r.PathValue("repo"); r != "/" && r != Repository {
		return notFound
	}
	if who.readOnly && c.r.Method != http.MethodGet && !strings.HasSuffix(c.r.URL.Path, "/graphql") {
		return reply{status: http.StatusForbidden, body: message("Resource not accessible by integration"),
			header: http.Header{"X-Accepted-Github-Permissions": {permissions}}}
	}
	return h(c)
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, name string, body []byte, a reply) {
	maps.Copy(w.Header(), a.header)
	text := a.raw
	kind := a.kind
	if a.body != nil {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(a.body); err != nil {
			s.t.Errorf("githubtest: %v", err)
		}
		text, kind = b.Bytes(), "application/json; charset=utf-8"
	}
	if s.spec != nil && a.raw == nil && strings.HasPrefix(r.URL.Path, "/api/v3") {
		var err error
		if text, err = s.spec.check(r, body, a.status, w.Header(), text); err != nil {
			s.t.Errorf("githubtest: %s: %v", name, err)
		}
	}
	if kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.Header().Set("X-Ratelimit-Remaining", "4999")
	w.Header().Set("X-Ratelimit-Limit", "5000")
	w.WriteHeader(a.status)
	w.Write(text)
}

func message(format string, args ...any) map[string]any {
	return map[string]any{"message": fmt.Sprintf(format, args...), "documentation_url": "https://docs.github.com/rest"}
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(message("%s", text))
}

var notFound = reply{status: http.StatusNotFound, body: message("Not Found")}

func ok(body any) reply { return reply{status: http.StatusOK, body: body} }

func (s *Server) id() int64 {
	s.nextID++
	return s.nextID
}

type identity struct {
	login, kind string
	readOnly    bool
}

var identities = map[string]identity{
	JobToken:      {login: "github-actions[bot]", kind: "Bot"},
	OtherToken:    {login: "alice", kind: "User"},
	ReadOnlyToken: {login: "github-actions[bot]", kind: "Bot", readOnly: true},
	OIDCBearer:    {},
}
