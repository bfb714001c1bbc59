package forge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// outputs are the names that a step of ours may set. A later step believes what it
// finds under them, so nothing else is ever written.
var outputs = map[string]bool{
	"verdict": true, "reasons": true, "tests-passed": true, "tests-failed": true, "tests-skipped": true,
	"bundle-path": true, "bundle-sha256": true, "sidecar-path": true, "seal": true, "tested": true,
	"comment-url": true, "reported": true,
}

// maxOutput bounds one value. All of a job's outputs share a mebibyte.
const maxOutput = 64 << 10

// WriteOutput adds an output of the step to the file that GITHUB_OUTPUT names,
// which w appends to. The delimiter is 128 random bits: with one that is known, a
// value could end itself and start another output. A value that has it in it, all
// the same, is refused.
func WriteOutput(w io.Writer, random io.Reader, name, value string) error {
	if !outputs[name] {
		return fmt.Errorf("output %s: not one of ours", quote(name))
	}
	switch {
	case len(value) > maxOutput:
		return fmt.Errorf("output %s: %d bytes, and the limit is %d", name, len(value), maxOutput)
	case !utf8.ValidString(value) || strings.ContainsAny(value, "\x00\r"):
		return fmt.Errorf("output %s: not plain text", name)
	}
	token, err := randomHex(random)
	if err != nil {
		return err
	}
	delimiter := "truegreen_" + token
	if strings.Contains(value, delimiter) {
		return fmt.Errorf("output %s: has the delimiter in it", name)
	}
	// One write, so that a step that is killed leaves all of it or nothing.
	_, err = fmt.Fprintf(w, "%s<<%s\n%s\n%s\n", name, delimiter, value, delimiter)
	return err
}

// summarySize is what a step may write to its summary, which the platform drops as
// a whole beyond 1,024 KiB, or at it.
const summarySize = 1_000_000

// SummaryBudget returns how many bytes may be added to a summary of that size.
func SummaryBudget(size int64) int {
	return int(max(summarySize-max(size, 0), 0))
}

// ErrSummary says that a summary has no room for what should be added.
var ErrSummary = errors.New("the summary has no room for it")

// AppendSummary adds text to the file that GITHUB_STEP_SUMMARY names, which has
// size bytes and which w appends to. More than the budget is refused, because it
// would cost all that is there.
func AppendSummary(w io.Writer, size int64, text string) error {
	if size > 0 {
		text = "\n" + text // what is there may end without one
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if len(text) > SummaryBudget(size) {
		return fmt.Errorf("%w: %d bytes, and the budget is %d", ErrSummary, len(text), SummaryBudget(size))
	}
	_, err := io.WriteString(w, text)
	return err
}

// StopCommands starts a part of the job's log in which the platform obeys no
// commands, until Close: what tested code prints would be obeyed otherwise. The
// token that ends the part is random, so what is printed cannot end it.
func StopCommands(w io.Writer, random io.Reader) (io.WriteCloser, error) {
	token, err := randomHex(random)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(w, "::stop-commands::%s\n", token); err != nil {
		return nil, err
	}
	return &stopped{w: w, token: token, fresh: true}, nil
}

type stopped struct {
	w      io.Writer
	token  string
	fresh  bool // at the start of a line
	closed bool
}

func (s *stopped) Write(p []byte) (int, error) {
	if s.closed {
		return 0, errors.New("log: written after its end")
	}
	n, err := s.w.Write(p)
	if n > 0 {
		s.fresh = bytes.HasSuffix(p[:n], []byte("\n"))
	}
	return n, err
}

func (s *stopped) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	line := "::" + s.token + "::\n"
	if !s.fresh {
		line = "\n" + line
	}
	_, err := io.WriteString(s.w, line)
	return err
}

// Mask tells the platform to show a secret nowhere in the job's log. A secret of
// several lines is masked line by line, because that is how the log is written.
func Mask(w io.Writer, secret string) error {
	for line := range strings.Lines(secret) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue // would mask everything
		}
		if _, err := fmt.Fprintf(w, "::add-mask::%s\n", strings.NewReplacer("%", "%25", "\r", "%0D").Replace(line)); err != nil {
			return err
		}
	}
	return nil
}
