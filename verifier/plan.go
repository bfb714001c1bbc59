package verifier

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/truegreen-dev/truegreen/receipts"
)

// Where the configuration of a plan came from.
const (
	SourceBase     = "base"     // .truegreen.yaml at the base
	SourceDetected = "detected" // no such file: what the base's tree shows
	SourceHead     = "head"     // the base is the empty tree: from the patch itself
	SourceCommand  = "command"  // given by hand, behind --
)

// The trees that tests run on: the two of the patch, and two that are mixed of
// them. What belongs to the tests is told by [Trees].
const (
	SideBase     = "base"
	SideHead     = "head"
	SideHybrid   = "hybrid"   // the base's code with the head's tests: do they fail without the change?
	SideRestored = "restored" // the head's code with the base's tests: does it pass what it had to pass before?
)

// What a run is for that is not the plain command.
const (
	PurposeBuild   = "build"      // of one Go package's test binary, which the next ones run
	PurposePackage = "package"    // the tests of one Go package, from its binary
	PurposeIsolate = "isolate"    // the same without the tests that ended the process before
	PurposeRepeat  = "repeat"     // some tests again, in a fresh process, in another order
	PurposeCanary  = "canary"     // a test that must fail and turn the run red
	PurposeCover   = "cover"      // all tests again, counting executed lines
	PurposeShuffle = "shuffle"    // all tests again, in another order
	PurposeNoCI    = "without-ci" // the tests of a package that reads what a CI sets, without it
	PurposeReach   = "reach"      // failed tests again, counting which changed lines they execute
	PurposeMutant  = "mutant"     // the tests of a package on code that was changed on purpose
)

// FormatGoBinary is what a Go test binary puts out that is run by itself. No
// entry of a configuration has it.
const FormatGoBinary = "go-binary"

// The places inside a sandbox. They are the same on every machine, so that two
// runs of one patch have the same args.
const (
	WorkDir    = "/src"          // the tested tree
	OutDir     = "/out"          // where a command leaves its report files
	HomeDir    = "/home/sandbox" // HOME
	OverlayDir = "/overlay"      // what the go command lays over the tree
	TestsDir   = "/tests"        // test binaries that an earlier call built
)

// A Plan is the document that says which calls a run makes to test a patch. It
// follows from patch, configuration and the two trees, so whoever verifies the
// run computes it again; see [NewPlan].
type Plan struct {
	V          int              `json:"v"`
	Patch      receipts.Digest  `json:"patch"`
	Config     receipts.Digest  `json:"config"`
	Source     string           `json:"source"`
	Program    string           `json:"program,omitempty"` // version of the truegreen that made the run; nobody compares it with its own
	Level      int              `json:"level"`             // of evidence that the run tries to reach
	Canary     receipts.Digest  `json:"canary"`            // 32 random bytes; names the canaries, and orders what is chosen or shuffled
	Go         *GoFacts         `json:"go,omitempty"`
	Runs       []PlannedRun     `json:"runs"`
	NotCovered []receipts.Bytes `json:"not_covered,omitempty"` // what detection saw and left out
}

// SourceText says in words where the configuration of a plan came from.
func SourceText(source string) string {
	return map[string]string{
		SourceBase:     ConfigFile + " at the base",
		SourceDetected: "detected at the base",
		SourceHead:     "from the patch itself: its base is the empty tree",
		SourceCommand:  "command given by hand",
	}[source]
}

// GoFacts are what the go command goes by when it chooses files and packages.
type GoFacts struct {
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Version string `json:"version"` // such as go1.26.5
	Cgo     bool   `json:"cgo"`
}

// A PlannedRun is one run of a test command, or of a part of it, on one tree.
// Those of a plan are the plain commands; more follow from what they come to: see
// [Judgement.Next].
type PlannedRun struct {
	Name    string           `json:"name"`
	Side    string           `json:"side"`
	Round   int              `json:"round"` // counts the runs of an entry on a side, from 1
	Purpose string           `json:"purpose,omitempty"`
	Package receipts.Bytes   `json:"package,omitempty"`
	Format  string           `json:"format"`
	Argv    []receipts.Bytes `json:"argv"`
	Dir     receipts.Bytes   `json:"dir"`
	Report  receipts.Bytes   `json:"report,omitempty"`   // a name below [OutDir]
	Lines   receipts.Bytes   `json:"coverage,omitempty"` // likewise, of a report of executed lines
	Env     []receipts.Bytes `json:"env,omitempty"`      // of the configuration
	Timeout int64            `json:"timeout_s"`
	Connect []string         `json:"connect,omitempty"` // loopback ports of the host in reach
	Network string           `json:"network,omitempty"` // "host"; else none
	Skip    string           `json:"skip,omitempty"`    // not run, and why

	inputs []Input
	only   []string // the tests that are selected, of those with a purpose; nil: all
	mutant int      // index of the mutant
}

// An Input is a file that a run gets beside its tree, and its name below the
// root: of [OverlayDir] or [TestsDir].
type Input struct {
	Name    string
	Content []byte
	Built   uint64          // instead: what this call built
	Digest  receipts.Digest // of the content
	Size    int64
}

