package runner

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/truegreen-dev/truegreen/receipts"
)

// serveWheel puts a wheel with one module into a simple index and returns its hash.
func (r *registry) serveWheel(t testing.TB, name, version, requires, source string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	info := fmt.Sprintf("%s-%s.dist-info/", name, version)
	record := ""
	for _, f := range [][2]string{
		{name + ".py", source},
		{info + "METADATA", fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n%s", name, version, requires)},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "entry_points.txt", fmt.Sprintf("[console_scripts]\nsay-%s = %[1]s:say\n", name)},
		{info + "RECORD", ""},
	} {
		record += f[0] + ",,\n"
		if strings.HasSuffix(f[0], "RECORD") {
			f[1] = record
		}
		w, err := z.Create(f[0])
		if err == nil {
			_, err = io.WriteString(w, f[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf("/files/%s-%s-py3-none-any.whl", name, version)
	r.serve(file, b.String())
	sum := fmt.Sprintf("%x", sha256.Sum256(b.Bytes()))
	r.serve("/simple/"+name+"/", fmt.Sprintf(`<!DOCTYPE html><html><body><a href="%s#sha256=%s">%s</a></body></html>`, r.URL+file, sum, filepath.Base(file)))
	return "sha256:" + sum
}

// A Python project whose test needs a package that needs another one.
func TestPip(t *testing.T) {
	t.Parallel()
	if _, err := (pip{}).find(os.Environ()); err != nil {
		t.Skip(err)
	}
	r, elsewhere := newRegistry(t), newRegistry(t)
	inner := r.serveWheel(t, "inner", "0.1.0", "", "import pathlib\ndef answer(): return 42\n")
	sum := r.serveWheel(t, "answer", "1.2.3", "Requires-Dist: inner>=0.1\n", "from inner import answer\ndef say(): print(answer())\n")
	p := newPatchRun(t, map[string]string{"PIP_INDEX_URL": r.URL + "/simple/", "PIP_FIND_LINKS": ""})
	p.write(".truegreen.yaml", "test:\n  - {name: python, run: [python3, test.py], env: {PYTHONPATH: lib}}\n  - {name: script, run: [sh, -c, 'test $(say-answer) = 42']}\n")
	p.commit("base")
	p.write("pip.conf", "[global]\nindex-url = "+elsewhere.URL+"/simple/\n")
	p.write("lib/mine.py", "")
	p.write("test.py", "import mine, answer\nassert answer.answer() == 42\n")
	requirements := "# made by hand\nanswer==1.2.3 \\\n    --hash=" + sum + "  # via x\ninner[extra]==0.1.0 ; python_version > \"3\" --hash=" + inner + "\nother==1.0 ; python_version < \"3\" --hash=" + inner + "\n"
	p.write("requirements.txt", requirements)
	report, steps, modules := p.run()
	lines := []string{"answer 1.2.3 " + sum, "inner 0.1.0 " + inner, "other 1.0 " + inner}
	if len(steps) != 2 || !slices.Equal(modules, slices.Concat(lines, lines)) {
		t.Fatalf("%d steps, modules %q, %v", len(steps), modules, report.Reasons())
	}
	if n, i := steps[0].Args.Sandbox.Network, steps[1].Args.Sandbox.Network; n != "host" || i != "none" {
		t.Errorf("pip download has network %s, pip install %s", n, i)
	}
	green(t, report)
	if asked := r.requests(); !slices.Contains(asked, "/files/answer-1.2.3-py3-none-any.whl") {
		t.Errorf("asked for %q", asked)
	}

	p.write("lib/more.py", "")
	report, steps, modules = p.run()
	if asked := r.requests(); asked != nil || len(steps) != 2 || !slices.Equal(modules, slices.Concat(lines, lines)) {
		t.Fatalf("%d steps, asked for %q, modules %q", len(steps), asked, modules)
	}
	if s := steps[1]; s.Result.State != receipts.StateNotRun || string(s.Result.Why) != "nothing is missing" {
		t.Errorf("%+v", s.Result)
	}
	green(t, report)

	// A hash that is wrong, and a package that is needed and not pinned.
	for _, bad := range []string{strings.Replace(requirements, sum, inner, 1), "answer==1.2.3 --hash=" + sum + "\n"} {
		p.write("requirements.txt", bad)
		if report, steps, _ = p.run(); report.Verdict().Exit() == 0 || steps[len(steps)-1].Result.Exit == 0 {
			t.Errorf("%s: %v", bad, report.Reasons())
		}
		p.git("reset", "-q", "--hard", "HEAD~1")
	}
	if caches, _ := filepath.Glob(p.state + "/cache/deps/pip-*"); len(caches) != 1 {
		t.Errorf("%q: what failed is kept", caches)
	}
	if asked := elsewhere.requests(); asked != nil {
		t.Errorf("the place that the tree names was asked for %q", asked)
	}
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	hash := "sha256:" + strings.Repeat("0a", 32)
	bad := func(line string) string {
		return fmt.Sprintf("requirements.txt: %.60q: no package with a version and a hash", line)
	}
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"# nothing\n\n", ""},
		{"a==1 --hash=" + hash, "a 1 " + hash},
		{"a==1 \\\r\n  --hash=" + hash + " \\\r\n  --hash=" + hash + "\r\n", "a 1 " + hash + "\na 1 " + hash},
		{"A.b-c[x,y] == 1!2.0+l ; os_name == 'nt' --hash=" + hash, "A.b-c 1!2.0+l " + hash},
		{"a==1", bad("a==1")},
		{"a>=1 --hash=" + hash, bad("a>=1 --hash=" + hash)},
		{"a==1.* --hash=" + hash, bad("a==1.* --hash=" + hash)},
		{"a==1 --hash=md5:00", bad("a==1 --hash=md5:00")},
		{"a==1 ; --no-binary=a --hash=" + hash, bad("a==1 ; --no-binary=a --hash=" + hash)},
		{"a==1 --hash=" + hash + " --config-settings=x=y", bad("a==1 --hash=" + hash + " --config-settings=x=y")},
		{"-r other.txt", bad("-r other.txt")},
		{"--index-url https://example.com", bad("--index-url https://example.com")},
		{"a @ https://example.com/a.whl --hash=" + hash, bad("a @ https://example.com/a.whl --hash=" + hash)},
		{"./a.whl --hash=" + hash, bad("./a.whl --hash=" + hash)},
		{"${X}==1 --hash=" + hash, bad("${X}==1 --hash=" + hash)},
	} {
		want, err := (pip{}).lock(folderOf(map[string]string{"requirements.txt": test.text}), nil)
		var no *unlockedError
		got := ""
		switch {
		case errors.As(err, &no):
			got = no.why
		case err != nil:
			t.Errorf("%s: %v", test.text, err)
		case want != nil:
			got = strings.Join(want.modules, "\n")
		}
		if got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.text, got, test.want)
		}
	}
	if _, err := (pip{}).lock(folderOf(map[string]string{"uv.lock": ""}), nil); err == nil || err.Error() != "uv.lock is not read: there is no requirements.txt" {
		t.Error(err)
	}
	if want, err := (pip{}).lock(folderOf(map[string]string{"setup.py": ""}), nil); want != nil || err != nil {
		t.Error(want, err)
	}
}
