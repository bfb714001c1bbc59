package verifier

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
)

// Trust is a signature on the seal that an anchor vouches for.
type Trust struct {
	Kind string `json:"kind"` // "mac", "ssh" or "oidc"
	Who  string `json:"who"`  // as the anchor names it
}

// A KeyAnchor is a secret under which a receipt's MAC is trusted.
type KeyAnchor struct {
	Secret []byte // 32 bytes
	Who    string // for people: whose key this is
	// Asked: the caller named this key for this bundle. A seal that is not its
	// is then broken, and not merely made by someone else.
	Asked bool
}

// A Sidecar is a signature that was made after the bundle: an armored SSHSIG, or the
// token of an OIDC issuer, as it is, without a line end.
type Sidecar struct {
	Name  string
	Bytes []byte
}

// isToken tells a token by the name that it has beside a bundle, or by its form.
func (s *Sidecar) isToken() bool {
	return strings.HasSuffix(s.Name, ".oidc") || bytes.HasPrefix(s.Bytes, []byte("eyJ")) // {" in base64url
}

// key is asked for the receipt key once the log's salt is known. It tries the
// seal's MAC under each anchor: the one that made it also made the receipts'.
func (v *verification) key(salt receipts.Digest, task, job receipts.ID) (receipts.Key, error) {
	member := v.b.MAC()
	if member == nil {
		return receipts.Key{}, nil
	}
	mac, err := bundle.ParseMAC(member)
	if err != nil {
		return receipts.Key{}, v.stop(SignatureInvalid, memberMAC, "%v", err)
	}
	asked := false
	for _, a := range v.o.Keys {
		seal, err := receipts.DeriveKey(a.Secret, salt, receipts.PurposeSeal, task, job)
		if err != nil {
			return receipts.Key{}, fmt.Errorf("%s: %w", a.Who, err)
		}
		if seal.Verify(v.text, mac) {
			v.trust, v.macs = append(v.trust, Trust{"mac", a.Who}), true
			return receipts.DeriveKey(a.Secret, salt, receipts.PurposeReceipt, task, job)
		}
		asked = asked || a.Asked
	}
	if asked {
		return receipts.Key{}, v.stop(MACMismatch, memberMAC, "the given key did not make it")
	}
	return receipts.Key{}, nil
}

// signatures checks the signatures over the seal, in the bundle and beside it.
func (v *verification) signatures() error {
	if sig := v.b.Sig(); sig != nil {
		v.checkSSH(memberSig, sig, false)
	}
	for i := range v.o.Sidecars {
		if s := &v.o.Sidecars[i]; s.isToken() {
			v.checkToken(s)
		} else {
			v.checkSSH(s.Name, s.Bytes, true)
		}
	}
	untrusted := func(r Reason) bool { return r.Code == NoTrustedSeal || r.Code == StaleKeys }
	switch {
	case v.o.Unattested:
		v.trust, v.reasons = nil, slices.DeleteFunc(v.reasons, untrusted)
		v.because(Unattested, "", "the workflow of the run is the patch's own")
	case len(v.trust) > 0: // then it is no matter that another signature is not
		v.reasons = slices.DeleteFunc(v.reasons, untrusted)
	case !slices.ContainsFunc(v.reasons, untrusted):
		v.because(NoTrustedSeal, "", "no signature on the seal is one that you trust")
	}
	return nil
}

func (v *verification) checkSSH(member string, armored []byte, sidecar bool) {
	sig, err := bundle.ParseSSH(armored)
	if err == nil {
		err = sig.Verify(bundle.SealNamespace, v.text)
	}
	if err != nil {
		v.because(SignatureInvalid, member, "%v", err)
		return
	}
	who, ok, why := v.allowed(sig.Key())
	if ok {
		v.trust = append(v.trust, Trust{"ssh", who})
	} else if sidecar || v.o.Signers != nil {
		v.because(NoTrustedSeal, member, "signed by %s: %s", ssh.FingerprintSHA256(sig.Key()), why)
	}
}

func (v *verification) allowed(key ssh.PublicKey) (who string, ok bool, why string) {
	switch {
	case v.o.Signers == nil:
		return "", false, "no allowed_signers given"
	case v.o.Revoked != nil && v.o.Revoked.Contains(key):
		return "", false, "the key is revoked"
	}
	return v.o.Signers.Find(key, bundle.SealNamespace, v.o.Now)
}