// WithoutCI reports whether the run has none of the variables that tell a program
// that it runs in continuous integration.
func (p *PlannedRun) WithoutCI() bool { return p.Purpose == PurposeNoCI }

// Inputs returns what the run gets beside its tree.
func (p *PlannedRun) Inputs() []Input { return p.inputs }

// Why a planned run is not run.
const (
	SkipPaths     = "no changed path matches"
	SkipEmptyBase = "the base is the empty tree"
	SkipBase      = "the base is not run"
	SkipImported  = "its result is taken from an earlier run"
	SkipBudget    = "the budget of evidence.budget was used up"
)

// Cuttable reports whether the budget can leave the run out, or shorten it. The
// first run on the head never is.
func (p *PlannedRun) Cuttable() bool { return p.Side != SideHead || p.Round > 1 || p.Purpose != "" }

// RunVariable is the variable of the environment that tells the runs of an
// entry apart, by [PlannedRun.ID].
const RunVariable = "TRUEGREEN_RUN"

// ID returns a name for a run that is another one for each run of an entry, and
// that tells nobody who does not know the plan which run it is.
func (p *Plan) ID(r *PlannedRun) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "truegreen/v1 run\x00%s\x00%s\x00%s\x00%d", p.Canary, r.Name, r.Side, r.Round))
	return hex.EncodeToString(sum[:6])
}

// NetworkName returns the network that a run has: [NetworkNone] or [NetworkHost].
func (p *PlannedRun) NetworkName() string { return cmp.Or(p.Network, NetworkNone) }

// Sides says which sides of a patch are to be run.
type Sides struct {
	// EmptyBase: there is no base to run, the head is the first commit.
	EmptyBase bool
	// HeadOnly: the base is left out at the caller's wish.
	HeadOnly bool
	// Level of evidence to try for, where it is above the configuration's.
	Level int
	// Program is the version of the program that makes the run.
	Program string
}

// NewPlan returns the plan for a patch: for every entry of the configuration
// its command on the head, then on the base. What further runs follow is told by
// their results.
func NewPlan(patch, config receipts.Digest, c *Config, source string, trees *Trees, sides Sides, canary receipts.Digest) Plan {
	plan := Plan{V: receipts.DocumentVersion, Patch: patch, Config: config, Source: source, Program: sides.Program, Level: max(sides.Level, c.Evidence.Level), Canary: canary, Go: trees.facts, Runs: []PlannedRun{}}
	for i := range c.Test {
		e := &c.Test[i]
		skip := ""
		if len(e.Paths) > 0 && !MatchPath(e.Paths, trees.changed) {
			skip = SkipPaths
		}
		for _, side := range [...]string{SideHead, SideBase} {
			run := planned(e, side, trees)
			run.Round, run.Skip = 1, skip
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

// planned returns the plain command of an entry on one tree.
func planned(e *TestEntry, side string, trees *Trees) PlannedRun {
	argv, env := commandLine(e, false), e.Env
	if c := trees.control(e, side); c != nil {
		argv, env = c.command()
	}
	lines := ""
	if side == SideHead {
		lines = e.Coverage
	}
	return PlannedRun{
		Name: e.Name, Side: side, Format: e.Format, Argv: asBytes(argv),
		Dir: receipts.Bytes(e.Dir), Report: receipts.Bytes(e.Report), Lines: receipts.Bytes(lines), Env: asBytes(env), Timeout: int64(e.Timeout),
		Connect: e.Connect, Network: e.Network,
	}
}

// commandLine returns the command of an entry as it is run: a go test tells its
// results as events, never from its cache, and with a canary laid over its packages
// where it can have one.
func commandLine(e *TestEntry, canary bool) []string {
	if !isGoTest(e) {
		return e.Run
	}
	argv := []string{e.Run[0], "test"}
	for _, flag := range [...]string{"-json", "-count=1"} {
		if !slices.Contains(e.Run, flag) {
			argv = append(argv, flag)
		}
	}
	if canary {
		argv = append(argv, overlayFlag(e.Dir))
	}
	return append(argv, e.Run[2:]...)
}

func isGoTest(e *TestEntry) bool {
	return e.Format == FormatGo && len(e.Run) >= 2 && path.Base(e.Run[0]) == "go" && e.Run[1] == "test"
}

// overlayFlag returns the go command's flag for an overlay, relative to the folder
// that it is run in, because not every sandbox can give paths their own names.
func overlayFlag(dir string) string {
	return "-overlay=" + fromDir(dir) + OverlayDir + "/" + overlayFile
}

// fromDir returns the root of the file system, relative to a folder of the tree
// and without a slash at its end.
func fromDir(dir string) string {
	up := ".."
	if dir != "" && dir != "." {
		up += strings.Repeat("/..", strings.Count(dir, "/")+1)
	}
	return up
}

// maxProgram bounds the name of a version.
const maxProgram = 256

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
	if len(p.Program) > maxProgram {
		return Plan{}, fmt.Errorf("plan document: program: %d bytes: the limit is %d", len(p.Program), maxProgram)
	}
	return p, nil
}

// sides returns what the plan itself says about the sides that are run.
func (p *Plan) sides() Sides {
	s := Sides{Level: min(max(p.Level, LevelRan), LevelMutants), Program: p.Program}
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
