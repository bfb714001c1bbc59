//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func wantRefused(t *testing.T, err error, mode Mode) {
	t.Helper()
	var no *RefusedError
	if !errors.As(err, &no) {
		t.Fatalf("error %v, want a RefusedError", err)
	}
	if len(no.Attempts) != 1 || no.Attempts[0].Mode != mode || no.Attempts[0].Why == "" || no.Attempts[0].Fix == "" {
		t.Errorf("attempts %+v", no.Attempts)
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes(t) {
		for _, c := range []struct {
			script string
			state  State
			exit   int
			signal string
		}{
			{"exit 0", StateExited, 0, ""},
			{"exit 7", StateExited, 7, ""},
			{"exit 255", StateExited, 255, ""},
			{"kill -SEGV $$", StateSignaled, -1, "SIGSEGV"},
			{"kill -KILL $$", StateSignaled, -1, "SIGKILL"},
			{"kill -TERM 1; kill -KILL 1; exit 3", StateExited, 3, ""},
		} {
			if mode == ModeNone && strings.Contains(c.script, " 1;") {
				continue
			}
			r, out := mustRun(t, mode, Spec{Argv: sh("echo out; echo err >&2; " + c.script)})
			if r.State != c.state || r.Exit != c.exit || r.Signal != c.signal {
				t.Errorf("%s: %s: %s %d %q %q", mode, c.script, r.State, r.Exit, r.Signal, r.Why)
			}
			if out.stdout.String() != "out\n" || !strings.HasPrefix(out.stderr.String(), "err\n") || r.Stdout != (Stream{4, 4}) {
				t.Errorf("%s: %s: stdout %q, stderr %q, %v", mode, c.script, out.stdout.String(), out.stderr.String(), r.Stdout)
			}
			if r.CPU <= 0 || r.PeakMemory <= 0 || r.Start.IsZero() || r.End.Before(r.Start) {
				t.Errorf("%s: %s: cpu %v, memory %d, %v to %v", mode, c.script, r.CPU, r.PeakMemory, r.Start, r.End)
			}
		}
	}
}

func TestCouldNotStart(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes(t) {
		for _, c := range []struct {
			argv []string
			dir  string
			why  string
		}{
			{[]string{"no-such-command"}, "/", "ENOENT"},
			{[]string{"/usr/bin/no-such-command"}, "/", "ENOENT"},
			{[]string{"/etc/passwd"}, "/", "EACCES"},
			{[]string{"/usr"}, "/", "EACCES"},
			{[]string{"true"}, "/no/such/dir", "ENOENT"},
			{[]string{"true"}, "/usr/bin/env", "ENOTDIR"},
		} {
			r, _ := mustRun(t, mode, Spec{Argv: c.argv, Dir: c.dir})
			if r.State != StateCouldNotStart || !strings.Contains(r.Why, c.why) || r.Exit != -1 {
				t.Errorf("%s: %q in %s: %s %q", mode, c.argv, c.dir, r.State, r.Why)
			}
		}
	}
}

