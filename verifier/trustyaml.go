package verifier

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/truegreen-dev/truegreen/internal/lazy"
)

// The paths in a repository at which it says whose signatures count. They count at a
// ref that its owner protects, and nowhere else.
const (
	TrustFile   = ".truegreen/trust.yaml"
	KeysFile    = ".truegreen/jwks.json"
	SignersFile = ".truegreen/allowed_signers"
)

// DefaultIssuer makes the tokens of GitHub Actions.
const DefaultIssuer = "https://token.actions.githubusercontent.com"

// RunnerAny is an [OIDCRule].Runner that every runner fits.
const RunnerAny = "any"

const (
	defaultRunner = "github-hosted"
	defaultWindow = 24 * time.Hour
	maxWindow     = 7 * 24 * time.Hour
	maxRules      = 16
	maxAllowed    = 64 // workflows or events of a rule
)

// A TrustConfig says whose OIDC tokens count: those that one of its rules allows.
type TrustConfig struct {
	OIDC []OIDCRule
}

// An OIDCRule is what a token must claim.
type OIDCRule struct {
	Issuer       string
	RepositoryID int64
	Workflows    []string // job_workflow_ref, one of them exactly
	Events       []string
	Runner       string        // runner_environment, or RunnerAny
	Window       time.Duration // how long after the end of the run it may be issued
}

// ParseTrust reads a trust.yaml:
//
//	oidc:
//	  - issuer: https://token.actions.githubusercontent.com   # the default
//	    repository-id: 123456                 # of the repository whose run it is
//	    workflows:                            # of the job that asked for the token
//	      - octo/ci/.github/workflows/truegreen.yml@refs/heads/main
//	      - octo/ci/.github/workflows/truegreen.yml@0123456789abcdef0123456789abcdef01234567
//	    events: [pull_request, merge_group, push]
//	    runner: github-hosted                 # the default; or self-hosted, or any
//	    window: 24h                           # the default; 1m to 168h after the end of the run
//
// repository-id, workflows and events are required. A workflow is at a full commit id,
// or at a branch or tag, which its owner protects; it is compared as a whole, and there
// are no patterns. Of YAML, [ParseConfig] says what is accepted.
func ParseTrust(file []byte) (TrustConfig, error) {
	t, err := parseTrust(file)
	if err != nil {
		return TrustConfig{}, err
	}
	return t, nil
}

func parseTrust(file []byte) (TrustConfig, error) {
	root, err := parseYAML(TrustFile, file)
	if err != nil {
		return TrustConfig{}, err
	}
	if root == nil {
		return TrustConfig{}, fmt.Errorf("%s:1: nothing is in it: want the key oidc", TrustFile)
	}
	d := configDecoder{lines: make(map[string]int)}
	var t TrustConfig
	d.trust(yamlValue{root, ""}, &t)
	var field *fieldError
	if errors.As(d.err, &field) {
		return TrustConfig{}, fmt.Errorf("%s:%d: %w", TrustFile, d.line(field.field), d.err)
	}
	return t, d.err
}

func (d *configDecoder) trust(v yamlValue, t *TrustConfig) {
	d.mapping(v, map[string]func(yamlValue){
		"oidc": func(v yamlValue) {
			for _, item := range d.list(v) {
				t.OIDC = append(t.OIDC, d.rule(item))
			}
			if len(t.OIDC) > maxRules {
				d.fail(v, "more than %d rules", maxRules)
			}
		},
	})
	if len(t.OIDC) == 0 {
		d.fail(v, "no rule: want the key oidc")
	}
}

