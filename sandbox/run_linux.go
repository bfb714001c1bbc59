//go:build amd64 || arm64

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// setupTimeout bounds what happens before the command starts.
const setupTimeout = 30 * time.Second

// Run runs one command and returns when every process of it is dead. An
// error means that no sandbox could be measured or started: the Spec is
// wrong, the context has ended already, or the host refuses, which is a
// [*RefusedError]. Whatever the command itself did is in the Result.
func Run(ctx context.Context, spec Spec) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("sandbox: %w", err)
	}
	spec, err := spec.withDefaults()
	if err != nil {
		return Result{}, err
	}
	var tried []Fallback
	for _, mode := range spec.Modes {
		if best := mode.highest(); best < spec.MinLevel {
			tried = append(tried, Fallback{
				Mode: mode, Why: "reaches level " + best.String() + " at most",
				Fix: fmt.Sprintf("accept level %d, or get a stronger mode to work here", best),
			})
			continue
		}
		r, err := runMode(ctx, spec, mode, false)
		var no *refusal
		switch {
		case err == nil:
			r.Isolation.Fallbacks = tried
			return r, nil
		case errors.As(err, &no) && !no.Spec:
			tried = append(tried, Fallback{Mode: mode, Why: no.Error(), Fix: fix(mode, no)})
			if ctx.Err() != nil {
				return Result{}, fmt.Errorf("sandbox: %w", context.Cause(ctx))
			}
		default:
			return Result{}, fmt.Errorf("sandbox %s: %w", mode, err)
		}
	}
	return Result{}, &RefusedError{Want: spec.MinLevel, Attempts: tried}
}

// An attempt is one command in one mode.
type attempt struct {
	spec   Spec
	result Result
	stage  *stageProcess
	cgroup *cgroup
	canary *canary
	relay  *relay
	view   *view
	usage  probeReport // limits as read back inside
	polled memoryPoll

	started bool // the command runs, or did

	mu    sync.Mutex
	cause State  // why kill was called first
	why   string // in words
	timer *time.Timer
}

func runMode(ctx context.Context, spec Spec, mode Mode, probeOnly bool) (Result, error) {
	if why := mode.cannotRelay(); why != "" && len(spec.Connect) > 0 {
		return Result{}, &refusal{Step: stepRelay, Errno: why}
	}
	switch {
	case len(spec.remote.without) > 0 && (!probeOnly || mode == ModeContainer || mode == ModeRootDrop && os.Geteuid() != 0):
		return Result{}, errors.New("layers are left out of probes only, and here only")
	case mode == ModeContainer:
		return runContainer(ctx, spec, probeOnly)
	case mode == ModeRootDrop && os.Geteuid() != 0:
		return runSudo(ctx, spec, mode, probeOnly)
	}
	a := &attempt{spec: spec}
	a.result = Result{Exit: -1, Isolation: Isolation{Mode: mode, Network: spec.Network, Kill: "pidns"}}
	config, ids, err := a.configure(mode)
	defer ids.held.release()
	defer a.view.remove()
	if err != nil {
		return Result{}, err
	}
	config.ProbeOnly, config.Without = probeOnly, spec.remote.without
	made := make(chan *cgroup, 1)
	go func() { made <- newCgroup(spec.Limits) }()
	defer func() {
		if a.cgroup == nil {
			a.cgroup = <-made
		}
		a.cgroup.remove()
	}()
	switch {
	case spec.remote.placed != nil:
		config.Canary, config.Placed = *spec.remote.placed, true
		config.Canary.PID, config.Canary.Start = os.Getpid(), startTime("/proc/self")
	case mode != ModeNone:
		if a.canary, err = plantCanary(mode, spec.Connect...); err != nil {
			return Result{}, err
		}
		defer a.canary.remove()
		config.Canary = a.canary.plan
	}
	a.cgroup = <-made
	if a.cgroup.pids == "" && !config.Same { // the caller's own uid has other processes
		config.Pids = int64(spec.Limits.Pids)
	}

	a.stage, err = startStage(mode, spec.Network, ids, config, a.cgroup)
	if err != nil {
		return Result{}, err
	}
	defer a.stage.close()
	defer func() { a.relay.close() }()
	a.timer = time.AfterFunc(setupTimeout, func() { a.kill(StateCouldNotStart, "setup took too long") })
	defer a.stop()
	stopCtx := context.AfterFunc(ctx, func() { a.kill(StateCanceled, context.Cause(ctx).Error()) })
	defer stopCtx()

	var streams sync.WaitGroup
	streams.Go(func() { a.result.Stdout = copyBounded(spec.Stdout, a.stage.stdout, spec.Limits.Output) })
	said := &firstLine{w: spec.Stderr}
	streams.Go(func() { a.result.Stderr = copyBounded(said, a.stage.stderr, spec.Limits.Output) })

	ended, err := a.follow(config)
	if err != nil {
		a.stage.kill()
	}
	usage := a.stage.wait()
	a.relay.close()
	if ids.held != nil {
		if e := sweepUID(ids.held.id); e != nil && err == nil {
			err = fmt.Errorf("kill what is left: %w", e)
		}
		sweepShared(ids.held.id)
		if e := a.view.giveBack(); e != nil && err == nil {
			err = fmt.Errorf("write back: %w", e)
		}
	}
	streams.Wait()
	if err != nil {
		var no *refusal
		if errors.As(err, &no) && no.Silent && len(said.line) > 0 {
			no.Errno += ": " + strings.ToValidUTF8(string(said.line), "?")
		}
		return Result{}, err
	}
	a.conclude(ended, usage)
	return a.result, nil
}

