//go:build amd64 || arm64

package conformance

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// nobody is the answer where the process to attack does not exist: the
// program is process 1 itself.
const nobody = "nobody"

// parent is the /proc directory of the process that started this one.
func parent() (string, int) {
	pid := os.Getppid()
	return "/proc/" + strconv.Itoa(pid), pid
}

// onParent makes an attempt on the parent, or says that there is none.
func onParent(f func(dir string, pid int) string) func(*Inside) string {
	return func(*Inside) string {
		dir, pid := parent()
		if pid == 0 {
			return nobody
		}
		return f(dir, pid)
	}
}

// onVictim is the control: the same on the victim, from outside.
func onVictim(f func(dir string, pid int) string) func(*Outside) string {
	return func(o *Outside) string { return f("/proc/"+strconv.Itoa(o.Victim), o.Victim) }
}

// foreign makes an attempt on the victim from inside, unless its number is
// another process's there.
func foreign(f func(dir string, pid int) string, gone string) func(*Inside) string {
	return func(in *Inside) string {
		if s := startTime(in.Victim); s != "" && s != in.VictimStart {
			return gone
		}
		return f("/proc/"+strconv.Itoa(in.Victim), in.Victim)
	}
}

const (
	hiddenOrForeign = "ENOENT or ESRCH where the process cannot be seen; EACCES or EPERM in mode restricted, which shares /proc and is kept off by uid"
	noTrace         = "the host lets nobody trace (Yama)"
)

// traceable is the condition of controls that trace a child.
func traceable() string {
	switch sysctl("kernel/yama/ptrace_scope") {
	case "2", "3":
		if os.Geteuid() != 0 {
			return noTrace
		}
	}
	return ""
}

func processRows() []Row {
	environ := func(dir string, _ int) string { return open(dir+"/environ", unix.O_RDONLY) }
	mem := func(dir string, _ int) string { return open(dir+"/mem", unix.O_RDWR) }
	fds := func(dir string, _ int) string { _, err := os.ReadDir(dir + "/fd"); return ended(err) }
	link := func(name string) func(string, int) string {
		return func(dir string, _ int) string { _, err := os.Readlink(dir + "/" + name); return ended(err) }
	}
	signal0 := func(_ string, pid int) string { return ended(unix.Kill(pid, 0)) }
	nice := func(_ string, pid int) string { return ended(unix.Setpriority(unix.PRIO_PROCESS, pid, 19)) }
	restricted := sandbox.LevelRestricted
	row := func(id, name string, level sandbox.Level, try func(*Inside) string, control func(*Outside) string, want ...string) Row {
		return Row{ID: id, Group: "processes", Name: name, Level: level, Try: try, Control: control, Want: want}
	}
	because := func(r Row, why string, needs func() string) Row {
		r.Why, r.Needs = why, needs
		return r
	}
	return []Row{
		row("1", "read /proc/1/environ", restricted, readInit, onVictim(environ), "EACCES"),
		row("2", "read /proc/PPID/environ", restricted, onParent(environ), onVictim(environ), "EACCES"),
		because(row("2b", "read the supervisor's environment", restricted, readSupervisor, superviseEnviron, "ENOENT", "EACCES"), hiddenOrForeign, nil),
		because(row("3", "open /proc/PPID/mem for writing", restricted, onParent(mem), onVictim(mem), "EACCES"), "", traceable),
		because(row("4", "trace the parent", restricted, onParent(seize), onVictim(seizeAndLeave), "EPERM"), "", traceable),
		because(row("4b", "trace a process of the host", restricted, foreign(seize, "ESRCH"), onVictim(seizeAndLeave), "ESRCH", "EPERM"), hiddenOrForeign, traceable),
		row("5", "list the parent's descriptors", restricted, onParent(fds), onVictim(fds), "EACCES"),
		row("5b", "read the link /proc/PPID/exe", restricted, onParent(link("exe")), onVictim(link("exe")), "EACCES"),
		row("5c", "read the link /proc/PPID/root", restricted, onParent(link("root")), onVictim(link("root")), "EACCES"),
		row("5d", "read the link /proc/PPID/cwd", restricted, onParent(link("cwd")), onVictim(link("cwd")), "EACCES"),
		because(row("6", "read the environment of a process of the host", restricted, foreign(environ, "ENOENT"), onVictim(environ), "ENOENT", "EACCES"), hiddenOrForeign, nil),
		row("7", "find secrets in the own environment", restricted, ownSecrets, supervisorSecrets, "none"),
		row("8", "inherit a descriptor", restricted, inherited, inheritsLeak, "none"),
		row("9", "see a process of the host", sandbox.LevelContainer, seesVictim, seesVictimHere, "none"),
		because(row("10", "signal a process of the host", restricted, foreign(signal0, "ESRCH"), onVictim(signal0), "ESRCH", "EPERM"), hiddenOrForeign, nil),
		because(row("10b", "signal a process of the host by pidfd", restricted, foreign(pidfdSignal, "ESRCH"), onVictim(pidfdSignal), "ESRCH", "EPERM"), hiddenOrForeign, nil),
		because(row("11", "lower the priority of a process of the host", restricted, foreign(nice, "ESRCH"), onVictim(nice), "ESRCH", "EPERM"), hiddenOrForeign, nil),
		because(row("12", "process_vm_readv from the parent", restricted, onParent(vmRead), onVictim(vmReadMapped), "EPERM"), "", traceable),
		because(row("13", "take a descriptor of the parent (pidfd_getfd)", restricted, onParent(getFD), onVictim(getFD), "EPERM"), "", traceable),
		row("16", "open the parent's event channel", restricted, onParent(openFD(4)), onVictim(openFD(1)), "EACCES"),
		because(row("16b", "hold a pipe besides the three streams", restricted, extraPipe, nil, "none"), "row 8 has the control", nil),
		row("19", "read a key file in the workspace's parent", restricted, readKey, here(readKey), "ENOENT", "EACCES"),
		row("19b", "list the caller's home", restricted, listHome, here(listHome), "ENOENT", "EACCES"),
		because(row("19c", "read a key file below /run", restricted, readRun, here(readRun), "ENOENT", "EACCES"), "", rootOnly),
		because(row("20", "make the parent dump core (SIGQUIT)", restricted, signalParent(unix.SIGQUIT), onVictim(signal0), "EPERM"), signalsKept, landlockSignals),
		because(row("20b", "allow core files again", restricted, allowCore, mayRefuse(plain("20b")), "EPERM"), "", nil),
		because(row("21", "open /proc/kcore", restricted, opens("/proc/kcore", unix.O_RDONLY), mayRefuse(here(opens("/proc/kcore", unix.O_RDONLY))), "EACCES", "EPERM", "ENOENT"),
			"EACCES by its mode; EPERM or ENOENT where the kernel is built or booted so that nobody may", nil),
		because(row("21b", "see a key of the caller in /proc/keys", sandbox.LevelContainer, seesKey, mayRefuse(seesKeyHere), "none", "EACCES", "ENOENT"), "EACCES or ENOENT where /proc/keys is masked. In mode restricted, an ordinary user sees the descriptions of the own keys there, and no more", nil),
		because(row("21c", "read kernel addresses in /proc/kallsyms", restricted, addresses, mayRefuse(here(addresses)), "none", "EACCES"), "EACCES where it is masked", nil),
		row("21d", "read the kernel's log (syslog)", restricted, kernelLog, mayRefuse(here(kernelLog)), "EPERM"),
	}
}

