package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxAnswer    = 32 << 20 // bytes: a hundred comments of 65,536 characters, escaped
	maxErrorBody = 64 << 10 // bytes of an answer that is an error
	maxRedirects = 3

	// A limit that does not say when it ends: the forge asks to wait a minute.
	unsaidWait = time.Minute
)

// An answer is what the last response to a request was, whatever go-github makes
// of it: it takes some limits for plain errors.
type answer struct {
	status  int // 0: there was no response
	header  http.Header
	message string
	docs    string
}

type answerKey struct{}

// answerLimitKey is of how large an answer may be that is no JSON, but a file.
type answerLimitKey struct{}

// A transport adds the token to requests to the API, and to no others, bounds what
// is read, and keeps what the answer was.
type transport struct {
	base  http.RoundTripper
	token string
	hosts []string // scheme://host that the token is for
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !slices.Contains(t.hosts, req.URL.Scheme+"://"+req.URL.Host) {
		return nil, fmt.Errorf("%s is not the host of the api", quote(req.URL.Host))
	}
	req = req.Clone(req.Context())
	if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	a, _ := req.Context().Value(answerKey{}).(*answer)
	if a == nil {
		a = new(answer)
	}
	*a = answer{}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	a.status, a.header = resp.StatusCode, resp.Header.Clone()
	// go-github would refuse calls by itself, by the clock on the wall.
	for _, h := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		resp.Header.Del(h)
	}
	if resp.StatusCode < 400 {
		limit := int64(maxAnswer)
		if l, ok := req.Context().Value(answerLimitKey{}).(int64); ok {
			limit = l
		}
		resp.Body = limitBody(resp.Body, limit)
		return resp, nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	resp.Body.Close()
	if err != nil {
		text = nil // the status says enough
	}
	var said struct {
		Message string `json:"message"`
		Docs    string `json:"documentation_url"`
		Errors  json.RawMessage
	}
	if json.Unmarshal(text, &said) == nil {
		a.message, a.docs = said.Message, said.Docs
		if len(said.Errors) > 0 {
			a.message += " " + string(said.Errors)
		}
	}
	resp.Body = io.NopCloser(strings.NewReader(string(text)))
	return resp, nil
}

// redirect follows a repository that was renamed, on the same host. The transport
// refuses others.
func redirect(_ *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errors.New("too many redirects")
	}
	return nil
}

// limitBody fails, rather than ends, at the limit: a list that is cut short would
// look whole to a lenient reader.
func limitBody(body io.ReadCloser, limit int64) io.ReadCloser {
	return &limitedBody{ReadCloser: body, left: limit, limit: limit}
}

type limitedBody struct {
	io.ReadCloser
	left, limit int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		var one [1]byte
		if n, err := b.ReadCloser.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("answer: more than %d bytes", b.limit)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Trouble is an answer that is not the one hoped for.
type trouble struct {
	err     error
	again   bool // may pass
	limited bool // after wait
	maybe   bool // the server may have acted all the same
	wait    time.Duration
}

// classify says what an answer means. The texts that it looks for are the forge's
// own; there is no other sign of these cases.
func (c *Client) classify(a *answer, err error, need string) trouble {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return trouble{err: err, maybe: a.status < 300}
	}
	said := &statusError{Status: a.status, Message: a.message}
	text := strings.ToLower(a.message)
	switch {
	case a.status == 0:
		return trouble{err: err, again: true, maybe: true}
	case a.status < 400:
		// An answer that was cut off may be whole the next time; one that is no
		// answer of this API stays none.
		return trouble{err: err, again: errors.Is(err, io.ErrUnexpectedEOF) || isNetwork(err), maybe: true}
	case a.status == http.StatusTooManyRequests,
		a.status == http.StatusForbidden && (a.header.Get("X-Ratelimit-Remaining") == "0" || a.header.Get("Retry-After") != "" ||
			strings.Contains(text, "rate limit") || strings.Contains(text, "abuse detection") || strings.Contains(a.docs, "rate-limit")):
		return trouble{err: said, limited: true, wait: c.limitWait(a)}
	case a.status == http.StatusUnauthorized:
		return trouble{err: fmt.Errorf("the token was refused: %w", said)}
	case a.status == http.StatusForbidden && strings.Contains(text, "locked"):
		return trouble{err: fmt.Errorf("the conversation is locked: %w", said)}
	case a.status == http.StatusForbidden:
		return trouble{err: &PermissionError{Need: need, Accepted: a.header.Get("X-Accepted-Github-Permissions"), Err: said}}
	case a.status >= 500 && a.status != http.StatusNotImplemented:
		return trouble{err: said, again: true, maybe: true}
	}
	return trouble{err: said}
}

func isNetwork(err error) bool {
	var n net.Error
	return errors.As(err, &n)
}

// limitWait is how long an answer asks to wait.
func (c *Client) limitWait(a *answer) time.Duration {
	if s, err := strconv.ParseInt(a.header.Get("Retry-After"), 10, 32); err == nil && s >= 0 {
		return time.Duration(s)*time.Second + c.jitter(5*time.Second)
	}
	if a.header.Get("X-Ratelimit-Remaining") == "0" {
		if s, err := strconv.ParseInt(a.header.Get("X-Ratelimit-Reset"), 10, 64); err == nil && s > 0 && s < maxInteger {
			return max(time.Unix(s, 0).Sub(c.o.Now()), 0) + time.Second + c.jitter(5*time.Second)
		}
	}
	return unsaidWait + c.jitter(15*time.Second)
}

// A statusError is an answer that says no.
type statusError struct {
	Status  int
	Message string // untrusted
}

func (e *statusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("status %d", e.Status)
	}
	return fmt.Sprintf("status %d, %s", e.Status, quote(e.Message))
}

// hasStatus reports whether err is an answer with the status.
func hasStatus(err error, status int) bool {
	var e *statusError
	return errors.As(err, &e) && e.Status == status
}
