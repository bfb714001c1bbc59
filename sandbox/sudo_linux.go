//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// sudoPaths lists where sudo is. The caller's PATH has no say in what becomes
// root.
var sudoPaths = []string{"/usr/bin/sudo", "/run/wrappers/bin/sudo", "/usr/local/bin/sudo"}

// runSudo has a remote supervisor run the Spec as root, if sudo lets this user
// do so without a password.
func runSudo(ctx context.Context, spec Spec, mode Mode, probeOnly bool) (Result, error) {
	sudo := ""
	for _, p := range sudoPaths {
		if info, err := os.Stat(p); err == nil && info.Mode()&os.ModeSetuid != 0 {
			sudo = p
			break
		}
	}
	noRoot := &refusal{Step: "start as root", Errno: "the caller is not root, and there is no sudo"}
	if sudo == "" || threadStatus("NoNewPrivs") != "0" {
		return Result{}, noRoot
	}
	self, err := os.Executable()
	if err != nil {
		return Result{}, noRoot
	}
	p, err := startRemote(sudo, []string{"sudo", "-n", "--", self, nameRemote}, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"})
	if err != nil {
		return Result{}, &refusal{Step: "start sudo", Errno: errnoText(err)}
	}
	defer p.close()
	r, err := p.run(ctx, spec, mode, probeOnly)
	if errors.Is(err, errNoHello) {
		why := "it did not start this program"
		if text := p.complaint(); text != "" {
			why = text
		}
		return Result{}, &refusal{Step: "start as root with sudo -n", Errno: why}
	}
	r.Isolation.Via = "sudo"
	return r, err
}

var errNoHello = errors.New("the remote supervisor did not start")

// A remoteProcess is a remote supervisor and what leads to it.
type remoteProcess struct {
	proc   *os.Process
	in     *os.File // its standard input: closing it ends the run
	out    *os.File
	errOut *os.File
	said   []byte
	ended  sync.WaitGroup

	// Of a container.
	inside  *canaryPlan
	path    string
	approve func(judgement) error
}

func startRemote(path string, argv, env []string) (*remoteProcess, error) {
	p := &remoteProcess{}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	for i, ours := range []**os.File{&p.in, &p.out, &p.errOut} {
		r, w, err := os.Pipe()
		if err != nil {
			p.closeFiles()
			return nil, err
		}
		if i == 0 {
			r, w = w, r
		}
		*ours, theirs = r, append(theirs, w)
	}
	var err error
	p.proc, err = os.StartProcess(path, argv, &os.ProcAttr{
		Dir: "/", Env: env, Files: theirs,
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		p.closeFiles()
		return nil, err
	}
	p.ended.Go(func() { p.said, _ = io.ReadAll(io.LimitReader(p.errOut, 4<<10)) })
	return p, nil
}

func (p *remoteProcess) run(ctx context.Context, spec Spec, mode Mode, probeOnly bool) (Result, error) {
	hello := time.AfterFunc(setupTimeout, func() { p.out.SetReadDeadline(time.Now()) })
	kind, _, err := readEvent(p.out, make([]byte, maxEvent))
	if !hello.Stop() || err != nil || kind != eventHello {
		return Result{}, errNoHello
	}
	// A run that is not wanted any more still reports how it ended.
	stop := context.AfterFunc(ctx, func() {
		p.in.Close()
		p.out.SetReadDeadline(time.Now().Add(setupTimeout))
	})
	defer stop()
	rs := remoteSpec{
		Argv: toBytes(spec.Argv), Env: toBytes(spec.Env), Collect: toBytes(spec.Collect), Dir: []byte(spec.Dir), Network: spec.Network,
		Connect: spec.Connect, Limits: spec.Limits, MinLevel: spec.MinLevel, Mode: mode, ProbeOnly: probeOnly,
		Caller: person{UID: os.Geteuid(), GID: os.Getegid()}, Placed: p.inside, Path: p.path,
	}
	if p.inside != nil {
		rs.MinLevel = LevelNone // judged from outside
	}
	for _, m := range spec.Mounts {
		rs.Mounts = append(rs.Mounts, stageMount{Source: []byte(m.Source), Target: []byte(m.Target), Kind: m.Kind})
	}
	var refused error
	v := &receiver{spec: &spec, judged: func(j judgement) error {
		if p.approve == nil {
			return errors.New("unexpected judgement")
		}
		if refused = p.approve(j); refused != nil {
			return refused
		}
		return writeEvent(p.in, eventGo, nil)
	}}
	err = writeSpec(p.in, rs)
	if err == nil && p.inside != nil {
		err = carry(&eventWriter{w: p.in}, spec.Mounts)
	}
	if err == nil {
		err = v.receive(p.out)
	}
	if err != nil {
		switch cause := context.Cause(ctx); {
		case refused != nil:
			return Result{}, refused
		case cause != nil:
			return Result{}, cause
		case errors.Is(err, io.EOF):
			err = errors.New("the remote supervisor ended without a result")
		}
		return Result{}, err
	}
	switch {
	case v.result.Refused != nil:
		return Result{}, v.result.Refused
	case v.result.Err != "":
		return Result{}, errors.New(v.result.Err)
	}
	r := v.conclude()
	if r.State == StateCanceled {
		r.Why = context.Cause(ctx).Error()
	}
	return r, nil
}

// complaint returns what sudo said, in one line.
func (p *remoteProcess) complaint() string {
	p.in.Close()
	p.proc.Wait()
	p.ended.Wait()
	line, _, _ := strings.Cut(strings.TrimSpace(string(p.said)), "\n")
	return strings.TrimPrefix(line, "sudo: ")
}

// close ends the remote supervisor, which takes its sandbox along, and waits.
func (p *remoteProcess) close() {
	p.in.Close()
	p.out.Close()
	p.proc.Wait()
	p.errOut.Close()
	p.ended.Wait()
}

func (p *remoteProcess) closeFiles() {
	for _, f := range []*os.File{p.in, p.out, p.errOut} {
		if f != nil {
			f.Close()
		}
	}
}
