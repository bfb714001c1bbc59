// Package strictjson reads and writes JSON for which two readers cannot
// disagree.
//
// [Check] accepts one JSON value and refuses everything that RFC 8259 leaves to
// the reader: bytes that are not UTF-8, a byte order mark, lone surrogates,
// members that occur twice or differ by case only, nesting and size beyond a
// limit.
//
// [Marshal] and [Unmarshal] know one encoding for each value, the canonical
// form:
//
//   - members in the order of the Go struct's fields, each at most once; no
//     white space; no null; no floating-point numbers;
//   - integers in plain decimal with |n| < 2^53;
//   - strings in UTF-8 with the escapes \" \\ \b \t \n \f \r, \u00xx (lower-case
//     digits) for the other characters below U+0020, and no others;
//   - a member tagged omitempty is absent exactly when it is false, 0, "", an
//     empty list or nil;
//   - a [Bytes] that is not UTF-8 is {"b64":"…"} in padded standard base64.
//
// Unmarshal takes what Marshal writes and nothing else, so bytes that parse are
// bytes that Marshal writes.
//
// A [Cursor] reads, with the rules of Check, text that others write in forms of their
// own.
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Limits bound the input of [Check] and [Unmarshal]. A zero field is its default.
type Limits struct {
	Size  int // bytes; default 1 MiB
	Depth int // nested objects and arrays, the outermost included; default 16

	// CaseSensitive makes names that differ by case only different names, for formats
	// of others that have both. Unmarshal knows names by their case in any event.
	CaseSensitive bool
}

const (
	defaultSize  = 1 << 20
	defaultDepth = 16
	maxInteger   = 1<<53 - 1
)

var errNotCanonical = errors.New("not in canonical form")

// Unmarshal decodes the canonical encoding data into v, a pointer. It sets *v
// to its zero value on error.
func Unmarshal(data []byte, v any, l Limits) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return errors.New("unmarshal: want a pointer")
	}
	if l.Size == 0 {
		l.Size = defaultSize
	}
	target = target.Elem()
	target.SetZero()
	if len(data) > l.Size {
		return fmt.Errorf("%d bytes: the limit is %d", len(data), l.Size)
	}
	d := decoder{data: data}
	err := d.value(target)
	if err == nil && d.at < len(data) {
		err = d.fail("the end")
	}
	if err != nil {
		target.SetZero()
	}
	return err
}

// Check reports why data is not one strict JSON value. Numbers may take any
// form that JSON allows.
func Check(data []byte, l Limits) error {
	if l.Size == 0 {
		l.Size = defaultSize
	}
	if l.Depth == 0 {
		l.Depth = defaultDepth
	}
	switch {
	case len(data) > l.Size:
		return fmt.Errorf("%d bytes: the limit is %d", len(data), l.Size)
	case len(data) == 0:
		return io.ErrUnexpectedEOF
	case !utf8.Valid(data):
		return errors.New("not UTF-8")
	}
	s := scanner{data: data, depth: l.Depth, folds: !l.CaseSensitive}
	s.space()
	if err := s.value(); err != nil {
		return fmt.Errorf("byte %d: %w", s.at, err)
	}
	s.space()
	if s.at != len(data) {
		return fmt.Errorf("byte %d: data after the value", s.at)
	}
	return nil
}

// A scanner walks over one JSON text. Its depth counts down.
type scanner struct {
	data   []byte
	at     int
	depth  int
	folds  bool     // names that differ by case only are one
	names  [][]byte // of the members of the open objects, the outermost object's first
	double error    // the first duplicate, where it does not end the scan
	goesOn bool     // after a duplicate
}

// What a text is refused for, where a caller tells one from the other.
var (
	ErrDuplicate = errors.New("duplicate")
	ErrDepth     = errors.New("nested too deeply")
)

var errSyntax = errors.New("not JSON")

func (s *scanner) peek() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for s.at < len(s.data) && strings.IndexByte(" \t\r\n", s.data[s.at]) >= 0 {
		s.at++
	}
}

func (s *scanner) value() error {
	switch c := s.peek(); {
	case c == '{' || c == '[':
		if s.depth == 0 {
			return ErrDepth
		}
		s.depth--
		var err error
		if c == '{' {
			err = s.object()
		} else {
			err = s.array()
		}
		s.depth++
		return err
	case c == '"':
		_, err := s.str(false)
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.at:], []byte(word)) {
			s.at += len(word)
			return nil
		}
	}
	return errSyntax
}

func (s *scanner) object() error {
	s.at++
	base, more := len(s.names), map[string]bool(nil)
	for n := 0; ; n++ {
		_, ok, err := s.member(n, base, &more)
		if err != nil {
			return err
		}
		if !ok {
			s.names = s.names[:base]
			return nil
		}
		if err := s.value(); err != nil {
			return err
		}
	}
}

