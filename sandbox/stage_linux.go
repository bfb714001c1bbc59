//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// insideUID is the id inside a user namespace that an ordinary user made.
const insideUID = firstUID

// An idMap says who the command is.
type idMap struct {
	inside    int // uid inside
	insideGID int
	hostUID   int
	hostGID   int
	switches  bool     // the setup stage starts as another id and takes the inside one
	held      *heldID  // of mode restricted
	mapping   *os.File // user namespace for mapped mounts
}

func mapIDs(mode Mode, mounts []Mount) (idMap, error) {
	uid, gid := os.Geteuid(), os.Getegid()
	switch {
	case mode == ModeNone || mode == ModeRestricted && uid != 0:
		return idMap{inside: uid, insideGID: gid, hostUID: uid, hostGID: gid}, nil
	case mode == ModeRestricted:
		// Processes are told apart by the uid alone, so it is held.
		held, err := holdID()
		if err != nil {
			return idMap{}, &refusal{Step: "take a uid", Errno: errnoText(err)}
		}
		return idMap{inside: held.id, insideGID: held.id, hostUID: held.id, hostGID: held.id, held: held}, nil
	case uid != 0:
		return idMap{inside: insideUID, insideGID: insideUID, hostUID: uid, hostGID: gid}, nil
	}
	id, err := chooseID(mounts)
	if err != nil {
		return idMap{}, err
	}
	return idMap{inside: id, insideGID: id, hostUID: id, hostGID: id, switches: mode == ModeUserNS}, nil
}

// A stageProcess is the supervisor's side of process 1.
type stageProcess struct {
	pid            int
	report         *os.File
	stdout, stderr *os.File
	listeners      int // socket on which the listening ones arrive; -1: none do

	control *os.File
	loose   bool // no process 1 takes the others along: the stage is asked to
	proc    *os.Process
	done    chan *os.ProcessState
}

// startStage executes this program again as the first stage of a mode.
func startStage(mode Mode, network Network, ids idMap, c stageConfig, g *cgroup) (*stageProcess, error) {
	s := &stageProcess{loose: mode.loose(), listeners: -1, done: make(chan *os.ProcessState, 1)}
	var child []*os.File
	defer func() {
		for _, f := range child {
			f.Close()
		}
	}()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	child = append(child, null)
	pipe := func(childReads bool) (ours *os.File, err error) {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return nil, err
		}
		mine, theirs := fds[0], fds[1]
		if childReads {
			mine, theirs = theirs, mine
		}
		// Only our end may be non-blocking: the mode belongs to the end, and
		// the command expects to wait.
		child = append(child, os.NewFile(uintptr(theirs), "pipe"))
		if err := unix.SetNonblock(mine, true); err != nil {
			unix.Close(mine)
			return nil, err
		}
		return os.NewFile(uintptr(mine), "pipe"), nil
	}
	if s.stdout, err = pipe(false); err != nil {
		return nil, s.abandon(err)
	}
	if s.stderr, err = pipe(false); err != nil {
		return nil, s.abandon(err)
	}
	config, err := memFile(c)
	if err != nil {
		return nil, s.abandon(err)
	}
	child = append(child, config)
	if s.report, err = pipe(false); err != nil {
		return nil, s.abandon(err)
	}
	if s.control, err = pipe(true); err != nil {
		return nil, s.abandon(err)
	}
	if ids.mapping != nil {
		child = append(child, ids.mapping)
		ids.mapping = nil
	}
	if len(c.Connect) > 0 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, s.abandon(err)
		}
		s.listeners = pair[0]
		for len(child) < fdListeners {
			child = append(child, nil)
		}
		child = append(child, os.NewFile(uintptr(pair[1]), "listeners"))
	}

	attr := &os.ProcAttr{Dir: "/", Env: stageEnv(), Files: child, Sys: sysAttr(mode, network, ids, c.Without)}
	if fd := g.fd(); fd != nil {
		defer fd.Close()
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(fd.Fd())
	}
	name := nameSetup
	if mode == ModeNone {
		name = nameBare
	}
	started := make(chan error)
	go func() {
		// The child is to die with its parent, and its parent is a thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		s.proc, err = os.StartProcess("/proc/self/exe", []string{name}, attr)
		started <- err
		if err != nil {
			return
		}
		state, err := s.proc.Wait()
		if err != nil {
			state = nil
		}
		s.done <- state
	}()
	if err := <-started; err != nil {
		return nil, s.abandon(step("start process in new namespaces", err))
	}
	s.pid = s.proc.Pid
	if !attr.Sys.UseCgroupFD {
		g.attach(s.pid)
	}
	return s, nil
}

var namespaceFlag = map[string]uintptr{
	"cgroup": unix.CLONE_NEWCGROUP, "ipc": unix.CLONE_NEWIPC, "mnt": unix.CLONE_NEWNS,
	"net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID, "uts": unix.CLONE_NEWUTS,
}

func sysAttr(mode Mode, network Network, ids idMap, without []string) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if mode.loose() {
		a.Pdeathsig = 0 // it must outlive us for as long as it takes to kill
		return a
	}
	a.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	if network == NetworkNone {
		a.Cloneflags |= unix.CLONE_NEWNET
	}
	for _, layer := range without {
		a.Cloneflags &^= namespaceFlag[layer]
	}
	if mode == ModeUserNS {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: ids.inside, HostID: ids.hostUID, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: ids.inside, HostID: ids.hostGID, Size: 1}}
		// There is no uid 0 inside, ever. The capabilities to build with
		// survive the execve as ambient ones.
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil {
				a.AmbientCaps = append(a.AmbientCaps, c)
			}
		}
	}
	return a
}

// memFile puts the configuration where the stages can read it, twice.
func memFile(c stageConfig) (*os.File, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("config", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "config")
	if _, err := f.Write(b); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// loose reports whether a mode makes no process namespace.
func (m Mode) loose() bool { return m == ModeNone || m == ModeRestricted }

// release lets the command start. A loose stage keeps the pipe: its end is
// how it learns that it must kill.
func (s *stageProcess) release() {
	s.control.Write([]byte{1})
	if !s.loose {
		s.control.Close()
	}
}

// kill ends every process of the sandbox. Process 1 takes the others along.
func (s *stageProcess) kill() error {
	if s.loose {
		s.control.Close()
		time.AfterFunc(2*time.Second, func() { s.proc.Kill() })
		return nil
	}
	if err := s.proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

type processUsage struct {
	cpu    time.Duration
	maxRSS int64
}

func (s *stageProcess) wait() processUsage {
	state := <-s.done
	if s.loose {
		// Whoever escaped may hold a pipe for ever.
		for _, f := range []*os.File{s.stdout, s.stderr} {
			f.SetReadDeadline(time.Now().Add(time.Second))
		}
	}
	if state == nil {
		return processUsage{}
	}
	u := processUsage{cpu: state.UserTime() + state.SystemTime()}
	if ru, ok := state.SysUsage().(*syscall.Rusage); ok {
		u.maxRSS = ru.Maxrss << 10
	}
	return u
}

func (s *stageProcess) abandon(err error) error {
	s.close()
	return err
}

func (s *stageProcess) close() {
	for _, f := range []*os.File{s.report, s.stdout, s.stderr, s.control} {
		if f != nil {
			f.Close()
		}
	}
	if s.listeners >= 0 {
		unix.Close(s.listeners)
	}
}
