package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// test makes the runs that the judgement asks for, those of a batch side by side
// where they cannot reach each other.
func (j *job) test(ctx context.Context) error {
	w, err := j.rec.Spool().Create()
	if err != nil {
		return err
	}
	j.evidence, j.began = w, j.o.Now()
	j.judging = verifier.NewJudgement(w, j.judged())
	for batch := j.judging.Next(); len(batch) > 0; batch = j.judging.Next() {
		calls, err := j.batch(ctx, batch)
		if err != nil {
			return err
		}
		for i := range batch {
			if err := j.judging.Add(&batch[i], calls[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *job) judged() verifier.Judged {
	return verifier.Judged{
		Patch: j.patch, Planned: j.planned, Plan: &j.plan, Config: &j.Config, Trees: j.texts, Open: j.openBlob, Imports: j.imports,
	}
}

// batch makes runs that do not depend on each other. Their calls begin in order.
func (j *job) batch(ctx context.Context, runs []verifier.PlannedRun) ([]*verifier.TestCall, error) {
	calls, errs := make([]*verifier.TestCall, len(runs)), make([]error, len(runs))
	slots := make(chan struct{}, j.abreast(runs))
	var all sync.WaitGroup
	failed := false
	for i := range runs {
		slots <- struct{}{}
		var finish func() (*verifier.TestCall, error)
		var err error
		if ctx.Err() == nil {
			finish, err = j.begin(ctx, &runs[i])
		} else {
			err = ctx.Err()
		}
		if err != nil {
			errs[i], failed = err, true
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			calls[i], errs[i] = finish()
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, err := range errs {
		if err != nil {
			return nil, err
		}
		if calls[i] == nil && !failed {
			return nil, errors.New("a call did not end")
		}
	}
	return calls, nil
}

// abreast returns how many runs are made at the same time: one, where walls could
// let them see each other, or where they share something of the host.
func (j *job) abreast(runs []verifier.PlannedRun) int {
	if j.minLevel() < int(sandbox.LevelContainer) {
		return 1
	}
	for i := range runs {
		if len(runs[i].Connect) > 0 || runs[i].Network != "" {
			return 1
		}
	}
	return max(1, min(runtime.NumCPU(), maxAbreast))
}

const maxAbreast = 4

// begin records that a planned run starts, and returns what makes it. What needs no
// sandbox is done at once.
func (j *job) begin(ctx context.Context, p *verifier.PlannedRun) (func() (*verifier.TestCall, error), error) {
	skip, wall := p.Skip, time.Duration(p.Timeout)*time.Second
	if p.Cuttable() && skip == "" {
		left := time.Duration(j.Config.Evidence.Budget)*time.Second - j.o.Now().Sub(j.began)
		if wall = min(wall, left.Truncate(time.Second)); wall < time.Second {
			skip, wall = verifier.SkipBudget, time.Duration(p.Timeout)*time.Second
		}
	}
	if err := j.needTree(ctx, p.Side, skip); err != nil {
		return nil, err
	}
	args, spec, err := j.testSpec(p, wall)
	if err != nil {
		return nil, err
	}
	if skip == "" {
		remove, err := j.writeRunInputs(p, &spec)
		if err != nil {
			return nil, err
		}
		start, err := j.beginCall(args, &spec)
		if err != nil {
			return nil, err
		}
		return func() (*verifier.TestCall, error) {
			defer remove()
			return start(ctx, "")
		}, nil
	}
	start, err := j.beginCall(args, &spec)
	if err != nil {
		return nil, err
	}
	return func() (*verifier.TestCall, error) { return start(ctx, skip) }, nil
}

// needTree writes a mixed tree when the first run needs it.
func (j *job) needTree(ctx context.Context, side, skip string) error {
	if side == verifier.SideBase || side == verifier.SideHead || skip != "" || j.mixed[side] != "" {
		return nil
	}
	to := j.owner
	to.Dir, to.Time = filepath.Join(j.parent, side), time.Unix(j.sideTime(side), 0)
	if j.mixed == nil {
		j.mixed = map[string]string{}
	}
	j.mixed[side] = to.Dir
	return j.repo.MaterialiseEntries(ctx, j.texts.Entries(side), to)
}

// codeSide returns the side whose code, and so whose dependencies, a tree has.
func codeSide(side string) int {
	if side == verifier.SideBase || side == verifier.SideHybrid {
		return 0
	}
	return 1
}

func (j *job) sideTime(side string) int64 {
	return [...]int64{j.Base.Time, j.Head.Time}[codeSide(side)]
}

// treeOf returns the folder with the tree of a side, "" where it is not run.
func (j *job) treeOf(side string) string {
	switch side {
	case verifier.SideBase, verifier.SideHead:
		return j.trees[codeSide(side)]
	}
	return j.mixed[side]
}

// testSpec returns what a planned run asks of the sandbox, and its args document.
func (j *job) testSpec(p *verifier.PlannedRun, wall time.Duration) (*receipts.Args, sandbox.Spec, error) {
	l := j.Config.Limits
	tree := j.texts.ID(p.Side).SHA256
	spec := sandbox.Spec{
		Argv: asStrings(p.Argv), Dir: verifier.InsideDir(string(p.Dir)),
		Env:     testEnvironment(j, p),
		Mounts:  j.testMounts(p),
		Network: sandbox.Network(p.NetworkName()),
		Limits: sandbox.Limits{
			Wall: wall, Pids: int(l.Pids), Memory: l.Memory, CPU: int(l.CPU), Disk: l.Disk, Output: l.Output,
		},
	}
	for _, s := range p.Connect {
		at, err := netip.ParseAddrPort(s)
		if err != nil {
			return nil, sandbox.Spec{}, fmt.Errorf("connect: %w", err)
		}
		spec.Connect = append(spec.Connect, at)
	}
	switch {
	case p.Purpose == verifier.PurposeBuild:
		spec.Collect = []string{verifier.OutDir + "/" + verifier.BuiltFile}
	default:
		for _, name := range []receipts.Bytes{p.Report, p.Lines} {
			if len(name) > 0 {
				spec.Collect = append(spec.Collect, verifier.OutDir+"/"+string(name))
			}
		}
	}
	args := &receipts.Args{
		Tool: receipts.ToolTest, Name: p.Name, Side: p.Side, Round: p.Round, Purpose: p.Purpose, Package: p.Package, Format: p.Format, Tree: &tree,
	}
	for _, in := range p.Inputs() {
		args.Inputs = append(args.Inputs, receipts.File{Name: receipts.Bytes(in.Name), Digest: in.Digest, Size: in.Size})
	}
	return args, spec, nil
}

// writeRunInputs writes what a run gets beside its tree, and mounts it.
func (j *job) writeRunInputs(p *verifier.PlannedRun, spec *sandbox.Spec) (remove func(), err error) {
	if len(p.Inputs()) == 0 {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp(j.dir, "inputs-")
	if err != nil {
		return nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	made := map[string]bool{}
	for _, in := range p.Inputs() {
		target, name := filepath.Split(in.Name)
		target = filepath.Clean(target)
		source := filepath.Join(dir, filepath.Base(target))
		if !made[target] {
			made[target] = true
			if err := os.Mkdir(source, 0o755); err != nil {
				return nil, err
			}
			spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: source, Target: target, Kind: sandbox.ReadOnly})
		}
		file := filepath.Join(source, name)
		if in.Built > 0 {
			err = os.Link(j.builtFile(in.Built), file)
		} else if err = os.WriteFile(file, in.Content, 0o644); err == nil {
			err = os.Chmod(file, 0o644)
		}
		if err != nil {
			return nil, err
		}
	}
	return remove, nil
}

// builtFile is where the test binary is kept that a call built.
func (j *job) builtFile(call uint64) string {
	return filepath.Join(j.dir, fmt.Sprintf("built-%d", call))
}

// keepBuilt keeps a test binary for the runs of it, and says what it is.
func (j *job) keepBuilt(call uint64, r io.Reader) (receipts.Note, error) {
	f, err := os.OpenFile(j.builtFile(call), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return receipts.Note{}, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), r)
	if err == nil {
		err = f.Chmod(0o755)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return receipts.Note{Name: verifier.NoteBuilt, Value: receipts.Bytes(fmt.Sprintf("%x %d", sum.Sum(nil), n))}, err
}

func (j *job) testMounts(p *verifier.PlannedRun) []sandbox.Mount {
	side := codeSide(p.Side)
	dir := j.treeOf(p.Side)
	mounts := []sandbox.Mount{
		{Source: dir, Target: verifier.WorkDir, Kind: sandbox.Overlay},
		{Target: verifier.OutDir, Kind: sandbox.Scratch},
	}
	if dir == "" { // it is not run: the args of the call say so
		mounts[0] = sandbox.Mount{Target: verifier.WorkDir, Kind: sandbox.Scratch}
	}
	mounts = append(mounts, j.tools.mounts(j.builds[side], j.modules[side])...)
	for _, s := range j.supplies[place{side, string(p.Dir)}] {
		mounts = append(mounts, s.mounts...)
	}
	return mounts
}

// sandboxed makes one call: it runs spec in a sandbox, or not where skip says
// why, and records what came of it, with files beside those it made. An error
// means that the call could not be recorded, or that no sandbox could be had.
func (j *job) sandboxed(ctx context.Context, args *receipts.Args, spec sandbox.Spec, skip string, files ...receipts.File) (*receipts.Result, error) {
	finish, err := j.beginCall(args, &spec, files...)
	if err != nil {
		return nil, err
	}
	call, err := finish(ctx, skip)
	if err != nil {
		return nil, err
	}
	return &call.Result, nil
}

// beginCall records that a call begins and returns what makes it, or leaves it out
// where skip says why.
func (j *job) beginCall(args *receipts.Args, spec *sandbox.Spec, files ...receipts.File) (func(ctx context.Context, skip string) (*verifier.TestCall, error), error) {
	secrets, err := j.describe(args, spec)
	if err != nil {
		return nil, err
	}
	call, err := j.rec.Begin(args)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, skip string) (*verifier.TestCall, error) {
		label := runLabel(args)
		result := &receipts.Result{State: receipts.StateNotRun, Why: receipts.Bytes(skip)}
		if skip != "" {
			result.Start = j.o.Now().UnixMilli()
			result.End = result.Start
		} else {
			j.progress(args.Tool, label, false)
			if result, err = j.execute(ctx, call.Number(), args, *spec, secrets); err != nil {
				return nil, err
			}
		}
		result.Files = append(result.Files, files...)
		if err := call.End(result); err != nil {
			return nil, err
		}
		j.progress(args.Tool, label, true)
		return &verifier.TestCall{Call: call.Number(), Args: *args, Result: *result}, nil
	}, nil
}

// describe completes what a call asks of the sandbox, and the args document, which
// says it without secrets. What replaces these is nil where there are none.
func (j *job) describe(args *receipts.Args, spec *sandbox.Spec) (*strings.Replacer, error) {
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
	args.Patch, args.Sandbox = j.patch, sandboxDocument(spec)
	return secrets, nil
}

// runLabel names a call for people.
func runLabel(args *receipts.Args) string {
	label := args.Name
	if args.Purpose != "" {
		label += " " + args.Purpose
	}
	if len(args.Package) > 0 {
		label += " of " + string(args.Package)
	}
	if args.Side != "" {
		label += " on " + args.Side
	}
	return label
}

func (j *job) execute(ctx context.Context, number uint64, args *receipts.Args, spec sandbox.Spec, secrets *strings.Replacer) (*receipts.Result, error) {
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
	streams := [2]*coverer{newCoverer(out), newCoverer(errOut)}
	spec.Stdout, spec.Stderr = streams[0], streams[1]
	var hidden [2]bytes.Buffer
	if secrets != nil { // what may hold a secret is not written before it is gone
		spec.Stdout, spec.Stderr = &hidden[0], &hidden[1]
	}
	if j.o.Progress != nil && args.Tool == receipts.ToolTest {
		// A line is shown when it is whole. What is recorded waits for more, as a secret
		// can go on.
		spec.Stdout = io.MultiWriter(streams[0], &lineWriter{emit: func(line []byte) {
			j.o.Progress(Event{Step: args.Tool, Detail: runLabel(args), Output: coverLine(line)})
		}})
	}
	var files []receipts.File
	var notes []receipts.Note
	spec.Sink = func(path string, size int64, r io.Reader) error {
		if args.Purpose == verifier.PurposeBuild {
			note, err := j.keepBuilt(number, r)
			notes = append(notes, note)
			return err
		}
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
	var taken [2]bool
	if secrets != nil {
		if taken, err = reveal(&r, &hidden, streams, secrets); err != nil {
			return nil, err
		}
	}
	for i, s := range []struct {
		to   *receipts.Stream
		blob *bundle.BlobWriter
		got  sandbox.Stream
	}{{&result.Stdout, out, r.Stdout}, {&result.Stderr, errOut, r.Stderr}} {
		s.to.Bytes, s.to.Kept = s.got.Total, s.got.Kept
		if s.got.Kept == 0 {
			continue
		}
		if s.to.Covered, err = streams[i].end(); err != nil {
			return nil, err
		}
		if s.to.Digest, s.to.Kept, err = s.blob.Commit(); err != nil {
			return nil, err
		}
	}
	result.Redacted = redacted(result, taken)
	result.Notes = append(notes, deniedNotes(&r)...)
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

// reveal writes what a call with secrets put out, without them, and says in which of
// the two streams there were some.
func reveal(r *sandbox.Result, hidden *[2]bytes.Buffer, to [2]*coverer, secrets *strings.Replacer) (taken [2]bool, err error) {
	for i, s := range [...]*sandbox.Stream{&r.Stdout, &r.Stderr} {
		text := hidden[i].String()
		clean := secrets.Replace(text)
		taken[i] = clean != text
		s.Total += int64(len(clean)) - s.Kept
		s.Kept = int64(len(clean))
		if _, err := io.WriteString(to[i], clean); err != nil {
			return [2]bool{}, err
		}
	}
	return taken, nil
}

func collect(spool *bundle.Spool, path string, r io.Reader) (receipts.File, error) {
	w, err := spool.Create()
	if err != nil {
		return receipts.File{}, err
	}
	defer w.Discard()
	c := newCoverer(w)
	if _, err := io.Copy(c, r); err != nil {
		return receipts.File{}, err
	}
	covered, err := c.end()
	if err != nil {
		return receipts.File{}, err
	}
	f := receipts.File{Name: verifier.ReportFile(filepath.Base(path)), Covered: covered}
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
func testEnvironment(j *job, p *verifier.PlannedRun) []string {
	side := codeSide(p.Side)
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
		verifier.RunVariable: j.plan.ID(p),
		"SOURCE_DATE_EPOCH":  strconv.FormatInt(j.sideTime(p.Side), 10),
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
	if p.WithoutCI() {
		maps.DeleteFunc(env, func(name, _ string) bool { return verifier.IsCIVariable(name) })
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
