package jws

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

// Claims are the members of a payload.
type Claims struct {
	members map[string]json.RawMessage
}

var (
	errAbsent = errors.New("absent")
	errObject = errors.New("not a JSON object")
)

// object reads a JSON object of which no two readers think differently.
func object(text []byte) (Claims, error) {
	if err := strictjson.Check(text, strictjson.Limits{Size: MaxKeySet, Depth: maxDepth}); err != nil {
		return Claims{}, err
	}
	var c Claims
	if json.Unmarshal(text, &c.members) != nil || c.members == nil {
		return Claims{}, errObject
	}
	return c, nil
}

// Has reports whether there is a claim of that name, of whatever type.
func (c Claims) Has(name string) bool { return c.members[name] != nil }

// Text returns a claim that is a string.
func (c Claims) Text(name string) (string, error) {
	raw, ok := c.members[name]
	if !ok {
		return "", fmt.Errorf("%s: %w", name, errAbsent)
	}
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", fmt.Errorf("%s: not a string", name)
	}
	return s, nil
}

// Texts returns a claim that is a string or a list of strings, as an audience is.
func (c Claims) Texts(name string) ([]string, error) {
	if raw, ok := c.members[name]; !ok || raw[0] != '[' {
		s, err := c.Text(name)
		if err != nil {
			return nil, err
		}
		return []string{s}, nil
	}
	var raw []json.RawMessage
	if json.Unmarshal(c.members[name], &raw) != nil {
		return nil, fmt.Errorf("%s: not a list", name)
	}
	list := make([]string, len(raw))
	for i := range raw {
		if raw[i][0] != '"' || json.Unmarshal(raw[i], &list[i]) != nil {
			return nil, fmt.Errorf("%s: not a list of strings", name)
		}
	}
	return list, nil
}

// Integer returns a claim that is a number, in plain decimal and from 0 up to 2^53-1:
// there and there only every reader of JSON sees the same number.
func (c Claims) Integer(name string) (int64, error) {
	raw, ok := c.members[name]
	if !ok {
		return 0, fmt.Errorf("%s: %w", name, errAbsent)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 || n >= 1<<53 || strconv.FormatInt(n, 10) != string(raw) {
		return 0, fmt.Errorf("%s: not a whole number", name)
	}
	return n, nil
}

// lastSecond is that of the year 9999: no later time has a form in RFC 3339.
const lastSecond = 253402300799

// Time returns a claim that is a NumericDate (RFC 7519): seconds since 1970 in plain
// decimal, whole or with a fraction of up to nine digits, from 0 to the end of the year
// 9999. There is no floating point in it, so nothing is rounded and nothing overflows.
func (c Claims) Time(name string) (time.Time, error) {
	raw, ok := c.members[name]
	if !ok {
		return time.Time{}, fmt.Errorf("%s: %w", name, errAbsent)
	}
	whole, fraction, _ := strings.Cut(string(raw), ".") // a dot has digits on both sides: it is JSON
	seconds, err := strconv.ParseUint(whole, 10, 64)
	nanos := uint64(0)
	if err == nil && fraction != "" && len(fraction) <= 9 {
		nanos, err = strconv.ParseUint((fraction + "000000000")[:9], 10, 64)
	}
	if err != nil || len(fraction) > 9 || seconds > lastSecond {
		return time.Time{}, fmt.Errorf("%s: not a time: want seconds from 0 to %d, with up to nine more digits after a dot", name, lastSecond)
	}
	return time.Unix(int64(seconds), int64(nanos)).UTC(), nil
}
