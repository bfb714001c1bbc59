package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
	"github.com/truegreen-dev/truegreen/sandbox"
	"github.com/truegreen-dev/truegreen/verifier"
)

// Options say what to run and where the evidence goes.
type Options struct {
	Repo       string   // a folder in the repository
	Name       string   // of the repository in the patch document, host/path; "": as its origin says
	Base, Head string   // revisions; "" is the default: see [Repository.Base], HEAD
	Onto       string   // instead of Base: a revision, the merge base with which is the base
	Merge      string   // revision of a merge of the head into the base, whose tree is tested in place of the head's
	Config     string   // path of the configuration in the tree; "": verifier.ConfigFile
	Command    []string // instead of what the base configures or shows
	CanMint    bool     // a step of this job can have the platform sign in its name: tests need level 3 then
	HeadOnly   bool     // leave the base out: there is nothing to compare with then
	Evidence   int      // level of evidence to try for, where it is above the configuration's
	MinLevel   int      // least isolation, beside the configuration's own
	Unisolated bool     // run without any walls where none can be had, if the least level is 0
	State      string   // folder for keys, caches, runs and bundles
	Out        string   // of the bundle; "" is a name in State
	Program    string   // version of the program, for the plan

	// Key opens the secret: 32 bytes. The process that signs reads them; this
	// one does not.
	Key func() (*os.File, error)
	// Sign makes the seal's SSH signature; nil: none. Signer is the fingerprint of
	// the key.
	Sign   func(text []byte) ([]byte, error)
	Signer string

	// Reuse lets results on the base be taken over from earlier runs under the same
	// key, see [Remember]: not where the key does not outlive this process. Fresh
	// has this run take none.
	Reuse, Fresh bool

	// Receipts are files of other tools' receipts, by the names under which the
	// configuration asks for them: see [verifier.ReceiptEntry].
	Receipts map[string][]byte

	Attempt       int
	Shard, Shards int
	Previous      receipts.Digest
	Reproduces    receipts.Digest // seal digest of the run that this one is made to compare with; zero: none

	Getenv   func(string) string // the caller's environment, for fetchers only
	Environ  []string            // all of it, for the host's go command, and to find fetchers and registries
	Progress func(Event)         // nil: none; called from several goroutines
	Now      func() time.Time
}

// An Event tells how a run gets on. It is for people and proves nothing.
type Event struct {
	Step   string // materialise, plan, prepare, import, test, judge, seal
	Detail string
	Done   bool   // the step has ended; without Detail, all of it
	Output []byte // a line that a test wrote to its standard output, unchecked
}

// A Done run.
type Done struct {
	Bundle string // path
	Seal   []byte // text
	Tested string // commit whose tree was tested
	// Expect is what the bundle must be about, as this run resolved it.
	Expect verifier.Options

	cleaning *sync.WaitGroup
}

// Close waits until what the run left beside its bundle is removed.
func (d Done) Close() {
	if d.cleaning != nil {
		d.cleaning.Wait()
	}
}

// Run tests a patch and writes the bundle. An error means that there is no
// bundle, because nothing was begun or it could not be written; what the tests
// did, and that the run was interrupted or a step failed, is in the bundle. It
// returns while it still cleans up: close what it returns before the process ends.
func Run(ctx context.Context, o Options) (Done, error) {
	if runtime.GOOS != "linux" { // nothing is written where nothing can run
		if _, err := sandbox.Run(ctx, sandbox.Spec{Argv: []string{"true"}, MinLevel: sandbox.LevelNamespaces}); err != nil {
			return Done{}, err
		}
	}
	s, err := Select(ctx, o)
	if err != nil {
		return Done{}, err
	}
	j := &job{Selection: s, o: o, cleaning: new(sync.WaitGroup)}
	if level := j.minLevel(); o.CanMint && level < int(sandbox.LevelNamespaces) {
		s.Close()
		return Done{}, &SelectError{verifier.OIDCBeside, fmt.Errorf("a step of this job can ask for OIDC tokens, and the policy lets tests run at isolation level %d; %d is the least here", level, sandbox.LevelNamespaces)}
	}
	if s.Dirty != "" {
		j.progress("note", "uncommitted changes are not part of the patch: "+s.Dirty, false)
	}
	sealed := false
	defer func() {
		if !sealed {
			j.cleanUp()
			j.cleaning.Wait()
		}
	}()
	if err := j.open(ctx); err != nil {
		return Done{}, err
	}
	outcome, why := j.calls(ctx)
	if refused := j.refused; refused != nil {
		return Done{}, refused // nothing ran, so there is nothing to seal
	}
	j.cleaning.Go(j.clear)
	done, err := j.seal(outcome, why)
	if err != nil {
		return Done{}, err
	}
	sealed = true
	j.cleaning.Go(j.cleanUp)
	return done, nil
}

