package strictjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

type sample struct {
	V     int      `json:"v"`
	Name  Bytes    `json:"name"`
	Args  []Bytes  `json:"args"`
	Big   uint64   `json:"big,omitempty"`
	Inner *inner   `json:"inner,omitempty"`
	List  []inner  `json:"list,omitempty"`
	Plain string   `json:"plain,omitempty"`
	Tags  []string `json:"tags,omitempty"`
}

type inner struct {
	On bool  `json:"on"`
	N  int64 `json:"n"`
}

func TestRoundTrip(t *testing.T) {
	for _, want := range []string{
		`{"v":1,"name":"","args":[]}`,
		`{"v":-9007199254740991,"name":"a\"\\\b\t\n\f\r\u0000\u001f` + "\u007f\u2028<>&é" + `","args":["x",""],"big":9007199254740991}`,
		`{"v":1,"name":{"b64":"/w=="},"args":[{"b64":"gA=="}],"inner":{"on":true,"n":0},"list":[{"on":false,"n":-1}],"plain":"p","tags":["t"]}`,
	} {
		var s sample
		if err := Unmarshal([]byte(want), &s, Limits{}); err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		got, err := Marshal(s)
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}

// Each text says the same to some reader as a canonical one, or something else
// to another; none may parse.
func TestNotCanonical(t *testing.T) {
	for name, text := range map[string]string{
		"empty":              ``,
		"space":              `{"v":1, "name":"","args":[]}`,
		"trailing newline":   "{\"v\":1,\"name\":\"\",\"args\":[]}\n",
		"trailing value":     `{"v":1,"name":"","args":[]}{}`,
		"order":              `{"name":"","v":1,"args":[]}`,
		"missing":            `{"v":1,"args":[]}`,
		"null":               `{"v":1,"name":"","args":null}`,
		"unknown":            `{"v":1,"name":"","args":[],"x":1}`,
		"case":               `{"V":1,"name":"","args":[]}`,
		"duplicate":          `{"v":1,"v":1,"name":"","args":[]}`,
		"duplicate by case":  `{"v":1,"name":"","NAME":"","args":[]}`,
		"duplicate escaped":  `{"v":1,"\u0076":1,"name":"","args":[]}`,
		"kelvin sign":        "{\"k\":1,\"\u212a\":2}",
		"float":              `{"v":1.0,"name":"","args":[]}`,
		"exponent":           `{"v":1e0,"name":"","args":[]}`,
		"minus zero":         `{"v":-0,"name":"","args":[]}`,
		"leading zero":       `{"v":01,"name":"","args":[]}`,
		"2^53":               `{"v":9007199254740992,"name":"","args":[]}`,
		"escaped slash":      `{"v":1,"name":"\/","args":[]}`,
		"escaped ascii":      `{"v":1,"name":"\u0041","args":[]}`,
		"upper-case escape":  `{"v":1,"name":"\u001F","args":[]}`,
		"long escape":        `{"v":1,"name":"\u000a","args":[]}`,
		"lone surrogate":     `{"v":1,"name":"\ud800","args":[]}`,
		"reversed surrogate": `{"v":1,"name":"\udc00\ud800","args":[]}`,
		"surrogate pair":     `{"v":1,"name":"\ud83d\ude00","args":[]}`,
		"not UTF-8":          "{\"v\":1,\"name\":\"\xff\",\"args\":[]}",
		"bom":                "\ufeff" + `{"v":1,"name":"","args":[]}`,
		"control":            "{\"v\":1,\"name\":\"\x01\",\"args\":[]}",
		"b64 of UTF-8":       `{"v":1,"name":{"b64":"YQ=="},"args":[]}`,
		"b64 unpadded":       `{"v":1,"name":{"b64":"/w"},"args":[]}`,
		"b64 loose bits":     `{"v":1,"name":{"b64":"/x=="},"args":[]}`,
		"b64 newline":        `{"v":1,"name":{"b64":"/w\n=="},"args":[]}`,
		"b64 extra":          `{"v":1,"name":{"b64":"/w==","x":1},"args":[]}`,
		"omitempty present":  `{"v":1,"name":"","args":[],"big":0}`,
		"empty list present": `{"v":1,"name":"","args":[],"list":[]}`,
		"deep":               strings.Repeat(`[`, 17) + strings.Repeat(`]`, 17),
	} {
		s := sample{V: 7}
		if err := Unmarshal([]byte(text), &s, Limits{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if !reflect.DeepEqual(s, sample{}) {
			t.Errorf("%s: not zero after an error: %+v", name, s)
		}
	}
}

func TestLimits(t *testing.T) {
	if err := Check([]byte(`[[1]]`), Limits{Depth: 2}); err != nil {
		t.Error(err)
	}
	if err := Check([]byte(`[[[1]]]`), Limits{Depth: 2}); err == nil {
		t.Error("depth 3 accepted under a limit of 2")
	}
	if err := Check([]byte(`"12345678"`), Limits{Size: 9}); err == nil {
		t.Error("10 bytes accepted under a limit of 9")
	}
}

// JCS and other formats tell names apart by their case.
func TestCaseSensitive(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":1,"A":2}`:            true,
		`{"x":[{"é":1,"É":2}]}`:    true,
		`{"a":1,"a":2}`:            false,
		`{"x":{"A":1,"\u0041":2}}`: false,
	} {
		if err := Check([]byte(text), Limits{CaseSensitive: true}); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
		if err := Check([]byte(text), Limits{}); err == nil {
			t.Errorf("%s: accepted where case does not count", text)
		}
	}
}

func TestNoEncoding(t *testing.T) {
	for _, v := range []any{1.5, map[string]int{}, nil, (*inner)(nil), "\xff", uint64(1) << 53, []byte("x")} {
		if got, err := Marshal(v); err == nil {
			t.Errorf("%T %v: encoded as %s", v, v, got)
		}
	}
}

func FuzzMalleability(f *testing.F) {
	f.Add([]byte(`{"v":1,"name":{"b64":"/w=="},"args":["x"],"inner":{"on":true,"n":0},"list":[{"on":false,"n":-1}],"plain":"p","tags":["t"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s sample
		if Unmarshal(data, &s, Limits{}) != nil {
			return
		}
		if again, err := Marshal(s); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%q parses and encodes as %q, %v", data, again, err)
		}
	})
}

// FuzzCheck holds Check to the standard library's grammar.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e+3,true,false,null,"\u00e9\n"]}`, `[`, `{"a":}`, ` 1 `, `"\ud83d\ude00"`, `[1,]`, `{,}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if Check(data, Limits{}) == nil && !json.Valid(data) {
			t.Fatalf("%q: accepted, but it is not JSON", data)
		}
	})
}
