package forge

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/internal/lazy"
)

const (
	oidcURL   = "ACTIONS_ID_TOKEN_REQUEST_URL"
	oidcToken = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"

	oidcTimeout = 15 * time.Second // of one request
	maxIDToken  = 16 << 10         // bytes
)

// OIDCInReach reports whether a step of this job can have the platform sign a
// statement in the job's name. Code under test must not run where this is so.
func OIDCInReach(getenv func(string) string) bool {
	return getenv(oidcURL) != "" && getenv(oidcToken) != ""
}

// ErrNoOIDC says that the job has no right to tokens.
var ErrNoOIDC error = &PermissionError{Need: "id-token: write", Err: errors.New(oidcURL + " is not set")}

var compactToken = lazy.Regexp(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// IDToken asks the platform for a token about this job, for an audience. It is a
// bearer token for some minutes: mask it before anything is logged. A request that
// fails on the way is repeated, which does no harm.
func IDToken(ctx context.Context, getenv func(string) string, audience string, o Options) (string, error) {
	if !OIDCInReach(getenv) {
		return "", fmt.Errorf("id token: %w", ErrNoOIDC)
	}
	if audience == "" {
		return "", errors.New("id token: no audience")
	}
	u, err := parseAddress(getenv(oidcURL))
	if err != nil {
		return "", fmt.Errorf("id token: %s: %w", oidcURL, err)
	}
	q := u.Query()
	q.Set("audience", audience)
	u.RawQuery = q.Encode()
	o.defaults(Job{})
	ctx, done := context.WithTimeout(ctx, o.Timeout)
	defer done()
	for n := 1; ; n++ {
		token, again, err := requestToken(ctx, u, getenv(oidcToken), o)
		if err == nil {
			return token, nil
		}
		if !again || n == attempts {
			return "", fmt.Errorf("id token: %w", err)
		}
		if err := o.Sleep(ctx, time.Second<<(n-1)); err != nil {
			return "", fmt.Errorf("id token: %w", err)
		}
	}
}

func requestToken(ctx context.Context, u *url.URL, bearer string, o Options) (token string, again bool, _ error) {
	ctx, done := context.WithTimeout(ctx, oidcTimeout)
	defer done()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", false, err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", o.UserAgent)
	client := &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("redirected, which would show the permission to another host")
	}}
	resp, err := client.Do(req)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err // the address is the job's own
		}
		return "", resp == nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		again := resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests
		return "", again, &statusError{Status: resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 2*maxIDToken+1))
	if err != nil {
		return "", true, err
	}
	var got struct {
		Value string `json:"value"`
	}
	switch err := json.Unmarshal(body, &got); {
	case len(body) > 2*maxIDToken:
		return "", false, fmt.Errorf("answer: more than %d bytes", 2*maxIDToken)
	case err != nil:
		return "", false, fmt.Errorf("answer: %w", err)
	case len(got.Value) > maxIDToken || !compactToken().MatchString(got.Value) || strings.Count(got.Value, ".") != 2:
		return "", false, errors.New("answer: not a token")
	}
	return got.Value, false, nil
}

// TokenExpiry returns when a token ceases to be a bearer token. It is read without a
// check of the signature, as nothing is trusted because of it.
func TokenExpiry(token string) (time.Time, error) {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if err == nil {
		err = json.Unmarshal(text, &claims)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("id token: %w", err)
	}
	return time.Unix(claims.Expires, 0), nil
}