// A job is one run under way.
type job struct {
	*Selection
	o        Options
	dir      string // of this run, below State
	lock     *os.File
	trees    [2]string // folders with base and head
	parent   string    // of the trees; dir, or a folder in memory
	treeLock *os.File  // of parent where that is not dir
	owner    Target
	rec      *bundle.Recorder
	signer   *keyHolder
	listings [2]made
	diff     receipts.File
	sources  receipts.File // without a name: there are none
	texts    *verifier.Trees
	judging  *verifier.Judgement
	evidence *bundle.BlobWriter
	imports  map[string]*verifier.Import // that stand for runs on the base, by entry
	mixed    map[string]string           // folders of mixed trees, by side
	began    time.Time                   // the test runs
	patch    receipts.Digest
	config   receipts.Digest
	planned  receipts.Digest
	plan     verifier.Plan
	tools    toolchain
	inImage  bool      // the calls are made in a container: see chooseWalls
	modules  [2]string // module caches, "" for none
	builds   [2]string // build caches, likewise
	supplies map[place][]supply
	refused  error
	unsealed bool            // the bundle could not be written
	cleaning *sync.WaitGroup // what goes on beside seal, and after it
}

// made is a tree that was written or listed before the log could be opened,
// which it can when the patch is known.
type made struct {
	listing    Listing
	file       receipts.File
	start, end time.Time
}

func (j *job) progress(step, detail string, done bool) {
	if j.o.Progress != nil {
		j.o.Progress(Event{Step: step, Detail: detail, Done: done})
	}
}

// open writes the trees, which names the patch, and begins the log.
func (j *job) open(ctx context.Context) error {
	var err error
	sweepRuns(j.o.State)
	sweepCaches(j.o.State, j.o.Now())
	if j.dir, j.lock, err = newRunDir(j.o.State); err != nil {
		return err
	}
	spool, err := bundle.NewSpool(j.recordDir())
	if err != nil {
		return err
	}
	j.owner.UID, j.owner.GID, j.owner.Chown = sandbox.Owner()
	if err := j.placeTrees(ctx); err != nil {
		return err
	}
	if err := j.materialise(ctx, spool); err != nil {
		return err
	}
	doc, err := j.patchDocument()
	if err != nil {
		return err
	}
	run := bundle.NewRun(doc)
	if j.signer, err = newKeyHolder(ctx, j.o.Key, &run, j.minLevel() < int(sandbox.LevelContainer)); err != nil {
		return err
	}
	j.patch = receipts.Sum(doc)
	j.rec, err = bundle.NewRecorder(j.recordDir(), run, j.signer.authenticators(), j.o.Now)
	return err
}

func (j *job) recordDir() string { return filepath.Join(j.dir, recordDir) }

// minLevel is the least isolation of a test.
func (j *job) minLevel() int { return max(j.Config.Isolation.Level, j.o.MinLevel) }

// calls makes the calls of the run and says how far it came.
func (j *job) calls(ctx context.Context) (outcome, why string) {
	steps := []func(context.Context) error{j.recordTrees, j.chooseWalls, j.recordPlan, j.recordReceipts, j.prepare, j.importBase, j.test, j.judge}
	for _, step := range steps {
		err := step(ctx)
		if ctx.Err() != nil {
			return bundle.OutcomeKilled, "interrupted: " + context.Cause(ctx).Error()
		}
		if err != nil {
			var refused *sandbox.RefusedError
			if errors.As(err, &refused) {
				j.refused = err
			}
			return bundle.OutcomeFailed, err.Error()
		}
	}
	return bundle.OutcomeCompleted, ""
}

