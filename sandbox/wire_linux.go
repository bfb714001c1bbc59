//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
)

// The supervisor hands a stage its configuration in a file and reads events
// from a pipe. An event is a kind, a 32-bit big-endian length and a payload.

const (
	eventRefused = 'R' // refusal: the host does not allow a layer
	eventEntered = 'T' // how the tree was entered, as text
	eventProbed  = 'P' // probeReport; the stage then waits for one byte
	eventNoStart = 'N' // why, as text
	eventStarted = 'B' // the command runs
	eventEnded   = 'E' // endReport: the command and all that it started are dead
	eventFile    = 'F' // fileReport: one collected path
	eventData    = 'D' // bytes of the file announced before
	eventDone    = 'Z'
)

const maxEvent = 64 << 10

// stageConfig is all that the stages know. Strings that may hold any byte
// travel as []byte, since JSON would change them.
type stageConfig struct {
	Mode      Mode
	Network   Network
	Connect   []netip.AddrPort
	UID, GID  int  // inside
	Switch    bool // take UID and GID before mounting (user namespace made by root)
	Same      bool // UID is the caller's own
	Mounts    []stageMount
	Argv, Env [][]byte
	Dir       []byte
	Collect   [][]byte
	Disk      int64
	Inodes    int64
	FileBytes int64
	Memory    int64
	Pids      int64 // for RLIMIT_NPROC, 0 to leave it
	Canary    canaryPlan
	ProbeOnly bool
	Without   []string // layers to leave out; nothing but the probes runs then

	// Without mounts: where /tmp is, and the host's paths that the command may
	// read, or read and change.
	Placed      bool // in a container: the canaries are the host's
	Tmp         string
	Read, Write [][]byte
}

// mounts reports whether the mode builds its tree with mounts.
func (c *stageConfig) mounts() bool {
	return !c.Mode.loose() && !c.lacks("mnt")
}

// The layers that can be left out: the namespaces by their names in /proc, and
// these.
const (
	layerSeccomp  = "seccomp"
	layerLandlock = "landlock"
	layerNoPrivs  = "no_new_privs"
	layerCaps     = "capabilities"
	layerUID      = "uid"
	layerReadOnly = "read-only"
	layerCloexec  = "close-on-exec"
)

func (c *stageConfig) lacks(layer string) bool { return slices.Contains(c.Without, layer) }

type stageMount struct {
	Source, Target []byte
	Kind           MountKind
	Mapped         bool // the owner's files appear as the command's
}

// refusal is a step of the setup that failed.
type refusal struct {
	Step  string
	Errno string
	Spec  bool // the Spec is at fault, not the host
	Level bool // everything could be built, and was not enough

	Silent bool // the stage ended without a report; what it printed may say why
}

func (r *refusal) Error() string { return r.Step + ": " + r.Errno }

type probeReport struct {
	Namespaces map[string]string // as ownNamespaces has them
	Probes     []Probe
	Seccomp    bool
	Landlock   int
	Counted    bool
	Disk       int64
	Inodes     int64
	Pids       int64
	Shared     int64 // bytes of System V shared memory that the kernel allows, 0 if it is no limit
	SharedFD   int   // list of System V shared memory, where the kernel does not limit it and the namespace is ours
}

type endReport struct {
	Status     uint32 // as from wait4
	CPU        int64  // nanoseconds
	MaxRSS     int64
	DiskUsed   int64
	InodesUsed int64
	Denied     []Denied
}

type fileReport struct {
	Index int
	Size  int64
	Err   string
}

func writeEvent(w io.Writer, kind byte, payload []byte) error {
	var head [5]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

func writeJSON(w io.Writer, kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeEvent(w, kind, b)
}

// readEvent reads one event into buf, which has room for maxEvent bytes.
func readEvent(r io.Reader, buf []byte) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxEvent {
		return 0, nil, fmt.Errorf("event of %d bytes", n)
	}
	if _, err := io.ReadFull(r, buf[:n]); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return head[0], buf[:n], nil
}
