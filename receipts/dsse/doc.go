// Package dsse signs and verifies DSSE envelopes
// (https://github.com/secure-systems-lab/dsse): a payload of any bytes, a type
// that says how to read it, and signatures over both.
//
// # What is signed
//
// A signature covers [PAE] of type and payload, with one space between the parts
// and lengths in bytes as decimal numbers:
//
//	DSSEv1 LEN(type) type LEN(payload) payload
//
// so no type and payload read like another pair. A key id is not signed: it
// narrows down which verifiers are asked, and means nothing else.
//
// # Form
//
// An envelope is a JSON object. [Envelope.Append] writes, and [Parse] reads, one
// form: these members in this order, no white space, minimal escapes, padded
// standard base64 without stray bits; keyid is absent where it is empty.
//
//	{"payload":"…","payloadType":"…","signatures":[{"keyid":"…","sig":"…"}]}
//
// [ParseForeign] reads every envelope that the specification allows others to
// write: members in any order, white space, base64 of either alphabet with or
// without padding, members that it does not know, which it ignores. It still
// refuses what two readers could read differently: duplicate members and members
// that differ by case only, also inside ignored ones; bytes that are not UTF-8;
// null; base64 with line ends or stray bits.
//
// # Limits
//
// A payload has at most [MaxPayload] bytes, an envelope at most [MaxSignatures]
// signatures and at least one, a signature at most [MaxSignature] bytes, a key id
// and a type at most [MaxName] bytes; a type is not empty. Both parsers refuse a text
// with more than 4096 commas: no envelope needs them, and an object of millions of
// members costs far more memory than its text.
package dsse
