// Package registrytest is an OCI registry for tests: an HTTP server on this machine that
// keeps blobs, manifests and tags, answers as the distribution-spec says, with or without
// the referrers API, and goes wrong as a test scripts it.
package registrytest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Name is the repository that a registry has.
const Name = "acme/widgets"

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
)

// A Registry has one repository.
type Registry struct {
	Mu        sync.Mutex          // held while a request is answered
	Manifests map[string]Manifest // by digest
	Tags      map[string]string   // digests
	Blobs     map[string][]byte   // by digest
	Referrers bool                // it has the referrers API
	Filters   bool                // which filters by artifact type
	Page      int                 // descriptors on one page of it; 0: all
	Password  string              // of the user ci; "": anybody may
	// Hook answers a request, if it returns true.
	Hook func(w http.ResponseWriter, r *http.Request) bool

	t      testing.TB
	web    *httptest.Server
	log    []string
	number int
}

// A Manifest is one as it was pushed.
type Manifest struct {
	Type string
	Text []byte
}

// A Descriptor is what refers to a manifest or a blob.
type Descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
}

// New starts a registry with the referrers API, which ends with the test.
func New(t testing.TB) *Registry {
	s := &Registry{Manifests: map[string]Manifest{}, Tags: map[string]string{}, Blobs: map[string][]byte{}, Referrers: true, Filters: true, t: t}
	s.web = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.web.Close)
	return s
}

// Host returns host and port.
func (s *Registry) Host() string { return strings.TrimPrefix(s.web.URL, "http://") }

// Requests returns the method and the path of each request.
func (s *Registry) Requests() []string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return slices.Clone(s.log)
}

// Digest returns the digest of text.
func Digest(text []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(text)) }

// Image adds an image, and returns its digest.
func (s *Registry) Image() string {
	return s.Add(map[string]any{"schemaVersion": 2, "mediaType": manifestType, "layers": []any{}})
}

// Add adds a manifest, and returns its digest.
func (s *Registry) Add(manifest any) string {
	text, err := json.Marshal(manifest)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	digest := Digest(text)
	s.Manifests[digest] = Manifest{manifestType, text}
	return digest
}

// AddBlob adds a blob, and returns its descriptor.
func (s *Registry) AddBlob(kind, title string, data []byte) Descriptor {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	digest := Digest(data)
	s.Blobs[digest] = data
	return Descriptor{MediaType: kind, Digest: digest, Size: int64(len(data)), Annotations: map[string]string{"org.opencontainers.image.title": title}}
}

func (s *Registry) serve(w http.ResponseWriter, r *http.Request) {
	s.Mu.Lock()
	s.log = append(s.log, r.Method+" "+r.URL.Path)
	hook := s.Hook
	s.Mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if _, password, _ := r.BasicAuth(); s.Password != "" && password != s.Password {
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v2/"+Name+"/")
	kind, name, _ := strings.Cut(rest, "/")
	switch {
	case r.URL.Path == "/v2/":
	case !ok:
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN")
	case kind == "manifests":
		s.manifest(w, r, name, body)
	case kind == "referrers" && s.Referrers:
		s.referrers(w, r, name)
	case kind == "blobs":
		s.blob(w, r, name, body)
	default:
		refuse(w, http.StatusNotFound, "UNSUPPORTED")
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"no"}]}`, code)
}

func (s *Registry) manifest(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	if r.Method == http.MethodPut {
		digest := Digest(body)
		if name != digest {
			s.Tags[name] = digest
		}
		s.Manifests[digest] = Manifest{r.Header.Get("Content-Type"), body}
		if subject := subjectOf(body); subject != "" && s.Referrers {
			w.Header().Set("OCI-Subject", subject)
		}
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(http.StatusCreated)
		return
	}
	if digest, ok := s.Tags[name]; ok {
		name = digest
	}
	m, ok := s.Manifests[name]
	if !ok {
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN")
		return
	}
	w.Header().Set("Docker-Content-Digest", name)
	send(w, r, m.Type, m.Text)
}

func send(w http.ResponseWriter, r *http.Request, kind string, data []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if r.Method != http.MethodHead {
		w.Write(data)
	}
}

func subjectOf(manifest []byte) string {
	var m struct {
		Subject struct {
			Digest string `json:"digest"`
		} `json:"subject"`
	}
	if json.Unmarshal(manifest, &m) != nil {
		return ""
	}
	return m.Subject.Digest
}

func (s *Registry) referrers(w http.ResponseWriter, r *http.Request, image string) {
	all, kind := []Descriptor{}, r.URL.Query().Get("artifactType")
	for digest, m := range s.Manifests {
		var said struct {
			ArtifactType string `json:"artifactType"`
		}
		if subjectOf(m.Text) != image || json.Unmarshal(m.Text, &said) != nil || s.Filters && kind != "" && kind != said.ArtifactType {
			continue
		}
		all = append(all, Descriptor{MediaType: m.Type, Digest: digest, Size: int64(len(m.Text)), ArtifactType: said.ArtifactType})
	}
	slices.SortFunc(all, func(a, b Descriptor) int { return strings.Compare(a.Digest, b.Digest) })
	if s.Page > 0 {
		from, _ := strconv.Atoi(r.URL.Query().Get("from"))
		all = all[min(from, len(all)):]
		if len(all) > s.Page {
			all = all[:s.Page]
			w.Header().Set("Link", fmt.Sprintf(`<%s?artifactType=%s&from=%d>; rel="next"`, r.URL.Path, kind, from+s.Page))
		}
	}
	if s.Filters && kind != "" {
		w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	text, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": all})
	if err != nil {
		s.t.Error(err)
	}
	send(w, r, indexType, text)
}

func (s *Registry) blob(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	switch r.Method {
	case http.MethodPost:
		s.number++
		w.Header().Set("Location", fmt.Sprintf("/v2/%s/blobs/uploads/%d", Name, s.number))
		w.WriteHeader(http.StatusAccepted)
	case http.MethodPut:
		digest := r.URL.Query().Get("digest")
		if digest != Digest(body) {
			refuse(w, http.StatusBadRequest, "DIGEST_INVALID")
			return
		}
		s.Blobs[digest] = body
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(http.StatusCreated)
	default:
		data, ok := s.Blobs[name]
		if !ok {
			refuse(w, http.StatusNotFound, "BLOB_UNKNOWN")
			return
		}
		w.Header().Set("Docker-Content-Digest", name)
		send(w, r, "application/octet-stream", data)
	}
}
