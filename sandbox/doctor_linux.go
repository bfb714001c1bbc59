//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Doctor tries what this host can do and says how to get what it cannot.
// Each mode is really entered and probed; no command runs.
func Doctor(ctx context.Context) []Check {
	var checks []Check
	for _, mode := range []Mode{ModeRootDrop, ModeUserNS, ModeRestricted} {
		checks = append(checks, checkMode(ctx, mode))
	}
	return append(checks, checkEngine(), checkLandlock(), checkCgroups())
}

// checkEngine finds out whether mode container is possible, given an image.
func checkEngine() Check {
	c := Check{Name: "engine"}
	e, err := findEngine()
	if err == nil {
		c.Detail = e.name + " " + e.version
		var s Spec
		_, err = s.entryPath()
	}
	if c.OK = err == nil; c.OK {
		c.Detail += ": mode container, at level container, with an image"
		return c
	}
	c.Detail = err.Error()
	c.Fix = "install docker or podman and let this user use it"
	if e.name != "" {
		c.Fix = "build truegreen with CGO_ENABLED=0"
	}
	return c
}

func checkMode(ctx context.Context, mode Mode) Check {
	c := Check{Name: "mode " + string(mode)}
	spec, err := Spec{Argv: []string{"true"}, MinLevel: mode.highest()}.withDefaults()
	if err == nil {
		var r Result
		if r, err = runMode(ctx, spec, mode, true); err == nil && r.State == StateCanceled {
			err = context.Cause(ctx)
		}
		if err == nil {
			iso := r.Isolation
			c.OK = true
			c.Detail = fmt.Sprintf("level %s, uid %d, %d probes, by %s", iso.Level, iso.UID, len(iso.Probes), iso.Root)
			if iso.Via != "" {
				c.Detail += ", via " + iso.Via
			}
			return c
		}
	}
	c.Detail = err.Error()
	var no *refusal
	if errors.As(err, &no) {
		c.Fix = fix(mode, no)
	}
	return c
}

func checkLandlock() Check {
	c := Check{Name: "landlock"}
	if abi := landlockABI(); abi > 0 {
		c.OK, c.Detail = true, fmt.Sprintf("ABI %d", abi)
		return c
	}
	c.Detail = "not available, or older than ABI 2"
	c.Fix = "use a kernel 5.19 or newer with landlock in the lsm= list; the other layers do not need it"
	return c
}

func checkCgroups() Check {
	g := newCgroup(DefaultLimits())
	defer g.remove()
	pids, memory, _ := g.limits()
	c := Check{Name: "cgroups", Detail: "pids by " + pids.By + ", memory by " + memory.By}
	if c.OK = g.pids != "" && g.memory != ""; !c.OK {
		c.Fix = "run as root, or under systemd-run --user --scope -p Delegate=yes; until then processes are limited by rlimit and memory is polled"
	}
	return c
}

// fix says what would make the host allow a mode that failed with r. It
// looks for reasons only after the fact: what counts is what was tried.
func fix(mode Mode, r *refusal) string {
	switch {
	case mode == ModeNone:
		return ""
	case r.Step == stepRelay:
		return "get mode rootdrop or userns to work here, or do without connect"
	case mode == ModeContainer && !r.Level:
		for step, fix := range map[string]string{
			"choose an image": "name an image that has what the tests need: isolation.image in the configuration",
			"find an engine":  "install docker or podman, and let this user use it",
			"inspect image":   "pull or build the image first: nothing is pulled here",
			"choose the cont": "build truegreen with CGO_ENABLED=0",
		} {
			if strings.HasPrefix(r.Step, step) {
				return fix
			}
		}
		return "look into what the engine said"
	case r.Level && strings.Contains(r.Errno, "net namespace"):
		return "a command with the host's network reaches level restricted at most"
	case r.Level:
		return "this host weakens the layer that the probe names; run on a host or in a virtual machine where it works"
	case mode == ModeRootDrop && os.Geteuid() != 0:
		return "run as root, or allow this user sudo without a password"
	case r.Errno == "ENOSYS":
		return "use a kernel 5.12 or newer, without an outer filter that hides its system calls"
	case !strings.HasPrefix(r.Step, "start process") && !slices.Contains([]string{"EPERM", "EACCES", "EINVAL", "EBUSY"}, r.Errno):
		return "the host did not forbid it: look into the step that failed"
	case inContainer():
		return "inside a container: start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined (and apparmor=unconfined where AppArmor is), or run on the host"
	case mode == ModeRootDrop:
		return "root lacks a capability here, most likely SYS_ADMIN: run on the host or in a virtual machine"
	}
	for _, k := range []struct{ file, bad, fix string }{
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"AppArmor restricts user namespaces: run as root (sudo), or install an AppArmor profile for this program with the userns permission"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1, or run as root (sudo)"},
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000, or run as root (sudo)"},
		{"/proc/sys/user/max_net_namespaces", "0", "sysctl user.max_net_namespaces=15000, or run as root (sudo)"},
	} {
		if b, err := os.ReadFile(k.file); err == nil && strings.TrimSpace(string(b)) == k.bad {
			return k.fix
		}
	}
	return "the kernel refused user namespaces or mounts in them: run as root (sudo)"
}

func inContainer() bool {
	for _, p := range []string{"/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io"} {
		if _, err := os.Lstat(p); err == nil {
			return true
		}
	}
	return false
}
