//go:build linux && (amd64 || arm64)

package conformance

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// The same attempts under other sandboxes, for comparison. They are no test of
// anything of ours, so they run only when asked for.

var peersFlag = flag.Bool("peers", false, "make the attempts under bubblewrap, nsjail and docker, too")

// A peer is another sandbox.
type peer struct {
	name  string
	start func(in *Inside) (func(ids []string) *exec.Cmd, func(), error)
	as    *syscall.Credential // who starts it, if root may choose
	skip  []string            // rows that would say nothing about it
}

// oursAlone are rows about our own channel, and signals to process 1, which the
// kernel accepts and drops: that they have no effect, a row shows that needs a
// sandbox of its own.
var oursAlone = []string{"15b", "15c", "15d", "16", "16b", "20"}

func peers() []peer {
	return []peer{
		{name: "bubblewrap (user)", start: bubblewrap, as: user},
		{name: "nsjail (user)", start: nsjail, as: user},
		// An image holds what it holds: its /usr and /etc are not the host's, and
		// it has no program for the rows about setuid.
		{name: "docker run (root)", start: docker, skip: []string{"22", "22b", "22c", "22f", "22h", "22i", "23b", "25b", "26", "26b", "26c", "36", "37"}},
	}
}

func bubblewrap(in *Inside) (func([]string) *exec.Cmd, func(), error) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		return nil, nil, err
	}
	p := filepath.Dir(in.Program)
	return func(ids []string) *exec.Cmd {
		args := []string{
			"--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
			"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
			"--ro-bind", p, p, "--bind", in.Work, in.Work, "--clearenv", in.Program, in.argument(),
		}
		return exec.Command("bwrap", append(args, ids...)...)
	}, func() {}, nil
}

func nsjail(in *Inside) (func([]string) *exec.Cmd, func(), error) {
	if _, err := exec.LookPath("nsjail"); err != nil {
		return nil, nil, err
	}
	p := filepath.Dir(in.Program)
	return func(ids []string) *exec.Cmd {
		args := []string{"-q", "-Mo", "-R", "/usr", "-s", "usr/bin:/bin", "-s", "usr/lib:/lib", "-s", "usr/lib64:/lib64", "-T", "/tmp",
			"-R", p, "-B", in.Work, "--rlimit_as", "max", "--", in.Program, in.argument()}
		return exec.Command("nsjail", append(args, ids...)...)
	}, func() {}, nil
}

// docker makes an image of the program and the folders that it expects.
func docker(in *Inside) (func([]string) *exec.Cmd, func(), error) {
	if err := exec.Command("docker", "info").Run(); err != nil {
		return nil, nil, err
	}
	program, err := os.ReadFile(in.Program)
	if err != nil {
		return nil, nil, err
	}
	in.Program, in.Work = "/"+nameInside, "/work"
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	for _, d := range []string{"tmp/", "var/", "var/tmp/", "work/"} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: d, Typeflag: tar.TypeDir, Mode: 0o1777}))
	}
	err = errors.Join(err, w.WriteHeader(&tar.Header{Name: nameInside, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))}))
	_, werr := w.Write(program)
	if err = errors.Join(err, werr, w.Close()); err != nil {
		return nil, nil, err
	}
	load := exec.Command("docker", "import", "-")
	load.Stdin = &image
	out, err := load.Output()
	if err != nil {
		return nil, nil, err
	}
	id := strings.TrimSpace(string(out))
	return func(ids []string) *exec.Cmd {
		return exec.Command("docker", append([]string{"run", "--rm", id, "/" + nameInside, in.argument()}, ids...)...)
	}, func() { exec.Command("docker", "rmi", id).Run() }, nil
}

// TestPeers prints what ended how under each that is installed.
func TestPeers(t *testing.T) {
	if !*peersFlag {
		t.Skip("only with -peers")
	}
	t.Log("\n" + Markdown(peerColumns(t)...))
}

