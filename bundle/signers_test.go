package bundle

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// keyText returns the public key of the ed25519 signer as in a .pub file.
func keyText(t testing.TB) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(testSigners(t)["ed25519"].PublicKey())))
}

type signerCase struct {
	line   string
	parses bool // here
	allows bool // for ssh-keygen; and here, if it parses
}

// signerLines are lines of an allowed_signers file, in which KEY stands for
// the key, and what comes of them for a signature by alice in testNamespace.
var signerLines = []signerCase{
	{`alice KEY`, true, true},
	{`  alice KEY`, true, true},
	{"alice\t \tKEY", true, true},
	{`alice KEY with a comment`, true, true},
	{`"alice" KEY`, true, true},
	{`"al ice" KEY`, true, false},
	{`"alice"KEY`, false, true},
	{`"alice KEY`, false, false},
	{`alice, KEY`, true, true},
	{`,alice KEY`, true, true},
	{`bob,alice KEY`, true, true},
	{`bob KEY`, true, false},
	{`ALICE KEY`, true, false},
	{`* KEY`, true, true},
	{`al* KEY`, true, true},
	{`*e KEY`, true, true},
	{`*l*c* KEY`, true, true},
	{`*l*x* KEY`, true, false},
	{`a??ce KEY`, true, true},
	{`a?ce KEY`, true, false},
	{`alice? KEY`, true, false},
	{`alice* KEY`, true, true},
	{`!alice KEY`, true, false},
	{`!bob KEY`, true, false},
	{`!bob,* KEY`, true, true},
	{`!alice,alice KEY`, true, false},
	{`al*,!alice KEY`, true, false},
	{`alice namespaces="NS" KEY`, true, true},
	{`alice NameSpaces="NS" KEY`, true, true},
	{`alice namespaces="git" KEY`, true, false},
	{`alice namespaces="git,NS" KEY`, true, true},
	{`alice namespaces="git, NS" KEY`, true, false},
	{`alice namespaces="*" KEY`, true, true},
	{`alice namespaces="*,!NS" KEY`, true, false},
	{`alice namespaces="" KEY`, true, false},
	{`alice namespaces=NS KEY`, false, false},
	{`alice namespaces="NS KEY`, false, false},
	{`alice namespaces="NS"KEY`, false, false},
	{`alice namespaces KEY`, false, false},
	{`alice namespaces="NS",namespaces="NS" KEY`, false, false},
	{`alice namespaces="NS", KEY`, false, false},
	{`alice namespaces="NS" valid-after="20200101" KEY`, false, false},
	{`alice namespaces="a\"b,NS" KEY`, true, true},
	{`alice valid-after="20200101" KEY`, true, true},
	{`alice valid-after="20200101Z" KEY`, true, true},
	{`alice valid-after="20200101z" KEY`, true, true},
	{`alice valid-after="202001011230" KEY`, true, true},
	{`alice valid-after="202001011230Z" KEY`, true, true},
	{`alice valid-after="20200101123015" KEY`, true, true},
	{`alice valid-after="20200101123015Z",valid-before="21000101" KEY`, true, true},
	{`alice valid-after="20990101" KEY`, true, false},
	{`alice valid-before="20200101" KEY`, true, false},
	{`alice valid-before="20990101" KEY`, true, true},
	{`alice valid-after="2020010112" KEY`, false, false},
	{`alice valid-after="2020010" KEY`, false, false},
	{`alice valid-after="20201301" KEY`, false, false},
	{`alice valid-after="20200230" KEY`, false, true}, // ssh-keygen makes it March 1
	{`alice valid-after="202001012460" KEY`, false, false},
	{`alice valid-after="20200101 " KEY`, false, false},
	{`alice valid-after="" KEY`, false, false},
	{`alice valid-after="19000101Z" KEY`, false, false},
	{`alice valid-after="20200101",valid-before="20200101" KEY`, false, false},
	{`alice valid-after="20200102",valid-before="20200101" KEY`, false, false},
	{`alice cert-authority KEY`, false, false},
	{`alice no-touch-required KEY`, false, false},
	{`alice`, false, false},
	{`alice ssh-ed25519`, false, false},
	{`alice ssh-ed25519 AAAA`, false, false},
	{`alice ssh-rsa BASE64`, false, false},
	{`alice BASE64`, false, false},
	{`KEY`, false, false},
}

func (l signerCase) expand(t testing.TB) string {
	key := keyText(t)
	return strings.NewReplacer("KEY", key, "NS", testNamespace, "BASE64", strings.Fields(key)[1]).Replace(l.line)
}

func TestSigners(t *testing.T) {
	t.Parallel()
	key := testSigners(t)["ed25519"].PublicKey()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, l := range signerLines {
		s, err := ParseSigners([]byte("# comment\n\n" + l.expand(t) + "\r\n"))
		if (err == nil) != l.parses {
			t.Errorf("%s: parse: %v", l.line, err)
		}
		if err != nil {
			if s != nil || !strings.Contains(err.Error(), "line 3: ") {
				t.Errorf("%s: %v", l.line, err)
			}
			continue
		}
		ok, why := s.Allows("alice", key, testNamespace, at)
		if ok != l.allows || ok != (why == "") {
			t.Errorf("%s: allows: %v %s", l.line, ok, why)
		}
	}
}

