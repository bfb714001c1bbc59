package guard

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A phrase is a sequence of words, and is written so:
//
//	ignore|disregard ~3 previous|prior instructions
//
// Words between bars are one or the other; a word with a question mark may be missing;
// ~3 allows up to three other words at its place; @name is a list of [wordLists]. Words
// have no case, accents or apostrophes, and what is between them does not matter, except
// that a phrase does not go on beyond a sentence or a paragraph.
type phrase struct {
	rule     *rule
	elements []element
}

type element struct {
	words    map[uint16]bool
	gap      int // how many others may come before it
	optional bool
}

// phrases finds all phrases in one pass: where a word can be the last one of a phrase,
// it is compared backwards with the words before it.
type phrases struct {
	ids    map[string]uint16
	byLast [][]*phrase // by the id of a word
	long   int         // bytes of the longest word

	maybe [1 << 16 / 64]uint64 // sketches of the words: most others are none of them
}

func newPhrases() *phrases {
	return &phrases{ids: map[string]uint16{}, byLast: make([][]*phrase, 1)}
}

// sketch returns a number for a word that is quicker to have than its place in a map.
func sketch[T string | []byte](w T) uint16 {
	n := len(w)
	if n == 0 {
		return 0
	}
	return uint16(w[0])*31*31 ^ uint16(w[n/2])*31*7 ^ uint16(w[n-1])*31 ^ uint16(n)
}

// word returns the id of a word, or 0.
func (p *phrases) word(w []byte) uint16 {
	if s := sketch(w); p.maybe[s/64]&(1<<(s%64)) == 0 {
		return 0
	}
	return p.ids[string(w)]
}

func (p *phrases) add(r *rule, text string) {
	x := &phrase{rule: r}
	gap := 0
	for _, field := range strings.Fields(text) {
		if n, ok := strings.CutPrefix(field, "~"); ok {
			gap, _ = strconv.Atoi(n)
			continue
		}
		e := element{words: map[uint16]bool{}, gap: gap}
		gap = 0
		field, e.optional = strings.CutSuffix(field, "?")
		for w := range strings.SplitSeq(field, "|") {
			list := []string{w}
			if name, ok := strings.CutPrefix(w, "@"); ok {
				list = strings.Fields(wordLists()[name])
			}
			for _, w := range list {
				e.words[p.id(foldWord(w))] = true
			}
		}
		x.elements = append(x.elements, e)
	}
	for id := range x.elements[len(x.elements)-1].words {
		p.byLast[id] = append(p.byLast[id], x)
	}
}

func (p *phrases) id(word string) uint16 {
	id, ok := p.ids[word]
	if !ok {
		id = uint16(len(p.ids) + 1)
		p.ids[word] = id
		p.byLast = append(p.byLast, nil)
		s := sketch(word)
		p.maybe[s/64] |= 1 << (s % 64)
		p.long = max(p.long, len(word))
	}
	return id
}

// memory is how many words a phrase can reach over.
const memory = 32

// A reader takes the words of a text one after the other.
type reader struct {
	p     *phrases
	hit   func(r *rule, start, end int)
	words [memory]word // a ring
	n     int
	last  map[*rule]int // where the last match ended
}

type word struct {
	id         uint16 // 0: in no phrase
	fresh      bool   // a sentence begins with it
	start, end int
}

func (r *reader) take(w word) {
	r.words[r.n%memory] = w
	r.n++
	if w.id == 0 {
		return
	}
	for _, x := range r.p.byLast[w.id] {
		if start, ok := r.back(x.elements, len(x.elements)-1, r.n-1); ok && start >= r.last[x.rule] {
			r.last[x.rule] = w.end
			r.hit(x.rule, start, w.end)
		}
	}
}

// back matches the elements up to k against the words up to number n, which is of k, and
// returns where the first one begins.
func (r *reader) back(elements []element, k, n int) (int, bool) {
	w := &r.words[n%memory]
	if !elements[k].words[w.id] {
		return 0, false
	}
	gap := elements[k].gap
	for first := k - 1; ; first-- {
		if first < 0 {
			return w.start, true
		}
		fresh := w.fresh
		for m := n - 1; m >= n-1-gap && m >= 0 && m > r.n-memory && !fresh; m-- {
			if start, ok := r.back(elements, first, m); ok {
				return start, true
			}
			fresh = r.words[m%memory].fresh
		}
		if !elements[first].optional {
			return 0, false
		}
		gap += elements[first].gap
	}
}

