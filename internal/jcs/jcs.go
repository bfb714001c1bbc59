// Package jcs writes JSON in the canonical form of RFC 8785, the JSON Canonicalization
// Scheme, which is what many formats of others hash and sign.
//
// # Form
//
// Members are sorted by their names as UTF-16 code units; there is no white space;
// strings are UTF-8 with the escapes \" \\ \b \t \n \f \r, \u00xx (lower-case digits) for
// the other characters below U+0020, and no others. Nothing is normalised: two spellings
// of a letter stay two.
//
// A number is the IEEE 754 double nearest to it, written as ECMAScript writes that:
// 1.0, 1 and 1e0 are 1, -0 is 0, 1e30 is 1e+30.
//
// # Input
//
// [Parse] reads strict JSON, see [strictjson.Check]: no member occurs twice at any depth,
// no surrogate is alone, every byte is UTF-8. Names that differ by case only are
// different names. It also refuses numbers of which canonical form and text may be taken
// for different ones:
//
//   - beyond the range of a double, or so small that it would be 0;
//   - of 2^53 or more, unless the canonical form says exactly the same: 1e30 is fine, and
//     9007199254740993, which would become 9007199254740992, is not.
//
// A fraction is rounded, as the RFC says: 0.30000000000000000001 is 0.3.
//
// # Limits
//
// Size and depth are the caller's, with the defaults of strictjson; a text has at most
// [MaxValues] values, which bounds the memory to about a hundred bytes for each.
package jcs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

// MaxValues is how many values a text can have, the nested ones included.
const MaxValues = 1 << 16

// A Kind is what a value is.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// A Value is a JSON value that can be written in one way only. The zero Value is null.
type Value struct {
	kind    Kind
	text    string // of a string; the canonical form of a number, true and false
	list    []Value
	members []Member // sorted
}

// A Member is one of an object.
type Member struct {
	Name  string
	Value Value
}

// Parse reads one JSON value.
func Parse(data []byte, l strictjson.Limits) (Value, error) {
	l.CaseSensitive = true
	// Every value but the first has a comma, a colon or an opening bracket before it. What
	// is in strings counts too: a text of so many of these is none that is signed.
	n := bytes.Count(data, []byte(",")) + bytes.Count(data, []byte(":")) + bytes.Count(data, []byte("["))
	if (l.Size == 0 || len(data) <= l.Size) && n >= MaxValues {
		return Value{}, fmt.Errorf("more than %d values", MaxValues)
	}
	if err := strictjson.Check(data, l); err != nil {
		return Value{}, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := next(d)
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

// next reads a value of a text that has been checked.
func next(d *json.Decoder) (Value, error) {
	t, err := d.Token()
	if err != nil {
		return Value{}, err
	}
	switch t := t.(type) {
	case bool:
		if t {
			return Value{kind: Bool, text: "true"}, nil
		}
		return Value{kind: Bool, text: "false"}, nil
	case json.Number:
		text, err := number(t.String())
		return Value{kind: Number, text: text}, err
	case string:
		return Value{kind: String, text: t}, nil
	case json.Delim:
		if t == '[' {
			return array(d)
		}
		return object(d)
	}
	return Value{}, nil
}

func array(d *json.Decoder) (Value, error) {
	v := Value{kind: Array}
	for d.More() {
		e, err := next(d)
		if err != nil {
			return Value{}, err
		}
		v.list = append(v.list, e)
	}
	_, err := d.Token()
	return v, err
}

func object(d *json.Decoder) (Value, error) {
	v := Value{kind: Object}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return Value{}, err
		}
		value, err := next(d)
		if err != nil {
			return Value{}, err
		}
		v.members = append(v.members, Member{name.(string), value})
	}
	slices.SortFunc(v.members, func(a, b Member) int { return compare(a.Name, b.Name) })
	_, err := d.Token()
	return v, err
}

// compare orders names by their UTF-16 code units, in which what is beyond U+FFFF comes
// before U+E000 to U+FFFF.
func compare(a, b string) int {
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		if x != y {
			return cmp.Or(cmp.Compare(unit(x), unit(y)), cmp.Compare(x, y))
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

// unit returns the first UTF-16 code unit of a character.
func unit(r rune) rune {
	if hi, _ := utf16.EncodeRune(r); hi != utf8.RuneError {
		return hi
	}
	return r
}

// Append appends the canonical form of v to dst.
func (v *Value) Append(dst []byte) []byte {
	switch v.kind {
	case Null:
		return append(dst, "null"...)
	case String:
		return appendString(dst, v.text)
	case Array:
		dst = append(dst, '[')
		for i := range v.list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.list[i].Append(dst)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		for i := range v.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, v.members[i].Name), ':')
			dst = v.members[i].Value.Append(dst)
		}
		return append(dst, '}')
	}
	return append(dst, v.text...)
}

// appendString appends a string that Parse has read, or that is part of the program.
func appendString(dst []byte, s string) []byte {
	out, err := strictjson.Append(dst, s)
	if err != nil { // not UTF-8: Parse lets none through
		return append(dst, `""`...)
	}
	return out
}
