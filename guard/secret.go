package guard

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
)

// How far the search for secrets looks: ahead of where one can begin, and behind.
const (
	ahead  = 9 << 10
	behind = 128
)

// A part of a shape.
type part struct {
	literal  string // "": of an alphabet
	set      *[256]bool
	min, max int
	name     bool // ~: separators
}

// A shape is where a secret is looked for: at the first literal of it.
type shape struct {
	secret int // its index in secretTable
	parts  []part
	first  int // the part that is the literal
	before int // bytes before it
}

type secretIndex struct {
	pairs [1 << 16]uint8 // which of the lists is for two bytes; 0: none
	lists [][]shape
}

var secretShapes = sync.OnceValue(func() *secretIndex {
	x := &secretIndex{lists: make([][]shape, 2)} // the second is for what ends and begins keys
	x.pairs[uint16('-')<<8|uint16('-')] = 1
	for i := range secretTable {
		for text := range strings.SplitSeq(secretTable[i].shape, " | ") {
			s := parseShape(text)
			s.secret = i
			l := s.parts[s.first].literal
			p := uint16(l[0])<<8 | uint16(l[1])
			if x.pairs[p] == 0 {
				x.pairs[p] = uint8(len(x.lists))
				x.lists = append(x.lists, nil)
			}
			x.lists[x.pairs[p]] = append(x.lists[x.pairs[p]], s)
		}
	}
	return x
})

func parseShape(text string) shape {
	s := shape{first: -1}
	for _, f := range strings.Fields(text) {
		switch {
		case f == "~":
			s.parts = append(s.parts, part{name: true})
		case f[0] == '\'':
			if s.first < 0 {
				s.first = len(s.parts)
			}
			s.parts = append(s.parts, part{literal: strings.Trim(f, "'")})
		default:
			low, high, two := strings.Cut(f[1:], "-")
			p := part{set: new([256]bool)}
			p.min, _ = strconv.Atoi(low)
			if p.max = p.min; two {
				p.max, _ = strconv.Atoi(high)
			}
			for _, c := range []byte(alphabets()[f[0]]) {
				p.set[c] = true
			}
			if s.first < 0 {
				s.before += p.min
			}
			s.parts = append(s.parts, p)
		}
	}
	return s
}

// match matches the shape whose first literal is at b[at:], and returns the span of what
// is secret.
func (s *shape) match(b []byte, at int) (start, end int) {
	check := secretTable[s.secret].check
	start = at - s.before
	if start < 0 {
		return 0, 0
	}
	token, i, exact := start, start, true
	var seen [256]bool
	distinct, variable := 0, 0
	for n, p := range s.parts {
		switch {
		case p.name:
			for i < len(b) && i-at < 64 && strings.IndexByte(" \t\"'=:>\\", b[i]) >= 0 {
				i++
			}
			start, token = i, i
		case p.literal != "":
			if len(b)-i < len(p.literal) || string(b[i:i+len(p.literal)]) != p.literal {
				return 0, 0
			}
			i += len(p.literal)
		default:
			from := i
			for i < len(b) && i-from < p.max && p.set[b[i]] {
				if !seen[b[i]] {
					seen[b[i]] = true
					distinct++
				}
				i++
			}
			if i-from < p.min {
				return 0, 0
			}
			variable += i - from
			if n == len(s.parts)-1 && i < len(b) && p.set[b[i]] {
				exact = false
			}
		}
	}
	sure := check != nil && secretTable[s.secret].name == "github-token"
	switch {
	case check != nil && !check(b[token:i]),
		!sure && (!exact || !boundary(b, start)),
		distinct < min(8, variable/3): // xxxx
		return 0, 0
	}
	return afterEscape(b, start), i
}

// boundary reports whether a token may begin at b[i]: no word goes on there. What ends an
// escape is no part of a word: of a string, a URL or a terminal.
func boundary(b []byte, i int) bool {
	if i == 0 || !isWord(b[i-1]) && b[i-1] != '_' {
		return true
	}
	if i > 1 && b[i-2] == '\\' && strings.IndexByte("nrtbf", b[i-1]) >= 0 {
		return true
	}
	if i > 2 && b[i-3] == '%' && isHex(b[i-2]) && isHex(b[i-1]) {
		return true
	}
	if i > 5 && b[i-6] == '\\' && b[i-5] == 'u' {
		return true
	}
	if b[i-1] == 'm' {
		for j := i - 2; j > 0 && i-j < 24; j-- {
			if b[j] == '[' {
				return true
			}
			if b[j] != ';' && (b[j] < '0' || b[j] > '9') {
				return false
			}
		}
	}
	return false
}

