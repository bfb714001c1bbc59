package pipelock

import (
	"errors"
	"time"
)

// parseTime reads a time as RFC 3339 has it, with T and Z in upper case, and at most
// nine digits behind the point. Package time takes more than that (golang/go#54580).
func parseTime(text []byte) (t time.Time, err error) {
	const seconds = len("2006-01-02T15:04:05")
	rest, ok := text, len(text) > seconds && like(text[:seconds], "0000-00-00T00:00:00")
	if ok {
		rest = text[seconds:]
	}
	if ok && rest[0] == '.' {
		n := 1
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		ok = n > 1 && n <= 10
		rest = rest[n:]
	}
	ok = ok && (string(rest) == "Z" || (like(rest, "+00:00") || like(rest, "-00:00")) && string(rest[1:3]) < "24" && string(rest[4:]) < "60")
	if !ok {
		return t, errors.New("not a time of RFC 3339")
	}
	err = t.UnmarshalText(text)
	return t, err
}

// like reports whether text has digits where form has zeros, and is form elsewhere.
func like(text []byte, form string) bool {
	if len(text) != len(form) {
		return false
	}
	for i, c := range text {
		if form[i] == '0' && (c < '0' || c > '9') || form[i] != '0' && c != form[i] {
			return false
		}
	}
	return true
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string, safe inside HTML.
func appendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' && c != 0xe2 {
			continue
		}
		if c == 0xe2 {
			// U+2028 and U+2029 end a line in JavaScript.
			if i+2 < len(s) && s[i+1] == 0x80 && s[i+2]&^1 == 0xa8 {
				dst = append(append(dst, s[from:i]...), `\u202`...)
				dst = append(dst, hexDigits[s[i+2]&15])
				i += 2
				from = i + 1
			}
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}
