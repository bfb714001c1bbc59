package foreign

import "time"

// asksFreshness reports whether the options ask for it, of any token.
func (c *jwsCheck) asksFreshness() bool {
	o := &c.a.o
	return !o.AllowNoExpiry || o.MaxAge > 0 || o.MaxLifetime > 0 || o.Seen != nil
}

// time returns a claim that is a time, zero if the token has it not. One of another form
// speaks against freshness.
func (c *jwsCheck) time(name string) (at time.Time, has bool) {
	if !c.claims.Has(name) {
		return time.Time{}, false
	}
	at, err := c.claims.Time(name)
	if err != nil {
		c.set(&c.v.Freshness, No, "bad-claim", "%v", err)
		return time.Time{}, false
	}
	return at, true
}

// freshness compares times. A clock that differs by no more than the skew is right.
func (c *jwsCheck) freshness() {
	o, to := &c.a.o, &c.v.Freshness
	ask(to, c.asksFreshness() || c.claims.Has("exp"))
	exp, expires := c.time("exp")
	nbf, begins := c.time("nbf")
	iat, dated := c.time("iat")
	c.v.Expires, c.v.Issued = exp, iat

	early, late := c.now.Add(-o.skew()), c.now.Add(o.skew())
	show := func(t time.Time) string { return t.Format(time.RFC3339Nano) }
	switch {
	case !expires && !c.claims.Has("exp") && !o.AllowNoExpiry:
		c.set(to, No, "no-expiry", "no exp claim: it would count for good")
	case expires && !early.Before(exp):
		c.set(to, No, "expired", "exp %s: it is %s", show(exp), show(c.now))
	}
	if begins && nbf.After(late) {
		c.set(to, No, "not-yet-valid", "nbf %s: it is %s", show(nbf), show(c.now))
	}
	if dated && iat.After(late) {
		c.set(to, No, "from-the-future", "iat %s: it is %s", show(iat), show(c.now))
	}
	if dated && expires && !exp.After(iat) {
		c.set(to, No, "bad-claim", "exp %s: not after iat %s", show(exp), show(iat))
	}
	if o.MaxAge > 0 {
		switch {
		case !dated:
			c.set(to, No, "no-issue-time", "no iat claim: nothing says how old it is")
		case early.Sub(iat) > o.MaxAge:
			c.set(to, No, "too-old", "iat %s: it is %s, and may be %s later", show(iat), show(c.now), o.MaxAge)
		}
	}
	if o.MaxLifetime > 0 {
		switch {
		case !dated || !expires:
			c.set(to, No, "no-lifetime", "no iat or no exp claim: nothing says how long it counts")
		case exp.Sub(iat) > o.MaxLifetime:
			c.set(to, No, "lifetime-too-long", "from iat %s to exp %s: want %s or less", show(iat), show(exp), o.MaxLifetime)
		}
	}
}

// until returns from when on the receipt would be refused for its age alone, zero if it
// never would.
func (c *jwsCheck) until() time.Time {
	o := &c.a.o
	until := c.v.Expires
	if o.MaxAge > 0 {
		if old := c.v.Issued.Add(o.MaxAge); until.IsZero() || old.Before(until) {
			until = old
		}
	}
	if until.IsZero() {
		return until
	}
	return until.Add(o.skew())
}
