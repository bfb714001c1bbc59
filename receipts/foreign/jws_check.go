package foreign

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/receipts/jws"
)

// A jwsCheck is one verification of a token.
type jwsCheck struct {
	a      *jwsAdapter
	b      Binding
	now    time.Time
	v      Verification
	claims jws.Claims
}

// set makes an answer what it is at least, and says why.
func (c *jwsCheck) set(to *Answer, a Answer, code, format string, args ...any) {
	*to = max(*to, a)
	c.v.Violations = append(c.v.Violations, Violation{Code: code, Detail: fmt.Sprintf(format, args...), Answer: a})
}

// ask makes an answer yes, until something is found that speaks against it.
func ask(to *Answer, asked bool) {
	if asked {
		*to = max(*to, Yes)
	}
}

// signature finds the key that has signed the token, and its claims.
func (c *jwsCheck) signature(t jws.Token) {
	if !slices.Contains(c.a.o.Algorithms, t.Algorithm()) {
		c.set(&c.v.Signature, No, "algorithm-not-allowed", "alg %.64q: want one of %q", t.Algorithm(), c.a.o.Algorithms)
		return
	}
	keys, named := c.a.keys, false
	if kid := t.KeyID(); kid != "" {
		var of []jwsKey
		for _, k := range keys {
			if k.Name == kid {
				of = append(of, k)
			}
		}
		if named = of != nil; named {
			keys = of
		}
	}
	for i := range keys {
		claims, err := keys[i].verifier.Verify(t)
		if err != nil {
			continue
		}
		c.claims = claims
		c.v.Signature, c.v.Trust, c.v.Receipts = Yes, Yes, 1
		c.v.Issuer = keys[i].issuer()
		return
	}
	switch {
	case len(keys) == 0:
		c.set(&c.v.Signature, Unproven, "no-key", "no key was given to check with")
	case t.KeyID() != "" && !named:
		c.set(&c.v.Signature, Unproven, "unknown-key", "kid %.64q: none of the %d keys has that name, and none has signed it", t.KeyID(), len(keys))
	default:
		c.set(&c.v.Signature, No, "signature-invalid", "alg %q: none of the %d keys that may have signed it has", t.Algorithm(), len(keys))
	}
}

// unread answers what was asked of a receipt that says nothing: what no key of the
// caller has signed, anybody can have written.
func (c *jwsCheck) unread() {
	var asked []string
	for _, q := range []struct {
		name  string
		to    *Answer
		asked bool
	}{
		{"trust", &c.v.Trust, true},
		{"binding", &c.v.Binding, c.b.asked()},
		{"decision", &c.v.Decision, c.b.Allowed},
		{"freshness", &c.v.Freshness, c.asksFreshness()},
		{"chain", &c.v.Chain, c.a.o.Chain},
		{"end", &c.v.End, c.a.o.asksEnd()},
	} {
		if q.asked {
			*q.to = Unproven
			asked = append(asked, q.name)
		}
	}
	c.set(&c.v.Signature, Unproven, "not-read", "%s: nothing in it counts that no known key has signed", strings.Join(asked, ", "))
}

func (c *jwsCheck) trust() {
	o, to := &c.a.o, &c.v.Trust
	iss, err := c.claims.Text("iss")
	switch {
	case !c.claims.Has("iss"):
		if o.Issuer != "" {
			c.set(to, No, "issuer-mismatch", "no iss claim: want %q", o.Issuer)
		}
	case err != nil:
		c.set(to, No, "bad-claim", "%v", err)
	case o.Issuer != "" && iss != o.Issuer:
		c.set(to, No, "issuer-mismatch", "iss %.256q: want %q", iss, o.Issuer)
	}
	if iss != "" {
		c.v.Issuer = iss
	}
	if !c.claims.Has("aud") {
		if o.Audience != "" {
			c.set(to, No, "audience-mismatch", "no aud claim: want %q", o.Audience)
		}
		return
	}
	audience, err := c.claims.Texts("aud")
	switch {
	case err != nil:
		c.set(to, No, "bad-claim", "%v", err)
	case o.Audience == "":
		c.set(to, No, "audience-mismatch", "it is for %.64q, and no audience was given", audience[:min(len(audience), 3)])
	case !slices.Contains(audience, o.Audience):
		c.set(to, No, "audience-mismatch", "it is for %.64q: want %q", audience[:min(len(audience), 3)], o.Audience)
	}
}

func (c *jwsCheck) binding() {
	to := &c.v.Binding
	ask(to, c.b.asked())
	ask(&c.v.Decision, c.b.Allowed)
	compare := func(claim, want, code string) (got string) {
		got, err := c.claims.Text(claim)
		switch {
		case want == "": // nobody asks
		case !c.claims.Has(claim):
			c.set(to, No, "no-"+code, "no %s claim: want %.256q", claim, want)
		case err != nil:
			c.set(to, No, "bad-claim", "%v", err)
		case got != want:
			c.set(to, No, code+"-mismatch", "%s %.256q: want %.256q", claim, got, want)
		}
		return got
	}
	c.v.Tool = compare("tool_name", c.b.Tool, "tool")
	compare("arg_hash", c.b.ArgHash, "arg-hash")
	if c.b.Target != "" {
		c.set(to, No, "no-target", "the format has no claim for what a call is done to")
	}
	if c.b.Allowed {
		c.set(&c.v.Decision, No, "no-decision", "the format has no claim for whether a call was allowed")
	}
}

// asksEnd reports whether the rules ask whether the end of a chain is there.
func (r *Rules) asksEnd() bool { return r.Chain || r.Head != "" }

func (c *jwsCheck) chain() {
	if c.a.o.Chain {
		c.set(&c.v.Chain, No, "no-chain", "the format has no order of receipts: each is for itself")
	}
	if c.a.o.asksEnd() {
		c.set(&c.v.End, No, "no-end", "the format has no chain that could have an end")
	}
}

// seen asks last, and only of a receipt that is trusted but for this: one that is
// refused for something else is not used up.
func (c *jwsCheck) seen(ctx context.Context) error {
	to := &c.v.Freshness
	if c.a.o.Seen == nil {
		return nil
	}
	id, err := c.claims.Text("jti")
	switch {
	case !c.claims.Has("jti"):
		c.set(to, No, "no-id", "no jti claim: nothing says whether it was seen before")
	case err != nil || id == "":
		c.set(to, No, "bad-claim", "jti: not a string with something in it")
	}
	if !c.v.Trusted() {
		return nil
	}
	isNew, err := c.a.o.Seen.Add(ctx, c.v.Issuer, id, c.until())
	if err != nil {
		return err
	}
	if !isNew {
		c.set(to, No, "seen-before", "jti %.256q", id)
	}
	return nil
}
