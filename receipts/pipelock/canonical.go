package pipelock

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"golang.org/x/text/unicode/norm"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

// canonicalEvidence returns an evidence receipt in the form that is hashed, and in the
// one that is signed: the same with every string of its signature empty.
func canonicalEvidence(text []byte) (full, signed []byte, err error) {
	w := canonicalWriter{sorted: true}
	if full, err = w.write(text); err != nil {
		return nil, nil, err
	}
	w.blank = true
	if signed, err = w.write(text); err != nil {
		return nil, nil, err
	}
	return full, signed, nil
}

// A canonicalWriter writes JSON with strings in normalization form C, members in the
// order of their names' code points, and no number but a plain integer.
type canonicalWriter struct {
	blank  bool // the signature's strings
	sorted bool // members; else they stay where they are
	c      strictjson.Cursor
	fault  *Error
}

func (w *canonicalWriter) write(text []byte) ([]byte, error) {
	w.c.Reset(text, strictjson.Limits{Size: MaxReceipt, Depth: maxDepth})
	w.fault = nil
	out := w.value(nil, 0, false)
	if err := w.c.End(); err != nil {
		return nil, structure(err)
	}
	if w.fault != nil {
		return nil, w.fault
	}
	return out, nil
}

func (w *canonicalWriter) value(dst []byte, depth int, blank bool) []byte {
	switch w.c.Kind() {
	case '{':
		return w.object(dst, depth, blank)
	case '[':
		dst = append(dst, '[')
		n := 0
		for w.c.Open(); w.c.Element(); n++ {
			if n > 0 {
				dst = append(dst, ',')
			}
			dst = w.value(dst, depth+1, false)
		}
		return append(dst, ']')
	case '"':
		s := w.c.String()
		if blank {
			s = nil
		}
		return appendString(dst, norm.NFC.Bytes(s))
	case '0':
		text := w.c.Skip()
		n, err := strconv.ParseInt(string(text), 10, 64)
		switch {
		case w.fault != nil:
		case errors.Is(err, strconv.ErrRange) || err == nil && (n > maxInteger || n < -maxInteger):
			w.fault = wrong(codeUnsafeNumber, "%.40s", text)
		case err != nil || text[0] == '-' && n == 0:
			w.fault = wrong(codeWrongType, "the number %.40s: not an integer", text)
		}
		return append(dst, text...)
	}
	return append(dst, w.c.Skip()...)
}

func (w *canonicalWriter) object(dst []byte, depth int, blank bool) []byte {
	type item struct {
		name     []byte
		from, to int
	}
	var items []item
	start := len(dst)
	w.c.Open()
	for {
		name, ok := w.c.Member()
		if !ok {
			break
		}
		name = norm.NFC.Bytes(name)
		from := len(dst)
		dst = append(appendString(dst, name), ':')
		dst = w.value(dst, depth+1, blank || w.blank && depth == 0 && string(name) == "signature")
		items = append(items, item{name, from, len(dst)})
	}
	// The order of code points is that of their bytes in UTF-8.
	if w.sorted {
		slices.SortFunc(items, func(a, b item) int { return bytes.Compare(a.name, b.name) })
	}
	end := len(dst)
	dst = append(dst, '{')
	for i, it := range items {
		if i > 0 {
			dst = append(dst, ',')
			if bytes.Equal(items[i-1].name, it.name) && w.fault == nil {
				w.fault = wrong(codeDuplicateKey, "%q, once it is normalized", it.name)
			}
		}
		dst = append(dst, dst[it.from:it.to]...)
	}
	dst = append(dst, '}')
	return dst[:start+copy(dst[start:], dst[end:])]
}
