package forge

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/truegreen-dev/truegreen/internal/lazy"
)

// A Mark is the first line of a comment: what the comment is about, for the job
// that will update it. Its text is
//
//	<!-- truegreen v1 key=default head=<commit> run=<id> attempt=<n> verdict=verified passed=214 failed=0 nonce=<32 hex digits> -->
//
// with each member once, in this order, numbers in plain decimal. Anybody can write
// such a line, so it counts only in a comment of the token's own, and only as the
// first line: what a report quotes is never there.
type Mark struct {
	Key            string // tells the comments of one pull request apart: a-z 0-9 . _ - /
	Head           string // commit
	Run            int64
	Attempt        int
	Verdict        string // verified, failed, unproven, broken; none: there was none
	Passed, Failed int
	Nonce          string // of the request that made the comment
}

const markPrefix = "<!-- truegreen v1 key="

var (
	markKey  = lazy.Regexp(`^[a-z0-9](?:[a-z0-9._/]|-[a-z0-9._/]){0,62}$`)
	markLine = lazy.Regexp(`^<!-- truegreen v1 key=(\S+) head=(\S+) run=(\d+) attempt=(\d+) verdict=(\S+) passed=(\d+) failed=(\d+) nonce=([0-9a-f]{32}) -->$`)
)

func (m Mark) String() string {
	return fmt.Sprintf("%s%s head=%s run=%d attempt=%d verdict=%s passed=%d failed=%d nonce=%s -->",
		markPrefix, m.Key, m.Head, m.Run, m.Attempt, m.Verdict, m.Passed, m.Failed, m.Nonce)
}

// ParseMark reads the mark of a comment from its first line.
func ParseMark(body string) (Mark, error) {
	line, _, _ := strings.Cut(body, "\n")
	if !strings.HasPrefix(line, markPrefix) {
		return Mark{}, errors.New("mark: not the start of the comment")
	}
	f := markLine().FindStringSubmatch(line)
	if f == nil {
		return Mark{}, errors.New("mark: malformed")
	}
	m := Mark{Key: f[1], Head: f[2], Verdict: f[5], Nonce: f[8]}
	n := make([]int64, 4)
	for i, s := range []string{f[3], f[4], f[6], f[7]} {
		var err error
		if n[i], err = strconv.ParseInt(s, 10, 64); err != nil {
			return Mark{}, fmt.Errorf("mark: %w", err)
		}
	}
	m.Run = n[0]
	m.Attempt, m.Passed, m.Failed = int(n[1]), int(n[2]), int(n[3])
	if err := m.check(); err != nil {
		return Mark{}, err
	}
	if m.String() != line {
		return Mark{}, errors.New("mark: not in canonical form")
	}
	return m, nil
}

func (m Mark) check() error {
	switch {
	case !markKey().MatchString(m.Key):
		return fmt.Errorf("mark: key %s", quote(m.Key))
	case !isCommit(m.Head):
		return fmt.Errorf("mark: head %s", quote(m.Head))
	case m.Run <= 0 || m.Run > maxInteger:
		return fmt.Errorf("mark: run %d", m.Run)
	case m.Attempt <= 0 || m.Attempt > 1<<30 || m.Passed < 0 || m.Passed > 1<<30 || m.Failed < 0 || m.Failed > 1<<30:
		return fmt.Errorf("mark: attempt %d, passed %d, failed %d", m.Attempt, m.Passed, m.Failed)
	case !nonce().MatchString(m.Nonce):
		return fmt.Errorf("mark: nonce %s", quote(m.Nonce))
	}
	switch m.Verdict {
	case "verified", "failed", "unproven", "broken", "none":
		return nil
	}
	return fmt.Errorf("mark: verdict %s", quote(m.Verdict))
}

var nonce = lazy.Regexp(`^[0-9a-f]{32}$`)

// after reports whether m is from a later run, or a later attempt, than n. A run
// that is repeated keeps its number, so it stays older than the runs after it.
func (m Mark) after(n Mark) bool {
	return m.Run > n.Run || m.Run == n.Run && m.Attempt > n.Attempt
}

// same reports whether two marks say the same to people.
func (m Mark) same(n Mark) bool {
	return m.Verdict == n.Verdict && m.Passed == n.Passed && m.Failed == n.Failed
}
