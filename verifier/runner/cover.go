package runner

import (
	"bytes"
	"io"
	"strings"

	"github.com/truegreen-dev/truegreen/guard"
	"github.com/truegreen-dev/truegreen/receipts"
)

// A coverer covers the secrets in what a call puts out, before anything of it is
// kept: bundles and comments are public, and what is covered only when it is shown is
// not covered in the bundle.
type coverer struct {
	*guard.Redactor
}

func newCoverer(w io.Writer) *coverer { return &coverer{guard.NewRedactor(w)} }

// end writes what was held back, and says what was covered, nil where nothing was.
func (c *coverer) end() (*receipts.Covered, error) {
	if err := c.Close(); err != nil {
		return nil, err
	}
	if c.Count() == 0 {
		return nil, nil
	}
	rules, err := receipts.ParseDigest(strings.TrimPrefix(c.Digest(), "sha256:"))
	if err != nil {
		return nil, err
	}
	found := c.Redactions()
	covered := &receipts.Covered{Rules: rules, Count: c.Count()}
	for _, r := range found[:min(len(found), receipts.MaxSpans)] {
		covered.Spans = append(covered.Spans, receipts.Span{At: r.Offset, Bytes: int64(r.Length), Rule: r.Rule})
	}
	return covered, nil
}

// coverLine returns a line with its secrets covered.
func coverLine(line []byte) []byte {
	var b bytes.Buffer
	c := newCoverer(&b)
	c.Write(line)
	if c.Close() != nil { // a buffer takes everything
		return nil
	}
	return b.Bytes()
}

// redacted counts the outputs of a call out of which a secret was taken, or in which
// one is covered. Of the streams, taken says the first.
func redacted(r *receipts.Result, taken [2]bool) int {
	n := 0
	for i, s := range [...]*receipts.Stream{&r.Stdout, &r.Stderr} {
		if taken[i] || s.Covered != nil {
			n++
		}
	}
	for i := range r.Files {
		if r.Files[i].Covered != nil {
			n++
		}
	}
	return n
}
