package jws

import (
	"bytes"
	"crypto"
)

// CheckSignature verifies a token as far as parts, header and signature go: the payloads
// of public vectors are no JSON objects, and one is empty.
func CheckSignature(v *Verifier, text []byte) error {
	parts := bytes.Split(text, []byte("."))
	if len(parts) != 3 {
		return ErrParts
	}
	var t Token
	for i, to := range []*[]byte{&t.header, &t.payload, &t.signature} {
		var err error
		if *to, err = decode(string(parts[i])); err != nil && (i != 1 || len(parts[i]) != 0) {
			return err
		}
	}
	h, err := object(t.header)
	if err != nil {
		return err
	}
	p := Profile{Unnamed: true}
	if err := p.readHeader(&t, h); err != nil {
		return err
	}
	return v.check(t)
}

// CheckBytes reports whether a signature is that of a key over any bytes.
func CheckBytes(key crypto.PublicKey, name Algorithm, signed, signature []byte) bool {
	a, _ := lookup(name)
	return a.verify(key, signed, signature) == nil
}
