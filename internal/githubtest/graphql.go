package githubtest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// graphql answers the three queries that are made: the comments of a pull request,
// and to minimise one or show it again. It looks for what a query is about and does
// not parse it.
func (s *Server) graphql(c *call) reply {
	var in struct {
		Query     string `json:"query"`
		Variables struct {
			Number int     `json:"number"`
			Cursor *string `json:"cursor"`
			ID     string  `json:"id"`
		} `json:"variables"`
	}
	if err := json.Unmarshal(c.body, &in); err != nil {
		return reply{status: http.StatusBadRequest, body: message("Problems parsing JSON")}
	}
	writes := strings.HasPrefix(in.Query, "mutation")
	if s.ForbidGraphQL || writes && c.who.readOnly {
		return ok(map[string]any{"data": nil, "errors": []any{map[string]any{"type": "FORBIDDEN", "message": "Resource not accessible by integration"}}})
	}
	if writes {
		return s.minimize(in.Variables.ID, strings.Contains(in.Query, "{minimizeComment("))
	}
	p := s.Pulls[in.Variables.Number]
	if p == nil {
		return ok(map[string]any{"data": nil, "errors": []any{map[string]any{"type": "NOT_FOUND", "message": "Could not resolve to a PullRequest"}}})
	}
	all := s.of(p.Number)
	from := 0
	if in.Variables.Cursor != nil {
		from, _ = strconv.Atoi(*in.Variables.Cursor)
	}
	to := min(from+100, len(all))
	nodes := []any{}
	for _, k := range all[from:to] {
		nodes = append(nodes, map[string]any{
			"id": node(k.ID), "databaseId": k.ID, "url": commentURL(k), "body": k.Body, "isMinimized": k.Minimized,
			"viewerDidAuthor": k.Login == c.who.login,
		})
	}
	return ok(map[string]any{"data": map[string]any{"repository": map[string]any{"pullRequest": map[string]any{
		"headRefOid": p.Head,
		"comments": map[string]any{
			"pageInfo": map[string]any{"hasNextPage": to < len(all), "endCursor": strconv.Itoa(to)},
			"nodes":    nodes,
		},
	}}}})
}

func (s *Server) minimize(id string, hidden bool) reply {
	for _, k := range s.Comments {
		if node(k.ID) == id {
			k.Minimized = hidden
		}
	}
	return ok(map[string]any{"data": map[string]any{"x": map[string]any{"clientMutationId": nil}}})
}
