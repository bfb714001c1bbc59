package jws

import (
	"errors"
	"fmt"
	"time"
)

// ErrNoKey means that nothing is known about a signature: the set lacks the key that
// the token names, or has it as one that was retired before the token was made. A
// newer set may know more.
var ErrNoKey = errors.New("jws: no current key")

// Verify returns the claims of t, and the key that signed it, if its algorithm is one
// of those allowed and the signature is that of the key of s which t names.
func (s KeySet) Verify(t Token, allowed ...Algorithm) (Claims, Key, error) {
	chosen, err := choose(t.algorithm, allowed)
	if err != nil {
		return Claims{}, Key{}, err
	}
	key, ok := s.find(t.keyID)
	if !ok {
		return Claims{}, Key{}, fmt.Errorf("%w: kid %q is not one of the %d known", ErrNoKey, t.keyID, len(s.keys))
	}
	if key.Algorithm != "" && key.Algorithm != t.algorithm {
		return Claims{}, Key{}, fmt.Errorf("jws: alg %q: key %q is for %q", t.algorithm, key.ID, key.Algorithm)
	}
	if err := chosen.verify(key.public, t.signed(nil), t.signature); err != nil {
		return Claims{}, Key{}, err
	}
	if !key.NotAfter.IsZero() {
		iat, err := t.claims.Integer("iat")
		if err != nil {
			return Claims{}, Key{}, fmt.Errorf("jws: by a retired key: %w", err)
		}
		if made := time.Unix(iat, 0); made.After(key.NotAfter) {
			return Claims{}, Key{}, fmt.Errorf("%w: key %q was retired at %s, and the token is of %s",
				ErrNoKey, key.ID, key.NotAfter.Format(notAfterForm), made.UTC().Format(notAfterForm))
		}
	}
	return t.claims, key, nil
}
