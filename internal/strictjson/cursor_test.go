package strictjson

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// walk reads the next value as encoding/json would.
func walk(c *Cursor) any {
	switch c.Kind() {
	case '{':
		m := map[string]any{}
		for c.Open(); ; {
			name, ok := c.Member()
			if !ok {
				return m
			}
			m[string(name)] = walk(c)
		}
	case '[':
		l := []any{}
		for c.Open(); c.Element(); {
			l = append(l, walk(c))
		}
		return l
	case '"':
		return string(c.String())
	}
	var v any
	_ = json.Unmarshal(c.Skip(), &v) // FuzzCursor compares
	return v
}

func TestCursor(t *testing.T) {
	t.Parallel()
	many := make([]string, 3*fewNames)
	for i := range many {
		many[i] = `"` + strings.Repeat("n", i+1) + `":0`
	}
	for name, c := range map[string]struct {
		text string
		want error // errSyntax: any
	}{
		"good":                    {` {"a":[1,{"b":"c\u00e9\ud83d\ude00\/"},[]],"A":null} `, nil},
		"many members":            {"{" + strings.Join(many, ",") + "}", nil},
		"duplicate":               {`{"a":{"b":1,"\u0062":2}}`, ErrDuplicate},
		"duplicate of many":       {"{" + strings.Join(append(many, many[7]), ",") + "}", ErrDuplicate},
		"duplicate late":          {"{" + strings.Join(append(many, many[len(many)-1]), ",") + "}", ErrDuplicate},
		"duplicate, then no JSON": {`{"a":1,"a":2`, errSyntax},
		"deep":                    {strings.Repeat("[", 17) + strings.Repeat("]", 17), ErrDepth},
		"empty":                   {"", errSyntax},
		"trailing":                {"{}{}", errSyntax},
		"trailing comma":          {"[1,]", errSyntax},
		"no value":                {`{"a"}`, errSyntax},
		"lone surrogate":          {`"\ud800"`, errSyntax},
		"wrong escape":            {`"\x"`, errSyntax},
		"not UTF-8":               {"\"\xff\"", errSyntax},
	} {
		var cur Cursor
		cur.Reset([]byte(c.text), Limits{})
		walk(&cur)
		err := cur.End()
		if (err == nil) != (c.want == nil) || c.want != errSyntax && !errors.Is(err, c.want) || c.want == errSyntax && (errors.Is(err, ErrDuplicate) || errors.Is(err, ErrDepth)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An object that is left open is not the end.
	var cur Cursor
	cur.Reset([]byte(`{"a":1}`), Limits{})
	cur.Open()
	if err := cur.End(); err == nil {
		t.Error("the end inside an object")
	}
}

// FuzzCursor holds a cursor to the standard library: it reads the same, or refuses.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e+3,true,false,null,"\u00e9\n\ud83d\ude00"]}`, `[`, `{"a":}`, ` 1 `, `{"a":1,"A":2}`, `{"a":1,"a":2}`, `"\/\b\f\n\r\t\"\\"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Cursor
		c.Reset(data, Limits{})
		got := walk(&c)
		err := c.End()
		if checked := Check(data, Limits{}); checked == nil && err != nil {
			t.Fatalf("%q: %v, and Check takes it", data, err)
		}
		if err != nil {
			return
		}
		var want any
		if err := json.Unmarshal(data, &want); err != nil && !strings.Contains(err.Error(), "cannot unmarshal number") || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %#v, want %#v, %v", data, got, want, err)
		}
	})
}
