package strictjson

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Marshal returns the canonical encoding of v. A type that implements
// [encoding.TextMarshaler] is a string; maps, floating-point numbers,
// interfaces and nil pointers without omitempty have no encoding.
func Marshal(v any) ([]byte, error) { return Append(nil, v) }

// Append appends the canonical encoding of v to dst.
func Append(dst []byte, v any) ([]byte, error) { return appendValue(dst, reflect.ValueOf(v)) }

// Bytes is a string of any bytes: a JSON string where it is UTF-8, and
// {"b64":"…"} where it is not.
type Bytes string

// UnmarshalJSON implements [json.Unmarshaler].
func (b *Bytes) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, (*string)(b))
	}
	var wrapped struct {
		B64 *string `json:"b64"`
	}
	if err := json.Unmarshal(data, &wrapped); err != nil {
		return err
	}
	if wrapped.B64 == nil {
		return errNotCanonical
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(*wrapped.B64)
	if err != nil {
		return err
	}
	*b = Bytes(raw)
	return nil
}

var (
	bytesType = reflect.TypeFor[Bytes]()
	textType  = reflect.TypeFor[encoding.TextMarshaler]()
)

func appendValue(dst []byte, v reflect.Value) ([]byte, error) {
	if !v.IsValid() {
		return nil, errors.New("nil has no encoding")
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil, fmt.Errorf("%s: nil has no encoding", v.Type())
		}
		return appendValue(dst, v.Elem())
	}
	if v.Type() == bytesType {
		if s := v.String(); !utf8.ValidString(s) {
			dst = append(dst, `{"b64":"`...)
			dst = base64.StdEncoding.AppendEncode(dst, []byte(s))
			return append(dst, `"}`...), nil
		}
		return appendString(dst, v.String())
	}
	if v.Type().Implements(textType) {
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return nil, err
		}
		return appendString(dst, string(text))
	}
	switch v.Kind() {
	case reflect.String:
		return appendString(dst, v.String())
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n := v.Int(); n > maxInteger || n < -maxInteger {
			return nil, fmt.Errorf("%d: beyond 2^53", n)
		}
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n := v.Uint(); n > maxInteger {
			return nil, fmt.Errorf("%d: beyond 2^53", n)
		}
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case reflect.Slice:
		return appendList(dst, v)
	case reflect.Struct:
		return appendStruct(dst, v)
	}
	return nil, fmt.Errorf("%s: no canonical encoding", v.Type())
}

func appendList(dst []byte, v reflect.Value) ([]byte, error) {
	var err error
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendValue(dst, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendStruct(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		field := v.Field(i)
		if name == "" || name == "-" || option == "omitempty" && empty(field) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(dst, '"'), name...), `":`...)
		var err error
		if dst, err = appendValue(dst, field); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return append(dst, '}'), nil
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

const hexDigits = "0123456789abcdef"

func appendString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("%q: not UTF-8", s)
	}
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			if c < 0x20 {
				dst = append(dst, `\u00`...)
				dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
				continue
			}
			dst = append(dst, c)
		}
	}
	return append(dst, '"'), nil
}
