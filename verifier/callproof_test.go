package verifier_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/verifier"
)

func prove(t testing.TB, file []byte, call uint64, note []byte) []byte {
	t.Helper()
	text, err := verifier.ProveCall(bytes.NewReader(file), int64(len(file)), call, note, bundle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func sealOf(t testing.TB, file []byte) []byte {
	t.Helper()
	a, err := fixture.Unpack(file)
	if err != nil {
		t.Fatal(err)
	}
	return a.Content(fixture.SealMember)
}

// TestCallProof proves every call of a run and checks each proof with what the
// bundle says.
func TestCallProof(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	file := bundleOf(t, &r)
	report := verify(t, file, r.Options())
	text := sealOf(t, file)
	for _, s := range report.Steps() {
		c, err := verifier.CheckCall(prove(t, file, s.Start.Call, text))
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := c.Receipt.Call.Uint64(); n != s.Start.Call || c.Receipt.ChainHash() != s.Proof.ChainHash() || c.Frame.Seq != s.Proof.EventSeq {
			t.Errorf("call %d: %+v", s.Start.Call, c.Receipt)
		}
		if c.Args.Tool != s.Tool || c.Result.State != s.Result.State || c.Result.Start != s.Result.Start || !bytes.Equal(c.Text, text) {
			t.Errorf("call %d: %s %s", s.Start.Call, c.Args.Tool, c.Result.State)
		}
		if want, _ := report.Seal(); c.Seal != want {
			t.Errorf("call %d: seal %+v", s.Start.Call, c.Seal)
		}
	}
	for _, call := range []uint64{0, 7, 1 << 60} {
		if _, err := verifier.ProveCall(bytes.NewReader(file), int64(len(file)), call, text, bundle.Limits{}); err == nil {
			t.Errorf("call %d is proved", call)
		}
	}
	if _, err := verifier.ProveCall(bytes.NewReader(file[:100]), 100, 1, text, bundle.Limits{}); err == nil {
		t.Error("a call of half a bundle is proved")
	}
}

// TestCallProofElsewhere checks a proof with other people's code: the text with
// the standard library, the inclusion with tlog, the note with note.
func TestCallProofElsewhere(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	r.Statement.Sign = func(text []byte) ([]byte, error) { return fixture.Sign("alice", text) }
	file := bundleOf(t, &r)
	text := sealOf(t, file)
	sig, err := bundle.ParseSSH(sign(t, "alice", text))
	if err != nil {
		t.Fatal(err)
	}
	const name = "truegreen.dev/seal"
	signed := append(append(bytes.Clone(text), '\n'), bundle.NoteSignature(name, sig)...)
	proof := prove(t, file, 5, signed)

	lines := strings.Split(string(proof), "\n")
	if lines[0] != "c2sp.org/tlog-proof@v1" {
		t.Fatalf("header %q", lines[0])
	}
	extra, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
	if err != nil {
		t.Fatal(err)
	}
	_, encoded, _ := strings.Cut(string(extra), `"frame":{"b64":"`)
	encoded, _, _ = strings.Cut(encoded, `"`)
	frame, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	var index int64
	if _, err := fmt.Sscanf(lines[2], "index %d", &index); err != nil {
		t.Fatal(err)
	}
	var path tlog.RecordProof
	at := 3
	for ; lines[at] != ""; at++ {
		h, err := tlog.ParseHash(lines[at])
		if err != nil {
			t.Fatal(err)
		}
		path = append(path, h)
	}
	opened, err := note.Open([]byte(strings.Join(lines[at+1:], "\n")), note.VerifierList(bundle.NewNoteVerifier(name, fixture.Signer("alice").PublicKey())))
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	checkpoint := strings.Split(opened.Text, "\n")
	if _, err := fmt.Sscan(checkpoint[1], &size); err != nil {
		t.Fatal(err)
	}
	root, err := tlog.ParseHash(checkpoint[2])
	if err != nil {
		t.Fatal(err)
	}
	if err := tlog.CheckRecord(path, size, root, index, tlog.RecordHash(frame)); err != nil {
		t.Error(err)
	}
	if c, err := verifier.CheckCall(proof); err != nil || !bytes.Equal(c.Note, signed) || !bytes.Equal(c.Text, text) {
		t.Errorf("%v", err)
	}
}

// TestCallProofFlips flips the bits of a proof. It is refused, or it is the proof
// of a call with the same frame and documents under another seal, which nobody has
// signed.
func TestCallProofFlips(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	file := bundleOf(t, &r)
	proof := prove(t, file, 5, sealOf(t, file))
	good, err := verifier.CheckCall(proof)
	if err != nil {
		t.Fatal(err)
	}
	from := bytes.Index(proof, []byte("\n\n")) + 2 // the seal
	each(some(8*len(proof), 3000), func(bit int) {
		b := bytes.Clone(proof)
		b[bit/8] ^= 1 << (bit % 8)
		c, err := verifier.CheckCall(b)
		switch {
		case err != nil:
			if c.Text != nil || c.Receipt.Call != (receipts.ID{}) {
				t.Errorf("bit %d: %+v beside %v", bit, c, err)
			}
		case bit/8 < from:
			t.Errorf("bit %d of the proof itself means nothing", bit)
		case bytes.Equal(c.Text, good.Text) || c.Receipt.ChainHash() != good.Receipt.ChainHash() || bundle.SealDigest(c.Text) == bundle.SealDigest(good.Text):
			t.Errorf("bit %d: the same seal", bit)
		}
	})
}

// TestCallProofPieces puts the parts of two proofs together.
func TestCallProofPieces(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	file := bundleOf(t, &r)
	text := sealOf(t, file)
	other := fixture.New()
	other.Job[0] ^= 1
	otherText := sealOf(t, bundleOf(t, &other))
	p4, p5 := split(t, prove(t, file, 4, text)), split(t, prove(t, file, 5, text))
	refused := func(name string, p parts) {
		t.Helper()
		if _, err := verifier.CheckCall(p.join()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := verifier.CheckCall(p5.join()); err != nil {
		t.Fatal(err)
	}
	p := p5
	p.frame = p4.frame
	refused("frame of another call", p)
	p = p5
	p.args = p4.args
	refused("args of another call", p)
	p = p5
	p.result = p4.result
	refused("result of another call", p)
	p = p5
	p.index = p4.index
	refused("place of another call", p)
	p = p5
	p.seal = string(otherText)
	refused("seal of another run", p)
	p = p5
	p.version = `{"v":2`
	refused("newer version", p)
	p = p5
	p.result = ""
	refused("no result", p)
}

// parts are those of a call proof.
type parts struct {
	version, frame, args, result string // of the extra data, each with what separates it
	index                        string // with the hashes
	seal                         string
}

func split(t testing.TB, proof []byte) parts {
	t.Helper()
	head, seal, _ := strings.Cut(string(proof), "\n\n")
	lines := strings.SplitN(head, "\n", 3)
	extra, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
	if err != nil {
		t.Fatal(err)
	}
	var p parts
	p.seal, p.index = seal, lines[2]
	s := string(extra)
	i, j, k := strings.Index(s, `,"frame"`), strings.Index(s, `,"args"`), strings.Index(s, `,"result"`)
	p.version, p.frame, p.args, p.result = s[:i], s[i:j], s[j:k], s[k:len(s)-1]
	return p
}

func (p parts) join() []byte {
	extra := p.version + p.frame + p.args + p.result + "}"
	return []byte("c2sp.org/tlog-proof@v1\nextra " + base64.StdEncoding.EncodeToString([]byte(extra)) + "\n" + p.index + "\n\n" + p.seal)
}
