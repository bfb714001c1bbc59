package sandbox

import "slices"

// A Level says how far the command was kept apart, as probed. Higher is
// stronger.
type Level int

const (
	LevelNone       Level = iota // nothing was found to hold
	LevelRestricted              // no privileges, filtered system calls, no sight of the caller's files and processes
	LevelContainer               // the probes of LevelNamespaces hold, and an engine, docker or podman, made the walls
	LevelNamespaces              // own pid, mnt, net, ipc and uts namespaces, and every probe failed as it should
	LevelKernel                  // another kernel (reserved)
)

func (l Level) String() string {
	switch l {
	case LevelNone:
		return "none"
	case LevelRestricted:
		return "restricted"
	case LevelContainer:
		return "container"
	case LevelNamespaces:
		return "namespaces"
	case LevelKernel:
		return "kernel"
	}
	return "unknown"
}

// highest returns the level that a mode cannot exceed.
func (m Mode) highest() Level {
	switch m {
	case ModeNone:
		return LevelNone
	case ModeRestricted:
		return LevelRestricted
	case ModeContainer:
		return LevelContainer
	}
	return LevelNamespaces
}

// level computes the level from measurements alone: it never looks at the
// mode that was asked for. The second result says what the next level lacks.
func level(iso Isolation) (Level, string) {
	restricted := []string{
		"canary_file", "canary_environ", "canary_process",
		"write_usr", "write_root", "mount", "new_userns", "keyctl", "vsock", "open_fds", "own_environ",
	}
	namespaces := []string{
		"canary_tcp", "canary_udp", "canary_abstract", "canary_socket", "canaries_silent",
		"route_out", "read_only", "capabilities",
	}
	switch {
	case iso.UID == 0:
		return LevelNone, "runs as uid 0"
	case !iso.CapsEmpty:
		return LevelNone, "holds capabilities"
	case !iso.NoNewPrivs:
		return LevelNone, "can gain privileges by exec"
	case !iso.Seccomp:
		return LevelNone, "no system call filter"
	case iso.Landlock == 0 && !slices.Contains(iso.Namespaces, "mnt"):
		return LevelNone, "neither Landlock nor an own mount namespace"
	}
	if why := firstMissing(iso.Probes, restricted); why != "" {
		return LevelNone, why
	}
	for _, ns := range []string{"pid", "mnt", "net", "ipc", "uts"} {
		if !slices.Contains(iso.Namespaces, ns) {
			return LevelRestricted, "shares the " + ns + " namespace"
		}
	}
	if why := firstMissing(iso.Probes, namespaces); why != "" {
		return LevelRestricted, why
	}
	if iso.Image != "" {
		return LevelContainer, "an engine made the walls"
	}
	return LevelNamespaces, ""
}

func firstMissing(probes []Probe, names []string) string {
	for _, name := range names {
		i := slices.IndexFunc(probes, func(p Probe) bool { return p.Name == name })
		switch {
		case i < 0:
			return "probe " + name + " did not run"
		case !probes[i].OK:
			return "probe " + name + " got " + probes[i].Got
		}
	}
	return ""
}
