package jws

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

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
