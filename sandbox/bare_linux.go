//go:build amd64 || arm64

package sandbox

import (
	"os"
	"os/signal"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bareStage runs a command with no walls: an own session, the given
// environment, core files off. Orphans come to this process, so that all of
// them can be found and killed when the command ends or the supervisor does.
func bareStage(report *os.File) error {
	if err := keepDescriptors(); err != nil {
		return err
	}
	c, err := readConfig()
	if err != nil {
		return err
	}
	unix.Close(fdConfig)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return step("become subreaper", err)
	}
	if err := setRlimits(0); err != nil {
		return err
	}
	unix.Umask(0o022)
	signal.Notify(make(chan os.Signal, 1))
	go watchSupervisor(killDescendants)
	r := newReaper(c, report, openScore())
	r.killRest = killDescendants
	return r.run(func() error {
		if err := writeEvent(report, eventEntered, []byte("moved")); err != nil {
			return err
		}
		return writeJSON(report, eventProbed, probeReport{})
	})
}

// killDescendants kills every process below this one that exists now.
func killDescendants() {
	for list := children(os.Getpid()); len(list) > 0; {
		pid := list[len(list)-1]
		list = append(list[:len(list)-1], children(pid)...)
		unix.Kill(pid, unix.SIGKILL)
	}
}

// children lists the child processes of pid.
func children(pid int) []int {
	var list []int
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, t := range tasks {
		b, err := os.ReadFile(dir + t.Name() + "/children")
		if err != nil {
			continue
		}
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}
