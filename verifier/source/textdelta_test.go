package source

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func textDeltas(base, head map[string]string) []string {
	files := func(m map[string]string) (list []File) {
		for name, text := range m {
			list = append(list, File{name, []byte(text)})
		}
		return list
	}
	var got []string
	for _, d := range TextDeltas(files(base), files(head), func(p string) bool { return TestSide(p, nil) }) {
		text := fmt.Sprintf("%s %s:%d %s", d.Kind, d.File, d.Line, d.What)
		if d.Base != 0 || d.Head != 0 {
			text += fmt.Sprintf(" %d %d", d.Base, d.Head)
		}
		got = append(got, text)
	}
	return got
}

// TestTextMarks: lines that are added to a file, and what is seen in them.
func TestTextMarks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, line, want string }{
		{"tests/test_a.py", "@pytest.mark.skip", "weaker skip"},
		{"tests/test_a.py", "@pytest.mark.skipif(True, reason='x')", "weaker skip"},
		{"tests/test_a.py", "pytestmark = pytest.mark.skip(reason='x')", "weaker skip"},
		{"tests/test_a.py", "    pytest.skip('x')", "weaker skip"},
		{"tests/test_a.py", "@unittest.skip('x')", "weaker skip"},
		{"tests/test_a.py", "    raise unittest.SkipTest", "weaker skip"},
		{"tests/test_a.py", "    self.skipTest('x')", "weaker skip"},
		{"tests/test_a.py", "@pytest.mark.xfail", "weaker xfail"},
		{"tests/test_a.py", "@unittest.expectedFailure", "weaker xfail"},
		{"tests/test_a.py", "    # pytest.skip('x')", ""},
		{"tests/test_a.py", "'''\npytest.skip('x')\n'''", ""},
		{"tests/test_a.py", "@pytest.mark.parametrize('a', [1])", ""},
		{"tests/test_a.py", "    os._exit(0)", "harness exits"},
		{"tests/test_a.py", "    sys.exit(0)", ""},
		{"conftest.py", "def pytest_runtest_makereport(item, call):", "harness hook pytest_runtest_makereport"},
		{"conftest.py", "def pytest_collection_modifyitems(items):", "harness hook pytest_collection_modifyitems"},
		{"lib/plugin.py", "    def pytest_pyfunc_call(self):", "harness hook pytest_pyfunc_call"},
		{"conftest.py", "def pytest_addoption(parser):", ""},
		{"a.py", "if 'PYTEST_CURRENT_TEST' in os.environ:", "aware asks for pytest"},
		{"a.py", "if 'pytest' in sys.modules:", "aware asks for pytest"},
		{"a.py", `fake = sys.modules.get("unittest")`, "aware asks for pytest"},
		{"a.py", "os._exit(0)", "aware exits"},
		{"a.py", "    sys.exit()", "aware exits with 0"},
		{"a.py", "    sys.exit(0)", "aware exits with 0"},
		{"a.py", "    raise SystemExit", "aware exits with 0"},
		{"a.py", "    sys.exit(main())", ""},
		{"a.py", "    raise SystemExit(2)", ""},
		{"a.py", "ci = os.getenv('CI')", "aware asks for CI"},
		{"a.py", "if 'test' in __file__:", "aware asks for its file"},
		{"a.py", "here = os.path.dirname(__file__)", ""},
		{"a.py", "if 'pytest' in sys.argv[0]:", "aware asks for its arguments"},
		{"a.py", "from pytest import raises", "aware import pytest"},
		{"a.py", "    def __eq__(self, other): return True", "aware equal to everything"},
		{"a.py", "    def __eq__(self, other) -> bool:\n        return True", "aware equal to everything"},
		{"a.py", "    def __eq__(self, other):\n        return self.x == other.x", ""},
		{"a.py", "pytest.skip('x')", ""}, // no test

		{"test/a.test.js", "it.skip('a', f)", "weaker skip"},
		{"test/a.test.js", "xit('a', f)", "weaker skip"},
		{"test/a.test.js", "exit('a', f)", ""},
		{"test/a.test.ts", "describe.skip('a', f)", "weaker skip"},
		{"test/a.test.js", "  t.skip('later')", "weaker skip"},
		{"test/a.test.js", "const o = { skip: true }", "weaker skip"},
		{"test/a.test.js", "const o = { skip: false }", ""},
		{"test/a.test.mjs", "test.todo('a')", "weaker todo"},
		{"test/a.test.js", "it.only('a', f)", "weaker only"},
		{"test/a.test.js", "// it.only('a', f)", ""},
		{"test/a.test.js", "/* it.only('a',\n it.skip('b' */", ""},
		{"test/a.test.js", "const s = '// '; it.only('a', f)", "weaker only"},
		{"test/a.test.js", "process.exit(0)", "harness exits"},
		{"test/a.test.js", "assert.equal = () => {}", "harness replaces an assertion"},
		{"a.js", "process.exit()", "aware exits with 0"},
		{"a.js", "process.exit(1)", ""},
		{"a.js", "process.exitCode = 0", "aware exits with 0"},
		{"a.js", "if (process.env.JEST_WORKER_ID) {}", "aware asks for the test runner"},
		{"a.ts", "if (process.env.NODE_ENV === 'test') {}", "aware asks for the test runner"},
		{"a.ts", `if (process.env["NODE_ENV"] == "test") {}`, "aware asks for the test runner"},
		{"a.js", "if (process.env.NODE_ENV === 'production') {}", ""},
		{"a.js", "if (process.env.CI) {}", "aware asks for CI"},
		{"a.js", "if (/test/.test(process.argv[1])) {}", ""},
		{"a.js", "if (process.argv[1].includes('test')) {}", "aware asks for its arguments"},
		{"a.go", "os._exit(0); process.exit(0)", ""},
		{"README.md", "pytest.skip('x')", ""},
	} {
		before := "x = 1\n"
		got := textDeltas(map[string]string{c.file: before}, map[string]string{c.file: before + c.line + "\n"})
		want := []string(nil)
		if kind, what, ok := strings.Cut(c.want, " "); ok {
			want = []string{fmt.Sprintf("%s %s:2 %s", kind, c.file, what)}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q: got %q, want %q", c.file, c.line, got, want)
		}
		// In a new file it is as new; and what was there is not.
		if got := textDeltas(nil, map[string]string{c.file: before + c.line + "\n"}); !slices.Equal(got, want) {
			t.Errorf("%s: %q: in a new file: got %q, want %q", c.file, c.line, got, want)
		}
		text := before + c.line + "\n"
		if got := textDeltas(map[string]string{c.file: text}, map[string]string{c.file: "\n" + text}); got != nil {
			t.Errorf("%s: %q: was there before: %q", c.file, c.line, got)
		}
	}
}

