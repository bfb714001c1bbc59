package foreign

import "crypto"

// A Key is an anchor: one that the caller trusts to vouch for receipts.
type Key struct {
	Name      string           // kid, principal or fingerprint; "" where it has none
	Public    crypto.PublicKey // ed25519.PublicKey, *ecdsa.PublicKey or *rsa.PublicKey; nil: Secret
	Secret    []byte           // of a MAC
	Algorithm string           // the only one that it is for; "": any of its family
}
