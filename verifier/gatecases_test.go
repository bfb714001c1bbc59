package verifier

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

const fullCases = `cases:
  - name: two signers
    bundles: [a.tar.zst, b.tar.zst]
    changed: [release/notes.md]
    want: [verified]
  - name: a waiver
    tree: "0123456789abcdef0123456789abcdef01234567"
    waivers: [w.waiver]
    time: "2026-12-31T00:00:00Z"
    want: [no-evidence, tag-not-signed]
`

func TestParseGateCases(t *testing.T) {
	t.Parallel()
	got, err := ParseGateCases("cases.yaml", []byte(fullCases))
	if err != nil {
		t.Fatal(err)
	}
	want := []GateCase{
		{Name: "two signers", Bundles: []string{"a.tar.zst", "b.tar.zst"}, Changed: []string{"release/notes.md"}, Want: []string{"verified"}},
		{
			Name: "a waiver", Tree: "0123456789abcdef0123456789abcdef01234567", Waivers: []string{"w.waiver"},
			Time: time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC), Want: []string{"no-evidence", "tag-not-signed"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestBadGateCases(t *testing.T) {
	t.Parallel()
	for file, why := range map[string]string{
		"":                    "want the key cases",
		"cases: []\n":         "at least one",
		"{}\n":                "no case",
		"case: [{name: a}]\n": "unknown key",
		"cases: [a]\n":        "not a mapping",
		"cases: [{want: [verified], bundles: [b]}]\n":                                                     "name is required",
		"cases: [{name: a, bundles: [b]}]\n":                                                              "want is required",
		"cases: [{name: a, want: [verified]}]\n":                                                          "want bundles or a tree",
		"cases: [{name: a, want: [verified], bundles: [b], tree: " + strings.Repeat("a", 40) + "}]\n":     "want bundles or a tree",
		"cases: [{name: a, want: [verified], tree: main}]\n":                                              "not a full object id",
		"cases: [{name: a, want: [green], bundles: [b]}]\n":                                               `"green" is neither`,
		"cases: [{name: a, want: [verified, no-evidence], bundles: [b]}]\n":                               `"verified" is neither`,
		"cases: [{name: a, want: [verified], bundles: [b], time: '2026-12-31'}]\n":                        "not a time",
		"cases: [{name: a, want: [verified], bundles: [b]}, {name: a, want: [verified], bundles: [b]}]\n": "there twice",
		"cases: [" + strings.Repeat("{name: a, want: [verified], bundles: [b]},", 257) + "]\n":            "there twice",
		"cases: [{name: a, want: [verified], bundles: [b], policy: x}]\n":                                 "unknown key",
	} {
		if cases, err := ParseGateCases("c", []byte(file)); err == nil || cases != nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.80s: %v, %v, want %q", file, cases, err, why)
		}
	}
}

func FuzzGateCases(f *testing.F) {
	f.Add([]byte(fullCases))
	f.Fuzz(func(t *testing.T, file []byte) {
		cases, err := ParseGateCases("c", file)
		if err != nil && cases != nil {
			t.Error("an error, and cases")
		}
		for _, c := range cases {
			if c.Name == "" || len(c.Want) == 0 || (len(c.Bundles) == 0) == (c.Tree == "") {
				t.Errorf("%+v", c)
			}
		}
	})
}
