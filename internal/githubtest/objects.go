package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Pull is a pull request.
type Pull struct {
	Number                     int
	Closed                     bool
	Head, HeadBranch, HeadRepo string // HeadRepo "": gone
	HeadRepoID                 int64
	Base, BaseBranch           string
	Merge                      string // merge commit
	Mergeable                  *bool  // nil: not known yet
}

// A Commit is a commit without its files.
type Commit struct {
	Tree    string
	Parents []string
}

// An Object is what a ref or a tag points to.
type Object struct{ Type, SHA string }

// A Comment is a comment on a pull request.
type Comment struct {
	ID        int64
	Pull      int
	Login     string
	Type      string // of the account: Bot or User
	Body      string
	Minimized bool
}

// A Status is a status of a commit, as it was sent.
type Status struct {
	Commit      string `json:"-"`
	State       string `json:"state"`
	Context     string `json:"context"`
	Description string `json:"description"`
	URL         string `json:"target_url"`
}

// A Check is a check run.
type Check struct {
	ID          int64
	Name        string
	Commit      string
	ExternalID  string
	Status      string
	Conclusion  string
	Summary     string
	Annotations int
	Updates     []int // annotations of each update
}

// maxBody is how many characters a comment may have.
const maxBody = 65536

func (s *Server) rest() map[string]handler {
	const repo = "/repos/{owner}/{repo}"
	return map[string]handler{
		"GET " + repo + "/pulls":                               s.listPulls,
		"GET " + repo + "/pulls/{number}":                      s.getPull,
		"GET " + repo + "/commits/{sha}/pulls":                 s.pullsOf,
		"GET " + repo + "/git/commits/{sha}":                   s.getCommit,
		"GET " + repo + "/git/ref/{ref...}":                    s.getRef,
		"GET " + repo + "/git/tags/{sha}":                      s.getTag,
		"GET " + repo + "/compare/{basehead}":                  s.compare,
		"GET " + repo + "/contents/{path...}":                  s.contents,
		"GET " + repo + "/raw/{path...}":                       s.contents,
		"GET " + repo + "/issues/{number}/comments":            s.listComments,
		"POST " + repo + "/issues/{number}/comments":           s.createComment,
		"PATCH " + repo + "/issues/comments/{id}":              s.editComment,
		"DELETE " + repo + "/issues/comments/{id}":             s.deleteComment,
		"POST " + repo + "/statuses/{sha}":                     s.createStatus,
		"POST " + repo + "/check-runs":                         s.createCheck,
		"PATCH " + repo + "/check-runs/{id}":                   s.updateCheck,
		"GET " + repo + "/commits/{sha}/check-runs":            s.listChecks,
		"GET " + repo + "/actions/runs":                        s.listRuns,
		"GET " + repo + "/actions/runs/{run}/artifacts":        s.listArtifacts,
		"GET " + repo + "/actions/artifacts/{artifact}":        s.getArtifact,
		"GET " + repo + "/actions/artifacts/{artifact}/{kind}": s.downloadArtifact,
		"GET " + repo + "/releases/tags/{tag}":                 s.getRelease,
		"GET " + repo + "/releases/" + releaseOf + "/assets":   s.listAssets,
		"GET " + repo + "/releases/assets/{asset}":             s.getAsset,
	}
}

func number(c *call, name string) int {
	n, _ := strconv.Atoi(c.r.PathValue(name))
	return n
}

func repoJSON(name string, id int64) any {
	if name == "" {
		return nil
	}
	owner, short, _ := strings.Cut(name, "/")
	return map[string]any{"id": id, "name": short, "full_name": name, "owner": userJSON(owner, "User"), "default_branch": "main"}
}

func userJSON(login, kind string) map[string]any {
	return map[string]any{"login": login, "id": 7, "type": kind}
}

