package guard

import (
	"sort"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A view is text made of other text, and where each byte of it was there.
type view struct {
	b  []byte
	at []step // none: nothing was changed
}

// A step says that from the byte `to` of a view on, up to the next step, bytes were
// copied, the first of them from the byte `from`.
type step struct{ to, from uint32 }

// from returns where the byte i of the view was. The end of the view was at end.
func (v *view) from(i, end int) int {
	if i >= len(v.b) {
		return end
	}
	n := sort.Search(len(v.at), func(n int) bool { return int(v.at[n].to) > i })
	if n == 0 {
		return i
	}
	s := v.at[n-1]
	return int(s.from) + i - int(s.to)
}

// changed reports whether any byte of a span is not a copy.
func (v *view) changed(start, end, total int) bool {
	return v.from(end, total)-v.from(start, total) != end-start
}

// emit appends text that stands for the bytes of the source from `from` on.
func (v *view) emit(from int, text ...byte) {
	for _, c := range text {
		v.mark(from)
		v.b = append(v.b, c)
	}
}

// mark says that the next byte of the view is the byte `from` of the source.
func (v *view) mark(from int) {
	next := len(v.b)
	if n := len(v.at); n > 0 {
		next += int(v.at[n-1].from) - int(v.at[n-1].to)
	}
	if next != from {
		v.at = append(v.at, step{uint32(len(v.b)), uint32(from)})
	}
}

// fold returns b as a reader sees it, for matching: letters of other shapes and look-alikes
// of other scripts become Latin letters, accents go, and so does what is invisible: colours
// of a terminal, joiners, variation selectors, control characters.
func fold(b []byte) *view {
	plain := true
	for _, c := range b {
		if c >= utf8.RuneSelf || c == 0x1b || oddControl(c) {
			plain = false
			break
		}
	}
	if plain {
		return &view{b: b}
	}
	v := &view{b: make([]byte, 0, len(b))}
	for i := 0; i < len(b); {
		if c := b[i]; c == 0x1b {
			if n := csi(b[i:]); n > 0 {
				i += n
				continue
			}
		} else if oddControl(c) {
			i++
			continue
		} else if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(b[i:])
			if r != utf8.RuneError {
				if f := foldRune(r); string(f) == string(b[i:i+n]) {
					v.mark(i)
					v.b = append(v.b, f...)
				} else {
					v.emit(i, f...)
				}
				i += n
				continue
			}
		}
		v.mark(i)
		v.b = append(v.b, b[i])
		i++
	}
	return v
}

// csi returns the length of the control sequence that b begins with, or 0.
func csi(b []byte) int {
	if len(b) < 3 || b[1] != '[' {
		return 0
	}
	for i := 2; i < len(b) && i < 64; i++ {
		switch c := b[i]; {
		case 0x40 <= c && c <= 0x7e:
			return i + 1
		case c < 0x20 || c > 0x7e:
			return 0
		}
	}
	return 0
}

// foldRune returns what to match instead of a character that is not ASCII.
func foldRune(r rune) []byte {
	if s, ok := lookalikes()[r]; ok {
		return []byte(s)
	}
	switch {
	case invisible(r) || unicode.Is(unicode.Mn, r):
		return nil
	case 0xff01 <= r && r <= 0xff5e: // full-width forms
		return []byte{byte(r - 0xff01 + '!')}
	case 0x1d400 <= r && r <= 0x1d6a3: // mathematical alphabets, 26 capitals and 26 small letters each
		return letter(int(r-0x1d400) % 52)
	case 0x24b6 <= r && r <= 0x24e9: // circled
		return letter(int(r - 0x24b6))
	case 0x1f130 <= r && r <= 0x1f149, 0x1f150 <= r && r <= 0x1f169, 0x1f170 <= r && r <= 0x1f189: // squared, circled
		return letter(int(r-0x1f130) % 32)
	case 0x1d7ce <= r && r <= 0x1d7ff: // mathematical digits
		return []byte{byte('0' + (r-0x1d7ce)%10)}
	case unicode.Is(unicode.Zs, r):
		return []byte(" ")
	case r == '\u2028' || r == '\u2029' || r == '\u0085':
		return []byte("\n")
	}
	return utf8.AppendRune(nil, r)
}

func letter(n int) []byte {
	if n < 26 {
		return []byte{byte('A' + n)}
	}
	return []byte{byte('a' + n - 26)}
}

// invisible reports whether a character leaves no trace on a page.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		0xe0000 <= r && r <= 0xe0fff || r == 0x115f || r == 0x1160
}

// lookalikes has what is written like Latin letters, and what is those with a mark.
var lookalikes = sync.OnceValue(func() map[rune]string {
	m := map[rune]string{'’': "'", '‘': "'", 'ʼ': "'", '“': `"`, '”': `"`, '‐': "-", '‑': "-", '–': "-", '—': "-", '−': "-", 'ﬁ': "fi", 'ﬂ': "fl", 'ﬀ': "ff", 'ß': "ss", 'æ': "ae", 'œ': "oe", '⁄': "/", '∕': "/", '：': ":"}
	for latin, others := range map[string]string{
		"a": "àáâãäåāăąǎɑа", "b": "ƅь", "c": "çćĉċčсϲᴄ", "d": "ďđԁɗ", "e": "èéêëēĕėęěеєҽ", "f": "ƒ", "g": "ĝğġģǧɡց", "h": "ĥħһ",
		"i": "ìíîïĩīĭįıǐіιӏ", "j": "ĵјϳ", "k": "ķǩκк", "l": "ĺļľŀłⅼ", "m": "ⅿм", "n": "ñńņňŋո", "o": "òóôõöøōŏőǒоοօᴏ", "p": "рρ",
		"q": "ԛ", "r": "ŕŗřг", "s": "śŝşšșѕꜱ", "t": "ţťŧțт", "u": "ùúûüũūŭůűųǔυս", "v": "νѵᴠ", "w": "ŵԝᴡ", "x": "хⅹ×", "y": "ýÿŷуγ", "z": "źżžᴢ",
		"A": "ÀÁÂÃÄÅĀĂĄАΑ", "B": "ВΒ", "C": "ÇĆĈĊČСϹ", "D": "ĎĐ", "E": "ÈÉÊËĒĔĖĘĚЕΕ", "G": "ĜĞĠĢ", "H": "ĤНΗ", "I": "ÌÍÎÏĨĪĬĮİІΙ", "J": "Ј",
		"K": "ĶКΚ", "L": "ĹĻĽŁ", "M": "МΜ", "N": "ÑŃŅŇΝ", "O": "ÒÓÔÕÖØŌŎŐОΟ", "P": "РΡ", "R": "ŔŖŘ", "S": "ŚŜŞŠЅ", "T": "ŢŤŦТΤ",
		"U": "ÙÚÛÜŨŪŬŮŰŲ", "X": "ХΧ", "Y": "ÝΥҮ", "Z": "ŹŻŽΖ",
	} {
		for _, r := range others {
			m[r] = latin
		}
	}
	return m
})

// foldWord returns a word as the text that it is compared with was folded.
func foldWord(w string) string {
	return strings.ToLower(string(fold([]byte(w)).b))
}
