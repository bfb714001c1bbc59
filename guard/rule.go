package guard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
)

// A rule is one thing to find, in one of three ways.
type rule struct {
	name       string // in kebab-case; unique and stable
	family     Family
	severity   Severity
	confidence float64
	says       string // what it is

	phrases []string                                // sequences of words, see [phrase]
	line    []string                                // literals that follow each other on a line: "a¦b" is a or b
	literal []string                                // where match is tried, in lower case
	match   func(b []byte, at int) (start, end int) // end 0: no match

	raw bool // match wants the bytes as they are, and not folded

	hit, miss string // an example, and what is nearly one

	detector string // set by allRules
}

// A detector is the rules of one file.
type detector struct {
	name  string
	rules []rule
}

// detectors returns every detector there is, except the one of receipts.
func detectors() []detector {
	return []detector{
		{"instructions", instructionRules},
		{"roles", roleRules},
		{"delimiters", delimiterRules},
		{"exfiltration", exfiltrationRules},
		{"tools", toolRules},
		{"hidden", hiddenRules},
		{"terminal", terminalRules},
		{"workflow", workflowRules},
		{"markup", markupRules},
		{"encoded", encodedRules},
		{"secrets", secretRules()},
	}
}

// A ruleSet is all rules, ready to be used.
type ruleSet struct {
	rules   []*rule
	byName  map[string]*rule
	raw     *triggers
	folded  *triggers
	phrases *phrases
	digest  string // of all
	secrets string // of the table of secrets
}

var compiled = sync.OnceValue(func() *ruleSet {
	s := &ruleSet{byName: map[string]*rule{}, raw: newTriggers(), folded: newTriggers(), phrases: newPhrases()}
	h := sha256.New()
	for _, d := range detectors() {
		for i := range d.rules {
			r := &d.rules[i]
			r.detector = d.name
			s.rules = append(s.rules, r)
			s.byName[r.name] = r
			fmt.Fprintf(h, "%q %q %q %q %v %q %q %q %v\n", d.name, r.name, r.family, r.severity, r.confidence, r.phrases, r.line, r.literal, r.raw)
			for _, p := range r.phrases {
				s.phrases.add(r, p)
			}
			t := s.folded
			if r.raw {
				t = s.raw
			}
			for _, l := range r.literal {
				t.add(l, r)
			}
			if r.line != nil {
				r.match = lineMatch(r.line)
				for l := range strings.SplitSeq(r.line[0], "¦") {
					t.add(l, r)
				}
			}
		}
	}
	table := sha256.New()
	for i := range secretTable {
		fmt.Fprintf(table, "%s\n", secretTable[i].text())
	}
	s.secrets = "sha256:" + hex.EncodeToString(table.Sum(nil))
	fmt.Fprintf(h, "%s\n", s.secrets)
	s.digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return s
})

// Digest returns a digest of the rules' table. What two guards with the same digest say
// of a result differs at most where the code of a rule was corrected.
func Digest() string { return compiled().digest }

// maxLine is how far the literals of a rule's line may be apart, all of them together.
const maxLine = 256

// lineMatch returns a function that finds the literals of each group behind those of the
// group before it, on one line.
func lineMatch(groups []string) func([]byte, int) (int, int) {
	literals := make([][][]byte, len(groups))
	for i, g := range groups {
		for l := range strings.SplitSeq(g, "¦") {
			literals[i] = append(literals[i], []byte(l))
		}
	}
	return func(b []byte, at int) (int, int) {
		if at > 0 && isWord(b[at]) && isWord(b[at-1]) {
			return 0, 0
		}
		end := at
		rest := b[at:min(len(b), at+maxLine)]
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			rest = rest[:i]
		}
		for i, group := range literals {
			best, size := -1, 0
			for _, l := range group {
				where := rest
				if i == 0 {
					where = rest[:min(len(rest), len(l))]
				} else if best >= 0 {
					where = rest[:min(len(rest), best+len(l)-1)]
				}
				if n := bytes.Index(where, l); n >= 0 {
					best, size = n, len(l)
				}
			}
			if best < 0 {
				return 0, 0
			}
			end += best + size
			rest = rest[best+size:]
		}
		return at, end
	}
}

// triggers finds where rules may match: at literals.
type triggers struct {
	pairs [1 << 16]uint16 // which of the lists is for the first two bytes; 0: none
	lists [][]trigger
}

type trigger struct {
	literal string
	rule    *rule
}

func newTriggers() *triggers { return &triggers{lists: make([][]trigger, 1)} }

func (t *triggers) add(literal string, r *rule) {
	for second := range 256 {
		if len(literal) > 1 && second != int(literal[1]) {
			continue
		}
		p := uint16(literal[0])<<8 | uint16(second)
		if t.pairs[p] == 0 {
			t.pairs[p] = uint16(len(t.lists))
			t.lists = append(t.lists, nil)
		}
		t.lists[t.pairs[p]] = append(t.lists[t.pairs[p]], trigger{literal, r})
	}
}

// find calls hit for each match in b, whose lower case is given. Two matches of one rule
// do not overlap.
func (t *triggers) find(b, lower []byte, hit func(r *rule, start, end int)) {
	last := map[*rule]int{}
	for i := range lower {
		p := uint16(lower[i]) << 8
		if i+1 < len(lower) {
			p |= uint16(lower[i+1])
		}
		if t.pairs[p] == 0 {
			continue
		}
		for _, c := range t.lists[t.pairs[p]] {
			if len(lower)-i < len(c.literal) || string(lower[i:i+len(c.literal)]) != c.literal || i < last[c.rule] {
				continue
			}
			text := b
			if c.rule.line != nil {
				text = lower
			}
			if start, end := c.rule.match(text, i); end > 0 {
				last[c.rule] = end
				hit(c.rule, start, end)
			}
		}
	}
}

// lowerASCII returns b with its ASCII letters in lower case.
func lowerASCII(b []byte) []byte {
	l := make([]byte, len(b))
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		l[i] = c
	}
	return l
}

// alone is the match of a rule that is a literal and no more.
func alone(literal string) func([]byte, int) (int, int) {
	return func(_ []byte, at int) (int, int) { return at, at + len(literal) }
}
