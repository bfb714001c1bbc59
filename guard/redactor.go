package guard

import (
	"errors"
	"io"
	"slices"
)

// MaxRedactions is how many redactions a [Redactor] lists; others are counted.
const MaxRedactions = 1024

// A Redaction is where a secret was.
type Redaction struct {
	Offset int64  `json:"offset"` // of its first byte in the stream
	Length int    `json:"length"`
	Rule   string `json:"rule"`
}

// A Redactor writes what is written to it, with an asterisk in the place of each byte of
// each secret. See the package's description for what it finds. It holds bytes back, a
// few kilobytes, until [Redactor.Close].
type Redactor struct {
	w    io.Writer
	scan secretScan
	err  error

	buf     []byte      // of the stream, from base on, as it was
	base    int64       // offset of buf in the stream
	next    int         // in buf: where no secret was looked for yet
	out     int         // in buf: what was not written yet
	pending []Redaction // those that were found and not written, in order

	list  []Redaction
	count int64
}

// NewRedactor returns a redactor that writes to w.
func NewRedactor(w io.Writer) *Redactor { return &Redactor{w: w} }

var errClosed = errors.New("redactor: closed")

// Write takes p. Its count is of bytes taken, which may be written later.
func (r *Redactor) Write(p []byte) (int, error) {
	taken := 0
	for len(p) > 0 && r.err == nil {
		n := min(len(p), 64<<10)
		r.buf = append(r.buf, p[:n]...)
		p = p[n:]
		if to := len(r.buf) - ahead; to > r.next {
			r.advance(to)
			r.flush(r.next - behind)
		}
		if r.err == nil {
			taken += n
		}
	}
	return taken, r.err
}

// Close writes what is held back. It does not close the writer below.
func (r *Redactor) Close() error {
	if r.err != nil {
		if r.err == errClosed {
			return nil
		}
		return r.err
	}
	r.advance(len(r.buf))
	r.flush(len(r.buf))
	if r.err == nil {
		r.err = errClosed
		return nil
	}
	return r.err
}

// Digest returns a digest of the table of secrets that are looked for.
func (r *Redactor) Digest() string { return compiled().secrets }

// Count returns how many secrets were found.
func (r *Redactor) Count() int64 { return r.count }

// Redactions returns where the first [MaxRedactions] of them were.
func (r *Redactor) Redactions() []Redaction { return slices.Clone(r.list) }

// advance looks for secrets up to a place in the buffer.
func (r *Redactor) advance(to int) {
	r.scan.scan(r.buf, r.next, to, func(i, start, end int) {
		x := Redaction{r.base + int64(start), end - start, compiled().secret(i).name}
		r.pending = append(r.pending, x)
		if r.count++; len(r.list) < MaxRedactions {
			r.list = append(r.list, x)
		}
	})
	r.next = to
}

// flush writes the buffer up to a place, redacted, and forgets what no search needs.
func (r *Redactor) flush(to int) {
	if to > r.out {
		text := slices.Clone(r.buf[r.out:to])
		for i, x := range r.pending {
			start, end := int(x.Offset-r.base)-r.out, int(x.Offset-r.base)+x.Length-r.out
			for j := max(start, 0); j < min(end, len(text)); j++ {
				text[j] = '*'
			}
			if end > len(text) {
				r.pending = r.pending[i:]
				break
			}
			if i == len(r.pending)-1 {
				r.pending = r.pending[:0]
			}
		}
		n, err := r.w.Write(text)
		if err == nil && n < len(text) {
			err = io.ErrShortWrite
		}
		r.err = err
		r.out = to
	}
	if cut := min(r.out, r.next-behind); cut > 64<<10 {
		r.buf = append(r.buf[:0], r.buf[cut:]...)
		r.base += int64(cut)
		r.next -= cut
		r.out -= cut
		r.scan.last -= cut
	}
}