// afterEscape returns the first place from i on that is not inside of an escape of a JSON
// string: what is there must stay.
func afterEscape(b []byte, i int) int {
	if i > 0 && b[i-1] == '\\' {
		if b[i] == 'u' {
			return i + 5
		}
		return i + 1
	}
	for back := 2; back <= 5 && i-back >= 0; back++ {
		if b[i-back] == '\\' {
			if b[i-back+1] == 'u' {
				return i - back + 6
			}
			return i
		}
	}
	return i
}

// A secretScan finds secrets in a text that it may get in pieces. What it keeps from one
// piece to the next is whether a private key goes on, and where the last secret ended.
type secretScan struct {
	last  int // where the last one ended
	key   bool
	lines int // since the key began
	idle  int // lines since the last one that was of the key
}

// How long a private key may go on, and lines that are none of it in between.
const (
	maxKeyLines = 400
	maxIdle     = 8
	maxKeyLine  = 8 << 10
	minKeyLine  = 16
)

// scan calls hit for each secret that is found at b[from:to], in order. Unless b has the
// end of the text, it has to have `ahead` bytes more, and `behind` bytes before, or all
// that there are.
func (s *secretScan) scan(b []byte, from, to int, hit func(secret, start, end int)) {
	x := secretShapes()
	for i := from; i < to; i++ {
		if s.key {
			s.keyByte(b, i, hit)
		}
		if i+1 >= len(b) {
			break
		}
		list := x.pairs[uint16(b[i])<<8|uint16(b[i+1])]
		switch list {
		case 0:
			continue
		case 1:
			s.keyMark(b, i)
		}
		shapes := x.lists[list]
		for n := range shapes {
			c := &shapes[n]
			l := c.parts[c.first].literal
			if len(b)-i < len(l) || string(b[i:i+len(l)]) != l {
				continue
			}
			start, end := c.match(b, i)
			if start = max(start, s.last); end > start {
				s.last = end
				hit(c.secret, start, end)
				break
			}
		}
	}
}

// keyMark begins and ends a private key.
func (s *secretScan) keyMark(b []byte, i int) {
	label, begin := bytes.CutPrefix(b[i:min(len(b), i+72)], []byte("-----BEGIN "))
	if begin {
		label, _, _ = bytes.Cut(label, []byte("-----"))
		if bytes.HasSuffix(label, []byte("PRIVATE KEY")) || bytes.HasSuffix(label, []byte("PRIVATE KEY BLOCK")) {
			s.key, s.lines, s.idle = true, 0, 0
		}
	} else if bytes.HasPrefix(b[i:], []byte("-----END ")) {
		s.key = false
	}
}

// keyByte looks for a line of a private key: a run of base64 that a line, or a string,
// begins with, and a line end, or the escape of one, behind it.
func (s *secretScan) keyByte(b []byte, i int, hit func(secret, start, end int)) {
	if b[i] == '\n' {
		s.lines++
		if s.idle++; s.idle > maxIdle || s.lines > maxKeyLines {
			s.key = false
		}
		return
	}
	if i < s.last || !isStd64(b[i]) || !lineStart(b, i) {
		return
	}
	end, letters := i, false
	for end < len(b) && end-i < maxKeyLine && isStd64(b[end]) {
		c := b[end] | 0x20
		letters = letters || 'a' <= c && c <= 'z' && c != 'e'
		end++
	}
	for pad := 0; pad < 2 && end < len(b) && b[end] == '='; pad++ {
		end++
	}
	if end-i < minKeyLine || !letters || end < len(b) && strings.IndexByte("\r\n\\-", b[end]) < 0 {
		return
	}
	s.idle, s.last = 0, end
	hit(len(secretTable), i, end)
}

func isStd64(c byte) bool { return isBase64(c) && c != '-' && c != '_' }

// lineStart reports whether nothing but blanks is between b[i] and the beginning of its
// line or string.
func lineStart(b []byte, i int) bool {
	for j := i - 1; ; j-- {
		switch {
		case j < 0:
			return true
		case i-j > behind/2:
			return false
		case b[j] == '\n' || b[j] == '"':
			return true
		case (b[j] == 'n' || b[j] == 'r') && j > 0 && b[j-1] == '\\':
			return true
		case b[j] != ' ' && b[j] != '\t' && b[j] != '\r':
			return false
		}
	}
}

// findSecrets calls hit for each secret in b: with its index in [secretTable], or one more
// for a private key.
func findSecrets(b []byte, hit func(secret, start, end int)) {
	new(secretScan).scan(b, 0, len(b), hit)
}

// secret returns the rule of a secret by its index.
func (s *ruleSet) secret(i int) *rule {
	if i == len(secretTable) {
		return s.byName[privateKeyName]
	}
	return s.byName[secretTable[i].name]
}
