// Package strictjson reads and writes JSON for which two readers cannot
// disagree.
//
// [Check] accepts one JSON value and refuses everything that RFC 8259 leaves to
// the reader: bytes that are not UTF-8, a byte order mark, lone surrogates,
// members that occur twice or differ by case only (unless the caller tells them
// apart), nesting and size beyond a limit.
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
package strictjson

import (
	"bytes"
	"encoding/json"
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
	s := scanner{data: data, depth: l.Depth, caseSensitive: l.CaseSensitive}
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
	data  []byte
	at    int
	depth int

	caseSensitive bool
}

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
			return errors.New("nested too deeply")
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
		_, err := s.str()
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
	seen := map[string]bool{}
	for s.space(); s.peek() != '}'; s.space() {
		if len(seen) > 0 {
			if s.peek() != ',' {
				return errSyntax
			}
			s.at++
			s.space()
		}
		if s.peek() != '"' {
			return errSyntax
		}
		name, err := s.str()
		if err != nil {
			return err
		}
		// Readers that ignore case must not see two members where others see one.
		folded := name
		if !s.caseSensitive {
			folded = fold(name)
		}
		if seen[folded] {
			return fmt.Errorf("member %q: duplicate", name)
		}
		seen[folded] = true
		s.space()
		if s.peek() != ':' {
			return errSyntax
		}
		s.at++
		s.space()
		if err := s.value(); err != nil {
			return err
		}
	}
	s.at++
	return nil
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

// str reads a string and returns what it stands for.
func (s *scanner) str() (string, error) {
	from := s.at
	escaped := false
	for s.at++; ; s.at++ {
		if s.at >= len(s.data) {
			return "", errSyntax
		}
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			text := s.data[from:s.at]
			if !escaped {
				return string(text[1 : len(text)-1]), nil
			}
			var name string
			if err := json.Unmarshal(text, &name); err != nil {
				return "", errSyntax
			}
			return name, nil
		case c < 0x20:
			return "", errSyntax
		case c == '\\':
			escaped = true
			s.at++
			if s.peek() != 'u' {
				continue // json.Unmarshal judges the letter
			}
			unit, ok := s.unit(s.at + 1)
			if !ok {
				return "", errSyntax
			}
			s.at += 4
			if unit < 0xd800 || unit > 0xdfff {
				continue
			}
			low, ok := s.unit(s.at + 3)
			if unit > 0xdbff || !ok || !bytes.HasPrefix(s.data[s.at+1:], []byte(`\u`)) || low < 0xdc00 || low > 0xdfff {
				return "", errors.New("lone surrogate")
			}
			s.at += 6
		}
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
func fold(name string) string {
	ascii := true
	for i := range len(name) {
		if c := name[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			ascii = false
			break
		}
	}
	if ascii {
		return name
	}
	return strings.ToLower(strings.ToUpper(name))
}
