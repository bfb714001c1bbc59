package bundle

import "strings"

// matchList matches s against an OpenSSH pattern list: patterns with commas
// between them, in which * stands for any text and ? for one byte. A pattern
// after ! that matches excludes s whatever else matches.
func matchList(list, s string) bool {
	found := false
	for p := range strings.SplitSeq(list, ",") {
		negated := strings.HasPrefix(p, "!")
		if !matchPattern(strings.TrimPrefix(p, "!"), s) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

// hasPositive reports whether a pattern list can match anything.
func hasPositive(list string) bool {
	for p := range strings.SplitSeq(list, ",") {
		if p != "" && p[0] != '!' {
			return true
		}
	}
	return false
}

// matchPattern takes at most len(pattern)·len(s) steps: only the last * is
// ever tried again.
func matchPattern(pattern, s string) bool {
	p, i := 0, 0
	star, from := -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
