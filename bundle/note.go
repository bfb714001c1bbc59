package bundle

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/mod/sumdb/note"
)

// An SSH signature of a seal is also a signature line of a C2SP signed note
// whose text is the seal:
//
//	— <name> <base64(key ID ‖ SSHSIG blob)>
//
// The line starts with U+2014 and a space and ends with LF. The blob is what
// the text form of the signature encodes, from "SSHSIG" on. The key ID is the
// first four bytes, big-endian, of
//
//	SHA-256(name ‖ 0x0a ‖ 0xff ‖ "truegreen.dev/sshsig" ‖ key)
//
// where key is the public key in SSH wire form, as in the second field of a
// .pub file; 0xff is the signature type of formats that have no number. The
// wire form starts with a zero byte, so that no type name runs into it.
const noteType = "\xfftruegreen.dev/sshsig"

func noteKeyHash(name string, key ssh.PublicKey) uint32 {
	h := sha256.New()
	h.Write([]byte(name + "\n" + noteType))
	h.Write(key.Marshal())
	return binary.BigEndian.Uint32(h.Sum(nil))
}

// NewNoteVerifier returns a verifier for the lines that [NoteSignature] makes,
// with which [note.Open] opens a note of a seal and its lines.
func NewNoteVerifier(name string, key ssh.PublicKey) note.Verifier {
	return &noteVerifier{name: name, hash: noteKeyHash(name, key), key: string(key.Marshal())}
}

type noteVerifier struct {
	name string
	hash uint32
	key  string
}

var _ note.Verifier = (*noteVerifier)(nil)

func (v *noteVerifier) Name() string    { return v.name }
func (v *noteVerifier) KeyHash() uint32 { return v.hash }

func (v *noteVerifier) Verify(msg, sig []byte) bool {
	s, err := parseSSHBlob(sig)
	return err == nil && string(s.key.Marshal()) == v.key && s.Verify(SealNamespace, msg) == nil
}

// NoteSignature returns the signature line, LF included, of a signature in the
// namespace of seals. The name is that of the signer, without spaces or plus.
func NoteSignature(name string, sig *SSHSignature) string {
	b := binary.BigEndian.AppendUint32(nil, noteKeyHash(name, sig.key))
	return fmt.Sprintf("— %s %s\n", name, base64.StdEncoding.EncodeToString(append(b, sig.raw...)))
}

// ParseNoteSignature returns the SSH signature of the given name in a signed
// note. It is not verified: [note.Open] does that, with its key.
func ParseNoteSignature(name string, text []byte) (*SSHSignature, error) {
	_, lines, ok := strings.Cut(string(text), "\n\n— ")
	if !ok {
		return nil, errors.New("note: no signature")
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(lines, "\n"), "\n— ") {
		signer, encoded, _ := strings.Cut(line, " ")
		if signer != name {
			continue
		}
		b, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || len(b) < 4 {
			return nil, fmt.Errorf("note: signature of %s: malformed", name)
		}
		sig, err := parseSSHBlob(b[4:])
		if err != nil {
			return nil, fmt.Errorf("note: signature of %s: %w", name, err)
		}
		if binary.BigEndian.Uint32(b) != noteKeyHash(name, sig.key) {
			return nil, fmt.Errorf("note: signature of %s: key id of another key", name)
		}
		return sig, nil
	}
	return nil, fmt.Errorf("note: no signature of %s", name)
}
