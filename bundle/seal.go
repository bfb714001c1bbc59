package bundle

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/truegreen-dev/truegreen/receipts"
)

// SealFormat is the version that the seal's format line states.
const SealFormat = 1

// The outcomes of a run. They say how far it went, not what the tests said.
const (
	OutcomeCompleted = "completed" // every planned call was made
	OutcomeFailed    = "failed"    // a call that others need could not be made
	OutcomeKilled    = "killed"    // interrupted, or found after a crash
)

// The signature members that a seal can list.
const (
	memberMAC = "seal.mac"
	memberSig = "seal.sig"
)

// A Seal states what one run's log, and through it everything else in the
// bundle, must be. Its text is that of a C2SP checkpoint:
//
//	truegreen.dev/run/TASK/JOB        32 lower-case hex digits each
//	FRAMES                            frames in the log
//	ROOT                              base64, RFC 6962 root over the frames
//	format 1
//	patch DIGEST                      of the patch document
//	outcome completed|failed|killed
//	receipts N
//	head DIGEST                       chain hash of the last receipt, zeros if none
//	log DIGEST                        of the log member
//	plan DIGEST|none                  of the plan document
//	config DIGEST|none                of the configuration document
//	start TIME                        2006-01-02T15:04:05.000Z, of the first frame
//	end TIME                          of the last frame
//	attempt N                         1 or more
//	shard I/N                         where the run is one shard of N, 1 ≤ I ≤ N
//	previous DIGEST                   seal digest of the previous attempt, where known
//	reproduces DIGEST                 seal digest of the run that this one is a reproduction of
//	resealed yes                      where a later process closed the log, after a crash
//	seals MEMBER[ MEMBER]             seal.mac, seal.sig: exactly those in the bundle
//
// each line ends with LF; there is one text for each Seal.
type Seal struct {
	Task, Job      receipts.ID
	Frames         uint64
	Root           receipts.Digest
	Patch          receipts.Digest
	Outcome        string
	Receipts       uint64
	Head           receipts.Digest
	Log            receipts.Digest
	Plan           receipts.Digest // zero: none
	Config         receipts.Digest // zero: none
	Start, End     uint64          // milliseconds since the Unix epoch
	Attempt        int
	Shard, Shards  int             // zero: not sharded
	Previous       receipts.Digest // zero: not known
	Reproduces     receipts.Digest // zero: nothing
	Resealed       bool
	HasMAC, HasSig bool
}

const (
	originPrefix = "truegreen.dev/run/"
	sealTime     = "2006-01-02T15:04:05.000Z"
	maxShards    = 1 << 12
	maxAttempts  = 1 << 20
)

// A VersionError says that a seal, and so its bundle, is of another version
// than this code knows.
type VersionError struct{ Format string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("seal: format %s: this verifier knows format %d", e.Format, SealFormat)
}

var errSeal = errors.New("seal: malformed")

// Text returns the text of s, the bytes that every signature covers.
func (s *Seal) Text() ([]byte, error) {
	digest := func(d receipts.Digest) string {
		if d.IsZero() {
			return "none"
		}
		return d.String()
	}
	lines := []string{
		"format " + strconv.Itoa(SealFormat),
		"patch " + s.Patch.String(),
		"outcome " + s.Outcome,
		"receipts " + strconv.FormatUint(s.Receipts, 10),
		"head " + s.Head.String(),
		"log " + s.Log.String(),
		"plan " + digest(s.Plan),
		"config " + digest(s.Config),
		"start " + formatTime(s.Start),
		"end " + formatTime(s.End),
		"attempt " + strconv.Itoa(s.Attempt),
	}
	if s.Shards != 0 {
		lines = append(lines, fmt.Sprintf("shard %d/%d", s.Shard, s.Shards))
	}
	if !s.Previous.IsZero() {
		lines = append(lines, "previous "+s.Previous.String())
	}
	if !s.Reproduces.IsZero() {
		lines = append(lines, "reproduces "+s.Reproduces.String())
	}
	if s.Resealed {
		lines = append(lines, "resealed yes")
	}
	lines = append(lines, "seals "+strings.Join(s.members(), " "))
	if err := s.check(); err != nil {
		return nil, err
	}
	c := receipts.Checkpoint{Origin: s.Origin(), Size: s.Frames, Root: s.Root, Extensions: lines}
	return c.Append(nil)
}

// Origin returns the first line of the text.
func (s *Seal) Origin() string { return originPrefix + s.Task.String() + "/" + s.Job.String() }

func (s *Seal) members() []string {
	var list []string
	if s.HasMAC {
		list = append(list, memberMAC)
	}
	if s.HasSig {
		list = append(list, memberSig)
	}
	return list
}

func (s *Seal) check() error {
	switch {
	case s.Outcome != OutcomeCompleted && s.Outcome != OutcomeFailed && s.Outcome != OutcomeKilled:
		return fmt.Errorf("%w: outcome %q", errSeal, s.Outcome)
	case s.Attempt < 1 || s.Attempt > maxAttempts:
		return fmt.Errorf("%w: attempt %d", errSeal, s.Attempt)
	case s.Shards != 0 && (s.Shard < 1 || s.Shard > s.Shards || s.Shards > maxShards), s.Shards == 0 && s.Shard != 0:
		return fmt.Errorf("%w: shard %d/%d", errSeal, s.Shard, s.Shards)
	case s.Start > maxTime || s.End > maxTime || s.Start > s.End:
		return fmt.Errorf("%w: start and end", errSeal)
	case !s.HasMAC && !s.HasSig:
		return fmt.Errorf("%w: no signature", errSeal)
	case s.Frames == 0 || s.Patch.IsZero() || s.Log.IsZero():
		return fmt.Errorf("%w: nothing sealed", errSeal)
	}
	return nil
}

