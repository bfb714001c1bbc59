//go:build amd64 || arm64

package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/truegreen-dev/truegreen/sandbox"
)

const httpTest = `package must

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }))
	defer s.Close()
	r, err := http.Get(s.URL)
	if err != nil || r.StatusCode != 204 || One() != 1 {
		t.Fatal(r, err)
	}
}
`

const raceTest = `package must

import (
	"sync"
	"testing"
)

func TestCount(t *testing.T) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	n := 0
	for i := 0; i < 4; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			mu.Lock()
			n += One()
			mu.Unlock()
		}()
	}
	wg.Wait()
	if n != 4 {
		t.Fatal(n)
	}
}
`

const pythonPool = `import multiprocessing, multiprocessing.shared_memory as m

def f(x):
    return x * x

if __name__ == "__main__":
    s = m.SharedMemory(create=True, size=4096)
    s.buf[0] = 7
    with multiprocessing.Pool(2) as p:
        assert p.map(f, [1, 2, 3]) == [1, 4, 9]
    q = multiprocessing.Queue()
    q.put(1)
    assert q.get(timeout=10) == 1
    s.close()
    s.unlink()
`

const pythonFiles = `import os, tempfile, sqlite3

with tempfile.TemporaryDirectory() as d:
    with tempfile.NamedTemporaryFile(dir=d) as f:
        f.write(b"x")
    db = os.path.join(d, "x.db")
    a = sqlite3.connect(db)
    a.execute("pragma journal_mode=wal")
    a.execute("create table t (n integer)")
    a.execute("insert into t values (1)")
    a.commit()
    assert sqlite3.connect(db).execute("select n from t").fetchall() == [(1,)]
    a.close()
`

const nodeWorkers = `const { Worker } = require("worker_threads");
const { execFileSync, fork } = require("child_process");
const w = new Worker("require('worker_threads').parentPort.postMessage(2)", { eval: true });
w.on("error", (e) => { console.error(String(e)); process.exit(1); });
w.on("message", (n) => {
  if (n !== 2 || String(execFileSync("echo", ["x"])) !== "x\n") process.exit(1);
  const c = fork("child.js");
  c.on("message", (m) => process.exit(m === "hello" ? 0 : 1));
});
`

// atLevel sets a row's level: below walls, toolchains lie elsewhere than where
// these rows name them, there is no loopback, and not always /dev/shm.
func atLevel(level sandbox.Level, r Row) Row {
	r.Level = level
	return r
}

// programRows: what the usual tools do.
func programRows() []Row {
	run := func(id string, s script) func(*Inside) string {
		return func(in *Inside) string { return s.run(in, "must-"+id) }
	}
	sh := func(id, name, text string, needs ...string) Row {
		return Row{ID: id, Name: name, Needs: installed(append(needs, "sh")...), Try: run(id, script{
			files: map[string]string{"run": "#!/bin/sh\nset -e\n" + text},
			argv:  []string{"./run"},
		})}
	}
	python := func(id, name, text string) Row {
		return Row{ID: id, Name: name, Needs: installed("python3"), Try: run(id, script{
			files: map[string]string{"x.py": text}, argv: []string{"python3", "x.py"},
		})}
	}
	gotest := func(id, name, test string, level sandbox.Level, needs func() string, flags ...string) Row {
		return Row{ID: id, Name: name, Level: level, Own: true, Spec: goMounts, Needs: needs, Try: goTest("must-"+id, test, flags...),
			Why: "no control: it would compile outside what is to be compiled inside"}
	}
	return []Row{
		gotest("go-httptest", "go test with httptest", httpTest, walls, compiled("testing", "net/http/httptest")),
		gotest("go-cover", "go test -cover", raceTest, walls, compiled("testing"), "-cover"),
		gotest("go-race", "go test -race", raceTest, walls, compiled("-race", "testing"), "-race"),
		atLevel(walls, python("python-multiprocessing", "python multiprocessing and shared memory", pythonPool)),
		python("python-files", "python tempfile and sqlite3", pythonFiles),
		{ID: "node", Name: "node worker_threads and child_process", Needs: installed("node"), Try: run("node", script{
			files: map[string]string{"x.js": nodeWorkers, "child.js": "process.send('hello');\n"}, argv: []string{"node", "x.js"},
		})},
		{ID: "cargo", Name: "cargo test", Level: walls, Own: true, Needs: all(installed("cc"), rustMissing), Spec: rustMounts, Try: run("cargo", script{
			files: map[string]string{"Cargo.toml": "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/lib.rs": "#[test]\nfn one() { assert_eq!(1 + 1, 2); }\n"},
			env:   []string{"PATH=" + rustInside + "/bin:" + searchPath},
			argv:  []string{rustInside + "/bin/cargo", "test", "--offline", "--quiet"},
		}), Why: "no control: the toolchain is elsewhere outside"},
		sh("cc", "compile and run a C program", "echo 'int main(void) { return 0; }' >x.c\ncc -o x x.c\n./x\n", "cc"),
		sh("asan", "the address sanitizer", "echo 'int main(void) { return 0; }' >x.c\ncc -fsanitize=address -o x x.c\n./x\n", "cc"),
		sh("sqlite", "sqlite3 with a write-ahead log", "sqlite3 x.db 'pragma journal_mode=wal; create table t (n); insert into t values (1);'\ntest \"$(sqlite3 x.db 'select n from t')\" = 1\n", "sqlite3"),
		sh("git", "git init and commit", "git init -q r\ncd r\necho x >f\ngit add f\ngit -c user.name=x -c user.email=x@example.com commit -q -m x\ntest \"$(git rev-list --count HEAD)\" = 1\n", "git"),
		sh("strace", "strace a program", "strace -f -o log true\ngrep -q execve log\n", "strace"),
		sh("gdb", "run a program in gdb", "gdb -batch -nx -ex run /bin/true >log 2>&1\ngrep -q 'exited normally' log\n", "gdb"),
		atLevel(walls, sh("localhost", "look localhost up", "getent hosts localhost | grep -qE '^(127.0.0.1|::1)'\ngetent passwd \"$(id -u)\" >/dev/null\n", "getent")),
		sh("zones", "time zones", "test \"$(TZ=Asia/Tokyo date -d @0 +%H)\" = 09\ntest \"$(TZ=America/New_York date -d @0 +%H)\" = 19\n", "date"),
	}
}

// rustInside is where a Rust toolchain is inside.
const rustInside = "/opt/rust"

var findRust = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("rustc", "--print", "sysroot")
	cmd.Dir = "/"
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
})

func rustMissing() string {
	root, err := findRust()
	if err != nil {
		return "there is no rustc here: " + err.Error()
	}
	if _, err := os.Stat(filepath.Join(root, "bin/cargo")); err != nil {
		return "there is no cargo beside rustc: " + ended(err)
	}
	return ""
}

func rustMounts(_ *Outside, spec *sandbox.Spec) {
	if root, err := findRust(); err == nil {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: root, Target: rustInside, Kind: sandbox.ReadOnly})
	}
}
