package source

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// inTree is the path of a name that is relative, or below /src.
func inTree(name string) (string, bool) {
	name = strings.TrimPrefix(name, "/src/")
	return name, !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "lib/")
}

// TestLineReports: the same lines in both formats.
func TestLineReports(t *testing.T) {
	t.Parallel()
	lcov := `TN:a test
SF:a.js
VER:1
FN:1,5,f
FNDA:0,f
FNF:1
FNH:0
FNL:0,1,5
FNA:0,0,f
BRDA:2,0,0,-
BRF:1
BRH:0
DA:0,5
DA:1,0
DA:2,3,checksum
DA:3,0
DA:3,18446744073709551615
DA:9,0
LF:4
LH:2
end_of_record
# a comment

SF:/src/b/c.js
DA:4,0
end_of_record
TN:
SF:/usr/x.js
DA:1,1
end_of_record
SF:a.js
DA:2,0
DA:1,1
end_of_record
`
	cobertura := `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE coverage SYSTEM "http://example.com/coverage-04.dtd">
<!-- made by hand -->
<coverage version="1" lines-valid="9"><sources><source> /usr </source><source>/src/</source></sources>
<packages><package name="p"><classes>
<class name="A" filename="a.js"><methods><method name="m" hits="x"><lines><line number="1" hits="1"/></lines></method></methods>
<lines><line number="1" hits="0"/><line number="2" hits="3" branch="true"><conditions><condition number="0" coverage="1%"/></conditions></line>
<line number="3" hits="0"/><line number="3" hits="18446744073709551615"/><line number="9" hits="0"/></lines></class>
<class name="B" filename="lib/c.js"><lines><line number="4" hits="0"/></lines></class>
<class name="X" filename="/usr/x.js"><lines><line number="1" hits="1"/></lines></class>
</classes></package></packages></coverage>
`
	for name, read := range map[string]func() (*Coverage, error){
		"LCOV": func() (*Coverage, error) { return ReadLCOV(strings.NewReader(lcov), inTree) },
		"Cobertura": func() (*Coverage, error) {
			return ReadCobertura(strings.NewReader(cobertura), func(name string) (string, bool) {
				return map[string]string{"/src/lib/c.js": "b/c.js", "a.js": "a.js"}[name], name == "/src/lib/c.js" || name == "a.js"
			})
		},
	} {
		c, err := read()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// The content is Go only in its looks: these reports name lines.
		head := func(string) ([]byte, bool) { return []byte("// x\n\n"), true }
		executed, instrumented, missed := c.Changed([]Change{
			{Path: "b/c.js", Lines: []Range{{1, 9}}}, {Path: "a.js", Lines: []Range{{1, 4}, {9, 12}}}, {Path: "x.js", Lines: []Range{{1, 1}}},
		}, nil, head)
		want := []Lines{{"a.js", []Range{{9, 9}}}, {"b/c.js", []Range{{4, 4}}}}
		if executed != 3 || instrumented != 5 || !reflect.DeepEqual(missed, want) {
			t.Errorf("%s: %d of %d, missed %v", name, executed, instrumented, missed)
		}
		if !c.Has("a.js") || !c.Has("b/c.js") || c.Has("x.js") || c.Has("/usr/x.js") {
			t.Errorf("%s: the wrong files", name)
		}
	}
}

func TestLCOVRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, report string
		empty        bool
	}{
		{"nothing", "", true},
		{"a test without files", "TN:x\n", true},
		{"files without lines", "SF:a\nLF:0\nend_of_record\n", true},
		{"cut after a line", "SF:a\nDA:1,1\n", false},
		{"cut within a line", "SF:a\nDA:1,1", false},
		{"cut at the end", "SF:a\nDA:1,1\nend_of_record", false},
		{"no name", "SF:\nDA:1,1\nend_of_record\n", false},
		{"a file in a file", "SF:a\nSF:b\nDA:1,1\nend_of_record\n", false},
		{"a line without a file", "DA:1,1\n", false},
		{"the end of nothing", "SF:a\nDA:1,1\nend_of_record\nend_of_record\n", false},
		{"a function without a file", "FN:1,f\nSF:a\nDA:1,1\nend_of_record\n", false},
		{"an unknown record", "SF:a\nDX:1,1\nDA:1,1\nend_of_record\n", false},
		{"no count", "SF:a\nDA:1\nend_of_record\n", false},
		{"too much", "SF:a\nDA:1,1,x,y\nend_of_record\n", false},
		{"a negative count", "SF:a\nDA:1,-1\nend_of_record\n", false},
		{"a leading zero", "SF:a\nDA:1,01\nend_of_record\n", false},
		{"a large line", "SF:a\nDA:2147483648,1\nend_of_record\n", false},
		{"a long line", "SF:a\nDA:1,1\nFN:1," + strings.Repeat("x", maxLCOVLine) + "\nend_of_record\n", false},
	} {
		c, err := ReadLCOV(strings.NewReader(test.report), inTree)
		if c != nil || err == nil || errors.Is(err, ErrNoCoverage) != test.empty {
			t.Errorf("%s: %v, %v", test.name, c, err)
		}
	}
}

