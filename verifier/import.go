package verifier

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
)

// An Import is a test call of an earlier run whose result stands for the run of
// an entry on the base. A call of the tool import makes it: the bundle of the
// earlier run is its file, and notes say which call of it is meant:
//
//	args    name: of the entry; side: "base"; tree: the base's
//	result  files  bundle   the earlier run's, without the bundles that it imports
//	        notes  seal     digest of the earlier run's seal
//	               call     number of the call in there
//
// The call is a run of the plain command, with nothing left out, that exited. It
// ran on the very tree that the base is now, of the same repository, by the same
// configuration, with the same go command and the same version of the program,
// and its args differ in nothing but what [RunKey] leaves out. Who is trusted to
// have made the bundle has to be trusted to have made the earlier one.
type Import struct {
	Call  TestCall        // of the earlier run
	Patch Patch           // that the earlier run is about
	Seal  receipts.Digest // of the earlier run
	Ended time.Time       // the earlier run
	Trust []Trust

	key    receipts.Digest // see RunKey
	canary receipts.Digest
	open   func(receipts.Digest) (io.ReadCloser, error)
}

// The file and the notes of a call of the tool import.
const (
	FileBundle     = "bundle"
	NoteImportSeal = "seal"
	NoteImportCall = "call"
)

// MaxImport is the largest size of all bundles together, in bytes, out of which one
// run takes results. A verifier holds them in memory.
const MaxImport = 32 << 20

var errImport = errors.New("import")

func importErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errImport, fmt.Errorf(format, args...))
}

// RunKey returns a digest of what the result of a plain test call follows from:
// repository, configuration, version of the program, go command, and the call's
// args, tree included. It leaves out the patch, side and round, the content of what
// is laid over the tree, the variables TRUEGREEN_RUN and SOURCE_DATE_EPOCH, and how
// long the command may take and what level it needs at least: that it exited, and
// at which level, is compared by itself. Two calls with one key run the same
// command on the same tree.
func RunKey(repository receipts.Bytes, plan *Plan, a *receipts.Args) (receipts.Digest, error) {
	plain := *a
	plain.V, plain.Side, plain.Round, plain.Patch, plain.Inputs = receipts.DocumentVersion, "", 0, receipts.Digest{}, nil
	for _, in := range a.Inputs {
		plain.Inputs = append(plain.Inputs, receipts.File{Name: in.Name})
	}
	plain.Env = []receipts.Bytes{}
	for _, kv := range a.Env {
		if name, _, _ := strings.Cut(string(kv), "="); name != RunVariable && name != "SOURCE_DATE_EPOCH" {
			plain.Env = append(plain.Env, kv)
		}
	}
	if a.Sandbox != nil {
		s := *a.Sandbox
		s.Wall, s.MinLevel, s.Mounts = 0, 0, []receipts.Bytes{}
		for _, m := range a.Sandbox.Mounts { // a run that is not made gets no inputs, so nothing is mounted for them
			if m := string(m); m != "read-only "+OverlayDir && m != "read-only "+TestsDir {
				s.Mounts = append(s.Mounts, receipts.Bytes(m))
			}
		}
		plain.Sandbox = &s
	}
	doc, err := receipts.Encode(&struct {
		V          int             `json:"v"`
		Repository receipts.Bytes  `json:"repository"`
		Config     receipts.Digest `json:"config"`
		Program    string          `json:"program"`
		Go         *GoFacts        `json:"go,omitempty"`
		Args       receipts.Args   `json:"args"`
	}{receipts.DocumentVersion, repository, plan.Config, plan.Program, plan.Go, plain})
	if err != nil {
		return receipts.Digest{}, err
	}
	return receipts.Sum(doc), nil
}

// Reusable says why what a call came to cannot stand for a later run of the same
// command on the same tree, "" where it can: it has to be the plain run of a go
// test whose go command is known, on a tree, without network or ports of the host,
// and to have exited, with all that it wrote kept.
func Reusable(plan *Plan, c *TestCall) string {
	a, r := &c.Args, &c.Result
	switch {
	case a.Tool != receipts.ToolTest || a.Purpose != "" || a.Round != 1 || a.Side != SideBase && a.Side != SideHead:
		return "it is not the plain run of an entry on base or head"
	case a.Format != FormatGo || plan.Go == nil:
		return "it is not a go test whose go command is known"
	case a.Tree == nil || a.Sandbox == nil || a.Sandbox.Network != NetworkNone || len(a.Sandbox.Connect) > 0:
		return "what it could reach is not the tree alone"
	case r.State == receipts.StateNotRun:
		return "it was not run itself: " + string(r.Why)
	case r.State != receipts.StateExited || r.Isolation == nil:
		return "it did not exit by itself"
	case r.Stdout.Kept != r.Stdout.Bytes || r.Stderr.Kept != r.Stderr.Bytes:
		return "not all that it wrote was kept"
	}
	return ""
}

