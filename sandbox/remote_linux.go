//go:build amd64 || arm64

package sandbox

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// A remote supervisor is this program, executed where it has other rights (by
// sudo) or is somewhere else (in a container), with one Spec to run. It reads
// the Spec, and in a container the content of the mounts, from standard input,
// and goes on until that ends; it writes what the command writes, the
// collected files and the Result to standard output, as events.

const (
	eventHello  = 'H' // the remote supervisor is there
	eventPart   = 'p' // a piece of a document
	eventSpec   = 'S' // the last piece of a remoteSpec
	eventResult = 'r' // the last piece of a remoteResult
	eventStdout = 'o'
	eventStderr = 'e'
	eventTree   = 't' // the end of an archive
	eventBack   = 'b' // an archive follows: what became of a Writable mount
	eventJudged = 'J' // Isolation as measured; the supervisor then waits for eventGo
	eventGo     = 'G'
)

// maxDocument bounds a Spec or a Result as JSON.
const maxDocument = 16 << 20

// A remoteSpec is a Spec that can travel.
type remoteSpec struct {
	Argv, Env, Collect [][]byte
	Dir                []byte
	Mounts             []stageMount
	Network            Network
	Connect            []netip.AddrPort
	Limits             Limits
	MinLevel           Level
	Mode               Mode
	ProbeOnly          bool
	Caller             person
	Placed             *canaryPlan // in a container
	Path               string      // of its image
}

// A judgement is what a supervisor in a container found. The names of its
// namespaces tell whoever stands outside which of them it shares.
type judgement struct {
	Isolation  Isolation
	Namespaces map[string]string
}

// A remote is what a supervisor that is told so knows beside the Spec.
type remote struct {
	caller  *person                // whose files it shows to the command
	placed  *canaryPlan            // in a container: the mounts are in place, these are the host's canaries
	approve func(*Isolation) error // the last word before the command starts
	entry   string                 // of a container, instead of this program
	without []string               // layers to leave out, to see that the probes notice
}

type remoteResult struct {
	Result  Result
	Refused *refusal
	Err     string
}

// remoteMain is the remote supervisor.
func remoteMain() int {
	signal.Ignore(syscall.SIGPIPE)
	out := &eventWriter{w: os.NewFile(1, "events")}
	if out.event(eventHello, nil) != nil {
		return 1
	}
	var r remoteResult
	in := os.NewFile(0, "spec")
	doc, err := readDocument(in, eventSpec)
	var rs remoteSpec
	if err == nil {
		err = json.Unmarshal(doc, &rs)
	}
	if err == nil && rs.Placed != nil {
		err = rs.unpack(in)
	}
	if err == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		goAhead := make(chan bool, 1)
		go func() {
			buf := make([]byte, maxEvent)
			if kind, _, err := readEvent(in, buf); err == nil && kind == eventGo {
				goAhead <- true
				io.Copy(io.Discard, in)
			}
			close(goAhead)
			cancel(context.Canceled)
		}()
		r.Result, err = rs.run(ctx, out, goAhead, cancel)
	}
	if err == nil && rs.Placed != nil {
		err = rs.giveBack(out)
	}
	if err != nil && !errors.As(err, &r.Refused) {
		r.Err = err.Error()
	}
	if doc, err = json.Marshal(r); err != nil {
		return 1
	}
	if out.document(eventResult, doc) != nil {
		return 1
	}
	return 0
}

