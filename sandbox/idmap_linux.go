//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A person whose files a root supervisor mounts for a command that runs as
// somebody else: see remote_linux.go. Their files appear as the command's own.
type person struct {
	UID, GID int
}

// owns reports whether a mount shows files of p that the command is to change.
func (p *person) owns(m Mount) (bool, error) {
	if p == nil || m.Kind != Overlay && m.Kind != Writable {
		return false, nil
	}
	var st unix.Stat_t
	if err := unix.Stat(m.Source, &st); err != nil {
		return false, &refusal{Step: "mount source " + m.Source, Errno: errnoText(err), Spec: true}
	}
	return int(st.Uid) == p.UID, nil
}

// mapping returns a user namespace whose map a mount can take: the files of p
// are those of uid and gid there.
func (p *person) mapping(uid, gid int) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	defer r.Close()
	proc, err := os.StartProcess("/proc/self/exe", []string{nameIdle}, &os.ProcAttr{
		Dir: "/", Env: stageEnv(), Files: []*os.File{r},
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: p.UID, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: p.GID, HostID: gid, Size: 1}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("user namespace for mounts: %w", err)
	}
	defer proc.Wait()
	defer proc.Kill()
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", proc.Pid))
}

// idleStage waits for its end.
func idleStage() {
	var b [1]byte
	for {
		if _, err := unix.Read(0, b[:]); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
