package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/truegreen-dev/truegreen/internal/registrytest"
	"github.com/truegreen-dev/truegreen/internal/storetest"
	"github.com/truegreen-dev/truegreen/store"
)

// A placed registry is one with an image, and the place that is asked about.
type placed struct {
	*registrytest.Registry
	image string
	o     Options
}

func newPlaced(t *testing.T) *placed {
	s := registrytest.New(t)
	return &placed{s, s.Image(), Options{Temp: t.TempDir()}}
}

func (p *placed) place() store.Place {
	return store.Place{Kind: store.OCI, Repository: p.Host() + "/" + registrytest.Name, Digest: p.image}
}

// manifest is one of ours, that edit has changed.
func (p *placed) manifest(edit func(map[string]any)) string {
	m := map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": EvidenceType,
		"config":  p.AddBlob("application/vnd.oci.empty.v1+json", "", []byte("{}")),
		"layers":  []any{p.AddBlob(BundleType, "e.tar.zst", []byte("a bundle")), p.AddBlob(SidecarType, "e.sig", []byte("a signature"))},
		"subject": registrytest.Descriptor{MediaType: "application/vnd.oci.image.manifest.v1+json", Digest: p.image, Size: 100},
	}
	if edit != nil {
		edit(m)
	}
	return p.Add(m)
}

// all opens what is in a registry.
func all(t *testing.T, p store.Place, o Options) (map[string]string, error) {
	t.Helper()
	s, err := Open(p, o)
	if err != nil {
		return nil, err
	}
	return storetest.All(t, s, o.Temp)
}

// What is put is what is got, whatever the registry has.
func TestPut(t *testing.T) {
	t.Parallel()
	for _, referrers := range []bool{true, false} {
		t.Run(fmt.Sprintf("referrers %t", referrers), func(t *testing.T) {
			t.Parallel()
			p := newPlaced(t)
			p.Referrers, p.Password = referrers, "secret"
			p.o.Credential = func(_ context.Context, host string) (auth.Credential, error) {
				if host != p.Host() {
					t.Errorf("a password for %s", host)
				}
				return auth.Credential{Username: "ci", Password: "secret"}, nil
			}
			dir := t.TempDir()
			want := map[string]string{}
			for _, name := range []string{"one", "two"} {
				path := filepath.Join(dir, name+".tar.zst")
				storetest.Write(t, path, "bundle "+name)
				storetest.Write(t, filepath.Join(dir, name+".sig"), "signed "+name)
				c, err := Put(t.Context(), p.place(), p.o, path)
				if err != nil {
					t.Fatal(err)
				}
				again, err := Put(t.Context(), p.place(), p.o, path)
				if err != nil || again.Name != c.Name {
					t.Errorf("again: %+v, %v", again, err)
				}
				want[c.Name] = fmt.Sprintf("bundle %s|%s.sig=signed %s", name, name, name)
			}
			got, err := all(t, p.place(), p.o)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %v, %v", got, err)
			}
			p.o.Credential = nil
			if _, err := all(t, p.place(), p.o); err == nil {
				t.Error("without the password")
			}
		})
	}
	p := newPlaced(t)
	path := filepath.Join(t.TempDir(), "e.tar.zst")
	storetest.Write(t, path, "bundle")
	place := p.place()
	place.Digest = registrytest.Digest([]byte("another image"))
	if _, err := Put(t.Context(), place, p.o, path); err == nil || !strings.Contains(err.Error(), "look up the image") {
		t.Errorf("no such image: %v", err)
	}
	if _, err := Put(t.Context(), store.Place{Kind: store.Path, Path: "x"}, p.o, path); !errors.Is(err, ErrNoPut) {
		t.Errorf("into a folder: %v", err)
	}
	storetest.Write(t, filepath.Join(filepath.Dir(path), "e.txt"), "bundle")
	if _, err := Put(t.Context(), p.place(), p.o, filepath.Join(filepath.Dir(path), "e.txt")); err == nil {
		t.Error("another name")
	}
}

