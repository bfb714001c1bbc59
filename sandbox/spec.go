package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"
)

// A Mode is a way to build the walls.
type Mode string

const (
	ModeRootDrop   Mode = "rootdrop"   // namespaces made as root, the command runs as an unused uid
	ModeUserNS     Mode = "userns"     // namespaces made inside a new user namespace
	ModeContainer  Mode = "container"  // a container of docker or podman, made of Spec.Image
	ModeRestricted Mode = "restricted" // no namespaces: Landlock, the filter and, for root, an unused uid
	ModeNone       Mode = "none"       // no walls; only when Spec.Modes names it
)

// DefaultModes returns the modes that are tried if a Spec names none, in order.
// For root: rootdrop, userns, container, restricted. For others userns comes first: their
// way to rootdrop is sudo, and nobody should become root who need not.
func DefaultModes() []Mode {
	if os.Geteuid() == 0 {
		return []Mode{ModeRootDrop, ModeUserNS, ModeContainer, ModeRestricted}
	}
	return []Mode{ModeUserNS, ModeRootDrop, ModeContainer, ModeRestricted}
}

// A Network says what the command can reach.
type Network string

const (
	NetworkNone Network = "none" // own network namespace, IPv4 and IPv6 loopback up
	NetworkHost Network = "host" // the host's network, for commands that fetch; at most level Restricted
)

// A MountKind says how Mount.Source appears at Mount.Target.
type MountKind int

const (
	ReadOnly MountKind = iota // recursive bind, read-only, nosuid, nodev
	Overlay                   // Source stays as it is; writes go to memory and are thrown away
	Scratch                   // empty directory in memory; Source is unused
	Writable                  // recursive bind of a host directory that the command may change
)

// A Mount adds a part of the host, or an empty directory, to the tree that
// the command sees. Target is absolute and clean; missing directories on the
// way to it are made, symbolic links on the way are an error. Mounts are made
// in order, so a later one can lie inside an earlier one. Modes without a
// mount namespace move paths instead of mounting: see "Moved paths".
type Mount struct {
	Source, Target string
	Kind           MountKind
}

// Limits bound a command. A zero field means the value in [DefaultLimits].
type Limits struct {
	Wall      time.Duration // from the start of the command to the end of its first process
	Pids      int           // processes and threads
	Memory    int64         // bytes, files in memory included where a cgroup counts
	Output    int64         // bytes kept of stdout and of stderr, each
	Disk      int64         // bytes in all writable places that are not Writable mounts
	Inodes    int64         // files in the same places
	Files     int           // collected files
	FileBytes int64         // bytes of all collected files together
}

// DefaultLimits returns the limits that stand for zero fields.
func DefaultLimits() Limits {
	return Limits{
		Wall:      10 * time.Minute,
		Pids:      4096,
		Memory:    8 << 30,
		Output:    64 << 20,
		Disk:      4 << 30,
		Inodes:    1 << 20,
		Files:     1024,
		FileBytes: 256 << 20,
	}
}

// A Spec describes one command. Nothing of the caller's environment,
// descriptors or working directory reaches it.
type Spec struct {
	Argv    []string // Argv[0] is looked up in the PATH of Env, inside
	Dir     string   // absolute path inside; "/" if empty
	Env     []string // complete: the command gets exactly this
	Mounts  []Mount
	Network Network // NetworkNone if empty
	Limits  Limits

	// MinLevel is the least level that the caller accepts. The command does
	// not start below it. The zero value accepts what was measured.
	MinLevel Level
	// Modes are tried in order; nil means [DefaultModes]. A mode that cannot
	// reach MinLevel is not tried.
	Modes []Mode

	// Stdout and Stderr receive at most Limits.Output bytes each; what
	// follows is read, counted and dropped. A writer that fails gets nothing
	// more, and Stream.Kept says how much it took.
	Stdout, Stderr io.Writer

	// Collect names regular files, by their path inside, that are read when
	// every process of the command is dead. Sink gets those that exist, in
	// order; a path that is a symbolic link, goes through one, or is
	// anything else than a regular file is refused (see File.Err).
	Collect []string
	Sink    func(path string, size int64, r io.Reader) error

	// Image is what the container mode makes its container of: a name or id
	// that the engine has already. Nothing is pulled. The PATH of the image
	// follows that of Env.
	Image string

	caller  *person                // whose files a remote supervisor shows to the command
	placed  *canaryPlan            // in a container: the mounts are in place, these are the host's canaries
	approve func(*Isolation) error // the last word before the command starts
	entry   string                 // of a container, instead of this program
	without []string               // layers to leave out, to see that the probes notice
}

