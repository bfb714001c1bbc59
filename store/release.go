package store

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/truegreen-dev/truegreen/forge"
)

// release is a release on GitHub.
type release struct {
	place  Place
	client *forge.Client
	temp   string
}

// A releaseFile is a bundle or a waiver, with the sidecars of the first.
type releaseFile struct {
	file     forge.Asset
	sidecars []forge.Asset
}

func (s *release) List(ctx context.Context) ([]Candidate, error) {
	assets, err := s.client.Assets(ctx, s.place.Tag)
	if err != nil {
		return nil, err
	}
	named := make(map[string]forge.Asset, len(assets))
	for _, a := range assets {
		named[a.Name] = a
	}
	var list []Candidate
	for _, a := range assets {
		begin, isBundle := strings.CutSuffix(a.Name, BundleSuffix)
		isWaiver := strings.HasSuffix(a.Name, waiverSuffix)
		if !isBundle && !isWaiver {
			continue
		}
		f := releaseFile{file: a}
		for _, suffix := range sidecarSuffixes {
			if beside, ok := named[begin+suffix]; ok && isBundle {
				f.sidecars = append(f.sidecars, beside)
			}
		}
		list = append(list, Candidate{Name: s.place.String() + "/" + a.Name, Digest: a.Digest, Waiver: isWaiver, at: f})
	}
	return list, nil
}

func (s *release) Open(ctx context.Context, c Candidate) (*Evidence, error) {
	ctx, done := context.WithTimeout(ctx, OpenTime)
	defer done()
	f, limit := c.at.(releaseFile), int64(MaxBundle)
	if c.Waiver {
		limit = MaxWaiver
	}
	var sidecars []Sidecar
	for _, a := range f.sidecars {
		var b bytes.Buffer
		if err := s.client.DownloadAsset(ctx, a, MaxSidecar, &b); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, ofForge(err))
		}
		sidecars = append(sidecars, Sidecar{a.Name, b.Bytes()})
	}
	e, err := Download(s.temp, func(to *os.File) error { return s.client.DownloadAsset(ctx, f.file, limit, to) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, ofForge(err))
	}
	e.Sidecars = sidecars
	return e, nil
}
