//go:build linux && (amd64 || arm64)

package sandbox

import (
	"strings"
	"testing"
)

// TestDoctor: what the doctor says is what Run finds, and whatever is wrong
// has a remedy.
func TestDoctor(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range Doctor(t.Context()) {
		if c.Name == "" || c.Detail == "" || c.OK != (c.Fix == "") {
			t.Errorf("check %+v", c)
		}
		if mode, ok := strings.CutPrefix(c.Name, "mode "); ok {
			seen[mode] = true
			if c.OK != able(Mode(mode)) {
				t.Errorf("doctor says %s is %v, Run disagrees", mode, c.OK)
			}
		}
	}
	if !seen["rootdrop"] || !seen["userns"] {
		t.Errorf("modes %v", seen)
	}
}

func TestRefusedErrorText(t *testing.T) {
	t.Parallel()
	e := &RefusedError{Want: LevelNamespaces, Attempts: []Fallback{
		{Mode: ModeRootDrop, Why: "start as root: the caller is not root", Fix: "run as root"},
		{Mode: ModeUserNS, Why: "start process: EPERM"},
	}}
	const want = "sandbox refused at level namespaces; rootdrop: start as root: the caller is not root (run as root); userns: start process: EPERM"
	if e.Error() != want {
		t.Errorf("got %q", e.Error())
	}
}

func TestCgroupPaths(t *testing.T) {
	t.Parallel()
	own, mounts := parseCgroups(
		"12:pids:/a\n5:cpu,cpuacct:/b\n4:name=systemd:/c\n0::/user.slice/x.scope\nbroken\n",
		"30 23 0:26 / /sys/fs/cgroup/pids rw,nosuid shared:9 - cgroup cgroup rw,pids\n"+
			"31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"+
			"32 23 0:28 / /tmp rw - tmpfs pids rw\nshort\n")
	for k, want := range map[string]string{"pids": "/a", "cpu": "/b", "cpuacct": "/b", "2": "/user.slice/x.scope"} {
		if own[k] != want {
			t.Errorf("own %s: %q", k, own[k])
		}
	}
	if mounts["pids"] != "/sys/fs/cgroup/pids" || mounts["2"] != "/sys/fs/cgroup/unified" || mounts["cpu"] != "" {
		t.Errorf("mounts %v", mounts)
	}
}