// peerColumns starts this program again for each, with secrets in its environment.
func peerColumns(t *testing.T) []Column {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command to build a static program with")
	}
	static := filepath.Join(t.TempDir(), nameInside)
	build := exec.Command("go", "build", "-o", static, "../../cmd/truegreen")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var columns []Column
	for _, p := range peers() {
		got := p.run(t, static)
		if got == nil {
			t.Logf("%s is not installed", p.name)
			continue
		}
		column := Column{Name: p.name}
		for _, r := range Rows() {
			answer, tried := got[r.ID]
			o := Outcome{Row: r, Got: answer, Status: NotExercised}
			if tried {
				o.Status = peerStatus(&r, answer)
			}
			column.Outcomes = append(column.Outcomes, o)
		}
		columns = append(columns, column)
	}
	return columns
}

// run makes the attempts under one peer, nil if it is not there.
func (p peer) run(t *testing.T, static string) map[string]string {
	t.Helper()
	dir, err := makeDir()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, programDir, nameInside)
	if err := errors.Join(os.Remove(program), copyFile(program, static, 0o755)); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", "-test.run=^TestUnderPeer$")
	c.Env = append(c.Environ(), append(planted(filepath.Base(dir)), peerDir+"="+dir, peerName+"="+p.name)...)
	c.Dir = "/"
	if os.Geteuid() == 0 && p.as != nil {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
		for _, d := range []string{dir, filepath.Join(dir, programDir)} {
			if err := os.Chown(d, int(p.as.Uid), int(p.as.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", p.name, err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "answers"))
	if err != nil {
		return nil
	}
	var got map[string]string
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// peerStatus is judge with less to ask: any errno means that it failed.
func peerStatus(r *Row, got string) string {
	switch good := slices.Contains(r.Want, got) || got == nobody; {
	case r.must() && good:
		return Works
	case r.must():
		return Broken
	case good || isErrno(got[strings.LastIndexByte(got, ' ')+1:]):
		return Held
	}
	return Open
}

const (
	peerDir  = "TRUEGREEN_CONFORMANCE_DIR"
	peerName = "TRUEGREEN_CONFORMANCE_PEER"
)

// TestUnderPeer is the supervisor of one peer. Attempts are made one at a time:
// one that succeeds changes what the next one meets.
func TestUnderPeer(t *testing.T) {
	dir := os.Getenv(peerDir)
	if dir == "" {
		t.Skip("TestPeers starts it")
	}
	p := peers()[slices.IndexFunc(peers(), func(p peer) bool { return p.name == os.Getenv(peerName) })]
	targets, err := plant(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer targets.remove()
	if err := os.Chmod(targets.Work, 0o777); err != nil { // whoever they run as
		t.Fatal(err)
	}
	in := &Inside{Outside: targets.Outside, Level: sandbox.LevelContainer} // they have pid namespaces
	cmd, stop, err := p.start(in)
	if err != nil {
		t.Skip(err)
	}
	defer stop()
	run := launch(func(_ context.Context, ids []string) (string, error) {
		c := cmd(ids)
		c.WaitDelay = time.Second
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, os.Stderr
		c.Run() // however it ends, the answers count
		return out.String(), nil
	})
	got := map[string]string{}
	for _, r := range Rows() {
		if r.Own || slices.Contains(p.skip, r.ID) || slices.Contains(oursAlone, r.ID) || r.Needs != nil && r.Needs() != "" {
			continue
		}
		if r.Control != nil && onThread(rowTimeout, func() string { return r.Control(&targets.Outside) }) != "ok" {
			continue // as for ours: it proves nothing
		}
		one, err := run.batch(t.Context(), []string{r.ID})
		if err != nil {
			t.Fatal(err)
		}
		got[r.ID] = one[r.ID]
		if r.After != nil {
			if after := r.After(&targets.Outside); after != "ok" {
				got[r.ID] += "; " + after
			}
		}
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "answers"), b, 0o644); err != nil {
		t.Fatal(err)
	}
}
