//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// initStage is process 1 of the sandbox, or stands for it where the mode makes
// no namespaces. It has nothing left to lose: no capabilities, the sandbox's
// uid, an empty view of the host. It probes, starts the command, waits, kills
// what is left, hands out the collected files and ends.
func initStage(report *os.File) error {
	score := openScore()
	if err := unreadable(); err != nil {
		return err
	}
	c, err := readConfig()
	if err != nil {
		return err
	}
	if !c.lacks(layerCloexec) {
		if err := keepDescriptors(); err != nil {
			return err
		}
	}
	if err := die(c.Mode); err != nil {
		return err
	}
	unix.Close(fdConfig)
	// Sever the caller's session keyring, should a way to keyctl be found.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && !errors.Is(err, unix.ENOSYS) &&
		!errors.Is(err, unix.EPERM) { // the filter of a container, which then forbids it to the command, too
		return step("own session keyring", err)
	}
	if err := surviveSignals(c.Mode); err != nil {
		return step("change signal handlers", err)
	}

	inet := true
	if c.Mode.loose() {
		inet = c.Network == NetworkHost || c.Placed
		// Orphans come here, so that the end of the last one is seen.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return step("become subreaper", err)
		}
	}
	r := newReaper(c, report, score)
	r.killRest = func() { unix.Kill(-1, unix.SIGKILL) }
	if c.Same {
		// The uid has other processes, but only those of the command are within
		// the domain of this thread.
		r.killRest = func() { r.confined(func() { unix.Kill(-1, unix.SIGKILL) }) }
	}
	switch {
	case len(c.Without) > 0:
		// The walls that keep a signal to everybody inside may be those left out.
		// No command starts, so there is nobody to kill.
		r.killRest = func() {}
	case c.Mode.loose():
		go watchSupervisor(func() { r.killRest() })
	}
	return r.run(func() error {
		abi := landlockABI()
		if c.lacks(layerLandlock) {
			abi = 0
		}
		if abi > 0 {
			if err := landlock(abi, readablePaths(c), writablePaths(c)); err != nil {
				return err
			}
		}
		if c.lacks(layerSeccomp) {
			return sendProbes(c, report, abi, &r.denier)
		}
		listener, err := installFilter(rules{inet: inet, shared: c.Same && !c.Placed})
		if err != nil {
			return err
		}
		if listener >= 0 {
			go r.denier.serve(listener) // before the probes: theirs are the first calls
		}
		return sendProbes(c, report, abi, &r.denier)
	})
}

// surviveSignals keeps the command from ending process 1 through the runtime,
// which takes many signals for a reason to exit. What process 1 of a pid
// namespace does not handle, the kernel does not deliver from inside; elsewhere
// a handler is needed. Unlike an ignored signal, neither survives an execve.
func surviveSignals(m Mode) error {
	if m.loose() {
		signal.Notify(make(chan os.Signal, 1))
		return nil
	}
	for n := unix.Signal(1); n < 65; n++ {
		if n == unix.SIGKILL || n == unix.SIGSTOP || n == unix.SIGURG { // the last is the scheduler's
			continue
		}
		var unhandled [4]uint64 // struct sigaction: SIG_DFL, no flags, nothing masked
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&unhandled)), 0, 8, 0, 0); errno != 0 {
			return errno
		}
	}
	return nil
}

func readablePaths(c stageConfig) []string {
	if c.mounts() || c.Placed {
		return []string{"/"}
	}
	return append(hostReadable(c.Network), toStrings(c.Read)...)
}

func writablePaths(c stageConfig) []string {
	if !c.mounts() {
		return append(hostWritable(!c.Same), toStrings(c.Write)...)
	}
	p := []string{"/tmp", "/var/tmp", homeDir, "/dev", "/proc"}
	for _, m := range c.Mounts {
		if m.Kind != ReadOnly {
			p = append(p, string(m.Target))
		}
	}
	return p
}

