package verifier

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/receipts/jws"
)

// An OIDCAnchor says which tokens of an OIDC issuer are trusted, such as those that
// GitHub gives to the jobs of a workflow. A token is a signature over a seal: its
// audience is [Audience] of the seal digest, and that binds it to the patch. What else
// it claims says which job asked for it, and is compared with a rule.
type OIDCAnchor struct {
	Trust TrustConfig
	Keys  jws.KeySet // a pinned copy; never out of the bundle

	// What the token must be about besides; zero or nil: what the rules allow.
	RepositoryID int64
	Run          int64
	Commits      []string // of which the event's workflow is one: the claim sha
}

// Audience returns the audience of a token that signs a seal.
func Audience(seal receipts.Digest) string { return "truegreen:sha256:" + seal.String() }

// maxEarly is how much earlier than the end of the run a token may be issued, where
// the clocks of runner and issuer differ.
const maxEarly = time.Minute

// checkToken checks a token beside the bundle.
func (v *verification) checkToken(s *Sidecar) {
	token, err := jws.Parse(s.Bytes)
	switch {
	case err != nil:
		v.because(SignatureInvalid, s.Name, "%v", err)
		return
	case v.o.OIDC == nil:
		v.because(NoTrustedSeal, s.Name, "an OIDC token, and no trust.yaml given")
		return
	}
	claims, key, err := v.o.OIDC.Keys.Verify(token, jws.RS256)
	if errors.Is(err, jws.ErrNoKey) {
		v.because(StaleKeys, s.Name, "%v", err)
		return
	}
	if err == nil {
		err = v.checkSigned(claims, key.Issuer)
	}
	if err != nil {
		v.because(SignatureInvalid, s.Name, "%v", err)
		return
	}
	if why := v.allowedBy(claims); why != "" {
		v.because(NoTrustedSeal, s.Name, "%s", why)
		return
	}
	repository := cmp.Or(shown(claims, "repository"), "repository "+shown(claims, "repository_id"))
	t := Trust{"oidc", fmt.Sprintf("%s, run %s attempt %s, by %s",
		repository, shown(claims, "run_id"), shown(claims, "run_attempt"), shown(claims, "job_workflow_ref"))}
	v.trust = append(v.trust, t)
	if v.workflows == nil {
		v.workflows = map[Trust]string{}
	}
	v.workflows[t], _ = claims.Text("job_workflow_ref")
}

// checkSigned holds a token to what makes it a signature over this seal by the issuer
// whose key it was signed with.
func (v *verification) checkSigned(c jws.Claims, issuer string) error {
	if iss, err := c.Text("iss"); err != nil || iss != issuer {
		return refused("iss", shown(c, "iss"), "the key is that of "+strconv.Quote(issuer))
	}
	if aud, err := c.Text("aud"); err != nil || aud != Audience(v.sealed) {
		return refused("aud", shown(c, "aud"), "this seal's is "+strconv.Quote(Audience(v.sealed)))
	}
	iat, err := c.Integer("iat")
	if err != nil {
		return err
	}
	exp, err := c.Integer("exp")
	if err != nil {
		return err
	}
	if exp <= iat {
		return fmt.Errorf("exp %d: it had expired when it was issued, at iat %d", exp, iat)
	}
	return nil
}

// allowedBy returns "" if a rule allows what a token claims. Else it returns why the one
// does not that comes nearest.
func (v *verification) allowedBy(c jws.Claims) string {
	best, why := -1, "trust.yaml has no rule"
	for i := range v.o.OIDC.Trust.OIDC {
		passed, err := v.allowedByRule(c, &v.o.OIDC.Trust.OIDC[i])
		if err == nil {
			return ""
		}
		if passed > best {
			best, why = passed, err.Error()
		}
	}
	return why
}

// allowedByRule compares claims with a rule and what the caller asks for, and counts
// those that agree. The times have passed [verification.checkSigned].
func (v *verification) allowedByRule(c jws.Claims, r *OIDCRule) (passed int, err error) {
	o := v.o.OIDC
	commits := func(s string) bool { return isHexID(s) && (len(o.Commits) == 0 || slices.Contains(o.Commits, s)) }
	attempt := func(s string) bool { n, ok := positive(s); return ok && n >= int64(v.seal.Attempt) }
	for _, check := range []struct {
		claim   string
		ok      func(value string) bool
		allowed string
	}{
		{"iss", oneOf([]string{r.Issuer}), r.Issuer},
		{"repository_id", oneOf([]string{strconv.FormatInt(r.RepositoryID, 10)}), strconv.FormatInt(r.RepositoryID, 10)},
		{"repository_id", numberOrAny(o.RepositoryID), numbered(o.RepositoryID)},
		{"event_name", oneOf(r.Events), strings.Join(r.Events, ", ")},
		{"job_workflow_ref", oneOf(r.Workflows), strings.Join(r.Workflows, ", ")},
		{"runner_environment", func(s string) bool { return s == r.Runner || r.Runner == RunnerAny && s != "" }, r.Runner},
		{"run_id", numberOrAny(o.Run), numbered(o.Run)},
		{"run_attempt", attempt, fmt.Sprintf("%d or more", v.seal.Attempt)},
		{"sha", commits, cmp.Or(strings.Join(o.Commits, ", "), "any commit id")},
	} {
		value, err := c.Text(check.claim)
		if err != nil {
			return passed, err
		}
		if !check.ok(value) {
			return passed, refused(check.claim, value, "allowed is "+check.allowed)
		}
		passed++
	}
	iat, err := c.Integer("iat")
	if err != nil {
		return passed, err
	}
	end := time.UnixMilli(int64(v.seal.End)).UTC()
	from, to := end.Add(-maxEarly), end.Add(r.Window)
	if issued := time.Unix(iat, 0).UTC(); issued.Before(from) || issued.After(to) {
		return passed, refused("iat", issued.Format(time.RFC3339), fmt.Sprintf("the run ended at %s, and allowed is up to %s after",
			end.Format(time.RFC3339), r.Window))
	}
	return passed, nil
}

// shown returns a claim for people, "" if it is no string.
func shown(c jws.Claims, name string) string {
	s, _ := c.Text(name)
	return cut(s, 256)
}

func refused(claim, value, why string) error {
	return fmt.Errorf("%s %q: %s", claim, cut(value, 256), cut(why, 1024))
}

// numberOrAny takes n, or for 0 every number.
func numberOrAny(n int64) func(string) bool {
	return func(s string) bool { got, ok := positive(s); return ok && (n == 0 || got == n) }
}

func numbered(n int64) string {
	if n == 0 {
		return "any number"
	}
	return strconv.FormatInt(n, 10)
}

func oneOf(list []string) func(string) bool {
	return func(s string) bool { return slices.Contains(list, s) }
}

// positive reads a number of GitHub's, which are strings.
func positive(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n > 0 && strconv.FormatInt(n, 10) == s
}
