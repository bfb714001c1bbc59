// Package pipelock reads the receipts that Pipelock, a proxy between an agent and the
// network, makes of what it let pass: action receipts (version 1), evidence receipts
// (version 2), the chains of both, and the flight recorder that they are stored in.
//
// It reads and compares. Whose key counts, what time it is, and what a receipt should be
// about are its caller's questions: see package foreign.
//
// # Action receipts
//
// A receipt is one JSON object of at most [MaxReceipt] bytes:
//
//	{"version":1,"action_record":{…},"signature":"ed25519:<128 hex>","signer_key":"<64 hex>","ext":<any>}
//
// ext may be absent. The record's members and those inside them are the tables of
// schema.go, in the order of the canonical form. A member that is "always" there is
// required. Another may be absent, zero (false, 0, "", [], {}) or null, which is all the
// same; an object that is there and empty is not zero.
//
// The canonical form of a receipt has the members in that order, those that are zero and
// not always there left out, and
//
//   - no white space and no end of line;
//   - strings in UTF-8 with the escapes \" \\ \b \f \n \r \t, \u00xx in lower case for
//     other characters below U+0020, and \u003c \u003e \u0026 \u2028 \u2029 for < > & and
//     the two line separators; nothing else is escaped;
//   - integers in plain decimal, |n| < 2^53; no other numbers;
//   - times in RFC 3339 with their offset, Z for none, and a fraction of a second without
//     zeros at its end; T and Z in upper case, at most nine digits of a fraction are read;
//   - delegation_chain as it is: null is not [];
//   - by_class in the order of its names' bytes;
//   - ext without white space and with the five escapes, and otherwise as it is written.
//
// The signature is Ed25519 over the 32 bytes SHA-256(canonical action_record). The hash
// of a receipt, by which the next one and an expected head name it, is
//
//	hex(SHA-256(canonical receipt))
//
// So ext is in the hash and not in the signature: to change it breaks the next link only.
//
// # What is refused
//
// [Decoder.Decode] refuses, with the first of these codes that is true of a text:
//
//	malformed-json           not UTF-8, a byte order mark, lone surrogates, not one JSON object, more behind it
//	nested-too-deeply        more than 128 levels, the receipt itself being the first
//	duplicate-key            twice in one object at any depth, once escapes are read; in ext, too
//	unknown-field            but in ext; names count byte by byte, "Verdict" is unknown
//	wrong-type               null for what is always there, a fraction, a number out of its range
//	unsafe-number            an integer beyond 2^53
//	unsupported-version      a version that is not 1
//	missing-required-field   one that is always there is absent, or action_id, timestamp, target, verdict,
//	                         transport, signature or signer_key is empty
//	invalid-action-type      not read derive write delegate authorize spend commit actuate unclassified
//	session-control-invalid  not exactly one payload, that of its kind
//	not-canonical            if [Decoder.Exact]: not the canonical form, or upper-case digits in the signature
//
// An object around a receipt that declares its length, or around receipts that declares
// their number, is refused as padding-attack or receipt-count-mismatch where it lies, and
// as unknown-wrapper where not: nothing signs it.
//
// Without Exact, one receipt has many texts, all with one canonical form, one signature
// and one hash. Upper-case digits in a signature are the exception: they stay, and make
// another hash.
//
// # Chains
//
// A chain is receipts, one a line; lines of white space mean nothing. [Chain] holds them
// to their order:
//
//   - the first has chain_seq 0 and as chain_prev_hash "genesis", or "g1:" and a hash of
//     the session_open that it is; the others have the next chain_seq, the hash of the
//     receipt before and its signer_key;
//   - a receipt with key_transition begins a segment of another key with chain_seq 0. It
//     names the key, last chain_seq and last hash of the segment before. It is signed with
//     the new key: that the old one's holder agrees is what an [Endorsement] says;
//   - a receipt with run_nonce is of a run, whose first receipt is its session_open. A
//     heartbeat and the session_close name the run that was opened last and the receipt
//     before them; a session_close has its own chain_seq as final_seq and the number of
//     the segment's receipts, itself included. Nothing of a run comes after its close.
//
// What is wrong has a code: gap (receipts are missing), fork (two after one: two writers,
// or history written anew), replay-detected (one is there twice), out-of-order,
// chain-break (the right place after another receipt: something before it was replaced),
// rotation-invalid, signer-changed, genesis-mismatch, session-open-invalid,
// heartbeat-invalid, session-close-invalid, record-after-close, run-not-opened. A fork
// and a repetition are told from out-of-order for the last 1,024 receipts of a segment. A
// chain has at most 65,536 runs.
//
// Any beginning of a chain is a chain. That it is all of it shows if its last receipt is
// a session_close, if its head or last chain_seq is known from elsewhere, or by a
// transcript_root.
//
// The hash of a session_open is "g1:" and hex(SHA-256) of these, each with its length as
// eight bytes, big-endian, before it: "pipelock.receipt.session_open.v1", run_nonce,
// open_nonce, recorder_session, policy_hash, signer_key_epoch, heartbeat_seconds as eight
// bytes, big-endian (0 if negative), genesis_anchor_head, genesis_anchor_log,
// posture_capsule_sha256, containment_nonce, contained_uid. An absent one is empty.
//
// An endorsement is a JSON object with the members of endorsement.go, of which the last
// is "ed25519:" and the old key's signature over
//
//	SHA-256("pipelock-rotation-endorsement-v1" ‖ 0 ‖ canonical form of the other members)
//
// # Evidence receipts
//
// A receipt of version 2 has record_type "evidence_receipt_v2" and the members of
// [Decoder.Evidence]; canonicalization has the seven values of evidence.go, crit names
// canonicalization, and source_spans where the payload has them, and nothing else. The
// payload has the members that its kind has. Objects and lists inside a payload
// (source_spans, aggregation, ratification_decision_per_rule) may hold anything.
//
// Its canonical form is close to RFC 8785, and is not it: strings and names are in
// Unicode's normalization form C and escaped as above, members are in the order of their
// names' code points, and numbers are integers below 2^53. Two names that are one in form
// C are duplicate-key. Values are taken as they are: a member that is absent is not one
// that is zero. The signature is Ed25519 over the canonical form itself with the four
// strings of the member signature empty; the hash is hex(SHA-256(canonical form)). It has
// no key in it: signer_key_id is a name, or a key's 64 digits.
//
// In a chain, chain_seq counts from 0 and the first chain_prev_hash is "genesis". Nothing
// marks its end.
//
// # Flight recorders
//
// A recorder's lines are entries, each with one of both kinds of receipts or with
// something else in detail; the receipts of each kind are a chain by themselves. seq
// counts from 0, prev_hash is the hash of the entry before ("genesis"), and hash is the
// hexadecimal SHA-256 of these, with a NUL between them: v, seq, ts (in UTC), session_id,
// chain_kind and writer_instance_id (v 3), trace_id, type, event_kind (v 2 and 3),
// transport, summary, detail as it is stored (v 1: as encoding/json writes it again),
// raw_ref, prev_hash. A member with a NUL in it has no hash.
//
// A checkpoint's signature is Ed25519 over the text of the prev_hash of its entry. It
// covers all entries before it, if their hashes are right. A transcript_root counts the
// action receipts and names the last; nothing but checkpoints may come after it, and it
// proves something under a signed one.
//
// # What differs from the writer's own verifier
//
// Stricter: names by case; a member that is always written has to be there; chain_seq
// begins with 0; control characters in identifiers are told ([Receipt.Unsafe]). More
// lenient: aggregation of a shadow_delta may hold numbers, as the writer's own examples
// have them.
package pipelock
