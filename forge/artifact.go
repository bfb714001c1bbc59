package forge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxArtifacts is how many artifacts of a run are looked at: more than a job may
// make.
const maxArtifacts = 2000

// An Artifact is a file that a run left behind, as the API tells. Whoever runs code
// in one of the run's jobs can replace it: its digest says that it arrived whole,
// not who made it.
type Artifact struct {
	ID      int64
	Name    string
	Size    int64
	Digest  string // of the zip, sha256:<64 hex digits>; "" where the forge does not say
	Expired bool
	Expires time.Time
	Run     int64
}

// What can be wrong with the way from a run to its bundle.
var (
	ErrNoArtifact = errors.New("no artifact")
	ErrExpired    = errors.New("the artifact has expired")
	ErrDigest     = errors.New("the artifact is not the one that was uploaded")
	ErrTooLarge   = errors.New("larger than the limit")
)

func tooLarge(size, limit int64) error {
	return fmt.Errorf("%w: %d bytes, of at most %d", ErrTooLarge, size, limit)
}

// apiArtifact is our own because go-github's has no digest.
type apiArtifact struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	Size      int64     `json:"size_in_bytes"`
	Digest    string    `json:"digest"`
	Expired   bool      `json:"expired"`
	ExpiresAt time.Time `json:"expires_at"`
	Run       *struct {
		ID int64 `json:"id"`
	} `json:"workflow_run"`
}

func (a apiArtifact) artifact(run int64) (Artifact, error) {
	switch {
	case a.ID <= 0:
		return Artifact{}, missing("artifact: id")
	case a.Digest != "" && !isDigest(a.Digest):
		return Artifact{}, fmt.Errorf("artifact: digest %s", quote(a.Digest))
	case a.Run != nil && a.Run.ID != run:
		return Artifact{}, fmt.Errorf("artifact %d is of run %d, not %d: %w", a.ID, a.Run.ID, run, ErrNoArtifact)
	}
	return Artifact{ID: a.ID, Name: a.Name, Size: a.Size, Digest: a.Digest, Expired: a.Expired, Expires: a.ExpiresAt, Run: run}, nil
}

func isDigest(s string) bool {
	s, ok := strings.CutPrefix(s, "sha256:")
	b, err := hex.DecodeString(s)
	return ok && err == nil && len(b) == sha256.Size && strings.ToLower(s) == s
}

