package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/truegreen-dev/truegreen/verifier"
)

// A hand does something with the content of blobs, one after the other.
type hand interface {
	// blob reads all of body, the size bytes of the entry's blob.
	blob(e *verifier.TreeEntry, size int64, body io.Reader) (blobSum, error)
	close()
}

// crew has hands work on small blobs beside those who read them, whom it never
// lets get ahead by more than a few megabytes. Every reader and every worker
// has a hand of its own.
type crew struct {
	newHand func() hand
	blobs   []blob
	jobs    chan *load
	free    chan *load
	wg      sync.WaitGroup

	mu    sync.Mutex
	first int // the first blob so far that went wrong
	err   error
}

// blob is one that is to be read: for which entry and how large, and in the
// end what it hashed to.
type blob struct {
	entry *verifier.TreeEntry
	size  int64
	sum   blobSum
}

// load is the content of blobs that follow each other, so that a hand that
// writes them mostly stays in one folder.
type load struct {
	start   int // index of the first
	n       int
	content []byte
}

const (
	crewSize   = 2
	smallBlob  = 256 << 10 // the most that a load holds in bytes
	loadLength = 32        // and in blobs
)

func startCrew(blobs []blob, newHand func() hand) *crew {
	const loads = 6 * crewSize
	c := &crew{newHand: newHand, blobs: blobs, first: len(blobs), jobs: make(chan *load, loads), free: make(chan *load, loads)}
	for range loads {
		c.free <- new(load)
	}
	for range crewSize {
		c.wg.Go(c.work)
	}
	return c
}

func (c *crew) work() {
	h := c.newHand()
	defer h.close()
	for l := range c.jobs {
		rest := l.content
		for i := l.start; i < l.start+l.n && c.wanted(i); i++ {
			size := c.blobs[i].size
			c.do(h, i, bytes.NewReader(rest[:size]))
			rest = rest[size:]
		}
		l.n, l.content = 0, l.content[:0]
		c.free <- l
	}
}

func (c *crew) do(h hand, i int, body io.Reader) {
	b := &c.blobs[i]
	var err error
	if b.sum, err = h.blob(b.entry, b.size, body); err != nil {
		c.fail(i, err)
	}
}

// fail records that blob i went wrong. What comes before it goes on, so that
// the error in the end is that of the first in the order of the tree.
func (c *crew) fail(i int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i < c.first {
		c.first, c.err = i, err
	}
}

// wanted reports whether it still matters what becomes of blob i.
func (c *crew) wanted(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return i < c.first
}

// read gets the blobs from start to end with the given method and hands them
// over; large ones it does itself, streaming.
func (c *crew) read(ctx context.Context, start, end int, objects objectsFunc) {
	names := make([]string, end-start)
	for i := range names {
		names[i] = c.blobs[start+i].entry.ID
	}
	h := c.newHand()
	defer h.close()
	l := <-c.free
	next := start
	err := objects(ctx, names, func(i int, o object) error {
		next = start + i
		if !c.wanted(next) {
			return errUnwanted
		}
		b := &c.blobs[next]
		if o.kind != "blob" || o.size != b.size {
			return fmt.Errorf("path %q: blob %s has changed while it was read", b.entry.Path, b.entry.ID)
		}
		if l.n > 0 && (l.n == loadLength || int64(len(l.content))+o.size > smallBlob) {
			c.jobs <- l
			l = <-c.free
		}
		if o.size > smallBlob {
			c.do(h, next, o.body)
		} else if err := l.add(next, o); err != nil {
			return err
		}
		next++
		return nil
	})
	if err != nil {
		c.fail(next, err)
	}
	c.jobs <- l
}

// errUnwanted ends the reading of blobs behind one that went wrong. It is
// never the first error.
var errUnwanted = errors.New("not wanted any more")

// add appends a small blob. Its number follows that of the last.
func (l *load) add(i int, o object) error {
	if l.n == 0 {
		l.start = i
	}
	n := len(l.content)
	l.content = slices.Grow(l.content, int(o.size))[:n+int(o.size)]
	if _, err := io.ReadFull(o.body, l.content[n:]); err != nil {
		l.content = l.content[:n]
		return io.ErrUnexpectedEOF
	}
	l.n++
	return nil
}

// wait ends the crew when all was read. The error is that of the first blob
// that went wrong.
func (c *crew) wait() error {
	close(c.jobs)
	c.wg.Wait()
	return c.err
}
