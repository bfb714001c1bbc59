package forge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/google/go-github/v60/github"
)

// A commit is what the API says of one.
type commit struct {
	id, tree string
	parents  []string
}

func (c *Client) commit(ctx context.Context, id string) (commit, error) {
	doing := "read commit " + id
	if !isCommit(id) {
		return commit{}, fmt.Errorf("%s is not a commit id", quote(id))
	}
	var got *github.Commit
	err := c.do(ctx, reading, doing, needContents, func(ctx context.Context) (err error) {
		got, _, err = c.gh.Git.GetCommit(ctx, c.owner, c.name, id)
		return err
	})
	if err != nil {
		return commit{}, err
	}
	// An id is the digest of the commit, so an answer about another one is wrong.
	if got.GetSHA() != id || !isCommit(got.GetTree().GetSHA()) {
		return commit{}, fmt.Errorf("%s: the answer is about %s", doing, quote(got.GetSHA()))
	}
	k := commit{id: id, tree: got.GetTree().GetSHA()}
	for _, p := range got.Parents {
		if !isCommit(p.GetSHA()) {
			return commit{}, fmt.Errorf("%s: a parent %s", doing, quote(p.GetSHA()))
		}
		k.parents = append(k.parents, p.GetSHA())
	}
	return k, nil
}

// mergeBase returns the best common ancestor of two commits; it is base itself
// exactly when base is head or an ancestor of it.
func (c *Client) mergeBase(ctx context.Context, base, head string) (string, error) {
	if base == head {
		return base, nil
	}
	doing := fmt.Sprintf("compare %s with %s", base, head)
	var got *github.CommitsComparison
	err := c.do(ctx, reading, doing, needContents, func(ctx context.Context) (err error) {
		// One commit a page: what is between them is not needed.
		got, _, err = c.gh.Repositories.CompareCommits(ctx, c.owner, c.name, base, head, &github.ListOptions{PerPage: 1})
		return err
	})
	if err != nil {
		return "", err
	}
	id := got.GetMergeBaseCommit().GetSHA()
	if !isCommit(id) {
		return "", fmt.Errorf("%s: no common ancestor", doing)
	}
	return id, nil
}

// tip returns the commit of a branch.
func (c *Client) tip(ctx context.Context, branch string) (string, error) {
	id, kind, err := c.ref(ctx, "heads/"+branch)
	if err == nil && (kind != "commit" || !isCommit(id)) {
		err = fmt.Errorf("branch %s: points to %s %s", quote(branch), quote(kind), quote(id))
	}
	if err != nil {
		return "", err
	}
	return id, nil
}

func (c *Client) ref(ctx context.Context, name string) (id, kind string, err error) {
	if err := checkRef("ref", name); err != nil {
		return "", "", err
	}
	var got *github.Reference
	err = c.do(ctx, reading, "read ref "+quote(name), needContents, func(ctx context.Context) (err error) {
		got, _, err = c.gh.Git.GetRef(ctx, c.owner, c.name, name)
		return err
	})
	if err != nil {
		return "", "", err
	}
	if got.GetRef() != "refs/"+name {
		return "", "", fmt.Errorf("read ref %s: the answer is about %s", quote(name), quote(got.GetRef()))
	}
	return got.GetObject().GetSHA(), got.GetObject().GetType(), nil
}

// maxTags is how many tags may point to tags before there is a commit.
const maxTags = 8

// tagged returns the commit that a tag is for: annotated tags are objects of their
// own, and may be tags of tags.
func (c *Client) tagged(ctx context.Context, tag string) (string, error) {
	id, kind, err := c.ref(ctx, "tags/"+tag)
	if err != nil {
		return "", err
	}
	return c.peel(ctx, id, kind)
}

func (c *Client) peel(ctx context.Context, id, kind string) (string, error) {
	for range maxTags {
		switch {
		case !isCommit(id):
			return "", fmt.Errorf("a tag of %s %s", quote(kind), quote(id))
		case kind == "commit":
			return id, nil
		case kind != "tag":
			return "", fmt.Errorf("a tag of a %s, not of a commit", quote(kind))
		}
		var got *github.Tag
		err := c.do(ctx, reading, "read tag "+id, needContents, func(ctx context.Context) (err error) {
			got, _, err = c.gh.Git.GetTag(ctx, c.owner, c.name, id)
			return err
		})
		if err != nil {
			return "", err
		}
		id, kind = got.GetObject().GetSHA(), got.GetObject().GetType()
	}
	return "", fmt.Errorf("more than %d tags of tags", maxTags)
}

// File returns a file of the repository, or of another one, at a commit, through
// the API: nothing is checked out. A file that is not there is fs.ErrNotExist,
// which is said only if the token can see the commit: in a private repository, what
// may not be read is answered as if it were not there, and a policy that may not be
// read is no policy that is not there.
func (c *Client) File(ctx context.Context, repository, name, commit string, limit int64) ([]byte, error) {
	doing := fmt.Sprintf("read %s at %s", quote(name), quote(commit))
	switch {
	case !isRepository(repository):
		return nil, fmt.Errorf("%s: %s is not owner/name", doing, quote(repository))
	case !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00"):
		return nil, fmt.Errorf("%s: not a path in a repository", doing)
	case !isCommit(commit):
		return nil, fmt.Errorf("%s: not a commit id", doing)
	}
	ctx, done := c.bound(ctx)
	defer done()
	var file bytes.Buffer
	err := c.do(ctx, reading, doing, needContents, func(ctx context.Context) error {
		file.Reset()
		return c.raw(ctx, &file, repository, name, commit, limit)
	})
	switch {
	case err == nil && int64(file.Len()) > limit:
		return nil, fmt.Errorf("%s: more than %d bytes", doing, limit)
	case err == nil:
		return file.Bytes(), nil
	case !hasStatus(err, http.StatusNotFound):
		return nil, err
	}
	if seen := c.sees(ctx, repository, commit); seen != nil {
		return nil, fmt.Errorf("%s: and %w", doing, seen)
	}
	return nil, fmt.Errorf("%s: %w", doing, fs.ErrNotExist)
}

// raw reads one byte more than the limit at most.
func (c *Client) raw(ctx context.Context, w io.Writer, repository, name, commit string, limit int64) error {
	from, accept := "contents", "application/vnd.github.raw+json"
	if c.job.Gitea() {
		from, accept = "raw", "*/*"
	}
	escaped := strings.Split(name, "/")
	for i, s := range escaped {
		escaped[i] = url.PathEscape(s)
	}
	req, err := c.gh.NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/%s/%s?ref=%s", repository, from, path.Join(escaped...), commit), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	resp, err := c.gh.BareDo(ctx, req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if !c.job.Gitea() && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return errNotFile
	}
	_, err = io.Copy(w, io.LimitReader(resp.Body, limit+1))
	return err
}

var errNotFile = errors.New("not a file, but a folder or a submodule")

// sees returns nil if the token can read the repository.
func (c *Client) sees(ctx context.Context, repository, commit string) error {
	owner, name, _ := strings.Cut(repository, "/")
	err := c.do(ctx, reading, "read commit "+commit, needContents, func(ctx context.Context) error {
		_, _, err := c.gh.Git.GetCommit(ctx, owner, name, commit)
		return err
	})
	if hasStatus(err, http.StatusNotFound) {
		return &PermissionError{Need: needContents, Err: err}
	}
	return err
}
