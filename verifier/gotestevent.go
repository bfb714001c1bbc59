package verifier

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A goEvent is the part of a test2json event that is read. Its fields are parts
// of the line that it was parsed from, and nil if absent.
type goEvent struct {
	action, pkg, test, output []byte
	importPath, failedBuild   []byte
}

var (
	errNotObject  = errors.New("not a JSON object")
	errNotUTF8    = errors.New("not UTF-8")
	errDuplicate  = errors.New("duplicate member")
	errCase       = errors.New("member in another case")
	errNotString  = errors.New("member is not a string")
	errNoAction   = errors.New("no action")
	errNameLength = errors.New("name beyond 4 KiB")
)

// parseGoEvent parses one line, and decodes its strings in place. It is
// stricter than encoding/json where two readers could see different events:
// members that occur twice or in another case and bytes that are not UTF-8 are
// errors. Unknown members are tolerated, since Go adds some now and then.
func parseGoEvent(line []byte) (goEvent, error) {
	var e goEvent
	if !utf8.Valid(line) {
		return goEvent{}, errNotUTF8
	}
	s := jsonScanner{rest: line}
	if !s.take('{') {
		return goEvent{}, errNotObject
	}
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return goEvent{}, errNotObject
		}
		key, ok := s.str()
		if !ok || !s.take(':') {
			return goEvent{}, errNotObject
		}
		field := e.field(key)
		if field == nil {
			if misspelt(key) {
				return goEvent{}, errCase
			}
			if !s.skip() {
				return goEvent{}, errNotObject
			}
			continue
		}
		if *field != nil {
			return goEvent{}, errDuplicate
		}
		if s.space(); len(s.rest) == 0 || s.rest[0] != '"' {
			return goEvent{}, errNotString
		}
		if *field, ok = s.str(); !ok {
			return goEvent{}, errNotObject
		}
	}
	if s.space(); len(s.rest) > 0 {
		return goEvent{}, errNotObject
	}
	if len(e.action) == 0 {
		return goEvent{}, errNoAction
	}
	if max(len(e.pkg), len(e.test), len(e.importPath), len(e.failedBuild)) > maxName {
		return goEvent{}, errNameLength
	}
	return e, nil
}

func (e *goEvent) field(key []byte) *[]byte {
	switch string(key) {
	case "Action":
		return &e.action
	case "Package":
		return &e.pkg
	case "Test":
		return &e.test
	case "Output":
		return &e.output
	case "ImportPath":
		return &e.importPath
	case "FailedBuild":
		return &e.failedBuild
	}
	return nil
}

// misspelt reports whether key would be one of ours for encoding/json, which
// ignores case.
func misspelt(key []byte) bool {
	switch string(key) {
	case "Time", "Elapsed": // in every event: no need to look further
		return false
	}
	for _, known := range []string{"Action", "Package", "Test", "Output", "ImportPath", "FailedBuild"} {
		if bytes.EqualFold(key, []byte(known)) {
			return true
		}
	}
	return false
}

// jsonScanner reads tokens off the front of a line.
type jsonScanner struct{ rest []byte }

func (s *jsonScanner) space() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\t' || s.rest[0] == '\r' || s.rest[0] == '\n') {
		s.rest = s.rest[1:]
	}
}

// take consumes c if it is the next token.
func (s *jsonScanner) take(c byte) bool {
	s.space()
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// str consumes a string. Decoding never makes it longer, so it happens in
// place. The result is not nil if ok.
func (s *jsonScanner) str() (text []byte, ok bool) {
	if !s.take('"') {
		return nil, false
	}
	b := s.rest
	n := 0 // read
	for n < len(b) && b[n] != '"' && b[n] != '\\' && b[n] >= ' ' {
		n++
	}
	w := n // written
	for n < len(b) {
		switch c := b[n]; {
		case c == '"':
			s.rest = b[n+1:]
			return b[:w:w], true
		case c < ' ':
			return nil, false
		case c != '\\':
			b[w] = c
			n, w = n+1, w+1
		default:
			size, decoded := unescape(b[n:], b[:w])
			if size == 0 {
				return nil, false
			}
			n, w = n+size, len(decoded)
		}
	}
	return nil, false
}

// unescape appends the character of the escape at the start of b to dst and
// returns the size of the escape, 0 if it is none. A lone surrogate is U+FFFD,
// as it is for encoding/json.
func unescape(b, dst []byte) (int, []byte) {
	if len(b) < 2 {
		return 0, nil
	}
	switch b[1] {
	case '"', '\\', '/':
		return 2, append(dst, b[1])
	case 'b':
		return 2, append(dst, '\b')
	case 'f':
		return 2, append(dst, '\f')
	case 'n':
		return 2, append(dst, '\n')
	case 'r':
		return 2, append(dst, '\r')
	case 't':
		return 2, append(dst, '\t')
	case 'u':
		r, ok := hex4(b[2:])
		if !ok {
			return 0, nil
		}
		if utf16.IsSurrogate(r) {
			if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
				if low, ok := hex4(b[8:]); ok {
					if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
						return 12, utf8.AppendRune(dst, pair)
					}
				}
			}
			r = utf8.RuneError
		}
		return 6, utf8.AppendRune(dst, r)
	}
	return 0, nil
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n), err == nil
}

// skip consumes one value of any kind.
func (s *jsonScanner) skip() bool {
	s.space()
	if len(s.rest) > 0 && s.rest[0] == '"' {
		_, ok := s.str()
		return ok
	}
	if n := numberSize(s.rest); n > 0 { // Elapsed, in every result
		s.rest = s.rest[n:]
		return true
	}
	dec := json.NewDecoder(bytes.NewReader(s.rest))
	var value json.RawMessage
	if dec.Decode(&value) != nil {
		return false
	}
	s.rest = s.rest[dec.InputOffset():]
	return true
}

// numberSize returns the size of the JSON number at the start of b, 0 if there is
// none.
func numberSize(b []byte) int {
	n := 0
	digits := func() bool {
		from := n
		for n < len(b) && b[n] >= '0' && b[n] <= '9' {
			n++
		}
		return n > from
	}
	next := func(set string) bool {
		if n < len(b) && strings.IndexByte(set, b[n]) >= 0 {
			n++
			return true
		}
		return false
	}
	next("-")
	if !next("0") && !digits() || next(".") && !digits() {
		return 0
	}
	if next("eE") {
		next("+-")
		if !digits() {
			return 0
		}
	}
	return n
}
