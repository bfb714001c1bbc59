//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
)

var namespaceNames = []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}

// ownNamespaces returns this process's own: it never changes them.
var ownNamespaces = sync.OnceValue(func() map[string]string {
	own := map[string]string{}
	for _, ns := range namespaceNames {
		if link, err := os.Readlink("/proc/self/ns/" + ns); err == nil {
			own[ns] = link
		}
	}
	return own
})

// observe reads the kernel's own account of process 1: which namespaces it
// has to itself, and the privileges of each of its threads.
//
// Where this process may not read a namespace of it, what process 1 has said of
// its own counts; nothing of the command has run there yet.
func observe(pid int, iso *Isolation, said map[string]string) error {
	dir := "/proc/" + strconv.Itoa(pid)
	for _, ns := range namespaceNames {
		ours, ok := ownNamespaces()[ns]
		if !ok {
			continue
		}
		theirs, err := os.Readlink(dir + "/ns/" + ns)
		if errors.Is(err, os.ErrPermission) {
			theirs, err = said[ns], nil // root without CAP_SYS_PTRACE, in a container
		}
		if err != nil {
			return err
		}
		if theirs != "" && ours != theirs {
			iso.Namespaces = append(iso.Namespaces, ns)
		}
	}
	tasks, err := os.ReadDir(dir + "/task")
	if err != nil {
		return err
	}
	iso.NoNewPrivs, iso.CapsEmpty = len(tasks) > 0, len(tasks) > 0
	for _, t := range tasks {
		b, err := os.ReadFile(dir + "/task/" + t.Name() + "/status")
		if err != nil {
			return err
		}
		status := string(b)
		if statusField(status, "NoNewPrivs") != "1" {
			iso.NoNewPrivs = false
		}
		for _, set := range capSets() {
			// With no_new_privs, nothing is ever taken from the bounding set.
			if set == "CapBnd" && statusField(status, "NoNewPrivs") == "1" {
				continue
			}
			if v := statusField(status, set); v == "" || strings.Trim(v, "0") != "" {
				iso.CapsEmpty = false
			}
		}
		for id := range strings.FieldsSeq(statusField(status, "Uid")) {
			if iso.UID, err = strconv.Atoi(id); err != nil {
				return err
			}
			if iso.UID == 0 {
				return nil
			}
		}
	}
	return nil
}
