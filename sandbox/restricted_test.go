//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func needRestricted(t *testing.T) {
	t.Helper()
	if !able(ModeRestricted) {
		t.Skip("this host has no Landlock, or one too old for this user")
	}
}

// reachableDir is a directory that a sandbox uid can get at.
func reachableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "truegreen-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeTree(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRestricted(t *testing.T) {
	needRestricted(t)
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("src/a.txt", "a\n", 0o644)
	write("src/sub/run.sh", "#!/bin/sh\necho ran from $PWD\n", 0o755)
	write("deps/lib.txt", "lib\n", 0o644)
	write("out/old.txt", "old\n", 0o644)
	write("secret", "secret\n", 0o644)
	if err := os.Symlink("../a.txt", filepath.Join(dir, "src/sub/link")); err != nil {
		t.Fatal(err)
	}
	if uid, gid, chown := Owner(); chown {
		if err := os.Chown(filepath.Join(dir, "out"), uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	var report string
	r, out := mustRun(t, ModeRestricted, Spec{
		Argv: sh(strings.Join([]string{
			"./run.sh", "cat link /cache/deps/lib.txt", "echo changed > ../a.txt", "cat $FILE", "echo new > /out/new.txt && rm -f /out/old.txt",
			"echo report > /report/r.xml", "touch $HOME/h $TMPDIR/t /tmp/t2", "ls /src/vendor",
			"cat " + filepath.Join(dir, "secret") + " || echo hidden", "touch /usr/x /x " + dir + "/x /var/tmp/../x 2>/dev/null || echo read-only",
			"ln -s " + filepath.Join(dir, "secret") + " /report/link.xml",
		}, "\n")),
		Dir: "/src/sub",
		Env: append(testEnv(), "TMPDIR=/tmp", "FILE=/src/a.txt"),
		Mounts: []Mount{
			{Source: filepath.Join(dir, "src"), Target: "/src", Kind: Overlay},
			{Source: filepath.Join(dir, "deps"), Target: "/cache/deps", Kind: ReadOnly},
			{Source: filepath.Join(dir, "deps"), Target: "/src/vendor", Kind: ReadOnly},
			{Source: filepath.Join(dir, "out"), Target: "/out", Kind: Writable},
			{Target: "/report", Kind: Scratch},
		},
		Collect: []string{"/report/r.xml", "/report/link.xml", "/report/none.xml"},
		Sink: func(_ string, _ int64, rd io.Reader) error {
			b, err := io.ReadAll(rd)
			report = string(b)
			return err
		},
		MinLevel: LevelRestricted,
	})
	text := out.stdout.String()
	for _, want := range []string{"ran from /", "a\nlib\n", "changed\n", "lib.txt\n", "hidden\n", "read-only\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q, %q", want, text, out.stderr.String())
		}
	}
	if r.State != StateExited || r.Exit != 0 || report != "report\n" {
		t.Errorf("%s %d, report %q, %q", r.State, r.Exit, report, out.stderr.String())
	}
	if f := r.Files; len(f) != 3 || f[0].Path != "/report/r.xml" || f[0].Err != "" || f[1].Err != "ELOOP" || f[2].Err != "ENOENT" {
		t.Errorf("files %+v", f)
	}
	for name, want := range map[string]string{"src/a.txt": "a\n", "out/new.txt": "new\n", "deps/lib.txt": "lib\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != want {
			t.Errorf("%s afterwards: %q, %v", name, b, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "out/old.txt")); !os.IsNotExist(err) {
		t.Errorf("a file removed inside is still there: %v", err)
	}
	iso := r.Isolation
	if iso.Level != LevelRestricted || iso.Root != "moved" || len(iso.Namespaces) != 0 || iso.UID == 0 {
		t.Errorf("isolation %+v", iso)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), fmt.Sprintf("%s%d-*", boxPrefix, os.Getpid()))); len(left) > 4 { // of parallel tests
		t.Errorf("left %v", left)
	}
}

// TestRestrictedNetwork: without namespaces, no network means no internet
// sockets at all.
func TestRestrictedNetwork(t *testing.T) {
	needRestricted(t)
	t.Parallel()
	r, _ := mustRun(t, ModeRestricted, Spec{Argv: []string{"true"}})
	for _, name := range []string{"canary_tcp", "canary_udp", "route_out", "loopback4"} {
		if p := probe(r.Isolation, name); p.Got != "EAFNOSUPPORT" {
			t.Errorf("%s: %s", name, p.Got)
		}
	}
	r, _ = mustRun(t, ModeRestricted, Spec{Argv: []string{"true"}, Network: NetworkHost})
	if p := probe(r.Isolation, "loopback4"); p.Got != "ok" || r.Isolation.Level != LevelRestricted {
		t.Errorf("host network: loopback %s, level %v", p.Got, r.Isolation.Level)
	}
}

