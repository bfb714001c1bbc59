package foreign

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// parseSSH reads lines of public keys, with or without principals before them.
func parseSSH(text []byte) (keys []Key, err error) {
	n := 0
	for raw := range bytes.Lines(text) {
		n++
		line := strings.Trim(string(raw), " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := parseSSHLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if keys = append(keys, key); len(keys) > MaxKeys {
			break
		}
	}
	if keys == nil {
		return nil, errors.New("none")
	}
	return keys, nil
}

func parseSSHLine(line string) (Key, error) {
	fields := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' })
	name := ""
	if !isSSHType(fields[0]) {
		if len(fields) < 2 || !isSSHType(fields[1]) || strings.ContainsAny(fields[0], `"*?!=`) {
			return Key{}, errors.New("want TYPE BASE64, or PRINCIPALS TYPE BASE64 with plain names and without options")
		}
		name, fields = fields[0], fields[1:]
	}
	if len(fields) < 2 {
		return Key{}, errors.New("no public key")
	}
	wire, err := base64.StdEncoding.Strict().DecodeString(fields[1])
	if err != nil {
		return Key{}, fmt.Errorf("public key: %w", err)
	}
	public, err := ssh.ParsePublicKey(wire)
	switch {
	case err != nil:
		return Key{}, err
	case public.Type() != fields[0]:
		return Key{}, fmt.Errorf("key is called %.64q but is %.64q", fields[0], public.Type())
	case !bytes.Equal(public.Marshal(), wire):
		return Key{}, errors.New("public key is not encoded canonically")
	}
	switch public.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA:
	default: // one of hardware signs more than the bytes it is given
		return Key{}, fmt.Errorf("key type %q: want ed25519, ecdsa or rsa", public.Type())
	}
	crypto, ok := public.(ssh.CryptoPublicKey)
	if !ok {
		return Key{}, fmt.Errorf("a key of type %T", public)
	}
	if err := checkPublic(crypto.CryptoPublicKey()); err != nil {
		return Key{}, err
	}
	if name == "" {
		name = ssh.FingerprintSHA256(public)
	}
	return Key{Name: name, Public: crypto.CryptoPublicKey()}, nil
}

// isSSHType tells the name of a key type from principals.
func isSSHType(word string) bool {
	return strings.HasPrefix(word, "ssh-") || strings.HasPrefix(word, "ecdsa-sha2-") || strings.HasPrefix(word, "sk-")
}
