package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/receipts/dsse"
	"github.com/truegreen-dev/truegreen/verifier"
)

func sparse(ts *testscript.TestScript, _ bool, args []string) {
	usageIf(ts, len(args) != 2, "sparse FILE SIZE")
	size := number(ts, args[1])
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(errors.Join(f.Truncate(size), f.Close()))
}

func flip(ts *testscript.TestScript, _ bool, args []string) {
	usageIf(ts, len(args) != 2, "flip FILE OFFSET")
	at := int(number(ts, args[1]))
	b, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o600))
}

func number(ts *testscript.TestScript, s string) (n int64) {
	_, err := fmt.Sscan(s, &n)
	ts.Check(err)
	return n
}

func unhex(ts *testscript.TestScript, _ bool, args []string) {
	usageIf(ts, len(args) != 2, "unhex FROM TO")
	b, err := hex.DecodeString(strings.Join(strings.Fields(ts.ReadFile(args[0])), ""))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o644))
}

// newer writes a bundle again whose seal states a format after this one.
func newer(ts *testscript.TestScript, _ bool, args []string) {
	usageIf(ts, len(args) != 1, "newer BUNDLE")
	old, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	r, err := bundle.Open(bytes.NewReader(old), int64(len(old)), bundle.Limits{})
	ts.Check(err)
	var log []byte
	m := bundle.Members{
		Seal: bytes.Replace(r.Seal(), fmt.Appendf(nil, "\nformat %d\n", bundle.SealFormat), fmt.Appendf(nil, "\nformat %d\n", bundle.SealFormat+1), 1),
		MAC:  r.MAC(), Sig: r.Sig(), Open: r.Blob,
		Log: func() (io.ReadCloser, int64, error) { return io.NopCloser(bytes.NewReader(log)), int64(len(log)), nil },
	}
	if bytes.Equal(m.Seal, r.Seal()) {
		ts.Fatalf("the seal states no format:\n%s", m.Seal)
	}
	ts.Check(r.Walk(func(e bundle.Entry, body io.Reader) (err error) {
		if e.Name == "log" {
			log, err = io.ReadAll(body)
		} else if e.Digest != (receipts.Digest{}) {
			m.Blobs = append(m.Blobs, e.Digest)
		}
		return err
	}))
	var b bytes.Buffer
	ts.Check(bundle.Write(&b, m))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o600))
}

// checkStatement opens an envelope as somebody does who has the public key.
func checkStatement(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, len(args) != 2, "statement FILE PUB")
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(ts.ReadFile(args[1])))
	ts.Check(err)
	public := key.(ssh.CryptoPublicKey).CryptoPublicKey().(ed25519.PublicKey)
	verify, err := dsse.NewEd25519Verifier(ssh.FingerprintSHA256(key), public)
	ts.Check(err)
	envelope, err := dsse.Parse([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	payload, _, err := envelope.Verify(verifier.StatementType, 1, verify)
	if neg != (err != nil) {
		ts.Fatalf("%s under %s: %v", args[0], args[1], err)
	}
	fmt.Fprintf(ts.Stdout(), "%s\n", payload)
}
