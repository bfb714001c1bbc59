package runner

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// FuzzTreeObject: a tree object that parses is written again from what was
// read, byte for byte, if it has no folders.
func FuzzTreeObject(f *testing.F) {
	id := strings.Repeat("\x12", 20)
	f.Add([]byte("100644 a\x00" + id + "100755 b\x00" + id + "160000 c\x00" + id))
	f.Add([]byte("40000 a\x00" + id + "120000 b\x00" + id))
	f.Fuzz(func(t *testing.T, text []byte) {
		w := walk{limit: 100}
		if w.folder("", text, 20) != nil || len(w.next) > 0 {
			return
		}
		var again bytes.Buffer
		for _, e := range w.entries {
			id, err := hex.DecodeString(e.ID)
			if err != nil || strings.Contains(e.Path, "/") {
				t.Fatalf("%+v", e)
			}
			again.WriteString(e.Mode + " " + e.Path + "\x00" + string(id))
		}
		if !bytes.Equal(again.Bytes(), text) {
			t.Fatalf("%q is read as %q", text, again.Bytes())
		}
	})
}
