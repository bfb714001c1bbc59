package forge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/verifier"
)

// chainLinks are what makes the evidence one whole, in the order in which they are
// shown. Rank is when verification has gone through a link: those of a lower rank
// than the one that breaks were seen to hold.
var chainLinks = []struct {
	name  string
	rank  int
	codes []verifier.Code // with which it breaks
}{
	{"file", 2, []verifier.Code{verifier.NotABundle, verifier.Truncated, verifier.LimitExceeded, verifier.MalformedMember}},
	{"events", 1, []verifier.Code{verifier.LogBroken}},
	{"receipts", 1, []verifier.Code{verifier.ReceiptsBroken}},
	{"join", 4, []verifier.Code{verifier.JoinBroken}},
	{"blobs", 2, []verifier.Code{verifier.BlobMismatch, verifier.BlobMissing, verifier.BlobUnnamed}},
	{"seal", 3, []verifier.Code{verifier.MalformedSeal, verifier.SealMembers, verifier.SealMismatch}},
	{"anchors", 5, []verifier.Code{verifier.MACMismatch, verifier.SignatureInvalid}},
	{"contents", 6, []verifier.Code{verifier.PatchMismatch, verifier.PlanMismatch, verifier.CallsMismatch, verifier.EvidenceBroken, verifier.ImportBroken}},
	{"expected", 7, nil}, // what the caller asked for; every other code
}

// early reports whether a link breaks before anything else was read to its end. The
// seal's MAC is checked with the first frame of the log.
func early(r verifier.Reason) bool {
	switch r.Code {
	case verifier.NotABundle, verifier.Truncated, verifier.LimitExceeded, verifier.MalformedMember, verifier.MalformedSeal, verifier.SealMembers,
		verifier.MACMismatch:
		return true
	case verifier.SignatureInvalid:
		return r.Member == "seal.mac"
	}
	return false
}

// linkOf returns the index of the link that breaks with a code.
func linkOf(code verifier.Code) int {
	for i := range chainLinks {
		if slices.Contains(chainLinks[i].codes, code) {
			return i
		}
	}
	return len(chainLinks) - 1
}

// chainLine says in one line what holds the evidence together.
func (f *facts) chainLine() string {
	if !f.Report.Sound() {
		if f.verdict == verifier.Broken {
			return "broken at " + chainLinks[f.firstBreak()].name
		}
		return "none that could be verified"
	}
	seal, _ := f.Report.Seal()
	state := "intact"
	if f.Report.Has(verifier.NoEnd) {
		state = "intact, without an end"
	}
	return fmt.Sprintf("%s, %s, 1 seal: %s; sealed %s",
		plural(int(seal.Frames), "event", "events"), plural(int(seal.Receipts), "receipt", "receipts"), state, f.sealedBy())
}

// firstBreak returns the index of the link that the gravest reason is about.
func (f *facts) firstBreak() int {
	if len(f.reasons) == 0 {
		return len(chainLinks) - 1
	}
	return linkOf(f.reasons[0].Code)
}

// A chainRow is one line of the chain: its state is a mark of one character.
type chainRow struct{ mark, name, text string }

// chainRows returns the chain line by line. Of evidence that breaks it says no
// more than where it breaks, what was seen to hold before, and what was not
// looked at.
func (f *facts) chainRows() []chainRow {
	var rows []chainRow
	if f.Report.Sound() {
		said := f.chainFacts()
		for _, l := range chainLinks {
			if text := said[l.name]; text != "" {
				mark := "✓"
				if l.name == "anchors" && len(f.trust()) == 0 {
					mark = "–"
				}
				rows = append(rows, chainRow{mark, l.name, text})
			}
		}
		return rows
	}
	if f.verdict != verifier.Broken {
		return nil
	}
	first := len(chainLinks) - 1
	broken := map[int][]string{}
	reached := chainLinks[first].rank
	for _, reason := range f.reasons {
		c, err := verifier.CauseOf(reason.Code)
		if err != nil || c.Verdict != verifier.Broken {
			continue
		}
		i := linkOf(reason.Code)
		broken[i] = append(broken[i], string(reason.Code))
		rank := chainLinks[i].rank
		if early(reason) {
			rank = 0
		}
		reached = min(reached, rank)
	}
	for i, l := range chainLinks {
		switch {
		case broken[i] != nil:
			rows = append(rows, chainRow{"✗", l.name, "broken: " + strings.Join(broken[i], ", ")})
		case i == 0 || i > linkOf(verifier.MACMismatch): // beyond what every chain has
		case l.name == "anchors" && f.Report.Has(verifier.NoTrustedSeal):
			rows = append(rows, chainRow{"–", l.name, "none that is trusted"})
		case l.rank < reached:
			rows = append(rows, chainRow{"✓", l.name, "no contradiction"})
		default:
			rows = append(rows, chainRow{"–", l.name, "not looked at"})
		}
	}
	return rows
}

// chainFacts says what of each link was verified.
func (f *facts) chainFacts() map[string]string {
	seal, digest := f.Report.Seal()
	macs := "MACs checked"
	if !f.Report.MACsChecked() {
		macs = "MAC: not checked (no key)"
	}
	anchors := "none that is trusted"
	if len(f.trust()) > 0 {
		anchors = f.sealedBy()
	}
	return map[string]string{
		"events":   plural(int(seal.Frames), "frame", "frames") + ", each with the hash of the one before",
		"receipts": grouped(int(seal.Receipts)) + ", chained; " + macs,
		"join":     "every completed call has its one receipt, every receipt its one call",
		"blobs":    grouped(f.Report.Blobs()) + ", each is what its SHA-256 says",
		"seal":     "states all of it: " + code(digest.String()),
		"anchors":  anchors,
	}
}

// trust returns who vouches for the seal: nobody, where the patch could change who
// made it.
func (f *facts) trust() []verifier.Trust {
	if f.claimed {
		return nil
	}
	return f.Report.Trust()
}

// sealedBy says who vouches for the seal, and when the run ended.
func (f *facts) sealedBy() string {
	var who []string
	for _, t := range f.trust() {
		who = append(who, code(t.Kind+": "+t.Who))
	}
	text := "by nobody who is trusted here"
	if len(who) > 0 {
		text = "by " + strings.Join(who, " and ")
	}
	seal, _ := f.Report.Seal()
	return text + ", " + time.UnixMilli(int64(seal.End)).UTC().Format("2006-01-02 15:04:05 UTC")
}
