package githubtest

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// An Artifact is a zip that a run left behind.
type Artifact struct {
	ID      int64
	Run     int64
	Name    string
	Zip     []byte
	Expired bool
	Digest  string // "": that of Zip
	Claims  int64  // size that the API says; 0: that of Zip
}

func (a Artifact) json() map[string]any {
	digest := a.Digest
	if digest == "" {
		digest = fmt.Sprintf("sha256:%x", sha256.Sum256(a.Zip))
	}
	size := a.Claims
	if size == 0 {
		size = int64(len(a.Zip))
	}
	return map[string]any{
		"id": a.ID, "name": a.Name, "size_in_bytes": size, "expired": a.Expired, "digest": digest,
		"expires_at": Expiry, "workflow_run": map[string]any{"id": a.Run},
	}
}

// A Run is a workflow run.
type Run struct {
	ID           int64
	Commit       string
	Event        string
	IgnoreFilter bool // it is listed whatever is asked for
}

func (s *Server) listRuns(c *call) reply {
	all, q := []any{}, c.r.URL.Query()
	for _, r := range s.Runs {
		if r.IgnoreFilter || r.Commit == q.Get("head_sha") && r.Event == q.Get("event") {
			at := fmt.Sprintf("https://api.github.com/repos/%s/actions/runs/%d", Repository, r.ID)
			all = append(all, map[string]any{
				"id": r.ID, "head_sha": r.Commit, "event": r.Event, "status": "completed", "conclusion": "success", "url": at, "html_url": at,
			})
		}
	}
	return ok(map[string]any{"total_count": len(all), "workflow_runs": all})
}

func (s *Server) listArtifacts(c *call) reply {
	var of []Artifact
	for _, a := range s.Artifact {
		if name := c.r.URL.Query().Get("name"); a.Run == int64(number(c, "run")) && (name == "" || name == a.Name) {
			of = append(of, a)
		}
	}
	total := len(of)
	part, h := page(c, of)
	all := []any{}
	for _, a := range part {
		all = append(all, a.json())
	}
	return reply{status: http.StatusOK, body: map[string]any{"total_count": total, "artifacts": all}, header: h}
}

func (s *Server) artifact(id int64) (Artifact, bool) {
	for _, a := range s.Artifact {
		if a.ID == id {
			return a, true
		}
	}
	return Artifact{}, false
}

func (s *Server) getArtifact(c *call) reply {
	a, there := s.artifact(int64(number(c, "artifact")))
	if !there {
		return notFound
	}
	return ok(a.json())
}

func (s *Server) downloadArtifact(c *call) reply {
	a, there := s.artifact(int64(number(c, "artifact")))
	switch {
	case !there:
		return notFound
	case a.Expired:
		return reply{status: http.StatusGone, body: message("Artifact has expired")}
	}
	return reply{status: http.StatusFound, header: http.Header{"Location": {fmt.Sprintf("%s/store/%d?sig=secret", s.store.URL, a.ID)}}}
}

// blob is the store, which takes an address for a permission and refuses tokens.
func (s *Server) blob(w http.ResponseWriter, r *http.Request) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	kind, number, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	id, _ := strconv.ParseInt(number, 10, 64)
	a, there := s.artifact(id)
	content := a.Zip
	if kind == "asset" {
		var file Asset
		file, there = s.asset(id)
		content = file.Data
	}
	if r.Header.Get("Authorization") != "" {
		s.t.Error("githubtest: the store was shown a token")
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if !there || r.URL.Query().Get("sig") != "secret" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Write(content)
}

func (s *Server) oidc(c *call) reply {
	// The platform's own token is not one of the API's, so who is nobody here.
	audience := c.r.URL.Query().Get("audience")
	s.Audiences = append(s.Audiences, audience)
	if c.r.URL.Query().Get("api-version") != "2.0" {
		return reply{status: http.StatusBadRequest, body: message("api-version")}
	}
	token := "aGVhZGVy.cGF5bG9hZA.c2ln"
	if s.Token != nil {
		token = s.Token(audience)
	}
	return ok(map[string]any{"count": 1, "value": token})
}
