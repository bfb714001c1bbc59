//go:build linux && (amd64 || arm64)

package sandbox

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A testEngine is an engine, an image with a shell, and a static program that
// can be the first process.
type testEngine struct {
	engine
	image, entry string
}

var makeTestEngine = sync.OnceValues(func() (te testEngine, err error) {
	if te.engine, err = findEngine(); err != nil {
		return te, err
	}
	busybox, err := os.ReadFile("/bin/busybox")
	static := remote{entry: "/bin/busybox"}
	if _, linked := (&Spec{remote: static}).entryPath(); err != nil || linked != nil {
		return te, errors.New("no static busybox here to make an image of")
	}
	var image bytes.Buffer
	tw := tar.NewWriter(&image)
	tw.WriteHeader(&tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(busybox))})
	tw.Write(busybox)
	for _, name := range []string{"sh", "cat", "id", "ls", "sleep", "touch", "env", "true", "head", "yes", "setsid", "kill"} {
		tw.WriteHeader(&tar.Header{Name: "bin/" + name, Linkname: "busybox", Typeflag: tar.TypeSymlink, Mode: 0o777})
	}
	tw.WriteHeader(&tar.Header{Name: "opt/tools/", Typeflag: tar.TypeDir, Mode: 0o755})
	if err := tw.Close(); err != nil {
		return te, err
	}
	cmd := te.command(context.Background(), "import", "--change", "ENV PATH=/opt/tools:/bin", "-", "truegreen-sandbox-test:"+strconv.Itoa(os.Getpid()))
	cmd.Stdin = &image
	out, err := cmd.Output()
	if err != nil {
		return te, err
	}
	te.image = strings.TrimSpace(string(out))
	madeForTests = append(madeForTests, func() error {
		_, err := te.output(context.Background(), "image", "rm", "--force", te.image)
		return err
	})
	dir, err := os.MkdirTemp("", "truegreen-entry-")
	if err != nil {
		return te, err
	}
	madeForTests = append(madeForTests, func() error { return os.RemoveAll(dir) })
	te.entry = filepath.Join(dir, "truegreen")
	build := exec.Command("go", "build", "-o", te.entry, "../cmd/truegreen")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return te, errors.New(string(out))
	}
	return te, nil
})

func needEngine(t *testing.T) testEngine {
	t.Helper()
	te, err := makeTestEngine()
	if err != nil {
		t.Skip(err)
	}
	return te
}

func (te testEngine) run(t *testing.T, spec Spec) (Result, *output) {
	t.Helper()
	spec.Image, spec.remote.entry = te.image, te.entry
	if spec.Env == nil {
		spec.Env = []string{"PATH=/bin", "HOME=/home/sandbox"}
	}
	return mustRun(t, ModeContainer, spec)
}

func TestContainer(t *testing.T) {
	te := needEngine(t)
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"src/a.txt": "a\n", "src/sub/run.sh": "#!/bin/sh\necho ran in $PWD\n", "deps/lib.txt": "lib\n", "out/old": "old\n"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../a.txt", filepath.Join(dir, "src/sub/link")); err != nil {
		t.Fatal(err)
	}
	var report string
	r, out := te.run(t, Spec{
		Argv: sh("./run.sh; cat link /deps/lib.txt; echo changed > ../a.txt && cat ../a.txt; id -u; echo $PATH; echo new > /out/new; rm /out/old\n" +
			"touch /x /bin/x /deps/x /.truegreen/x || echo read-only; echo report > /report/r; ls /.truegreen; ls /dev/shm; exit 5"),
		Dir: "/src/sub",
		Mounts: []Mount{
			{Source: filepath.Join(dir, "src"), Target: "/src", Kind: Overlay},
			{Source: filepath.Join(dir, "deps"), Target: "/deps", Kind: ReadOnly},
			{Source: filepath.Join(dir, "out"), Target: "/out", Kind: Writable},
			{Source: filepath.Join(dir, "deps/lib.txt"), Target: "/etc/one/file", Kind: ReadOnly},
			{Target: "/report", Kind: Scratch},
		},
		Collect: []string{"/report/r", "/etc/one/file"},
		Sink: func(_ string, _ int64, rd io.Reader) error {
			b, err := io.ReadAll(rd)
			report += string(b)
			return err
		},
		MinLevel: LevelContainer,
	})
	text := out.stdout.String()
	for _, want := range []string{"ran in /src/sub\n", "a\nlib\n", "changed\n", "61000\n", "/bin:/opt/tools:/bin\n", "read-only\n", "init\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q, %q", want, text, out.stderr.String())
		}
	}
	if r.State != StateExited || r.Exit != 5 || report != "report\nlib\n" {
		t.Errorf("%s %d, report %q", r.State, r.Exit, report)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "out/new")); string(b) != "new\n" {
		t.Errorf("written file %q, %v", b, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "out/old")); !os.IsNotExist(err) {
		t.Errorf("a file removed inside is still there: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "src/a.txt")); string(b) != "a\n" {
		t.Errorf("the source is now %q", b)
	}
	iso := r.Isolation
	if iso.Level != LevelContainer || iso.Mode != ModeContainer || !strings.HasPrefix(iso.Via, te.name+" ") || iso.Image != te.image || iso.Kill != "container" {
		t.Errorf("isolation %+v", iso)
	}
	for _, ns := range []string{"pid", "mnt", "net", "ipc", "uts"} {
		if !slices.Contains(iso.Namespaces, ns) {
			t.Errorf("namespaces %v lack %s", iso.Namespaces, ns)
		}
	}
	for _, l := range iso.Limits {
		if (l.Name == "pids" || l.Name == "memory") && l.By != te.name {
			t.Errorf("limit %+v", l)
		}
	}
	if left, err := te.output(t.Context(), "ps", "--all", "--quiet", "--filter", "label="+containerLabel+"="+containerOwner()); err != nil || len(strings.Fields(left)) > 3 { // of parallel tests
		t.Errorf("containers left: %q, %v", left, err)
	}
}

