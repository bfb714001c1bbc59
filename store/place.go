package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
)

// The kinds of places.
const (
	Path     = "path"
	Release  = "release"
	Artifact = "artifact"
	OCI      = "oci"
)

// A Place is the name of a place, in its parts.
type Place struct {
	Kind       string
	Path       string // of a file or folder, clean
	Repository string // OWNER/REPO, or of a registry HOST/NAME
	Tag        string // of a release
	Run        int64  // of artifacts; 0: all that a push of Commit has started
	Commit     string // of these runs
	Digest     string // of an image, sha256:HEX
}

// String returns the name of the place.
func (p Place) String() string {
	switch p.Kind {
	case Release:
		return "release:" + p.Repository + "@" + p.Tag
	case Artifact:
		if p.Run == 0 {
			return "artifact:" + p.Repository + "@" + p.Commit
		}
		return "artifact:" + p.Repository + "/" + strconv.FormatInt(p.Run, 10)
	case OCI:
		return "oci://" + p.Repository + "@" + p.Digest
	}
	return p.Path
}

var (
	repositoryName = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}$`)
	objectID       = lazy.Regexp(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	// A name in a registry, as the distribution specification has it, behind a host.
	registryName = lazy.Regexp(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)+$`)
	sha256Digest = lazy.Regexp(`^sha256:[0-9a-f]{64}$`)
)

// Parse reads the name of a place, in the form that String writes. What is none of
// another place is a path.
func Parse(name string) (Place, error) {
	p, err := parse(name)
	if err != nil {
		return Place{}, fmt.Errorf("%q: %w", name, err)
	}
	return p, nil
}

func parse(name string) (Place, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case Release:
		repo, tag, _ := strings.Cut(rest, "@")
		if !isRepository(repo) || !isTag(tag) {
			return Place{}, errors.New("want release:OWNER/REPO@TAG")
		}
		return Place{Kind: Release, Repository: repo, Tag: tag}, nil
	case Artifact:
		if repo, commit, ok := strings.Cut(rest, "@"); ok {
			if !isRepository(repo) || !objectID().MatchString(commit) {
				return Place{}, errors.New("want artifact:OWNER/REPO@COMMIT, in full")
			}
			return Place{Kind: Artifact, Repository: repo, Commit: commit}, nil
		}
		i := max(strings.LastIndexByte(rest, '/'), 0)
		run, err := strconv.ParseInt(strings.TrimPrefix(rest[i:], "/"), 10, 64)
		p := Place{Kind: Artifact, Repository: rest[:i], Run: run}
		if err != nil || run <= 0 || !isRepository(p.Repository) || p.String() != name {
			return Place{}, errors.New("want artifact:OWNER/REPO/RUN")
		}
		return p, nil
	case OCI:
		repo, digest, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "@")
		if !strings.HasPrefix(rest, "//") || len(repo) > 512 || !registryName().MatchString(repo) || !sha256Digest().MatchString(digest) {
			return Place{}, errors.New("want oci://HOST/NAME@sha256:HEX")
		}
		return Place{Kind: OCI, Repository: repo, Digest: digest}, nil
	}
	if name == "" || strings.ContainsRune(name, 0) {
		return Place{}, errors.New("want a path")
	}
	return Place{Kind: Path, Path: filepath.Clean(name)}, nil
}

func isRepository(s string) bool {
	_, repo, _ := strings.Cut(s, "/")
	return repositoryName().MatchString(s) && repo != "." && repo != ".."
}

// isTag accepts what a tag may be called of what Git accepts, but for what an address
// could take for something else.
func isTag(s string) bool {
	return s != "" && len(s) <= 255 && s != "." && s != ".." && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) })
}
