package jcs

import (
	"slices"
	"strconv"
)

// Kind returns what v is.
func (v *Value) Kind() Kind { return v.kind }

// Member returns the member of an object with this name, nil where there is none.
func (v *Value) Member(name string) *Value {
	i, found := slices.BinarySearchFunc(v.members, name, func(m Member, name string) int { return compare(m.Name, name) })
	if !found {
		return nil
	}
	return &v.members[i].Value
}

// Members returns the members of an object, in the order of the canonical form.
func (v *Value) Members() []Member { return v.members }

// Elements returns the elements of an array.
func (v *Value) Elements() []Value { return v.list }

// Text returns a string, and whether v is one. v may be nil.
func (v *Value) Text() (string, bool) {
	if v == nil || v.kind != String {
		return "", false
	}
	return v.text, true
}

// Int returns a number without a fraction below 2^53, and whether v is one. v may be nil.
func (v *Value) Int() (int64, bool) {
	if v == nil || v.kind != Number {
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	return n, err == nil && n < 1<<53 && n > -1<<53
}

// Without returns an object without the members of these names, which shares the others
// with v.
func (v *Value) Without(names ...string) Value {
	w := Value{kind: v.kind, text: v.text, list: v.list}
	for _, m := range v.members {
		if !slices.Contains(names, m.Name) {
			w.members = append(w.members, m)
		}
	}
	return w
}

// SetText makes v another string, if it is one.
func (v *Value) SetText(text string) {
	if v.kind == String {
		v.text = text
	}
}
