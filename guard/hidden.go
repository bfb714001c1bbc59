package guard

import (
	"unicode"
	"unicode/utf8"
)

// hiddenRules find characters that a reader does not see, or takes for others. What scripts
// and emoji need them for is left alone: joiners that no ASCII letter touches, a byte order
// mark at the beginning of a line, tags behind a black flag, one variation selector.
var hiddenRules = []rule{
	{
		name: "bidi-control", family: EncodedPayload, severity: High, confidence: 0.95, raw: true,
		says:    "changes the order in which text is shown",
		literal: []string{"\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"},
		match:   runOf(func(r rune) bool { return 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 }),
		hit:     "if access \u202e{ admin \u2066// only",
		miss:    "שלום \u200f(1)",
	},
	{
		name: "zero-width", family: EncodedPayload, severity: Medium, confidence: 0.8, raw: true,
		says:    "characters without width in or at a word",
		literal: []string{"\u200b", "\u200c", "\u200d", "\u2060", "\u2061", "\u2062", "\u2063", "\u2064", "\ufeff", "\u180e", "\u206a", "\u206b", "\u206c", "\u206d", "\u206e", "\u206f", "\u3164", "\uffa0", "\u115f", "\u1160", "\ufff9", "\ufffa", "\ufffb"},
		match:   matchZeroWidth,
		hit:     "ig\u200bnore",
		miss:    "\ufeffpackage main // 👩\u200d💻 می\u200cخواهم",
	},
	{
		name: "tag-characters", family: EncodedPayload, severity: Critical, confidence: 0.98, raw: true,
		says:    "invisible copies of ASCII letters",
		literal: []string{"\U000e0001", "\xf3\xa0\x80", "\xf3\xa0\x81"},
		match:   matchTags,
		hit:     "ok \U000e0072\U000e0075\U000e006e",
		miss:    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
	},
	{
		name: "variation-selectors", family: EncodedPayload, severity: High, confidence: 0.9, raw: true,
		says:    "a row of variation selectors: bytes that nobody sees",
		literal: []string{"\xf3\xa0\x84", "\xf3\xa0\x85", "\xf3\xa0\x86", "\xf3\xa0\x87", "\xef\xb8\x80", "\xef\xb8\x81", "\xef\xb8\x82", "\xef\xb8\x83", "\xef\xb8\x84", "\xef\xb8\x85", "\xef\xb8\x86", "\xef\xb8\x87", "\xef\xb8\x88", "\xef\xb8\x89", "\xef\xb8\x8a", "\xef\xb8\x8b", "\xef\xb8\x8c", "\xef\xb8\x8d", "\xef\xb8\x8e", "\xef\xb8\x8f"},
		match: func(b []byte, at int) (int, int) {
			n, end := 0, at
			for end < len(b) {
				r, size := utf8.DecodeRune(b[end:])
				if !unicode.Is(unicode.Variation_Selector, r) {
					break
				}
				n++
				end += size
			}
			if n < 2 {
				return 0, 0
			}
			return at, end
		},
		hit:  "😀\U000e0158\U000e0155\U000e015c",
		miss: "✔\ufe0f done ❤\ufe0f",
	},
	{
		name: "mixed-script", family: EncodedPayload, severity: Medium, confidence: 0.8, raw: true,
		says:    "a word of Latin letters and of look-alikes from another script",
		literal: pairs("\xd0\xd1\xce\xcf"),
		match:   matchMixed,
		hit:     "gіthub and pаssword",
		miss:    "привет мир, 5 μs, Δtime, αβγ, λx",
	},
	{
		name: "odd-control", family: Unclassified, severity: Low, confidence: 0.3, raw: true,
		says:    "control characters that text does not have",
		literal: controls(),
		match: func(b []byte, at int) (int, int) {
			end := at + 1
			for end < len(b) && oddControl(b[end]) {
				end++
			}
			return at, end
		},
		hit:  "a\x00b",
		miss: "a\tb\r\nbold: b\bb",
	},
}

func oddControl(c byte) bool { return c < 7 || 0x0e <= c && c < 0x20 && c != 0x1b }

