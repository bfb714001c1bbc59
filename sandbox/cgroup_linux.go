//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A cgroup bounds processes and memory of one command, and is used once: a
// version 2 group that was killed kills what is put into it later. Where
// version 2 has no controllers, the version 1 hierarchies serve.
type cgroup struct {
	version int
	pids    string // directory, "" if nothing counts processes
	memory  string
	cpu     string
}

// cpuShare returns the quota of processor time and the period in which it is
// given out, both in microseconds, that are so many thousandths of a processor.
// The kernel takes no quota below 1 ms and no period above 1 s.
func cpuShare(milli int) (quota, period int64) {
	period = 100_000
	if milli < 10 {
		period = 1_000_000
	}
	return int64(milli) * period / 1000, period
}

// cgroupPrefix begins the name of every group made here; the owner's pid
// follows, so that what a killed owner left can be told from what is in use.
const cgroupPrefix = "truegreen-"

// newCgroup makes the groups that this process may make. None at all is no
// error: the limits then have other enforcers, or none, and say so.
func newCgroup(l Limits) *cgroup {
	own, mounts := cgroupPaths()
	g := &cgroup{version: 2}
	if root, ok := mounts["2"]; ok && controls(root) {
		at := filepath.Join("/", own["2"])
		for _, parent := range []string{filepath.Dir(at), at, "/"} {
			dir, err := makeGroup(filepath.Join(root, parent))
			if err != nil {
				continue
			}
			g.pids = setLimit(dir, "pids.max", int64(l.Pids))
			g.memory = setLimit(dir, "memory.max", l.Memory)
			if g.memory != "" {
				setLimit(dir, "memory.swap.max", 0)
				setLimit(dir, "memory.oom.group", 1)
			}
			if quota, period := cpuShare(l.CPU); l.CPU > 0 && writeFile(dir, "cpu.max", fmt.Sprintf("%d %d", quota, period)) {
				g.cpu = dir
			}
			if g.pids != "" || g.memory != "" || g.cpu != "" {
				return g
			}
			os.Remove(dir)
		}
	}
	g.version = 1
	g.pids = v1Group(mounts, own, "pids", setting{"pids.max", int64(l.Pids)})
	g.memory = v1Group(mounts, own, "memory", setting{"memory.limit_in_bytes", l.Memory})
	if g.memory != "" {
		setLimit(g.memory, "memory.memsw.limit_in_bytes", l.Memory)
	}
	if l.CPU > 0 {
		quota, period := cpuShare(l.CPU)
		g.cpu = v1Group(mounts, own, "cpu", setting{"cpu.cfs_period_us", period}, setting{"cpu.cfs_quota_us", quota})
	}
	return g
}

// controls reports whether version 2 has one of the controllers, which version
// 1 may have taken.
func controls(root string) bool {
	b, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	list := strings.Fields(string(b))
	return err == nil && (slices.Contains(list, "pids") || slices.Contains(list, "memory"))
}

// A setting is a file of a group and what is written to it.
type setting struct {
	file  string
	value int64
}

// v1Group makes a group of a version 1 controller that takes all of the limits.
func v1Group(mounts, own map[string]string, controller string, limits ...setting) string {
	root, ok := mounts[controller]
	if !ok {
		return ""
	}
	// In a container, the own path can be one of the host's.
	for _, parent := range []string{filepath.Join("/", own[controller]), "/"} {
		dir, err := makeGroup(filepath.Join(root, parent))
		if err != nil {
			continue
		}
		refused := func(s setting) bool { return setLimit(dir, s.file, s.value) == "" }
		if !slices.ContainsFunc(limits, refused) {
			return dir
		}
		os.Remove(dir)
	}
	return ""
}

// makeGroup makes a group below parent and removes those of dead owners.
func makeGroup(parent string) (string, error) {
	sweep(parent, cgroupPrefix)
	return os.MkdirTemp(parent, cgroupPrefix+strconv.Itoa(os.Getpid())+"-")
}

// setLimit writes one limit and returns dir, or "" if that is not possible.
// It creates nothing: what is not there is not a control file.
func setLimit(dir, file string, value int64) string {
	if !writeFile(dir, file, strconv.FormatInt(value, 10)) {
		return ""
	}
	return dir
}

