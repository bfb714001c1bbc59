package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/receipts/jws"
	"github.com/truegreen-dev/truegreen/verifier"
)

const (
	fetchTime  = 10 * time.Second // for both answers together
	fetchLimit = jws.MaxKeySet
)

// fetchKeys asks an issuer for its keys as OpenID Connect Discovery says. They come from
// the issuer's own host: what its configuration names elsewhere is not fetched.
func fetchKeys(ctx context.Context, issuer string) (jws.KeySet, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	text, err := fetch(ctx, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return jws.KeySet{}, err
	}
	var configuration struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(text, &configuration); err != nil {
		return jws.KeySet{}, fmt.Errorf("its configuration: %w", err)
	}
	if configuration.Issuer != issuer {
		return jws.KeySet{}, fmt.Errorf("its configuration is that of %q", configuration.Issuer)
	}
	if err := verifier.CheckIssuer(configuration.Keys); err != nil {
		return jws.KeySet{}, fmt.Errorf("jwks_uri: %w", err)
	}
	at, _ := url.Parse(issuer) // both have passed CheckIssuer
	keys, _ := url.Parse(configuration.Keys)
	if keys.Scheme != at.Scheme || keys.Host != at.Host {
		return jws.KeySet{}, fmt.Errorf("jwks_uri %q is on another host", configuration.Keys)
	}
	if text, err = fetch(ctx, configuration.Keys); err != nil {
		return jws.KeySet{}, err
	}
	return jws.ParseKeySet(text, issuer)
}

// fetch gets a document of at most fetchLimit bytes. It follows no redirection.
func fetch(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("redirected") }}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", from, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, fetchLimit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if len(text) > fetchLimit {
		return nil, fmt.Errorf("%s: larger than %d bytes", from, fetchLimit)
	}
	return text, nil
}