func TestBadSpec(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Spec{
		"no command":      {},
		"relative dir":    {Argv: []string{"true"}, Dir: "x"},
		"unclean dir":     {Argv: []string{"true"}, Dir: "/x/../y"},
		"environment":     {Argv: []string{"true"}, Env: []string{"X"}},
		"NUL":             {Argv: []string{"true\x00"}},
		"network":         {Argv: []string{"true"}, Network: "some"},
		"mode":            {Argv: []string{"true"}, Modes: []Mode{"magic"}},
		"level":           {Argv: []string{"true"}, MinLevel: 9},
		"mount on root":   {Argv: []string{"true"}, Mounts: []Mount{{Source: "/tmp", Target: "/"}}},
		"mount source":    {Argv: []string{"true"}, Mounts: []Mount{{Source: "tmp", Target: "/x"}}},
		"mount kind":      {Argv: []string{"true"}, Mounts: []Mount{{Source: "/tmp", Target: "/x", Kind: 9}}},
		"negative":        {Argv: []string{"true"}, Limits: Limits{Disk: -1}},
		"few processes":   {Argv: []string{"true"}, Limits: Limits{Pids: 3}},
		"no sink":         {Argv: []string{"true"}, Collect: []string{"/tmp/x"}},
		"collect":         {Argv: []string{"true"}, Collect: []string{"x"}, Sink: func(string, int64, io.Reader) error { return nil }},
		"many files":      {Argv: []string{"true"}, Collect: []string{"/a", "/b"}, Limits: Limits{Files: 1}, Sink: func(string, int64, io.Reader) error { return nil }},
		"long arguments":  {Argv: []string{"true", strings.Repeat("x", maxConfig)}},
		"missing source":  {Argv: []string{"true"}, Mounts: []Mount{{Source: "/no/such/source", Target: "/x"}}},
		"below read-only": {Argv: []string{"true"}, Mounts: []Mount{{Source: "/usr", Target: "/usr/no/such"}}},
	} {
		if strings.HasPrefix(name, "missing") || strings.HasPrefix(name, "below") {
			s.Modes = strongModes(t)
		}
		r, err := Run(t.Context(), s)
		var no *RefusedError
		if err == nil || errors.As(err, &no) || r.State != "" {
			t.Errorf("%s: %+v, %v", name, r.State, err)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	mode := strongModes(t)[0]
	_, err := Run(t.Context(), Spec{Argv: []string{"true"}, Modes: []Mode{mode}, MinLevel: LevelKernel})
	wantRefused(t, err, mode)
	_, err = Run(t.Context(), Spec{Argv: []string{"true"}, Modes: []Mode{ModeNone}, MinLevel: LevelRestricted})
	var no *RefusedError
	if !errors.As(err, &no) || no.Want != LevelRestricted {
		t.Errorf("mode none at level restricted: %v", err)
	}
}

// TestSilentStage: a stage that dies without a report is quoted.
func TestSilentStage(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		var out bytes.Buffer
		spec, err := Spec{Argv: []string{"true"}, Stderr: &out}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		spec.Limits.Pids = 2 // Spec allows no such limit: the runtime does not start with it
		var no *refusal
		for range 50 { // on a busy host the threads can be there before the limit is
			out.Reset()
			if _, err = runMode(t.Context(), spec, mode, false); errors.As(err, &no) {
				break
			}
		}
		if no == nil || !strings.HasPrefix(no.Errno, "ended during setup: ") || !strings.Contains(no.Errno, "thread") || strings.Contains(no.Errno, "\n") {
			t.Fatalf("refused with %v; stderr: %.300s", err, out.String())
		}
		if line, _, _ := strings.Cut(out.String(), "\n"); !strings.HasSuffix(no.Errno, ": "+line[:min(len(line), maxFirstLine)]) {
			t.Errorf("quoted %q of %q", no.Errno, line)
		}
	})
}

func TestFirstLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 150)
	for _, c := range []struct {
		writes []string
		want   string
	}{
		{[]string{""}, ""},
		{[]string{"one"}, "one"},
		{[]string{"one\ntwo\n"}, "one"},
		{[]string{"o", "ne\n", "two\n"}, "one"},
		{[]string{"\n", "two"}, ""},
		{[]string{long, long, "\n", "two"}, strings.Repeat("x", maxFirstLine)},
	} {
		var out bytes.Buffer
		f := &firstLine{w: &out}
		for _, w := range c.writes {
			if n, err := f.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%q: %d, %v", w, n, err)
			}
		}
		if string(f.line) != c.want || out.String() != strings.Join(c.writes, "") {
			t.Errorf("%q: line %q, passed on %q", c.writes, f.line, out.String())
		}
	}
}

func TestContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ended, Spec{Argv: []string{"true"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("context ended before: %v", err)
	}
	for _, mode := range allModes(t) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &notifyWriter{want: []byte("ready\n"), then: cancel}
		r, err := Run(ctx, Spec{Argv: sh("echo ready; sleep 60"), Env: testEnv(), Modes: []Mode{mode}, Stdout: w})
		if err != nil || r.State != StateCanceled || w.buf.String() != "ready\n" {
			t.Errorf("%s: %v, %+v, stdout %q", mode, err, r.State, w.buf.String())
		}
		if d := r.End.Sub(r.Start); d > 30*time.Second {
			t.Errorf("%s: took %v", mode, d)
		}
	}
}

// notifyWriter calls then when it has seen what it wants.
type notifyWriter struct {
	buf  bytes.Buffer
	want []byte
	then func()
}

func (w *notifyWriter) Write(p []byte) (int, error) {
	w.buf.Write(p)
	if w.then != nil && bytes.Contains(w.buf.Bytes(), w.want) {
		w.then()
		w.then = nil
	}
	return len(p), nil
}

