//go:build amd64 || arm64

package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// An order is what a supervisor is to do.
type order struct {
	Dir  string // made for it, with the program in it
	Mode sandbox.Mode
	// Image is what the container mode makes its containers of.
	Image string
	IDs   []string
}

// An answer is what came of it.
type answer struct {
	Refused *sandbox.RefusedError
	Error   string
	Ends    []end // one per row, in order
}

// An end is an Outcome without its row.
type end struct {
	Level            sandbox.Level
	Got, Status, Why string
}

// Run makes every attempt in one mode; image is for the container mode, and
// must have what the program, if it is not static, needs. The error is a [*sandbox.RefusedError]
// if the host does not offer the mode. It is another one, and the outcomes are
// not complete, if something was wrong with the suite itself: a control that
// failed, or a target that could not be planted.
func Run(ctx context.Context, mode sandbox.Mode, image string) ([]Outcome, error) {
	return run(ctx, order{Mode: mode, Image: image}, Rows(), nil)
}

// run makes the attempts of these rows, which table must have, as the caller
// or, if the caller is root, as someone else.
func run(ctx context.Context, o order, rows []Row, as *syscall.Credential) ([]Outcome, error) {
	dir, err := makeDir()
	if err != nil {
		return nil, fmt.Errorf("conformance: %w", err)
	}
	defer func() {
		// The supervisor cleans up after itself, unless it was killed.
		os.RemoveAll(dir)
		os.Remove(belowRun(filepath.Base(dir)))
	}()
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, fmt.Errorf("conformance: %w", err)
		}
	}
	o.Dir = dir
	for _, r := range rows {
		o.IDs = append(o.IDs, r.ID)
	}
	config, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("conformance: %w", err)
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", string(config))
	cmd.Args[0] = nameSupervisor
	cmd.Dir = "/"
	cmd.Env = append(cmd.Environ(), planted(filepath.Base(dir))...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true} // whether a terminal interrupts it is for the caller to say
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("conformance: supervisor: %w: %s", err, stderr.Bytes())
	}
	var a answer
	if err := json.Unmarshal(stdout.Bytes(), &a); err != nil {
		return nil, fmt.Errorf("conformance: supervisor: %w: %s", err, stderr.Bytes())
	}
	if a.Refused != nil {
		return nil, a.Refused
	}
	if a.Error != "" {
		err = errors.New("conformance: " + a.Error)
	}
	if len(a.Ends) != len(rows) {
		return nil, cmp.Or(err, errors.New("conformance: supervisor: not every row was made"))
	}
	outcomes := make([]Outcome, len(rows))
	for i, e := range a.Ends {
		outcomes[i] = Outcome{Row: rows[i], Mode: o.Mode, Level: e.Level, Got: e.Got, Status: e.Status, Why: e.Why}
	}
	return outcomes, err
}

// planted is what the supervisor's environment has beside the caller's: the
// names under which a CI system hands out secrets.
func planted(secret string) []string {
	list := []string{envName + "=" + secret}
	for _, name := range []string{"GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "RUNNER_TEMP", "INPUT_PASSWORD", "TRUEGREEN_CONFORMANCE_KEY"} {
		list = append(list, name+"="+secret)
	}
	return list
}

const envName = "TRUEGREEN_CONFORMANCE_SECRET"

// belowRun is the path of [Outside].Run.
func belowRun(secret string) string { return filepath.Join("/run", secret) }

// programDir is where, in the directory of a run, the program is.
const programDir = "program"

// makeDir makes the directory of a run and copies the program into it. Files
// there can be executed, by everybody.
func makeDir() (string, error) {
	var last error
	for _, parent := range []string{os.TempDir(), "/var/tmp", "/dev/shm"} {
		var st unix.Statfs_t
		if err := unix.Statfs(parent, &st); err != nil {
			last = fmt.Errorf("%s: %w", parent, err)
			continue
		}
		if st.Flags&unix.ST_NOEXEC != 0 {
			last = fmt.Errorf("%s: is mounted noexec", parent)
			continue
		}
		dir, err := os.MkdirTemp(parent, "truegreen-conformance-")
		if err != nil {
			last = err
			continue
		}
		if err := fillDir(dir); err != nil {
			os.RemoveAll(dir)
			return "", err
		}
		return dir, nil
	}
	return "", last
}

func fillDir(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	p := filepath.Join(dir, programDir)
	if err := mkdir(p, 0o755); err != nil {
		return err
	}
	return copyFile(filepath.Join(p, nameInside), "/proc/self/exe", 0o755)
}

func mkdir(p string, mode os.FileMode) error {
	if err := os.Mkdir(p, mode); err != nil {
		return err
	}
	return os.Chmod(p, mode) // whatever the umask is
}

func copyFile(to, from string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Chmod(mode)
	}
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}
