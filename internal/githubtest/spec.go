package githubtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// A spec is GitHub's description of the part of its API that is here.
type spec struct{ doc *openapi3.T }

var (
	specs   = map[string]*spec{} // by path: reading one takes a while
	specsMu sync.Mutex
)

func load(t testing.TB, path string) *spec {
	t.Helper()
	specsMu.Lock()
	defer specsMu.Unlock()
	if s := specs[path]; s != nil {
		return s
	}
	doc, err := openapi3.NewLoader().LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &spec{doc}
	specs[path] = s
	return s
}

// find returns the operation of a request, and what its path's parameters are. The
// description has a parameter that holds slashes: a ref.
func (s *spec) find(method, path string) (*routers.Route, map[string]string) {
	got := strings.Split(path, "/")
	for _, template := range slices.Sorted(mapKeys(s.doc.Paths.Map())) {
		item := s.doc.Paths.Value(template)
		op := item.GetOperation(method)
		if op == nil {
			continue
		}
		want := strings.Split(template, "/")
		if strings.HasSuffix(template, "/git/ref/{ref}") && len(got) > len(want) {
			got := append(slices.Clone(got[:len(want)-1]), strings.Join(got[len(want)-1:], "/"))
			if p, ok := match(want, got); ok {
				return &routers.Route{Spec: s.doc, Path: template, PathItem: item, Method: method, Operation: op}, p
			}
		}
		if p, ok := match(want, got); ok {
			return &routers.Route{Spec: s.doc, Path: template, PathItem: item, Method: method, Operation: op}, p
		}
	}
	return nil, nil
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func match(want, got []string) (map[string]string, bool) {
	if len(want) != len(got) {
		return nil, false
	}
	p := map[string]string{}
	for i, w := range want {
		switch {
		case strings.HasPrefix(w, "{"):
			p[strings.Trim(w, "{}")] = got[i]
		case w != got[i]:
			return nil, false
		}
	}
	return p, true
}

// check holds a request and its answer to the description. The answer is returned
// with the members that it must have, and that do not matter here.
func (s *spec) check(r *http.Request, body []byte, status int, header http.Header, text []byte) ([]byte, error) {
	path := strings.TrimPrefix(r.URL.Path, "/api/v3")
	route, parameters := s.find(r.Method, path)
	if route == nil {
		return text, nil // contents are not in it
	}
	again := r.Clone(context.Background())
	again.Body = io.NopCloser(bytes.NewReader(body))
	again.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	in := &openapi3filter.RequestValidationInput{
		Request: again, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true},
	}
	if status < 400 || status == http.StatusForbidden { // what is refused is allowed to be wrong
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			return text, fmt.Errorf("request: %w", err)
		}
	}
	described := route.Operation.Responses.Status(status)
	if described == nil {
		if status == http.StatusForbidden || status == http.StatusNotFound || status == http.StatusUnauthorized {
			return text, nil // any request may be answered so
		}
		return text, fmt.Errorf("answer: no status %d is described", status)
	}
	media := described.Value.Content.Get("application/json")
	if media == nil || media.Schema == nil || len(text) == 0 {
		return text, nil
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return text, err
	}
	v = complete(media.Schema.Value, v, true)
	if err := unlike(media.Schema.Value.VisitJSON(v, openapi3.MultiErrors())); err != nil {
		return text, err
	}
	full, err := json.Marshal(v)
	return full, err
}

// unlike shortens what is wrong with an answer, and passes over what the
// description leaves out: a fork that was deleted is null.
func unlike(err error) error {
	var all openapi3.MultiError
	if !errors.As(err, &all) {
		if err == nil {
			return nil
		}
		all = openapi3.MultiError{err}
	}
	for _, e := range all {
		var s *openapi3.SchemaError
		if !errors.As(e, &s) {
			return fmt.Errorf("answer: %w", e)
		}
		at := strings.Join(s.JSONPointer(), ".")
		if s.Value == nil && strings.HasSuffix(at, "head.repo") {
			continue
		}
		return fmt.Errorf("answer: %s: %s", at, s.Reason)
	}
	return nil
}

// complete adds to v what its schema requires and v does not have. With given false
// there is no v yet.
func complete(s *openapi3.Schema, v any, given bool) any {
	if len(s.AllOf) > 0 {
		for _, part := range s.AllOf {
			v = complete(part.Value, v, given)
			given = true
		}
	}
	for _, some := range []openapi3.SchemaRefs{s.AnyOf, s.OneOf} {
		if len(some) > 0 {
			return complete(some[0].Value, v, given)
		}
	}
	if !given && s.Nullable {
		return nil
	}
	switch {
	case len(s.Properties) > 0 || s.Type.Is("object"):
		m, ok := v.(map[string]any)
		if !ok {
			if given {
				return v
			}
			m = map[string]any{}
		}
		for name, p := range s.Properties {
			if old, there := m[name]; there && old != nil {
				m[name] = complete(p.Value, old, true)
			} else if !there && slices.Contains(s.Required, name) {
				m[name] = complete(p.Value, nil, false)
				if m[name] == filling && (name == "date" || strings.HasSuffix(name, "_at")) {
					m[name] = moment // which the description does not always say
				}
			}
		}
		return m
	case s.Type.Is("array"):
		l, ok := v.([]any)
		if !ok {
			if given {
				return v
			}
			return []any{}
		}
		for i := range l {
			l[i] = complete(s.Items.Value, l[i], true)
		}
		return l
	case given:
		return v
	}
	return filler(s)
}

const (
	filling = "filling"
	moment  = "2026-11-30T12:00:00Z"
)

func filler(s *openapi3.Schema) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type.Is("integer"), s.Type.Is("number"):
		return float64(1)
	case s.Type.Is("boolean"):
		return false
	case s.Format == "date-time":
		return moment
	case s.Format == "uri":
		return "https://example.com/"
	}
	return filling
}
