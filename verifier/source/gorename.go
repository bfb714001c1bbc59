package source

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"go/scanner"
	"go/token"
	"hash/fnv"
	"slices"
)

// A GoRename is a test that is gone, and a new one in the same package that is
// the same or similar; or a test whose package has another import path.
type GoRename struct {
	Package, From, To string
	In                string // import path of the package of To, if it is another one
}

const (
	maxGoPairs  = 1 << 16 // comparisons of tests of a package that are not equal
	maxGoTokens = 1 << 26 // of all tests that are compared, each time it is
	minGoWords  = 20      // names and literals of a test that another one can have grown out of
)

// renames pairs tests of a package that are gone with new ones: first those
// with equal tokens, but for the name, in the order of both lists, then those
// that are most alike, down to four fifths, then those that the new one has grown
// out of: it has nine tenths of the names and literals. Comparing all with all costs
// as much as their product; beyond a bound of it only equal ones are found.
func renames(gone, added []*goFunc) [][2]*goFunc {
	if len(gone) == 0 || len(added) == 0 {
		return nil
	}
	var pairs [][2]*goFunc
	equal := make(map[[32]byte][]int)
	bodies := make([]goBody, len(added))
	for i, f := range added {
		bodies[i] = readGoBody(f)
		equal[bodies[i].sum] = append(equal[bodies[i].sum], i)
	}
	taken := make([]bool, len(added))
	type left struct {
		f    *goFunc
		body goBody
	}
	var rest []left
	for _, f := range gone {
		body := readGoBody(f)
		if same := equal[body.sum]; len(same) > 0 {
			equal[body.sum] = same[1:]
			taken[same[0]] = true
			pairs = append(pairs, [2]*goFunc{f, added[same[0]]})
			continue
		}
		rest = append(rest, left{f, body})
	}
	if len(rest)*len(added) > maxGoPairs {
		return pairs
	}
	type match struct {
		from, to         int
		common, together int
		grown            bool
	}
	var matches []match
	work := 0
	for i, l := range rest {
		for j, f := range added {
			if taken[j] || l.f.kind != f.kind {
				continue
			}
			if work += len(l.body.tokens) + len(bodies[j].tokens); work > maxGoTokens {
				return pairs
			}
			m := match{from: i, to: j, grown: !l.body.alike(&bodies[j])}
			if m.grown && !l.body.grewInto(&bodies[j]) {
				continue
			}
			m.common = commonTokens(l.body.tokens, bodies[j].tokens)
			m.together = len(l.body.tokens) + len(bodies[j].tokens) - m.common
			matches = append(matches, m)
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int {
		switch {
		case a.grown == b.grown:
			return cmp.Compare(b.common*a.together, a.common*b.together)
		case b.grown:
			return -1
		}
		return 1
	})
	paired := make([]bool, len(rest))
	for _, m := range matches {
		if !paired[m.from] && !taken[m.to] {
			paired[m.from], taken[m.to] = true, true
			pairs = append(pairs, [2]*goFunc{rest[m.from].f, added[m.to]})
		}
	}
	return pairs
}

// A goBody is a function as a sequence and as a bag of tokens.
type goBody struct {
	sum    [32]byte
	tokens []uint64 // hashes, sorted
	words  []uint64 // of them, names and literals
}

func readGoBody(f *goFunc) goBody {
	var b goBody
	file := token.NewFileSet().AddFile("", -1, len(f.source))
	var s scanner.Scanner
	s.Init(file, f.source, func(token.Position, string) {}, 0)
	sum := sha256.New()
	for {
		_, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON {
			text = "" // also that of a line's end
		}
		if tok == token.IDENT && text == f.Name {
			text = "" // its own name
		}
		h := fnv.New64a()
		h.Write([]byte{byte(tok)})
		h.Write([]byte(text))
		b.tokens = append(b.tokens, h.Sum64())
		if tok.IsLiteral() && text != "" {
			b.words = append(b.words, h.Sum64())
		}
		sum.Write(binary.LittleEndian.AppendUint32([]byte{byte(tok)}, uint32(len(text))))
		sum.Write([]byte(text))
	}
	sum.Sum(b.sum[:0])
	slices.Sort(b.tokens)
	slices.Sort(b.words)
	return b
}

// alike reports whether four fifths of what either body has are in both.
func (b *goBody) alike(o *goBody) bool {
	n, m := len(b.tokens), len(o.tokens)
	if 5*min(n, m) < 4*max(n, m) {
		return false
	}
	common := commonTokens(b.tokens, o.tokens)
	return 5*common >= 4*(n+m-common)
}

// grewInto reports whether nine tenths of a body's names and literals are in a
// longer one. Of a short body they would be in many.
func (b *goBody) grewInto(o *goBody) bool {
	return len(b.words) >= minGoWords && len(b.words) <= len(o.words) &&
		10*commonTokens(b.words, o.words) >= 9*len(b.words)
}

// commonTokens returns the size of the intersection of two sorted bags.
func commonTokens(a, b []uint64) int {
	n := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			n++
			i++
			j++
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return n
}
