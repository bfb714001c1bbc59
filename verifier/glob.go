package verifier

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// MatchPath reports whether one of the globs matches one of the paths, both
// with slashes and relative to the root of the tree. In a glob
//
//	?   matches one character but a slash
//	*   matches any number of characters but slashes
//	**  as a whole element matches any number of elements, also none
//
// and everything else matches itself: dir/** matches dir and all below it,
// **/*.go every Go file.
func MatchPath(globs []string, paths []string) bool {
	for _, glob := range globs {
		pattern := strings.Split(glob, "/")
		for _, path := range paths {
			if matchElements(pattern, strings.Split(path, "/")) {
				return true
			}
		}
	}
	return false
}

// matchElements goes back to the last ** only: what an earlier one could take
// more of, that one can take as well. So the time is bound by the product of
// the lengths.
func matchElements(pattern, path []string) bool {
	p, i := 0, 0
	star, from := -1, 0
	for i < len(path) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, from = p, i
			p++
		case p < len(pattern) && matchElement(pattern[p], path[i]):
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

// matchElement is matchElements within one element, where * is the star.
func matchElement(pattern, name string) bool {
	p, i := 0, 0
	star, from := -1, 0
	for i < len(name) {
		_, width := utf8.DecodeRuneInString(name[i:])
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && pattern[p] == '?':
			p++
			i += width
		case p < len(pattern) && pattern[p] == name[i]:
			p++
			i++
		case star >= 0:
			_, width := utf8.DecodeRuneInString(name[from:])
			from += width
			p, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// checkGlob refuses globs that could never match and characters that other
// tools give a meaning.
func checkGlob(glob string) error {
	if err := checkText(glob); err != nil {
		return err
	}
	if strings.ContainsAny(glob, `[]{}\`) || strings.HasPrefix(glob, "!") {
		return errors.New("only * ? and ** are special; [ ] { } \\ and a leading ! are not supported")
	}
	for _, element := range strings.Split(glob, "/") {
		switch {
		case element == "" || element == "." || element == "..":
			return errors.New("not a clean path relative to the root of the tree")
		case element != "**" && strings.Contains(element, "**"):
			return errors.New("** must be a whole element")
		}
	}
	return nil
}