// ReadImport reads the bundle of an earlier run and takes one call out of it. The
// bundle has to be sound, up to what its tests put out, which is read where it is
// needed, and to be about o.Repository; see [Import]. It need not be trusted: whoever
// verifies the run that the call is taken into sees to that. r is read as long as the
// Import is used.
func ReadImport(r io.ReaderAt, size int64, call uint64, o Options) (*Import, error) {
	earlier, err := readEarlier(r, size, o)
	if err != nil {
		return nil, err
	}
	return earlier.importOf(call)
}

// Key returns the [RunKey] of the call.
func (i *Import) Key() receipts.Digest { return i.key }

// readEarlier reads the bundle of an earlier run up to its calls. Its error is an
// errImport where the bundle is not sound.
func readEarlier(r io.ReaderAt, size int64, o Options) (*verification, error) {
	limits := o.Limits
	if limits.File == 0 || limits.File > MaxImport {
		limits.File = MaxImport
	}
	v := newVerification(Options{Keys: o.Keys, Signers: o.Signers, Revoked: o.Revoked, Repository: o.Repository, Now: o.Now, Limits: limits})
	v.imported = true
	err := v.all(r, size, v.readSeal, v.walk, v.matchSeal, v.join, v.signatures, v.order, v.readPatch, v.readTrees, v.readPlan, v.readCalls)
	if err != nil && !errors.Is(err, errStop) {
		return nil, err
	}
	if err := v.unsound(); err != nil {
		return nil, err
	}
	if err != nil || v.run == nil || v.seal.Outcome != bundle.OutcomeCompleted || v.run.Closing == nil {
		return nil, importErrorf("the earlier run did not come to its end")
	}
	return v, nil
}

// unsound returns an errImport for the first reason that is not a lack of trust.
func (v *verification) unsound() error {
	for _, reason := range v.reasons {
		if reason.Code != NoTrustedSeal {
			return importErrorf("the earlier run: %s", reason)
		}
	}
	return nil
}

// importOf returns what stands for a run of now, if that call can.
func (v *verification) importOf(number uint64) (*Import, error) {
	at := slices.IndexFunc(v.calls, func(c TestCall) bool { return c.Call == number })
	if at < 0 {
		return nil, importErrorf("call %d: the earlier run has no such test call", number)
	}
	c := &v.calls[at]
	if why := Reusable(&v.plan, c); why != "" {
		return nil, importErrorf("call %d: %s", number, why)
	}
	in := Judged{Patch: v.seal.Patch, Planned: v.seal.Plan, Plan: &v.plan, Config: v.config, Trees: v.trees, Open: v.blobs.open}
	planned := NewJudgement(io.Discard, in).Next()
	at = slices.IndexFunc(planned, func(p PlannedRun) bool { return p.Name == c.Args.Name && p.Side == c.Args.Side })
	if at < 0 {
		return nil, importErrorf("call %d: the earlier run did not plan it", number)
	}
	if err := v.matchCall(c, &planned[at]); err != nil {
		if broken := v.unsound(); broken != nil {
			return nil, broken
		}
		return nil, err
	}
	key, err := RunKey(v.patch.Repository, &v.plan, &c.Args)
	if err != nil {
		return nil, err
	}
	return &Import{
		Call: *c, Patch: v.patch, Seal: v.sealed, Ended: time.UnixMilli(int64(v.seal.End)), Trust: slices.Clone(v.trust),
		key: key, canary: v.plan.Canary, open: v.blobs.open,
	}, nil
}

