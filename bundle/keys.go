package bundle

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

const minRSABits = 2048

// parseKey reads a public key in SSH wire form, of a kind that may sign.
func parseKey(wire []byte) (ssh.PublicKey, error) {
	key, err := ssh.ParsePublicKey(wire)
	if err != nil {
		return nil, err
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if !bytes.Equal(key.Marshal(), wire) {
		return nil, errors.New("public key is not encoded canonically")
	}
	return key, nil
}

func checkKey(key ssh.PublicKey) error {
	switch t := key.Type(); t {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		return nil
	case ssh.KeyAlgoRSA:
		c, ok := key.(ssh.CryptoPublicKey)
		if !ok {
			return errors.New("RSA key of unknown size")
		}
		r, ok := c.CryptoPublicKey().(*rsa.PublicKey)
		if !ok {
			return errors.New("RSA key of unknown size")
		}
		if n := r.N.BitLen(); n < minRSABits {
			return fmt.Errorf("RSA key of %d bits, want %d or more", n, minRSABits)
		}
		return nil
	default:
		if _, ok := key.(*ssh.Certificate); ok {
			return fmt.Errorf("key is a certificate (%s): certificates are not supported", t)
		}
		return fmt.Errorf("key type %q is not supported", t)
	}
}

// parseKeyText reads "type base64 [comment]"; parse reads the wire form.
func parseKeyText(s string, parse func([]byte) (ssh.PublicKey, error)) (ssh.PublicKey, error) {
	kind, rest := cutSpace(s)
	text, _ := cutSpace(rest)
	if text == "" {
		return nil, errors.New("no public key")
	}
	wire, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	key, err := parse(wire)
	if err != nil {
		return nil, err
	}
	if key.Type() != kind {
		return nil, fmt.Errorf("key is called %q but is %q", kind, key.Type())
	}
	return key, nil
}

// cutSpace splits s at its first run of blanks.
func cutSpace(s string) (word, rest string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}

const maxPrivateKey = 64 << 10

// LoadSigner reads a private key file. If the key is encrypted it calls
// passphrase once, and overwrites what that returned.
func LoadSigner(pem []byte, passphrase func() ([]byte, error)) (ssh.Signer, error) {
	if len(pem) > maxPrivateKey {
		return nil, fmt.Errorf("private key: %d bytes, limit %d", len(pem), maxPrivateKey)
	}
	signer, err := ssh.ParsePrivateKey(pem)
	var missing *ssh.PassphraseMissingError
	if errors.As(err, &missing) {
		signer, err = decryptKey(pem, passphrase)
	}
	if err != nil {
		if bytes.Contains(pem, []byte("PUBLIC KEY")) || bytes.HasPrefix(pem, []byte("ssh-")) {
			return nil, errors.New("private key: this is a public key")
		}
		return nil, fmt.Errorf("private key: %w", err)
	}
	if err := checkKey(signer.PublicKey()); err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	return signer, nil
}

func decryptKey(pem []byte, passphrase func() ([]byte, error)) (ssh.Signer, error) {
	if passphrase == nil {
		return nil, errors.New("encrypted, and there is nobody to ask for the passphrase")
	}
	p, err := passphrase()
	if err != nil {
		return nil, err
	}
	defer clear(p)
	signer, err := ssh.ParsePrivateKeyWithPassphrase(pem, p)
	if errors.Is(err, x509.IncorrectPasswordError) {
		return nil, errors.New("wrong passphrase")
	}
	return signer, err
}