func (p *Pull) json() map[string]any {
	state := "open"
	if p.Closed {
		state = "closed"
	}
	m := map[string]any{
		"number": p.Number, "state": state,
		"head":             map[string]any{"sha": p.Head, "ref": p.HeadBranch, "repo": repoJSON(p.HeadRepo, p.HeadRepoID)},
		"base":             map[string]any{"sha": p.Base, "ref": p.BaseBranch, "repo": repoJSON(Repository, RepositoryID)},
		"merge_commit_sha": nil, "mergeable": p.Mergeable,
	}
	if p.Merge != "" {
		m["merge_commit_sha"] = p.Merge
	}
	return m
}

func (s *Server) numbers() []int {
	var all []int
	for n := range s.Pulls {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

func (s *Server) listPulls(c *call) reply {
	q := c.r.URL.Query()
	all := []any{}
	for _, n := range s.numbers() {
		p := s.Pulls[n]
		owner, _, _ := strings.Cut(p.HeadRepo, "/")
		if q.Get("state") == "open" && p.Closed || q.Get("head") != "" && q.Get("head") != owner+":"+p.HeadBranch {
			continue
		}
		m := p.json()
		delete(m, "mergeable") // lists do not say
		all = append(all, m)
	}
	return ok(all)
}

func (s *Server) getPull(c *call) reply {
	p := s.Pulls[number(c, "number")]
	if p == nil {
		return notFound
	}
	return ok(p.json())
}

func (s *Server) pullsOf(c *call) reply {
	id := c.r.PathValue("sha")
	if _, there := s.Commits[id]; !there {
		return reply{status: http.StatusUnprocessableEntity, body: message("No commit found for SHA: %s", id)}
	}
	all := []any{}
	for _, n := range s.numbers() {
		if p := s.Pulls[n]; slices.Contains(s.ancestors(p.Head), id) && !slices.Contains(s.ancestors(p.Base), id) {
			m := p.json()
			delete(m, "mergeable")
			all = append(all, m)
		}
	}
	return ok(all)
}

func commitJSON(id string, k Commit) map[string]any {
	parents := []any{}
	for _, p := range k.Parents {
		parents = append(parents, map[string]any{"sha": p})
	}
	return map[string]any{"sha": id, "tree": map[string]any{"sha": k.Tree}, "parents": parents}
}

func (s *Server) getCommit(c *call) reply {
	id := c.r.PathValue("sha")
	k, there := s.Commits[id]
	if !there {
		return notFound
	}
	return ok(commitJSON(id, k))
}

func (s *Server) getRef(c *call) reply {
	name := c.r.PathValue("ref")
	o, there := s.Refs[name]
	if !there {
		return notFound
	}
	return ok(map[string]any{"ref": "refs/" + name, "object": map[string]any{"type": o.Type, "sha": o.SHA}})
}

func (s *Server) getTag(c *call) reply {
	o, there := s.Tags[c.r.PathValue("sha")]
	if !there {
		return notFound
	}
	return ok(map[string]any{"sha": c.r.PathValue("sha"), "object": map[string]any{"type": o.Type, "sha": o.SHA}})
}

// ancestors returns a commit and all before it, nearest first.
func (s *Server) ancestors(id string) []string {
	queue := []string{id}
	for i := 0; i < len(queue); i++ {
		for _, p := range s.Commits[queue[i]].Parents {
			if !slices.Contains(queue, p) {
				queue = append(queue, p)
			}
		}
	}
	return queue
}

func (s *Server) compare(c *call) reply {
	base, head, _ := strings.Cut(c.r.PathValue("basehead"), "...")
	for _, id := range []string{base, head} {
		if _, there := s.Commits[id]; !there {
			return notFound
		}
	}
	before := s.ancestors(base)
	i := slices.IndexFunc(s.ancestors(head), func(id string) bool { return slices.Contains(before, id) })
	if i < 0 {
		return reply{status: http.StatusNotFound, body: message("No common ancestor between %s and %s.", base, head)}
	}
	merge := s.ancestors(head)[i]
	status := "diverged"
	switch merge {
	case base:
		status = "ahead"
	case head:
		status = "behind"
	}
	return ok(map[string]any{"status": status, "merge_base_commit": map[string]any{"sha": merge}, "commits": []any{}})
}

func (s *Server) contents(c *call) reply {
	ref, path := c.r.URL.Query().Get("ref"), c.r.PathValue("path")
	b, there := s.Files[ref+":"+path]
	if there {
		return reply{status: http.StatusOK, raw: b, kind: "application/vnd.github.raw+json; charset=utf-8"}
	}
	for name := range s.Files {
		if strings.HasPrefix(name, ref+":"+path+"/") {
			return ok([]any{})
		}
	}
	return notFound
}

func (s *Server) commentJSON(k *Comment) map[string]any {
	m := map[string]any{
		"id": k.ID, "node_id": node(k.ID), "html_url": commentURL(k), "body": k.Body, "user": userJSON(k.Login, k.Type),
	}
	return m
}

func node(id int64) string { return fmt.Sprintf("IC_%d", id) }

func commentURL(k *Comment) string {
	return fmt.Sprintf("https://github.com/%s/pull/%d#issuecomment-%d", Repository, k.Pull, k.ID)
}

func (s *Server) of(pull int) []*Comment {
	var all []*Comment
	for _, k := range s.Comments {
		if k.Pull == pull {
			all = append(all, k)
		}
	}
	return all
}

// page cuts a list as its query asks, with a Link header to the next page.
func page[T any](c *call, all []T) ([]T, http.Header) {
	q := c.r.URL.Query()
	n, _ := strconv.Atoi(q.Get("page"))
	per, _ := strconv.Atoi(q.Get("per_page"))
	n = max(n, 1)
	if per <= 0 || per > 100 {
		per = 30
	}
	from := min((n-1)*per, len(all))
	to := min(from+per, len(all))
	h := http.Header{}
	if to < len(all) {
		q.Set("page", strconv.Itoa(n+1))
		u := url.URL{Scheme: "http", Host: c.r.Host, Path: c.r.URL.Path, RawQuery: q.Encode()}
		h.Set("Link", fmt.Sprintf(`<%s>; rel="next"`, u.String()))
	}
	return all[from:to], h
}

func (s *Server) listComments(c *call) reply {
	if s.Pulls[number(c, "number")] == nil {
		return notFound
	}
	part, h := s.of(number(c, "number")), http.Header{}
	if !c.gitea {
		part, h = page(c, part)
	}
	all := []any{}
	for _, k := range part {
		all = append(all, s.commentJSON(k))
	}
	return reply{status: http.StatusOK, body: all, header: h}
}

func body(c *call) (string, *reply) {
	var in struct {
		Body string `json:"body"`
	}
	if err := json.Unmarshal(c.body, &in); err != nil {
		return "", &reply{status: http.StatusBadRequest, body: message("Problems parsing JSON")}
	}
	if len([]rune(in.Body)) > maxBody {
		m := message("Validation Failed")
		m["errors"] = []any{map[string]any{"resource": "IssueComment", "code": "unprocessable", "field": "data", "message": "Body is too long (maximum is 65536 characters)"}}
		return "", &reply{status: http.StatusUnprocessableEntity, body: m}
	}
	return in.Body, nil
}

func (s *Server) createComment(c *call) reply {
	if s.Pulls[number(c, "number")] == nil {
		return notFound
	}
	text, bad := body(c)
	if bad != nil {
		return *bad
	}
	k := &Comment{ID: s.id(), Pull: number(c, "number"), Login: c.who.login, Type: c.who.kind, Body: text}
	s.Comments = append(s.Comments, k)
	return reply{status: http.StatusCreated, body: s.commentJSON(k)}
}

func (s *Server) comment(c *call) int {
	return slices.IndexFunc(s.Comments, func(k *Comment) bool { return k.ID == int64(number(c, "id")) })
}

func (s *Server) editComment(c *call) reply {
	i := s.comment(c)
	if i < 0 {
		return notFound
	}
	text, bad := body(c)
	if bad != nil {
		return *bad
	}
	s.Comments[i].Body = text
	return ok(s.commentJSON(s.Comments[i]))
}

func (s *Server) deleteComment(c *call) reply {
	i := s.comment(c)
	if i < 0 {
		return notFound
	}
	s.Comments = slices.Delete(s.Comments, i, i+1)
	return reply{status: http.StatusNoContent}
}

func (s *Server) createStatus(c *call) reply {
	var in Status
	if err := json.Unmarshal(c.body, &in); err != nil || len([]rune(in.Description)) > 140 {
		return reply{status: http.StatusUnprocessableEntity, body: message("Validation Failed")}
	}
	in.Commit = c.r.PathValue("sha")
	s.Statuses = append(s.Statuses, in)
	return reply{status: http.StatusCreated, body: in}
}

type checkInput struct {
	Name       string `json:"name"`
	HeadSHA    string `json:"head_sha"`
	ExternalID string `json:"external_id"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	Output     struct {
		Summary     string            `json:"summary"`
		Text        string            `json:"text"`
		Annotations []json.RawMessage `json:"annotations"`
	} `json:"output"`
}

func (k *Check) json() map[string]any {
	var conclusion any
	if k.Conclusion != "" {
		conclusion = k.Conclusion
	}
	return map[string]any{
		"id": k.ID, "name": k.Name, "head_sha": k.Commit, "external_id": k.ExternalID, "status": k.Status, "conclusion": conclusion,
		"html_url": fmt.Sprintf("https://github.com/%s/runs/%d", Repository, k.ID),
	}
}

func (k *Check) take(in checkInput) *reply {
	if len(in.Output.Annotations) > 50 || len(in.Output.Summary) > 65535 || len(in.Output.Text) > 65535 {
		return &reply{status: http.StatusUnprocessableEntity, body: message("Invalid request.\n\nNo more than 50 items; summary exceeds a maximum bytesize of 65535")}
	}
	k.Status, k.Conclusion, k.Summary = in.Status, in.Conclusion, in.Output.Summary
	k.Annotations += len(in.Output.Annotations)
	return nil
}

func (s *Server) createCheck(c *call) reply {
	var in checkInput
	if err := json.Unmarshal(c.body, &in); err != nil {
		return reply{status: http.StatusUnprocessableEntity, body: message("Validation Failed")}
	}
	if c.who.kind != "Bot" {
		return reply{status: http.StatusForbidden, body: message("You must authenticate via a GitHub App.")}
	}
	k := &Check{ID: s.id(), Name: in.Name, Commit: in.HeadSHA, ExternalID: in.ExternalID}
	if bad := k.take(in); bad != nil {
		return *bad
	}
	s.Checks = append(s.Checks, k)
	return reply{status: http.StatusCreated, body: k.json()}
}

func (s *Server) updateCheck(c *call) reply {
	var in checkInput
	i := slices.IndexFunc(s.Checks, func(k *Check) bool { return k.ID == int64(number(c, "id")) })
	if err := json.Unmarshal(c.body, &in); err != nil || i < 0 {
		return notFound
	}
	if bad := s.Checks[i].take(in); bad != nil {
		return *bad
	}
	s.Checks[i].Updates = append(s.Checks[i].Updates, len(in.Output.Annotations))
	return ok(s.Checks[i].json())
}

func (s *Server) listChecks(c *call) reply {
	all := []any{}
	for _, k := range s.Checks {
		if k.Commit == c.r.PathValue("sha") && k.Name == c.r.URL.Query().Get("check_name") {
			all = append(all, k.json())
		}
	}
	return ok(map[string]any{"total_count": len(all), "check_runs": all})
}

// Expiry is when artifacts expire.
var Expiry = time.Date(2027, 2, 28, 0, 0, 0, 0, time.UTC)