// A registry can make what refers to an image say anything. Whatever it is that is not
// right, no byte of it is handed on, and the others still are.
func TestHostileManifest(t *testing.T) {
	t.Parallel()
	layers := func(list ...any) func(map[string]any) {
		return func(m map[string]any) { m["layers"] = list }
	}
	layer := func(kind, title, text string) registrytest.Descriptor {
		return registrytest.Descriptor{MediaType: kind, Digest: registrytest.Digest([]byte(text)), Size: int64(len(text)), Annotations: map[string]string{"org.opencontainers.image.title": title}}
	}
	good := layer(BundleType, "e.tar.zst", "a bundle")
	sized := func(d registrytest.Descriptor, size int64) registrytest.Descriptor { d.Size = size; return d }
	for name, c := range map[string]struct {
		edit func(map[string]any)
		is   error
	}{
		"another subject": {func(m map[string]any) {
			// Which the list does not show: the registry says that it refers to the image.
			m["subject"] = registrytest.Descriptor{Digest: registrytest.Digest(nil)}
		}, store.ErrUnsafe},
		"no layer":          {layers(), store.ErrUnsafe},
		"two bundles":       {layers(good, layer(BundleType, "f.tar.zst", "a bundle")), store.ErrUnsafe},
		"a sidecar alone":   {layers(layer(SidecarType, "e.sig", "a signature")), store.ErrUnsafe},
		"another's sidecar": {layers(good, layer(SidecarType, "f.sig", "a signature")), store.ErrUnsafe},
		"a sidecar twice":   {layers(good, layer(SidecarType, "e.sig", "a signature"), layer(SidecarType, "e.sig", "a bundle")), store.ErrUnsafe},
		"a folder":          {layers(layer(BundleType, "../e.tar.zst", "a bundle")), store.ErrUnsafe},
		"no name":           {layers(layer(BundleType, "", "a bundle")), store.ErrUnsafe},
		"another kind":      {layers(good, layer("text/plain", "e.txt", "a bundle")), store.ErrUnsafe},
		"md5":               {layers(registrytest.Descriptor{MediaType: BundleType, Digest: "md5:00", Size: 1, Annotations: good.Annotations}), store.ErrUnsafe},
		"negative size":     {layers(sized(good, -1)), store.ErrUnsafe},
		"huge bundle":       {layers(sized(good, store.MaxBundle+1)), store.ErrTooLarge},
		"huge sidecar":      {layers(good, sized(layer(SidecarType, "e.sig", "a signature"), store.MaxSidecar+1)), store.ErrTooLarge},
		"huge manifest": {func(m map[string]any) {
			m["annotations"] = map[string]string{"x": strings.Repeat("x", store.MaxManifest)}
		}, store.ErrTooLarge},
		"an image index":      {func(m map[string]any) { m["mediaType"] = "application/vnd.oci.image.index.v1+json" }, store.ErrUnsafe},
		"version 1":           {func(m map[string]any) { m["schemaVersion"] = 1 }, store.ErrUnsafe},
		"nested without end":  {func(m map[string]any) { m["x"] = nested(100) }, store.ErrUnsafe},
		"in two spellings":    {func(m map[string]any) { m["Layers"] = []any{good} }, store.ErrUnsafe},
		"layers of no object": {layers("x"), store.ErrUnsafe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaced(t)
			want := fmt.Sprintf("oci://%s/%s@%s", p.Host(), registrytest.Name, p.manifest(nil))
			bad := p.manifest(c.edit)
			p.Hook = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, "/referrers/") {
					p.list(w, want[strings.LastIndex(want, "sha256:"):], bad)
					return true
				}
				return false
			}
			got, err := all(t, p.place(), p.o)
			if len(got) != 1 || got[want] != "a bundle|e.sig=a signature" || !errors.Is(err, c.is) {
				t.Errorf("got %v, %v; want %v", got, err, c.is)
			}
		})
	}
}

func nested(n int) any {
	if n == 0 {
		return 0
	}
	return []any{nested(n - 1)}
}

// list answers that these manifests refer to the image.
func (p *placed) list(w http.ResponseWriter, list ...string) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
	fmt.Fprint(w, `{"schemaVersion":2,"manifests":[`)
	for i, digest := range list {
		m := p.Manifests[digest]
		fmt.Fprintf(w, `%s{"mediaType":%q,"digest":%q,"size":%d,"artifactType":%q}`, map[bool]string{true: ","}[i > 0], m.Type, digest, len(m.Text), EvidenceType)
	}
	fmt.Fprint(w, "]}")
}