// placeTrees chooses where the trees are written.
func (j *job) placeTrees(ctx context.Context) error {
	sweepTrees(treeMemory)
	trees := []string{j.Head.Tree}
	if j.runsBase() {
		trees = append(trees, j.Base.Tree)
	}
	need, err := j.repo.extent(ctx, trees...)
	if err != nil {
		return err
	}
	j.parent, j.treeLock = treeParent(treeMemory, j.dir, need, treeBudget)
	return nil
}

// materialise writes the head and, where it is run, the base; it makes the diff.
func (j *job) materialise(ctx context.Context, spool *bundle.Spool) error {
	write := func(i int, tree string, at int64, dir string) error {
		m := made{start: j.o.Now()}
		w, err := spool.Create()
		if err != nil {
			return err
		}
		defer w.Discard()
		if dir == "" {
			m.listing, err = j.repo.List(ctx, tree, w)
		} else {
			to := j.owner
			to.Dir, to.Time = dir, time.Unix(at, 0)
			m.listing, err = j.repo.Materialise(ctx, tree, w, to)
		}
		if err != nil {
			return err
		}
		m.file.Name = verifier.FileListing
		m.file.Digest, m.file.Size, err = w.Commit()
		m.end = j.o.Now()
		j.listings[i] = m
		return err
	}
	j.progress(receipts.ToolMaterialise, "head "+short(j.Head.ID), false)
	j.trees[1] = filepath.Join(j.parent, "head")
	if err := write(1, j.Head.Tree, j.Head.Time, j.trees[1]); err != nil {
		return err
	}
	j.progress(receipts.ToolMaterialise, "head "+short(j.Head.ID), true)
	if !j.runsBase() {
		j.trees[0] = ""
	} else {
		j.progress(receipts.ToolMaterialise, "base "+short(j.Base.ID), false)
		j.trees[0] = filepath.Join(j.parent, "base")
	}
	if err := write(0, j.Base.Tree, j.Base.Time, j.trees[0]); err != nil {
		return err
	}
	// The diff takes a process of its own.
	var diffErr error
	var diff sync.WaitGroup
	diff.Go(func() { diffErr = j.writeDiff(ctx, spool) })
	err := j.writeSources(ctx, spool)
	diff.Wait()
	if diffErr != nil {
		return diffErr
	}
	j.progress(receipts.ToolMaterialise, "", true)
	return err
}

func (j *job) writeDiff(ctx context.Context, spool *bundle.Spool) error {
	w, err := spool.Create()
	if err != nil {
		return err
	}
	defer w.Discard()
	if err := j.repo.Diff(ctx, j.Base.Tree, j.Head.Tree, w); err != nil {
		return err
	}
	j.diff.Name = verifier.FileDiff
	j.diff.Digest, j.diff.Size, err = w.Commit()
	return err
}

func (j *job) runsBase() bool { return j.Base.ID != "" && !j.o.HeadOnly }

func (j *job) patchDocument() ([]byte, error) {
	p := verifier.Patch{
		Repository: receipts.Bytes(j.repo.Name()),
		Base:       j.Base.ID, BaseTree: verifier.TreeIDOf(j.listings[0].listing.Tree),
		Head: j.Head.ID, Tree: verifier.TreeIDOf(j.listings[1].listing.Tree),
		Diff: j.diff.Digest,
	}
	return p.Document()
}

