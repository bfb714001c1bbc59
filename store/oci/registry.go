// Package oci keeps bundles beside an image in an OCI registry. Package store says what
// they are there. It is apart from that because the client of registries works when a
// program starts: [Serve] is a program of its own, truegreen-oci, that truegreen asks.
package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	digests "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/truegreen-dev/truegreen/internal/lazy"
	"github.com/truegreen-dev/truegreen/internal/strictjson"
	"github.com/truegreen-dev/truegreen/store"
)

// What a manifest of ours is, and what its layers are.
const (
	EvidenceType = "application/vnd.truegreen.evidence.v1"
	BundleType   = "application/vnd.truegreen.bundle.v1.tar+zstd"
	SidecarType  = "application/vnd.truegreen.sidecar.v1"
)

// Options are what a registry is asked with. A zero field is its default.
type Options struct {
	// Credential returns what the user has for a registry; nil: nothing for any.
	Credential auth.CredentialFunc
	Transport  http.RoundTripper // http.DefaultTransport
	UserAgent  string
	Temp       string // folder for downloads: os.TempDir
}

// Open opens a place of kind [store.OCI]. Nothing is asked yet.
func Open(p store.Place, o Options) (store.Store, error) { return newRegistry(p, o) }

const (
	maxPages     = 32
	maxRedirects = 3
)

// registry is what refers to an image in an OCI registry.
type registry struct {
	place store.Place
	repo  *remote.Repository
	temp  string
}

func newRegistry(p store.Place, o Options) (*registry, error) {
	repo, err := remote.NewRepository(p.Repository)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	base := o.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	client := &auth.Client{
		Client: &http.Client{Transport: retry.NewTransport(safeTransport{base}), CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errors.New("too many redirects")
			}
			return nil
		}},
		Cache: auth.NewCache(), Credential: o.Credential,
	}
	if o.UserAgent != "" {
		client.SetUserAgent(o.UserAgent)
	}
	repo.Client = client
	repo.PlainHTTP = isLoopback(repo.Reference.Host())
	repo.ReferrerListMaxPages = maxPages
	repo.SkipReferrersGC = true // which would ask for a permission more
	return &registry{p, repo, o.Temp}, nil
}

// A safeTransport sends nothing in the clear but to this machine: not to a registry, nor to
// where that sends for a token or a blob.
type safeTransport struct{ base http.RoundTripper }

func (t safeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !(r.URL.Scheme == "http" && isLoopback(r.URL.Host)) {
		return nil, fmt.Errorf("%s://%s is not https", r.URL.Scheme, r.URL.Host)
	}
	return t.base.RoundTrip(r)
}

