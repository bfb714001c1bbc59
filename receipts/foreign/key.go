package foreign

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/truegreen-dev/truegreen/receipts/jws"
)

// A Key is an anchor: one that the caller trusts to vouch for receipts.
type Key struct {
	Name      string           // kid, principal or fingerprint; "" where it has none
	Public    crypto.PublicKey // ed25519.PublicKey, *ecdsa.PublicKey or *rsa.PublicKey; nil: Secret
	Secret    []byte           // of a MAC
	Algorithm string           // the only one that it is for; "": any of its family
}

// The limits of a file of keys.
const (
	MaxKeyFile = 64 << 10
	MaxKeys    = 64
)

var (
	errPrivate = errors.New("that is a private key: whoever verifies needs the public one alone")
	errKeys    = errors.New("keys")
)

// ParseKeys reads the public keys of a file. It has one of these forms, and at least one
// key:
//
//   - 64 lower-case hexadecimal digits: a raw Ed25519 key;
//   - PEM blocks PUBLIC KEY, one or more, and nothing between them;
//   - a JSON Web Key, or a set of them (RFC 7517, RFC 8037): see below;
//   - lines of OpenSSH public keys, "TYPE BASE64 [COMMENT]", or of allowed_signers,
//     "PRINCIPALS TYPE BASE64 [COMMENT]"; empty lines and those after # are passed over.
//
// The name of a key is its kid, its principals, or the fingerprint of an SSH key without
// these; keys of the other forms have none. A comment names nothing.
//
// In a set, keys that are of no use here are left out: of another kty, curve, alg or use,
// or without verify in their key_ops. A key is an error that is malformed, that is
// private or secret, whatever it is for, or that has a kid which another has.
//
// What a file says about when and for what its keys count is never passed over: options
// of an SSH line are errors, and so are certificates, whose time and chain nobody checks
// here.
func ParseKeys(data []byte) ([]Key, error) {
	keys, err := parseKeys(data)
	if err == nil && len(keys) > MaxKeys {
		err = fmt.Errorf("more than %d", MaxKeys)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errKeys, err)
	}
	return keys, nil
}

func parseKeys(data []byte) ([]Key, error) {
	if len(data) > MaxKeyFile {
		return nil, fmt.Errorf("%d bytes: the limit is %d", len(data), MaxKeyFile)
	}
	text := bytes.TrimSpace(data)
	switch {
	case len(text) == 0:
		return nil, errors.New("none")
	case text[0] == '{':
		return parseJWKs(text)
	case bytes.HasPrefix(text, []byte("-----BEGIN ")):
		return parsePEM(text)
	case bytes.IndexFunc(text, func(c rune) bool { return c == ' ' || c == '\t' }) >= 0:
		return parseSSH(text)
	}
	raw, err := hex.DecodeString(string(text))
	switch {
	case err != nil || hex.EncodeToString(raw) != string(text):
		return nil, errors.New("not in a form that is known: hexadecimal digits, PEM, JWK or OpenSSH")
	case len(raw) == ed25519.PrivateKeySize:
		return nil, fmt.Errorf("%d bytes: %w", len(raw), errPrivate)
	case len(raw) != ed25519.PublicKeySize:
		return nil, fmt.Errorf("%d bytes in hexadecimal digits: an Ed25519 key has %d", len(raw), ed25519.PublicKeySize)
	}
	return []Key{{Public: ed25519.PublicKey(raw)}}, nil
}

func parsePEM(text []byte) (keys []Key, err error) {
	for len(text) > 0 {
		if !bytes.HasPrefix(text, []byte("-----BEGIN ")) {
			return nil, errors.New("PEM: text outside of a block")
		}
		block, rest := pem.Decode(text)
		switch {
		case block == nil || bytes.Count(text[:len(text)-len(rest)], []byte("-----BEGIN ")) != 1:
			return nil, errors.New("PEM: malformed block") // the decoder goes on behind one
		case block.Type == "CERTIFICATE":
			return nil, errors.New("PEM: a certificate: its time and chain are not checked here, so give the public key in it")
		case bytes.HasSuffix([]byte(block.Type), []byte("PRIVATE KEY")):
			return nil, fmt.Errorf("PEM: %w", errPrivate)
		case block.Type != "PUBLIC KEY" || len(block.Headers) > 0:
			return nil, fmt.Errorf("PEM: block %q: want PUBLIC KEY, without headers", block.Type)
		}
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("PEM: %w", err)
		}
		if err := checkPublic(public); err != nil {
			return nil, fmt.Errorf("PEM: %w", err)
		}
		if keys = append(keys, Key{Public: public}); len(keys) > MaxKeys {
			break
		}
		text = bytes.TrimSpace(rest)
	}
	return keys, nil
}

// checkPublic reports why nothing can be verified with a public key.
func checkPublic(public crypto.PublicKey) error {
	for _, a := range []jws.Algorithm{jws.EdDSA, jws.ES256, jws.ES384, jws.ES512, jws.RS256} {
		if _, err := jws.NewVerifier(public, a); !errors.Is(err, jws.ErrOtherKey) {
			return err
		}
	}
	return errors.New("a key on a curve that is not known here")
}

// SecretKey returns the key of a MAC. The secret is these bytes, not what they may be an
// encoding of; nil is an error, as is the text of a public key, which everybody knows.
func SecretKey(name string, secret []byte) (Key, error) {
	if _, err := jws.NewVerifier(jws.Secret(secret), jws.HS256); err != nil {
		return Key{}, fmt.Errorf("secret: %w", err)
	}
	return Key{Name: name, Secret: bytes.Clone(secret)}, nil
}

// issuer is the name under which a key vouches where its receipt names nobody: its own,
// or that of what it is.
func (k *Key) issuer() string {
	if k.Name != "" {
		return k.Name
	}
	if k.Public == nil {
		return "secret"
	}
	der, err := x509.MarshalPKIXPublicKey(k.Public)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("SHA256:%x", sha256.Sum256(der))
}
