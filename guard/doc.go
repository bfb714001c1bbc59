// Package guard says whether a tool result is safe to show: to a model that would follow
// it, to a terminal that would obey it, to a CI log that would run it, to a reviewer who
// would believe it. It is pure: bytes in, a report out.
//
// # Scan
//
// [Guard.Scan] reads the content of a [Result] and returns a [Report]. Content is always
// scanned, with a trusted receipt, too: a receipt says where text is from, not what it
// asks for. A report lists detections, and sums them up: their families, a confidence,
// which is the mean over the families of the highest confidence in each, an advice, and
// an action. The verdict is a value: an error means that there is no report, and
// [Report.Blocked] is what enforces one.
//
//	mode      nothing found   something found                    receipt not trusted
//	block     pass            block                              block, "untrusted origin"
//	flag      pass            flag                               flag
//	log       pass            log                                flag
//	sanitize  pass            flag, and a text without it        flag
//
// The scan id is SHA-256 over all that shapes the report but the time, each part behind
// its length: mode, [Digest], provenance, content, and with an adapter the receipt and
// the binding. The same question has the same id.
//
// # Receipts
//
// Without an adapter, a result with a receipt is [ErrNoAdapter]. With one, everything but
// a trusted verification is untrusted: no receipt (the adapter is not called), an error,
// a panic, bytes left unread, a binding that was asked for and not answered. An untrusted
// receipt adds the family [UntrustedOrigin] and exactly one detection, of detector
// receipt_verification, severity high and confidence 1, for those who look at detections
// only. It has no span: it stands behind the others.
//
// # Rules
//
// docs/guard.md lists the rules. A rule is a sequence of words, of literals on a line, or
// a literal and a function. Words are compared without case, accents, invisible characters
// and colours of a terminal, with full-width and look-alike letters as Latin ones, digits
// as the letters that they resemble, and letters spelled one by one put together. What is
// in base64, hexadecimal, rot13 or escapes is decoded and scanned once, not again.
// Spans are of the bytes of the content as it came.
//
// Not found, by default: colours and styles of a terminal, the erasing of the rest of a
// line; badges; placeholders such as ghp_xxxx and the keys that AWS uses in examples;
// characters that scripts and emoji need. Not found at all: attacks in words that no rule
// has. A clean report is no proof of good faith.
//
// # Sanitized text
//
// [Sanitize] replaces what was found by [Placeholder], line ends kept, until a scan of the
// rest finds nothing; where removal brings new things together, whole lines go, and in the
// end everything does. A sanitized text sanitizes to itself.
//
// # Secrets in a stream
//
// A [Redactor] replaces each byte of each secret by an asterisk, so that lengths and
// offsets stay. It finds what the rules of detector secrets find, in any number of pieces
// the same, looking 9 KiB ahead: no token is longer. Only bytes of a token's own alphabet
// are replaced, none of which means anything to JSON, and a byte that belongs to an
// escape before the token stays: valid JSON stays valid, of the same structure.
//
// Of a private key, every line of 16 characters or more between BEGIN and END is replaced,
// also where each is a string of its own, as in the output of go test -json. A key without
// an END goes on until 8 lines are none of it. So two things are left: a last line of
// fewer than 16 characters (11 bytes, of the end of the structure), and lines of a key
// that more than 8 lines of others came in between of.
//
// A secret that has no form of its own, such as a password, cannot be found so. Nor can
// one that is encoded: those are the scan's.
//
// # Limits
//
// Content and a receipt have at most [MaxContent] bytes each: more is a [SizeError].
// A report lists at most [MaxDetections] detections of one rule, and counts the rest; no
// rule can crowd out another. Time is linear in the content.
package guard
