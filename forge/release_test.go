package forge

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/githubtest"
)

// A release has many files, some of which are not there yet.
func TestAssets(t *testing.T) {
	f := newForgeTest(t)
	for i := range 130 {
		f.Releases["v1/2"] = append(f.Releases["v1/2"], githubtest.Asset{ID: int64(1000 + i), Name: fmt.Sprintf("file-%d", i), Data: []byte("x")})
	}
	f.Releases["v1/2"] = append(f.Releases["v1/2"], githubtest.Asset{ID: 1, Name: "open", Open: true}, githubtest.Asset{ID: 2, Name: "old", Digest: "-", Data: []byte("xyz")})
	c := f.client(t)
	all, err := c.Assets(t.Context(), "v1/2")
	if err != nil || len(all) != 131 || all[0].Name != "file-0" || all[130] != (Asset{ID: 2, Name: "old", Size: 3}) {
		t.Errorf("%d assets, %v", len(all), err)
	}
	for _, tag := range []string{"v1", "v1/2/assets", "..", ""} {
		if all, err := c.Assets(t.Context(), tag); err == nil || all != nil {
			t.Errorf("tag %q: %v, %v", tag, all, err)
		}
	}
	if _, err := c.Assets(t.Context(), "v1"); !errors.Is(err, ErrNoRelease) {
		t.Errorf("no release: %v", err)
	}
	for name, bad := range map[string]githubtest.Asset{"digest": {ID: 3, Digest: "md5:00"}, "id": {ID: -3}, "size": {ID: 3, Claims: -1}} {
		f.Releases["odd"] = []githubtest.Asset{bad}
		if all, err := c.Assets(t.Context(), "odd"); err == nil || all != nil {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
	const route = "GET /repos/{owner}/{repo}/releases/tags/{tag}"
	f.Fault(route, f.Calls(route)+1, githubtest.Fault{Status: 200, Body: `{"id":77,"tag_name":"v9"}`})
	if _, err := c.Assets(t.Context(), "odd"); err == nil || !strings.Contains(err.Error(), `the answer is about "v9"`) {
		t.Errorf("answer about another: %v", err)
	}
}

// Whichever way a file comes, it is held to its digest and to the limit, and the token
// stays with the API.
func TestDownloadAsset(t *testing.T) {
	const route = "GET /repos/{owner}/{repo}/releases/assets/{asset}"
	redirect := func(to string) func(*forgeTest) {
		return func(f *forgeTest) {
			f.Fault(route, 0, githubtest.Fault{Status: http.StatusFound, Header: http.Header{"Location": {to}}})
		}
	}
	for name, c := range map[string]struct {
		asset githubtest.Asset
		edit  func(*forgeTest)
		is    error
		ok    bool
	}{
		"elsewhere":          {asset: githubtest.Asset{}, ok: true},
		"directly":           {asset: githubtest.Asset{Direct: true}, ok: true},
		"without a digest":   {asset: githubtest.Asset{Digest: "-"}, ok: true},
		"another file":       {asset: githubtest.Asset{Digest: "sha256:" + strings.Repeat("0", 64)}, is: ErrDigest},
		"says it is large":   {asset: githubtest.Asset{Claims: 101}, is: ErrTooLarge},
		"is large":           {asset: githubtest.Asset{Data: bytes.Repeat([]byte("x"), 101), Claims: 3}, is: ErrTooLarge},
		"is large, directly": {asset: githubtest.Asset{Data: bytes.Repeat([]byte("x"), 101), Claims: 3, Direct: true}, is: ErrTooLarge},
		"gone": {edit: func(f *forgeTest) {
			f.Fault(route, 0, githubtest.Fault{Status: http.StatusNotFound, Body: `{"message":"Not Found"}`})
		}},
		"no address":            {edit: redirect("")},
		"an address with a key": {edit: redirect("http://u:p@127.0.0.1/")},
		"plain http":            {edit: redirect("http://store.example.com/x")},
		"a file":                {edit: redirect("file:///etc/passwd")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForgeTest(t)
			c.asset.ID, c.asset.Name = 9, "evidence.tar.zst"
			if c.asset.Data == nil {
				c.asset.Data = []byte("bundle")
			}
			f.Releases["v1"] = []githubtest.Asset{c.asset}
			client := f.client(t)
			all, err := client.Assets(t.Context(), "v1")
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			if c.edit != nil {
				c.edit(f)
			}
			var b bytes.Buffer
			err = client.DownloadAsset(t.Context(), all[0], 100, &b)
			if c.ok != (err == nil) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v, want %v", err, c.is)
			}
			if c.ok && b.String() != "bundle" {
				t.Errorf("got %q", b.String())
			}
		})
	}
}

// A store that sends from one address to the next is left.
func TestDownloadAssetLoop(t *testing.T) {
	f := newForgeTest(t)
	f.Releases["v1"] = []githubtest.Asset{{ID: 9, Name: "evidence.tar.zst", Data: []byte("bundle")}}
	client := f.client(t)
	loop := f.URL() + "/repos/acme/widgets/releases/assets/9"
	f.Fault("GET /repos/{owner}/{repo}/releases/assets/{asset}", 0, githubtest.Fault{Status: http.StatusFound, Header: http.Header{"Location": {loop}}})
	var b bytes.Buffer
	if err := client.DownloadAsset(t.Context(), Asset{ID: 9}, 100, &b); err == nil || !strings.Contains(err.Error(), "too many redirects") {
		t.Error(err)
	}
	if n := f.Calls("GET /repos/{owner}/{repo}/releases/assets/{asset}"); n > maxRedirects+2 {
		t.Errorf("%d requests", n)
	}
}
