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
)

// maxAssets is how many files of a release are looked at: the most that one may have.
const maxAssets = 1000

// ErrNoRelease says that no published release has the tag.
var ErrNoRelease = errors.New("no published release")

// An Asset is a file of a release, as the API tells. Whoever may write to the repository
// can replace it: its digest says that it arrived whole, not who made it.
type Asset struct {
	ID     int64
	Name   string
	Size   int64
	Digest string // sha256:<64 hex digits>; "" where the forge does not say
}

type apiAsset struct {
	ID     int64   `json:"id"`
	Name   string  `json:"name"`
	State  string  `json:"state"`
	Size   int64   `json:"size"`
	Digest *string `json:"digest"`
}

// Assets lists the files of the published release of a tag. A draft has none: who cannot
// write to the repository does not see it.
func (c *Client) Assets(ctx context.Context, tag string) ([]Asset, error) {
	if tag == "" || tag == "." || tag == ".." { // an address of something else
		return nil, fmt.Errorf("%w of %s has tag %s", ErrNoRelease, c.job.Repository, quote(tag))
	}
	ctx, done := c.bound(ctx)
	defer done()
	var release struct {
		ID  int64  `json:"id"`
		Tag string `json:"tag_name"`
	}
	doing := "look up the release of tag " + quote(tag)
	_, err := c.get(ctx, doing, needContents, fmt.Sprintf("repos/%s/%s/releases/tags/%s", c.owner, c.name, url.PathEscape(tag)), &release)
	switch {
	case hasStatus(err, http.StatusNotFound):
		return nil, fmt.Errorf("%w of %s has tag %s", ErrNoRelease, c.job.Repository, quote(tag))
	case err != nil:
		return nil, err
	case release.ID <= 0:
		return nil, fmt.Errorf("%s: %w", doing, missing("id"))
	case release.Tag != tag:
		return nil, fmt.Errorf("%s: the answer is about %s", doing, quote(release.Tag))
	}
	var all []Asset
	for page := 1; page != 0; {
		var got []apiAsset
		next, err := c.get(ctx, "list the assets of the release", needContents,
			fmt.Sprintf("repos/%s/%s/releases/%d/assets?per_page=%d&page=%d", c.owner, c.name, release.ID, perPage, page), &got)
		if err != nil {
			return nil, err
		}
		for _, a := range got {
			if a.State != "uploaded" {
				continue
			}
			k := Asset{ID: a.ID, Name: a.Name, Size: a.Size}
			if a.Digest != nil {
				k.Digest = *a.Digest
			}
			if k.ID <= 0 || k.Size < 0 || k.Digest != "" && !isDigest(k.Digest) {
				return nil, fmt.Errorf("asset %s of the release: id %d, %d bytes, digest %s", quote(a.Name), a.ID, a.Size, quote(k.Digest))
			}
			all = append(all, k)
		}
		if len(all) > maxAssets {
			return nil, fmt.Errorf("the release of tag %s: more than %d assets", quote(tag), maxAssets)
		}
		if next <= page {
			next = 0
		}
		page = next
	}
	return all, nil
}

// DownloadAsset writes a file of a release, of at most limit bytes, to w. What was written
// is of no use unless the error is nil. The caller bounds the time.
func (c *Client) DownloadAsset(ctx context.Context, a Asset, limit int64, w io.Writer) error {
	if err := c.downloadAsset(ctx, a, limit, w); err != nil {
		return fmt.Errorf("download asset %s: %w", quote(a.Name), err)
	}
	return nil
}

func (c *Client) downloadAsset(ctx context.Context, a Asset, limit int64, w io.Writer) error {
	if a.Size > limit {
		return tooLarge(a.Size, limit)
	}
	sum := sha256.New()
	to := io.MultiWriter(w, sum)
	from, body, err := c.openAsset(ctx, a.ID, limit)
	switch {
	case hasStatus(err, http.StatusNotFound), hasStatus(err, http.StatusGone):
		return fmt.Errorf("it is gone: %w", err)
	case err != nil:
		return err
	case body != nil:
		defer body.Close()
		err = copyAtMost(to, body, limit)
	default:
		err = c.fetch(ctx, from, limit, to)
	}
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); a.Digest != "" && strings.TrimPrefix(a.Digest, "sha256:") != got {
		return fmt.Errorf("sha-256 %s, want %s: %w", got, strings.TrimPrefix(a.Digest, "sha256:"), ErrDigest)
	}
	return nil
}

// openAsset asks for a file. The forge answers with an address elsewhere, or with the file.
func (c *Client) openAsset(ctx context.Context, id, limit int64) (from *url.URL, body io.ReadCloser, err error) {
	ctx = context.WithValue(ctx, answerLimitKey{}, limit+1)
	err = c.do(ctx, reading, "ask for it", needContents, func(ctx context.Context) error {
		req, err := c.gh.NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/%s/releases/assets/%d", c.owner, c.name, id), nil)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/octet-stream")
		resp, err := c.gh.Client().Transport.RoundTrip(req.WithContext(ctx)) // which follows nothing
		if err != nil {
			return err
		}
		if resp.StatusCode == http.StatusOK {
			body = resp.Body
			return nil
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusFound {
			return errors.New(resp.Status)
		}
		to, err := resp.Location() // relative addresses are to the one that was asked
		if err != nil {
			return err
		}
		from, err = parseAddress(to.String())
		return err
	})
	return from, body, err
}