func sendProbes(c stageConfig, report *os.File, abi int, d *denier) error {
	r := probeReport{Namespaces: ownNamespaces(), Probes: probeInside(c), Landlock: abi, Seccomp: threadStatus("Seccomp") == "2"}
	r.Counted = d.begin()
	if c.mounts() {
		r.Disk, r.Inodes, _, _ = storeUsage()
		if r.Shared = sharedLimit(c.Memory); r.Shared == 0 {
			if fd, err := unix.Open(sharedList, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
				r.SharedFD = fd // stays open for the supervisor to take
			}
		}
	}
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &lim); err == nil && c.Pids > 0 {
		r.Pids = int64(lim.Cur)
	}
	return writeJSON(report, eventProbed, r)
}

// A reaper starts the command, waits for its end and that of all that came
// from it, and reports.
type reaper struct {
	c        stageConfig
	report   *os.File
	killRest func() // ends whatever the command left behind
	work     chan func()
	denier   denier
	score    *os.File // from openScore
}

func newReaper(c stageConfig, report, score *os.File) *reaper {
	return &reaper{c: c, report: report, work: make(chan func()), score: score}
}

// openScore opens what decides how soon this process goes when memory runs out.
// Once the process is unreadable the file is root's, so that comes later. It
// returns nil where there is no such file.
func openScore() *os.File {
	f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return f
}

// firstToGo is the score of a command: it goes before its supervisors.
const firstToGo = 500

// startFirstToGo starts the command as one that goes first when memory runs out,
// where that can be had. It has to be so from the start: what the command begins
// inherits it, and memory in files, which nobody has mapped, is held against nobody.
func (r *reaper) startFirstToGo() (int, error) {
	if r.score != nil {
		var text [16]byte
		n, _ := r.score.ReadAt(text[:], 0) // to its end
		own := bytes.TrimSpace(text[:n])
		if score, err := strconv.Atoi(string(own)); err == nil && score < firstToGo {
			if _, err := r.score.WriteAt(strconv.AppendInt(nil, firstToGo, 10), 0); err == nil {
				defer r.score.WriteAt(own, 0)
			}
		}
	}
	return start(r.c)
}

// confined runs f on the thread that started the command.
func (r *reaper) confined(f func()) {
	done := make(chan struct{})
	r.work <- func() { f(); close(done) }
	<-done
}

// run starts the command on a thread that confine has confined.
func (r *reaper) run(confine func() error) error {
	type started struct {
		pid int
		err error
	}
	c, report := r.c, r.report
	ch := make(chan started, 1)
	probed, reserved := make(chan bool), make(chan bool)
	onOwnThread(func() {
		// Never returning: what was done to this thread must not serve other
		// goroutines, and its end would be seen by the command as the death of
		// its parent.
		err := confine()
		close(probed)
		<-reserved
		if err == nil {
			err = awaitGo()
		}
		if err == nil && len(c.Without) > 0 {
			err = &refusal{Step: "start the command", Errno: "layers are left out"}
		}
		var s started
		if err == nil {
			s.pid, err = r.startFirstToGo()
		}
		s.err = err
		ch <- s
		for f := range r.work {
			f()
		}
	})
	// The supervisor is busy with the probes meanwhile. These threads come
	// from others than the confined one, and hold what it saw that those hold.
	<-probed
	reserveThreads()
	close(reserved)
	s := <-ch
	var bad *startError
	if errors.As(s.err, &bad) {
		return writeEvent(report, eventNoStart, []byte(bad.Error()))
	}
	if s.err != nil {
		return s.err
	}
	if err := writeEvent(report, eventStarted, nil); err != nil {
		return err
	}

	end, err := waitAll(c, s.pid, r.killRest)
	if err != nil {
		return step("wait", err)
	}
	if c.Mode == ModeRestricted && !c.Same {
		sweepIPC(c.UID)
	}
	end.Denied = r.denier.report()
	if err := writeJSON(report, eventEnded, end); err != nil {
		return err
	}
	if err := sendFiles(c, report); err != nil {
		return err
	}
	return writeEvent(report, eventDone, nil)
}

