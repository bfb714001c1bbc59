package expression

import (
	"bytes"
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"expressions":["report.a == 1"]}`:                     `{"compiled":true}`,
		`{"expressions":["report.a == 1"],"report":{"a":1}}`:    `{"compiled":true}`,
		`{"expressions":["report.a == 1"],"report":{"a":2}}`:    `{"compiled":true,"error":"\"report.a == 1\" is not true"}`,
		`{"expressions":["report.a == 1"],"report":{}}`:         `"compiled":true,"error":`,
		`{"expressions":["report.a =="],"report":{"a":1}}`:      `{"compiled":false,"error":`,
		`{"expressions":[]}`:                                    `{"compiled":false,"error":`,
		`{"expressions":["report.a == 1"],"report":"a report"}`: `"compiled":true,"error":`,
	} {
		var out bytes.Buffer
		if code := Serve(strings.NewReader(in), &out); code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %d %s", in, code, out.String())
		}
	}
	for _, in := range []string{"", "x", `{"more":1}`, `[]`} {
		var out bytes.Buffer
		if code := Serve(strings.NewReader(in), &out); code != 2 || strings.Contains(out.String(), `"compiled":true`) {
			t.Errorf("%q: %d %s", in, code, out.String())
		}
	}
}