// TestSurvivors: a process that left the session, ignores signals and holds
// the pipes does not outlive the command, nor delay the result.
func TestSurvivors(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes(t) {
		mark := "survivor-" + string(mode) + "-" + filepath.Base(t.TempDir())
		spec := Spec{Argv: []string{attackPath, "attack:stubborn", mark}, Mounts: []Mount{attackMount(t)}}
		r, out := mustRun(t, mode, spec)
		if r.State != StateExited || !strings.HasPrefix(out.stdout.String(), "left ") {
			t.Errorf("%s: %s %q %q", mode, r.State, out.stdout.String(), out.stderr.String())
		}
		if pids := processesWith(mark); len(pids) > 0 {
			t.Errorf("%s: processes %v survived", mode, pids)
		}
	}
}

// processesWith lists processes whose command line contains mark.
func processesWith(mark string) []string {
	var found []string
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range list {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(mark)) {
			found = append(found, p)
		}
	}
	return found
}

func TestMounts(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		lower, ro, shared := t.TempDir(), t.TempDir(), t.TempDir()
		own(t, lower, "file", "old")
		own(t, ro, "file", "ro")
		own(t, shared, "file", "old")
		os.Mkdir(filepath.Join(lower, "dir"), 0o755)
		own(t, filepath.Join(lower, "dir"), "f", "x")
		giveAway(t, filepath.Join(lower, "dir"))

		script := `set -e
cat /src/file /ro/file; ls -A /scratch
echo new >/src/file; echo more >/src/dir/more; rm /src/dir/f; mkdir /src/sub; ln -s file /src/link; chmod 4755 /src/file
cp /bin/true /src/prog; /src/prog
echo changed >/shared/file
! (echo x >/ro/file) 2>/dev/null; ! touch /ro/new 2>/dev/null
echo s >/scratch/a
cat /src/file /deep/in/side/file`
		r, out := mustRun(t, mode, Spec{
			Argv: sh(script), Dir: "/src",
			Mounts: []Mount{
				{Source: lower, Target: "/src", Kind: Overlay},
				{Source: ro, Target: "/ro", Kind: ReadOnly},
				{Target: "/scratch", Kind: Scratch},
				{Source: shared, Target: "/shared", Kind: Writable},
				{Source: filepath.Join(ro, "file"), Target: "/deep/in/side/file", Kind: ReadOnly},
			},
		})
		if r.State != StateExited || r.Exit != 0 || out.stdout.String() != "oldronew\nro" {
			t.Fatalf("%s %d %q %q", r.State, r.Exit, out.stdout.String(), out.stderr.String())
		}
		var names []string
		filepath.WalkDir(lower, func(p string, _ os.DirEntry, _ error) error {
			names = append(names, strings.TrimPrefix(p, lower))
			return nil
		})
		if got := strings.Join(names, " "); got != " /dir /dir/f /file" {
			t.Errorf("the lower directory of the overlay now holds %q", got)
		}
		if b, _ := os.ReadFile(filepath.Join(lower, "file")); string(b) != "old" {
			t.Errorf("a file below the overlay now holds %q", b)
		}
		if b, _ := os.ReadFile(filepath.Join(shared, "file")); string(b) != "changed\n" {
			t.Errorf("a file in the writable mount holds %q", b)
		}
	})
}

// own writes a file that the sandbox may change.
func own(t *testing.T, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	giveAway(t, dir)
	giveAway(t, p)
}

