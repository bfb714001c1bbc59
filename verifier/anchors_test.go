package verifier_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/internal/fixture"
	"github.com/truegreen-dev/truegreen/verifier"
)

func signers(t testing.TB, lines ...string) *bundle.Signers {
	t.Helper()
	s, err := bundle.ParseSigners([]byte(strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func revoked(t testing.TB, name string) *bundle.Revoked {
	t.Helper()
	r, err := bundle.ParseRevoked(ssh.MarshalAuthorizedKey(fixture.Signer(name).PublicKey()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sign(t testing.TB, name string, text []byte) []byte {
	t.Helper()
	sig, err := fixture.Sign(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

// TestAnchors asks about one bundle, which alice has signed, with everything that
// a caller can trust.
func TestAnchors(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	r.Statement.Sign = func(text []byte) ([]byte, error) { return fixture.Sign("alice", text) }
	file := bundleOf(t, &r)
	a, err := fixture.Unpack(file)
	if err != nil {
		t.Fatal(err)
	}
	text := a.Content(fixture.SealMember)
	otherSeal := bytes.Replace(text, []byte("attempt 1"), []byte("attempt 2"), 1)
	key := r.Anchor()
	stranger := verifier.KeyAnchor{Secret: bytes.Repeat([]byte{1}, 32), Who: "somebody else"}
	asked := func(k verifier.KeyAnchor) verifier.KeyAnchor { k.Asked = true; return k }
	sidecar := func(b []byte) verifier.Sidecar { return verifier.Sidecar{Name: "x.sig", Bytes: b} }
	mac, alice := verifier.Trust{Kind: "mac", Who: key.Who}, verifier.Trust{Kind: "ssh", Who: "alice"}
	bob := verifier.Trust{Kind: "ssh", Who: "bob"}

	for _, test := range []struct {
		name   string
		edit   func(*verifier.Options)
		trust  []verifier.Trust
		want   []verifier.Code
		member string
	}{
		{"nothing", func(o *verifier.Options) {}, nil, []verifier.Code{verifier.NoTrustedSeal}, ""},
		{"key", func(o *verifier.Options) { o.Keys = append(o.Keys, key) }, []verifier.Trust{mac}, nil, ""},
		{"key asked for", func(o *verifier.Options) { o.Keys = append(o.Keys, asked(key)) }, []verifier.Trust{mac}, nil, ""},
		{"second key fits", func(o *verifier.Options) { o.Keys = append(o.Keys, asked(stranger), key) }, []verifier.Trust{mac}, nil, ""},
		{"other key", func(o *verifier.Options) { o.Keys = append(o.Keys, stranger) }, nil, []verifier.Code{verifier.NoTrustedSeal}, ""},
		{"other key asked for", func(o *verifier.Options) { o.Keys = append(o.Keys, asked(stranger)) }, nil, []verifier.Code{verifier.MACMismatch}, "seal.mac"},

		{"signer", func(o *verifier.Options) { o.Signers = signers(t, fixture.SignerLine("alice", "")) }, []verifier.Trust{alice}, nil, ""},
		{"key and signer", func(o *verifier.Options) {
			o.Keys, o.Signers = append(o.Keys, key), signers(t, fixture.SignerLine("alice", ""))
		}, []verifier.Trust{mac, alice}, nil, ""},
		{"unknown signer", func(o *verifier.Options) { o.Signers = signers(t, fixture.SignerLine("bob", "")) }, nil, []verifier.Code{verifier.NoTrustedSeal}, "seal.sig"},
		{"unknown signer, and the key", func(o *verifier.Options) {
			o.Keys, o.Signers = append(o.Keys, key), signers(t, fixture.SignerLine("bob", ""))
		}, []verifier.Trust{mac}, nil, ""},
		{"other key asked for, and the signer", func(o *verifier.Options) {
			o.Keys, o.Signers = append(o.Keys, asked(stranger)), signers(t, fixture.SignerLine("alice", ""))
		}, nil, []verifier.Code{verifier.MACMismatch}, "seal.mac"},
		{"revoked signer", func(o *verifier.Options) {
			o.Signers, o.Revoked = signers(t, fixture.SignerLine("alice", "")), revoked(t, "alice")
		}, nil, []verifier.Code{verifier.NoTrustedSeal}, "seal.sig"},
		{"another is revoked", func(o *verifier.Options) {
			o.Signers, o.Revoked = signers(t, fixture.SignerLine("alice", "")), revoked(t, "bob")
		}, []verifier.Trust{alice}, nil, ""},
		{"expired signer", func(o *verifier.Options) {
			o.Signers = signers(t, fixture.SignerLine("alice", `valid-before="20260102Z"`))
		}, nil, []verifier.Code{verifier.NoTrustedSeal}, "seal.sig"},
		{"early signer", func(o *verifier.Options) {
			o.Signers = signers(t, fixture.SignerLine("alice", `valid-after="20260103Z"`))
		}, nil, []verifier.Code{verifier.NoTrustedSeal}, "seal.sig"},
		{"signer of other things", func(o *verifier.Options) {
			o.Signers = signers(t, fixture.SignerLine("alice", `namespaces="git"`))
		}, nil, []verifier.Code{verifier.NoTrustedSeal}, "seal.sig"},

		{"sidecar", func(o *verifier.Options) {
			o.Signers, o.Sidecars = signers(t, fixture.SignerLine("bob", "")), []verifier.Sidecar{sidecar(sign(t, "bob", text))}
		}, []verifier.Trust{bob}, nil, ""},
		{"unknown sidecar", func(o *verifier.Options) {
			o.Signers, o.Sidecars = signers(t, fixture.SignerLine("carol", "")), []verifier.Sidecar{sidecar(sign(t, "bob", text))}
		}, nil, []verifier.Code{verifier.NoTrustedSeal, verifier.NoTrustedSeal}, "seal.sig"},
		{"sidecar without signers", func(o *verifier.Options) {
			o.Sidecars = []verifier.Sidecar{sidecar(sign(t, "bob", text))}
		}, nil, []verifier.Code{verifier.NoTrustedSeal}, "x.sig"},
		{"sidecar of another seal", func(o *verifier.Options) {
			o.Keys, o.Signers = append(o.Keys, key), signers(t, fixture.SignerLine("bob", ""))
			o.Sidecars = []verifier.Sidecar{sidecar(sign(t, "bob", otherSeal))}
		}, nil, []verifier.Code{verifier.SignatureInvalid}, "x.sig"},
		{"sidecar in another namespace", func(o *verifier.Options) {
			sig, err := bundle.SignSSH(nil, fixture.Signer("bob"), "git", text)
			if err != nil {
				t.Fatal(err)
			}
			o.Keys, o.Sidecars = append(o.Keys, key), []verifier.Sidecar{sidecar(sig)}
		}, nil, []verifier.Code{verifier.SignatureInvalid}, "x.sig"},
		{"sidecar that is none", func(o *verifier.Options) {
			o.Keys, o.Sidecars = append(o.Keys, key), []verifier.Sidecar{sidecar([]byte("trust me\n"))}
		}, nil, []verifier.Code{verifier.SignatureInvalid}, "x.sig"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := r.Options()
			o.Keys = nil
			test.edit(&o)
			report := verify(t, file, o)
			want(t, report, test.want...)
			if !slices.Equal(report.Trust(), test.trust) {
				t.Errorf("trust %v, want %v", report.Trust(), test.trust)
			}
			if len(test.want) > 0 {
				member(t, report, test.member)
			}
			if report.MACsChecked() != slices.Contains(test.trust, mac) {
				t.Errorf("MACs checked: %t", report.MACsChecked())
			}
		})
	}

	// The signature members themselves.
	for _, test := range []struct {
		name   string
		a      fixture.Archive
		want   verifier.Code
		member string
	}{
		{"MAC of nothing", a.With(fixture.MACMember, []byte("mac\n")), verifier.SignatureInvalid, "seal.mac"},
		{"MAC in capitals", a.With(fixture.MACMember, bytes.ToUpper(a.Content(fixture.MACMember))), verifier.SignatureInvalid, "seal.mac"},
		{"signature of nothing", a.With(fixture.SigMember, []byte("signature\n")), verifier.SignatureInvalid, "seal.sig"},
		{"signature of another seal", a.With(fixture.SigMember, sign(t, "alice", otherSeal)), verifier.SignatureInvalid, "seal.sig"},
		{"signature by another", a.With(fixture.SigMember, sign(t, "bob", text)), verifier.NoTrustedSeal, "seal.sig"},
		{"no MAC", a.Without(fixture.MACMember), verifier.SealMembers, "seal.mac"},
		{"no signature", a.Without(fixture.SigMember), verifier.SealMembers, "seal.sig"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := r.Options()
			o.Signers = signers(t, fixture.SignerLine("alice", ""))
			if test.want == verifier.NoTrustedSeal {
				o.Keys = nil
			}
			report := verify(t, pack(t, test.a), o)
			want(t, report, test.want)
			member(t, report, test.member)
		})
	}
}

// TestSignerChecksReceipts: a trusted signature covers the receipts whose MACs
// nobody checked.
func TestSignerChecksReceipts(t *testing.T) {
	t.Parallel()
	r := fixture.New()
	r.Statement.Sign = func(text []byte) ([]byte, error) { return fixture.Sign("alice", text) }
	tape := tapeOf(t, bundleOf(t, &r))
	i := tape.Completed()[3]
	tape.Frames[i].Payload[len(tape.Frames[i].Payload)-1] ^= 1 // a MAC
	if err := tape.Mint(nil); err != nil {
		t.Fatal(err)
	}
	a, err := tape.Resealed(nil)
	if err != nil {
		t.Fatal(err)
	}
	o := r.Options()
	o.Keys, o.Signers = nil, signers(t, fixture.SignerLine("alice", ""))
	report := verify(t, pack(t, a), o)
	want(t, report, verifier.SignatureInvalid, verifier.NoTrustedSeal)
	member(t, report, "seal.sig")
}
