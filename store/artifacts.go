package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/truegreen-dev/truegreen/forge"
)

// artifacts are those of a workflow run.
type artifacts struct {
	place  Place
	client *forge.Client
	temp   string
}

// ofRecipes is how the names of artifacts begin that are looked for in runs which nobody
// named: others may be large, and are something else.
const ofRecipes = "truegreen"

// List returns all artifacts of the run, whatever they are called: what is in one shows
// when it is opened.
func (s *artifacts) List(ctx context.Context) ([]Candidate, error) {
	runs, begin := []int64{s.place.Run}, ""
	if s.place.Run == 0 {
		var err error
		if runs, err = s.client.RunsOf(ctx, s.place.Commit); err != nil {
			return nil, err
		}
		begin = ofRecipes
	}
	var list []Candidate
	for _, run := range runs {
		all, err := s.client.Artifacts(ctx, run)
		if err != nil {
			return nil, err
		}
		of := Place{Kind: Artifact, Repository: s.place.Repository, Run: run}
		for _, a := range all { // names may occur twice, ids do not
			if strings.HasPrefix(a.Name, begin) {
				list = append(list, Candidate{Name: fmt.Sprintf("%s/%s (%d)", of, a.Name, a.ID), Digest: a.Digest, at: a})
			}
		}
		if len(list) > MaxCandidates {
			return nil, fmt.Errorf("%s: more than %d artifacts", s.place, MaxCandidates)
		}
	}
	return list, nil
}

func (s *artifacts) Open(ctx context.Context, c Candidate) (*Evidence, error) {
	ctx, done := context.WithTimeout(ctx, OpenTime)
	defer done()
	zip, err := Download(s.temp, func(to *os.File) error {
		return s.client.Download(ctx, c.at.(forge.Artifact), "", MaxBundle+1<<20, to)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, ofForge(err))
	}
	defer zip.Close()
	e, err := unpack(s.temp, zip)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, ofForge(err))
	}
	return e, nil
}

// unpack opens the bundle in an artifact's zip, in a folder that goes with it.
func unpack(temp string, zip *Evidence) (_ *Evidence, err error) {
	dir, err := os.MkdirTemp(temp, "truegreen-evidence-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := forge.Unpack(zip, zip.Size, root, forge.ArchiveLimits{Bundle: MaxBundle, Sidecar: MaxSidecar})
	if err != nil {
		return nil, err
	}
	e, err := OpenFile(filepath.Join(dir, names.Bundle))
	if err != nil {
		return nil, err
	}
	file := e.close
	e.close = func() error { return errors.Join(file(), os.RemoveAll(dir)) }
	return e, nil
}
