package receipts

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestDigestText(t *testing.T) {
	t.Parallel()
	d := Sum([]byte("x"))
	if got, err := ParseDigest(d.String()); err != nil || got != d {
		t.Errorf("%s: %s, %v", d, got, err)
	}
	id := TaskID(nil)
	if got, err := ParseID(id.String()); err != nil || got != id {
		t.Errorf("%s: %s, %v", id, got, err)
	}
	for _, s := range []string{"", d.String()[1:], d.String() + "0", strings.ToUpper(d.String()), " " + d.String()[1:], strings.Repeat("g", 64)} {
		if got, err := ParseDigest(s); err == nil || !got.IsZero() {
			t.Errorf("digest %q parses", s)
		}
		if json.Unmarshal([]byte(`"`+s+`"`), new(Digest)) == nil {
			t.Errorf("digest %q unmarshals", s)
		}
	}
	for _, s := range []string{"", id.String()[1:], id.String() + "0", strings.Repeat("A", 32), strings.Repeat("z", 32)} {
		if got, err := ParseID(s); err == nil || got != (ID{}) {
			t.Errorf("id %q parses", s)
		}
		if json.Unmarshal([]byte(`"`+s+`"`), new(ID)) == nil {
			t.Errorf("id %q unmarshals", s)
		}
	}
	var text struct{ D, I string }
	b, err := json.Marshal(struct {
		D Digest
		I ID
	}{d, id})
	if err != nil || json.Unmarshal(b, &text) != nil || text.D != d.String() || text.I != id.String() {
		t.Errorf("marshals as %s, %v", b, err)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{0, 1, 0x0102030405060708, 1<<64 - 1} {
		if got, ok := CallID(n).Uint64(); !ok || got != n {
			t.Errorf("call %d: %d, %t", n, got, ok)
		}
	}
	if got := CallID(0x0102).String(); got != "02010000000000000000000000000000" {
		t.Errorf("call 0x0102 is %s", got)
	}
	if n, ok := (ID{0: 5, 8: 1}).Uint64(); ok {
		t.Errorf("2^64+5 is %d", n)
	}
	want := Sum([]byte("truegreen/v1 task\x00doc"))
	if got := TaskID([]byte("doc")); got != ID(want[:16]) {
		t.Errorf("task id %s; want the start of %s", got, want)
	}
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	a, b, c := Sum([]byte("a")), Sum([]byte("b")), Sum([]byte("c"))
	for _, test := range []struct {
		r    Result
		want []Digest
	}{
		{Result{}, nil},
		{Result{Stdout: Stream{Digest: a, Bytes: 5, Kept: 5}, Stderr: Stream{Digest: b, Bytes: 9, Kept: 1}, Files: []File{{Name: "x", Digest: c}, {Name: "y", Digest: a}}}, []Digest{a, b, c, a}},
		{Result{Stdout: Stream{Bytes: 5}, Stderr: Stream{Digest: b, Bytes: 1, Kept: 1}}, []Digest{b}},
	} {
		if got := test.r.Artifacts(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%+v: %v", test.r, got)
		}
	}
}

// Every member, set.
const (
	fullArgs = `{"v":1,"tool":"test","name":"unit","side":"head","round":2,"purpose":"repeat","package":"p","format":"gotest","argv":["go",{"b64":"/w=="}],"dir":"sub","env":["A=b"],` +
		`"patch":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","tree":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",` +
		`"inputs":[{"name":"/overlay/overlay.json","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":1}],` +
		`"sandbox":{"min_level":3,"network":"none","connect":["127.0.0.1:5432"],"mounts":["ro /usr"],"wall_s":600,"pids":512,"memory_bytes":1,"cpu_milli":1500,"output_bytes":2,"disk_bytes":3,"inodes":4,"files":5,"file_bytes":6}}`
	fullResult = `{"v":1,"state":"signaled","exit":0,"signal":"SIGKILL","why":"out of memory","start_ms":1,"end_ms":2,"cpu_ms":3,"peak_memory_bytes":4,` +
		`"stdout":{"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","bytes":9,"kept":5,"covered":{"rules":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","count":2,"spans":[{"at":1,"bytes":2,"rule":"token"},{"at":3,"bytes":2,"rule":"key"}]}},` +
		`"stderr":{"sha256":"0000000000000000000000000000000000000000000000000000000000000000","bytes":7,"kept":0},` +
		`"files":[{"name":"cover","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":3,"covered":{"rules":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","count":1,"spans":[{"at":2,"bytes":1,"rule":"key"}]}}],"notes":[{"name":"gitlinks","value":"0"}],` +
		`"isolation":{"level":3,"mode":"userns","network":"none","connect":["127.0.0.1:5432"],"uid":65534,"namespaces":["user"],"no_new_privs":true,"caps_empty":true,"seccomp":true,"landlock_abi":5,"kill":"cgroup",` +
		`"probes":[{"name":"connect","got":"ENETUNREACH","ok":true}],"limits":[{"name":"pids","by":"cgroup","value":512,"peak":9,"hit":true}],"fallbacks":[{"mode":"rootdrop","why":"not root"}]},"redactions":2}`
)

func TestFullDocuments(t *testing.T) {
	t.Parallel()
	args, err := ParseArgs([]byte(fullArgs))
	if err != nil {
		t.Fatal(err)
	}
	result, err := ParseResult([]byte(fullResult))
	if err != nil {
		t.Fatal(err)
	}
	for want, v := range map[string]any{fullArgs: args, fullResult: result} {
		if got, err := Encode(v); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
		if name := zeroMember(reflect.ValueOf(v)); name != "" && name != "Exit" && name != "Covered" {
			t.Errorf("the example leaves %s unset", name)
		}
	}
}

// zeroMember returns a member of a struct that is zero, if there is one.
func zeroMember(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			return v.Type().Field(i).Name
		}
		inner := v.Field(i)
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner.Type() != reflect.TypeFor[Stream]() {
			if name := zeroMember(inner); name != "" {
				return name
			}
		}
	}
	return ""
}

