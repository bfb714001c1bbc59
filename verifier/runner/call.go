package runner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// test makes the planned test calls, one after the other.
func (j *job) test(ctx context.Context) error {
	for i := range j.plan.Runs {
		p := &j.plan.Runs[i]
		side := 1
		if p.Side == verifier.SideBase {
			side = 0
		}
		args, spec, err := j.testSpec(p, side)
		if err != nil {
			return err
		}
		result, err := j.sandboxed(ctx, args, spec, p.Skip)
		if err != nil {
			return err
		}
		j.tests = append(j.tests, verifier.TestCall{Call: j.rec.Calls(), Args: *args, Result: *result})
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// testSpec returns what a planned run asks of the sandbox, and its args document.
func (j *job) testSpec(p *verifier.PlannedRun, side int) (*receipts.Args, sandbox.Spec, error) {
	l := j.Config.Limits
	tree := j.listings[side].listing.SHA256
	spec := sandbox.Spec{
		Argv: asStrings(p.Argv), Dir: verifier.InsideDir(string(p.Dir)),
		Env:     testEnvironment(j, p, side),
		Mounts:  j.testMounts(place{side, string(p.Dir)}),
		Network: sandbox.Network(p.NetworkName()),
		Limits: sandbox.Limits{
			Wall: time.Duration(p.Timeout) * time.Second, Pids: int(l.Pids), Memory: l.Memory, CPU: int(l.CPU), Disk: l.Disk, Output: l.Output,
		},
	}
	for _, s := range p.Connect {
		at, err := netip.ParseAddrPort(s)
		if err != nil {
			return nil, sandbox.Spec{}, fmt.Errorf("connect: %w", err)
		}
		spec.Connect = append(spec.Connect, at)
	}
	if p.Report != "" {
		spec.Collect = []string{verifier.OutDir + "/" + string(p.Report)}
	}
	args := &receipts.Args{
		Tool: receipts.ToolTest, Name: p.Name, Side: p.Side, Round: p.Round, Format: p.Format, Tree: &tree,
	}
	return args, spec, nil
}

func (j *job) testMounts(at place) []sandbox.Mount {
	mounts := []sandbox.Mount{
		{Source: j.trees[at.side], Target: verifier.WorkDir, Kind: sandbox.Overlay},
		{Target: verifier.OutDir, Kind: sandbox.Scratch},
	}
	if j.trees[at.side] == "" { // the base is not run: the args of the call say so
		mounts[0] = sandbox.Mount{Target: verifier.WorkDir, Kind: sandbox.Scratch}
	}
	mounts = append(mounts, j.tools.mounts(j.modules[at.side])...)
	for _, s := range j.supplies[at] {
		mounts = append(mounts, s.mounts...)
	}
	return mounts
}

// sandboxed makes one call: it runs spec in a sandbox, or not where skip says
// why, and records what came of it, with files beside those it made. An error
// means that the call could not be recorded, or that no sandbox could be had.
func (j *job) sandboxed(ctx context.Context, args *receipts.Args, spec sandbox.Spec, skip string, files ...receipts.File) (*receipts.Result, error) {
	spec.MinLevel = sandbox.Level(j.minLevel())
	if spec.Network == sandbox.NetworkHost && args.Tool == receipts.ToolPrepare {
		spec.MinLevel = min(spec.MinLevel, sandbox.LevelRestricted)
	}
	spec.Image, spec.Modes = j.Config.Isolation.Image, j.modes()
	var err error
	if spec.Limits, err = spec.Limits.WithDefaults(); err != nil { // the args document says what is in force
		return nil, err
	}
	args.Argv, args.Dir, args.Env = asBytes(spec.Argv), receipts.Bytes(spec.Dir), asBytes(spec.Env)
	secrets := j.redactor(spec.Env)
	if secrets != nil {
		for i, kv := range args.Env {
			args.Env[i] = receipts.Bytes(secrets.Replace(string(kv)))
		}
	}
	args.Patch, args.Sandbox = j.patch, sandboxDocument(&spec)
	call, err := j.rec.Begin(args)
	if err != nil {
		return nil, err
	}
	label := args.Name
	if args.Side != "" {
		label += " on " + args.Side
	}
	var result *receipts.Result
	if skip != "" {
		now := j.o.Now().UnixMilli()
		result = &receipts.Result{State: receipts.StateNotRun, Why: receipts.Bytes(skip), Start: now, End: now}
	} else {
		j.progress(args.Tool, label, false)
		if result, err = j.execute(ctx, args, spec, secrets); err != nil {
			return nil, err
		}
	}
	result.Files = append(result.Files, files...)
	if err := call.End(result); err != nil {
		return nil, err
	}
	j.progress(args.Tool, label, true)
	return result, nil
}

func (j *job) execute(ctx context.Context, args *receipts.Args, spec sandbox.Spec, secrets *strings.Replacer) (*receipts.Result, error) {
	spool := j.rec.Spool()
	out, err := spool.Create()
	if err != nil {
		return nil, err
	}
	defer out.Discard()
	errOut, err := spool.Create()
	if err != nil {
		return nil, err
	}
	defer errOut.Discard()
	spec.Stdout, spec.Stderr = out, errOut
	var hidden [2]bytes.Buffer
	if secrets != nil { // what may hold a secret is not written before it is gone
		spec.Stdout, spec.Stderr = &hidden[0], &hidden[1]
	}
	if j.o.Progress != nil && args.Tool == receipts.ToolTest {
		spec.Stdout = io.MultiWriter(out, &lineWriter{emit: func(line []byte) {
			j.o.Progress(Event{Step: args.Tool, Detail: args.Name + " on " + args.Side, Output: line})
		}})
	}
	var files []receipts.File
	spec.Sink = func(path string, size int64, r io.Reader) error {
		f, err := collect(spool, path, r)
		if err == nil {
			files = append(files, f)
		}
		return err
	}
	r, err := sandbox.Run(ctx, spec)
	if err != nil {
		return nil, err
	}
	result := resultDocument(&r)
	result.Files = files
	if secrets != nil {
		if err := j.reveal(&r, &hidden, [2]io.Writer{out, errOut}, secrets, result); err != nil {
			return nil, err
		}
	}
	for _, s := range []struct {
		to   *receipts.Stream
		blob *bundle.BlobWriter
		got  sandbox.Stream
	}{{&result.Stdout, out, r.Stdout}, {&result.Stderr, errOut, r.Stderr}} {
		s.to.Bytes, s.to.Kept = s.got.Total, s.got.Kept
		if s.got.Kept == 0 {
			continue
		}
		if s.to.Digest, s.to.Kept, err = s.blob.Commit(); err != nil {
			return nil, err
		}
	}
	result.Notes = deniedNotes(&r)
	for _, f := range r.Files {
		if f.Err != "" {
			result.Notes = append(result.Notes, receipts.Note{Name: "not-collected", Value: receipts.Bytes(f.Path + ": " + f.Err)})
		}
	}
	return result, nil
}

// deniedNotes says which calls of nested sandboxes the command was refused, or
// that nobody counted them.
func deniedNotes(r *sandbox.Result) []receipts.Note {
	if r.Isolation.Seccomp && !r.Isolation.Counted {
		return []receipts.Note{{Name: "denied-not-counted", Value: receipts.Bytes("another system call filter answers first, or this kernel allows no listener")}}
	}
	if len(r.Denied) == 0 {
		return nil
	}
	var list []string
	for _, d := range r.Denied {
		list = append(list, fmt.Sprintf("%s %d", d.Name, d.Count))
	}
	return []receipts.Note{{Name: verifier.NoteDenied, Value: receipts.Bytes(strings.Join(list, ", "))}}
}

// reveal writes what a call with secrets put out, without them.
func (j *job) reveal(r *sandbox.Result, hidden *[2]bytes.Buffer, to [2]io.Writer, secrets *strings.Replacer, result *receipts.Result) error {
	for i, s := range [...]*sandbox.Stream{&r.Stdout, &r.Stderr} {
		text := hidden[i].String()
		clean := secrets.Replace(text)
		if clean != text {
			result.Redacted++
		}
		s.Total += int64(len(clean)) - s.Kept
		s.Kept = int64(len(clean))
		if _, err := io.WriteString(to[i], clean); err != nil {
			return err
		}
	}
	return nil
}

func collect(spool *bundle.Spool, path string, r io.Reader) (receipts.File, error) {
	w, err := spool.Create()
	if err != nil {
		return receipts.File{}, err
	}
	defer w.Discard()
	if _, err := io.Copy(w, r); err != nil {
		return receipts.File{}, err
	}
	f := receipts.File{Name: verifier.ReportFile(filepath.Base(path))}
	f.Digest, f.Size, err = w.Commit()
	return f, err
}

func resultDocument(r *sandbox.Result) *receipts.Result {
	out := &receipts.Result{
		State: string(r.State), Signal: r.Signal, Why: receipts.Bytes(r.Why),
		Start: r.Start.UnixMilli(), End: r.End.UnixMilli(), CPU: r.CPU.Milliseconds(), Memory: r.PeakMemory,
	}
	if r.State == sandbox.StateExited {
		out.Exit = r.Exit
	}
	if r.State != sandbox.StateSignaled {
		out.Signal = ""
	}
	i := &r.Isolation
	iso := &receipts.Isolation{
		Level: int(i.Level), Mode: string(i.Mode), Via: i.Via, Image: i.Image, ImageDigest: i.ImageDigest, Network: string(i.Network), Connect: addresses(i.Connect), UID: int64(i.UID),
		Namespaces: append([]string{}, i.Namespaces...), NoNewPrivs: i.NoNewPrivs, CapsEmpty: i.CapsEmpty, Seccomp: i.Seccomp,
		LandlockABI: i.Landlock, Kill: i.Kill, Probes: []receipts.Probe{}, Limits: []receipts.Limit{},
	}
	for _, p := range i.Probes {
		iso.Probes = append(iso.Probes, receipts.Probe(p))
	}
	for _, l := range i.Limits {
		iso.Limits = append(iso.Limits, receipts.Limit(l))
	}
	for _, f := range i.Fallbacks {
		iso.Fallbacks = append(iso.Fallbacks, receipts.Fallback{Mode: string(f.Mode), Why: f.Why})
	}
	out.Isolation = iso
	return out
}

func sandboxDocument(s *sandbox.Spec) *receipts.Sandbox {
	doc := &receipts.Sandbox{
		MinLevel: int(s.MinLevel), Network: string(s.Network), Connect: addresses(s.Connect), Mounts: []receipts.Bytes{},
		Wall: int64(s.Limits.Wall / time.Second), Pids: int64(s.Limits.Pids), Memory: s.Limits.Memory, CPU: int64(s.Limits.CPU),
		Output: s.Limits.Output, Disk: s.Limits.Disk, Inodes: s.Limits.Inodes, Files: int64(s.Limits.Files), FileSize: s.Limits.FileBytes,
	}
	for _, m := range s.Mounts {
		doc.Mounts = append(doc.Mounts, receipts.Bytes(mountNames[m.Kind]+" "+m.Target))
	}
	return doc
}

func addresses(list []netip.AddrPort) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	return out
}

var mountNames = map[sandbox.MountKind]string{
	sandbox.ReadOnly: "read-only", sandbox.Overlay: "overlay", sandbox.Scratch: "scratch", sandbox.Writable: "writable",
}

// lineWriter passes on whole lines of at most 64 KiB.
type lineWriter struct {
	emit func(line []byte)
	buf  []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		if n := len(w.buf) + i; n > 0 && n <= 64<<10 {
			w.emit(append(w.buf, p[:i]...))
		}
		w.buf, p = w.buf[:0], p[i+1:]
	}
	if len(w.buf)+len(p) <= 64<<10 {
		w.buf = append(w.buf, p...)
	}
	return n, nil
}

