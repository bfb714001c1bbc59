package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/verifier"
)

// describe writes entries as "name@dir: run [env] (format)".
func describe(entries []verifier.TestEntry) string {
	var lines []string
	for _, e := range entries {
		line := e.Name + "@" + e.Dir + ": " + strings.Join(e.Run, " ")
		if len(e.Env) > 0 {
			line += " " + fmt.Sprint(e.Env)
		}
		lines = append(lines, line+" ("+e.Format+")")
	}
	return strings.Join(lines, "\n")
}

func TestDetect(t *testing.T) {
	t.Parallel()
	const npm = `{"scripts": {"test": "jest"}}`
	for name, c := range map[string]struct {
		files map[string]string
		want  string // entries
		notes string // each line is part of one note
	}{
		"nothing":           {map[string]string{"README": ""}, "", ""},
		"go":                {map[string]string{"go.mod": "module x\n", "x_test.go": ""}, "go@.: go test ./... (go)", ""},
		"go without tests":  {map[string]string{"go.mod": "module x\n", "x.go": ""}, "go@.: go test ./... (go)", ""},
		"go without module": {map[string]string{"x_test.go": ""}, "", "there is no go.mod"},
		"go nested": {map[string]string{"go.mod": "", "x_test.go": "", "a/go.mod": "", "a/b/x_test.go": "", "tools/go.mod": "", "tools/testdata/x_test.go": "",
			"testdata/m/go.mod": "", "testdata/m/x_test.go": "", "vendor/v/go.mod": "", "_old/go.mod": "", ".hidden/go.mod": ""},
			"go@.: go test ./... (go)\ngo-a@a: go test ./... (go)",
			"\"tools\": not covered: it has no test files\n\"testdata/m\": not covered: the go command ignores\n\"vendor/v\": not\n\"_old\": not\n\".hidden\": not"},
		"go only nested": {map[string]string{"svc/api/go.mod": "", "svc/api/x_test.go": "", "svc/API/go.mod": "", "svc/API/x_test.go": ""},
			"go-svc-api@svc/API: go test ./... (go)\ngo-svc-api-2@svc/api: go test ./... (go)", ""},
		"go workspace": {map[string]string{"go.work": "go 1.26\nuse (\n\t./a\n\tb/c\n)\n", "a/go.mod": "", "a/x_test.go": "", "b/c/go.mod": "", "b/c/x_test.go": "", "d/go.mod": "", "d/x_test.go": ""},
			"go-a@a: go test ./... (go)\ngo-b-c@b/c: go test ./... (go)\ngo-d@d: go test ./... [GOWORK=off] (go)", ""},
		"go workspace that does not parse": {map[string]string{"go.work": "use ((", "go.mod": "", "x_test.go": ""}, "go@.: go test ./... (go)", ""},
		"go workspace with the root":       {map[string]string{"go.work": "go 1.26\nuse .\n", "go.mod": "", "x_test.go": ""}, "go@.: go test ./... (go)", ""},
		"go odd folders": {map[string]string{"\xff/go.mod": "", "\xff/x_test.go": "", "a\\b/go.mod": "", "Ü/go.mod": "", "Ü/x_test.go": "", strings.Repeat("long", 20) + "/go.mod": "", strings.Repeat("long", 20) + "/x_test.go": ""},
			"go-longlonglonglonglonglongl@" + strings.Repeat("long", 20) + ": go test ./... (go)\ngo@Ü: go test ./... (go)", "\\xff\na\\\\b"},
		"rust":               {map[string]string{"Cargo.toml": "", "crates/a/Cargo.toml": ""}, "cargo@.: cargo test --workspace (exit)", "Cargo.toml in 1 folders"},
		"npm":                {map[string]string{"package.json": npm, "node_modules/x/package.json": npm}, "npm@.: npm test (exit)", ""},
		"npm without script": {map[string]string{"package.json": "{}"}, "", "no test script"},
		"npm init's script":  {map[string]string{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`}, "", "no test script"},
		"npm broken":         {map[string]string{"package.json": `{"scripts"`}, "", "no test script"},
		"npm huge":           {map[string]string{"package.json": npm + strings.Repeat(" ", 1<<20)}, "", "no test script"},
		"npm below":          {map[string]string{"web/package.json": npm}, "", "package.json in 1 folders below the root, such as \"web\""},
		"pytest.ini":         {map[string]string{"pytest.ini": "[pytest]"}, "pytest@.: python3 -m pytest --junitxml=/out/report.xml (junit)", ""},
		"pyproject":          {map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\n"}, "pytest@.: python3 -m pytest --junitxml=/out/report.xml (junit)", ""},
		"pyproject, tests":   {map[string]string{"pyproject.toml": "[project]\n", "tests/test_a.py": ""}, "pytest@.: python3 -m pytest --junitxml=/out/report.xml (junit)", ""},
		"pyproject, none":    {map[string]string{"pyproject.toml": "[project]\n", "src/a.py": ""}, "", ""},
		"setup.cfg":          {map[string]string{"setup.cfg": "[metadata]\n[tool:pytest]\n"}, "pytest@.: python3 -m pytest --junitxml=/out/report.xml (junit)", ""},
		"tox.ini":            {map[string]string{"tox.ini": "[tox]\n[pytest]\n"}, "pytest@.: python3 -m pytest --junitxml=/out/report.xml (junit)", ""},
		"stray python test":  {map[string]string{"scripts/test_a.py": ""}, "", "there is no Python project"},
		"make":               {map[string]string{"Makefile": "all:\n\ttrue\n.PHONY: test\ntest: all\n\ttrue\n"}, "make@.: make test (exit)", ""},
		"make, two targets":  {map[string]string{"makefile": "check test lint:\n"}, "make@.: make test (exit)", ""},
		"make, bare":         {map[string]string{"Makefile": "test:"}, "make@.: make test (exit)", ""},
		"make, no target":    {map[string]string{"Makefile": "test := 1\ntests:\n\tmake test:\n#test:\nmytest:\ntest::=1\n"}, "", "no target"},
		"make beside go":     {map[string]string{"Makefile": "test:\n", "go.mod": ""}, "go@.: go test ./... (go)", ""},
		"several": {map[string]string{"go.mod": "", "package.json": npm, "Cargo.toml": "", "pytest.ini": ""},
			"go@.: go test ./... (go)\ncargo@.: cargo test --workspace (exit)\nnpm@.: npm test (exit)\npytest@.: python3 -m pytest --junitxml=/out/report.xml (junit)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := detector{files: make(map[string]bool), read: func(path string) []byte { return []byte(c.files[path]) }}
			for path := range c.files {
				d.files[path] = true
				d.paths = append(d.paths, path)
			}
			if name == "npm huge" {
				d.read = func(string) []byte { return nil }
			}
			slices.Sort(d.paths)
			d.detect()
			if got := describe(d.entries); got != c.want {
				t.Errorf("entries:\n%s\nwant:\n%s", got, c.want)
			}
			notes := strings.Join(d.notes, "\n")
			if c.notes == "" && notes != "" {
				t.Errorf("notes: %s", notes)
			}
			for part := range strings.SplitSeq(c.notes, "\n") {
				if !strings.Contains(notes, part) {
					t.Errorf("notes:\n%s\nwant %q in them", notes, part)
				}
			}
			config := verifier.DefaultConfig()
			config.Test = d.entries
			if _, err := config.Document(); err != nil {
				t.Errorf("no configuration: %v", err)
			}
		})
	}
}

func TestDetectManyModules(t *testing.T) {
	t.Parallel()
	d := detector{files: map[string]bool{"Cargo.toml": true}, read: func(string) []byte { return nil }}
	for i := range 200 {
		d.paths = append(d.paths, fmt.Sprintf("m%03d/go.mod", i), fmt.Sprintf("m%03d/x_test.go", i))
	}
	d.detect()
	config := verifier.DefaultConfig()
	config.Test = d.entries
	if _, err := config.Document(); err != nil {
		t.Error(err)
	}
	if len(d.entries)+len(d.notes) != 201 {
		t.Errorf("%d entries, %d notes: something is neither covered nor noted", len(d.entries), len(d.notes))
	}
}

// TestDetectSide: the patch does not choose its tests, unless there is no base.
func TestDetectSide(t *testing.T) {
	t.Parallel()
	g := newRepo(t)
	g.write("go.mod", "module x\n")
	g.write("go.work", "go 1.26\nuse ./a\n")
	g.commit("base")
	g.write("package.json", `{"scripts": {"test": "exit 0"}}`)
	g.git("rm", "-q", "-f", "go.mod")
	g.commit("head")
	r := g.open()
	var l [3]Listing
	for i, tree := range []string{r.EmptyBase("").Tree, g.git("rev-parse", "HEAD~1^{tree}"), g.git("rev-parse", "HEAD^{tree}")} {
		var err error
		if l[i], err = r.Names(context.Background(), tree); err != nil {
			t.Fatal(err)
		}
	}
	entries, notes, err := r.Detect(context.Background(), l[1], l[2])
	if got := describe(entries); err != nil || got != "go@.: go test ./... [GOWORK=off] (go)" || len(notes) > 0 {
		t.Errorf("%s, %q, %v", got, notes, err)
	}
	entries, notes, err = r.Detect(context.Background(), l[0], l[2])
	if got := describe(entries); err != nil || got != "npm@.: npm test (exit)" || len(notes) != 1 || !strings.Contains(notes[0], "the base has no files") {
		t.Errorf("%s, %q, %v", got, notes, err)
	}
}