// TestTextTests: tests that are gone, and files with fewer assertions.
func TestTextTests(t *testing.T) {
	t.Parallel()
	py := "def test_a():\n    assert 1\n    assert 2\n\nasync def test_b():\n    assert 3\n"
	js := "it('adds', () => { expect(1).toBe(1) })\ntest(\"it's\", f)\ntest(`third`, () => assert.ok(1))\n"
	for name, c := range map[string]struct {
		base, head map[string]string
		want       []string
	}{
		"the same":        {map[string]string{"test_a.py": py}, map[string]string{"test_a.py": py}, nil},
		"removed":         {map[string]string{"test_a.py": py}, map[string]string{"test_a.py": "def test_a():\n    assert 1\n    assert 2\n"}, []string{"weaker test_a.py:1 fewer assertions 3 2", "weaker test_a.py:5 test removed: test_b"}},
		"commented out":   {map[string]string{"test_a.py": py}, map[string]string{"test_a.py": strings.ReplaceAll(py, "    assert 2", "    # assert 2")}, []string{"weaker test_a.py:1 fewer assertions 3 2"}},
		"moved":           {map[string]string{"test_a.py": py}, map[string]string{"tests/test_c.py": py}, nil},
		"file gone":       {map[string]string{"test_a.py": py, "a.py": "def test_x(): pass\n"}, nil, []string{"weaker test_a.py:1 test removed: test_a", "weaker test_a.py:5 test removed: test_b"}},
		"one of two":      {map[string]string{"test_a.py": py, "test_b.py": "def test_a(): pass\n"}, map[string]string{"test_b.py": "def test_a(): pass\n"}, []string{"weaker test_a.py:1 test removed: test_a", "weaker test_a.py:5 test removed: test_b"}},
		"more":            {map[string]string{"a.test.js": js}, map[string]string{"a.test.js": js + js}, nil},
		"script, removed": {map[string]string{"a.test.js": js}, map[string]string{"a.test.js": "\n"}, []string{"weaker a.test.js:1 fewer assertions 2 0", "weaker a.test.js:1 test removed: adds", "weaker a.test.js:2 test removed: it's", "weaker a.test.js:3 test removed: third"}},
		"code":            {map[string]string{"a.js": js}, map[string]string{"a.js": ""}, nil},
	} {
		if got := textDeltas(c.base, c.head); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestTextLimits: what is too large is left out, and many marks are cut.
func TestTextLimits(t *testing.T) {
	t.Parallel()
	if got := textDeltas(nil, map[string]string{"a.py": "os._exit(0)\n" + strings.Repeat("\n", maxTextFile)}); !slices.Equal(got, []string{"aware a.py:1 not read"}) {
		t.Errorf("of a large file: %q", got)
	}
	if got := textDeltas(nil, map[string]string{"a.py": strings.Repeat("os._exit(0)\n", 1000)}); len(got) != maxGoMarks {
		t.Errorf("%d marks, want %d", len(got), maxGoMarks)
	}
	many := strings.Repeat("def test_x(): pass\n", maxTextNames+100)
	if got := textDeltas(map[string]string{"test_a.py": many}, nil); len(got) != maxTextNames {
		t.Errorf("%d names, want %d", len(got), maxTextNames)
	}
	many = strings.Repeat("process.env = 0\n", maxTextTries+1)
	if got := textDeltas(nil, map[string]string{"a.js": many}); !slices.Equal(got, []string{"aware a.js:1 not read"}) {
		t.Errorf("with too many lines: %q", got)
	}
	// What is somewhere in a long line is seen, and so are all tests of one.
	for _, n := range []int{0, 700, 1000, 5000, 99999} {
		space := strings.Repeat(" ", n)
		if got := textDeltas(nil, map[string]string{"a.js": space + "process.exit(0)" + space + "\n"}); !slices.Equal(got, []string{"aware a.js:1 exits with 0"}) {
			t.Errorf("after %d bytes: %q", n, got)
		}
		line := strings.Repeat("it('a', f);"+space, 3)
		if got := textDeltas(map[string]string{"a.test.js": line}, nil); len(got) != 3 {
			t.Errorf("%d bytes between tests: %q", n, got)
		}
	}
}

// FuzzTextDeltas: whatever the text is, the result is sorted, names lines that are
// there, and a side compared with itself has none. Blanking keeps lengths and lines.
func FuzzTextDeltas(f *testing.F) {
	f.Add("@pytest.mark.skip\ndef test_a(): assert 1\n", "'''\n# it.only('x')\n")
	f.Add("it('a', () => expect(1))", "/* ` \\")
	f.Add("'''", `"\`)
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, name := range []string{"tests/test_a.py", "a.py", "a.test.js", "a.ts"} {
			list := TextDeltas([]File{{name, []byte(a)}}, []File{{name, []byte(b)}}, func(p string) bool { return TestSide(p, nil) })
			for i, d := range list {
				lines := 1 + strings.Count(b, "\n")
				if strings.HasPrefix(d.What, "test removed") {
					lines = 1 + strings.Count(a, "\n")
				}
				if d.File != name || d.Line < 1 || d.Line > lines || d.What == "" {
					t.Errorf("%+v", d)
				}
				if i > 0 && list[i-1].Line > d.Line {
					t.Errorf("%+v after %+v", d, list[i-1])
				}
			}
			if same := TextDeltas([]File{{name, []byte(a)}}, []File{{name, []byte(a)}}, func(p string) bool { return TestSide(p, nil) }); same != nil {
				t.Errorf("compared with itself: %+v", same)
			}
		}
		for _, blank := range []func([]byte) []byte{blankPython, blankScript} {
			out := blank([]byte(a))
			if len(out) != len(a) || strings.Count(string(out), "\n") != strings.Count(a, "\n") {
				t.Errorf("%q: %q", a, out)
			}
		}
	})
}
