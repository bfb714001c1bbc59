package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// A judgment is a verification while it is made. What is found moves an answer to the
// worse only.
type judgment struct{ Verification }

// find says why an answer, which is one of j's, is not yes.
func (j *judgment) find(answer *Answer, is Answer, code, format string, args ...any) {
	*answer = max(*answer, is)
	j.Violations = append(j.Violations, Violation{Code: code, Detail: fmt.Sprintf(format, args...), Answer: is})
}

// at puts the place in a chain to what is found from the given one on.
func (j *judgment) at(seq int64, from int) {
	for i := range j.Violations[from:] {
		j.Violations[from+i].Seq = &seq
	}
}

// askFor makes an answer yes until something is found.
func askFor(answer *Answer) { *answer = max(*answer, Yes) }

// sound reports whether a caller named the key of every signature, and nothing is wrong.
func (j *judgment) sound() bool {
	return j.Signature == Yes && j.Trust == Yes && j.Worst() != No
}

// A statement is what a receipt says of its call, as far as its format has room for it.
type statement struct {
	tool, target, said string
	allowed            bool
	args               []string // hashes of the arguments: all must be the caller's
	targets            []string // where it is about several: one must be the caller's
	issuer, id         string
	issued, expires    time.Time
}

// say puts a statement into j and answers what it is about.
func (j *judgment) say(s *statement, b Binding) {
	j.Issuer, j.Tool, j.Target, j.Said, j.Issued, j.Expires = s.issuer, s.tool, s.target, s.said, s.issued, s.expires
	if b.asked() {
		askFor(&j.Binding)
	}
	if b.Tool != "" {
		switch s.tool {
		case b.Tool:
		case "":
			j.find(&j.Binding, No, "no-tool", "the receipt names no tool, want %.80q", b.Tool)
		default:
			j.find(&j.Binding, No, "tool-mismatch", "%.80q, want %.80q", s.tool, b.Tool)
		}
	}
	if b.ArgHash != "" {
		if len(s.args) == 0 {
			j.find(&j.Binding, No, "no-arg-hash", "the receipt has no hash of the arguments")
		}
		for _, hash := range s.args {
			if hash != b.ArgHash {
				j.find(&j.Binding, No, "arg-hash-mismatch", "%.80q, want %.80q", hash, b.ArgHash)
			}
		}
	}
	if b.Target != "" {
		targets := s.targets
		if s.target != "" {
			targets = append([]string{s.target}, targets...)
		}
		found := false
		for _, target := range targets {
			found = found || target == b.Target
		}
		switch {
		case found:
			j.Target = b.Target
		case len(targets) == 0:
			j.find(&j.Binding, No, "no-target", "the receipt names no target, want %.80q", b.Target)
		default:
			j.find(&j.Binding, No, "target-mismatch", "%.80q, want %.80q", targets[0], b.Target)
		}
	}
	if b.Allowed {
		askFor(&j.Decision)
		if !s.allowed {
			j.find(&j.Decision, No, "not-allowed", "the receipt says %.80q", s.said)
		}
	}
}

// fresh answers for the time of what s says, and remembers it if all else is sound: an id
// that someone else made up must not use up the true one.
func (j *judgment) fresh(ctx context.Context, s *statement, r *Rules) error {
	now, skew := r.now(), r.skew()
	if r.MaxAge > 0 || r.Seen != nil || !s.expires.IsZero() {
		askFor(&j.Freshness)
	}
	if s.issued.After(now.Add(skew)) {
		j.find(&j.Freshness, No, "from-the-future", "issued %s, it is %s", stamp(s.issued), stamp(now))
	}
	if !s.expires.IsZero() && !now.Add(-skew).Before(s.expires) {
		j.find(&j.Freshness, No, "expired", "expired %s, it is %s", stamp(s.expires), stamp(now))
	}
	until := s.expires
	if r.MaxAge > 0 {
		if s.issued.IsZero() {
			j.find(&j.Freshness, No, "no-time", "the receipt says no time, and its age is limited")
		} else {
			old := s.issued.Add(r.MaxAge + skew)
			if old.Before(now) {
				j.find(&j.Freshness, No, "too-old", "issued %s, it is %s", stamp(s.issued), stamp(now))
			}
			if until.IsZero() || old.Before(until) {
				until = old
			}
		}
	}
	if r.Seen == nil {
		return nil
	}
	switch {
	case s.id == "":
		j.find(&j.Freshness, No, "no-id", "the receipt has no id by which a second use would show")
	case !j.sound():
		j.find(&j.Freshness, Unproven, "not-remembered", "it counts for nothing, so that it is not looked up")
	default:
		if !until.IsZero() {
			until = until.Add(skew)
		}
		isNew, err := r.Seen.Add(ctx, s.issuer, s.id, until)
		if err != nil {
			return err
		}
		if !isNew {
			j.find(&j.Freshness, No, "replayed", "%.80q was seen before", s.id)
		}
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

var errTime = errors.New("no time as RFC 3339 has it")

// parseTime reads a time as RFC 3339 has it, and nothing that Go takes beside that.
func parseTime(text string) (t time.Time, err error) {
	if len(text) > len("2006-01-02T15:04:05.999999999+00:00") || strings.ContainsRune(text, ',') || t.UnmarshalText([]byte(text)) != nil {
		return time.Time{}, errTime
	}
	return t, nil
}

// readLimited reads r to its end, at most limit bytes of it.
func readLimited(ctx context.Context, r io.Reader, limit int64) (data []byte, whole bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, false, err
	}
	return data, int64(len(data)) <= limit, nil
}