// controls has every character that text does not have.
func controls() []string {
	var list []string
	for c := range byte(0x20) {
		if oddControl(c) {
			list = append(list, string(rune(c)))
		}
	}
	return list
}

// pairs has every two-byte character that begins with one of the given bytes.
func pairs(leads string) []string {
	var list []string
	for i := range len(leads) {
		for c := range 64 {
			list = append(list, string([]byte{leads[i], byte(0x80 + c)}))
		}
	}
	return list
}

// runOf matches a row of characters.
func runOf(is func(rune) bool) func([]byte, int) (int, int) {
	return func(b []byte, at int) (int, int) {
		end := at
		for end < len(b) {
			r, n := utf8.DecodeRune(b[end:])
			if !is(r) {
				break
			}
			end += n
		}
		if end == at {
			return 0, 0
		}
		return at, end
	}
}

// zeroWidth reports whether a character has no width, and always if nothing but a
// payload needs it.
func zeroWidth(r rune) (is, always bool) {
	switch {
	case r == 0x200b, r == 0x200c, r == 0x200d, r == 0x115f, r == 0x1160:
		return true, false
	case 0x2060 <= r && r <= 0x2064, 0x206a <= r && r <= 0x206f, r == 0xfeff, r == 0x180e, r == 0x3164, r == 0xffa0, 0xfff9 <= r && r <= 0xfffb:
		return true, true
	}
	return false, false
}

func matchZeroWidth(b []byte, at int) (int, int) {
	end, always, count := at, false, 0
	for end < len(b) {
		r, n := utf8.DecodeRune(b[end:])
		is, a := zeroWidth(r)
		if !is {
			break
		}
		always = always || a
		end += n
		count++
	}
	if r, n := utf8.DecodeRune(b[at:]); r == 0xfeff && n == end-at && (at == 0 || b[at-1] == '\n') {
		return 0, 0 // a byte order mark
	}
	ascii := func(i int) bool {
		return i >= 0 && i < len(b) && b[i] < utf8.RuneSelf && isWord(b[i])
	}
	if end == at || !always && count < 4 && !ascii(at-1) && !ascii(end) {
		return 0, 0
	}
	return at, end
}

func matchTags(b []byte, at int) (int, int) {
	isTag := func(r rune) bool { return 0xe0000 <= r && r <= 0xe007f }
	start, end := runOf(isTag)(b, at)
	if end == 0 {
		return 0, 0
	}
	last, _ := utf8.DecodeLastRune(b[:end])
	before, _ := utf8.DecodeLastRune(b[:at])
	if isTag(before) {
		return 0, 0 // the row was looked at from its beginning
	}
	if before == '🏴' && last == 0xe007f && end-at <= 4*8 {
		return 0, 0 // the flag of a region
	}
	return start, end
}

// matchMixed matches a word of Latin letters, at least two, and of letters of one other
// script that all look like Latin ones.
func matchMixed(b []byte, at int) (int, int) {
	const reach = 32
	start := at
	for start > 0 && at-start < reach && isWord(b[start-1]) {
		start--
	}
	latin, other, end := 0, 0, start
	for end < len(b) && end-start < 2*reach && isWord(b[end]) {
		r, n := utf8.DecodeRune(b[end:])
		switch {
		case r < utf8.RuneSelf:
			if r > '9' {
				latin++
			}
		case unicode.In(r, unicode.Cyrillic, unicode.Greek):
			s := lookalikes()[r]
			if s == "" || unicode.Is(unicode.Greek, r) && (r == 'γ' || r == 'ν' || r == 'ι' || r == 'υ') {
				return 0, 0
			}
			other++
		case !unicode.IsLetter(r) && !invisible(r):
			if end <= at {
				start, latin, other = end+n, 0, 0
			} else {
				return mixed(start, end, latin, other)
			}
		}
		end += n
	}
	return mixed(start, end, latin, other)
}

func mixed(start, end, latin, other int) (int, int) {
	if latin < 2 || other == 0 || latin+other < 4 {
		return 0, 0
	}
	return start, end
}
