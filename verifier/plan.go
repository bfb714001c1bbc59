package verifier

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/truegreen-dev/truegreen/receipts"
)

// Where the configuration of a plan came from.
const (
	SourceBase     = "base"     // .truegreen.yaml at the base
	SourceDetected = "detected" // no such file: what the base's tree shows
	SourceHead     = "head"     // the base is the empty tree: from the patch itself
	SourceCommand  = "command"  // given by hand, behind --
)

// The sides of a patch.
const (
	SideBase = "base"
	SideHead = "head"
)

// The places inside a sandbox. They are the same on every machine, so that two
// runs of one patch have the same args.
const (
	WorkDir = "/src"          // the tested tree
	OutDir  = "/out"          // where a command leaves its report files
	HomeDir = "/home/sandbox" // HOME
)

// A Plan is the document that says which calls a run makes to test a patch. It
// follows from patch, configuration and the two trees, so whoever verifies the
// run computes it again; see [NewPlan].
type Plan struct {
	V          int              `json:"v"`
	Patch      receipts.Digest  `json:"patch"`
	Config     receipts.Digest  `json:"config"`
	Source     string           `json:"source"`
	Runs       []PlannedRun     `json:"runs"`
	NotCovered []receipts.Bytes `json:"not_covered,omitempty"` // what detection saw and left out
}

// A PlannedRun is one test command on one side.
type PlannedRun struct {
	Name    string           `json:"name"`
	Side    string           `json:"side"`
	Round   int              `json:"round"`
	Format  string           `json:"format"`
	Argv    []receipts.Bytes `json:"argv"`
	Dir     receipts.Bytes   `json:"dir"`
	Report  receipts.Bytes   `json:"report,omitempty"` // a name below [OutDir]
	Env     []receipts.Bytes `json:"env,omitempty"`    // of the configuration
	Timeout int64            `json:"timeout_s"`
	Connect []string         `json:"connect,omitempty"` // loopback ports of the host in reach
	Network string           `json:"network,omitempty"` // "host"; else none
	Skip    string           `json:"skip,omitempty"`    // not run, and why
}

// Why a planned run is not run.
const (
	SkipPaths     = "no changed path matches"
	SkipEmptyBase = "the base is the empty tree"
	SkipBase      = "the base is not run"
)

// RunVariable is the variable of the environment that tells the runs of an
// entry apart, by [PlannedRun.ID].
const RunVariable = "TRUEGREEN_RUN"

// ID returns the side and the round of a run, such as "head-1".
func (p *PlannedRun) ID() string { return fmt.Sprintf("%s-%d", p.Side, p.Round) }

// NetworkName returns the network that a run has: [NetworkNone] or [NetworkHost].
func (p *PlannedRun) NetworkName() string { return cmp.Or(p.Network, NetworkNone) }

// Sides says which sides of a patch are to be run.
type Sides struct {
	// EmptyBase: there is no base to run, the head is the first commit.
	EmptyBase bool
	// HeadOnly: the base is left out at the caller's wish.
	HeadOnly bool
}

// NewPlan returns the plan for a patch: for every entry of the configuration
// its command on the base, then on the head.
func NewPlan(patch, config receipts.Digest, c *Config, source string, changed []string, sides Sides) Plan {
	plan := Plan{V: receipts.DocumentVersion, Patch: patch, Config: config, Source: source, Runs: []PlannedRun{}}
	for i := range c.Test {
		e := &c.Test[i]
		skip := ""
		if len(e.Paths) > 0 && !MatchPath(e.Paths, changed) {
			skip = SkipPaths
		}
		for _, side := range [...]string{SideBase, SideHead} {
			run := PlannedRun{
				Name: e.Name, Side: side, Round: 1, Format: e.Format, Argv: asBytes(commandLine(e)),
				Dir: receipts.Bytes(e.Dir), Report: receipts.Bytes(e.Report), Env: asBytes(e.Env), Timeout: int64(e.Timeout),
				Connect: e.Connect, Network: e.Network, Skip: skip,
			}
			switch {
			case skip != "" || side == SideHead:
			case sides.EmptyBase:
				run.Skip = SkipEmptyBase
			case sides.HeadOnly:
				run.Skip = SkipBase
			}
			plan.Runs = append(plan.Runs, run)
		}
	}
	return plan
}

// commandLine returns the command of an entry as it is run: a go test tells its
// results as events, and never from its cache.
func commandLine(e *TestEntry) []string {
	if e.Format != FormatGo || len(e.Run) < 2 || path.Base(e.Run[0]) != "go" || e.Run[1] != "test" {
		return e.Run
	}
	argv := []string{e.Run[0], "test"}
	for _, flag := range [...]string{"-json", "-count=1"} {
		if !slices.Contains(e.Run, flag) {
			argv = append(argv, flag)
		}
	}
	return append(argv, e.Run[2:]...)
}

// ParsePlan reads a plan document.
func ParsePlan(doc []byte) (Plan, error) {
	var p Plan
	if err := receipts.Decode(doc, &p); err != nil {
		return Plan{}, fmt.Errorf("plan %w", err)
	}
	if p.V != receipts.DocumentVersion {
		return Plan{}, fmt.Errorf("plan document: unknown version %d", p.V)
	}
	switch p.Source {
	case SourceBase, SourceDetected, SourceHead, SourceCommand:
	default:
		return Plan{}, fmt.Errorf("plan document: source %q: unknown", p.Source)
	}
	return p, nil
}

// sides returns what the plan itself says about the sides that are run.
func (p *Plan) sides() Sides {
	var s Sides
	for i := range p.Runs {
		s.EmptyBase = s.EmptyBase || p.Runs[i].Skip == SkipEmptyBase
		s.HeadOnly = s.HeadOnly || p.Runs[i].Skip == SkipBase
	}
	return s
}

func asBytes(list []string) []receipts.Bytes {
	if len(list) == 0 {
		return nil
	}
	out := make([]receipts.Bytes, len(list))
	for i, s := range list {
		out[i] = receipts.Bytes(s)
	}
	return out
}

// Changed returns the paths at which two listings differ, in order.
func Changed(base, head []TreeEntry) []string {
	var paths []string
	i, j := 0, 0
	for i < len(base) || j < len(head) {
		switch {
		case j == len(head) || i < len(base) && base[i].Path < head[j].Path:
			paths = append(paths, base[i].Path)
			i++
		case i == len(base) || head[j].Path < base[i].Path:
			paths = append(paths, head[j].Path)
			j++
		default:
			if base[i].Mode != head[j].Mode || base[i].ID != head[j].ID {
				paths = append(paths, head[j].Path)
			}
			i, j = i+1, j+1
		}
	}
	return paths
}
