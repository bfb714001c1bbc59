package forge

import (
	"strings"
	"testing"
)

func someMark() Mark {
	return Mark{Key: "go.1/x-y", Head: h1, Run: 500, Attempt: 2, Verdict: "failed", Passed: 214, Failed: 1, Nonce: strings.Repeat("0a", 16)}
}

func TestMark(t *testing.T) {
	t.Parallel()
	m := someMark()
	line := "<!-- truegreen v1 key=go.1/x-y head=" + h1 + " run=500 attempt=2 verdict=failed passed=214 failed=1 nonce=0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a -->"
	if m.String() != line {
		t.Errorf("got  %s\nwant %s", m, line)
	}
	for _, body := range []string{line, line + "\n", line + "\nand text\n" + line} {
		if got, err := ParseMark(body); err != nil || got != m {
			t.Errorf("%q: %+v, %v", body, got, err)
		}
	}
	for _, bad := range []string{
		"", "\n" + line, " " + line, line + " ", line + "\r\n", "text " + line,
		strings.Replace(line, "v1", "v2", 1),
		strings.Replace(line, "run=500", "run=0500", 1),
		strings.Replace(line, "run=500", "run=0", 1),
		strings.Replace(line, "run=500", "run=99999999999999999999", 1),
		strings.Replace(line, "attempt=2", "attempt=0", 1),
		strings.Replace(line, "attempt=2", "attempt=9999999999", 1),
		strings.Replace(line, "verdict=failed", "verdict=green", 1),
		strings.Replace(line, "key=go.1/x-y", "key=a--b", 1), // would end the comment
		strings.Replace(line, "key=go.1/x-y", "key=A", 1),
		strings.Replace(line, "head="+h1, "head=main", 1),
		strings.Replace(line, " passed=214 failed=1", " failed=1 passed=214", 1),
		strings.Replace(line, " passed=214", " passed=214 passed=214", 1),
		strings.Replace(line, "nonce=0a", "nonce=0A", 1),
		strings.Replace(line, " -->", "-->", 1),
	} {
		if got, err := ParseMark(bad); err == nil || got != (Mark{}) {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func FuzzMark(f *testing.F) {
	f.Add(someMark().String())
	f.Add(someMark().String() + "\ntext")
	f.Add(markPrefix)
	f.Fuzz(func(t *testing.T, body string) {
		m, err := ParseMark(body)
		if err != nil {
			if m != (Mark{}) {
				t.Errorf("%v with %+v", err, m)
			}
			return
		}
		line, _, _ := strings.Cut(body, "\n")
		if m.String() != line || strings.Count(line, "--") != 2 {
			t.Errorf("%q is %+v", line, m)
		}
	})
}
