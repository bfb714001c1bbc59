package verifier

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/truegreen-dev/truegreen/bundle"
	"github.com/truegreen-dev/truegreen/receipts"
)

// Options are what a caller of [Verify] trusts, expects and allows. Nothing of
// it may come from the bundle.
type Options struct {
	Keys     []KeyAnchor     // receipt keys
	Signers  *bundle.Signers // allowed_signers; nil: none
	Revoked  *bundle.Revoked // nil: none
	Sidecars []Sidecar
	OIDC     *OIDCAnchor // nil: no token is trusted
	// Unattested: the patch could change the workflow that made the run. Then no
	// signature counts, whoever made it.
	Unattested bool

	Sealed receipts.Digest // seal digest that the bundle must have; zero: any

	// What the bundle must be about; "" is not compared.
	Repository, Base, Head, Tree string
	NoBase                       bool // the base must be the empty tree
	// Config is the configuration document that the caller resolved at the
	// base; nil: what is sealed is not compared. PolicySource names it.
	Config       []byte
	Detected     bool // Config names no tests: whoever ran them detected the commands
	PolicySource string
	AllowCommand bool // commands that do not come from the base may be verified
	MinLevel     int  // least isolation of every test, beside the configuration's own
	// About, if not nil, is asked once what the bundle must be about, when its patch
	// document was read: which base is right can depend on which patch it is. It may
	// change what is compared, above. Its error ends the verification.
	About func(Patch, *Options) error

	MaxAge time.Duration // of the run's end, with Now; 0: any
	Now    time.Time     // also the time at which SSH keys must be valid

	// Quick believes the sealed evidence document instead of reading all that
	// the tests put out again. The report says so.
	Quick  bool
	Limits bundle.Limits
}

// Verify reads the bundle in r and reports on it. The error says that r could
// not be read or a sidecar or key not be used, in which case there is no report;
// whatever the bundle itself is, a report says it.
func Verify(r io.ReaderAt, size int64, o Options) (Report, error) {
	v := newVerification(o)
	if v.policy == "" {
		v.policy = map[bool]string{true: "as sealed, not compared", false: "compared with the caller's"}[o.Config == nil]
	}
	file := medium{r: r}
	err := v.all(&file, size, v.readSeal, v.walk, v.matchSeal, v.join, v.signatures, v.order, v.readPatch, v.readTrees, v.readPlan, v.readCalls, v.readUpstream, v.readImports, v.readEvidence)
	if err == nil {
		v.conclude()
	}
	if errors.Is(err, errStop) {
		err = nil
	}
	if file.err != nil { // nothing that was made of it says anything about the bundle
		err = file.err
	}
	if err != nil {
		return Report{}, err
	}
	slices.SortStableFunc(v.reasons, func(a, b Reason) int { return cmp.Compare(rank(a), rank(b)) })
	return Report{v.report}, nil
}

// A medium is what a bundle is read from. It remembers that it failed, since that
// can happen anywhere in a verification: what was read once is read again.
type medium struct {
	r   io.ReaderAt
	err error // the first, but for io.EOF
}

// ReadAt implements [io.ReaderAt].
func (m *medium) ReadAt(p []byte, off int64) (int, error) {
	n, err := m.r.ReadAt(p, off)
	if err != nil && err != io.EOF && m.err == nil {
		m.err = fmt.Errorf("read at byte %d: %w", off, err)
	}
	return n, err
}

func rank(r Reason) int {
	c, _ := CauseOf(r.Code)
	return -map[Verdict]int{Failed: 1, Unproven: 2, Broken: 3}[c.Verdict]
}

// A verification fills a report in one pass from the seal to the verdict.
type verification struct {
	*report
	o      Options
	b      *bundle.Reader
	text   []byte // of the seal
	blobs  *blobStore
	config *Config
	sides  [2][]TreeEntry

	sources receipts.Digest // zero: there are none
	trees   *Trees
	calls   []TestCall // of the tool test
	imports map[string]*Import

	imported bool // this is an earlier run: the bundles that it imports need not be there
}

// errStop ends a verification whose reasons say all that can be said.
var errStop = errors.New("stop")

func (v *verification) because(code Code, member, format string, args ...any) {
	v.reasons = append(v.reasons, Reason{code, member, fmt.Sprintf(format, args...)})
}

// stop records the reason that ends the verification.
func (v *verification) stop(code Code, member, format string, args ...any) error {
	v.because(code, member, format, args...)
	return errStop
}

func newVerification(o Options) *verification {
	return &verification{o: o, report: &report{
		policy: o.PolicySource, quick: o.Quick, findings: newFindings(),
		args: map[uint64]*receipts.Args{}, results: map[uint64]*receipts.Result{},
	}}
}

