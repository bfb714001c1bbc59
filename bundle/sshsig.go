package bundle

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"

	"golang.org/x/crypto/ssh"
)

// An SSHSignature is a signature in the SSHSIG format, version 1, which
// ssh-keygen -Y sign makes. Its text form has one spelling: the two lines
// around the base64, lines of 70 columns, LF, and nothing before or after.
//
// Accepted are Ed25519, ECDSA and RSA keys of 2048 bits or more, the first two
// also in hardware (sk), with the user's touch; SHA-512 or SHA-256 of the
// message; RSA with SHA-2 only; no certificates. The field reserved is empty.
//
// An ECDSA signature (r, s) has a twin (r, n-s) that anybody can compute, as in
// every use of ECDSA: a signature says who signed, and identifies nothing.
type SSHSignature struct {
	key       ssh.PublicKey
	namespace string
	hash      string
	sig       ssh.Signature
	raw       []byte // the SSHSIG blob
}

// SealNamespace is the namespace in which seals are signed.
const SealNamespace = "seal@truegreen.dev"

const (
	sshsigMagic = "SSHSIG"
	armorBegin  = "-----BEGIN SSH SIGNATURE-----\n"
	armorEnd    = "-----END SSH SIGNATURE-----\n"
	armorWidth  = 70
)

// sshsigBlob is what follows the magic in a signature.
type sshsigBlob struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  []byte
	Hash      string
	Signature []byte
}

// signedData returns the bytes that are signed for a message.
func signedData(namespace, hash string, msg []byte) ([]byte, error) {
	var sum []byte
	switch hash {
	case "sha512":
		h := sha512.Sum512(msg)
		sum = h[:]
	case "sha256":
		h := sha256.Sum256(msg)
		sum = h[:]
	default:
		return nil, fmt.Errorf("hash %q, want sha512 or sha256", hash)
	}
	return append([]byte(sshsigMagic), ssh.Marshal(struct {
		Namespace string
		Reserved  []byte
		Hash      string
		Sum       []byte
	}{namespace, nil, hash, sum})...), nil
}

// SignSSH signs msg in a namespace and returns the text form of the signature.
// It returns nothing that [ParseSSH] and Verify would not accept.
func SignSSH(rand io.Reader, signer ssh.Signer, namespace string, msg []byte) ([]byte, error) {
	data, err := signedData(namespace, "sha512", msg)
	if err != nil {
		return nil, fmt.Errorf("ssh signature: %w", err)
	}
	var sig *ssh.Signature
	if signer.PublicKey().Type() != ssh.KeyAlgoRSA {
		sig, err = signer.Sign(rand, data)
	} else if s, ok := signer.(ssh.AlgorithmSigner); ok {
		sig, err = s.SignWithAlgorithm(rand, data, ssh.KeyAlgoRSASHA512)
	} else {
		err = errors.New("the signer of this RSA key knows SHA-1 only")
	}
	if err != nil {
		return nil, fmt.Errorf("ssh signature: %w", err)
	}
	armored := armor(append([]byte(sshsigMagic), ssh.Marshal(sshsigBlob{
		Version:   1,
		PublicKey: signer.PublicKey().Marshal(),
		Namespace: namespace,
		Hash:      "sha512",
		Signature: ssh.Marshal(sig),
	})...))
	s, err := ParseSSH(armored)
	if err != nil {
		return nil, err
	}
	if err := s.Verify(namespace, msg); err != nil {
		return nil, err
	}
	return armored, nil
}

// ParseSSH reads the text form of a signature.
func ParseSSH(armored []byte) (*SSHSignature, error) {
	raw, err := unarmor(armored)
	if err != nil {
		return nil, fmt.Errorf("ssh signature: %w", err)
	}
	s, err := parseSSHBlob(raw)
	if err != nil {
		return nil, fmt.Errorf("ssh signature: %w", err)
	}
	return s, nil
}

func armor(raw []byte) []byte {
	text := base64.StdEncoding.EncodeToString(raw)
	var b bytes.Buffer
	b.WriteString(armorBegin)
	for len(text) > 0 {
		n := min(armorWidth, len(text))
		b.WriteString(text[:n])
		b.WriteByte('\n')
		text = text[n:]
	}
	b.WriteString(armorEnd)
	return b.Bytes()
}

