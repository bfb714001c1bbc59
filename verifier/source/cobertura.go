package source

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	maxCobertura        = 256 << 20 // bytes of a report
	maxCoberturaToken   = 1 << 20   // bytes of one token
	maxCoberturaDepth   = 32
	maxCoberturaSources = 64
)

// ReadCobertura reads a report in Cobertura's XML format. Of it, these count:
//
//	<coverage>
//	  <sources><source>src</source></sources>
//	  … <class filename="a/b.py"> … <line number="12" hits="3"/> … </class>
//	</coverage>
//
// Other elements and attributes are read over. A line that occurs again, as
// those of methods do, is executed if it ever was.
//
// path returns the path in the tree of a file's name, and false for what is
// not of the tree, which is left out. It is asked for the name as it is in the
// report, then for the name below each source.
//
// The encoding is UTF-8. A document type that has declarations of its own is
// refused, as are attributes that occur twice, content after the root element,
// more than 256 MiB, 32 levels of elements, 64 sources, or 1 MiB in one tag or
// text. A report without a line is an error with [ErrNoCoverage].
func ReadCobertura(r io.Reader, path func(name string) (string, bool)) (*Coverage, error) {
	in := &xmlBytes{in: bufio.NewReader(r)}
	rd := &coberturaReader{in: in, dec: xml.NewDecoder(in), path: path, coverage: &Coverage{}}
	for {
		err := rd.next()
		if err == io.EOF && rd.root && !rd.any {
			err = ErrNoCoverage
		} else if err == io.EOF && rd.root {
			return rd.coverage, nil
		} else if err == io.EOF {
			err = errors.New("no element")
		}
		if err != nil {
			return nil, fmt.Errorf("cobertura report: %w", err)
		}
	}
}

type coberturaReader struct {
	in       *xmlBytes
	dec      *xml.Decoder
	path     func(string) (string, bool)
	coverage *Coverage
	depth    int
	class    int           // the depth of the open class; 0 if none is
	file     *fileCoverage // of the class, if it is of the tree
	source   bool          // a source is open
	text     []byte        // of it
	sources  []string
	root     bool // the root element was seen
	any      bool // a line was
}

// next reads one token.
func (r *coberturaReader) next() error {
	r.in.token = 0
	token, err := r.dec.Token()
	if r.in.err != nil {
		return r.in.err
	}
	if err == io.EOF {
		return err
	}
	if err != nil {
		return errors.New("not well-formed XML")
	}
	switch token := token.(type) {
	case xml.StartElement:
		return r.start(token)
	case xml.EndElement:
		r.end()
	case xml.CharData:
		if r.depth == 0 && strings.TrimSpace(string(token)) != "" {
			return errors.New("text outside of the root element")
		}
		if r.source {
			if len(r.text)+len(token) > 4096 {
				return errors.New("a source of more than 4096 bytes")
			}
			r.text = append(r.text, token...)
		}
	case xml.Directive:
		if r.root || strings.ContainsAny(string(token), "[<") {
			return errors.New("a document type with declarations")
		}
	}
	return nil
}

func (r *coberturaReader) start(e xml.StartElement) error {
	if r.depth == 0 && (r.root || e.Name.Local != "coverage") {
		return errors.New("want one root element, coverage")
	}
	if r.depth++; r.depth > maxCoberturaDepth {
		return fmt.Errorf("more than %d levels of elements", maxCoberturaDepth)
	}
	r.root = true
	for i, a := range e.Attr {
		for _, b := range e.Attr[:i] {
			if a.Name == b.Name {
				return fmt.Errorf("attribute %.40q occurs twice", a.Name.Local)
			}
		}
		if i == 64 {
			return errors.New("more than 64 attributes")
		}
	}
	if r.source {
		return errors.New("an element in a source")
	}
	switch e.Name.Local {
	case "source":
		if len(r.sources) == maxCoberturaSources {
			return fmt.Errorf("more than %d sources", maxCoberturaSources)
		}
		r.source, r.text = true, r.text[:0]
	case "class":
		return r.startClass(attribute(e, "filename"))
	case "line":
		number, ok := parseNumber(attribute(e, "number"))
		hit, hitOK := parseHits(attribute(e, "hits"))
		if !ok || !hitOK || number == 0 || r.class == 0 {
			return errors.New("want a line of a class, with its number and hits")
		}
		r.any = true
		if r.file != nil {
			return r.coverage.addLine(r.file, number, hit)
		}
	}
	return nil
}

func (r *coberturaReader) startClass(name string) error {
	if name == "" || len(name) > 4096 || r.class > 0 {
		return errors.New("want a class with a filename of at most 4096 bytes, outside of others")
	}
	r.class = r.depth
	path, ok := r.path(name)
	for i := 0; !ok && i < len(r.sources); i++ {
		path, ok = r.path(strings.TrimSuffix(r.sources[i], "/") + "/" + name)
	}
	if !ok {
		return nil
	}
	f, err := r.coverage.file(path)
	r.file = f
	return err
}

func (r *coberturaReader) end() {
	if r.source {
		r.source = false
		r.sources = append(r.sources, strings.TrimSpace(string(r.text)))
	}
	if r.class == r.depth {
		r.class, r.file = 0, nil
	}
	r.depth--
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

// xmlBytes counts the bytes of a document and of the token being read. As an
// io.ByteReader it keeps the decoder from reading ahead of a token.
type xmlBytes struct {
	in    *bufio.Reader
	total int64
	token int
	err   error // of in, or a limit; not io.EOF
}

func (b *xmlBytes) ReadByte() (byte, error) {
	switch {
	case b.token >= maxCoberturaToken:
		b.err = fmt.Errorf("more than %d bytes in one tag or text", maxCoberturaToken)
	case b.total >= maxCobertura:
		b.err = fmt.Errorf("more than %d bytes", maxCobertura)
	}
	if b.err != nil {
		return 0, b.err
	}
	c, err := b.in.ReadByte()
	if err != nil {
		if err != io.EOF {
			b.err = err
		}
		return 0, err
	}
	b.token++
	b.total++
	return c, nil
}

func (b *xmlBytes) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := b.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = c
	return 1, nil
}
