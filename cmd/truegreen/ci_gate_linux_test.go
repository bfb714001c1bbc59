package main

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
	"github.com/truegreen-dev/truegreen/verifier"
)

// pushed makes the jobs ones of a push to a ref.
func (h *hub) pushed(ref, before, after string) {
	h.push(ref, before, after)
	h.env["GITHUB_REF"] = ref
}

// uploaded returns the artifact of what the last step has left.
func (h *hub) uploaded(id, run int64) githubtest.Artifact {
	h.t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	dir := filepath.Dir(h.out["bundle-path"])
	files, err := os.ReadDir(dir)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			h.t.Fatal(err)
		}
		w, err := z.Create(f.Name())
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
	if err != nil || z.Close() != nil {
		h.t.Fatal(err)
	}
	return githubtest.Artifact{ID: id, Run: run, Name: "truegreen-a1", Zip: b.Bytes()}
}

// TestCIGate: a release passes by what the push of its commit has left, and only while it
// is there; where it has gone, a file of the release stands in.
func TestCIGate(t *testing.T) {
	h := newHub(t, map[string]string{"/" + verifier.ConfigFile: demoConfig + "gate:\n  level: L1\n"})
	const zero = "0000000000000000000000000000000000000000"
	h.git("update-ref", "refs/heads/main", h.merge)
	h.git("update-ref", "refs/remotes/origin/main", h.merge)
	h.git("tag", "v0.9.0", h.base)
	h.git("tag", "v1.0.0", h.merge)
	h.Refs["heads/main"] = githubtest.Object{Type: "commit", SHA: h.merge}
	h.pushed("refs/heads/main", h.base, h.merge)
	h.step(modeRun, nil).exits(0, "")
	h.step(modeSeal, h.hand()).exits(0, "")
	made := h.uploaded(1, 600)

	h.pushed("refs/tags/v1.0.0", zero, h.merge)
	h.step(modeGate, nil).exits(3, "no-evidence")
	if h.out["verdict"] != "unproven" || h.out["tested"] != h.merge || !strings.Contains(h.summary, "    unproven: v1.0.0") {
		t.Errorf("outputs %q\n%s", h.out, h.summary)
	}
	h.Runs, h.Artifact = []githubtest.Run{{ID: 600, Commit: h.merge, Event: "push"}}, []githubtest.Artifact{made}
	h.step(modeGate, nil).exits(0, "")
	if h.out["verdict"] != "verified" || !strings.Contains(h.summary, "    verified: v1.0.0 is commit ") || !strings.Contains(h.stdout, "verified  evidence") {
		t.Errorf("outputs %q\n%s\n%s", h.out, h.stdout, h.summary)
	}
	// Whatever the tag names by now, it is the commit of the event that was released.
	h.eventSHA = h.base
	h.step(modeGate, nil).exits(4, "wrong-tag")
	h.eventSHA = h.merge
	// A policy can be made stricter, and not laxer, by inputs.
	h.step(modeGate, map[string]string{"max-age": "1ns"}).exits(3, "stale")
	// A tag that an input names.
	h.pushed("refs/heads/main", h.base, h.merge)
	h.step(modeGate, map[string]string{"tag": "v1.0.0"}).exits(0, "")
	h.pushed("refs/tags/v1.0.0", zero, h.merge)

	h.Artifact[0].Expired = true
	h.step(modeGate, nil).exits(3, "evidence-expired")
	reader, err := zip.NewReader(bytes.NewReader(made.Zip), int64(len(made.Zip)))
	if err != nil {
		t.Fatal(err)
	}
	var files []githubtest.Asset
	for i, f := range reader.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(r); err != nil {
			t.Fatal(err)
		}
		files = append(files, githubtest.Asset{ID: int64(10 + i), Name: f.Name, Data: b.Bytes()})
	}
	h.Releases["v1.0.0"] = files
	h.step(modeGate, nil).exits(0, "")
	delete(h.Releases, "v1.0.0")
	h.Releases["evidence"] = files
	h.step(modeGate, map[string]string{"bundles": "release:" + githubtest.Repository + "@evidence"}).exits(0, "")
	h.step(modeGate, map[string]string{"bundles": "release:" + githubtest.Repository + "@nowhere"}).exits(2, "")
	h.step(modeGate, map[string]string{"seal": strings.Repeat("0", 64)}).exits(2, "")
	h.step(modeVerify, map[string]string{"tag": "v1.0.0", "bundle": "x"}).exits(2, "")

	// A forge that does not answer says nothing about the release.
	h.Fault("GET /repos/{owner}/{repo}/actions/runs", 0, githubtest.Fault{Status: 403, Body: `{"message":"Resource not accessible by integration"}`})
	h.step(modeGate, nil).exits(2, "")
	if !strings.Contains(h.stderr, "actions: read") {
		t.Errorf("it does not name the permission:\n%s", h.stderr)
	}
}
