package verifier

import (
	"slices"
	"strings"
)

// A signer is someone who vouches for a seal: the names under which an anchor knows
// the key or workflow.
type signer struct {
	names []string
	who   string // for people
}

// counted returns who of those that vouch for a seal counts for the policy.
func (p *GatePolicy) counted(r *report) (by []signer) {
	for _, t := range r.trust {
		if !slices.Contains(p.Seals, t.Kind) {
			continue
		}
		names := []string{t.Who}
		switch t.Kind {
		case SealOIDC:
			names[0] = r.workflows[t]
		case SealSSH:
			// A pattern names nobody in particular: such a line counts, as one and
			// the same unknown signer.
			names = slices.DeleteFunc(strings.Split(t.Who, ","), func(n string) bool { return checkName(n) != nil })
		}
		if p.Signers != nil {
			names = slices.DeleteFunc(names, func(n string) bool { return t.Kind == SealMAC || !slices.Contains(p.Signers, n) })
			if len(names) == 0 {
				continue
			}
		}
		by = append(by, signer{names, t.Who})
	}
	return by
}

// distinctSigners returns those that are different for sure. Two that have a name in
// common are one: otherwise someone with two keys, or two lines, would be two.
func distinctSigners(by []signer) []string {
	var groups []signer
	for _, s := range by {
		merged := signer{slices.Clone(s.names), strings.Join(s.names, ",")}
		if len(s.names) == 0 {
			merged.who = s.who
		}
		var rest []signer
		for _, g := range groups {
			if overlap(g.names, merged.names) {
				merged.names, merged.who = append(merged.names, g.names...), g.who
			} else {
				rest = append(rest, g)
			}
		}
		groups = append(rest, merged)
	}
	who := make([]string, len(groups))
	for i, g := range groups {
		who[i] = g.who
	}
	slices.Sort(who)
	return who
}

// overlap reports whether two signers may be the same: one without a name may be anyone.
func overlap(a, b []string) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	return slices.ContainsFunc(a, func(n string) bool { return slices.Contains(b, n) })
}

func trustText(trust []Trust) string {
	if len(trust) == 0 {
		return "nobody who is trusted"
	}
	var list []string
	for _, t := range trust {
		list = append(list, t.Kind+" "+t.Who)
	}
	return strings.Join(list, "; ")
}

func (p *GatePolicy) sealsText() string {
	text := strings.Join(p.Seals, ", ")
	if p.Signers != nil {
		text += " by " + strings.Join(p.Signers, ", ")
	}
	return text
}
