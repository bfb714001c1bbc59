package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
	"github.com/truegreen-dev/truegreen/internal/registrytest"
)

func serveRegistry(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 0, "registry")
	s := registrytest.New(t)
	ts.Setenv("REGISTRY", s.Host()+"/"+registrytest.Name)
	ts.Setenv("IMAGE", s.Image())
}

func serveGitHub(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) < 2 || (len(args) == 3) == (args[0] == "expired"), "github release TAG FOLDER | artifact RUN FOLDER | expired RUN")
	s := githubtest.New(t, "")
	ts.Setenv("GITHUB_API_URL", s.URL())
	run, _ := strconv.ParseInt(args[1], 10, 64)
	if args[0] == "expired" {
		s.Artifact = []githubtest.Artifact{{ID: 1, Run: run, Name: "evidence", Expired: true}}
		return
	}
	files, err := filepath.Glob(filepath.Join(ts.MkAbs(args[2]), "*"))
	ts.Check(err)
	for i, path := range files {
		name := filepath.Base(path)
		if args[0] == "release" {
			s.Releases[args[1]] = append(s.Releases[args[1]], githubtest.Asset{ID: int64(i + 1), Name: name, Data: []byte(ts.ReadFile(path))})
		} else if begin, ok := strings.CutSuffix(name, bundleSuffix); ok {
			s.Artifact = append(s.Artifact, githubtest.Artifact{ID: int64(i + 1), Run: run, Name: begin, Zip: zipOfBundle(ts, path)})
		}
	}
}

// zipOfBundle is the artifact that a job uploads.
func zipOfBundle(ts *testscript.TestScript, path string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{path, strings.TrimSuffix(path, bundleSuffix) + ".sig"} {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		ts.Check(err)
		w, err := z.Create(filepath.Base(name))
		ts.Check(err)
		_, err = w.Write(text)
		ts.Check(err)
	}
	ts.Check(z.Close())
	return b.Bytes()
}

// TestSourceOnce: what two names of a place lead to is one.
func TestSourceOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a" + bundleSuffix, "b" + waiverSuffix} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := &app{getenv: func(string) string { return "" }}
	list, err := a.sources(t.Context(), []string{dir, dir + "/", filepath.Join(dir, "a"+bundleSuffix)}, "")
	if err != nil || len(list) != 2 || list[0].Waiver || !list[1].Waiver {
		t.Errorf("got %+v, %v", list, err)
	}
	if _, err := a.sources(t.Context(), []string{"release:x"}, ""); fmt.Sprint(codeOf(err)) != "usage" {
		t.Errorf("a name that is none: %v", err)
	}
}
