package strictjson

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A decoder reads the canonical encoding of a value whose type it knows, so it
// knows at each byte what must come, and takes nothing else.
type decoder struct {
	data   []byte
	at     int
	fields map[reflect.Type][]member
}

// A member is a field of a struct as it is written.
type member struct {
	index int
	name  string
	key   string // `"name":`
	omits bool   // tagged omitempty
}

func (d *decoder) members(t reflect.Type) []member {
	if list, ok := d.fields[t]; ok {
		return list
	}
	var list []member
	for i := range t.NumField() {
		name, option, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			list = append(list, member{i, name, `"` + name + `":`, option == "omitempty"})
		}
	}
	if d.fields == nil {
		d.fields = make(map[reflect.Type][]member)
	}
	d.fields[t] = list
	return list
}

func (d *decoder) fail(want string) error { return fmt.Errorf("byte %d: want %s", d.at, want) }

// take consumes s if it comes next.
func (d *decoder) take(s string) bool {
	if len(d.data)-d.at < len(s) || string(d.data[d.at:d.at+len(s)]) != s {
		return false
	}
	d.at += len(s)
	return true
}

func (d *decoder) value(v reflect.Value) error {
	t := v.Type()
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		return d.value(v.Elem())
	case t == bytesType:
		return d.bytes(v)
	case t.Implements(textType):
		return d.text(v)
	}
	switch v.Kind() {
	case reflect.String:
		s, err := d.string()
		v.SetString(string(s))
		return err
	case reflect.Bool:
		switch {
		case d.take("true"):
			v.SetBool(true)
		case !d.take("false"):
			return d.fail("true or false")
		}
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := d.integer()
		if err == nil && v.OverflowInt(n) {
			err = d.fail("a smaller number before it")
		}
		if err == nil {
			v.SetInt(n)
		}
		return err
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := d.integer()
		if err == nil && (n < 0 || v.OverflowUint(uint64(n))) {
			err = d.fail("a positive, smaller number before it")
		}
		if err == nil {
			v.SetUint(uint64(n))
		}
		return err
	case reflect.Slice:
		return d.list(v)
	case reflect.Struct:
		return d.object(v)
	}
	return fmt.Errorf("%s: no canonical encoding", t)
}

func (d *decoder) object(v reflect.Value) error {
	if !d.take("{") {
		return d.fail("an object")
	}
	first := true
	for _, m := range d.members(v.Type()) {
		start := d.at
		here := (first || d.take(",")) && d.take(m.key)
		if !here {
			d.at = start
			if m.omits {
				continue
			}
			return d.fail("the member " + m.name)
		}
		first = false
		field := v.Field(m.index)
		if err := d.value(field); err != nil {
			return err
		}
		if m.omits && empty(field) {
			return fmt.Errorf("byte %d: the member %s must be absent", start, m.name)
		}
	}
	if !d.take("}") {
		return d.fail("the end of the object")
	}
	return nil
}

func (d *decoder) list(v reflect.Value) error {
	if !d.take("[") {
		return d.fail("a list")
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	for n := 0; !d.take("]"); n++ {
		if n > 0 && !d.take(",") {
			return d.fail("the end of the list")
		}
		v.Grow(1)
		v.SetLen(n + 1)
		if err := d.value(v.Index(n)); err != nil {
			return err
		}
	}
	return nil
}

// integer reads a number with |n| < 2^53 and nothing but digits.
func (d *decoder) integer() (int64, error) {
	end := d.at
	if end < len(d.data) && d.data[end] == '-' {
		end++
	}
	digits := end
	for end < len(d.data) && end-digits < 17 && '0' <= d.data[end] && d.data[end] <= '9' {
		end++
	}
	text := string(d.data[d.at:end])
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > maxInteger || n < -maxInteger || strconv.FormatInt(n, 10) != text {
		return 0, d.fail("a number")
	}
	d.at = end
	return n, nil
}

func (d *decoder) text(v reflect.Value) error {
	start := d.at
	s, err := d.string()
	if err != nil {
		return err
	}
	to, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	if !ok {
		return fmt.Errorf("%s: cannot be read", v.Type())
	}
	if err := to.UnmarshalText(s); err != nil {
		return fmt.Errorf("byte %d: %w", start, err)
	}
	again, err := to.(encoding.TextMarshaler).MarshalText()
	if err != nil || !bytes.Equal(again, s) {
		return fmt.Errorf("byte %d: %w", start, errNotCanonical)
	}
	return nil
}

func (d *decoder) bytes(v reflect.Value) error {
	if !d.take(`{"b64":"`) {
		s, err := d.string()
		v.SetString(string(s))
		return err
	}
	n := bytes.IndexByte(d.data[d.at:], '"')
	if n < 0 || bytes.ContainsAny(d.data[d.at:d.at+n], "\r\n\\") {
		return d.fail("base64")
	}
	raw, err := base64.StdEncoding.Strict().AppendDecode(nil, d.data[d.at:d.at+n])
	if err != nil || utf8.Valid(raw) {
		return d.fail("base64 of what is not UTF-8")
	}
	d.at += n
	if !d.take(`"}`) {
		return d.fail("the end of the bytes")
	}
	v.SetString(string(raw))
	return nil
}

var errString = errors.New("string not in canonical form")

// string reads a string. Its result is valid until the next call.
func (d *decoder) string() ([]byte, error) {
	if !d.take(`"`) {
		return nil, d.fail("a string")
	}
	rest := d.data[d.at:]
	i := 0
	for i < len(rest) && rest[i] != '"' && rest[i] != '\\' && rest[i] >= 0x20 {
		i++
	}
	s := rest[:i:i]
	for i < len(rest) && rest[i] == '\\' {
		c, n := escape(rest[i:])
		if n == 0 {
			return nil, fmt.Errorf("byte %d: %w", d.at+i, errString)
		}
		s = append(s, c)
		i += n
		from := i
		for i < len(rest) && rest[i] != '"' && rest[i] != '\\' && rest[i] >= 0x20 {
			i++
		}
		s = append(s, rest[from:i]...)
	}
	if i == len(rest) || rest[i] != '"' || !utf8.Valid(s) {
		return nil, fmt.Errorf("byte %d: %w", d.at+i, errString)
	}
	d.at += i + 1
	return s, nil
}

// escape returns the character that b begins with the escape of, and the escape's
// length, 0 if [Marshal] does not write it.
func escape(b []byte) (c byte, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	const short, stand = `"\btnfr`, "\"\\\b\t\n\f\r"
	if i := strings.IndexByte(short, b[1]); i >= 0 {
		return stand[i], 2
	}
	if len(b) < 6 || string(b[1:4]) != "u00" {
		return 0, 0
	}
	hi, lo := strings.IndexByte(hexDigits, b[4]), strings.IndexByte(hexDigits, b[5])
	if hi < 0 || hi > 1 || lo < 0 || strings.IndexByte(stand, byte(hi<<4|lo)) >= 0 {
		return 0, 0
	}
	return byte(hi<<4 | lo), 6
}