// find calls hit for each phrase in b, which is folded, and rotated for each that is
// there after a rotation of the letters by 13; rotated may be nil.
func (p *phrases) find(b []byte, hit, rotated func(r *rule, start, end int)) {
	open := &reader{p: p, hit: hit, last: map[*rule]int{}}
	turned := &reader{p: p, hit: rotated, last: map[*rule]int{}}
	t := &tokens{b: b}
	var spelled []word // letters that stand alone, one byte apart
	var letters []byte
	flush := func() {
		for i := 0; i < len(spelled); {
			n := 0
			if len(spelled) >= 4 {
				for n = min(p.long, len(letters)-i); n > 2 && p.word(letters[i:i+n]) == 0; n-- {
				}
			}
			w := spelled[i]
			if n > 2 {
				w.id, w.end = p.word(letters[i:i+n]), spelled[i+n-1].end
				i += n - 1
			} else {
				w.id = p.word(letters[i : i+1])
			}
			i++
			open.take(w)
		}
		spelled, letters = spelled[:0], letters[:0]
	}
	for t.next(p) {
		w := word{0, t.fresh, t.start, t.end}
		if len(t.word) == 1 {
			if n := len(spelled); n > 0 && (spelled[n-1].end+1 != w.start || w.fresh || n == 64) {
				flush()
			}
			spelled, letters = append(spelled, w), append(letters, t.word[0])
			turned.take(w)
			continue
		}
		flush()
		w.id = p.lookup(t)
		open.take(w)
		if rotated == nil {
			continue
		}
		w.id = 0
		if len(t.word) > 2 && len(t.word) <= p.long {
			for i, c := range t.word {
				if 'a' <= c && c <= 'z' {
					t.word[i] = 'a' + (c-'a'+13)%26
				}
			}
			w.id = p.word(t.word)
		}
		turned.take(w)
	}
	flush()
}

// lookup returns the id of a word, or of the one that is meant by digits in it.
func (p *phrases) lookup(t *tokens) uint16 {
	if len(t.word) > p.long {
		return 0
	}
	id := p.word(t.word)
	if id != 0 || !t.digits || !t.letters {
		return id
	}
	for _, one := range "il" {
		plain := make([]byte, len(t.word))
		for i, c := range t.word {
			switch c {
			case '0':
				c = 'o'
			case '1':
				c = byte(one)
			case '3':
				c = 'e'
			case '4':
				c = 'a'
			case '5':
				c = 's'
			case '7':
				c = 't'
			}
			plain[i] = c
		}
		if id = p.word(plain); id != 0 {
			return id
		}
	}
	return 0
}

// tokens splits text into words.
type tokens struct {
	b  []byte
	at int

	word            []byte // in lower case; valid until the next one
	start, end      int
	fresh           bool
	digits, letters bool
}

// maxWord is how much of a word is kept: no phrase has one that is as long.
const maxWord = 48

func (t *tokens) next(p *phrases) bool {
	t.word, t.digits, t.letters, t.fresh = t.word[:0], false, false, t.at == 0
	stop, lines := false, 0
	for ; t.at < len(t.b); t.at++ {
		switch c := t.b[t.at]; {
		case c == '\n':
			if lines++; lines > 1 || stop {
				t.fresh = true
			}
			stop = false
		case c == ' ' || c == '\t' || c == '\r':
			t.fresh = t.fresh || stop
			stop = false
		case c == '.' || c == '!' || c == '?':
			stop, lines = true, 0
		case c == '\\' && t.at+1 < len(t.b) && strings.IndexByte("nrtbf", t.b[t.at+1]) >= 0:
			t.at++ // an escape in a string
			stop = false
		case isWord(c):
			return t.read(p)
		default:
			stop, lines = false, 0
		}
	}
	return false
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c >= utf8.RuneSelf
}

// read reads the word that begins here.
func (t *tokens) read(p *phrases) bool {
	t.start = t.at
	for t.at < len(t.b) {
		c := t.b[t.at]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
			fallthrough
		case 'a' <= c && c <= 'z':
			t.letters = true
		case '0' <= c && c <= '9':
			t.digits = true
		case c == '\'' && t.at+1 < len(t.b) && isWord(t.b[t.at+1]):
			t.at++
			continue
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(t.b[t.at:])
			if ideograph(r) {
				if t.at == t.start {
					t.ideographs(p)
				}
				t.end = t.at
				return true
			}
			if len(t.word) < maxWord {
				t.word = utf8.AppendRune(t.word, unicode.ToLower(r))
			}
			t.at += n
			t.letters = true
			if !unicode.IsLetter(r) {
				t.end = t.at
				return true
			}
			continue
		default:
			t.end = t.at
			return true
		}
		if len(t.word) < maxWord {
			t.word = append(t.word, c)
		}
		t.at++
	}
	t.end = t.at
	return true
}

// ideograph reports whether a script puts no space between words.
func ideograph(r rune) bool {
	return r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// ideographs reads the longest word of a phrase that is here, or one character.
func (t *tokens) ideographs(p *phrases) {
	var ends []int
	at := t.at
	for at < len(t.b) && len(ends) < 6 {
		r, n := utf8.DecodeRune(t.b[at:])
		if !ideograph(r) {
			break
		}
		at += n
		ends = append(ends, at)
	}
	for i := len(ends) - 1; ; i-- {
		if i == 0 || p.word(t.b[t.at:ends[i]]) != 0 {
			t.word = append(t.word, t.b[t.at:ends[i]]...)
			t.at = ends[i]
			return
		}
	}
}
