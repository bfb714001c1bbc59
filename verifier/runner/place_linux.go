package runner

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// tmpfsRoom returns what a tmpfs has room for: nothing if dir is on another
// file system, is read-only or starts no programs.
func tmpfsRoom(dir string) extent {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || int64(st.Type) != unix.TMPFS_MAGIC || st.Flags&(unix.ST_RDONLY|unix.ST_NOEXEC) != 0 {
		return extent{}
	}
	room := extent{bytes: int64(st.Bavail) * int64(st.Bsize), files: int64(st.Ffree)}
	if st.Blocks == 0 { // a tmpfs without limits counts nothing
		room.bytes = math.MaxInt64
	}
	if st.Files == 0 {
		room.files = math.MaxInt64
	}
	return room
}

// memoryAvailable returns how many bytes this process and its children can
// still use: what the kernel estimates, and what every control group (of
// version 2) above this process leaves. It is 0 if the kernel does not say.
func memoryAvailable() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	available := meminfo(text)
	group, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return available
	}
	for line := range strings.Lines(string(group)) {
		dir, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		for ; ok; dir = filepath.Dir(dir) {
			available = min(available, groupRoom(filepath.Join("/sys/fs/cgroup", dir)))
			ok = dir != "." && dir != ""
		}
	}
	return available
}

// meminfo returns the line MemAvailable of /proc/meminfo, in bytes.
func meminfo(text []byte) int64 {
	_, rest, _ := bytes.Cut(text, []byte("\nMemAvailable:"))
	fields := bytes.Fields(rest[:min(len(rest), 64)])
	if len(fields) < 2 || string(fields[1]) != "kB" {
		return 0
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil || kib < 0 || kib > math.MaxInt64>>10 {
		return 0
	}
	return kib << 10
}

// groupRoom returns what a control group's limit leaves.
func groupRoom(dir string) int64 {
	limit, err := groupNumber(dir, "memory.max")
	if err != nil {
		return math.MaxInt64 // no limit, or no such group
	}
	used, err := groupNumber(dir, "memory.current")
	if err != nil {
		return 0
	}
	return max(0, limit-used)
}

func groupNumber(dir, name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

func ownedByUs(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
