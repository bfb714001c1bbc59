//go:build amd64 || arm64

package conformance

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/sandbox"
)

const signalsKept = "EPERM comes from Landlock, ABI 6 and newer, which keeps signals inside; without it the kernel drops what a process sends to process 1 of its namespace, and row 15 shows that"

// landlockSignals is the condition of the rows about the errno of a signal.
func landlockSignals() string {
	const scopes = 6
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < scopes {
		return "Landlock is older than ABI 6: a signal to process 1 is accepted and dropped (row 15)"
	}
	return ""
}

// apart reports whether signals to process 1, and to all, stay away from the
// host: where they do not, they are not sent.
func apart(in *Inside) bool {
	if in.Level >= sandbox.LevelContainer || os.Geteuid() != in.UID && os.Geteuid() != 0 {
		return true
	}
	// The user's own processes: Landlock keeps the victim out of reach, or nothing does.
	return errors.Is(unix.Kill(in.Victim, 0), unix.EPERM)
}

func signalParent(s unix.Signal) func(*Inside) string {
	return func(in *Inside) string {
		if !apart(in) {
			return "not tried: it would reach the host"
		}
		pid := os.Getppid()
		if pid == 0 {
			return nobody
		}
		return ended(unix.Kill(pid, s))
	}
}

// endingRows are about who ends whom.
func endingRows() []Row {
	rows := []Row{
		{ID: "14", Name: "kill(-1) reaches more than the own processes", Want: []string{"own"}, Own: true,
			Try: killAll, After: victimUp, Why: "outside it would end every process of the user"},
		{ID: "15", Name: "end or stop process 1 (TERM, INT, QUIT, HUP, SEGV, STOP, KILL)", Want: []string{"ok"}, Own: true,
			Try: killInit, Check: exitedWell, Why: "outside it would be the host's process 1"},
		{ID: "15b", Name: "SIGTERM to the parent", Want: []string{"EPERM"}, Try: signalParent(unix.SIGTERM), Needs: landlockSignals, Why: signalsKept},
		{ID: "15c", Name: "SIGSTOP to the parent", Want: []string{"EPERM"}, Try: signalParent(unix.SIGSTOP), Needs: landlockSignals, Why: signalsKept},
		{ID: "15d", Name: "SIGKILL to the parent", Want: []string{"EPERM"}, Try: signalParent(unix.SIGKILL), Needs: landlockSignals, Why: signalsKept},
	}
	for _, s := range []struct{ id, name, kind string }{
		{"17", "survive by setsid and a double fork", "sleep"},
		{"18", "survive by forking on, deaf to signals", "fork"},
	} {
		rows = append(rows, Row{ID: s.id, Name: s.name, Want: []string{"left"}, Own: true, Level: sandbox.LevelRestricted,
			Try:     func(in *Inside) string { return leave(in.Secret+"-inside-"+s.id, s.kind, survivorLife) },
			Control: func(o *Outside) string { return survives(o, s.id, s.kind) },
			After:   func(o *Outside) string { return gone(o.Secret + "-inside-" + s.id) },
		})
	}
	for i := range rows {
		rows[i].Group, rows[i].Level = "processes", sandbox.LevelRestricted
	}
	return rows
}

// killAll kills everything that it may. It has a child of its own to see that
// anything happens.
func killAll(in *Inside) string {
	if !apart(in) {
		return "not tried: it would reach the host"
	}
	c := exec.Command("/proc/self/exe", "x")
	c.Args[0] = nameVictim
	if _, err := c.StdinPipe(); err != nil {
		return ended(err)
	}
	if err := c.Start(); err != nil {
		return ended(err)
	}
	err := unix.Kill(-1, unix.SIGKILL)
	c.Wait()
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); err != nil || !ok || !ws.Signaled() {
		return "own child lives: " + ended(err)
	}
	return "own"
}

func victimUp(o *Outside) string {
	t := targets{Outside: *o}
	if !t.victimLives() {
		return "the victim is dead"
	}
	return "ok"
}

func killInit(in *Inside) string {
	if !apart(in) {
		return "not tried: it would reach the host"
	}
	pid := os.Getppid()
	if pid == 0 {
		return nobody
	}
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGSEGV, unix.SIGSTOP, unix.SIGKILL} {
		unix.Kill(pid, s)
	}
	time.Sleep(100 * time.Millisecond) // for a signal to act
	return "sent"
}

// exitedWell: process 1 has lived to report the end of the command.
func exitedWell(r *sandbox.Result) string {
	if r.State != sandbox.StateExited || r.Exit != 0 {
		return strings.TrimSpace(string(r.State) + " " + r.Signal + " " + r.Why)
	}
	return "ok"
}

// leave starts a process that is to outlive this one.
func leave(mark, kind string, life time.Duration) string {
	c := exec.Command("/proc/self/exe", mark, kind, "first", strconv.FormatInt(time.Now().Add(life).UnixMilli(), 10))
	c.Args[0] = nameSurvivor
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Run(); err != nil {
		return ended(err)
	}
	return "left"
}

// survivorLife is how long a survivor stays if nobody kills it.
const survivorLife = 30 * time.Second

// survivorMain is a process that wants to stay: mark, kind, generation, end in
// milliseconds of Unix time. The first starts the second and ends, which makes
// that one an orphan. A "fork" hands over to a child of its own at once, and
// stays for a moment, so that there are always some and never the same.
func survivorMain(args []string) int {
	if len(args) != 4 {
		return 1
	}
	last, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return 1
	}
	left := time.Until(time.UnixMilli(last))
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1)
	if args[2] != "first" && args[1] == "sleep" {
		time.Sleep(left)
		return 0
	}
	if left <= 0 {
		return 0
	}
	c := exec.Command("/proc/self/exe", args[0], args[1], "next", args[3])
	c.Args[0] = nameSurvivor
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return 1
	}
	if args[2] != "first" {
		time.Sleep(50 * time.Millisecond)
	}
	return 0
}

// survivors lists the processes with this mark.
func survivors(mark string) []int {
	var found []int
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range list {
		if b, err := os.ReadFile(p); err != nil || !strings.HasPrefix(string(b), nameSurvivor+"\x00"+mark+"\x00") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// gone looks a few times: a process that was just born has no name yet.
func gone(mark string) string {
	for range 5 {
		if list := survivors(mark); len(list) > 0 {
			return "process " + strconv.Itoa(list[0]) + " survived"
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "ok"
}

// survives leaves a process outside, where nothing ends it, sees it, and waits
// for its end.
func survives(o *Outside, id, kind string) string {
	const life = time.Second
	mark := o.Secret + "-outside-" + id
	if got := leave(mark, kind, life); got != "left" {
		return got
	}
	if gone(mark) == "ok" {
		return "did not survive"
	}
	for deadline := time.Now().Add(rowTimeout / 2); time.Now().Before(deadline); {
		if gone(mark) == "ok" {
			return "ok"
		}
	}
	return "does not end"
}