func giveAway(t *testing.T, p string) {
	t.Helper()
	if os.Geteuid() == 0 {
		if err := os.Chown(p, firstUID, firstUID); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(p, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestHostileTarget: a symbolic link in a mounted tree cannot move a later
// mount to somewhere else, inside or outside.
func TestHostileTarget(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		lower := t.TempDir()
		if err := os.Symlink("/../../../../usr", filepath.Join(lower, "evil")); err != nil {
			t.Fatal(err)
		}
		giveAway(t, lower)
		for _, target := range []string{"/src/evil", "/src/evil/local"} {
			_, err := Run(t.Context(), Spec{
				Argv: []string{"true"}, Env: testEnv(), Modes: []Mode{mode},
				Mounts: []Mount{
					{Source: lower, Target: "/src", Kind: Overlay},
					{Source: lower, Target: target, Kind: ReadOnly},
				},
			})
			var no *RefusedError
			if err == nil || errors.As(err, &no) || !strings.Contains(err.Error(), "ELOOP") {
				t.Errorf("%s: %v", target, err)
			}
		}
	})
}

func TestCollect(t *testing.T) {
	eachMode(t, func(t *testing.T, mode Mode) {
		got := map[string]string{}
		r, out := mustRun(t, mode, Spec{
			Argv: sh(`mkdir /tmp/d; echo one >/tmp/one; ln -s one /tmp/link; ln -s d /tmp/dirlink; echo in >/tmp/d/in; mkfifo /tmp/fifo; : >/tmp/empty
head -c 3000000 /dev/zero >/tmp/three; truncate -s 10G /tmp/sparse; echo no >/tmp/secret; chmod 0 /tmp/secret; sh -c 'while :; do echo x >>/tmp/one; done' & exit 5`),
			Collect: []string{"/tmp/one", "/tmp/link", "/tmp/dirlink/in", "/tmp/d", "/tmp/fifo", "/dev/zero", "/tmp/none", "/tmp/three", "/tmp/sparse", "/tmp/secret", "/tmp/empty", "/tmp/d/in"},
			Limits:  Limits{FileBytes: 4 << 20, Output: 1 << 20},
			Sink: func(p string, size int64, r io.Reader) error {
				b, err := io.ReadAll(r)
				got[p] = string(b)
				if int64(len(b)) != size {
					t.Errorf("%s: size %d, read %d", p, size, len(b))
				}
				return err
			},
		})
		if r.State != StateExited || r.Exit != 5 || len(r.Files) != 12 {
			t.Fatalf("%s %d, %d files, %s", r.State, r.Exit, len(r.Files), out.stderr.String())
		}
		for p, want := range map[string]string{
			"/tmp/link": "ELOOP", "/tmp/dirlink/in": "ELOOP", "/tmp/d": "not a regular file", "/tmp/fifo": "not a regular file",
			"/dev/zero": "not a regular file", "/tmp/none": "ENOENT", "/tmp/sparse": "over the limit", "/tmp/secret": "EACCES",
		} {
			for _, f := range r.Files {
				if f.Path == p && (!strings.Contains(f.Err, want) || f.Size != 0) {
					t.Errorf("%s: %+v, want %s", p, f, want)
				}
			}
			if _, ok := got[p]; ok {
				t.Errorf("%s reached the sink", p)
			}
		}
		if !strings.HasPrefix(got["/tmp/one"], "one\n") || got["/tmp/three"] != strings.Repeat("\x00", 3000000) || got["/tmp/d/in"] != "in\n" {
			t.Errorf("collected %d, %d, %q", len(got["/tmp/one"]), len(got["/tmp/three"]), got["/tmp/d/in"])
		}
		if _, ok := got["/tmp/empty"]; !ok {
			t.Error("the empty file did not reach the sink")
		}
	})
}

// TestCollectLazySink: a sink that fails or reads nothing does not disturb
// the files after it.
func TestCollectLazySink(t *testing.T) {
	t.Parallel()
	r, _ := mustRun(t, strongModes(t)[0], Spec{
		Argv:    sh("head -c 1000000 /dev/zero >/tmp/a; echo b >/tmp/b; echo c >/tmp/c"),
		Collect: []string{"/tmp/a", "/tmp/b", "/tmp/c"},
		Sink: func(p string, _ int64, r io.Reader) error {
			if p == "/tmp/b" {
				return errors.New("sink is full")
			}
			return nil
		},
	})
	if len(r.Files) != 3 || r.Files[0].Err != "" || r.Files[1].Err != "sink is full" || r.Files[2].Err != "" {
		t.Errorf("files %+v", r.Files)
	}
}

// TestNothingLeft: after all kinds of ends, no process, mount, group or file of the
// sandbox remains.
func TestNothingLeft(t *testing.T) {
	modes := allModes(t)
	before := remains(t)
	for _, mode := range modes {
		for _, argv := range [][]string{{"true"}, {"no-such-command"}, sh("kill -9 $$"), sh("sleep 60 & sleep 60")} {
			mustRun(t, mode, Spec{Argv: argv, Limits: Limits{Wall: 200 * time.Millisecond}})
		}
		Run(t.Context(), Spec{Argv: []string{"true"}, Modes: []Mode{mode}, MinLevel: LevelKernel})
	}
	runtime.GC()
	if after := remains(t); !slices.Equal(before, after) {
		t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}