func (s *registry) List(ctx context.Context) ([]store.Candidate, error) {
	ctx, done := context.WithTimeout(ctx, store.ListTime)
	defer done()
	var list []store.Candidate
	image := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digests.Digest(s.place.Digest)}
	err := s.repo.Referrers(ctx, image, EvidenceType, func(page []ocispec.Descriptor) error {
		for _, d := range page {
			if d.ArtifactType != EvidenceType { // a registry may say that it has filtered
				continue
			}
			if len(list) == store.MaxCandidates {
				return fmt.Errorf("more than %d bundles refer to the image", store.MaxCandidates)
			}
			list = append(list, store.NewCandidate(fmt.Sprintf("oci://%s@%s", s.place.Repository, d.Digest), string(d.Digest), d))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: list what refers to it: %w", s.place, err)
	}
	return list, nil
}

func (s *registry) Open(ctx context.Context, c store.Candidate) (*store.Evidence, error) {
	ctx, done := context.WithTimeout(ctx, store.OpenTime)
	defer done()
	e, err := s.open(ctx, c.At().(ocispec.Descriptor))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return e, nil
}

func (s *registry) open(ctx context.Context, d ocispec.Descriptor) (*store.Evidence, error) {
	text, err := s.small(ctx, d, store.MaxManifest)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	bundle, beside, err := parseManifest(text, s.place.Digest)
	if err != nil {
		return nil, store.Unsafe("manifest: %w", err)
	}
	var sidecars []store.Sidecar
	for _, layer := range beside {
		text, err := s.small(ctx, layer, store.MaxSidecar)
		if err != nil {
			return nil, fmt.Errorf("sidecar: %w", err)
		}
		sidecars = append(sidecars, store.Sidecar{Name: layer.Annotations[ocispec.AnnotationTitle], Bytes: text})
	}
	e, err := store.Download(s.temp, func(to *os.File) error { return s.get(ctx, bundle, store.MaxBundle, to) })
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	e.Sidecars = sidecars
	return e, nil
}

// small gets a manifest, or a blob that is to be held in memory.
func (s *registry) small(ctx context.Context, d ocispec.Descriptor, limit int64) ([]byte, error) {
	var b bytes.Buffer
	if err := s.get(ctx, d, limit, &b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// get writes what a descriptor names to w. What was written is of no use unless the error
// is nil.
func (s *registry) get(ctx context.Context, d ocispec.Descriptor, limit int64, w io.Writer) error {
	switch {
	case !sha256Digest().MatchString(string(d.Digest)):
		return store.Unsafe("digest %q", d.Digest)
	case d.Size < 0:
		return store.Unsafe("%d bytes", d.Size)
	case d.Size > limit:
		return fmt.Errorf("%w: %d bytes, of at most %d", store.ErrTooLarge, d.Size, limit)
	}
	body, err := s.repo.Fetch(ctx, d)
	if err != nil {
		return err
	}
	defer body.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(body, d.Size+1))
	if err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); n != d.Size || got != string(d.Digest) {
		return fmt.Errorf("%w: %d bytes with %s, want %d with %s", store.ErrDigest, n, got, d.Size, d.Digest)
	}
	return nil
}

// parseManifest returns the layers of a manifest that refers to the image.
func parseManifest(text []byte, image string) (bundle ocispec.Descriptor, sidecars []ocispec.Descriptor, err error) {
	var m ocispec.Manifest
	if err := strictjson.Check(text, strictjson.Limits{Size: store.MaxManifest}); err != nil {
		return bundle, nil, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return bundle, nil, err
	}
	switch {
	case m.SchemaVersion != 2 || m.MediaType != ocispec.MediaTypeImageManifest || m.ArtifactType != EvidenceType:
		return bundle, nil, fmt.Errorf("it is a %q of version %d for %q", m.MediaType, m.SchemaVersion, m.ArtifactType)
	case m.Subject == nil || string(m.Subject.Digest) != image:
		return bundle, nil, errors.New("it refers to another image")
	}
	seen := map[string]bool{}
	for _, d := range m.Layers {
		title := d.Annotations[ocispec.AnnotationTitle]
		switch {
		case !fileName().MatchString(title) || seen[title]:
			return ocispec.Descriptor{}, nil, fmt.Errorf("a layer %q", title)
		case d.MediaType == BundleType && strings.HasSuffix(title, store.BundleSuffix) && bundle.Digest == "":
			bundle = d
		case d.MediaType == SidecarType:
			sidecars = append(sidecars, d)
		default:
			return ocispec.Descriptor{}, nil, fmt.Errorf("layer %q: a %q", title, d.MediaType)
		}
		seen[title] = true
	}
	if bundle.Digest == "" {
		return ocispec.Descriptor{}, nil, errors.New("it has no bundle")
	}
	begin := strings.TrimSuffix(bundle.Annotations[ocispec.AnnotationTitle], store.BundleSuffix)
	for _, d := range sidecars {
		if title := d.Annotations[ocispec.AnnotationTitle]; title != begin+".oidc" && title != begin+".sig" {
			return ocispec.Descriptor{}, nil, fmt.Errorf("layer %q is no sidecar of %s", title, begin)
		}
	}
	return bundle, sidecars, nil
}

// fileName is what a file in a registry may be called: one name, without folders, that
// means the same on every system.
var fileName = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)

var sha256Digest = lazy.Regexp(`^sha256:[0-9a-f]{64}$`)

// isLoopback reports whether a host is this machine, which needs no TLS.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}
