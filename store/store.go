// Package store knows where bundles live: in files and folders, at a release on
// GitHub, in the artifacts of a workflow run, and in an OCI registry.
//
// Nothing that a store says is evidence. It says where bundles are and hands their
// bytes over; whoever verifies them finds out what they are worth. A store can only
// withhold: then something is unproven.
//
// # Places
//
// [Parse] reads the names of places:
//
//	PATH                          a file, or a folder: its files *.tar.zst and *.waiver
//	release:OWNER/REPO@TAG        files of these names at the release of the tag
//	artifact:OWNER/REPO/RUN       the artifacts of a workflow run
//	artifact:OWNER/REPO@COMMIT    those called truegreen*, of all runs that a push has
//	                              started whose last commit this was
//	oci://HOST/NAME@sha256:HEX    what refers to the image of this digest
//
// The sidecars NAME.sig and NAME.oidc beside NAME.tar.zst belong to it, in each place.
// A path that begins as another place does is written as ./release:x.
//
// An artifact holds one bundle, with its sidecars, in a zip that package forge
// unpacks; one that holds something else is [ErrNone]. Artifacts expire: [ErrExpired].
// A release is the one that is published; see [forge.Client.Assets].
//
// # In a registry
//
// A bundle is an OCI image manifest (image-spec 1.1) that refers to an image:
//
//	{
//	  "schemaVersion": 2,
//	  "mediaType": "application/vnd.oci.image.manifest.v1+json",
//	  "artifactType": "application/vnd.truegreen.evidence.v1",
//	  "config": {"mediaType": "application/vnd.oci.empty.v1+json", ...},
//	  "layers": [
//	    {"mediaType": "application/vnd.truegreen.bundle.v1.tar+zstd",
//	     "digest": "sha256:...", "size": 12345,
//	     "annotations": {"org.opencontainers.image.title": "evidence.tar.zst"}},
//	    {"mediaType": "application/vnd.truegreen.sidecar.v1",
//	     "digest": "sha256:...", "size": 310,
//	     "annotations": {"org.opencontainers.image.title": "evidence.sig"}}
//	  ],
//	  "subject": {"mediaType": "...", "digest": "sha256:...", "size": 1234}
//	}
//
// There is one layer of the first kind, and at most one for each sidecar. Manifests are
// found by the referrers API, or by the tag sha256-HEX where a registry has none.
//
// A registry is not trusted:
//
//   - requests go to https, or to this machine; at most 3 redirections are followed;
//   - a list has at most 32 pages of 4 MiB, and [MaxCandidates] bundles;
//   - a manifest has at most [MaxManifest] bytes, and the digest by which it was asked for;
//   - its subject is the image that was asked about;
//   - a bundle has at most [MaxBundle] bytes, a sidecar [MaxSidecar], each exactly the
//     size and the SHA-256 that the manifest says;
//   - a list ends after 2 minutes, a download after 30.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Limits on what a place hands over.
const (
	MaxCandidates = 1000
	MaxBundle     = 2 << 30
	MaxSidecar    = 64 << 10
	MaxWaiver     = 1 << 20
	MaxManifest   = 64 << 10
)

// How long places are asked.
const (
	ListTime = 2 * time.Minute
	OpenTime = 30 * time.Minute
)

// A Store is a place where bundles live.
type Store interface {
	// List says what is there, in an order that does not change by itself.
	List(ctx context.Context) ([]Candidate, error)
	// Open gets one of these. The caller closes it.
	Open(ctx context.Context, c Candidate) (*Evidence, error)
}

// A Candidate is something in a place that may be a bundle or a waiver.
type Candidate struct {
	Name   string // its place and its name there: no two are called the same
	Digest string // sha256:HEX that the place says, of the file, zip or manifest; "": it does not say
	Waiver bool

	at any // what the store needs to open it
}

// NewCandidate returns a candidate of another store than those here, which finds what at
// is again with [Candidate.At].
func NewCandidate(name, digest string, at any) Candidate {
	return Candidate{Name: name, Digest: digest, at: at}
}

// At returns what the store that listed c needs to open it.
func (c Candidate) At() any { return c.at }

// Evidence is an opened candidate: the bytes of a bundle or a waiver.
type Evidence struct {
	io.ReaderAt
	Size     int64
	Sidecars []Sidecar

	close func() error
}

// Close ends the use of the bytes, and removes what was downloaded.
func (e *Evidence) Close() error {
	if e.close == nil { // of another store than those here
		return nil
	}
	return e.close()
}

// OnClose has f run when e is closed, after what is done then anyway.
func (e *Evidence) OnClose(f func() error) {
	before := e.close
	e.close = func() error {
		if before == nil {
			return f()
		}
		return errors.Join(before(), f())
	}
}

// A Sidecar is the signature that came with a bundle.
type Sidecar struct {
	Name  string // NAME.oidc, NAME.sig
	Bytes []byte
}

// What can be wrong with one candidate, and says nothing about the others.
var (
	ErrExpired  = errors.New("it has expired")
	ErrNone     = errors.New("it holds no bundle")
	ErrUnsafe   = errors.New("it is none that an honest upload makes")
	ErrDigest   = errors.New("it is not what its digest says")
	ErrTooLarge = errors.New("it is larger than the limit")
)

// BundleSuffix ends the names of bundles.
const BundleSuffix = ".tar.zst"

const waiverSuffix = ".waiver"

var sidecarSuffixes = [...]string{".oidc", ".sig"}

// Unsafe is [ErrUnsafe] with what is wrong.
func Unsafe(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnsafe, fmt.Errorf(format, args...))
}