// configure turns the Spec into what the stages get.
func (a *attempt) configure(mode Mode) (stageConfig, idMap, error) {
	s := a.spec
	c := stageConfig{
		Mode: mode, Network: s.Network, Connect: s.Connect, Dir: []byte(s.Dir),
		Argv: toBytes(s.Argv), Env: toBytes(s.Env), Collect: toBytes(s.Collect),
		Disk: s.Limits.Disk, Inodes: s.Limits.Inodes, FileBytes: s.Limits.FileBytes, Memory: s.Limits.Memory,
	}
	ids, err := mapIDs(mode, s.Mounts)
	if err != nil {
		return c, ids, err
	}
	mapped := false
	for _, m := range s.Mounts {
		sm := stageMount{Source: []byte(m.Source), Target: []byte(m.Target), Kind: m.Kind}
		if sm.Mapped, err = s.remote.caller.owns(m); err != nil {
			return c, ids, err
		}
		mapped = mapped || sm.Mapped
		c.Mounts = append(c.Mounts, sm)
	}
	if mapped {
		if ids.mapping, err = s.remote.caller.mapping(ids.inside, ids.insideGID); err != nil {
			return c, ids, err
		}
	}
	c.UID, c.GID, c.Switch = ids.inside, ids.insideGID, ids.switches
	c.Same = mode.loose() && ids.held == nil
	if !mode.loose() {
		return c, ids, nil
	}
	switch {
	case mode == ModeNone:
		a.result.Isolation.Kill = "descendants"
	case c.Same:
		a.result.Isolation.Kill = "landlock-sweep"
	default:
		a.result.Isolation.Kill = "uid-sweep"
	}
	if s.remote.placed != nil {
		a.view = placedView(s.Mounts)
	} else if a.view, err = newView(s.Mounts, c.UID, c.GID, ids.held != nil); err != nil {
		return c, ids, err
	}
	a.view.apply(&c)
	return c, ids, nil
}

// follow reads the stage's events until it has ended, and lets the command
// start when the probes have shown enough. The report is nil if the stage
// ended without one.
func (a *attempt) follow(c stageConfig) (*endReport, error) {
	buf := make([]byte, maxEvent)
	for {
		kind, payload, err := readEvent(a.stage.report, buf)
		if err != nil {
			return nil, a.silence()
		}
		switch kind {
		case eventRefused:
			r := new(refusal)
			if err := json.Unmarshal(payload, r); err != nil {
				return nil, err
			}
			if cause, _ := a.killed(); cause != "" {
				return nil, a.silence()
			}
			return nil, r
		case eventEntered:
			a.result.Isolation.Root = string(payload)
			if len(c.Connect) > 0 {
				if a.relay, err = takeListeners(a.stage.listeners, c.Connect); err != nil {
					return nil, err
				}
				a.result.Isolation.Connect = c.Connect
			}
		case eventProbed:
			if err := json.Unmarshal(payload, &a.usage); err != nil {
				return nil, err
			}
			if err := a.judge(); err != nil {
				return nil, err
			}
			if c.ProbeOnly {
				return nil, a.stage.kill()
			}
			a.release()
		case eventNoStart:
			a.result.State, a.result.Why = StateCouldNotStart, string(payload)
			a.result.End = time.Now()
			return nil, nil
		case eventStarted:
			a.started = true
		case eventEnded:
			end := new(endReport)
			if err := json.Unmarshal(payload, end); err != nil {
				return nil, err
			}
			a.result.End = time.Now()
			a.stopTimer()
			if cause, _ := a.killed(); cause != "" && a.stage.loose {
				// A loose stage is asked to kill and reports that end, too.
				a.stage.proc.Kill()
				return nil, nil
			}
			a.collect(buf)
			return end, nil
		default:
			return nil, fmt.Errorf("stage sent event %q", kind)
		}
	}
}

