//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// The names that a re-executed process goes by. They are its whole argument
// list and, with the runtime settings in stageEnv, all that it shows to a
// reader of /proc.
const (
	nameSetup  = "truegreen-sandbox-setup"
	nameInit   = "truegreen-sandbox-init"
	nameBare   = "truegreen-sandbox-bare"
	nameSweep  = "truegreen-sandbox-sweep"
	nameIdle   = "truegreen-sandbox-idle"
	nameRemote = "truegreen-sandbox-remote" // the only argument: nobody else can set argv[0]
	nameSigner = "truegreen-signer"
)

// Descriptors that the supervisor gives to a stage, after 0, 1 and 2.
const (
	fdConfig  = 3 // stageConfig as JSON, seekable
	fdReport  = 4 // events, written by the stage
	fdControl = 5 // one byte lets the command start
	fdMapping = 6 // user namespace for mapped mounts, if there are any
	// fdListeners is a socket to send the listening ones by, if there are any.
	fdListeners = 7
)

// stageEnv returns the environment of every re-executed process: they live for one
// command and have no use for a second processor or a garbage collector.
func stageEnv() []string { return []string{"GOGC=off", "GOMAXPROCS=1"} }

// initEnv returns the environment of the init stage. A thread that waits in a
// system call for what another has to do keeps its turn for up to 10 ms; here
// the listener has its own.
func initEnv() []string { return []string{"GOGC=off", "GOMAXPROCS=2"} }

// Child must be the first call in main, and in TestMain of packages whose
// tests use this one. In a process that Run or StartSigner made by executing
// the program again, it does that process's work and never returns;
// otherwise it returns at once.
func Child() {
	if len(os.Args) == 2 && os.Args[1] == nameRemote {
		syscall.Exit(remoteMain())
	}
	if len(os.Args) != 1 {
		return
	}
	switch os.Args[0] {
	case nameSetup:
		stage(setup)
	case nameInit:
		stage(initStage)
	case nameBare:
		stage(bareStage)
	case nameSweep:
		sweepStage()
		syscall.Exit(0)
	case nameIdle:
		idleStage()
		syscall.Exit(0)
	case nameSigner:
		syscall.Exit(signerMain())
	}
}

// stage runs f and reports its error as an event. It leaves by the system
// call, since exit hooks of the program (coverage, say) are not meant for it.
func stage(f func(*os.File) error) {
	report := os.NewFile(fdReport, "report")
	defer func() {
		if p := recover(); p != nil {
			writeJSON(report, eventRefused, refusal{Step: "internal error", Errno: fmt.Sprint(p)})
		}
		syscall.Exit(1)
	}()
	if err := f(report); err != nil {
		var r *refusal
		if !errors.As(err, &r) {
			r = &refusal{Step: "sandbox", Errno: err.Error()}
		}
		writeJSON(report, eventRefused, r)
		return
	}
	syscall.Exit(0)
}

// step names what was being done when err happened; nil stays nil.
func step(name string, err error) error {
	if err == nil {
		return nil
	}
	var r *refusal
	if errors.As(err, &r) {
		return err
	}
	return &refusal{Step: name, Errno: errnoText(err)}
}

// specStep is step for failures that the Spec explains.
func specStep(name string, err error) error {
	if err == nil {
		return nil
	}
	return &refusal{Step: name, Errno: errnoText(err), Spec: true}
}

// errnoText is the errno's name where there is one, "ok" for nil.
func errnoText(err error) string {
	if err == nil {
		return "ok"
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	return err.Error()
}

// quiet makes the process unreadable for others of the same uid and keeps
// every descriptor from what it will execute. It comes first in each stage.
func quiet() error {
	if err := keepDescriptors(); err != nil {
		return err
	}
	return unreadable()
}

func unreadable() error {
	return step("prctl dumpable", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

func keepDescriptors() error {
	return step("close_range", unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC))
}

// die asks for SIGKILL when the thread that started this process ends. A
// change of credentials clears it, so each stage asks again; the poll finds
// a supervisor that was gone before. A loose stage lives on instead, to kill
// what it started.
func die(m Mode) error {
	if m.loose() {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return step("prctl pdeathsig", err)
	}
	p := []unix.PollFd{{Fd: fdReport}}
	if _, err := unix.Poll(p, 0); err == nil && p[0].Revents&unix.POLLERR != 0 {
		return &refusal{Step: "supervisor", Errno: "gone"}
	}
	return nil
}

func readConfig() (stageConfig, error) {
	var c stageConfig
	f := os.NewFile(fdConfig, "config")
	var st unix.Stat_t
	if err := unix.Fstat(fdConfig, &st); err != nil {
		return c, step("read configuration", err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, st.Size))
	if err != nil {
		return c, step("read configuration", err)
	}
	return c, step("read configuration", json.Unmarshal(b, &c))
}