func TestCoberturaRefuses(t *testing.T) {
	t.Parallel()
	class := func(inner string) string {
		return `<coverage><packages><class filename="a">` + inner + `</class></packages></coverage>`
	}
	line := `<line number="1" hits="1"/>`
	if _, err := ReadCobertura(strings.NewReader(class(line)), inTree); err != nil {
		t.Fatal(err)
	}
	// The bound of a token is none of the report.
	if _, err := ReadCobertura(strings.NewReader(class(strings.Repeat(line+"\n", maxCoberturaToken/len(line)+9))), inTree); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		name, report string
		empty        bool
	}{
		{"nothing", "", false},
		{"text", "x", false},
		{"no class", "<coverage/>", true},
		{"no line", class(""), true},
		{"cut", strings.TrimSuffix(class(line), "</coverage>"), false},
		{"another element", "<cover>" + class(line) + "</cover>", false},
		{"two roots", class(line) + class(line), false},
		{"text after it", class(line) + "x", false},
		{"an entity", `<!DOCTYPE coverage [<!ENTITY x "1">]>` + class(`<line number="&x;" hits="1"/>`), false},
		{"a late document type", class(line) + "<!DOCTYPE coverage>", false},
		{"another encoding", `<?xml version="1.0" encoding="UTF-16"?>` + class(line), false},
		{"bytes that are no text", class("\xff" + line), false},
		{"an attribute twice", class(`<line number="1" number="2" hits="1"/>`), false},
		{"many attributes", class(`<line number="1" hits="1" ` + manyAttributes() + `/>`), false},
		{"no number", class(`<line hits="1"/>`), false},
		{"no hits", class(`<line number="1"/>`), false},
		{"line 0", class(`<line number="0" hits="1"/>`), false},
		{"a negative count", class(`<line number="1" hits="-1"/>`), false},
		{"a number of another name space", class(`<line x:number="1" hits="1"/>`), false},
		{"a line without a class", "<coverage>" + line + "</coverage>", false},
		{"a line after the class", "<coverage><class filename='a'>" + line + "</class>" + line + "</coverage>", false},
		{"a class in a class", class("<class filename='b'>" + line + "</class>"), false},
		{"a class without a name", "<coverage><class>" + line + "</class></coverage>", false},
		{"depth", class(strings.Repeat("<a>", 40) + line + strings.Repeat("</a>", 40)), false},
		{"a long text", class(strings.Repeat("x", maxCoberturaToken+1) + line), false},
		{"a long source", "<coverage><source>" + strings.Repeat("x", 5000) + "</source><class filename='a'>" + line + "</class></coverage>", false},
		{"an element in a source", "<coverage><source>x<y/></source><class filename='a'>" + line + "</class></coverage>", false},
		{"many sources", "<coverage>" + strings.Repeat("<source>x</source>", 65) + "<class filename='a'>" + line + "</class></coverage>", false},
	} {
		c, err := ReadCobertura(strings.NewReader(test.report), inTree)
		if c != nil || err == nil || errors.Is(err, ErrNoCoverage) != test.empty {
			t.Errorf("%s: %v, %v", test.name, c, err)
		}
	}
}

func manyAttributes() string {
	var b strings.Builder
	for i := range 70 {
		b.WriteString(" a" + strings.Repeat("x", i) + `="1"`)
	}
	return b.String()
}

func FuzzLCOV(f *testing.F) {
	f.Add([]byte("TN:\nSF:a.go\nDA:1,1\nDA:2,0,x\nLF:2\nend_of_record\nSF:b\nDA:2,1\nend_of_record\n"))
	f.Fuzz(func(t *testing.T, report []byte) {
		c, err := ReadLCOV(strings.NewReader(string(report)), inTree)
		checkCoverage(t, c, err, nil)
	})
}

func FuzzCobertura(f *testing.F) {
	f.Add([]byte(`<?xml version="1.0"?><!DOCTYPE coverage SYSTEM "x"><coverage><sources><source>/src</source></sources><class filename="a.go"><line number="1" hits="1"/><line number="2" hits="0"/></class></coverage>`))
	f.Fuzz(func(t *testing.T, report []byte) {
		c, err := ReadCobertura(strings.NewReader(string(report)), inTree)
		checkCoverage(t, c, err, nil)
	})
}
