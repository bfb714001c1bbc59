package store_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/forge"
	"github.com/truegreen-dev/truegreen/internal/githubtest"
	"github.com/truegreen-dev/truegreen/internal/storetest"
	"github.com/truegreen-dev/truegreen/store"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.tar.zst": "bundle b", "b.sig": "sig b", "b.oidc": "oidc b", "a.tar.zst": "bundle a", "c.waiver": "waiver c", "c.sig": "of nothing",
		"notes.txt": "notes", "d.tar": "another",
	} {
		storetest.Write(t, filepath.Join(dir, name), text)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.tar.zst"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.tar.zst", filepath.Join(dir, "link.tar.zst")); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		filepath.Join(dir, "a.tar.zst"): "bundle a", filepath.Join(dir, "b.tar.zst"): "bundle b|b.oidc=oidc b|b.sig=sig b", filepath.Join(dir, "c.waiver"): "waiver c",
	}
	if got, err := all(t, store.Place{Kind: store.Path, Path: dir}, store.Options{}); err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	one := filepath.Join(dir, "notes.txt") // a file may be called as it likes
	if got, err := all(t, store.Place{Kind: store.Path, Path: one}, store.Options{}); err != nil || got[one] != "notes" {
		t.Errorf("got %v, %v", got, err)
	}
	var path *fs.PathError
	if got, err := all(t, store.Place{Kind: store.Path, Path: filepath.Join(dir, "nowhere")}, store.Options{}); !errors.As(err, &path) || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	storetest.Write(t, filepath.Join(dir, "a.sig"), strings.Repeat("x", store.MaxSidecar+1))
	if _, err := all(t, store.Place{Kind: store.Path, Path: filepath.Join(dir, "a.tar.zst")}, store.Options{}); !errors.Is(err, store.ErrTooLarge) || !errors.As(err, &path) {
		t.Errorf("a large sidecar: %v", err)
	}
}

var commit = strings.Repeat("0b", 20)

// onGitHub is a GitHub with one repository.
func onGitHub(t *testing.T) (*githubtest.Server, store.Options) {
	description := ""
	if dir := os.Getenv("TRUEGREEN_VECTORS"); dir != "" {
		description = filepath.Join(dir, "github", "rest-subset.json")
	}
	s := githubtest.New(t, description)
	return s, store.Options{Temp: t.TempDir(), Forge: func(repository string) (*forge.Client, error) {
		return forge.NewClient(forge.Job{Server: "https://github.com", API: s.URL(), Repository: repository}, forge.Options{Token: githubtest.JobToken})
	}}
}

