package foreign

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/truegreen-dev/truegreen/internal/jcs"
)

// maxText is how many bytes a string has at most that a verification repeats.
const maxText = 1 << 10

// fields reads members of a receipt and keeps the first that is not as it has to be.
type fields struct {
	adapter string
	line    int64
	err     error
}

func (f *fields) fail(code, format string, args ...any) {
	if f.err == nil {
		f.err = &MalformedError{Adapter: f.adapter, Code: code, Line: f.line, Err: fmt.Errorf(format, args...)}
	}
}

// text returns a string of 1 to 1,024 bytes.
func (f *fields) text(v *jcs.Value, name string) string {
	text := f.optional(v, name)
	if text == "" {
		f.fail("missing-member", "%s: want a string that is not empty", name)
	}
	return text
}

// optional returns a string, "" where it is absent or null.
func (f *fields) optional(v *jcs.Value, name string) string {
	m := v.Member(name)
	if m == nil || m.Kind() == jcs.Null {
		return ""
	}
	text, ok := m.Text()
	if !ok {
		f.fail("wrong-type", "%s: want a string", name)
	}
	if len(text) > maxText {
		f.fail("too-long", "%s: more than %d bytes", name, maxText)
		return ""
	}
	return text
}

// only takes one string.
func (f *fields) only(v *jcs.Value, name, want, code string) {
	if got := f.text(v, name); got != want {
		f.fail(code, "%s %.80q: want %q", name, got, want)
	}
}

// object returns an object, an empty one where there is none.
func (f *fields) object(v *jcs.Value, name string) *jcs.Value {
	m := v.Member(name)
	if m == nil || m.Kind() != jcs.Object {
		f.fail("missing-member", "%s: want an object", name)
		return &jcs.Value{}
	}
	return m
}

// hex returns n bytes.
func (f *fields) hex(v *jcs.Value, name string, n int) []byte {
	text := f.text(v, name)
	if !isHex(text, n) {
		f.fail("not-hex", "%s: want %d lower-case hexadecimal digits", name, 2*n)
		return nil
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		f.fail("not-hex", "%s: %w", name, err)
	}
	return raw
}

func (f *fields) time(v *jcs.Value, name string) time.Time {
	t, err := parseTime(f.text(v, name))
	if err != nil {
		f.fail("not-a-time", "%s: want a time as RFC 3339 has it", name)
	}
	return t
}

func (f *fields) optionalTime(v *jcs.Value, name string) time.Time {
	if v.Member(name) == nil {
		return time.Time{}
	}
	return f.time(v, name)
}

// argHashes returns the hash that a receipt states and the one of the arguments that it
// carries.
func (f *fields) argHashes(v *jcs.Value, hash, args string) (list []string) {
	if h := f.optional(v, hash); h != "" {
		list = append(list, h)
	}
	if m := v.Member(args); m != nil {
		sum := sha256.Sum256(m.Append(nil))
		list = append(list, "sha256:"+hex.EncodeToString(sum[:]))
	}
	return list
}
