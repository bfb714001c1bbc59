package strictjson

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// A Cursor reads one JSON text from left to right, for a caller that knows what it may
// hold. It refuses what [Check] refuses, but that names which differ by case only are
// two names: its caller compares names byte by byte.
//
// After the first error, every method returns nothing, and [Cursor.End] the error. A
// duplicate member is an error at the end only, so that a text which is not JSON at all
// is always said to be that.
type Cursor struct {
	s     scanner
	err   error
	stack []opened
}

// opened is an object or array that a cursor is in.
type opened struct {
	object bool
	n      int // members or elements so far
	base   int
	more   map[string]bool
}

// Reset makes c read data from its beginning. What c returns of it are parts of it,
// or copies.
func (c *Cursor) Reset(data []byte, l Limits) {
	if l.Size == 0 {
		l.Size = defaultSize
	}
	if l.Depth == 0 {
		l.Depth = defaultDepth
	}
	c.s = scanner{data: data, depth: l.Depth, goesOn: true, names: c.s.names[:0]}
	c.stack, c.err = c.stack[:0], nil
	switch {
	case len(data) > l.Size:
		c.err = fmt.Errorf("%d bytes: the limit is %d", len(data), l.Size)
	case len(data) == 0:
		c.err = io.ErrUnexpectedEOF
	case !utf8.Valid(data):
		c.err = errors.New("not UTF-8")
	default:
		c.s.space()
	}
}

func (c *Cursor) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("byte %d: %w", c.s.at, err)
	}
}

// Kind returns the first byte of the next value, '0' for any number, or 0 where there
// is none.
func (c *Cursor) Kind() byte {
	if c.err != nil {
		return 0
	}
	switch k := c.s.peek(); {
	case k == '-' || k >= '0' && k <= '9':
		return '0'
	case k == '{' || k == '[' || k == '"' || k == 't' || k == 'f' || k == 'n':
		return k
	}
	return 0
}

// Open goes into the next value, an object or array.
func (c *Cursor) Open() {
	k := c.Kind()
	switch {
	case c.err != nil:
	case k != '{' && k != '[':
		c.fail(errSyntax)
	case c.s.depth == 0:
		c.fail(ErrDepth)
	default:
		c.s.depth--
		c.s.at++
		c.stack = append(c.stack, opened{object: k == '{', base: len(c.s.names)})
	}
}

// Member goes to the next member of the object that c is in, and returns its name, or
// leaves the object after its last.
func (c *Cursor) Member() (name []byte, ok bool) {
	in := c.in(true)
	if in == nil {
		return nil, false
	}
	name, ok, err := c.s.member(in.n, in.base, &in.more)
	if err != nil {
		c.fail(err)
		return nil, false
	}
	if in.n++; !ok {
		c.close()
	}
	return name, ok
}

// Element goes to the next element of the array that c is in, or leaves the array after
// its last, and reports which.
func (c *Cursor) Element() bool {
	in := c.in(false)
	if in == nil {
		return false
	}
	c.s.space()
	if c.s.peek() == ']' {
		c.s.at++
		c.close()
		return false
	}
	if in.n > 0 {
		if c.s.peek() != ',' {
			c.fail(errSyntax)
			return false
		}
		c.s.at++
		c.s.space()
	}
	if in.n++; c.Kind() == 0 {
		c.fail(errSyntax)
		return false
	}
	return true
}

func (c *Cursor) in(object bool) *opened {
	if c.err != nil {
		return nil
	}
	if n := len(c.stack); n > 0 && c.stack[n-1].object == object {
		return &c.stack[n-1]
	}
	c.fail(errSyntax)
	return nil
}

func (c *Cursor) close() {
	in := &c.stack[len(c.stack)-1]
	c.s.names = c.s.names[:in.base]
	c.stack = c.stack[:len(c.stack)-1]
	c.s.depth++
}

// Skip goes over the next value, and returns its text.
func (c *Cursor) Skip() []byte {
	if c.err != nil {
		return nil
	}
	from := c.s.at
	if err := c.s.value(); err != nil {
		c.fail(err)
		return nil
	}
	return c.s.data[from:c.s.at:c.s.at]
}

// String goes over the next value, a string, and returns what it stands for.
func (c *Cursor) String() []byte {
	if c.err != nil {
		return nil
	}
	if c.s.peek() != '"' {
		c.fail(errSyntax)
		return nil
	}
	text, err := c.s.str(true)
	if err != nil {
		c.fail(err)
		return nil
	}
	return text
}

// End returns why the text, which must end here, is not one strict JSON value.
func (c *Cursor) End() error {
	if c.err == nil {
		c.s.space()
		if c.s.at != len(c.s.data) || len(c.stack) > 0 {
			c.fail(errors.New("data after the value"))
		}
	}
	if c.err == nil {
		return c.s.double
	}
	return c.err
}
