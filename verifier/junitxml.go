package verifier

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	maxReport   = 256 << 20 // bytes of one report
	maxXMLToken = 8 << 20   // bytes of one token, such as a text without elements
	maxXMLDepth = 64
)

// A malformedError says why a report cannot be read on.
type malformedError struct{ why string }

func (e *malformedError) Error() string { return e.why }

func malformed(format string, args ...any) error {
	return &malformedError{fmt.Sprintf(format, args...)}
}

// A limitError says which limit a report is beyond.
type limitError struct{ why string }

func (e *limitError) Error() string { return e.why }

// xmlTokens reads the tokens of one XML document. On top of encoding/xml, which
// expands no entities but the predefined ones, it refuses what a document must
// not have and what makes it cost more than its size: document type
// declarations, attributes that occur twice, content around the root element,
// depth and length beyond the limits.
type xmlTokens struct {
	dec   *xml.Decoder
	in    *xmlSource
	depth int
	first bool // no token was read
	root  bool // the root element was seen
}

func newXMLTokens(r io.Reader) (*xmlTokens, error) {
	in := &xmlSource{in: bufio.NewReader(r)}
	start, err := in.in.Peek(3)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch s := string(start); {
	case s == "\xef\xbb\xbf":
		in.in.Discard(3)
	case strings.HasPrefix(s, "\xfe\xff"), strings.HasPrefix(s, "\xff\xfe"):
		return nil, malformed("encoding UTF-16 is not supported")
	}
	dec := xml.NewDecoder(in)
	dec.CharsetReader = func(charset string, in io.Reader) (io.Reader, error) {
		switch strings.ToLower(charset) {
		case "us-ascii", "ascii":
			return in, nil
		case "iso-8859-1", "latin1", "latin-1":
			return &latin1{in: in.(io.ByteReader)}, nil
		}
		return nil, malformed("encoding %.40q is not supported", charset)
	}
	return &xmlTokens{dec: dec, in: in, first: true}, nil
}

// next returns the next token; io.EOF after the end of the root element. A
// token is valid until the next one.
func (t *xmlTokens) next() (xml.Token, error) {
	t.in.token = 0
	tok, err := t.dec.Token()
	if err != nil {
		return nil, t.classify(err)
	}
	switch tok := tok.(type) {
	case xml.StartElement:
		if t.depth == 0 && t.root {
			return nil, malformed("a second root element")
		}
		if t.depth++; t.depth > maxXMLDepth {
			return nil, &limitError{fmt.Sprintf("more than %d levels of elements", maxXMLDepth)}
		}
		t.root = true
		for i, a := range tok.Attr {
			for _, b := range tok.Attr[:i] {
				if a.Name == b.Name {
					return nil, malformed("attribute %.40q occurs twice", a.Name.Local)
				}
			}
		}
	case xml.EndElement:
		t.depth--
	case xml.CharData:
		if t.depth == 0 && strings.TrimSpace(string(tok)) != "" {
			return nil, malformed("text outside of the root element")
		}
	case xml.Directive:
		return nil, malformed("a document type declaration")
	case xml.ProcInst:
		if tok.Target == "xml" && !t.first {
			return nil, malformed("an XML declaration that is not at the start")
		}
	}
	t.first = false
	return tok, nil
}

// classify tells the end of a document, its faults and the reader's own errors
// apart.
func (t *xmlTokens) classify(err error) error {
	var bad *malformedError
	var limit *limitError
	switch {
	case t.in.err != nil:
		return t.in.err
	case err == io.EOF && t.root:
		return io.EOF
	case err == io.EOF:
		return malformed("no element")
	case errors.As(err, &bad), errors.As(err, &limit):
		return err
	}
	// The library's own words change with its version; evidence must not.
	return malformed("not well-formed XML")
}

// xmlSource counts the bytes of a document and of the token being read. As an
// io.ByteReader it keeps the decoder from reading ahead of a token.
type xmlSource struct {
	in    *bufio.Reader
	total int64
	token int64
	err   error // of in, but io.EOF
}

func (s *xmlSource) ReadByte() (byte, error) {
	if s.token >= maxXMLToken {
		return 0, &limitError{fmt.Sprintf("a token of more than %d bytes", maxXMLToken)}
	}
	if s.total >= maxReport {
		return 0, &limitError{fmt.Sprintf("a report of more than %d bytes", maxReport)}
	}
	b, err := s.in.ReadByte()
	if err != nil {
		if err != io.EOF {
			s.err = err
		}
		return 0, err
	}
	s.token++
	s.total++
	return b, nil
}

func (s *xmlSource) Read(p []byte) (int, error) { return readByte(s, p) }

// latin1 translates ISO 8859-1 to UTF-8.
type latin1 struct {
	in   io.ByteReader
	next byte // the second byte of a character, or 0
}

func (l *latin1) ReadByte() (byte, error) {
	if b := l.next; b != 0 {
		l.next = 0
		return b, nil
	}
	b, err := l.in.ReadByte()
	if err != nil || b < 0x80 {
		return b, err
	}
	l.next = 0x80 | b&0x3f
	return 0xc0 | b>>6, nil
}

func (l *latin1) Read(p []byte) (int, error) { return readByte(l, p) }

// readByte is the io.Reader of an io.ByteReader. The decoder asks for the type,
// and reads bytes.
func readByte(r io.ByteReader, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = b
	return 1, nil
}