// Bytes that arrive are held to what was asked for.
func TestHostileBytes(t *testing.T) {
	t.Parallel()
	bundle := "/blobs/" + registrytest.Digest([]byte("a bundle"))
	endless := func(w http.ResponseWriter, r *http.Request) {
		for chunk := bytes.Repeat([]byte("x"), 1<<16); r.Context().Err() == nil; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	loop := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }
	to := func(address string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, address, http.StatusFound) }
	}
	says := func(kind, text string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, text)
		}
	}
	const index = "application/vnd.oci.image.index.v1+json"
	for name, c := range map[string]struct {
		at     string
		answer func(http.ResponseWriter, *http.Request)
		is     error
	}{
		"another bundle":      {bundle, says("application/octet-stream", "b bundle"), store.ErrDigest},
		"endless bundle":      {bundle, endless, store.ErrDigest},
		"short bundle":        {bundle, func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush(); io.WriteString(w, "a") }, store.ErrDigest},
		"bundle in a circle":  {bundle, loop, nil},
		"bundle in the clear": {bundle, to("http://registry.example.com/blob"), nil},
		"bundle in a file":    {bundle, to("file:///etc/passwd"), nil},
		"another manifest":    {"/manifests/sha256:", says("application/vnd.oci.image.manifest.v1+json", "{}"), nil},
		"endless list": {"/referrers/", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", index)
			io.WriteString(w, `{"schemaVersion":2,"manifests":[],"annotations":{"x":"`)
			endless(w, r)
		}, nil},
		"list in a circle": {"/referrers/", loop, nil},
		"no list":          {"/referrers/", says(index, "<html>"), nil},
		"long list": {"/referrers/", says(index, `{"schemaVersion":2,"manifests":[`+strings.Repeat(`{"artifactType":"`+EvidenceType+`"},`, store.MaxCandidates)+
			`{"artifactType":"`+EvidenceType+`"}]}`), nil},
		"list of the next": {"/referrers/", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "<"+r.URL.Path+`?next>; rel="next"`)
			says(index, `{"schemaVersion":2,"manifests":[]}`)(w, r)
		}, nil},
		"list elsewhere": {"/referrers/", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", `<https://127.0.0.1:1/>; rel="next"`)
			says(index, `{"schemaVersion":2,"manifests":[]}`)(w, r)
		}, nil},
		"no registry": {"/referrers/", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil},
		"no right":    {"/referrers/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaced(t)
			p.manifest(nil)
			p.Hook = func(w http.ResponseWriter, r *http.Request) bool {
				hit := strings.Contains(r.URL.Path, c.at)
				if hit {
					c.answer(w, r)
				}
				return hit
			}
			begin := time.Now()
			got, err := all(t, p.place(), p.o)
			if len(got) != 0 || err == nil || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, %v; want %v", got, err, c.is)
			}
			if n := len(p.Requests()); n > 2*maxPages {
				t.Errorf("%d requests", n)
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// What else refers to an image, signatures of its layers for example, is many, and counts
// for nothing.
func TestManyReferrers(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*placed){
		"filtered":     func(*placed) {},
		"not filtered": func(p *placed) { p.Filters = false },
		"in pages":     func(p *placed) { p.Filters, p.Page = false, 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaced(t)
			edit(p)
			for i := range 10_000 {
				p.Add(map[string]any{"mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": "application/example", "n": i, "subject": map[string]any{"digest": p.image}})
			}
			p.manifest(nil)
			if got, err := all(t, p.place(), p.o); err != nil || len(got) != 1 {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	p := newPlaced(t)
	p.image = registrytest.Digest([]byte("no image")) // an image that nothing refers to
	if got, err := all(t, p.place(), p.o); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

// FuzzManifest: a manifest that is accepted names one bundle, and sidecars of it alone.
func FuzzManifest(f *testing.F) {
	image := registrytest.Digest(nil)
	f.Add([]byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"` + EvidenceType + `","layers":[{"mediaType":"` + BundleType +
		`","digest":"` + image + `","size":1,"annotations":{"org.opencontainers.image.title":"e.tar.zst"}}],"subject":{"digest":"` + image + `"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		bundle, sidecars, err := parseManifest(text, image)
		if err != nil {
			if bundle.Digest != "" || sidecars != nil {
				t.Errorf("%v, %v beside %v", bundle, sidecars, err)
			}
			return
		}
		const title = "org.opencontainers.image.title"
		begin, ok := strings.CutSuffix(bundle.Annotations[title], ".tar.zst")
		if !ok || !filepath.IsLocal(begin) || len(sidecars) > 2 || !bytes.Contains(text, []byte(image)) {
			t.Errorf("bundle %v, sidecars %v", bundle, sidecars)
		}
		for _, s := range sidecars {
			if !slices.Contains([]string{begin + ".sig", begin + ".oidc"}, s.Annotations[title]) {
				t.Errorf("sidecar %v", s)
			}
		}
	})
}
