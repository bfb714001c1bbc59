package receipts

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want Checkpoint
	}{
		{"o\n0\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", Checkpoint{Origin: "o"}},
		{"example.org/run 1\n7\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\nkey value\nkey value\n",
			Checkpoint{"example.org/run 1", 7, Sum(nil), []string{"key value", "key value"}}},
		{"o\n18446744073709551615\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n", Checkpoint{Origin: "o", Size: math.MaxUint64, Root: Sum(nil)}},
	} {
		got, err := ParseCheckpoint([]byte(c.text))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
		if text, err := c.want.Append([]byte("p")); err != nil || string(text) != "p"+c.text {
			t.Errorf("%+v: %q, %v", c.want, text, err)
		}
	}
}

func TestCheckpointRefused(t *testing.T) {
	t.Parallel()
	const root = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	for name, text := range map[string]string{
		"empty":           "",
		"two lines":       "o\n7\n",
		"not ended":       "o\n7\n" + root,
		"extension open":  "o\n7\n" + root + "\nkey value",
		"no origin":       "\n7\n" + root + "\n",
		"blank line":      "o\n7\n" + root + "\n\n",
		"blank extension": "o\n7\n" + root + "\n\nx\n",
		"CR LF":           "o\r\n7\r\n" + root + "\r\n",
		"CR in the root":  "o\n7\n" + root[:4] + "\r" + root[4:] + "\n",
		"tab":             "o\n7\n" + root + "\na\tb\n",
		"DEL":             "o\x7f\n7\n" + root + "\n",
		"not ASCII":       "é\n7\n" + root + "\n",
		"NUL":             "o\n7\n" + root + "\n\x00\n",
		"no size":         "o\nx\n" + root + "\n",
		"size 07":         "o\n07\n" + root + "\n",
		"size +7":         "o\n+7\n" + root + "\n",
		"size -1":         "o\n-1\n" + root + "\n",
		"size 2^64":       "o\n18446744073709551616\n" + root + "\n",
		"root unpadded":   "o\n7\n" + strings.TrimSuffix(root, "=") + "\n",
		"root stray bits": "o\n7\n" + strings.Replace(root, "U=", "V=", 1) + "\n",
		"root URL":        "o\n7\n" + strings.Replace(root, "+", "-", 1) + "\n",
		"root of 31":      "o\n7\n" + root[:40] + "AA==\n",
		"root of 33":      "o\n7\n" + strings.TrimSuffix(root, "=") + "A\n",
		"space behind":    "o\n7\n" + root + " \n",
		"too large":       "o\n7\n" + root + "\n" + strings.Repeat("x", MaxCheckpoint) + "\n",
	} {
		if got, err := ParseCheckpoint([]byte(text)); err == nil || !reflect.DeepEqual(got, Checkpoint{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, c := range map[string]Checkpoint{
		"zero":            {},
		"LF in origin":    {Origin: "o\n8"},
		"blank extension": {Origin: "o", Extensions: []string{""}},
		"LF in extension": {Origin: "o", Extensions: []string{"a\nb"}},
		"not ASCII":       {Origin: "o", Extensions: []string{"é"}},
		"too large":       {Origin: "o", Extensions: []string{strings.Repeat("x", MaxCheckpoint)}},
	} {
		if text, err := c.Append([]byte("p")); err == nil || text != nil {
			t.Errorf("%s: %q", name, text)
		}
	}
}
