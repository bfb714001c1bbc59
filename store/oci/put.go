package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	digests "github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/truegreen-dev/truegreen/store"
)

// ErrNoPut says that bundles are put into this place by something else.
var ErrNoPut = errors.New("bundles are not put there by truegreen")

// Put puts a bundle, with the sidecars beside it, into a registry, where it refers to
// the image of the place, which has to be there. It returns the name of what it has
// made: the same for the same bytes.
func Put(ctx context.Context, p store.Place, o Options, path string) (store.Candidate, error) {
	if p.Kind != store.OCI {
		return store.Candidate{}, fmt.Errorf("%s: %w", p, ErrNoPut)
	}
	s, err := newRegistry(p, o)
	if err != nil {
		return store.Candidate{}, err
	}
	ctx, done := context.WithTimeout(ctx, store.OpenTime)
	defer done()
	c, err := s.put(ctx, path)
	if err != nil {
		return store.Candidate{}, fmt.Errorf("%s: %w", p, err)
	}
	return c, nil
}

func (s *registry) put(ctx context.Context, path string) (store.Candidate, error) {
	name := filepath.Base(path)
	if !strings.HasSuffix(name, store.BundleSuffix) || !fileName().MatchString(name) {
		return store.Candidate{}, fmt.Errorf("%s: want the name NAME%s", name, store.BundleSuffix)
	}
	e, err := store.OpenFile(path)
	if err != nil {
		return store.Candidate{}, err
	}
	defer e.Close()
	if e.Size > store.MaxBundle {
		return store.Candidate{}, fmt.Errorf("%s: %w: %d bytes, of at most %d", path, store.ErrTooLarge, e.Size, int64(store.MaxBundle))
	}
	image, err := s.repo.Manifests().Resolve(ctx, s.place.Digest)
	if err != nil {
		return store.Candidate{}, fmt.Errorf("look up the image: %w", err)
	}
	bundle, err := s.push(ctx, BundleType, name, e, e.Size)
	if err != nil {
		return store.Candidate{}, err
	}
	layers := []ocispec.Descriptor{bundle}
	for _, beside := range e.Sidecars {
		d, err := s.push(ctx, SidecarType, beside.Name, bytes.NewReader(beside.Bytes), int64(len(beside.Bytes)))
		if err != nil {
			return store.Candidate{}, err
		}
		layers = append(layers, d)
	}
	config := ocispec.DescriptorEmptyJSON
	if err := s.blob(ctx, config, bytes.NewReader(config.Data)); err != nil {
		return store.Candidate{}, err
	}
	config.Data = nil
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: EvidenceType, Config: config, Layers: layers,
		Subject: &ocispec.Descriptor{MediaType: image.MediaType, Digest: image.Digest, Size: image.Size},
	}
	text, err := json.Marshal(m)
	if err != nil {
		return store.Candidate{}, err
	}
	if _, _, err := parseManifest(text, s.place.Digest); err != nil { // what is put can be got
		return store.Candidate{}, err
	}
	d := ocispec.Descriptor{MediaType: m.MediaType, ArtifactType: EvidenceType, Digest: digests.FromBytes(text), Size: int64(len(text))}
	if err := s.repo.Manifests().Push(ctx, d, bytes.NewReader(text)); err != nil {
		return store.Candidate{}, fmt.Errorf("push the manifest: %w", err)
	}
	return store.NewCandidate(fmt.Sprintf("oci://%s@%s", s.place.Repository, d.Digest), string(d.Digest), d), nil
}

// push puts a file there as a layer.
func (s *registry) push(ctx context.Context, kind, title string, r io.ReaderAt, size int64) (ocispec.Descriptor, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(r, 0, size)); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("%s: %w", title, err)
	}
	d := ocispec.Descriptor{
		MediaType: kind, Digest: digests.NewDigest(digests.SHA256, sum), Size: size, Annotations: map[string]string{ocispec.AnnotationTitle: title},
	}
	return d, s.blob(ctx, d, io.NewSectionReader(r, 0, size))
}

// blob puts a blob there, unless it is there.
func (s *registry) blob(ctx context.Context, d ocispec.Descriptor, r io.Reader) error {
	there, err := s.repo.Blobs().Exists(ctx, d)
	if err == nil && !there {
		err = s.repo.Blobs().Push(ctx, d, r)
	}
	if err != nil {
		return fmt.Errorf("push %s: %w", d.Digest, err)
	}
	return nil
}
