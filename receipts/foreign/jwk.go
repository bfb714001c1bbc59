package foreign

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
	"github.com/truegreen-dev/truegreen/receipts/jws"
)

// parseJWKs reads a JSON Web Key or a set of them.
func parseJWKs(text []byte) ([]Key, error) {
	if err := strictjson.Check(text, strictjson.Limits{Size: MaxKeyFile, Depth: 8}); err != nil {
		return nil, fmt.Errorf("JWK: %w", err)
	}
	var members map[string]json.RawMessage // the names are compared byte for byte
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, fmt.Errorf("JWK: %w", err)
	}
	list := []json.RawMessage{text}
	if set, ok := members["keys"]; ok {
		list = nil
		if json.Unmarshal(set, &list) != nil || list == nil {
			return nil, errors.New("JWK set: keys is not a list")
		}
		if len(list) > MaxKeys {
			return nil, fmt.Errorf("JWK set: more than %d", MaxKeys)
		}
	}
	var keys []Key
	var left error // why the first of those was left out that were
	named := map[string]bool{}
	for i, raw := range list {
		key, why, err := parseJWK(raw)
		if err != nil {
			return nil, fmt.Errorf("JWK %d: %w", i, err)
		}
		if why != nil {
			if left == nil {
				left = fmt.Errorf("JWK %d: %w", i, why)
			}
			continue
		}
		if key.Name != "" && named[key.Name] {
			return nil, fmt.Errorf("JWK %d: kid %q: there twice", i, key.Name)
		}
		named[key.Name] = true
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		if left == nil {
			left = errors.New("JWK set: none")
		}
		return nil, left
	}
	return keys, nil
}

// privateMembers are those of a key that is not public.
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "priv"}

// numberMembers are those of a public key that are numbers or points.
var numberMembers = []string{"n", "e", "x", "y"}

// checkNumber holds a number to its one encoding, which the library reads loosely.
func checkNumber(value json.RawMessage) error {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return errors.New("not a string")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || base64.RawURLEncoding.EncodeToString(b) != s {
		return errors.New("not base64url, without padding, in its only form")
	}
	return nil
}

// parseJWK reads a key, or says why it is one that is left out.
func parseJWK(raw json.RawMessage) (k Key, left, err error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return Key{}, nil, errors.New("not an object")
	}
	for name, value := range members {
		switch {
		case name == "k":
			return Key{}, nil, errors.New("that is a secret: among public keys it has no place")
		case slices.Contains(privateMembers, name):
			return Key{}, nil, errPrivate
		case string(value) == "null":
			return Key{}, nil, fmt.Errorf("%.64s: null", name)
		case slices.Contains(numberMembers, name):
			if err := checkNumber(value); err != nil {
				return Key{}, nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(raw); errors.Is(err, jose.ErrUnsupportedKeyType) {
		return Key{}, errors.New("a key of another kty or crv than are known here"), nil
	} else if err != nil {
		return Key{}, nil, err
	}
	if value, ok := members["key_ops"]; ok {
		var operations []string
		if json.Unmarshal(value, &operations) != nil {
			return Key{}, nil, errors.New("key_ops: not a list of strings")
		}
		if !slices.Contains(operations, "verify") {
			return Key{}, errors.New("key_ops: not to verify with"), nil
		}
	}
	if key.Use != "" && key.Use != "sig" {
		return Key{}, fmt.Errorf("use %.64q: not for signatures", key.Use), nil
	}
	switch key.Key.(type) {
	case ed25519.PublicKey, *ecdsa.PublicKey, *rsa.PublicKey:
	default:
		return Key{}, fmt.Errorf("a key of type %T", key.Key), nil
	}
	k = Key{Name: key.KeyID, Public: key.Key, Algorithm: key.Algorithm}
	if k.Algorithm == "" {
		if err := checkPublic(k.Public); err != nil {
			return Key{}, nil, err
		}
		return k, nil, nil
	}
	if !jws.Algorithm(k.Algorithm).Known() {
		return Key{}, fmt.Errorf("alg %.64q: not known here", k.Algorithm), nil
	}
	if _, err := jws.NewVerifier(k.Public, jws.Algorithm(k.Algorithm)); err != nil {
		return Key{}, nil, err
	}
	return k, nil, nil
}
