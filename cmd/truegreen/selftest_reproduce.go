package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// reproduceFixture asks for a run of the fixture's patch in a repository that has its
// commits, and at the base this configuration.
func reproduceFixture(dir, config string) (observed, error) {
	run := fixture.New()
	run.Base, run.Head = withFile(run.Base, config), withFile(run.Head, config)
	var base, head string
	repo, err := makeRepository(dir, func(r *fixture.Repository) {
		base = r.Commit(r.Tree(run.Base))
		head = r.Commit(r.Tree(run.Head), base)
		r.Head(head)
	})
	if err != nil {
		return observed{}, err
	}
	run.Forge.Patch = func(p *verifier.Patch) { p.Base, p.Head = base, head }
	run.Repository = "local/repository"
	file, err := run.Bundle(dir)
	if err != nil {
		return observed{}, err
	}
	path := filepath.Join(dir, "evidence"+bundleSuffix)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return observed{}, err
	}
	return again(dir, nil, "reproduce", "--json", "--repo", repo, path)
}

func withFile(files fixture.Files, config string) fixture.Files {
	all := fixture.Files{verifier.ConfigFile: config}
	for path, text := range files {
		all[path] = text
	}
	return all
}

// compareFixtures shows what two runs come to of which the second is to be the first again.
func compareFixtures(dir string, runs ...fixture.Run) (observed, error) {
	var reports [2]verifier.Report
	for i := range reports {
		own, err := os.MkdirTemp(dir, "run-")
		if err != nil {
			return observed{}, err
		}
		file, err := runs[i].Bundle(own)
		if err != nil {
			return observed{}, err
		}
		if reports[i], err = verifier.Verify(bytes.NewReader(file), int64(len(file)), runs[i].Options()); err != nil {
			return observed{}, err
		}
	}
	r := reproduced{first: reports[0], second: &reports[1]}
	if err := r.compare(); err != nil {
		return observed{}, err
	}
	var text bytes.Buffer
	var exit exitCode
	a := &app{out: &text, err: &text, json: true, getenv: func(string) string { return "" }}
	if err := a.showReproduced(&r); err != nil && !errors.As(err, &exit) {
		return observed{}, err
	}
	return observeJSON(text.Bytes(), int(exit))
}