func writeFile(dir, file, value string) bool {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	_, err = f.WriteString(value)
	return f.Close() == nil && err == nil
}

// cgroupPaths returns this process's group per controller, and where the
// hierarchies are mounted. Version 2 goes by the name "2".
func cgroupPaths() (own, mounts map[string]string) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, nil
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, nil
	}
	return parseCgroups(string(groups), string(mountinfo))
}

func parseCgroups(groups, mountinfo string) (own, mounts map[string]string) {
	own, mounts = map[string]string{}, map[string]string{}
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[1] == "" {
			own["2"] = f[2]
		}
		for c := range strings.SplitSeq(f[1], ",") {
			own[c] = f[2]
		}
	}
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		switch r[0] {
		case "cgroup2":
			mounts["2"] = l[4]
		case "cgroup":
			for c := range strings.SplitSeq(r[2], ",") {
				mounts[c] = l[4]
			}
		}
	}
	return own, mounts
}

// fd returns a descriptor for CLONE_INTO_CGROUP, or nil if the process has to
// be moved once it exists.
func (g *cgroup) fd() *os.File {
	if g.version != 2 || len(g.dirs()) == 0 {
		return nil
	}
	f, err := os.OpenFile(g.dirs()[0], unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	return f
}

// attach moves a process, and so what it will start, into the groups. A
// controller that refuses counts as absent.
func (g *cgroup) attach(pid int) {
	for _, dir := range []*string{&g.pids, &g.memory, &g.cpu} {
		if *dir != "" && setLimit(*dir, "cgroup.procs", int64(pid)) == "" {
			os.Remove(*dir)
			*dir = ""
		}
	}
}

func (g *cgroup) dirs() []string {
	var d []string
	for _, dir := range []string{g.pids, g.memory, g.cpu} {
		if dir != "" && !slices.Contains(d, dir) {
			d = append(d, dir)
		}
	}
	return d
}

// limits reports the limits as the groups hold them.
func (g *cgroup) limits() (pids, memory, cpu Limit) {
	by := fmt.Sprintf("cgroup%d", g.version)
	pids, memory, cpu = Limit{Name: "pids", By: "none"}, Limit{Name: "memory", By: "none"}, Limit{Name: "cpu_milli", By: "none"}
	if g.cpu != "" {
		cpu.By = by
		quota, period := readInt(g.cpu, "cpu.cfs_quota_us"), readInt(g.cpu, "cpu.cfs_period_us")
		if g.version == 2 {
			quota, period = readPair(g.cpu, "cpu.max")
		}
		if period > 0 {
			cpu.Value = quota * 1000 / period
		}
		cpu.Hit = readKey(g.cpu, "cpu.stat", "nr_throttled") > 0
	}
	if g.pids != "" {
		pids.By = by
		pids.Value = readInt(g.pids, "pids.max")
		pids.Peak = readInt(g.pids, "pids.peak")
		pids.Hit = readKey(g.pids, "pids.events", "max") > 0
	}
	if g.memory != "" {
		memory.By = by
		if g.version == 2 {
			memory.Value = readInt(g.memory, "memory.max")
			memory.Peak = readInt(g.memory, "memory.peak")
			memory.Hit = readKey(g.memory, "memory.events", "oom_kill") > 0
		} else {
			memory.Value = readInt(g.memory, "memory.limit_in_bytes")
			memory.Peak = readInt(g.memory, "memory.max_usage_in_bytes")
			memory.Hit = readKey(g.memory, "memory.oom_control", "oom_kill") > 0
		}
	}
	return pids, memory, cpu
}

// remove deletes the groups. The last process may still be on its way out.
func (g *cgroup) remove() {
	for _, dir := range g.dirs() {
		for range 200 {
			if err := syscall.Rmdir(dir); err == nil || errors.Is(err, syscall.ENOENT) {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func readInt(dir, file string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

func readPair(dir, file string) (a, b int64) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, 0
	}
	if _, err := fmt.Sscan(string(text), &a, &b); err != nil {
		return 0, 0
	}
	return a, b
}

func readKey(dir, file, key string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && k == key {
			n, _ := strconv.ParseInt(v, 10, 64)
			return n
		}
	}
	return 0
}