func seize(_ string, pid int) string {
	return ended(raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid)))
}

// seizeAndLeave lets go of the process, so that it can be seized again.
func seizeAndLeave(dir string, pid int) string {
	if got := seize(dir, pid); got != "ok" {
		return got
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		return "interrupt: " + ended(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil {
		return "wait: " + ended(err)
	}
	return ended(unix.PtraceDetach(pid))
}

// readInit tells an environment that anybody may see from a foreign one.
func readInit(in *Inside) string {
	if os.Getpid() == 1 {
		return nobody
	}
	return open("/proc/1/environ", unix.O_RDONLY)
}

func readSupervisor(in *Inside) string {
	p := "/proc/" + strconv.Itoa(in.Supervisor) + "/environ"
	b, err := os.ReadFile(p)
	if err != nil {
		return ended(err)
	}
	if !strings.Contains(string(b), in.Env) {
		return "ENOENT" // another process has its number here
	}
	return "ok"
}

func superviseEnviron(o *Outside) string {
	b, err := os.ReadFile("/proc/self/environ")
	if err == nil && !strings.Contains(string(b), o.Env) {
		return "no secret there"
	}
	return ended(err)
}

// ownSecrets looks for the caller's variables, and for names that hold secrets.
func ownSecrets(in *Inside) string {
	b, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return ended(err)
	}
	if strings.Contains(string(b), in.Secret) && strings.Contains(string(b), in.Env) {
		return "has the supervisor's secret"
	}
	for kv := range strings.SplitSeq(string(b), "\x00") {
		name, _, _ := strings.Cut(kv, "=")
		for _, prefix := range []string{"GITHUB_", "ACTIONS_", "RUNNER_", "INPUT_"} {
			if strings.HasPrefix(name, prefix) {
				return "has " + name
			}
		}
		for _, part := range []string{"TOKEN", "KEY", "SECRET", "PASSWORD"} {
			if strings.Contains(strings.ToUpper(name), part) {
				return "has " + name
			}
		}
	}
	return "none"
}

// supervisorSecrets is ownSecrets where there are some.
func supervisorSecrets(o *Outside) string {
	if got := ownSecrets(&Inside{Outside: *o}); got != "has the supervisor's secret" {
		return got
	}
	return "ok"
}

// inherited looks for descriptors that whoever executed this program left open.
func inherited(*Inside) string {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return ended(err)
	}
	for _, e := range dir {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			return "has one"
		}
	}
	return "none"
}

