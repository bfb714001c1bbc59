// Package jws verifies signed tokens in the compact form of JSON Web Signature
// (RFC 7515), as OpenID Connect issuers make them, offline and under keys that the
// caller has pinned.
//
// # Tokens
//
// A token is three parts with dots between them, and nothing else:
//
//	BASE64URL(header) . BASE64URL(payload) . BASE64URL(signature)
//
// [Parse] refuses what two readers could read differently, or a careless one
// believe:
//
//   - more than [MaxToken] bytes, or more or fewer than three parts;
//   - base64url with padding, white space, characters of the standard alphabet or
//     stray bits at its end: each part has one encoding, and none is empty;
//   - a header or payload that is not one JSON object in UTF-8, with members that
//     occur twice or differ by case only, at any depth, or nested deeper than 8;
//   - a header without alg or kid, or with a typ other than JWT;
//   - a header with jwk, jku, x5c or x5u, which carry or name a key: keys come from the
//     caller alone;
//   - a header with crit, b64, zip, enc or cty, which change how the rest is read.
//
// Other members of the header, such as x5t, mean nothing here. A [Profile] is for other
// tokens than those of OpenID Connect: it has the values of typ, so that a token of one
// kind does not pass as one of another, and can do without kid. All else is the same.
//
// # Signatures
//
// A [Token] gives nothing away. [KeySet.Verify] and [Verifier.Verify] do, to a caller
// who has said which algorithms count: the header chooses among those, and never beyond.
// They are of one family, the kind of their keys, so that no public key is ever used as a
// secret. There is no "none".
//
//	EdDSA Ed25519         OKP  RFC 8032 on edwards25519: 64 bytes
//	ES256 ES384 ES512     EC   r and s, each as long as the curve's numbers; the curve
//	                           goes with the algorithm: P-256, P-384, P-521
//	RS256 RS384 RS512     RSA  as long as the modulus, of 2048 to 8192 bits
//	PS256 PS384 PS512     RSA  the same; the salt is as long as the hash
//	HS256 HS384 HS512     oct  as long as the hash, and the secret as long or longer
//
// [NewVerifier] refuses keys that are not points of their curve, RSA keys that a flaw of
// Infineon's library made easy to factor, and secrets that are the text of a key with a
// public half.
//
// A signature is no name for a token: of ECDSA, whoever has one can make another. Only
// what it covers is what its key's holder said.
//
// Verification does not look at a clock, and a [KeySet] knows no claim but iat. Whether
// issuer, audience, times and all else are the right ones is the caller's to compare.
//
// # Keys
//
// [ParseKeySet] reads a JSON Web Key Set (RFC 7517), of which it knows
//
//	{"keys":[{"kty":"RSA","kid":ID,"alg":"RS256","use":"sig","n":BASE64URL,"e":BASE64URL,
//	          "issuer":URL,"not_after":"2006-01-02T15:04:05Z"}]}
//
// kty, kid, n and e are required, and other members are ignored. Keys of another kty or
// alg, or for another use (use, key_ops) are left out. A key has 2048 to 8192 bits and
// an odd exponent of 3 or more. A set has at most [MaxKeys] keys in [MaxKeySet] bytes, at
// least one that is not left out, and no two with one kid.
//
// Two members are this package's own. A key vouches for the tokens of its issuer and
// nobody else's. A key with not_after is a retired one: it still verifies the tokens
// that its issuer made by then, as their iat says. Who has learned a retired key can
// write any iat, so a key that leaked has to be removed.
package jws