func asStrings(list []receipts.Bytes) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

func asBytes(list []string) []receipts.Bytes {
	out := make([]receipts.Bytes, len(list))
	for i, s := range list {
		out[i] = receipts.Bytes(s)
	}
	return out
}

// testEnvironment returns the complete environment of a test command, sorted.
// Nothing of the caller's is in it.
func testEnvironment(j *job, p *verifier.PlannedRun, side int) []string {
	env := map[string]string{
		"PATH":               "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME":               verifier.HomeDir,
		"USER":               "sandbox",
		"LOGNAME":            "sandbox",
		"SHELL":              "/bin/sh",
		"TMPDIR":             "/tmp",
		"LANG":               "C.UTF-8",
		"LC_ALL":             "C.UTF-8",
		"TZ":                 "UTC",
		"CI":                 "true",
		"TRUEGREEN_OUT":      verifier.OutDir,
		verifier.RunVariable: p.ID(),
		"SOURCE_DATE_EPOCH":  strconv.FormatInt([...]int64{j.Base.Time, j.Head.Time}[side], 10),
		"GIT_CONFIG_GLOBAL":  os.DevNull,
		"GIT_CONFIG_SYSTEM":  os.DevNull,
		"PIP_NO_INDEX":       "1",
		"CARGO_NET_OFFLINE":  "true",
		"npm_config_offline": "true",
	}
	for k, v := range j.tools.environment(j, side, string(p.Dir)) {
		env[k] = v
	}
	for _, s := range j.supplies[place{side, string(p.Dir)}] {
		maps.Copy(env, s.env)
		for _, dir := range s.bin {
			env["PATH"] = dir + ":" + env["PATH"]
		}
	}
	for _, kv := range p.Env {
		k, v, _ := bytes.Cut([]byte(kv), []byte("="))
		env[string(k)] = string(v)
	}
	return sortedEnv(env)
}

func sortedEnv(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, fmt.Sprintf("%s=%s", k, v))
	}
	slices.Sort(list)
	return list
}