// silence explains a stage that ended without saying how: we killed it, or
// something else did.
func (a *attempt) silence() error {
	cause, why := a.killed()
	if !a.started && cause != StateCanceled {
		if why == "" {
			return &refusal{Step: "sandbox process", Errno: "ended during setup", Silent: true}
		}
		return &refusal{Step: "sandbox process", Errno: why}
	}
	return nil
}

// judge measures from outside, computes the level and compares it.
func (a *attempt) judge() error {
	iso := &a.result.Isolation
	iso.Probes, iso.Seccomp, iso.Landlock, iso.Counted = a.usage.Probes, a.usage.Seccomp, a.usage.Landlock, a.usage.Counted
	if err := observe(a.stage.pid, iso, a.usage.Namespaces); err != nil {
		return &refusal{Step: "observe sandbox", Errno: err.Error()}
	}
	if a.canary != nil {
		iso.Probes = append(iso.Probes, a.canary.silent())
		a.canary.remove()
	}
	var lacks string
	iso.Level, lacks = level(*iso)
	if iso.Level < a.spec.MinLevel {
		return &refusal{Step: "measured level " + iso.Level.String(), Errno: lacks, Level: true}
	}
	if a.spec.remote.approve != nil {
		return a.spec.remote.approve(iso)
	}
	return nil
}

// release lets the command start and its clock run.
func (a *attempt) release() {
	a.stopTimer()
	a.mu.Lock()
	a.timer = time.AfterFunc(a.spec.Limits.Wall, func() {
		a.kill(StateTimeout, "still running after "+a.spec.Limits.Wall.String())
	})
	a.mu.Unlock()
	a.result.Start = time.Now()
	if a.cgroup.memory == "" {
		if a.usage.SharedFD > 0 {
			a.polled.shared = lookAtShared(a.stage.pid, a.usage.SharedFD)
		}
		a.polled.start(a.stage.pid, a.spec.Limits.Memory, func() { a.kill(StateSignaled, "over the memory limit") })
	}
	a.relay.start()
	a.stage.release()
}

// kill ends the attempt for the first cause given.
func (a *attempt) kill(cause State, why string) {
	a.mu.Lock()
	if a.cause == "" {
		a.cause, a.why = cause, why
	}
	a.mu.Unlock()
	a.stage.kill()
}

func (a *attempt) killed() (State, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cause, a.why
}

func (a *attempt) stopTimer() {
	a.mu.Lock()
	a.timer.Stop()
	a.mu.Unlock()
}

func (a *attempt) stop() {
	a.stopTimer()
	a.polled.stop()
}

// conclude fills in how the command ended and what limited it.
func (a *attempt) conclude(end *endReport, usage processUsage) {
	a.polled.stop()
	r := &a.result
	if r.End.IsZero() {
		r.End = time.Now()
	}
	if r.Start.IsZero() {
		r.Start = r.End
	}
	cause, why := a.killed()
	switch {
	case r.State == StateCouldNotStart:
	case end != nil:
		ws := unix.WaitStatus(end.Status)
		if ws.Signaled() {
			r.State, r.Signal = StateSignaled, unix.SignalName(ws.Signal())
		} else {
			r.State, r.Exit = StateExited, ws.ExitStatus()
		}
	default:
		r.State, r.Why = cause, why
		if cause == "" {
			r.State, r.Why = StateSignaled, "the sandbox was killed from outside"
		}
		r.Signal = "SIGKILL"
	}
	r.CPU, r.PeakMemory = usage.cpu, usage.maxRSS
	if end != nil {
		r.CPU, r.PeakMemory, r.Denied = time.Duration(end.CPU), end.MaxRSS, end.Denied
	}
	for i := len(r.Files); i < len(a.spec.Collect); i++ {
		r.Files = append(r.Files, File{Path: a.spec.Collect[i], Err: "the sandbox ended before it was read"})
	}
	a.limits(end)
}

func toBytes(s []string) [][]byte {
	b := make([][]byte, len(s))
	for i := range s {
		b[i] = []byte(s[i])
	}
	return b
}
