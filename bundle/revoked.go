package bundle

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Revoked are keys that count for nothing any more, whatever trusts them. Its
// file holds a public key or a fingerprint (SHA256:…) per line; empty lines
// and comments are passed over. A nil Revoked revokes nothing.
type Revoked struct {
	fingerprints map[string]bool
}

// ParseRevoked reads a file of revoked keys.
func ParseRevoked(file []byte) (*Revoked, error) {
	if bytes.HasPrefix(file, []byte("SSHKRL\n\x00")) {
		return nil, errors.New("revoked keys: this is a binary KRL; list the public keys or their fingerprints, one per line")
	}
	r := &Revoked{fingerprints: make(map[string]bool)}
	err := eachLine("revoked keys", file, func(_ int, line string) error {
		if text, ok := strings.CutPrefix(line, "SHA256:"); ok {
			text, _ = cutSpace(text)
			sum, err := base64.RawStdEncoding.Strict().DecodeString(text)
			if err != nil || len(sum) != 32 {
				return errors.New("fingerprint is not SHA256: and 43 characters of base64")
			}
			r.fingerprints["SHA256:"+text] = true
			return nil
		}
		key, err := parseKeyText(line, ssh.ParsePublicKey) // of any kind, also one that could not sign
		if err != nil {
			return err
		}
		r.fingerprints[ssh.FingerprintSHA256(key)] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Contains reports whether key is revoked.
func (r *Revoked) Contains(key ssh.PublicKey) bool {
	return r != nil && r.fingerprints[ssh.FingerprintSHA256(key)]
}
