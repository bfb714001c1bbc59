package githubtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testSpec(t *testing.T) *spec {
	t.Helper()
	dir := os.Getenv("TRUEGREEN_VECTORS")
	if dir == "" {
		t.Skip("TRUEGREEN_VECTORS is not set: there is no description of the API")
	}
	return load(t, filepath.Join(dir, "github", "rest-subset.json"))
}

// What is held to a description has to be able to fall short of it.
func TestSpec(t *testing.T) {
	t.Parallel()
	s := testSpec(t)
	const comments = "/api/v3/repos/acme/widgets/issues/7/comments"
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		answer                   string
		ok                       bool
	}{
		{"sound", "POST", comments, `{"body":"x"}`, 201, `{"id":1}`, true},
		{"request without a body", "POST", comments, `{}`, 201, `{"id":1}`, false},
		{"request of another type", "POST", comments, `{"body":1}`, 201, `{"id":1}`, false},
		{"refused request", "POST", comments, `{}`, 422, `{"message":"no"}`, true},
		{"answer of another type", "POST", comments, `{"body":"x"}`, 201, `{"id":"one"}`, false},
		{"answer of another status", "POST", comments, `{"body":"x"}`, 202, `{"id":1}`, false},
		{"list", "GET", comments + "?per_page=100", ``, 200, `[{"id":1}]`, true},
		{"list of another type", "GET", comments, ``, 200, `[{"id":1,"user":"x"}]`, false},
		{"ref with a slash", "GET", "/api/v3/repos/acme/widgets/git/ref/heads/a/b", ``, 200, `{"ref":"refs/heads/a/b","object":{"type":"commit","sha":"` + strings.Repeat("a", 40) + `"}}`, true},
		{"state of a status", "POST", "/api/v3/repos/acme/widgets/statuses/abc", `{"state":"neutral"}`, 201, `{}`, false},
		{"not described", "GET", "/api/v3/repos/acme/widgets/contents/x", ``, 200, `?`, true},
	} {
		r := httptest.NewRequest(c.method, c.path, io.NopCloser(strings.NewReader(c.body)))
		r.Header.Set("Content-Type", "application/json")
		if _, err := s.check(r, []byte(c.body), c.status, http.Header{}, []byte(c.answer)); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
