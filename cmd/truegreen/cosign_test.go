package main

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
)

// forCosign writes an envelope as a Sigstore bundle, and the SSH key that signed it in PEM:
// what cosign reads.
func forCosign(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 4, "cosign ENVELOPE PUB BUNDLE KEY")
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(ts.ReadFile(args[1])))
	ts.Check(err)
	der, err := x509.MarshalPKIXPublicKey(key.(ssh.CryptoPublicKey).CryptoPublicKey())
	ts.Check(err)
	text, err := json.Marshal(map[string]any{
		"mediaType":            "application/vnd.dev.sigstore.bundle.v0.3+json",
		"verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": ssh.FingerprintSHA256(key)}},
		"dsseEnvelope":         json.RawMessage(ts.ReadFile(args[0])),
	})
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), text, 0o644))
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644))
}
