package store

import (
	"strings"
	"testing"
)

var commit = strings.Repeat("0b", 20)

var image = "sha256:" + strings.Repeat("0a", 32)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Place{
		"evidence/":                           {Kind: Path, Path: "evidence"},
		"./release:x":                         {Kind: Path, Path: "release:x"},
		"a:b":                                 {Kind: Path, Path: "a:b"},
		"release:octo/project@v1.2.3":         {Kind: Release, Repository: "octo/project", Tag: "v1.2.3"},
		"release:octo/project@sub/mod@v1":     {Kind: Release, Repository: "octo/project", Tag: "sub/mod@v1"},
		"artifact:octo/project/123":           {Kind: Artifact, Repository: "octo/project", Run: 123},
		"oci://ghcr.io/octo/app@" + image:     {Kind: OCI, Repository: "ghcr.io/octo/app", Digest: image},
		"oci://localhost:5000/a/b/c@" + image: {Kind: OCI, Repository: "localhost:5000/a/b/c", Digest: image},
	} {
		got, err := Parse(name)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
		if want.Kind != Path && got.String() != name {
			t.Errorf("%q: again %q", name, got)
		}
	}
	for _, name := range []string{
		"", "\x00", "release:", "release:octo/project", "release:octo/project@", "release:octo@v1", "release:octo/..@v1", "release:octo/project@..",
		"release:octo/project@a b", "release:octo/project@a?b", "release:octo/a/b@v1", "artifact:octo/project", "artifact:octo/project/0",
		"artifact:octo/project/01", "artifact:octo/project/-1", "artifact:octo/project/1x", "artifact:octo/project@main", "artifact:octo@" + commit, "artifact:octo/project/1@" + commit, "artifact:project/1", "artifact:1",
		"oci:ghcr.io/octo/app@" + image, "oci://ghcr.io/octo/app", "oci://ghcr.io/octo/app:v1", "oci://ghcr.io/octo/app:v1@" + image,
		"oci://ghcr.io/octo/app@" + strings.ToUpper(image), "oci://ghcr.io/octo/app@sha512:00", "oci://u:p@ghcr.io/octo/app@" + image, "oci://app@" + image,
		"oci://ghcr.io/../app@" + image, "oci://ghcr.io/octo/app?x@" + image,
	} {
		if got, err := Parse(name); err == nil || got != (Place{}) {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
}

// FuzzParse: a name that is of another place than a path is the one name of it.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"evidence", "release:octo/project@v1", "artifact:octo/project/1", "oci://ghcr.io/octo/app@" + image} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := Parse(name)
		switch {
		case err != nil && p != (Place{}):
			t.Errorf("%+v beside %v", p, err)
		case err == nil && p.Kind != Path && p.String() != name:
			t.Errorf("%q is called %q", name, p)
		}
	})
}
