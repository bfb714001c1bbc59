package forge

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
)

// dorny#116, #343: missing, expired, of another run, and of a name that only looks
// like the one.
func TestArtifacts(t *testing.T) {
	f := newForgeTest(t)
	for i := range 130 {
		f.Artifact = append(f.Artifact, githubtest.Artifact{ID: int64(1000 + i), Run: 500, Name: fmt.Sprintf("receipts-%d", i), Zip: []byte("zip")})
	}
	f.Artifact = append(f.Artifact,
		githubtest.Artifact{ID: 1, Run: 501, Name: "receipts-0"},
		githubtest.Artifact{ID: 2, Run: 500, Name: "twice"},
		githubtest.Artifact{ID: 3, Run: 500, Name: "twice"},
		githubtest.Artifact{ID: 4, Run: 500, Name: "old", Expired: true},
		githubtest.Artifact{ID: 5, Run: 500, Name: "odd", Digest: "sha256:xyz"},
	)
	c := f.client(t)
	if all, err := c.Artifacts(t.Context(), 600); err != nil || len(all) != 0 {
		t.Errorf("of a run without any: %v, %v", all, err)
	}
	if _, err := c.Artifacts(t.Context(), 500); err == nil {
		t.Error("with a digest that is none")
	}
	f.Artifact = f.Artifact[:len(f.Artifact)-1]
	if all, err := c.Artifacts(t.Context(), 500); err != nil || len(all) != 133 {
		t.Errorf("%d artifacts, %v", len(all), err)
	}
	a, err := c.Artifact(t.Context(), 500, "receipts-0")
	if want := (Artifact{ID: 1000, Name: "receipts-0", Size: 3, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("zip"))), Expires: githubtest.Expiry, Run: 500}); err != nil || a != want {
		t.Errorf("got %+v, %v", a, err)
	}
	for _, name := range []string{"receipts", "twice", "RECEIPTS-0", "", "receipts-*"} {
		if a, err := c.Artifact(t.Context(), 500, name); !errors.Is(err, ErrNoArtifact) || a != (Artifact{}) {
			t.Errorf("%q: %+v, %v", name, a, err)
		}
	}
	// A forge that does not filter, as the older ones do not.
	f.Fault("GET /repos/{owner}/{repo}/actions/runs/{run}/artifacts", f.Calls("GET /repos/{owner}/{repo}/actions/runs/{run}/artifacts")+1,
		githubtest.Fault{Status: 200, Body: `{"artifacts":[{"id":8,"name":"other"}]}`})
	if a, err := c.Artifact(t.Context(), 500, "receipts-0"); !errors.Is(err, ErrNoArtifact) {
		t.Errorf("not filtered: %+v, %v", a, err)
	}
	if a, err := c.ArtifactByID(t.Context(), 500, 1001); err != nil || a.Name != "receipts-1" {
		t.Errorf("by id: %+v, %v", a, err)
	}
	for _, id := range []int64{1, 99} {
		if _, err := c.ArtifactByID(t.Context(), 500, id); !errors.Is(err, ErrNoArtifact) {
			t.Errorf("%d: %v", id, err)
		}
	}
	old, err := c.Artifact(t.Context(), 500, "old")
	if err != nil || !old.Expired {
		t.Fatalf("%+v, %v", old, err)
	}
	old.Expired = false // it expires between two requests
	for _, a := range []Artifact{{ID: 4, Expired: true}, old} {
		if err := c.Download(t.Context(), a, "", 100, new(bytes.Buffer)); !errors.Is(err, ErrExpired) {
			t.Errorf("download: %v", err)
		}
	}
}

