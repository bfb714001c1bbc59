package verifier

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const maxJSONDepth = 64

// jsonStream reads one JSON document from front to back, and keeps no more of
// it than the caller asks for. It refuses what two readers could see
// differently: bytes that are not UTF-8, members of an object of ours that occur
// twice or in another case, and anything behind the document. Its errors are a
// *malformedError, a *limitError, or the reader's own.
type jsonStream struct {
	in    *bufio.Reader
	total int64
	depth int
	kept  []byte   // of a string
	char  [12]byte // a character of a string
	raw   [12]byte // an escape, or two that are one character
}

func newJSONStream(r io.Reader) (*jsonStream, error) {
	s := &jsonStream{in: bufio.NewReaderSize(r, 64<<10)}
	start, err := s.in.Peek(3)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if string(start) == "\xef\xbb\xbf" {
		s.in.Discard(3)
	}
	return s, nil
}

var errJSONEnd = malformed("it ends before its end")

// next reads a byte.
func (s *jsonStream) next() (byte, error) {
	if s.total >= maxReport {
		return 0, &limitError{fmt.Sprintf("a report of more than %d bytes", maxReport)}
	}
	c, err := s.in.ReadByte()
	if err == io.EOF {
		return 0, errJSONEnd
	}
	s.total++
	return c, err
}

// peek returns the first byte of the next token without reading it.
func (s *jsonStream) peek() (byte, error) {
	for {
		c, err := s.next()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			s.total--
			return c, s.in.UnreadByte()
		}
	}
}

// end makes sure that nothing follows.
func (s *jsonStream) end() error {
	if _, err := s.peek(); !errors.Is(err, errJSONEnd) {
		if err == nil {
			err = malformed("more than one value")
		}
		return err
	}
	return nil
}

// token reads the byte that comes next, which is to be c.
func (s *jsonStream) token(c byte, what string) error {
	got, err := s.peek()
	if err != nil {
		return err
	}
	if got != c {
		return malformed("%s is not %s", what, map[byte]string{'{': "an object", '[': "a list", '"': "a string", ':': "followed by a colon"}[c])
	}
	_, err = s.next()
	return err
}

// more reads what stands between the items of a list or object, and reports
// whether another one follows.
func (s *jsonStream) more(first bool, close byte) (bool, error) {
	c, err := s.peek()
	if err != nil {
		return false, err
	}
	switch {
	case c == close:
		s.depth--
		_, err = s.next()
		return false, err
	case first:
		return true, nil
	case c != ',':
		return false, malformed("a value without a comma before it")
	}
	s.next()
	if c, err = s.peek(); err == nil && c == close {
		err = malformed("a comma without a value behind it")
	}
	return true, err
}

func (s *jsonStream) enter() error {
	if s.depth++; s.depth > maxJSONDepth {
		return &limitError{fmt.Sprintf("more than %d levels", maxJSONDepth)}
	}
	return nil
}

// object reads an object called what, and calls member for each of the names
// that it has, with the value still to be read. Others are skipped.
func (s *jsonStream) object(what string, names []string, member func(name string) error) error {
	if err := s.token('{', what); err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	seen := make([]bool, len(names))
	for first := true; ; first = false {
		if more, err := s.more(first, '}'); err != nil || !more {
			return err
		}
		key, whole, err := s.str("the name of a member", 64)
		if err != nil {
			return err
		}
		if err := s.token(':', "the name of a member"); err != nil {
			return err
		}
		i := -1
		if whole {
			i = slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, key) })
		}
		switch {
		case i < 0:
			err = s.skip()
		case names[i] != key:
			err = malformed("%s: member %q in another case", what, key)
		case seen[i]:
			err = malformed("%s: member %q occurs twice", what, key)
		default:
			seen[i] = true
			err = member(key)
		}
		if err != nil {
			return err
		}
	}
}

// list reads a list called what, and calls item with each value still to be
// read.
func (s *jsonStream) list(what string, item func() error) error {
	if err := s.token('[', what); err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		if more, err := s.more(first, ']'); err != nil || !more {
			return err
		}
		if err := item(); err != nil {
			return err
		}
	}
}

