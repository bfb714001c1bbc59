package bundle

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

func TestNote(t *testing.T) {
	t.Parallel()
	text := "truegreen.dev/run/a/b\n3\nAAAA\nformat 1\n"
	for name, signer := range testSigners(t) {
		armored, err := SignSSH(rand.Reader, signer, SealNamespace, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		sig, err := ParseSSH(armored)
		if err != nil {
			t.Fatal(err)
		}
		line := NoteSignature("example.com/"+name, sig)
		v := NewNoteVerifier("example.com/"+name, signer.PublicKey())
		n, err := note.Open([]byte(text+"\n"+line), note.VerifierList(v))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n.Text != text || len(n.Sigs) != 1 || n.Sigs[0].Name != "example.com/"+name {
			t.Errorf("%s: opened as %+v", name, n)
		}
		if _, err := note.Open([]byte("x"+text+"\n"+line), note.VerifierList(v)); err == nil {
			t.Errorf("%s: opens with another text", name)
		}
		for other, signer := range testSigners(t) {
			v := NewNoteVerifier("example.com/"+name, signer.PublicKey())
			if other != name && v.Verify([]byte(text), sig.raw) {
				t.Errorf("%s: verifies as a signature by %s", name, other)
			}
		}
		armored, err = SignSSH(rand.Reader, signer, testNamespace, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if sig, err = ParseSSH(armored); err != nil {
			t.Fatal(err)
		}
		if v.Verify([]byte(text), sig.raw) {
			t.Errorf("%s: verifies in another namespace", name)
		}
	}
}

// TestNoteLine pins the bytes of a signature line.
func TestNoteLine(t *testing.T) {
	t.Parallel()
	key, err := parseKeyText("ssh-ed25519 "+goldenKey, parseKey)
	if err != nil {
		t.Fatal(err)
	}
	if got := noteKeyHash("example.com/alice", key); got != goldenKeyHash {
		t.Errorf("key ID %08x, want %08x", got, goldenKeyHash)
	}
	line := NoteSignature("example.com/alice", &SSHSignature{key: key, raw: []byte("SSHSIG")})
	name, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " example.com/alice ")
	b, err := base64.StdEncoding.DecodeString(text)
	if !ok || name != "—" || err != nil || string(b) != goldenKeyHashBytes+"SSHSIG" {
		t.Errorf("line %q", line)
	}
}

// Computed by another program from the description of noteType.
const (
	goldenKey          = "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	goldenKeyHash      = 0xb5619a67
	goldenKeyHashBytes = "\xb5\x61\x9a\x67"
)