// irsl 2025: an artifact can be replaced inside of its run.
func TestDownloadDigest(t *testing.T) {
	f := newForgeTest(t)
	f.Artifact = []githubtest.Artifact{{ID: 1, Run: 500, Name: "receipts", Zip: []byte("zip")}}
	good, other := fmt.Sprintf("%x", sha256.Sum256([]byte("zip"))), fmt.Sprintf("%x", sha256.Sum256([]byte("other")))
	c := f.client(t)
	a, err := c.Artifact(t.Context(), 500, "receipts")
	if err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{"", good, "sha256:" + good} {
		var b bytes.Buffer
		if err := c.Download(t.Context(), a, digest, 3, &b); err != nil || b.String() != "zip" {
			t.Errorf("%q: %q, %v", digest, b.String(), err)
		}
	}
	if err := c.Download(t.Context(), a, other, 3, new(bytes.Buffer)); !errors.Is(err, ErrDigest) {
		t.Errorf("other digest from the job: %v", err)
	}
	if err := c.Download(t.Context(), a, "zip", 3, new(bytes.Buffer)); err == nil {
		t.Error("no digest at all")
	}
	a.Digest = "sha256:" + other
	if err := c.Download(t.Context(), a, good, 3, new(bytes.Buffer)); !errors.Is(err, ErrDigest) {
		t.Errorf("other digest from the API: %v", err)
	}
	a.Digest = ""
	a.Size = 0
	for _, limit := range []int64{2, 0} {
		var b bytes.Buffer
		if err := c.Download(t.Context(), a, "", limit, &b); err == nil || int64(b.Len()) > limit+1 {
			t.Errorf("limit %d: %d bytes, %v", limit, b.Len(), err)
		}
	}
	a.Size = 4
	n := len(f.Requests())
	if err := c.Download(t.Context(), a, "", 3, new(bytes.Buffer)); err == nil || len(f.Requests()) != n {
		t.Errorf("asked for what is too large: %v", err)
	}
}

// The address of an artifact is a permission, and https.
func TestDownloadAddress(t *testing.T) {
	const route = "GET /repos/{owner}/{repo}/actions/artifacts/{artifact}/{kind}"
	for _, location := range []string{"http://store.example/x?sig=secret", "file:///etc/passwd", "https://user:secret@store.example/", "http://127.0.0.1:1/x?sig=secret"} {
		t.Run(location, func(t *testing.T) {
			f := newForgeTest(t)
			f.Fault(route, 0, githubtest.Fault{Status: 302, Header: map[string][]string{"Location": {location}}})
			err := f.client(t).Download(t.Context(), Artifact{ID: 1}, "", 100, new(bytes.Buffer))
			if err == nil || strings.Contains(err.Error(), "secret") && !strings.HasPrefix(location, "http://store") {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, status := range []int{200, 303, 404} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			f := newForgeTest(t)
			f.Fault(route, 0, githubtest.Fault{Status: status, Header: map[string][]string{"Location": {"http://127.0.0.1:1/"}}})
			if err := f.client(t).Download(t.Context(), Artifact{ID: 1}, "", 100, new(bytes.Buffer)); err == nil {
				t.Error("downloaded")
			}
		})
	}
}

// The runs of a commit are those that its push has started: of others it is not known who
// may have started them.
func TestRunsOf(t *testing.T) {
	f := newForgeTest(t)
	f.Runs = []githubtest.Run{
		{ID: 1, Commit: h1, Event: "push"}, {ID: 2, Commit: h1, Event: "pull_request"}, {ID: 3, Commit: h2, Event: "push"},
		{ID: 4, Commit: h2, Event: "push", IgnoreFilter: true}, {ID: 5, Commit: h1, Event: "workflow_dispatch", IgnoreFilter: true},
	}
	runs, err := f.client(t).RunsOf(t.Context(), h1)
	if err != nil || len(runs) != 1 || runs[0] != 1 {
		t.Errorf("got %v, %v", runs, err)
	}
	if runs, err := f.client(t).RunsOf(t.Context(), "main"); err == nil || runs != nil {
		t.Errorf("no commit: %v, %v", runs, err)
	}
}
