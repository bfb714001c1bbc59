package verifier_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

// TestExportOfBundle exports what verification says about whole bundles: nothing
// of one that is broken, and everything of one that only nobody vouches for.
func TestExportOfBundle(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	r.Output = fixture.OnHead(fixture.Output{Exit: 1, Stdout: fixture.GoTest(fixture.Package, "TestAdd fail", "TestSum", "TestNew skip")})
	file := bundleOf(t, &r)
	damaged := bytes.Clone(file)
	damaged[len(damaged)-1] ^= 1
	strange := r.Options()
	strange.Keys = nil
	other := r.Options()
	other.Repository = "git.example.com/other"
	quick := r.Options()
	quick.Quick = true
	for _, test := range []struct {
		name    string
		file    []byte
		o       verifier.Options
		verdict verifier.Verdict
	}{
		{"failed", file, r.Options(), verifier.Failed},
		{"quick", file, quick, verifier.Failed},
		{"without a key", file, strange, verifier.Unproven},
		{"about something else", file, other, verifier.Broken},
		{"damaged", damaged, r.Options(), verifier.Broken},
		{"none", nil, r.Options(), verifier.Broken},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			report := verify(t, test.file, test.o)
			if report.Verdict() != test.verdict {
				t.Fatalf("%s: %v", report.Verdict(), report.Reasons())
			}
			for _, format := range verifier.ExportFormats() {
				var b bytes.Buffer
				err := report.Export(&b, format)
				if !report.Sound() {
					if err == nil || b.Len() > 0 {
						t.Errorf("%s: %v, written %q", format, err, b.String())
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range []string{"TestSum", fixture.Package, "regressed", string(test.verdict), r.HeadCommit(), report.Patch().Tree.Git} {
					if !strings.Contains(b.String(), want) {
						t.Errorf("%s: no %q in\n%s", format, want, b.String())
					}
				}
				var v any
				if format == "junit" {
					v = &struct {
						XMLName xml.Name `xml:"testsuites"`
					}{}
					err = xml.Unmarshal(b.Bytes(), v)
				} else {
					err = json.Unmarshal(b.Bytes(), &v)
				}
				if err != nil {
					t.Errorf("%s: %v in\n%s", format, err, b.String())
				}
			}
		})
	}
}
