package pipelock

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

const (
	// MaxReceipt is how many bytes a receipt, or a line that holds one, may have.
	MaxReceipt = 1 << 20
	maxDepth   = 128
	maxInteger = 1<<53 - 1
)

// A Decoder reads receipts one after the other. It keeps its memory between them.
type Decoder struct {
	// Exact refuses a receipt whose text is not the one that the format's writer
	// would make of it: compact, in order, and with lower-case hexadecimal digits.
	Exact bool

	c     strictjson.Cursor
	out   []byte // the canonical text so far
	spans []span // of the members of the open objects
	fault *Error
	rank  int

	text   [slots]string
	number [slots]int64
	has    [slots]bool
	when   time.Time
	digest [sha256.Size]byte
}

// span is where the canonical text of a member is.
type span struct {
	from, to int
	written  bool
}

// The order of faults, where a text has several.
const (
	rankUnknown = iota + 1
	rankType
	rankVersion
	rankRequired
)

func (d *Decoder) wrong(rank int, code, format string, args ...any) {
	if d.fault == nil || rank < d.rank {
		d.fault, d.rank = wrong(code, format, args...), rank
	}
}

// read decodes text by a schema, and leaves its canonical form in d.out.
func (d *Decoder) read(text []byte, s schema) error {
	d.c.Reset(text, strictjson.Limits{Size: MaxReceipt, Depth: maxDepth})
	d.out, d.spans, d.fault, d.has = d.out[:0], d.spans[:0], nil, [slots]bool{}
	if k := d.c.Kind(); k != '{' && k != 0 {
		d.c.Skip()
		d.wrong(0, codeMalformedJSON, "not an object")
	} else {
		d.object(s)
	}
	if err := d.c.End(); err != nil {
		return structure(err)
	}
	if d.fault != nil {
		return d.fault
	}
	return nil
}

// structure gives the code to an error of a cursor.
func structure(err error) error {
	switch {
	case errors.Is(err, strictjson.ErrDuplicate):
		return &Error{codeDuplicateKey, err}
	case errors.Is(err, strictjson.ErrDepth):
		return &Error{codeTooDeep, err}
	}
	return &Error{codeMalformedJSON, err}
}

// object reads an object, and appends its members in the order of the schema, without
// those that are zero and not always there.
func (d *Decoder) object(s schema) {
	start, base := len(d.out), len(d.spans)
	d.spans = append(d.spans, make([]span, len(s))...)
	next := 0
	d.c.Open()
	for {
		name, ok := d.c.Member()
		if !ok {
			break
		}
		i := find(s, name, next)
		if i < 0 {
			d.wrong(rankUnknown, codeUnknownField, "%q", name)
			d.c.Skip()
			continue
		}
		next = i + 1
		m := &s[i]
		from := len(d.out)
		d.out = append(d.out, m.key...)
		zero := d.value(m)
		d.spans[base+i] = span{from, len(d.out), m.always || !zero}
	}
	end := len(d.out)
	d.out = append(d.out, '{')
	for i, sp := range d.spans[base:] {
		if sp.written {
			d.out = append(append(d.out, d.out[sp.from:sp.to]...), ',')
		} else if s[i].always {
			d.wrong(rankRequired, codeMissingField, "%s", s[i].name)
		}
	}
	if d.out[len(d.out)-1] == ',' {
		d.out = d.out[:len(d.out)-1]
	}
	d.out = append(d.out, '}')
	d.out = d.out[:start+copy(d.out[start:], d.out[end:])]
	d.spans = d.spans[:base]
}

// find returns the place of a name in a schema, from the place where it is likely, or -1.
func find(s schema, name []byte, next int) int {
	for i := next; i < len(s); i++ {
		if s[i].name == string(name) {
			return i
		}
	}
	for i := range min(next, len(s)) {
		if s[i].name == string(name) {
			return i
		}
	}
	return -1
}

// kinds are the first bytes of the values of a kind.
var kinds = [...]string{
	kString: `"`, kStrings: `[`, kChain: `[n`, kBool: `tf`, kInt: `0`, kUint: `0`, kByte: `0`,
	kTime: `"`, kSub: `{`, kSubs: `[`, kCount: `{`, kAny: `{["0tfn`,
}

// value appends the canonical text of the next value, and reports whether it is what
// its writer leaves out. A null in the place of what may be left out is that, too.
func (d *Decoder) value(m *member) (zero bool) {
	k := d.c.Kind()
	if k == 'n' && !m.always && m.kind != kAny {
		d.c.Skip()
		return true
	}
	if k != 0 && strings.IndexByte(kinds[m.kind], k) < 0 {
		d.wrong(rankType, codeWrongType, "%s", m.name)
		d.c.Skip()
		return false
	}
	d.has[m.keep] = true
	switch m.kind {
	case kString:
		s := d.c.String()
		d.keep(m.keep, s)
		d.out = appendString(d.out, s)
		return len(s) == 0
	case kStrings, kChain:
		if k == 'n' {
			d.out = append(d.out, d.c.Skip()...)
			return false
		}
		return d.strings(m)
	case kBool:
		word := d.c.Skip()
		d.out = append(d.out, word...)
		d.number[m.keep] = int64(len("false") - len(word))
		return len(word) == len("false")
	case kInt, kUint, kByte:
		return d.integer(m)
	case kTime:
		d.time(m)
		return false
	case kSub:
		d.sub(m)
		return false
	case kSubs:
		return d.subs(m)
	case kCount:
		return d.counts(m)
	}
	d.any()
	return false
}

