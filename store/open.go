package store

import (
	"errors"
	"fmt"
	"os"

	"github.com/truegreen-dev/truegreen/forge"
)

// Options are what places need to be opened. A zero field is its default, or what no
// place needs that is opened.
type Options struct {
	// Forge returns a client for a repository on GitHub.
	Forge func(repository string) (*forge.Client, error)
	// Registry opens what refers to an image in a registry, which package oci knows, and
	// this one does not: what it needs would make every start of a program slower.
	Registry func(Place) (Store, error)
	Temp     string // folder for downloads: os.TempDir
}

// Open opens a place. Nothing is asked yet.
func Open(p Place, o Options) (Store, error) {
	switch p.Kind {
	case Path:
		return files{p.Path}, nil
	case Release, Artifact:
		if o.Forge == nil {
			return nil, errors.New("no client for GitHub")
		}
		client, err := o.Forge(p.Repository)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if p.Kind == Release {
			return &release{p, client, o.Temp}, nil
		}
		return &artifacts{p, client, o.Temp}, nil
	case OCI:
		if o.Registry == nil {
			return nil, errors.New("no client for registries")
		}
		return o.Registry(p)
	}
	return nil, fmt.Errorf("place of kind %q", p.Kind)
}

// Download opens what get writes, in a file that goes with the evidence.
func Download(temp string, get func(*os.File) error) (_ *Evidence, err error) {
	f, err := os.CreateTemp(temp, "truegreen-evidence-*")
	if err != nil {
		return nil, err
	}
	remove := func() error { return errors.Join(f.Close(), os.Remove(f.Name())) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	if err := get(f); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &Evidence{ReaderAt: f, Size: info.Size(), close: remove}, nil
}

// ofForge gives the errors of a download their names here.
func ofForge(err error) error {
	for from, to := range map[error]error{
		forge.ErrExpired: ErrExpired, forge.ErrNoBundle: ErrNone, forge.ErrArchive: ErrUnsafe, forge.ErrDigest: ErrDigest, forge.ErrTooLarge: ErrTooLarge,
	} {
		if errors.Is(err, from) {
			return fmt.Errorf("%w: %w", to, err)
		}
	}
	return err
}
