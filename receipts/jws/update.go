package jws

import (
	"fmt"
	"time"
)

// An Update says what [KeySet.Update] did, by kid.
type Update struct {
	Added    []string
	Retired  []string // they are not published any more
	Returned []string // they are published again, and stay retired
}

// Update returns s with what an issuer publishes now. New keys are added. Keys of the
// issuer that it does not publish any more are retired as of now, and never removed:
// what they signed stays verifiable. A key that was retired stays so even if it is
// published, because people retire keys too. A kid that now names another key is an
// error.
func (s KeySet) Update(issuer string, published KeySet, now time.Time) (KeySet, Update, error) {
	var u Update
	next := KeySet{s.Keys()}
	for i := range next.keys {
		k := &next.keys[i]
		if k.Issuer != issuer {
			continue
		}
		_, there := published.find(k.ID)
		switch {
		case !there && k.NotAfter.IsZero():
			k.NotAfter = now.UTC().Truncate(time.Second)
			u.Retired = append(u.Retired, k.ID)
		case there && !k.NotAfter.IsZero():
			u.Returned = append(u.Returned, k.ID)
		}
	}
	for _, k := range published.keys {
		old, known := s.find(k.ID)
		if !known {
			k.Issuer, k.NotAfter = issuer, time.Time{}
			next.keys = append(next.keys, k)
			u.Added = append(u.Added, k.ID)
			continue
		}
		if old.Issuer != issuer || !old.public.Equal(k.public) {
			return KeySet{}, Update{}, fmt.Errorf("jws: kid %q: it names another key in the set that is to be updated", k.ID)
		}
	}
	if len(next.keys) > MaxKeys {
		return KeySet{}, Update{}, fmt.Errorf("jws: %d keys: the limit is %d; remove retired ones", len(next.keys), MaxKeys)
	}
	next.sort()
	text, err := next.Append(nil)
	if err == nil && len(text) > MaxKeySet {
		err = fmt.Errorf("jws: %d bytes: the limit is %d; remove retired keys", len(text), MaxKeySet)
	}
	if err != nil {
		return KeySet{}, Update{}, err
	}
	return next, u, nil
}
