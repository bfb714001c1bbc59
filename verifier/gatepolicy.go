package verifier

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// A GatePolicy says what a release needs. It is the key gate of a .truegreen.yaml; see
// [ParseGate].
type GatePolicy struct {
	Level        int           `json:"level"`         // least level of evidence of every commit
	Isolation    int           `json:"isolation"`     // least isolation of every test
	MaxAge       time.Duration `json:"max_age_ns"`    // of every run; 0: any
	Seals        []string      `json:"seals"`         // kinds of signatures that count
	Signers      []string      `json:"signers"`       // who counts; none: whoever is trusted
	Threshold    int           `json:"threshold"`     // different signers of every commit
	Reproduced   bool          `json:"reproduced"`    // of every commit one run has to be made again by another signer
	SecondSigner []string      `json:"second_signer"` // globs of paths whose change needs two
	TagSigners   []string      `json:"tag_signers"`   // one of whom signs the tag; none: nobody has to
	Waivers      []string      `json:"waivers"`       // who can sign a waiver; none: nobody
	Require      []string      `json:"require"`       // expressions over the report
}

// The kinds of signatures, as in [Trust].
const (
	SealMAC  = "mac"
	SealSSH  = "ssh"
	SealOIDC = "oidc"
)

const (
	maxThreshold  = 16
	maxExpression = 1 << 10
	maxExpresses  = 32
	maxGateAge    = 10 * 366 * 24 * time.Hour
)

// DefaultGate is the policy of a repository that states none. A MAC does not count: who
// can check it can make it.
func DefaultGate() GatePolicy {
	return GatePolicy{Seals: []string{SealSSH, SealOIDC}, Threshold: 1}
}

// ParseGate reads the policy of the release gate out of a .truegreen.yaml, and reports
// whether it states one:
//
//	gate:
//	  level: L1                      # least level of evidence; default L0
//	  isolation: 3                   # least isolation of every test; default: as configured
//	  max-age: 720h                  # of every run, 1m to 87840h; default: any
//	  seals: [ssh, oidc]             # whose signatures count: ssh, oidc, mac; this is the default
//	  signers: [alice@example.com]   # who counts: principals of allowed_signers, workflows of
//	                                 # trust.yaml; default: all whom these files name
//	  threshold: 1                   # different signers of every commit, 1 to 16
//	  reproduced: true               # another signer has made one of the runs again; default false
//	  second-signer: ["release/**"]  # who changes such a path needs two
//	  tag-signers: [alice@example.com] # one of them signs the tag; default: nobody has to
//	  waivers: [alice@example.com]   # who can sign a waiver; default: nobody
//	  require:                       # expressions in CEL over the report, each true
//	    - report.compared.removed == null
//
// The policy lies in the file that the runs are configured by and is no part of their
// configuration document. That document is what a bundle is sealed with and compared by:
// it says how tests run, and counts at the base of each patch. The policy says what a
// release needs, and counts at the tip of the protected branch on the day of the
// release. Were it part of the document, a stricter policy would make every earlier
// bundle one of another configuration. It is checked with the rest of the file all the
// same, so that a mistake shows with the next patch and not with the next release.
//
// Of YAML, [ParseConfig] says what is accepted. Names are whole: there are no patterns.
func ParseGate(file []byte) (p GatePolicy, found bool, err error) {
	if _, err := parseConfig(file); err != nil { // with all its other keys
		return GatePolicy{}, false, err
	}
	root, err := parseYAML(ConfigFile, file)
	if err != nil {
		return GatePolicy{}, false, err
	}
	p = DefaultGate()
	if root == nil {
		return p, false, nil
	}
	d := configDecoder{lines: make(map[string]int)}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "gate" {
			d.gate(yamlValue{root.Content[i+1], "gate"}, &p)
			found = true
		}
	}
	if d.err != nil {
		return GatePolicy{}, false, d.err
	}
	return p, found, nil
}

func (d *configDecoder) gate(v yamlValue, p *GatePolicy) {
	*p = DefaultGate()
	d.mapping(v, map[string]func(yamlValue){
		"level": func(v yamlValue) { p.Level = d.level(v) },
		"isolation": func(v yamlValue) {
			if p.Isolation = int(d.integer(v)); p.Isolation < 0 || p.Isolation > 4 {
				d.fail(v, "not one of 0 to 4")
			}
		},
		"max-age": func(v yamlValue) {
			t, err := time.ParseDuration(v.node.Value)
			if v.node.Kind != yaml.ScalarNode || err != nil || t < time.Minute || t > maxGateAge {
				d.fail(v, "not a duration from 1m to %.0fh", maxGateAge.Hours())
			}
			p.MaxAge = t
		},
		"seals": func(v yamlValue) {
			p.Seals = d.allowed(v, func(s string) error {
				if s != SealSSH && s != SealOIDC && s != SealMAC {
					return fmt.Errorf("%q is not ssh, oidc or mac", s)
				}
				return nil
			})
		},
		"signers": func(v yamlValue) { p.Signers = d.allowed(v, checkName) },
		"threshold": func(v yamlValue) {
			if p.Threshold = int(d.integer(v)); p.Threshold < 1 || p.Threshold > maxThreshold {
				d.fail(v, "not one of 1 to %d", maxThreshold)
			}
		},
		"reproduced":    func(v yamlValue) { p.Reproduced = d.bool(v) },
		"second-signer": func(v yamlValue) { p.SecondSigner = d.allowed(v, checkGlob) },
		"tag-signers":   func(v yamlValue) { p.TagSigners = d.allowed(v, checkName) },
		"waivers":       func(v yamlValue) { p.Waivers = d.allowed(v, checkName) },
		"require": func(v yamlValue) {
			p.Require = d.allowed(v, func(s string) error {
				if s == "" || len(s) > maxExpression {
					return fmt.Errorf("an expression has 1 to %d bytes", maxExpression)
				}
				return nil
			})
			if len(p.Require) > maxExpresses {
				d.fail(v, "more than %d", maxExpresses)
			}
		},
	})
	need := p.Threshold
	if len(p.SecondSigner) > 0 || p.Reproduced {
		need = max(need, 2)
	}
	if p.Signers != nil && len(p.Signers) < need {
		d.fail(v, "%d signers can never be the %d different ones that it asks for", len(p.Signers), need)
	}
	if need > 1 && slices.Equal(p.Seals, []string{SealMAC}) {
		d.fail(v, "a receipt key is one signer, and %d are asked for", need)
	}
}

// checkName refuses what names nobody, or more than one.
func checkName(s string) error {
	if s == "" || len(s) > 1<<10 || strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`*?!,"`, c) }) >= 0 {
		return errors.New("not the name of one signer: there are no patterns")
	}
	return nil
}
