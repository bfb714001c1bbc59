package bundle

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

const testNamespace = "test@truegreen.dev"

// testSigners returns one signer of every kind that is made in software.
func testSigners(t testing.TB) map[string]ssh.Signer {
	t.Helper()
	signers, err := makeSigners()
	if err != nil {
		t.Fatal(err)
	}
	return signers
}

var makeSigners = sync.OnceValues(func() (map[string]ssh.Signer, error) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	keys := map[string]crypto.Signer{"ed25519": ed}
	for name, curve := range map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384(), "p521": elliptic.P521()} {
		if keys[name], err = ecdsa.GenerateKey(curve, rand.Reader); err != nil {
			return nil, err
		}
	}
	if keys["rsa"], err = rsa.GenerateKey(rand.Reader, minRSABits); err != nil {
		return nil, err
	}
	signers := make(map[string]ssh.Signer)
	for name, key := range keys {
		if signers[name], err = ssh.NewSignerFromSigner(key); err != nil {
			return nil, err
		}
	}
	return signers, nil
})

func TestSignSSH(t *testing.T) {
	t.Parallel()
	msg := []byte("message\n")
	for name, signer := range testSigners(t) {
		armored, err := SignSSH(rand.Reader, signer, testNamespace, msg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s, err := ParseSSH(armored)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(s.Key().Marshal(), signer.PublicKey().Marshal()) {
			t.Errorf("%s: signature is by another key", name)
		}
		if err := s.Verify(testNamespace, msg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.Verify("git", msg) == nil {
			t.Errorf("%s: verifies in another namespace", name)
		}
		if s.Verify(testNamespace, msg[1:]) == nil {
			t.Errorf("%s: verifies another message", name)
		}
		if !bytes.Equal(armor(s.raw), armored) {
			t.Errorf("%s: encodes to other bytes", name)
		}
	}
	if _, err := SignSSH(rand.Reader, testSigners(t)["ed25519"], "", msg); err == nil {
		t.Error("signs in the empty namespace")
	}
}

// TestSSHBitFlips flips every bit of a signature's text and of its blob, and
// cuts the text at every length.
func TestSSHBitFlips(t *testing.T) {
	t.Parallel()
	msg := []byte("message\n")
	for _, name := range []string{"ed25519", "p256", "rsa"} {
		armored, err := SignSSH(rand.Reader, testSigners(t)[name], testNamespace, msg)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := unarmor(armored)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 * len(armored) {
			b := bytes.Clone(armored)
			b[i/8] ^= 1 << (i % 8)
			if s, err := ParseSSH(b); err == nil && bytes.Equal(s.raw, raw) {
				t.Errorf("%s: bit %d of the text means nothing", name, i)
			}
		}
		for i := range len(armored) {
			if _, err := ParseSSH(armored[:i]); err == nil {
				t.Errorf("%s: parses %d of %d bytes", name, i, len(armored))
			}
		}
		for i := range 8 * len(raw) {
			b := bytes.Clone(raw)
			b[i/8] ^= 1 << (i % 8)
			if s, err := parseSSHBlob(b); err == nil && s.Verify(testNamespace, msg) == nil {
				t.Errorf("%s: verifies with bit %d of the blob flipped", name, i)
			}
		}
	}
}

func TestArmorIsStrict(t *testing.T) {
	t.Parallel()
	armored, err := SignSSH(rand.Reader, testSigners(t)["ed25519"], testNamespace, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := string(armored)
	lines := strings.SplitAfter(text, "\n")
	for name, bad := range map[string]string{
		"empty":          "",
		"text before":    "x\n" + text,
		"line before":    "\n" + text,
		"line after":     text + "\n",
		"twice":          text + text,
		"no last LF":     strings.TrimSuffix(text, "\n"),
		"CRLF":           strings.ReplaceAll(text, "\n", "\r\n"),
		"blank in line":  lines[0] + " " + strings.Join(lines[1:], ""),
		"blank line":     lines[0] + "\n" + strings.Join(lines[1:], ""),
		"lines joined":   lines[0] + strings.TrimSuffix(lines[1], "\n") + strings.Join(lines[2:], ""),
		"line split":     lines[0] + lines[1][:30] + "\n" + lines[1][30:] + strings.Join(lines[2:], ""),
		"other header":   strings.ReplaceAll(text, "SSH SIGNATURE", "PGP SIGNATURE"),
		"four dashes":    strings.Replace(text, "-----BEGIN", "----BEGIN", 1),
		"no end":         strings.TrimSuffix(text, armorEnd),
		"too long":       armorBegin + strings.Repeat(lines[1], maxSig/armorWidth) + armorEnd,
		"no blob":        armorBegin + armorEnd,
		"other alphabet": strings.NewReplacer("A", "-").Replace(text),
	} {
		if s, err := ParseSSH([]byte(bad)); err == nil || s != nil {
			t.Errorf("%s: parses", name)
		}
	}
}

// signBlob signs what SignSSH would, and lets edit change the parts first.
func signBlob(t *testing.T, signer ssh.Signer, algorithm string, msg []byte, edit func(*sshsigBlob, *ssh.Signature)) []byte {
	t.Helper()
	b := sshsigBlob{Version: 1, PublicKey: signer.PublicKey().Marshal(), Namespace: testNamespace, Hash: "sha512"}
	sum := sha512.Sum512(msg)
	signed := append([]byte(sshsigMagic), ssh.Marshal(struct {
		Namespace string
		Reserved  []byte
		Hash      string
		Sum       []byte
	}{b.Namespace, nil, b.Hash, sum[:]})...)
	sig, err := signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, signed, algorithm)
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(&b, sig)
	}
	if b.Signature == nil {
		b.Signature = ssh.Marshal(sig)
	}
	return append([]byte(sshsigMagic), ssh.Marshal(b)...)
}

func TestBlobIsStrict(t *testing.T) {
	t.Parallel()
	msg := []byte("message")
	signers := testSigners(t)
	type edit = func(*sshsigBlob, *ssh.Signature)
	for _, test := range []struct {
		name, key, algorithm string
		edit                 edit
		ok                   bool
	}{
		{"as it is", "ed25519", "", nil, true},
		{"reserved", "ed25519", "", func(b *sshsigBlob, _ *ssh.Signature) { b.Reserved = []byte("x") }, false},
		{"version 0", "ed25519", "", func(b *sshsigBlob, _ *ssh.Signature) { b.Version = 0 }, false},
		{"version 2", "ed25519", "", func(b *sshsigBlob, _ *ssh.Signature) { b.Version = 2 }, false},
		{"no namespace", "ed25519", "", func(b *sshsigBlob, _ *ssh.Signature) { b.Namespace = "" }, false},
		{"hash sha1", "ed25519", "", func(b *sshsigBlob, _ *ssh.Signature) { b.Hash = "sha1" }, false},
		{"hash SHA512", "ed25519", "", func(b *sshsigBlob, _ *ssh.Signature) { b.Hash = "SHA512" }, false},
		{"rest", "ed25519", "", func(_ *sshsigBlob, s *ssh.Signature) { s.Rest = []byte{1} }, false},
		{"rest of hardware", "ed25519", "", func(_ *sshsigBlob, s *ssh.Signature) { s.Rest = []byte{1, 0, 0, 0, 0} }, false},
		{"format of another key", "ed25519", "", func(_ *sshsigBlob, s *ssh.Signature) { s.Format = ssh.KeyAlgoRSASHA512 }, false},
		{"another key", "ed25519", "", func(b *sshsigBlob, _ *ssh.Signature) { b.PublicKey = signers["rsa"].PublicKey().Marshal() }, false},
		{"key and more", "ed25519", "", func(b *sshsigBlob, _ *ssh.Signature) { b.PublicKey = append(b.PublicKey, 0) }, false},
		{"no key", "ed25519", "", func(b *sshsigBlob, _ *ssh.Signature) { b.PublicKey = nil }, false},
		{"no signature", "ed25519", "", func(b *sshsigBlob, _ *ssh.Signature) { b.Signature = []byte{} }, false},
		{"rsa sha512", "rsa", ssh.KeyAlgoRSASHA512, nil, true},
		{"rsa sha256", "rsa", ssh.KeyAlgoRSASHA256, nil, true},
		{"rsa sha1", "rsa", ssh.KeyAlgoRSA, nil, false},
		{"ecdsa", "p256", "", nil, true},
		{"ecdsa with leading zeros", "p256", "", func(_ *sshsigBlob, s *ssh.Signature) {
			var rs struct{ R, S []byte }
			if err := ssh.Unmarshal(s.Blob, &rs); err != nil {
				t.Fatal(err)
			}
			rs.R = append([]byte{0, 0}, rs.R...)
			s.Blob = ssh.Marshal(rs)
		}, false},
		{"ecdsa with zero", "p256", "", func(_ *sshsigBlob, s *ssh.Signature) {
			s.Blob = ssh.Marshal(struct{ R, S *big.Int }{new(big.Int), big.NewInt(1)})
		}, false},
	} {
		raw := signBlob(t, signers[test.key], test.algorithm, msg, test.edit)
		s, err := parseSSHBlob(raw)
		if (err == nil) != test.ok {
			t.Errorf("%s: parse: %v", test.name, err)
		}
		if err != nil {
			continue
		}
		if err := s.Verify(testNamespace, msg); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		for _, bad := range [][]byte{append(bytes.Clone(raw), 0), raw[:len(raw)-1], raw[6:], {}} {
			if _, err := parseSSHBlob(bad); err == nil {
				t.Errorf("%s: parses with bytes added or cut off", test.name)
			}
		}
	}
}

func TestWeakKeys(t *testing.T) {
	t.Parallel()
	small := ssh.Marshal(struct {
		Type string
		E, N *big.Int
	}{ssh.KeyAlgoRSA, big.NewInt(65537), new(big.Int).SetBit(big.NewInt(1), minRSABits-2, 1)})
	if _, err := parseKey(small); err == nil || !strings.Contains(err.Error(), "2047 bits") {
		t.Errorf("RSA key of 2047 bits: %v", err)
	}
	signers := testSigners(t)
	var rsaKey struct {
		Type string
		E, N []byte
	}
	if err := ssh.Unmarshal(signers["rsa"].PublicKey().Marshal(), &rsaKey); err != nil {
		t.Fatal(err)
	}
	rsaKey.E = append([]byte{0, 0}, rsaKey.E...)
	if _, err := parseKey(ssh.Marshal(rsaKey)); err == nil {
		t.Error("an exponent with leading zeros parses")
	}
	cert := &ssh.Certificate{Key: signers["p256"].PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"alice"}, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, signers["ed25519"]); err != nil {
		t.Fatal(err)
	}
	if _, err := parseKey(cert.Marshal()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("certificate: %v", err)
	}
}