// member reads the name of the n-th member of an open object, whose names begin at
// base, or the object's end. Names are compared one by one while they are few.
func (s *scanner) member(n, base int, more *map[string]bool) (name []byte, ok bool, err error) {
	s.space()
	if s.peek() == '}' {
		s.at++
		return nil, false, nil
	}
	if n > 0 {
		if s.peek() != ',' {
			return nil, false, errSyntax
		}
		s.at++
		s.space()
	}
	if s.peek() != '"' {
		return nil, false, errSyntax
	}
	if name, err = s.str(true); err != nil {
		return nil, false, err
	}
	// Readers that ignore case must not see two members where others see one.
	key := name
	if s.folds {
		key = fold(name)
	}
	if s.known(key, base, more) {
		err := fmt.Errorf("member %q: %w", name, ErrDuplicate)
		if !s.goesOn {
			return nil, false, err
		}
		if s.double == nil {
			s.double = fmt.Errorf("byte %d: %w", s.at, err)
		}
	}
	s.space()
	if s.peek() != ':' {
		return nil, false, errSyntax
	}
	s.at++
	s.space()
	return name, true, nil
}

// fewNames is how many names are compared one by one.
const fewNames = 64

// known remembers a name, and reports whether it was there.
func (s *scanner) known(key []byte, base int, more *map[string]bool) bool {
	if *more != nil {
		was := (*more)[string(key)]
		(*more)[string(key)] = true
		return was
	}
	for _, name := range s.names[base:] {
		if bytes.Equal(name, key) {
			return true
		}
	}
	if s.names = append(s.names, key); len(s.names)-base == fewNames {
		*more = make(map[string]bool, 2*fewNames)
		for _, name := range s.names[base:] {
			(*more)[string(name)] = true
		}
	}
	return false
}

func (s *scanner) array() error {
	s.at++
	for n := 0; ; n++ {
		s.space()
		if s.peek() == ']' && n == 0 {
			break
		}
		if err := s.value(); err != nil {
			return err
		}
		s.space()
		if s.peek() == ']' {
			break
		}
		if s.peek() != ',' {
			return errSyntax
		}
		s.at++
	}
	s.at++
	return nil
}

func (s *scanner) number() error {
	digits := func() bool {
		from := s.at
		for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
			s.at++
		}
		return s.at > from
	}
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else if !digits() {
		return errSyntax
	}
	if s.peek() == '.' {
		s.at++
		if !digits() {
			return errSyntax
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		if !digits() {
			return errSyntax
		}
	}
	return nil
}

// str reads a string, and returns what it stands for if that is wanted.
func (s *scanner) str(wanted bool) ([]byte, error) {
	from := s.at + 1
	escaped := false
	for s.at++; ; s.at++ {
		if s.at >= len(s.data) {
			return nil, errSyntax
		}
		switch c := s.data[s.at]; {
		case c == '"':
			text := s.data[from:s.at:s.at]
			s.at++
			if escaped && wanted {
				text = s.unescape(text)
			}
			return text, nil
		case c < 0x20:
			return nil, errSyntax
		case c == '\\':
			escaped = true
			s.at++
			if s.peek() != 'u' {
				if strings.IndexByte(`"\/bfnrt`, s.peek()) < 0 || s.at >= len(s.data) {
					return nil, errSyntax
				}
				continue
			}
			unit, ok := s.unit(s.at + 1)
			if !ok {
				return nil, errSyntax
			}
			s.at += 4
			if unit < 0xd800 || unit > 0xdfff {
				continue
			}
			low, ok := s.unit(s.at + 3)
			if unit > 0xdbff || !ok || !bytes.HasPrefix(s.data[s.at+1:], []byte(`\u`)) || low < 0xdc00 || low > 0xdfff {
				return nil, errors.New("lone surrogate")
			}
			s.at += 6
		}
	}
}

// unescape returns what a string stands for that str has read.
func (s *scanner) unescape(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(out, text...)
		}
		out = append(out, text[:i]...)
		c := text[i+1]
		text = text[i+2:]
		if at := strings.IndexByte("bfnrt", c); at >= 0 {
			out = append(out, "\b\f\n\r\t"[at])
			continue
		}
		if c != 'u' {
			out = append(out, c)
			continue
		}
		four := scanner{data: text}
		r, _ := four.unit(0)
		text = text[4:]
		if r >= 0xd800 && r <= 0xdbff {
			low, _ := four.unit(6)
			r = 0x10000 + (r-0xd800)<<10 + low - 0xdc00
			text = text[6:]
		}
		out = utf8.AppendRune(out, rune(r))
	}
}

// unit reads four hexadecimal digits.
func (s *scanner) unit(at int) (u int, ok bool) {
	if at+4 > len(s.data) {
		return 0, false
	}
	for _, c := range s.data[at : at+4] {
		d := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
		if d < 0 || c < '0' {
			return 0, false
		}
		u = u<<4 | d
	}
	return u, true
}

// fold maps names that differ by Unicode case only to one name.
func fold(name []byte) []byte {
	for _, c := range name {
		if c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return bytes.ToLower(bytes.ToUpper(name))
		}
	}
	return name
}