func probe(iso Isolation, name string) Probe {
	for _, p := range iso.Probes {
		if p.Name == name {
			return p
		}
	}
	return Probe{Got: "did not run"}
}

// TestRestrictedApart: sandboxes that share everything but the uid, or the
// Landlock domain, do not end each other.
func TestRestrictedApart(t *testing.T) {
	needRestricted(t)
	t.Parallel()
	var slow sync.WaitGroup
	slow.Go(func() {
		r, out := mustRun(t, ModeRestricted, Spec{Argv: sh("sleep 1; echo alive")})
		if r.State != StateExited || out.stdout.String() != "alive\n" {
			t.Errorf("%s %s, %q", r.State, r.Why, out.stdout.String())
		}
	})
	for range 5 {
		r, _ := mustRun(t, ModeRestricted, Spec{Argv: sh("sleep 60 & setsid sleep 60 & kill -9 -1")})
		if r.State == StateCanceled || r.State == StateTimeout {
			t.Errorf("%s %s", r.State, r.Why)
		}
	}
	slow.Wait()
}

// TestRestrictedWall: the clock ends what has left its session and ignores
// signals.
func TestRestrictedWall(t *testing.T) {
	needRestricted(t)
	t.Parallel()
	mark := "wall-" + filepath.Base(t.TempDir())
	r, _ := mustRun(t, ModeRestricted, Spec{
		Argv: []string{attackPath, "attack:stubborn", mark, "stay"}, Mounts: []Mount{attackMount(t)}, Limits: Limits{Wall: 300 * time.Millisecond},
	})
	if r.State != StateTimeout && r.State != StateExited {
		t.Errorf("%s %s", r.State, r.Why)
	}
	if pids := processesWith(mark); len(pids) > 0 {
		t.Errorf("processes %v survived", pids)
	}
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	v := &view{moved: []move{{"/cache/deps", "/b/d"}, {"/src", "/b/s"}, {"/tmp", "/b/t"}}}
	for in, want := range map[string]string{
		"/src":                               "/b/s",
		"/src/a/../b":                        "/b/s/a/../b",
		"/srcs":                              "/srcs",
		"a/src":                              "a/src",
		"x=/src:/usr:/src/bin":               "x=/b/s:/usr:/b/s/bin",
		"file:///cache/deps/x,off":           "file:///b/d/x,off",
		"https://example.org/src":            "https://example.org/src",
		"cd /src && ls '/tmp'":               "cd /b/s && ls '/b/t'",
		"--junit=/tmp/r.xml":                 "--junit=/b/t/r.xml",
		"":                                   "",
		"//src":                              "//src",
		"/src/src/src":                       "/b/s/src/src",
		"-I/src":                             "-I/src",
		"/cache/deps2 /cache/deps /cache":    "/cache/deps2 /b/d /cache",
		"GOPROXY=file:///cache/deps;/src\n.": "GOPROXY=file:///b/d;/b/s\n.",
	} {
		if got := v.rewrite(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestRemoveTree: what hostile code leaves behind can be removed. Attempts 41
// and 44 of the conformance list.
func TestRemoveTree(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "tree")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	depth := 2_000
	if os.Getenv("TRUEGREEN_FULL") != "" {
		depth = 100_000 // past every limit on descriptors: flatten is called for
	}
	for i := range depth {
		if err := unix.Mkdirat(at, "d", 0o700); err != nil {
			t.Skipf("this file system ends at depth %d: %v", i, err)
		}
		next, err := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(at)
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	unix.Close(at)
	locked := filepath.Join(dir, "locked")
	if err := os.MkdirAll(locked+"/below/more", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(locked+"/below/more/file\n\xff", nil, 0); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{locked + "/below/more", locked + "/below", locked} {
		if err := os.Chmod(p, 0); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv("TRUEGREEN_FULL") == "" {
		flatten(dir)
	}
	if err := removeTree(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}

// TestSweep: what a dead owner left goes, and what only has the name stays.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const dead = "4194305" // above every pid
	for _, name := range []string{boxPrefix + dead + "-a", boxPrefix + "1-b", "other-" + dead + "-c", "target"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("target", filepath.Join(dir, boxPrefix+dead+"-link")); err != nil {
		t.Fatal(err)
	}
	want := []string{"other-" + dead + "-c", "target", boxPrefix + "1-b", boxPrefix + dead + "-link"}
	if os.Geteuid() == 0 {
		foreign := filepath.Join(dir, boxPrefix+dead+"-foreign")
		if err := os.Mkdir(foreign, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		want = append(want, filepath.Base(foreign))
	}
	sweep(dir, boxPrefix)
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
}