// unpack puts the mounts into their places.
func (rs *remoteSpec) unpack(in io.Reader) error {
	buf := make([]byte, maxEvent)
	for _, m := range rs.Mounts {
		target := string(m.Target)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if m.Kind == Scratch {
			if err := os.MkdirAll(target, 0o755); err != nil {
				return err
			}
			continue
		}
		r := &partReader{next: func() (byte, []byte, error) { return readEvent(in, buf) }}
		if err := readTree(r, string(m.Target), rs.Limits.Disk, rs.Limits.Inodes, ids{}); err != nil {
			return fmt.Errorf("unpack %s: %w", m.Target, err)
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
	}
	return nil
}

// giveBack sends what became of the Writable mounts.
func (rs *remoteSpec) giveBack(out *eventWriter) error {
	for i, m := range rs.Mounts {
		if m.Kind != Writable {
			continue
		}
		if err := out.event(eventBack, binary.BigEndian.AppendUint32(nil, uint32(i))); err != nil {
			return err
		}
		if err := sendTree(out, string(m.Target)); err != nil {
			return fmt.Errorf("send %s back: %w", m.Target, err)
		}
	}
	return nil
}

func (rs *remoteSpec) run(ctx context.Context, out *eventWriter, goAhead <-chan bool, cancel context.CancelCauseFunc) (Result, error) {
	spec := Spec{
		Argv: toStrings(rs.Argv), Env: toStrings(rs.Env), Collect: toStrings(rs.Collect), Dir: string(rs.Dir),
		Network: rs.Network, Connect: rs.Connect, Limits: rs.Limits, MinLevel: rs.MinLevel, Modes: []Mode{rs.Mode},
		Stdout: &streamWriter{out, eventStdout, cancel}, Stderr: &streamWriter{out, eventStderr, cancel},
	}
	for _, m := range rs.Mounts {
		spec.Mounts = append(spec.Mounts, Mount{Source: string(m.Source), Target: string(m.Target), Kind: m.Kind})
	}
	index := map[string]int{}
	for i, p := range spec.Collect {
		index[p] = i
	}
	spec.Sink = func(p string, size int64, r io.Reader) error {
		head, err := json.Marshal(fileReport{Index: index[p], Size: size})
		if err != nil {
			return err
		}
		return out.file(head, r)
	}
	spec, err := spec.withDefaults()
	if err != nil {
		return Result{}, err
	}
	if rs.Placed == nil {
		if rs.Caller.UID != 0 {
			spec.remote.caller = &rs.Caller
		}
		return runMode(ctx, spec, rs.Mode, rs.ProbeOnly)
	}
	spec.remote.placed = rs.Placed
	for i, kv := range spec.Env {
		if strings.HasPrefix(kv, "PATH=") && rs.Path != "" {
			spec.Env[i] += ":" + rs.Path
		}
	}
	spec.remote.approve = func(iso *Isolation) error {
		doc, err := json.Marshal(judgement{*iso, ownNamespaces()})
		if err != nil {
			return err
		}
		if err := out.event(eventJudged, doc); err != nil {
			return err
		}
		if !<-goAhead {
			return &refusal{Step: "supervisor", Errno: "did not let the command start"}
		}
		return nil
	}
	return runMode(ctx, spec, rs.Mode, rs.ProbeOnly)
}

func writeSpec(w io.Writer, rs remoteSpec) error {
	doc, err := json.Marshal(rs)
	if err != nil {
		return err
	}
	return (&eventWriter{w: w}).document(eventSpec, doc)
}

// An eventWriter writes whole events from several goroutines.
type eventWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (e *eventWriter) event(kind byte, payload []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return writeEvent(e.w, kind, payload)
}

func (e *eventWriter) document(last byte, doc []byte) error {
	for len(doc) > maxEvent {
		if err := e.event(eventPart, doc[:maxEvent]); err != nil {
			return err
		}
		doc = doc[maxEvent:]
	}
	return e.event(last, doc)
}

func (e *eventWriter) file(head []byte, r io.Reader) error {
	if err := e.event(eventFile, head); err != nil {
		return err
	}
	buf := make([]byte, maxEvent)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := e.event(eventData, buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return e.event(eventData, nil)
		}
	}
}

// A streamWriter passes output on; when nobody listens any more, it ends the
// run.
type streamWriter struct {
	out    *eventWriter
	kind   byte
	cancel context.CancelCauseFunc
}

func (s *streamWriter) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		part := p[n:min(len(p), n+maxEvent)]
		if err := s.out.event(s.kind, part); err != nil {
			s.cancel(err)
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// readDocument joins the pieces of one document.
func readDocument(r io.Reader, last byte) ([]byte, error) {
	var doc []byte
	buf := make([]byte, maxEvent)
	for {
		kind, payload, err := readEvent(r, buf)
		if err != nil {
			return nil, err
		}
		if kind != eventPart && kind != last {
			return nil, fmt.Errorf("unexpected event %q", kind)
		}
		if len(doc)+len(payload) > maxDocument {
			return nil, fmt.Errorf("document of more than %d bytes", maxDocument)
		}
		doc = append(doc, payload...)
		if kind == last {
			return doc, nil
		}
	}
}
