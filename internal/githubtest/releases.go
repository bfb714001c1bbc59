package githubtest

import (
	"crypto/sha256"
	"fmt"
	"net/http"
)

// An Asset is a file of a release.
type Asset struct {
	ID     int64
	Name   string
	Data   []byte
	Open   bool   // its upload has not ended
	Digest string // "": that of Data; "-": the API says none
	Claims int64  // size that the API says; 0: that of Data
	Direct bool   // the API answers with the file, and not with an address
}

const uploaded = "2026-11-30T00:00:00Z"

func (a Asset) json() map[string]any {
	var digest any = fmt.Sprintf("sha256:%x", sha256.Sum256(a.Data))
	switch a.Digest {
	case "":
	case "-":
		digest = nil
	default:
		digest = a.Digest
	}
	state, size := "uploaded", a.Claims
	if a.Open {
		state = "open"
	}
	if size == 0 {
		size = int64(len(a.Data))
	}
	return map[string]any{
		"id": a.ID, "node_id": "RA", "name": a.Name, "label": nil, "state": state, "size": size, "digest": digest, "content_type": "application/octet-stream",
		"download_count": 0, "created_at": uploaded, "updated_at": uploaded, "uploader": nil,
		"url":                  fmt.Sprintf("https://api.github.com/repos/%s/releases/assets/%d", Repository, a.ID),
		"browser_download_url": fmt.Sprintf("https://github.com/%s/releases/download/%d", Repository, a.ID),
	}
}

// releaseOf is the id of the release of a tag: the same for each, a server has one at a time.
const (
	releaseOf = "77"
	releaseID = 77
)

func (s *Server) getRelease(c *call) reply {
	tag := c.r.PathValue("tag")
	if _, there := s.Releases[tag]; !there {
		return notFound
	}
	s.released = tag
	at := fmt.Sprintf("https://api.github.com/repos/%s/releases/%s", Repository, releaseOf)
	return ok(map[string]any{
		"id": releaseID, "node_id": "RE", "tag_name": tag, "target_commitish": "main", "name": tag, "draft": false, "prerelease": false,
		"created_at": uploaded, "published_at": uploaded, "assets": []any{}, "author": userJSON("alice", "User"),
		"url": at, "assets_url": at + "/assets", "upload_url": at + "/assets{?name,label}", "html_url": at, "tarball_url": at, "zipball_url": at,
	})
}

func (s *Server) listAssets(c *call) reply {
	part, h := page(c, s.Releases[s.released])
	all := []any{}
	for _, a := range part {
		all = append(all, a.json())
	}
	return reply{status: http.StatusOK, body: all, header: h}
}

func (s *Server) asset(id int64) (Asset, bool) {
	for _, list := range s.Releases {
		for _, a := range list {
			if a.ID == id {
				return a, true
			}
		}
	}
	return Asset{}, false
}

func (s *Server) getAsset(c *call) reply {
	a, there := s.asset(int64(number(c, "asset")))
	switch {
	case !there:
		return notFound
	case c.r.Header.Get("Accept") != "application/octet-stream":
		return ok(a.json())
	case a.Direct:
		return reply{status: http.StatusOK, raw: a.Data, kind: "application/octet-stream"}
	}
	return reply{status: http.StatusFound, header: http.Header{"Location": {fmt.Sprintf("%s/asset/%d?sig=secret", s.store.URL, a.ID)}}}
}