func zipOf(t *testing.T, files ...string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = fmt.Fprintf(w, "content of %s", name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRelease(t *testing.T) {
	t.Parallel()
	s, o := onGitHub(t)
	s.Releases["v1.0.0"] = []githubtest.Asset{
		{ID: 1, Name: "e.tar.zst", Data: []byte("bundle e")}, {ID: 2, Name: "e.sig", Data: []byte("sig e"), Direct: true},
		{ID: 3, Name: "truegreen_linux.tar.gz", Data: []byte("a program")}, {ID: 4, Name: "w.waiver", Data: []byte("waiver w")},
		{ID: 5, Name: "f.tar.zst", Data: []byte("bundle f"), Digest: "sha256:" + strings.Repeat("0", 64)},
		{ID: 6, Name: "g.tar.zst", Data: []byte("bundle g"), Claims: store.MaxBundle + 1},
		{ID: 7, Name: "h.tar.zst", Data: []byte("bundle h")}, {ID: 8, Name: "h.sig", Data: make([]byte, store.MaxSidecar+1)},
	}
	p := store.Place{Kind: store.Release, Repository: githubtest.Repository, Tag: "v1.0.0"}
	got, err := all(t, p, o)
	if want := map[string]string{"release:acme/widgets@v1.0.0/e.tar.zst": "bundle e|e.sig=sig e", "release:acme/widgets@v1.0.0/w.waiver": "waiver w"}; !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if !errors.Is(err, store.ErrDigest) || !errors.Is(err, store.ErrTooLarge) || strings.Count(err.Error(), "h.tar.zst: ") != 1 {
		t.Errorf("got %v", err)
	}
	p.Tag = "v2.0.0"
	if got, err := all(t, p, o); !errors.Is(err, forge.ErrNoRelease) || got != nil {
		t.Errorf("no release: %v, %v", got, err)
	}
}

// dorny#116, #343: what is expired or something else is told from what is not there.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	s, o := onGitHub(t)
	s.Artifact = []githubtest.Artifact{
		{ID: 1, Run: 500, Name: "evidence", Zip: zipOf(t, "e.tar.zst", "e.oidc")},
		{ID: 2, Run: 500, Name: "coverage", Zip: zipOf(t, "coverage.html")},
		{ID: 3, Run: 501, Name: "evidence", Zip: zipOf(t, "f.tar.zst")},
	}
	p := store.Place{Kind: store.Artifact, Repository: githubtest.Repository, Run: 500}
	got, err := all(t, p, o)
	if want := map[string]string{"artifact:acme/widgets/500/evidence (1)": "content of e.tar.zst|e.oidc=content of e.oidc"}; !maps.Equal(got, want) || !errors.Is(err, store.ErrNone) {
		t.Errorf("got %v, %v", got, err)
	}
	// Those of a commit's runs, that are called as the recipes call them.
	s.Runs = []githubtest.Run{{ID: 500, Commit: commit, Event: "push"}, {ID: 501, Commit: commit, Event: "pull_request"}}
	s.Artifact = append(s.Artifact, githubtest.Artifact{ID: 4, Run: 500, Name: "truegreen-a1", Zip: zipOf(t, "g.tar.zst")})
	got, err = all(t, store.Place{Kind: store.Artifact, Repository: githubtest.Repository, Commit: commit}, o)
	if want := map[string]string{"artifact:acme/widgets/500/truegreen-a1 (4)": "content of g.tar.zst"}; !maps.Equal(got, want) || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for name, c := range map[string]struct {
		artifact githubtest.Artifact
		fault    *githubtest.Fault
		is       error
	}{
		"expired":          {githubtest.Artifact{Expired: true}, nil, store.ErrExpired},
		"expired just now": {githubtest.Artifact{Zip: zipOf(t, "e.tar.zst")}, &githubtest.Fault{Status: http.StatusGone, Body: `{"message":"Artifact has expired"}`}, store.ErrExpired},
		"two bundles":      {githubtest.Artifact{Zip: zipOf(t, "e.tar.zst", "f.tar.zst")}, nil, store.ErrUnsafe},
		"a folder":         {githubtest.Artifact{Zip: zipOf(t, "x/e.tar.zst")}, nil, store.ErrUnsafe},
		"no zip":           {githubtest.Artifact{Zip: []byte("zip")}, nil, store.ErrUnsafe},
		"another zip":      {githubtest.Artifact{Zip: zipOf(t, "e.tar.zst"), Digest: "sha256:" + strings.Repeat("0", 64)}, nil, store.ErrDigest},
		"a large zip":      {githubtest.Artifact{Zip: zipOf(t, "e.tar.zst"), Claims: store.MaxBundle + 1<<21}, nil, store.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := onGitHub(t)
			c.artifact.ID, c.artifact.Run, c.artifact.Name = 9, 500, "evidence"
			s.Artifact = []githubtest.Artifact{c.artifact}
			if c.fault != nil {
				s.Fault("GET /repos/{owner}/{repo}/actions/artifacts/{artifact}/{kind}", 0, *c.fault)
			}
			if got, err := all(t, p, o); len(got) != 0 || !errors.Is(err, c.is) {
				t.Errorf("got %v, %v; want %v", got, err, c.is)
			}
		})
	}
}

// all opens what is in a place.
func all(t *testing.T, p store.Place, o store.Options) (map[string]string, error) {
	t.Helper()
	s, err := store.Open(p, o)
	if err != nil {
		return nil, err
	}
	return storetest.All(t, s, o.Temp)
}