func (d *configDecoder) rule(v yamlValue) OIDCRule {
	r := OIDCRule{Issuer: DefaultIssuer, Runner: defaultRunner, Window: defaultWindow}
	d.mapping(v, map[string]func(yamlValue){
		"issuer": func(v yamlValue) {
			r.Issuer = d.string(v)
			if err := CheckIssuer(r.Issuer); err != nil {
				d.fail(v, "%v", err)
			}
		},
		"repository-id": func(v yamlValue) { r.RepositoryID = d.id(v) },
		"workflows": func(v yamlValue) {
			r.Workflows = d.allowed(v, checkWorkflow)
		},
		"events": func(v yamlValue) {
			r.Events = d.allowed(v, func(s string) error {
				if !isEvent(s) {
					return fmt.Errorf("%q is not the name of an event", s)
				}
				return nil
			})
		},
		"runner": func(v yamlValue) {
			if r.Runner = d.string(v); !slices.Contains([]string{defaultRunner, "self-hosted", RunnerAny}, r.Runner) {
				d.fail(v, "%q is not github-hosted, self-hosted or any", r.Runner)
			}
		},
		"window": func(v yamlValue) {
			t, err := time.ParseDuration(v.node.Value)
			if v.node.Kind != yaml.ScalarNode || err != nil || t < time.Minute || t > maxWindow {
				d.fail(v, "not a duration from 1m to 168h")
			}
			r.Window = t
		},
	})
	for _, missing := range []struct {
		key  string
		left bool
	}{{"repository-id", r.RepositoryID == 0}, {"workflows", r.Workflows == nil}, {"events", r.Events == nil}} {
		if missing.left {
			d.fail(v, "%s is required", missing.key)
		}
	}
	return r
}

// allowed reads a list of different strings that pass a check.
func (d *configDecoder) allowed(v yamlValue, check func(string) error) []string {
	list := d.strings(v)
	if len(list) > maxAllowed {
		d.fail(v, "more than %d", maxAllowed)
	}
	for i, s := range list {
		if err := check(s); err != nil {
			d.fail(v, "%v", err)
		}
		if slices.Contains(list[:i], s) {
			d.fail(v, "%q: there twice", s)
		}
	}
	return list
}

// id reads a positive integer.
func (d *configDecoder) id(v yamlValue) int64 {
	n, err := strconv.ParseInt(v.node.Value, 10, 64)
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!int" || err != nil || n < 1 {
		d.fail(v, "not a positive integer")
	}
	return n
}

// CheckIssuer says why a string cannot be the URL of an issuer. It begins with https://,
// or with http:// where it does not leave the machine.
func CheckIssuer(s string) error {
	u, err := url.Parse(s)
	if err != nil || len(s) > 1<<10 || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.String() != s {
		return fmt.Errorf("%q is not the URL of an issuer", s)
	}
	address, _ := netip.ParseAddr(u.Hostname())
	if u.Scheme != "https" && (u.Scheme != "http" || !address.IsLoopback()) {
		return fmt.Errorf("%q: want https://", s)
	}
	return nil
}

func isEvent(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") == ""
}

var workflowForm = lazy.Regexp(`^[A-Za-z0-9-]+/[A-Za-z0-9._-]+/\.github/workflows/[A-Za-z0-9._-]+\.ya?ml@(.+)$`)

// checkWorkflow refuses what cannot be the job_workflow_ref of a workflow that its owner
// fixes or protects. A pull request's merge ref is neither: the patch writes it.
func checkWorkflow(s string) error {
	m := workflowForm().FindStringSubmatch(s)
	if m == nil || len(s) > 1<<10 {
		return fmt.Errorf("%q is not OWNER/REPOSITORY/.github/workflows/FILE@REF", s)
	}
	ref := m[1]
	if isHexID(ref) {
		return nil
	}
	branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
	tag, isTag := strings.CutPrefix(ref, "refs/tags/")
	name := branch
	if isTag {
		name = tag
	}
	switch {
	case !isBranch && !isTag:
		return fmt.Errorf("%q: a workflow is at refs/heads/…, at refs/tags/…, or at a full commit id", s)
	case name == "" || strings.Contains(name, "..") || strings.IndexFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`~^:?*[\@`, c) }) >= 0:
		return fmt.Errorf("%q: not the name of a branch or tag; there are no patterns", s)
	}
	return nil
}

// isHexID reports whether s is a full object id.
func isHexID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