// A securityKey signs as a hardware key does.
type securityKey struct {
	private ed25519.PrivateKey
	flags   byte
}

func (k securityKey) PublicKey() ssh.PublicKey {
	key, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Type        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, k.private.Public().(ed25519.PublicKey), "ssh:"}))
	if err != nil {
		panic(err)
	}
	return key
}

func (k securityKey) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	app, sum := sha256.Sum256([]byte("ssh:")), sha256.Sum256(data)
	rest := []byte{k.flags, 0, 0, 0, 7}
	blob := append(append(app[:], rest...), sum[:]...)
	return &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(k.private, blob), Rest: rest}, nil
}

func TestSecurityKey(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := SignSSH(rand.Reader, securityKey{private, 1}, testNamespace, []byte("message")); err != nil {
		t.Errorf("touched: %v", err)
	}
	if _, err := SignSSH(rand.Reader, securityKey{private, 4}, testNamespace, []byte("message")); err == nil {
		t.Error("not touched: accepted")
	}
}

// tool returns the path of a program, and skips the test without it.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("TRUEGREEN_TOOLS") == "require" {
			t.Fatalf("%s is not installed, and TRUEGREEN_TOOLS=require", name)
		}
		t.Skipf("%s is not installed", name)
	}
	return path
}

// run runs a program in dir and returns what it printed.
func run(t *testing.T, dir, stdin, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func writeFile(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSSHKeygen has ssh-keygen verify what is signed here, and the other way.
func TestSSHKeygen(t *testing.T) {
	t.Parallel()
	keygen := tool(t, "ssh-keygen")
	msg := "message\n"
	for name, args := range map[string][]string{
		"ed25519": {"-t", "ed25519"},
		"p256":    {"-t", "ecdsa", "-b", "256"},
		"p384":    {"-t", "ecdsa", "-b", "384"},
		"p521":    {"-t", "ecdsa", "-b", "521"},
		"rsa":     {"-t", "rsa", "-b", "2048"},
	} {
		dir := t.TempDir()
		if out, err := run(t, dir, "", keygen, append([]string{"-q", "-N", "", "-C", "c", "-f", "key"}, args...)...); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		pem, err := os.ReadFile(filepath.Join(dir, "key"))
		if err != nil {
			t.Fatal(err)
		}
		signer, err := LoadSigner(pem, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		ours, err := SignSSH(rand.Reader, signer, testNamespace, []byte(msg))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		writeFile(t, dir, "sig", string(ours))
		writeFile(t, dir, "signers", "alice "+string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
		verify := []string{"-Y", "verify", "-f", "signers", "-I", "alice", "-n", testNamespace, "-s", "sig"}
		if out, err := run(t, dir, msg, keygen, verify...); err != nil {
			t.Errorf("%s: ssh-keygen refuses our signature: %s", name, out)
		}
		if out, err := run(t, dir, msg+"x", keygen, verify...); err == nil {
			t.Errorf("%s: ssh-keygen verifies another message: %s", name, out)
		}

		for _, hash := range []string{"sha512", "sha256"} {
			theirs, err := run(t, dir, msg, keygen, "-q", "-Y", "sign", "-f", "key", "-n", testNamespace, "-O", "hashalg="+hash)
			if err != nil {
				t.Fatalf("%s: %v: %s", name, err, theirs)
			}
			s, err := ParseSSH([]byte(theirs))
			if err != nil {
				t.Fatalf("%s, %s: %v", name, hash, err)
			}
			if err := s.Verify(testNamespace, []byte(msg)); err != nil {
				t.Errorf("%s, %s: %v", name, hash, err)
			}
			// Both kinds of signature are deterministic.
			if (name == "ed25519" || name == "rsa") && hash == "sha512" && theirs != string(ours) {
				t.Errorf("%s: ssh-keygen makes another signature than we do", name)
			}
		}
	}
}

func TestLoadSigner(t *testing.T) {
	t.Parallel()
	keygen := tool(t, "ssh-keygen")
	dir := t.TempDir()
	for _, args := range [][]string{
		{"-t", "ed25519", "-N", "secret phrase", "-f", "encrypted"},
		{"-t", "rsa", "-b", "1024", "-N", "", "-f", "short"},
		{"-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f", "pem"},
	} {
		if out, err := run(t, dir, "", keygen, append([]string{"-q", "-C", "c"}, args...)...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	load := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var given []byte
	ask := func(s string) func() ([]byte, error) {
		return func() ([]byte, error) {
			given = []byte(s)
			return given, nil
		}
	}
	if _, err := LoadSigner(load("encrypted"), ask("secret phrase")); err != nil {
		t.Error(err)
	}
	if len(bytes.Trim(given, "\x00")) != 0 {
		t.Error("the passphrase was not overwritten")
	}
	for name, test := range map[string]struct {
		pem  []byte
		ask  func() ([]byte, error)
		want string
	}{
		"wrong passphrase": {load("encrypted"), ask("wrong"), "wrong passphrase"},
		"no passphrase":    {load("encrypted"), nil, "nobody to ask"},
		"short":            {load("short"), nil, "1024 bits"},
		"public key":       {load("encrypted.pub"), nil, "this is a public key"},
		"no key":           {[]byte("hello"), nil, "private key: "},
		"empty":            {nil, nil, "private key: "},
		"large":            {make([]byte, maxPrivateKey+1), nil, "limit"},
	} {
		signer, err := LoadSigner(test.pem, test.ask)
		if err == nil || signer != nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := LoadSigner(load("pem"), nil); err != nil {
		t.Error(err)
	}
}

func FuzzSSHSIG(f *testing.F) {
	for _, signer := range testSigners(f) {
		armored, err := SignSSH(rand.Reader, signer, testNamespace, []byte("message"))
		if err != nil {
			f.Fatal(err)
		}
		raw, err := unarmor(armored)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(armored)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := ParseSSH(b); err != nil {
			if s != nil {
				t.Error("signature beside an error")
			}
		} else if !bytes.Equal(armor(s.raw), b) {
			t.Error("text encodes to other bytes")
		}
		s, err := parseSSHBlob(b)
		if err != nil {
			return
		}
		again := append([]byte(sshsigMagic), ssh.Marshal(sshsigBlob{
			Version: 1, PublicKey: s.key.Marshal(), Namespace: s.namespace, Hash: s.hash, Signature: ssh.Marshal(s.sig),
		})...)
		if !bytes.Equal(again, b) {
			t.Error("blob encodes to other bytes")
		}
		_ = s.Verify(s.namespace, []byte("message"))
	})
}
