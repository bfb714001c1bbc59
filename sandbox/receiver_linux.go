//go:build amd64 || arm64

package sandbox

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

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
	p.ended.Go(func() {
		p.said, _ = io.ReadAll(io.LimitReader(p.errOut, 4<<10))
		io.Copy(io.Discard, p.errOut)
	})
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
	if cause := context.Cause(ctx); r.State == StateCanceled && cause != nil {
		r.Why = cause.Error()
	}
	return r, nil
}

// complaint returns what sudo said, in one line.
func (p *remoteProcess) complaint() string {
	p.wait()
	line, _, _ := strings.Cut(strings.TrimSpace(string(p.said)), "\n")
	return strings.TrimPrefix(line, "sudo: ")
}

// close ends the remote supervisor, which takes its sandbox along, and waits.
func (p *remoteProcess) close() {
	p.out.Close()
	p.wait()
	p.errOut.Close()
}

// wait ends the standard input, which ends the rest. What does not take notice
// is killed, if it is this user's.
func (p *remoteProcess) wait() {
	p.in.Close()
	late := time.AfterFunc(setupTimeout, func() { p.proc.Kill() })
	p.proc.Wait()
	late.Stop()
	p.ended.Wait()
}

func (p *remoteProcess) closeFiles() {
	for _, f := range []*os.File{p.in, p.out, p.errOut} {
		if f != nil {
			f.Close()
		}
	}
}

// A receiver is the other end: it takes in what a remote supervisor sends.
type receiver struct {
	spec   *Spec
	result remoteResult
	kept   [2]int64 // bytes that the writers took
	broken [2]bool
	left   int64 // of the limit on collected bytes
	file   *incoming
	errs   map[int]string // why the sink refused a file
	doc    []byte
	judged func(judgement) error
}

// An incoming file is fed to the sink as it arrives.
type incoming struct {
	index int
	left  int64
	w     *io.PipeWriter
	done  chan error
}

// receive reads events until the Result.
func (v *receiver) receive(r io.Reader) error {
	v.left, v.errs = v.spec.Limits.FileBytes, map[int]string{}
	defer func() {
		if v.file != nil {
			v.file.w.CloseWithError(io.ErrUnexpectedEOF)
			<-v.file.done
		}
	}()
	buf := make([]byte, maxEvent)
	for {
		kind, payload, err := readEvent(r, buf)
		if err != nil {
			return err
		}
		switch kind {
		case eventStdout, eventStderr:
			v.output(kind, payload)
		case eventFile:
			err = v.begin(payload)
		case eventData:
			err = v.data(payload)
		case eventJudged:
			var j judgement
			if err = json.Unmarshal(payload, &j); err == nil {
				err = v.judged(j)
			}
		case eventBack:
			err = v.takeBack(r, payload)
		case eventPart, eventResult:
			if len(v.doc)+len(payload) > maxDocument {
				return fmt.Errorf("result of more than %d bytes", maxDocument)
			}
			v.doc = append(v.doc, payload...)
			if kind == eventResult {
				return json.Unmarshal(v.doc, &v.result)
			}
		default:
			err = fmt.Errorf("unexpected event %q", kind)
		}
		if err != nil {
			return err
		}
	}
}

// takeBack replaces the content of a Writable mount's source.
func (v *receiver) takeBack(r io.Reader, payload []byte) error {
	if len(payload) != 4 {
		return errors.New("unexpected archive")
	}
	i := binary.BigEndian.Uint32(payload)
	if int64(i) >= int64(len(v.spec.Mounts)) || v.spec.Mounts[i].Kind != Writable {
		return errors.New("unexpected archive")
	}
	source := v.spec.Mounts[i].Source
	var st unix.Stat_t
	if err := unix.Stat(source, &st); err != nil {
		return err
	}
	if err := emptyDir(source); err != nil {
		return err
	}
	buf := make([]byte, maxEvent)
	parts := &partReader{next: func() (byte, []byte, error) { return readEvent(r, buf) }}
	id := ids{uid: int(st.Uid), gid: int(st.Gid), change: os.Geteuid() == 0}
	if err := readTree(parts, source, v.spec.Limits.Disk, v.spec.Limits.Inodes, id); err != nil {
		return fmt.Errorf("take %s back: %w", source, err)
	}
	_, err := io.Copy(io.Discard, parts)
	return err
}

func (v *receiver) output(kind byte, p []byte) {
	i, w := 0, v.spec.Stdout
	if kind == eventStderr {
		i, w = 1, v.spec.Stderr
	}
	p = p[:min(int64(len(p)), v.spec.Limits.Output-v.kept[i])]
	if w == nil || v.broken[i] || len(p) == 0 {
		return
	}
	n, err := w.Write(p)
	v.kept[i] += int64(max(n, 0))
	v.broken[i] = err != nil
}

func (v *receiver) begin(payload []byte) error {
	var head fileReport
	if err := json.Unmarshal(payload, &head); err != nil {
		return err
	}
	if v.file != nil || head.Index < 0 || head.Index >= len(v.spec.Collect) || head.Size < 0 || head.Size > v.left {
		return errors.New("unexpected file")
	}
	v.left -= head.Size
	r, w := io.Pipe()
	f := &incoming{index: head.Index, left: head.Size, w: w, done: make(chan error, 1)}
	go func() {
		err := v.spec.Sink(v.spec.Collect[head.Index], head.Size, r)
		r.CloseWithError(io.ErrClosedPipe) // a sink may leave early
		f.done <- err
	}()
	v.file = f
	if head.Size == 0 {
		v.end()
	}
	return nil
}

func (v *receiver) data(p []byte) error {
	f := v.file
	if f == nil || int64(len(p)) > f.left {
		return errors.New("unexpected data")
	}
	if len(p) == 0 { // the file shrank
		f.w.CloseWithError(io.ErrUnexpectedEOF)
		v.end()
		return nil
	}
	f.left -= int64(len(p))
	f.w.Write(p) // what the sink does not want is dropped
	if f.left == 0 {
		v.end()
	}
	return nil
}

func (v *receiver) end() {
	v.file.w.Close()
	if err := <-v.file.done; err != nil {
		v.errs[v.file.index] = err.Error()
	}
	v.file = nil
}

// conclude returns the Result as this side has it.
func (v *receiver) conclude() Result {
	r := v.result.Result
	r.Stdout.Kept, r.Stderr.Kept = v.kept[0], v.kept[1]
	for i := range r.Files {
		if why, ok := v.errs[i]; ok {
			r.Files[i].Err, r.Files[i].Size = why, 0
		}
	}
	return r
}
