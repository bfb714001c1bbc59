package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/crypto/ssh"

	"github.com/truegreen-dev/truegreen/receipts/dsse"
	"github.com/truegreen-dev/truegreen/verifier"
)

// statementKey returns the key that signs a statement.
func (a *app) statementKey(name string) (ssh.Signer, error) {
	key, err := a.sshKey(name)
	if err != nil {
		return nil, err
	}
	if t := key.PublicKey().Type(); t != ssh.KeyAlgoED25519 {
		return nil, usage("--sign %s: a statement takes an ssh-ed25519 key, this one is %s", name, t)
	}
	return key, nil
}

// writeStatement writes, for a verified report, an in-toto statement in a DSSE
// envelope that key signs. Of another report there is nothing to state: a file
// that is at path then goes, so that it is not taken for this bundle's.
func (a *app) writeStatement(path string, r verifier.Report, key ssh.Signer) error {
	p, ok := r.VerifiedPatch()
	if !ok {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		fmt.Fprintf(a.err, "truegreen: no statement: the bundle is %s\n", r.Verdict())
		return nil
	}
	doc, err := p.Statement()
	if err != nil {
		return err
	}
	return writeEnvelope(path, doc, key)
}

// writeEnvelope writes an in-toto statement, signed, in a DSSE envelope.
func writeEnvelope(path string, statement []byte, key ssh.Signer) error {
	envelope, err := dsse.Sign(verifier.StatementType, statement, sshSigner{key})
	if err != nil {
		return err
	}
	text, err := envelope.Append(nil)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// An sshSigner signs an envelope with an Ed25519 SSH key: the signature is plain
// Ed25519, so that whoever has the public key can check it. The key id is the
// key's SHA-256 fingerprint.
type sshSigner struct{ key ssh.Signer }

func (s sshSigner) KeyID() string { return ssh.FingerprintSHA256(s.key.PublicKey()) }

func (s sshSigner) Sign(pae []byte) ([]byte, error) {
	sig, err := s.key.Sign(rand.Reader, pae)
	if err != nil {
		return nil, err
	}
	return sig.Blob, nil
}