// readImports opens the bundles that calls of the tool import took results out of.
func (v *verification) readImports() error {
	calls, err := v.completed(receipts.ToolImport)
	if err != nil {
		return err
	}
	earlier := map[receipts.Digest]*verification{}
	room := int64(MaxImport)
	for i := range calls {
		c := &calls[i]
		digest, ok := file(&c.Result, FileBundle)
		if !ok || !v.blobs.Has(digest) {
			return v.stop(ImportBroken, memberLog, "call %d: no bundle", c.Call)
		}
		member := blobMember(digest)
		broken := func(format string, args ...any) error {
			return v.stop(ImportBroken, member, "call %d: %s", c.Call, fmt.Sprintf(format, args...))
		}
		if v.imports[c.Args.Name] != nil {
			return broken("the base of %q is imported twice", c.Args.Name)
		}
		if earlier[digest] == nil {
			content, err := v.importedBundle(digest, &room)
			if errors.Is(err, errImport) {
				return broken("%v", err)
			}
			if err != nil {
				return v.refuse(err)
			}
			o := v.o
			o.Repository = string(v.patch.Repository)
			if earlier[digest], err = readEarlier(bytes.NewReader(content), int64(len(content)), o); errors.Is(err, errImport) {
				return broken("%v", err)
			} else if err != nil {
				return err
			}
		}
		seal, number := importNotes(&c.Result)
		if seal != earlier[digest].sealed {
			return broken("the earlier run has another seal than the call says")
		}
		got, err := earlier[digest].importOf(number)
		if errors.Is(err, errImport) {
			return broken("%v", err)
		}
		if err != nil {
			return err
		}
		if why := v.misfit(c, got); why != "" {
			return broken("%s", why)
		}
		if v.imports == nil {
			v.imports = map[string]*Import{}
		}
		v.imports[c.Args.Name] = got
		if len(v.trust) > 0 && !slices.ContainsFunc(got.Trust, func(t Trust) bool { return slices.Contains(v.trust, t) }) {
			v.because(NoTrustedSeal, member, "the run on the base is taken from an earlier run, and none of those that you trust to have sealed this one sealed that")
		}
	}
	return nil
}

// importedBundle returns the bytes of a bundle in the bundle.
func (v *verification) importedBundle(d receipts.Digest, room *int64) ([]byte, error) {
	size, ok := v.b.Size(d)
	if !ok {
		return nil, importErrorf("no bundle")
	}
	if size > *room {
		return nil, importErrorf("%d bytes: the limit is %d for all bundles of earlier runs together", size, int64(MaxImport))
	}
	*room -= size
	r, err := v.blobs.open(d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err = b.ReadFrom(r)
	return b.Bytes(), err
}

// importNotes returns what the notes of an import call say, zero where they do not.
func importNotes(r *receipts.Result) (seal receipts.Digest, call uint64) {
	for _, n := range r.Notes {
		switch n.Name {
		case NoteImportSeal:
			seal, _ = receipts.ParseDigest(string(n.Value))
		case NoteImportCall:
			call, _ = strconv.ParseUint(string(n.Value), 10, 64)
		}
	}
	return seal, call
}

// misfit says why an earlier call cannot stand for the one of now, as far as that
// does not take that one's args.
func (v *verification) misfit(c *TestCall, i *Import) string {
	tree := v.patch.BaseTree.SHA256
	switch {
	case c.Args.Side != SideBase || c.Args.Tree == nil || *c.Args.Tree != tree:
		return "it is not for the base of this patch"
	case i.Call.Args.Name != c.Args.Name:
		return fmt.Sprintf("the earlier call is of the entry %q, not of %q", i.Call.Args.Name, c.Args.Name)
	case *i.Call.Args.Tree != tree:
		return "the earlier call is of another tree than this base's"
	case !slices.ContainsFunc(v.plan.Runs, func(p PlannedRun) bool { return p.Name == c.Args.Name && p.Side == SideBase && p.Skip == "" }):
		return "the plan does not run this entry on the base"
	}
	return ""
}

// matchImport checks that the call which is not run, because an earlier one stands
// for it, would have been run in the same way.
func (v *verification) matchImport(c *TestCall) error {
	i := v.imports[c.Args.Name]
	key, err := RunKey(v.patch.Repository, &v.plan, &c.Args)
	if err != nil {
		return err
	}
	if key != i.key {
		return v.stop(ImportBroken, memberLog, "call %d: the earlier run had another configuration, go command, version of truegreen, command, environment or sandbox", c.Call)
	}
	return nil
}

// importsOf returns the blobs that import calls of a run made, and that no other
// call names.
func importsOf(run *receipts.Run) map[receipts.Digest]bool {
	made := map[receipts.Digest]bool{}
	each := func(imports bool, do func(receipts.Digest)) {
		for _, c := range run.Calls {
			if (c.Tool == receipts.ToolImport) != imports {
				continue
			}
			if !imports {
				do(c.Args)
			}
			if c.Receipt < 0 {
				continue
			}
			if !imports {
				do(run.Receipts[c.Receipt].Result)
			}
			for _, d := range run.Receipts[c.Receipt].Artifacts {
				do(d)
			}
		}
	}
	each(true, func(d receipts.Digest) { made[d] = true })
	each(false, func(d receipts.Digest) { delete(made, d) })
	for _, c := range run.Calls { // its own documents stay as well
		delete(made, c.Args)
		if c.Receipt >= 0 {
			delete(made, run.Receipts[c.Receipt].Result)
		}
	}
	delete(made, run.Opening.Patch)
	return made
}