// onOwnThread runs f on a thread that nothing else uses, and that is not the
// first of the process: that one stands for the process, so a domain entered
// there would have process 1 in it, and in reach.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			onOwnThread(f)
			select {} // and the first thread serves nobody
		}
		f()
	}()
}

// ownThreads is how many threads process 1 can come to need at once, but for the
// runtime's own and the one that waits for signals: four may be blocked (in wait,
// as the command's parent, for the listener, for the end of the supervisor), two
// run or look for something to run.
const ownThreads = 6

// reserveThreads makes all threads that this process will need. The runtime
// keeps them. It would make them when it needs them, and end the process where
// the limit on processes, which the command can exhaust, does not let it. Whoever
// needs one before these have left finds none idle, and would make one more.
func reserveThreads() {
	var there, left sync.WaitGroup
	there.Add(ownThreads)
	left.Add(ownThreads)
	leave := make(chan struct{})
	for range ownThreads {
		go func() {
			runtime.LockOSThread()
			there.Done()
			<-leave
			runtime.UnlockOSThread()
			left.Done()
		}()
	}
	there.Wait()
	close(leave)
	left.Wait()
}

func waitAll(c stageConfig, pid int, killRest func()) (endReport, error) {
	var end endReport
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(-1, &ws, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if errors.Is(err, syscall.ECHILD) {
			break
		}
		if err != nil {
			return end, err
		}
		if got == pid {
			end.Status = uint32(ws)
			pid = 0
		}
		if pid == 0 {
			// Again after each death: a process can be born while its parent
			// is being killed.
			killRest()
		}
	}
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ru); err != nil {
		return end, err
	}
	end.CPU = ru.Utime.Nano() + ru.Stime.Nano()
	end.MaxRSS = ru.Maxrss << 10
	if c.mounts() {
		_, _, end.DiskUsed, end.InodesUsed = storeUsage()
	}
	return end, nil
}

// awaitGo blocks until the supervisor, having judged the probes, lets the
// command start. A supervisor that is gone or unwilling closes the pipe.
func awaitGo() error {
	var b [1]byte
	for {
		n, err := unix.Read(fdControl, b[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n != 1 {
			return &refusal{Step: "supervisor", Errno: "did not let the command start"}
		}
		return nil
	}
}

// A startError explains why a command could not be executed.
type startError struct {
	what string
	err  error
}

func (e *startError) Error() string {
	return e.what + ": " + e.err.Error() + " (" + errnoText(e.err) + ")"
}

func start(c stageConfig) (int, error) {
	argv, env := toStrings(c.Argv), toStrings(c.Env)
	dir := string(c.Dir)
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err != nil {
		return 0, &startError{"working directory " + dir, err}
	}
	file, err := lookPath(argv[0], dir, env)
	if err != nil {
		return 0, &startError{argv[0], err}
	}
	pid, err := syscall.ForkExec(file, argv, &syscall.ProcAttr{
		Dir:   dir,
		Env:   env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, &startError{argv[0], err}
	}
	return pid, nil
}

// lookPath finds a command as execvp does, by the PATH that the command
// itself gets.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	list := ""
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			list = p
		}
	}
	denied := false
	for _, d := range strings.Split(list, ":") {
		file := path.Join(d, name)
		if !path.IsAbs(file) {
			file = path.Join(dir, file)
		}
		var st unix.Stat_t
		if unix.Stat(file, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
		denied = true
	}
	if denied {
		return "", unix.EACCES
	}
	return "", unix.ENOENT
}

// storeUsage reads the limits and the use of the writable places back.
func storeUsage() (disk, inodes, diskUsed, inodesUsed int64) {
	var st unix.Statfs_t
	if unix.Statfs("/tmp", &st) != nil {
		return 0, 0, 0, 0
	}
	bs := int64(st.Bsize)
	return int64(st.Blocks) * bs, int64(st.Files), int64(st.Blocks-st.Bfree) * bs, int64(st.Files - st.Ffree)
}

func toStrings(b [][]byte) []string {
	s := make([]string, len(b))
	for i := range b {
		s[i] = string(b[i])
	}
	return s
}