// recordTrees makes the receipts of what materialise did.
func (j *job) recordTrees(context.Context) error {
	for i, side := range [...]string{verifier.SideBase, verifier.SideHead} {
		m := &j.listings[i]
		tree := m.listing.SHA256
		call, err := j.rec.Begin(&receipts.Args{
			Tool: receipts.ToolMaterialise, Side: side, Argv: []receipts.Bytes{}, Dir: "/", Env: []receipts.Bytes{},
			Patch: j.patch, Tree: &tree,
		})
		if err != nil {
			return err
		}
		result := receipts.Result{
			State: receipts.StateExited, Start: m.start.UnixMilli(), End: m.end.UnixMilli(), Files: []receipts.File{m.file},
			Notes: []receipts.Note{
				{Name: "commit", Value: receipts.Bytes(commitName(i == 0, j.Selection))},
				{Name: "files", Value: receipts.Bytes(fmt.Sprint(m.listing.Tree.Entries))},
				{Name: "bytes", Value: receipts.Bytes(fmt.Sprint(m.listing.Bytes))},
				{Name: "gitlinks", Value: receipts.Bytes(fmt.Sprint(m.listing.Tree.Gitlinks))},
				{Name: "lfs_pointers", Value: receipts.Bytes(fmt.Sprint(len(m.listing.LFS)))},
			},
		}
		if side == verifier.SideHead {
			if j.Merge != "" {
				result.Notes = append(result.Notes, receipts.Note{Name: "merge", Value: receipts.Bytes(j.Merge)})
			}
			result.Files = append(result.Files, j.diff)
			if len(j.sources.Name) > 0 {
				result.Files = append(result.Files, j.sources)
			}
		} else {
			result.Notes = append(result.Notes, receipts.Note{Name: "base", Value: receipts.Bytes(j.Base.How)})
		}
		if err := call.End(&result); err != nil {
			return err
		}
	}
	return nil
}

func commitName(base bool, s *Selection) string {
	switch {
	case !base:
		return s.Head.ID
	case s.Base.ID == "":
		return "none: the empty tree"
	}
	return s.Base.ID
}

// recordPlan computes the plan and makes its receipt.
func (j *job) recordPlan(context.Context) error {
	doc, err := j.Config.Document()
	if err != nil {
		return err
	}
	j.config = receipts.Sum(doc)
	sides := verifier.Sides{EmptyBase: j.Base.ID == "", HeadOnly: j.o.HeadOnly, Level: j.o.Evidence, Program: j.o.Program}
	if err := j.readTexts(); err != nil {
		return err
	}
	var canary receipts.Digest
	rand.Read(canary[:])
	j.plan = verifier.NewPlan(j.patch, j.config, &j.Config, j.Source, j.texts, sides, canary)
	for _, n := range j.NotCovered {
		j.plan.NotCovered = append(j.plan.NotCovered, receipts.Bytes(n))
	}
	plan, err := receipts.Encode(&j.plan)
	if err != nil {
		return err
	}
	j.planned = receipts.Sum(plan)
	call, err := j.rec.Begin(&receipts.Args{
		Tool: receipts.ToolPlan, Argv: []receipts.Bytes{}, Dir: "/", Env: []receipts.Bytes{}, Patch: j.patch,
	})
	if err != nil {
		return err
	}
	result := receipts.Result{State: receipts.StateExited, Start: j.o.Now().UnixMilli()}
	for _, f := range []struct {
		name string
		doc  []byte
	}{{verifier.FileConfig, doc}, {verifier.FilePlan, plan}} {
		d, err := j.rec.Spool().Put(f.doc)
		if err != nil {
			return err
		}
		result.Files = append(result.Files, receipts.File{Name: receipts.Bytes(f.name), Digest: d, Size: int64(len(f.doc))})
	}
	result.End = j.o.Now().UnixMilli()
	return call.End(&result)
}

// recordReceipts records the receipts of other tools that the run was given, before
// anything of the patch runs. What they come to, verification says.
func (j *job) recordReceipts(context.Context) error {
	if len(j.Config.Receipts) == 0 {
		return nil
	}
	call, err := j.rec.Begin(&receipts.Args{
		Tool: receipts.ToolReceipt, Argv: []receipts.Bytes{}, Dir: "/", Env: []receipts.Bytes{}, Patch: j.patch,
	})
	if err != nil {
		return err
	}
	result := receipts.Result{State: receipts.StateExited, Start: j.o.Now().UnixMilli(), Files: []receipts.File{}}
	for i := range j.Config.Receipts {
		name := j.Config.Receipts[i].Name
		content, ok := j.o.Receipts[name]
		if !ok {
			continue
		}
		d, err := j.rec.Spool().Put(content)
		if err != nil {
			return err
		}
		result.Files = append(result.Files, receipts.File{Name: verifier.ReceiptFile(name), Digest: d, Size: int64(len(content))})
	}
	result.End = j.o.Now().UnixMilli()
	return call.End(&result)
}