// minPids leaves room for the threads of process 1.
const minPids = 16

// maxConfig bounds argv, environment and paths together, the way the kernel
// bounds them for one execve.
const maxConfig = 2 << 20

// withDefaults checks a Spec and fills in what it left out.
func (s Spec) withDefaults() (Spec, error) {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return Spec{}, errors.New("sandbox spec: no command")
	}
	if s.Dir == "" {
		s.Dir = "/"
	}
	switch s.Network {
	case "":
		s.Network = NetworkNone
	case NetworkNone, NetworkHost:
	default:
		return Spec{}, fmt.Errorf("sandbox spec: unknown network %q", s.Network)
	}
	if s.MinLevel < LevelNone || s.MinLevel > LevelKernel {
		return Spec{}, fmt.Errorf("sandbox spec: unknown level %d", s.MinLevel)
	}
	if s.Modes == nil {
		s.Modes = DefaultModes()
	}
	for _, m := range s.Modes {
		switch m {
		case ModeRootDrop, ModeUserNS, ModeContainer, ModeRestricted, ModeNone:
		default:
			return Spec{}, fmt.Errorf("sandbox spec: unknown mode %q", m)
		}
	}
	size := 0
	for _, list := range [][]string{s.Argv, s.Env, s.Collect} {
		for _, v := range list {
			if strings.IndexByte(v, 0) >= 0 {
				return Spec{}, fmt.Errorf("sandbox spec: NUL byte in %q", v)
			}
			size += len(v) + 1
		}
	}
	if size > maxConfig {
		return Spec{}, fmt.Errorf("sandbox spec: arguments, environment and paths take %d bytes, more than %d", size, maxConfig)
	}
	for _, v := range s.Env {
		if strings.IndexByte(v, '=') < 1 {
			return Spec{}, fmt.Errorf("sandbox spec: environment entry %q is not NAME=value", v)
		}
	}
	if !cleanAbs(s.Dir) {
		return Spec{}, fmt.Errorf("sandbox spec: working directory %q is not absolute and clean", s.Dir)
	}
	for _, m := range s.Mounts {
		if m.Kind < ReadOnly || m.Kind > Writable {
			return Spec{}, fmt.Errorf("sandbox spec: mount %q has an unknown kind", m.Target)
		}
		if !cleanAbs(m.Target) || m.Target == "/" {
			return Spec{}, fmt.Errorf("sandbox spec: mount target %q is not absolute, clean and below /", m.Target)
		}
		if m.Kind != Scratch && !cleanAbs(m.Source) {
			return Spec{}, fmt.Errorf("sandbox spec: mount source %q is not absolute and clean", m.Source)
		}
	}
	if len(s.Collect) > 0 && s.Sink == nil {
		return Spec{}, errors.New("sandbox spec: files to collect but no sink")
	}
	for _, p := range s.Collect {
		if !cleanAbs(p) {
			return Spec{}, fmt.Errorf("sandbox spec: path to collect %q is not absolute and clean", p)
		}
	}
	l, err := s.Limits.WithDefaults()
	if err != nil {
		return Spec{}, err
	}
	s.Limits = l
	if len(s.Collect) > s.Limits.Files {
		return Spec{}, fmt.Errorf("sandbox spec: %d files to collect, more than %d", len(s.Collect), s.Limits.Files)
	}
	return s, nil
}

// WithDefaults returns l with the values of [DefaultLimits] in its zero fields:
// what a command under l is held to. A negative limit is an error.
func (l Limits) WithDefaults() (Limits, error) {
	if l.Wall < 0 || l.Pids < 0 || l.Memory < 0 || l.Output < 0 || l.Disk < 0 || l.Inodes < 0 || l.Files < 0 || l.FileBytes < 0 {
		return Limits{}, errors.New("sandbox spec: negative limit")
	}
	if l.Pids > 0 && l.Pids < minPids {
		return Limits{}, fmt.Errorf("sandbox spec: a limit of %d processes leaves no room for process 1, want %d at least", l.Pids, minPids)
	}
	d := DefaultLimits()
	fill(&l.Wall, d.Wall)
	fill(&l.Pids, d.Pids)
	fill(&l.Memory, d.Memory)
	fill(&l.Output, d.Output)
	fill(&l.Disk, d.Disk)
	fill(&l.Inodes, d.Inodes)
	fill(&l.Files, d.Files)
	fill(&l.FileBytes, d.FileBytes)
	return l, nil
}

func fill[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

func cleanAbs(p string) bool {
	return strings.HasPrefix(p, "/") && path.Clean(p) == p && strings.IndexByte(p, 0) < 0
}
