package runner

import (
	"bytes"
	"io"
	"slices"
	"sync"

	"github.com/truegreen-dev/truegreen/verifier"
)

// blobFunc does something with the bytes of an entry, size of them.
type blobFunc func(e verifier.TreeEntry, size int64, body io.Reader) (blobSum, error)

// crew runs a blobFunc on small blobs beside the reader, which it never lets
// get ahead by more than a few megabytes.
type crew struct {
	do   blobFunc
	jobs chan blobJob
	free chan []byte // buffers
	wg   sync.WaitGroup

	mu   sync.Mutex
	done map[string]blobSum
	err  error
}

type blobJob struct {
	e       verifier.TreeEntry
	content []byte
}

const (
	crewSize  = 2
	smallBlob = 256 << 10
)

func startCrew(do blobFunc) *crew {
	c := &crew{do: do, jobs: make(chan blobJob, 4*crewSize), free: make(chan []byte, 6*crewSize), done: make(map[string]blobSum)}
	for range cap(c.free) {
		c.free <- nil
	}
	for range crewSize {
		c.wg.Go(func() {
			for job := range c.jobs {
				sum, err := c.do(job.e, int64(len(job.content)), bytes.NewReader(job.content))
				c.report(job.e, sum, err)
				c.free <- job.content[:0]
			}
		})
	}
	return c
}

// take hands over one blob; large ones are done at once, streaming. It
// returns the first error that any worker had.
func (c *crew) take(e verifier.TreeEntry, o object) error {
	if o.size > smallBlob {
		sum, err := c.do(e, o.size, o.body)
		return c.report(e, sum, err)
	}
	b := slices.Grow(<-c.free, int(o.size))[:o.size]
	if _, err := io.ReadFull(o.body, b); err != nil {
		return io.ErrUnexpectedEOF
	}
	c.jobs <- blobJob{e, b}
	return c.report(e, blobSum{}, nil)
}

// report records what became of a blob, if anything yet, and returns the
// first error so far.
func (c *crew) report(e verifier.TreeEntry, sum blobSum, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && c.err == nil {
		c.err = err
	}
	if sum != (blobSum{}) {
		c.done[e.ID] = sum
	}
	return c.err
}

func (c *crew) wait() (map[string]blobSum, error) {
	close(c.jobs)
	c.wg.Wait()
	return c.done, c.err
}