func (c *Client) get(ctx context.Context, doing, need, path string, v any) (next int, err error) {
	err = c.do(ctx, reading, doing, need, func(ctx context.Context) error {
		req, err := c.gh.NewRequest(http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		resp, err := c.gh.Do(ctx, req, v)
		if err == nil {
			next = resp.NextPage
		}
		return err
	})
	return next, err
}

// Artifacts lists what a run of the job's repository left behind.
func (c *Client) Artifacts(ctx context.Context, run int64) ([]Artifact, error) {
	ctx, done := c.bound(ctx)
	defer done()
	return c.artifacts(ctx, run, "")
}

func (c *Client) artifacts(ctx context.Context, run int64, name string) ([]Artifact, error) {
	var all []Artifact
	for page := 1; page != 0; {
		var got struct {
			Artifacts []apiArtifact `json:"artifacts"`
		}
		query := url.Values{"per_page": {fmt.Sprint(perPage)}, "page": {fmt.Sprint(page)}}
		if name != "" {
			query.Set("name", name)
		}
		path := fmt.Sprintf("repos/%s/%s/actions/runs/%d/artifacts?%s", c.owner, c.name, run, query.Encode())
		next, err := c.get(ctx, fmt.Sprintf("list the artifacts of run %d", run), needActions, path, &got)
		if err != nil {
			return nil, err
		}
		for _, a := range got.Artifacts {
			k, err := a.artifact(run)
			if err != nil {
				return nil, err
			}
			all = append(all, k)
		}
		if len(all) > maxArtifacts {
			return nil, fmt.Errorf("run %d: more than %d artifacts", run, maxArtifacts)
		}
		if next <= page {
			next = 0
		}
		page = next
	}
	return all, nil
}

// maxRunsOf is how many runs of one commit are looked at, the newest.
const maxRunsOf = 30

// RunsOf lists the runs that a push of the commit has started in the job's repository.
func (c *Client) RunsOf(ctx context.Context, commit string) ([]int64, error) {
	ctx, done := c.bound(ctx)
	defer done()
	if !isCommit(commit) {
		return nil, notCommit("runs", commit)
	}
	var got struct {
		Runs []struct {
			ID    int64  `json:"id"`
			Head  string `json:"head_sha"`
			Event string `json:"event"`
		} `json:"workflow_runs"`
	}
	query := url.Values{"head_sha": {commit}, "event": {"push"}, "per_page": {fmt.Sprint(maxRunsOf)}}
	_, err := c.get(ctx, "list the runs of commit "+commit, needActions, fmt.Sprintf("repos/%s/%s/actions/runs?%s", c.owner, c.name, query.Encode()), &got)
	if err != nil {
		return nil, err
	}
	var runs []int64
	for _, r := range got.Runs {
		if r.ID > 0 && r.Head == commit && r.Event == "push" { // a forge may ignore what it is asked for
			runs = append(runs, r.ID)
		}
	}
	return runs, nil
}

// Artifact returns the artifact of that exact name, of which a run has one.
func (c *Client) Artifact(ctx context.Context, run int64, name string) (Artifact, error) {
	ctx, done := c.bound(ctx)
	defer done()
	all, err := c.artifacts(ctx, run, name)
	if err != nil {
		return Artifact{}, err
	}
	var one []Artifact
	for _, a := range all {
		if a.Name == name { // a forge may take the name for a filter, or ignore it
			one = append(one, a)
		}
	}
	switch len(one) {
	case 1:
		return one[0], nil
	case 0:
		return Artifact{}, fmt.Errorf("run %d: %w of the name %s", run, ErrNoArtifact, quote(name))
	}
	return Artifact{}, fmt.Errorf("run %d: %d artifacts of the name %s, which leaves open which one counts: %w", run, len(one), quote(name), ErrNoArtifact)
}

// ArtifactByID returns an artifact of the run. Ids are safer than names: a job that
// replaces an artifact makes a new one.
func (c *Client) ArtifactByID(ctx context.Context, run, id int64) (Artifact, error) {
	ctx, done := c.bound(ctx)
	defer done()
	var got apiArtifact
	_, err := c.get(ctx, fmt.Sprintf("read artifact %d", id), needActions, fmt.Sprintf("repos/%s/%s/actions/artifacts/%d", c.owner, c.name, id), &got)
	switch {
	case hasStatus(err, http.StatusNotFound):
		return Artifact{}, fmt.Errorf("%w %d: %w", ErrNoArtifact, id, err)
	case err != nil:
		return Artifact{}, err
	case got.ID != id:
		return Artifact{}, fmt.Errorf("read artifact %d: the answer is about %d", id, got.ID)
	case got.Run == nil:
		return Artifact{}, fmt.Errorf("read artifact %d: %w", id, missing("workflow_run"))
	}
	return got.artifact(run)
}

// Download writes the zip of an artifact, of at most limit bytes, to w. The digest
// is what the zip must have beside what the API says: an output of the job that
// uploaded it, in hexadecimal; "" is none. What was written is of no use unless the
// error is nil. The caller bounds the time: a bundle may be large.
func (c *Client) Download(ctx context.Context, a Artifact, digest string, limit int64, w io.Writer) error {
	digest = strings.TrimPrefix(digest, "sha256:")
	err := c.download(ctx, a, digest, limit, w)
	if err != nil {
		return fmt.Errorf("download artifact %d: %w", a.ID, err)
	}
	return nil
}

func (c *Client) download(ctx context.Context, a Artifact, digest string, limit int64, w io.Writer) error {
	switch {
	case a.Expired:
		return ErrExpired
	case digest != "" && !isDigest("sha256:"+digest):
		return fmt.Errorf("digest %s", quote(digest))
	case a.Size > limit:
		return tooLarge(a.Size, limit)
	}
	from, err := c.locate(ctx, a.ID)
	if hasStatus(err, http.StatusGone) {
		return ErrExpired
	}
	if err != nil {
		return err
	}
	sum := sha256.New()
	if err := c.fetch(ctx, from, limit, io.MultiWriter(w, sum)); err != nil {
		return err
	}
	got := hex.EncodeToString(sum.Sum(nil))
	for _, want := range []string{digest, strings.TrimPrefix(a.Digest, "sha256:")} {
		if want != "" && want != got {
			return fmt.Errorf("sha-256 %s, want %s: %w", got, want, ErrDigest)
		}
	}
	return nil
}

// locate asks where the zip is. The address is good for a minute, and holds its own
// permission.
func (c *Client) locate(ctx context.Context, id int64) (*url.URL, error) {
	ctx, done := c.bound(ctx)
	defer done()
	var from *url.URL
	err := c.do(ctx, reading, "ask for its address", needActions, func(ctx context.Context) error {
		u, resp, err := c.gh.Actions.DownloadArtifact(ctx, c.owner, c.name, id, 1)
		if err == nil && resp.StatusCode != http.StatusFound {
			err = errors.New(resp.Status)
		}
		from = u
		return err
	})
	if err != nil {
		return nil, err
	}
	// Relative addresses are to the one that was asked.
	return parseAddress(c.gh.BaseURL.ResolveReference(from).String())
}

// fetch reads the zip from the store, which is another host, and gets no token.
func (c *Client) fetch(ctx context.Context, from *url.URL, limit int64, w io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", c.o.UserAgent)
	resp, err := c.plain.Do(req)
	if err != nil {
		// The address is a permission: it is not for logs.
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusGone, resp.StatusCode == http.StatusNotFound:
		return ErrExpired
	case resp.StatusCode != http.StatusOK:
		return &statusError{Status: resp.StatusCode}
	}
	return copyAtMost(w, resp.Body, limit)
}

func copyAtMost(w io.Writer, r io.Reader, limit int64) error {
	n, err := io.Copy(w, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return err
}