// judge makes the evidence document.
func (j *job) judge(context.Context) error {
	j.progress(receipts.ToolJudge, "", false)
	call, err := j.rec.Begin(&receipts.Args{
		Tool: receipts.ToolJudge, Argv: []receipts.Bytes{}, Dir: "/", Env: []receipts.Bytes{}, Patch: j.patch,
	})
	if err != nil {
		return err
	}
	result := receipts.Result{State: receipts.StateExited, Start: j.o.Now().UnixMilli()}
	if _, err := j.judging.Finish(); err != nil {
		return err
	}
	f := receipts.File{Name: verifier.FileEvidence}
	if f.Digest, f.Size, err = j.evidence.Commit(); err != nil {
		return err
	}
	result.Files, result.End = []receipts.File{f}, j.o.Now().UnixMilli()
	j.progress(receipts.ToolJudge, "", true)
	return call.End(&result)
}

func (j *job) openBlob(d receipts.Digest) (io.ReadCloser, error) {
	r, _, err := j.rec.Spool().Open(d)
	return r, err
}

// seal ends the log and writes the bundle.
func (j *job) seal(outcome, why string) (Done, error) {
	j.progress("seal", "", false)
	path := j.o.Out
	if path == "" {
		path = filepath.Join(j.o.State, bundlesDir, bundleName(j.o.Now(), j.Head.ID, filepath.Base(j.dir)))
	}
	text, err := j.rec.Seal(path, bundle.Statement{
		Outcome: outcome, Why: why, Plan: j.planned, Config: j.config, Attempt: j.o.Attempt,
		Shard: j.o.Shard, Shards: j.o.Shards, Previous: j.o.Previous, Reproduces: j.o.Reproduces, Sign: j.o.Sign,
	}, nil)
	if err != nil {
		j.unsealed = true
		return Done{}, fmt.Errorf("seal: %w; what was recorded stays, and the next run seals it", err)
	}
	j.progress("seal", path, true)
	config, err := j.Config.Document()
	return Done{Bundle: path, Seal: text, Tested: cmp.Or(j.Merge, j.Head.ID), cleaning: j.cleaning, Expect: verifier.Options{
		Repository: j.Repository(), Base: j.Base.ID, NoBase: j.Base.ID == "", Head: j.Head.ID, Tree: j.Head.Tree, Config: config,
		PolicySource: "resolved by this run",
	}}, err
}

// clear removes what nothing needs after the last call.
func (j *job) clear() {
	os.RemoveAll(j.trees[0])
	os.RemoveAll(j.trees[1])
	for _, dir := range j.mixed {
		os.RemoveAll(dir)
	}
	if j.treeLock != nil {
		os.RemoveAll(j.parent)
	}
	j.Selection.Close()
}

// cleanUp removes what a run leaves once its bundle is written, or could not be
// begun. A run that was recorded and not sealed stays for [Recover].
func (j *job) cleanUp() {
	if j.evidence != nil {
		j.evidence.Discard()
	}
	if j.signer != nil {
		j.signer.Close()
	}
	if j.rec != nil {
		j.rec.Close()
	}
	j.clear()
	if j.treeLock != nil {
		j.treeLock.Close()
	}
	if j.lock != nil {
		if !j.unsealed {
			os.RemoveAll(j.dir)
		}
		j.lock.Close()
	}
}

func bundleName(now time.Time, head, run string) string {
	return fmt.Sprintf("%s-%s-%s.tar.zst", now.UTC().Format("20060102T150405Z"), short(head), run)
}

func short(id string) string {
	return id[:min(12, len(id))]
}
