package strictjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// slowly decodes with the standard library and compares what it gets with the
// input, which is how the canonical form is defined.
func slowly(data []byte, v any) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if Check(data, Limits{}) != nil || dec.Decode(v) != nil {
		return false
	}
	again, err := Marshal(v)
	return err == nil && bytes.Equal(again, data)
}

type text struct {
	D textual  `json:"d,omitempty"`
	P *textual `json:"p,omitempty"`
	U uint16   `json:"u"`
	I int8     `json:"i"`
	L [][]bool `json:"l"`
}

type textual [2]byte

func (t textual) MarshalText() ([]byte, error) { return t[:], nil }
func (t *textual) UnmarshalText(b []byte) error {
	if len(b) != 2 {
		return errNotCanonical
	}
	copy(t[:], b)
	return nil
}

// FuzzUnmarshal holds Unmarshal to the definition of the canonical form.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"v":1,"name":{"b64":"/w=="},"args":["x\u0001\"\\\b"],"big":7,"inner":{"on":true,"n":0},"list":[{"on":false,"n":-1}],"plain":"p","tags":["t","é"]}`))
	f.Add([]byte(`{"d":"ab","p":"cd","u":65535,"i":-128,"l":[[],[true,false]]}`))
	f.Add([]byte(`{"d":"ab","u":65536,"i":128,"l":[]}`))
	f.Add([]byte(`{"v":9007199254740992,"name":"\/","args":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s1, s2 sample
		ok, err := slowly(data, &s2), Unmarshal(data, &s1, Limits{})
		if ok != (err == nil) || ok && !reflect.DeepEqual(s1, s2) {
			t.Fatalf("%q: %v, %+v; slowly %t, %+v", data, err, s1, ok, s2)
		}
		var t1, t2 text
		ok, err = slowly(data, &t2), Unmarshal(data, &t1, Limits{})
		if ok != (err == nil) || ok && !reflect.DeepEqual(t1, t2) {
			t.Fatalf("%q: %v, %+v; slowly %t, %+v", data, err, t1, ok, t2)
		}
	})
}
