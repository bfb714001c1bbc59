package jcs

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/internal/strictjson"
)

func canonical(text string) (string, error) {
	v, err := Parse([]byte(text), strictjson.Limits{})
	if err != nil {
		return "", err
	}
	return string(v.Append(nil)), nil
}

// The doubles of RFC 8785, appendix B.
func TestFormat(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint64]string{
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		f := math.Float64frombits(bits)
		if got := format(f); got != want {
			t.Errorf("%016x: %s, want %s", bits, got, want)
		}
		if got, err := number(want); err != nil || got != want {
			t.Errorf("%s: %s, %v", want, got, err)
		}
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"RFC 8785 3.2.2", `{
			"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
			"literals": [null, true, false] }`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{"RFC 8785 3.2.3", `{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh",
			"1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\"," +
				"\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
		{"prefix first", `{"ab":1,"a":2,"":3}`, `{"":3,"a":2,"ab":1}`},
		{"two beyond the BMP with one high surrogate", `{"\ud83d\ude01":1,"\ud83d\ude00":2}`, `{"😀":2,"😁":1}`},
		{"one number, four spellings", `[1,1.0,1e0,10e-1]`, `[1,1,1,1]`},
		{"zeros", `[0,-0,0.0,-0e5]`, `[0,0,0,0]`},
		{"exact beyond 2^53", `[9007199254740992,1e20,100000000000000000000,1e21]`, `[9007199254740992,100000000000000000000,100000000000000000000,1e+21]`},
		{"names that differ by case", `{"b":1,"B":2}`, `{"B":2,"b":1}`},
		{"not for HTML", `"<>& \u2028\u007f"`, "\"<>& \u2028\u007f\""},
		{"empty", ` { "a" : [ ] , "b" : { } } `, `{"a":[],"b":{}}`},
	} {
		if got, err := canonical(c.text); err != nil || got != c.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", c.name, got, err, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"duplicate":           `{"a":1,"a":1}`,
		"duplicate, escaped":  `{"a":1,"\u0061":1}`,
		"duplicate at depth":  `[{"x":{"a":1,"b":2,"a":1}}]`,
		"lone surrogate":      `{"a":"\ud800"}`,
		"lone low surrogate":  `{"\udc00":1}`,
		"not UTF-8":           "\"\xff\"",
		"byte order mark":     "\ufeff1",
		"two values":          `1 2`,
		"infinity":            `1e400`,
		"becomes 0":           `1e-400`,
		"inexact":             `9007199254740993`,
		"inexact, negative":   `-9007199254740993`,
		"inexact, large":      `123456789012345678901234`,
		"inexact, with a dot": `9007199254740993.0`,
		"17 deep":             strings.Repeat("[", 17) + strings.Repeat("]", 17),
		"too many values":     "[" + strings.Repeat("0,", MaxValues) + "0]",
		"too large":           `"` + strings.Repeat("a", 1<<20) + `"`,
	} {
		if got, err := canonical(text); err == nil {
			t.Errorf("%s: %.40s", name, got)
		}
	}
}

func TestValue(t *testing.T) {
	t.Parallel()
	v, err := Parse([]byte(`{"s":"x","n":7,"f":1.5,"big":1e20,"l":[1,2],"z":null}`), strictjson.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := v.Member("s").Text(); s != "x" || !ok {
		t.Error("s")
	}
	if n, ok := v.Member("n").Int(); n != 7 || !ok {
		t.Error("n")
	}
	for _, name := range []string{"f", "big", "s", "z", "absent"} {
		if _, ok := v.Member(name).Int(); ok {
			t.Errorf("%s is an integer", name)
		}
	}
	w := v.Without("s", "f", "big", "absent")
	if got := string(w.Append(nil)); got != `{"l":[1,2],"n":7,"z":null}` {
		t.Error(got)
	}
	v.Member("s").SetText("y")
	v.Member("n").SetText("y")
	if got := string(v.Append(nil)); got != `{"big":100000000000000000000,"f":1.5,"l":[1,2],"n":7,"s":"y","z":null}` {
		t.Error(got)
	}
	if len(v.Member("l").Elements()) != 2 || len(v.Members()) != 6 || v.Member("x") != nil {
		t.Error("elements or members")
	}
}

// FuzzCanonical holds that the canonical form means what the text means, and is its own
// canonical form.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":[1.0,-0,1e21,"\ud83d\ude00"],"a":null,"A":true}`, `"\u0000\u001f\/"`, `123456789e-30`, `{"\ufb33":1,"\ud83d\ude00":2}`, `9007199254740993`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data, strictjson.Limits{})
		if err != nil {
			return
		}
		once := v.Append(nil)
		w, err := Parse(once, strictjson.Limits{Size: 1 << 30})
		if err != nil {
			t.Fatalf("%q is %q: %v", data, once, err)
		}
		if twice := w.Append(nil); !bytes.Equal(once, twice) {
			t.Fatalf("%q is %q is %q", data, once, twice)
		}
		var a, b any
		if err := json.Unmarshal(data, &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(once, &b); err != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%q is %q, which means something else: %v", data, once, err)
		}
	})
}