// TestSignersOracle asks ssh-keygen about the same lines. It may only be more
// lenient, and only with lines that are refused here.
func TestSignersOracle(t *testing.T) {
	t.Parallel()
	keygen := tool(t, "ssh-keygen")
	dir := t.TempDir()
	sig, err := SignSSH(rand.Reader, testSigners(t)["ed25519"], testNamespace, []byte("message"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "sig", string(sig))
	for _, l := range signerLines {
		writeFile(t, dir, "signers", l.expand(t)+"\n")
		out, err := run(t, dir, "message", keygen, "-Y", "verify", "-f", "signers", "-I", "alice", "-n", testNamespace, "-s", "sig",
			"-O", "verify-time=20260501120000Z")
		if (err == nil) != l.allows {
			t.Errorf("%s: ssh-keygen: %s", l.line, out)
		}
	}
}

func TestSignersFind(t *testing.T) {
	t.Parallel()
	key := testSigners(t)["ed25519"].PublicKey()
	other := testSigners(t)["p256"].PublicKey()
	file := strings.ReplaceAll(`
!eve KEY
alice@example.com namespaces="git" KEY
alice@example.com,bob valid-after="20260101Z",valid-before="20260201Z" KEY
carol valid-after="20260601" KEY
`, "KEY", keyText(t))
	s, err := ParseSigners([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	berlin := time.FixedZone("", 2*60*60)
	for _, test := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(2025, 12, 31, 23, 59, 59, 999, time.UTC), ""},
		{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), "alice@example.com,bob"},
		{time.Date(2026, 2, 1, 0, 0, 0, 999, time.UTC), "alice@example.com,bob"}, // bounds are included
		{time.Date(2026, 2, 1, 0, 0, 1, 0, time.UTC), ""},
		{time.Date(2026, 5, 31, 22, 0, 0, 0, time.UTC), ""},
		{time.Date(2026, 5, 31, 22, 0, 0, 0, time.UTC).In(berlin), "carol"}, // no Z: local time
	} {
		got, ok, why := s.Find(key, testNamespace, test.at)
		if got != test.want || ok != (test.want != "") || ok != (why == "") {
			t.Errorf("at %v: %q %v %s", test.at, got, ok, why)
		}
	}
	_, _, why := s.Find(key, testNamespace, time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, want := range []string{"line 2 names nobody", `line 3 is for namespaces "git"`, "line 4 is valid from 2026-01-01T00:00:00Z"} {
		if !strings.Contains(why, want) {
			t.Errorf("why is %q, want %q in it", why, want)
		}
	}
	if _, ok, why := s.Find(other, testNamespace, time.Now()); ok || !strings.HasSuffix(why, "is not listed") {
		t.Errorf("a key that is not there: %v %s", ok, why)
	}
	if p, ok, _ := s.Find(key, "git", time.Now()); !ok || p != "alice@example.com" {
		t.Errorf("namespace git: %q %v", p, ok)
	}
}

func TestSignersLimits(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"lines": strings.Repeat("\n", maxSignersLines+1),
		"bytes": strings.Repeat("#", maxSignersLen+1),
		"NUL":   "alice \x00" + keyText(t),
	} {
		if _, err := ParseSigners([]byte(file)); err == nil {
			t.Errorf("%s: no limit", name)
		}
		if _, err := ParseRevoked([]byte(file)); err == nil {
			t.Errorf("%s: no limit for revoked keys", name)
		}
	}
	if _, err := ParseSigners([]byte(strings.Repeat("\n", maxSignersLines))); err != nil {
		t.Error(err)
	}
}

// TestPatternCost would not end with a matcher that tries everything.
func TestPatternCost(t *testing.T) {
	t.Parallel()
	if matchPattern(strings.Repeat("*a", 5000), strings.Repeat("a", 4999)+"b") {
		t.Error("matches")
	}
}

func TestRevoked(t *testing.T) {
	t.Parallel()
	signers := testSigners(t)
	ed, rsa, p256 := signers["ed25519"].PublicKey(), signers["rsa"].PublicKey(), signers["p256"].PublicKey()
	r, err := ParseRevoked([]byte("# lost laptop\n" + keyText(t) + " alice\n\n" + ssh.FingerprintSHA256(rsa) + " bob\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !r.Contains(ed) || !r.Contains(rsa) || r.Contains(p256) {
		t.Errorf("contains %v %v %v, want true true false", r.Contains(ed), r.Contains(rsa), r.Contains(p256))
	}
	if (*Revoked)(nil).Contains(ed) {
		t.Error("nil revokes something")
	}
	for _, bad := range []string{
		"SHA256:", "SHA256:AAAA", ssh.FingerprintSHA256(rsa) + "=", "MD5:00:11", "alice", "alice " + keyText(t),
		"ssh-rsa " + strings.Fields(keyText(t))[1], "SSHKRL\n\x00\x00\x00\x00\x01",
	} {
		if r, err := ParseRevoked([]byte(bad)); err == nil || r != nil {
			t.Errorf("%q parses", bad)
		}
	}
	if _, err := ParseRevoked([]byte("SSHKRL\n\x00")); err == nil || !strings.Contains(err.Error(), "KRL") {
		t.Errorf("KRL: %v", err)
	}
}

func FuzzSigners(f *testing.F) {
	for _, l := range signerLines {
		f.Add([]byte(l.expand(f)))
	}
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	stranger, err := ssh.NewPublicKey(public)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := ParseSigners(b); err == nil {
			if _, ok, _ := s.Find(stranger, testNamespace, time.Unix(1_800_000_000, 0)); ok {
				t.Error("finds a key that is not listed")
			}
			for _, l := range s.lines {
				if l.principals == "" {
					t.Error("line without principals")
				}
			}
		} else if s != nil {
			t.Error("signers beside an error")
		}
		if r, err := ParseRevoked(b); err == nil && r.Contains(stranger) {
			t.Error("a key that is not listed is revoked")
		}
	})
}
