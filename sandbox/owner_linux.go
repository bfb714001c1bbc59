//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Sandboxes of root run as an id in these ranges, which neither distributions
// nor systemd assign to anyone. It is also the id inside.
// The held ones are for mode restricted, which ends whatever has its uid, and so
// shares it with nobody.
const (
	firstHeldUID = 60578
	lastHeldUID  = 60999
	firstUID     = 61000
	lastUID      = 61183
)

// Owner returns whose a tree must be so that a command can change an
// [Overlay] or [Writable] mount of it. For root it is an unused id, and chown
// reports that the files must be given to it; a Run whose mounts belong to
// such an id runs as that id. For any other user it is the user.
func Owner() (uid, gid int, chown bool) {
	if os.Geteuid() != 0 {
		return os.Geteuid(), os.Getegid(), false
	}
	id, err := unusedID()
	if err != nil {
		id = lastUID
	}
	return id, id, true
}

// unusedID finds an id that is nobody's and under which nothing runs.
func unusedID() (int, error) {
	for id := firstUID; id <= lastUID; id++ {
		if free, err := isFree(id); err != nil || free {
			return id, err
		}
	}
	return 0, errors.New("every sandbox uid is in use")
}

// isFree reports whether an id has neither an account nor a process.
func isFree(id int) (bool, error) {
	taken, err := accounts()
	return !taken[id] && !hasProcess(id), err
}

// hasProcess reports whether anything runs under an id.
func hasProcess(id int) bool {
	_, err := unix.Getpriority(unix.PRIO_USER, id)
	return !errors.Is(err, unix.ESRCH)
}

// accounts returns the ids that have one.
var accounts = sync.OnceValues(func() (map[int]bool, error) {
	taken := map[int]bool{}
	b, err := os.ReadFile("/etc/passwd")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(line, ":"); len(f) > 2 {
			if n, err := strconv.Atoi(f[2]); err == nil {
				taken[n] = true
			}
		}
	}
	return taken, nil
})

// chooseID returns the host's uid and gid for a command: that of its
// writable mounts if they have one of ours, else an unused one.
func chooseID(mounts []Mount) (int, error) {
	id := 0
	for _, m := range mounts {
		if m.Kind != Overlay && m.Kind != Writable {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(m.Source, &st); err != nil {
			return 0, &refusal{Step: "mount source " + m.Source, Errno: errnoText(err), Spec: true}
		}
		if st.Uid < firstUID || st.Uid > lastUID {
			continue
		}
		if id != 0 && id != int(st.Uid) {
			return 0, &refusal{Step: "mount source " + m.Source, Errno: "belongs to another sandbox uid than the mounts before it", Spec: true}
		}
		id = int(st.Uid)
	}
	if id != 0 {
		return id, nil
	}
	return unusedID()
}
