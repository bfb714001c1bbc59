package sandbox

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// A State says how a command ended.
type State string

const (
	StateExited        State = "exited"          // Exit holds the code
	StateSignaled      State = "signaled"        // Signal holds the name, Why the cause if it was ours
	StateTimeout       State = "timeout"         // killed at Limits.Wall
	StateCanceled      State = "canceled"        // killed because the context ended
	StateCouldNotStart State = "could-not-start" // Why holds the reason: not found, not executable, …
)

// A Result is what a command did and what was measured around it.
type Result struct {
	State  State
	Exit   int    // exit code, -1 unless State is exited
	Signal string // such as "SIGKILL"
	Why    string

	Start, End time.Time
	CPU        time.Duration // user and system time of the command and all its descendants
	// PeakMemory is the cgroup's peak where a cgroup limits memory, else the
	// largest resident set of any one process.
	PeakMemory int64

	Stdout, Stderr Stream
	Isolation      Isolation
	Files          []File // one per Spec.Collect, in order
	// Denied counts what the command tried, and was refused, of the system calls
	// that nested sandboxes begin with. It is empty unless Isolation.Counted,
	// and after a command that was killed together with process 1.
	Denied []Denied
}

// Denied is how often one system call was refused: clone or unshare with
// namespace flags, setns, mount, pivot_root or chroot.
type Denied struct {
	Name  string
	Count int64
}

// A Stream counts one output stream.
type Stream struct {
	Total int64 // bytes that the command wrote
	Kept  int64 // bytes that the writer took
}

// A File is the fate of one path of Spec.Collect.
type File struct {
	Path string
	Size int64  // bytes handed to the sink
	Err  string // why it was not collected; empty if it was
}

// Isolation is what was measured, by probes from inside before the command
// started and by reading the kernel's account of the process from outside.
type Isolation struct {
	Level Level
	Mode  Mode
	Via   string // "sudo", or name and version of the engine; else empty
	Image string // config digest of the container's image
	// ImageDigest is the image's name by repository digest, where it has one.
	ImageDigest string
	Network     Network
	Connect     []netip.AddrPort // ports of the host that were relayed
	UID         int              // on the host
	Namespaces  []string         // those that differ from the caller's: cgroup, ipc, mnt, net, pid, user, uts
	NoNewPrivs  bool             // on every thread
	CapsEmpty   bool             // no thread holds a capability or can get one (all five sets, the bounding set only without no_new_privs)
	Seccomp     bool             // a filter was in force where the probes ran
	Landlock    int              // ABI whose rights were applied, 0 for none
	Counted     bool             // refused calls are counted: those of the probes were (see Result.Denied)
	Kill        string           // what ends every process: "pidns", "container", "uid-sweep", "landlock-sweep" or "descendants"
	Root        string           // how the tree was entered: "pivot_root", "chroot", or "moved" where nothing was mounted
	Probes      []Probe
	Limits      []Limit
	Fallbacks   []Fallback // modes that were tried before and refused
}

// A Probe is one attempt made from inside.
type Probe struct {
	Name string
	Got  string // errno name, "ok", or a fact
	OK   bool   // Got is what the strong modes give
}

// A Limit is one bound with the party that enforces it: "supervisor",
// "cgroup2", "cgroup1", "rlimit", "tmpfs", "ipcns", "polled" or "none". Value is
// read back from that party. Peak is 0 where nobody knows it.
type Limit struct {
	Name, By    string
	Value, Peak int64
	Hit         bool
}

// A Fallback is a mode that the host refused.
type Fallback struct {
	Mode Mode
	Why  string
	Fix  string // what would change this host's mind
}

// A RefusedError reports that no mode reached the level asked for. The
// command did not start.
type RefusedError struct {
	Want     Level
	Attempts []Fallback
}

func (e *RefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sandbox refused at level %s", e.Want)
	for _, a := range e.Attempts {
		fmt.Fprintf(&b, "; %s: %s", a.Mode, a.Why)
		if a.Fix != "" {
			fmt.Fprintf(&b, " (%s)", a.Fix)
		}
	}
	return b.String()
}

// A Check is one thing that Doctor tried.
type Check struct {
	Name   string
	OK     bool
	Detail string
	Fix    string // empty if OK
}