func unarmor(armored []byte) ([]byte, error) {
	if len(armored) > maxSig {
		return nil, fmt.Errorf("%d bytes, limit %d", len(armored), maxSig)
	}
	text, begins := strings.CutPrefix(string(armored), armorBegin)
	text, ends := strings.CutSuffix(text, armorEnd)
	if !begins || !ends {
		return nil, errors.New("want the lines BEGIN and END SSH SIGNATURE, with nothing around them")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, err
	}
	// Decoding skips line ends wherever they are.
	if !bytes.Equal(armor(raw), armored) {
		return nil, errors.New("want lines of 70 columns that end in LF")
	}
	return raw, nil
}

func parseSSHBlob(raw []byte) (*SSHSignature, error) {
	body, ok := bytes.CutPrefix(raw, []byte(sshsigMagic))
	if !ok {
		return nil, errors.New("blob does not start with SSHSIG")
	}
	var b sshsigBlob
	if err := ssh.Unmarshal(body, &b); err != nil {
		return nil, err
	}
	s := &SSHSignature{namespace: b.Namespace, hash: b.Hash, raw: bytes.Clone(raw)}
	switch {
	case b.Version != 1:
		return nil, fmt.Errorf("version %d, want 1", b.Version)
	case b.Namespace == "":
		return nil, errors.New("empty namespace")
	case len(b.Reserved) > 0:
		return nil, errors.New("field reserved is not empty")
	case b.Hash != "sha512" && b.Hash != "sha256":
		return nil, fmt.Errorf("hash %q, want sha512 or sha256", b.Hash)
	}
	var err error
	if s.key, err = parseKey(b.PublicKey); err != nil {
		return nil, err
	}
	if err := ssh.Unmarshal(b.Signature, &s.sig); err != nil {
		return nil, err
	}
	if err := checkSignature(s.key, &s.sig); err != nil {
		return nil, err
	}
	b.Signature = ssh.Marshal(s.sig)
	if !bytes.Equal(ssh.Marshal(b), body) {
		return nil, errors.New("encoding is not the canonical one")
	}
	return s, nil
}

// checkSignature checks that sig has the one form that a signature by key has.
func checkSignature(key ssh.PublicKey, sig *ssh.Signature) error {
	want := key.Type()
	switch want {
	case ssh.KeyAlgoRSA:
		if sig.Format != ssh.KeyAlgoRSASHA512 && sig.Format != ssh.KeyAlgoRSASHA256 {
			return fmt.Errorf("signature by an RSA key is %q, want rsa-sha2-512 or rsa-sha2-256", sig.Format)
		}
	default:
		if sig.Format != want {
			return fmt.Errorf("signature is %q, by a key that is %q", sig.Format, want)
		}
	}
	switch want {
	case ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		if len(sig.Rest) != 5 { // flags, counter
			return errors.New("signature by a hardware key has the wrong length")
		}
		if sig.Rest[0]&1 == 0 {
			return errors.New("signature by a hardware key that nobody touched")
		}
	default:
		if len(sig.Rest) != 0 {
			return errors.New("bytes after the signature")
		}
	}
	switch want {
	case ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256:
		var rs struct{ R, S *big.Int }
		if err := ssh.Unmarshal(sig.Blob, &rs); err != nil {
			return err
		}
		if rs.R.Sign() <= 0 || rs.S.Sign() <= 0 || !bytes.Equal(ssh.Marshal(rs), sig.Blob) {
			return errors.New("ECDSA signature is not encoded canonically")
		}
	}
	return nil
}

// Key returns the key that the signature claims to be by. It is no reason to
// trust the signature.
func (s *SSHSignature) Key() ssh.PublicKey { return s.key }

// Verify checks that Key signed msg in namespace.
func (s *SSHSignature) Verify(namespace string, msg []byte) error {
	if s.namespace != namespace {
		return fmt.Errorf("ssh signature: made for namespace %q, want %q", s.namespace, namespace)
	}
	data, err := signedData(s.namespace, s.hash, msg)
	if err != nil {
		return fmt.Errorf("ssh signature: %w", err)
	}
	if err := s.key.Verify(data, &s.sig); err != nil {
		return fmt.Errorf("ssh signature: %w", err)
	}
	return nil
}