func TestContainerEnds(t *testing.T) {
	te := needEngine(t)
	t.Parallel()
	r, _ := te.run(t, Spec{Argv: sh("setsid sleep 60 & sleep 60"), Limits: Limits{Wall: 200 * time.Millisecond}})
	if r.State != StateTimeout {
		t.Errorf("wall: %s %s", r.State, r.Why)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &notifyWriter{want: []byte("ready\n"), then: cancel}
	r, err := Run(ctx, Spec{Argv: sh("echo ready; sleep 60"), Env: []string{"PATH=/bin"}, Modes: []Mode{ModeContainer}, Stdout: w, Image: te.image, remote: remote{entry: te.entry}})
	if err != nil || r.State != StateCanceled {
		t.Errorf("canceled: %v, %s", err, r.State)
	}
	r, out := te.run(t, Spec{Argv: sh("yes | head -c 300000; kill -9 -1; echo no"), Limits: Limits{Output: 1000}})
	if r.State == StateCanceled || r.Stdout.Kept != 1000 || out.stdout.Len() != 1000 {
		t.Errorf("output: %s, %+v", r.State, r.Stdout)
	}
	for _, milli := range []int{500, 1000*runtime.NumCPU() + 1500} { // more than there is, too
		r, _ = te.run(t, Spec{Argv: []string{"true"}, Limits: Limits{CPU: milli}})
		if l := limit(t, r, "cpu_milli"); r.State != StateExited || l.By != te.name || l.Value != int64(milli) {
			t.Errorf("cpu: %s %s, %+v", r.State, r.Why, l)
		}
	}
	r, _ = te.run(t, Spec{Argv: []string{"no-such-command"}})
	if r.State != StateCouldNotStart {
		t.Errorf("no such command: %s %s", r.State, r.Why)
	}
}

// TestContainerKilled: an engine that loses the container in mid-run is an
// error, not a result.
func TestContainerKilled(t *testing.T) {
	te := needEngine(t)
	t.Parallel()
	w := &notifyWriter{want: []byte("ready\n")}
	w.then = func() {
		list, _ := te.output(context.Background(), "ps", "--quiet", "--filter", "label="+containerLabel+"="+containerOwner())
		for id := range strings.FieldsSeq(list) {
			top, _ := te.output(context.Background(), "top", id, "-eo", "pid,args")
			if strings.Contains(top, "sleep 4711") {
				te.output(context.Background(), "kill", id)
			}
		}
	}
	r, err := Run(t.Context(), Spec{Argv: sh("echo ready; sleep 4711"), Env: []string{"PATH=/bin"}, Modes: []Mode{ModeContainer}, Stdout: w, Image: te.image, remote: remote{entry: te.entry}})
	if err == nil || r.State != "" {
		t.Errorf("%v, %+v", err, r.State)
	}
}

func TestContainerRefused(t *testing.T) {
	te := needEngine(t)
	t.Parallel()
	for name, spec := range map[string]Spec{
		"no image":      {},
		"missing image": {Image: "no-such-image-here:1", remote: remote{entry: te.entry}},
		"option":        {Image: "--help", remote: remote{entry: te.entry}},
		"dynamic":       {Image: te.image, remote: remote{entry: "/usr/bin/env"}},
	} {
		spec.Argv, spec.Modes = []string{"true"}, []Mode{ModeContainer}
		_, err := Run(t.Context(), spec)
		t.Log(name, err)
		wantRefused(t, err, ModeContainer)
	}
	_, err := Run(t.Context(), Spec{Argv: []string{"true"}, Modes: []Mode{ModeContainer}, Image: te.image, remote: remote{entry: te.entry}, MinLevel: LevelNamespaces})
	wantRefused(t, err, ModeContainer)
}