// keep keeps what a string stands for. Receipts of one chain have many values in
// common: one that is the same as in the receipt before is not made anew.
func (d *Decoder) keep(at slot, s []byte) {
	if at != none && d.text[at] != string(s) {
		d.text[at] = string(s)
	}
}

func (d *Decoder) strings(m *member) (empty bool) {
	d.out = append(d.out, '[')
	n := 0
	for d.c.Open(); d.c.Element(); n++ {
		if n > 0 {
			d.out = append(d.out, ',')
		}
		if d.c.Kind() != '"' {
			d.wrong(rankType, codeWrongType, "%s", m.name)
			d.c.Skip()
			continue
		}
		d.out = appendString(d.out, d.c.String())
	}
	d.out = append(d.out, ']')
	return n == 0
}

func (d *Decoder) integer(m *member) (zero bool) {
	text := d.c.Skip()
	n, err := strconv.ParseInt(string(text), 10, 64)
	low, high := int64(-maxInteger), int64(maxInteger)
	switch m.kind {
	case kUint:
		low = 0
	case kByte:
		low, high = 0, 255
	}
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && (n > maxInteger || n < -maxInteger):
		d.wrong(rankType, codeUnsafeNumber, "%s", m.name)
	case err != nil || n < low || n > high || text[0] == '-' && n == 0:
		d.wrong(rankType, codeWrongType, "%s: %.40s", m.name, text)
	}
	d.number[m.keep] = n
	d.out = strconv.AppendInt(d.out, n, 10)
	return n == 0
}

// time reads a time, and appends it as it is printed: with as many digits of a second
// as it needs.
func (d *Decoder) time(m *member) {
	text := d.c.String()
	t, err := parseTime(text)
	if err != nil {
		if m.keep == sTime && len(text) == 0 {
			d.wrong(rankRequired, codeMissingField, "%s", m.name)
		} else {
			d.wrong(rankType, codeWrongType, "%s: not a time of RFC 3339", m.name)
		}
		return
	}
	if m.keep == sTime {
		if d.when = t; t.IsZero() {
			d.wrong(rankRequired, codeMissingField, "%s", m.name)
		}
	}
	d.out = append(d.out, '"')
	d.out = append(t.AppendFormat(d.out, time.RFC3339Nano), '"')
}

// sub reads an object. A record's digest is what its signature covers.
func (d *Decoder) sub(m *member) {
	from := len(d.out)
	d.object(m.sub)
	if m.keep == sRecord {
		d.digest = sha256.Sum256(d.out[from:])
	}
}

func (d *Decoder) subs(m *member) (empty bool) {
	d.out = append(d.out, '[')
	n := 0
	for d.c.Open(); d.c.Element(); n++ {
		if n > 0 {
			d.out = append(d.out, ',')
		}
		if d.c.Kind() != '{' {
			d.wrong(rankType, codeWrongType, "%s", m.name)
			d.c.Skip()
			continue
		}
		d.object(m.sub)
	}
	d.out = append(d.out, ']')
	return n == 0
}

// counts reads integers by names, and appends them in the order of their names' bytes.
func (d *Decoder) counts(m *member) (empty bool) {
	type count struct{ name, value []byte }
	var list []count
	d.c.Open()
	for {
		name, ok := d.c.Member()
		if !ok {
			break
		}
		if d.c.Kind() != '0' {
			d.wrong(rankType, codeWrongType, "%s", m.name)
			d.c.Skip()
			continue
		}
		from := len(d.out)
		d.integer(&member{name: m.name, kind: kInt})
		list = append(list, count{name, bytes.Clone(d.out[from:])})
		d.out = d.out[:from]
	}
	slices.SortFunc(list, func(a, b count) int { return bytes.Compare(a.name, b.name) })
	d.out = append(d.out, '{')
	for i, c := range list {
		if i > 0 {
			d.out = append(d.out, ',')
		}
		d.out = append(appendString(d.out, c.name), ':')
		d.out = append(d.out, c.value...)
	}
	d.out = append(d.out, '}')
	return len(list) == 0
}

// any appends the next value's text without white space, and escaped as strings are.
func (d *Decoder) any() {
	raw := d.c.Skip()
	if raw == nil {
		return
	}
	var compact, escaped bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		d.wrong(0, codeMalformedJSON, "%w", err)
		return
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	d.out = append(d.out, escaped.Bytes()...)
}
