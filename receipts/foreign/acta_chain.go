package foreign

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// actaLinks check that a receipt comes after another. Which hash a link is, the first
// decides.
type actaLinks struct {
	rule     int // in the order of preimages
	decided  bool
	numbered bool // receipts have a sequence
}

// preimages returns what a link to r may be the hash of.
func (r *actaReceipt) preimages() [][sha256.Size]byte {
	all := [][sha256.Size]byte{r.hash, sha256.Sum256(r.signed[0])}
	if r.payload != nil {
		return append(all, sha256.Sum256(r.payload.Append(nil)))
	}
	bare := r.value.Without("signature", "public_key")
	return append(all, sha256.Sum256(bare.Append(nil)))
}

// linkDigest reads a link.
func linkDigest(link string) (d [sha256.Size]byte, ok bool) {
	if h := strings.TrimPrefix(link, "sha256:"); isHex(h, len(d)) {
		_, err := hex.Decode(d[:], []byte(h))
		return d, err == nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(link)
	if err != nil || len(raw) != len(d) || strings.ContainsAny(link, "\r\n") {
		return d, false
	}
	return [sha256.Size]byte(raw), true
}

// check answers whether r comes after before, which is nil where r is the first.
func (l *actaLinks) check(before, r *actaReceipt, j *judgment) {
	n, numbered := r.sequence()
	link := r.link()
	if before == nil {
		l.numbered = numbered
		switch {
		case link != "":
			j.find(&j.Chain, No, "no-genesis", "the first receipt comes after another: the start is missing")
		case numbered && n != 0 && n != 1:
			j.find(&j.Chain, No, "no-genesis", "the first receipt is number %d: the start is missing", n)
		}
		return
	}
	m, _ := before.sequence()
	digest, isDigest := linkDigest(link)
	follows := isDigest && l.follows(digest, before)
	switch {
	case r.form != before.form:
		j.find(&j.Chain, No, "mixed-forms", "%s after %s", r.form, before.form)
	case numbered != l.numbered:
		j.find(&j.Chain, No, "sequence-mismatch", "some receipts have a sequence and some have none")
	case follows && (!numbered || n == m+1):
	case follows:
		j.find(&j.Chain, No, "sequence-mismatch", "number %d is linked to number %d", n, m)
	case r.hash == before.hash:
		j.find(&j.Chain, No, "duplicate", "the receipt before is here again")
	case link == before.link() && (!numbered || n == m):
		j.find(&j.Chain, No, "fork", "this receipt and the one before come after the same: two writers, or one branch was put in")
	case numbered && n > m+1:
		j.find(&j.Chain, No, "gap", "number %d comes after number %d", n, m)
	case numbered && n <= m:
		j.find(&j.Chain, No, "reordered", "number %d comes after number %d", n, m)
	case link == "":
		j.find(&j.Chain, No, "restart", "a first receipt in the middle")
	default:
		j.find(&j.Chain, No, "link-mismatch", "%.80q is not the receipt before: that was changed or replaced, or some are missing", link)
	}
}

// follows reports whether a link is to before, under the rule of the chain.
func (l *actaLinks) follows(link [sha256.Size]byte, before *actaReceipt) bool {
	for rule, hash := range before.preimages() {
		if hash == link && (!l.decided || rule == l.rule) {
			l.rule, l.decided = rule, true
			return true
		}
	}
	return false
}