// maxTime is the last millisecond of the year 9999.
const maxTime = 253402300799999

func formatTime(ms uint64) string { return time.UnixMilli(int64(ms)).UTC().Format(sealTime) }

// ParseSeal reads the text of a seal. A text of another format is a
// [*VersionError] as soon as it is a checkpoint with truegreen's origin.
func ParseSeal(text []byte) (Seal, error) {
	c, err := receipts.ParseCheckpoint(text)
	if err != nil {
		return Seal{}, fmt.Errorf("seal: %w", err)
	}
	s := Seal{Frames: c.Size, Root: c.Root}
	ids, ok := strings.CutPrefix(c.Origin, originPrefix)
	task, job, both := strings.Cut(ids, "/")
	if !ok || !both {
		return Seal{}, fmt.Errorf("%w: origin", errSeal)
	}
	l := lines{rest: c.Extensions}
	if format := l.next("format"); format != strconv.Itoa(SealFormat) {
		if n, err := strconv.ParseUint(format, 10, 31); err == nil && n > SealFormat && strconv.FormatUint(n, 10) == format {
			return Seal{}, &VersionError{format}
		}
		return Seal{}, fmt.Errorf("%w: format", errSeal)
	}
	s.Task, s.Job = parsed(&l, task, receipts.ParseID), parsed(&l, job, receipts.ParseID)
	s.Patch = parsed(&l, l.next("patch"), receipts.ParseDigest)
	s.Outcome = l.next("outcome")
	s.Receipts = parsed(&l, l.next("receipts"), parseCount)
	s.Head = parsed(&l, l.next("head"), receipts.ParseDigest)
	s.Log = parsed(&l, l.next("log"), receipts.ParseDigest)
	s.Plan = parsed(&l, l.next("plan"), parseOptional)
	s.Config = parsed(&l, l.next("config"), parseOptional)
	s.Start = parsed(&l, l.next("start"), parseTime)
	s.End = parsed(&l, l.next("end"), parseTime)
	s.Attempt = int(parsed(&l, l.next("attempt"), parseCount) & (1<<31 - 1))
	if l.has("shard") {
		i, n, _ := strings.Cut(l.next("shard"), "/")
		s.Shard, s.Shards = int(parsed(&l, i, parseCount)&(1<<31-1)), int(parsed(&l, n, parseCount)&(1<<31-1))
	}
	if l.has("previous") {
		s.Previous = parsed(&l, l.next("previous"), receipts.ParseDigest)
	}
	if l.has("reproduces") {
		s.Reproduces = parsed(&l, l.next("reproduces"), receipts.ParseDigest)
	}
	s.Resealed = l.has("resealed") && l.next("resealed") != ""
	for _, m := range strings.Split(l.next("seals"), " ") {
		s.HasMAC, s.HasSig = s.HasMAC || m == memberMAC, s.HasSig || m == memberSig
	}
	if l.err != nil {
		return Seal{}, l.err
	}
	// Whatever was misread above, or not read at all, shows here: no two texts
	// stand for one seal.
	again, err := s.Text()
	if err != nil {
		return Seal{}, err
	}
	if string(again) != string(text) {
		return Seal{}, fmt.Errorf("%w: not in canonical form", errSeal)
	}
	return s, nil
}

// lines reads "key value" lines in order and keeps the first error.
type lines struct {
	rest []string
	err  error
}

func (l *lines) has(key string) bool {
	return len(l.rest) > 0 && strings.HasPrefix(l.rest[0], key+" ")
}

func (l *lines) next(key string) string {
	if !l.has(key) {
		if l.err == nil {
			l.err = fmt.Errorf("%w: no %s line where it belongs", errSeal, key)
		}
		return ""
	}
	value := l.rest[0][len(key)+1:]
	l.rest = l.rest[1:]
	return value
}

func parsed[T any](l *lines, text string, parse func(string) (T, error)) T {
	v, err := parse(text)
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("%w: %q", errSeal, text)
	}
	return v
}

func parseOptional(s string) (receipts.Digest, error) {
	if s == "none" {
		return receipts.Digest{}, nil
	}
	return receipts.ParseDigest(s)
}

func parseCount(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }

func parseTime(s string) (uint64, error) {
	t, err := time.Parse(sealTime, s)
	if err != nil || t.UnixMilli() < 0 {
		return 0, errSeal
	}
	return uint64(t.UnixMilli()), nil
}

// SealDigest returns SHA-256 of a seal's text, which names the run as a whole.
func SealDigest(text []byte) receipts.Digest { return receipts.Sum(text) }

// macLine returns the seal.mac member: 64 lower-case hex digits and LF.
func macLine(mac receipts.Digest) []byte { return append(hex.AppendEncode(nil, mac[:]), '\n') }

// ParseMAC reads the seal.mac member.
func ParseMAC(member []byte) (receipts.Digest, error) {
	text, ok := strings.CutSuffix(string(member), "\n")
	if !ok {
		return receipts.Digest{}, fmt.Errorf("seal.mac: no line end")
	}
	d, err := receipts.ParseDigest(text)
	if err != nil {
		return receipts.Digest{}, fmt.Errorf("seal.mac: %w", err)
	}
	return d, nil
}
