package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func writeSources(t testing.TB, limits SourceLimits, sources ...Source) ([]byte, error) {
	t.Helper()
	var doc bytes.Buffer
	w := NewSourceWriter(&doc, limits)
	for _, s := range sources {
		if err := w.Add(s); err != nil {
			if w.Close() == nil || w.Add(s) == nil {
				t.Error("the writer goes on after an error")
			}
			return nil, err
		}
	}
	err := w.Close()
	return doc.Bytes(), err
}

func src(side, path, content string) Source { return Source{side, File{path, []byte(content)}} }

func TestSources(t *testing.T) {
	t.Parallel()
	want := Sources{
		src(Base, "a", ""), src(Head, "a", "1\n"), src(Base, "a.go", "\x00\xff"), src(Head, "a/b", "3"), src(Base, "b\tc\n", "4"), src(Head, "\xff", strings.Repeat("x", 100_000)),
	}
	doc, err := writeSources(t, SourceLimits{}, want...)
	if err != nil {
		t.Fatal(err)
	}
	start := "truegreen/v1 sources\x00base 0\ta\x00head 2\ta\x001\nbase 2\ta.go\x00\x00\xffhead 1\ta/b\x003base 1\tb\tc\n\x004head 100000\t\xff\x00xxx"
	if !strings.HasPrefix(string(doc), start) {
		t.Errorf("%.200q", doc)
	}
	for _, r := range []io.Reader{bytes.NewReader(doc), iotest.OneByteReader(bytes.NewReader(doc))} {
		got, err := ReadSources(r, SourceLimits{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, %d files", err, len(got))
		}
		for _, s := range want {
			if content, ok := got.Content(s.Side, s.Path); !ok || !bytes.Equal(content, s.Content) {
				t.Errorf("%s of %q: %.20q, %v", s.Side, s.Path, content, ok)
			}
		}
		for _, s := range []Source{src(Head, "a.go", ""), src(Base, "a/b", ""), src(Base, "", ""), src("", "a", ""), src(Head, "c", "")} {
			if content, ok := got.Content(s.Side, s.Path); ok || content != nil {
				t.Errorf("%s of %q is there", s.Side, s.Path)
			}
		}
	}
	// A document that was cut is one with fewer files, or none.
	whole := map[int]bool{len(sourceHeader): true}
	for n := range want {
		d, err := writeSources(t, SourceLimits{}, want[:n]...)
		if err != nil {
			t.Fatal(err)
		}
		whole[len(d)] = true
	}
	for n := range 200 {
		if got, err := ReadSources(bytes.NewReader(doc[:n]), SourceLimits{}); (err == nil) != whole[n] || err != nil && got != nil {
			t.Errorf("cut to %d bytes: %d files, %v", n, len(got), err)
		}
	}
	broken := errors.New("broken")
	if _, err := ReadSources(io.MultiReader(bytes.NewReader(doc[:40]), iotest.ErrReader(broken)), SourceLimits{}); !errors.Is(err, broken) {
		t.Errorf("a reader's error becomes %v", err)
	}
	if _, err := ReadSources(iotest.ErrReader(broken), SourceLimits{}); !errors.Is(err, broken) {
		t.Errorf("a reader's error becomes %v", err)
	}
}

func TestSourcesRefuse(t *testing.T) {
	t.Parallel()
	for name, records := range map[string]string{
		"another side":         "tail 0\ta\x00",
		"no side":              " 0\ta\x00",
		"no size":              "base\ta\x00",
		"no tab":               "base 0 a\x00",
		"a leading zero":       "base 01\ta\x00x",
		"a sign":               "base +1\ta\x00x",
		"a negative size":      "base -1\ta\x00x",
		"two spaces":           "base  1\ta\x00x",
		"too large a number":   "base 99999999999999999999\ta\x00x",
		"no path":              "base 0\t\x00",
		"an absolute path":     "base 0\t/a\x00",
		"a path with a dot":    "base 0\ta/./b\x00",
		"a path outside":       "base 0\t../a\x00",
		"a slash at the end":   "base 0\ta/\x00",
		"a doubled slash":      "base 0\ta//b\x00",
		"a long path":          "base 0\t" + strings.Repeat("a", 4097) + "\x00",
		"a very long path":     "base 0\t" + strings.Repeat("a", 10_000) + "\x00",
		"twice":                "base 0\ta\x00base 0\ta\x00",
		"head before base":     "head 0\ta\x00base 0\ta\x00",
		"out of order":         "head 0\tb\x00base 0\ta\x00",
		"more content":         "base 0\ta\x00x",
		"less content":         "base 2\ta\x00x",
		"no content":           "base 2\ta\x00",
		"another header after": "base 0\ta\x00truegreen/v1 sources\x00",
	} {
		if got, err := ReadSources(strings.NewReader(sourceHeader+records), SourceLimits{}); err == nil || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, header := range []string{"", "truegreen/v1 sources", "truegreen/v2 sources\x00", "truegreen/v1 source\x00 ", "\x00"} {
		if got, err := ReadSources(strings.NewReader(header), SourceLimits{}); err == nil || got != nil {
			t.Errorf("header %q: %v, %v", header, got, err)
		}
	}
	for _, s := range []Source{src("", "a", ""), src("tail", "a", ""), src(Base, "", ""), src(Base, "a\x00", ""), src(Base, "/", ""), src(Base, strings.Repeat("a", 4097), "")} {
		if _, err := writeSources(t, SourceLimits{}, s); err == nil {
			t.Errorf("%s of %.20q was written", s.Side, s.Path)
		}
	}
	if _, err := writeSources(t, SourceLimits{}, src(Head, "a", ""), src(Base, "a", "")); err == nil {
		t.Error("written out of order")
	}
}

func TestSourceLimits(t *testing.T) {
	t.Parallel()
	two := []Source{src(Base, "a", "123"), src(Head, "b", "12345")}
	doc, err := writeSources(t, SourceLimits{}, two...)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		limits SourceLimits
		ok     bool
	}{
		{SourceLimits{Files: 2, File: 5, Total: len(doc)}, true},
		{SourceLimits{Files: 1}, false},
		{SourceLimits{File: 4}, false},
		{SourceLimits{Total: len(doc) - 1}, false},
		{SourceLimits{Total: 1}, false},
	} {
		_, err := writeSources(t, test.limits, two...)
		if (err == nil) != test.ok || !test.ok && !errors.Is(err, ErrSourceLimit) {
			t.Errorf("write, %+v: %v", test.limits, err)
		}
		got, err := ReadSources(bytes.NewReader(doc), test.limits)
		if (err == nil) != test.ok || !test.ok && (!errors.Is(err, ErrSourceLimit) || got != nil) {
			t.Errorf("read, %+v: %v", test.limits, err)
		}
	}
	// The defaults, where the sizes are said and the content never comes.
	for _, record := range []string{"base 4194305\ta\x00", "base 2147483647\ta\x00"} {
		if _, err := ReadSources(strings.NewReader(sourceHeader+record), SourceLimits{}); !errors.Is(err, ErrSourceLimit) {
			t.Errorf("%q: %v", record, err)
		}
	}
	file := make([]byte, 4<<20)
	w := NewSourceWriter(io.Discard, SourceLimits{})
	for i := range 15 {
		if err := w.Add(Source{Base, File{fmt.Sprintf("%02d", i), file}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Add(Source{Base, File{"x", file}}); !errors.Is(err, ErrSourceLimit) {
		t.Errorf("64 MiB and the header: %v", err)
	}
	w = NewSourceWriter(io.Discard, SourceLimits{})
	for i := range 1 << 16 {
		if err := w.Add(Source{Base, File{fmt.Sprintf("%05x", i), nil}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Add(src(Base, "x", "")); !errors.Is(err, ErrSourceLimit) {
		t.Errorf("2^16 files and one: %v", err)
	}
}

// FuzzSources: what can be read is written as the same bytes, and only that.
func FuzzSources(f *testing.F) {
	doc, err := writeSources(f, SourceLimits{}, src(Base, "a", "1"), src(Head, "a", ""), src(Head, "b/c", "\x00\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(doc)
	f.Add([]byte(sourceHeader))
	f.Fuzz(func(t *testing.T, doc []byte) {
		sources, err := ReadSources(bytes.NewReader(doc), SourceLimits{})
		if err != nil {
			if sources != nil {
				t.Errorf("%v beside %v", sources, err)
			}
			return
		}
		again, err := writeSources(t, SourceLimits{}, sources...)
		if err != nil || !bytes.Equal(again, doc) {
			t.Errorf("%q becomes %q (%v)", doc, again, err)
		}
	})
}