func TestDocumentsRefused(t *testing.T) {
	t.Parallel()
	replace := func(s, old, new string) string {
		if !strings.Contains(s, old) {
			t.Fatalf("no %q in %s", old, s)
		}
		return strings.Replace(s, old, new, 1)
	}
	for name, text := range map[string]string{
		"empty":        "",
		"version 0":    replace(fullArgs, `"v":1`, `"v":0`),
		"version 2":    replace(fullArgs, `"v":1`, `"v":2`),
		"unknown":      replace(fullArgs, `"v":1`, `"v":1,"x":1`),
		"duplicate":    replace(fullArgs, `"v":1`, `"v":1,"v":1`),
		"order":        replace(fullArgs, `"v":1,"tool":"test"`, `"tool":"test","v":1`),
		"white space":  fullArgs + "\n",
		"float":        replace(fullArgs, `"round":2`, `"round":2.0`),
		"null":         replace(fullArgs, `"argv":["go",{"b64":"/w=="}]`, `"argv":null`),
		"needless b64": replace(fullArgs, `"b64":"/w=="`, `"b64":"YQ=="`),
		"upper case":   replace(fullArgs, "e3b0", "E3b0"),
		"zero round":   replace(fullArgs, `"round":2`, `"round":0`),
		"large":        replace(fullArgs, `"go"`, `"`+strings.Repeat("x", MaxDocument)+`"`),
	} {
		if got, err := ParseArgs([]byte(text)); err == nil || !reflect.DeepEqual(got, Args{}) {
			t.Errorf("args, %s: %+v, %v", name, got, err)
		}
	}
	for name, text := range map[string]string{
		"version 2":            replace(fullResult, `"v":1`, `"v":2`),
		"unknown state":        replace(fullResult, `"signaled"`, `"done"`),
		"kept beyond bytes":    replace(fullResult, `"kept":5`, `"kept":10`),
		"negative kept":        replace(fullResult, `"kept":5`, `"kept":-1`),
		"digest of nothing":    replace(fullResult, `"kept":5`, `"kept":0`),
		"kept without digest":  replace(fullResult, `"kept":0`, `"kept":7`),
		"signal without state": replace(fullResult, `"signaled"`, `"timeout"`),
		"state without signal": replace(fullResult, `"signal":"SIGKILL",`, ``),
		"exit of a signal":     replace(fullResult, `"exit":0`, `"exit":9`),
		"unknown":              replace(fullResult, `"redactions":2`, `"redactions":2,"ok":true`),
		"covered, unsaid":      replace(fullResult, `"redactions":2`, `"redactions":1`),
		"nothing covered":      replace(fullResult, `"count":2`, `"count":0`),
		"a span too few":       replace(fullResult, `"count":2`, `"count":3`),
		"more than there is":   replace(fullResult, `"count":2`, `"count":6`),
		"span of no bytes":     replace(fullResult, `"at":1,"bytes":2`, `"at":1,"bytes":0`),
		"span before":          replace(fullResult, `"at":1,"bytes":2`, `"at":-1,"bytes":2`),
		"span within another":  replace(fullResult, `"at":1,"bytes":2`, `"at":1,"bytes":3`),
		"span beyond the end":  replace(fullResult, `"at":3,"bytes":2`, `"at":3,"bytes":3`),
		"span without rule":    replace(fullResult, `"rule":"token"`, `"rule":""`),
		"span of a file":       replace(fullResult, `"at":2,"bytes":1`, `"at":2,"bytes":2`),
	} {
		if got, err := ParseResult([]byte(text)); err == nil || !reflect.DeepEqual(got, Result{}) {
			t.Errorf("result, %s: %+v, %v", name, got, err)
		}
	}
	if b, err := Encode(Args{V: 1, Name: "\xff"}); err == nil {
		t.Errorf("a name that is not UTF-8 encodes as %s", b)
	}
	if b, err := Encode(Args{V: 1, Dir: Bytes(strings.Repeat("x", MaxDocument))}); err == nil || b != nil {
		t.Errorf("%d bytes encode", len(b))
	}
	o := Opening{V: 9}
	if Decode([]byte(`{"v":1}`), &o) == nil || o != (Opening{}) {
		t.Errorf("after an error: %+v", o)
	}
}