// str reads a string called what, and returns at most its first keep bytes, and
// up to one character more, and whether that is all of it.
func (s *jsonStream) str(what string, keep int) (text string, whole bool, err error) {
	if err := s.token('"', what); err != nil {
		return "", false, err
	}
	s.kept, whole = s.kept[:0], true
	add := func(part []byte) {
		if len(s.kept) < keep {
			s.kept = append(s.kept, part...)
		} else {
			whole = false
		}
	}
	for {
		c, err := s.next()
		switch {
		case err != nil:
			return "", false, err
		case c == '"':
			return string(s.kept), whole, nil
		case c < ' ':
			return "", false, malformed("a control character in a string")
		case c == '\\':
			part, err := s.escape(s.char[:0])
			if err != nil {
				return "", false, err
			}
			add(part)
		case c < utf8.RuneSelf:
			add(append(s.char[:0], c))
		default:
			part := append(s.char[:0], c)
			for !utf8.FullRune(part) {
				if c, err = s.next(); err != nil {
					return "", false, err
				}
				part = append(part, c)
			}
			if !utf8.Valid(part) {
				return "", false, malformed("a string that is not UTF-8")
			}
			add(part)
		}
	}
}

// escape reads an escape but for its backslash. A surrogate without its other
// half is U+FFFD.
func (s *jsonStream) escape(dst []byte) ([]byte, error) {
	raw := append(s.raw[:0], '\\')
	read := func(n int) error {
		for range n {
			c, err := s.next()
			if err != nil {
				return err
			}
			raw = append(raw, c)
		}
		return nil
	}
	if err := read(1); err != nil {
		return nil, err
	}
	if raw[1] == 'u' {
		if err := read(4); err != nil {
			return nil, err
		}
		if r, ok := hex4(raw[2:]); ok && 0xd800 <= r && r < 0xdc00 {
			// The other half follows, or something that is read for itself.
			if half, err := s.in.Peek(6); err == nil && half[0] == '\\' && half[1] == 'u' {
				if low, ok := hex4(half[2:]); ok && 0xdc00 <= low && low < 0xe000 {
					if err := read(6); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	size, text := unescape(raw, dst)
	if size != len(raw) {
		return nil, malformed("a backslash that escapes nothing")
	}
	return text, nil
}

// word reads a number, true, false or null.
func (s *jsonStream) word() (string, error) {
	var text []byte
	for {
		c, err := s.next()
		if errors.Is(err, errJSONEnd) {
			break
		}
		if err != nil {
			return "", err
		}
		if !isLower(c|0x20) && !isDigit(c) && strings.IndexByte("+-.", c) < 0 {
			s.total--
			if err := s.in.UnreadByte(); err != nil {
				return "", err
			}
			break
		}
		if text = append(text, c); len(text) > 1<<10 {
			return "", &limitError{"a number of more than 1024 digits"}
		}
	}
	switch string(text) {
	case "true", "false", "null":
		return string(text), nil
	}
	if !isJSONNumber(text) {
		return "", malformed("%.20q is no value", text)
	}
	return string(text), nil
}

// isJSONNumber reports whether text is -0.0e+0 or alike.
func isJSONNumber(text []byte) bool {
	digits := func() bool {
		n := 0
		for n < len(text) && isDigit(text[n]) {
			n++
		}
		text = text[n:]
		return n > 0
	}
	take := func(set string) bool {
		if len(text) == 0 || strings.IndexByte(set, text[0]) < 0 {
			return false
		}
		text = text[1:]
		return true
	}
	take("-")
	if !take("0") && !digits() {
		return false
	}
	if take(".") && !digits() {
		return false
	}
	if take("eE") {
		take("+-")
		if !digits() {
			return false
		}
	}
	return len(text) == 0
}

// skip reads a value of any kind. It does not call itself, so depth costs
// nothing.
func (s *jsonStream) skip() error {
	outer := s.depth
	var closers []byte
	for {
		c, err := s.peek()
		if err != nil {
			return err
		}
		opened := false
		switch c {
		case '{', '[':
			s.next()
			if err := s.enter(); err != nil {
				return err
			}
			closers = append(closers, c+2)
			opened = true
		case '"':
			_, _, err = s.str("a value", 0)
		default:
			_, err = s.word()
		}
		if err != nil {
			return err
		}
		// What follows is a comma and a value, or the end of what is open.
		for more := false; !more; opened = false {
			if s.depth == outer {
				return nil
			}
			close := closers[len(closers)-1]
			if more, err = s.more(opened, close); err != nil {
				return err
			}
			if !more {
				closers = closers[:len(closers)-1]
				continue
			}
			if close == '}' {
				if _, _, err := s.str("the name of a member", 0); err != nil {
					return err
				}
				if err := s.token(':', "the name of a member"); err != nil {
					return err
				}
			}
		}
	}
}
