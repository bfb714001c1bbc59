//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What a command in mode restricted may read of the host: programs, libraries
// and what they need to start, as in the other modes. Landlock knows no
// exceptions below a path, so this lists the files, not /etc.
func hostReadable(n Network) []string {
	p := []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/proc",
		"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
		"/etc/gitconfig", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/os-release",
	}
	if n == NetworkHost {
		p = append(p, "/etc/resolv.conf", "/etc/gai.conf", "/etc/host.conf")
	}
	return append(p, etcBinds(n)...)
}

// hostWritable lists the devices that a command may write to, and for a uid
// of its own the shared memory directory: what it leaves there is found by
// the owner.
func hostWritable(ownUID bool) []string {
	p := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/ptmx", "/dev/pts"}
	if ownUID {
		p = append(p, "/dev/shm")
	}
	return p
}

// heldID is a uid that is nobody else's for as long as it is held.
type heldID struct {
	id   int
	lock int // bound abstract socket
}

// holdID takes an unused uid of those that are held. It begins anywhere among
// them: containers of one host neither see each other's processes nor share a
// lock, but the host's uids they do share, its count of processes among them, and
// whoever holds the same one outside them all would end what is inside.
func holdID() (*heldID, error) {
	const n = lastHeldUID - firstHeldUID + 1
	for i, start := 0, rand.IntN(n); i < n; i++ {
		id := firstHeldUID + (start+i)%n
		free, err := isFree(id)
		if err != nil {
			return nil, err
		}
		if !free {
			continue
		}
		if h, err := lockID(id); err == nil {
			return h, nil
		}
	}
	return nil, errors.New("every uid for it is in use")
}

// lockID binds a name that stands for the uid. The kernel frees it when its
// holder is gone.
func lockID(id int) (*heldID, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@truegreen-uid-" + strconv.Itoa(id)}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("sandbox uid %d: %w", id, err)
	}
	return &heldID{id: id, lock: fd}, nil
}

func (h *heldID) release() {
	if h != nil {
		unix.Close(h.lock)
	}
}

// sweepUID kills every process of a sandbox uid and does not return before
// the last is gone. It is for the case that process 1 of the sandbox, which
// does the same, was killed itself.
func sweepUID(id int) error {
	for range 200 {
		if !hasProcess(id) {
			return nil
		}
		p, err := os.StartProcess("/proc/self/exe", []string{nameSweep}, &os.ProcAttr{
			Dir: "/", Env: stageEnv(),
			Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}, Setsid: true},
		})
		if err != nil {
			return err
		}
		if _, err := p.Wait(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("processes of uid %d do not end", id)
}

// sweepStage kills everything that its uid may signal, and removes what only
// the uid itself may.
func sweepStage() {
	unix.Kill(-1, unix.SIGKILL)
	sweepIPC(os.Geteuid())
}

// sweepIPC removes the System V objects of a uid, which outlive processes.
func sweepIPC(id int) {
	for _, k := range []struct {
		file   string
		remove func(object uintptr)
	}{
		{"msg", func(n uintptr) { unix.Syscall(unix.SYS_MSGCTL, n, ipcRemove, 0) }},
		{"sem", func(n uintptr) { unix.Syscall6(unix.SYS_SEMCTL, n, 0, ipcRemove, 0, 0, 0) }},
		{"shm", func(n uintptr) { unix.Syscall(unix.SYS_SHMCTL, n, ipcRemove, 0) }},
	} {
		text, err := os.ReadFile("/proc/sysvipc/" + k.file)
		if err != nil {
			continue
		}
		head, rows, _ := strings.Cut(string(text), "\n")
		owner := slices.Index(strings.Fields(head), "uid")
		for row := range strings.Lines(rows) {
			f := strings.Fields(row)
			if owner < 2 || len(f) <= owner || f[owner] != strconv.Itoa(id) {
				continue
			}
			if n, err := strconv.Atoi(f[1]); err == nil {
				k.remove(uintptr(n))
			}
		}
	}
}

const ipcRemove = 0 // IPC_RMID

// sweepShared removes what a uid left in the shared memory directory.
func sweepShared(id int) {
	const dir = "/dev/shm"
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		var st unix.Stat_t
		p := dir + "/" + e.Name()
		if unix.Lstat(p, &st) == nil && int(st.Uid) == id {
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				removeTree(p)
			} else {
				unix.Unlink(p)
			}
		}
	}
}

// watchSupervisor calls gone when the supervisor closes its end of the
// control pipe: it wants an end, or has met its own.
func watchSupervisor(gone func()) {
	p := []unix.PollFd{{Fd: fdControl}}
	for {
		if _, err := unix.Poll(p, -1); err == nil && p[0].Revents&unix.POLLHUP != 0 {
			gone()
			return
		}
	}
}