// all opens a bundle and goes through the steps, up to the first that ends it.
func (v *verification) all(r io.ReaderAt, size int64, steps ...func() error) error {
	b, err := bundle.Open(r, size, v.o.Limits)
	var newer *bundle.VersionError
	if errors.As(err, &newer) {
		return v.stop(NewerVersion, memberSeal, "%v", err)
	}
	if err != nil {
		return v.refuse(err)
	}
	v.b = b
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// conclude says whether the facts may be shown, and what else they say.
func (v *verification) conclude() {
	for _, reason := range v.reasons {
		if c, _ := CauseOf(reason.Code); c.Verdict == Broken {
			return
		}
	}
	v.sound = true
	v.judge()
}

// refuse turns what the bundle package says into a reason. Trouble with the
// medium stays an error.
func (v *verification) refuse(err error) error {
	var e *bundle.Error
	if !errors.As(err, &e) {
		return err
	}
	return v.stop(Code(e.Code), e.Member, "%v", e.Err)
}

const (
	memberSeal = "seal"
	memberMAC  = "seal.mac"
	memberSig  = "seal.sig"
	memberLog  = "log"
)

func blobMember(d receipts.Digest) string { return "blobs/sha256/" + d.String() }

func (v *verification) readSeal() error {
	v.text = v.b.Seal()
	seal, err := bundle.ParseSeal(v.text)
	if err != nil {
		return v.stop(MalformedSeal, memberSeal, "%v", err)
	}
	if (v.b.MAC() != nil) != seal.HasMAC {
		return v.stop(SealMembers, memberMAC, "listed %t, there %t", seal.HasMAC, v.b.MAC() != nil)
	}
	if (v.b.Sig() != nil) != seal.HasSig {
		return v.stop(SealMembers, memberSig, "listed %t, there %t", seal.HasSig, v.b.Sig() != nil)
	}
	v.seal, v.sealed = seal, bundle.SealDigest(v.text)
	if want := v.o.Sealed; !want.IsZero() && v.sealed != want {
		v.because(WrongBundle, memberSeal, "its digest is %s, not %s", v.sealed, want)
	}
	return nil
}

// walk reads every member once: the log into a run, documents into memory.
func (v *verification) walk() error {
	var names map[receipts.Digest]bool
	err := v.b.Walk(func(e bundle.Entry, body io.Reader) error {
		switch {
		case e.Name == memberLog:
			run, err := receipts.ReadRun(body, v.key)
			if err != nil {
				return v.refuseLog(err)
			}
			v.run = run
			names = bundle.Named(run)
			v.blobs = newBlobStore(v.b, run)
			if v.imported {
				v.blobs.absent = importsOf(run)
			}
		case !e.Digest.IsZero():
			if !names[e.Digest] {
				return v.stop(BlobUnnamed, e.Name, "no receipt names it")
			}
			delete(names, e.Digest)
			return v.blobs.keep(e, body)
		}
		return nil
	})
	if err != nil {
		if errors.Is(err, errStop) {
			return err
		}
		return v.refuse(err)
	}
	missing := make([]receipts.Digest, 0, len(names))
	for d := range names {
		if !v.blobs.absent[d] {
			missing = append(missing, d)
		}
	}
	slices.SortFunc(missing, func(a, b receipts.Digest) int { return slices.Compare(a[:], b[:]) })
	if len(missing) > 0 {
		return v.stop(BlobMissing, blobMember(missing[0]), "%d blobs that the log names are missing", len(missing))
	}
	return nil
}

func (v *verification) refuseLog(err error) error {
	var (
		log     *receipts.LogError
		run     *receipts.RunError
		receipt *receipts.ReceiptError
	)
	switch {
	case errors.As(err, &receipt):
		return v.stop(ReceiptsBroken, memberLog, "%v", err)
	case errors.As(err, &log), errors.As(err, &run):
		return v.stop(LogBroken, memberLog, "%v", err)
	}
	return err
}

func (v *verification) matchSeal() error {
	run, s := v.run, &v.seal
	differ := func(what string) error {
		return v.stop(SealMismatch, memberLog, "%s: the log has another one than the seal", what)
	}
	switch {
	case run.Task != s.Task:
		return differ("task")
	case run.Job != s.Job:
		return differ("job")
	case run.Frames != s.Frames:
		return differ("number of frames")
	case run.Root != s.Root:
		return differ("root")
	case run.Log != s.Log:
		return differ("digest")
	case uint64(len(run.Receipts)) != s.Receipts:
		return differ("number of receipts")
	case run.Opening.Patch != s.Patch:
		return differ("patch")
	case run.Began != s.Start || run.Ended != s.End:
		return differ("time")
	}
	if n := len(run.Receipts); n > 0 && run.Receipts[n-1].ChainHash() != s.Head || n == 0 && !s.Head.IsZero() {
		return differ("head of the receipts")
	}
	if run.Closing == nil {
		v.because(NoEnd, memberLog, "%d frames and no end", run.Frames)
		return nil
	}
	want := map[string]receipts.Kind{
		bundle.OutcomeCompleted: receipts.TaskCompleted, bundle.OutcomeFailed: receipts.TaskFailed, bundle.OutcomeKilled: receipts.TaskKilled,
	}[s.Outcome]
	if run.Outcome != want {
		return differ("outcome")
	}
	if run.Closing.Resealed && !s.Resealed {
		return differ("reseal mark")
	}
	why := string(run.Closing.Why)
	switch s.Outcome {
	case bundle.OutcomeKilled:
		v.because(Interrupted, "", "%s", cmp.Or(why, "the run ended before its last call"))
	case bundle.OutcomeFailed:
		v.because(RunFailed, "", "%s", cmp.Or(why, "a call that others need could not be made"))
	}
	return nil
}

func (v *verification) join() error {
	err := v.run.JoinEach(v.blobs, func(i int, args *receipts.Args, result *receipts.Result) {
		call, _ := v.run.Receipts[i].Call.Uint64() // counts the run's calls
		v.args[call], v.results[call] = args, result
	})
	var broken *receipts.JoinError
	if errors.As(err, &broken) {
		member := memberLog
		if i := broken.Index; broken.Reason != receipts.FrameWithoutProof && i < uint64(len(v.run.Receipts)) {
			switch r := &v.run.Receipts[i]; broken.Reason {
			case receipts.ArgsMissing, receipts.ArgsMismatch:
				member = blobMember(r.Args)
			case receipts.ResultMissing, receipts.ResultMismatch:
				member = blobMember(r.Result)
			}
		}
		return v.stop(JoinBroken, member, "%v", err)
	}
	return err
}

// judge adds the reasons that are not contradictions.
func (v *verification) judge() {
	switch {
	case v.o.AllowCommand:
	case v.plan.Source == SourceCommand:
		v.because(PlanByHand, "", "the command was given by hand")
	case v.plan.Source == SourceHead:
		v.because(PlanByHand, "", "the base is the empty tree: the commands are the patch's own")
	}
	v.age("the run", time.UnixMilli(int64(v.seal.End)))
	v.isolation()
	v.judgeImports()
	v.judgeUpstream()
	if v.seal.Outcome == bundle.OutcomeCompleted || len(v.findings.Runs) > 0 {
		v.reasons = append(v.reasons, v.findings.judge(v.args, v.results)...)
	}
}

func (v *verification) age(what string, ended time.Time) {
	if age := v.o.Now.Sub(ended); v.o.MaxAge > 0 && (age > v.o.MaxAge || age < -5*time.Minute) {
		v.because(Stale, "", "%s ended %s ago; at most %s is allowed", what, age.Round(time.Second), v.o.MaxAge)
	}
}

// judgeImports holds what is taken from earlier runs to what is asked of this one.
func (v *verification) judgeImports() {
	for _, r := range v.findings.Runs {
		if r.Imported == nil {
			continue
		}
		v.age("the earlier run that the base of "+r.Name+" is taken from", r.Imported.Ended)
		if level, least := r.Imported.Call.Result.Isolation.Level, v.leastLevel(); level < least {
			v.because(LowIsolation, "", "call %d: level %d in the earlier run, at least %d is asked for", r.Call, level, least)
		}
	}
}

func (v *verification) leastLevel() int {
	if v.config == nil {
		return v.o.MinLevel
	}
	return max(v.o.MinLevel, v.config.Isolation.Level)
}

func (v *verification) isolation() {
	least := v.leastLevel()
	for _, c := range v.run.Calls {
		args, result := v.args[c.Start.Call], v.results[c.Start.Call]
		if args == nil || result == nil || args.Tool != receipts.ToolTest || result.State == receipts.StateNotRun {
			continue
		}
		if result.Isolation == nil {
			if result.State != receipts.StateFailed {
				v.because(LowIsolation, "", "call %d: none was measured", c.Start.Call)
			}
			continue
		}
		level := result.Isolation.Level
		if result.Isolation.Network == NetworkHost {
			level = min(level, maxLevelHost)
		}
		if level < least {
			v.because(LowIsolation, "", "call %d: level %d, at least %d is asked for", c.Start.Call, level, least)
		}
	}
}