// inheritsLeak expects the descriptor that the supervisor leaks.
func inheritsLeak(o *Outside) string {
	return found(plain("8")(o))
}

// seesVictim looks for the victim by its command line.
func seesVictim(in *Inside) string {
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return ended(err)
	}
	for _, p := range list {
		if b, err := os.ReadFile(p); err == nil && strings.HasPrefix(string(b), nameVictim+"\x00"+in.Secret) {
			return "seen"
		}
	}
	return "none"
}

func seesVictimHere(o *Outside) string {
	if got := seesVictim(&Inside{Outside: *o}); got != "seen" {
		return got
	}
	return "ok"
}

func pidfdSignal(_ string, pid int) string {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return ended(err)
	}
	defer unix.Close(fd)
	return ended(unix.PidfdSendSignal(fd, 0, nil, 0))
}

// readFrom reads eight bytes of another process.
func readFrom(pid int, at uintptr) string {
	var b [8]byte
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: at, Len: len(b)}}, 0)
	return past(err, unix.EFAULT)
}

// vmRead reads at an address of its own: permission comes before mapping.
func vmRead(_ string, pid int) string {
	var here byte
	return readFrom(pid, uintptr(unsafe.Pointer(&here)))
}

func vmReadMapped(dir string, pid int) string {
	b, err := os.ReadFile(dir + "/maps")
	if err != nil {
		return ended(err)
	}
	first, _, _ := strings.Cut(string(b), "-")
	at, err := strconv.ParseUint(first, 16, 64)
	if err != nil {
		return err.Error()
	}
	return readFrom(pid, uintptr(at))
}

func getFD(_ string, pid int) string {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return "pidfd_open: " + ended(err)
	}
	defer unix.Close(fd)
	return closing(unix.PidfdGetfd(fd, 1, 0))
}

func openFD(n int) func(string, int) string {
	return func(dir string, _ int) string {
		fd, err := unix.Open(dir+"/fd/"+strconv.Itoa(n), unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err == nil {
			unix.Close(fd)
		}
		return past(err, unix.ENXIO) // a socket, in reach
	}
}

// extraPipe looks for pipes and sockets that the program did not make itself.
func extraPipe(*Inside) string {
	for n := 3; n < 1024; n++ {
		p, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(n))
		if err == nil && (strings.HasPrefix(p, "pipe:") || strings.HasPrefix(p, "socket:")) {
			return "has one"
		}
	}
	return "none"
}

func readKey(in *Inside) string  { return open(in.File, unix.O_RDONLY) }
func readRun(in *Inside) string  { return open(in.Run, unix.O_RDONLY) }
func listHome(in *Inside) string { _, err := os.ReadDir(in.Home); return ended(err) }

func opens(p string, flags int) func(*Inside) string {
	return func(*Inside) string { return open(p, flags) }
}

func allowCore(*Inside) string {
	return ended(unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}))
}

func seesKey(in *Inside) string {
	b, err := os.ReadFile("/proc/keys")
	switch {
	case err != nil:
		return ended(err)
	case strings.Contains(string(b), in.Key):
		return "seen"
	}
	return "none"
}

func seesKeyHere(o *Outside) string {
	if o.Key == "" {
		return "no keyrings"
	}
	if got := seesKey(&Inside{Outside: *o}); got != "seen" {
		return got
	}
	return "ok"
}

// addresses reads as "ok" if any kernel symbol has an address.
func addresses(*Inside) string {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return ended(err)
	}
	defer f.Close()
	b := make([]byte, 1<<16)
	n, err := f.Read(b)
	if err != nil {
		return ended(err)
	}
	for line := range strings.Lines(string(b[:n])) {
		if at, _, ok := strings.Cut(line, " "); ok && strings.Trim(at, "0") != "" {
			return "ok"
		}
	}
	return "none"
}

func kernelLog(*Inside) string {
	const sizeBuffer = 10
	return ended(raw(unix.SYS_SYSLOG, sizeBuffer, 0, 0))
}
