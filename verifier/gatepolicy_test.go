package verifier

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

const fullGate = `test:
  - name: unit
    run: [go, test, ./...]
gate:
  level: L2
  isolation: 3
  max-age: 720h
  seals: [ssh, oidc, mac]
  signers: [alice@example.com, octo/ci/.github/workflows/truegreen.yml@refs/heads/main]
  threshold: 2
  second-signer: ["release/**"]
  tag-signers: [alice@example.com]
  waivers: [bob@example.com]
  require:
    - report.claim.level >= 2
    - '!has(report.findings)'
`

func TestParseGate(t *testing.T) {
	t.Parallel()
	got, found, err := ParseGate([]byte(fullGate))
	if err != nil || !found {
		t.Fatal(found, err)
	}
	want := GatePolicy{
		Level: 2, Isolation: 3, MaxAge: 720 * time.Hour, Seals: []string{"ssh", "oidc", "mac"}, Threshold: 2,
		Signers:      []string{"alice@example.com", "octo/ci/.github/workflows/truegreen.yml@refs/heads/main"},
		SecondSigner: []string{"release/**"}, TagSigners: []string{"alice@example.com"}, Waivers: []string{"bob@example.com"},
		Require: []string{"report.claim.level >= 2", "!has(report.findings)"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	for _, file := range []string{"", "# nothing\n", "shallow: refuse\n"} {
		got, found, err := ParseGate([]byte(file))
		if err != nil || found || !reflect.DeepEqual(got, DefaultGate()) {
			t.Errorf("%q: %+v, %t, %v", file, got, found, err)
		}
	}
}

// The policy is no part of what a run is configured by: bundles that were made before
// it are of the same configuration.
func TestGateIsNoConfiguration(t *testing.T) {
	t.Parallel()
	with, err := ParseConfig([]byte(fullGate))
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(fullGate, "gate:")
	without, err := ParseConfig([]byte(before))
	if err != nil {
		t.Fatal(err)
	}
	a, err := with.Document()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := without.Document(); err != nil || string(a) != string(b) {
		t.Errorf("%s\n%s, %v", a, b, err)
	}
}

func TestBadGate(t *testing.T) {
	t.Parallel()
	for line, why := range map[string]string{
		"levle: L1":                          `:2: gate.levle: unknown key; the nearest known one is "level"`,
		"level: 1":                           "not a string",
		"level: L5":                          "L0 to L4",
		"isolation: 5":                       "0 to 4",
		"isolation: -1":                      "0 to 4",
		"max-age: 1s":                        "not a duration from 1m to 87840h",
		"max-age: never":                     "not a duration",
		"max-age: 90000h":                    "not a duration",
		"max-age: [1h]":                      "not a duration",
		"seals: []":                          "at least one",
		"seals: [gpg]":                       "not ssh, oidc or mac",
		"seals: [ssh, ssh]":                  "there twice",
		"signers: []":                        "at least one",
		"signers: ['*@example.com']":         "there are no patterns",
		"signers: ['a,b']":                   "not the name of one signer",
		"signers: ['']":                      "not the name of one signer",
		"threshold: 0":                       "1 to 16",
		"threshold: 17":                      "1 to 16",
		"threshold: two":                     "not an integer",
		"second-signer: ['/abs']":            "second-signer",
		"tag-signers: ['!a']":                "there are no patterns",
		"waivers: ['a b']":                   "not the name of one signer",
		"waivers: a":                         "not a list",
		"require: ['']":                      "1 to 1024 bytes",
		"require: [true]":                    "not a string",
		"{signers: [a], threshold: 2}":       "1 signers can never be the 2",
		"{signers: [a], second-signer: [b]}": "1 signers can never be the 2",
		"{seals: [mac], threshold: 2}":       "a receipt key is one signer",
		"{level: L1, level: L0}":             "there twice",
		"[level]":                            "not a mapping",
		"null":                               "not a mapping",
		"&a {level: L1}":                     "anchors",
	} {
		for _, parse := range map[string]func([]byte) error{
			"gate":   func(b []byte) error { p, found, err := ParseGate(b); return zeroOn(err, p, found) },
			"config": func(b []byte) error { _, err := ParseConfig(b); return err },
		} {
			if err := parse([]byte("gate:\n  " + line + "\n")); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, want %q", line, err, why)
			}
		}
	}
	// The rest of the file is held to its own rules, also a key that is meant to be this.
	for _, file := range []string{"gat:\n  level: L1\n", "gate: {}\ntset: []\n", "gate: {}\ngate: {}\n"} {
		if _, _, err := ParseGate([]byte(file)); err == nil {
			t.Errorf("%q is accepted", file)
		}
	}
}

// zeroOn returns err, which has to come with zero values.
func zeroOn(err error, p GatePolicy, found bool) error {
	if err != nil && (found || !reflect.DeepEqual(p, GatePolicy{})) {
		panic("an error, and a policy")
	}
	return err
}

func FuzzGate(f *testing.F) {
	f.Add([]byte(fullGate))
	f.Add([]byte("gate: {threshold: 3, signers: [a, b, c]}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		p, found, err := ParseGate(file)
		if zeroOn(err, p, found) != nil {
			return
		}
		if _, err := ParseConfig(file); err != nil {
			t.Errorf("a policy of a file that is none: %v", err)
		}
		if p.Threshold < 1 || len(p.Seals) == 0 || p.Signers != nil && len(p.Signers) < p.Threshold {
			t.Errorf("%+v can never pass, or always does", p)
		}
	})
}
